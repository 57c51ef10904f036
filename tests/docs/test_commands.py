"""Commands and programs of pages do what the pages say: `make docs-test`.

A block marked `run` runs, in the order of its page and in a folder of links to the checkout; one marked `dry` is
taken as far as its arguments are understood.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from tests.docs.blocks import Block, blocks_of, inline_commands, user_pages
from tests.docs.dry import RefusedCommandError, check_command, check_inline, check_program
from tests.docs.shell import Command, commands_of, link_checkout, run_script

BLOCK_TIMEOUT_S = 240

BLOCKS = [block for page in user_pages() for block in blocks_of(page)]
CHECKED = [block for block in BLOCKS if block.mark in ("run", "dry")]


def name_of(block: Block) -> str:
    return f"{block.page}:{block.line}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    link_checkout(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    """Forgets the worlds that a page adapts, whose names other pages may give to others."""
    yield
    for env_id in [env_id for env_id in gym.registry if env_id.startswith("Adapted/")]:
        del gym.registry[env_id]


def write_files(page: str, folder: Path) -> None:
    """Writes the files that a page has its reader write."""
    for block in blocks_of(page):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")


@pytest.mark.parametrize("block", [block for block in CHECKED if block.language == "bash"], ids=name_of)
def test_the_arguments_of_commands_are_understood(block, folder):
    write_files(block.page, folder)
    before = [each.text for each in blocks_of(block.page) if each.language == "bash" and each.line < block.line]
    exported = [line for text in before for line in text.splitlines() if line.startswith("export ")]
    for command in commands_of("\n".join([*exported, block.text]), folder):
        check_command(command)


@pytest.mark.parametrize("page", [page for page in user_pages() if inline_commands(page)])
def test_commands_in_sentences_are_understood(page, folder):
    write_files(page, folder)
    refused = []
    for text in inline_commands(page):
        try:
            check_inline(text, folder)
        except RefusedCommandError as error:
            refused.append(str(error))
    assert refused == []


@pytest.mark.parametrize("block", [block for block in CHECKED if block.language == "python"], ids=name_of)
def test_what_programs_import_and_call_is_there(block, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder / "examples"))
    check_program(block.text)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS if block.mark == "run"}))
def test_a_page_runs_from_top_to_bottom(page, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), str(folder / "examples"), *sys.path])
    write_files(page, folder)
    names: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for block in blocks_of(page):
        if block.mark == "output":
            assert [line for line in block.text.splitlines() if line not in printed.splitlines()] == [], printed
        if block.mark != "run":
            continue
        if block.language == "python":
            exec(compile(block.text, name_of(block), "exec"), names)
            continue
        done = run_script(block.text, folder, BLOCK_TIMEOUT_S)
        printed = done.stdout
        assert done.returncode == 0, f"{name_of(block)}\n{block.text}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


# --- The checks themselves ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("python -m training frozenlake_tiny --num-iteration 3", "--num-iterations"),
        ("for n in 1 2; do python -m training pool nowhere --num-samples $n --out a; done", "pool takes a recipe"),
        ("accelerate launch -m training mags --no-such-option 1", "--no-such-option"),
        ("python -m benchmarks run --agent randm --world VLM/Sokoban-v0 --out b", "randm"),
        ("python -m benchmarks run --agent random --world VLM/Sokoban-v0", "--out"),
        ("python -m benchmarks run --agent random --world VLM/Sokoban-v0:boxes=2 --out b", "boxes"),
        (
            "python -m benchmarks run --agent hf:training/recipes/checkpoints/frozenlake_tiny "
            "--world VLM/FrozenLake-v0 --out b",
            "has learned otherwise",
        ),
        ("python -m agents play oracl VLM/Sokoban-v0", "oracl"),
        ("python -m judges calibrat VLM/Sokoban-v0", "calibrat"),
        ("python -m vlm_envs play --seed x VLM/Sokoban-v0", "--seed"),
        ("pip install 'vlm-envs[tools]'", "from a checkout"),
        ("pip install -e '.[tool]'", "no extra tool"),
        ("make trian", "trian"),
        ("python examples/no_such.py", "no such file"),
        ("python -m trainin frozenlake_tiny", "no module trainin"),
        ("vlm-envs play VLM/Sokobn-v0", "no world VLM/Sokobn-v0"),
        ("python -m judges calibrate VLM/Nope-v0", "no world VLM/Nope-v0"),
        ("make train CONFIG=no_such_recipe", "no recipe no_such_recipe"),
        ("make play ENV_ID=VLM/Nope-v0", "no world VLM/Nope-v0"),
        ("python -m benchmarks replay docs/boards/no-such-board", "no such file"),
        ("python -m pytest tests/none", "no such file"),
        ("pip instal -e .", "pip takes install"),
        ("accelerate lunch -m training mags", "accelerate takes launch"),
    ],
)
def test_a_wrong_command_is_refused(script, reason, folder):
    with pytest.raises((RefusedCommandError, ImportError), match=reason):
        for command in commands_of(script, folder):
            check_command(command)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("vlm-envs neww my_world", "neww"),
        ("make train CONFIG=zoomqa_tinyy", "no recipe zoomqa_tinyy"),
        ("python -m training plann vagen_full", "plann"),
        ("python -m training plann", "plann"),
        ("python -m benchmarks evaluat … --modes ivgr", "evaluat"),
        ("python -m benchmarks evaluate … --mods ivgr", "--mods"),
        ("python -m agents plaay", "plaay"),
        ("make trian", "trian"),
    ],
)
def test_a_wrong_command_in_a_sentence_is_refused(text, reason, folder):
    with pytest.raises(RefusedCommandError, match=reason):
        check_inline(text, folder)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ('env_id = vlm_envs.adapt("MiniGrid-DoorKei-5x5-v0")', "DoorKei"),
        ('vlm_envs.adapt("MiniGrid-DoorKey-5x5-v0", gaol="Open the door.")', "gaol"),
        ('import gymnasium as gym\nimport vlm_envs\nenv = gym.make("VLM/Sokobn-v0")', "Sokobn"),
        ('from vlm_envs import make\nmake("VLM/Sokoban-v0", boxes=2)', "boxes"),
        ("from training.config.world_spec import WorldSpec\nWorldSpec(env_ids=1)", "env_ids"),
        ("from vlm_envs.errors import NoSuchError", "NoSuchError"),
        ("import benchmarks.nothing", "benchmarks.nothing"),
    ],
)
def test_a_wrong_program_is_refused(program, reason):
    with pytest.raises((RefusedCommandError, ImportError), match=reason):
        check_program(program)


GRID = 'env = "MiniGrid-Empty-5x5-v0"\nname = "grid"\n'


@pytest.mark.parametrize(
    ("words", "settings", "reason"),
    [
        ("training adapt:grid.toml --worlds.0.kwargs.prompt-formatt no_think", "", "prompt_formatt"),
        ("training adapt:grid.toml --worlds.0.kwargs.prompt-format no_thinkk", "", "no_thinkk"),
        ("training frozenlake_tiny --worlds.0.kwargs.prompt-format no_thinkk", "", "no_thinkk"),
        ("training adapt:grid.toml", 'plan = "plans:plann"', "plann"),
        ("vlm_envs play adapt:grid.toml", "[make]\ntile_sise = 16", "tile_sise"),
        ("vlm_envs check VLM/FrozenLake-v0 --set siz=3", "", "siz"),
        ("benchmarks run --agent random --world adapt:grid.toml --out b", "[make]\ntile_sise = 16", "tile_sise"),
        ("benchmarks run --agent random --world VLM/Sokoban-v0:prompt_format=no_thinkk --out b", "", "no_thinkk"),
    ],
)
def test_worlds_of_commands_are_made(words, settings, reason, folder):
    (folder / "grid.toml").write_text(f"{GRID}{settings}", encoding="utf-8")
    (folder / "plans.py").write_text("def plan(env):\n    return None\n", encoding="utf-8")
    with pytest.raises(RefusedCommandError, match=reason):
        check_command(Command(folder=folder, python_path="", words=("python", "-m", *words.split())))


@pytest.mark.parametrize("script", ["exit 0; python -m trainin x", "touch a"])
def test_a_block_that_ends_early_or_runs_other_programs_is_refused(script, folder):
    with pytest.raises(subprocess.CalledProcessError):
        commands_of(script, folder)
    assert not (folder / "a").exists()


def test_bash_expands_loops_variables_and_folders(folder):
    script = 'A=1; for n in x y; do PYTHONPATH=examples python -m agents play $n; done; cd examples; make b C="$A 2"'
    found = commands_of(script, folder)
    assert [(command.folder.name, command.python_path, command.words[-1]) for command in found] == [
        (folder.name, "examples", "x"),
        (folder.name, "examples", "y"),
        ("examples", "", "C=1 2"),
    ]


def test_a_block_that_fails_is_found(folder):
    done = run_script("python -m vlm_envs play Sokoban\necho unreached", folder, BLOCK_TIMEOUT_S)
    assert done.returncode != 0 and "unreached" not in done.stdout
    with pytest.raises(subprocess.CalledProcessError):
        commands_of("cd no-such-folder", folder)
