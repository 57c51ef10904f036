"""Endpoints are asked one short question before anything depends on them."""

from __future__ import annotations

from collections.abc import Mapping

from agents.api.config import EndpointConfig
from vlm_envs.errors import ConfigError


class UnreachableModelError(ConfigError):
    """A model does not answer."""


_BUSY = frozenset({429, *range(500, 600)})
"""Statuses that may pass while a run retries."""


def require_reachable(endpoints: Mapping[str, EndpointConfig], remedy: str) -> None:
    """Raises `UnreachableModelError`, in one line, if a model does not answer: a wrong address, key, or model name.

    Args:
        endpoints: By what the message shall call them. An endpoint that is only busy is not refused.
        remedy: Sentence on what to do without the model.
    """
    if not endpoints:
        return
    from agents.api.probe import faults_of  # imports the providers' packages, which takes a second

    faults = zip(endpoints, faults_of(list(endpoints.values()), busy=_BUSY), strict=True)
    found = [f"{name} does not answer: {fault}" for name, fault in faults if fault]
    if found:
        raise UnreachableModelError(f"{' '.join(found)} {remedy}")
