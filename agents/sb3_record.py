"""The record beside a stable-baselines3 policy's weights: the world it was trained for; no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from vlm_envs.discrete_world import Controls, Seeing
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record, replace_file, to_json

MODEL, RECORD = "model.zip", "trained.json"
"""The files of a policy: weights and settings as stable-baselines3 saves them, and what this module says of them."""

_HOW = "Train one: python -m benchmarks sb3 VLM/FrozenLake-v0 --out DIR"


@dataclass(frozen=True, kw_only=True)
class TrainedFor:
    """The world that a policy was trained for, and how it sees and acts in it.

    Attributes:
        env_id: The world's registered id.
        action_names: Its named actions, by number.
        picture_shape: (height, width, 3) of its pictures, in pixels, before they are scaled down.
        seeing: What it sees of them, and how many actions it chooses at each.
        kwargs: The world's arguments that were spelled out, for the record; others may be played, too.
    """

    env_id: str
    action_names: tuple[str, ...]
    picture_shape: tuple[int, ...]
    seeing: Seeing
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Returns what `trained.json` says.

        Raises:
            KeyError: If something is missing.
            TypeError: If something is of another type.
            ValueError: Likewise.
        """
        return cls(
            env_id=str(record["env_id"]),
            action_names=tuple(map(str, record["action_names"])),
            picture_shape=tuple(map(int, record["picture_shape"])),
            seeing=Seeing(**{name: int(value) for name, value in record["seeing"].items()}),
            kwargs=dict(record["kwargs"]),
        )

    def require_fits(self, env_id: str, controls: Controls) -> None:
        """Refuses a world that shows or understands something else than the one it was trained for.

        Raises:
            ConfigError: With what differs.
        """
        differing = (
            ("the world", self.env_id, env_id),
            ("actions", ", ".join(self.action_names), ", ".join(controls.action_names)),
            ("pictures", _size(self.picture_shape), _size(controls.picture_shape)),
        )
        for what, own, met in differing:
            if own != met:
                raise ConfigError(
                    f"This policy was trained for {self.env_id} and cannot play here: {what} must be {own}; got {met}. "
                    f"Train one for it: python -m benchmarks sb3 {env_id} --out DIR"
                )
        if self.seeing.actions_per_response > controls.max_actions:
            raise ConfigError(
                f"This policy was trained for {self.env_id}, {self.seeing.actions_per_response} actions a response; "
                f"one here holds {controls.max_actions}. Set max_actions_per_turn of the world, or train a policy with "
                f"--actions-per-response {controls.max_actions}."
            )


def save_record(directory: Path, trained_for: TrainedFor, facts: Mapping[str, Any]) -> None:
    """Writes what a policy was trained for, and further facts about its training."""
    text = json.dumps(to_json({"trained_for": trained_for, **facts}), indent=2, allow_nan=False)
    replace_file(directory / RECORD, f"{text}\n".encode())


def require_policy(directory: str | Path) -> tuple[TrainedFor, Record]:
    """Returns what a folder's policy was trained for, and all that is written about it; loads no weights.

    Raises:
        FileNotFoundError: If there is no policy.
        ValueError: If its description cannot be read.
    """
    path = Path(directory)
    missing = [name for name in (MODEL, RECORD) if not (path / name).is_file()]
    if missing:
        raise FileNotFoundError(f"No policy at {path}: expected {' and '.join(missing)} there. {_HOW}")
    try:
        record: Record = json.loads((path / RECORD).read_text(encoding="utf-8"))
        return TrainedFor.from_record(record["trained_for"]), record
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path / RECORD} does not describe a policy: {error!r}. {_HOW}") from error


def _size(shape: Sequence[int]) -> str:
    height, width = shape[:2]
    return f"{width} x {height} pixels"
