"""What a newcomer has after `pip install .`: the base package and none of its extras."""

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import vlm_envs
from vlm_envs.cli.named_worlds import describe
from vlm_envs.registration import NEEDS, VARIANTS, WORLDS

CHECKOUT = Path(__file__).parents[3]

PLAIN = """
import importlib.machinery, runpy, sys

ALLOWED = {*sys.stdlib_module_names, "vlm_envs", "cloudpickle", "docstring_parser", "farama_notifications", "gymnasium",
           "numpy", "PIL", "typeguard", "typing_extensions", "tyro"}

class Plain(importlib.machinery.PathFinder):
    '''Finds what a plain installation brings, and nothing else that happens to be installed here.'''

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return super().find_spec(name, path, target) if name.partition(".")[0] in ALLOWED else None

sys.meta_path = [Plain if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path
                 if "editable" not in type(finder).__name__.lower()]
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = "vlm_envs"
runpy.run_module("vlm_envs", run_name="__main__")
"""


def run_plain(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a process that sees the base package's own requirements only."""
    command = [sys.executable, "-c", PLAIN, str(CHECKOUT), *arguments]
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}  # lines as long as they are
    return subprocess.run(command, capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL, env=environ)


def test_the_base_package_requires_nothing_else():
    """Of these the process above lets in what they need themselves: cloudpickle, farama_notifications, ..."""
    pyproject = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {re.split(r"[<>=]", each)[0] for each in pyproject["project"]["dependencies"]} == {
        "gymnasium",
        "numpy",
        "pillow",
        "tyro",
    }


def test_list_shows_every_world_and_what_is_missing_for_it():
    result = run_plain("list")
    assert result.returncode == 0, result.stderr
    table, _, footer = result.stdout.partition("\n\n")
    rows = {line.split()[0]: line for line in table.splitlines()}
    assert list(rows) == vlm_envs.env_ids()
    assert " installed" in rows["VLM/Sokoban-v0"] and "not installed" not in rows["VLM/Sokoban-v0"]
    for env_id, extra in (
        ("VLM/Navigation-v0", "[navigation]"),
        ("VLM/PrimitiveSkillAlign-v0", "[manipulation]"),
        ("VLM/SVG-v0", "[svg]"),
        ("VLM/ZoomQA-v0", "[tools]"),
        ("VLM/RewardJudging-v0", "[tools]"),
    ):
        assert extra in rows[env_id] and "not installed" in rows[env_id]
        assert f"pip install -e '.{extra}'" in footer
    assert "ZoomQA: answer a question" in rows["VLM/ZoomQA-v0"], "a description needs no import of the world"


def test_every_id_is_described_in_words_of_its_own():
    summaries = {env_id: describe(env_id) for env_id in vlm_envs.env_ids()}
    assert len(set(summaries.values())) == len(summaries)
    for env_id, variant in VARIANTS.items():
        assert all(repr(value) in summaries[env_id] for value in variant.kwargs.values())
    for base_id, default in (("VLM/PrimitiveSkill-v0", "`place`"), ("VLM/ZoomQA-v0", "`arm`")):
        assert default in summaries[base_id], "the id without a suffix says which setting it is"


@pytest.mark.parametrize("command", ["play", "check"])
@pytest.mark.sample(1)
def test_a_world_that_cannot_run_is_refused_once_with_the_remedy(command):
    for env_id, package in (("VLM/ZoomQA-v0", "tools"), ("VLM/Navigation-v0", "navigation")):
        result = run_plain(command, env_id)
        assert result.returncode == 2
        assert result.stderr.count(f"pip install -e '.[{package}]'") == 1
        assert "Traceback" not in result.stderr
        assert "breaks" not in result.stdout, "the machine lacks something, not the world"


def test_gallery_shows_the_worlds_that_can_run(tmp_path):
    result = run_plain("gallery", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "frozenlake-v0.png",
        "sokoban-v0.png",
        "index.html",
        "worlds.png",
    }


def test_needed_packages_are_those_of_the_extra():
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    distributions = metadata.packages_distributions()
    for need in NEEDS.values():
        names = {re.split(r"[<>=\[]", each)[0].lower().replace("_", "-") for each in extras[need.extra]}
        for package in need.packages:
            if package not in distributions:
                pytest.skip(f"{package} is not installed here")
            assert {each.lower().replace("_", "-") for each in distributions[package]} & names, package


def test_needs_are_of_worlds_that_exist():
    assert set(NEEDS) <= set(WORLDS)
    assert {env_id for env_id in WORLDS if env_id not in NEEDS} == {"VLM/Sokoban-v0", "VLM/FrozenLake-v0"}
