"""What the judges of whole episodes read in a trajectory of a question-answering world.

They read nothing but what the world recorded: the model's own pieces, one per turn and cut where generation counts as
over, whether each was in the format, the final state, and the pictures that came with the question. What tools said is
in none of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vlm_envs.responses.answers import AnswerKey
from vlm_envs.responses.formats import QA_FORMATS
from vlm_envs.responses.numbers import read_number
from vlm_envs.tools.coordinates import WrittenBox, written_extent
from vlm_envs.trajectory import Trajectory, observation_images


def final_state(trajectory: Trajectory) -> Mapping[str, Any]:
    """Returns the world's state dict after the last turn: question, answer and truth in a question-answering world."""
    state: Mapping[str, Any] = trajectory.turns[-1].info["state"]
    return state


def strategy_of(trajectory: Trajectory) -> str:
    """Returns the strategy (prompt format) an episode was played with."""
    return str(trajectory.turns[-1].info["prompt_format"])


def shown_images(trajectory: Trajectory) -> tuple[npt.NDArray[np.uint8], ...]:
    """Returns the pictures that were shown with the question, each uint8[height, width, 3]; for models that look."""
    return observation_images(trajectory.turns[0].observation)


def formats_correct(trajectory: Trajectory) -> tuple[bool, ...]:
    """Returns whether each response was in the format."""
    return tuple(bool(turn.info.get("format_correct")) for turn in trajectory.turns)


def own_pieces(trajectory: Trajectory) -> tuple[str, ...]:
    """Returns the responses, each cut where it counts as over; in worlds that do not ask they count as a whole."""
    response_format = QA_FORMATS.get(strategy_of(trajectory))
    texts = (turn.response_text for turn in trajectory.turns)
    if response_format is None:
        return tuple(texts)
    return tuple(response_format.at(number).cut(text) for number, text in enumerate(texts))


def query_id(trajectory: Trajectory) -> str:
    """Returns a name of the question among all data sets of a run: sample's id, and what is shown, asked and right.

    Ids alone are the same for tables of one name in two folders. In a world without samples it is the start state's.
    """
    state = final_state(trajectory)
    if "sample_id" not in state:
        return f"{trajectory.env_id} {trajectory.start_state_hash or trajectory.seed}"
    names = (state["sample_id"], state.get("sample_digest"), state.get("truth_digest"))
    return " ".join(str(name) for name in names if name)


def key_of(trajectory: Trajectory) -> AnswerKey:
    """Returns the truth; an answer compared by similarity is compared so."""
    state = final_state(trajectory)
    return AnswerKey(
        kind=state["answer_kind"],
        answers=tuple(state["answers"]),
        options=tuple(state["options"]),
        question=state["question"],
        tolerance=state.get("tolerance"),
    )


def num_objects(trajectory: Trajectory) -> int | None:
    """Returns the true count, where the question asks for one."""
    key = key_of(trajectory)
    if key.kind != "number" or not str(final_state(trajectory)["category"]).startswith("count"):
        return None
    count = read_number(key.answers[0])
    return int(count) if count is not None and count >= 0 and count.is_integer() else None


def box_extent(trajectory: Trajectory) -> tuple[int, int]:
    """Returns width and height of the first picture in the units in which boxes are written.

    Raises:
        ValueError: If the episode shows no picture.
    """
    extent = written_extent(final_state(trajectory))
    if extent is None:
        raise ValueError("The episode shows no picture, so nothing can be written in its coordinates.")
    return int(extent[0]), int(extent[1])


def point_extent(trajectory: Trajectory) -> tuple[float, float] | None:
    """Returns width and height of a picture in the units in which points are written; None without a picture."""
    return written_extent({**final_state(trajectory), "strategy": "points"})


def true_boxes(trajectory: Trajectory) -> tuple[WrittenBox, ...]:
    """Returns boxes of what the answer rests on, in the strategy's space."""
    return tuple(WrittenBox(*each["box"]) for each in final_state(trajectory)["evidence"])
