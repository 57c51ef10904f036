"""A world of a run: id, arguments, weight, pool, and name in logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from training.pools.pool_config import PoolConfig
from vlm_envs.errors import WorkerError
from vlm_envs.qa.datasets.dataset_splits import unshown_items
from vlm_envs.registration import make, registered_name
from vlm_envs.validation import field_name, require, require_above, require_at_least, require_between, require_choice
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.vector.vector_world import WORKER_KINDS, VectorWorld

MAX_PARALLEL = 256
"""Maximum number of concurrent worlds in an evaluation."""
NUM_STARTS = 3
"""Attempts to start worlds whose workers fail to start."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class WorldSpec:
    """One world of a training mix.

    Attributes:
        env_id: Registered id, optionally prefixed with the module that registers it: `my_module:My/World-v0`.
        kwargs: Arguments of the world; `split` is set by the trainer.
        weight: Share of the mix, relative to the other worlds. After every iteration, a world has played its share of
            all groups so far within 1, or within 2 next to a pair (the same world as ivgr_grounded and as ivgr_textual,
            which share start states); later iterations make up for rounding.
        name: Name in logs, evaluations, and reports. None for the id; repeated ids are followed by the arguments in
            which they differ.
        pool: A finite set of levels to train on, in epochs; None to draw new levels each time. Evaluations use
            held-out levels either way.
        cold_start_pool: Pool of the levels that a cold start's expert demonstrates; disjoint from `pool`.
        cold_start_suboptimal_rate: Share of turns in which a cold start's expert ignores the world's main difficulty;
            None for the cold start's `suboptimal_rate`.
        cold_start_weight: Share of a cold start's demonstrations, relative to the others; None for `weight`. A world
            that takes long to imitate may need little reinforcement learning.
        workers: Where worlds are stepped: `"serial"`, `"thread"`, `"process"`, or `"ray"`. Grid worlds step in
            microseconds, less than the overhead of a thread; worlds that are slow or may hang or crash belong in
            processes, or on the machines of a Ray cluster if one machine has too few cores.
        num_workers: Threads, processes, or actors, each of which steps its worlds in sequence; None for one per
            CPU core. Worlds that mostly wait, such as for a remote server, need a thread each.
        step_timeout_s: Time limit of one step or reset, in seconds, after which its worker is lost; serial worlds have
            no limit.
    """

    env_id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    weight: float = 1.0
    name: str | None = None
    pool: PoolConfig | None = None
    cold_start_pool: PoolConfig | None = None
    cold_start_suboptimal_rate: float | None = None
    cold_start_weight: float | None = None
    workers: str = "serial"
    num_workers: int | None = None
    step_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        registered_name(self.env_id)
        require_above(self, 0, "weight", "cold_start_weight")
        require_choice(field_name(self, "workers"), self.workers, WORKER_KINDS)
        require_at_least(self, 1, "num_workers")
        require_above(self, 0, "step_timeout_s")
        require_between(self, 0, 1, "cold_start_suboptimal_rate")
        require(
            self.cold_start_pool is None or not self.cold_start_pool.draw,
            "A run draws its own pools with the model it starts from, which does not exist before a cold start. Draw "
            "this pool in advance: python -m training pool RECIPE --out FILE.",
        )
        require("split" not in self.kwargs, "Leave `split` out of a WorldSpec's kwargs; the trainer sets it.")

    @property
    def prompt_format(self) -> str:
        """The world's prompt format: an explicit one or its default."""
        if "prompt_format" in self.kwargs:
            return str(self.kwargs["prompt_format"])
        with self.made() as world:
            return str(getattr(world, "prompt_format", ""))

    @property
    def reads_data(self) -> bool:
        """Whether its levels come from user data, such as a local copy of a dataset."""
        return bool({"dataset", "source"} & set(self.kwargs))

    @contextmanager
    def made(self, **more: Any) -> Iterator[Any]:
        """Yields one such world for inspection and closes it on exit."""
        with closing(make(self.env_id, **self.kwargs, **more)) as world:
            yield world.unwrapped

    def make_vector(self, num_envs: int, *, split: str) -> VectorWorld:
        """Creates `num_envs` such worlds with levels of one split.

        Raises:
            WorkerError: If a worker dies or hangs during creation three times in a row.
        """
        made = partial(
            world_vector,
            self.env_id,
            num_envs,
            split=split,
            workers=self.workers,
            num_workers=self.num_workers,
            step_timeout_s=self.step_timeout_s,
        )
        for _ in range(NUM_STARTS - 1):
            try:
                return made(**self.kwargs)
            except WorkerError as error:
                _logger.warning("%s Worlds of %s are restarted.", error, self.env_id)
        return made(**self.kwargs)

    def try_vector(self, num_envs: int, *, split: str) -> VectorWorld | None:
        """Returns the result of `make_vector`, or None if it fails, for callers that can do without these worlds."""
        try:
            return self.make_vector(num_envs, split=split)
        except WorkerError as error:
            _logger.warning("%s %d worlds of %s are left out.", error, num_envs, self.env_id)
            return None

    def num_levels(self, split: str) -> int | None:
        """Returns the number of levels of a split that lists them, as in a benchmark; None if levels are drawn."""
        with self.made(split=split) as world:
            found: int | None = getattr(world, "num_levels", None)
        return found

    def unshown(self, split: str, seeds: Sequence[int]) -> dict[int, str]:
        """Returns the faults of items that cannot be shown, by seed; empty for splits that do not list items."""
        if split == "train" or not self.reads_data:
            return {}
        with self.made(split=split) as world:
            return unshown_items(world, seeds)

    def has_level(self, split: str) -> bool:
        """Returns whether a split has any level; a dataset may lack one, and a benchmark has none for training."""
        if not self.reads_data:
            return True
        with self.made() as world:
            num_samples = getattr(_source_of(world), "num_samples", None)
            return num_samples is None or num_samples(split) > 0

    def answer_kinds(self) -> frozenset[str]:
        """Returns the comparison kinds of the answers to its questions; empty if unknown in advance."""
        with self.made() as world:
            return frozenset(getattr(_source_of(world), "answer_kinds", ()))


def _source_of(world: Any) -> Any:
    """Returns the source of a question-answering world's levels, or None."""
    return getattr(getattr(world, "dynamics", None), "source", None)


def drawn_pool_contradictions(specs: Sequence[WorldSpec]) -> Iterator[str]:
    """Yields messages about pools of one file that a run would draw in two ways; only their filters may differ."""
    first: dict[str, int] = {}
    for number, spec in enumerate(specs):
        if spec.pool is None or not spec.pool.draw:
            continue
        before = first.setdefault(spec.pool.file, number)
        other = specs[before].pool
        assert other is not None
        if (other.draw, other.attempts, other.exclude) != (spec.pool.draw, spec.pool.attempts, spec.pool.exclude):
            yield (
                f"--worlds.{before} and --worlds.{number} draw one pool, {spec.pool.file}, in two ways. "
                f"Give them the same --worlds.{number}.pool.draw, .attempts, and .exclude, or another "
                f"--worlds.{number}.pool.file."
            )


def world_names(specs: Sequence[WorldSpec]) -> tuple[str, ...]:
    """Returns the name of each world of a mix in logs; an id may occur any number of times.

    Returns:
        The name of a spec, or its env id; a repeated id is followed by the distinguishing arguments, as in
        `VLM/FrozenLake-v0 (size=8)`, or by a number if there are none.
    """
    names: list[str] = []
    for spec in specs:
        alike = [other for other in specs if other.env_id == spec.env_id and other.name is None]
        telling = [
            f"{key}={value}"
            for key, value in spec.kwargs.items()
            if any(other.kwargs.get(key) != value for other in alike)
        ]
        name = spec.name or (f"{spec.env_id} ({', '.join(telling)})" if telling else spec.env_id)
        names.append(name)
    return tuple(
        f"{name} #{names[: index + 1].count(name)}" if spec.name is None and names.count(name) > 1 else name
        for index, (spec, name) in enumerate(zip(specs, names, strict=True))
    )
