"""Reads trajectories of question-answering worlds for episode rewards.

Only the world's records are read: the model's own pieces, one per turn and cut where the response counts as complete,
their format flags, the final state, and the images shown with the question. None of these contains tool output.
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
    """Returns the strategy (prompt format) that an episode was played with."""
    return str(trajectory.turns[-1].info["prompt_format"])


def shown_images(trajectory: Trajectory) -> tuple[npt.NDArray[np.uint8], ...]:
    """Returns the images that were shown with the question, each uint8[height, width, 3]."""
    return observation_images(trajectory.turns[0].observation)


def formats_correct(trajectory: Trajectory) -> tuple[bool, ...]:
    """Returns whether each response had the right format."""
    return tuple(bool(turn.info.get("format_correct")) for turn in trajectory.turns)


def own_pieces(trajectory: Trajectory) -> tuple[str, ...]:
    """Returns the responses, each cut where it counts as complete; uncut in worlds without questions."""
    response_format = QA_FORMATS.get(strategy_of(trajectory))
    texts = (turn.response_text for turn in trajectory.turns)
    if response_format is None:
        return tuple(texts)
    return tuple(response_format.at(number).cut(text) for number, text in enumerate(texts))


def query_id(trajectory: Trajectory) -> str:
    """Returns an id of the question that is unique among all datasets of a run.

    It combines the sample id with digests of the images, question, and truth, because tables of one name in two folders
    share sample ids. In a world without samples it identifies the start state.
    """
    state = final_state(trajectory)
    if "sample_id" not in state:
        return f"{trajectory.env_id} {trajectory.start_state_hash or trajectory.seed}"
    names = (state["sample_id"], state.get("sample_digest"), state.get("truth_digest"))
    return " ".join(str(name) for name in names if name)


def key_of(trajectory: Trajectory) -> AnswerKey:
    """Returns the answer key: the truth and the kind of comparison."""
    state = final_state(trajectory)
    return AnswerKey(
        kind=state["answer_kind"],
        answers=tuple(state["answers"]),
        options=tuple(state["options"]),
        question=state["question"],
        tolerance=state.get("tolerance"),
    )


def num_objects(trajectory: Trajectory) -> int | None:
    """Returns the true count; None if the question does not ask for one."""
    key = key_of(trajectory)
    if key.kind != "number" or not str(final_state(trajectory)["category"]).startswith("count"):
        return None
    count = read_number(key.answers[0])
    return int(count) if count is not None and count >= 0 and count.is_integer() else None


def box_extent(trajectory: Trajectory) -> tuple[int, int]:
    """Returns the width and height of the first image in the units of written boxes.

    Raises:
        ValueError: The episode shows no image.
    """
    extent = written_extent(final_state(trajectory))
    if extent is None:
        raise ValueError("The episode shows no image, so there are no coordinates to write boxes in.")
    return int(extent[0]), int(extent[1])


def point_extent(trajectory: Trajectory) -> tuple[float, float] | None:
    """Returns the width and height of an image in the units of written points; None without an image."""
    return written_extent({**final_state(trajectory), "strategy": "points"})


def true_boxes(trajectory: Trajectory) -> tuple[WrittenBox, ...]:
    """Returns the boxes of the answer's evidence, in the strategy's coordinate space."""
    return tuple(WrittenBox(*evidence["box"]) for evidence in final_state(trajectory)["evidence"])
