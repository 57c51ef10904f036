"""Checks that endpoints answer one short question, before anything depends on them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from agents.api.conversation import Message
from agents.api.endpoint_config import EndpointConfig
from agents.api.failures import EndpointError, PermanentError
from vlm_envs.errors import ConfigError, VLMEnvsError

if TYPE_CHECKING:
    from agents.api.client import ModelClient

QUESTION = "Reply with the word yes."
MAX_WAIT_S = 20.0
"""Longest wait for the answer; a failed request is repeated once."""

_MAX_TOKENS = 16
"""Smallest answer limit that every provider accepts."""

_BUSY = frozenset({429, 529})
"""Statuses of an endpoint that is reachable but busy."""

_MAY_PASS = frozenset({429, *range(500, 600)})
"""Statuses that may pass while a run retries."""


class UnreachableModelError(ConfigError):
    """A model does not answer."""


def require_reachable(endpoints: Mapping[str, EndpointConfig], remedy: str) -> None:
    """Raises `UnreachableModelError`, in one line, if a model does not answer: a wrong address, key, or model name.

    Args:
        endpoints: Endpoints by their names in the message. An endpoint that is only busy is not refused.
        remedy: A sentence with the alternative to the model.
    """
    if not endpoints:
        return
    faults = zip(endpoints, faults_of(list(endpoints.values()), busy=_MAY_PASS), strict=True)
    found = [f"{name} does not answer: {fault}" for name, fault in faults if fault]
    if found:
        raise UnreachableModelError(f"{' '.join(found)} {remedy}")


def faults_of(endpoints: Sequence[EndpointConfig], *, busy: Container[int] = _BUSY) -> list[str]:
    """Returns why each of several models does not answer now, with a suggestion; empty for one that does.

    They are queried in parallel, each once however often it is listed.

    Args:
        endpoints: The models.
        busy: HTTP statuses that are not faults.
    """
    if not endpoints:
        return []
    from agents.api.client import ModelClient  # imports tenacity, which the api extra installs

    faults: dict[EndpointConfig, str] = {}
    clients: dict[EndpointConfig, ModelClient] = {}
    for config in dict.fromkeys(map(_asking, endpoints)):
        try:
            clients[config] = ModelClient(config)
        except VLMEnvsError as error:
            faults[config] = str(error)
    try:
        if clients:
            first = next(iter(clients.values()))  # all are awaited on its loop
            faults |= zip(clients, first.map(partial(_fault, busy), clients.values()), strict=True)
    finally:
        for client in clients.values():
            client.close()
    return [faults[_asking(config)] for config in endpoints]


def _asking(config: EndpointConfig) -> EndpointConfig:
    """Returns a model's settings for the probe: the same, with a short answer and short waits."""
    return replace(
        config,
        max_tokens=_MAX_TOKENS,
        reasoning="",
        timeout_s=min(config.timeout_s, MAX_WAIT_S),
        max_attempts=2,
        max_retry_s=None,
        first_wait_s=min(config.first_wait_s, 1.0),
        max_wait_s=min(config.max_wait_s, 1.0),
        requests_per_minute=None,
        tokens_per_minute=None,
        max_parallel=1,
        cache_dir=None,
    )


async def _fault(busy: Container[int], client: ModelClient) -> str:
    """Returns why a model does not answer; empty if it does."""
    try:
        await client.complete([Message(role="user", parts=(QUESTION,))])
    except EndpointError as error:
        is_busy = error.status is not None and error.status in busy and not isinstance(error, PermanentError)
        return "" if is_busy else f"{str(error).rstrip('.')}. {_remedy(error, client.config)}"
    return ""


def _remedy(error: EndpointError, config: EndpointConfig) -> str:
    if error.status in (401, 403):
        variable = config.key_variable
        where = f"in the environment variable {variable}" if variable else "none, as configured"
        return f"Is its key, {where}, correct?"
    if error.status == 404:
        return f"Does it serve a model called {config.model!r}, and is the address the one with its version (/v1)?"
    if error.status is None:
        return "Is it running, and is this its address?"
    if error.status == 400:
        return "Does it accept its settings, such as the temperature?"
    return "See its log."
