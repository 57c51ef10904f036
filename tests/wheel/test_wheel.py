"""What a wheel gives a user: built here, installed into a fresh environment, and used from an empty folder.

`make test-wheel` runs it; pip downloads what the wheel requires.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import vlm_envs

CHECKOUT = Path(__file__).parents[2]

RECORD = """
import gymnasium as gym
import vlm_envs
from vlm_envs.records.recording import RecordEpisodes

env = RecordEpisodes(gym.make("VLM/FrozenLake-v0", prompt_format="no_think"), "episodes", label="script")
for seed in range(2):
    env.reset(seed=seed)
    ended = False
    while not ended:
        *_, terminated, truncated, info = env.step("<answer>Right, Down</answer>")
        ended = terminated or truncated
env.close()
"""

ADAPT = """
import gymnasium as gym
import vlm_envs

env_id = vlm_envs.adapt("FrozenLake-v1", goal="Reach the goal.")
env = gym.make(env_id)
observation, info = env.reset(seed=0)
print(env_id, observation["image"].shape)
"""


class Installed:
    """A fresh environment with the wheel, and an empty folder to run commands in."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "work"
        self.folder.mkdir()
        self._bin = root / "venv" / "bin"
        venv.create(root / "venv", with_pip=False)
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self._environ["PATH"] = f"{self._bin}{os.pathsep}{self._environ['PATH']}"
        pip(["wheel", "--no-deps", "--wheel-dir", str(root / "wheels"), str(CHECKOUT)])
        (self.wheel,) = (root / "wheels").glob("vlm_envs-*.whl")
        self.install([str(self.wheel)])

    def install(self, packages: list[str]) -> None:
        """Installs packages into the environment."""
        pip(["--python", str(self._bin / "python"), "install", "--quiet", *packages])

    def run(self, *arguments: str, stdin: str = "", code: int = 0, folder: Path | None = None) -> str:
        """Returns what a command of the environment prints."""
        result = subprocess.run(
            [self._bin / arguments[0], *arguments[1:]],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=folder or self.folder,
            env=self._environ,
            timeout=280,
        )
        assert result.returncode == code, f"{arguments}: {result.stdout}\n{result.stderr}"
        assert "Traceback" not in result.stderr or code == 1
        return result.stdout + result.stderr

    def install_as_told(self, told: str) -> None:
        """Runs the `pip install` command of a hint."""
        found = re.search(r"pip install (.+)", told)
        assert found, told
        packages = shlex.split(found[1])
        assert not any("vlm-envs" in package for package in packages), "no index needs to have this distribution"
        self.install(packages)


def pip(arguments: list[str]) -> None:
    """Runs this Python's pip."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("wheel"))


def test_the_command_says_its_version(installed):
    for command in (("vlm-envs",), ("python", "-m", "vlm_envs")):
        assert installed.run(*command, "--version").strip() == f"vlm-envs {vlm_envs.__version__}"


def test_worlds_are_listed_with_installable_hints(installed):
    listed = installed.run("vlm-envs", "list")
    assert re.search(r"VLM/FrozenLake-v0 +ready", listed)
    assert re.search(r"VLM/Navigation-v0 +\[navigation\] +missing", listed)
    assert "pip install 'panda3d>=" in listed and "pip install 'vlm-envs" not in listed


def test_a_world_passes_its_check(installed):
    assert "checks passed" in installed.run("vlm-envs", "check", "VLM/FrozenLake-v0")


def test_a_world_is_played_from_a_script_of_keys(installed):
    shown = installed.run("vlm-envs", "play", "VLM/FrozenLake-v0", "--colors", "none", stdin="sd\nq\n")
    assert "FrozenLake" in shown


def test_episodes_are_recorded_and_reported_after_the_install_that_is_hinted_at(installed):
    (installed.folder / "record.py").write_text(RECORD)
    told = installed.run("python", "record.py", code=1).splitlines()[-1]
    assert "RecordEpisodes needs the package scipy" in told
    installed.install_as_told(told)
    installed.run("python", "record.py")
    installed.run("vlm-envs", "report", "episodes")
    assert "<html" in (installed.folder / "episodes" / "report.html").read_text(encoding="utf-8")[:500]
    installed.run("vlm-envs", "film", "episodes", "--out", "episodes.gif")
    assert (installed.folder / "episodes.gif").stat().st_size > 1000


def test_a_new_world_passes_its_check(installed):
    installed.run("vlm-envs", "new", "my_world")
    folder = installed.folder / "my_world"
    assert "checks passed" in installed.run("vlm-envs", "check", "my_world:Own/MyWorld-v0", folder=folder)


def test_an_environment_is_adapted_after_the_install_that_is_hinted_at(installed):
    for command in ("check", "play"):
        told = installed.run("vlm-envs", command, "adapt:FrozenLake-v1", code=2)
        assert told.startswith("error: ") and told.count("\n") == 1 and "pygame is not installed" in told
    installed.install(["gymnasium[toy-text]"])
    assert 'pip install "gymnasium[toy-text]"' in told
    (installed.folder / "adapted.py").write_text(ADAPT)
    assert "FrozenLake" in installed.run("python", "adapted.py")
    assert "checks passed" in installed.run("vlm-envs", "check", "adapt:FrozenLake-v1")


def test_the_wheel_says_nothing_that_is_not_so(installed):
    listed = installed.run("python", "-c", "from importlib.metadata import metadata; print(metadata('vlm-envs'))")
    assert "Author: vlm-envs contributors" in listed
    assert "Project-URL" not in listed and "Home-page" not in listed
