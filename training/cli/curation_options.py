"""From words on the command line to a curation's configuration, in a command of its own or in a stage."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from training.cli.endpoint_options import asks_for_endpoint, endpoint_to_fill
from training.cli.world_options import read_world_options
from training.config.curation.curate import CurateConfig
from vlm_envs.command_line import Program, parsed


def curation_options(words: Sequence[str], program: Program, default: CurateConfig | None = None) -> CurateConfig:
    """Returns the curation that a command line describes.

    Args:
        words: The options; those of worlds are too many to be known beforehand, and are read first.
        program: What they belong to.
        default: Gives what is not said.

    Raises:
        ConfigError: If an option is not known, lacks its value or cannot be.
    """
    start = CurateConfig() if default is None else default
    worlds, rest = read_world_options(words, start.worlds)
    changes: dict[str, Any] = {"worlds": worlds}
    if start.endpoint is None and asks_for_endpoint(rest, "--endpoint."):
        changes["endpoint"] = endpoint_to_fill()
    return parsed(CurateConfig, rest, program, default=_unchecked(start, changes))


def _unchecked(config: CurateConfig, changes: dict[str, Any]) -> CurateConfig:
    """Returns a configuration with changes that only what else is said may make possible."""
    changed = copy.copy(config)
    for name, value in changes.items():
        object.__setattr__(changed, name, value)
    return changed
