"""Navigation's dynamics in procedural homes: levels in, actions out, and an exact oracle beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlm_envs.content.homes.free_space import free_space
from vlm_envs.content.homes.home import plan_bytes
from vlm_envs.errors import LevelError
from vlm_envs.parts import Dynamics
from vlm_envs.splits import split_of
from vlm_envs.worlds.navigation import generator, paths
from vlm_envs.worlds.navigation.actions import Action
from vlm_envs.worlds.navigation.state import NavigationState, level_text, parse_level


class HomeDynamics(Dynamics[NavigationState, Action]):
    """The rules of one configuration; holds no state of an episode.

    Args:
        rules: What decides about moves and success.
        wanted: What kind of searches are generated.
    """

    def __init__(self, rules: paths.Rules, wanted: generator.Wanted) -> None:
        self.rules, self.wanted = rules, wanted

    def generate(self, rng: np.random.Generator, split: str) -> NavigationState:
        """Returns a random search in a home whose floor plan belongs to a split.

        Raises:
            GenerationError: If no search of the wanted kind was found.
        """
        return generator.generate(rng, split, self.wanted, self.rules)

    def load(self, level: str) -> NavigationState:
        """Returns the search a level text describes; the length of its shortest plan is free.

        Raises:
            LevelError: If the text cannot be read, or the search is over already or cannot be solved.
        """
        state = parse_level(level)
        if not free_space(state.home, self.rules.num_steps).is_free_at((state.pose.x, state.pose.y)):
            raise LevelError(f"The agent cannot stand at {state.pose[:2]}: a wall or furniture is there.")
        if self.is_success(state):
            raise LevelError("The agent must not start where the target counts as found; move its pose away.")
        if self.cost_to_go(state) is None:
            raise LevelError("No way leads to the target; move the furniture (things) or the agent's pose.")
        return state

    def dump(self, state: NavigationState) -> str:
        """Returns the search as JSON; `load` reads it back."""
        return level_text(state)

    def level_split(self, level: str) -> str:
        """Returns the split of the home's floor plan."""
        home = self.load(level).home
        return split_of(plan_bytes(home.rooms, home.doors))

    def level_key(self, state: NavigationState) -> bytes:
        """Returns canonical bytes of the search's content: the home's digest, the pose, the target, the sentence."""
        return state.home.key + repr((*state.pose, state.target, state.instruction)).encode()

    def step(self, state: NavigationState, action: Action, rng: np.random.Generator) -> tuple[NavigationState, bool]:
        """Carries out an action; a move into a wall or furniture, and a tilt beyond 60 degrees, change nothing."""
        pose = paths.act(state.pose, action, free_space(state.home, self.rules.num_steps))
        return (state, False) if pose is state.pose else (replace(state, pose=pose), True)

    def is_success(self, state: NavigationState) -> bool:
        """Returns whether the target is near enough and, where the rules ask for it, seen."""
        return paths.is_success(state.home, state.target, state.pose, self.rules)

    def plan(self, state: NavigationState) -> tuple[Action, ...] | None:
        """Returns a plan of the fewest actions, or None if there is none."""
        return paths.plan(state, self.rules)

    def suboptimal_plan(self, state: NavigationState) -> tuple[Action, ...] | None:
        """Returns the shortest plan in the unfurnished home, which may walk into furniture."""
        return paths.plan(state, self.rules, with_furniture=False)

    def cost_to_go(self, state: NavigationState) -> int | None:
        """Returns the fewest actions left, or None if the target is out of reach."""
        return paths.cost_to_go(state, self.rules)
