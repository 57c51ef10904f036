"""The worlds that a run trains on: id, arguments, weight, pool, and the name in logs."""

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
"""Most worlds of an evaluation that are played side by side."""
NUM_STARTS = 3
"""How often worlds are made whose workers do not come up, before they are given up."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class WorldSpec:
    """One world of a training mix.

    Attributes:
        env_id: Registered id, with or without the module that registers it in front: `my_module:My/World-v0`.
        kwargs: Arguments of the world; `split` is set by the trainer.
        weight: Share of the mix, relative to the others. After every iteration a world has played its share of all
            groups so far, within 1, or 2 beside a pair (the same world as ivgr_grounded and as ivgr_textual, which play
            each start state together): what one rounds off, the next ones make up.
        name: What logs, evaluations and reports call it. None for its id; where the id occurs more than once, with the
            arguments in which it differs from the others.
        pool: The levels it is trained on, a finite set that is gone through epoch by epoch; None for levels drawn anew
            each time. Evaluations play held-out levels either way.
        cold_start_pool: Likewise, the levels that a cold start's expert shows; they must not be any of `pool`.
        cold_start_suboptimal_rate: How often a cold start's expert plans a turn of this world without regard for what
            makes it hard; None for the cold start's `suboptimal_rate`.
        cold_start_weight: Share of a cold start's demonstrations, relative to the others; None for `weight`. What takes
            long to imitate need not be reinforced for long.
        workers: Where worlds are stepped: `"serial"`, `"thread"`, `"process"` or `"ray"`. The grid worlds step in
            microseconds, less than handing them to a thread takes; worlds that are slow, or may hang or crash, belong
            in processes, and on the machines of a Ray cluster where one machine's cores are too few.
        num_workers: Threads, processes or actors, each of which steps its worlds one after another; None for one per
            CPU core. Worlds that only wait, for a server elsewhere say, want a thread each.
        step_timeout_s: Longest time one world may take for one step or reset, in seconds, before its worker is lost;
            serial worlds have no limit.
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
            "A run draws its own pools for the model that it starts from, and before a cold start there is none. Draw "
            "this one beforehand: python -m training pool RECIPE --out FILE.",
        )
        require("split" not in self.kwargs, "Leave `split` out of a WorldSpec's kwargs; the trainer sets it.")

    @property
    def prompt_format(self) -> str:
        """The strategy the world is played with: its own unless it is told another."""
        if "prompt_format" in self.kwargs:
            return str(self.kwargs["prompt_format"])
        with self.made() as world:
            return str(getattr(world, "prompt_format", ""))

    @property
    def reads_data(self) -> bool:
        """Whether its levels are somebody's data, such as a local copy of a data set."""
        return bool({"dataset", "source"} & set(self.kwargs))

    @contextmanager
    def made(self, **more: Any) -> Iterator[Any]:
        """Gives one of these worlds, to be looked at within the block; it is closed behind it."""
        with closing(make(self.env_id, **self.kwargs, **more)) as world:
            yield world.unwrapped

    def make_vector(self, num_envs: int, *, split: str) -> VectorWorld:
        """Returns that many of these worlds, with levels of one split.

        Raises:
            WorkerError: If a worker dies or hangs while it makes them, three times in a row.
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
                _logger.warning("%s Worlds of %s are made anew.", error, self.env_id)
        return made(**self.kwargs)

    def try_vector(self, num_envs: int, *, split: str) -> VectorWorld | None:
        """Returns what `make_vector` does, or None where it cannot: for those who can do without these worlds."""
        try:
            return self.make_vector(num_envs, split=split)
        except WorkerError as error:
            _logger.warning("%s %d worlds of %s are left out.", error, num_envs, self.env_id)
            return None

    def num_levels(self, split: str) -> int | None:
        """Returns how many levels a split has where they are listed, as in a benchmark; None where they are drawn."""
        with self.made(split=split) as world:
            found: int | None = getattr(world, "num_levels", None)
        return found

    def unshown(self, split: str, seeds: Sequence[int]) -> dict[int, str]:
        """Returns what is wrong with those of some seeds' items that cannot be shown, where a split lists them."""
        if split == "train" or not self.reads_data:
            return {}
        with self.made(split=split) as world:
            return unshown_items(world, seeds)

    def has_level(self, split: str) -> bool:
        """Returns whether a split has any level; a data set may have none of it, a benchmark none to train on."""
        if not self.reads_data:
            return True
        with self.made() as world:
            num_samples = getattr(_source_of(world), "num_samples", None)
            return num_samples is None or num_samples(split) > 0

    def answer_kinds(self) -> frozenset[str]:
        """Returns how answers to its questions are compared; nothing where that is not known beforehand."""
        with self.made() as world:
            return frozenset(getattr(_source_of(world), "answer_kinds", ()))


def _source_of(world: Any) -> Any:
    """Returns where a world has its levels from, if it is one that asks."""
    return getattr(getattr(world, "dynamics", None), "source", None)


def drawn_pool_contradictions(specs: Sequence[WorldSpec]) -> Iterator[str]:
    """Yields pools of one file that the run is to draw in two ways; bands of one pool differ in their filters only."""
    first: dict[str, int] = {}
    for number, spec in enumerate(specs):
        if spec.pool is None or not spec.pool.draw:
            continue
        before = first.setdefault(spec.pool.file, number)
        other = specs[before].pool
        assert other is not None
        if (other.draw, other.attempts, other.exclude) != (spec.pool.draw, spec.pool.attempts, spec.pool.exclude):
            yield (
                f"--worlds.{before} and --worlds.{number} have the run draw one pool, {spec.pool.file}, in two ways. "
                f"Give them the same --worlds.{number}.pool.draw, .attempts and .exclude, or another "
                f"--worlds.{number}.pool.file."
            )


def world_names(specs: Sequence[WorldSpec]) -> tuple[str, ...]:
    """Returns what logs call each world of a mix; one id may occur as often as one likes.

    Returns:
        The name a spec gives itself, or its env id; where an id occurs more than once, with the arguments that tell
        its entries apart, such as `VLM/FrozenLake-v0 (size=8)`, and a number where nothing does.
    """
    names: list[str] = []
    for spec in specs:
        alike = [each for each in specs if each.env_id == spec.env_id and each.name is None]
        telling = [
            f"{key}={value}"
            for key, value in spec.kwargs.items()
            if any(each.kwargs.get(key) != value for each in alike)
        ]
        name = spec.name or (f"{spec.env_id} ({', '.join(telling)})" if telling else spec.env_id)
        names.append(name)
    return tuple(
        f"{name} #{names[: index + 1].count(name)}" if spec.name is None and names.count(name) > 1 else name
        for index, (spec, name) in enumerate(zip(specs, names, strict=True))
    )
