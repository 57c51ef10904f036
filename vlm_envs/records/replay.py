"""Replay: a recorded episode is played again from its world, seed, and responses, and compared bit by bit."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs.records.json_lines import MissingRunDataError, RunDataError, to_json
from vlm_envs.records.run_data import OF_PROVIDER, TurnNotes, episode_record, recorded_terms
from vlm_envs.trajectory import Observation, StopReason, Trajectory, Turn, world_terms
from vlm_envs.world import OPTIMAL_ACTIONS_LEFT

_OF_THE_AGENT = (
    *("response", "stop_reason", "credit", "scores", "thoughts", "usage", "model"),
    *OF_PROVIDER,
)
"""Fields that a world does not determine."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first difference between a replay and its record.

    Attributes:
        turn: Counted from 1; for the final observation, the number of turns plus 1.
        what: The field, such as `"reward"` or `"image 1"`.
        recorded: The recorded value, for people.
        replayed: The replayed value, for people.
    """

    turn: int
    what: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return f"turn {self.turn}: {self.what} is {self.replayed}, recorded was {self.recorded}"


def replay(
    record: Mapping[str, Any],
    world: gym.Env[Observation, str],
    image_of: Callable[[str], bytes],
    restore: Callable[[str, npt.NDArray[np.uint8]], bytes] | None = None,
) -> Difference | None:
    """Replays a recorded episode.

    Args:
        record: The episode, as `episode_record` returns it.
        world: The world it was played in, with the same settings.
        image_of: Returns the PNG file of an image by name, as `RunReader.image` does.
        restore: Stores a missing image, given its name and the image drawn now, and returns its PNG file, as
            `ImageStore.restore` does. If None, an episode with missing images differs.

    Returns:
        The first difference in an observation, a reward or one of its terms, a hash of a state, or a flag of
        the end; None if everything is identical to the bit. A record that lacks data, or names an image that
        does not exist, also differs.
    """
    try:
        return next(_differences(record, world, image_of, restore), None)
    except (LookupError, TypeError, AttributeError, ValueError, gym.error.Error) as error:
        return Difference(turn=0, what="the record", recorded=f"broken ({error!r})", replayed="played")


def _differences(
    record: Mapping[str, Any],
    world: gym.Env[Observation, str],
    image_of: Callable[[str], bytes],
    restore: Callable[[str, npt.NDArray[np.uint8]], bytes] | None,
) -> Iterator[Difference]:
    """Yields all differences in the order of the episode."""
    drawn: list[npt.NDArray[np.uint8]] = []

    def keep(image: npt.NDArray[np.uint8]) -> str:
        drawn.append(image)
        return str(len(drawn) - 1)

    played = play_again(record, world)
    replayed = to_json(episode_record(played, [TurnNotes()] * len(played.turns), keep))
    pairs = list(zip([*record["turns"], record["final"]], [*replayed["turns"], replayed["final"]], strict=False))
    for number, (old, new) in enumerate(pairs, start=1):
        for name in new:
            if name not in (*_OF_THE_AGENT, "images", "reward_terms") and old[name] != new[name]:
                yield _difference(number, name, old[name], new[name])
        if (recorded := _world_terms(old)) != (paid := _world_terms(new)):
            yield _difference(number, "reward_terms", recorded, paid)
        images = [drawn[int(position)] for position in new["images"]]
        yield from _pictures(number, old["images"], images, image_of, restore)
    if len(record["turns"]) != len(played.turns) or not (played.turns[-1].terminated or played.turns[-1].truncated):
        yield _difference(len(played.turns), "the number of turns", len(record["turns"]), len(played.turns))
    in_turn = {"start_state_hash": 1, "success": len(pairs), "total_reward": len(pairs), "metrics": len(pairs)}
    in_turn |= {"reading": 1} | ({"cluster": 1} if "cluster" in record else {})
    for name, number in in_turn.items():
        if record.get(name) != replayed.get(name):
            yield _difference(number, name, record.get(name), replayed.get(name))


def _world_terms(turn: Mapping[str, Any]) -> Any:
    """Returns the world's reward terms of a recorded turn; none for the final observation."""
    return to_json([term for term in recorded_terms(turn) if term.is_world])


def play_again(record: Mapping[str, Any], world: gym.Env[Observation, str]) -> Trajectory:
    """Returns the episode that a record's responses lead to now, as far as the world continues.

    Responses are read with the recorded `reading`, or strictly if there is none, not with the world's own.

    Args:
        record: The episode, as `episode_record` returns it.
        world: The world it was played in, with the same settings.
    """
    unwrapped: Any = world.unwrapped
    own = getattr(unwrapped, "reading", None)  # environments that are not worlds have none
    try:
        if own is not None:
            unwrapped.reading = record.get("reading", "strict")
        return _played_again(record, world)
    finally:
        if own is not None:
            unwrapped.reading = own


def _played_again(record: Mapping[str, Any], world: gym.Env[Observation, str]) -> Trajectory:
    level = record.get("level", "")
    options: dict[str, Any] = {"level": level} if level else {}
    counts = ("optimal_actions_before", OPTIMAL_ACTIONS_LEFT)
    if any(turn.get(name) is not None for turn in record["turns"] for name in counts):  # it was requested and known
        options["optimal_actions"] = True
    observation, seen = world.reset(seed=record["seed"], options=options or None)
    start_state_hash, turns = seen["state_hash"], []
    for said in record["turns"]:
        shown, before = observation, seen
        observation, reward, terminated, truncated, seen = world.step(said["response"])
        truncated = truncated or bool(said.get("context_full"))  # by the agent, without the world's knowledge
        outcome = float(reward), terminated, truncated, seen
        turns.append(turn_of(shown, before, said["response"], outcome, stop_reason=said["stop_reason"]))
        if terminated or truncated:
            break
    return Trajectory(
        env_id=record["env_id"],
        world=record["world"],
        seed=record["seed"],
        level=level,
        turns=tuple(turns),
        final_observation=observation,
        start_state_hash=start_state_hash,
    )


def turn_of(
    observation: Observation,
    before: Mapping[str, Any],
    response: str,
    outcome: tuple[float, bool, bool, dict[str, Any]],
    *,
    stop_reason: StopReason = "stop",
) -> Turn:
    """Returns a turn in a world.

    Args:
        observation: Observation before the turn.
        before: The world's `info` with it.
        response: The response to it.
        outcome: Reward, `terminated`, `truncated`, and `info` of the step.
        stop_reason: Reason why the response ended.
    """
    reward, terminated, truncated, info = outcome
    return Turn(
        observation=observation,
        response_text=response,
        stop_reason=stop_reason,
        reward=reward,
        reward_terms=world_terms(info["reward_terms"]),
        terminated=terminated,
        truncated=truncated,
        info=info,
        state=before["state"],
        state_text=before["state_text"],
        seen_sections=before["seen_sections"],
        optimal_actions_left=before.get(OPTIMAL_ACTIONS_LEFT),
    )


def _pictures(
    number: int,
    names: Sequence[str],
    images: Sequence[npt.NDArray[np.uint8]],
    image_of: Callable[[str], bytes],
    restore: Callable[[str, npt.NDArray[np.uint8]], bytes] | None,
) -> Iterator[Difference]:
    """Yields differences between recorded images and those drawn now."""
    if len(names) != len(images):
        yield _difference(number, "the number of images", len(names), len(images))
    for position, (name, image) in enumerate(zip(names, images, strict=False), start=1):
        what = f"image {position}"
        try:
            try:
                png = image_of(name)
            except MissingRunDataError:
                if restore is None:
                    raise
                png = restore(name, image)
            recorded = _pixels(png)
        except (RunDataError, OSError, ValueError, SyntaxError) as error:
            yield Difference(turn=number, what=what, recorded=f"lost ({error})", replayed="drawn")
            continue
        if hashlib.sha256(png).hexdigest() != name:
            yield Difference(turn=number, what=what, recorded="another file", replayed="drawn")
        elif recorded.shape != image.shape:
            yield _difference(number, f"the shape of {what}", recorded.shape, image.shape)
        elif num_different := int((recorded != image).any(axis=-1).sum()):
            what = f"{num_different} pixels of {what}"
            yield Difference(turn=number, what=what, recorded="others", replayed="drawn anew")


def _pixels(png: bytes) -> npt.NDArray[np.uint8]:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"), np.uint8)


def _difference(turn: int, what: str, recorded: object, replayed: object) -> Difference:
    return Difference(turn=turn, what=what, recorded=_short(recorded), replayed=_short(replayed))


def _short(value: object, max_chars: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
