"""The update as an algorithm takes it: what it decides itself stands in place of `ppo`'s settings."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import fields

from training.algorithms.algorithm import Algorithm
from training.algorithms.shipped import name_of
from training.config.update.ppo import PPOConfig


def decided_update(algorithm: Algorithm, ppo: PPOConfig) -> PPOConfig:
    """Returns the update's settings with those in place that the algorithm decides itself."""
    decided = copy.copy(ppo)  # not made anew: its checks are of what a user may ask for
    for name, value in algorithm.update_settings.items():
        object.__setattr__(decided, name, value)
    return decided


def update_contradictions(algorithm: Algorithm, ppo: PPOConfig) -> Iterator[str]:
    """Yields settings of the update that an algorithm does not read, and of its own those that would never act.

    A setting counts as set where it differs from its default.
    """
    name = f"--algorithm {name_of(algorithm)}"
    for setting, value in algorithm.update_settings.items():
        if getattr(ppo, setting) not in (getattr(PPOConfig, setting), value):
            asked, own = f"--ppo.{_option(setting)} {getattr(ppo, setting)}", _own_setting(algorithm, setting)
            instead = f"--algorithm.{_option(own)}" if own else f"--ppo.{_option(setting)} {value}"
            yield f"{name} does not read {asked}: it has {value} of its own. Use {instead}, or another algorithm."
    if algorithm.max_sampling_rounds > 1 and type(algorithm).useful_rows is Algorithm.useful_rows:
        yield (
            f"{name} plays up to {algorithm.max_sampling_rounds} rounds for useful groups, and to it all are: write "
            "its useful_rows, or set its max_sampling_rounds to 1."
        )
    if decided_update(algorithm, ppo).takes_one_step:
        one_step = "with --ppo.num-epochs 1 and --ppo.num-minibatches 1 the ratio of the only step is 1"
        clips = [own for own in (_own_setting(algorithm, each) for each in ("clip_low", "clip_high")) if own]
        changed = [own for own in clips if getattr(algorithm, own) != getattr(type(algorithm), own)]
        if algorithm.needs_several_steps:
            yield f"{name} changes how ratios are taken, and {one_step}. Take more steps an iteration."
        elif changed:
            options = " and ".join(f"--algorithm.{_option(own)} {getattr(algorithm, own)}" for own in changed)
            yield f"{options} would never act: {one_step}. Take more steps an iteration or leave the clip out."


def _own_setting(algorithm: Algorithm, setting: str) -> str | None:
    """Returns an algorithm's setting in place of one of the update's, whose name it ends with; None where it has none.

    With a name of its own a value that means something else is not taken over from one algorithm to another.
    """
    return next((each.name for each in fields(algorithm) if each.name.endswith(setting)), None)


def _option(setting: str) -> str:
    return setting.replace("_", "-")
