"""What documents name exists: tests, modules, fields of configurations."""

import ast
import csv
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from tests.docs.blocks import LANGUAGES, MARKS, blocks_of, user_pages

CHECKOUT = Path(__file__).parents[2]
DOCUMENTS = tuple(f"docs/{name}.md" for name in ("judges", "rewards", "training"))
PROMISES = "tests/promises.csv"

PAGES = ("README.md", *sorted(path.relative_to(CHECKOUT).as_posix() for path in CHECKOUT.glob("docs/**/*.md")))
HAND_WRITTEN = [page for page in PAGES if page.count("/") == 1]
RESEARCH = [page for page in PAGES if page.startswith("docs/research/")]
PRINTED = "docs/research/ablations.md"
"""Whose text `python -m benchmarks experiment ablations --table` prints."""

COMMAND = re.compile(r"^ *python -m training (.+)$|`python -m training ([^`]+)`", re.MULTILINE)


def text_of(document: str) -> str:
    return (CHECKOUT / document).read_text(encoding="utf-8")


def test_every_test_that_holds_a_promise_exists():
    """A row without a promise has one in the name of its test."""
    rows = list(csv.DictReader(text_of(PROMISES).splitlines()))
    assert len(rows) > 600
    assert [row["test"] for row in rows if not row["promise"] and "::" not in row["test"]] == []
    missing = []
    bodies: dict[str, list[ast.stmt]] = {}
    for path, *names in (row["test"].split("::") for row in rows):
        if not (CHECKOUT / path).exists():
            missing.append(path)
            continue
        if not names:
            continue
        if path not in bodies:
            bodies[path] = ast.parse((CHECKOUT / path).read_text(encoding="utf-8")).body
        body = bodies[path]
        for name in names:
            found = [node for node in body if getattr(node, "name", None) == name]
            body = getattr(found[0], "body", []) if found else []
            if not found:
                missing.append("::".join((path, *names)))
                break
    assert missing == []


def test_user_pages_name_no_tests():
    """CONTRIBUTING.md and docs/research are for developers."""
    pages = [page for page in PAGES if not page.startswith("docs/research/")]
    assert [page for page in pages if re.search(r"\btests/|Held by", text_of(page))] == []
    assert PROMISES in text_of("CONTRIBUTING.md")


def words_of(pages: list[Path]) -> int:
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def test_pages_are_few_and_short():
    """Those that are written by hand; docs/reference, docs/worlds, and docs/api are generated."""
    pages = sorted((CHECKOUT / "docs").glob("*.md"))
    assert len(pages) <= 16
    assert words_of(pages) <= 18_000
    assert words_of(sorted((CHECKOUT / "docs" / "research").glob("*.md"))) <= 12_000


@pytest.mark.parametrize("page", [page for page in (*HAND_WRITTEN, *RESEARCH) if page != PRINTED])
def test_lines_fit_a_diff(page):
    """Tables, images, addresses, and what programs print or read may be longer."""
    text = re.sub(r"^```(?:text|json)\n.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in text.split("\n") if not line.startswith(("|", "![")) and "://" not in line]
    assert [line for line in lines if len(line) > 110] == []


def test_every_code_block_says_whether_it_is_run():
    """`make docs-test` runs them; CONTRIBUTING.md lists the marks."""
    blocks = [block for page in user_pages() for block in blocks_of(page) if block.language in LANGUAGES]
    assert {block.mark for block in blocks} >= {"run", "dry", "example"}
    assert [f"{block.page}:{block.line}" for block in blocks if block.mark not in MARKS] == []


def test_a_mark_stands_in_the_last_line_before_its_block(tmp_path):
    page = tmp_path / "page.md"
    before = [
        "<!-- run -->",
        "*Not run here: it takes two GPUs.*\n",
        "`examples/rloo.py`:\n",
        "<!-- run -->\n\nText.\n",
    ]
    page.write_text("\n".join(f"{text}\n```bash\nmake\n```\n" for text in before), encoding="utf-8")
    assert [block.mark for block in blocks_of(str(page))] == ["run", "not run here", "example", ""]


def test_of_a_console_only_the_commands_are_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- run -->\n```console\n$ make help\n  make train\n$ ls\n```\n", encoding="utf-8")
    (block,) = blocks_of(str(page))
    assert (block.language, block.text, block.mark) == ("bash", "make help\nls", "run")


def test_pages_install_from_the_checkout():
    assert [page for page in user_pages() if re.search(r"pip\s+install\s[^`\n]*vlm-envs", text_of(page))] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_named_file_exists(document):
    named = re.findall(r"`((?:vlm_envs|agents|judges|training|benchmarks)/[\w/]+\.py)`", text_of(document))
    assert named
    assert [path for path in named if not (CHECKOUT / path).is_file()] == []


def test_every_named_option_is_a_field_of_the_configuration():
    pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
    from training.algorithms.shipped import SHIPPED
    from training.config import run_config as config

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


def test_settings_of_shipped_recipes_can_be_given_as_documents_do(capsys):
    pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
    from training.recipes.shipped import RECIPES, STAGED_PRESETS, STAGED_RECIPES
    from training.run_options import configured, find_recipe
    from training.stages.stages_config import StagesConfig
    from training.stages.stages_options import stage_options
    from vlm_envs.errors import ConfigError

    shipped = {*RECIPES, *STAGED_RECIPES, *STAGED_PRESETS}
    # With a setting of a group, and nothing that the shell or the reader fills in
    telling = re.compile(r"(?!.*(?:--help|--resume|[$…])).* --[\w-]+\.")
    said = {
        " ".join((line or quoted).partition(" #")[0].split())
        for document in PAGES
        for line, quoted in COMMAND.findall(re.sub(r"\\\n", " ", text_of(document)))
    }
    refused, num_read = [], 0
    for command in sorted(said):
        makes_cold_start = command.startswith("cold_start ")
        words = shlex.split(command.removeprefix("cold_start "))
        if not telling.match(command) or words[0].partition(":")[0] not in shipped:
            continue
        num_read += 1
        try:
            recipe, rest = find_recipe(words)
            made = recipe.made()
            if isinstance(made, StagesConfig):
                stage_options(recipe, made, rest)
            else:
                configured(recipe, rest, makes_cold_start=makes_cold_start)
        except (ConfigError, SystemExit) as error:
            refused.append(f"{command}: {error}{capsys.readouterr().err}")
    assert num_read > 15
    assert refused == []


@pytest.mark.parametrize("document", ["docs/judges.md", "docs/rewards.md", "docs/training.md"])
def test_python_in_documents_runs(document, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(CHECKOUT / "examples"))
    blocks = [block for block in blocks_of(document) if (block.language, block.mark) == ("python", "run")]
    assert blocks
    for block in blocks:
        exec(compile(block.text, document, "exec"), {"__name__": "document"})
