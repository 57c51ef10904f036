"""`sb3:DIR` does what its policy does in stable-baselines3 itself, and only in the world it was trained for."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from stable_baselines3 import PPO

from agents.registry import make_agent
from agents.sb3_agent import MODEL, RECORD
from tests.unit.agents.sb3.policies import LAKE, save_policy
from tests.unit.episodes import play
from vlm_envs import make
from vlm_envs.discrete_world import DiscreteWorld
from vlm_envs.errors import ConfigError, EngineUnavailableError

DEFAULTS = {"prompt_format": None, "representation": None, "max_turns": (3,)}


def acted(agent, seeds=range(6), **kwargs):
    episodes = play(agent, seeds, **{**DEFAULTS, **kwargs})
    return [[turn.info["actions"] for turn in episode.turns] for episode in episodes]


@pytest.mark.parametrize("actions_per_response", [1, 3])
def test_greedy_play_is_that_of_stable_baselines3(tmp_path, actions_per_response):
    directory = save_policy(tmp_path / "policy", LAKE, actions_per_response=actions_per_response)
    world = DiscreteWorld(make(LAKE), actions_per_response=actions_per_response, downscale=4, block_px=7)
    model = PPO.load(directory / MODEL, device="cpu")
    expected = []
    for seed in range(6):
        picture, _ = world.reset(seed=seed)
        expected.append([])
        over = False
        while not over:
            action, _ = model.predict(picture, deterministic=True)
            picture, _, terminated, truncated, info = world.step(action)
            over = terminated or truncated
            if info["turn"] > len(expected[-1]):
                expected[-1].append(info["actions"])
    assert acted(make_agent(f"sb3:{directory}")) == expected
    assert len({str(each) for each in expected}) > 1, "a policy that does not look would pass"


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"env_id": "VLM/Sokoban-v0"}, "trained for .*VLM/FrozenLake-v0.*; got .*VLM/Sokoban-v0"),
        ({"size": 5}, r"\[112, 112, 3\].*; got .*\[140, 140, 3\]"),
        ({"max_actions_per_turn": 2, "max_turns": (5,)}, "needs max_actions_per_turn=3"),
        ({"obs_mode": "text"}, "VLM/FrozenLake-v0 shows none with obs_mode='text'"),
    ],
)
def test_another_world_is_refused_in_one_line(policy_directory, kwargs, said):
    with pytest.raises(ConfigError, match=said) as caught:
        acted(make_agent(f"sb3:{policy_directory}"), **kwargs)
    assert "\n" not in str(caught.value)


def test_other_actions_are_refused(policy_directory, tmp_path):
    directory = shutil.copytree(policy_directory, tmp_path / "policy")
    record = json.loads((directory / RECORD).read_text())
    record["trained_for"]["action_names"][0] = "Jump"
    (directory / RECORD).write_text(json.dumps(record))
    with pytest.raises(ConfigError, match=r"'Jump', 'Down', .*; got .*'Up', 'Down', "):
        acted(make_agent(f"sb3:{directory}"))


def test_easier_and_harder_levels_of_its_world_are_played(policy_directory):
    assert acted(make_agent(f"sb3:{policy_directory}"), min_solution_length=1, is_slippery=True)


def test_an_identity_is_of_the_weights_and_not_of_the_place(policy_directory, tmp_path):
    identity = make_agent(f"sb3:{policy_directory}").identity
    moved = shutil.copytree(policy_directory, tmp_path / "moved")
    assert make_agent(f"sb3:{moved}").identity == identity
    assert json.loads(json.dumps(identity)) == identity
    other = save_policy(tmp_path / "other", LAKE, seed=1)
    assert make_agent(f"sb3:{other}").identity != identity
    easier = save_policy(tmp_path / "easier", LAKE, max_turns=5)
    assert make_agent(f"sb3:{easier}").identity["weights"] == identity["weights"]


def broken(directory, name, content):
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "kind", "said"),
    [
        (
            MODEL,
            None,
            FileNotFoundError,
            "No policy at .*: expected model.zip and .*Train one: python",
        ),
        (RECORD, None, FileNotFoundError, "No policy at .*: expected model.zip and trained.json there"),
        (RECORD, b"{", ValueError, "holds no PPO policy"),
        (RECORD, b"[]", ValueError, "holds no PPO policy"),
        (RECORD, b'{"trained_for": {"env_id": "VLM/X-v0"}}', ValueError, "holds no PPO policy.*'seeing'"),
        (MODEL, b"", ValueError, "holds no PPO policy"),
        (MODEL, b"PK\x03\x04 half of it", ValueError, "holds no PPO policy"),
    ],
)
def test_a_broken_folder_is_told_in_one_line(policy_directory, tmp_path, name, content, kind, said):
    directory = shutil.copytree(policy_directory, tmp_path / "policy")
    broken(directory, name, content)
    with pytest.raises(kind, match=said) as caught:
        make_agent(f"sb3:{directory}")
    assert "\n" not in str(caught.value)


def test_a_name_without_a_folder_says_how_it_is_asked_for():
    with pytest.raises(ConfigError, match="sb3:DIR"):
        make_agent("sb3")
    with pytest.raises(FileNotFoundError, match="No policy at nowhere"):
        make_agent("sb3:nowhere")


def test_a_missing_extra_is_told_with_its_remedy(policy_directory, monkeypatch):
    monkeypatch.delitem(sys.modules, "agents.sb3_agent", raising=False)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(EngineUnavailableError, match=r"'sb3' needs the package stable_baselines3.*'\.\[sb3\]'"):
        make_agent(f"sb3:{policy_directory}")
