"""Episodes of any agent are recorded and shown by the wheel alone."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from vlm_envs import make
from vlm_envs.cli.commands import main
from vlm_envs.discrete_world import DiscreteWorld
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.records.json_lines import RunExistsError
from vlm_envs.records.recording import RecordEpisodes
from vlm_envs.records.replay import replay
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


def test_a_seed_played_twice_counts_as_one_level(tmp_path):
    with RecordEpisodes(lake(), tmp_path) as env:
        for seed in (0, 0, 1):
            env.reset(seed=seed)
            while not any(env.step("nothing")[2:4]):
                pass
    [line] = RunReader(tmp_path).evaluations()
    assert (line["num_episodes"], line["num_levels"]) == (3, 2)
    assert (line["success_low"], line["success_high"]) == (0.0, 1.0), "fewer than two effective levels"


def lake():
    return make("VLM/FrozenLake-v0", prompt_format="no_think")


def played(directory, *, seed=0, options=None, label="mine", **kwargs):
    """Plays one episode by the planner in a recorder, and returns the recorder's reader."""
    with RecordEpisodes(make("VLM/FrozenLake-v0", prompt_format="no_think", **kwargs), directory, label=label) as env:
        env.reset(seed=seed, options=options)
        world, over = env.unwrapped, False
        while not over:
            plan = world.dynamics.plan(world.state)[: world.max_actions_per_turn]
            _, _, terminated, truncated, _ = env.step(world.write_response(plan))
            over = terminated or truncated
    return RunReader(directory)


def test_records_count_what_an_optimal_plan_still_needs(tmp_path):
    [episode] = played(tmp_path).trajectories("mine")
    lake = make("VLM/FrozenLake-v0").unwrapped
    lake.reset(seed=0)
    before = [turn["optimal_actions_before"] for turn in episode["turns"]]
    left = [turn["optimal_actions_left"] for turn in episode["turns"]]
    assert before == [lake.optimal_actions_left(), *left[:-1]]
    assert left[-1] == 0


@pytest.mark.parametrize("options", [None, {"level": "P__\n_O_\n__G"}])
def test_what_was_recorded_replays_to_the_bit(tmp_path, options):
    reader = played(tmp_path, options=options, size=3, min_solution_length=1, reading="lenient")
    [episode] = reader.trajectories("mine")
    assert (
        replay(
            episode, make("VLM/FrozenLake-v0", size=3, min_solution_length=1, prompt_format="no_think"), reader.image
        )
        is None
    )


@pytest.mark.parametrize(("label", "told"), [("my agent", []), ("after", []), ("my agent", ["--label", "my agent"])])
def test_a_film_is_made_of_recordings(tmp_path, capsys, label, told):
    played(tmp_path, label=label)
    assert main(["film", str(tmp_path), *told]) == 0
    assert (tmp_path / "film.gif").stat().st_size > 1000
    assert str(tmp_path / "film.gif") in capsys.readouterr().out


def test_a_missing_package_is_reported_before_anything_is_played(tmp_path, monkeypatch):
    monkeypatch.setattr("vlm_envs.records.recording.importlib.util.find_spec", {"scipy": None}.get)
    with pytest.raises(EngineUnavailableError, match=r"needs the package scipy.*pip install .*"):
        RecordEpisodes(lake(), tmp_path / "new")


def test_a_label_or_a_folder_that_cannot_be_is_refused_before_anything_is_played(tmp_path):
    with pytest.raises(ValueError, match="at least one letter or digit"):
        RecordEpisodes(lake(), tmp_path / "new", label="!!!")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file, not a folder"):
        RecordEpisodes(lake(), tmp_path / "file")


def test_a_used_folder_is_refused_with_what_to_do(tmp_path):
    with RecordEpisodes(lake(), tmp_path, label="first") as env:
        env.reset(seed=0)
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step("nothing")
            over = terminated or truncated
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RunExistsError, match=r"already contains a run or episodes\. Name another folder\.$"):
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
    with pytest.raises(RunExistsError, match="already contains a run or episodes"):
        while not any(second.step("nothing")[2:4]):
            pass
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_discrete_worlds_are_refused_and_recorded_below_their_wrapper(tmp_path):
    with pytest.raises(ConfigError, match=r"DiscreteWorld\(RecordEpisodes\("):
        RecordEpisodes(make("VLM/FrozenLake-v0", action_mode="discrete"), tmp_path)
    with DiscreteWorld(RecordEpisodes(make("VLM/FrozenLake-v0"), tmp_path)) as env:
        env.reset(seed=0)
        while not any(env.step(0)[2:4]):
            pass
    assert len(list(RunReader(tmp_path).trajectories("episodes"))) == 1
