"""The options of a model behind an endpoint, which are there only where somebody names one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields

import tyro

from agents.api.config import EndpointConfig
from vlm_envs.command_line import asks_for_help


def asks_for_endpoint(words: Sequence[str], prefix: str) -> bool:
    """Returns whether options of an endpoint, which begin with `prefix`, are given or asked for."""
    return asks_for_help(words) or any(word.startswith(prefix) for word in words)


def endpoint_to_fill() -> EndpointConfig:
    """Returns an endpoint for the parser of a command line to fill in; what has no default has to be given."""
    empty = object.__new__(EndpointConfig)
    for each in fields(EndpointConfig):
        object.__setattr__(empty, each.name, tyro.MISSING if each.default is MISSING else each.default)
    return empty
