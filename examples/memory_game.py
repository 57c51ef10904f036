"""A world with hidden state: cards lie face down, and the image shows only those that are face up.

Check it, in this folder: python -m vlm_envs check memory_game:Own/Memory-v0
Play it, in this folder:  python -m vlm_envs play memory_game:Own/Memory-v0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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

COLORS = {"red": (220, 60, 50), "green": (60, 170, 80), "blue": (60, 100, 220), "yellow": (250, 200, 40)}
NUM_CARDS = 2 * len(COLORS)
CARD_PX = 28
FACE_DOWN = (120, 120, 130)


@dataclass(frozen=True)  # frozen: states never change; a dataclass: equal states compare equal
class Cards:
    """All cards, the found pairs, and the cards turned last: at most two, which do not match."""

    colors: tuple[str, ...]
    found: frozenset[int] = frozenset()
    turned: frozenset[int] = frozenset()

    @property
    def visible(self) -> dict[int, str]:
        """The cards that the image shows."""
        return {card: self.colors[card] for card in sorted(self.found | self.turned)}


class MemoryDynamics(Dynamics[Cards, int]):
    """States and transitions. The planner knows the hidden cards, so it is an upper bound for players."""

    def generate(self, rng: np.random.Generator, split: str) -> Cards:
        while True:
            cards = Cards(tuple(map(str, rng.permutation([*COLORS] * 2))))
            if split_of(self.level_key(cards)) == split:
                return cards

    def load(self, level: str) -> Cards:
        colors = tuple(card.strip("*+") for card in level.split())
        if sorted(colors) != sorted([*COLORS] * 2):
            raise LevelError(f"A level is two cards of each color ({', '.join(COLORS)}); got {level!r}.")
        marks = [*enumerate(level.split())]
        return Cards(
            colors,
            frozenset(card for card, text in marks if text.endswith("+")),
            frozenset(card for card, text in marks if text.endswith("*")),
        )

    def dump(self, state: Cards) -> str:
        mark = {**dict.fromkeys(state.found, "+"), **dict.fromkeys(state.turned, "*")}
        return " ".join(color + mark.get(card, "") for card, color in enumerate(state.colors))

    def step(self, state: Cards, action: int, rng: np.random.Generator) -> tuple[Cards, bool]:
        open_cards = state.turned if len(state.turned) < 2 else frozenset()
        if action in state.found | open_cards:
            return state, False
        turned = open_cards | {action}
        if len(turned) == 2 and len({state.colors[card] for card in turned}) == 1:
            return replace(state, found=state.found | turned, turned=frozenset()), True
        return replace(state, turned=turned), True

    def is_success(self, state: Cards) -> bool:
        return len(state.found) == NUM_CARDS

    def plan(self, state: Cards) -> tuple[int, ...] | None:
        open_cards = state.turned if len(state.turned) < 2 else frozenset()
        colors_first = [state.colors[card] for card in open_cards] + [*COLORS]
        hidden = set(range(NUM_CARDS)) - state.found - open_cards
        return tuple(sorted(hidden, key=lambda card: (colors_first.index(state.colors[card]), card)))


class MemoryView(View[Cards]):
    """Shows and describes the cards that are face up, and keeps the others for `info["state"]`."""

    def image(self, state: Cards) -> npt.NDArray[np.uint8]:
        shown = [COLORS[state.visible[card]] if card in state.visible else FACE_DOWN for card in range(NUM_CARDS)]
        image = np.tile(np.array(shown, np.uint8).repeat(CARD_PX, axis=0), (CARD_PX, 1, 1))
        image[:, ::CARD_PX] = 0
        return image

    def structured(self, state: Cards) -> Mapping[str, Any]:
        return {"cards": list(state.colors), "visible": {str(card): color for card, color in state.visible.items()}}

    def describe(self, state: Cards, representation: str) -> str:
        return f"Face up: {', '.join(f'{card} {color}' for card, color in state.visible.items()) or 'no card'}."


class MemoryTask(Task[Cards, int]):
    """The goal, the action grammar, and the rewards."""

    name = "Memory"
    goal = "Find all pairs of cards of the same color."
    action_names = tuple(map(str, range(NUM_CARDS)))
    rules = (
        f"A number from 0 to {NUM_CARDS - 1}, from the left, turns that card face up.",
        "Two cards that match stay face up; two that do not are turned face down by the next action.",
    )
    grammar = ActionGrammar(
        parse=lambda text: int(text) if text in MemoryTask.action_names else None,
        expected=f"a card from 0 to {NUM_CARDS - 1}",
    )
    representations = ("natural_language",)
    representation_help = MappingProxyType({"natural_language": "Describe states by the cards that are face up."})

    def reward_terms(self, state: Cards, next_state: Cards, *, success: bool) -> dict[str, float]:
        return {"step": -0.1, "success": 10.0} if success else {"step": -0.1}

    def noop_terms(self) -> dict[str, float]:
        return {"step": -0.1}

    def best_return(self, state: Cards, num_actions: int) -> float:
        return 10.0 - 0.1 * num_actions


class MemoryWorld(World[Cards, int]):
    """Memory: find pairs of cards that lie face down, one action per turn by default, so that every card is seen."""

    def __init__(self, *, max_turns: int = 24, max_actions_per_turn: int = 1, **world_kwargs: Any) -> None:
        super().__init__(
            MemoryDynamics(),
            MemoryView(),
            MemoryTask(),
            max_turns=max_turns,
            max_actions_per_turn=max_actions_per_turn,
            **world_kwargs,
        )
        self.set_picture_shape((CARD_PX, NUM_CARDS * CARD_PX, 3))


vlm_envs.register("Own/Memory-v0", f"{__name__}:MemoryWorld")
