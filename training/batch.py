"""Trajectories as tensors: one padded row per trajectory, in the tokens that were sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from agents.hf.chat import ChatEncoder, observation_images
from vlm_envs.trajectory import Trajectory, Turn

OBSERVED = -1
"""`turn_index_BT` of tokens that were not generated: prompts, observations, padding."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """B trajectories of at most T tokens and K turns.

    Attributes:
        input_ids_BT: int64, prompt and response tokens in order, padded on the right.
        attention_mask_BT: int64, 1 for tokens that are not padding.
        turn_index_BT: int64, the turn of each generated token, -1 elsewhere.
        sampler_logprobs_BT: float32, of generated tokens as they were drawn, 0 elsewhere.
        turn_rewards_BK: float32, what each turn earned (raw reward plus shaping), 0 for turns a row does not have.
        terminated_B: bool, whether the world ended (no bootstrap).
        group_index_B: int64, which rows are siblings.
        trainable_B: bool, False masks a row from every loss (a worker crashed, a judge was out).
        pixel_values_ND: float32[patches, patch_dim], all pictures of all rows, flat.
        image_grid_thw_I3: int64, one row per picture.
        row_image_offsets: B + 1 integers; row b owns pictures `[offsets[b], offsets[b + 1])`.
        image_token_id: Placeholder id.
        merge_size: Patches per side that share one placeholder.

    Raises:
        AssertionError: If shapes disagree, or a row's placeholders are not as many as its vision features.
    """

    input_ids_BT: Tensor
    attention_mask_BT: Tensor
    turn_index_BT: Tensor
    sampler_logprobs_BT: Tensor
    turn_rewards_BK: Tensor
    terminated_B: Tensor
    group_index_B: Tensor
    trainable_B: Tensor
    pixel_values_ND: Tensor
    image_grid_thw_I3: Tensor
    row_image_offsets: tuple[int, ...]
    image_token_id: int
    merge_size: int

    def __post_init__(self) -> None:
        grid = self.input_ids_BT.shape
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_BT"):
                assert value.shape == grid, f"{field.name} has shape {tuple(value.shape)}, expected {tuple(grid)}"
            elif field.name.endswith("_B"):
                assert value.shape == grid[:1], f"{field.name} has {tuple(value.shape)}, expected {grid[0]} rows"
            elif field.name.endswith("_BK"):
                assert value.ndim == 2 and len(value) == grid[0], (
                    f"{field.name} has shape {tuple(value.shape)}, expected {grid[0]} rows of turns"
                )
        offsets, num_images = self.row_image_offsets, len(self.image_grid_thw_I3)
        assert len(offsets) == grid[0] + 1 and (offsets[0], offsets[-1]) == (0, num_images), (
            f"row_image_offsets {offsets} do not share out {num_images} pictures to {grid[0]} rows"
        )
        num_patches = int(self.image_grid_thw_I3.prod(-1).sum())
        assert len(self.pixel_values_ND) == num_patches, (
            f"pixel_values_ND holds {len(self.pixel_values_ND)} patches, the pictures have {num_patches}"
        )
        for row in range(grid[0]):
            placeholders = int((self.input_ids_BT[row] == self.image_token_id).sum())
            grids = self.image_grid_thw_I3[self.row_image_offsets[row] : self.row_image_offsets[row + 1]]
            features = int(grids.prod(-1).sum()) // self.merge_size**2
            assert placeholders == features, (
                f"row {row} has {placeholders} image placeholders but {features} vision features"
            )

    @property
    def response_mask_BT(self) -> Tensor:
        """bool, True at generated tokens of trainable rows: what losses and statistics run over."""
        return (self.turn_index_BT >= 0) & self.trainable_B[:, None]

    @property
    def num_rows(self) -> int:
        """Number of trajectories."""
        return self.input_ids_BT.shape[0]

    def select(self, rows: Sequence[int]) -> Batch:
        """Returns these rows, trimmed to their own longest one. Turns keep their number K."""
        index = torch.as_tensor(rows)
        width = int(self.attention_mask_BT[index].sum(-1).max())
        images = [
            image for row in rows for image in range(self.row_image_offsets[row], self.row_image_offsets[row + 1])
        ]
        patches_per_image = self.image_grid_thw_I3.prod(-1)
        starts = torch.cat([patches_per_image.new_zeros(1), patches_per_image.cumsum(0)])
        pixels = [self.pixel_values_ND[starts[image] : starts[image + 1]] for image in images]
        counts = [self.row_image_offsets[row + 1] - self.row_image_offsets[row] for row in rows]
        chosen = {
            field.name: getattr(self, field.name)[index][:, :width]
            for field in fields(self)
            if field.name.endswith("_BT")
        } | {
            field.name: getattr(self, field.name)[index] for field in fields(self) if field.name.endswith(("_B", "_BK"))
        }
        return replace(
            self,
            **chosen,
            pixel_values_ND=torch.cat(pixels) if pixels else self.pixel_values_ND[:0],
            image_grid_thw_I3=self.image_grid_thw_I3[images],
            row_image_offsets=tuple(np.cumsum([0, *counts]).tolist()),
        )


def make_batch(
    trajectories: Sequence[Trajectory],
    turn_rewards: Sequence[Sequence[float]],
    encoder: ChatEncoder,
    *,
    group_index: Sequence[int] | None = None,
    trainable: Sequence[Sequence[bool]] | None = None,
) -> Batch:
    """Pads trajectories into one batch.

    Args:
        trajectories: Played by an agent with tokens.
        turn_rewards: Per trajectory and turn, what the turn earned in all.
        encoder: The chat format they were played in; re-reads the pictures, never the text.
        group_index: Sibling group per row; every row its own group by default.
        trainable: Per trajectory and turn, whether to learn from it; all by default. Tokens of a turn that is not
            count as observed: no loss, no advantage, no reward.

    Returns:
        The batch.
    """
    num_turns = max(len(trajectory.turns) for trajectory in trajectories)
    rows = [_row_tokens(trajectory.turns) for trajectory in trajectories]
    width = max(len(ids) for ids, _, _ in rows)
    ids_BT = np.full((len(rows), width), encoder.pad_id, np.int64)
    turn_BT = np.full((len(rows), width), OBSERVED, np.int64)
    mask_BT = np.zeros((len(rows), width), np.int64)
    logprobs_BT = np.zeros((len(rows), width), np.float32)
    rewards_BK = np.zeros((len(rows), num_turns), np.float32)
    for row, (ids, turns, logprobs) in enumerate(rows):
        ids_BT[row, : len(ids)], turn_BT[row, : len(ids)] = ids, turns
        mask_BT[row, : len(ids)], logprobs_BT[row, : len(ids)] = 1, logprobs
        rewards_BK[row, : len(turn_rewards[row])] = turn_rewards[row]
        if trainable is not None:
            masked = np.flatnonzero(~np.asarray(trainable[row], bool))
            turn_BT[row, np.isin(turn_BT[row], masked)] = OBSERVED
            rewards_BK[row, masked] = 0.0
    patched = [
        [image for turn in t.turns for image in encoder.patch_images(observation_images(turn.observation))]
        for t in trajectories
    ]
    flat = [image for images in patched for image in images]
    return Batch(
        input_ids_BT=torch.from_numpy(ids_BT),
        attention_mask_BT=torch.from_numpy(mask_BT),
        turn_index_BT=torch.from_numpy(turn_BT),
        sampler_logprobs_BT=torch.from_numpy(logprobs_BT),
        turn_rewards_BK=torch.from_numpy(rewards_BK),
        terminated_B=torch.tensor([t.turns[-1].terminated for t in trajectories]),
        group_index_B=torch.as_tensor(group_index if group_index is not None else np.arange(len(rows))),
        trainable_B=torch.from_numpy((turn_BT != OBSERVED).any(-1)),
        pixel_values_ND=torch.from_numpy(
            np.concatenate([image.patches for image in flat]) if flat else np.zeros((0, 0), np.float32)
        ),
        image_grid_thw_I3=torch.from_numpy(
            np.stack([image.grid_thw for image in flat]) if flat else np.zeros((0, 3), np.int64)
        ),
        row_image_offsets=tuple(np.cumsum([0, *map(len, patched)]).tolist()),
        image_token_id=encoder.image_token_id,
        merge_size=int(encoder.image_processor.merge_size),
    )


def _row_tokens(turns: Sequence[Turn]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns a trajectory's tokens, the turn of each (-1 if observed) and the sampler's log-probabilities."""
    ids, index, logprobs = [], [], []
    for number, turn in enumerate(turns):
        ids += [turn.prompt_ids, turn.response_ids]
        index += [
            np.full(len(turn.prompt_ids), OBSERVED),
            np.full(len(turn.response_ids), number),
        ]
        logprobs += [np.zeros(len(turn.prompt_ids), np.float32), turn.sampler_logprobs]
    return np.concatenate(ids), np.concatenate(index), np.concatenate(logprobs)
