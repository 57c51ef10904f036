"""Stores checkpoints at half their size, like the shipped ones: `python -m training.checkpoints.half FROM TO`.

Weights are rounded to float16 on disk. `config.json` still names the original data type, to which loading converts
them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from training.checkpoints.checkpoint_files import replacing

_WEIGHTS = "model.safetensors"


def store_in_half(source: Path, directory: Path) -> None:
    """Copies a checkpoint with a single weights file, rounded to float16, and replaces the target.

    Raises:
        FileNotFoundError: If the checkpoint does not exist.
        ValueError: If a weight is too large for float16, or is not finite.
    """
    if not (source / _WEIGHTS).is_file():
        raise FileNotFoundError(f"There is no {_WEIGHTS} in {source}: name a checkpoint with a single weights file.")
    weights = load_file(source / _WEIGHTS)
    rounded = {name: weight.half() if weight.is_floating_point() else weight for name, weight in weights.items()}
    if wrong := [name for name, weight in rounded.items() if not bool(torch.isfinite(weight).all())]:
        raise ValueError(f"float16 cannot hold {wrong[0]} of {source}; keep that checkpoint as it is.")
    with replacing(directory) as temporary:
        shutil.copytree(source, temporary, dirs_exist_ok=True)
        save_file(rounded, temporary / _WEIGHTS, metadata={"format": "pt"})


def main(words: list[str]) -> int:
    """Converts the checkpoint named on the command line; returns 2 after printing an error."""
    if len(words) != 2:
        print(f"error: expected two directories, FROM TO; got {' '.join(words) or 'none'}", file=sys.stderr)
        return 2
    try:
        store_in_half(*map(Path, words))
    except (FileNotFoundError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
