"""Settings of an endpoint: sampling, providers by name, and limits of use."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from vlm_envs.errors import ConfigError
from vlm_envs.validation import field_name, require, require_above, require_at_least, require_choice

MAX_TOKENS = 16_384
"""Default limit of a response; reasoning models think for thousands of tokens before they answer."""


@dataclass(frozen=True)
class ProviderEntry:
    """How to reach a provider.

    Attributes:
        factory: `module:class` in `agents.api`, imported only when requested.
        summary: Short description.
        api_key_variable: Environment variable that holds the key.
        address_variable: Environment variable with which the provider's package is redirected to another address; empty
            for none.
        part: Placeholder for the text after its name and a colon.
    """

    factory: str
    summary: str
    api_key_variable: str
    address_variable: str = ""
    part: str = "MODEL"


COMPATIBLE = "compatible"
"""The provider for the user's own server."""

_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")

PROVIDERS: dict[str, ProviderEntry] = {
    "openai": ProviderEntry("openai_responses:OpenAIResponses", "OpenAI's responses", *_OPENAI),
    "openai-chat": ProviderEntry("openai_chat:OpenAIChat", "OpenAI's chat completions", *_OPENAI),
    "anthropic": ProviderEntry(
        "anthropic_messages:AnthropicMessages", "Anthropic's messages", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"
    ),
    "google": ProviderEntry(
        "google_gemini:GoogleGemini", "Google's Gemini", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"
    ),
    COMPATIBLE: ProviderEntry(
        "openai_chat:CompatibleChat", "any server that speaks chat completions", "OPENAI_API_KEY", part="NAME@URL"
    ),
}
"""All providers by name."""


LONGEST_WAIT_S = 60.0
"""Longest wait between two attempts, unless the endpoint requests a longer one."""

MAX_UNUSABLE = 6
"""Unusable replies, such as garbled ones, to one request until it counts as failed, if attempts are unlimited."""

_CLIENT_KEYS = frozenset(
    {
        *("model", "messages", "input", "contents", "prompt", "stream", "stream_options"),
        *("system", "instructions", "system_instruction", "systemInstruction"),
    }
)
"""Keys that `extra_body` cannot set."""

_QUERY = re.compile(r"api-version=[\w.-]+")


@dataclass(frozen=True, kw_only=True)
class EndpointConfig:
    """A model behind an endpoint, and the limits of its use.

    Attributes:
        model: Name of the model at the endpoint.
        provider: Interface of the endpoint: a key of `PROVIDERS`.
        base_url: Address of a compatible server, with its version: `http://127.0.0.1:8000/v1`. For other providers, an
            alternative address; empty for the default.
        api_key_variable: Name of the environment variable that holds the key; None for the provider's usual one, which
            is optional for a compatible server on this machine or its network; empty if the endpoint needs none. The
            key itself is never part of a configuration, so that no run can record it.
        temperature: At least 0; None for the provider's default, the only value that some reasoning models accept. A
            judge's `ask` may override it.
        top_p: Above 0 and at most 1; None for the provider's default.
        max_tokens: Longest reply, in tokens.
        reasoning: How much the model may think: an effort such as `"low"`, or a token budget such as `"2048"`,
            whichever the provider takes; empty for the provider's default.
        sampling_seed: Sampling seed, for providers that support one; None for none. A provider without one of
            the settings from here to `extra_body` refuses it.
        stop: Texts that end a reply.
        top_k: Sampling is limited to the k most likely tokens.
        detail: Image detail, such as `"low"` or `"high"`.
        max_completion_tokens: Whether a compatible server gets `max_tokens` under OpenAI's newer name.
        extra_body: JSON object that is merged into every request.
        headers: Additional HTTP headers, each `NAME=VARIABLE`: the environment variable that holds the value, which is
            never part of a configuration.
        stream: Whether replies are streamed, for servers that require it.
        timeout_s: Time limit of one complete reply, from the first byte sent to the last received.
        max_attempts: Requests for one reply until it counts as unavailable; at least 1. None for any number within
            `max_retry_s`; unusable replies are then retried up to `MAX_UNUSABLE` times in total.
        max_retry_s: How long to retry an endpoint that is overloaded, failing, or unreachable, from the first failure
            on; None for no limit except `max_attempts`.
        first_wait_s: Longest wait after the first failed attempt; doubles with every further one.
        max_wait_s: Longest `Retry-After` that is obeyed; a longer one fails the request immediately. Other waits are at
            most this and `LONGEST_WAIT_S`.
        requests_per_minute: Most requests that one client starts per minute; None for no limit.
        tokens_per_minute: Most tokens that one client sends and receives per minute; None for no limit.
        max_parallel: Most requests in flight.
        prices: A price table in addition to the shipped one; see `agents.api.prices`.
        cache_dir: Folder of readable replies; None for no cache.
    """

    model: str
    provider: str = COMPATIBLE
    base_url: str = ""
    api_key_variable: str | None = None
    temperature: float | None = 0.0
    top_p: float | None = None
    max_tokens: int = 512
    reasoning: str = ""
    sampling_seed: int | None = None
    stop: tuple[str, ...] = ()
    top_k: int | None = None
    detail: str = ""
    max_completion_tokens: bool = False
    extra_body: str = ""
    headers: tuple[str, ...] = ()
    stream: bool = False
    timeout_s: float = 60.0
    max_attempts: int | None = 5
    max_retry_s: float | None = None
    first_wait_s: float = 1.0
    max_wait_s: float = 60.0
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_parallel: int = 8
    prices: Path | None = None
    cache_dir: Path | None = None

    def __post_init__(self) -> None:
        """Refuses settings that could never work."""
        require(bool(self.model), f"{field_name(self, 'model')} must name the model; got {self.model!r}.")
        require_choice(field_name(self, "provider"), self.provider, PROVIDERS)
        if self.base_url or self.provider == COMPATIBLE:
            _require_address(field_name(self, "base_url"), self.base_url)
        variable = self.api_key_variable
        require(
            not variable or variable in os.environ or bool(re.fullmatch(r"[A-Z_][A-Z0-9_]*", variable)),
            f"{field_name(self, 'api_key_variable')} must name the environment variable that holds the key, such as "
            "MY_KEY; the value is not such a name, and is not repeated here because it may be the key itself.",
        )
        _ = self.header_variables
        self._require_extra_body()
        require(
            self.max_attempts is not None or self.max_retry_s is not None,
            f"Set {field_name(self, 'max_attempts')} or {field_name(self, 'max_retry_s')}: without either, retries "
            "would never end.",
        )
        require_at_least(self, 1, "max_tokens", "max_attempts", "max_parallel", "top_k")
        require_above(
            self, 0, "timeout_s", "max_retry_s", "max_wait_s", "requests_per_minute", "tokens_per_minute", "top_p"
        )
        require_at_least(self, 0, "temperature", "first_wait_s", "sampling_seed")

    def _require_extra_body(self) -> None:
        """Refuses an `extra_body` that is not a JSON object or that sets a field that the client sets itself."""
        name = field_name(self, "extra_body")
        extra = _object(name, self.extra_body)
        for key in extra:
            require(key not in _CLIENT_KEYS, f"{name} cannot set {key!r}: every request sets it. Leave it out.")
        settings = {
            **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "max_tokens"),
            **{key: key for key in ("temperature", "top_p")},
            **({"top_k": "top_k"} if self.top_k is not None else {}),
            **({"seed": "seed"} if self.sampling_seed is not None else {}),
            **(dict.fromkeys(("stop", "stop_sequences"), "stop") if self.stop else {}),
            **({"reasoning_effort": "reasoning"} if self.reasoning else {}),
        }
        for key in extra.keys() & settings.keys():
            raise ConfigError(f"{name} cannot set {key!r}: use the setting {field_name(self, settings[key])} instead.")

    @property
    def address(self) -> str:
        """Address of the endpoint: `base_url`, or that of the environment variable; empty for the provider's default.

        Raises:
            ConfigError: If the environment's address is not valid, or contains a password.
        """
        variable = PROVIDERS[self.provider].address_variable
        there = "" if self.base_url else os.environ.get(variable, "").strip()
        if there:
            _require_address(variable, there)
        return self.base_url or there

    @property
    def header_variables(self) -> dict[str, str]:
        """The environment variable of each additional header, by the header's name.

        Raises:
            ConfigError: If one is not `NAME=VARIABLE`. The value is not repeated, because it may be a secret.
        """
        variables = {}
        for header in self.headers:
            name, _, variable = header.partition("=")
            variable = variable.removeprefix("$")
            require(
                bool(re.fullmatch(r"[A-Za-z0-9-]+", name))
                and (variable in os.environ or bool(re.fullmatch(r"[A-Z_][A-Z0-9_]*", variable))),
                f"{field_name(self, 'headers')} takes NAME=VARIABLE, such as X-Api-Key=MY_KEY: the environment "
                "variable that holds the header's value. The given value is not repeated here because it may be the "
                "secret itself.",
            )
            variables[name] = variable
        return variables

    @property
    def needs_key(self) -> bool:
        """Whether a key is required: not for the user's own server, unless a key variable was named.

        A server with headers from the user may take its key from those.
        """
        is_own = self.provider == COMPATIBLE and (_is_local(self.base_url) or bool(self.headers))
        return bool(self.key_variable) and (not is_own or self.api_key_variable is not None)

    @property
    def key_variable(self) -> str:
        """Name of the environment variable that holds the key; empty for none."""
        return PROVIDERS[self.provider].api_key_variable if self.api_key_variable is None else self.api_key_variable

    @property
    def extra(self) -> Mapping[str, Any]:
        """The object in `extra_body`."""
        extra: Mapping[str, Any] = json.loads(self.extra_body) if self.extra_body else {}
        return extra


def _require_address(name: str, address: str) -> None:
    """Refuses an invalid address, and one that would put a password or a key into every record of a run."""
    address, _, query = address.partition("?")
    try:
        parts = urlsplit(address)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and address.isprintable()
        _ = parts.port  # raises if it is not valid
    except ValueError:
        is_one = False
    require(
        not any(sign in address for sign in "@#")
        and (not query or bool(_QUERY.fullmatch(query))),  # not repeated below
        f"{name} contains a name, a password, a query, or a fragment (@, ?, or #). Leave it out: a key belongs in an "
        "environment variable. Only ?api-version=VERSION may follow an address.",
    )
    require(
        is_one,
        f"{name} must be the endpoint's address with its version, such as http://127.0.0.1:8000/v1; got {address!r}.",
    )


def _object(name: str, text: str) -> dict[str, Any]:
    """Returns a JSON object, empty for an empty text; raises `ConfigError` if it is not one that can be sent."""
    try:
        value = json.loads(text or "{}")
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        value = None
    is_object = isinstance(value, dict)
    require(is_object, f'{name} must be a JSON object without NaN or Infinity, such as {{"top_k": 20}}; got {text!r}.')
    return cast("dict[str, Any]", value)


def _is_local(address: str) -> bool:
    """Returns whether an address is on this machine or its own network."""
    host = urlsplit(address).hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local"))
