"""What tokens cost: a table that ships with the project, and one of the user's over it."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from agents.api.completion import TokenCounts
from vlm_envs.errors import ConfigError
from vlm_envs.validation import did_you_mean

_VERSION = r"[-@](latest|\d{8}|\d{6}|\d{4}-\d{2}-\d{2}|\d{4}|\d{3})"
"""What a dated version adds to a model's name: a single digit more is another model."""

SHIPPED = Path(__file__).with_name("prices.toml")


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars for a million tokens. See `TokenCounts`.

    Attributes:
        prompt: Tokens sent, at the full price.
        completion: Tokens that come back.
        cached: Tokens read from the provider's cache; None for the full price.
        cache_writes: Tokens written to it; None for the full price.
    """

    prompt: float
    completion: float
    cached: float | None = None
    cache_writes: float | None = None

    def usd(self, tokens: TokenCounts) -> float:
        """Returns what tokens cost."""
        special = [(tokens.cached, self.cached), (tokens.cache_writes, self.cache_writes)]
        prompt = (tokens.prompt - tokens.cached - tokens.cache_writes) * self.prompt
        prompt += sum(number * (self.prompt if price is None else price) for number, price in special)
        return (prompt + tokens.completion * self.completion) / 1e6


class PriceTable:
    """Prices by model.

    Args:
        prices: By the model's name; it stands for dated versions too.
    """

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = dict(prices)

    @classmethod
    def load(cls, path: Path | None = None) -> PriceTable:
        """Returns the shipped table with a user's prices over it.

        Args:
            path: A file such as `prices.toml`; None for the shipped prices alone.

        Raises:
            ConfigError: If the file cannot be read or is no table of prices.
        """
        return cls(_read(SHIPPED) | ({} if path is None else _read(path)))

    def of(self, model: str) -> Price | None:
        """Returns the price of a model; None where it is not known, which is not the same as free."""
        fits = [name for name in self._prices if re.fullmatch(rf"{re.escape(name)}({_VERSION})?", model)]
        return self._prices[max(fits, key=len)] if fits else None


def _read(path: Path) -> dict[str, Price]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read the prices in {path}: {error}.") from error
    models = content.get("models")
    if not isinstance(models, dict) or content.keys() - {"models", "checked"}:
        raise ConfigError(f'{path} needs one table [models], such as "gpt-4.1" = {{ prompt = 2.0, completion = 8.0 }}.')
    return {name: _price(path, name, entry) for name, entry in models.items()}


def _price(path: Path, name: str, entry: object) -> Price:
    names = [field.name for field in fields(Price)]
    if not isinstance(entry, dict):
        raise ConfigError(f"{path}: the price of {name!r} must name prompt and completion; got {entry!r}.")
    for key, value in entry.items():
        if key not in names:
            raise ConfigError(f"{path}: {name!r} has an unknown price {key!r}.{did_you_mean(key, names)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value >= 0):
            raise ConfigError(f"{path}: {key} of {name!r} must be a number of US dollars, at least 0; got {value!r}.")
    if missing := {"prompt", "completion"} - entry.keys():
        raise ConfigError(f"{path}: {name!r} has no {' and no '.join(sorted(missing))} price.")
    return Price(**entry)
