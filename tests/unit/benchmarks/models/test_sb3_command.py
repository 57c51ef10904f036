"""`python -m benchmarks sb3` trains on training levels and makes a row."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys

import pytest
from stable_baselines3 import PPO

import vlm_envs
from agents import sb3_agent
from agents.registry import make_agent
from benchmarks.__main__ import main
from benchmarks.models import sb3_command
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.play.contestants import contestants
from tests.unit.episodes import play

LAKE = "VLM/FrozenLake-v0"
_ROLLOUT = {"num_envs": 4, "batch_size": 96}


def trained(out, *words, world=LAKE, **settings):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sb3_command._BY_WORLD, LAKE, {**sb3_command._BY_WORLD[LAKE], **_ROLLOUT, **settings})
        assert main(["sb3", world, "--out", str(out), "--timesteps", "768", *words]) == 0
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


def test_the_world_it_was_trained_for_is_saved(policy):
    """The form of policies and boards of earlier versions."""
    assert json.loads((policy / "trained.json").read_text())["trained_for"] == {
        "env_id": LAKE,
        "action_names": ["Up", "Down", "Left", "Right"],
        "picture_shape": [112, 112, 3],
        "seeing": {"num_actions": 4, "actions_per_response": 3, "downscale": 4, "block_px": 7},
        "kwargs": {},
    }


@pytest.mark.soak
def test_a_seed_gives_the_same_policy_again(policy, tmp_path):
    assert weights(trained(tmp_path / "again")) == weights(policy)
    assert weights(trained(tmp_path / "other", "--seed", "1")) != weights(policy)


@pytest.mark.soak
def test_it_learns(tmp_path):
    """One lake, one way: drawn actions find it by chance in a sixteenth of the episodes, the policy always."""
    world = f"{LAKE}:desc=('PO','_G'),max_turns=1,max_actions_per_turn=2,min_solution_length=1"
    short = {"num_envs": 16, "n_steps": 16, "batch_size": 64}
    directory = trained(tmp_path / "lake", "--timesteps", "6000", world=world, **short)
    kwargs = {**WorldSpec.parse(world).kwargs, "max_turns": (1,), "max_solution_length": None}
    episodes = play(make_agent(f"sb3:{directory}"), range(8), **kwargs)
    assert all(episode.success for episode in episodes)


def test_training_levels_are_easier_and_of_the_training_split(tmp_path, monkeypatch):
    made = []

    def spied(env_id, **kwargs):
        made.append((kwargs["split"], kwargs["min_solution_length"]))
        return vlm_envs.make(env_id, **kwargs)

    monkeypatch.setattr(sb3_agent, "make", spied)
    trained(tmp_path / "out")
    assert made == [("train", 1)] * 4


def test_ctrl_c_leaves_the_policy(tmp_path, monkeypatch):
    def interrupted(self, timesteps):
        raise KeyboardInterrupt

    monkeypatch.setattr(PPO, "learn", interrupted)
    assert main(["sb3", LAKE, "--out", str(tmp_path / "out")]) == 130
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
        ([LAKE, "--timesteps", "0"], "--timesteps must be at least 1; got 0"),
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
    assert "is not empty. Choose another directory with --out." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_missing_extra_is_told_with_its_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "agents.sb3_agent", raising=False)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    assert main(["sb3", LAKE, "--out", str(tmp_path / "out")]) == 2
    assert "stable_baselines3, which is not installed. Run: pip install -e '.[sb3]'" in capsys.readouterr().err


def test_nothing_of_the_extra_is_needed_to_list_the_commands():
    code = "import sys, benchmarks.__main__; print({'torch', 'stable_baselines3'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


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
