"""What documents name exists: tests, modules, fields of configurations."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
DOCUMENTS = tuple(
    f"docs/{name}.md"
    for name in ("judges", "rewards", "training", "training-details", "fine-tuning", "pools", "stages")
)


def text_of(document: str) -> str:
    return (CHECKOUT / document).read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_named_test_exists(document):
    named = re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`", text_of(document))
    assert named
    missing = []
    for path, name in named:
        body = ast.parse((CHECKOUT / path).read_text(encoding="utf-8")).body
        for part in name.split("::"):
            found = [node for node in body if getattr(node, "name", None) == part]
            body = getattr(found[0], "body", []) if found else []
            if not found:
                missing.append(f"{path}::{name}")
                break
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_named_file_exists(document):
    named = re.findall(r"`((?:vlm_envs|agents|judges|training|benchmarks)/[\w/]+\.py)`", text_of(document))
    assert named
    assert [path for path in named if not (CHECKOUT / path).is_file()] == []


def test_every_named_option_is_a_field_of_the_configuration():
    pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
    from training.algorithms.shipped import SHIPPED
    from training.config import run as config

    groups = {
        "judge": config.JudgeConfig,
        "ppo": config.PPOConfig,
        "sampling": config.SamplingConfig,
        "eval_sampling": config.EvalSamplingConfig,
        "cold_start": config.ColdStartConfig,
    }
    text = "".join(map(text_of, DOCUMENTS))
    named = re.findall(rf"`({'|'.join(groups)})\.(\w+)", text)
    assert named
    assert [
        f"{group}.{name}" for group, name in named if name not in {field.name for field in fields(groups[group])}
    ] == []
    settings = {field.name for kind in SHIPPED.values() for field in fields(kind)}
    assert set(re.findall(r"`algorithm\.(\w+)", text)) <= settings


@pytest.mark.parametrize("document", ["docs/judges.md", "docs/training.md", "docs/pools.md", "docs/stages.md"])
def test_python_in_documents_runs(document, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", text_of(document), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, document, "exec"), {"__name__": "document"})
