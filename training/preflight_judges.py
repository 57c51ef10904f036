"""Checks of a run's judges and model endpoints before it writes anything.

Terms of a reward that have a weight and that nothing can judge are reported (`unjudged_terms`). A term without a value
is no fault of a response, so the mean is of the others; where that holds for every response, the run is that of an
ablation, which the user has to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agents.api.endpoint_config import PROVIDERS, EndpointConfig
from agents.perception.model_pool import lacking_where_ray_places
from agents.registry import entry_of, make_agent, require_agent
from judges.episode_rewards.episode_reward import EpisodeReward
from judges.episode_rewards.exact_models import is_generated_sample
from judges.episode_rewards.judge_models import JudgeModels, Model
from judges.state_text.exact_judge import has_rules
from training.config.judge_config import JudgeConfig, VerifierConfig
from training.config.processes import process_rank
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec, world_names
from training.curation.curation_config import CurateConfig, PairsConfig
from training.sft.sft_config import SFTConfig
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

    A world without rules beside one that has them is paid by its own reward alone; the scorer leaves it out. This is
    reported only to users who chose a weight: the default ones are paid wherever there are rules. A language model
    that judges turns is left out, too.
    """
    names = zip(config.worlds, world_names(config.worlds), strict=True)
    unjudged = [name for spec, name in names if not has_rules(spec.env_id)]
    judge = config.judge
    weights = [
        name for name in ("grounding_weight", "worldmodeling_weight", "repetition_penalty") if getattr(judge, name)
    ]
    if len(unjudged) < len(config.worlds):
        weights = [name for name in weights if getattr(judge, name) != getattr(JudgeConfig, name)]
    if not unjudged or not weights:
        return config, []
    flags = [f"--judge.{name.replace('_', '-')}" for name in weights]
    if len(unjudged) == len(config.worlds):
        if judge.method != "exact" and judge.reward is None:
            flags.insert(0, f"--judge.method {judge.method}")
            judge = replace(judge, method="exact", endpoint=None, in_evaluations=False)
        judge = replace(judge, grounding_weight=0.0, worldmodeling_weight=0.0, repetition_penalty=0.0)
    told = f"Left out: {', '.join(flags)}, for there are no rules to judge {', '.join(unjudged)} by"
    return replace(config, judge=judge), [f"{told}; their own rewards count."]


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


_TERMS: dict[Model, tuple[str, tuple[str, ...]]] = {
    "likelihoods": ("reasoning", ("likelihood",)),
    "masks": ("grounding", ("detector", "segmenter")),
}
"""Terms of rewards by the model that judges them, each with the verifier's fields that name such models."""


def unjudged_terms(
    reward: EpisodeReward | None,
    verifier: VerifierConfig,
    worlds: Sequence[tuple[str, str | None]],
    *,
    reward_set: str,
) -> list[str]:
    """Returns a line for each term of a reward that nothing can judge in some of the worlds.

    Args:
        reward: With its settings; None for none.
        verifier: The models there are.
        worlds: The name of each, with an id of its samples; None for one that asks no questions.
        reward_set: The option by which the reward's settings are set.
    """
    told = []
    for model, (term, fields) in _TERMS.items():
        is_named = any(getattr(verifier, name) is not None for name in fields)
        if reward is None or is_named or model not in reward.models:
            continue
        unjudged = [name for name, sample in worlds if model != "masks" or not is_generated_sample(sample or "")]
        if unjudged:
            models = " and ".join(f"{_option(verifier, name)} DIR" for name in fields)
            told.append(
                f"Nothing judges {term} in {', '.join(unjudged)}: only models can, and none is named. The reward "
                f"{reward.name} pays there for the other terms alone, as in the ablation {reward_set} {term}_weight=0. "
                f"Name models with {models}."
            )
    return told


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
    if isinstance(run, SFTConfig) or not run.probe_endpoints:
        return []
    agents: list[tuple[Any, str]] = []
    named: list[tuple[str, EndpointConfig | None]] = []
    if isinstance(run, PairsConfig):
        named.append((field_name(run, "endpoint"), run.endpoint if run.asks_model else None))
    else:
        judge, verifier = (run, run.verifier) if isinstance(run, CurateConfig) else (run.judge, run.judge.verifier)
        if isinstance(run, CurateConfig):
            agents += [(run, "expert"), (run.pointing, "proposer"), (run.pointing, "pointer"), (run, "judge")]
        if isinstance(run, CurateConfig) or run.num_iterations > 0 or run.judge.in_evaluations:
            named.append((field_name(judge, "endpoint"), judge.endpoint))
        if verifier.workers == "local":  # other machines may reach what this one does not
            agents.append((verifier, "pointer"))
    for config, field in agents:
        name, option = getattr(config, field), field_name(config, field)
        if name is not None and name.partition(":")[0] in PROVIDERS:
            named.append((f"{option} {name}", require_made(name, option)))
    option = field_name(run, "probe_endpoints")
    head, _, _ = option.rpartition("probe-endpoints")
    skip = f"{head}no-probe-endpoints" if head else f"{option}=False"
    return [AskedEndpoint(option=option, skip=skip, endpoint=each) for option, each in named if each is not None]


def require_answers(asked: Sequence[AskedEndpoint]) -> None:
    """Asks each model one short question, side by side; of several processes, the main one does.

    Raises:
        ConfigError: If any of them does not answer; it names all that do not, with what may help.
    """
    if not asked or process_rank() != 0:
        return
    from agents.api.probe import faults_of  # and with it the endpoints' own packages, which take a second

    faults = faults_of([each.endpoint for each in asked])
    dead = [(each, fault) for each, fault in zip(asked, faults, strict=True) if fault]
    if dead:
        lines = "\n".join(f"  {each}: {fault}" for each, fault in dead)
        skips = " ".join(dict.fromkeys(each.skip for each, _ in dead))
        raise ConfigError(
            f"Models that are to be asked behind an endpoint and do not answer:\n{lines}\nNothing was begun. Start or "
            f"repair them; what is only started later is not asked now with {skips}"
        )
