"""A run's plan from its configuration and a checkpoint's config.json: counted, put together, and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from training.config.run import RunConfig
from training.plan.config import PlanConfig
from training.plan.memory import FLOAT32
from training.plan.passes import ModelPasses
from training.plan.plan import Plan, plan_of, spread_of
from training.plan.remedies import Remedy, remedies
from training.plan.report import data_of, remedy_lines, text_of, verdict
from training.plan.rows import RowShape, longest_row
from training.plan.shapes import model_without_memory
from training.plan.work import work_of


class Planner:
    """Plans variants of a run, and counts again only what differs between them.

    Args:
        config: The run.
        plan: Its GPUs.
        directory: The checkpoint's, with a config.json.
    """

    def __init__(self, config: RunConfig, plan: PlanConfig, directory: Path) -> None:
        self._directory = directory
        self._passes: dict[Any, ModelPasses] = {}
        spread_of(config, plan)  # what cannot be started is refused before anything is counted
        model = model_without_memory(directory, getattr(torch, config.dtype))
        self.row: RowShape = longest_row(config, plan, model.config, directory)

    def passes(self, config: RunConfig, plan: PlanConfig) -> ModelPasses:
        """Returns the passes of a run's models; of one with other rows they are the same."""
        dtype = torch.float32 if spread_of(config, plan).activation_bytes == FLOAT32 else torch.bfloat16
        key = (
            dtype,
            (config.memory.gradient_checkpointing, config.memory.freeze_vision_tower),
            config.lora,
            config.algorithm.critic_config is not None,
            config.ppo.entropy_coef > 0,
        )
        if key not in self._passes:
            model = model_without_memory(self._directory, dtype)
            self._passes[key] = ModelPasses(model, config, self.row)
        return self._passes[key]

    def __call__(self, config: RunConfig, plan: PlanConfig) -> Plan:
        """Returns a run's plan."""
        return plan_of(config.decided(), plan, self.passes(config.decided(), plan))


def show_plan(config: RunConfig, plan: PlanConfig, directory: Path) -> str | None:
    """Prints a run's plan.

    Returns:
        None where it fits; else why not, and what would make it fit.
    """
    planner = Planner(config, plan, directory)
    found, passes = planner(config, plan), planner.passes(config.decided(), plan)
    work = work_of(config.decided(), plan, planner.row, passes.policy_shape, passes.critic_shape)
    if not plan.json:  # before any remedy is looked for, which takes longer than the plan itself
        lines = text_of(config, plan, found, row=planner.row, policy=passes.policy_shape, work=work)
        print("\n".join([*lines, *([verdict(plan, found)] if found.fits else [])]), flush=True)
    ways: list[Remedy] = [] if found.fits else remedies(config, plan, planner)
    if plan.json:
        data = data_of(config, plan, found, row=planner.row, policy=passes.policy_shape, work=work, ways=ways)
        print(json.dumps(data, indent=2))
    return None if found.fits else "\n".join([verdict(plan, found), *remedy_lines(ways, plan)])
