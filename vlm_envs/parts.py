"""The three parts a world is made of: dynamics, view and task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import FORMATS, REPRESENTATIONS, SECTION_MEANING, ResponseFormat
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.splits import split_of

StateT = TypeVar("StateT")
ActionT = TypeVar("ActionT")


class Dynamics(ABC, Generic[StateT, ActionT]):
    """States and how they change. States are immutable, so every method is a pure function (of `rng`).

    Attributes:
        steps_are_cheap: Whether a search may try millions of steps; not so where an engine takes each of them.
        splits_differ: Whether train, val, and test have different levels; not so where every seed gives the same one.
        plans_are_shortest: Whether no other actions succeed sooner than a plan; not so where the expert looks before
            it answers, while a lucky guess succeeds at once.
    """

    steps_are_cheap: bool = True
    splits_differ: bool = True
    plans_are_shortest: bool = True

    @abstractmethod
    def generate(self, rng: np.random.Generator, split: str) -> StateT:
        """Returns a new level of a split, drawn with `rng` only."""

    def num_levels(self, split: str) -> int | None:
        """Returns how many levels a split has where they are listed, as a benchmark's items are; None where drawn."""
        return None

    def level_at(self, index: int, split: str) -> StateT:
        """Returns a listed level of a split, counted from 0; only called where `num_levels` says how many."""
        raise NotImplementedError(f"{type(self).__name__} lists no levels; num_levels({split!r}) should be None.")

    @abstractmethod
    def load(self, level: str) -> StateT:
        """Returns the state a level text describes; raises `LevelError` when it cannot."""

    @abstractmethod
    def dump(self, state: StateT) -> str:
        """Returns the level text of a state, the inverse of `load`."""

    def level_split(self, level: str) -> str | None:
        """Returns the split a level text belongs to; None if several splits share the level, or it is unknown.

        By default the split of its `level_key`. Override it if `generate` splits levels by another rule.

        Raises:
            LevelError: As `load`.
        """
        state = self.load(level)
        return split_of(self.level_key(state)) if self.splits_differ else None

    def level_key(self, state: StateT) -> bytes:
        """Returns canonical bytes of a level's content, equal for equal states only; by default those of its text."""
        return self.dump(state).encode()

    def cluster(self, state: StateT) -> str:
        """Returns the id of content that other levels share, such as an image; empty by default: levels share none."""
        return ""

    @abstractmethod
    def step(self, state: StateT, action: ActionT, rng: np.random.Generator) -> tuple[StateT, bool]:
        """Returns the next state and whether the action changed anything; all chance is of the episode's `rng`."""

    @abstractmethod
    def is_success(self, state: StateT) -> bool:
        """Returns whether the task is solved."""

    def is_over(self, state: StateT) -> bool:
        """Returns whether the world has ended, solved or not; by default, once it is solved."""
        return self.is_success(state)

    def is_out_of_time(self, state: StateT) -> bool:
        """Returns whether a time limit of the world itself, besides turns and steps, truncates the episode here."""
        return False

    def plan(self, state: StateT) -> tuple[ActionT, ...] | None:
        """Returns an optimal plan, or None if there is none; by default, the world has no planner."""
        return None

    def suboptimal_plan(self, state: StateT) -> tuple[ActionT, ...] | None:
        """Returns a plan that overlooks what makes the world hard, or None; by default the optimal plan.

        An expert that plans like this shows how to see and write without giving the solution away.
        """
        return self.plan(state)

    def cost_to_go(self, state: StateT) -> int | None:
        """Returns the length of an optimal plan, or None when there is none."""
        plan = self.plan(state)
        return None if plan is None else len(plan)

    def noop_turn(self, state: StateT) -> StateT:
        """Returns the state after a turn in which nothing could be carried out; by default nothing changes."""
        return state

    def close(self) -> None:
        """Lets go of what an engine holds (processes, windows, contexts); harmless to call twice."""


class View(ABC, Generic[StateT]):
    """State to picture, and state to words.

    Attributes:
        tells_answer: Whether the state in words says what would be right, as that of a question with its answer does.
    """

    tells_answer: ClassVar[bool] = False

    @abstractmethod
    def image(self, state: StateT) -> npt.NDArray[np.uint8]:
        """Returns the picture, uint8[H, W, 3]."""

    def images(self, state: StateT) -> tuple[npt.NDArray[np.uint8], ...] | None:
        """Returns several pictures, uint8[H, W, 3] each, to be shown instead of the one; by default None."""
        return None

    @abstractmethod
    def structured(self, state: StateT) -> Mapping[str, Any]:
        """Returns the typed ground-truth state."""

    @abstractmethod
    def describe(self, state: StateT, representation: str) -> str:
        """Returns the ground-truth state in words of one representation."""

    def true_description(self, state: StateT, representation: str) -> str:
        """Returns what a perfect eye sees in the picture, and no more; by default the ground-truth state.

        Args:
            state: What is shown.
            representation: The most exact one that the world has.
        """
        return self.describe(state, representation)

    def close(self) -> None:
        """Lets go of what a renderer holds; harmless to call twice."""


class Task(ABC, Generic[StateT, ActionT]):
    """What to achieve, how actions are written and what is rewarded.

    Attributes:
        name: The game's name, for prompts.
        goal: One sentence.
        rules: Further sentences.
        grammar: How actions are written.
        action_names: What the actions are called, for prompts; None when they cannot be listed.
        representation_help: How the state is written, per representation, for prompts.
        representations: The representations this world has.
        formats: The strategies this world has, by name.
        opening: What kind of thing this is, the first word of the first prompt.
        section_meaning: What belongs into each section of a response, for prompts.
        last_turn_note: What the prompt says before the last turn.
    """

    name: str
    goal: str
    rules: tuple[str, ...]
    grammar: ActionGrammar[ActionT]
    action_names: tuple[str, ...] | None = None
    representation_help: Mapping[str, str]
    representations: tuple[str, ...] = REPRESENTATIONS
    formats: Mapping[str, ResponseFormat] = FORMATS
    opening: str = "Game"
    section_meaning: Mapping[str, str] = SECTION_MEANING
    last_turn_note: str = ""

    def write_action(self, action: ActionT) -> str:
        """Returns an action as the grammar reads it; by default its `str`."""
        return str(action)

    @abstractmethod
    def reward_terms(self, state: StateT, next_state: StateT, *, success: bool) -> dict[str, float]:
        """Returns the named reward parts of one action, from the states before and after it.

        Args:
            state: Before the action.
            next_state: After it.
            success: Whether the task is solved then.
        """

    @abstractmethod
    def noop_terms(self) -> dict[str, float]:
        """Returns the named reward parts of a turn in which nothing could be carried out."""

    @abstractmethod
    def best_return(self, state: StateT, num_actions: int) -> float:
        """Returns the task return (format rewards left out) of an optimal plan.

        Args:
            state: Where the plan starts.
            num_actions: Its length.
        """

    def instruction(self, state: StateT) -> str:
        """Returns what this level asks for beyond the goal; part of the first observation, in every mode."""
        return ""

    def brief(self, state: StateT) -> tuple[str, ...]:
        """Returns what this level asks for in a few paragraphs, for people; by default the instruction's first line."""
        return tuple(self.instruction(state).splitlines()[:1])

    def solution(self, state: StateT, plan: Sequence[ActionT]) -> str:
        """Returns what would be right, for people; by default the actions of a plan.

        Args:
            state: A level.
            plan: What solves it, at least one action.
        """
        separator = self.grammar.separator or ","
        return f"{separator} ".join(map(self.write_action, plan))

    def hint(self, state: StateT) -> str:
        """Returns what the task tells the agent about the state; part of every observation, in every mode."""
        return ""

    def metrics(self, state: StateT) -> dict[str, float]:
        """Returns what an evaluation reports about a final state besides success, by name."""
        return {}

    def sample_action(self, state: StateT, rng: np.random.Generator) -> ActionT:
        """Returns a random valid action; by default one of `action_names`.

        Raises:
            ConfigError: If the actions have no names; such a task overrides this method. If the grammar does not read
                one of the names.
        """
        if not self.action_names:
            raise ConfigError(f"{self.name} lists no actions; its task must override sample_action().")
        name = self.action_names[rng.integers(len(self.action_names))]
        action = self.grammar.parse(name)
        if action is None:
            raise ConfigError(f"`grammar.parse({name!r})` returned None, but {name!r} is in `action_names`.")
        return action

    def action_sections(self, actions: Sequence[ActionT], thoughts: Mapping[str, str]) -> dict[str, str]:
        """Returns the section of a response that holds a turn's actions, with its text; by default the answer.

        Args:
            actions: The turn's actions.
            thoughts: Text of the other sections, for strategies that write actions among their thoughts.
        """
        separator = self.grammar.separator
        return {"answer": (f"{separator} " if separator else "").join(map(self.write_action, actions))}

    def expert_sections(self, state: StateT, actions: Sequence[ActionT]) -> Mapping[str, str]:
        """Returns what an expert writes into sections of its response in place of the usual, by section."""
        return {}

    def seen_sections(self, state: StateT) -> Mapping[str, str]:
        """Returns thoughts that tell what is seen and nothing else, by section; by default there are none.

        For strategies without a section of its own for it; the last of them may hold nothing else.
        """
        return {}

    def reasoning(self, state: StateT, actions: Sequence[ActionT], foresee: Callable[[int], StateT]) -> str:
        """Returns an expert's reasons for a turn; by default each action with what `explain` says of it.

        Args:
            state: Where the turn starts.
            actions: The turn's actions.
            foresee: From a number of actions to the state that the first so many lead to; simulated when asked.
        """
        return "; ".join(self.explain(action, foresee(number)) for number, action in enumerate(actions, start=1))

    def intention(self, state: StateT, plan: Sequence[ActionT]) -> str:
        """Returns what an expert wants to come to by its whole plan, this turn's actions and those of later ones.

        An expert that tells its plan says so before its reasons for a turn; by default there is nothing to say.
        """
        return ""

    def explain(self, action: ActionT, next_state: StateT) -> str:
        """Returns why an action is taken, or where it leads, in a few words."""
        return self.write_action(action)
