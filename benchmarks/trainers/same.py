"""One frozen trajectory through both trainers: the same tokens, pictures and positions have the same log-probabilities.

Our agent plays a few episodes; TRL then plays the same levels with the same sampled tokens put into its generation, so
that prompts, tool answers, pictures, masks and positions are made by its own code. All of the vocabulary counts, as
TRL's log-probabilities have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent
from agents.rollout import rollout
from benchmarks.trainers.ours import load
from benchmarks.trainers.stopwatch import Stopwatch
from benchmarks.trainers.trl_peer import made_trainer
from benchmarks.trainers.work import Work
from benchmarks.trainers.world import ENV_ID, LateLake
from training.batch import Batch, make_batch
from training.engines.policy import token_logprobs
from vlm_envs.trajectory import Trajectory
from vlm_envs.vector.vector_world import VectorWorld

NUM_GROUPS = 2


def likeness(work: Work) -> dict[str, Any]:
    """Returns `num_tokens`, the tokens that were compared, and `max_difference` of their log-probabilities.

    Raises:
        AssertionError: If the tokens themselves differ.
    """
    group = work.group_size
    small = replace(work, num_groups=NUM_GROUPS, micro_batch_size=group, world_ms=0.0, judge_ms=0.0, num_iterations=1)
    torch.set_num_threads(work.num_threads)
    ours, ours_ids, episodes = _ours(small)
    theirs, theirs_ids = _trls(small, episodes)
    assert theirs_ids == ours_ids, "TRL's conversations have other tokens than ours"
    differences = torch.cat([(a - b).abs() for a, b in zip(ours, theirs, strict=True)])
    return {"num_tokens": len(differences), "max_difference": float(differences.max())}


@torch.no_grad()
def _ours(work: Work) -> tuple[list[Tensor], list[list[int]], list[Trajectory]]:
    """Returns our log-probabilities of what was sampled, the tokens of whole rows, and the episodes."""
    model, encoder = load(work)
    agent = make_agent("hf", model=model, encoder=encoder, sampling=SamplingConfig(max_new_tokens=work.tokens))
    levels = [level for level in work.levels(0) for _ in range(work.group_size)]
    maker = partial(LateLake, **work.world_kwargs)
    with VectorWorld([maker] * len(levels)) as worlds:
        episodes = rollout(agent, worlds, levels, env_ids=[ENV_ID] * len(levels))
    batch: Batch = make_batch(episodes, [[0.0] * work.turns] * len(levels), encoder)
    logprobs_BT, _ = token_logprobs(model, batch, temperature=1.0, suppressed_ids=[], entropy_mode="none")
    is_sampled_BT = batch.turn_index_BT >= 0
    rows = [batch.input_ids_BT[row][batch.attention_mask_BT[row] > 0].tolist() for row in range(batch.num_rows)]
    return [logprobs_BT[row][is_sampled_BT[row]] for row in range(batch.num_rows)], rows, episodes


@torch.no_grad()
def _trls(work: Work, episodes: Sequence[Trajectory]) -> tuple[list[Tensor], list[list[int]]]:
    """Returns TRL's log-probabilities of the same responses, and the tokens of its whole rows."""
    with made_trainer(work, Stopwatch("all"), num_iterations=1) as trainer:
        turns = iter(range(work.turns))

        def replayed(*args: Any, **kwargs: Any) -> tuple[list[list[int]], None]:
            turn = next(turns)
            return [episode.turns[turn].response_ids.tolist() for episode in episodes], None

        trainer._generate_single_turn = replayed
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = 1
        prompt = [{"role": "user", "content": ""}]
        rows = trainer._generate_and_score_completions([{"prompt": prompt, "seed": each.seed} for each in episodes])
        ids = torch.cat([rows["prompt_ids"], rows["completion_ids"]], dim=1)
        mask = torch.cat([rows["prompt_mask"], rows["completion_mask"]], dim=1)
        shown = {name: rows[name] for name in ("pixel_values", "image_grid_thw", "num_images", "mm_token_type_ids")}
        logprobs, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, mask, rows["completion_ids"].shape[1], **shown
        )
        is_sampled = (rows["completion_mask"] * rows["tool_mask"]) > 0
        return (
            [logprobs[row][is_sampled[row]] for row in range(len(episodes))],
            [ids[row][mask[row] > 0].tolist() for row in range(len(episodes))],
        )
