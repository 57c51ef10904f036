"""Recorded episodes as the page's browser of trajectories wants them, bounded in number and size."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from training.episode_record import episode_keys
from training.json_lines import MissingRunDataError
from training.report.claims import compare
from training.run_data import RunReader

Record = Mapping[str, Any]

_MAX_TEXT_CHARS = 12_000
_MAX_LABELS = 6


def episode_browser(reader: RunReader, *, max_episodes: int, max_bytes: int) -> dict[str, Any]:
    """Returns the recorded episodes with their pictures.

    When there is too much for one page, every label keeps its first episodes, so that the same levels stay
    beside each other; of many labels the first, the last and some between are kept.

    Args:
        reader: The run.
        max_episodes: Most episodes for each label.
        max_bytes: Most bytes for all of it as JSON. One episode for each label is kept in any case.

    Returns:
        `labels` (name, how many were recorded, episodes) and `images` (data URI by name), ready for JSON.
    """
    labels = _spread(reader.trajectory_labels(), _MAX_LABELS)
    recorded = {label: reader.trajectories(label) for label in labels}
    while True:
        browser = _browser(reader, recorded, max_episodes)
        if max_episodes <= 1 or len(json.dumps(browser)) <= max_bytes:
            return browser
        max_episodes //= 2


def _spread(labels: Sequence[str], num_kept: int) -> list[str]:
    """Picks labels evenly, both ends included."""
    if len(labels) <= num_kept:
        return list(labels)
    return [labels[round(index * (len(labels) - 1) / (num_kept - 1))] for index in range(num_kept)]


def _browser(reader: RunReader, recorded: Mapping[str, Sequence[Record]], max_episodes: int) -> dict[str, Any]:
    images: dict[str, str | None] = {}
    labels = []
    for label, episodes in recorded.items():
        keys = episode_keys(episodes)
        shown = list(zip(keys, episodes, strict=True))[:max_episodes]
        labels.append(
            {
                "label": label,
                "num_recorded": len(episodes),
                "episodes": [_episode("/".join(map(str, key)), episode) for key, episode in shown],
            }
        )
        for _, episode in shown:
            for moment in (*episode["turns"], episode["final"]):
                for name in moment["images"]:
                    if name not in images:
                        images[name] = _data_uri(reader, name)
    return {"labels": labels, "images": images}


def _data_uri(reader: RunReader, name: str) -> str | None:
    """Returns a picture as the page embeds it; None, which the page says, if it is lost."""
    try:
        return "data:image/png;base64," + base64.b64encode(reader.image(name)).decode("ascii")
    except MissingRunDataError:
        return None


def _episode(key: str, episode: Record) -> dict[str, Any]:
    return {
        "key": key,
        **{name: episode.get(name) for name in ("env_id", "seed", "success", "total_reward", "policy_version")},
        "turns": [_turn(turn) for turn in episode["turns"]],
        "final": {"text": _cut(episode["final"]["text"]), "images": episode["final"]["images"]},
    }


def _turn(turn: Record) -> dict[str, Any]:
    """Returns a turn with each claim beside its truth: the state seen, or the one that followed."""
    sections = {name: _cut(text) for name, text in (turn.get("sections") or {}).items()}
    truths = {
        "observation": (turn.get("state_text"), turn.get("state")),
        "prediction": (turn.get("state_text_after"), None),
    }
    copied = (
        "images",
        "stop_reason",
        "actions",
        "reward",
        "reward_terms",
        "shaping",
        "parse_error",
        "worker_error",
        "terminated",
        "truncated",
        "optimal_actions_left",
    )
    return {
        "text": _cut(turn["text"]),
        "response": _cut(turn["response"]),
        "sections": sections,
        "claims": {name: compare(sections[name], *truth) for name, truth in truths.items() if name in sections},
        **{name: turn.get(name) for name in copied},
    }


def _cut(text: str) -> str:
    """Returns a text short enough to show; the whole of it stays in the run directory."""
    if len(text) <= _MAX_TEXT_CHARS:
        return text
    return f"{text[:_MAX_TEXT_CHARS]}… ({len(text) - _MAX_TEXT_CHARS:,} more characters in the run directory)"
