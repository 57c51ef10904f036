"""What makes an agent of each provider, under the provider's name: the registry looks them up here."""

from __future__ import annotations

import functools
from collections.abc import Callable

from agents.api.agent import APIAgent
from agents.api.providers.registry import PROVIDERS


def __getattr__(name: str) -> Callable[..., APIAgent]:
    """Returns `APIAgent` with its provider filled in, which is no setting any more."""
    provider = name.replace("_", "-")
    if provider not in PROVIDERS:
        raise AttributeError(name)
    return functools.partial(APIAgent, provider)
