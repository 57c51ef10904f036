"""What the grid worlds' tasks share: four moves, written by name."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping

from vlm_envs.parts import Task
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.worlds.grids.directions import Direction
from vlm_envs.worlds.grids.state import GridStateT

_BY_NAME = {direction.title.lower(): int(direction) for direction in Direction}
ACTION_NAMES = tuple(direction.title for direction in Direction)


def parse_direction(text: str) -> int | None:
    """Returns the action a name stands for, whatever its case, or None."""
    return _BY_NAME.get(text.lower())


STEP_PENALTY = -0.1


class GridTask(Task[GridStateT, int], ABC):
    """A task whose actions are Up, Down, Left and Right."""

    action_names = ACTION_NAMES
    grammar = ActionGrammar(parse=parse_direction, separator=",", expected="one of " + ", ".join(ACTION_NAMES))

    def write_action(self, action: int) -> str:
        """Returns the direction's name."""
        return Direction(action).title

    def noop_terms(self) -> dict[str, float]:
        """Returns one step's penalty: doing nothing is never free."""
        return {"step": STEP_PENALTY}

    def explain(self, action: int, next_state: GridStateT) -> str:
        """Returns the move and where it leads."""
        return f"{self.write_action(action)} to {next_state.player}"


NATURAL_LANGUAGE_HELP = "Describe states by how things lie to each other, such as: {example}"
SYMBOLIC_HELP = "Write states as rows of symbols: {symbols}."
STRUCTURED_HELP = "Write states as {example} with (row, column) from the top left, counting from 0."


def representation_help(*, natural_language: str, symbols: str, structured: str) -> Mapping[str, str]:
    """Returns one sentence per representation on how to write states, from a world's own examples."""
    return {
        "natural_language": NATURAL_LANGUAGE_HELP.format(example=natural_language),
        "symbolic": SYMBOLIC_HELP.format(symbols=symbols),
        "structured": STRUCTURED_HELP.format(example=structured),
    }
