"""What is known of environments by where their class is defined: names of actions, goals, and what success is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True)
class Known:
    """Facts of an environment that its interface does not have.

    Attributes:
        success: A value of the setting `success`.
        goal: One sentence; empty for none.
        actions: Names of a discrete space's numbers; empty where the environment has its own.
        num_actions: About how many actions success takes where that is more than an episode has by default; else 0.
    """

    success: str | float
    goal: str = ""
    actions: tuple[str, ...] = ()
    num_actions: int = 0


_TOY_TEXT, _CLASSIC = "gymnasium.envs.toy_text.", "gymnasium.envs.classic_control."
_MUJOCO, _BOX2D = "gymnasium.envs.mujoco.", "gymnasium.envs.box2d."
_MISSION = "Do what the mission says."

KNOWN: Mapping[str, Known] = MappingProxyType(
    {
        "minigrid.": Known(success="reward", goal=_MISSION),
        "miniworld.": Known(success="reward", goal="Do what the environment rewards: usually, go to the red box."),
        f"{_TOY_TEXT}frozen_lake": Known(
            success="reward",
            goal="Reach the present without falling into a hole in the ice.",
            actions=("left", "down", "right", "up"),
        ),
        f"{_TOY_TEXT}cliffwalking": Known(
            success="terminated",
            goal="Reach the goal in the bottom right corner in few steps; the cliff takes you back to the start.",
            actions=("up", "right", "down", "left"),
        ),
        f"{_TOY_TEXT}taxi": Known(
            success="reward",
            goal="Drive the taxi to the passenger, pick them up, drive to the hotel, and drop them off there.",
            actions=("south", "north", "east", "west", "pickup", "dropoff"),
        ),
        f"{_TOY_TEXT}blackjack": Known(
            success="reward",
            goal="Get closer to 21 than the dealer without going over.",
            actions=("stick", "hit"),
        ),
        f"{_CLASSIC}cartpole": Known(
            success="truncated",
            goal="Move the cart so that the pole stays upright until the time is up.",
            actions=("left", "right"),
        ),
        f"{_CLASSIC}mountain_car": Known(
            success="terminated",
            goal="Drive the car up to the flag; it has to gain speed on the slopes.",
            actions=("left", "none", "right"),
            num_actions=120,
        ),
        f"{_CLASSIC}continuous_mountain_car": Known(
            success="terminated", goal="Drive the car up to the flag; it has to gain speed on the slopes."
        ),
        f"{_CLASSIC}acrobot": Known(
            success="terminated",
            goal="Swing the lower link above the line.",
            actions=("negative", "none", "positive"),
        ),
        f"{_CLASSIC}pendulum": Known(success=-200, goal="Swing the pendulum up and keep it upright."),
        f"{_BOX2D}lunar_lander": Known(
            success=200,
            goal="Land between the flags, gently and upright.",
            actions=("none", "left engine", "main engine", "right engine"),
        ),
        f"{_BOX2D}bipedal_walker": Known(success=300, goal="Walk to the far end without falling."),
        f"{_MUJOCO}ant": Known(success="truncated", goal="Walk to the right without falling."),
        f"{_MUJOCO}hopper": Known(success="truncated", goal="Hop to the right without falling."),
        f"{_MUJOCO}walker2d": Known(success="truncated", goal="Walk to the right without falling."),
        f"{_MUJOCO}humanoid_": Known(success="truncated", goal="Walk forward without falling."),
        f"{_MUJOCO}inverted_": Known(success="truncated", goal="Keep the pole upright until the time is up."),
    }
)
"""Beginning of the module that defines an environment's class to facts of it; the longest counts."""


def known_of(module: str) -> Known | None:
    """Returns the facts of an environment whose class is defined in a module, or None."""
    fitting = [start for start in KNOWN if module.startswith(start)]
    return KNOWN[max(fitting, key=len)] if fitting else None
