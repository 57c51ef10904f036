"""`python -m vlm_envs new`: a package that keeps the contract, and no name that would break anything."""

import contextlib
import shlex
import subprocess
import sys

import gymnasium as gym
import pytest

from vlm_envs.cli.commands import main
from vlm_envs.testing.contract import check_world

NAME = "my_walks_2"
ENV_ID = "Own/MyWalks2-v0"


@pytest.fixture
def package(tmp_path, monkeypatch):
    assert main(["new", NAME, "--folder", str(tmp_path)]) == 0
    monkeypatch.syspath_prepend(str(tmp_path / NAME))
    yield tmp_path / NAME
    sys.modules.pop(NAME, None)
    gym.registry.pop(ENV_ID, None)


def test_it_keeps_the_contract_in_under_100_lines(package):
    slow = ("same_seed_gives_the_same_bytes", "is_a_gymnasium_env")
    results = check_world(f"{NAME}:{ENV_ID}", skip=slow)
    assert [result.name for result in results if result.skipped] == ["is_a_gymnasium_env", slow[0]]
    files = sorted(path for path in package.iterdir() if path.is_file())
    assert [file.name for file in files] == [f"{NAME}.py", "pyproject.toml", f"test_{NAME}.py"]
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) < 100


def test_its_image_is_large_enough_for_the_cnn_of_stable_baselines(package):
    """NatureCNN's convolutions need 36 pixels on each side."""
    with contextlib.closing(gym.make(f"{NAME}:{ENV_ID}")) as world:
        assert min(world.observation_space["image"].shape[:2]) >= 36


def test_its_code_is_clean(package):
    """Under the linter's own defaults, as in a folder without settings."""
    for check in (("check",), ("format", "--check", "--line-length", "120")):
        command = [sys.executable, "-m", "ruff", *check, "--isolated", "--no-cache", "."]
        result = subprocess.run(command, capture_output=True, text=True, cwd=package, timeout=60)
        assert result.returncode == 0, result.stdout


def test_its_own_test_and_the_printed_commands_name_its_world(package, tmp_path, capsys):
    assert f'check_world("{NAME}:{ENV_ID}")' in (package / f"test_{NAME}.py").read_text(encoding="utf-8")
    folder = tmp_path / "a folder"
    assert main(["new", "tower", "--folder", str(folder)]) == 0
    out = capsys.readouterr().out.replace("\\\n", "")
    commands = [shlex.split(line) for line in out.splitlines() if line.startswith("  ")]
    assert commands[0] == ["cd", str(folder / "tower")]
    assert ["python", "-m", "vlm_envs", "check", "tower:Own/Tower-v0"] in commands
    run_from_checkout = [command for command in commands if f"PYTHONPATH={folder / 'tower'}" in command]
    assert [command[3] for command in run_from_checkout] == ["benchmarks", "training"]
    assert all("tower:Own/Tower-v0" in command for command in run_from_checkout)
    project = (folder / "tower" / "pyproject.toml").read_text(encoding="utf-8")
    assert 'py-modules = ["tower"]' in project
    assert "[tool.pytest.ini_options]" in project, "pytest would otherwise use the settings of a checkout around it"


def test_nothing_is_overwritten(package, capsys):
    before = (package / f"{NAME}.py").read_bytes()
    assert main(["new", NAME, "--folder", str(package.parent)]) == 2
    assert f"{package} already exists" in capsys.readouterr().err
    assert (package / f"{NAME}.py").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *[(name, "such as my_world") for name in ("MyWorld", "my-world", "2fast", "../up", "caf\u00e9", "", "lambda")],
        *[(name, f"module '{name}' already") for name in ("json", "setup", "conftest", "numpy", "vlm_envs")],
    ],
)
def test_a_name_that_cannot_be_a_new_module_is_refused(name, reason, tmp_path, capsys):
    assert main(["new", name, "--folder", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and reason in line
    assert [*tmp_path.iterdir()] == []


def test_the_folder_may_be_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["new", "tower", "--folder=~/mine"]) == 0
    assert (tmp_path / "mine" / "tower" / "tower.py").is_file()
