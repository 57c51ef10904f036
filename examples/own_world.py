"""A complete world of your own: a row of bulbs, in which a switch flips its bulb and the neighbors.

Check it, in this folder: python -m vlm_envs check own_world:Own/Bulbs-v0
Play it, in this folder:  python -m vlm_envs play own_world:Own/Bulbs-v0
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import combinations
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

import vlm_envs
from vlm_envs.errors import LevelError
from vlm_envs.parts import Dynamics, Task, View
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.splits import split_of
from vlm_envs.world import World

NUM_BULBS = 9
CELL_PX = 28
LIT_COLOR, DARK_COLOR = (255, 210, 60), (70, 70, 80)
Bulbs = tuple[bool, ...]  # True is lit. A tuple cannot change, so every method below is a pure function.


def press(bulbs: Bulbs, switch: int) -> Bulbs:
    """Returns the row after pressing one switch."""
    return tuple(lit != (abs(i - switch) <= 1) for i, lit in enumerate(bulbs))


class BulbDynamics(Dynamics[Bulbs, int]):
    """States and transitions."""

    def generate(self, rng: np.random.Generator, split: str) -> Bulbs:
        while True:
            bulbs = tuple(bool(bit) for bit in rng.integers(0, 2, NUM_BULBS))
            if not all(bulbs) and split_of(self.level_key(bulbs)) == split:
                return bulbs

    def load(self, level: str) -> Bulbs:
        text = level.strip()
        if len(text) != NUM_BULBS or set(text) - set("*."):
            raise LevelError(f"A level is {NUM_BULBS} of '*' (lit) and '.' (dark); got {level!r}.")
        return tuple(symbol == "*" for symbol in text)

    def dump(self, state: Bulbs) -> str:
        return "".join("*" if lit else "." for lit in state)

    def level_key(self, state: Bulbs) -> bytes:
        return self.dump(state).encode()

    def step(self, state: Bulbs, action: int, rng: np.random.Generator) -> tuple[Bulbs, bool]:
        return press(state, action), True

    def is_success(self, state: Bulbs) -> bool:
        return all(state)

    def is_over(self, state: Bulbs) -> bool:
        return all(state)

    def plan(self, state: Bulbs) -> tuple[int, ...] | None:
        for num_presses in range(NUM_BULBS + 1):
            for switches in combinations(range(NUM_BULBS), num_presses):
                pressed: Bulbs = reduce(press, switches, state)
                if all(pressed):
                    return switches
        return None


class BulbView(View[Bulbs]):
    """Renders states as images and describes them in words."""

    def image(self, state: Bulbs) -> npt.NDArray[np.uint8]:
        colors = np.array([LIT_COLOR if lit else DARK_COLOR for lit in state], np.uint8)
        image = np.tile(colors.repeat(CELL_PX, axis=0), (CELL_PX, 1, 1))
        image[:, ::CELL_PX] = 0  # A black line left of every bulb separates equal neighbors.
        return image

    def structured(self, state: Bulbs) -> Mapping[str, Any]:
        return {"lit_bulbs": [i for i, lit in enumerate(state) if lit]}

    def describe(self, state: Bulbs, representation: str) -> str:
        return f"Lit bulbs: {self.structured(state)['lit_bulbs']}."


class BulbTask(Task[Bulbs, int]):
    """The goal, the action grammar, and the rewards."""

    name = "Bulbs"
    goal = "Light every bulb."
    action_names = tuple(map(str, range(NUM_BULBS)))
    rules = (f"Switches 0 to {NUM_BULBS - 1}, from the left, each flip their own bulb and its neighbours.",)
    grammar = ActionGrammar(
        parse=lambda text: int(text) if text in map(str, range(NUM_BULBS)) else None,
        expected=f"a switch from 0 to {NUM_BULBS - 1}",
    )
    representations = ("natural_language",)
    representation_help = MappingProxyType({"natural_language": "Describe states by the lit bulbs."})

    def write_action(self, action: int) -> str:
        return str(action)

    def reward_terms(self, state: Bulbs, next_state: Bulbs, *, success: bool) -> dict[str, float]:
        return {"step": -0.1, "success": 10.0} if success else {"step": -0.1}

    def noop_terms(self) -> dict[str, float]:
        return {"step": -0.1}

    def best_return(self, state: Bulbs, num_actions: int) -> float:
        return 10.0 - 0.1 * num_actions


class BulbWorld(World[Bulbs, int]):
    """Bulbs: light a row of bulbs whose switches also flip the neighbors."""

    def __init__(self, **world_kwargs: Any) -> None:
        super().__init__(BulbDynamics(), BulbView(), BulbTask(), **world_kwargs)
        self.set_picture_shape((CELL_PX, NUM_BULBS * CELL_PX, 3))


vlm_envs.register("Own/Bulbs-v0", f"{__name__}:BulbWorld")
