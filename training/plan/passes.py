"""What passes over micro-batches hold, counted on models without memory for a few turns and extended to more."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from agents.hf.row_passes import share_prefixes
from training.batch import OBSERVED, Batch
from training.config.run import RunConfig
from training.config.update.memory import MemoryConfig
from training.engines.frozen import freeze_vision_tower
from training.engines.logprobs import KEPT_SHARE, tokens_per_chunk
from training.engines.lora import add_adapters
from training.engines.policy import PolicyModel, ValueModel, hidden_states
from training.engines.row_pass import RowPass, row_pass_of
from training.plan.meta_run import PassBytes, evaluation_pass, training_pass
from training.plan.rows import RowShape
from training.plan.shapes import ModelShape, shape_of

MAX_TURNS = 64
"""Most turns that are counted: with small vocabularies a chunk of logits is longer than any micro-batch."""


class ModelPasses:
    """The passes of a run's policy and critic over any number of turns.

    Memory goes by tokens and pictures, not by how they are put into rows: attention keeps nothing for pairs of tokens.
    So a row here is one turn, and what a pass over some rows and over twice as many hold tells it of all others. No two
    of them begin alike, and no picture is seen twice: what siblings share makes a pass smaller than its plan.

    Args:
        model: The checkpoint's model, without memory; what the run freezes of it is frozen here.
        config: The run.
        row: Its longest row.
    """

    def __init__(self, model: Any, config: RunConfig, row: RowShape) -> None:
        self.model, self.config, self.row = model, config, row
        self._counted: dict[tuple[str, int], PassBytes] = {}
        if config.lora.rank is not None:
            add_adapters(model, config.lora)
        if config.memory.freeze_vision_tower:
            freeze_vision_tower(model)
        row_pass = _row_pass(model, config.memory)
        if row_pass.shares_prefixes:
            share_prefixes(model)
        self.policy = PolicyModel(model, temperature=config.sampling.temperature, suppressed_ids=[], row_pass=row_pass)
        critic = config.algorithm.critic_config
        self.critic = None if critic is None else ValueModel(model, row_pass, trunk=critic.trunk)
        self.policy_shape = shape_of(model, model)
        self.critic_shape: ModelShape | None = None if self.critic is None else shape_of(self.critic, model)

    def policy_training(self, num_turns: float) -> PassBytes:
        """Returns what the policy's forward and backward pass over so many turns holds."""
        mode = "graph" if self.config.ppo.entropy_coef > 0 else "value"

        def counted(batch: Batch) -> PassBytes:
            return training_pass(self.policy, lambda: self.policy(batch, mode)[0])

        return self._extended("policy training", counted, num_turns)

    def policy_evaluation(self, num_turns: float) -> PassBytes:
        """Returns what its forward pass alone holds."""

        def counted(batch: Batch) -> PassBytes:
            return evaluation_pass(self.policy, lambda: self.policy(batch, "none"))

        return self._extended("policy evaluation", counted, num_turns)

    def critic_training(self, num_turns: float) -> PassBytes:
        """Returns what the critic's forward and backward pass holds."""
        critic = self.critic
        assert critic is not None

        def counted(batch: Batch) -> PassBytes:
            return training_pass(critic, lambda: critic(batch).before_BT)

        return self._extended("critic training", counted, num_turns)

    def prefill(self, num_turns: float) -> PassBytes:
        """Returns what a pass over what so many episodes are shown at a time holds, without a head."""

        def counted(batch: Batch) -> PassBytes:
            return evaluation_pass(self.policy, lambda: hidden_states(self.model, batch))

        return self._extended("prefill", counted, num_turns)

    def _extended(self, what: str, counted: Callable[[Batch], PassBytes], num_turns: float) -> PassBytes:
        """Returns what a pass holds over so many turns, from a few and twice as many.

        Bytes grow evenly with turns, but for logits: they are kept for the backward pass while they are few, and grow
        until they fill a chunk. Turns are counted on the same side of both.
        """
        chunk_turns = tokens_per_chunk(self.policy_shape.vocab_size) / self.row.num_response_tokens
        limits = (chunk_turns * KEPT_SHARE, chunk_turns)
        few = max((math.floor(limit) + 1 for limit in limits if limit < min(num_turns, MAX_TURNS)), default=1)
        pair = []
        for number in (few, 2 * few):
            if (what, number) not in self._counted:
                self._counted[what, number] = counted(self._batch(number))
            pair.append(self._counted[what, number])
        return pair[0].towards(pair[1], (num_turns - few) / few)

    def _batch(self, num_rows: int) -> Batch:
        """Returns rows of one average turn each, all of them different."""
        row = self.row
        images, num_tokens = row.later.images, max(row.tokens_per_turn, row.later.num_image_tokens + 2)
        image_token_id = self.model.config.image_token_id
        text_ids = torch.tensor([each for each in range(num_rows + 1) if each != image_token_id])
        ids = text_ids[:num_rows, None].repeat(1, num_tokens)
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
            images=tuple(
                replace(image, key=f"{place} {number}".encode())
                for place in range(num_rows)
                for number, image in enumerate(images)
            ),
            row_image_offsets=tuple(len(images) * number for number in range(num_rows + 1)),
            image_token_id=image_token_id,
            suppressed_ids=(),
        )


def _row_pass(model: Any, memory: MemoryConfig) -> RowPass:
    """Returns how rows go through a model here, which has torch's own attention; packed they hold as much."""
    if memory.packing == "on" or memory.attention not in (None, "sdpa"):
        return RowPass(recomputes_layers=memory.gradient_checkpointing)
    return row_pass_of(model, memory)
