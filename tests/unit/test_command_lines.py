"""What the five command lines have in common: a mistake is one plain line, and the status is 2."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import agents.__main__
import benchmarks.__main__
import judges.__main__
import training.__main__
import training.recipes.listing
import vlm_envs
import vlm_envs.cli.commands
from vlm_envs.command_line import description_of, written_docstring

MAINS = {
    "vlm_envs": vlm_envs.cli.commands.main,
    "agents": agents.__main__.main,
    "benchmarks": benchmarks.__main__.main,
    "judges": judges.__main__.main,
    "training": training.__main__.main,
}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("vlm_envs check Sokoban", "Unknown env 'Sokoban'. Did you mean 'VLM/Sokoban-v0'?"),
        ("agents play oracle", "python -m agents play oracle needs ENV_ID, such as VLM/Sokoban-v0: "),
        (
            "agents play oracle corridor:Corridor",
            "Unknown env 'corridor:Corridor'. Did you mean 'corridor:Own/Corridor",
        ),
        (
            "vlm_envs check corridor:My/World-v0",
            "corridor does not register 'My/World-v0'. It registers corridor:Own/Corridor-v0.",
        ),
        ("vlm_envs check this:My/World-v0", "this does not register 'My/World-v0'. It registers none; add vlm_envs."),
        (
            "training sokoban_tiny --algorithm.critic.betas 0.9 0.99",
            "python -m training sokoban_tiny has no option --algorithm.critic.betas. The critic has the policy's "
            "--ppo.betas.",
        ),
        ("benchmarks experiment vagen --seeds 1 --seeds 2", "--seeds is given 2 times. Give it once, with all of its"),
        (
            "training sokoban_tiny --num-groups 0 --tokenizer-worlds=a --tokenizer_worlds b",
            "--tokenizer-worlds is given 2 times. Give it once",
        ),
        ("training sokoban_tiny --num-groups 2 --num-groups 0", "--num-groups must be at least 1; got 0."),
        (
            "vlm_envs check VLM/Sokoban-v0 --set num_boxes=2 --set nu=3",
            "VLM/Sokoban-v0 cannot be created with nu=3: it",
        ),
    ],
)
def test_a_mistake_is_one_plain_line(words, told, capsys, tmp_path, monkeypatch):
    (tmp_path / "corridor.py").write_text(
        "from vlm_envs.registration import register\nregister('Own/Corridor-v0', 'corridor:Corridor')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    program, *rest = words.split()
    assert MAINS[program](rest) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"error: {told}")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("vlm_envs play VLM/Sokoban-v0 --colors red", "--colors"),
        ("vlm_envs play VLM/Sokoban-v0 --seed x", "--seed"),
        ("vlm_envs report", "RUN"),
        ("vlm_envs report runs --beside", "--beside"),
        ("agents play", "AGENT"),
        ("judges score VLM/Sokoban-v0 --state {}", "TEXT"),
        ("judges calibrate VLM/Sokoban-v0 --threshold x", "--threshold"),
        ("training sokoban_tiny --algorithm.critic.value-clip x", "--algorithm.critic.value-clip"),
        ("training sokoban_tiny --num-iterations x", "--num-iterations"),
        ("training sokoban_tiny --ppo.betas 0.9,0.999", "--ppo.betas"),
        ("training sokoban_tiny --ppo.betas=0.9", "--ppo.betas"),
    ],
)
def test_values_that_the_parser_refuses_are_one_line_that_names_the_option(words, name, capsys):
    program, *rest = words.split()
    assert MAINS[program](rest) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("error: ") and name in said.partition(" All options: ")[0]


LISTS = (
    "vlm_envs list",
    "vlm_envs check VLM/FrozenLake-v0",
    "agents list",
    "training list",
    "judges chance VLM/FrozenLake-v0 --num-states 4",
    "benchmarks suites",
)


COMMANDS = {
    "vlm_envs": vlm_envs.cli.commands.COMMANDS,
    "agents": agents.__main__.COMMANDS,
    "benchmarks": benchmarks.__main__.COMMANDS,
    "judges": judges.__main__.COMMANDS,
    "training": (*training.recipes.listing.COMMANDS, "frozenlake_tiny", "cold_start frozenlake_tiny", "mags_tiny"),
}
HELPS = tuple(
    f"{program} {command} {word}".replace("  ", " ")
    for program, commands in COMMANDS.items()
    for command in ("", *commands)
    for word in ("--help", "--help-all")
)


@pytest.mark.parametrize("words", [*LISTS, *HELPS, "training mags_tiny --stages.precision.help-all", "judges rewards"])
def test_what_is_printed_fits_80_columns(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    program, *rest = words.split()
    try:
        assert MAINS[program](rest) == 0
    except SystemExit as stop:
        assert stop.code in (0, None)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert len(lines) > 2


def test_the_version_is_printed_by_either_name_of_the_command(capsys, monkeypatch):
    for name in ("/usr/bin/vlm-envs", "vlm_envs/__main__.py"):
        monkeypatch.setattr(sys, "argv", [name, "--version"])
        assert vlm_envs.cli.commands.main() == 0
        assert capsys.readouterr().out == f"vlm-envs {vlm_envs.__version__}\n"


@pytest.mark.parametrize("program", [agents.__main__, benchmarks.__main__, judges.__main__, training.__main__])
def test_every_program_prints_the_version_and_needs_a_command(program, capsys):
    (shown, same) = ((program.main([word]), capsys.readouterr()) for word in ("--help", "--help-all"))
    assert shown == same and shown[0] == 0
    assert program.main(["--version"]) == 0
    assert capsys.readouterr().out == f"vlm-envs {vlm_envs.__version__}\n"
    assert program.main([]) == 2


@pytest.mark.parametrize(
    ("name", "usage"), [("/usr/bin/vlm-envs", "vlm-envs"), ("x/__main__.py", "python -m vlm_envs")]
)
def test_help_names_the_command_as_it_was_called(name, usage, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    assert vlm_envs.cli.commands.main() == 0
    assert capsys.readouterr().out.startswith(f"usage: {usage} COMMAND [--options]\n       {usage} --version\n")


@pytest.mark.parametrize("module", [benchmarks.__main__, judges.__main__])
def test_commands_that_are_named_are_there_and_described(module):
    named = [command.split(":") for command in module.COMMANDS.values() if isinstance(command, str)]
    assert named
    for path, options, run in named:
        there = vars(importlib.import_module(path))
        assert callable(there[run])
        assert written_docstring(f"{path}:{options}").startswith(description_of(there[options]).partition("\n")[0])


@pytest.mark.parametrize("program", ["benchmarks", "judges"])
def test_help_imports_none_of_the_commands(program):
    code = (
        f"import sys; from {program}.__main__ import main; main(['--help']); "
        "print({'torch', 'pydantic', 'tyro'} & set(sys.modules))"
    )
    checkout = Path(__file__).parents[2]
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=checkout, timeout=60)
    assert shown.stdout.splitlines()[-1] == "set()", shown.stderr


def test_the_script_finds_worlds_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.setattr(sys, "argv", ["/usr/bin/vlm-envs", "--version"])
    assert vlm_envs.cli.commands.main() == 0
    assert sys.path[0] == str(tmp_path)
