"""An agent that is a model behind an API: each turn one request, with what its history policy sends again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agents.agent import Response
from agents.api.client import ModelClient
from agents.api.completion import TokenCounts
from agents.api.config import EndpointConfig
from agents.api.conversation import Message, Picture
from agents.api.failures import EndpointError
from agents.api.history import Exchange, history_named
from agents.api.providers.registry import COMPATIBLE
from agents.api.sampling import MAX_TOKENS
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Observation, observation_images
from vlm_envs.vector.env import VectorWorld

NO_TEXT = "(no text)"
"""Stands where a side said nothing: some providers refuse a message without a word."""


@dataclass
class _Episode:
    """What was said in an episode so far; `system` by the world, before everything."""

    system: str = ""
    past: list[Exchange] = field(default_factory=list)
    summary: str = ""


class APIAgent:
    """A model behind an API. Responses of several episodes are asked for side by side.

    Args:
        provider: Key of `PROVIDERS`.
        model: Its name as the provider knows it; `NAME@URL` for a server of one's own.
        history: What of an episode is sent again each turn: `"full"`, `"last_images:N"`, `"last_turns:N"`,
            `"summary"`. See `agents.api.history`.
        system_prompt: Sent before everything, a world's own system message included; empty for none.
        temperature: At least 0; None for the provider's default, the only one that some reasoning models take.
        top_p: Above 0 and at most 1; None for the provider's default.
        max_tokens: Longest response, reasoning included where the provider counts it so.
        reasoning: An effort such as `"low"` or a budget of tokens such as `"2048"`, as the provider has it; empty for
            its default.
        api_key_variable: Environment variable that holds the key; None for the provider's own, empty for no key.
        max_parallel: Requests under way at any time.
        requests_per_minute: None for no limit.
        tokens_per_minute: Tokens sent and received; None for no limit.
        timeout_s: Longest time for one whole reply.
        max_attempts: Requests for one response until it counts as failed.
        max_wait_s: Longest wait that a provider may ask for; one that asks for more has failed.
        prices: A table of prices beside the shipped one. See `agents.api.prices`.

    Attributes:
        address: URL that requests are sent to; empty for the provider's own.

    Raises:
        ConfigError: If a setting cannot be, or the key is not set.
        EngineUnavailableError: If the provider's package is not installed.
    """

    policy_version = -1

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        history: str = "full",
        system_prompt: str = "",
        temperature: float | None = None,
        top_p: float | None = None,
        max_tokens: int = MAX_TOKENS,
        reasoning: str = "",
        api_key_variable: str | None = None,
        max_parallel: int = 8,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        timeout_s: float = 600.0,
        max_attempts: int = 6,
        max_wait_s: float = 300.0,
        prices: str | Path | None = None,
    ) -> None:
        name, base_url = _parted(model) if provider == COMPATIBLE else (model, "")
        self.provider, self.history_name, self.system_prompt = provider, history, system_prompt
        self._history = history_named(history)
        self.config = EndpointConfig(
            provider=provider,
            model=name,
            base_url=base_url,
            api_key_variable=api_key_variable,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            reasoning=str(reasoning),
            timeout_s=timeout_s,
            max_attempts=max_attempts,
            max_wait_s=max_wait_s,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            max_parallel=max_parallel,
            prices=None if prices is None else Path(prices),
        )
        self.address = self.config.address
        self.client = ModelClient(self.config)
        self.num_parallel = max_parallel
        self._pool = ThreadPoolExecutor(max_parallel, thread_name_prefix=f"{provider}:{name}")
        self._episodes: dict[int, _Episode] = {}

    @property
    def identity(self) -> dict[str, Any]:
        """Model and settings that decide its responses; not the address, as a model may be served anywhere."""
        config = self.config
        return {
            "provider": self.provider,
            "model": config.model,
            "history": self.history_name,
            "system_prompt": self.system_prompt,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "max_tokens": config.max_tokens,
            "reasoning": config.reasoning,
        }

    def start(self, worlds: VectorWorld) -> None:
        """Forgets earlier episodes."""
        self._episodes.clear()

    def begin(self, row: int) -> None:
        """Forgets the earlier episode of a row."""
        self._episodes[row] = _Episode()

    def submit(self, row: int, observation: Observation) -> Future[Response]:
        """Returns the response of a row as soon as it is there; a failure is a response with `stop_reason` "error"."""
        episode = self._episodes.setdefault(row, _Episode())
        return self._pool.submit(self._answer, episode, observation)

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns one response per row, asked for side by side; an interruption closes the agent."""
        futures = [self.submit(row, shown) for row, shown in zip(rows, observations, strict=True)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            self.close()  # Python does not end before its threads, which would wait for their replies
            raise

    def close(self) -> None:
        """Gives up what is under way and closes the connections."""
        self.client.close()
        self._pool.shutdown(cancel_futures=True)

    def _answer(self, episode: _Episode, observation: Observation) -> Response:
        began = time.monotonic()
        shown = _message(observation)
        episode.system = observation.get("system") or episode.system
        used: list[TokenCounts | None] = []
        try:
            if episode.past and (request := self._history.asks_to_sum_up(episode.past, episode.summary)):
                summed_up = self.client.complete(self._with_system(episode, request))
                used.append(summed_up.tokens)
                episode.summary = summed_up.text
            messages = self._history.messages(episode.past, shown, episode.summary)
            answer = self.client.complete(self._with_system(episode, messages))
        except EndpointError as error:
            used.append(error.tokens or TokenCounts())
            return Response(text="", stop_reason="error", error=str(error), usage=self._usage(used, began))
        used.append(answer.tokens)
        said = Message(role="assistant", parts=(answer.text if answer.text.strip() else NO_TEXT,))
        episode.past.append(Exchange(shown=shown, said=said))
        return Response(
            text=answer.text,
            stop_reason=answer.stop_reason,
            thoughts=answer.thoughts,
            usage=self._usage(used, began),
            model=answer.model,
        )

    def _with_system(self, episode: _Episode, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        said = "\n\n".join(filter(None, (self.system_prompt, episode.system)))
        system = (Message(role="system", parts=(said,)),) if said else ()
        return (*system, *messages)

    def _usage(self, used: Sequence[TokenCounts | None], began: float) -> dict[str, float]:
        """Returns what a turn took: tokens by kind where they were counted, dollars where the price is known."""
        usage: dict[str, float] = {"seconds": time.monotonic() - began}
        counted = [tokens for tokens in used if tokens is not None]
        if len(counted) == len(used):
            total = sum(counted, TokenCounts())
            usage |= {f"{name}_tokens": number for name, number in asdict(total).items()}
            if self.client.price is not None:
                usage["usd"] = self.client.price.usd(total)
        return usage


def _message(observation: Observation) -> Message:
    """Returns an observation as it is sent: its pictures, then its text."""
    pictures = tuple(Picture.of(image) for image in observation_images(observation))
    text = observation.get("text", "")
    texts = (text,) if text.strip() else () if pictures else (NO_TEXT,)
    return Message(role="user", parts=(*pictures, *texts))


def _parted(model: str) -> tuple[str, str]:
    """Returns what NAME@URL names; names may have an at sign in them.

    Raises:
        ConfigError: If there is no URL.
    """
    name, at, url = model.partition("@http")
    name, base_url = (name, f"http{url}") if at else model.partition("@")[::2]
    if not base_url:
        raise ConfigError(
            f"A compatible server is named NAME@URL, such as compatible:qwen@http://127.0.0.1:8000/v1; got {model!r}."
        )
    return name, base_url
