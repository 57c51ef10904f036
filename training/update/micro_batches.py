"""Micro-batches: grouping rows for a forward pass, accumulating gradients, and handling out-of-memory errors."""

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
"""Maximum share of padding in a micro-batch that is limited by tokens, if padding passes through all layers."""
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
    "--lora.rank 32 or --memory.freeze-vision-tower, leave long rows out (--max-context-tokens), or use smaller "
    "images (--max-image-pixels)."
)
OF_SAMPLING = (
    "All rows are played at the same time: lower --num-groups or --group-size, or use shorter rows "
    "(--sampling.max-new-tokens, or worlds with fewer turns or smaller images)."
)

OF_EVALUATION = "Use shorter episodes: --sampling.max-new-tokens, or worlds with fewer turns or smaller images."
_OUT_OF_MEMORY_TEXTS = ("DefaultCPUAllocator: can't allocate memory", "CUDA error: out of memory", "CUDA out of memory")
"""Texts of torch's out-of-memory errors that have no type of their own."""


@dataclass(frozen=True, kw_only=True)
class RowLimits:
    """Limits of a micro-batch.

    Attributes:
        max_rows: Maximum rows, if `max_tokens` is None.
        max_tokens: Maximum tokens, including padding, of which at most `MAX_PADDING` is padding; a longer row goes
            alone. None limits rows.
        has_padding: Whether rows are padded to the longest of them.
        keeps_siblings: Whether a group's rows stay together as far as possible, as their shared prefix is computed
            once. Padding then exists only in attention; it counts as tokens, but may be any share of them.
        options: Prefix of the options that set the limits, for messages.
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
        """Returns limits at half the size of the largest of these micro-batches; None if all have a single row.

        Args:
            parts: Rows of each micro-batch.
            lengths: Number of tokens of each row of the batch.
        """
        divisible = [part for part in parts if len(part) > 1]
        if not divisible:
            return None
        if self.max_tokens is None:
            return replace(self, max_rows=max(map(len, divisible)) // 2)
        return replace(self, max_tokens=max(self.num_tokens([lengths[row] for row in part]) for part in divisible) // 2)

    def num_tokens(self, lengths: Sequence[int]) -> int:
        """Returns the total number of tokens of rows with these lengths, including padding."""
        return len(lengths) * max(lengths) if self.has_padding else sum(lengths)


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """Rows that pass through a model together.

    Attributes:
        rows: Their indices in the whole batch.
        part: The rows.
        is_filler: Whether the masked rows only keep this process in step with others that have more micro-batches.
        is_last: Whether it is the last one of the optimizer step in this process.
        share: Share of the optimizer step's generated tokens (and turn ends, if V is trained there).
        drawn_share: Share of those tokens that were sampled, without observations that count as generated.
        normalizer: Divisor of the step's losses.
    """

    rows: list[int]
    part: Batch
    is_filler: bool
    is_last: bool
    share: float
    drawn_share: float
    normalizer: float

    def of(self, grid_BT: Tensor) -> Tensor:
        """Returns these rows of a `(B, T)` tensor of the whole batch, cut to their width."""
        return grid_BT[self.rows][:, : self.part.input_ids_BT.shape[1]]


def minibatches(batch: Batch, num_epochs: int, num_minibatches: int, key: Sequence[int]) -> Iterator[list[int]]:
    """Yields the rows of each optimizer step, in an order that depends only on `key` and epoch.

    Groups stay together, as in verl: their advantages balance, and they share prefixes.

    Args:
        batch: The batch.
        num_epochs: Number of passes over the batch.
        num_minibatches: Optimizer steps per pass.
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
    """Yields this process's micro-batches of an optimizer step; over all processes, gradients sum to that of all rows.

    Args:
        batch: The whole batch.
        rows: The step's rows in all processes.
        limits: Limits of a micro-batch.
        engine: Engine of the training processes.
        aggregation: How losses are averaged.
        with_turn_ends: Whether V is also trained at turn ends.
        normalizer: Divisor of the losses; None to count it from the rows.

    Yields:
        The same number in each process; nothing if these rows have no trainable tokens.
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

    Every process gets the same number, as sharded layers are gathered by all processes together.
    """
    lengths = batch.attention_mask_BT.sum(-1).tolist()
    together = _siblings(rows, batch.group_index_B.tolist()) if limits.keeps_siblings else [[row] for row in rows]
    shares = shared_rows(together, lengths, engine.num_processes)
    parts = [split_rows(share, lengths, limits) for share in shares]
    own, num_parts = parts[engine.rank], max(map(len, parts))
    shortest = min(rows, key=lambda row: (lengths[row], row))
    return [(part, False) for part in own] + [([shortest], True)] * (num_parts - len(own))


def _siblings(rows: Sequence[int], group_index: Sequence[int]) -> list[list[int]]:
    """Returns rows by group."""
    groups: dict[int, list[int]] = {}
    for row in rows:
        groups.setdefault(group_index[row], []).append(row)
    return [*groups.values()]


def shared_rows(together: Sequence[Sequence[int]], lengths: Sequence[int], num_processes: int) -> list[list[list[int]]]:
    """Distributes rows over processes with about equal numbers of tokens: longest first, to the least loaded process.

    Args:
        together: Groups of rows that stay together.
        lengths: Number of tokens of each row of the batch.
        num_processes: Number of processes.
    """
    shares: list[list[list[int]]] = [[] for _ in range(num_processes)]
    loads = [0] * num_processes
    for rows in sorted(together, key=lambda rows: (-sum(lengths[row] for row in rows), min(rows))):
        process = loads.index(min(loads))
        shares[process].append(list(rows))
        loads[process] += sum(lengths[row] for row in rows)
    return shares


def split_rows(together: Sequence[Sequence[int]], lengths: Sequence[int], limits: RowLimits) -> list[list[int]]:
    """Splits rows, sorted by length, into micro-batches.

    Args:
        together: Groups of rows that stay together if they fit.
        lengths: Number of tokens of each row of the batch.
        limits: Limits of a micro-batch.
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
    """Returns where losses apply: at generated tokens, `(B, T)`, and with turn ends also at these, `(B, T + K)`."""
    if not with_turn_ends:
        return batch.response_mask_BT
    return torch.cat([batch.response_mask_BT, batch.turn_mask_BK], dim=1)


def drawn_mask(batch: Batch) -> Tensor:
    """Returns the trained tokens that were sampled and therefore have a sampler log-probability."""
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
    """Accumulates the gradient of a step's loss in an optimizer and returns the step's metrics.

    Args:
        loss_of: Returns a micro-batch's share of the loss, and adds its metrics.
        micros: This process's micro-batches.
        module: The module that computes the loss, as prepared by the engine.
        optimizer: Optimizer of its weights.
        engine: Engine of the training processes.
        side_by_side: Runs passes concurrently; gradients are added in order, whichever is computed first.
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
    """Runs passes in threads, each with its share of torch's threads. The threads end with this object.

    Threads that share one operation wait for each other at its end, and a small model's operations take microseconds:
    two cores are faster with one micro-batch each than with half of every operation.

    Passes must not change modules; they start with gradients enabled, as in any new thread.

    Args:
        num_at_once: Maximum number of concurrent passes, at most torch's threads; with 1, passes run in the caller.
    """

    def __init__(self, num_at_once: int = 1) -> None:
        num_threads = torch.get_num_threads()
        self.num_at_once = min(num_at_once, num_threads)
        self._pool = _pool(self.num_at_once, num_threads) if self.num_at_once > 1 else None

    def map(self, compute: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yields the results for each item in order; at most `num_at_once` are started and not yet yielded.

        Raises:
            Exception: Raised by a computation, after the others that were started have ended.
        """
        if self._pool is None:
            yield from map(compute, items)
            return
        running: deque[Future[R]] = deque()
        try:
            for item in items:
                if len(running) == self.num_at_once:
                    yield running.popleft().result()
                running.append(self._pool.submit(compute, item))
            while running:
                yield running.popleft().result()
        finally:
            wait(running)


def _pool(num_at_once: int, num_threads: int) -> ThreadPoolExecutor:
    """Returns a pool whose threads each have an equal share of torch's threads."""
    pool, all_there = ThreadPoolExecutor(num_at_once, thread_name_prefix="pass"), Barrier(num_at_once + 1)

    def take_share() -> None:
        torch.get_num_threads()  # a thread copies the global number on its first call, so call before setting
        torch.set_num_threads(num_threads // num_at_once)
        all_there.wait()

    for _ in range(num_at_once):
        pool.submit(take_share)
    all_there.wait()
    torch.set_num_threads(num_threads)  # new threads copy the number that was set last, by any thread
    return pool


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an error means that a device or the host ran out of memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY_TEXTS)


@contextmanager
def memory_told(doing: str, remedy: str) -> Iterator[None]:
    """Converts out-of-memory errors in the block to a one-line message with a suggestion.

    Args:
        doing: The activity, as in "in the update".
        remedy: Suggestion, in sentences.

    Raises:
        MemoryExhaustedError: In place of torch's own error, which would keep the failed pass's tensors alive.
    """
    reason = ""
    try:
        yield
    except MemoryExhaustedError:
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error)
    if reason:
        let_go()
        raise MemoryExhaustedError(f"Memory ran out {doing}: {reason}. {remedy}")


def first_line(error: BaseException) -> str:
    """Returns the first sentence of torch's message, which may be a whole paragraph."""
    lines = str(error).strip().splitlines()
    return (lines[0].partition(". ")[0] if lines else type(error).__name__).rstrip(".")


def let_go() -> None:
    """Frees unreferenced memory, such as that of a failed pass or of a finished stage's models."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


class FittedPasses:
    """Runs passes in micro-batches, and retries once with half the size if memory runs out.

    The smaller size is kept for the rest of the run. With several processes, the error is raised instead, as the
    others may be waiting for this one in the middle of a pass.

    Args:
        limits: Initial limits of a micro-batch.
        engine: Engine of the training processes.
        remedy: Suggestion if smaller micro-batches do not help, in sentences.
    """

    def __init__(self, limits: RowLimits, engine: Engine, *, remedy: str) -> None:
        self.limits, self._engine, self._remedy = limits, engine, remedy

    def __call__(self, run: Callable[[], T], batch: Batch, rows: Sequence[int]) -> T:
        """Returns the result of `run` on some rows; `run` must start over when it is called again.

        Raises:
            MemoryExhaustedError: If memory runs out again, or micro-batches cannot be smaller.
        """
        reason, smaller = "", None
        try:
            return run()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            reason, smaller = first_line(error), self._smaller(batch, rows)
        let_go()  # outside the except block, where nothing keeps the failed pass's tensors alive
        if smaller is None:
            raise MemoryExhaustedError(f"Memory ran out in the update: {reason}. {self._remedy}")
        self.limits = smaller
        print(f"Memory ran out in the update: {reason}. Continuing with {smaller}.", file=sys.stderr)
        with memory_told(f"in the update again, with {smaller}", self._remedy):
            return run()
        raise AssertionError("the block returns or raises")

    def _smaller(self, batch: Batch, rows: Sequence[int]) -> RowLimits | None:
        if self._engine.num_processes > 1:
            return None
        groups = [group for group, _ in row_groups(batch, rows, self.limits, self._engine)]
        return self.limits.below(groups, batch.attention_mask_BT.sum(-1).tolist())
