"""The reward of Mags-RL: two rounds with a zoom in between.

    round 1: <think> … <zoom>[[x1, y1, x2, y2], …]</zoom> … </think>     the system answers with crops
    round 2: <rethink> … </rethink> <answer> … </answer>

Source: Mags-RL, section 3.3 and appendix B; equation 1 is r_zoom. Choices where the paper is open or inconsistent:

- The paper writes N_u and f_d as functions of "o_zoom", its zoom specification, and describes them as measures of
  the reasoning. Here they are measured on the round-1 reasoning *without* the zoom tag; otherwise coordinates would
  count as vocabulary.
- The paper's two indicators overlap at a diversity of exactly 0.4 (≤ and ≥), which would pay 1.1. Here the lower one
  is strict.
- `<think>` and `<rethink>` pay "at most 0.5": here 0.5 or 0, each for exactly one pair of tags.
- Words are lower-case sequences of letters and digits, with apostrophes and hyphens inside; an ideograph or kana is
  its own word.
- r_zoom for counting divides by |a*|; for a* = 0 the form for other questions is used.
- The rethink volume reward, optional in the paper, is on by default; weight 0 turns it off.
- A zoom tag without a readable box, including an empty list, has the wrong format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from judges.episode_rewards.episode_reading import box_extent, key_of, num_objects, own_pieces
from judges.episode_rewards.episode_reward import EachByItself, EpisodeJudge, EpisodeReward, RewardSettings
from judges.episode_rewards.judge_models import JudgeModels
from judges.grading import (
    AnswerJudge,
    count_zoomable,
    extract_answer,
    grade_answer,
    in_words,
    match_answer,
    sole_section,
)
from judges.scores import JudgeScore, Reward
from vlm_envs.responses.answers import AnswerKey, chosen_letter, read_answer
from vlm_envs.responses.extraction import MAX_TEXT_CHARS
from vlm_envs.tools.coordinates import MAX_AREA_FRACTION, read_box_list
from vlm_envs.trajectory import Trajectory
from vlm_envs.validation import require_at_least, require_between


@dataclass(frozen=True, kw_only=True)
class MagsStage1Settings(RewardSettings):
    """Weights and thresholds of the terms that both stages of the curriculum share.

    Attributes:
        answer_weight: Weight of r_ans (λ2). Source: Mags-RL, appendix B, r_total.
        zoom_weight: Weight of r_zoom (λ3). Source: Mags-RL, appendix B, r_total.
        rethink_weight: Weight of the rethink volume reward (λ4), which the paper calls optional; 0 turns it off.
            Source: Mags-RL, appendix B, r_total.
        zoom_format_weight: Weight of r_zfmt, a part of λ1. Source: Mags-RL, appendix B, r_total.
        other_formats_weight: Weight of each of the three other format rewards, the rest of λ1. Source: Mags-RL,
            appendix B, r_total.
        answer_tag: Unweighted reward of exactly one `<answer>`. Source: Mags-RL, section 3.3, format reward.
        think_tag: Unweighted reward of exactly one `<think>`; the paper's maximum. Source: Mags-RL, section 3.3, format
            reward.
        rethink_tag: Unweighted reward of exactly one `<rethink>`; the paper's maximum. Source: Mags-RL, section 3.3,
            format reward.
        min_unique_words: Unique words that reasoning needs to count: N ≥ 5, N2 ≥ 5. Source: Mags-RL, appendix B,
            r_zfmt, equation 1 and r_revo.
        min_diversity: Share of unique words below which reasoning is repetitive; at exactly this value, where the
            paper's two indicators overlap, it counts as diverse. Source: Mags-RL, appendix B, r_zfmt and equation 1.
        repetitive_factor: Factor for repetitive reasoning, and in stage 2's S also for reasoning with too few words.
            Source: Mags-RL, appendix B, r_zfmt and equation 1.
        zoom_format_base: Share of r_zfmt that diverse reasoning earns at any length; the rest depends on N. Source:
            Mags-RL, appendix B, r_zfmt.
        full_zoom_format_words: r_zfmt reaches its maximum at one unique word less: ln(N + 1) / ln 20. Source: Mags-RL,
            appendix B, r_zfmt.
        rethink_scale: Factor of √N2. Source: Mags-RL, appendix B, r_revo.
        rethink_without_answer: Share of the rethink reward without a well-formatted answer. Source: Mags-RL, appendix
            B, r_revo.
        min_grade: Minimum judge's grade at which an answer in different words counts. Source: Mags-RL, appendix B,
            r_ans.
        graded_answer: Reward of such an answer; the truth's own words earn 1. Source: Mags-RL, appendix B, r_ans.
        max_box_area: Share of the image that a valid box must stay below, for the reward only; the world crops boxes
            below 0.4, as its prompt states. Source: Mags-RL, appendix A.1.
    """

    answer_weight: float = 2.0
    zoom_weight: float = 1.0
    rethink_weight: float = 0.5
    zoom_format_weight: float = 0.5
    other_formats_weight: float = 0.1
    answer_tag: float = 1.0
    think_tag: float = 0.5
    rethink_tag: float = 0.5
    min_unique_words: int = 5
    min_diversity: float = 0.4
    repetitive_factor: float = 0.1
    zoom_format_base: float = 0.5
    full_zoom_format_words: int = 20
    rethink_scale: float = 0.2
    rethink_without_answer: float = 0.5
    min_grade: float = 0.7
    graded_answer: float = 0.5
    max_box_area: float = MAX_AREA_FRACTION

    def __post_init__(self) -> None:
        """Raises `ConfigError` for values out of range."""
        super().__post_init__()
        require_at_least(self, 0, "answer_weight", "zoom_weight", "rethink_weight", "zoom_format_weight")
        require_at_least(self, 0, "other_formats_weight", "answer_tag", "think_tag", "rethink_tag", "rethink_scale")
        require_between(self, 0, 1, "min_diversity", "repetitive_factor", "zoom_format_base", "rethink_without_answer")
        require_between(self, 0, 1, "min_grade", "graded_answer")
        require_between(self, 0, 1, "max_box_area", includes=(False, True))
        require_at_least(self, 2, "full_zoom_format_words")


@dataclass(frozen=True, kw_only=True)
class MagsSettings(MagsStage1Settings):
    """The constants of stage 2.

    Attributes:
        miss_penalty: Penalty per invalid box in counting questions. Source: Mags-RL, equation 1.
    """

    miss_penalty: float = 0.05

    def __post_init__(self) -> None:
        """Raises `ConfigError` for a negative penalty."""
        super().__post_init__()
        require_at_least(self, 0, "miss_penalty")


Stage = Literal[1, 2]
PAPER = MagsSettings()
"""The paper's constants."""

_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_IDEOGRAPH}]|[^\W_{_IDEOGRAPH}]+(?:['’-][^\W_{_IDEOGRAPH}]+)*")


@dataclass(frozen=True, kw_only=True, slots=True)
class MagsRollout:
    """The model's own text of the two rounds, without the system's text between them.

    Attributes:
        round_1: First generation, up to and including `</think>`.
        round_2: Second generation; empty without one.
        width_px: Width of the image that the model was shown; boxes are in its pixels.
        height_px: Height of that image.
    """

    round_1: str
    round_2: str
    width_px: int
    height_px: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MagsReading:
    """The inputs of the formulas, as read from a rollout.

    Attributes:
        think_ok: Round 1 has exactly one `<think>…</think>`.
        zoom_ok: It contains the round's only `<zoom>`, with a list of boxes (I_zfmt).
        rethink_ok: Round 2 has exactly one `<rethink>…</rethink>`, closed before the answer opens.
        answer_ok: Round 2 has exactly one `<answer>…</answer>` (I_afmt).
        num_unique: Unique words of the round-1 reasoning (N).
        diversity: Share of unique words in that reasoning, in [0, 1] (d).
        num_rethink_unique: Unique words of the rethinking (N2).
        num_boxes: Boxes in the zoom tag (n).
        num_valid: Boxes that can be zoomed into (k).
        answer: The answer; None if its format is wrong.
    """

    think_ok: bool
    zoom_ok: bool
    rethink_ok: bool
    answer_ok: bool
    num_unique: int
    diversity: float
    num_rethink_unique: int
    num_boxes: int
    num_valid: int
    answer: str | None


def count_words(text: str) -> tuple[int, int]:
    """Returns the numbers of unique words and of all words in a text; the module docstring defines a word."""
    words = _WORD.findall(text[:MAX_TEXT_CHARS].casefold())
    return len(set(words)), len(words)


def read_rollout(rollout: MagsRollout, *, max_box_area: float = MAX_AREA_FRACTION) -> MagsReading:
    """Parses the model's two texts; no text raises an error.

    Args:
        rollout: The two texts.
        max_box_area: Share of the image that a valid box must stay below, in (0, 1].
    """
    think = sole_section(rollout.round_1, "think")
    zoom = sole_section(think, "zoom") if think is not None and rollout.round_1.count("<zoom>") == 1 else None
    boxes = (read_box_list(zoom) if zoom is not None else None) or ()
    reasoning = (think or "").replace(f"<zoom>{zoom}</zoom>", " ")
    num_unique, num_words = count_words(reasoning)
    rethink, answer = sole_section(rollout.round_2, "rethink"), sole_section(rollout.round_2, "answer")
    if rethink is not None and "<answer>" in rollout.round_2:
        rethink_first = rollout.round_2.index("</rethink>") < rollout.round_2.index("<answer>")
        rethink = rethink if rethink_first else None
    return MagsReading(
        think_ok=think is not None,
        zoom_ok=bool(boxes),
        rethink_ok=rethink is not None,
        answer_ok=answer is not None,
        num_unique=num_unique,
        diversity=num_unique / num_words if num_words else 0.0,
        num_rethink_unique=count_words(rethink or "")[0],
        num_boxes=len(boxes),
        num_valid=count_zoomable(boxes, rollout.width_px, rollout.height_px, max_area=max_box_area),
        answer=extract_answer(rollout.round_2) if answer is not None else None,
    )


def zoom_format_reward(reading: MagsReading, settings: MagsStage1Settings = PAPER) -> float:
    """Returns r_zfmt = [zoom ok] [N ≥ 5] (0.1 [d < 0.4] + [d ≥ 0.4] (0.5 + 0.5 min(1, ln(N + 1) / ln 20))).

    Source: Mags-RL, appendix B, format reward.
    """
    if not (reading.zoom_ok and reading.num_unique >= settings.min_unique_words):
        return 0.0
    if reading.diversity < settings.min_diversity:
        return settings.repetitive_factor
    volume = min(1.0, math.log(reading.num_unique + 1) / math.log(settings.full_zoom_format_words))
    return settings.zoom_format_base + (1.0 - settings.zoom_format_base) * volume


def zoom_reward(
    reading: MagsReading, *, stage: Stage, num_objects: int | None = None, settings: MagsStage1Settings = PAPER
) -> float:
    """Returns r_zoom of a curriculum stage, in [0, 1].

    Args:
        reading: The rollout, read.
        stage: 1 pays precision; 2 pays recall where objects are counted.
        num_objects: The true count |a*|; None when the question does not count.
        settings: The constants; with stage 1's, stage 2 uses the paper's penalty.

    Returns:
        Stage 1: T k / n. Stage 2: S max(0, min(1, k / |a*|) - 0.05 (n - k)) for counting, S k / n otherwise.
        0 without boxes.

    Source: Mags-RL, equation 1, with T = [zoom ok] [N ≥ 5] (0.1 [d < 0.4] + [d ≥ 0.4]) and
    S = [zoom ok] (0.1 + 0.9 [N ≥ 5] [d ≥ 0.4]). Choice: |a*| = 0 takes the form for other questions.
    """
    is_substantive = reading.num_unique >= settings.min_unique_words
    if not reading.num_boxes or not reading.zoom_ok or (stage == 1 and not is_substantive):
        return 0.0
    scale = 1.0 if is_substantive and reading.diversity >= settings.min_diversity else settings.repetitive_factor
    if stage == 2 and num_objects:
        recall = min(1.0, reading.num_valid / num_objects)
        penalty = settings.miss_penalty if isinstance(settings, MagsSettings) else PAPER.miss_penalty
        return scale * max(0.0, recall - penalty * (reading.num_boxes - reading.num_valid))
    return scale * reading.num_valid / reading.num_boxes


def rethink_reward(reading: MagsReading, settings: MagsStage1Settings = PAPER) -> float:
    """Returns (0.5 + 0.5 [answer ok]) [N2 ≥ 5] min(1, 0.2 √N2), in [0, 1].

    Source: Mags-RL, appendix B, rethink volume reward.
    """
    if reading.num_rethink_unique < settings.min_unique_words:
        return 0.0
    volume = min(1.0, settings.rethink_scale * math.sqrt(reading.num_rethink_unique))
    return (1.0 if reading.answer_ok else settings.rethink_without_answer) * volume


async def answer_reward(
    reading: MagsReading, key: AnswerKey, judge: AnswerJudge | None = None, settings: MagsStage1Settings = PAPER
) -> JudgeScore:
    """Returns r_ans = [answer ok] max([a = a*], 0.5 [grade ≥ 0.7]).

    Args:
        reading: The rollout, read.
        key: The truth. For any kind, full credit requires the truth's own words; for a choice these are its letter, the
            option's text, or both, and the judge is not asked about an answer that chooses another option.
        judge: Grades 0, 0.25, 0.5, 0.75, or 1; asked only if the words differ. None gives no partial credit.
        settings: The constants.

    Returns:
        1, 0.5, or 0; unavailable if the judge was.

    Source: Mags-RL, appendix B. Choice: equality is that of `judges.grading`, after normalization.
    """
    if read_answer(reading.answer) in ("", "refusal"):
        return JudgeScore(value=0.0, reason="no answer in the format, or a refusal")
    same_words = await match_answer(reading.answer, _strict(key))
    has_chosen = key.kind == "choice" and chosen_letter(reading.answer or "", key) is not None
    if judge is None or same_words.value == 1.0 or has_chosen:
        return same_words
    grade = await grade_answer(reading.answer, in_words(key), judge)
    if not grade.available:
        return grade
    return JudgeScore(
        value=settings.graded_answer * (grade.value >= settings.min_grade), reason=f"graded {grade.value}"
    )


async def mags_reward(
    rollout: MagsRollout,
    key: AnswerKey,
    *,
    stage: Stage,
    judge: AnswerJudge | None = None,
    num_objects: int | None = None,
    settings: MagsStage1Settings = PAPER,
) -> Reward:
    """Returns the whole reward of a two-round rollout.

    Args:
        rollout: The model's own two texts.
        key: The true answer.
        stage: Curriculum stage.
        judge: Grades answers in words other than the truth's.
        num_objects: The true count; None if the question does not ask for one.
        settings: The constants; the paper's by default.

    Returns:
        The terms `answer`, `zoom`, `rethink`, `zoom_format`, `answer_format`, `think_format`, `rethink_format`;
        unavailable if the judge was.

    Source: Mags-RL, appendix B: 2 r_ans + r_zoom + 0.5 r_revo + 0.5 r_zfmt + 0.1 (r_afmt + r_tfmt + r_rfmt).
    """
    reading = read_rollout(rollout, max_box_area=settings.max_box_area)
    answer = await answer_reward(reading, key, judge, settings)
    if not answer.available:
        return Reward.unavailable(answer.reason)
    raw = {
        "answer": answer.value,
        "zoom": zoom_reward(reading, stage=stage, num_objects=num_objects, settings=settings),
        "rethink": rethink_reward(reading, settings),
        "zoom_format": zoom_format_reward(reading, settings),
        "answer_format": settings.answer_tag * reading.answer_ok,
        "think_format": settings.think_tag * reading.think_ok,
        "rethink_format": settings.rethink_tag * reading.rethink_ok,
    }
    terms = {
        name: getattr(settings, f"{name}_weight", settings.other_formats_weight) * value for name, value in raw.items()
    }
    return Reward(terms=terms, raw=raw, reason=answer.reason)


def _strict(key: AnswerKey) -> AnswerKey:
    """Returns a key that only the truth itself matches: no tolerance, no similarity, no judge."""
    if key.kind in ("choice", "verdict"):
        return key
    return replace(key, kind=key.kind if key.kind in ("number", "list") else "exact", tolerance=0.0)


def _mags(stage: Stage, settings: MagsStage1Settings) -> EpisodeReward:
    def build(models: JudgeModels) -> EpisodeJudge:
        async def reward_of(episode: Trajectory) -> Reward:
            width, height = box_extent(episode)
            round_1, round_2 = (*own_pieces(episode), "")[:2]
            rollout = MagsRollout(round_1=round_1, round_2=round_2, width_px=width, height_px=height)
            key, count = key_of(episode), num_objects(episode)
            return await mags_reward(
                rollout, key, stage=stage, judge=models.answer_judge, num_objects=count, settings=settings
            )

        return EachByItself(reward_of, is_asked_ahead=models.answer_judge is not None)

    def why_unreadable(settings: Mapping[str, Any]) -> str:
        shown = settings.get("mags_stage") or 2
        if shown == stage:
            return ""
        return (
            f"fits the prompt of stage {stage}, but the world shows the prompt of stage {shown}. Set the world's "
            f"mags_stage={stage}, or use the other stage's reward."
        )

    return EpisodeReward(
        name=f"mags_stage_{stage}",
        build=build,
        strategies=("mags",),
        why_unreadable=why_unreadable,
        models=frozenset({"answer_judge"}),  # not in needs: the truth's own words earn full credit without a judge
        answer_scale="graded",
        overlapping_rewards=frozenset({"answer_reward", "format_reward"}),
        settings=settings,
        configure=lambda settings: _mags(stage, settings),
    )


MAGS_STAGE_1, MAGS_STAGE_2 = _mags(1, MagsStage1Settings()), _mags(2, MagsSettings())
"""The rewards of both stages. Partial credit requires a grade of 0.7, so answers are graded in quarters."""
