"""The constants of rewards as tables: for `python -m judges rewards`, and for the documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from judges.episode_rewards.reward import EpisodeReward
from judges.episode_rewards.settings import Constant, constants_of

_WIDTH = 100


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rewards that have the same constants.

    Attributes:
        names: Of the rewards.
        constants: In their order.
    """

    names: tuple[str, ...]
    constants: tuple[Constant, ...]


def groups_of(rewards: Iterable[EpisodeReward]) -> list[Group]:
    """Returns rewards with their constants, those with the same ones together."""
    names: dict[tuple[Constant, ...], list[str]] = {}
    for reward in rewards:
        constants = tuple(constants_of(reward.settings))
        names.setdefault(constants, []).append(reward.name)
    return [Group(names=tuple(each), constants=constants) for constants, each in names.items()]


def as_text(group: Group) -> str:
    """Returns a group for a terminal: each constant as `name=default`, below it what it does and its source."""
    lines = [", ".join(group.names)]
    if not group.constants:
        return f"{lines[0]}\n  has no constants"
    for each in group.constants:
        lines.append(f"  {each.name}={each.default!r}")
        lines += textwrap.wrap(
            f"{each.meaning} Source: {each.source}", _WIDTH, initial_indent="      ", subsequent_indent="      "
        )
    return "\n".join(lines)


def as_markdown(group: Group) -> str:
    """Returns a group as a table of Markdown; nothing for rewards without constants."""
    if not group.constants:
        return ""
    rows = [f"| `{each.name}` | {each.default!r} | {each.meaning} | {each.source} |" for each in group.constants]
    title = f"**{', '.join(f'`{name}`' for name in group.names)}**"
    return "\n".join([title, "", "| constant | default | what it is | source |", "|---|---|---|---|", *rows])
