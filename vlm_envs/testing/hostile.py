"""Responses in a world's own format with text in them that its author may not have thought of."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from vlm_envs.errors import LevelError, WorldContractError
from vlm_envs.responses.parsing import MAX_RESPONSE_CHARS, READINGS
from vlm_envs.testing.world_under_test import TOLERANCE, AnyWorld, WorldUnderTest, described, first_seed, require
from vlm_envs.trajectory import Observation

HOSTILE_NUMBERS = ("abc", "-1", "99999999999", "1e400", "0.5", "²", "9" * 5_000, "")
"""Texts in place of a number. Python's `int` takes no more than 4,300 digits, and "²" is a digit for `str.isdigit`."""

HOSTILE_BODIES = (
    *HOSTILE_NUMBERS,
    *("nan", "None", "0x10", "٣", "\x00", "\ud800", "\\", "%s{0}", ",", ";", "()", "[]", "{}", '"', "'"),
    *('{"name": null}', '{"name": "abc", "arguments": {"abc": -1}}', "<svg", "a b c d e f g h"),
)
"""Texts in place of an action."""

_LONG = ("x", "9", "[", '{"a":', " ,")
"""Pieces that are repeated to the longest response that is read."""

_REMARK = "\nThat is all."
_MAX_SHOWN_CHARS = 60


def hostile_answers_are_data(under_test: WorldUnderTest) -> None:
    """No text in place of an action raises, in either reading; what is not an action is explained and moves nothing."""
    for reading in READINGS:
        world = under_test.make(reading=reading)
        has_later = world.response_format.later is not None and world.max_turns > 1
        for num_turns_before in range(2 if has_later else 1):
            info = _info_at(world, num_turns_before)
            for shown, response in [*hostile_responses(world)]:
                said = response if reading == "strict" else response + _REMARK  # which only lenient reading ignores
                info, is_over = _answered(world, said, f"the response {shown}", info)
                if is_over or has_later:
                    info = _info_at(world, num_turns_before)
        world.close()


def _info_at(world: AnyWorld, num_turns_before: int) -> dict[str, Any]:
    """Resets the world, lets turns pass, and returns the last `info`."""
    _, info = world.reset(seed=first_seed(world))
    for _ in range(num_turns_before):
        *_, info = world.step("")
    return info


def _answered(world: AnyWorld, response: str, where: str, before: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns `info` after a response that must be data, and whether the episode is over."""
    try:
        observation, reward, terminated, truncated, info = world.step(response)
    except (Exception, SystemExit) as error:
        raise WorldContractError(
            f"{where} raises {described(error)}. A grammar's parse must return None for text that is not an action, "
            "and step must accept every action that parse returns"
        ) from error
    require(observation in world.observation_space, f"{where}: not in {world.observation_space}")
    require(math.isfinite(reward), f"{where}: earns {reward}, which is not finite")
    if info["parse_error"] is not None:
        require_explained(world, where, before, observation, reward, info)
    return info, terminated or truncated


def require_explained(
    world: AnyWorld, where: str, before: dict[str, Any], observation: Observation, reward: float, info: dict[str, Any]
) -> None:
    """Raises `WorldContractError` unless a bad response was explained, not paid for its format, and moved nothing."""
    error, noop = info["parse_error"], sum(world.task.noop_terms().values())
    require(not info["format_correct"], f"{where}: counts as correct format")
    require("format" not in info["reward_terms"], f"{where}: is paid the format reward")
    require(bool(error), f"{where}: info['parse_error'] does not explain it")
    require(error in observation["text"], f"{where}: the next observation does not explain it")
    if info["actions_read"]:
        return
    require(info["state_hash"] == before["state_hash"], f"{where}: changes the state")
    require(abs(reward - noop) < TOLERANCE, f"{where}: earns {reward}, a no-op earns {noop}")


def hostile_responses(world: AnyWorld) -> Iterator[tuple[str, str]]:
    """Yields responses in the format that the world expects now, and how messages show each.

    Each holds one hostile text, in one of the sections that can hold actions: a text from above, or a random action
    with its numbers replaced.
    """
    turn_format = world.turn_format
    thoughts = {name: "" for name in turn_format.sections if name not in turn_format.endings}
    action = world.task.sample_action(world.state, np.random.default_rng(0))
    written = world.task.action_sections((action,), thoughts)
    for section in turn_format.action_sections:
        room = MAX_RESPONSE_CHARS - len(turn_format.write(thoughts | {section: ""})) - len(_REMARK)
        longest = (piece * (room // len(piece)) for piece in _LONG)
        for body in (*HOSTILE_BODIES, *_with_other_numbers(written.get(section, "")), *longest):
            shown = body if len(body) <= _MAX_SHOWN_CHARS else f"{body[:_MAX_SHOWN_CHARS]}…"
            yield repr(f"<{section}>{shown}</{section}>"), turn_format.write(thoughts | {section: body})


def require_level_errors(world: AnyWorld) -> None:
    """Raises `WorldContractError` unless hostile text in place of a level loads or raises `LevelError`."""
    world.reset(seed=first_seed(world))
    for level in (*HOSTILE_BODIES, *_with_other_numbers(world.dynamics.dump(world.state))):
        try:
            world.reset(options={"level": level})
        except LevelError:
            continue
        except (Exception, SystemExit) as error:
            raise WorldContractError(
                f"the level {level[:_MAX_SHOWN_CHARS]!r} raises {described(error)}. load must raise LevelError for "
                "text that is not a level"
            ) from error


def _with_other_numbers(text: str) -> Iterator[str]:
    """Yields a text with each number replaced; nothing if it holds none."""
    number = re.compile(r"-?\d+(?:\.\d+)?")
    if number.search(text):
        yield from (number.sub(other, text) for other in HOSTILE_NUMBERS)
