"""Compares planned memory with the memory that updates use on this machine, each measured in a subprocess."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from agents.hf.family import ProcessedImage
from agents.hf.sampling_config import SamplingConfig
from agents.hf.tiny_vlm import TinyConfig
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.batch import OBSERVED, Batch
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.update_config import MemoryConfig, PPOConfig
from training.config.world_spec import WorldSpec
from training.memory_plan.memory_estimate import Planner
from training.memory_plan.model_bytes import ModelBytes, model_without_memory
from training.memory_plan.plan_config import PlanConfig
from training.memory_plan.plan_rows import RowShape, Segment
from training.update.learner import Learner
from training.update.update_losses import assigned_credit
from vlm_envs.validation import require_choice

IMAGE, START, END = 5, 3, 4
"""Token ids of the image placeholder and of the image's start and end."""


@dataclass(frozen=True, kw_only=True)
class MemoryCase:
    """One update of a Qwen3-VL with random weights, a critic, and a reference.

    Attributes:
        width: Hidden size.
        num_layers: Decoder layers.
        num_heads: Attention heads, with half as many key-value heads.
        vocab_size: Size of the vocabulary.
        vision_width: Hidden size of the vision tower.
        num_vision_layers: Layers of the vision tower.
        num_rows: Rows of the update, in two optimizer steps.
        micro_batch_rows: Rows of a micro-batch.
        num_turns: Turns of each row.
        num_turn_tokens: Tokens of a turn, including 16 of an image and the response.
        num_response_tokens: Tokens of a response.
        dtype: Data type of the weights.
        gradient_checkpointing: Whether layers keep only their inputs.
    """

    width: int
    num_layers: int
    num_heads: int
    vocab_size: int = 1024
    vision_width: int = 64
    num_vision_layers: int = 2
    num_rows: int = 8
    micro_batch_rows: int = 2
    num_turns: int = 4
    num_turn_tokens: int = 120
    num_response_tokens: int = 64
    dtype: Literal["float32", "bfloat16"] = "float32"
    gradient_checkpointing: bool = False

    def model_config(self) -> Qwen3VLConfig:
        """Returns the model's configuration."""
        config = TinyConfig(
            width=self.width,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads // 2,
            mlp_width=3 * self.width,
            vision_width=self.vision_width,
            num_vision_layers=self.num_vision_layers,
        )
        ids = {"image_token_id": IMAGE, "video_token_id": 6, "vision_start_token_id": START, "vision_end_token_id": END}
        return config.model_config(self.vocab_size, {}, **ids)

    def run_config(self) -> RunConfig:
        """Returns the run's configuration."""
        return RunConfig(
            name="memory",
            worlds=(WorldSpec(env_id="VLM/FrozenLake-v0"),),
            num_groups=self.num_rows // 2,
            group_size=2,
            sampling=SamplingConfig(max_new_tokens=self.num_response_tokens),
            judge=JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0),
            algorithm=BilevelGAE(critic=CriticConfig(num_minibatches=2)),
            ppo=PPOConfig(num_minibatches=2, micro_batch_size=self.micro_batch_rows, warmup_iterations=0),
            memory=MemoryConfig(gradient_checkpointing=self.gradient_checkpointing),
            dtype=self.dtype,
        )

    def image(self) -> ProcessedImage:
        """Returns a black image of 112 x 112 pixels: 64 patches in 16 tokens."""
        inputs = {"pixel_values": np.zeros((64, 3 * 14**2), np.float32), "image_grid_thw": np.array([[1, 8, 8]])}
        return ProcessedImage(inputs=inputs, num_tokens=16, key=b"")

    def row(self) -> RowShape:
        """Returns the shape of the rows, as in a plan."""
        num_shown = self.num_turn_tokens - self.num_response_tokens
        shown = Segment(num_tokens=num_shown, num_image_tokens=16, num_images=1)
        return RowShape(
            num_turns=self.num_turns,
            num_tokens=self.num_turns * self.num_turn_tokens,
            num_response_tokens=self.num_response_tokens,
            first=shown,
            later=shown,
            told="as the case says",
        )

    def batch(self) -> Batch:
        """Returns rows of random tokens with equal lengths."""
        image, generator = self.image(), torch.Generator().manual_seed(0)
        num_rows, num_turns, width = self.num_rows, self.num_turns, self.num_turn_tokens
        ids = torch.randint(8, self.vocab_size, (num_rows, num_turns, width), generator=generator)
        ids[:, :, 0], ids[:, :, 1 : 1 + image.num_tokens], ids[:, :, 1 + image.num_tokens] = START, IMAGE, END
        turn_index = torch.full_like(ids, OBSERVED)
        turn_index[:, :, -self.num_response_tokens :] = torch.arange(num_turns)[None, :, None]
        ids, turn_index = ids.flatten(1), turn_index.flatten(1)
        nothing, everything = torch.zeros(num_rows, dtype=torch.bool), torch.ones(num_rows, num_turns).bool()
        given: dict[str, Any] = {
            "turn_rewards_BK": torch.randn(num_rows, num_turns, generator=generator),
            "state_index_BK": torch.arange(num_rows * num_turns).reshape(num_rows, num_turns),
        }
        return Batch(
            input_ids_BT=ids,
            attention_mask_BT=torch.ones_like(ids),
            turn_index_BT=turn_index,
            sampler_logprobs_BT=torch.where(turn_index >= 0, -float(np.log(self.vocab_size)), 0.0),
            trainable_BK=everything,
            terminated_B=~nothing,
            has_final_B=nothing,
            group_index_B=torch.arange(num_rows) // 2,
            trainable_B=~nothing,
            images=tuple(replace(image, key=str(number).encode()) for number in range(num_rows * num_turns)),
            row_image_offsets=tuple(num_turns * row for row in range(num_rows + 1)),
            image_token_id=IMAGE,
            suppressed_ids=(START, END, IMAGE),
            max_response_tokens=self.num_response_tokens,
            **given,
        )


_20M = MemoryCase(
    width=128,
    num_layers=6,
    num_heads=4,
    vocab_size=151_936,
    num_rows=2,
    micro_batch_rows=1,
    num_turns=2,
    num_response_tokens=32,
)
_150M = MemoryCase(width=768, num_layers=18, num_heads=12, vocab_size=8192, vision_width=256, num_vision_layers=4)

CASES: dict[str, MemoryCase] = {
    "1M": MemoryCase(width=128, num_layers=4, num_heads=4),
    "20M": _20M,
    "20M-bfloat16": replace(_20M, dtype="bfloat16"),
    "150M": _150M,
    "150M-checkpointed": replace(_150M, gradient_checkpointing=True),
}
"""Models with about as many parameters as their names indicate; the 20M ones have the vocabulary of a large model."""


MAX_ERROR = 0.15

_ALLOCATOR = {  # maps each large tensor separately and returns it when freed, so that resident memory is memory in use
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_TOP_PAD_": "0",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True, kw_only=True)
class MemoryResult:
    """A planned and a measured amount of memory.

    Attributes:
        case: Name of the case.
        num_parameters: Parameters of its policy.
        phase: The phase with the highest planned memory.
        planned: Planned bytes in that phase.
        measured: Measured peak bytes of the updates.
    """

    case: str
    num_parameters: int
    phase: str
    planned: float
    measured: float

    @property
    def error(self) -> float:
        """The plan's relative error; negative if it is too low."""
        return self.planned / self.measured - 1


def checked_cases(names: Sequence[str]) -> list[str]:
    """Validates case names; returns all cases if there are none.

    Raises:
        ConfigError: If there is no such case.
    """
    return [require_choice("--only", name, CASES) for name in names] or list(CASES)


def compared(name: str) -> MemoryResult:
    """Returns a case's planned memory and its measurement in a subprocess.

    Raises:
        subprocess.CalledProcessError: If the subprocess fails.
    """
    phase, planned, num_parameters = planned_bytes(CASES[name])
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed.memory", name],
        env=os.environ | _ALLOCATOR,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    measured = float(json.loads(ran.stdout.splitlines()[-1])["bytes"])
    return MemoryResult(case=name, num_parameters=num_parameters, phase=phase, planned=planned, measured=measured)


def planned_bytes(case: MemoryCase) -> tuple[str, float, int]:
    """Returns the phase with the highest planned memory, its bytes, and the policy's number of parameters."""
    config = case.run_config()
    with tempfile.TemporaryDirectory() as directory:
        case.model_config().save_pretrained(directory)
        model = model_without_memory(Path(directory), getattr(torch, config.dtype))
    models = ModelBytes(model, config, case.row())
    planner = Planner(config, PlanConfig(reserved=0), models, is_fused=False)
    phases = planner.update_phases(case.micro_batch_rows)
    totals = {name: sum(parts.values()) for name, parts in phases.items()}
    most = max(totals, key=lambda name: totals[name])
    return most, totals[most], models.policy.num_parameters


def table(results: list[MemoryResult]) -> list[str]:
    """Returns results as lines of a table."""
    mib = 2**20
    return [
        f"{'case':18} {'parameters':>12} {'planned MiB':>12} {'measured MiB':>13} {'error':>7}  most in",
        *(
            f"{result.case:18} {result.num_parameters:12,} {result.planned / mib:12,.1f} "
            f"{result.measured / mib:13,.1f} {result.error:+7.1%}  {result.phase}"
            for result in results
        ),
    ]


WARM_UP = MemoryCase(width=64, num_layers=2, num_heads=2, num_rows=4, num_turns=2)
NUM_UPDATES = 2
"""The first update creates the optimizer states; in the second they exist throughout."""

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def measured_bytes(case: MemoryCase) -> int:
    """Returns the peak resident memory of a case's updates above the level before, in bytes. Linux only."""
    _update(WARM_UP, case.dtype)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = _resident_bytes("VmRSS")
    _CLEAR.write_text("5")  # resets the peak
    _update(case, case.dtype)
    return _resident_bytes("VmHWM") - before


def _update(case: MemoryCase, dtype: str) -> None:
    """Creates a model with its learner and runs the updates."""
    config = case.run_config()
    with torch.device("cpu"):
        model = Qwen3VLForConditionalGeneration._from_config(case.model_config(), dtype=getattr(torch, dtype))
    batch = case.batch()
    learner = Learner(model.eval(), list(batch.suppressed_ids), config)
    for iteration in range(NUM_UPDATES):
        outputs = learner.model_outputs(batch)
        credit = assigned_credit(config.algorithm, batch, outputs)
        learner.update(batch, outputs, credit, iteration=iteration)


def _resident_bytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    torch.manual_seed(0)
    print(json.dumps({"bytes": measured_bytes(CASES[sys.argv[1]])}))
