"""What episodes take: tokens, dollars and time, as far as their agents say; and budgets, which need to know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from benchmarks.models.play.contestants import Contestant
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Trajectory


def require_prices(contestants: Sequence[Contestant]) -> None:
    """Raises `ConfigError` if what one of them costs is not known: a budget could not be held."""
    unknown = [each.label for each in contestants if each.asks_endpoint and not each.has_price]
    if unknown:
        raise ConfigError(
            f"--budget-usd cannot hold for {', '.join(unknown)}: the price is not known. Put it into a table such as "
            "agents/api/prices.toml and name that with prices=FILE behind the agent; 0 is a price, too."
        )


def used_by(trajectory: Trajectory | None) -> dict[str, Any]:
    """Returns what an episode took.

    Returns:
        Sums of what its agent said of its turns (`seconds`, tokens by kind, `usd`), and `tokens` of both directions.
        What was not said of every turn is left out, but for turns that a failure ended. `uncounted` is there where the
        tokens of some replies are estimates.
    """
    turns = () if trajectory is None else trajectory.turns
    totals: dict[str, float] = defaultdict(float)
    for turn in turns:
        for name, value in turn.usage.items():
            totals[name] += value
    told = [turn.usage for turn in turns if not turn.info.get("agent_error")]
    used: dict[str, Any] = {
        name: total for name, total in totals.items() if name == "uncounted" or all(name in each for each in told)
    }
    if "prompt_tokens" in used:
        used["tokens"] = used["prompt_tokens"] + used["completion_tokens"]
    return used
