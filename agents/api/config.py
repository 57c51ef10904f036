"""Which endpoint is asked, and how hard it may be leaned on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vlm_envs.arguments.ranges import field_name, require_above, require_at_least
from vlm_envs.errors import require


@dataclass(frozen=True, kw_only=True)
class EndpointConfig:
    """An endpoint that speaks OpenAI's chat completions, and the limits of its use.

    Attributes:
        model: Name of the judge model, as the endpoint knows it.
        base_url: Where the endpoint is, with its version: `http://127.0.0.1:8000/v1`.
        api_key_variable: Name of the environment variable that holds the key; empty where the endpoint needs none.
            The key itself is never part of a configuration, so that no run can write it down.
        temperature: Of the sampling, at least 0; a judge's `ask` may choose another.
        max_tokens: Longest reply, in tokens.
        timeout_s: Longest time for one whole reply, from the first byte sent to the last received.
        max_attempts: Requests for one reply until it counts as unavailable; at least 1.
        first_wait_s: Longest wait after the first failed attempt; it doubles with every further one.
        max_wait_s: Longest wait that is chosen by us, and longest `Retry-After` that is obeyed. An endpoint that asks
            for more is out.
        requests_per_minute: Requests that one client starts in any minute; None for no limit.
        max_parallel: Requests under way at any time.
        usd_per_million_prompt_tokens: Price of what is sent.
        usd_per_million_completion_tokens: Price of what comes back.
        cache_dir: Where readable replies are kept; None to ask every time.
    """

    model: str
    base_url: str
    api_key_variable: str = "OPENAI_API_KEY"
    temperature: float = 0.0
    max_tokens: int = 512
    timeout_s: float = 60.0
    max_attempts: int = 5
    first_wait_s: float = 1.0
    max_wait_s: float = 60.0
    requests_per_minute: float | None = None
    max_parallel: int = 8
    usd_per_million_prompt_tokens: float = 0.0
    usd_per_million_completion_tokens: float = 0.0
    cache_dir: Path | None = None

    def __post_init__(self) -> None:
        """Refuses what could never work."""
        require(bool(self.model), f"{field_name(self, 'model')} must name the judge model; got {self.model!r}.")
        require(
            self.base_url.startswith(("http://", "https://")),
            f"{field_name(self, 'base_url')} must be the endpoint's address with its version, such as "
            f"http://127.0.0.1:8000/v1; got {self.base_url!r}.",
        )
        require_at_least(self, 1, "max_tokens", "max_attempts", "max_parallel")
        require_above(self, 0, "timeout_s", "max_wait_s", "requests_per_minute")
        require_at_least(self, 0, "temperature", "first_wait_s")
        require_at_least(self, 0, "usd_per_million_prompt_tokens", "usd_per_million_completion_tokens")

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Returns what a reply costs."""
        prompt_usd = prompt_tokens * self.usd_per_million_prompt_tokens
        return (prompt_usd + completion_tokens * self.usd_per_million_completion_tokens) / 1e6
