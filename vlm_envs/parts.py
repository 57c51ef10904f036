"""The three parts of a world: dynamics, view, and task."""

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
    """States and transitions. States are immutable, so every method is a pure function (given `rng`).

    Attributes:
        steps_are_cheap: Whether a search may try millions of steps; False if an engine executes each of them.
        splits_differ: Whether train, val, and test have different levels; False if every seed gives the same
            one.
        plans_are_shortest: Whether no other actions succeed sooner than a plan; False if, for example, the
            expert inspects the image before it answers, while a lucky guess succeeds immediately.
    """

    steps_are_cheap: bool = True
    splits_differ: bool = True
    plans_are_shortest: bool = True

    @abstractmethod
    def generate(self, rng: np.random.Generator, split: str) -> StateT:
        """Returns a new level of a split, with `rng` as the only source of randomness."""

    def num_levels(self, split: str) -> int | None:
        """Returns the number of listed levels in a split, such as a benchmark's items; None if levels are generated."""
        return None

    def level_at(self, index: int, split: str) -> StateT:
        """Returns a listed level of a split, counted from 0; called only if `num_levels` returns a number."""
        raise NotImplementedError(f"{type(self).__name__} lists no levels; num_levels({split!r}) should be None.")

    @abstractmethod
    def load(self, level: str) -> StateT:
        """Returns the state that a level text describes; raises `LevelError` if the text is not valid."""

    @abstractmethod
    def dump(self, state: StateT) -> str:
        """Returns the level text of a state, the inverse of `load`."""

    def level_split(self, level: str) -> str | None:
        """Returns the split a level text belongs to; None if several splits share the level, or it is unknown.

        By default, this is the split of its `level_key`. Override it if `generate` splits levels by another
        rule.

        Raises:
            LevelError: As `load`.
        """
        state = self.load(level)
        return split_of(self.level_key(state)) if self.splits_differ else None

    def level_key(self, state: StateT) -> bytes:
        """Returns canonical bytes of a level's content, equal for equal states only; by default those of its text."""
        return self.dump(state).encode()

    def cluster(self, state: StateT) -> str:
        """Returns the id of content that levels share, such as an image; by default empty, for no shared content."""
        return ""

    @abstractmethod
    def step(self, state: StateT, action: ActionT, rng: np.random.Generator) -> tuple[StateT, bool]:
        """Returns the next state and whether the action changed anything; `rng` is the only source of randomness."""

    @abstractmethod
    def is_success(self, state: StateT) -> bool:
        """Returns whether the task is solved."""

    def is_over(self, state: StateT) -> bool:
        """Returns whether the episode has ended, solved or not; by default, whether the task is solved."""
        return self.is_success(state)

    def is_out_of_time(self, state: StateT) -> bool:
        """Returns whether the world's own time limit, apart from turns and steps, truncates the episode here."""
        return False

    def plan(self, state: StateT) -> tuple[ActionT, ...] | None:
        """Returns an optimal plan, or None if there is none; by default, the world has no planner."""
        return None

    def suboptimal_plan(self, state: StateT) -> tuple[ActionT, ...] | None:
        """Returns a plan that overlooks the difficulty of the world, or None; by default the optimal plan.

        An expert with such a plan demonstrates perception and format without revealing the solution.
        """
        return self.plan(state)

    def cost_to_go(self, state: StateT) -> int | None:
        """Returns the length of an optimal plan, or None if there is none."""
        plan = self.plan(state)
        return None if plan is None else len(plan)

    def noop_turn(self, state: StateT) -> StateT:
        """Returns the state after a turn in which nothing could be carried out; by default the same state."""
        return state

    def close(self) -> None:
        """Releases an engine's resources (processes, windows, contexts); may be called repeatedly."""


class View(ABC, Generic[StateT]):
    """Shows a state as an image and in words.

    Attributes:
        tells_answer: Whether the state in words contains the correct answer, as the state of a question with
            its answer does.
    """

    tells_answer: ClassVar[bool] = False

    @abstractmethod
    def image(self, state: StateT) -> npt.NDArray[np.uint8]:
        """Returns the image of a state, uint8[H, W, 3]."""

    def images(self, state: StateT) -> tuple[npt.NDArray[np.uint8], ...] | None:
        """Returns several images, uint8[H, W, 3] each, shown instead of the single one; by default None."""
        return None

    @abstractmethod
    def structured(self, state: StateT) -> Mapping[str, Any]:
        """Returns the typed ground-truth state."""

    @abstractmethod
    def describe(self, state: StateT, representation: str) -> str:
        """Returns the ground-truth state in words of one representation."""

    def true_description(self, state: StateT, representation: str) -> str:
        """Returns a description of exactly what is visible in the image; by default the ground-truth state.

        Args:
            state: The state that is shown.
            representation: The most exact representation of the world.
        """
        return self.describe(state, representation)

    def close(self) -> None:
        """Releases a renderer's resources; may be called repeatedly."""


class Task(ABC, Generic[StateT, ActionT]):
    """The goal of a world, the syntax of its actions, and its rewards.

    Attributes:
        name: The task's name, for prompts.
        goal: One sentence.
        rules: Further sentences.
        grammar: Syntax of actions.
        action_names: Names of the actions, for prompts; None if they cannot be listed.
        representation_help: How the state is written, per representation, for prompts.
        representations: The representations this world has.
        formats: The strategies this world has, by name.
        opening: Kind of task, the first word of the first prompt.
        section_meaning: Description of each section of a response, for prompts.
        last_turn_note: Sentence in the prompt before the last turn.
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
        """Returns an action as text that the grammar can read; by default its `str`."""
        return str(action)

    @abstractmethod
    def reward_terms(self, state: StateT, next_state: StateT, *, success: bool) -> dict[str, float]:
        """Returns the named reward terms of one action, from the states before and after it.

        Args:
            state: State before the action.
            next_state: State after the action.
            success: Whether the task is then solved.
        """

    @abstractmethod
    def noop_terms(self) -> dict[str, float]:
        """Returns the named reward terms of a turn in which nothing could be carried out."""

    @abstractmethod
    def best_return(self, state: StateT, num_actions: int) -> float:
        """Returns the task return (without format rewards) of an optimal plan.

        Args:
            state: State at which the plan starts.
            num_actions: Length of the plan.
        """

    def instruction(self, state: StateT) -> str:
        """Returns this level's instruction in addition to the goal; part of the first observation, in every mode."""
        return ""

    def brief(self, state: StateT) -> tuple[str, ...]:
        """Returns this level's instruction in a few paragraphs, for people; by default the instruction's first line."""
        return tuple(self.instruction(state).splitlines()[:1])

    def solution(self, state: StateT, plan: Sequence[ActionT]) -> str:
        """Returns the correct solution, for people; by default the actions of a plan.

        Args:
            state: A level.
            plan: Actions that solve it, at least one.
        """
        separator = self.grammar.separator or ","
        return f"{separator} ".join(map(self.write_action, plan))

    def hint(self, state: StateT) -> str:
        """Returns information about the state for the agent; part of every observation, in every mode."""
        return ""

    def metrics(self, state: StateT) -> dict[str, float]:
        """Returns further metrics of a final state that an evaluation reports in addition to success, by name."""
        return {}

    def sample_action(self, state: StateT, rng: np.random.Generator) -> ActionT:
        """Returns a random valid action; by default one of `action_names`.

        Raises:
            ConfigError: If the actions have no names, in which case the task must override this method, or if
                the grammar cannot read one of the names.
        """
        if not self.action_names:
            raise ConfigError(f"{self.name} lists no actions; its task must override sample_action().")
        name = self.action_names[rng.integers(len(self.action_names))]
        action = self.grammar.parse(name)
        if action is None:
            raise ConfigError(f"`grammar.parse({name!r})` returned None, but {name!r} is in `action_names`.")
        return action

    def action_sections(self, actions: Sequence[ActionT], thoughts: Mapping[str, str]) -> dict[str, str]:
        """Returns the section of a response that contains a turn's actions, with its text; by default the answer.

        Args:
            actions: The turn's actions.
            thoughts: Text of the other sections, for strategies that write actions among their thoughts.
        """
        separator = self.grammar.separator
        return {"answer": (f"{separator} " if separator else "").join(map(self.write_action, actions))}

    def expert_sections(self, state: StateT, actions: Sequence[ActionT]) -> Mapping[str, str]:
        """Returns text that replaces an expert's usual text in sections of its response, by section."""
        return {}

    def seen_sections(self, state: StateT) -> Mapping[str, str]:
        """Returns thoughts that only describe what is seen, by section; by default empty.

        For strategies without a separate section for observations; the last of the sections must contain
        nothing else.
        """
        return {}

    def reasoning(self, state: StateT, actions: Sequence[ActionT], foresee: Callable[[int], StateT]) -> str:
        """Returns an expert's reasons for a turn; by default each action with its `explain` text.

        Args:
            state: State at the start of the turn.
            actions: The turn's actions.
            foresee: Returns the state after the given number of actions, which is simulated on demand.
        """
        return "; ".join(self.explain(action, foresee(number)) for number, action in enumerate(actions, start=1))

    def intention(self, state: StateT, plan: Sequence[ActionT]) -> str:
        """Returns the aim of an expert's whole plan, which includes the actions of this turn and of later ones.

        An expert that states its plan writes this before its reasons for a turn; empty by default.
        """
        return ""

    def explain(self, action: ActionT, next_state: StateT) -> str:
        """Returns why an action is taken, or where it leads, in a few words."""
        return self.write_action(action)
