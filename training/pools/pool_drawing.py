"""Draws pools: an agent plays levels of a world's training split, by command or at the start of a run.

    seeds, or a dataset's ids in seeded order ──> distinct levels ──> attempts of an agent ──> one row per level

Rows are written as they become known, so that an interrupted call continues where it stopped. A run may draw its own
pools with the model that it starts from, so that a stage's pool is filtered by the skill of the previous stage:

    levels of a world ── filters (lengths, ids) ── attempts of the model on what is left ──> `<run>/pools/FILE`
    `<run>/pools/FILE` ── filters (pass rates) ──> what is trained on
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from agents.agent import Agent
from agents.registry import make_agent, setting_names
from training.config.run_config import RunConfig
from training.config.world_spec import MAX_PARALLEL, WorldSpec
from training.level_episodes import play_each
from training.pools.pool_config import OWN_POOLS, DrawPoolConfig, PoolConfig
from training.pools.pool_levels import PoolLevel, chosen_levels, excluded_questions, kept_levels
from vlm_envs.content.judging.order import question_of
from vlm_envs.errors import ConfigError, GenerationError, SolverLimitError
from vlm_envs.records.json_lines import Record, append_line, filter_lines, read_lines
from vlm_envs.splits import split_seeds
from vlm_envs.validation import field_name, require

_FIRST_SEED, _NUM_SEEDS = 60_000_000, 30_000_000
"""Seeds reserved for pools: cold starts, curations, and runs without a pool use others."""
_AT_ONCE = 16
"""Levels drawn per call to a world, whose calls have a time limit."""
_MAX_DRAWS_EACH = 50
"""Maximum number of draws per requested level, after which the world is assumed to have no more."""


class DrawnPool(NamedTuple):
    """Statistics of a drawn pool.

    Attributes:
        num_levels: Number of levels in the file.
        by_passes: Number of levels by number of passes, from 0; empty if not played.
        num_unplayed: Number of levels that were not played because filters drop them.
    """

    num_levels: int
    by_passes: tuple[int, ...]
    num_unplayed: int = 0

    def __str__(self) -> str:
        if not self.by_passes:
            return f"{self.num_levels} levels"
        attempts = len(self.by_passes) - 1
        solved = [f"{count} solved {passes} of {attempts}" for passes, count in enumerate(self.by_passes)]
        unplayed = [f"{self.num_unplayed} not played because filters drop them"] if self.num_unplayed else []
        return f"{self.num_levels} levels: {', '.join([*solved, *unplayed])}"


def draw_pool(
    spec: WorldSpec,
    config: DrawPoolConfig,
    *,
    takes: Callable[[Sequence[PoolLevel]], Collection[str]] | None = None,
) -> DrawnPool:
    """Writes a pool to `config.out`, or resumes one from an interrupted call.

    Args:
        spec: The world.
        config: The settings.
        takes: Returns the ids to play among the drawn levels; None to play all.

    Returns: Statistics of the pool.

    Raises:
        ConfigError: If the file holds something else, no level can be drawn, or `takes` raises it.
    """
    levels = [
        PoolLevel(level_id=level_id, where=f"{config.out}, line {number}", solution_length=length)
        for number, (level_id, length) in enumerate(itertools.islice(_drawn(spec, config), config.num_samples), start=1)
    ]
    if not levels:
        raise ConfigError(
            f"{spec.env_id} has no level of split 'train' left after --exclude. Exclude fewer, or change the world's "
            "arguments."
        )
    path = Path(config.out)
    taken = {level.level_id for level in levels} if takes is None else takes(levels)
    is_played = [config.agent is not None and level.level_id in taken for level in levels]
    numbers = range(_num_done(path, levels, is_played, config), len(levels))
    agent = _agent(config) if any(is_played[number] for number in numbers) else None
    for part in _played_together(numbers, is_played, max(1, MAX_PARALLEL // config.attempts)):
        ids = {number: levels[number].level_id for number in part if is_played[number]}
        played = {} if agent is None else _played(agent, spec, config, ids)
        for number in part:
            counts = played.get(number, {"attempts": 0} if config.agent else {})
            level = levels[number]
            append_line(path, {"id": level.level_id, "solution_length": level.solution_length, **counts})
    rows = read_lines(path)
    passes = [int(row["passes"]) for row in rows if "passes" in row]
    by_passes = tuple(passes.count(number) for number in range(config.attempts + 1))
    return DrawnPool(len(rows), by_passes, len(rows) - len(passes)) if config.agent else DrawnPool(len(rows), ())


def _played_together(numbers: Sequence[int], is_played: Sequence[bool], size: int) -> Iterator[list[int]]:
    """Yields consecutive rows in parts with at most `size` rows to play each."""
    part: list[int] = []
    for number in numbers:
        if is_played[number] and sum(is_played[other] for other in part) == size:
            yield part
            part = []
        part.append(number)
    if part:
        yield part


def _agent(config: DrawPoolConfig) -> Agent:
    """Returns the agent, with the settings that it accepts."""
    assert config.agent is not None
    offered = {"sampling": config.sampling, "seed": config.seed, "device": config.device}
    accepted = setting_names(config.agent)
    return make_agent(config.agent, **{name: value for name, value in offered.items() if name in accepted})


def _num_done(path: Path, levels: Sequence[PoolLevel], is_played: Sequence[bool], config: DrawPoolConfig) -> int:
    """Returns the number of existing rows, after removing an incomplete last one."""
    rows = read_lines(path)
    is_same = len(rows) <= len(levels) and all(
        row.get("id") == level.level_id and _is_as_asked(row, played, config)
        for row, level, played in zip(rows, levels, is_played, strict=False)
    )
    require(
        is_same,
        f"--out {path} holds a different pool: other levels, another agent, or other attempts. Choose another file, "
        "or remove this one.",
    )
    if rows:
        filter_lines(path, lambda row: True)
    return len(rows)


def _is_as_asked(row: Record, is_played: bool, config: DrawPoolConfig) -> bool:
    """Returns whether a row matches the settings; fewer attempts match because lost ones are not counted."""
    if "agent" not in row:
        return not is_played
    return row["agent"] == config.agent and int(row.get("attempts", -1)) in range(config.attempts + 1)


def _played(agent: Agent, spec: WorldSpec, config: DrawPoolConfig, ids: Mapping[int, str]) -> dict[int, Record]:
    """Returns the counts of each level by row; a row's seeds do not depend on the other rows."""
    count, first = config.attempts, _first_seed(config)
    seeds = [seed for number in ids for seed in split_seeds("train", count, start=first + number * count)]
    texts = [level for level in ids.values() for _ in range(count)]
    played = play_each(agent, spec, seeds, split="train", max_parallel=MAX_PARALLEL, levels=texts)
    found: dict[int, Record] = {}
    for index, number in enumerate(ids):
        kept = [episode for episode in played[index * count : (index + 1) * count] if episode is not None]
        rewards = [episode.total_reward for episode in kept]
        found[number] = {
            "attempts": len(kept),
            "passes": sum(episode.success for episode in kept),
            "reward": float(np.mean(rewards)) if rewards else None,
            "agent": config.agent,
        }
    return found


def _first_seed(config: DrawPoolConfig) -> int:
    return _FIRST_SEED + config.seed * 1_000_003 % _NUM_SEEDS


def _drawn(spec: WorldSpec, config: DrawPoolConfig) -> Iterator[tuple[str, int | None]]:
    """Yields distinct levels that are not excluded, each with its solution length if known."""
    seen, excluded = set[str](), excluded_questions(config.exclude)
    with spec.make_vector(1, split="train") as worlds:
        listed = worlds.apply({0: _listed_ids})[0]
        if listed is not None:
            order = np.random.default_rng(config.seed).permutation(len(listed))
            found: Iterator[tuple[str, int | None]] = ((listed[index], None) for index in order.tolist())
        else:
            seeds = split_seeds("train", config.num_samples * _MAX_DRAWS_EACH + 1000, start=_first_seed(config))
            calls = (partial(_of_seeds, seeds=part) for part in _parts(seeds))
            found = (level for call in calls for level in worlds.apply({0: call})[0])
        for level_id, length in found:
            if level_id not in seen and question_of(level_id) not in excluded:
                seen.add(level_id)
                yield level_id, length


def _parts(seeds: Iterator[int]) -> Iterator[list[int]]:
    """Yields seeds in parts for one call to a world."""
    while part := list(itertools.islice(seeds, _AT_ONCE)):
        yield part


def _listed_ids(world: Any) -> tuple[str, ...] | None:
    """Returns the ids of a dataset's training split, or None for sampled levels; runs in the world's worker."""
    ids = getattr(getattr(world.dynamics, "source", None), "ids", None)
    return None if ids is None else ids("train")


def _of_seeds(world: Any, seeds: Sequence[int]) -> list[tuple[str, int | None]]:
    """Returns the levels of seeds and their solution lengths; runs in the world's worker."""
    found: list[tuple[str, int | None]] = []
    for seed in seeds:
        try:
            state = world.dynamics.generate(np.random.default_rng(seed), "train")
        except GenerationError:
            continue
        try:
            length = world.dynamics.cost_to_go(state)
        except SolverLimitError:
            length = None
        found.append((world.dynamics.dump(state), length))
    return found


def draw_own_pools(config: RunConfig, directory: Path, model: Path) -> None:
    """Writes the pools that a run draws itself, resuming those of an interrupted call.

    The global random state is unchanged afterwards.

    Args:
        config: The run.
        directory: The run's directory.
        model: The run's initial checkpoint.

    Raises:
        ConfigError: If filters drop all levels of a pool, or an existing file belongs to another run.
    """
    import torch  # not at the top: the command that draws a pool may not need torch

    own = {number: spec.pool for number, spec in enumerate(config.worlds) if spec.pool is not None and spec.pool.draw}
    for index, spec in enumerate(own_pools(config.worlds)):
        assert spec.pool is not None
        path = directory / OWN_POOLS / spec.pool.file
        sharing = {number: pool.within(directory) for number, pool in own.items() if pool.file == spec.pool.file}
        path.parent.mkdir(parents=True, exist_ok=True)
        with torch.random.fork_rng(devices=[]):
            drawn = draw_pool(
                spec,
                DrawPoolConfig(
                    out=str(path),
                    num_samples=spec.pool.draw,
                    exclude=spec.pool.exclude,
                    agent=f"hf:{model}" if spec.pool.attempts else None,
                    attempts=spec.pool.attempts or 1,
                    sampling=config.sampling,
                    device=config.device,
                    seed=config.seed + 1000 * index,
                ),
                takes=partial(_taken, config, sharing),
            )
        print(f"Pool {path}: {drawn}", flush=True)
    for number, spec in enumerate(config.worlds):
        if number in own:
            chosen_levels(own[number].within(directory), larger=_larger(config, number))
        elif spec.pool is not None:
            chosen_levels(spec.pool)


def _taken(config: RunConfig, pools: Mapping[int, PoolConfig], levels: Sequence[PoolLevel]) -> frozenset[str]:
    """Returns the ids that any pool may select, depending on their pass rates; only these must be played.

    Args:
        config: The run.
        pools: Pools that share a file, by the index of their world.
        levels: Levels drawn for the file.

    Raises:
        ConfigError: If a pool selects none of them, or its `include` lists others.
    """
    kept = (
        kept_levels(pool.without_pass_rates(), levels, larger=_larger(config, number)) for number, pool in pools.items()
    )
    return frozenset(level.level_id for of_pool in kept for level in of_pool)


def _larger(config: RunConfig, index: int) -> str:
    return f"have the run draw more levels: {field_name(config, 'worlds')}.{index}.pool.draw N"


def own_pools(specs: Sequence[WorldSpec]) -> list[WorldSpec]:
    """Returns the first world of each pool file that the run draws itself."""
    first: dict[str, WorldSpec] = {}
    for spec in specs:
        if spec.pool is not None and spec.pool.draw:
            first.setdefault(spec.pool.file, spec)
    return list(first.values())


def worlds_with_pools(specs: Sequence[WorldSpec], directory: Path) -> tuple[WorldSpec, ...]:
    """Returns worlds with the file paths of the pools that the run in a directory has drawn."""
    return tuple(spec if spec.pool is None else replace(spec, pool=spec.pool.within(directory)) for spec in specs)
