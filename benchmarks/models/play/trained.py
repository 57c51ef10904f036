"""Whether checkpoints are evaluated in the format that they were trained on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from agents.hf.learnt import learnt_otherwise
from benchmarks.models.board.spec import WorldSpec
from benchmarks.models.play.contestants import Contestant


def trained_otherwise(worlds: Sequence[WorldSpec], players: Iterable[Contestant]) -> list[str]:
    """Returns a warning for each checkpoint and world whose format is another one than in training."""
    directories = {each.label: directory for each in players if (directory := getattr(each.agent, "directory", None))}
    found = (_warning(label, Path(there), world) for label, there in directories.items() for world in worlds)
    return [warning for warning in found if warning]


def _warning(label: str, directory: Path, world: WorldSpec) -> str:
    differences = learnt_otherwise(directory, world.env_id, world.kwargs)
    if not differences:
        return ""
    trained, own = (" and ".join(f"{name}={values[index]}" for name, values in differences.items()) for index in (0, 1))
    as_trained = {name: values[0] for name, values in differences.items()}
    setting = replace(world, kwargs={**world.kwargs, **as_trained}).label
    return (
        f"Warning: {label} was trained on this world with {trained}, but {world.label} has {own}. To evaluate it as it "
        f"was trained, add the setting: --world {setting}"
    )
