"""Doors are one-way: `training -> judges -> agents -> vlm_envs`, and so are those between the parts of each room."""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from docs.house import FOLDERS, ROOMS, folder_of

CHECKOUT = Path(__file__).parents[2]

NOT_PRODUCT = {"tests", "examples", "docs"}
"""Nothing may import these."""

NOT_IN_ROOM: dict[str, set[str]] = {
    "vlm_envs": {"torch", "transformers", "scipy", "matplotlib", "rich", "jinja2"},
    "judges": {"torch", "transformers"},
}
"""Other distributions a room must do without."""

WITH_AN_EXTRA = ("vlm_envs/records/", "vlm_envs/statistics/")
"""Folders of a room that may have more, for whoever installs their extra; none may have torch."""

NOT_AT_IMPORT = (
    *("torch", "transformers", "scipy", "matplotlib", "jinja2", "tyro", "PIL", "multiprocessing.pool"),
    *("pydantic", "pypdfium2", "bm25s", "pysbd", "vlm_envs.tools"),
)
"""What `import vlm_envs` must not load, because it would make the import slow."""


NAMED_ABOVE = {
    "vlm_envs/worlds/svg/svg_scorers.py": {"agents"},  # in a message, for those who have the checkout
}
"""Files that name modules of rooms above theirs, and why they may."""

_MODULE = re.compile(rf"({'|'.join(ROOMS)})\.[\w.]*(?::[\w.]*)?")


@functools.cache
def tree_of(source: str) -> ast.Module:
    return ast.parse(source)


@functools.cache
def imported_modules(source: str) -> tuple[str, ...]:
    """Returns every import in a source text, those inside functions included; of `from a import b`, `a.b`.

    Imports are absolute throughout; one that is relative is returned as it is written, `.a.b`, and forbidden.
    """
    return tuple(_imported_modules(source))


def _imported_modules(source: str) -> Iterator[str]:
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
            "import_module",
            "__import__",
        ):
            for argument in (*node.args[:1], *(each.value for each in node.keywords if each.arg == "name")):
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def named_rooms(source: str) -> set[str]:
    """Returns the rooms of all texts such as `"agents.oracle"`, `"agents.oracle:OracleAgent"` and `"agents."`."""
    texts = (node.value for node in ast.walk(tree_of(source)) if isinstance(node, ast.Constant))
    return {found[1] for text in texts if isinstance(text, str) and (found := _MODULE.fullmatch(text))}


def imported_packages(source: str) -> set[str]:
    """Returns the first part of every import."""
    return {name.partition(".")[0] for name in imported_modules(source)}


def forbidden_imports(room: str, source: str, *, has_extra: bool = False) -> set[str]:
    """Returns the packages a file of a room imports although it must not."""
    above = set(list(ROOMS)[list(ROOMS).index(room) + 1 :])
    others = {"torch", "transformers"} if has_extra else NOT_IN_ROOM.get(room, set())
    return (imported_packages(source) & (above | NOT_PRODUCT | others | {""})) | (named_rooms(source) & above)


def sources_of(room: str) -> list[Path]:
    return sorted((CHECKOUT / room).rglob("*.py"))


@functools.cache
def imports_within(room: str) -> dict[str, set[str]]:
    """Returns which modules of its own room each module of a room imports."""
    texts = {
        ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__"): path.read_text("utf-8")
        for path in sources_of(room)
    }
    return {
        name: {found for each in imported_modules(text) if (found := _module(each, texts)) and found != name}
        for name, text in texts.items()
    }


def _module(imported: str, modules: Mapping[str, str]) -> str | None:
    """Returns the module an import is of: itself, or the one it takes a name from."""
    return next((name for name in (imported, imported.rpartition(".")[0]) if name in modules), None)


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_only_through_their_doors(room):
    sources = sources_of(room)
    assert sources, f"there is no room {room}"
    broken = {
        name: found
        for path in sources
        if (
            found := forbidden_imports(
                room,
                path.read_text(encoding="utf-8"),
                has_extra=(name := path.relative_to(CHECKOUT).as_posix()).startswith(WITH_AN_EXTRA),
            )
        )
    }
    assert broken == {name: rooms for name, rooms in NAMED_ABOVE.items() if name.startswith(f"{room}/")}


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_of_a_room_imports_in_a_circle(room):
    try:
        tuple(TopologicalSorter(imports_within(room)).static_order())
    except CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("room", FOLDERS)
def test_every_folder_of_a_room_imports_only_those_before_it(room):
    order = FOLDERS[room]
    assert set(order) == {path.name for path in (CHECKOUT / room).iterdir() if any(path.rglob("*.py"))}
    upwards = {
        f"{name} -> {each}"
        for name, imported in imports_within(room).items()
        for each in imported
        if (here := folder_of(name).split(".")[1:2]) and (there := folder_of(each).split(".")[1:2])
        if here[0] in order and there[0] in order and order.index(here[0]) < order.index(there[0])
    }
    assert upwards == set()


@pytest.mark.parametrize("room", ROOMS)
def test_every_folder_of_a_room_is_a_package(room):
    assert {path.parent for path in sources_of(room)} == {
        path.parent for path in (CHECKOUT / room).rglob("__init__.py")
    }


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("room", ROOMS)
def test_what_lies_beside_each_other_in_a_folder_makes_no_circle(room, depth):
    graph: dict[str, set[str]] = {}
    for name, imported in imports_within(room).items():
        *folder, _ = place = folder_of(name).split(".")[:depth]
        beside = (folder_of(each).split(".")[:depth] for each in imported)
        found = {".".join(each) for each in beside if each[:-1] == folder and each != place and len(each) == depth}
        graph.setdefault(".".join(place), set()).update(found)
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize(
    ("room", "source", "expected"),
    [
        ("vlm_envs", "import torch.nn as nn", {"torch"}),
        ("vlm_envs", "def lazy():\n    from agents.oracle import OracleAgent", {"agents"}),
        ("vlm_envs", "import importlib\nimportlib.import_module('training.loop')", {"training"}),
        ("agents", "from judges import ExactJudge", {"judges"}),
        ("agents", "from vlm_envs import make\nimport torch", set()),
        ("judges", "import agents", set()),
        ("agents", "from importlib import import_module\nimport_module('judges')", {"judges"}),
        ("agents", "from ..judges import exact", {""}),
        ("agents", "import judges", {"judges"}),
        ("agents", "from importlib import import_module\nimport_module(name='judges')", {"judges"}),
        ("agents", "from importlib import import_module\nNAME = 'judges.exact'\nimport_module(NAME)", {"judges"}),
        ("vlm_envs", "import pkgutil\npkgutil.resolve_name('training.batch:Batch')", {"training"}),
        ("judges", "import_module(f'training.{name}')", {"training"}),
        ("judges", "'agents.oracle:OracleAgent'; 'training. Or not.'", set()),
        ("judges", "from torch import Tensor", {"torch"}),
        ("training", "import agents, judges, vlm_envs, torch", set()),
        ("training", "from benchmarks import speed", {"benchmarks"}),
        ("benchmarks", "from tests.conftest import settings", {"tests"}),
    ],
)
def test_the_layering_test_sees_what_it_should(room, source, expected):
    assert forbidden_imports(room, source) == expected


def test_importing_vlm_envs_loads_nothing_heavy():
    program = f"import sys, vlm_envs; print([name for name in {NOT_AT_IMPORT!r} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, timeout=280, check=True
    )
    assert result.stdout.strip() == "[]"


def test_worlds_are_not_imported_before_they_are_made():
    program = (
        "import sys, vlm_envs\n"
        "print(any(name.startswith('vlm_envs.worlds') for name in sys.modules))\n"
        "vlm_envs.make('VLM/FrozenLake-v0')\n"
        "for name in ('frozen_lake', 'sokoban'):\n"
        "    print(f'vlm_envs.worlds.{name}' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, timeout=280, check=True
    )
    assert result.stdout.split() == ["False", "True", "False"]
