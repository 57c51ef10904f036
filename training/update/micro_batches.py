"""Micro-batches: which rows pass through a model together, the gradient they add up to, and memory that runs out."""

from __future__ import annotations

import gc
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Barrier
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from training.algorithms.losses import Aggregation, loss_normalizer
from training.batch import Batch
from training.engines.engine import Engine
from training.engines.optimizer import Optimizer
from training.errors import MemoryExhaustedError

MAX_PADDING = 0.1
"""Most of a micro-batch that is padding, where it is cut by tokens and padding goes through all layers."""
Metrics = defaultdict[str, float]
T = TypeVar("T")
R = TypeVar("R")

OF_UPDATE = (
    "Lower --ppo.micro-batch-tokens or --ppo.micro-batch-size, or add --memory.gradient-checkpointing, as --resume "
    "allows; a new run may add --lora.rank 32, or have shorter rows (--sampling.max-new-tokens, fewer turns)."
)
OF_UPDATES_AT_ONCE = f"Use --ppo.num-micro-batches-at-once 1, as --resume allows. {OF_UPDATE}"
OF_FINE_TUNING = (
    "Lower --micro-batch-tokens or add --memory.gradient-checkpointing, as --resume allows; a new run may add "
    "--lora.rank 32 or --memory.freeze-vision-tower, leave long rows out (--max-context-tokens) or show smaller "
    "pictures (--max-image-pixels)."
)
OF_SAMPLING = (
    "All rows are played at a time: lower --num-groups or --group-size, or have shorter ones "
    "(--sampling.max-new-tokens, fewer turns or smaller pictures of the worlds)."
)

OF_EVALUATION = "Have shorter episodes: --sampling.max-new-tokens, fewer turns or smaller pictures of the worlds."
_SAID_BY = ("DefaultCPUAllocator: can't allocate memory", "CUDA error: out of memory", "CUDA out of memory")
"""What torch says where its error is of no kind of its own."""


@dataclass(frozen=True, kw_only=True)
class RowLimits:
    """How much goes through a model at a time.

    Attributes:
        max_rows: Most rows, where tokens do not count.
        max_tokens: Most tokens, padding included, of which no more than `MAX_PADDING` is that; a longer row goes alone.
            None counts rows.
        has_padding: Whether rows are as wide as the longest of them.
        keeps_siblings: Whether siblings go together, as far as there is room, for what they share goes through once.
            Padding then stands in attention alone, and counts as tokens, but may be any share of them.
        options: What the options begin with that set the limits, for messages.
    """

    max_rows: int
    max_tokens: int | None = None
    has_padding: bool = True
    keeps_siblings: bool = False
    options: str = "--ppo.micro-batch"

    def __str__(self) -> str:
        if self.max_tokens is None:
            return f"{self.options}-size {self.max_rows}"
        return f"{self.options}-tokens {self.max_tokens}"

    def below(self, parts: Sequence[Sequence[int]], lengths: Sequence[int]) -> RowLimits | None:
        """Returns limits of half of what the largest of several rows among these had; None if each was a single row.

        Args:
            parts: Rows of each.
            lengths: Tokens of each row of the batch.
        """
        divisible = [part for part in parts if len(part) > 1]
        if not divisible:
            return None
        if self.max_tokens is None:
            return replace(self, max_rows=max(map(len, divisible)) // 2)
        return replace(self, max_tokens=max(self.num_tokens([lengths[row] for row in part]) for part in divisible) // 2)

    def num_tokens(self, lengths: Sequence[int]) -> int:
        """Returns the tokens that rows of these lengths have together, padding included."""
        return len(lengths) * max(lengths) if self.has_padding else sum(lengths)


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """Rows that go through a model together.

    Attributes:
        rows: Their places in the whole batch.
        part: The rows.
        is_filler: Whether they only keep this process in step with others that have more to do: they are masked.
        is_last: Whether it is the last one of the optimiser step in this process.
        share: Their share of the optimiser step's generated tokens (and turn ends, where V is learnt there).
        drawn_share: Their share of those tokens that the sampler drew: not of observations that count as generated.
        normalizer: What the step's losses are divided by.
    """

    rows: list[int]
    part: Batch
    is_filler: bool
    is_last: bool
    share: float
    drawn_share: float
    normalizer: float

    def of(self, grid_BT: Tensor) -> Tensor:
        """Returns these rows of a grid of the whole batch, as wide as they are."""
        return grid_BT[self.rows][:, : self.part.input_ids_BT.shape[1]]


def minibatches(batch: Batch, num_epochs: int, num_minibatches: int, key: Sequence[int]) -> Iterator[list[int]]:
    """Yields the rows of each optimiser step, in an order that depends on key and epoch only.

    Siblings stand together, as in verl: their advantages are even, and they share work.

    Args:
        batch: What all epochs go through.
        num_epochs: How often.
        num_minibatches: Optimiser steps of each.
        key: Seed and iteration.
    """
    group_B = batch.group_index_B.numpy()
    for epoch in range(num_epochs):
        groups = np.random.default_rng([*key, epoch]).permutation(np.unique(group_B))
        order = np.concatenate([np.flatnonzero(group_B == group) for group in groups])
        for rows in np.array_split(order, num_minibatches):
            yield rows.tolist()


def micro_batches(
    batch: Batch,
    rows: Sequence[int],
    limits: RowLimits,
    engine: Engine,
    *,
    aggregation: Aggregation,
    with_turn_ends: bool = False,
    normalizer: float | None = None,
) -> Iterator[MicroBatch]:
    """Yields this process's micro-batches of an optimiser step; all processes' gradients add up to that of all rows.

    Args:
        batch: The whole batch.
        rows: The step's rows, of all processes.
        limits: How much goes through a model at a time.
        engine: Who shares the work.
        aggregation: How losses are averaged.
        with_turn_ends: Whether V is learnt at the ends of turns, too.
        normalizer: What losses are divided by; counted from the rows if it is None.

    Yields:
        As many in each process; nothing where nothing is learnt from these rows.
    """
    mask_BX = learnt_mask(batch, with_turn_ends=with_turn_ends)[list(rows)]
    if not mask_BX.any():
        return
    num_drawn = drawn_mask(batch)[list(rows)].sum().clamp(min=1)
    normalizer = normalizer if normalizer is not None else loss_normalizer(mask_BX, aggregation=aggregation)
    own = row_groups(batch, rows, limits, engine)
    for number, (chosen, is_filler) in enumerate(own):
        part = batch.select(chosen)
        if is_filler:
            part = replace(part, trainable_B=torch.zeros_like(part.trainable_B))
        yield MicroBatch(
            rows=chosen,
            part=part,
            is_filler=is_filler,
            is_last=number == len(own) - 1,
            share=float(learnt_mask(part, with_turn_ends=with_turn_ends).sum() / mask_BX.sum()),
            drawn_share=float(drawn_mask(part).sum() / num_drawn),
            normalizer=normalizer,
        )


def row_groups(batch: Batch, rows: Sequence[int], limits: RowLimits, engine: Engine) -> list[tuple[list[int], bool]]:
    """Returns the rows of each micro-batch of this process, and whether they are filler.

    Every process has as many, for layers that are spread over processes are put together by all of them at a time.
    """
    lengths = batch.attention_mask_BT.sum(-1).tolist()
    together = _siblings(rows, batch.group_index_B.tolist()) if limits.keeps_siblings else [[row] for row in rows]
    shares = shared_rows(together, lengths, engine.num_processes)
    parts = [split_rows(each, lengths, limits) for each in shares]
    own, num_parts = parts[engine.rank], max(map(len, parts))
    shortest = min(rows, key=lambda row: (lengths[row], row))
    return [(each, False) for each in own] + [([shortest], True)] * (num_parts - len(own))


def _siblings(rows: Sequence[int], group_index: Sequence[int]) -> list[list[int]]:
    """Returns rows by their groups."""
    groups: dict[int, list[int]] = {}
    for row in rows:
        groups.setdefault(group_index[row], []).append(row)
    return [*groups.values()]


def shared_rows(together: Sequence[Sequence[int]], lengths: Sequence[int], num_processes: int) -> list[list[list[int]]]:
    """Returns the rows of each process, so that all have about as many tokens: the longest first, to who has least.

    Args:
        together: Rows that stay together.
        lengths: Tokens of each row of the batch.
        num_processes: How many share them.
    """
    shares: list[list[list[int]]] = [[] for _ in range(num_processes)]
    loads = [0] * num_processes
    for rows in sorted(together, key=lambda rows: (-sum(lengths[row] for row in rows), min(rows))):
        process = loads.index(min(loads))
        shares[process].append(list(rows))
        loads[process] += sum(lengths[row] for row in rows)
    return shares


def split_rows(together: Sequence[Sequence[int]], lengths: Sequence[int], limits: RowLimits) -> list[list[int]]:
    """Returns rows by length, in parts that go through a model together.

    Args:
        together: Rows that stay together if a part has room for them all.
        lengths: Tokens of each row of the batch.
        limits: How large a part may be.
    """

    def fits(rows: Sequence[int]) -> bool:
        if limits.max_tokens is None:
            return len(rows) <= limits.max_rows
        num_tokens = limits.num_tokens([lengths[row] for row in rows])
        padding = num_tokens - sum(lengths[row] for row in rows)
        is_dense = limits.keeps_siblings or padding <= MAX_PADDING * num_tokens
        return num_tokens <= limits.max_tokens and is_dense

    parts: list[list[int]] = []
    for rows in sorted(together, key=lambda rows: (max(lengths[row] for row in rows), min(rows))):
        rows = sorted(rows, key=lambda row: (lengths[row], row))
        if parts and not fits([*parts[-1], *rows]) and fits(rows):
            parts.append([])
        for row in rows:
            if parts and (not parts[-1] or fits([*parts[-1], row])):
                parts[-1].append(row)
            else:
                parts.append([row])
    return parts


def learnt_mask(batch: Batch, *, with_turn_ends: bool) -> Tensor:
    """Returns where a loss runs: generated tokens, `(B, T)`, and with turn ends those behind them, `(B, T + K)`."""
    if not with_turn_ends:
        return batch.response_mask_BT
    return torch.cat([batch.response_mask_BT, batch.turn_mask_BK], dim=1)


def drawn_mask(batch: Batch) -> Tensor:
    """Returns which tokens that are learnt from the sampler drew, and so has a log-probability of."""
    return batch.response_mask_BT & ~batch.sampler_logprobs_BT.isnan()


def accumulate_gradient(
    loss_of: Callable[[MicroBatch, Metrics], Tensor],
    micros: Iterable[MicroBatch],
    *,
    module: nn.Module,
    optimizer: Optimizer,
    engine: Engine,
    side_by_side: SideBySide,
) -> Metrics:
    """Has an optimiser hold the gradient of a step's loss, and returns the step's metrics.

    Args:
        loss_of: Returns a micro-batch's share of the loss, and adds its metrics.
        micros: This process's micro-batches.
        module: What computes the loss, as the engine prepared it.
        optimizer: Of its weights.
        engine: Which processes train it.
        side_by_side: How many go through at a time; gradients are added up in their order, whichever is done first.
    """
    metrics: Metrics = defaultdict(float)
    optimizer.zero_grad()
    if side_by_side.num_at_once == 1:
        for micro in micros:
            with engine.accumulating(module, is_last=micro.is_last):
                optimizer.backward(loss_of(micro, metrics))
        return metrics

    def computed(micro: MicroBatch) -> tuple[list[Tensor | None], Metrics]:
        own: Metrics = defaultdict(float)
        return optimizer.gradients(loss_of(micro, own)), own

    for gradients, own in side_by_side.map(computed, micros):
        optimizer.add(gradients)
        for name, value in own.items():
            metrics[name] += value
    return metrics


class SideBySide:
    """Threads that passes run in, each with its share of torch's own threads. They end when nobody holds this any more.

    Threads that share one operation wait for each other at its end, and a small model's operations take microseconds:
    two cores do more with a micro-batch each than with half of every operation.

    What runs in them is to leave modules as they are, and has gradients enabled at first, as in any new thread.

    Args:
        num_at_once: How many at most: no more than torch has threads, and with 1 passes run where they are asked for.
    """

    def __init__(self, num_at_once: int = 1) -> None:
        num_threads = torch.get_num_threads()
        self.num_at_once = min(num_at_once, num_threads)
        self._pool = _pool(self.num_at_once, num_threads) if self.num_at_once > 1 else None

    def map(self, compute: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yields what is computed of each item, in their order; no more are begun than are computed at a time.

        Raises:
            Exception: What a computation raises, once the others that were begun are over.
        """
        if self._pool is None:
            yield from map(compute, items)
            return
        under_way: deque[Future[R]] = deque()
        try:
            for item in items:
                if len(under_way) == self.num_at_once:
                    yield under_way.popleft().result()
                under_way.append(self._pool.submit(compute, item))
            while under_way:
                yield under_way.popleft().result()
        finally:
            wait(under_way)


def _pool(num_at_once: int, num_threads: int) -> ThreadPoolExecutor:
    """Returns threads that have shared out torch's threads."""
    pool, all_there = ThreadPoolExecutor(num_at_once, thread_name_prefix="pass"), Barrier(num_at_once + 1)

    def take_share() -> None:
        torch.get_num_threads()  # Takes over torch's number, as a thread does when it first asks; and not again later
        torch.set_num_threads(num_threads // num_at_once)
        all_there.wait()

    for _ in range(num_at_once):
        pool.submit(take_share)
    all_there.wait()
    torch.set_num_threads(num_threads)  # A thread to come takes over what was set last, by whatever thread
    return pool


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether memory ran out, of a device or of the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(each in str(error) for each in _SAID_BY)


@contextmanager
def memory_told(doing: str, remedy: str) -> Iterator[None]:
    """Raises what says in one line where memory ran out, if it does within the block, and what to do.

    Args:
        doing: What was being done, as in "in the update".
        remedy: What to do, in sentences.

    Raises:
        MemoryExhaustedError: In place of torch's own error, which holds on to what the failed pass had made.
    """
    told = ""
    try:
        yield
    except MemoryExhaustedError:
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        told = first_line(error)
    if told:
        let_go()
        raise MemoryExhaustedError(f"Memory ran out {doing}: {told}. {remedy}")


def first_line(error: BaseException) -> str:
    """Returns the first sentence of torch's message, which goes on for a paragraph."""
    lines = str(error).strip().splitlines()
    return (lines[0].partition(". ")[0] if lines else type(error).__name__).rstrip(".")


def let_go() -> None:
    """Give back the memory that nothing holds anymore: of a failed pass, or of a finished stage's models."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


class FittedPasses:
    """Runs passes in micro-batches that fit: where memory runs out, once more in micro-batches of half the size.

    These are kept for the rest of the run. Several processes stop instead: the others may be waiting for this one in
    the midst of a pass.

    Args:
        limits: How much goes through a model at a time, to begin with.
        engine: Who shares the work.
        remedy: What to do where smaller ones do not help, in sentences.
    """

    def __init__(self, limits: RowLimits, engine: Engine, *, remedy: str) -> None:
        self.limits, self._engine, self._remedy = limits, engine, remedy

    def __call__(self, run: Callable[[], T], batch: Batch, rows: Sequence[int]) -> T:
        """Returns what passes over some rows give, which must start anew when they are run again.

        Raises:
            MemoryExhaustedError: If memory runs out in the second attempt, too, or there is no smaller micro-batch.
        """
        told, smaller = "", None
        try:
            return run()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            told, smaller = first_line(error), self._smaller(batch, rows)
        let_go()  # Behind the block, where nothing holds on to what the failed pass had made
        if smaller is None:
            raise MemoryExhaustedError(f"Memory ran out in the update: {told}. {self._remedy}")
        self.limits = smaller
        print(f"Memory ran out in the update: {told}. It goes on with {smaller}.", file=sys.stderr)
        with memory_told(f"in the update again, with {smaller}", self._remedy):
            return run()
        raise AssertionError("the block returns or raises")

    def _smaller(self, batch: Batch, rows: Sequence[int]) -> RowLimits | None:
        if self._engine.num_processes > 1:
            return None
        groups = [group for group, _ in row_groups(batch, rows, self.limits, self._engine)]
        return self.limits.below(groups, batch.attention_mask_BT.sum(-1).tolist())
