"""What would make a run fit: options that make the very run that was planned, however the run is configured."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from tests.unit.training.own_critic import with_own_critic
from training.cli.command_line import Recipe, configured
from training.plan.config import PlanConfig
from training.plan.plan import Phase, Plan
from training.plan.remedies import CHANGES, remedies

OFFLOADED = "--memory.offload-reference --memory.offload-optimizer"
RUNS = ("", OFFLOADED, "--memory.freeze-vision-tower", "--algorithm grpo", "--ppo.kl-coef 0", "--lora.rank 4")


def run_of(*options):
    return configured(Recipe(name="mine", make=with_own_critic), " ".join(options).split())


def plan_of_size(num_bytes):
    return Plan(
        phases=(Phase(name="sample", parts={"weights": num_bytes}),),
        capacity=1,
        micro_batch_rows=1,
        rows_per_step=1,
        largest_micro_batch_rows=1,
    )


@pytest.mark.parametrize("options", RUNS)
def test_options_make_the_run_that_was_planned(options):
    config, num_tried = run_of(options), 0
    for make in CHANGES:
        change = make(config, PlanConfig())
        if change is not None and "--num-gpus" not in change.options:
            assert run_of(options, change.options) == change.config, change.options
            num_tried += 1
    assert num_tried > 3


@pytest.mark.parametrize("options", RUNS)
def test_options_that_do_together_make_it_too(options):
    config, planned = run_of(options), []

    def fits_at_last(config, plan):
        planned.append(config)
        return plan_of_size(0 if plan.num_gpus == 2 and config.lora.rank is not None else 2)

    found = remedies(config, PlanConfig(), fits_at_last)
    assert len(found) == 1
    own = found[0].options.replace("--num-gpus 2", "")
    assert run_of(options, own) == planned[-1], own
    assert len(own.split()) == len({*own.replace(".no-", ".").split()}), "nothing is said twice"


@pytest.mark.parametrize("name", ["offload_reference", "offload_optimizer"])
def test_what_is_idle_may_wait_on_the_host(name):
    def fits_offloaded(config, plan):
        return plan_of_size(0 if getattr(config.memory, name) else 2)

    option = f"--memory.{name.replace('_', '-')}"
    assert [each.options for each in remedies(run_of(), PlanConfig(), fits_offloaded)] == [option]
    several = PlanConfig(num_gpus=2)
    assert [each.options for each in remedies(run_of("--engine ddp"), several, fits_offloaded)] == [option]
    assert remedies(run_of("--engine fsdp2"), several, fits_offloaded) == [], "shards stay where they are"
