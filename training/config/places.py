"""Where a run or a data set goes: one folder within `--output` that can be written to, known before anything costly."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vlm_envs.errors import ConfigError
from vlm_envs.validation import field_name, require


def require_name(config: object) -> None:
    """Refuses a configuration whose `name` is anything but one folder within `output`.

    Raises:
        ConfigError: If the name is empty, leads out of that folder or has folders in it.
    """
    name = str(vars(config)["name"])
    require(
        Path(name).name == name and name not in ("", ".."),
        f"{field_name(config, 'name')} must be one part of a path, such as my_run: it is a folder within "
        f"{field_name(config, 'output')}; got {name!r}.",
    )


def numbered(name: str) -> Iterator[str]:
    """Yields a name, and then the same with a number behind it, from 2 on: the first that is free is taken."""
    yield name
    for number in itertools.count(2):
        yield f"{name}-{number}"


def require_writable(directory: Path, output: str) -> None:
    """Refuses a folder within `output` that cannot be made or written to. Nothing is left behind.

    Raises:
        ConfigError: If the nearest of its parents that exists, or itself if it does, is not a folder or takes no files.
    """
    problem = "it cannot be looked for"
    try:
        place = _nearest_existing(directory)
        problem = f"{place} takes no files"
        if place.is_dir():
            with tempfile.TemporaryDirectory(prefix=".", dir=place):  # rights alone do not tell: see /proc, for root
                return
        problem = f"{place} is not a folder"
    except OSError as error:
        problem += f" ({error.strerror})"
    raise ConfigError(
        f"--output {output}: {problem}, so {directory} cannot be made. Name a folder that can be written to."
    )


def _nearest_existing(directory: Path) -> Path:
    """Returns a path, or the nearest of its parents that is there; a link to nothing is there.

    Raises:
        OSError: If it cannot be told, as below a folder that may not be entered, or where a name is too long.
    """
    for place in (directory, *directory.parents):
        try:
            os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        return place
    return Path.cwd()
