"""An agent that calls a model API: one request per turn, with the past turns selected by its history policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

from agents.agent import Response
from agents.api.client import ModelClient
from agents.api.conversation import Completion, Message, TokenCounts, observation_message, reply_message
from agents.api.endpoint_config import COMPATIBLE, MAX_TOKENS, EndpointConfig
from agents.api.failures import EndpointError, LimitError, fits_without_response
from agents.api.history import Exchange, history_named
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Observation
from vlm_envs.validation import require, require_flag, require_positive
from vlm_envs.vector.vector_world import VectorWorld

DEFAULTS: dict[str, Any] = {
    "temperature": None,
    "max_tokens": MAX_TOKENS,
    "timeout_s": 600.0,
    "max_attempts": None,
    "max_retry_s": 600.0,
    "max_wait_s": 300.0,
}
"""Defaults of an agent's settings; the others have those of `EndpointConfig`."""

_NOT_OF_AGENTS = {"model", "provider", "base_url", "sampling_seed", "first_wait_s", "cache_dir"}
SETTINGS = ("seed", *(field.name for field in fields(EndpointConfig) if field.name not in _NOT_OF_AGENTS))

MAX_STRING_CHARS = 2_000
"""Longer strings of a reply are cut; longer texts of a request are kept, because the model saw them."""

MAX_RECORD_CHARS = 32_000
"""Longest record of a reply, as JSON."""

_SHORTEST_REPEATED_CHARS = 80
"""Shorter strings are not replaced if they repeat the turn's text."""


@dataclass
class _Episode:
    """The messages of an episode so far; the world's `system` message comes first."""

    system: str = ""
    past: list[Exchange] = field(default_factory=list)
    summary: str = ""


class _Reply(NamedTuple):
    """A reply, and the provider's message if a limit of the model ended it."""

    completion: Completion
    limit: str = ""


class APIAgent:
    """A model behind an API, which answers each episode separately.

    Args:
        provider: Key of `PROVIDERS`.
        model: Its name at the provider; `NAME@URL` for your own server.
        history: How much of an episode is sent again each turn: `"full"`, `"last_images:N"`, `"last_turns:N"`,
            `"summary"`. See `agents.api.history`.
        system_prompt: Sent first, before a world's own system message; empty for none.
        temperature: At least 0; None for the provider's default, the only value that some reasoning models accept.
        top_p: Above 0 and at most 1; None for the provider's default.
        max_tokens: Longest response; includes reasoning if the provider counts it.
        reasoning: An effort such as `"low"` or a token budget such as `"2048"`, whichever the provider takes; empty for
            its default.
        seed: Sampling seed, for providers that support one. A provider without one of the settings from here
            to `stream` refuses it before anything is sent.
        stop: A text, or several, that ends a response.
        top_k: Sampling is limited to the k most likely tokens.
        detail: Image detail, such as `"low"` or `"high"`.
        max_completion_tokens: Whether a compatible server gets `max_tokens` under OpenAI's newer name.
        extra_body: Object that is merged into every request, as a dictionary or JSON.
        headers: Additional HTTP headers with the environment variables that hold their values: `"NAME=VARIABLE"`,
            several of these, or a dictionary. Values are never recorded.
        stream: Whether replies are streamed, for servers that require it.
        api_key_variable: Environment variable that holds the key; None for the provider's usual one, empty for no key.
        max_parallel: Most requests in flight.
        requests_per_minute: None for no limit.
        tokens_per_minute: Tokens sent and received; None for no limit.
        timeout_s: Time limit of one complete reply, in seconds.
        max_attempts: Requests for one response until it counts as failed; None for as many as `max_retry_s` allows.
        max_retry_s: How long to retry a provider that is overloaded, failing, or unreachable, in seconds.
        max_wait_s: Longest `Retry-After` that is obeyed, in seconds; a longer one fails the request immediately.
        prices: A price table in addition to the shipped one. See `agents.api.prices`.

    Attributes:
        address: URL that requests are sent to; empty for the provider's default.

    Raises:
        ConfigError: If a setting is not valid, or the key is not set.
        EngineUnavailableError: If the provider's package is not installed.
    """

    policy_version = -1
    other_settings: ClassVar[tuple[str, ...]] = SETTINGS

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        history: str = "full",
        system_prompt: str = "",
        **settings: Any,
    ) -> None:
        name, base_url = _parted(model) if provider == COMPATIBLE else (model, "")
        self.provider, self.history_name, self.system_prompt = provider, history, system_prompt
        self._history = history_named(history)
        self.config = EndpointConfig(provider=provider, model=name, base_url=base_url, **_endpoint_settings(settings))
        self._address = self.config.address  # stored now, because the environment may change
        self.client = ModelClient(self.config)
        self.num_parallel = self.config.max_parallel
        self._episodes: dict[int, _Episode] = {}

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that determine its responses. A server may move, so its address is not one of them.

        Settings that earlier versions lacked are included only if they are set.
        """
        config = self.config
        later = {
            "seed": config.sampling_seed,
            **{name: getattr(config, name) for name in ("top_k", "detail", "max_completion_tokens")},
            "stop": list(config.stop),
            "extra_body": json.loads(config.extra_body) if config.extra_body else None,
            "headers": sorted(config.header_variables),
        }
        return {
            "provider": self.provider,
            "model": config.model,
            "history": self.history_name,
            "system_prompt": self.system_prompt,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "max_tokens": config.max_tokens,
            "reasoning": config.reasoning,
            **{name: value for name, value in later.items() if value not in (None, "", [], False)},
        }

    @property
    def address(self) -> str:
        """URL that requests are sent to; empty for the provider's default."""
        return self._address

    def start(self, worlds: VectorWorld) -> None:
        """Forgets earlier episodes."""
        self._episodes.clear()

    def begin(self, row: int) -> None:
        """Forgets the earlier episode of a row."""
        self._episodes[row] = _Episode()

    def close(self) -> None:
        """Cancels running requests and closes the connections."""
        self.client.close()

    async def respond(self, row: int, observation: Observation) -> Response:
        """Returns the response to a row's observation; on failure, a response with `stop_reason` "error"."""
        episode = self._episodes.setdefault(row, _Episode())
        shown = observation_message(observation)
        episode.system = observation.get("system") or episode.system
        replies: list[_Reply] = []
        summary = ""
        request: Mapping[str, Any] = {}
        try:
            if episode.past and (question := self._history.asks_to_sum_up(episode.past, episode.summary)):
                replies.append(await self._complete(episode, question))
                episode.summary = summary = replies[-1].completion.text
            if not replies or replies[-1].completion.stop_reason != "context":
                messages = self._history.messages(episode.past, shown, episode.summary)
                if not episode.past:
                    request = self._recorded_request(episode, messages)
                replies.append(await self._complete(episode, messages))
        except EndpointError as error:
            usage = self._usage([*(reply.completion for reply in replies), Completion(text="", tokens=error.tokens)])
            return Response(
                text="", stop_reason="error", error=str(error), usage=usage, summary=summary, request=request
            )
        answer = replies[-1].completion
        episode.past.append(Exchange(shown=shown, said=reply_message(answer.text)))
        return Response(
            text=answer.text,
            stop_reason=answer.stop_reason,
            thoughts=answer.thoughts,
            usage=self._usage([reply.completion for reply in replies]),
            model=answer.model,
            stop_detail=replies[-1].limit,
            summary=summary,
            request=request,
            raw=recorded_reply(answer.raw, answer.text, answer.thoughts, self.client.hidden) if answer.raw else {},
        )

    async def _complete(self, episode: _Episode, messages: tuple[Message, ...]) -> _Reply:
        """Returns the model's reply with counted or estimated tokens; without text if a limit of the model ended it.

        Raises:
            EndpointError: If the request fails, or `max_tokens` leaves no room for the first one.
        """
        messages = self._with_system(episode, messages)
        try:
            reply = await self.client.complete(messages)
        except LimitError as error:
            if not episode.past and fits_without_response(error.said, self.config.max_tokens):
                raise
            tokens = error.tokens or TokenCounts()
            return _Reply(Completion(text="", stop_reason=error.limit, tokens=tokens), limit=str(error))
        if reply.tokens is None:
            reply = replace(reply, tokens=self.client.estimated(messages, reply))
        return _Reply(reply)

    def _recorded_request(self, episode: _Episode, messages: tuple[Message, ...]) -> Mapping[str, Any]:
        messages = self._with_system(episode, messages)
        return recorded_request(self.client.request(messages), messages, self.client.hidden)

    def _with_system(self, episode: _Episode, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        said = "\n\n".join(filter(None, (self.system_prompt, episode.system)))
        system = (Message(role="system", parts=(said,)),) if said else ()
        return (*system, *messages)

    def _usage(self, replies: Sequence[Completion]) -> dict[str, float]:
        """Returns the resources used by a turn.

        Returns:
            `seconds` from request to reply, of the successful attempt and of its summary; tokens by kind; `uncounted`,
            the number of replies with estimated tokens, if any; and `usd` if the price is known.
        """
        total = sum((reply.tokens for reply in replies if reply.tokens is not None), TokenCounts())
        counts = asdict(total)
        uncounted = counts.pop("uncounted")
        usage: dict[str, float] = {"seconds": sum(reply.seconds for reply in replies)}
        usage |= {f"{name}_tokens": number for name, number in counts.items()}
        if uncounted:
            usage["uncounted"] = uncounted
        if self.client.price is not None:
            usage["usd"] = self.client.price.usd(total)
        return usage


def _endpoint_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an agent's settings as those of `EndpointConfig`."""
    given = {**DEFAULTS, **settings}
    for name in given.keys() & {"max_completion_tokens", "stream"}:
        require_flag(name, given[name])
    for name, minimum in {"seed": 0, "top_k": 1}.items():
        if given.get(name) is not None:
            require_positive(name, given[name], minimum=minimum)
    readers: dict[str, Callable[[Any], Any]] = {
        "reasoning": str,
        "stop": _texts,
        "extra_body": _json,
        "headers": _header_settings,
        "prices": lambda path: None if path is None else Path(path),
    }
    return {
        "sampling_seed" if name == "seed" else name: readers[name](value) if name in readers else value
        for name, value in given.items()
    }


def _texts(stop: str | Sequence[str]) -> tuple[str, ...]:
    texts = (stop,) if isinstance(stop, str) else tuple(stop) if isinstance(stop, list | tuple) else (None,)
    require(
        all(isinstance(text, str) and text for text in texts),
        f"stop must be a text or a list of texts, such as stop=END or stop=['END','STOP']; got {stop!r}.",
    )
    return cast("tuple[str, ...]", texts)


def _json(value: str | Mapping[str, Any]) -> str:
    """Returns an object as JSON, equal for equal objects."""
    try:
        parsed = json.loads(value) if isinstance(value, str) and value else value
        return json.dumps(parsed, sort_keys=True, allow_nan=False) if parsed else ""
    except (TypeError, ValueError, RecursionError):
        return str(value)  # refused later, with the rest of the configuration


def _header_settings(headers: str | Sequence[str] | Mapping[str, str]) -> tuple[str, ...]:
    if isinstance(headers, Mapping):
        return tuple(f"{name}={variable}" for name, variable in headers.items())
    return (headers,) if isinstance(headers, str) else tuple(map(str, headers))


def _parted(model: str) -> tuple[str, str]:
    """Splits NAME@URL; names may contain an at sign.

    Raises:
        ConfigError: If there is no URL.
    """
    name, at, url = model.partition("@http")
    name, base_url = (name, f"http{url}") if at else model.partition("@")[::2]
    if not base_url:
        raise ConfigError(
            f"A compatible server needs NAME@URL, such as compatible:qwen@http://127.0.0.1:8000/v1; got {model!r}."
        )
    return name, base_url


def recorded_request(
    request: Mapping[str, Any], messages: Sequence[Message], hidden: Callable[[str], str]
) -> Mapping[str, Any]:
    """Returns a request with each image as `image SHA256`, the name of its PNG file in a board.

    Args:
        request: In the format of the provider's package.
        messages: The messages it was made from.
        hidden: Removes secrets from a text.
    """
    names = {}
    for image in (image for message in messages for image in message.pictures):
        names[image.base64] = names[image.data_uri] = f"image {image.sha256}"
    recorded: Mapping[str, Any] = _walked(request, lambda text: names.get(text) or hidden(text), hidden)
    return recorded


def recorded_reply(
    body: Mapping[str, Any], text: str, thoughts: str, hidden: Callable[[str], str]
) -> Mapping[str, Any]:
    """Returns a reply, with `[response]` and `[thoughts]` in place of texts that the turn records anyway.

    Args:
        body: The reply as received.
        text: The response.
        thoughts: Its thoughts.
        hidden: Removes secrets from a text.
    """

    def shortened(value: str) -> str:
        value = hidden(value)
        if len(value) >= _SHORTEST_REPEATED_CHARS and value in (text, thoughts):
            return "[response]" if value == text else "[thoughts]"
        if len(value) > MAX_STRING_CHARS:
            return f"{value[:MAX_STRING_CHARS]}… ({len(value)} characters)"
        return value

    recorded: Mapping[str, Any] = _walked(body, shortened, hidden)
    written = json.dumps(recorded, ensure_ascii=False, default=str)
    if len(written) > MAX_RECORD_CHARS:
        return {"shortened": written[:MAX_RECORD_CHARS]}
    return recorded


def _walked(value: Any, change: Callable[[str], str], change_name: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        parts = {name: part for name, part in value.items() if part is not None}
        return {change_name(str(name)): _walked(part, change, change_name) for name, part in parts.items()}
    if isinstance(value, list | tuple):
        return [_walked(part, change, change_name) for part in value]
    return value
