"""`python -m benchmarks gpu`: what the paper's run takes of this machine's GPU, beside its plan."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from vlm_envs.errors import ConfigError
from vlm_envs.validation import require, require_choice

WORLDS = ("VLM/Sokoban-v0",)


@dataclass(frozen=True, kw_only=True)
class GpuOptions:
    """Train a model of random weights as large as the paper's on this machine's GPU, beside its plan.

    A Qwen2.5-VL-3B of random weights is written down, and iterations of `vagen_full` are run with it, of LoRA and of
    all weights: what is learnt is nothing, what it takes is what a real one takes. Responses are as long as can be.

    Attributes:
        only: These cases and no others; a wrong name lists all.
        num_iterations: Of each; the first warms up and is in no median, where there are more. `full` writes 46 GB
            before the first and 95 GB after each but the last, beside what it wrote before.
        output: Where checkpoint and runs go; a checkpoint that is there is used.
        json: File for the numbers; None for gpu.json of `output`.
    """

    only: tuple[str, ...] = ()
    num_iterations: int = 2
    output: Path = Path("runs/gpu")
    json: Path | None = None


def run_gpu(options: GpuOptions) -> None:
    """Runs the cases one after the other, and prints and writes what each took as soon as it is there.

    Raises:
        ConfigError: If there is no such case, no GPU, or a case was run there before.
    """
    import torch

    from benchmarks.gpu.checkpoint import save_random_qwen2_5_vl
    from benchmarks.gpu.runs import CASES, measured, table
    from benchmarks.gpu.shapes import QWEN2_5_VL_3B

    names = list(dict.fromkeys(require_choice("--only", name, CASES) for name in options.only)) or list(CASES)
    if not torch.cuda.is_available():
        raise ConfigError(f"torch {torch.__version__} sees no CUDA GPU here: there is nothing to measure.")
    for name in names:
        there = options.output / name
        require(not there.exists(), f"{there} is there already: remove it, or choose another --output.")
    model, results = options.output.absolute() / "qwen2_5_vl_3b", []
    if not (model / "tokenizer.json").is_file():
        save_random_qwen2_5_vl(model, QWEN2_5_VL_3B, WORLDS)
    for name in names:
        results.append(measured(name, model, options.output.absolute(), num_iterations=options.num_iterations))
        path = options.json or options.output / "gpu.json"
        path.write_text(json.dumps([asdict(each) for each in results], indent=1) + "\n")
        print(*table(results), sep="\n", flush=True)
