"""Number of processes that train a run together, and their engine, from the environment of `accelerate launch`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Literal

from vlm_envs.validation import require

EngineName = Literal["auto", "local", "ddp", "fsdp2"]


def num_processes(environment: Mapping[str, str] = os.environ) -> int:
    """Returns the number of processes launched together; 1 without a launcher."""
    return int(environment.get("WORLD_SIZE", 1))


def num_local_processes(environment: Mapping[str, str] = os.environ) -> int:
    """Returns the number of processes on this machine; all of them if the launcher does not report it."""
    return int(environment.get("LOCAL_WORLD_SIZE", num_processes(environment)))


def process_rank(environment: Mapping[str, str] = os.environ) -> int:
    """Returns the rank of this process; 0 is the main process."""
    return int(environment.get("RANK", 0))


def print_on_main(lines: Iterable[str]) -> None:
    """Prints lines, only in the main process."""
    for line in lines if process_rank() == 0 else ():
        print(line)


def engine_name(asked: EngineName, environment: Mapping[str, str] = os.environ) -> Literal["local", "ddp", "fsdp2"]:
    """Returns the requested engine; for `"auto"`, the one that accelerate is configured for."""
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
    """Raises if the launched processes cannot train a run together.

    Args:
        engine: The run's setting.
        num_groups: Groups per iteration.
        has_adapters: Whether only adapters are trained.
        staleness: Number of updates between sampling and training.
        critic_trunk: The critic's trunk.
        environment: Environment of this process.

    Raises:
        ConfigError: If they were launched for another engine, or some would have no groups.
    """
    processes = num_processes(environment)
    require(
        engine != "local" or processes == 1,
        f"--engine local trains in one process, but {processes} were launched. Use --engine auto.",
    )
    require(
        engine not in ("ddp", "fsdp2") or processes > 1,
        f"--engine {engine} trains in several processes, but this is one. Start them with: accelerate launch "
        "--multi_gpu --num_processes 2 -m training ..., or use --engine auto.",
    )
    require(
        staleness == 0 or processes == 1,
        f"--staleness {staleness} samples during the update, which works only in one process, as the collectives of "
        f"both would mix; {processes} were launched. Use --staleness 0, or one process.",
    )
    _require_accelerate(engine, environment)
    require(
        not has_adapters or engine_name(engine, environment) != "fsdp2",
        "FSDP2 shards weights, but with --lora.rank policy, reference, and critic share one base. Use --engine ddp, "
        "where each process keeps the whole base, or leave the adapters out.",
    )
    require(
        critic_trunk == "own" or engine_name(engine, environment) != "fsdp2",
        "--algorithm.critic.trunk policy reads the policy's layers, which FSDP2 gathers only for the policy's own "
        "passes. Use --engine ddp, or --algorithm.critic.trunk own.",
    )
    require(
        num_groups >= processes,
        f"{processes} processes each play whole groups, so --num-groups {num_groups} leaves some without any. Use "
        f"--num-groups {processes} or more, or fewer processes.",
    )


def _require_accelerate(engine: EngineName, environment: Mapping[str, str]) -> None:
    """Raises if accelerate is configured for an unsupported engine, or did not start the requested processes."""
    for variable in ("ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_MEGATRON_LM"):
        require(
            environment.get(variable, "").lower() != "true",
            f"accelerate is configured for an unsupported engine ({variable}). Configure it for FSDP version 2, or for "
            "none of these.",
        )
    started_alone = "WORLD_SIZE" not in environment and {"MASTER_ADDR", "ACCELERATE_MIXED_PRECISION"} <= {*environment}
    require(
        not started_alone,
        "accelerate launch started one process instead of several, as it uses MPI without a GPU. Add --multi_gpu, "
        "which starts them like torchrun, even on CPUs.",
    )
    uses_fsdp = environment.get("ACCELERATE_USE_FSDP", "").lower() == "true"
    require(
        engine != "auto" or not uses_fsdp or environment.get("FSDP_VERSION", "1") == "2",
        "accelerate is configured for FSDP 1, but the engine here is FSDP2. Add --fsdp_version 2 (fsdp_version: 2 in "
        "its file).",
    )
