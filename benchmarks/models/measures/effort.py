"""How much an episode took beyond what it needed: over optimal, regret of every turn, and where a level was lost.

All of it compares with an optimal plan, so it is exact where the world has a solver, and None where it has none. On
slippery ice, what chance adds is counted too. What follows after nothing is left to do, in a world that goes on all the
same, is no effort. In worlds that ask nobody knows an optimal plan: an expert shows a way to the answer, and a guess is
shorter.
"""

from __future__ import annotations

import math

from vlm_envs.records.json_lines import Record


def actions_over_optimal(episode: Record) -> float | None:
    """Returns the actions a solved episode carried out, over those of an optimal plan; None where nobody knows one."""
    needed = _needed(episode)
    return sum(len(turn["actions"]) for turn in _until_solved(episode)) / needed if needed else None


def turns_to_success(episode: Record) -> int:
    """Returns the turns that a solved episode took."""
    return len(_until_solved(episode))


def turns_over_optimal(episode: Record, actions_per_turn: int | None) -> float | None:
    """Returns the turns a solved episode took, over those in which an optimal plan can be carried out.

    Args:
        episode: As a board stores it.
        actions_per_turn: Most actions of a turn; None where nobody knows.

    Returns:
        The ratio, at least 1; None where nobody knows a plan or how many actions a turn has.
    """
    needed = _needed(episode)
    if not needed or not actions_per_turn:
        return None
    return turns_to_success(episode) / math.ceil(needed / actions_per_turn)


def regrets(episode: Record) -> list[float | None]:
    """Returns the actions each turn wasted: those it carried out, and how many fewer are needed than before it.

    Returns:
        One number a turn, 0 for a part of an optimal plan; None where nobody knows a plan, where nothing was done or
        left to do, and for the turn that made the level unsolvable, for which no number of actions makes up.
    """
    return [None if _ruins(episode, index) else _wasted(episode, index) for index in range(len(episode["turns"]))]


def ruined_at(episode: Record) -> int | None:
    """Returns the index of the turn that made the level unsolvable, or ended it unsolved; None if none did."""
    return next((index for index in range(len(episode["turns"])) if _ruins(episode, index)), None)


def is_solver_known(episode: Record) -> bool:
    """Returns whether the world said of any turn how far the level was from its solution."""
    return any(_optimal(turn) is not None for turn in episode["turns"])


def _needed(episode: Record) -> int | None:
    return _optimal(episode["turns"][0]) if episode["turns"] else None


def _optimal(turn: Record) -> int | None:
    """Returns the length of an optimal plan before a turn; None where nobody knows one."""
    is_asked = "sample_id" in (turn.get("state") or {})
    return None if is_asked else turn["optimal_actions_before"]


def _until_solved(episode: Record) -> list[Record]:
    """Returns the turns up to the one that left nothing to do."""
    turns: list[Record] = episode["turns"]
    end = next((number for number, turn in enumerate(turns, 1) if turn["optimal_actions_left"] == 0), len(turns))
    return turns[:end]


def _wasted(episode: Record, index: int) -> float | None:
    turn = episode["turns"][index]
    before, left = _optimal(turn), turn["optimal_actions_left"]
    if _solves(episode, index):
        left = 0  # Whatever a world says of a plan from its end
    return (
        None
        if not before or left is None or not turn["actions"]
        else max(0.0, float(len(turn["actions"]) + left - before))
    )


def _ruins(episode: Record, index: int) -> bool:
    turn = episode["turns"][index]
    if _optimal(turn) is None or _solves(episode, index):
        return False
    return turn["optimal_actions_left"] is None or bool(turn["terminated"])


def _solves(episode: Record, index: int) -> bool:
    return bool(episode["success"]) and index == len(episode["turns"]) - 1
