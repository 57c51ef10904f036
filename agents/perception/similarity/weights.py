"""Where weights are looked for, and what is said when there are none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from vlm_envs.errors import EngineUnavailableError

DINO_VARIABLE, DREAMSIM_VARIABLE = "VLM_ENVS_DINO", "VLM_ENVS_DREAMSIM"
"""Environment variables that name the folders with weights."""


class WeightsUnavailableError(EngineUnavailableError):
    """A scorer's weights, or the package that reads them, are not on this machine."""


def folder_of(variable: str, scorer: str) -> Path:
    """Returns the folder an environment variable names.

    Args:
        variable: The environment variable.
        scorer: The scorer's name, for the message.

    Raises:
        WeightsUnavailableError: If the variable is not set.
    """
    folder = os.environ.get(variable)
    if not folder:
        raise WeightsUnavailableError(
            f"The scorer {scorer!r} needs weights on this machine; set {variable} to the folder they are in. "
            "Nothing is downloaded. Without weights, use scorer='structural'."
        )
    return Path(folder)


def require_files(scorer: str, folder: Path, names: Iterable[str], remedy: str) -> None:
    """Raises unless a folder has all the files a scorer needs.

    Args:
        scorer: The scorer's name, for the message.
        folder: Where they should be.
        names: Files or folders in it.
        remedy: Where to get them, one sentence.

    Raises:
        WeightsUnavailableError: If any is missing.
    """
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise WeightsUnavailableError(f"The scorer {scorer!r} finds no {', '.join(missing)} in {folder}. {remedy}")
