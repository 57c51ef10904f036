"""The eight actions and how they are written."""

from __future__ import annotations

from enum import IntEnum

from vlm_envs.responses.parsing import ActionGrammar


class Action(IntEnum):
    """What the agent can do. Source: VAGEN, Table 10."""

    MOVE_AHEAD = 0
    MOVE_RIGHT = 1
    MOVE_BACK = 2
    MOVE_LEFT = 3
    ROTATE_RIGHT = 4
    ROTATE_LEFT = 5
    LOOK_UP = 6
    LOOK_DOWN = 7

    @property
    def title(self) -> str:
        """The action as it is written, e.g. `"moveahead"`."""
        return self.name.replace("_", "").lower()

    @property
    def is_move(self) -> bool:
        """Whether it changes the place; a move's number is its quarter turns clockwise from ahead."""
        return self <= Action.MOVE_LEFT


ACTIONS = tuple(Action)
ACTION_NAMES = tuple(
    action.title
    for action in (
        Action.MOVE_AHEAD,
        Action.MOVE_BACK,
        Action.MOVE_RIGHT,
        Action.MOVE_LEFT,
        Action.ROTATE_RIGHT,
        Action.ROTATE_LEFT,
        Action.LOOK_UP,
        Action.LOOK_DOWN,
    )
)
"""The names in the order of the paper's prompt."""

_BY_NAME = {action.title: action for action in Action}


def parse_action(text: str) -> Action | None:
    """Returns the action a name stands for, whatever its case, or None."""
    return _BY_NAME.get(text.lower())


GRAMMAR = ActionGrammar(parse=parse_action, separator=",", expected="one of " + ", ".join(ACTION_NAMES))
