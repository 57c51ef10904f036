"""What passes over micro-batches hold, counted on models without memory for a few turns and extended to more."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch

from training.batch import OBSERVED, Batch
from training.config.run import RunConfig
from training.engines.logprobs import tokens_per_chunk
from training.engines.policy import PolicyModel, ValueModel, hidden_states
from training.plan.meta_run import PassBytes, evaluation_pass, training_pass
from training.plan.rows import RowShape
from training.plan.shapes import ModelShape, shape_of


class ModelPasses:
    """The passes of a run's policy and critic over any number of turns.

    Memory goes by tokens and pictures, not by how they are put into rows: attention keeps nothing for pairs of tokens.
    So a row here is one turn, and what a pass over some rows and over twice as many hold tells it of all others.

    Args:
        model: The checkpoint's model, without memory.
        config: The run.
        row: Its longest row.
    """

    def __init__(self, model: Any, config: RunConfig, row: RowShape) -> None:
        self.model, self.config, self.row = model, config, row
        self.policy = PolicyModel(model, temperature=config.sampling.temperature, suppressed_ids=[])
        self.critic = ValueModel(model) if config.algorithm.critic_config is not None else None
        self.policy_shape = shape_of(model, model)
        self.critic_shape: ModelShape | None = None if self.critic is None else shape_of(self.critic, model)

    def policy_training(self, num_turns: float) -> PassBytes:
        """Returns what the policy's forward and backward pass over so many turns holds."""
        return self._extended(self._policy_training, num_turns)

    def policy_evaluation(self, num_turns: float) -> PassBytes:
        """Returns what its forward pass alone holds."""
        return self._extended(self._policy_evaluation, num_turns)

    def critic_training(self, num_turns: float) -> PassBytes:
        """Returns what the critic's forward and backward pass holds."""
        return self._extended(self._critic_training, num_turns)

    def prefill(self, num_turns: float) -> PassBytes:
        """Returns what a pass over what so many episodes are shown at a time holds, without a head."""
        return self._extended(self._prefill, num_turns)

    @cached_property
    def _few(self) -> int:
        """Turns whose responses fill a chunk of logits: beyond it what a pass holds grows evenly."""
        chunk = tokens_per_chunk(self.policy_shape.vocab_size)
        num_turns = -(-chunk // self.row.num_response_tokens)
        return num_turns if num_turns <= 64 else 1

    @cached_property
    def _policy_training(self) -> tuple[PassBytes, PassBytes]:
        mode = "graph" if self.config.ppo.entropy_coef > 0 else "value"
        return self._both(lambda batch: training_pass(self.policy, lambda: self.policy(batch, mode)[0]))

    @cached_property
    def _policy_evaluation(self) -> tuple[PassBytes, PassBytes]:
        return self._both(lambda batch: evaluation_pass(self.policy, lambda: self.policy(batch, "none")))

    @cached_property
    def _critic_training(self) -> tuple[PassBytes, PassBytes]:
        critic = self.critic
        assert critic is not None
        return self._both(lambda batch: training_pass(critic, lambda: critic(batch).before_BT))

    @cached_property
    def _prefill(self) -> tuple[PassBytes, PassBytes]:
        return self._both(lambda batch: evaluation_pass(self.policy, lambda: hidden_states(self.model, batch)))

    def _both(self, of_batch: Callable[[Batch], PassBytes]) -> tuple[PassBytes, PassBytes]:
        return of_batch(self._batch(self._few)), of_batch(self._batch(2 * self._few))

    def _extended(self, both: tuple[PassBytes, PassBytes], num_turns: float) -> PassBytes:
        few, twice = both
        return few.towards(twice, (num_turns - self._few) / self._few)

    def _batch(self, num_rows: int) -> Batch:
        """Returns rows of one average turn each."""
        row = self.row
        images, num_tokens = row.later.images, max(row.tokens_per_turn, row.later.num_image_tokens + 2)
        image_token_id = self.model.config.image_token_id
        text_id = 0 if image_token_id != 0 else 1
        ids = torch.full((num_rows, num_tokens), text_id)
        ids[:, 1 : 1 + row.later.num_image_tokens] = image_token_id
        turn_index = torch.full_like(ids, OBSERVED)
        turn_index[:, -min(row.num_response_tokens, num_tokens - 1) :] = 0
        nothing, always = torch.zeros(num_rows, dtype=torch.bool), torch.ones(num_rows, 1, dtype=torch.bool)
        return Batch(
            input_ids_BT=ids,
            attention_mask_BT=torch.ones_like(ids),
            turn_index_BT=turn_index,
            sampler_logprobs_BT=torch.zeros(ids.shape),
            turn_rewards_BK=torch.zeros(num_rows, 1),
            trainable_BK=always,
            state_index_BK=torch.zeros(num_rows, 1, dtype=torch.long),
            max_response_tokens=row.num_response_tokens,
            terminated_B=nothing,
            has_final_B=nothing,
            group_index_B=torch.arange(num_rows),
            trainable_B=always[:, 0],
            images=images * num_rows,
            row_image_offsets=tuple(len(images) * number for number in range(num_rows + 1)),
            image_token_id=image_token_id,
            suppressed_ids=(),
        )
