"""How many processes train a run together, and on what engine: what `accelerate launch` says in the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Literal

from vlm_envs.validation import require

EngineName = Literal["auto", "local", "ddp", "fsdp2"]


def num_processes(environment: Mapping[str, str] = os.environ) -> int:
    """Returns how many processes were launched together; 1 for one that was started by itself."""
    return int(environment.get("WORLD_SIZE", 1))


def num_local_processes(environment: Mapping[str, str] = os.environ) -> int:
    """Returns how many of them are on this machine; all, where the launcher does not say."""
    return int(environment.get("LOCAL_WORLD_SIZE", num_processes(environment)))


def process_rank(environment: Mapping[str, str] = os.environ) -> int:
    """Returns which of them this is, from 0, the main process."""
    return int(environment.get("RANK", 0))


def print_on_main(lines: Iterable[str]) -> None:
    """Prints lines; of several processes the main one does."""
    for line in lines if process_rank() == 0 else ():
        print(line)


def engine_name(asked: EngineName, environment: Mapping[str, str] = os.environ) -> Literal["local", "ddp", "fsdp2"]:
    """Returns the engine that is asked for; for `"auto"` what accelerate was configured for."""
    if asked != "auto":
        return asked
    if num_processes(environment) == 1:
        return "local"
    return "fsdp2" if environment.get("ACCELERATE_USE_FSDP", "").lower() == "true" else "ddp"


def require_engine(
    engine: EngineName,
    *,
    num_groups: int,
    has_adapters: bool,
    staleness: int = 0,
    critic_trunk: str = "own",
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Refuses processes that cannot train a run together.

    Args:
        engine: The run's setting.
        num_groups: Groups it plays an iteration.
        has_adapters: Whether it trains adapters only.
        staleness: Updates that its policy is ahead of what sampled.
        critic_trunk: What its critic stands on.
        environment: Of this process.

    Raises:
        ConfigError: If they were launched for another engine, or some would have no group to play.
    """
    processes = num_processes(environment)
    require(
        engine != "local" or processes == 1,
        f"--engine local trains in one process, and {processes} were launched. Use --engine auto.",
    )
    require(
        engine not in ("ddp", "fsdp2") or processes > 1,
        f"--engine {engine} trains in several processes, and this is one. Start them with: accelerate launch "
        "--multi_gpu --num_processes 2 -m training ..., or use --engine auto.",
    )
    require(
        staleness == 0 or processes == 1,
        f"--staleness {staleness} samples beside the update, in one process, and {processes} were launched: what they "
        "say to each other in the two would mix. Use --staleness 0, or one process.",
    )
    _require_accelerate(engine, environment)
    require(
        not has_adapters or engine_name(engine, environment) != "fsdp2",
        "FSDP2 spreads out weights, and the base of --lora.rank is one for policy, reference and critic. Use --engine "
        "ddp, where a whole base fits beside what little is trained, or leave the adapters out.",
    )
    require(
        critic_trunk == "own" or engine_name(engine, environment) != "fsdp2",
        "--algorithm.critic.trunk policy reads the policy's layers, which FSDP2 puts together for the policy's own "
        "passes. Use --engine ddp, or --algorithm.critic.trunk own.",
    )
    require(
        num_groups >= processes,
        f"{processes} processes play whole groups each, and --num-groups {num_groups} leaves some without. Use "
        f"--num-groups {processes} or more, or fewer processes.",
    )


def _require_accelerate(engine: EngineName, environment: Mapping[str, str]) -> None:
    """Refuses what accelerate was configured for, or made of it, where that is no engine here."""
    for variable in ("ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_MEGATRON_LM"):
        require(
            environment.get(variable, "").lower() != "true",
            f"accelerate is configured for what is no engine here ({variable}). Configure it for FSDP, version 2, or "
            "for none of these.",
        )
    started_alone = "WORLD_SIZE" not in environment and {"MASTER_ADDR", "ACCELERATE_MIXED_PRECISION"} <= {*environment}
    require(
        not started_alone,
        "accelerate launch started one process where several were asked for: it takes MPI where there is no GPU. Add "
        "--multi_gpu, by which it starts them in the way of torchrun, on CPUs too.",
    )
    uses_fsdp = environment.get("ACCELERATE_USE_FSDP", "").lower() == "true"
    require(
        engine != "auto" or not uses_fsdp or environment.get("FSDP_VERSION", "1") == "2",
        "accelerate is configured for FSDP 1, and the engine here is FSDP2. Add --fsdp_version 2 (fsdp_version: 2 in "
        "its file).",
    )
