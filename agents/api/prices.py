"""Token prices, and a client's usage so far."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from agents.api.conversation import TokenCounts
from vlm_envs.errors import ConfigError
from vlm_envs.validation import did_you_mean

_VERSION = r"[-@](latest|\d{8}|\d{6}|\d{4}-\d{2}-\d{2}|\d{4}|\d{3})"
"""Suffixes of a model's dated versions; a single digit indicates another model."""

SHIPPED = Path(__file__).with_name("prices.toml")


Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class Price(BaseModel, frozen=True, extra="forbid"):
    """US dollars per million tokens. See `TokenCounts`.

    Attributes:
        prompt: Tokens sent, at the full price.
        completion: Tokens received.
        cached: Tokens read from the provider's cache; None for the full price.
        cache_writes: Tokens written to it; None for the full price.
    """

    prompt: Dollars
    completion: Dollars
    cached: Dollars | None = None
    cache_writes: Dollars | None = None

    def usd(self, tokens: TokenCounts) -> float:
        """Returns the cost of tokens."""
        special = [(tokens.cached, self.cached), (tokens.cache_writes, self.cache_writes)]
        prompt = (tokens.prompt - tokens.cached - tokens.cache_writes) * self.prompt
        prompt += sum(number * (self.prompt if price is None else price) for number, price in special)
        return (prompt + tokens.completion * self.completion) / 1e6


class PriceTable:
    """Prices by model.

    Args:
        prices: Prices by model name; a name also applies to dated versions.
    """

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = dict(prices)

    @classmethod
    def load(cls, path: Path | None = None) -> PriceTable:
        """Returns the shipped table, updated with a user's prices.

        Args:
            path: A file in the format of `prices.toml`; None for the shipped prices alone.

        Raises:
            ConfigError: If the file cannot be read or is not a price table.
        """
        return cls(_read(SHIPPED) | ({} if path is None else _read(path)))

    def of(self, model: str) -> Price | None:
        """Returns the price of a model; None if unknown, which is not the same as free."""
        fits = [name for name in self._prices if re.fullmatch(rf"{re.escape(name)}({_VERSION})?", model)]
        return self._prices[max(fits, key=len)] if fits else None


class _PriceFile(BaseModel, extra="forbid"):
    models: dict[str, Price]
    checked: date | str = ""


def _read(path: Path) -> dict[str, Price]:
    try:
        return _PriceFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).models
    except (OSError, ValueError) as error:
        fault = _fault(error) if isinstance(error, ValidationError) else " ".join(str(error).split())
        raise ConfigError(
            f"Cannot read the prices in {path}: {fault} Expected is a table [models], such as "
            '"gpt-4.1" = { prompt = 2.0, completion = 8.0 }, in US dollars.'
        ) from error


def _fault(error: ValidationError) -> str:
    """Returns the first mistake as a sentence; an unknown name precedes the missing one that it may stand for."""
    found = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    location, name = ".".join(map(str, found["loc"])), str(found["loc"][-1])
    if found["type"] == "extra_forbidden":
        names = Price.model_fields if len(found["loc"]) > 1 else _PriceFile.model_fields
        return f"{location} is not known.{did_you_mean(name, names)}"
    return f"{location}: {found['msg']}, got {found['input']!r}."


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Counts since a client was created.

    Attributes:
        num_questions: Questions asked.
        num_cached: Of these, answered from the cache: no request, no cost.
        num_unavailable: Of these, without a readable reply in the end.
        num_requests: Requests sent, including retries.
        num_failed_requests: Of these, without a usable reply.
        num_unreadable: Complete replies without a verdict in the requested form.
        num_counted: Replies whose tokens the endpoint counted, usable or not.
        num_uncounted: Replies whose tokens the endpoint did not count; they are missing from the cost.
        prompt_tokens: Tokens sent, as the endpoint counted them.
        completion_tokens: Tokens received, including unreadable replies.
        reasoning_tokens: Of these, tokens of thoughts.
        counted_usd: Cost of the counted replies; 0 if the price is unknown.
        is_priced: Whether the model's price is known.
    """

    num_questions: int = 0
    num_cached: int = 0
    num_unavailable: int = 0
    num_requests: int = 0
    num_failed_requests: int = 0
    num_unreadable: int = 0
    num_counted: int = 0
    num_uncounted: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    counted_usd: float = 0.0
    is_priced: bool = True

    @property
    def usd(self) -> float | None:
        """Cost; None if the price is unknown, which is not the same as free."""
        return self.counted_usd if self.is_priced else None

    def plus(self, **counts: float) -> Usage:
        """Returns the usage with added counts."""
        sums: dict[str, Any] = {name: getattr(self, name) + count for name, count in counts.items()}
        return replace(self, **sums)

    def __str__(self) -> str:
        """Returns the counts on one line, for reports."""
        return (
            f"{self.num_questions} questions ({self.num_cached} cached, {self.num_unavailable} unavailable), "
            f"{self.num_requests} requests ({self.num_failed_requests} failed, {self.num_unreadable} unreadable), "
            f"{self.prompt_tokens} + {self.completion_tokens} tokens"
            f"{f' ({self.num_uncounted} replies uncounted)' if self.num_uncounted else ''}"
            f"{'' if self.usd is None else f', {self.usd:.4f} USD'}"
        )
