"""`python -m agents list`: which agents there are."""

from __future__ import annotations

from dataclasses import dataclass

from agents.registry import AGENTS, usage


@dataclass(frozen=True)
class ListConfig:
    """Names the agents there are."""

    def run(self) -> None:
        """Prints one line for each."""
        for kind, entry in AGENTS.items():
            print(f"{usage(kind):10} {entry.summary}")
