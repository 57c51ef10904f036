"""A world and a judge that take a given time, in which any text is a move and earns a number."""

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
    """Returns a number in [0, 1) that a text decides, and that is another for almost any other text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48


class LateLake(FrozenLakeWorld):
    """FrozenLake for measuring: any text is three moves of the player, so that each turn shows a new picture.

    Which way is decided by the text alone, among the moves after which the episode goes on. So all episodes have
    `max_turns` turns, whatever the policy says, and siblings that say different things see different pictures where
    there is more than one way. After an odd number of moves nobody is where they were.

    Args:
        answer_ms: How long a step takes beside what it computes, in milliseconds.
        **kwargs: Those of FrozenLake.
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
            open_ways = [way for way in Direction if _goes_on(state, way)]  # back, if nothing else
            ways.append(open_ways[int(share_of(f"{number} {action}") * len(open_ways))])
            state = state.move(ways[-1])
        said = dict.fromkeys(self.turn_format.sections, "-") | {"answer": ", ".join(way.title for way in ways)}
        return super().step(self.turn_format.write(said))


def _goes_on(state: FrozenLakeState, way: Direction) -> bool:
    """Returns whether a move leads onto another cell that is ice."""
    moved = state.move(way)
    return moved != state and not (moved.is_on_goal or moved.is_in_hole)


gym.register(LATE_LAKE_ID, entry_point=f"{__name__}:LateLake")


LATE_JUDGE = "late_judge"


def late_judge(answer_ms: float, num_parallel: int) -> EachByItself:
    """Returns a judge that takes a while per episode, and judges several at a time, like a model behind an endpoint."""
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
    """Makes the judge known to runs of this process; returns its name."""
    register(EpisodeReward(name=LATE_JUDGE, build=lambda models: late_judge(answer_ms, num_parallel)))
    return LATE_JUDGE
