"""A run on GPUs that would take more of the host's memory than there is: refused before it trains, not killed in it."""

from __future__ import annotations

from torch.distributed.tensor import DTensor

from training.config.processes import num_local_processes
from training.engines.host_memory import HostBytes, host_memory, local_bytes
from training.loop.update.learner import Learner
from vlm_envs.validation import require

_GIB = 2**30


def require_host_memory(learner: Learner) -> None:
    """Refuses, in all processes alike, what takes more of the host's memory than there is, if it trains on a GPU.

    Raises:
        ConfigError: With what is needed, what is there, and the options that mend it.
    """
    if learner.policy.device.type == "cpu":
        return
    found = shortage(host_bytes(learner), host_memory(), num_processes=num_local_processes())
    faults = [each for each in learner.engine.gather([found]) if each is not None]
    require(not faults, "".join(faults[:1]))


def host_bytes(learner: Learner) -> HostBytes:
    """Returns what this process will keep in the host's memory, AdamW's moments of steps to come included."""
    config, state = learner.config, learner.state_dict()
    optimizers = [each for each in (learner.policy_optimizer, learner.critic_optimizer) if each is not None]
    num_states = sum(each.num_state_bytes() for each in optimizers)
    weights = [*state["policy"].values(), *(state["critic"] or {}).values()]
    is_spread = any(isinstance(weight, DTensor) for weight in learner.policy.parameters())  # shards stay on the device
    return HostBytes(
        reference=0 if is_spread else local_bytes(learner.idle_reference()),
        states=num_states * (config.memory.offload_optimizer and not is_spread),
        copy=config.keeps_copy * (local_bytes(weights) + num_states),
    )


def shortage(needed: HostBytes, available: int | None, *, num_processes: int) -> str | None:
    """Returns why a run has too little of the host's memory, and what mends that; None if it has enough.

    Args:
        needed: By one process.
        available: Bytes of this machine; None where they are not known, and enough.
        num_processes: Those of the run on this machine.
    """
    if available is None or num_processes * needed.total <= available:
        return None

    def gib(num_bytes: float) -> str:
        return f"{num_processes * num_bytes / _GIB:.1f}"

    without, enough = needed.without_offloading, available / num_processes
    written = ", and all of the state is written after each iteration"
    ways = [("--checkpoint-every 1", needed.offloaded, written), (without, needed.copy, ", and more of the GPU's")]
    ways = [way for way in ways if way[1] <= enough and way[1] < needed.total] or [
        (f"--checkpoint-every 1 {without}", 0.0, f", and more of the GPU's{written}")
    ]
    mended = ", or ".join(f"{options} (then {gib(left)} GiB{cost})" for options, left, cost in ways)
    plan = f"--num-gpus {num_processes} --host-memory {max(int(10 * available / _GIB), 1) / 10:.1f}"
    return (
        f"This run needs {gib(needed.total)} GiB of the host's memory, and there are {available / _GIB:.1f}: "
        f"{gib(needed.offloaded)} for what --memory.offload-* has wait there, and {gib(needed.copy)} for a copy of its "
        f"state, from which it is saved if an iteration fails. Use {mended}. What else would do says python -m "
        f"training plan with {plan}."
    )
