"""Curated datasets read back as episodes and chat messages, and the statistics of a curation."""

from __future__ import annotations

import io
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from training.curation.curation_config import CURATED
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import BrokenRunDataError
from vlm_envs.records.run_data import RunReader, recorded_terms
from vlm_envs.trajectory import Observation, Trajectory, Turn

_MAX_NAMED = 3
"""Maximum number of broken rows named in messages; a dataset's `config.json` lists all of them."""


def curated_episodes(directory: str | Path) -> list[Trajectory]:
    """Returns the whole episodes of a dataset, with text and images; a warning counts and names broken ones.

    Raises:
        MissingRunDataError: If there is no dataset.
        ConfigError: If it is empty, or all its episodes are broken.
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
    examples = " ".join(broken[:_MAX_NAMED]) + f" And {len(broken) - _MAX_NAMED} more." * (len(broken) > _MAX_NAMED)
    if not episodes:
        reason = f"all {len(broken)} episodes are broken. {examples}" if broken else "nothing reached the threshold."
        raise ConfigError(
            f"The dataset at {directory} is empty: {reason} Curate more questions, or lower the threshold."
        )
    if broken:
        num_rows = len(broken) + len(episodes)
        warnings.warn(f"{len(broken)} of {num_rows} episodes of {directory} are left out. {examples}", stacklevel=2)
    return episodes


def shuffled_batches(episodes: Sequence[Trajectory], batch_size: int, seed: int) -> Iterator[list[Trajectory]]:
    """Yields batches endlessly, reshuffling the episodes after each pass."""
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
            reward_terms=recorded_terms(turn),
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
    """Returns a recorded episode as chat messages; images are file names relative to the dataset."""
    messages: list[dict[str, Any]] = []
    for turn in record["turns"]:
        if "system" in turn:
            messages.append({"role": "system", "content": [{"type": "text", "text": turn["system"]}]})
        pictures = [{"type": "image", "image": f"images/{name[:2]}/{name}.png"} for name in turn["images"]]
        messages.append({"role": "user", "content": [*pictures, {"type": "text", "text": turn["text"]}]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": turn["response"]}]})
    return {"env_id": record["env_id"], "seed": record["seed"], "messages": messages}


@dataclass(frozen=True, kw_only=True)
class WorldYield:
    """Statistics of the questions of one world, or of several worlds together.

    Attributes:
        world: Name of the world.
        num_samples: Distinct questions that could be played, including trivial ones.
        num_trivial: Questions dropped because every rollout was right.
        num_lost: Questions left out because a rollout was lost twice, due to a worker failure or a missing response;
            not included in other counts.
        num_broken: Questions left out because their dataset row is broken; not included in other counts.
        num_rollouts: Rollouts of questions that were not dropped.
        num_good_rollouts: Rollouts that reach the threshold.
        num_kept: Kept questions, each with its best rollout.
        num_surplus: Questions that are good enough but left out because enough are kept.
        rejections: Number of rejected rollouts by reason: one that the reward returns (`format`, `accuracy`,
            `behaviour`), `unavailable` without a verdict, or `threshold` if the reward is too small.
        broken_rows: Error message for each broken row of its data, with file and row.
    """

    world: str
    num_samples: int = 0
    num_trivial: int = 0
    num_lost: int = 0
    num_broken: int = 0
    num_rollouts: int = 0
    num_good_rollouts: int = 0
    num_kept: int = 0
    num_surplus: int = 0
    rejections: Mapping[str, int] = field(default_factory=dict)
    broken_rows: tuple[str, ...] = ()

    @property
    def sample_yield(self) -> float:
        """Fraction of played, not dropped questions that are good enough; NaN without any."""
        num_left = self.num_samples - self.num_trivial
        return (self.num_kept + self.num_surplus) / num_left if num_left else math.nan

    @property
    def rollout_yield(self) -> float:
        """Fraction of scored rollouts that are good; NaN without any. Argos reports about 3.1%."""
        return self.num_good_rollouts / self.num_rollouts if self.num_rollouts else math.nan

    def record(self) -> dict[str, Any]:
        """Returns the statistics as a JSON object."""
        counts = {name: value for name, value in vars(self).items() if name.startswith("num_")}
        return counts | {
            "sample_yield": self.sample_yield,
            "rollout_yield": self.rollout_yield,
            "rejections": dict(sorted(self.rejections.items())),
            "broken_rows": list(self.broken_rows),
        }

    def __str__(self) -> str:
        passed_over = ", ".join(f"{count} for {reason}" for reason, count in sorted(self.rejections.items())) or "none"
        left_out = {
            "lost": self.num_lost,
            "with broken rows": self.num_broken,
            "beyond those to keep": self.num_surplus,
        }
        return (
            f"kept {self.num_kept} of {self.num_samples - self.num_trivial} questions (yield {self.sample_yield:.3f}); "
            f"{self.num_good_rollouts} of {self.num_rollouts} rollouts are good (yield {self.rollout_yield:.3f}); "
            f"{self.num_trivial} trivial questions dropped; rollouts passed over: {passed_over}"
            + "".join(f"; questions {what}: {count}" for what, count in left_out.items() if count)
        )


@dataclass(frozen=True, kw_only=True)
class Yield:
    """Statistics of a curation.

    Attributes:
        worlds: Statistics of each world, in the order of play.
    """

    worlds: tuple[WorldYield, ...]

    @property
    def total(self) -> WorldYield:
        """Statistics of all worlds together."""
        counts: Counter[str] = Counter()
        rejections: Counter[str] = Counter()
        for world in self.worlds:
            counts.update({name: value for name, value in vars(world).items() if name.startswith("num_")})
            rejections.update(world.rejections)
        broken = dict.fromkeys(row for world in self.worlds for row in world.broken_rows)
        return WorldYield(world="all worlds", rejections=rejections, broken_rows=tuple(broken), **counts)

    def record(self) -> dict[str, Any]:
        """Returns the statistics of all worlds together and of each world."""
        return self.total.record() | {"worlds": [{"world": world.world, **world.record()} for world in self.worlds]}

    def __str__(self) -> str:
        """Returns one line per world, one for the total, and the first broken rows."""
        total = self.total
        lines = [f"{world.world}: {world}" for world in self.worlds] if len(self.worlds) > 1 else []
        lines += [str(total), *(f"left out: {row}" for row in total.broken_rows[:_MAX_NAMED])]
        num_more = len(total.broken_rows) - _MAX_NAMED
        return "\n".join([*lines, f"left out: {num_more} more broken rows"] if num_more > 0 else lines)
