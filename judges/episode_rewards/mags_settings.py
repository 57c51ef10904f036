"""The constants of Mags-RL's reward."""

from __future__ import annotations

from dataclasses import dataclass

from judges.episode_rewards.settings import RewardSettings
from vlm_envs.tools.coordinates import MAX_AREA_FRACTION
from vlm_envs.validation import require_at_least, require_between


@dataclass(frozen=True, kw_only=True)
class MagsStage1Settings(RewardSettings):
    """Weights of the terms and thresholds within them, as both stages of the curriculum have them.

    Attributes:
        answer_weight: Of r_ans (λ2). Source: Mags-RL, appendix B, r_total.
        zoom_weight: Of r_zoom (λ3). Source: Mags-RL, appendix B, r_total.
        rethink_weight: Of the rethink volume reward (λ4), which the paper calls optional; 0 turns it off. Source:
            Mags-RL, appendix B, r_total.
        zoom_format_weight: Of r_zfmt, a part of λ1. Source: Mags-RL, appendix B, r_total.
        other_formats_weight: Of each of the three other format rewards, the rest of λ1. Source: Mags-RL, appendix B,
            r_total.
        answer_tag: What the one `<answer>` earns before its weight. Source: Mags-RL, section 3.3, format reward.
        think_tag: What the one `<think>` earns before its weight; the paper says at most as much. Source: Mags-RL,
            section 3.3, format reward.
        rethink_tag: The same for `<rethink>`. Source: Mags-RL, section 3.3, format reward.
        min_unique_words: Fewer unique words are no reasoning: N ≥ 5, N2 ≥ 5. Source: Mags-RL, appendix B, r_zfmt,
            equation 1 and r_revo.
        min_diversity: Unique words over words below which reasoning repeats itself; at the value itself the paper's two
            indicators overlap, and here it is diverse. Source: Mags-RL, appendix B, r_zfmt and equation 1.
        repetitive_factor: What is left for reasoning that repeats itself, or in stage 2's S that is none. Source:
            Mags-RL, appendix B, r_zfmt and equation 1.
        zoom_format_base: Part of r_zfmt that diverse reasoning earns whatever its length; the rest goes by N. Source:
            Mags-RL, appendix B, r_zfmt.
        full_zoom_format_words: With one unique word less, r_zfmt is full: ln(N + 1) / ln 20. Source: Mags-RL, appendix
            B, r_zfmt.
        rethink_scale: Times √N2. Source: Mags-RL, appendix B, r_revo.
        rethink_without_answer: Part of the rethink reward without an answer in the format. Source: Mags-RL, appendix B,
            r_revo.
        min_grade: From which on a judge's grade of other words counts. Source: Mags-RL, appendix B, r_ans.
        graded_answer: What such an answer earns; the truth's own words earn 1. Source: Mags-RL, appendix B, r_ans.
        max_box_area: Part of the image that a valid box stays below. It is what the reward counts; the world crops what
            is below 0.4, which its prompt says. Source: Mags-RL, appendix A.1.
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
        """Refuses what no formula can be made of."""
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
        miss_penalty: Taken off for each box that is not valid where objects are counted. Source: Mags-RL, equation 1.
    """

    miss_penalty: float = 0.05

    def __post_init__(self) -> None:
        """Refuses a penalty that pays."""
        super().__post_init__()
        require_at_least(self, 0, "miss_penalty")
