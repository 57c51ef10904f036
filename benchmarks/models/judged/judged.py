"""What judges say of episodes, beside the world's own success: named measures, each from 0 to 1.

| measure | of | what it is |
|---|---|---|
| `grounding` | stated observations | score against the state the agent saw; by default the exact judge's F1 |
| `worldmodeling` | stated predictions | the same against the state the turn led to |
| `consistency` | turns with stated beliefs | share that contradicts neither itself nor the prediction before it |
| `box_iou` | questions where boxes are asked for | R_box of iVGR: mean of the best IoUs of true and of written boxes |
| `point_accuracy` | questions where points are asked for, or written | share of points on the mask of what they name \
(generated scenes), or in a true box; 0 without points where there is something to point at |
| `inclusion` | answers that are words or numbers | whether a right answer stands in the answer, as whole words |
| `anls` | answers compared by ANLS | normalised Levenshtein similarity of the answer, cut at one half |

A measure that does not apply to an episode is absent, not 0. Judges with a language model score the first two; those of
`benchmarks.models.judged.graders` add `graded` and `zoom_need`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from judges.batched_judging import score_together
from judges.episode_rewards.argos import spatial_score
from judges.episode_rewards.episode_reading import (
    final_state,
    key_of,
    own_pieces,
    point_extent,
    strategy_of,
    true_boxes,
)
from judges.episode_rewards.exact_models import exact_masks
from judges.grading import box_reward, thoughts_of
from judges.grounding import WrittenPoint, read_response
from judges.scores import JudgeScore
from judges.turn_rewards import JudgeFor, ScoredTurn, Section, claims_by_judge, exact_judge
from judges.word_consistency import contradiction, own_contradiction
from vlm_envs.responses.answers import AnswerKey, anls, inclusion
from vlm_envs.tools.coordinates import find_boxes
from vlm_envs.trajectory import Trajectory, Turn

_BELIEFS = ("observation", "prediction", "think", "rethink")
_WITHOUT_BOXES = ("points", "ivgr_textual")
"""Strategies that know where things are and do not ask for boxes."""

_NAME_OF: Mapping[Section, str] = {"observation": "grounding", "prediction": "worldmodeling"}


Place = tuple[int, Section]
"""A text of an episode: its turn, from 0, and its section."""


@dataclass(frozen=True, kw_only=True)
class EarlierScores:
    """Scores that an episode has already.

    Attributes:
        final: Scores of texts that are not asked about again.
        fallback: Scores that stay where the judge gives no verdict.
    """

    final: Mapping[Place, float] = field(default_factory=dict)
    fallback: Mapping[Place, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class JudgedEpisode:
    """What judges say of an episode.

    Attributes:
        scores: Of each turn, the score of each section that has one, now or from before.
        measures: Of the episode, by name.
        num_asked: Texts that the judge was asked about.
        unjudged: Of these, each text that it gave no verdict on, and why.
    """

    scores: tuple[Mapping[str, float], ...]
    measures: Mapping[str, float]
    num_asked: int = 0
    unjudged: Mapping[Place, str] = field(default_factory=dict)


def judge_episodes(
    episodes: Sequence[Trajectory],
    judge_for: JudgeFor | Mapping[Section, JudgeFor] = exact_judge,
    earlier: Sequence[EarlierScores] = (),
) -> list[JudgedEpisode]:
    """Returns what judges say of each episode, in order.

    Args:
        episodes: With what the world said, as a rollout or a replay gives them.
        judge_for: Finds the judge of what is observed and predicted, as `judges.turn_rewards.shape` takes it.
        earlier: Scores that each episode has already; none by default.
    """
    before = earlier or [EarlierScores() for _ in episodes]
    turns = [(number, place) for number, episode in enumerate(episodes) for place in range(len(episode.turns))]
    scored = [ScoredTurn(turn=episodes[number].turns[place], env_id=episodes[number].env_id) for number, place in turns]
    asked = [
        (judge, [claim for claim in claims if (turns[claim[0]][1], claim[1]) not in before[turns[claim[0]][0]].final])
        for judge, claims in claims_by_judge(scored, tuple(_NAME_OF), judge_for)
    ]
    verdicts = score_together([(judge, [text for _, _, text in claims]) for judge, claims in asked])
    said: list[dict[Place, JudgeScore]] = [{} for _ in episodes]
    for (_, claims), column in zip(asked, verdicts, strict=True):
        for (index, section, _), score in zip(claims, column, strict=True):
            number, place = turns[index]
            said[number][place, section] = score
    return [_judged(*each) for each in zip(episodes, said, before, strict=True)]


def _judged(episode: Trajectory, said: Mapping[Place, JudgeScore], earlier: EarlierScores) -> JudgedEpisode:
    unjudged = {place: score.reason for place, score in said.items() if not score.available}
    values = {place: earlier.fallback[place] for place in unjudged if place in earlier.fallback}
    values |= {**earlier.final, **{place: score.value for place, score in said.items() if score.available}}
    scores: list[Mapping[str, float]] = [
        {section: values[turn, section] for section in _NAME_OF if (turn, section) in values}
        for turn in range(len(episode.turns))
    ]
    measures: dict[str, float | None] = {
        name: _mean([of_turn[section] for of_turn in scores if section in of_turn])
        for section, name in _NAME_OF.items()
    }
    measures["consistency"] = consistency(episode)
    if "sample_id" in final_state(episode):
        measures |= _of_question(episode)
    return JudgedEpisode(
        scores=tuple(scores),
        measures={name: value for name, value in measures.items() if value is not None},
        num_asked=len(said),
        unjudged=unjudged,
    )


def consistency(episode: Trajectory) -> float | None:
    """Returns the share of turns with stated beliefs of which no rule sees a contradiction; None without such turns.

    A turn contradicts itself within one section, or what it observes contradicts what the turn before predicted. Each
    section is read by itself, as a prediction tells of another moment than an observation.
    """
    said = [_beliefs(turn) for turn in episode.turns]
    before = itertools.chain([{}], said)
    return _mean([float(_is_consistent(now, then)) for now, then in zip(said, before, strict=False) if now])


def _beliefs(turn: Turn) -> dict[str, str]:
    sections: Mapping[str, Any] = turn.info.get("sections") or {}
    return {name: text for name in _BELIEFS if (text := sections.get(name))}


def _is_consistent(now: Mapping[str, str], before: Mapping[str, str]) -> bool:
    if any(own_contradiction(text) for text in now.values()):
        return False
    expected, observed = before.get("prediction"), now.get("observation")
    return expected is None or observed is None or contradiction(expected, observed) is None


def _of_question(episode: Trajectory) -> dict[str, float | None]:
    """Returns the measures of a question-answering world's episode."""
    key, pieces = key_of(episode), own_pieces(episode)
    asks_points, asks_boxes = strategy_of(episode) == "points", strategy_of(episode) not in _WITHOUT_BOXES
    written = [box for piece in pieces for box in find_boxes(thoughts_of(piece))]
    points = [point for piece in pieces for point in read_response(piece).points]
    return {
        "box_iou": box_reward(written, true_boxes(episode)) if asks_boxes else None,
        "point_accuracy": _point_accuracy(points, episode) if points or asks_points else None,
        "inclusion": _inclusion(episode, key),
        "anls": anls(final_state(episode)["answer"], key.answers) if key.kind == "anls" else None,
    }


def _inclusion(episode: Trajectory, key: AnswerKey) -> float | None:
    """Returns whether a right answer is in the answer; None of choices, whose letters stand in any text."""
    return None if key.kind == "choice" else inclusion(final_state(episode)["answer"], key.answers)


def _point_accuracy(points: Sequence[WrittenPoint], episode: Trajectory) -> float | None:
    """Returns the share of points that hit, 0 without any; None where nothing is known to hit."""
    if not points and true_boxes(episode):
        return 0.0
    if masks := exact_masks(episode):
        return spatial_score(points, masks, point_extent(episode))
    boxes = true_boxes(episode)
    hits = [any(box.x1 <= each.x <= box.x2 and box.y1 <= each.y <= box.y2 for box in boxes) for each in points]
    return _mean(list(map(float, hits))) if boxes else None


def _mean(values: Sequence[float]) -> float | None:
    return float(fmean(values)) if values else None
