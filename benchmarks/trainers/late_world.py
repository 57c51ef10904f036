"""A world and a judge with given delays, in which any text is a valid move with a score."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import threading
import time
from typing import Any

import gymnasium as gym

from judges.episode_rewards.episode_reward import EachByItself, EpisodeReward
from judges.episode_rewards.reward_registry import register
from judges.scores import Reward
from vlm_envs.trajectory import Observation, Trajectory
from vlm_envs.worlds.frozen_lake import FrozenLakeState, FrozenLakeWorld
from vlm_envs.worlds.grids.grid_levels import Direction

LATE_LAKE_ID = "Benchmark/LateLake-v0"
NUM_MOVES = 3


def share_of(text: str) -> float:
    """Returns a number in [0, 1) that is a hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48


class LateLake(FrozenLakeWorld):
    """FrozenLake for measurements: any text is three moves of the player, so that each turn shows a new image.

    The text alone selects among the moves that do not end the episode. Every episode thus has `max_turns` turns,
    whatever the policy writes, and episodes of a group with different texts see different images if there is more than
    one possible move. As the number of moves is odd, the player never ends a turn where it started.

    Args:
        answer_ms: Delay added to each step, in milliseconds.
        **kwargs: Arguments of FrozenLake.
    """

    def __init__(self, *, answer_ms: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._answer_s = answer_ms / 1000

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Moves the player; see `vlm_envs.world.World.step`."""
        if self._answer_s:
            time.sleep(self._answer_s)
        state, ways = self.state, []
        for number in range(NUM_MOVES):
            open_ways = [way for way in Direction if _goes_on(state, way)]  # at least the way back
            ways.append(open_ways[int(share_of(f"{number} {action}") * len(open_ways))])
            state = state.move(ways[-1])
        sections = dict.fromkeys(self.turn_format.sections, "-") | {"answer": ", ".join(way.title for way in ways)}
        return super().step(self.turn_format.write(sections))


def _goes_on(state: FrozenLakeState, way: Direction) -> bool:
    """Returns whether a move leads to another cell of ice, so that the episode continues."""
    moved = state.move(way)
    return moved != state and not (moved.is_on_goal or moved.is_in_hole)


gym.register(LATE_LAKE_ID, entry_point=f"{__name__}:LateLake")


LATE_JUDGE = "late_judge"


def late_judge(answer_ms: float, num_parallel: int) -> EachByItself:
    """Returns a judge with a delay per episode that judges several concurrently, like a model behind an endpoint."""
    slots, numbers = threading.BoundedSemaphore(num_parallel), itertools.count()

    async def rewarded(episode: Trajectory) -> Reward:
        score = share_of(f"episode {next(numbers)}")
        if answer_ms:
            await asyncio.to_thread(answered)
        return Reward(terms={"score": score})

    def answered() -> None:
        with slots:
            time.sleep(answer_ms / 1000)

    return EachByItself(rewarded)


def register_judge(answer_ms: float, num_parallel: int) -> str:
    """Registers the judge in this process and returns its name."""
    register(EpisodeReward(name=LATE_JUDGE, build=lambda models: late_judge(answer_ms, num_parallel)))
    return LATE_JUDGE
