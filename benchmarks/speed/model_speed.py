"""How fast the tiny model samples, plays whole rollouts, and learns."""

from __future__ import annotations

import copy
import functools
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import transformers

from agents.agent import Agent
from agents.hf.chat import ChatEncoder
from agents.hf.family import vision_inputs
from agents.hf.hf_agent import load_checkpoint
from agents.hf.sampling_config import SamplingConfig
from agents.hf.tiny_vlm import save_tiny
from agents.registry import make_agent
from agents.rollout import rollout
from benchmarks.speed.speed_benchmarks import Row, median_times_s, per_second
from training.batch import Batch, make_batch
from training.checkpoints.checkpoint_files import model_directory
from training.config.run_config import RunConfig
from training.loop.collect import Collector
from training.loop.rollout_agents import AGENTS
from training.recipes.tiny import frozenlake_tiny
from training.update.learner import Learner
from vlm_envs import make
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Observation
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.vector.vector_world import VectorWorld


def tiny() -> tuple[Any, ChatEncoder]:
    """Returns the tiny VLM with random weights, and its chat format."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as directory:
        save_tiny(directory)
        return load_checkpoint(directory, dtype=torch.float32)


def sampled_tokens_per_s(*, quick: bool) -> list[Row]:
    """Measures one turn of a batch: prompt and picture in, tokens out.

    The peer is `generate` of transformers on the same model, prompts, pictures and distribution. It gets its
    inputs prepared; our side also encodes prompts, keeps log-probabilities, and decodes. Rows end at their
    end-of-turn token on both sides, and only tokens up to it count.
    """
    num_rows, num_tokens, num_repeats = (8, 4, 1) if quick else (128, 64, 5)
    model, encoder = tiny()
    with world_vector("VLM/FrozenLake-v0", num_rows, split="train", prompt_example=False) as worlds:
        observations, _ = worlds.reset(seed=list(split_seeds("train", num_rows)))
        ours = _Ours(model, encoder, worlds, observations, num_tokens)
        peer = _Generate(model, encoder, observations, num_tokens)
        ours_s, peer_s = median_times_s([ours, peer], num_repeats)
    rates = (ours.mean_num_tokens / ours_s, peer.mean_num_tokens / peer_s)
    return [Row(f"one turn of {num_rows} rows", rates[0], "tokens/s", "transformers' generate", rates[1])]


class _Ours:
    """One turn through the agent that training uses."""

    def __init__(
        self,
        model: Any,
        encoder: ChatEncoder,
        worlds: VectorWorld,
        observations: Sequence[Observation],
        num_tokens: int,
    ) -> None:
        self._agent = make_agent("hf", model=model, encoder=encoder, sampling=SamplingConfig(max_new_tokens=num_tokens))
        self._worlds, self._observations = worlds, observations
        self._num_tokens: list[int] = []

    def __call__(self) -> None:
        self._agent.start(self._worlds)
        responses = self._agent.respond(range(len(self._observations)), self._observations)
        self._num_tokens.append(sum(len(response.response_ids) for response in responses))

    @property
    def mean_num_tokens(self) -> float:
        return float(np.mean(self._num_tokens))


class _Generate:
    """The same turn through `generate`."""

    def __init__(self, model: Any, encoder: ChatEncoder, observations: Sequence[Observation], num_tokens: int) -> None:
        segments = [encoder.encode(observation, is_first=True) for observation in observations]
        ids = torch.from_numpy(np.stack([segment.ids for segment in segments])).to(model.device)
        self._model, self._end_id, self._width = model, encoder.end_of_turn_id, ids.shape[1]
        self._arguments = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "mm_token_type_ids": (ids == encoder.image_token_id).int(),
            "do_sample": True,
            "temperature": 1.0,
            "top_k": 0,
            "top_p": 1.0,
            "max_new_tokens": num_tokens,
            "suppress_tokens": encoder.suppressed_ids(),
            "eos_token_id": encoder.end_of_turn_id,
            "pad_token_id": encoder.pad_id,
            **vision_inputs([image for segment in segments for image in segment.images], model.device, model.dtype),
        }
        self._num_tokens: list[int] = []

    def __call__(self) -> None:
        sampled = self._model.generate(**self._arguments)[:, self._width :]
        has_ended = (sampled == self._end_id).cumsum(dim=1)
        self._num_tokens.append(int((has_ended - (sampled == self._end_id).int() == 0).sum()))

    @property
    def mean_num_tokens(self) -> float:
        return float(np.mean(self._num_tokens))


def trained_tokens_per_s(*, quick: bool) -> list[Row]:
    """Measures one iteration's learning: outputs of reference and critic, credit, update of policy and critic.

    The episodes are the shipped model's own, groups of four. The peer takes the same step from whole rows, without
    prefix sharing. All tokens count, on both sides as often as rows have them.
    """
    num_groups, num_repeats = (4, 1) if quick else (32, 3)
    config = frozenlake_tiny()
    config = replace(config, num_groups=num_groups, algorithm=config.algorithm.with_critic(warmup_iterations=0))
    assert config.model is not None, "the recipe starts from what it ships"
    model, encoder = load_checkpoint(model_directory(config.model), dtype=torch.float32)
    batch = _played(config, model, encoder)
    whole_rows = replace(config, memory=replace(config.memory, prefix_sharing="off"))
    learners = [Learner(copy.deepcopy(model), encoder.suppressed_ids(), each) for each in (config, whole_rows)]
    calls = [functools.partial(_learn, learner, batch) for learner in learners]
    shared, whole = per_second(int(batch.attention_mask_BT.sum()), calls, num_repeats)
    return [Row(f"outputs, credit, update, {batch.num_rows} rows", shared, "tokens/s", "whole rows", whole)]


def _played(config: RunConfig, model: Any, encoder: ChatEncoder) -> Batch:
    """Returns an iteration's episodes."""
    agent = make_agent("hf", model=model, encoder=encoder, sampling=config.sampling)
    with closing(Collector(config)) as collector:
        groups = collector.collect(agent, 0)
    played = [trajectory for group in groups for trajectory in group.trajectories]
    return make_batch(
        played,
        [[turn.reward for turn in trajectory.turns] for trajectory in played],
        encoder,
        group_index=[number for number, group in enumerate(groups) for _ in group.trajectories],
    )


def _learn(learner: Learner, batch: Batch) -> None:
    outputs = learner.model_outputs(batch)
    learner.update(batch, outputs, learner.config.algorithm.credit(batch, outputs), iteration=0)


DELAYS_MS = (0, 50)
"""How long a world takes to answer, beside what it computes."""


def rollout_turns_per_s(*, quick: bool) -> list[Row]:
    """Measures rollouts of the shipped tiny model, groups of four in worlds that answer at once or after 50 ms.

    Slow worlds have a thread each, as if they were elsewhere. The peer is the rollout that is in step, on the same
    levels; each side draws on its own, and its own turns count.
    """
    num_groups, num_repeats = (2, 1) if quick else (32, 5)
    config = frozenlake_tiny()
    spec = config.worlds[0]
    seeds = [seed for seed in split_seeds("train", num_groups) for _ in range(config.group_size)]
    rows = []
    for delay_ms in DELAYS_MS:
        makers = [partial(_late, delay_ms / 1000, spec.env_id, dict(spec.kwargs))] * len(seeds)
        workers: dict[str, Any] = {"workers": "thread", "num_workers": len(seeds)} if delay_ms else {}
        with VectorWorld(makers, **workers) as worlds:
            in_step, waiting_for_none = (
                _Played(_agent(config, AGENTS["transformers", kind]), worlds, seeds) for kind in ("barrier", "async")
            )
            barrier_s, async_s = median_times_s([in_step, waiting_for_none], num_repeats)
        name = f"{len(seeds)} episodes, worlds that answer in {delay_ms} ms"
        rates = (waiting_for_none.num_turns / async_s, in_step.num_turns / barrier_s)
        rows.append(Row(name, rates[0], "turns/s", "in step", rates[1]))
    return rows


def _agent(config: RunConfig, name: str) -> Agent:
    """Returns an agent with the recipe's weights."""
    assert config.model is not None, "the recipe starts from what it ships"
    model, encoder = load_checkpoint(model_directory(config.model), dtype=torch.float32)
    return make_agent(name, model=model, encoder=encoder, sampling=config.sampling)


def _late(delay_s: float, env_id: str, kwargs: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Returns a world that answers late."""
    world = make(env_id, split="train", **kwargs)
    step = world.unwrapped.step

    def late(action: str) -> Any:
        time.sleep(delay_s)
        return step(action)

    if delay_s:
        world.unwrapped.step = late  # type: ignore[method-assign]
    return world


class _Played:
    """Rollouts of one agent."""

    def __init__(self, agent: Agent, worlds: VectorWorld, seeds: Sequence[int]) -> None:
        self._agent, self._worlds, self._seeds = agent, worlds, seeds
        self._num_turns: list[int] = []

    def __call__(self) -> None:
        episodes = rollout(self._agent, self._worlds, self._seeds, env_ids=["VLM/FrozenLake-v0"] * len(self._seeds))
        self._num_turns.append(sum(len(episode.turns) for episode in episodes))

    @property
    def num_turns(self) -> float:
        """Mean over the rollouts."""
        return float(np.mean(self._num_turns))
