"""An episode as run data: text, numbers and the names of pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from vlm_envs.records.json_lines import Record
from vlm_envs.trajectory import Observation, Trajectory, Turn, observation_images

OF_PROVIDER = ("stop_detail", "summary", "request", "raw")
"""Fields that only turns of agents behind an API have."""


@dataclass(frozen=True, kw_only=True)
class TurnNotes:
    """What judges and the trainer say of one turn, beside what happened in it.

    Attributes:
        shaping: Named shaping rewards.
        scores: Judges' scores of its sections, from 0 to 1, before weights.
        credit: What the algorithm made of it: `value` of the prefix before its first token, mean `advantage` of its
            tokens; empty where nobody estimated any.
    """

    shaping: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    credit: Mapping[str, float] = field(default_factory=dict)


def episode_record(
    trajectory: Trajectory,
    notes: Sequence[TurnNotes],
    save_image: Callable[[npt.NDArray[np.uint8]], str],
) -> Record:
    """Returns an episode as it is stored: text, numbers and the names of pictures.

    Args:
        trajectory: The episode.
        notes: What is known besides of each turn.
        save_image: Stores a picture, uint8[H, W, 3], and returns its name.

    Returns:
        The record. `state` and `state_text` are of the state the agent saw, `state_text_after` is of the one its
        actions led to; `optimal_actions_before` and `optimal_actions_left` likewise. `credit` has the tokens' mean
        log-probability, `logprob`, where the agent gave them. `system` is there only where a turn shows one, `level`
        only where the episode began on a given one, `cluster` only where other levels share its content (an image or a
        document). Of agents behind an API turns have `raw`, their provider's reply; `stop_detail`, where a limit of the
        model ended the response; `summary`, where one was made before the turn; and the first has `request`. Only
        lenient episodes have `reading`; in them, turns without an action have `unread`, which explains why none could
        be read, and `expects_observation` is true where the format has an `<observation>`.
    """
    records = [_turn_record(turn, said, save_image) for turn, said in zip(trajectory.turns, notes, strict=True)]
    return {
        "env_id": trajectory.env_id,
        "world": trajectory.world,
        "seed": trajectory.seed,
        "start_state_hash": trajectory.start_state_hash,
        "success": trajectory.success,
        "total_reward": trajectory.total_reward,
        "metrics": trajectory.turns[-1].info.get("metrics") or {},
        "policy_version": trajectory.policy_version,
        "turns": records,
        "final": _shown(trajectory.final_observation, save_image),
        **({"level": trajectory.level} if trajectory.level else {}),
        **_cluster_of(trajectory),
        **_reading_of(trajectory),
    }


def start_of(trajectory: Trajectory) -> Record:
    """Returns the part of an episode's record that `vlm_envs.statistics.success_rates` reads."""
    start = {"seed": trajectory.seed, "start_state_hash": trajectory.start_state_hash}
    return start | _cluster_of(trajectory)


def _cluster_of(trajectory: Trajectory) -> Record:
    cluster = trajectory.turns[-1].info.get("cluster")
    return {"cluster": cluster} if cluster else {}


def _shown(observation: Observation, save_image: Callable[[npt.NDArray[np.uint8]], str]) -> Record:
    images = [save_image(image) for image in observation_images(observation)]
    system = {"system": observation["system"]} if observation.get("system") else {}
    return {"text": observation.get("text", ""), "images": images, **system}


def _turn_record(turn: Turn, said: TurnNotes, save_image: Callable[[npt.NDArray[np.uint8]], str]) -> Record:
    info = turn.info
    return {
        **_shown(turn.observation, save_image),
        "response": turn.response_text,
        "stop_reason": turn.stop_reason,
        "sections": info.get("sections") or {},
        "actions": info.get("actions") or (),
        "reward": turn.reward,
        "reward_terms": turn.reward_terms,
        "shaping": said.shaping,
        "scores": said.scores,
        "credit": {**_mean_logprob(turn), **said.credit},
        "state": turn.state,
        "state_text": turn.state_text,
        "state_text_after": info.get("state_text"),
        "parse_error": info.get("parse_error"),
        "worker_error": info.get("worker_error"),
        "agent_error": info.get("agent_error"),
        "thoughts": turn.thoughts,
        "usage": turn.usage,
        "model": turn.model,
        "terminated": turn.terminated,
        "truncated": turn.truncated,
        "action_effective": info.get("action_effective"),
        "optimal_actions_before": turn.optimal_actions_left,
        "optimal_actions_left": info.get("optimal_actions_left"),
        "state_hash": info.get("state_hash"),
        **({"context_full": True} if info.get("context_full") else {}),
        **{name: value for name in OF_PROVIDER if (value := getattr(turn, name))},
        **({"unread": info["unread"]} if _is_lenient(turn) and info.get("unread") else {}),
    }


def episode_keys(episodes: Iterable[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    """Names each episode by world, seed and how many episodes with both came before it.

    Equal keys of two evaluations are the same level, which makes them pairs. Keys are distinct within one
    list.
    """
    counts: Counter[tuple[str, int]] = Counter()
    keys = []
    for episode in episodes:
        level = (world_of(episode), int(episode["seed"]))
        keys.append((*level, counts[level]))
        counts[level] += 1
    return keys


def world_of(record: Mapping[str, Any]) -> str:
    """Returns what a run calls the world of an episode or an evaluation; older runs knew env ids only."""
    return str(record.get("world") or record.get("env_id", ""))


def levels_of(evaluation: Mapping[str, Any]) -> str:
    """Returns what the levels of an evaluation are called: `"held-out test levels"`, or `"levels"` of no split."""
    split = evaluation.get("split")
    kinds = {None: "", "train": "training ", "val": "held-out val ", "test": "held-out test "}
    return f"{kinds.get(split, f'{split} ')}levels"


def _reading_of(trajectory: Trajectory) -> Record:
    if not any(map(_is_lenient, trajectory.turns)):
        return {}
    expects_observation = any("observation" in turn.seen_sections for turn in trajectory.turns)
    return {"reading": "lenient", **({"expects_observation": True} if expects_observation else {})}


def _is_lenient(turn: Turn) -> bool:
    return turn.info.get("reading") == "lenient"


def _mean_logprob(turn: Turn) -> dict[str, float]:
    """Returns how likely the sampled tokens were on average, in nats a token."""
    return {"logprob": float(np.mean(turn.sampler_logprobs))} if len(turn.sampler_logprobs) else {}
