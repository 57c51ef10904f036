"""Worlds that the lazy agent cannot play: it chooses its responses on training and validation levels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from agents.lazy import LazyAgent
from benchmarks.models.board.spec import WorldSpec
from benchmarks.models.play.contestants import Contestant
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.registration import make
from vlm_envs.splits import split_seeds

_CHOSEN_ON = ("train", "val")


def skip_unchoosable(worlds: Sequence[WorldSpec], players: Sequence[Contestant]) -> tuple[list[Contestant], list[str]]:
    """Has the lazy agent skip datasets without training or validation levels, such as benchmarks that are all test.

    Returns:
        The agents that have a world to play, and a line for each world that one skips.

    Raises:
        ConfigError: If no agent is left.
    """
    lazy = [player for player in players if isinstance(player.agent, LazyAgent)]
    if not lazy:
        return list(players), []
    faults = {world.label: fault for world in worlds if (fault := _fault(world))}
    lines = [
        f"{player.label} does not play {label}, as it chooses its responses on training and validation levels: {fault}"
        for player in lazy
        for label, fault in faults.items()
    ]
    for player in lazy:
        player.skipped = frozenset(faults)
    left = [player for player in players if player not in lazy or len(faults) < len(worlds)]
    if not left:
        raise ConfigError(" ".join(lines))
    return left, lines


def _fault(world: WorldSpec) -> str:
    """Returns why there is nothing to choose by, of a world that lists its levels; other worlds have every split."""
    if world.num_levels is None:
        return ""
    for split in _CHOSEN_ON:
        try:
            with closing(make(world.env_id, **world.made_with, split=split, disable_env_checker=True)) as made:
                made.reset(seed=next(iter(split_seeds(split, 1))))
        except VLMEnvsError as error:
            return f"{str(error).partition('. ')[0].rstrip('.')}."
    return ""
