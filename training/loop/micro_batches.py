"""Which rows go through a model together: by length, so that little is padding, and shared out among processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from training.algorithms.functional.losses import loss_normalizer
from training.batch import Batch
from training.config.ppo import PPOConfig
from training.engines.engine import Engine

MAX_PADDING = 0.1
"""Most of a micro-batch that is padding, where it is cut by tokens."""


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


def micro_batches(
    batch: Batch,
    rows: Sequence[int],
    ppo: PPOConfig,
    engine: Engine,
    *,
    with_turn_ends: bool = False,
    normalizer: float | None = None,
) -> Iterator[MicroBatch]:
    """Yields this process's micro-batches of an optimiser step; all processes' gradients add up to that of all rows.

    Args:
        batch: The whole batch.
        rows: The step's rows, of all processes.
        ppo: How rows are put together and losses averaged.
        engine: Who shares the work.
        with_turn_ends: Whether V is learnt at the ends of turns, too.
        normalizer: What losses are divided by; counted from the rows if it is None.

    Yields:
        As many in each process; nothing where nothing is learnt from these rows.
    """
    mask_BX = learnt_mask(batch, with_turn_ends=with_turn_ends)[list(rows)]
    if not mask_BX.any():
        return
    num_drawn = drawn_mask(batch)[list(rows)].sum().clamp(min=1)
    normalizer = normalizer if normalizer is not None else loss_normalizer(mask_BX, aggregation=ppo.aggregation)
    own = row_groups(batch, rows, ppo, engine)
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


def row_groups(batch: Batch, rows: Sequence[int], ppo: PPOConfig, engine: Engine) -> list[tuple[list[int], bool]]:
    """Returns the rows of each micro-batch of this process, and whether they are filler.

    Every process has as many, for layers that are spread over processes are put together by all of them at a time.
    """
    lengths = batch.attention_mask_BT.sum(-1).tolist()
    shares = shared_rows(rows, lengths, engine.num_processes)
    parts = [
        split_rows(each, lengths, max_rows=ppo.micro_batch_size, max_tokens=ppo.micro_batch_tokens) for each in shares
    ]
    own, num_parts = parts[engine.rank], max(map(len, parts))
    shortest = min(rows, key=lambda row: (lengths[row], row))
    return [(each, False) for each in own] + [([shortest], True)] * (num_parts - len(own))


def shared_rows(rows: Sequence[int], lengths: Sequence[int], num_processes: int) -> list[list[int]]:
    """Returns the rows of each process, so that all have about as many tokens: the longest first, to who has least."""
    shares: list[list[int]] = [[] for _ in range(num_processes)]
    loads = [0] * num_processes
    for row in sorted(rows, key=lambda row: (-lengths[row], row)):
        process = loads.index(min(loads))
        shares[process].append(row)
        loads[process] += lengths[row]
    return shares


def split_rows(
    rows: Sequence[int], lengths: Sequence[int], *, max_rows: int, max_tokens: int | None
) -> list[list[int]]:
    """Returns rows by length, in parts that go through a model together.

    Args:
        rows: Rows of a batch.
        lengths: Tokens of each row of the batch.
        max_rows: Most rows of a part, where tokens do not count.
        max_tokens: Most tokens of a part, padding included, of which no more than `MAX_PADDING` is that; a longer row
            is a part of its own. None counts rows.
    """
    parts: list[list[int]] = []
    num_tokens = 0  # of the last part, without padding
    for row in sorted(rows, key=lambda row: (lengths[row], row)):
        num_rows, num_tokens = (len(parts[-1]) + 1, num_tokens + lengths[row]) if parts else (1, lengths[row])
        padded = num_rows * lengths[row]
        if max_tokens is None:
            fits = num_rows <= max_rows
        else:
            fits = padded <= max_tokens and padded - num_tokens <= MAX_PADDING * padded
        if parts and fits:
            parts[-1].append(row)
        else:
            parts.append([row])
            num_tokens = lengths[row]
    return parts


def learnt_mask(batch: Batch, *, with_turn_ends: bool) -> Tensor:
    """Returns where a loss runs: generated tokens, `(B, T)`, and with turn ends those behind them, `(B, T + K)`."""
    if not with_turn_ends:
        return batch.response_mask_BT
    return torch.cat([batch.response_mask_BT, batch.turn_mask_BK], dim=1)


def drawn_mask(batch: Batch) -> Tensor:
    """Returns which tokens that are learnt from the sampler drew, and so has a log-probability of."""
    return batch.response_mask_BT & ~batch.sampler_logprobs_BT.isnan()
