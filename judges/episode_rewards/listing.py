"""The constants of rewards as tables: for `python -m judges rewards`, and for the documentation."""

from __future__ import annotations

from collections.abc import Iterable

from judges.episode_rewards.reward import EpisodeReward
from judges.episode_rewards.settings import Constant, constants_of
from vlm_envs.terminal_tables import terminal_width, wrapped

_INDENT = " " * 6
_WIDTH = 100
"""Columns at most."""


def as_text(reward: EpisodeReward) -> str:
    """Returns a reward's constants for a terminal: each as `name=default`, below it what it does and its source."""
    constants = constants_of(reward.settings)
    if not constants:
        return f"{reward.name}\n  (no constants)"
    lines = [reward.name]
    for each in constants:
        told = f"{each.meaning} Source: {each.source}"
        lines += [f"  {each.name}={each.default!r}"]
        lines += wrapped(f"{_INDENT}{told}", min(_WIDTH, terminal_width()), indent=_INDENT)
    return "\n".join(lines)


def as_markdown(rewards: Iterable[EpisodeReward]) -> str:
    """Returns a table of Markdown: a row for each constant, those that rewards share only once."""
    names: dict[Constant, list[str]] = {}
    for reward in rewards:
        for constant in constants_of(reward.settings):
            names.setdefault(constant, []).append(f"`{reward.name}`")
    rows = [
        f"| `{each.name}` | {each.default!r} | {', '.join(of)} | {each.meaning} | {each.source} |"
        for each, of in names.items()
    ]
    return "\n".join(["| constant | default | of | what it is | source |", "|---|---|---|---|---|", *rows])
