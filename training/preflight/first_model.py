"""What a run starts from, found out before it begins."""

from __future__ import annotations

from pathlib import Path

from agents.hf.checkpoint import require_checkpoint, require_weights
from training.checkpoints.files import model_directory
from training.recipes.shipped import RECIPES, STAGED_RECIPES

_OUTPUT = "runs"
"""Where recipes that ship put their runs."""


def require_start(model: str, *, besides: str = "") -> None:
    """Refuses a start from what is no checkpoint; a recipe may name one that only its user has, or another one makes.

    Args:
        model: The directory.
        besides: What may be done in place of naming a checkpoint, begun with a semicolon.

    Raises:
        FileNotFoundError: If there is none. It names the recipe that makes it, where one does.
    """
    try:
        require_weights(require_checkpoint(model_directory(model)))
    except FileNotFoundError as error:
        maker = _maker_of(model)
        first = f"Run `{maker}` first, which makes it, or name" if maker else "Name"
        raise FileNotFoundError(f"{error} {first} yours with --model DIR{besides}.") from error


def _maker_of(model: str) -> str | None:
    """Returns the command whose run has a model, where that is a recipe that ships; None for any other."""
    parts = Path(model).parts
    is_of_a_recipe = len(parts) > 2 and parts[0] == _OUTPUT and parts[1] in RECIPES | STAGED_RECIPES
    return f"python -m training {parts[1]}" if is_of_a_recipe else None
