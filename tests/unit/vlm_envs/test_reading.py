"""Worlds with lenient reading act on responses that are not in the format, and pay for the format as before."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from agents.oracle import OracleAgent
from agents.rollout import rollout
from tests.unit.vlm_envs.corridor import CorridorWorld
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.records.replay import replay
from vlm_envs.records.run_data import RunReader, RunWriter
from vlm_envs.registration import WORLDS, arguments_of, make, require_available
from vlm_envs.responses.parsing import READINGS
from vlm_envs.testing.checks import bad_responses_are_data
from vlm_envs.testing.contract import check_world
from vlm_envs.testing.world_under_test import WorldUnderTest
from vlm_envs.vector.make_vec import world_vector

LAKE = "VLM/FrozenLake-v0"
FORMATS = ("free_think", "no_think", "grounding_worldmodeling")
WRAPPINGS = (
    "```\n{}\n```",
    "Sure! Here it is:\n{}",
    "{}\nLet me know!",
    "{}<|im_end|>",
    "I have thought about it.</think>\n{}",
    "<think></think>\n{}",
)


def made(env_id: str, **kwargs: Any) -> Any:
    try:
        require_available(env_id)
    except EngineUnavailableError as error:
        pytest.skip(str(error))
    return make(env_id, **kwargs).unwrapped


@pytest.mark.parametrize("prompt_format", FORMATS)
@pytest.mark.parametrize(
    "env_id", ["VLM/FrozenLake-v0", "VLM/Sokoban-v0", "VLM/Navigation-v0", "VLM/PrimitiveSkill-v0", "VLM/SVG-v0"]
)
@pytest.mark.sample(5)
def test_wrapped_responses_lead_where_bare_ones_do_but_for_the_format_reward(env_id: str, prompt_format: str) -> None:
    with closing(made(env_id, prompt_format=prompt_format, reading="lenient")) as world:
        world.reset(seed=0)
        plan = world.dynamics.plan(world.state)[: world.max_actions_per_turn]
        bare = world.write_response(plan)
        *_, expected = world.step(bare)
        assert expected["format_correct"] and expected["actions"]
        for wrapping in WRAPPINGS:
            world.reset(seed=0)
            *_, info = world.step(wrapping.format(bare))
            assert info["state_hash"] == expected["state_hash"], wrapping
            assert info["actions_read"] and not info["format_correct"] and info["parse_error"]
            assert "format" not in info["reward_terms"]
            assert info["sections"] == {}, "judges score turns in the format only"


@pytest.mark.parametrize(("env_id", "kwargs"), [("VLM/ZoomQA-v0", {"side_px": 600}), ("VLM/DocQA-v0", {})])
def test_a_wrapped_answer_and_a_fenced_call_are_taken(env_id: str, kwargs: dict[str, Any]) -> None:
    with closing(made(env_id, reading="lenient", **kwargs)) as world:
        for wrapping in (WRAPPINGS[0], WRAPPINGS[4]):
            world.reset(seed=1)
            call, *_, answer = world.dynamics.plan(world.state)
            fenced = f"<tool_call>```json\n{call.text}\n```</tool_call>"
            _, _, terminated, _, info = world.step(wrapping.format(fenced))
            assert info["metrics"]["successful_calls"] == 1 and not terminated, wrapping
            _, _, terminated, _, info = world.step(wrapping.format(f"<answer>**{answer.text}**</answer>"))
            assert terminated and info["success"] and not info["format_correct"], wrapping


def test_strict_reading_is_the_default_and_discards_them() -> None:
    with closing(made(LAKE, prompt_format="no_think")) as world:
        _, info = world.reset(seed=0)
        assert (info["reading"], info["actions_read"], info["unread"]) == ("strict", False, "")
        *_, info = world.step("Sure! <answer>Right</answer>")
        assert (info["actions"], info["actions_read"]) == ((), False)
        assert info["unread"] == info["parse_error"] != ""


def test_what_is_told_of_a_turn_is_what_was_done_and_what_was_wrong() -> None:
    with closing(made(LAKE, prompt_format="no_think", reading="lenient")) as world:
        world.reset(seed=0)
        observation, *_ = world.step("Sure! <answer>Right; Down</answer>")
        assert "Right" in observation["text"] and "Not in the format" in observation["text"]


@pytest.mark.parametrize("env_id", sorted(WORLDS))
def test_every_world_has_the_argument(env_id: str) -> None:
    assert arguments_of(env_id, {})["reading"] == "strict"


def test_worlds_of_ones_own_read_leniently_too() -> None:
    world = CorridorWorld(reading="lenient", prompt_format="no_think")
    world.reset(seed=0)
    action = world.task.write_action(world.dynamics.plan(world.state)[0])
    *_, info = world.step(f"Sure! <answer>**{action}**</answer>")
    assert info["actions"] == (action,)


def test_a_world_keeps_its_contract_with_lenient_reading() -> None:
    check_world(LAKE, reading="lenient")


def test_the_contract_lets_a_lenient_world_act_on_a_response_out_of_the_format() -> None:
    bad_responses_are_data(WorldUnderTest(env_id="VLM/ZoomQA-v0", kwargs={"side_px": 400, "reading": "lenient"}))


@pytest.mark.parametrize("reading", ["loose", None, 1])
def test_another_reading_is_refused(reading: Any) -> None:
    with pytest.raises(ConfigError, match="reading must be"):
        make(LAKE, reading=reading)


class Wrapped(OracleAgent):
    """An oracle that is friendly."""

    def respond(self, rows: Any, observations: Any) -> Any:
        """Returns responses that are not in the format."""
        from dataclasses import replace

        return [replace(each, text=f"Sure!\n{each.text}") for each in super().respond(rows, observations)]


def recorded(directory: Any, reading: str) -> Any:
    writer = RunWriter(directory)
    writer.config({})
    with world_vector(LAKE, reading=reading) as worlds:
        writer.trajectories("played", rollout(Wrapped(), worlds, [3], env_ids=[LAKE]))
    reader = RunReader(directory)
    return reader.trajectories("played")[0], reader


@pytest.mark.parametrize("world_reads", READINGS)
@pytest.mark.parametrize("reading", READINGS)
def test_an_episode_replays_with_the_reading_it_was_played_with(reading: str, world_reads: str, tmp_path: Any) -> None:
    record, reader = recorded(tmp_path, reading)
    assert record["success"] == (reading == "lenient")
    assert record.get("reading", "strict") == reading
    world = made(LAKE, reading=world_reads)
    assert replay(record, world, reader.image) is None
    assert world.reading == world_reads
    other = {**record, "reading": "lenient"} if reading == "strict" else {**record, "reading": "strict"}
    assert replay(other, world, reader.image) is not None


def test_a_lenient_episode_recorded_without_its_expected_observation_replays(tmp_path: Any) -> None:
    record, reader = recorded(tmp_path, "lenient")
    assert record["expects_observation"]
    earlier = {name: value for name, value in record.items() if name != "expects_observation"}
    assert replay(earlier, made(LAKE), reader.image) is None


@pytest.mark.parametrize(
    ("answer", "shown"), [("- maybe left", "'- maybe left'"), ("so " * 99, "'" + "so " * 13 + "s…'")]
)
def test_the_reason_shows_the_beginning_of_an_answer_that_could_not_be_read(answer: str, shown: str) -> None:
    with closing(made(LAKE, prompt_format="no_think", reading="lenient")) as world:
        world.reset(seed=0)
        *_, info = world.step(f"Hm. <answer>{answer}</answer>")
    assert shown in info["unread"]
