"""Trajectories as tensors: one padded row per trajectory, with the tokens as they were sampled."""

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
        turn_index_BT: int64, the turn of each generated token, trainable or not; -1 elsewhere. After
            `with_observations_as_actions`, observed tokens count as generated.
        sampler_logprobs_BT: float32, the sampler's log-probabilities of generated tokens, 0 elsewhere; NaN for tokens
            that count as generated but were not sampled.
        turn_rewards_BK: float32, reward of each turn (raw reward plus shaping), 0 for turns that a row lacks. Rows with
            an infinite or NaN reward are masked; see `usable_B`.
        trainable_BK: bool, False masks a turn from every loss (its judge was unavailable); its reward still counts
            for the turns before it. True for turns that a row lacks.
        state_index_BK: int64, index among the batch's distinct states of the state each turn began in, by state hash;
            -1 for turns without a hash or that a row lacks.
        terminated_B: bool, whether nothing can follow, so that there is no bootstrap value: the world ended, or the
            context has no room for another response.
        has_final_B: bool, whether the row ends with its final observation and the opening of another answer, observed
            and not trained on: V at its last token is the value of the state in which it was truncated.
        group_index_B: int64, the group of each row.
        trainable_B: bool, False masks a row from every loss (a worker crashed, or its judge was never available).
        images: Images of all rows, in the order of their placeholders.
        row_image_offsets: B + 1 integers; row b owns images `[offsets[b], offsets[b + 1])`.
        features: A frozen vision tower's features of each image; None if every pass computes them.
        image_token_id: Placeholder id.
        suppressed_ids: Tokens that are never sampled.
        max_response_tokens: Maximum number of tokens in a response.

    Raises:
        AssertionError: If shapes disagree, or a row's numbers of placeholders and vision features differ.
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
        assert not (self.has_final_B & self.terminated_B).any(), "no final observation may follow a terminated row"
        offsets, num_images = self.row_image_offsets, len(self.images)
        assert len(offsets) == grid[0] + 1 and (offsets[0], offsets[-1]) == (0, num_images), (
            f"row_image_offsets {offsets} do not partition {num_images} images into {grid[0]} rows"
        )
        assert self.features is None or len(self.features) == num_images, "features must cover all images or none"
        for row in range(grid[0]):
            placeholders = int((self.input_ids_BT[row] == self.image_token_id).sum())
            num_features = sum(image.num_tokens for image in self.images[offsets[row] : offsets[row + 1]])
            assert placeholders == num_features, (
                f"row {row} has {placeholders} image placeholders but {num_features} vision features"
            )

    @property
    def response_mask_BT(self) -> Tensor:
        """bool, True at generated tokens of trainable turns and rows, over which losses and statistics are taken."""
        return (self.turn_index_BT >= 0) & self.usable_B[:, None] & self._of_turn(self.trainable_BK)

    @property
    def returns_B(self) -> Tensor:
        """float32, total reward of each row, summed in float64 so that the order of terms hardly matters."""
        return self.turn_rewards_BK.double().sum(-1).float()

    @property
    def magnitudes_B(self) -> Tensor:
        """float32, sums of the turns' absolute rewards, the scale of the rounding error of `returns_B`."""
        return self.turn_rewards_BK.abs().sum(-1)

    @property
    def finite_B(self) -> Tensor:
        """bool, True for rows whose rewards, and therefore all sums of them, are finite."""
        return self.magnitudes_B.isfinite()

    @property
    def usable_B(self) -> Tensor:
        """bool, True for trainable rows with finite rewards; all other rows are ignored."""
        return self.trainable_B & self.finite_B

    @property
    def comparable_B(self) -> Tensor:
        """bool, True for rows whose turns were all judged, so that their totals are comparable within the group."""
        return self.usable_B & self.trainable_BK.all(-1)

    @property
    def usable_turn_index_BT(self) -> Tensor:
        """int64, `turn_index_BT` with no generated tokens in rows that are not usable."""
        return torch.where(self.usable_B[:, None], self.turn_index_BT, OBSERVED)

    @property
    def comparable_group_index_B(self) -> Tensor:
        """int64, the groups, with each row that is not comparable in a group of its own.

        Such a row is not a fair baseline for its group: a turn without a score would count as a score of 0.
        """
        return torch.where(self.comparable_B, self.group_index_B, -1 - torch.arange(self.num_rows))

    def _of_turn(self, x_BK: Tensor) -> Tensor:
        """Returns the entry of each token's turn; values at tokens without a turn are meaningless."""
        return x_BK.gather(1, self.turn_index_BT.clamp(min=0))

    @property
    def turn_mask_BK(self) -> Tensor:
        """bool, True for trainable turns of usable rows, which have a token in `response_mask_BT`."""
        trained_BT = torch.where(self.response_mask_BT, self.turn_index_BT, OBSERVED)
        num_rows, num_turns = self.turn_rewards_BK.shape
        return self.trainable_B.new_zeros(num_rows, num_turns + 1).scatter(1, trained_BT + 1, True)[:, 1:]

    @property
    def num_rows(self) -> int:
        """Number of trajectories."""
        return self.input_ids_BT.shape[0]

    def select(self, rows: Sequence[int]) -> Batch:
        """Returns these rows, trimmed to the longest of them. The number of turns K stays."""
        row_index = torch.as_tensor(rows)
        width = int(self.attention_mask_BT[row_index].sum(-1).max())
        offsets = self.row_image_offsets
        indices = [index for row in rows for index in range(offsets[row], offsets[row + 1])]
        counts = [offsets[row + 1] - offsets[row] for row in rows]
        tokens = {name: value[row_index][:, :width] for name, value in vars(self).items() if name.endswith("_BT")}
        others = {name: value[row_index] for name, value in vars(self).items() if name.endswith(("_B", "_BK"))}
        return replace(
            self,
            **tokens,
            **others,
            images=tuple(self.images[index] for index in indices),
            features=None if self.features is None else tuple(self.features[index] for index in indices),
            row_image_offsets=tuple(np.cumsum([0, *counts]).tolist()),
        )


def turn_returns(batch: Batch) -> Tensor:
    """Returns the undiscounted return from each turn of each fully judged row, float32[turns]."""
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
    """Pads trajectories into a batch.

    Args:
        trajectories: Trajectories with tokens.
        turn_rewards: Total reward per trajectory and turn.
        encoder: The chat format of the trajectories; it re-encodes images but never text.
        group_index: Group per row; by default, every row is its own group.
        trainable: Per trajectory and turn, whether to train on it; all by default. A turn that is not trained on has no
            loss, but its reward counts for the turns before it.
        final_observations: Whether to append the final observation to truncated trainable rows, for a critic to
            estimate their value. It costs the tokens of one more observation. An observation that leaves no room for a
            response is omitted, as nothing could have followed it.
        max_response_tokens: Maximum number of tokens in a response; by default, that of the longest response.
        max_context_tokens: Maximum number of tokens in a conversation during the rollout; None for no limit.

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
    num_tokens_B = torch.tensor([len(row_ids) for row_ids in ids])
    shown = [
        [
            image
            for turn in t.turns
            if len(turn.prompt_ids)  # an episode lost before its first response has no tokens
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
    """Returns the index of the state each turn began in, one int64[turns] per trajectory; -1 without a hash."""
    numbers: dict[str, int] = {}
    began = [[t.start_state_hash, *(turn.info.get("state_hash", "") for turn in t.turns[:-1])] for t in trajectories]
    return [
        np.array(
            [numbers.setdefault(state_hash, len(numbers)) if state_hash else -1 for state_hash in hashes], np.int64
        )
        for hashes in began
    ]


def _padded(rows: Sequence[np.ndarray], padding: float) -> Tensor:
    """Returns rows as one tensor, padded on the right."""
    return pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_value=padding)


def turns_ahead(turn_index_BT: Tensor, num_turns: int) -> Tensor:
    """Returns for each token the turn of the next generated token, itself included; `num_turns` if there is none."""
    numbered_BT = torch.where(turn_index_BT >= 0, turn_index_BT, num_turns)
    return numbered_BT.flip(1).cummin(1).values.flip(1)


def with_observations_as_actions(batch: Batch) -> Batch:
    """Returns the batch with observed tokens counted as generated, as in PPO without a loss mask.

    The tokens before a turn's response, including the first observation, belong to that turn. Exceptions are a row's
    first token, which has no prefix; tokens after its last response; and tokens that the policy never samples, such as
    image placeholders, whose probability is 0.

    Source: VAGEN, section 3, "Vanilla PPO"; the sequence is that of section 2.2, which starts with the first
    observation and ends with the last action.
    """
    num_turns = batch.turn_rewards_BK.shape[1]
    ahead_BT = turns_ahead(batch.turn_index_BT, num_turns)
    never_sampled = torch.tensor([*batch.suppressed_ids, batch.image_token_id])
    is_added_BT = (batch.turn_index_BT < 0) & (ahead_BT < num_turns) & ~torch.isin(batch.input_ids_BT, never_sampled)
    is_added_BT[:, 0] = False
    return replace(
        batch,
        turn_index_BT=torch.where(is_added_BT, ahead_BT, batch.turn_index_BT),
        sampler_logprobs_BT=batch.sampler_logprobs_BT.masked_fill(is_added_BT, torch.nan),
    )


def _final_segment(trajectory: Trajectory, encoder: ChatEncoder) -> PromptSegment | None:
    """Returns the next prompt of a truncated episode; None for one that the world ended."""
    last = trajectory.turns[-1]
    if last.terminated:
        return None
    was_cut = last.response_ids[-1:].tolist() != [encoder.end_of_turn_id]
    return encoder.encode(trajectory.final_observation, is_first=False, needs_end_of_turn=was_cut)


def _num_tokens(trajectory: Trajectory, final: PromptSegment) -> int:
    """Returns the number of tokens of a conversation including its final observation."""
    return sum(len(turn.prompt_ids) + len(turn.response_ids) for turn in trajectory.turns) + len(final.ids)


def _row_tokens(
    turns: Sequence[Turn], final: PromptSegment | None, pad_id: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns a trajectory's tokens, the turn of each (-1 if observed), and the sampler's log-probabilities.

    A trajectory lost before its first response has no tokens; it gets a padding token, as models reject empty rows.
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
