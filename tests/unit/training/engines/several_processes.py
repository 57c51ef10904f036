"""Learners in one process and in several, over the same batch, and whether they come to the same.

Tests start it as a program in each process. DIRECTORY holds the model and `case.pt`; the main process leaves what it
came to in `<name>.pt`.
"""

from __future__ import annotations

import copy
import functools
import itertools
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.unit.models import load
from tests.unit.training.batches import played_batch, run_config
from tests.unit.training.gradients import assert_same_steps, first_steps, recorded_steps
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.batch import Batch
from training.config.run_config import RunConfig
from training.config.update_config import LoRAConfig, MemoryConfig, PPOConfig
from training.engines import policy
from training.engines.engine import Engine, LocalEngine
from training.update.learner import Learner
from training.update.update_losses import assigned_credit

CHECKOUT = Path(__file__).parents[4]
NUM_UPDATES = 2
LOOKED = "looked"
SHARE_NEAR = 0.99
"""Of the weights, how many have to be the same after all updates, but for 1e-5."""
PARTS: Mapping[str, str] = {"tower": "visual.blocks.0.attn.qkv", "decoder": "layers.0.self_attn.q_proj"}
"""Of the tiny model, as names of modules end."""
_PPO = PPOConfig(
    num_minibatches=4,
    micro_batch_size=1,
    warmup_iterations=0,
    learning_rate=1e-4,
    entropy_coef=0.01,
    kl_coef=0.1,
    max_grad_norm=0.5,
)
_MEMORY = MemoryConfig(gradient_checkpointing=True, packing="on")
CONFIGS: Mapping[str, RunConfig] = {
    "bilevel_gae": run_config(
        ppo=_PPO,
        num_groups=4,
        algorithm=BilevelGAE(critic=CriticConfig(learning_rate=1e-4, num_minibatches=2)),
    ),
    "grpo": run_config(ppo=replace(_PPO, num_epochs=2, kl_placement="loss"), num_groups=4, algorithm=GRPO()),
    "frozen": run_config(ppo=_PPO, num_groups=4, memory=replace(_MEMORY, freeze_vision_tower=True)),
    "lora": run_config(ppo=_PPO, num_groups=4, memory=_MEMORY, lora=LoRAConfig(rank=4)),
}

_kept_ports: list[socket.socket] = []


class Alone:
    """What one process comes to: with rows of many lengths, some without pictures, and one row over.

    Attributes:
        start: The weights it begins with.
        batch: The rows, which `case.pt` holds for processes to read.
    """

    def __init__(self, model_directory: Path, directory: Path) -> None:
        self.directory = directory
        (directory / "model").symlink_to(model_directory)
        self._model, encoder = load(model_directory)
        self._suppressed_ids = encoder.suppressed_ids()
        self._reached: dict[str, dict[str, Any]] = {}
        self.start: dict[str, torch.Tensor] = self._model.state_dict()
        self.batch = with_text_rows(played_batch(copy.deepcopy(self._model), encoder, num_rows=7), {0, 3, 4})
        torch.save(self.batch, directory / "case.pt")

    def __getitem__(self, name: str) -> dict[str, Any]:
        """Returns what a learner of `CONFIGS` comes to."""
        if name not in self._reached:
            before = torch.get_num_threads()
            torch.set_num_threads(1)
            engine = LocalEngine()
            self._reached[name] = trained(self._model, self._suppressed_ids, CONFIGS[name], self.batch, engine)
            torch.set_num_threads(before)
        return self._reached[name]


def run_processes(alone: Alone, num_processes: int, *names: str) -> None:
    """Runs learners by name in so many processes, forked from one that has imported everything."""
    command = [sys.executable, "-m", __name__, str(num_processes), str(alone.directory), *names]
    done = subprocess.run(command, cwd=CHECKOUT, env=_environment(num_processes), capture_output=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


def check_processes(alone: Alone, num_processes: int, *names: str) -> None:
    """Checks that so many processes come to what one comes to, in each of some learners, `ddp-grpo` for instance."""
    run_processes(alone, num_processes, *names)
    check_reached(alone, *names)


def check_reached(alone: Alone, *names: str) -> None:
    """Checks that what `run_processes` left is what one process comes to."""
    for name in names:
        got, want = torch.load(alone.directory / f"{name}.pt", weights_only=False), alone[name.partition("-")[2]]
        assert_same_steps(got["first_steps"], want["first_steps"])
        for part in ("policy", "acting", "critic", "reference"):
            assert got[part].keys() == want[part].keys()
            # AdamW's first steps turn the rounding of gradients near zero into changes as large as the learning rate
            near = [got[part][key].isclose(value, rtol=0, atol=1e-5).flatten() for key, value in want[part].items()]
            assert not near or torch.cat(near).float().mean() > SHARE_NEAR, (name, part)
        for key, value in want["outputs"].items():
            assert torch.allclose(got["outputs"][key], value, rtol=1e-3, atol=1e-3), (name, key)
        for first, second in zip(got["metrics"], want["metrics"], strict=True):
            assert first == pytest.approx(second, rel=1e-2, abs=1e-3), name


def with_text_rows(batch: Batch, rows: set[int]) -> Batch:
    """Returns a batch of which some rows show no picture: their placeholders are some other token."""
    ids_BT, counts, images = batch.input_ids_BT.clone(), [], []
    for row in range(batch.num_rows):
        start, end = batch.row_image_offsets[row : row + 2]
        if row in rows:
            ids_BT[row][ids_BT[row] == batch.image_token_id] = batch.image_token_id - 1
            start = end
        counts.append(end - start)
        images += batch.images[start:end]
    offsets = tuple(sum(counts[:row]) for row in range(batch.num_rows + 1))
    return replace(batch, input_ids_BT=ids_BT, images=tuple(images), row_image_offsets=offsets)


def trained(model: Any, suppressed_ids: list[int], config: RunConfig, batch: Batch, engine: Engine) -> dict[str, Any]:
    """Returns the whole weights, outputs and metrics of a learner after some updates over one batch."""
    torch.manual_seed(0)  # adapters begin with random numbers, in each process the same
    learner = Learner(copy.deepcopy(model), suppressed_ids, config, engine)
    metrics, kept = [], {}
    with recorded_steps() as steps:
        for iteration in range(NUM_UPDATES):
            outputs = learner.model_outputs(batch)
            credit = assigned_credit(config.algorithm, batch, outputs)
            metrics.append(learner.update(batch, outputs, credit, iteration=iteration))
            kept = {name: value for name, value in vars(outputs).items() if isinstance(value, torch.Tensor)}
    return {
        "first_steps": first_steps(steps),
        "policy": whole(learner.policy),
        "acting": whole(learner.acting_policy()),
        "critic": whole(learner.critic) if learner.critic is not None else {},
        "reference": whole(learner.reference) if learner.reference is not None else {},
        "outputs": kept,
        "metrics": metrics,
    }


def looked(model: Any, suppressed_ids: list[int], batch: Batch, engine: Engine) -> dict[str, Any]:
    """Returns how a learner in bfloat16 looks at rows before its first step.

    The types that parts of its models give out; how far policy and reference are apart, which are the same still; and
    how many weights of each are whole in this process afterwards.
    """
    ppo = replace(_PPO, old_logprobs="trainer")
    config = replace(CONFIGS["bilevel_gae"], dtype="bfloat16", ppo=ppo)
    learner = Learner(copy.deepcopy(model), suppressed_ids, config, engine)
    models = {"policy": learner.policy, "reference": learner.reference, "critic": learner.critic}
    types: dict[tuple[str, str], set[torch.dtype]] = {}
    for (who, whose), (part, suffix) in itertools.product(models.items(), PARTS.items()):
        given = types.setdefault((who, part), set())
        for name, module in whose.named_modules():
            if name.endswith(suffix):
                module.register_forward_hook(lambda _module, _inputs, output, given=given: given.add(output.dtype))
    ref_kl = learner.model_outputs(batch).ref_kl
    weights = {who: [*whose.parameters()] for who, whose in models.items()}
    num_whole = {who: sum(not hasattr(each, "full_tensor") for each in weights[who]) for who in models}
    return {"types": types, "kl": ref_kl, "num_whole": num_whole}


def whole(module: Any) -> dict[str, torch.Tensor]:
    """Returns a module's state, sharded or not."""
    state = module.state_dict()
    return {
        name: (value.full_tensor() if hasattr(value, "full_tensor") else value).clone() for name, value in state.items()
    }


def launched(num_processes: int, *arguments: str, module: str) -> list[subprocess.Popen[str]]:
    """Starts a program as several processes that find each other, as `accelerate launch` does."""
    shared = _environment(num_processes)
    return [
        subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=CHECKOUT,
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(num_processes)
    ]


def _environment(num_processes: int) -> dict[str, str]:
    """Returns the environment of processes that find each other, but for their ranks."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_own_port()), "WORLD_SIZE": str(num_processes)}
    shared |= {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "LOCAL_WORLD_SIZE": str(num_processes)}
    return {**os.environ, **shared}


def _own_port() -> int:
    """Returns a port that nobody else is given until this process ends, seconds after which a program listens at it.

    The socket stays open and does not listen: who asks for this very port, as torch's store does, shares it.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    _kept_ports.append(kept)
    return int(kept.getsockname()[1])


def main(directory: Path, *names: str) -> None:
    """Runs learners by name, `ddp-grpo`; those that only look at rows are called `LOOKED`."""
    from training.engines.accelerated_engine import AcceleratedEngine
    from training.engines.engine import LaunchedProcesses

    torch.set_num_threads(1)
    policy.KEPT_SHARE = 0.0  # alone logits are kept; here they are computed anew on the way back
    model, encoder = load(directory / "model")
    batch = torch.load(directory / "case.pt", weights_only=False)
    processes = LaunchedProcesses(on_cpu=True, timeout_min=1.0)
    for name in names:
        kind, _, algorithm = name.partition("-")
        dtype = torch.bfloat16 if algorithm == LOOKED else torch.float32
        engine = AcceleratedEngine(kind, processes, compute_dtype=dtype)  # type: ignore[arg-type]
        if algorithm == LOOKED:
            result = looked(model, encoder.suppressed_ids(), batch, engine)
        else:
            result = trained(model, encoder.suppressed_ids(), CONFIGS[algorithm], batch, engine)
        if engine.rank == 0:
            torch.save(result, directory / f"{name}.pt")


def fork_all(num_processes: int, run: Callable[[], None]) -> None:
    """Runs a function in so many forked processes, each with its rank; exits with 1 if one of them fails."""
    children = []
    for rank in range(num_processes):
        child = os.fork()
        if child == 0:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            status = 1
            try:
                run()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        children.append(child)
    sys.exit(int(any(os.waitpid(child, 0)[1] for child in children)))


if __name__ == "__main__":
    fork_all(int(sys.argv[1]), functools.partial(main, Path(sys.argv[2]), *sys.argv[3:]))
