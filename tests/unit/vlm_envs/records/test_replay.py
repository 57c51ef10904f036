"""A replay finds every byte of a recorded episode that a world would not have written."""

import copy
import json

import pytest

from agents.oracle import OracleAgent, RandomAgent
from agents.rollout import rollout
from vlm_envs.records.replay import play_again, replay
from vlm_envs.records.report_episodes import shown_episode
from vlm_envs.records.run_data import RunReader, RunWriter
from vlm_envs.registration import make
from vlm_envs.vector.make_vec import world_vector

FROZEN_LAKE = "VLM/FrozenLake-v0"


def recorded(directory, env_id, agent, seed, *, counts=True, **kwargs):
    writer = RunWriter(directory)
    writer.config({})
    with world_vector(env_id, **kwargs) as worlds:
        worlds.counts_optimal_actions = counts
        writer.trajectories("played", rollout(agent, worlds, [seed], env_ids=[env_id]))
    reader = RunReader(directory)
    return reader.trajectories("played")[0], reader


@pytest.fixture
def episode(tmp_path):
    return recorded(tmp_path, FROZEN_LAKE, OracleAgent(), 3)


@pytest.fixture
def lake():
    return make(FROZEN_LAKE).unwrapped


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        (FROZEN_LAKE, {"is_slippery": True}),
        ("VLM/Sokoban-v0", {"obs_mode": "image+text", "representation": "structured"}),
        ("VLM/ZoomQA-v0", {}),
        (FROZEN_LAKE, {"system_prompt": True, "format_reminder": True}),
    ],
)
def test_what_was_recorded_replays_to_the_bit(env_id, kwargs, tmp_path):
    for seed, agent in enumerate((OracleAgent(), RandomAgent(seed=1))):
        record, reader = recorded(tmp_path / str(seed), env_id, agent, seed, **kwargs)
        assert replay(record, make(env_id, **kwargs).unwrapped, reader.image) is None


def test_without_counts_an_episode_replays_to_the_bit_too(tmp_path):
    record, reader = recorded(tmp_path, FROZEN_LAKE, OracleAgent(), 3, counts=False)
    assert {turn["optimal_actions_before"] for turn in record["turns"]} == {None}
    assert replay(record, make(FROZEN_LAKE).unwrapped, reader.image) is None


def test_an_episode_whose_terms_were_recorded_by_name_replays_to_the_bit(episode, lake):
    record, reader = episode
    turns = [
        {**turn, "reward_terms": {term["name"]: term["value"] for term in turn["reward_terms"]}, "shaping": {"x": 1.0}}
        for turn in record["turns"]
    ]
    assert replay({**record, "turns": turns}, lake, reader.image) is None
    turns[-1]["reward_terms"]["success"] += 1.0
    assert "reward_terms" in str(replay({**record, "turns": turns}, lake, reader.image))


def test_turns_that_are_played_again_know_what_there_was_to_be_seen(episode, lake):
    played = play_again(episode[0], lake)
    assert [turn.seen_sections for turn in played.turns] == [{"observation": turn.state_text} for turn in played.turns]


def test_a_system_message_is_recorded_where_it_was_shown_and_in_the_report(tmp_path):
    record, _ = recorded(tmp_path, FROZEN_LAKE, OracleAgent(), 2, system_prompt=True)
    system = make(FROZEN_LAKE, system_prompt=True).reset(seed=2)[0]["system"]
    moments = [*record["turns"], record["final"]]
    assert len(moments) > 2 and [each.get("system") for each in moments] == [system, *[None] * (len(moments) - 1)]
    shown = shown_episode("key", record)["turns"]
    assert shown[0]["system"] == system and "system" not in shown[1]
    without, _ = recorded(tmp_path / "plain", FROZEN_LAKE, OracleAgent(), 2)
    assert replay(record, make(FROZEN_LAKE).unwrapped, lambda name: b"") is not None
    assert "system" not in without["turns"][0]


def leaves(value, path=()):
    """Yields the place of every scalar."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path
        return
    for key, item in items:
        yield from leaves(item, (*path, key))


OF_NO_WORLD = {
    *("env_id", "world", "policy_version"),
    *("stop_reason", "credit", "scores", "thoughts", "usage", "model", "agent_error"),
}


def another(value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    return value + (1 if isinstance(value, int) else 1e-9) if isinstance(value, int | float) else "x"


def test_a_change_anywhere_is_found_in_its_turn(episode, lake):
    record, reader = episode
    record = json.loads(json.dumps(record))
    places = [path for path in leaves(record) if not OF_NO_WORLD & set(path)]
    assert len(places) > 40
    for path in places:
        changed = copy.deepcopy(record)
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = another(inner[path[-1]])
        difference = replay(changed, lake, reader.image)
        assert difference is not None, path
        if path[0] == "turns" and path[2] != "response":
            assert difference.turn == path[1] + 1, path


def test_a_picture_that_was_changed_or_lost_is_found(episode, lake, tmp_path):
    record, reader = episode
    name = record["turns"][1]["images"][0]
    (path,) = tmp_path.rglob(f"{name}.png")
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert "image 1" in str(replay(record, lake, reader.image)), place
    path.unlink()
    assert "lost" in str(replay(record, lake, reader.image))


@pytest.mark.parametrize("broken", [{"seed": "x"}, {"turns": []}, {"turns": [7]}, {"final": None}, {"success": 7}])
def test_a_broken_record_differs_and_raises_nothing(broken, episode, lake):
    record, reader = episode
    assert replay(record | broken, lake, reader.image) is not None


def test_turns_after_the_end_and_turns_that_are_missing(episode, lake):
    record, reader = episode
    longer = {**record, "turns": [*record["turns"], record["turns"][-1]]}
    shorter = {**record, "turns": record["turns"][:-1]}
    for changed in (longer, shorter):
        assert replay(changed, lake, reader.image) is not None
