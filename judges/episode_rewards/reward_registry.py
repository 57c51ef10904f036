"""Episode rewards by name. To add one, write its file and list it here, or `register` it from a module of your own."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from judges.episode_rewards.argos import ARGOS
from judges.episode_rewards.arm import (
    AGENTIC,
    ARM_ACCURACY,
    ARM_ACCURACY_AND_FORMAT,
    ARM_EXPLORATION,
    ARM_FIXED_TOOL_BONUS,
)
from judges.episode_rewards.episode_reward import Constant, EpisodeReward, constants_of
from judges.episode_rewards.ivgr import IVGR
from judges.episode_rewards.mags import MAGS_STAGE_1, MAGS_STAGE_2
from vlm_envs.errors import ConfigError
from vlm_envs.terminal_tables import terminal_width, wrapped
from vlm_envs.user_code import import_named
from vlm_envs.validation import did_you_mean, require, require_choice

_REWARDS: dict[str, EpisodeReward] = {}
_MODULES: dict[str, str] = {}  # the module that registered each reward, for MODULE:NAME

EPISODE_REWARDS: Mapping[str, EpisodeReward] = MappingProxyType(_REWARDS)
"""All registered rewards by name."""

_INDENT = " " * 6
_WIDTH = 100
"""Maximum width of a listing, in columns."""


def register(reward: EpisodeReward) -> None:
    """Registers a reward by its name.

    Raises:
        ConfigError: A different reward has this name.
    """
    if _REWARDS.setdefault(reward.name, reward) is not reward:
        raise ConfigError(f"There is an episode reward {reward.name!r} already. Choose another name.")
    _MODULES.setdefault(reward.name, sys._getframe(1).f_globals["__name__"])


SHIPPED = (
    ARM_EXPLORATION,
    ARM_ACCURACY,
    ARM_ACCURACY_AND_FORMAT,
    ARM_FIXED_TOOL_BONUS,
    MAGS_STAGE_1,
    MAGS_STAGE_2,
    IVGR,
    ARGOS,
    AGENTIC,
)
"""The papers' rewards, in listing order; users' own rewards are only in `EPISODE_REWARDS`."""

for _reward in SHIPPED:
    register(_reward)


def episode_reward(name: str, *, option: str = "episode reward") -> EpisodeReward:
    """Returns a reward by its name.

    Args:
        name: One of `EPISODE_REWARDS`, or `MODULE:NAME` for one that a module of your own registers.
        option: The command-line option or argument that set the name, for the error.

    Raises:
        ConfigError: There is no such reward, or the module registers none with this name; the message suggests the
            closest.
    """
    module, _, own = name.rpartition(":")
    if not module:
        return EPISODE_REWARDS[require_choice(option, name, tuple(EPISODE_REWARDS))]
    instead = "Run from the folder that holds it, or name that folder in PYTHONPATH."
    import_named(module, option=f"{option} {name}", instead=instead)
    # A reward may be registered by a submodule of the named package.
    registered = [reward for reward, by in _MODULES.items() if f"{by}.".startswith(f"{module}.")]
    shipped = f" {own!r} alone is the one of {_MODULES[own]}." if own in _MODULES else ""
    require(
        own in registered,
        f"{option} {name}: {module} registers no episode reward {own!r}, but {', '.join(registered) or 'none'}."
        f"{did_you_mean(own, registered) or shipped}",
    )
    return EPISODE_REWARDS[own]


def as_text(reward: EpisodeReward) -> str:
    """Returns a reward's constants for a terminal: each as `name=default`, followed by its meaning and source."""
    constants = constants_of(reward.settings)
    if not constants:
        return f"{reward.name}\n  (no constants)"
    lines = [reward.name]
    for constant in constants:
        description = f"{constant.meaning} Source: {constant.source}"
        lines += [f"  {constant.name}={constant.default!r}"]
        lines += wrapped(f"{_INDENT}{description}", min(_WIDTH, terminal_width()), indent=_INDENT)
    return "\n".join(lines)


def as_markdown(rewards: Iterable[EpisodeReward]) -> str:
    """Returns a Markdown table with one row per constant; rewards that share a constant share its row."""
    names: dict[Constant, list[str]] = {}
    for reward in rewards:
        for constant in constants_of(reward.settings):
            names.setdefault(constant, []).append(f"`{reward.name}`")
    rows = [
        f"| `{constant.name}` | {constant.default!r} | {', '.join(of)} | {constant.meaning} | {constant.source} |"
        for constant, of in names.items()
    ]
    return "\n".join(["| constant | default | of | what it is | source |", "|---|---|---|---|---|", *rows])
