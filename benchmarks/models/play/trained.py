"""Warnings about checkpoints that are evaluated in a format other than their training format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from agents.hf.checkpoint import format_differences
from benchmarks.models.board.spec import WorldSpec
from benchmarks.models.play.contestants import Contestant


def format_warnings(worlds: Sequence[WorldSpec], players: Iterable[Contestant]) -> list[str]:
    """Returns a warning for each checkpoint and world whose format differs from training."""
    directories = {player.label: getattr(player.agent, "directory", None) for player in players}
    found = (_warning(label, Path(path), world) for label, path in directories.items() if path for world in worlds)
    return [warning for warning in found if warning]


def _warning(label: str, directory: Path, world: WorldSpec) -> str:
    differences = format_differences(directory, world.env_id, world.kwargs)
    if not differences:
        return ""
    trained, own = (" and ".join(f"{name}={values[index]}" for name, values in differences.items()) for index in (0, 1))
    as_trained = {name: values[0] for name, values in differences.items()}
    setting = replace(world, kwargs={**world.kwargs, **as_trained}).label
    return (
        f"Warning: {label} was trained on this world with {trained}, but {world.label} has {own}. To evaluate it in "
        f"its training format, use --world {setting}"
    )
