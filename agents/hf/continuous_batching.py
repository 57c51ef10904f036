"""Continuous batching: rows join and leave a batch at any time, each as soon as its own prompt is ready.

Rows that are being answered occupy the first slots of the cache, followed by those that wait for their worlds. A
step feeds either the prompts of all rows that joined since the last step, or one token of every row that is being
answered.

Source of the idea: Orca (Yu et al. 2022), iteration-level scheduling; the two methods have vLLM's names.

In the key-value cache, whose rows differ in length, every row has a slot, with its tokens at the start, without
padding. A pass covers adjacent slots; its new tokens first occupy the last columns, as in any left-padded batch,
and then move to the end of each row:

    before          during a pass        after
    a a a a . .     a a a a . A          a a a a A .
    b b . . . .     b b . . B B          b b B B . .
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache

from agents.agent import Response, RolloutRows
from agents.hf.chat import PromptSegment, SampledResponse
from agents.hf.family import ProcessedImage
from agents.hf.hf_agent import AnswersRequests, CheckpointAgent
from agents.hf.sampler import BufferedLayer, EpisodeDraws, ModelSampler, left_padded, next_positions

JOIN_RATIO = 0.25
"""Prompts wait until they are this fraction of the rows being answered, because a pass costs more than a row."""
JOIN_WITHIN = 16
"""Tokens of the rows being answered after which fewer prompts are fed anyway."""


class ContinuousHFAgent(AnswersRequests, CheckpointAgent):
    """Samples with continuous batching; a `ContinuousAgent`. See `CheckpointAgent` for its arguments."""

    def _make_sampler(self) -> ContinuousSampler:
        return ContinuousSampler(self.model, self.encoder, self.sampling, EpisodeDraws(self.seed))

    def step(self) -> dict[int, Response]:
        """Samples one token of every row, or the first one of rows that joined; returns the finished responses."""
        with self._evaluating():
            return super().step()


@dataclass(kw_only=True)
class _Row:
    """A conversation.

    Attributes:
        slot: Slot of its keys and values.
        pending: Sampled tokens that have not been fed.
        next_position: Position of the next token.
        ids: Tokens of the response so far.
        logprobs: Their log-probabilities.
    """

    slot: int
    pending: list[int] = field(default_factory=list)
    next_position: int = 0
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _Prompt:
    """A prompt that was fed.

    Attributes:
        row: Row whose slot starts with it.
        length: Number of tokens in that slot up to its end.
        next_position: Position of the token after it.
        logits_V: Logits of the token after it, float32.
    """

    row: int
    length: int
    next_position: int
    logits_V: Tensor


class ContinuousSampler(ModelSampler):
    """Continues conversations without waiting for one another. See `ModelSampler` for its arguments."""

    def start(self, rows: RolloutRows, draws: EpisodeDraws | None = None) -> None:
        """Drops all conversations and opens one empty conversation per row, see `ModelSampler`."""
        self._tokens.draws = draws or self._tokens.draws
        self._row_at = list(range(len(rows.group_of_row)))
        self._cache = SlotCache(len(self._row_at), self.model.device)
        self._rows = [_Row(slot=row) for row in self._row_at]
        self._num_active = 0
        self._queue: dict[int, PromptSegment] = {}
        self._num_waited = 0
        self._first_prompts: dict[Hashable, _Prompt] = {}

    @property
    def has_unfinished_requests(self) -> bool:
        """Whether any requested response is unfinished."""
        return bool(self._num_active or self._queue)

    def add_request(self, row: int, segment: PromptSegment) -> None:
        """Appends a segment to a row and requests a response to it."""
        self._queue[row] = segment

    def abort(self, row: int) -> None:
        """Drops the request of a row, which does not return."""
        self._queue.pop(row, None)
        if self._rows[row].slot < self._num_active:
            self._leave([row])

    @torch.no_grad()
    def step(self) -> dict[int, SampledResponse]:
        """Samples one token of all rows, or of those that joined; returns the finished responses."""
        if self._queue and (len(self._queue) >= JOIN_RATIO * self._num_active or self._num_waited >= JOIN_WITHIN):
            self._num_waited = 0
            rows, logits_NV = self._join()
        else:
            rows = self._row_at[: self._num_active]
            if not rows:
                return {}
            self._num_waited += bool(self._queue)
            logits_NV = self._feed(0, [np.array(self._rows[row].ids[-1:]) for row in rows], [])
        drawn_N, logprobs_N = self._tokens.draw(logits_NV, rows)
        over = {}
        for row, token, logprob in zip(rows, drawn_N.tolist(), logprobs_N.tolist(), strict=True):
            state = self._rows[row]
            state.ids.append(token)
            state.logprobs.append(logprob)
            if token == self.encoder.end_of_turn_id or len(state.ids) == self.sampling.max_new_tokens:
                over[row] = SampledResponse(ids=state.ids, logprobs=state.logprobs)
                state.pending, state.ids, state.logprobs = [token], [], []
        self._leave(list(over))
        return over

    def _join(self) -> tuple[list[int], Tensor]:
        """Feeds the prompts that were added, and returns the rows and their logits.

        A first prompt that several rows share is fed once; the other rows copy it, whenever they join.
        """
        queue, self._queue = self._queue, {}
        begins = {row: segment.key for row, segment in queue.items() if not self._goes_on(row)}
        leaders: dict[Hashable, int] = {}
        for row, key in begins.items():
            if key not in self._first_prompts:
                leaders.setdefault(key, row)
        first = self._num_active
        prompts = self._feed_prompts(
            first, {row: queue[row] for row in queue if row not in begins or leaders.get(begins[row]) == row}
        )
        self._first_prompts |= {key: prompts[row] for key, row in leaders.items()}
        followers = [row for row in queue if row not in prompts]
        prompts |= {row: self._first_prompts[begins[row]] for row in followers}
        self._cache.copy(
            [self._rows[prompts[row].row].slot for row in followers],
            [self._rows[row].slot for row in followers],
            [prompts[row].length for row in followers],
        )
        for row in followers:
            self._rows[row].next_position = prompts[row].next_position
        self._bring([*queue], first)
        self._num_active = first + len(queue)
        rows = self._row_at[first : self._num_active]
        self._tokens.draws.begin(rows)
        return rows, torch.stack([prompts[row].logits_V for row in rows])

    def _goes_on(self, row: int) -> bool:
        """Returns whether a row's conversation has started."""
        return bool(self._rows[row].pending or self._rows[row].next_position)

    def _feed_prompts(self, first: int, segments: Mapping[int, PromptSegment]) -> dict[int, _Prompt]:
        """Moves rows to the slots from `first` on, and feeds their prompts there."""
        if not segments:
            return {}
        self._bring([*segments], first)
        fed = self._row_at[first : first + len(segments)]
        ids = [np.r_[self._rows[row].pending, segments[row].ids] for row in fed]
        logits_NV = self._feed(first, ids, [image for row in fed for image in segments[row].images])
        lengths_N = self._cache.lengths[first : first + len(fed)].tolist()
        return {
            row: _Prompt(row=row, length=length, next_position=self._rows[row].next_position, logits_V=logits_V)
            for row, length, logits_V in zip(fed, lengths_N, logits_NV, strict=True)
        }

    def _feed(self, start: int, ids: Sequence[np.ndarray[Any, Any]], images: Sequence[ProcessedImage]) -> Tensor:
        """Feeds tokens to the rows in the slots from `start` on, and returns the next logits, float32[N, V]."""
        states = [self._rows[row] for row in self._row_at[start : start + len(ids)]]
        ids_BT, added_BT = (tensor.to(self.model.device) for tensor in left_padded(ids, self.encoder.pad_id))
        relative = self.family.positions(self.model, ids_BT, added_BT, images)
        positions = relative + torch.tensor([[state.next_position] for state in states], device=ids_BT.device)
        for state, end in zip(states, next_positions(positions, added_BT).tolist(), strict=True):
            state.next_position = end

        def opened(columns: slice) -> Tensor:
            return self._cache.open(start, start + len(ids), added_BT[:, columns])  # type: ignore[no-any-return]

        return self._logits(ids_BT, positions, images, opened, lambda columns: self._cache.commit(added_BT[:, columns]))

    def _leave(self, rows: Sequence[int]) -> None:
        """Moves finished rows behind those that continue."""
        self._num_active -= len(rows)
        staying = {*self._row_at[: self._num_active + len(rows)]} - {*rows}
        self._bring([row for row in self._row_at if row in staying], 0)

    def _bring(self, rows: Sequence[int], start: int) -> None:
        """Swaps rows with others until the given ones occupy the slots from `start` on, in any order."""
        stop = start + len(rows)
        misplaced = [row for row in rows if not start <= self._rows[row].slot < stop]
        strangers = [row for row in self._row_at[start:stop] if row not in rows]
        here, there = ([self._rows[row].slot for row in moved] for moved in (misplaced, strangers))
        self._cache.copy([*here, *there], [*there, *here])
        for row, slot in zip([*misplaced, *strangers], [*there, *here], strict=True):
            self._rows[row].slot = slot
            self._row_at[slot] = row


@dataclass
class _Window:
    """The slots of a pass, `start` to `stop`, and the number of columns before its new ones."""

    start: int = 0
    stop: int = 0
    num_past: int = 0


class _SlotLayer(BufferedLayer):
    """Keys and values of one layer, in slots."""

    def __init__(self, window: _Window, num_slots: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._window, self._num_slots = window, num_slots

    def get_seq_length(self) -> int:
        """Returns the number of columns before the new ones of a pass."""
        return self._window.num_past

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Writes states, shape (rows, heads, tokens, head_dim), into the last columns; returns the whole window."""
        window, end = self._window, self._window.num_past + key_states.shape[-2]
        self._reserve(end, self._num_slots, key_states)
        rows = self._buffers[:, window.start : window.stop, :, :end]
        rows[:, :, :, window.num_past :] = torch.stack([key_states, value_states])
        return rows[0], rows[1]

    def move(self, slots_N: Tensor, from_N: Tensor, to_N: Tensor) -> None:
        """Copies columns of slots to other columns of the same slots."""
        self._buffers[:, slots_N, :, to_N] = self._buffers[:, slots_N, :, from_N]

    def copy(self, from_N: Tensor, to_N: Tensor, num_columns: int) -> None:
        """Copies the first columns of slots to other slots, all at once."""
        self._buffers[:, to_N, :, :num_columns] = self._buffers[:, from_N, :, :num_columns]


class SlotCache(Cache):
    """A drop-in replacement for transformers' `DynamicCache`, for passes over some of its slots.

    Args:
        num_slots: Number of slots.
        device: Device of the indices.

    Attributes:
        lengths: int64[slots], number of tokens in each slot.
    """

    def __init__(self, num_slots: int, device: torch.device | str = "cpu") -> None:
        self._window = _Window()
        self.lengths = torch.zeros(num_slots, dtype=torch.long, device=device)
        super().__init__(layer_class_to_replicate=partial(_SlotLayer, self._window, num_slots))  # type: ignore[arg-type]

    @property
    def _slot_layers(self) -> list[_SlotLayer]:
        return cast("list[_SlotLayer]", self.layers)

    def open(self, start: int, stop: int, added_BT: Tensor) -> Tensor:
        """Prepares a pass over adjacent slots.

        Args:
            start: First slot.
            stop: One past the last slot.
            added_BT: int64, 1 for new tokens, 0 for padding, which is on the left.

        Returns:
            int64 `(B, past + T)`, the pass's `attention_mask`.
        """
        lengths_B = self.lengths[start:stop]
        num_past = int(lengths_B.max())
        self._window.start, self._window.stop, self._window.num_past = start, stop, num_past
        past_BT = torch.arange(num_past, device=lengths_B.device) < lengths_B[:, None]
        return torch.cat([past_BT.long(), added_BT], dim=1)

    def commit(self, added_BT: Tensor) -> None:
        """Moves the tokens of the pass, given to `open`, to the ends of their rows."""
        window = self._window
        rows_N, tokens_N = added_BT.nonzero(as_tuple=True)
        slots_N = rows_N + window.start
        order_N = added_BT.cumsum(1)[rows_N, tokens_N] - 1
        from_N, to_N = tokens_N + window.num_past, self.lengths[slots_N] + order_N
        for layer in self._slot_layers:
            layer.move(slots_N, from_N, to_N)
        self.lengths[window.start : window.stop] += added_BT.sum(1)

    def copy(self, from_slots: Sequence[int], to_slots: Sequence[int], lengths: Sequence[int] | None = None) -> None:
        """Copies slots to others; sources are read before any target is written.

        Args:
            from_slots: N source slots.
            to_slots: N target slots.
            lengths: Number of tokens to copy from the start; None for all.
        """
        if not from_slots:
            return
        from_N, to_N = (torch.tensor(list(slots), device=self.lengths.device) for slots in (from_slots, to_slots))
        lengths_N = self.lengths[from_N] if lengths is None else torch.tensor(list(lengths)).to(from_N)
        for layer in self._slot_layers:
            layer.copy(from_N, to_N, int(lengths_N.max()))
        self.lengths[to_N] = lengths_N
