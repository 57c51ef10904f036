"""A world small enough to reason about by hand, and variants of it that fail on purpose.

It stands in a module of its own because process workers import it by name.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vlm_envs.errors import LevelError
from vlm_envs.parts import Dynamics, Task, View
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.splits import split_of
from vlm_envs.world import World

NUM_CELLS = 40
CELL_PX = 2


@dataclass(frozen=True, kw_only=True)
class CorridorState:
    player: int
    goal: int


class CorridorDynamics(Dynamics[CorridorState, int]):
    """Walk left (-1) or right (+1) along `NUM_CELLS` cells; the goal is two to six cells away."""

    def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
        while True:
            player, goal = (int(cell) for cell in rng.integers(NUM_CELLS, size=2))
            state = CorridorState(player=player, goal=goal)
            if 2 <= abs(player - goal) <= 6 and split_of(self.level_key(state)) == split:
                return state

    def load(self, level: str) -> CorridorState:
        try:
            player, goal = map(int, level.split())
        except ValueError as error:
            raise LevelError(f"A corridor is two cell numbers; got {level!r}.") from error
        return CorridorState(player=player, goal=goal)

    def dump(self, state: CorridorState) -> str:
        return f"{state.player} {state.goal}"

    def level_key(self, state: CorridorState) -> bytes:
        return self.dump(state).encode()

    def step(self, state: CorridorState, action: int, rng: np.random.Generator) -> tuple[CorridorState, bool]:
        moved = replace(state, player=min(max(state.player + action, 0), NUM_CELLS - 1))
        return moved, moved != state

    def is_success(self, state: CorridorState) -> bool:
        return state.player == state.goal

    def is_over(self, state: CorridorState) -> bool:
        return self.is_success(state)

    def plan(self, state: CorridorState) -> tuple[int, ...]:
        return (1 if state.goal > state.player else -1,) * abs(state.goal - state.player)


class CorridorView(View[CorridorState]):
    def image(self, state: CorridorState) -> npt.NDArray[np.uint8]:
        picture = np.zeros((CELL_PX, NUM_CELLS * CELL_PX, 3), np.uint8)
        for cell, color in ((state.goal, (0, 255, 0)), (state.player, (255, 0, 0))):
            picture[:, cell * CELL_PX : (cell + 1) * CELL_PX] = color
        return picture

    def structured(self, state: CorridorState) -> dict[str, Any]:
        return {"player_position": (0, state.player), "target_position": (0, state.goal)}

    def describe(self, state: CorridorState, representation: str) -> str:
        return f"The player is at (0, {state.player}). The goal is at (0, {state.goal})."


def read_move(text: str) -> int | None:
    return {"left": -1, "right": 1}.get(text.lower())


class CorridorTask(Task[CorridorState, int]):
    name = "Corridor"
    goal = "Walk to the goal."
    rules = ()
    grammar = ActionGrammar(parse=read_move, expected="Left or Right")
    action_names = ("Left", "Right")
    representation_help = dict.fromkeys(Task.representations, "")

    def write_action(self, action: int) -> str:
        return "Right" if action > 0 else "Left"

    def reward_terms(self, state: CorridorState, next_state: CorridorState, *, success: bool) -> dict[str, float]:
        return {"step": -0.1, "success": 10.0} if success else {"step": -0.1}

    def noop_terms(self) -> dict[str, float]:
        return {"step": -0.1}

    def best_return(self, state: CorridorState, num_actions: int) -> float:
        return 10.0 - 0.1 * num_actions


class CorridorWorld(World[CorridorState, int]):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(CorridorDynamics(), CorridorView(), CorridorTask(), **kwargs)
        self.set_picture_shape((CELL_PX, NUM_CELLS * CELL_PX, 3))


class FaultyWorld(CorridorWorld):
    """Obeys the responses "exit" (the process dies), "hang" (for `hang_s`) and "raise"; echoes all others."""

    hang_s = 30.0

    @property
    def unpicklable(self) -> Any:
        return (number for number in range(3))

    def __init__(self, *, reset_fault: str = "", **kwargs: Any) -> None:
        self.reset_fault = reset_fault
        super().__init__(**kwargs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if self.reset_fault == "raise":
            raise RuntimeError("the simulator did not come up")
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> Any:
        if action == "exit":
            os._exit(7)
        if action == "hang":
            time.sleep(self.hang_s)
        if action == "raise":
            raise RuntimeError("the simulator fell over")
        observation, *rest, info = super().step(action)
        observation["text"] += f"\nheard: {action}"
        return observation, *rest, info


class DeadlyWorld(CorridorWorld):
    """Kills its process when it is reset with one of these seeds; only the first time if there is a file to note it."""

    def __init__(self, *, deadly_seeds: tuple[int, ...] = (), noted_in: str = "", **kwargs: Any) -> None:
        self.deadly_seeds, self.noted_in = deadly_seeds, noted_in
        super().__init__(**kwargs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed in self.deadly_seeds and not (self.noted_in and os.path.exists(self.noted_in)):
            if self.noted_in:
                open(self.noted_in, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().reset(seed=seed, options=options)


class DyingWorld(CorridorWorld):
    """Kills its process while it is made, as many more times as its file has characters."""

    def __init__(self, *, deaths_in: str, **kwargs: Any) -> None:
        deaths = Path(deaths_in)
        if left := deaths.read_text():
            deaths.write_text(left[1:])
            os.kill(os.getpid(), signal.SIGKILL)
        super().__init__(**kwargs)


class Unmakable(CorridorWorld):
    def __init__(self) -> None:
        raise ValueError("no licence for this simulator")
