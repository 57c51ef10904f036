"""Who plays a run's test levels beside its policies: they tell what its numbers are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.agent import Agent
from agents.blind_script import LazyAgent
from agents.hf.ablation_agents import BlindHFAgent, ToldHFAgent, can_be_told
from agents.hf.chat import ChatEncoder
from agents.hf.hf_agent import HFAgent
from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.demonstrations import expert_of
from training.config.world_spec import WorldSpec
from training.loop.evaluation import evaluate, measure_of
from vlm_envs.records.json_lines import Record
from vlm_envs.trajectory import observation_images

NUM_LAZY_LEVELS = 128
"""Validation levels on which the last candidates for a lazy rival are compared: the best of few is the luckiest."""


@dataclass(frozen=True, kw_only=True)
class Rivals:
    """The rivals of a run.

    Attributes:
        told_before: Its start, told what it should see.
        told_after: Its policy, likewise.
        greedy_before: Its start, which takes the most probable token at each place.
        greedy_after: Its policy, likewise.
        blind: Its policy, shown grey pictures.
        imitated: What its start has imitated.
        imitated_in: In which worlds, with the expert's own settings there.
        seed: By which the expert draws where it errs.
    """

    told_before: Agent
    told_after: Agent
    greedy_before: Agent
    greedy_after: Agent
    blind: Agent
    imitated: ColdStartConfig
    imitated_in: Sequence[WorldSpec]
    seed: int

    @classmethod
    def of(
        cls,
        start: Any,
        trained: Any,
        encoder: ChatEncoder,
        sampling: SamplingConfig,
        *,
        imitated: ColdStartConfig,
        imitated_in: Sequence[WorldSpec],
        seed: int,
    ) -> Rivals:
        """Returns the rivals of two models in memory, which draw as the run's own evaluations did, by a seed."""
        settings: dict[str, Any] = {"encoder": encoder, "sampling": sampling, "seed": seed}
        greedily = settings | {"sampling": replace(sampling, temperature=0.0)}
        return cls(
            told_before=ToldHFAgent(model=start, **settings),
            told_after=ToldHFAgent(model=trained, **settings),
            greedy_before=HFAgent(model=start, **greedily),
            greedy_after=HFAgent(model=trained, **greedily),
            blind=BlindHFAgent(model=trained, **settings),
            imitated=imitated,
            imitated_in=imitated_in,
            seed=seed,
        )

    def played(self, spec: WorldSpec, *, first: int, num_levels: int) -> dict[str, list[float]]:
        """Returns what each comes to on test levels, by its name in `WorldResult`, with the lazy one and the expert.

        Whoever could not differ from the policy is left out: in worlds that have no place for what is seen, or show
        nothing. So is the expert where nobody was imitated in this world, or what was recorded.

        Args:
            spec: The world.
            first: Index of the first level.
            num_levels: How many.
        """
        agents: dict[str, Agent] = {"lazy": LazyAgent(num_val_levels=NUM_LAZY_LEVELS)}
        agents |= {"greedy_before": self.greedy_before, "greedy_after": self.greedy_after}
        if (expert := self.expert(spec)) is not None:
            agents["expert"] = expert
        if shows_pictures(spec):
            agents["blind"] = self.blind
        if _has_place_for_what_is_seen(spec):
            agents |= {"told_before": self.told_before, "told_after": self.told_after}
        return {name: _levels(agent, spec, first=first, num_levels=num_levels) for name, agent in agents.items()}

    def expert(self, spec: WorldSpec) -> Agent | None:
        """Returns whom the start has imitated in a world, as suboptimal as there; None where that is nobody."""
        there = [each for each in self.imitated_in if each.env_id == spec.env_id]
        if not there:
            return None
        alike = next((each for each in there if each.kwargs == spec.kwargs), there[0])
        return expert_of(alike, self.imitated, seed=self.seed)


def measured(episode: Record, measure: str) -> float:
    """Returns what an episode counts for: 1 if it is solved, or one of its world's metrics."""
    return float(episode["success"]) if measure == "success" else round(float(episode["metrics"].get(measure, 0.0)), 4)


def shows_pictures(spec: WorldSpec) -> bool:
    """Returns whether an expert is shown a picture: by the world, or by a tool that it calls."""
    played = evaluate(make_agent("oracle"), spec, split="val", num_episodes=4)
    return any(observation_images(turn.observation) for each in played.trajectories for turn in each.turns)


def _has_place_for_what_is_seen(spec: WorldSpec) -> bool:
    with spec.made() as world:
        world.reset(seed=0)
        return can_be_told(world)


def _levels(agent: Agent, spec: WorldSpec, *, first: int, num_levels: int) -> list[float]:
    played = evaluate(agent, spec, split="test", num_episodes=num_levels, first=first)
    ends = ((each.success, each.turns[-1].info.get("metrics") or {}) for each in played.trajectories)
    measure = measure_of(spec.env_id)
    return [measured({"success": success, "metrics": metrics}, measure) for success, metrics in ends]
