"""Terms of a reward that have a weight and that nothing can judge in a run: they are left out of every mean.

A term without a value is no fault of a response, so the mean is of the others. Where that is so of every response the
run is that of an ablation, which whoever started it has to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judges.episode_rewards.exact import is_generated_sample
from judges.episode_rewards.models import Model
from judges.episode_rewards.registry import episode_reward
from judges.episode_rewards.reward import EpisodeReward
from training.config.judges import VerifierConfig
from vlm_envs.validation import field_name


@dataclass(frozen=True, kw_only=True)
class _Term:
    """A term, and what would judge it.

    Attributes:
        weight: Setting of a reward that it is weighted by.
        what: What it is about.
        fields: Of the verifier, that name the models that judge it.
    """

    weight: str
    what: str
    fields: tuple[str, ...]


_TERMS: dict[Model, _Term] = {
    "likelihoods": _Term(weight="reasoning_weight", what="reasoning", fields=("likelihood",)),
    "masks": _Term(weight="grounding_weight", what="grounding", fields=("detector", "segmenter")),
}
"""By the model that a reward asks about it."""


def unjudged_terms(
    reward: EpisodeReward | None,
    verifier: VerifierConfig,
    worlds: Sequence[tuple[str, str | None]],
    *,
    reward_set: str,
) -> list[str]:
    """Returns a line for each term of a reward that nothing can judge, and one for an ablation that changes nothing.

    Args:
        reward: With its settings; None for none.
        verifier: The models there are.
        worlds: What each is called, with an id of its samples; None for one that asks no questions.
        reward_set: The option by which the reward's settings are set.
    """
    if reward is None:
        return []
    told = []
    for model, term in _TERMS.items():
        names = _unjudged_in(model, verifier, worlds)
        if model in reward.models and names:
            told.append(_of_weighted(reward, term, verifier, names, worlds, reward_set))
    return [*told, *_of_ablation(reward, verifier, worlds)]


def _unjudged_in(model: Model, verifier: VerifierConfig, worlds: Sequence[tuple[str, str | None]]) -> list[str]:
    """Returns the worlds in which nothing judges what a model would."""
    if any(getattr(verifier, name) is not None for name in _TERMS[model].fields):
        return []
    is_exact = {name: model == "masks" and is_generated_sample(sample or "") for name, sample in worlds}
    return [name for name, exact in is_exact.items() if not exact]


def _of_weighted(
    reward: EpisodeReward,
    term: _Term,
    verifier: VerifierConfig,
    names: Sequence[str],
    worlds: Sequence[tuple[str, str | None]],
    reward_set: str,
) -> str:
    weight = getattr(reward.settings, term.weight, None)
    has = f"has {term.weight} {weight:g}" if weight is not None else f"rewards {term.what}"
    where = "here" if len(names) == len(worlds) else f"in {', '.join(names)}"
    why = " on pictures that are not generated" if term.what == "grounding" else ""
    same = (
        f" That is the run of {reward_set} {term.weight}=0, an ablation."
        if len(names) == len(worlds) and weight
        else ""
    )
    instead = f", or leave the term out: {reward_set} {term.weight}=0" if weight and not same else ""
    return (
        f"Nothing judges {term.what} {where}: the reward {reward.name} {has}, and{why} only models can tell, of which "
        f"none is named. Responses are paid for the other terms alone.{same} Name yours with "
        f"{_options(verifier, term)}{instead}."
    )


def _of_ablation(
    reward: EpisodeReward, verifier: VerifierConfig, worlds: Sequence[tuple[str, str | None]]
) -> list[str]:
    """Returns that what a reward leaves out would not be judged without models either; nothing where some would be."""
    whole = episode_reward(reward.name)
    left_out = [model for model in _TERMS if model in whole.models and model not in reward.models]
    if not left_out or any(len(_unjudged_in(each, verifier, worlds)) < len(worlds) for each in left_out):
        return []
    terms = [_TERMS[each] for each in left_out]
    zeros = " and ".join(f"{each.weight}=0" for each in terms)
    options = " or ".join(_options(verifier, each) for each in terms)
    return [
        f"{zeros} differs in nothing from the whole reward of {reward.name} where no model judges "
        f"{' and '.join(each.what for each in terms)}: compare with a run that has {options}."
    ]


def _options(verifier: VerifierConfig, term: _Term) -> str:
    return " and ".join(f"{_option(verifier, name)} DIR" for name in term.fields)


def _option(verifier: VerifierConfig, name: str) -> str:
    option = field_name(verifier, name)
    return option if option.startswith("--") else f"--judge.verifier.{name}"
