"""The policy of a run that solved most validation levels, kept beside its latest checkpoint.

Like a checkpoint it is there as a whole or not at all, and what it is says a file beside its weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from agents.hf.chat import ChatEncoder
from agents.hf.checkpoint import PROVENANCE
from agents.hf.hf_agent import load_checkpoint
from training.checkpoints.files import has_model
from training.checkpoints.state import save_model

BEST = Path("best") / "model"
"""Where it is within a run's folder."""


@dataclass(frozen=True, kw_only=True)
class BestPolicy:
    """Which policy it is.

    Attributes:
        iteration: Iterations it was trained for.
        validation_success: Fraction of validation levels it solved, the mean over worlds.
        num_val_episodes: On how many levels of each.
    """

    iteration: int
    validation_success: float
    num_val_episodes: int

    @property
    def title(self) -> str:
        """What it is, in words."""
        return f"best on validation levels, of iteration {self.iteration} ({self.validation_success:.3f})"

    def yields_to(self, other: BestPolicy) -> bool:
        """Returns whether another takes its place: one that solved more, or that was measured on other levels."""
        return self.num_val_episodes != other.num_val_episodes or other.validation_success > self.validation_success


def best_policy(directory: Path) -> BestPolicy | None:
    """Returns which policy of a run is kept as its best; None if there is none, or what is there says nothing."""
    if not has_model(directory / BEST):
        return None
    try:
        known = json.loads((directory / BEST / PROVENANCE).read_text(encoding="utf-8"))
        return BestPolicy(**{name: known[name] for name in BestPolicy.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_best(directory: Path, *, dtype: torch.dtype) -> Any:
    """Returns a run's best policy, in the host's memory; what is drawn behind it is as if nothing had been loaded."""
    with torch.random.fork_rng(devices=[]):
        model, _ = load_checkpoint(directory / BEST, dtype=dtype)
    return model


def save_best(
    directory: Path, best: BestPolicy, model: Any, encoder: ChatEncoder, learnt_with: Mapping[str, Any]
) -> None:
    """Writes a policy in place of the one that was a run's best, all or nothing.

    Args:
        directory: The run's.
        best: Which policy it is.
        model: Its model.
        encoder: Its chat format.
        learnt_with: What it has learnt with, which is written beside it, too.
    """
    save_model(directory / BEST, model, encoder, provenance={**learnt_with, **asdict(best)})
