"""Levels of a pool: read from its file, filtered, played in a seeded order, and replaced where they are broken.

    file of levels ──> filters (pass rates, lengths, lists of ids) ──> epoch 0: C A B · epoch 1: B A C · ...

Every level comes once per epoch. The position is a count of visits and nothing else, so that a resumed run continues
exactly.
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
"""Levels that are looked at in one call of a world, which has only so much time."""


@dataclass(frozen=True, kw_only=True)
class PoolLevel:
    """A row of a pool.

    Attributes:
        level_id: Text that the world's `reset(options={"level": ...})` takes, such as a sample's id.
        where: File and line, for messages.
        solution_length: Actions of the shortest solution; None where nobody knows.
        attempts: How often the level was played to see whether it can be solved.
        passes: How often it was.
        agent: Who played it, as `python -m training pool --agent` was told; None where nobody did, or it is not said.
        is_counted: Whether the row says how often it was played, be it never: a level that other filters drop is not.
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
        """Share of the attempts that solved it; None where there were none."""
        return self.passes / self.attempts if self.attempts else None


def chosen_levels(config: PoolConfig, *, larger: str = _LARGER) -> list[PoolLevel]:
    """Returns the rows of a pool that its filters let through.

    Args:
        config: The pool.
        larger: How the pool comes to have more levels, for messages.

    Raises:
        ConfigError: If the file cannot be read, a row is broken or lacks what a filter reads, or nothing is left.
    """
    return kept_levels(config, read_levels(config.file), larger=larger)


def kept_levels(config: PoolConfig, levels: Sequence[PoolLevel], *, larger: str = _LARGER) -> list[PoolLevel]:
    """Returns those levels of a pool that its filters let through; raises as `chosen_levels`."""
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
        told = ", ".join(f"{count} by {reason}" for reason, count in dropped.items())
        raise ConfigError(
            f"Nothing is left of the pool {config.file}: of its {len(levels)} levels, filters drop {told}. Widen the "
            f"filters, or {larger}."
        )
    return kept


def _reason_against(
    level: PoolLevel, config: PoolConfig, included: frozenset[str] | None, excluded: frozenset[str]
) -> str | None:
    """Returns the filter that drops a level, None if none does; raises `ConfigError` if it cannot tell."""
    if included is not None and level.level_id not in included:
        return "include"
    if question_of(level.level_id) in excluded:
        return "exclude"
    # Lengths first: levels that they drop of a pool that the run draws are not played, and have no pass rate
    return _reason_of_length(level, config) or _reason_of_rate(level, config)


def _reason_of_rate(level: PoolLevel, config: PoolConfig) -> str | None:
    if not config.reads_pass_rates:
        return None
    if level.attempts:
        return config.drops_passes(level.passes, level.attempts)
    if level.is_counted:
        return "not being played"
    raise ConfigError(
        f"{level.where}: nobody has played this level, and a filter of the pool reads its pass rate. Count passes with "
        "python -m training pool RECIPE --agent hf:DIR --attempts 5 --out FILE, or leave out min_pass_rate, "
        "max_pass_rate, drop_hopeless and drop_trivial."
    )


def _reason_of_length(level: PoolLevel, config: PoolConfig) -> str | None:
    if not config.reads_lengths:
        return None
    length = level.solution_length
    if length is None:
        raise ConfigError(
            f"{level.where}: it is not known how long this level's solution is, and a filter of the pool reads that. "
            "Leave out min_solution_length and max_solution_length."
        )
    low, high = config.min_solution_length, config.max_solution_length
    if low is not None and length < low:
        return "min_solution_length"
    return "max_solution_length" if high is not None and length > high else None


def _included(config: PoolConfig, levels: Sequence[PoolLevel], larger: str) -> frozenset[str]:
    """Returns the ids that alone are taken; all of them must be there."""
    assert config.include is not None
    wanted = read_ids(config.include)
    missing = sorted(wanted - {each.level_id for each in levels})
    require(
        not missing,
        f"{config.include} lists {len(missing)} ids that the pool {config.file} lacks, such as "
        f"{_short(next(iter(missing), ''))}. Remove them there, add these levels to the pool, or {larger}.",
    )
    return wanted


def read_levels(file: str | Path) -> list[PoolLevel]:
    """Returns the rows of a pool.

    Raises:
        ConfigError: If there is no such file or a row is broken; it names file and line.
    """
    levels: list[PoolLevel] = []
    lines: dict[str, str] = {}
    for where, line in _lines(file):
        level = _level(where, _object(where, line))
        first = lines.setdefault(level.level_id, where)
        require(first == where, f"{where}: the level of {first} again. Remove one of the two rows.")
        levels.append(level)
    require(bool(levels), f"{file} holds no level. Draw some: python -m training pool RECIPE --out FILE.")
    return levels


def excluded_questions(files: Sequence[str]) -> frozenset[str]:
    """Returns what files of ids leave out: their questions, in whichever order of candidates they are named.

    Raises:
        ConfigError: If a file cannot be read, or a row is broken.
    """
    return frozenset(map(question_of, frozenset[str]().union(*map(read_ids, files))))


def read_ids(file: str | Path) -> frozenset[str]:
    """Returns the ids that a file lists: rows of a pool, texts as JSON writes them, or an id a line.

    Raises:
        ConfigError: If there is no such file or a line is broken; it names file and line.
    """
    return frozenset(_listed_id(where, line) for where, line in _lines(file))


def _listed_id(where: str, line: str) -> str:
    if line.startswith("{"):
        return _level(where, _object(where, line)).level_id
    return str(_parsed(where, line)) if line.startswith('"') else line


def _lines(file: str | Path) -> Iterator[tuple[str, str]]:
    """Yields each line that is not blank, behind its place."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
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
        raise ConfigError(f"{where} is no JSON ({error}): {_short(line)}. Mend or remove it.") from error


def _level(where: str, row: Mapping[str, Any]) -> PoolLevel:
    level_id = row.get("id")
    if not isinstance(level_id, str) or not level_id.strip():
        raise ConfigError(f"{where}: a row needs its level's text as 'id', such as {_EXAMPLE}; got {level_id!r}.")
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
    """Levels in an endless order: each once an epoch, before any comes again.

    Args:
        levels: At least one.
        seed: Of the order; equal seeds give equal levels the same order.
        order: As in `PoolConfig`.

    Attributes:
        ids: The levels' ids, in the order of the file.
    """

    def __init__(self, levels: Sequence[PoolLevel], *, seed: int, order: str = "shuffled") -> None:
        assert levels, "see `open_pool`"
        self.ids = tuple(each.level_id for each in levels)
        self._seed = seed
        self._rank = [_difficulty(each) for each in levels] if order == "easiest_first" else None
        self._epochs: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def digest(self) -> str:
        """Hash of the ids in their order: of equal seeds, pools with equal ones have the same order."""
        return hashlib.blake2b(json.dumps([self.ids, self._rank]).encode("ascii"), digest_size=8).hexdigest()

    def visited(self, first: int, num: int) -> list[str]:
        """Returns the levels of `num` visits from visit `first` on, counted from 0 over all epochs."""
        places = (divmod(visit, len(self)) for visit in range(first, first + num))
        return [self.ids[self._epoch(epoch)[place]] for epoch, place in places]

    def _epoch(self, epoch: int) -> list[int]:
        """Returns the order of an epoch."""
        if epoch not in self._epochs:
            order: list[int] = np.random.default_rng([self._seed, epoch]).permutation(len(self)).tolist()
            ranks = self._rank
            self._epochs = {epoch: order if ranks is None else sorted(order, key=lambda place: ranks[place])}
        return self._epochs[epoch]


def _difficulty(level: PoolLevel) -> tuple[float, float]:
    """Returns what levels are ordered by, the easiest first; those of which nothing is known last."""
    rate, length = level.pass_rate, level.solution_length
    return 1.0 if rate is None else -rate, 1e9 if length is None else float(length)


def open_pools(configs: Sequence[PoolConfig | None], *, seed: int) -> list[Pool | None]:
    """Returns the pool of each world that has one; raises as `chosen_levels`."""
    return [None if config is None else open_pool(config, seed=seed) for config in configs]


def open_pool(config: PoolConfig, *, seed: int) -> Pool:
    """Returns the levels of a pool that its filters let through; raises as `chosen_levels`."""
    return Pool(chosen_levels(config), seed=seed, order=config.order)


class ShownLevels:
    """Which levels of a pool can be shown, looked at when their turn comes for the first time.

    What stands for a level that cannot is the next one in the pool's file that can, and so the same in every process
    and after a resumption.

    Args:
        name: What the mix calls the world.
        ids: The pool's levels, in the order of its file.
    """

    def __init__(self, name: str, ids: Sequence[str]) -> None:
        self._name, self._ids = name, tuple(ids)
        self._faults: dict[str, str] = {}

    @property
    def num_broken(self) -> int:
        """How many levels cannot be shown, of those whose turn has come."""
        return sum(map(bool, self._faults.values()))

    def in_place_of(self, levels: Sequence[str], worlds: VectorWorld) -> list[str]:
        """Returns levels that can be shown; each that cannot is named once in a warning, with its file and row.

        Args:
            levels: Of the pool.
            worlds: Where they are to be played; the first of them looks.

        Raises:
            ConfigError: If no level of the pool can be shown.
        """
        self._look(levels, worlds)
        return [level if not self._faults[level] else self._next_after(level, worlds) for level in levels]

    def _next_after(self, level: str, worlds: VectorWorld) -> str:
        place = self._ids.index(level)
        for other in (*self._ids[place + 1 :], *self._ids[:place]):
            self._look([other], worlds)
            if not self._faults[other]:
                return other
        raise ConfigError(
            f"None of the {len(self._ids)} levels in the pool of {self._name} can be shown. {self._faults[level]} Copy "
            "the data set's pictures again, then go on with --resume."
        )

    def _look(self, levels: Sequence[str], worlds: VectorWorld) -> None:
        new = [level for level in dict.fromkeys(levels) if level not in self._faults]
        for level, fault in zip(new, looked_up(worlds, level_faults, new), strict=True):
            self._faults[level] = fault
            if fault:
                _logger.warning(
                    "A level of %s is left out, and the next one played in its place. %s %d of the pool's %d levels "
                    "are left out by now.",
                    self._name,
                    fault,
                    self.num_broken,
                    len(self._ids),
                )


def looked_up(worlds: VectorWorld, look: Callable[..., list[_Found]], levels: Sequence[str]) -> list[_Found]:
    """Returns what the first of some worlds finds out about levels, a few in each call, which has only so much time."""
    found: list[_Found] = []
    for start in range(0, len(levels), _AT_ONCE):
        found += worlds.apply({0: partial(look, levels=levels[start : start + _AT_ONCE])})[0]
    return found


def level_faults(world: Any, levels: Sequence[str], *, of: type[VLMEnvsError] = BrokenRowError) -> list[str]:
    """Returns what is wrong with each level, nothing with most; called where the world lives.

    Args:
        world: The world, whose data have the levels.
        levels: Their ids.
        of: The errors that are told; any other is raised.
    """
    found: list[str] = []
    for level in levels:
        try:
            world.dynamics.load(level)
            found.append("")
        except of as error:
            found.append(str(error))
    return found
