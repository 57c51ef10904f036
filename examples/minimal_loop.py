"""The whole algorithm in one file: a tiny VLM learns FrozenLake by PPO with bi-level GAE and turn rewards.

    levels ── rollout ──> episodes ── exact judge ──> turn rewards ── bi-level GAE ──> advantages ── PPO ──> policy

30 iterations take about 4 CPU minutes. `python -m training frozenlake_tiny` does the same with a sibling baseline, a
KL penalty, learning-rate schedules, checkpoints, several processes, and a report.

Run it from the checkout: PYTHONPATH=. python examples/minimal_loop.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import vlm_envs
from agents.event_loop import run_blocking
from agents.hf.hf_agent import HFAgent, load_checkpoint
from agents.hf.row_passes import share_prefixes
from agents.hf.sampling_config import SamplingConfig
from agents.rollout import rollout
from judges.turn_rewards import grounding_reward, shape, worldmodeling_reward
from training.algorithms.bilevel_gae import bilevel_gae, turn_end_returns
from training.algorithms.losses import policy_loss, value_loss
from training.batch import Batch, make_batch
from training.engines.policy import RowPass, ValueModel, Values, token_logprobs
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Trajectory
from vlm_envs.vector.vector_world import VectorWorld

CHECKPOINT = Path(__file__).parents[1] / "training/recipes/checkpoints/frozenlake_tiny"
ENV_ID = "VLM/FrozenLake-v0"
WORLD = {"prompt_format": "grounding_worldmodeling", "representation": "structured", "prompt_example": False}
ROW_PASS = RowPass(shares_prefixes=True)  # the model processes the shared prefix of a group only once
TERMS = (grounding_reward(weight=0.5), worldmodeling_reward(weight=0.5))


@dataclass(frozen=True, kw_only=True)
class Config:
    """The hyperparameters of `frozenlake_tiny`."""

    num_iterations: int = 30
    num_groups: int = 16
    group_size: int = 8
    num_eval_levels: int = 128
    num_minibatches: int = 4
    learning_rate: float = 1e-4
    critic_learning_rate: float = 4e-4
    clip: float = 0.2
    gamma_turn: float = 0.95
    lambda_turn: float = 0.95
    max_grad_norm: float = 1.0
    seed: int = 0


def play(agent: HFAgent, seeds: Sequence[int], *, split: str) -> list[Trajectory]:
    """Plays one episode per seed."""
    make_world = partial(vlm_envs.make, ENV_ID, split=split, **WORLD)
    with VectorWorld([make_world] * len(seeds)) as worlds:
        return rollout(agent, worlds, seeds, env_ids=[ENV_ID] * len(seeds))


def turn_rewards(episodes: Sequence[Trajectory]) -> list[list[float]]:
    """Returns the reward of every turn: the world's plus the exact judge's for true state texts."""
    judged = run_blocking(shape(episodes, TERMS))
    return [[scored.total for scored in turns] for turns in judged]


@dataclass(frozen=True, kw_only=True)
class Advantages:
    """Advantages of a batch, and targets of its critic.

    Attributes:
        advantages_BT: Advantage of each generated token, whitened.
        value_targets_BT: Target of the critic before each generated token.
        turn_end_targets_BK: Target of the critic at the end of each turn.
    """

    advantages_BT: Tensor
    value_targets_BT: Tensor
    turn_end_targets_BK: Tensor


def estimate_advantages(batch: Batch, values: Values, config: Config) -> Advantages:
    """Returns advantages over turns first, then over the tokens inside each turn (VAGEN, Algorithm 2)."""
    advantages_BT, value_targets_BT = bilevel_gae(
        batch.turn_rewards_BK,
        torch.zeros_like(values.before_BT),  # no KL penalty
        values.before_BT,
        values.turn_ends_BK,
        batch.turn_index_BT,
        gamma_turn=config.gamma_turn,
        lambda_turn=config.lambda_turn,
        gamma_token=1.0,
        lambda_token=1.0,
    )
    turn_end_targets_BK = turn_end_returns(
        batch.turn_rewards_BK,
        values.turn_ends_BK,
        batch.turn_index_BT,
        gamma=config.gamma_turn,
        gae_lambda=config.lambda_turn,
    )
    generated_N = advantages_BT[batch.response_mask_BT]
    whitened_BT = (advantages_BT - generated_N.mean()) / (generated_N.std() + 1e-8)
    return Advantages(
        advantages_BT=whitened_BT * batch.response_mask_BT,
        value_targets_BT=value_targets_BT,
        turn_end_targets_BK=turn_end_targets_BK,
    )


class Learner:
    """The policy, its critic, and their optimizers.

    Args:
        policy: The model that acts.
        suppressed_ids: Tokens that the sampler never draws.
        config: The hyperparameters.
    """

    def __init__(self, policy: Any, suppressed_ids: list[int], config: Config) -> None:
        self.policy, self.critic, self.config = policy, ValueModel(policy, ROW_PASS, trunk="policy"), config
        self._suppressed_ids = suppressed_ids
        share_prefixes(policy)
        adamw = partial(torch.optim.AdamW, betas=(0.9, 0.95), weight_decay=0.0)
        self._policy_optimizer = adamw(policy.parameters(), lr=config.learning_rate)
        self._critic_optimizer = adamw(self.critic.parameters(), lr=config.critic_learning_rate)

    def update(self, batch: Batch, *, iteration: int) -> dict[str, float]:
        """Learns from one batch; the first one trains only the critic."""
        self.critic.calibrate(batch.returns_B)
        with torch.no_grad():
            old = self.critic(batch)
        learned = estimate_advantages(batch, old, self.config)
        losses: dict[str, list[float]] = {"value_loss": [], "policy_loss": []}
        for rows in self._minibatches(batch, iteration):
            part = batch.select(rows)
            width = part.input_ids_BT.shape[1]
            losses["value_loss"].append(self._step_critic(part, learned, rows, width))
            if iteration > 0:
                losses["policy_loss"].append(self._step_policy(part, learned.advantages_BT[rows, :width]))
        return {name: float(np.mean(values)) for name, values in losses.items() if values}

    def _minibatches(self, batch: Batch, iteration: int) -> Iterator[list[int]]:
        order = np.random.default_rng([self.config.seed, iteration]).permutation(batch.num_rows)
        for rows in np.array_split(order, self.config.num_minibatches):
            yield sorted(rows.tolist())

    def _step_policy(self, part: Batch, advantages_BT: Tensor) -> float:
        logprobs_BT, _ = token_logprobs(
            self.policy,
            part,
            temperature=1.0,
            suppressed_ids=self._suppressed_ids,
            entropy_mode="none",
            row_pass=ROW_PASS,
        )
        loss, _ = policy_loss(
            logprobs_BT,
            part.sampler_logprobs_BT,  # from the same model before the update
            advantages_BT,
            part.response_mask_BT,
            clip_low=self.config.clip,
            clip_high=self.config.clip,
        )
        return self._step(loss, self._policy_optimizer)

    def _step_critic(self, part: Batch, learned: Advantages, rows: list[int], width: int) -> float:
        values = self.critic(part)
        scale = self.critic.std
        token_loss, _ = value_loss(
            values.before_BT / scale,
            values.before_BT.detach() / scale,
            learned.value_targets_BT[rows, :width] / scale,
            part.response_mask_BT,
            clip_range=None,
        )
        turn_loss, _ = value_loss(
            values.turn_ends_BK / scale,
            values.turn_ends_BK.detach() / scale,
            learned.turn_end_targets_BK[rows] / scale,
            part.turn_mask_BK,
            clip_range=None,
        )
        return self._step(token_loss + turn_loss, self._critic_optimizer)

    def _step(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> float:
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], self.config.max_grad_norm)
        optimizer.step()
        return float(loss.detach())


def success_rate(episodes: Sequence[Trajectory]) -> float:
    """Returns the share of episodes that reach the goal."""
    return float(np.mean([episode.success for episode in episodes]))


def train(config: Config) -> list[float]:
    """Trains the shipped checkpoint, and returns its success on validation levels before and after."""
    torch.manual_seed(config.seed)
    policy, encoder = load_checkpoint(CHECKPOINT, dtype="float32")
    agent = HFAgent(model=policy, encoder=encoder, sampling=SamplingConfig(max_new_tokens=96), seed=config.seed)
    learner = Learner(policy, encoder.suppressed_ids(), config)
    validation_seeds = list(split_seeds("val", config.num_eval_levels))
    successes = [success_rate(play(agent, validation_seeds, split="val"))]
    print(f"before: {successes[0]:.3f} of {config.num_eval_levels} validation levels", flush=True)
    for iteration in range(config.num_iterations):
        levels = split_seeds("train", config.num_groups, start=iteration * config.num_groups)
        seeds = [seed for seed in levels for _ in range(config.group_size)]
        episodes = play(agent, seeds, split="train")
        groups = [index // config.group_size for index in range(len(episodes))]
        batch = make_batch(episodes, turn_rewards(episodes), encoder, group_index=groups)
        metrics = learner.update(batch, iteration=iteration)
        shown = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items())
        print(f"iteration {iteration + 1}: success {success_rate(episodes):.3f}  {shown}", flush=True)
    successes.append(success_rate(play(agent, validation_seeds, split="val")))
    print(f"after: {successes[1]:.3f} of {config.num_eval_levels} validation levels")
    return successes


def main() -> None:
    """Trains with the settings of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-iterations", type=int, default=Config.num_iterations)
    parser.add_argument("--num-groups", type=int, default=Config.num_groups)
    parser.add_argument("--num-eval-levels", type=int, default=Config.num_eval_levels)
    parser.add_argument("--seed", type=int, default=Config.seed)
    train(Config(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
