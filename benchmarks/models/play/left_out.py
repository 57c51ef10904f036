"""Worlds that an agent leaves out: the lazy agent needs levels to choose by, and the oracle needs a planner."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from agents.blind_script import LazyAgent
from agents.oracle import OracleAgent
from benchmarks.models.board.spec import WorldSpec
from benchmarks.models.play.contestants import Contestant
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.registration import make
from vlm_envs.splits import split_seeds

_CHOSEN_ON = ("train", "val")


def skip_unplayable(worlds: Sequence[WorldSpec], players: Sequence[Contestant]) -> tuple[list[Contestant], list[str]]:
    """Has the lazy agent and the oracle skip worlds in which their rows would say nothing.

    The lazy agent skips datasets without training or validation levels, such as benchmarks that are all test. The
    oracle skips worlds without a planner, where its actions would be random.

    Returns:
        The agents that have a world to play, and a line for each world that one skips.

    Raises:
        ConfigError: If no agent is left.
    """
    lines: list[str] = []
    left: list[Contestant] = []
    unchoosable: dict[str, str] | None = None
    for player in players:
        if isinstance(player.agent, LazyAgent):
            if unchoosable is None:
                unchoosable = {world.label: fault for world in worlds if (fault := _fault(world))}
            skipped = unchoosable
            why = "as it chooses its responses on training and validation levels: {fault}"
        elif isinstance(player.agent, OracleAgent):
            skipped = {world.label: _how_to_plan(world) for world in worlds if not world.has_planner}
            why = "as this world has no planner: {fault}"
        else:
            skipped, why = {}, ""
        lines += [
            f"{player.label} does not play {label}, {why.format(fault=fault)}" for label, fault in skipped.items()
        ]
        player.skipped = frozenset(skipped)
        if len(skipped) < len(worlds):
            left.append(player)
    if not left:
        raise ConfigError(" ".join(lines))
    return left, lines


def _how_to_plan(world: WorldSpec) -> str:
    if world.adapted is None:
        return "write its Dynamics.plan to have such a row."
    return "give plan=... to vlm_envs.adapt, or the key plan in the TOML file, to have such a row."


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
