"""What would make a run fit: options that make the very run that was planned, however the run is configured."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from tests.unit.slow import quick
from tests.unit.training.own_critic import with_own_critic
from training.engines.host_memory import HostBytes
from training.memory_plan.plan_config import PlanConfig
from training.memory_plan.run_plan import CHANGES, OF_HOST, Phase, Plan, remedies
from training.run_options import Recipe, configured

OFFLOADED = "--memory.offload-reference --memory.offload-optimizer"
OFF = "--memory.no-offload-optimizer --memory.no-offload-reference"
RUNS = ("", OFFLOADED, "--memory.freeze-vision-tower", "--algorithm grpo", "--ppo.kl-coef 0", "--lora.rank 4")


def run_of(*options):
    return configured(Recipe(name="mine", make=with_own_critic), " ".join(options).split())


def plan_of_size(num_bytes, num_host_bytes=0):
    return Plan(
        phases=(Phase(name="sample", parts={"weights": num_bytes}),),
        capacity=1,
        micro_batch_rows=1,
        rows_per_step=1,
        largest_micro_batch_rows=1,
        host=HostBytes(copy=num_host_bytes),
        num_processes=1,
        host_capacity=1,
    )


@pytest.mark.parametrize("options", quick(RUNS, RUNS[0], "--lora.rank 4"))
def test_options_make_the_run_that_was_planned(options):
    config, num_tried = run_of(options), 0
    for make in (*CHANGES, *OF_HOST):
        change = make(config, PlanConfig(host_memory=1))
        if change is not None and "--num-gpus" not in change.options:
            assert run_of(options, change.options) == change.config, change.options
            num_tried += 1
    assert num_tried > 3


@pytest.mark.parametrize("options", quick(RUNS, RUNS[0], "--lora.rank 4"))
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


@pytest.mark.parametrize(
    ("needed", "gpu_has_room", "expected"),
    [
        ({"copy": 1, "waiting": 1}, True, ["--checkpoint-every 1", OFF, f"--checkpoint-every 1 {OFF}"]),
        ({"copy": 1, "waiting": 1}, False, ["--checkpoint-every 1"]),
        ({"copy": 2, "waiting": 1}, True, ["--checkpoint-every 1", f"--checkpoint-every 1 {OFF}"]),
        ({"copy": 1, "waiting": 2}, True, [OFF, f"--checkpoint-every 1 {OFF}"]),
        ({"copy": 2, "waiting": 2}, True, [f"--checkpoint-every 1 {OFF}"]),
    ],
)
def test_a_host_without_room_is_spared(needed, gpu_has_room, expected):
    def planned(config, plan):
        waits = config.memory.offload_optimizer and config.memory.offload_reference
        is_as_it_was = config.lora.rank is None and config.algorithm.critic_config and config.ppo.kl_coef
        on_host = needed["copy"] * (config.checkpoint_every != 1) + needed["waiting"] * waits
        return plan_of_size(0 if (waits or gpu_has_room) and is_as_it_was and plan.num_gpus == 1 else 2, on_host)

    run = run_of(OFFLOADED)
    assert [each.options for each in remedies(run, PlanConfig(host_memory=1), planned)] == expected
    assert not planned(run, PlanConfig()).fits
