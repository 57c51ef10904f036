"""Trajectories as tensors: one padded row per trajectory, in the tokens that were sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from agents.hf.chat import ChatEncoder, PromptSegment
from agents.hf.family import ImageFeatures, ProcessedImage
from vlm_envs.trajectory import Trajectory, Turn, observation_images

OBSERVED = -1
"""`turn_index_BT` of tokens that were not generated: prompts, observations, padding."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """B trajectories of at most T tokens and K turns.

    Attributes:
        input_ids_BT: int64, prompt and response tokens in order, padded on the right.
        attention_mask_BT: int64, 1 for tokens that are not padding.
        turn_index_BT: int64, the turn of each generated token, learnt from or not; -1 elsewhere. After
            `with_observations_as_actions`, of each token that counts as generated.
        sampler_logprobs_BT: float32, of generated tokens as they were drawn, 0 elsewhere; NaN where a token counts as
            generated that nobody drew.
        turn_rewards_BK: float32, what each turn earned (raw reward plus shaping), 0 for turns a row does not have. A
            row with an infinite or NaN one is masked whole, see `usable_B`.
        trainable_BK: bool, False masks a turn from every loss (its judge was unavailable); what it earned still counts
            for the turns before it. True for turns a row does not have.
        state_index_BK: int64, which of the batch's distinct states each turn began in, by the world's hash of it; -1
            where the world told none, and for turns a row does not have.
        terminated_B: bool, whether nothing can follow (no bootstrap): the world ended, or the context has no room for
            another response, which the conversation itself shows.
        has_final_B: bool, whether the row goes on after its last turn with the final observation and the opening of a
            next answer, observed and unlearned: V at its last token is what the state it was truncated in is worth.
        group_index_B: int64, which rows are siblings.
        trainable_B: bool, False masks a row from every loss (a worker crashed, a judge was unavailable all along).
        images: All pictures of all rows, in the order of their placeholders.
        row_image_offsets: B + 1 integers; row b owns pictures `[offsets[b], offsets[b + 1])`.
        features: What a frozen vision tower makes of each picture; None where every pass sees for itself.
        image_token_id: Placeholder id.
        suppressed_ids: Tokens that are never sampled.
        max_response_tokens: How many tokens a response could have at most.

    Raises:
        AssertionError: If shapes disagree, or a row's placeholders are not as many as its vision features.
    """

    input_ids_BT: Tensor
    attention_mask_BT: Tensor
    turn_index_BT: Tensor
    sampler_logprobs_BT: Tensor
    turn_rewards_BK: Tensor
    trainable_BK: Tensor
    state_index_BK: Tensor
    terminated_B: Tensor
    has_final_B: Tensor
    group_index_B: Tensor
    trainable_B: Tensor
    images: tuple[ProcessedImage, ...]
    row_image_offsets: tuple[int, ...]
    image_token_id: int
    suppressed_ids: tuple[int, ...]
    max_response_tokens: int
    features: tuple[ImageFeatures, ...] | None = None

    def __post_init__(self) -> None:
        grid, turns = self.input_ids_BT.shape, self.turn_rewards_BK.shape
        assert turns[:-1] == grid[:1], f"turn_rewards_BK has shape {tuple(turns)}, expected {grid[0]} rows of turns"
        expected = {"BT": grid, "B": grid[:1], "BK": turns}
        for name, value in vars(self).items():
            shape = expected.get(name.rpartition("_")[2])
            assert shape is None or value.shape == shape, f"{name} has shape {tuple(value.shape)}, expected {shape}"
        assert not (self.has_final_B & self.terminated_B).any(), "nothing follows where the world ended"
        offsets, num_images = self.row_image_offsets, len(self.images)
        assert len(offsets) == grid[0] + 1 and (offsets[0], offsets[-1]) == (0, num_images), (
            f"row_image_offsets {offsets} do not share out {num_images} pictures to {grid[0]} rows"
        )
        assert self.features is None or len(self.features) == num_images, "features are of every picture or of none"
        for row in range(grid[0]):
            placeholders = int((self.input_ids_BT[row] == self.image_token_id).sum())
            num_features = sum(image.num_tokens for image in self.images[offsets[row] : offsets[row + 1]])
            assert placeholders == num_features, (
                f"row {row} has {placeholders} image placeholders but {num_features} vision features"
            )

    @property
    def response_mask_BT(self) -> Tensor:
        """bool, True at generated tokens of trainable turns and rows: what losses and statistics run over."""
        return (self.turn_index_BT >= 0) & self.usable_B[:, None] & self._of_turn(self.trainable_BK)

    @property
    def returns_B(self) -> Tensor:
        """float32, what each row's turns earned in all; added up in float64, where their order hardly matters."""
        return self.turn_rewards_BK.double().sum(-1).float()

    @property
    def magnitudes_B(self) -> Tensor:
        """float32, the sums of the turns' absolute rewards: what the rounding of `returns_B` is measured by."""
        return self.turn_rewards_BK.abs().sum(-1)

    @property
    def finite_B(self) -> Tensor:
        """bool, True for rows whose rewards are finite, and so is every sum of them."""
        return self.magnitudes_B.isfinite()

    @property
    def usable_B(self) -> Tensor:
        """bool, True for trainable rows with finite rewards: only these are learnt from, or read at all."""
        return self.trainable_B & self.finite_B

    @property
    def comparable_B(self) -> Tensor:
        """bool, True for rows whose total is known, every turn of them judged: what siblings may be compared by."""
        return self.usable_B & self.trainable_BK.all(-1)

    @property
    def usable_turn_index_BT(self) -> Tensor:
        """int64, `turn_index_BT` with nothing generated in rows that are not usable."""
        return torch.where(self.usable_B[:, None], self.turn_index_BT, OBSERVED)

    @property
    def comparable_group_index_B(self) -> Tensor:
        """int64, the groups, with each row in one of its own that failed or whose total no judge knows.

        Neither is a measure for its siblings: a turn without a score would count as one with a score of 0.
        """
        return torch.where(self.comparable_B, self.group_index_B, -1 - torch.arange(self.num_rows))

    def _of_turn(self, x_BK: Tensor) -> Tensor:
        """Returns each token's turn's entry; what stands at tokens without a turn means nothing."""
        return x_BK.gather(1, self.turn_index_BT.clamp(min=0))

    @property
    def turn_mask_BK(self) -> Tensor:
        """bool, True for trainable turns of trainable rows: those with a token in `response_mask_BT`."""
        learnt_BT = torch.where(self.response_mask_BT, self.turn_index_BT, OBSERVED)
        num_rows, num_turns = self.turn_rewards_BK.shape
        return self.trainable_B.new_zeros(num_rows, num_turns + 1).scatter(1, learnt_BT + 1, True)[:, 1:]

    @property
    def num_rows(self) -> int:
        """Number of trajectories."""
        return self.input_ids_BT.shape[0]

    def select(self, rows: Sequence[int]) -> Batch:
        """Returns these rows, trimmed to their own longest one. Turns keep their number K."""
        index = torch.as_tensor(rows)
        width = int(self.attention_mask_BT[index].sum(-1).max())
        offsets = self.row_image_offsets
        places = [place for row in rows for place in range(offsets[row], offsets[row + 1])]
        counts = [offsets[row + 1] - offsets[row] for row in rows]
        tokens = {name: value[index][:, :width] for name, value in vars(self).items() if name.endswith("_BT")}
        others = {name: value[index] for name, value in vars(self).items() if name.endswith(("_B", "_BK"))}
        return replace(
            self,
            **tokens,
            **others,
            images=tuple(self.images[place] for place in places),
            features=None if self.features is None else tuple(self.features[place] for place in places),
            row_image_offsets=tuple(np.cumsum([0, *counts]).tolist()),
        )


def turn_returns(batch: Batch) -> Tensor:
    """Returns the undiscounted return from each turn of each row that was wholly judged on, float32[turns]."""
    to_go_BK = batch.turn_rewards_BK.flip(-1).cumsum(-1).flip(-1)
    num_turns_B = batch.turn_index_BT.amax(-1) + 1
    has_turn_BK = torch.arange(to_go_BK.shape[1])[None] < num_turns_B[:, None]
    return to_go_BK[has_turn_BK & batch.comparable_B[:, None]]


def make_batch(
    trajectories: Sequence[Trajectory],
    turn_rewards: Sequence[Sequence[float]],
    encoder: ChatEncoder,
    *,
    group_index: Sequence[int] | None = None,
    trainable: Sequence[Sequence[bool]] | None = None,
    final_observations: bool = False,
    max_response_tokens: int | None = None,
    max_context_tokens: int | None = None,
) -> Batch:
    """Pads trajectories into one batch.

    Args:
        trajectories: Played by an agent with tokens.
        turn_rewards: Per trajectory and turn, what the turn earned in all.
        encoder: The chat format they were played in; re-reads the pictures, never the text.
        group_index: Sibling group per row; every row its own group by default.
        trainable: Per trajectory and turn, whether to learn from it; all by default. A turn that is not has no loss,
            but keeps its reward, which the turns before it led to.
        final_observations: Whether truncated rows that can be learnt from carry their final observation, where a
            critic is to say what they are worth. It costs as many tokens as one more observation. One that leaves no
            room for a response is left out: nothing could have followed it.
        max_response_tokens: How many tokens a response could have at most; by default the longest one's.
        max_context_tokens: Most tokens of a conversation, as it was played; None for no limit.

    Returns:
        The batch.
    """
    trainable = trainable if trainable is not None else [[True] * len(earned) for earned in turn_rewards]
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    max_response_tokens = max_response_tokens or max(len(turn.response_ids) for turn in turns)
    finals = [
        _final_segment(trajectory, encoder) if final_observations and any(may) else None
        for trajectory, may in zip(trajectories, trainable, strict=True)
    ]
    room = math.inf if max_context_tokens is None else max_context_tokens - max_response_tokens
    is_full = [
        final is not None and _num_tokens(t, final) > room for t, final in zip(trajectories, finals, strict=True)
    ]
    finals = [None if full else final for full, final in zip(is_full, finals, strict=True)]
    rows = [_row_tokens(t.turns, final, encoder.pad_id) for t, final in zip(trajectories, finals, strict=True)]
    ids, turn_index, logprobs = zip(*rows, strict=True)
    num_tokens_B = torch.tensor([len(each) for each in ids])
    shown = [
        [
            image
            for turn in t.turns
            if len(turn.prompt_ids)  # else it was lost before anybody was asked, and is in no row
            for image in encoder.process_images(observation_images(turn.observation))
        ]
        + list(final.images if final is not None else ())
        for t, final in zip(trajectories, finals, strict=True)
    ]
    return Batch(
        input_ids_BT=_padded(ids, encoder.pad_id),
        attention_mask_BT=(torch.arange(int(num_tokens_B.max())) < num_tokens_B[:, None]).long(),
        turn_index_BT=_padded(turn_index, OBSERVED),
        sampler_logprobs_BT=_padded(logprobs, 0.0),
        turn_rewards_BK=_padded([np.asarray(earned, np.float32) for earned in turn_rewards], 0.0),
        trainable_BK=_padded([np.asarray(may, bool) for may in trainable], True),
        state_index_BK=_padded(_state_indices(trajectories), -1),
        terminated_B=torch.tensor(
            [t.turns[-1].terminated or full for t, full in zip(trajectories, is_full, strict=True)]
        ),
        has_final_B=torch.tensor([final is not None for final in finals]),
        group_index_B=torch.as_tensor(group_index if group_index is not None else np.arange(len(rows))),
        trainable_B=torch.tensor([any(may) for may in trainable]),
        images=tuple(image for images in shown for image in images),
        row_image_offsets=tuple(np.cumsum([0, *map(len, shown)]).tolist()),
        image_token_id=encoder.image_token_id,
        suppressed_ids=tuple(encoder.suppressed_ids()),
        max_response_tokens=max_response_tokens,
    )


def _state_indices(trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
    """Returns which distinct state each turn began in, int64[turns] each; -1 where the world told no hash."""
    numbers: dict[str, int] = {}
    began = [[t.start_state_hash, *(turn.info.get("state_hash", "") for turn in t.turns[:-1])] for t in trajectories]
    return [
        np.array([numbers.setdefault(each, len(numbers)) if each else -1 for each in hashes], np.int64)
        for hashes in began
    ]


def _padded(rows: Sequence[np.ndarray], padding: float) -> Tensor:
    """Returns rows as one tensor, padded on the right."""
    return pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_value=padding)


def turns_ahead(turn_index_BT: Tensor, num_turns: int) -> Tensor:
    """Returns for each token the turn of the first generated one from it on; `num_turns` after the last of a row."""
    numbered_BT = torch.where(turn_index_BT >= 0, turn_index_BT, num_turns)
    return numbered_BT.flip(1).cummin(1).values.flip(1)


def with_observations_as_actions(batch: Batch) -> Batch:
    """Returns the batch with what was observed counted as generated: what PPO without a loss mask learns from.

    The tokens in front of a turn's response, the first observation included, belong to that turn. Left out are a row's
    first token, which nothing comes before; what follows its last response; and tokens that the policy can never say,
    such as the placeholders of pictures: under the distribution that is sampled their probability is 0.

    Source: VAGEN, section 3, "Vanilla PPO"; the sequence is that of section 2.2, which starts with the first
    observation and ends with the last action.
    """
    num_turns = batch.turn_rewards_BK.shape[1]
    ahead_BT = turns_ahead(batch.turn_index_BT, num_turns)
    never_said = torch.tensor([*batch.suppressed_ids, batch.image_token_id])
    is_added_BT = (batch.turn_index_BT < 0) & (ahead_BT < num_turns) & ~torch.isin(batch.input_ids_BT, never_said)
    is_added_BT[:, 0] = False
    return replace(
        batch,
        turn_index_BT=torch.where(is_added_BT, ahead_BT, batch.turn_index_BT),
        sampler_logprobs_BT=batch.sampler_logprobs_BT.masked_fill(is_added_BT, torch.nan),
    )


def _final_segment(trajectory: Trajectory, encoder: ChatEncoder) -> PromptSegment | None:
    """Returns what the policy would have read next in a truncated episode; None for one that the world ended."""
    last = trajectory.turns[-1]
    if last.terminated:
        return None
    was_cut = last.response_ids[-1:].tolist() != [encoder.end_of_turn_id]
    return encoder.encode(trajectory.final_observation, is_first=False, needs_end_of_turn=was_cut)


def _num_tokens(trajectory: Trajectory, final: PromptSegment) -> int:
    """Returns how many tokens a conversation has with what the policy would have read next."""
    return sum(len(turn.prompt_ids) + len(turn.response_ids) for turn in trajectory.turns) + len(final.ids)


def _row_tokens(
    turns: Sequence[Turn], final: PromptSegment | None, pad_id: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns a trajectory's tokens, the turn of each (-1 if observed) and the sampler's log-probabilities.

    One that was lost before anybody was asked has none. It has a padding token then, for models take no empty rows.
    """
    ids, index, logprobs = [], [], []
    for number, turn in enumerate(turns):
        ids += [turn.prompt_ids, turn.response_ids]
        index += [np.full(len(turn.prompt_ids), OBSERVED), np.full(len(turn.response_ids), number)]
        logprobs += [np.zeros(len(turn.prompt_ids), np.float32), turn.sampler_logprobs]
    if final is not None:
        ids.append(final.ids)
        index.append(np.full(len(final.ids), OBSERVED))
        logprobs.append(np.zeros(len(final.ids), np.float32))
    if not any(map(len, ids)):
        return np.array([pad_id]), np.array([OBSERVED]), np.zeros(1, np.float32)
    return np.concatenate(ids), np.concatenate(index), np.concatenate(logprobs)
