"""Episodes of any agent are recorded and shown by the wheel alone."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from vlm_envs import make
from vlm_envs.cli.commands import main
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import RunExistsError
from vlm_envs.records.recording import RecordEpisodes
from vlm_envs.records.run_data import RunReader

CHECKOUT = Path(__file__).parents[4]
PLAY = """
import sys


class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "agents", "judges", "training"):
            raise ImportError(f"{name} is not for the wheel")


sys.meta_path.insert(0, Refused())
import gymnasium as gym
import vlm_envs
from vlm_envs.cli.commands import main
from vlm_envs.records.recording import RecordEpisodes

env = RecordEpisodes(gym.make("VLM/FrozenLake-v0", prompt_format="no_think"), sys.argv[1], label="my agent")
for seed in range(3):
    observation, info = env.reset(seed=seed)
    over = False
    while not over:
        world = env.unwrapped
        plan = world.dynamics.plan(world.state)[: world.max_actions_per_turn]
        response = "nothing" if seed == 2 else world.write_response(plan)
        observation, reward, terminated, truncated, info = env.step(response)
        over = terminated or truncated
env.close()
sys.exit(main(["report", sys.argv[1]]))
"""


def test_the_wheel_records_and_reports_where_torch_and_the_other_rooms_cannot_be_imported(tmp_path):
    command = [sys.executable, "-c", PLAY, str(tmp_path / "mine")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, timeout=280, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "mine" / "report.html")), done.stderr
    reader = RunReader(tmp_path / "mine")
    assert [episode["success"] for episode in reader.trajectories("my agent")] == [True, True, False]
    [line] = reader.evaluations()
    assert (line["env_id"], line["num_successes"], line["num_episodes"]) == ("VLM/FrozenLake-v0", 2, 3)
    html = (tmp_path / "mine" / "report.html").read_text(encoding="utf-8")
    assert '<p class="kicker">Episodes' in html
    assert line["split"] == "train"
    assert "of 3 training levels solved" in html
    assert "held-out" not in html
    assert "<th>iteration</th>" not in html


def lake():
    return make("VLM/FrozenLake-v0", prompt_format="no_think")


def test_a_used_folder_is_refused_with_what_to_do(tmp_path):
    with RecordEpisodes(lake(), tmp_path, label="first") as env:
        env.reset(seed=0)
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step("nothing")
            over = terminated or truncated
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RunExistsError, match=r"already holds a run or episodes\. Name another folder\.$"):
        RecordEpisodes(lake(), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_what_is_no_world_is_refused_before_anything_is_created(tmp_path):
    with pytest.raises(ConfigError, match=r"RecordEpisodes records worlds of this suite.*; got CartPoleEnv\."):
        RecordEpisodes(gym.make("CartPole-v1"), tmp_path / "cart")
    assert not (tmp_path / "cart").exists()


def test_a_folder_in_which_no_episode_ended_is_no_report(tmp_path, capsys):
    with RecordEpisodes(lake(), tmp_path / "none") as env:
        env.reset(seed=0)
    assert not (tmp_path / "none").exists()
    assert main(["report", str(tmp_path / "none")]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "does not exist" in told


def test_of_two_recorders_on_one_folder_the_second_is_refused_before_it_writes(tmp_path):
    first, second = (RecordEpisodes(lake(), tmp_path / "same", label=label) for label in ("first", "second"))
    for env in (first, second):
        env.reset(seed=0)
    while not any(first.step("nothing")[2:4]):
        pass
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RunExistsError, match="already holds a run or episodes"):
        while not any(second.step("nothing")[2:4]):
            pass
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
