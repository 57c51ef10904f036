"""Data sets that a curation made, read back: as episodes, and as chat messages for other trainers."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from training.config.curation.curate import CURATED
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import BrokenRunDataError
from vlm_envs.records.run_data import RunReader
from vlm_envs.trajectory import Observation, Trajectory, Turn

_MAX_NAMED = 3


def curated_episodes(directory: str | Path) -> list[Trajectory]:
    """Returns the episodes of a data set, as text and pictures; broken ones are left out, named and counted.

    Raises:
        MissingRunDataError: If there is no data set.
        ConfigError: If it is empty, or nothing of it is whole.
    """
    reader = RunReader(directory)
    episodes: list[Trajectory] = []
    broken: list[str] = []
    for where, record in reader.each_trajectory(CURATED):
        try:
            if isinstance(record, BrokenRunDataError):
                raise record
            episodes.append(_episode(reader, record))
        except (LookupError, TypeError, AttributeError, ValueError, OSError, SyntaxError) as error:
            broken.append(f"{where}: {type(error).__name__} {error}")
    told = " ".join(broken[:_MAX_NAMED]) + f" And {len(broken) - _MAX_NAMED} more." * (len(broken) > _MAX_NAMED)
    if not episodes:
        reason = f"all its {len(broken)} episodes are broken. {told}" if broken else "nothing reached the threshold."
        raise ConfigError(f"The data set at {directory} is empty: {reason} Curate more, or lower it.")
    if broken:
        num_rows = len(broken) + len(episodes)
        warnings.warn(f"{len(broken)} of {num_rows} episodes of {directory} are left out. {told}", stacklevel=2)
    return episodes


def shuffled_batches(episodes: Sequence[Trajectory], batch_size: int, seed: int) -> Iterator[list[Trajectory]]:
    """Yields batches without end: every episode once, in a new order each time, before any comes again."""
    rng = np.random.default_rng(seed)
    queue: list[Trajectory] = []
    while True:
        while len(queue) < batch_size:
            queue += [episodes[index] for index in rng.permutation(len(episodes))]
        yield [queue.pop(0) for _ in range(batch_size)]


def _episode(reader: RunReader, record: Mapping[str, Any]) -> Trajectory:
    turns = tuple(
        Turn(
            observation=_observation(reader, turn),
            response_text=turn["response"],
            stop_reason="stop",
            reward=float(turn["reward"]),
            reward_terms=turn["reward_terms"],
            terminated=bool(turn["terminated"]),
            truncated=bool(turn["truncated"]),
            info={"success": bool(record["success"])},
            state=turn["state"],
        )
        for turn in record["turns"]
    )
    return Trajectory(
        env_id=record["env_id"],
        seed=record["seed"],
        turns=turns,
        final_observation=_observation(reader, record["final"]),
        start_state_hash="",
    )


def _observation(reader: RunReader, shown: Mapping[str, Any]) -> Observation:
    images = tuple(np.asarray(Image.open(io.BytesIO(reader.image(name))).convert("RGB")) for name in shown["images"])
    observation: Observation = {"text": shown["text"], "images": images}
    if "system" in shown:
        observation["system"] = shown["system"]
    return observation


def chat_messages(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a recorded episode as chat messages; pictures by their files' names within the data set."""
    messages: list[dict[str, Any]] = []
    for turn in record["turns"]:
        if "system" in turn:
            messages.append({"role": "system", "content": [{"type": "text", "text": turn["system"]}]})
        pictures = [{"type": "image", "image": f"images/{name[:2]}/{name}.png"} for name in turn["images"]]
        messages.append({"role": "user", "content": [*pictures, {"type": "text", "text": turn["text"]}]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": turn["response"]}]})
    return {"env_id": record["env_id"], "seed": record["seed"], "messages": messages}
