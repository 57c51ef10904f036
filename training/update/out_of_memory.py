"""Memory that runs out: told apart from other failures, and told of in one line that says what to do."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch

from training.batch import Batch
from training.engines.engine import Engine
from training.errors import MemoryExhaustedError
from training.update.micro_batches import RowLimits, row_groups

T = TypeVar("T")

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
