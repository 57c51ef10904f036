"""The doors between the rooms are one-way: training -> {agents, judges} -> vlm_envs; benchmarks -> all."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

MAY_IMPORT: dict[str, set[str]] = {
    "vlm_envs": set(),
    "agents": {"vlm_envs"},
    "judges": {"vlm_envs"},
    "training": {"vlm_envs", "agents", "judges"},
    "benchmarks": {"vlm_envs", "agents", "judges", "training"},
}
"""Each room and the other rooms it may import."""

NOT_PRODUCT = {"tests", "examples", "docs"}
"""Nothing may import these."""

NOT_IN_ROOM: dict[str, set[str]] = {
    "vlm_envs": {"torch", "transformers", "scipy", "matplotlib", "tyro", "rich", "jinja2"},
    "judges": {"torch", "transformers"},
}
"""Other distributions a room must do without."""

NEEDS_TORCH: set[str] = set()
"""Folders that exist for models, and are imported by nothing but a user's own setting."""

NOT_AT_IMPORT = (
    *("torch", "transformers", "scipy", "matplotlib", "PIL", "tkinter", "multiprocessing.pool"),
    *("pydantic", "pypdfium2", "bm25s", "pysbd", "vlm_envs.tools"),
)
"""What `import vlm_envs` must not load, because it would make the import slow."""


def imported_packages(source: str) -> set[str]:
    """Returns the first part of every absolute import in a source text, those inside functions included."""
    packages: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            packages.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "importlib.import_module",
            "__import__",
        ):
            packages |= {
                argument.value.partition(".")[0]
                for argument in node.args[:1]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            }
    return packages


def forbidden_imports(room: str, source: str) -> set[str]:
    """Returns the packages a file of a room imports although it must not."""
    other_rooms = (set(MAY_IMPORT) - {room} - MAY_IMPORT[room]) | NOT_PRODUCT
    return imported_packages(source) & (other_rooms | NOT_IN_ROOM.get(room, set()))


def sources_of(room: str) -> list[Path]:
    return sorted((CHECKOUT / room).rglob("*.py"))


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_import_only_through_their_doors(room):
    sources = sources_of(room)
    assert sources, f"there is no room {room}"
    broken = {
        str(path.relative_to(CHECKOUT)): sorted(forbidden)
        for path in sources
        if str(path.parent.relative_to(CHECKOUT)) not in NEEDS_TORCH
        and (forbidden := forbidden_imports(room, path.read_text(encoding="utf-8")))
    }
    assert not broken


@pytest.mark.parametrize(
    ("room", "source", "expected"),
    [
        ("vlm_envs", "import torch.nn as nn", {"torch"}),
        ("vlm_envs", "def lazy():\n    from agents.oracle import OracleAgent", {"agents"}),
        ("vlm_envs", "import importlib\nimportlib.import_module('training.loop')", {"training"}),
        ("agents", "from judges import ExactJudge", {"judges"}),
        ("agents", "from vlm_envs import make\nimport torch", set()),
        ("judges", "import agents", {"agents"}),
        ("judges", "from torch import Tensor", {"torch"}),
        ("training", "import agents, judges, vlm_envs, torch", set()),
        ("training", "from benchmarks import speed", {"benchmarks"}),
        ("benchmarks", "from tests.conftest import settings", {"tests"}),
        ("agents", "from .training import policy", set()),
    ],
)
def test_the_layering_test_sees_what_it_should(room, source, expected):
    assert forbidden_imports(room, source) == expected


def test_importing_vlm_envs_loads_nothing_heavy():
    program = f"import sys, vlm_envs; print([name for name in {NOT_AT_IMPORT!r} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, timeout=60, check=True
    )
    assert result.stdout.strip() == "[]"


def test_worlds_are_not_imported_before_they_are_made():
    program = (
        "import sys, vlm_envs\n"
        "print(any(name.startswith('vlm_envs.worlds') for name in sys.modules))\n"
        "vlm_envs.make('VLM/FrozenLake-v0')\n"
        "for name in ('frozen_lake', 'sokoban'):\n"
        "    print(f'vlm_envs.worlds.{name}.world' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, timeout=60, check=True
    )
    assert result.stdout.split() == ["False", "True", "False"]
