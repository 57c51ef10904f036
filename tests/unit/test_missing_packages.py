"""`python -m …` without its packages: one line that says what to install, and no traceback."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import training.__main__
import training.commands
import vlm_envs.requirements
from vlm_envs.command_line import run_command
from vlm_envs.requirements import EXTRAS, install_command, needs, require_packages, requirements_of

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("program", ["vlm_envs", "agents", "judges", "training", "benchmarks"])
def test_a_bare_interpreter_says_in_one_line_what_to_install(program):
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-S", "-m", program]  # without site-packages
    result = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, env=environ, timeout=60)
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"python -m {program} needs gymnasium, numpy, pillow, tyro")
    assert f"pip install -e {_wanted(program)}," in line


def _wanted(program: str) -> str:
    return f"'.[{EXTRAS[program].extra}]'" if program in EXTRAS else "."


@pytest.mark.parametrize("program", EXTRAS)
def test_a_base_installation_is_told_the_extra(program, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-m", "--help"])  # as while Python locates a program
    monkeypatch.setattr(vlm_envs.requirements, "_located", lambda: program)
    monkeypatch.setattr(vlm_envs.requirements, "find_spec", lambda name: None if name == "pydantic" else sys)
    with pytest.raises(SystemExit) as stop:
        require_packages()
    assert f"python -m {program} needs pydantic, " in str(stop.value)
    assert _wanted(program) in str(stop.value)


def test_torch_comes_with_the_extra_for_training():
    assert "'.[train]'" in needs("benchmarks", "torch")


def test_a_hint_installs_the_checkout_from_whatever_folder_it_is_read_in(tmp_path, monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    assert install_command("tools") == "pip install -e '.[tools]'"
    assert install_command() == "pip install -e ."
    monkeypatch.chdir(tmp_path)
    assert install_command("tools") == f"pip install -e '{CHECKOUT}[tools]'"


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """As after the installation of a wheel that states these requirements."""
    stated = [
        "gymnasium>=1.1",
        "panda3d>=1.10.15; extra == 'navigation'",
        "cairosvg>=2.7; extra == 'svg'",
        'tinycss2>=1.4; python_version >= "3.11" and extra == "svg"',
        "vlm-envs[navigation,svg]; extra == 'sim'",
    ]
    monkeypatch.setattr(vlm_envs.requirements, "CHECKOUT", tmp_path)
    monkeypatch.setattr("importlib.metadata.requires", lambda name: stated)


@pytest.mark.parametrize(
    ("extra", "packages"),
    [
        ("navigation", ["panda3d>=1.10.15"]),
        ("svg", ["cairosvg>=2.7", "tinycss2>=1.4"]),
        ("sim", ["panda3d>=1.10.15", "cairosvg>=2.7", "tinycss2>=1.4"]),
        ("svg,navigation", ["cairosvg>=2.7", "tinycss2>=1.4", "panda3d>=1.10.15"]),
        ("", ["gymnasium>=1.1"]),
    ],
)
def test_without_a_checkout_a_hint_names_what_the_extra_requires(extra, packages, wheel):
    assert requirements_of(extra) == packages
    assert install_command(extra) == f"pip install {shlex.join(packages)}"


def test_every_hint_is_made_by_the_one_function():
    rooms = ("vlm_envs", "agents", "judges", "training", "benchmarks")
    modules = [path for room in rooms for path in (CHECKOUT / room).rglob("*.py") if path.name != "requirements.py"]
    hint = re.compile(r"pip install\s*\"?\s*(?:-e )?['\"](?:vlm-envs|\.)\[")
    assert [path for path in modules if hint.search(path.read_text(encoding="utf-8"))] == []


def test_nothing_is_looked_for_where_another_program_imports_the_package(monkeypatch):
    monkeypatch.setattr(vlm_envs.requirements, "find_spec", lambda name: pytest.fail("looked for a package"))
    require_packages()


@dataclass(frozen=True)
class Options:
    """Go."""


def _run_lacking(name: str) -> int:
    def lacking(options: Options) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    return run_command("python -m benchmarks", {"go": (Options, lacking)}, ["go"])


def test_a_package_that_only_one_command_needs_is_one_line(capsys):
    assert _run_lacking("no_such_package.part") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: python -m benchmarks needs no_such_package, ") and "'.[api,records]'" in line


def test_a_missing_module_of_a_package_that_is_there_is_a_bug():
    with pytest.raises(ModuleNotFoundError):
        _run_lacking("judges.nothing")


def test_training_without_its_packages_is_one_line(monkeypatch, capsys):
    def lacking(words: list[str]) -> None:
        raise ModuleNotFoundError("No module named 'no_such_package'", name="no_such_package")

    monkeypatch.setitem(training.commands.COMMANDS, "plan", lacking)
    assert training.__main__.main(["plan"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: python -m training needs no_such_package, ") and "'.[train]'" in line
