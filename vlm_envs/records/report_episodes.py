"""Recorded episodes as data for the page's episode browser, limited in number and size."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vlm_envs.records.json_lines import MissingRunDataError, Record, to_json
from vlm_envs.records.report_mistakes import call_of, compare, first_mistake, question_of
from vlm_envs.records.run_data import RunReader, episode_keys, is_training_label, recorded_terms

_MAX_TEXT_CHARS = 12_000
_MAX_LABELS = 12


@dataclass(frozen=True, kw_only=True)
class _Recorded:
    """Episodes under one label of one run.

    Attributes:
        name: Label of the episodes in the run.
        run: Name of the run on the page; `""` for a single run.
        beside: Label of the episodes they are compared with, as on the page; None for none.
        reader: The run that contains their images.
        episodes: By key, in the order in which they were recorded.
    """

    name: str
    run: str
    beside: str | None
    reader: RunReader
    episodes: dict[str, Record]

    @property
    def label(self) -> str:
        """Label of the episodes on the page."""
        return f"{self.run} · {self.name}" if self.run else self.name


def episode_browser(readers: Mapping[str, RunReader], max_episodes: int, max_bytes: int) -> dict[str, Any]:
    """Returns the recorded episodes with their images, failures first.

    If there is too much for one page, every label keeps the failed levels, the last label's first, and then
    the others, so that the same levels stay comparable; of many labels the first, the last, and some in
    between are kept.

    Args:
        readers: The runs, by the prefix of their labels; `""` for a single run.
        max_episodes: Maximum number of episodes per label.
        max_bytes: Maximum size of everything as JSON. One episode per label is kept in any case.

    Returns:
        `labels` (name, run, label they are compared with, numbers of recorded and failed episodes, mistakes
        by kind, episodes) and `images` (data URI by name), ready for JSON.
    """
    recorded: list[_Recorded] = []
    for run, reader in readers.items():
        for name in _spread(reader.trajectory_labels(), _MAX_LABELS // len(readers)):
            episodes = _by_key(reader, name)
            beside = _beside(run, name, episodes, recorded)
            recorded.append(_Recorded(name=name, run=run, beside=beside, reader=reader, episodes=episodes))
    while True:
        browser = _browser(recorded, max_episodes)
        if max_episodes <= 1 or len(json.dumps(browser)) <= max_bytes:
            return browser
        max_episodes //= 2


def _beside(run: str, name: str, episodes: Mapping[str, Record], recorded: Sequence[_Recorded]) -> str | None:
    """Returns the label that episodes are compared with: the same name in another run, or else an earlier one.

    Both must share levels. Episodes of training are compared only with those of another run: their levels are
    not those of an evaluation, and levels solved in one iteration but not in the next carry no information.
    """
    others = [other for other in recorded if other.run != run and other.name == name]
    earlier = [evaluation for evaluation in recorded if evaluation.run == run and not is_training_label(name)]
    return next((other.label for other in (*others, *earlier) if other.episodes.keys() & episodes.keys()), None)


def _by_key(reader: RunReader, label: str) -> dict[str, Record]:
    episodes = reader.trajectories(label)
    return {"/".join(map(str, key)): episode for key, episode in zip(episode_keys(episodes), episodes, strict=True)}


def _spread(labels: Sequence[str], num_kept: int) -> list[str]:
    """Selects labels evenly, including both ends."""
    if len(labels) <= num_kept:
        return list(labels)
    return [labels[round(index * (len(labels) - 1) / (num_kept - 1))] for index in range(num_kept)]


def _browser(recorded: Sequence[_Recorded], max_episodes: int) -> dict[str, Any]:
    images: dict[str, str | None] = {}
    labels = []
    for evaluation in recorded:
        shown = _failures_first(evaluation, recorded)[:max_episodes]
        mistakes = Counter(
            mistake.kind for episode in evaluation.episodes.values() if (mistake := first_mistake(episode))
        )
        labels.append(
            {
                "label": evaluation.label,
                "run": evaluation.run,
                "is_training": is_training_label(evaluation.name),
                "beside": evaluation.beside,
                "num_recorded": len(evaluation.episodes),
                "num_failed": sum(not episode["success"] for episode in evaluation.episodes.values()),
                "mistakes": dict(mistakes.most_common()),
                "episodes": [shown_episode(key, evaluation.episodes[key]) for key in shown],
            }
        )
        for name in (name for key in shown for name in image_names(evaluation.episodes[key])):
            if images.get(name) is None:
                images[name] = data_uri(evaluation.reader.image, name)
    return {"labels": labels, "images": images}


def _failures_first(of: _Recorded, recorded: Sequence[_Recorded]) -> list[str]:
    """Returns a label's keys: its failures, then levels that others failed, from the last label back, then the rest."""

    def rank(key: str) -> tuple[bool, int]:
        failed_by = [
            index
            for index, evaluation in enumerate(recorded)
            if key in evaluation.episodes and not evaluation.episodes[key]["success"]
        ]
        return bool(of.episodes[key]["success"]), -max(failed_by, default=-1)

    return sorted(of.episodes, key=rank)


def image_names(episode: Record) -> list[str]:
    """Returns the names of an episode's images, repeated for each time they are shown."""
    return [name for moment in (*episode["turns"], episode["final"]) for name in moment["images"]]


def data_uri(load: Callable[[str], bytes], name: str) -> str | None:
    """Returns an image as the page embeds it; None if it is missing, which the page reports."""
    try:
        return "data:image/png;base64," + base64.b64encode(load(name)).decode("ascii")
    except MissingRunDataError:
        return None


def shown_episode(key: str, episode: Record) -> dict[str, Any]:
    """Returns an episode as the page shows it, with long texts truncated.

    Args:
        key: Its name, equal for the same level under other labels.
        episode: As `episode_record` returns it.
    """
    mistake = first_mistake(episode)
    return {
        "key": key,
        "mistake": None if mistake is None else asdict(mistake),
        **{
            name: episode.get(name) for name in ("env_id", "world", "seed", "success", "total_reward", "policy_version")
        },
        **shown_course(episode),
    }


def shown_course(episode: Record) -> dict[str, Any]:
    """Returns an episode's turns and last observation as the page shows them, and its question if it has one."""
    question = question_of(episode)
    turns = [_turn(turn) for turn in episode["turns"]]
    if question is not None:
        for index, turn in enumerate(turns):
            turn |= {"call": call} if (call := call_of(episode, index)) else {}
    return {
        "turns": turns,
        "final": {"text": _cut(episode["final"]["text"]), "images": episode["final"]["images"]},
        **({"question": question} if question else {}),
    }


_COPIED = (
    "images", "stop_reason", "actions", "reward", "scores", "credit", "parse_error", "worker_error",
    "terminated", "truncated", "action_effective", "optimal_actions_before", "optimal_actions_left",
)  # fmt: skip
_OF_API = ("request", "raw")
"""Sent and received messages, as JSON."""
_CUT_IF_ANY = ("system", "thoughts", "summary")
_COPIED_IF_ANY = ("unread", "stop_detail", "agent_error", "usage", "model")


def _turn(turn: Record) -> dict[str, Any]:
    """Returns a turn with each claim and its truth: the state that was seen, or the one that followed."""
    sections = {name: _cut(text) for name, text in (turn.get("sections") or {}).items()}
    truths = {
        "observation": (turn.get("state_text"), turn.get("state")),
        "prediction": (turn.get("state_text_after"), None),
    }
    written = {name: json.dumps(turn[name], indent=2, ensure_ascii=False) for name in _OF_API if turn.get(name)}
    return {
        "text": _cut(turn["text"]),
        "response": _cut(turn["response"]),
        "sections": sections,
        "claims": {name: _compared(sections[name], *truth) for name, truth in truths.items() if name in sections},
        **{name: turn.get(name) for name in _COPIED},
        "reward_terms": to_json(recorded_terms(turn)),
        **{name: _cut(turn[name]) for name in _CUT_IF_ANY if turn.get(name)},
        **{name: _cut(text) for name, text in written.items()},
        **{name: turn[name] for name in _COPIED_IF_ANY if turn.get(name)},
    }


def _compared(claim: str, truth: str | None, state: Record | None) -> dict[str, Any]:
    """Returns the result of `compare`, without parts that only repeat the claim."""
    compared = compare(claim, truth, state)
    if compared["verdict"] == "same":
        return {"verdict": "same"}
    return compared if compared["verdict"] == "differs" else {**compared, "segments": None}


def _cut(text: str) -> str:
    """Returns a text short enough to show; the full text stays in the folder."""
    if len(text) <= _MAX_TEXT_CHARS:
        return text
    return f"{text[:_MAX_TEXT_CHARS]}… ({len(text) - _MAX_TEXT_CHARS:,} more characters in the folder)"
