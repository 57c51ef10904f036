"""An episode as run data: text, numbers and the names of pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from training.json_lines import Record
from vlm_envs.grids.descriptions import structured_text
from vlm_envs.trajectory import Observation, Trajectory, Turn


def episode_record(
    trajectory: Trajectory,
    shaping: Sequence[Mapping[str, float]],
    save_image: Callable[[npt.NDArray[np.uint8]], str],
) -> Record:
    """Returns an episode as it is stored: text, numbers and the names of pictures.

    Args:
        trajectory: The episode.
        shaping: The named shaping rewards of each turn.
        save_image: Stores a picture, uint8[H, W, 3], and returns its name.

    Returns:
        The record. `state` and `state_text` are of the state the agent saw, `state_text_after` is of the
        one its actions led to. `state_text` is None where the trajectory does not say it: on the first
        turn, unless states are written in the structured representation.
    """

    def shown(observation: Observation) -> Record:
        single = (observation["image"],) if "image" in observation else ()
        images = (*single, *observation.get("images", ()))
        return {"text": observation.get("text", ""), "images": [save_image(image) for image in images]}

    records: list[Record] = []
    state_text = _first_state_text(trajectory.turns[0])
    for turn, terms in zip(trajectory.turns, shaping, strict=True):
        info = turn.info
        records.append(
            shown(turn.observation)
            | {
                "response": turn.response_text,
                "stop_reason": turn.stop_reason,
                "sections": info.get("sections") or {},
                "actions": info.get("actions") or (),
                "reward": turn.reward,
                "reward_terms": turn.reward_terms,
                "shaping": terms,
                "state": turn.state,
                "state_text": state_text,
                "state_text_after": info.get("state_text"),
                "parse_error": info.get("parse_error"),
                "worker_error": info.get("worker_error"),
                "terminated": turn.terminated,
                "truncated": turn.truncated,
                "optimal_actions_left": info.get("optimal_actions_left"),
            }
        )
        state_text = info.get("state_text")
    return {
        "env_id": trajectory.env_id,
        "seed": trajectory.seed,
        "success": trajectory.success,
        "total_reward": trajectory.total_reward,
        "policy_version": trajectory.policy_version,
        "turns": records,
        "final": shown(trajectory.final_observation),
    }


def episode_keys(episodes: Iterable[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    """Names each episode by world, seed and how many episodes with both came before it.

    Equal keys of two evaluations are the same level, which makes them pairs. Keys are distinct within one
    list.
    """
    counts: Counter[tuple[str, int]] = Counter()
    keys = []
    for episode in episodes:
        level = (str(episode["env_id"]), int(episode["seed"]))
        keys.append((*level, counts[level]))
        counts[level] += 1
    return keys


def _first_state_text(turn: Turn) -> str | None:
    """Returns the words for the first state, if the typed state alone tells them."""
    after = turn.info.get("state")
    if not isinstance(after, Mapping) or structured_text(after) != turn.info.get("state_text"):
        return None
    return structured_text(turn.state)
