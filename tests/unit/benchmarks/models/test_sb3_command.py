"""`python -m benchmarks sb3` trains on training levels, keeps the best on validation levels, makes a row."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys

import pytest

from agents.registry import make_agent
from benchmarks.__main__ import main
from benchmarks.models import sb3_training as training
from benchmarks.models.board.board import Board
from benchmarks.models.play.contestants import contestants
from benchmarks.models.sb3_command import Sb3Options
from benchmarks.models.sb3_settings import SETTINGS, PPOSettings, settings_for
from vlm_envs.errors import ConfigError

LAKE = "VLM/FrozenLake-v0"
SHORT = ["--timesteps", "768", "--num-envs", "4", "--num-val-episodes", "8", "--num-validations", "2"]


def trained(out, *words, world=LAKE):
    assert main(["sb3", world, "--out", str(out), *SHORT, *words]) == 0
    return out


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("sb3") / "lake")


def weights(directory):
    return make_agent(f"sb3:{directory}").identity["weights"]


def test_it_trains_saves_plays_and_replays(policy, tmp_path, capsys):
    board = tmp_path / "board"
    play = ["run", "--agent", f"sb3:{policy}", "--world", LAKE, "--episodes", "6", "--no-references"]
    assert main([*play, "--out", str(board)]) == 0
    assert main(["replay", str(board)]) == 0
    assert f"sb3:{policy} in {LAKE}: 6 episodes are the same to the bit" in capsys.readouterr().out
    (agent,) = Board(board).record["agents"]
    assert agent["identity"]["weights"] == weights(policy)
    turns = [turn for episode in Board(board).episodes() for turn in episode["turns"]]
    assert all(turn["parse_error"] is None and len(turn["actions"]) <= 3 for turn in turns)


def test_what_it_says_of_itself_is_saved(policy):
    record = json.loads((policy / "trained.json").read_text())
    assert record["trained_for"]["env_id"] == LAKE
    assert [each["timesteps"] for each in record["validations"]] == [384, 768]
    assert record["best"] in record["validations"]
    assert {"vlm-envs", "torch", "stable-baselines3"} <= set(record["versions"])
    expected = dataclasses.replace(settings_for(LAKE), timesteps=768, num_envs=4)
    assert record["settings"] == json.loads(json.dumps(dataclasses.asdict(expected)))


@pytest.mark.soak
def test_a_seed_gives_the_same_policy_again(policy, tmp_path):
    assert weights(trained(tmp_path / "again")) == weights(policy)
    assert weights(trained(tmp_path / "other", "--seed", "1")) != weights(policy)


@pytest.mark.soak
def test_it_learns(tmp_path):
    """One lake, one way: drawn actions find it by chance in a sixteenth of the episodes, then nearly always."""
    world = f"{LAKE}:desc=('PO','_G'),max_turns=1,max_actions_per_turn=2,min_solution_length=1"
    plan = options(tmp_path / "lake", world=world, num_envs=16, num_validations=4).plan()
    settings = dataclasses.replace(plan.settings, timesteps=6_000, num_steps=16, minibatch_size=64)
    result = training.train(dataclasses.replace(plan, settings=settings))
    first, *_, last = result.validations
    assert first.training_success < 0.6
    assert last.training_success > 0.9
    assert last.num_successes == 8


def test_training_levels_train_and_validation_levels_choose(tmp_path, monkeypatch):
    splits = []
    own = training.make

    def spied(env_id, **kwargs):
        splits.append((kwargs["split"], kwargs.get("min_solution_length")))
        return own(env_id, **kwargs)

    monkeypatch.setattr(training, "make", spied)
    plan = options(tmp_path / "out").plan()
    for worlds in (training._training_worlds(plan), training._validation_worlds(plan)):
        splits += [(world, None) for world in set(worlds.get_attr("split"))]
        worlds.close()
    easier = SETTINGS[LAKE].training_levels["min_solution_length"]
    assert splits == [("train", easier)] * 4 + [("train", None), ("val", None)]


def options(out, **kwargs):
    short = {"world": LAKE, "timesteps": 768, "num_envs": 4, "num_val_episodes": 8, "num_validations": 2}
    return Sb3Options(out=out, **{**short, **kwargs})


def worse_each_time(monkeypatch):
    """Lets every validation count as worse than the one before."""
    own = training._Keeper._played
    left = [5, 4, 3, 2, 1, 0]
    monkeypatch.setattr(
        training._Keeper,
        "_played",
        lambda self, agent: dataclasses.replace(own(self, agent), num_successes=left.pop(0)),
    )


@pytest.mark.soak
def test_the_best_policy_is_kept_and_not_the_last(tmp_path, monkeypatch):
    worse_each_time(monkeypatch)
    seen = []

    def note(validation):
        seen.append(weights(tmp_path / "out"))

    result = training.train(options(tmp_path / "out").plan(), note)
    assert result.best.num_successes == 5
    assert result.best == result.validations[0]
    assert len(seen) == 2 and len(set(seen)) == 1


def test_ctrl_c_leaves_the_best_so_far(tmp_path, monkeypatch, capsys):
    own = training.train

    def interrupted(plan, on_validation):
        def stop(validation):
            on_validation(validation)
            raise KeyboardInterrupt

        return own(plan, stop)

    monkeypatch.setattr(training, "train", interrupted)
    assert main(["sb3", LAKE, "--out", str(tmp_path / "out"), *SHORT]) == 130
    assert "The best policy so far" in capsys.readouterr().err
    assert make_agent(f"sb3:{tmp_path / 'out'}")


@pytest.mark.soak
def test_a_board_notices_that_a_policy_was_trained_anew(policy, tmp_path, capsys):
    directory = tmp_path / "policy"
    play = ["run", "--agent", f"sb3:{directory}", "--world", LAKE, "--episodes", "1", "--no-references"]
    play += ["--out", str(tmp_path / "board")]
    trained(directory)
    assert main(play) == 0
    assert main(play) == 0
    for file in directory.iterdir():
        file.unlink()
    trained(directory, "--seed", "1")
    capsys.readouterr()
    assert main(play) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert f"has another sb3:{directory}" in told
    assert "it has changed since" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["VLM/FrozenLak-v0"], "Unknown env 'VLM/FrozenLak-v0'. Did you mean 'VLM/FrozenLake-v0'?"),
        ([f"{LAKE}:sise=5"], "no argument 'sise'"),
        (["VLM/SVG-v0"], "VLM/SVG-v0 lists no named actions"),
        (["VLM/ZoomQA-v0"], "VLM/ZoomQA-v0 lists no named actions"),
        ([LAKE, "--downscale", "5"], "downscale must divide the picture's sides, 112 x 112 pixels"),
        ([LAKE, "--cell-px", "6"], "--cell-px must divide the sides of what is seen, 28 x 34 pixels"),
        ([LAKE, "--cell-px", "0"], "Pictures of 28 x 36 pixels are too small for a network without cells"),
        ([LAKE, "--actions-per-response", "4"], "--actions-per-response must be from 1 to 3"),
        ([LAKE, "--timesteps", "0"], "timesteps must be at least 1; got 0"),
        ([LAKE, "--num-val-episodes", "0"], "--num-val-episodes must be at least 1; got 0"),
        ([LAKE, "--seed", "-1"], "--seed must be at least 0; got -1"),
    ],
)
def test_mistakes_are_told_in_one_line_and_leave_nothing(words, said, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["sb3", *words, "--out", str(out)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert said in told
    assert len(told.splitlines()) == 1
    assert not out.exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["sb3", LAKE, "--out", str(tmp_path)]) == 2
    assert "holds something already. Name another folder with --out." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_missing_extra_is_told_with_its_remedy(tmp_path, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "stable_baselines3" else find(name, *rest)
    )
    assert main(["sb3", LAKE, "--out", str(tmp_path / "out")]) == 2
    assert "stable_baselines3, which is not installed. Run: pip install -e '.[sb3]'" in capsys.readouterr().err


def test_nothing_of_the_extra_is_needed_to_list_the_commands():
    code = "import sys, benchmarks.__main__; print({'torch', 'stable_baselines3'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="minibatch_size must not leave one of 65 choices"):
        PPOSettings(num_envs=13, num_steps=5, minibatch_size=64)
    with pytest.raises(ConfigError, match="learning_rate must be above 0"):
        PPOSettings(learning_rate=0)


def test_a_checkpoints_identity_is_of_its_weights(tiny_directory, tmp_path):
    """What boards said of `hf:DIR` before agents had identities of their own."""
    kept = (".safetensors", ".bin", ".json", ".jinja", ".txt", ".model")
    files = {path.name: path for path in tiny_directory.iterdir() if path.suffix in kept}
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + hashlib.sha256(files[name].read_bytes()).digest())
    (one,) = contestants([f"hf:{tiny_directory}"], references=False)
    assert one.identity == {"name": "hf", "settings": {}, "weights": digest.hexdigest()}
    kinds = [f"{kind}:{tiny_directory}" for kind in ("hf", "hf-told", "hf-blind")]
    names = [each.identity["name"] for each in contestants(kinds, references=False)]
    assert names == ["hf", "hf-told", "hf-blind"], "the same weights, told or blinded, are another contestant"
    moved = shutil.copytree(tiny_directory, tmp_path / "moved")
    (two,) = contestants([f"hf:{moved}"], references=False)
    assert two.digest == one.digest
    (moved / "model.safetensors").write_bytes((moved / "model.safetensors").read_bytes()[:-1] + b"\x01")
    assert contestants([f"hf:{tiny_directory}"], references=False)[0].digest == one.digest


def test_whole_rollouts_are_what_progress_counts_to():
    assert PPOSettings(timesteps=300, num_envs=64, num_steps=96).num_collected == 6_144
    assert PPOSettings(timesteps=768, num_envs=4, num_steps=96).num_collected == 768
