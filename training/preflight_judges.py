"""Checks of a run's judges and model endpoints before it writes anything.

Terms of a reward that have a weight and that nothing can judge are reported (`unjudged_terms`). A term without a value
is no fault of a response, so the mean is of the others; where that holds for every response, the run is that of an
ablation, which the user has to know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agents.api.endpoint_config import PROVIDERS, EndpointConfig
from agents.perception.model_pool import lacking_where_ray_places
from agents.registry import entry_of, make_agent, require_agent
from judges.episode_rewards.episode_reward import EpisodeReward
from judges.episode_rewards.exact_models import is_generated_sample
from judges.episode_rewards.judge_models import JudgeModels, Model
from judges.episode_rewards.reward_registry import episode_reward
from judges.state_text.exact_judge import has_rules
from training.config.judge_config import JudgeConfig, VerifierConfig
from training.config.processes import process_rank
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec, world_names
from training.curation.curation_config import CurateConfig, PairsConfig
from training.stages.stages_config import StageRun
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import Representation
from vlm_envs.validation import field_name, fields_named, require


def check_judges(judge: JudgeConfig) -> None:
    """Refuses judges whose model is not there: a cold start should not be the price of finding out."""
    check_verifier(judge.verifier, "--judge.verifier")
    reward = judge.reward
    if reward is not None and not reward.models:  # Of one that asks models, the judge is built once they are loaded.
        reward.make_judge(JudgeModels())
    if judge.endpoint is not None:
        from agents.api.client import ChatClient  # and with it the endpoints' own package, which takes a second

        with fields_named({EndpointConfig: {"api_key_variable": "--judge.endpoint.api-key-variable"}}):
            ChatClient(judge.endpoint).close()


def check_verifier(verifier: VerifierConfig, option: str) -> None:
    """Refuses models that are not there; those of actors may be here, or where Ray finds a place for one."""
    lacking = {name: model for name, model in verifier.directories.items() if not Path(model).is_dir()}
    where = ""
    if verifier.workers == "ray" and process_rank() == 0:  # who alone asks them
        host, lacking_there = lacking_where_ray_places(verifier.absolute().directories, num_gpus=verifier.num_gpus)
        lacking, where = {name: lacking[name] for name in lacking_there if name in lacking}, f" here or on {host}"
    for name, directory in lacking.items():
        raise ConfigError(f"{option}.{name} {directory}: no such directory{where}.")
    if verifier.pointer is not None:
        require_agent(verifier.pointer)


def require_answer_judge(config: JudgeConfig, specs: Sequence[WorldSpec], *, option: str = "--judge.endpoint") -> None:
    """Refuses, before anything runs, a paper's reward for answers that only a model can compare, without one.

    Raises:
        ConfigError: If a world's data hold such answers and no endpoint is given.
    """
    reward = config.reward
    if config.endpoint is not None or reward is None:
        return
    needs = reward.needs
    for spec in specs:
        if "answer_judge" in needs and "semantic" in spec.answer_kinds():
            raise ConfigError(
                f"The data of {spec.env_id} have answers that only a model can compare ('semantic'), and the reward "
                f"{config.episode_reward!r} needs to know whether they are right. Give a judge model "
                f"({option}.model NAME and {option}.base-url URL), or data whose answers can be compared by rule."
            )


def without_judges(config: RunConfig) -> tuple[RunConfig, list[str]]:
    """Returns a configuration without the turn judges where no world has rules to judge by, and what is left out.

    A world without rules beside one that has them is paid by its own reward alone; the scorer leaves it out. Of that
    only those are told who chose a weight: the default ones are paid wherever there are rules. A language model that
    judges turns is left out, too.
    """
    unjudged = [
        name for spec, name in zip(config.worlds, world_names(config.worlds), strict=True) if not has_rules(spec.env_id)
    ]
    names = ("grounding_weight", "worldmodeling_weight", "repetition_penalty")
    in_use = [name for name in names if getattr(config.judge, name) > 0]
    if not unjudged or not in_use:
        return config, []
    if len(unjudged) < len(config.worlds):
        chosen = [name for name in in_use if getattr(config.judge, name) != getattr(JudgeConfig, name)]
        return config, _left_out(chosen, unjudged) if chosen else []
    judge = config.judge
    if config.judge.method != "exact" and config.judge.reward is None:
        judge = replace(judge, method="exact", endpoint=None, in_evaluations=False)
        return _silenced(config, judge), _left_out(in_use, unjudged, f"--judge.method {config.judge.method}")
    return _silenced(config, judge), _left_out(in_use, unjudged)


def _silenced(config: RunConfig, judge: JudgeConfig) -> RunConfig:
    """Returns a configuration with a judge of no turn."""
    judge = replace(judge, grounding_weight=0.0, worldmodeling_weight=0.0, repetition_penalty=0.0)
    return replace(config, judge=judge)


def _left_out(weights: Sequence[str], unjudged: Sequence[str], *others: str) -> list[str]:
    flags = ", ".join((*others, *(f"--judge.{name.replace('_', '-')}" for name in weights)))
    return [f"Left out: {flags}, for there are no rules to judge {', '.join(unjudged)} by; their own rewards count."]


def require_judged_texts(
    judge: JudgeConfig, worlds: Sequence[WorldSpec], representations: Sequence[Representation]
) -> None:
    """Refuses a language model as judge of turns in worlds that none judges as they are described.

    Args:
        judge: Who judges.
        worlds: What is played; those without rules are judged by nobody.
        representations: How each describes its states.

    Raises:
        ConfigError: If one is described in another way; the message has the option that changes it.
    """
    if judge.method == "exact" or not (
        judge.grounding_weight or judge.worldmodeling_weight or judge.repetition_penalty
    ):
        return
    from judges.llm.claim_extraction import family_of  # Which takes a second, and only models need it

    for number, (spec, representation) in enumerate(zip(worlds, representations, strict=True)):
        if not has_rules(spec.env_id):
            continue
        try:
            family_of(spec.env_id, representation)
        except ConfigError as error:
            raise ConfigError(
                f"--judge.method {judge.method}: {error} Use --judge.method exact, or have states described so that a "
                f"model can judge them: --worlds.{number}.kwargs.representation natural_language."
            ) from error


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


@dataclass(frozen=True, kw_only=True)
class AskedEndpoint:
    """A model behind an endpoint that somebody will ask.

    Attributes:
        option: What it was named by.
        skip: The option by which it is not asked at start-up.
        endpoint: Which, and where.
    """

    option: str
    skip: str
    endpoint: EndpointConfig

    def __str__(self) -> str:
        address = self.endpoint.address
        return f"{self.option}: {self.endpoint.model}{address and f' at {address}'}"


def require_made(name: str, option: str) -> EndpointConfig | None:
    """Refuses an agent that cannot be made; one behind an endpoint is made, which connects to nothing yet.

    Returns:
        Where it is asked, of one behind an endpoint; None of any other.

    Raises:
        ConfigError: If there is no such agent, or it lacks its model, its address or its key; it names the option.
        FileNotFoundError: If its checkpoint is not there.
        EngineUnavailableError: If a package that it needs is not installed.
    """
    try:
        require_agent(name)
        entry = entry_of(name)
        require(
            not entry.part or bool(name.partition(":")[2]),
            f"the agent is made from something: {name.partition(':')[0]}:{entry.part}; got {name!r}.",
        )
        if name.partition(":")[0] not in PROVIDERS:
            return None
        made: Any = make_agent(name)
        made.close()
    except ConfigError as error:
        raise ConfigError(f"{option} {name}: {error}") from error
    endpoint: EndpointConfig = made.config
    return endpoint


def endpoints_of(run: StageRun | PairsConfig) -> list[AskedEndpoint]:
    """Returns the models behind endpoints that a command will ask; none where they are not to be probed.

    Options are called as `fields_named` says.

    Raises:
        ConfigError: If one cannot be asked, as it is named.
    """
    if isinstance(run, CurateConfig):
        return _asked(run, _of_curation(run)) if run.probe_endpoints else []
    if isinstance(run, RunConfig) and run.probe_endpoints:
        return _asked(run, _of_run(run))
    if isinstance(run, PairsConfig) and run.probe_endpoints and run.asks_model:
        return _asked(run, iter([(field_name(run, "endpoint"), run.endpoint)]))
    return []


def _asked(
    run: CurateConfig | RunConfig | PairsConfig, named: Iterator[tuple[str, EndpointConfig | None]]
) -> list[AskedEndpoint]:
    option = field_name(run, "probe_endpoints")
    head, _, _ = option.rpartition("probe-endpoints")
    skip = f"{head}no-probe-endpoints" if head else f"{option}=False"
    return [AskedEndpoint(option=option, skip=skip, endpoint=each) for option, each in named if each is not None]


def _of_curation(config: CurateConfig) -> Iterator[tuple[str, EndpointConfig | None]]:
    """Yields what each model was named by, and where it is; None for one that is behind no endpoint."""
    pointing = config.pointing
    for option, name in (
        (field_name(config, "expert"), config.expert),
        (field_name(pointing, "proposer"), pointing.proposer),
        (field_name(pointing, "pointer"), pointing.pointer),
        (field_name(config, "judge"), config.judge),
    ):
        if name is not None:
            yield f"{option} {name}", _behind(name, option)
    yield field_name(config, "endpoint"), config.endpoint
    yield from _of_verifier(config.verifier)


def _of_run(config: RunConfig) -> Iterator[tuple[str, EndpointConfig | None]]:
    if config.num_iterations > 0 or config.judge.in_evaluations:
        yield field_name(config.judge, "endpoint"), config.judge.endpoint
    yield from _of_verifier(config.judge.verifier)


def _of_verifier(config: VerifierConfig) -> Iterator[tuple[str, EndpointConfig | None]]:
    if config.pointer is not None and config.workers == "local":  # other machines may reach what this one does not
        option = field_name(config, "pointer")
        yield f"{option} {config.pointer}", _behind(config.pointer, option)


def _behind(name: str, option: str) -> EndpointConfig | None:
    """Returns where an agent is asked; None of one that is behind no endpoint, whoever looks after that."""
    return require_made(name, option) if name.partition(":")[0] in PROVIDERS else None


def require_answers(asked: Sequence[AskedEndpoint]) -> None:
    """Asks each model one short question, side by side; of several processes, the main one does.

    Raises:
        ConfigError: If any of them does not answer; it names all that do not, with what may help.
    """
    if not asked or process_rank() != 0:
        return
    from agents.api.probe import faults_of  # and with it the endpoints' own packages, which take a second

    dead = [
        (each, fault) for each, fault in zip(asked, faults_of([each.endpoint for each in asked]), strict=True) if fault
    ]
    if not dead:
        return
    lines = [f"  {each}: {fault}" for each, fault in dead]
    skips = " ".join(dict.fromkeys(each.skip for each, _ in dead))
    models = "1 model that is" if len(dead) == 1 else f"{len(dead)} models that are"
    raise ConfigError(
        f"{models} to be asked behind an endpoint {'does' if len(dead) == 1 else 'do'} not answer:\n"
        + "\n".join(lines)
        + f"\nNothing was begun. Start or mend them; what is only started later is not asked now with {skips}"
    )
