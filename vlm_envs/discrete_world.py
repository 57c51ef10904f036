"""A world for classical reinforcement learning: observations are images, and actions are numbers of named actions.

    env = DiscreteWorld(vlm_envs.make("VLM/FrozenLake-v0"), actions_per_response=3, downscale=4)

The agent's actions are written as responses of the world, so that it can be compared with models that write
their own.
"""

from __future__ import annotations

import colorsys
import copy
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from vlm_envs.errors import ConfigError, EpisodeOverError
from vlm_envs.trajectory import Observation
from vlm_envs.validation import require, require_positive

Picture = npt.NDArray[np.uint8]

BLOCK_PX = 8
"""Default side of an action in the strip below an image."""


@dataclass(frozen=True, kw_only=True)
class Controls:
    """Observations and actions of a world, for an agent of images and numbers.

    Attributes:
        action_names: Its named actions; an action's number is its index.
        picture_shape: (height, width, 3) of its images, in pixels.
        max_actions: Maximum number of actions per response.
    """

    action_names: tuple[str, ...]
    picture_shape: tuple[int, ...]
    max_actions: int

    @classmethod
    def of(cls, world: Any) -> Self:
        """Returns the controls of a `vlm_envs.world.World`.

        Raises:
            ConfigError: If its actions have no names, or it does not show one image.
        """
        name = type(world).__name__ if world.spec is None else world.spec.id
        grammar, names = world.task.grammar, world.task.action_names
        if not names:
            raise ConfigError(
                f"{name} lists no named actions ({grammar.expected}), so it has no action numbers. Worlds that do: "
                "VLM/FrozenLake-v0, VLM/Sokoban-v0, VLM/Navigation-v0."
            )
        image = world.observation_space.spaces.get("image")
        if image is None or image.shape is None:
            shows = "several images" if world.shows_several else f"none with obs_mode={world.obs_mode!r}"
            raise ConfigError(f"Agents of images and numbers need one image per turn; {name} shows {shows}.")
        max_actions = world.max_actions_per_turn if grammar.separator else 1
        return cls(action_names=tuple(names), picture_shape=image.shape, max_actions=max_actions)


def write_named(world: Any, names: Sequence[str]) -> str:
    """Returns a response in the world's format that only carries out named actions."""
    response: str = world.write_response([world.task.grammar.parse(name) for name in names])
    return response


def downscaled(pictures: Picture, factor: int) -> Picture:
    """Returns images in which each pixel is the rounded mean of a square of pixels.

    Args:
        pictures: uint8[..., H, W, 3].
        factor: Side of the square, which divides H and W.

    Returns:
        uint8[..., H / factor, W / factor, 3].
    """
    if factor == 1:
        return pictures
    *batch, height, width, channels = pictures.shape
    rows = pictures.reshape(*batch, height // factor, factor, width * channels).sum(axis=-2, dtype=np.uint32)
    rows = rows.reshape(*batch, height // factor, width, channels)
    sums = rows[..., ::factor, :].copy()
    for column in range(1, factor):  # Many times faster than a mean over two axes
        sums += rows[..., column::factor, :]
    means: Picture = ((sums + factor**2 // 2) // factor**2).astype(np.uint8)
    return means


def with_plan(picture: Picture, plan: Sequence[int], *, num_actions: int, block_px: int) -> Picture:
    """Returns an image with a strip below it that shows the actions already chosen for the next response.

    Args:
        picture: uint8[H, W, 3].
        plan: Numbers of the actions, each a block in its own color, from the left; the rest of the strip is
            black.
        num_actions: Number of possible actions.
        block_px: Side of a block in pixels.

    Returns:
        uint8[H + block_px, W, 3].
    """
    strip = np.zeros((block_px, *picture.shape[1:]), np.uint8)
    for index, number in enumerate(plan):
        strip[:, index * block_px : (index + 1) * block_px] = _colors(num_actions)[number]
    return np.concatenate([picture, strip])


@functools.cache
def _colors(num_actions: int) -> Picture:
    hues = [colorsys.hsv_to_rgb(number / num_actions, 1.0, 1.0) for number in range(num_actions)]
    colors: Picture = np.rint(np.array(hues) * 255).astype(np.uint8)
    return colors


@dataclass(frozen=True, kw_only=True)
class Seeing:
    """How an agent of images and numbers sees a world, and how many choices make up a response.

    Attributes:
        num_actions: Number of named actions.
        actions_per_response: Number of actions chosen one after the other for each response.
        downscale: Side of the square of pixels that becomes one pixel.
        block_px: Side of an action in the strip below the image; with one action per response there is no
            strip.
    """

    num_actions: int
    actions_per_response: int = 1
    downscale: int = 1
    block_px: int = BLOCK_PX

    def shown(self, picture: Picture, plan: Sequence[int]) -> Picture:
        """Returns the agent's view of an image after part of a response has been chosen."""
        small = downscaled(picture, self.downscale)
        if self.actions_per_response == 1:
            return small
        return with_plan(small, plan, num_actions=self.num_actions, block_px=self.block_px)


class DiscreteWorld(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A world whose observations are images and whose actions are the numbers of its named actions.

    Observations are `Box(uint8[H, W, 3])`, actions `Discrete(n)`. Rewards, termination, truncation, and
    `info` are the world's own; instructions are not shown, since they are text. Every action is allowed in
    every state: there are no masks.

    With several actions per response, a step only stores its action until the response is complete: the world
    does not change, the reward is 0, `info` is repeated, and a strip below the image shows the actions chosen
    so far. The world is then stepped with all of them at once and returns its next image.

    Args:
        env: A world of this package with named actions that shows one image.
        actions_per_response: Number of actions per response, at most the world's `max_actions_per_turn`.
        downscale: Each pixel becomes the mean of a square with this side, which must divide the image's
            sides; 1 for no change.
        block_px: Side of each action in the strip, in pixels of the scaled image.

    Raises:
        ConfigError: If the world is of another kind, or an argument does not fit it.
    """

    def __init__(
        self,
        env: gym.Env[Observation, str],
        *,
        actions_per_response: int = 1,
        downscale: int = 1,
        block_px: int = BLOCK_PX,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, actions_per_response=actions_per_response, downscale=downscale, block_px=block_px
        )
        gym.Wrapper.__init__(self, env)
        self._world: Any = env.unwrapped
        if not hasattr(self._world, "write_response"):
            raise ConfigError(f"DiscreteWorld requires a world of vlm_envs; got {self._world}.")
        self.controls = Controls.of(self._world)
        self.seeing = Seeing(
            num_actions=len(self.controls.action_names),
            actions_per_response=require_positive(
                "actions_per_response", actions_per_response, maximum=self.controls.max_actions
            ),
            downscale=downscale,
            block_px=require_positive("block_px", block_px),
        )
        height, width, _ = self.controls.picture_shape
        if math.gcd(height, width) % require_positive("downscale", downscale):
            raise ConfigError(f"downscale must divide the image's sides, {height} x {width} pixels; got {downscale}.")
        require(
            actions_per_response == 1 or actions_per_response * block_px <= width // downscale,
            f"{actions_per_response} actions of block_px={block_px} do not fit below an image of "
            f"{width // downscale} pixels.",
        )
        shown = self.seeing.shown(np.zeros(self.controls.picture_shape, np.uint8), [])
        self.observation_space = spaces.Box(0, 255, shown.shape, np.uint8)
        self.action_space = spaces.Discrete(self.seeing.num_actions)
        self._plan: list[int] = []
        self._shown: tuple[Picture, dict[str, Any]] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Picture, dict[str, Any]]:
        """Starts an episode by the world's `reset`; returns its image and `info`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._plan, self._shown = [], (observation["image"], info)
        return self.seeing.shown(observation["image"], self._plan), info

    def step(self, action: int | np.integer[Any]) -> tuple[Picture, float, bool, bool, dict[str, Any]]:
        """Chooses an action, and carries out the response if it is then complete.

        Raises:
            ConfigError: If the action does not exist.
            EpisodeOverError: If the episode is over or has not been started.
        """
        if self._shown is None:
            raise EpisodeOverError("The episode is over; call reset() before the next step().")
        if np.shape(action) != () or action not in range(self.seeing.num_actions):
            raise ConfigError(f"step() requires a number of {self.action_space}; got {action!r}.")
        self._plan.append(int(action))
        if len(self._plan) < self.seeing.actions_per_response:
            picture, info = self._shown
            return self.seeing.shown(picture, self._plan), 0.0, False, False, copy.deepcopy(info)
        names = [self.controls.action_names[number] for number in self._plan]
        observation, reward, terminated, truncated, info = self.env.step(write_named(self._world, names))
        self._plan, self._shown = [], None if terminated or truncated else (observation["image"], info)
        return self.seeing.shown(observation["image"], self._plan), float(reward), terminated, truncated, info


def discrete_world(world: Any, *, num_levels: int | None = None) -> DiscreteWorld:
    """Returns the wrapped world of `gymnasium.make(env_id, action_mode="discrete")`, which then owns the world.

    A turn has one action, there are as many turns as an episode otherwise has actions, and the format, which
    the wrapper writes, earns nothing, as with `gymnasium.make_vec`.

    Args:
        world: A new world.
        num_levels: Number of levels drawn in advance and reused for all episodes; None for a new level each
            episode.

    Raises:
        ConfigError: If it has no named actions, or does not show one image.
    """
    world.max_turns, world.max_actions_per_turn = world.max_turns * world.max_actions_per_turn, 1
    world.format_reward = 0.0
    wrapped = DiscreteWorld(world)
    if num_levels is not None:
        world.draw_levels(num_levels)
    return wrapped
