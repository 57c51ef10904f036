"""Calibrates judges: their agreement with the truth, and their scores for text written without looking.

Agreement: every start state of a world gives up to three texts: its own, which is right; another state's; and
its own with one fact replaced by its opposite. The last two are wrong. A judge calls a text right if its score
reaches a threshold.

Chance baselines: a score is meaningful only above chance. Blind writers set the bar: one describes a random
other state, one always writes the sentence that scores best, and those of `judges.state_text_writers` guess
the usual contents of a level. The truthful writers of the same module must score above that bar.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, NamedTuple, Protocol, Self

from agents.event_loop import run_blocking
from judges.asking import score_claims
from judges.scores import Judge, JudgeScore
from judges.state_text.exact_judge import ExactJudge, judged_name
from judges.state_text_writers import FROZEN_LAKE, NAVIGATION, PRIMITIVE_SKILL, SOKOBAN, Section, Sight, Writer
from vlm_envs.registration import make
from vlm_envs.responses.formats import Representation
from vlm_envs.statistics.success_rates import Interval, wilson_interval
from vlm_envs.validation import require
from vlm_envs.world import World

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
_PERTURBATIONS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\((-?\d+)(?=, -?\d+, -?\d+\))"), lambda match: f"({int(match[1]) + 60}"),
    (
        re.compile(r"(?<![\w])(above|below|left|right|ahead|behind|back)(?=[ ,.})\]]|$)"),
        lambda match: _OPPOSITES[match[1]],
    ),
    (re.compile("at the same place as"), lambda match: "above and to the left of"),
    (re.compile(r"\((-?\d+)(?=, -?\d+\))"), lambda match: f"({int(match[1]) + 1}"),
)
"""Ways to make a fact wrong; only the first match of the first matching pattern is changed."""

DescribedState = tuple[str, Mapping[str, Any]]
"""A state's text in the world's own wording, and the state dict."""

SECTIONS: tuple[Section, ...] = ("observation", "prediction")


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One text whose truth is known.

    Attributes:
        kind: The text's origin.
        text: The text to judge.
        state: The state to judge it against.
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
    """A judge's agreement with ground truth.

    Attributes:
        num_true_yes: Right texts called right.
        num_false_no: Right texts called wrong.
        num_false_yes: Wrong texts called right.
        num_true_no: Wrong texts called wrong.
        num_unavailable: Texts without a verdict; the counts above exclude them.
        mean_scores: Mean score by kind of text, over those with a verdict; NaN without any. Empty for judges that give
            only verdicts.
        num_texts: Texts with a verdict, by kind. Empty for judges that give only verdicts.
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
        """Returns the counts of (truth, verdict) pairs; `scores` are the other attributes."""
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
        """Share of verdicts that are right; NaN without verdicts."""
        return _share(self.num_true_yes + self.num_true_no, self.num_judged)

    @property
    def accuracy_interval(self) -> Interval:
        """Wilson's 95 % confidence interval for the accuracy.

        Source: E. B. Wilson, 1927. Texts of one state are treated as independent, so the interval is slightly narrow.
        """
        return wilson_interval(self.num_true_yes + self.num_true_no, self.num_judged)

    @property
    def constant_accuracy(self) -> float:
        """Accuracy of the better constant verdict: chance level for a blind judge."""
        num_right = self.num_true_yes + self.num_false_no
        return _share(max(num_right, self.num_judged - num_right), self.num_judged)

    @property
    def chance_agreement(self) -> float:
        """Expected agreement of a blind judge with the same share of "right" verdicts: the zero point of kappa."""
        total = self.num_judged
        yes, right = self.num_true_yes + self.num_false_yes, self.num_true_yes + self.num_false_no
        return _share(yes * right + (total - yes) * (total - right), total * total)

    @property
    def kappa(self) -> float:
        """Cohen's kappa: 1 for full agreement, 0 for chance level; NaN if chance agreement is already full.

        Source: J. Cohen, 1960: (p_o - p_e) / (1 - p_e).
        """
        expected = self.chance_agreement
        return math.nan if not expected < 1.0 else (self.accuracy - expected) / (1.0 - expected)


def examples_of(described: Sequence[DescribedState]) -> list[Example]:
    """Returns texts to calibrate a judge with.

    Args:
        described: States with their own texts, drawn independently; at least 2.

    Returns:
        For each state its own text, the text of the next state with a different one, and its own text perturbed; the
        latter two only if they exist.

    Raises:
        ConfigError: Fewer than 2 states.
    """
    require(len(described) >= 2, f"Calibration needs at least 2 states, got {len(described)}. Raise num_states.")
    texts = [text for text, _ in described]
    examples = []
    for index, (text, state) in enumerate(described):
        other = next((other for other in texts[index + 1 :] + texts[:index] if other != text), None)
        found: dict[TextKind, str | None] = {"own": text, "other": other, "perturbed": perturbed(text)}
        examples += [Example(kind=kind, text=said, state=state) for kind, said in found.items() if said is not None]
    return examples


def perturbed(text: str) -> str | None:
    """Returns a world's own text with its first fact, which matters most, made wrong.

    A direction in an egocentric text becomes its opposite; in texts with cells or metric positions the first coordinate
    moves by one cell or by 60 mm; in rows of symbols the player moves.

    Returns:
        The wrong text, or None if no such fact is found.
    """
    for pattern, wrong in _PERTURBATIONS:
        if pattern.search(text):
            return pattern.sub(wrong, text, count=1)
    if "P" in text and "_" in text:
        # In rows of symbols, "_" is bare ground in every grid world.
        symbols = list(text)
        symbols[text.index("P")], symbols[text.index("_")] = "_", "P"
        return "".join(symbols)
    return None


def measure_agreement(examples: Sequence[Example], judge: Judge, *, threshold: float = 0.99) -> Agreement:
    """Measures how well a judge's scores of texts agree with their known truth.

    Args:
        examples: The texts.
        judge: The judge to measure.
        threshold: Minimum score at which a text counts as judged right, in (0, 1].
    """
    require(0.0 < threshold <= 1.0, f"threshold must be above 0 and at most 1, got {threshold}.")
    claims = [(example.text, example.state) for example in examples]
    (scores,) = run_blocking(score_claims([(judge, claims)]))
    judged = [(example, score) for example, score in zip(examples, scores, strict=True) if score.available]
    verdicts = [(example.is_right, score.value >= threshold) for example, score in judged]
    by_kind = {kind: [score.value for example, score in judged if example.kind == kind] for kind in KINDS}
    return Agreement.of(
        verdicts,
        len(examples) - len(judged),
        mean_scores={kind: fmean(values) if values else math.nan for kind, values in by_kind.items()},
        num_texts={kind: len(values) for kind, values in by_kind.items()},
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _shown(share: float) -> str:
    return "undefined" if math.isnan(share) else f"{share:.3f}"


def report(agreement: Agreement, title: str, cost: str) -> str:
    """Returns the agreement as lines for a terminal, with a title and the judge's cost.

    A NaN, such as kappa if chance agreement is full, is shown as "undefined".
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


WRITERS: dict[str, tuple[Writer, ...]] = {
    "FrozenLake": FROZEN_LAKE,
    "Sokoban": SOKOBAN,
    "Navigation": NAVIGATION,
    **{f"PrimitiveSkill{task}": PRIMITIVE_SKILL for task in ("", "Place", "Stack", "Drawer", "Align")},
}
"""Writers for each world of this package that has an exact judge."""


class Scored(NamedTuple):
    """A writer's mean score over the states that it applies to."""

    score: float
    name: str


@dataclass(frozen=True, kw_only=True)
class ChanceBaseline:
    """The scores of blind and true texts in one world, representation, and section.

    Attributes:
        world: Env id or scene name.
        representation: Of the texts.
        section: Whether the states are start states or states along an expert's path.
        num_states: States in the sample.
        other_state: Mean score of the text of a different random state, in [0, 1].
        best_constant: Mean score of the best constant text, on states that were not used to choose it.
        best_constant_text: That text.
        own_state: Mean score of each state's own text; 1 unless reader and writer disagree.
        by_sight: By kind of sight, the writers that applied to any state, the best first.
    """

    world: str
    representation: Representation
    section: Section = "observation"
    num_states: int
    other_state: float
    best_constant: float
    best_constant_text: str
    own_state: float
    by_sight: Mapping[Sight, Sequence[Scored]] = field(default_factory=dict)

    @property
    def best_blind(self) -> Scored:
        """The best writer that sees nothing of the state."""
        other, constant = (self.other_state, "another state's text"), (self.best_constant, self.best_constant_text)
        return self._extreme(max, "blind", Scored(*other), Scored(*constant))

    @property
    def best_half_blind(self) -> Scored:
        """The best writer that sees at most one thing and guesses the rest."""
        return self._extreme(max, "half_blind", self.best_blind)

    @property
    def worst_partial(self) -> Scored:
        """The worst truthful writer, including those that describe only one thing."""
        return self._extreme(min, "partial", self.worst_full)

    @property
    def worst_full(self) -> Scored:
        """The worst truthful writer that describes everything."""
        return self._extreme(min, "full", Scored(self.own_state, "the world's own text"))

    def _extreme(self, extreme: Callable[..., Scored], sight: Sight, *others: Scored) -> Scored:
        return extreme((*others, *self.by_sight.get(sight, ())), key=lambda scored: scored.score)


class RuleJudge(Protocol):
    """A synchronous judge, which asks no model."""

    def score(self, text: str, state: Mapping[str, Any]) -> JudgeScore:
        """Returns the score of a text."""
        ...


def chance_baseline(
    described: Iterable[DescribedState],
    judge: RuleJudge,
    *,
    world: str,
    representation: Representation,
    section: Section = "observation",
    num_partners: int = 8,
    num_candidates: int = 64,
    guesses: Iterable[str] = (),
    writers: Iterable[Writer] = (),
) -> ChanceBaseline:
    """Measures the chance baseline on a sample of states.

    The constant text is the state text or guess with the best mean score on the first half of the sample; it is
    measured on the second half, to avoid selection bias. Writers are measured on all states.

    Args:
        described: State texts with their states, drawn independently; at least 4.
        judge: The judge to measure.
        world: Env id or scene name, for the report.
        representation: Of the texts; writers for other representations are skipped.
        section: Of the texts; it sets the tense of the writers' verbs.
        num_partners: Other states' texts to try on each state.
        num_candidates: Distinct state texts to try as the constant text.
        guesses: Further texts to try as the constant text.
        writers: Blind and truthful writers to measure.

    Raises:
        ConfigError: Fewer than 4 states.
    """
    sample = list(described)
    require(len(sample) >= 4, f"A chance baseline needs at least 4 states, got {len(sample)}. Raise num_states.")
    texts = [text for text, _ in sample]
    states = [state for _, state in sample]
    # States are drawn independently, so shifting the texts pairs each state with a random other state's text.
    shifts = range(1, min(num_partners, len(sample) - 1) + 1)
    half = len(sample) // 2
    candidates = [*itertools.islice(dict.fromkeys(texts[:half]), num_candidates), *guesses]
    best_text = max(candidates, key=lambda text: _mean_score(judge, itertools.repeat(text), states[:half]))
    return ChanceBaseline(
        world=world,
        representation=representation,
        section=section,
        num_states=len(sample),
        other_state=fmean(_mean_score(judge, texts[shift:] + texts[:shift], states) for shift in shifts),
        best_constant=_mean_score(judge, itertools.repeat(best_text), states[half:]),
        best_constant_text=best_text,
        own_state=_mean_score(judge, texts, states),
        by_sight=_scores_by_sight(judge, states, section, [w for w in writers if w.representation == representation]),
    )


def _mean_score(judge: RuleJudge, texts: Iterable[str], states: Sequence[Mapping[str, Any]]) -> float:
    return fmean(judge.score(text, state).value for text, state in zip(texts, states, strict=False))


def _scores_by_sight(
    judge: RuleJudge, states: Sequence[Mapping[str, Any]], section: Section, writers: Iterable[Writer]
) -> dict[Sight, list[Scored]]:
    scored: dict[Sight, list[Scored]] = {}
    for writer in writers:
        written = ((writer.write(state, section), state) for state in states)
        scores = [judge.score(text, state).value for text, state in written if text is not None]
        if scores:
            scored.setdefault(writer.sight, []).append(Scored(fmean(scores), writer.name))
    return {sight: sorted(found, reverse=True) for sight, found in scored.items()}


def measure_chance(
    env_id: str,
    representation: Representation,
    num_states: int = 200,
    seed: int = 0,
    *,
    section: Section = "observation",
    **env_kwargs: Any,
) -> ChanceBaseline:
    """Measures the exact judge's chance baseline on the training levels of a registered world.

    Args:
        env_id: Such as `VLM/Sokoban-v0`.
        representation: Of the state texts.
        num_states: Levels to draw, at least 4.
        seed: Reset seed of the first level; the others follow it.
        section: `observation` measures on start states, `prediction` on states along an expert's path.
        **env_kwargs: Passed to `vlm_envs.make`, such as another size.

    Raises:
        ConfigError: The world has no exact judge, or none for this representation.
    """
    judge = ExactJudge(env_id, representation)
    states = start_states if section == "observation" else next_states
    return chance_baseline(
        states(env_id, representation, num_states, seed, **env_kwargs),
        judge,
        world=env_id,
        representation=representation,
        section=section,
        guesses=judge.rules.guesses(representation),
        writers=WRITERS.get(judged_name(env_id), ()),
    )


def start_states(
    env_id: str, representation: Representation, num_states: int, seed: int = 0, **env_kwargs: Any
) -> list[DescribedState]:
    """Returns the text and state dict of a world's start states, for `num_states` reset seeds starting at `seed`."""
    with closing(_world(env_id, representation, env_kwargs)) as env:
        infos = [env.reset(seed=seed + offset)[1] for offset in range(num_states)]
    return [(info["state_text"], info["state"]) for info in infos]


def next_states(
    env_id: str, representation: Representation, num_levels: int, seed: int = 0, **env_kwargs: Any
) -> list[DescribedState]:
    """Returns the text and state dict of each level after some of the actions that solve it.

    The first level gets one action, the second two, and so on modulo the length of a level's plan, so that solved
    levels are as frequent as any other progress.
    """
    with closing(_world(env_id, representation, env_kwargs)) as env:
        world: World[Any, Any] = env.unwrapped
        states = []
        for offset in range(num_levels):
            env.reset(seed=seed + offset)
            state = world.state
            plan = world.dynamics.plan(state) or ()
            for action in plan[: 1 + offset % max(1, len(plan))]:
                state, _ = world.dynamics.step(state, action, world.np_random)
            states.append(state)
        return [(world.view.describe(state, representation), world.view.structured(state)) for state in states]


def _world(env_id: str, representation: Representation, env_kwargs: Mapping[str, Any]) -> Any:
    """Makes a world without images, which are not needed here and may require a renderer."""
    return make(env_id, representation=representation, **{"obs_mode": "text", **env_kwargs})
