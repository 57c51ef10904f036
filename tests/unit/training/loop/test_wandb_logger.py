"""W&B beside TensorBoard, with wandb's own client and a server on loopback that answers, refuses or goes away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.training.batches import run_config
from tests.unit.training.loop.wandb_server import FakeWandb, environment
from training.loop.loggers import RUN_FILE
from training.preflight import require_wandb
from vlm_envs.errors import ConfigError

pytest.importorskip("wandb", reason="wandb is not installed: pip install 'vlm-envs[wandb]'")

CHECKOUT = Path(__file__).parents[4]
LOG = """
import os, signal, subprocess, sys, time
from pathlib import Path
from training.loop.loggers import WandbLogger

directory, is_resumed, how = Path(sys.argv[1]), sys.argv[2] == "resumed", sys.argv[3]
logger = WandbLogger("lakes", "mine", directory, is_resumed=is_resumed)
first = 1 if is_resumed else 0
logger.log({"rl/reward": 0.5}, first)
if how == "wait":
    print("started", flush=True)
    sys.stdin.readline()
if how == "kill":
    children = subprocess.run(["pgrep", "-P", str(os.getpid()), "wandb-core"], capture_output=True, text=True).stdout
    for each in children.split():
        os.kill(int(each), signal.SIGKILL)
    assert children
    time.sleep(0.5)
logger.log({"rl/reward": 1.5, "val/success": 0.25}, first + 1)
logger.log({"rl/reward": float("nan")}, first + 2)
logger.close(failed=False)
print("trained on")
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Returns a run's folder."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text(json.dumps({"num_groups": 7, "commit": "abc"}))
    return run


def log(directory: Path, env: dict[str, str], *, resumed: bool = False, how: str = "") -> subprocess.Popen[str]:
    """Starts a process that logs three iterations."""
    command = [sys.executable, "-c", LOG, str(directory), "resumed" if resumed else "new", how]
    return subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    """Returns what a process that has to end well printed to standard error."""
    try:
        shown, told = process.communicate("\n", timeout=60)
    finally:
        process.kill()  # one that waits for ever would go on doing so
    assert (process.returncode, shown.splitlines()[-1:]) == (0, ["trained on"]), told
    return told


@pytest.mark.soak
def test_a_run_that_is_resumed_goes_on_under_its_id(directory: Path, tmp_path: Path) -> None:
    with FakeWandb() as server:
        for resumed in (False, True):
            said(log(directory, server.environment(tmp_path), resumed=resumed))
        ids = {run["name"] for run in server.runs}
        assert ids == {json.loads((directory / RUN_FILE).read_text())["id"]}
        first = server.runs[0]
        assert (first["project"], first["displayName"]) == ("lakes", "mine")
        config = json.loads(first["config"])
        assert (config["num_groups"]["value"], config["commit"]["value"]) == (7, "abc")
        rows = [(row["iteration"], row["rl/reward"]) for row in server.history]
        assert rows == [(0, 0.5), (1, 1.5), (2, "NaN"), (1, 0.5), (2, 1.5), (3, "NaN")]  # again what came after a save
        assert [row["val/success"] for row in server.history if "val/success" in row] == [0.25, 0.25]


@pytest.mark.soak
def test_a_new_run_in_the_place_of_one_that_never_began_has_an_id_of_its_own(directory: Path, tmp_path: Path) -> None:
    ids = []
    for _ in range(2):
        said(log(directory, environment(tmp_path, WANDB_MODE="disabled")))
        ids.append(json.loads((directory / RUN_FILE).read_text())["id"])
    assert ids[0] != ids[1]


@pytest.mark.soak
def test_a_network_that_goes_away_ends_nothing_and_is_not_waited_for(directory: Path, tmp_path: Path) -> None:
    with FakeWandb() as server:
        process = log(directory, server.environment(tmp_path, WANDB_FINISH_TIMEOUT="1"), how="wait")
        assert process.stdout is not None and process.stdout.readline() == "started\n"
        server.is_lost = True
        said(process)
        assert len(server.runs) == 1 and not server.history
    (kept,) = (directory / "wandb").glob("run-*/run-*.wandb")
    assert b"val/success" in kept.read_bytes(), "for `wandb sync`"


@pytest.mark.soak
def test_a_server_that_takes_no_run_leaves_it_offline(directory: Path, tmp_path: Path) -> None:
    with FakeWandb() as server:
        server.refuses = True
        told = said(log(directory, server.environment(tmp_path)))
    assert "W&B does not answer (" in told and "logging offline, for `wandb sync`." in told
    (kept,) = (directory / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"val/success" in kept.read_bytes()


def test_a_client_that_dies_is_told_once_and_ends_nothing(directory: Path, tmp_path: Path) -> None:
    told = said(log(directory, environment(tmp_path, WANDB_MODE="offline"), how="kill"))
    assert told.count("The run continues; its numbers are in metrics.jsonl and in TensorBoard.") == 1
    assert "W&B does not take these numbers (" in told


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        pytest.param(
            {}, "W&B rejects the login here (No API key configured. Use `wandb login` to log in.)", id="no login"
        ),
        pytest.param(
            {"WANDB_API_KEY": "a" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_HTTP_TIMEOUT": "1"},
            "W&B rejects the login here (Failed to authenticate with http://127.0.0.1:9",
            id="no network",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            {"WANDB_MODE": "ofline"}, "Input should be 'online', 'offline'", id="no such mode", marks=pytest.mark.soak
        ),
    ],
)
def test_no_login_is_one_line_before_anything_else(tmp_path: Path, more: dict[str, str], reason: str) -> None:
    output = tmp_path / "runs"
    command = [sys.executable, "-m", "training", "frozenlake_tiny", "--wandb-project", "p", "--output", str(output)]
    env = environment(tmp_path, **more)
    done = subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, timeout=60)
    (told,) = [line for line in done.stderr.splitlines() if not line.startswith("wandb: ")]
    assert done.returncode == 2
    assert told.startswith("error: --wandb-project p: ") and reason in told and "WANDB_MODE=offline" in told
    assert not output.exists(), "nothing is left behind"


def test_a_missing_package_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    require_wandb(None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"--wandb-project p needs the package wandb.*pip install -e '.*\[wandb\]'"):
        require_wandb("p")


@pytest.mark.parametrize("project", ["", "team/project", "a" * 129])
def test_a_project_has_a_name_that_wandb_takes(project: str) -> None:
    with pytest.raises(ConfigError, match="--wandb-project must be the name of a project"):
        run_config(wandb_project=project)
