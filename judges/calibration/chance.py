"""Chance baselines: what a judge pays for text that was written without looking at the state.

A score means something only above chance. Two blind writers set the bar: one who describes a random other
state, and one who always writes the one sentence that pays best.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from judges.scores import Judge
from judges.state_text.exact import ExactJudge
from vlm_envs.errors import ConfigError
from vlm_envs.registration import make
from vlm_envs.responses.formats import Representation

DescribedState = tuple[str, Mapping[str, Any]]
"""A state's text, as the world writes it, and the state dict."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChanceBaseline:
    """What blind text scores in one world and representation.

    Attributes:
        world: Env id or scene name.
        representation: Of the texts.
        num_states: States in the sample.
        other_state: Mean score of the text of another random state, in [0, 1].
        best_constant: Mean score of the best constant text, on states that did not help to choose it.
        best_constant_text: That text.
        own_state: Mean score of each state's own text; 1 unless reader and writer disagree.
    """

    world: str
    representation: Representation
    num_states: int
    other_state: float
    best_constant: float
    best_constant_text: str
    own_state: float


def chance_baseline(
    described: Iterable[DescribedState],
    judge: Judge,
    *,
    world: str,
    representation: Representation,
    num_partners: int = 8,
    num_candidates: int = 64,
    guesses: Iterable[str] = (),
) -> ChanceBaseline:
    """Returns the chance baseline on a sample of states.

    The constant text is the first half's state text, or the guess, with the best mean score there; it is measured
    on the second half, so that the choice does not flatter it.

    Args:
        described: State texts with their states, drawn independently; at least 4.
        judge: The judge to measure.
        world: Env id or scene name, for the report.
        representation: Of the texts, for the report.
        num_partners: Other states' texts tried on each state.
        num_candidates: Distinct state texts tried as the constant one.
        guesses: Further texts tried as the constant one.

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
        num_states=len(sample),
        other_state=fmean(_mean_score(judge, texts[shift:] + texts[:shift], states) for shift in shifts),
        best_constant=_mean_score(judge, itertools.repeat(best_text), states[half:]),
        best_constant_text=best_text,
        own_state=_mean_score(judge, texts, states),
    )


def _mean_score(judge: Judge, texts: Iterable[str], states: Sequence[Mapping[str, Any]]) -> float:
    return fmean(judge.score(text, state).value for text, state in zip(texts, states, strict=False))


def measure_chance(
    env_id: str, representation: Representation, num_states: int = 200, seed: int = 0, **env_kwargs: Any
) -> ChanceBaseline:
    """Returns the exact judge's chance baseline on the start states of a registered world.

    Args:
        env_id: Such as `VLM/Sokoban-v0`.
        representation: How states are written.
        num_states: Start states to draw, at least 4.
        seed: Reset seed of the first; the others follow it.
        **env_kwargs: Passed to `vlm_envs.make`, for a world of another size.

    Raises:
        ConfigError: The world has no exact judge, or not in this representation.
    """
    judge = ExactJudge(env_id, representation)
    described = start_states(env_id, representation, num_states, seed, **env_kwargs)
    guesses = judge.rules.guesses(representation)
    return chance_baseline(described, judge, world=env_id, representation=representation, guesses=guesses)


def start_states(
    env_id: str, representation: Representation, num_states: int, seed: int = 0, **env_kwargs: Any
) -> list[DescribedState]:
    """Returns text and state dict of a world's start states, of `num_states` reset seeds from `seed` on."""
    # Nobody looks at the pictures, and they may need an engine.
    env = make(env_id, representation=representation, **{"obs_mode": "text", **env_kwargs})
    try:
        infos = [env.reset(seed=seed + offset)[1] for offset in range(num_states)]
    finally:
        env.close()
    return [(info["state_text"], info["state"]) for info in infos]
