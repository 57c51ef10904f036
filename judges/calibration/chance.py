"""Chance baselines: the score of text that was written without looking, next to that of true text.

A score means something only above chance. Blind writers set the bar: one describes a random other state, one always
writes the sentence that scores best, and those of `judges.calibration.grid_writers` and `engine_writers` guess what a
level usually holds. The truthful writers of the same modules have to clear the bar.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

from judges.calibration.engine_writers import NAVIGATION, PRIMITIVE_SKILL
from judges.calibration.grid_writers import FROZEN_LAKE, SOKOBAN
from judges.calibration.writers import Section, Sight, Writer
from judges.scores import Judge
from judges.state_text.exact import ExactJudge
from judges.state_text.rules import judged_name
from vlm_envs.errors import ConfigError
from vlm_envs.registration import make
from vlm_envs.responses.formats import Representation
from vlm_envs.world import World

DescribedState = tuple[str, Mapping[str, Any]]
"""A state's text, as the world writes it, and the state dict."""

SECTIONS: tuple[Section, ...] = ("observation", "prediction")

WRITERS: dict[str, tuple[Writer, ...]] = {
    "FrozenLake": FROZEN_LAKE,
    "Sokoban": SOKOBAN,
    "Navigation": NAVIGATION,
    "PrimitiveSkill": PRIMITIVE_SKILL,
    "PrimitiveSkillPlace": PRIMITIVE_SKILL,
    "PrimitiveSkillStack": PRIMITIVE_SKILL,
    "PrimitiveSkillDrawer": PRIMITIVE_SKILL,
    "PrimitiveSkillAlign": PRIMITIVE_SKILL,
}
"""Writers of each world of this package that is judged exactly."""


class Scored(NamedTuple):
    """The mean score of a writer over the states that it applies to."""

    score: float
    name: str


@dataclass(frozen=True, kw_only=True)
class ChanceBaseline:
    """The scores of blind text and of true text in one world, representation and section.

    Attributes:
        world: Env id or scene name.
        representation: Of the texts.
        section: Whether the states are start states, or those on an expert's way.
        num_states: States in the sample.
        other_state: Mean score of the text of another random state, in [0, 1].
        best_constant: Mean score of the best constant text, on states that did not help to choose it.
        best_constant_text: That text.
        own_state: Mean score of each state's own text; 1 unless reader and writer disagree.
        by_sight: The writers of each kind of sight that applied to any state, the best first.
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
        """The best text of a writer that sees nothing of the state."""
        chosen = (Scored(self.other_state, "another state's text"), Scored(self.best_constant, self.best_constant_text))
        return max((*chosen, *self.by_sight.get("blind", ())), key=lambda scored: scored.score)

    @property
    def best_half_blind(self) -> Scored:
        """The best text of a writer that sees one thing at most and guesses the rest."""
        return max((self.best_blind, *self.by_sight.get("half_blind", ())), key=lambda scored: scored.score)

    @property
    def worst_partial(self) -> Scored:
        """The worst listed truth, those about one thing only included."""
        return min((self.worst_full, *self.by_sight.get("partial", ())), key=lambda scored: scored.score)

    @property
    def worst_full(self) -> Scored:
        """The worst listed truth about everything."""
        own = Scored(self.own_state, "the world's own text")
        return min((own, *self.by_sight.get("full", ())), key=lambda scored: scored.score)


def chance_baseline(
    described: Iterable[DescribedState],
    judge: Judge,
    *,
    world: str,
    representation: Representation,
    section: Section = "observation",
    num_partners: int = 8,
    num_candidates: int = 64,
    guesses: Iterable[str] = (),
    writers: Iterable[Writer] = (),
) -> ChanceBaseline:
    """Returns the chance baseline on a sample of states.

    The constant text is the first half's state text, or the guess, with the best mean score there; it is measured
    on the second half, so that the choice does not flatter it. Writers are measured on all states.

    Args:
        described: State texts with their states, drawn independently; at least 4.
        judge: The judge to measure.
        world: Env id or scene name, for the report.
        representation: Of the texts; writers of other representations are left out.
        section: Of the texts; it sets the tense of the writers' verbs.
        num_partners: Other states' texts tried on each state.
        num_candidates: Distinct state texts tried as the constant one.
        guesses: Further texts tried as the constant one.
        writers: Blind and truthful writers to measure.

    Raises:
        ConfigError: Fewer than 4 states.
    """
    sample = list(described)
    if len(sample) < 4:
        raise ConfigError(f"A chance baseline needs at least 4 states, got {len(sample)}. Raise num_states.")
    texts = [text for text, _ in sample]
    states = [state for _, state in sample]
    # States are drawn independently, so texts shifted along the sample are texts of random other states.
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


def _mean_score(judge: Judge, texts: Iterable[str], states: Sequence[Mapping[str, Any]]) -> float:
    return fmean(judge.score(text, state).value for text, state in zip(texts, states, strict=False))


def _scores_by_sight(
    judge: Judge, states: Sequence[Mapping[str, Any]], section: Section, writers: Iterable[Writer]
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
    """Returns the exact judge's chance baseline on the training levels of a registered world.

    Args:
        env_id: Such as `VLM/Sokoban-v0`.
        representation: How states are written.
        num_states: Levels to draw, at least 4.
        seed: Reset seed of the first; the others follow it.
        section: `observation` measures on start states, `prediction` on those on an expert's way.
        **env_kwargs: Passed to `vlm_envs.make`, for a world of another size.

    Raises:
        ConfigError: The world has no exact judge, or not in this representation.
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
    """Returns text and state dict of a world's start states, of `num_states` reset seeds from `seed` on."""
    # The images are not needed, and they may need an engine.
    env = make(env_id, representation=representation, **{"obs_mode": "text", **env_kwargs})
    try:
        infos = [env.reset(seed=seed + offset)[1] for offset in range(num_states)]
    finally:
        env.close()
    return [(info["state_text"], info["state"]) for info in infos]


def next_states(
    env_id: str, representation: Representation, num_levels: int, seed: int = 0, **env_kwargs: Any
) -> list[DescribedState]:
    """Returns text and state dict of each level after some of the actions that solve it.

    After one action in the first level, two in the second, and so on, starting over at the length of a level's plan:
    solved levels are as frequent as any other progress.
    """
    env = make(env_id, representation=representation, **{"obs_mode": "text", **env_kwargs})
    world: Any = env.unwrapped
    try:
        states = []
        for offset in range(num_levels):
            env.reset(seed=seed + offset)
            states.append(_after_actions(world, offset))
        return [(world.view.describe(state, representation), world.view.structured(state)) for state in states]
    finally:
        env.close()


def _after_actions(world: World[Any, Any], offset: int) -> Any:
    state = world.state
    plan = world.dynamics.plan(state) or ()
    for action in plan[: 1 + offset % max(1, len(plan))]:
        state, _ = world.dynamics.step(state, action, world.np_random)
    return state
