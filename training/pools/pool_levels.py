"""Levels of a pool: read from its file, filtered, played in a seeded order, and replaced where they are broken.

    file of levels ──> filters (pass rates, lengths, lists of ids) ──> epoch 0: C A B · epoch 1: B A C · ...

Every level occurs once per epoch. The only state is the number of visits, so that a resumed run continues exactly.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from training.pools.pool_config import PoolConfig
from vlm_envs.content.judging.order import question_of
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError
from vlm_envs.validation import require
from vlm_envs.vector.vector_world import VectorWorld

_LARGER = "draw a larger pool: python -m training pool RECIPE --num-samples N --out FILE"
_EXAMPLE = '{"id": "vstar:12", "attempts": 5, "passes": 2}'
_logger = logging.getLogger(__name__)
_Found = TypeVar("_Found")

_AT_ONCE = 16
"""Levels per call to a world, whose calls have a time limit."""


@dataclass(frozen=True, kw_only=True)
class PoolLevel:
    """A row of a pool.

    Attributes:
        level_id: The level, as in the world's `reset(options={"level": ...})`, such as a sample's id.
        where: File and line, for messages.
        solution_length: Length of the shortest solution, in actions; None if unknown.
        attempts: Number of times that the level was played to measure its pass rate.
        passes: Number of attempts that solved it.
        agent: Agent of the attempts, as given to `python -m training pool --agent`; None if not played or not
            recorded.
        is_counted: Whether the row has `attempts`, which may be 0 for a level that other filters drop.
    """

    level_id: str
    where: str
    solution_length: int | None = None
    attempts: int = 0
    passes: int = 0
    agent: str | None = None
    is_counted: bool = False

    @property
    def pass_rate(self) -> float | None:
        """Fraction of attempts that solved the level; None without attempts."""
        return self.passes / self.attempts if self.attempts else None


def chosen_levels(config: PoolConfig, *, larger: str = _LARGER) -> list[PoolLevel]:
    """Returns the rows of a pool that pass its filters.

    Args:
        config: The pool.
        larger: Advice for messages on how to enlarge the pool.

    Raises:
        ConfigError: If the file cannot be read, a row is broken or lacks a value that a filter reads, or no level
            passes.
    """
    return kept_levels(config, read_levels(config.file), larger=larger)


def kept_levels(config: PoolConfig, levels: Sequence[PoolLevel], *, larger: str = _LARGER) -> list[PoolLevel]:
    """Returns the levels that pass a pool's filters; raises as `chosen_levels`."""
    kept: list[PoolLevel] = []
    dropped: dict[str, int] = {}
    included = None if config.include is None else _included(config, levels, larger)
    excluded = excluded_questions(config.exclude)
    for level in levels:
        reason = _reason_against(level, config, included, excluded)
        if reason is None:
            kept.append(level)
        else:
            dropped[reason] = dropped.get(reason, 0) + 1
    if not kept:
        reasons = ", ".join(f"{count} by {reason}" for reason, count in dropped.items())
        raise ConfigError(
            f"Nothing is left of the pool {config.file}: of its {len(levels)} levels, filters drop {reasons}. Widen "
            f"the filters, or {larger}."
        )
    return kept


def _reason_against(
    level: PoolLevel, config: PoolConfig, included: frozenset[str] | None, excluded: frozenset[str]
) -> str | None:
    """Returns the filter that drops a level, or None; raises `ConfigError` if a value is missing."""
    if included is not None and level.level_id not in included:
        return "include"
    if question_of(level.level_id) in excluded:
        return "exclude"
    # Lengths first: in a pool that the run draws, levels dropped by length are not played and have no pass rate
    return _reason_of_length(level, config) or _reason_of_rate(level, config)


def _reason_of_rate(level: PoolLevel, config: PoolConfig) -> str | None:
    if not config.reads_pass_rates:
        return None
    if level.attempts:
        return config.drops_passes(level.passes, level.attempts)
    if level.is_counted:
        return "not being played"
    raise ConfigError(
        f"{level.where}: this level was not played, but a filter of the pool reads its pass rate. Count passes with "
        "python -m training pool RECIPE --agent hf:DIR --attempts 5 --out FILE, or remove min_pass_rate, "
        "max_pass_rate, drop_hopeless, and drop_trivial."
    )


def _reason_of_length(level: PoolLevel, config: PoolConfig) -> str | None:
    if not config.reads_lengths:
        return None
    length = level.solution_length
    if length is None:
        raise ConfigError(
            f"{level.where}: the solution length of this level is unknown, but a filter of the pool reads it. Remove "
            "min_solution_length and max_solution_length."
        )
    low, high = config.min_solution_length, config.max_solution_length
    if low is not None and length < low:
        return "min_solution_length"
    return "max_solution_length" if high is not None and length > high else None


def _included(config: PoolConfig, levels: Sequence[PoolLevel], larger: str) -> frozenset[str]:
    """Returns the ids in `include`, all of which must be in the pool."""
    assert config.include is not None
    wanted = read_ids(config.include)
    missing = sorted(wanted - {level.level_id for level in levels})
    require(
        not missing,
        f"{config.include} lists {len(missing)} ids that the pool {config.file} lacks, such as "
        f"{_short(next(iter(missing), ''))}. Remove them there, add these levels to the pool, or {larger}.",
    )
    return wanted


def read_levels(file: str | Path) -> list[PoolLevel]:
    """Returns the rows of a pool.

    Raises:
        ConfigError: If the file does not exist or a row is broken, with file and line.
    """
    levels: list[PoolLevel] = []
    lines: dict[str, str] = {}
    for where, line in _lines(file):
        level = _level(where, _object(where, line))
        first = lines.setdefault(level.level_id, where)
        require(first == where, f"{where}: duplicate of the level in {first}. Remove one of the two rows.")
        levels.append(level)
    require(bool(levels), f"{file} holds no level. Draw some: python -m training pool RECIPE --out FILE.")
    return levels


def excluded_questions(files: Sequence[str]) -> frozenset[str]:
    """Returns the questions excluded by files of ids, regardless of the order of candidates.

    Raises:
        ConfigError: If a file cannot be read, or a row is broken.
    """
    return frozenset(map(question_of, frozenset[str]().union(*map(read_ids, files))))


def read_ids(file: str | Path) -> frozenset[str]:
    """Returns the ids in a file: rows of a pool, JSON strings, or one plain id per line.

    Raises:
        ConfigError: If the file does not exist or a line is broken, with file and line.
    """
    return frozenset(_listed_id(where, line) for where, line in _lines(file))


def _listed_id(where: str, line: str) -> str:
    if line.startswith("{"):
        return _level(where, _object(where, line)).level_id
    return str(_parsed(where, line)) if line.startswith('"') else line


def _lines(file: str | Path) -> Iterator[tuple[str, str]]:
    """Yields location and text of each nonblank line."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(
            f"The pool {file} cannot be read: {reason}. Name a file of JSON lines, as python -m training pool "
            "RECIPE --out FILE writes it."
        ) from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{file}, line {number}", line.strip()


def _object(where: str, line: str) -> Mapping[str, Any]:
    found = _parsed(where, line)
    require(isinstance(found, dict), f"{where}: expected a JSON object such as {_EXAMPLE}; got {_short(line)}.")
    return dict(found)


def _parsed(where: str, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where} is not valid JSON ({error}): {_short(line)}. Repair or remove it.") from error


def _level(where: str, row: Mapping[str, Any]) -> PoolLevel:
    level_id = row.get("id")
    if not isinstance(level_id, str) or not level_id.strip():
        raise ConfigError(f"{where}: a row must have its level as a string 'id', such as {_EXAMPLE}; got {level_id!r}.")
    numbers = {name: row.get(name) for name in ("solution_length", "attempts", "passes")}
    for name, value in numbers.items():
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        require(
            value is None or is_count, f"{where}: {name!r} must be a whole number from 0; got {value!r}. Repair it."
        )
    attempts, passes, agent = numbers["attempts"] or 0, numbers["passes"], row.get("agent")
    require(
        (passes is not None or not attempts) and (passes or 0) <= attempts,
        f"{where}: 'passes' must be a whole number from 0 to the {attempts} 'attempts'; got {passes}. Repair it.",
    )
    return PoolLevel(
        level_id=level_id,
        where=where,
        solution_length=numbers["solution_length"],
        attempts=attempts,
        passes=passes or 0,
        agent=agent if isinstance(agent, str) else None,
        is_counted=numbers["attempts"] is not None,
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")


class Pool:
    """Levels in an endless order that visits each level once per epoch.

    Args:
        levels: At least one.
        seed: Seed of the order; equal seeds and levels give the same order.
        order: As in `PoolConfig`.

    Attributes:
        ids: Ids of the levels, in the order of the file.
    """

    def __init__(self, levels: Sequence[PoolLevel], *, seed: int, order: str = "shuffled") -> None:
        assert levels, "a pool must not be empty"
        self.ids = tuple(level.level_id for level in levels)
        self._seed = seed
        self._rank = [_difficulty(level) for level in levels] if order == "easiest_first" else None
        self._epochs: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def digest(self) -> str:
        """Hash of the ids in order; pools with equal hash and seed have the same order."""
        return hashlib.blake2b(json.dumps([self.ids, self._rank]).encode("ascii"), digest_size=8).hexdigest()

    def visited(self, first: int, num: int) -> list[str]:
        """Returns the levels of `num` visits from visit `first` on, counted from 0 over all epochs."""
        positions = (divmod(visit, len(self)) for visit in range(first, first + num))
        return [self.ids[self._epoch(epoch)[index]] for epoch, index in positions]

    def _epoch(self, epoch: int) -> list[int]:
        """Returns the order of an epoch."""
        if epoch not in self._epochs:
            order: list[int] = np.random.default_rng([self._seed, epoch]).permutation(len(self)).tolist()
            ranks = self._rank
            self._epochs = {epoch: order if ranks is None else sorted(order, key=lambda index: ranks[index])}
        return self._epochs[epoch]


def _difficulty(level: PoolLevel) -> tuple[float, float]:
    """Returns the sort key of `easiest_first`; levels without counts or length come last."""
    rate, length = level.pass_rate, level.solution_length
    return 1.0 if rate is None else -rate, 1e9 if length is None else float(length)


def open_pools(configs: Sequence[PoolConfig | None], *, seed: int) -> list[Pool | None]:
    """Returns the pool of each world that has one; raises as `chosen_levels`."""
    return [None if config is None else open_pool(config, seed=seed) for config in configs]


def open_pool(config: PoolConfig, *, seed: int) -> Pool:
    """Returns the pool of the levels that pass the filters; raises as `chosen_levels`."""
    return Pool(chosen_levels(config), seed=seed, order=config.order)


class ShownLevels:
    """Replaces levels of a pool that cannot be shown, which it detects at their first visit.

    The replacement is the next level in the pool's file that can be shown, so that it is the same in every process
    and after resuming.

    Args:
        name: Name of the world in the mixture.
        ids: Ids of the pool's levels, in the order of its file.
    """

    def __init__(self, name: str, ids: Sequence[str]) -> None:
        self._name, self._ids = name, tuple(ids)
        self._faults: dict[str, str] = {}

    @property
    def num_broken(self) -> int:
        """Number of visited levels that cannot be shown."""
        return sum(map(bool, self._faults.values()))

    def in_place_of(self, levels: Sequence[str], worlds: VectorWorld) -> list[str]:
        """Returns the levels with broken ones replaced; warns once per broken level, with its file and row.

        Args:
            levels: Ids of levels of the pool.
            worlds: Worlds that will play them; the first one checks them.

        Raises:
            ConfigError: If no level of the pool can be shown.
        """
        self._look(levels, worlds)
        return [level if not self._faults[level] else self._next_after(level, worlds) for level in levels]

    def _next_after(self, level: str, worlds: VectorWorld) -> str:
        index = self._ids.index(level)
        for other in (*self._ids[index + 1 :], *self._ids[:index]):
            self._look([other], worlds)
            if not self._faults[other]:
                return other
        raise ConfigError(
            f"None of the {len(self._ids)} levels in the pool of {self._name} can be shown. {self._faults[level]} "
            "Copy the dataset's images again, then continue with --resume."
        )

    def _look(self, levels: Sequence[str], worlds: VectorWorld) -> None:
        new = [level for level in dict.fromkeys(levels) if level not in self._faults]
        for level, fault in zip(new, looked_up(worlds, level_faults, new), strict=True):
            self._faults[level] = fault
            if fault:
                _logger.warning(
                    "A level of %s is replaced by the next one. %s So far, %d of the pool's %d levels are replaced.",
                    self._name,
                    fault,
                    self.num_broken,
                    len(self._ids),
                )


def looked_up(worlds: VectorWorld, look: Callable[..., list[_Found]], levels: Sequence[str]) -> list[_Found]:
    """Returns the results of a function for levels, computed by the first world a few levels per call."""
    found: list[_Found] = []
    for start in range(0, len(levels), _AT_ONCE):
        found += worlds.apply({0: partial(look, levels=levels[start : start + _AT_ONCE])})[0]
    return found


def level_faults(world: Any, levels: Sequence[str], *, of: type[VLMEnvsError] = BrokenRowError) -> list[str]:
    """Returns the error message of each level, empty if it can be loaded; runs in the world's worker.

    Args:
        world: The world of the levels.
        levels: Ids of the levels.
        of: Type of the errors to return; any other error is raised.
    """
    found: list[str] = []
    for level in levels:
        try:
            world.dynamics.load(level)
            found.append("")
        except of as error:
            found.append(str(error))
    return found
