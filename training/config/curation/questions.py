"""The questions of a curation, world by world, in batches that are asked, verified and written together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from training.config.curation.curate import CurateConfig
from training.config.worlds.pool_levels import chosen_levels, read_levels
from training.config.worlds.spec import WorldSpec
from vlm_envs.splits import split_seeds

_FIRST_SEED = 950_000_000
"""Training seeds from here on belong to curation; cold starts and reinforcement learning use others."""


@dataclass(frozen=True, kw_only=True)
class QuestionBatch:
    """Questions of one world.

    Attributes:
        world: The world's place among the `specs` of the configuration.
        seeds: Reset seed of each question.
        levels: Level of each question, where they are a pool's; None where seeds draw them.
    """

    world: int
    seeds: tuple[int, ...]
    levels: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.seeds)

    def part(self, places: Sequence[int]) -> QuestionBatch:
        """Returns some of the questions."""
        levels = None if self.levels is None else tuple(self.levels[place] for place in places)
        return QuestionBatch(world=self.world, seeds=tuple(self.seeds[place] for place in places), levels=levels)


def questions(config: CurateConfig) -> list[QuestionBatch]:
    """Returns all questions of each world."""
    return [_questions_of(config, number, spec) for number, spec in enumerate(config.specs)]


def _questions_of(config: CurateConfig, number: int, spec: WorldSpec) -> QuestionBatch:
    count = config.num_samples_of(spec)
    pool = spec.pool
    if pool is not None and counts_decide(config, spec):
        pool = replace(pool, drop_trivial=True)
    levels = None if pool is None else tuple(each.level_id for each in chosen_levels(pool)[:count])
    first = _FIRST_SEED + config.seed * 1_000_003 % 40_000_000
    seeds = split_seeds("train", count if levels is None else len(levels), start=first)
    return QuestionBatch(world=number, seeds=tuple(seeds), levels=levels)


def counts_decide(config: CurateConfig, spec: WorldSpec) -> bool:
    """Returns whether passes that a world's pool has counted tell which questions are trivial, and no rollout does.

    They are the base model's, of before anything is curated: what it always gets right is not asked at all.
    """
    return config.drop_trivial and spec.pool is not None and any(each.attempts for each in read_levels(spec.pool.file))


def counted_by(spec: WorldSpec) -> frozenset[str]:
    """Returns the agents whose passes a world's pool has counted, where its rows say so."""
    levels = [] if spec.pool is None else read_levels(spec.pool.file)
    return frozenset(each.agent for each in levels if each.attempts and each.agent is not None)


def num_trivial_by_counts(config: CurateConfig, spec: WorldSpec) -> int:
    """Returns how many levels of a world's pool are left out for it."""
    if spec.pool is None or not counts_decide(config, spec):
        return 0
    return len(chosen_levels(spec.pool)) - len(chosen_levels(replace(spec.pool, drop_trivial=True)))


def in_batches(
    asked: Sequence[QuestionBatch],
    size: int,
    *,
    num_done: Mapping[int, int] = MappingProxyType({}),
    has_enough: Callable[[int], bool] = lambda world: False,
) -> Iterator[QuestionBatch]:
    """Yields questions in batches of one world each.

    Args:
        asked: All questions, as `questions` returns them.
        size: Most questions of a batch.
        num_done: How many questions of each world, the first ones, are left out.
        has_enough: Whether no more is to be asked of a world; it is asked before each batch.
    """
    for of_world in asked:
        for start in range(num_done.get(of_world.world, 0), len(of_world), size):
            if has_enough(of_world.world):
                break
            yield of_world.part(range(start, min(start + size, len(of_world))))


def digest_of(asked: Sequence[QuestionBatch]) -> str:
    """Returns a hash of all questions: a pool may be another one under the same name."""
    said = [[each.seeds[:1], len(each), each.levels] for each in asked]
    return hashlib.blake2b(json.dumps(said).encode("ascii"), digest_size=8).hexdigest()


def num_questions(asked: Sequence[QuestionBatch]) -> int:
    """Returns how many questions there are; one that is asked again under another setting is another."""
    return sum(map(len, asked))
