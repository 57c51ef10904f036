"""Many grids stepped at once: a Gymnasium vector environment with discrete actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Self

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from vlm_envs.errors import ConfigError, EpisodeOverError
from vlm_envs.validation import require_positive
from vlm_envs.vector.running_episodes import reset_seeds
from vlm_envs.worlds.grids.grid_levels import Direction, GridDynamics, GridState, GridStateT

DELTAS = np.array([direction.delta for direction in Direction], np.intp)


class BatchStep(NamedTuple):
    """The result of one move in each level, equal to the results of scalar steps.

    Attributes:
        rewards: float64[N], without the format reward.
        success: bool[N], whether the level is solved.
        over: bool[N], whether the level has ended, solved or not.
    """

    rewards: NDArray[np.float64]
    success: NDArray[np.bool_]
    over: NDArray[np.bool_]


class GridBatch(ABC):
    """A batch of N levels.

    Args:
        cells: uint8[N, num_rows, num_cols], the content of each cell, without the player.
        player: int[N, 2], (row, column).

    Attributes:
        symbols: The symbol of each cell content, first without the player and then with it.
    """

    symbols: ClassVar[str]

    def __init__(self, cells: NDArray[np.uint8], player: NDArray[np.intp]) -> None:
        self.cells, self.player = cells, player
        self._envs = np.arange(len(cells))

    @classmethod
    def of(cls, states: Sequence[GridState]) -> Self:
        """Converts states to arrays."""
        table = bytes(max(cls.symbols.find(chr(symbol)), 0) for symbol in range(256))
        rows = [[list(row.encode().translate(table)) for row in state.level_text().split("\n")] for state in states]
        contents = np.array(rows, np.uint8)
        player = np.array([state.player for state in states], np.intp)
        return cls(contents % np.uint8(len(cls.symbols) // 2), player)

    def put(self, where: NDArray[np.intp], others: Self, which: NDArray[np.intp]) -> None:
        """Copies levels `which` of another batch to positions `where` of this one."""
        self.cells[where], self.player[where] = others.cells[which], others.player[which]

    def contents(self) -> NDArray[np.uint8]:
        """Returns the index in `symbols` of every cell, uint8[N, num_rows, num_cols]."""
        contents = self.cells.copy()
        contents[self.at(self.player)] += len(self.symbols) // 2
        return contents

    def at(self, cell: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Returns the array index of one cell of each level, given as int[N, 2]."""
        return self._envs, cell[:, 0], cell[:, 1]

    @abstractmethod
    def move(self, actions: NDArray[np.intp], draws: NDArray[np.float64] | None) -> BatchStep:
        """Moves every player.

        Args:
            actions: int[N], 0 up, 1 down, 2 left, 3 right.
            draws: float64[N] in [0, 1), one per player on slippery ground; None otherwise.
        """


Pictures = NDArray[np.uint8]


class DiscreteVector(VectorEnv[Pictures, NDArray[np.integer[Any]], NDArray[Any]], Generic[GridStateT]):
    """N levels of one grid world, stepped together with one move each.

    Observations are uint8[N, height, width, 3]. Actions are int[N]: 0 up, 1 down, 2 left, 3 right. Levels,
    images, rewards, and endings equal those of the world itself with the same seed and one action per turn,
    without the format reward. The step after the end of an episode starts the next one and ignores the action
    (`AutoresetMode.NEXT_STEP`). `infos["success"]` is bool[N].

    Args:
        world: A `GridWorld`, which determines the split, levels, tiles, and move budget.
        num_envs: Number of levels N.
        num_levels: Number of levels to draw in advance and reuse; None for a new one in each episode, which
            takes longer to generate than to play.

    Raises:
        ConfigError: If an argument is not valid.
    """

    _batch: GridBatch | None = None

    def __init__(self, world: Any, *, num_envs: int, num_levels: int | None) -> None:
        self.num_envs = require_positive("num_envs", num_envs)
        self._dynamics: GridDynamics[GridStateT] = world.dynamics
        self._tiles = world.view.tiles
        self._batch_type: type[GridBatch] = world.batch_type
        self._split, self._max_steps = world.split, world.max_turns * world.max_actions_per_turn
        if world.max_steps is not None:
            self._max_steps = min(self._max_steps, world.max_steps)
        self._codes = np.array([self._tiles.codes.get(symbol, 0) for symbol in self._batch_type.symbols], np.uint8)
        self._rngs = [seeding.np_random()[0] for _ in range(num_envs)]
        self._num_steps, self._over = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.bool_)
        self._levels: GridBatch | None = None
        if num_levels is not None:
            rng = np.random.default_rng(0)
            drawn = [
                self._dynamics.generate(rng, self._split) for _ in range(require_positive("num_levels", num_levels))
            ]
            self._levels = self._batch_type.of(drawn)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        num_rows, num_cols = self._dynamics.shape
        shape = (num_rows * self._tiles.cell_px, num_cols * self._tiles.cell_px, 3)
        self.single_observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self.single_action_space = gym.spaces.Discrete(len(Direction))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Pictures, dict[str, Any]]:
        """Starts an episode in every level.

        Args:
            seed: One seed per level; an integer s means s, s + 1, ..., s + N - 1.
            options: None; there are no options.

        Returns:
            The images, and `infos`.

        Raises:
            ConfigError: If the seeds are not valid, or there are options.
        """
        if options:
            raise ConfigError(f"Worlds with action_mode='discrete' have no reset options; got {options!r}.")
        for i, env_seed in enumerate(reset_seeds(seed, self.num_envs)):
            if env_seed is not None:
                self._rngs[i] = seeding.np_random(env_seed)[0]
        self._start(np.arange(self.num_envs))
        return self._pictures(), _infos(np.zeros(self.num_envs, np.bool_))

    def step(
        self, actions: NDArray[np.integer[Any]]
    ) -> tuple[Pictures, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Moves every level once, but restarts those that were over.

        Args:
            actions: int[N], 0 to 3.

        Returns:
            Images, rewards float64[N], terminated bool[N], truncated bool[N], infos.

        Raises:
            ConfigError: If the actions are not valid.
            EpisodeOverError: If `reset` has not been called.
        """
        if self._batch is None:
            raise EpisodeOverError("The worlds have no levels; call reset(seed=...) first.")
        array = np.asarray(actions)
        if array not in self.action_space:
            raise ConfigError(f"Actions must be int[{self.num_envs}] of 0 to {len(Direction) - 1}; got {actions!r}.")
        plays = ~self._over
        rewards, success, over = self._batch.move(array.astype(np.intp), self._draws(plays))
        self._num_steps += 1
        terminated = over & plays
        truncated = ~over & plays & (self._num_steps >= self._max_steps)
        self._start(np.flatnonzero(self._over))
        self._over = terminated | truncated
        return self._pictures(), np.where(plays, rewards, 0.0), terminated, truncated, _infos(success & plays)

    def _draws(self, plays: NDArray[np.bool_]) -> NDArray[np.float64] | None:
        """Returns a random number from each level's own generator if the ground is slippery, else None."""
        if not self._dynamics.is_slippery:
            return None
        return np.array([rng.random() if goes_on else 0.0 for rng, goes_on in zip(self._rngs, plays, strict=True)])

    def _start(self, which: NDArray[np.intp]) -> None:
        """Starts new levels at the given positions of the batch."""
        if not which.size:
            return
        if self._levels is None:
            levels = self._batch_type.of([self._dynamics.generate(self._rngs[i], self._split) for i in which])
            chosen = np.arange(len(which))
        else:
            levels = self._levels
            chosen = np.array([self._rngs[i].integers(len(levels.cells)) for i in which])
        if self._batch is None:
            self._batch = self._batch_type(levels.cells[chosen], levels.player[chosen])
        else:
            self._batch.put(which, levels, chosen)
        self._num_steps[which], self._over[which] = 0, False

    def _pictures(self) -> Pictures:
        assert self._batch is not None
        pictures: Pictures = self._tiles.picture(self._codes[self._batch.contents()])
        return pictures


def _infos(success: NDArray[np.bool_]) -> dict[str, Any]:
    return {"success": success, "_success": np.ones(len(success), np.bool_)}
