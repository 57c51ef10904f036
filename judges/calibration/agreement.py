"""How far a judge can be trusted: its agreement with ground truth on texts whose truth is known.

Every start state of a world gives up to three texts: its own, which is right; another state's; and its own with one
fact turned into its opposite. The last two are wrong. A judge calls a text right if it scores at least a threshold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, Self

from judges.batches import score_many
from judges.calibration.chance import DescribedState
from judges.scores import Judge, JudgeScore
from vlm_envs.errors import ConfigError
from vlm_envs.statistics.success_rates import Interval, wilson_interval

TextKind = Literal["own", "other", "perturbed"]

KINDS: tuple[TextKind, ...] = ("own", "other", "perturbed")

_OPPOSITES = {
    "above": "below",
    "below": "above",
    "left": "right",
    "right": "left",
    "ahead": "behind",
    "behind": "ahead",
    "back": "ahead",
}
_DIRECTION = re.compile(r"(?<![\w])(above|below|left|right|ahead|behind|back)(?=[ ,.})\]]|$)")
_SAME_PLACE = "at the same place as"
_CELL = re.compile(r"\((-?\d+)(?=, -?\d+\))")
_POSITION_MM = re.compile(r"\((-?\d+)(?=, -?\d+, -?\d+\))")


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One text whose truth is known.

    Attributes:
        kind: Where the text comes from.
        text: What the judge is shown.
        state: What it is judged against.
    """

    kind: TextKind
    text: str
    state: Mapping[str, Any]

    @property
    def is_right(self) -> bool:
        """Whether the text describes the state."""
        return self.kind == "own"


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """A judge against ground truth.

    Attributes:
        num_true_yes: Right texts called right.
        num_false_no: Right texts called wrong.
        num_false_yes: Wrong texts called right.
        num_true_no: Wrong texts called wrong.
        num_unavailable: Texts without a verdict; they are in none of the above.
        mean_scores: Mean score by kind of text, over those with a verdict; NaN without any. Empty for judges that give
            verdicts only.
        num_texts: Texts by kind, those without a verdict included; empty likewise.
    """

    num_true_yes: int
    num_false_no: int
    num_false_yes: int
    num_true_no: int
    num_unavailable: int
    mean_scores: Mapping[TextKind, float] = field(default_factory=dict)
    num_texts: Mapping[TextKind, int] = field(default_factory=dict)

    @classmethod
    def of(cls, verdicts: Sequence[tuple[bool, bool]], num_unavailable: int, **scores: Any) -> Self:
        """Returns the counts of verdicts, each with the truth before it; `scores` are the other attributes."""
        return cls(
            num_true_yes=verdicts.count((True, True)),
            num_false_no=verdicts.count((True, False)),
            num_false_yes=verdicts.count((False, True)),
            num_true_no=verdicts.count((False, False)),
            num_unavailable=num_unavailable,
            **scores,
        )

    @property
    def num_judged(self) -> int:
        """Texts with a verdict."""
        return self.num_true_yes + self.num_false_no + self.num_false_yes + self.num_true_no

    @property
    def accuracy(self) -> float:
        """Share of verdicts that are true; NaN without verdicts."""
        return _share(self.num_true_yes + self.num_true_no, self.num_judged)

    @property
    def accuracy_interval(self) -> Interval:
        """Wilson's 95 % interval of the accuracy.

        Source: E. B. Wilson, 1927. Texts of one state count as independent, so the interval is a little narrow.
        """
        return wilson_interval(self.num_true_yes + self.num_true_no, self.num_judged)

    @property
    def constant_accuracy(self) -> float:
        """Accuracy of a judge that says the same of every text, the better of the two; chance for a blind judge."""
        num_right = self.num_true_yes + self.num_false_no
        return _share(max(num_right, self.num_judged - num_right), self.num_judged)

    @property
    def chance_agreement(self) -> float:
        """Agreement to be expected from a judge that says yes as often, but without looking: kappa's zero."""
        total = self.num_judged
        yes, right = self.num_true_yes + self.num_false_yes, self.num_true_yes + self.num_false_no
        return _share(yes * right + (total - yes) * (total - right), total * total)

    @property
    def kappa(self) -> float:
        """Cohen's kappa: 1 for full agreement, 0 for as much as by chance; NaN where chance agrees in full.

        Source: J. Cohen, 1960: (p_o - p_e) / (1 - p_e).
        """
        expected = self.chance_agreement
        return math.nan if not expected < 1.0 else (self.accuracy - expected) / (1.0 - expected)


def examples_of(described: Sequence[DescribedState]) -> list[Example]:
    """Returns the texts to calibrate with.

    Args:
        described: States with their own texts, drawn independently; at least 2.

    Returns:
        For each state its own text, the text of the next state that has a different one, and its own text perturbed;
        the latter two only where there is one.

    Raises:
        ConfigError: Fewer than 2 states.
    """
    if len(described) < 2:
        raise ConfigError(f"Calibration needs at least 2 states, got {len(described)}. Raise num_states.")
    return [example for index in range(len(described)) for example in _examples_at(index, described)]


def _examples_at(index: int, described: Sequence[DescribedState]) -> Iterator[Example]:
    text, state = described[index]
    yield Example(kind="own", text=text, state=state)
    others = (described[(index + shift) % len(described)][0] for shift in range(1, len(described)))
    other = next((other for other in others if other != text), None)
    if other is not None:
        yield Example(kind="other", text=other, state=state)
    wrong = perturbed(text)
    if wrong is not None:
        yield Example(kind="perturbed", text=wrong, state=state)


def perturbed(text: str) -> str | None:
    """Returns a world's own text with one fact turned wrong: the first, which is the one that matters most.

    In egocentric sentences and dictionaries a direction becomes its opposite; in those of cells and of metric positions
    the first coordinate moves by one cell, or by 60 mm; in rows of symbols the player moves.

    Returns:
        The wrong text, or None where nothing is found to turn.
    """
    if _POSITION_MM.search(text):
        return _POSITION_MM.sub(lambda match: f"({int(match[1]) + 60}", text, count=1)
    if _DIRECTION.search(text):
        return _DIRECTION.sub(lambda match: _OPPOSITES[match[1]], text, count=1)
    if _SAME_PLACE in text:
        return text.replace(_SAME_PLACE, "above and to the left of", 1)
    if _CELL.search(text):
        return _CELL.sub(lambda match: f"({int(match[1]) + 1}", text, count=1)
    if "P" in text and "_" in text:
        # Symbols: "_" is bare ground in every grid world.
        symbols = list(text)
        symbols[text.index("P")], symbols[text.index("_")] = "_", "P"
        return "".join(symbols)
    return None


def measure_agreement(examples: Sequence[Example], judge: Judge, *, threshold: float = 0.99) -> Agreement:
    """Returns how well a judge's scores of texts agree with their known truth.

    Args:
        examples: The texts.
        judge: The judge to measure.
        threshold: Least score of a text that the judge is said to call right, in (0, 1].
    """
    if not 0.0 < threshold <= 1.0:
        raise ConfigError(f"threshold must be above 0 and at most 1, got {threshold}.")
    scores = score_many(judge, [(example.text, example.state) for example in examples])
    judged = [(example, score) for example, score in zip(examples, scores, strict=True) if score.available]
    verdicts = [(example.is_right, score.value >= threshold) for example, score in judged]
    return Agreement.of(
        verdicts,
        len(examples) - len(judged),
        mean_scores={kind: _mean_score(kind, judged) for kind in KINDS},
        num_texts={kind: sum(example.kind == kind for example in examples) for kind in KINDS},
    )


def _mean_score(kind: TextKind, judged: Sequence[tuple[Example, JudgeScore]]) -> float:
    scores = [score.value for example, score in judged if example.kind == kind]
    return fmean(scores) if scores else math.nan


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _shown(share: float) -> str:
    return "undefined" if math.isnan(share) else f"{share:.3f}"


def report(agreement: Agreement, title: str, cost: str) -> str:
    """Returns the agreement as lines for a terminal, with what was measured and what the judge used up.

    What has no value, such as kappa where chance agrees in full, is called undefined.
    """
    low, high = agreement.accuracy_interval
    texts = ", ".join(
        f"{kind} {_shown(agreement.mean_scores[kind])} (n={count})" for kind, count in agreement.num_texts.items()
    )
    return "\n".join(
        (
            title,
            f"{'':<12}{'judged right':>14}{'judged wrong':>14}",
            f"{'right text':<12}{agreement.num_true_yes:>14}{agreement.num_false_no:>14}",
            f"{'wrong text':<12}{agreement.num_false_yes:>14}{agreement.num_true_no:>14}",
            f"accuracy     {_shown(agreement.accuracy)}, 95 % interval {low:.3f} to {high:.3f} (Wilson)",
            f"kappa        {_shown(agreement.kappa)} (Cohen; chance agreement {_shown(agreement.chance_agreement)})",
            f"chance       {_shown(agreement.constant_accuracy)}, accuracy of the best constant verdict",
            *((f"mean scores  {texts}",) if texts else ()),
            f"unavailable  {agreement.num_unavailable}",
            f"cost         {cost}",
        )
    )
