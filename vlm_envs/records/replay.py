"""Replay: a recorded episode is played again from its world, seed and responses, and compared bit by bit."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs.records.json_lines import MissingRunDataError, RunDataError, to_json
from vlm_envs.records.run_data import OF_PROVIDER, TurnNotes, episode_record
from vlm_envs.trajectory import Observation, Trajectory, Turn
from vlm_envs.world import OPTIMAL_ACTIONS_LEFT

_OF_THE_AGENT = (
    *("response", "stop_reason", "credit", "scores", "shaping", "thoughts", "usage", "model"),
    *OF_PROVIDER,
)
"""What a world does not decide."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first thing in which a replay is not what was recorded.

    Attributes:
        turn: Counted from 1; the number of turns plus 1 for what is shown at the end.
        what: The field, such as `"reward"` or `"image 1"`.
        recorded: What stands in the record, for people.
        replayed: What came now, for people.
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
    """Plays a recorded episode again.

    Args:
        record: The episode, as `episode_record` returns it.
        world: The world it was played in, of equal settings.
        image_of: From a picture's name to its PNG file, as `RunReader.image`.
        restore: Keeps an image that is missing, from its name and the image drawn now, and returns its PNG file, as
            `ImageStore.restore`. With None, an episode whose images are missing differs.

    Returns:
        The first difference in an observation, a reward or one of its parts, a hash of a state, or an end; None if
        everything is the same to the bit. A record that lacks something, or names a picture that is not there,
        differs too.
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
    """Yields each difference in the order of the episode."""
    drawn: list[npt.NDArray[np.uint8]] = []

    def keep(image: npt.NDArray[np.uint8]) -> str:
        drawn.append(image)
        return str(len(drawn) - 1)

    played = play_again(record, world)
    replayed = to_json(episode_record(played, [TurnNotes()] * len(played.turns), keep))
    pairs = list(zip([*record["turns"], record["final"]], [*replayed["turns"], replayed["final"]], strict=False))
    for number, (old, new) in enumerate(pairs, start=1):
        for name in new:
            if name not in (*_OF_THE_AGENT, "images") and old[name] != new[name]:
                yield _difference(number, name, old[name], new[name])
        images = [drawn[int(position)] for position in new["images"]]
        yield from _pictures(number, old["images"], images, image_of, restore)
    if len(record["turns"]) != len(played.turns) or not (played.turns[-1].terminated or played.turns[-1].truncated):
        yield _difference(len(played.turns), "the number of turns", len(record["turns"]), len(played.turns))
    for name in ("start_state_hash", "success", "total_reward", "metrics"):
        if record[name] != replayed[name]:
            yield _difference(1 if name == "start_state_hash" else len(pairs), name, record[name], replayed[name])
    if "cluster" in record and record["cluster"] != replayed.get("cluster"):
        yield _difference(1, "cluster", record["cluster"], replayed.get("cluster"))
    if record.get("reading") != replayed.get("reading"):
        yield _difference(1, "reading", record.get("reading"), replayed.get("reading"))


def play_again(record: Mapping[str, Any], world: gym.Env[Observation, str]) -> Trajectory:
    """Returns the episode that a record's responses lead to now, as far as the world goes on.

    Responses are read with the recorded `reading`, or strictly if there is none, not with the world's own.

    Args:
        record: The episode, as `episode_record` returns it.
        world: The world it was played in, of equal settings.
    """
    with _read_as_recorded(record, world):
        return _played_again(record, world)


@contextmanager
def _read_as_recorded(record: Mapping[str, Any], world: gym.Env[Observation, str]) -> Iterator[None]:
    """Sets a world's `reading` to the recorded one within the block; does nothing to environments without it."""
    unwrapped: Any = world.unwrapped
    own = getattr(unwrapped, "reading", None)
    if own is None:
        yield
        return
    unwrapped.reading = record.get("reading", "strict")
    try:
        yield
    finally:
        unwrapped.reading = own


def _played_again(record: Mapping[str, Any], world: gym.Env[Observation, str]) -> Trajectory:
    level = record.get("level", "")
    options: dict[str, Any] = {"level": level} if level else {}
    if _has_counts(record):
        options["optimal_actions"] = True
    observation, seen = world.reset(seed=record["seed"], options=options or None)
    start_state_hash, turns = seen["state_hash"], []
    for said in record["turns"]:
        shown = observation
        observation, reward, terminated, truncated, info = world.step(said["response"])
        truncated = truncated or bool(said.get("context_full"))  # by the agent, which the world knows nothing of
        turns.append(
            Turn(
                observation=shown,
                response_text=said["response"],
                stop_reason=said["stop_reason"],
                reward=float(reward),
                reward_terms=info["reward_terms"],
                terminated=terminated,
                truncated=truncated,
                info=info,
                state=seen["state"],
                state_text=seen["state_text"],
                seen_sections=seen["seen_sections"],
                optimal_actions_left=seen.get(OPTIMAL_ACTIONS_LEFT),
            )
        )
        seen = info
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


def _has_counts(record: Mapping[str, Any]) -> bool:
    """Returns whether a world was asked how many actions an optimal plan still needs, and it was known."""
    names = ("optimal_actions_before", OPTIMAL_ACTIONS_LEFT)
    return any(turn.get(name) is not None for turn in record["turns"] for name in names)


def _pictures(
    number: int,
    names: Sequence[str],
    images: Sequence[npt.NDArray[np.uint8]],
    image_of: Callable[[str], bytes],
    restore: Callable[[str, npt.NDArray[np.uint8]], bytes] | None,
) -> Iterator[Difference]:
    """Yields which recorded pictures are not the ones that are drawn now."""
    if len(names) != len(images):
        yield _difference(number, "the number of pictures", len(names), len(images))
    for position, (name, image) in enumerate(zip(names, images, strict=False), start=1):
        try:
            png = _png_of(name, image, image_of, restore)
            recorded = _pixels(png)
        except (RunDataError, OSError, ValueError, SyntaxError) as error:
            yield Difference(turn=number, what=f"picture {position}", recorded=f"lost ({error})", replayed="drawn")
            continue
        if hashlib.sha256(png).hexdigest() != name:
            yield Difference(turn=number, what=f"picture {position}", recorded="another file", replayed="drawn")
        elif recorded.shape != image.shape:
            yield _difference(number, f"the shape of picture {position}", recorded.shape, image.shape)
        elif num_different := int((recorded != image).any(axis=-1).sum()):
            what = f"{num_different} pixels of picture {position}"
            yield Difference(turn=number, what=what, recorded="others", replayed="drawn anew")


def _png_of(
    name: str,
    image: npt.NDArray[np.uint8],
    image_of: Callable[[str], bytes],
    restore: Callable[[str, npt.NDArray[np.uint8]], bytes] | None,
) -> bytes:
    try:
        return image_of(name)
    except MissingRunDataError:
        if restore is None:
            raise
        return restore(name, image)


def _pixels(png: bytes) -> npt.NDArray[np.uint8]:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"), np.uint8)


def _difference(turn: int, what: str, recorded: object, replayed: object) -> Difference:
    return Difference(turn=turn, what=what, recorded=_short(recorded), replayed=_short(replayed))


def _short(value: object, max_chars: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
