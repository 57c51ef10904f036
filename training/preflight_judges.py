"""Checks of a run's judges and model endpoints before it writes anything.

Reward terms with a weight that nothing can judge are reported (`unjudged_terms`). A response is not penalized for a
term without a value, so the reward is the mean of the others; if a term has no value for any response, the run
amounts to an ablation, which the user must know.
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
    """Raises if a judge's model is missing, so that this is not discovered only after a cold start."""
    check_verifier(judge.verifier, "--judge.verifier")
    reward = judge.reward
    if reward is not None and not reward.models:  # a judge that needs models is built once they are loaded
        reward.make_judge(JudgeModels())
    if judge.endpoint is not None:
        from agents.api.client import ChatClient  # imported late, as the endpoints' package takes a second

        with fields_named({EndpointConfig: {"api_key_variable": "--judge.endpoint.api-key-variable"}}):
            ChatClient(judge.endpoint).close()


def check_verifier(verifier: VerifierConfig, option: str) -> None:
    """Raises if models are missing; those of Ray actors may be here or on a machine where Ray places one."""
    lacking = {name: model for name, model in verifier.directories.items() if not Path(model).is_dir()}
    where = ""
    if verifier.workers == "ray" and process_rank() == 0:  # only the main process uses them
        host, lacking_there = lacking_where_ray_places(verifier.absolute().directories, num_gpus=verifier.num_gpus)
        lacking, where = {name: lacking[name] for name in lacking_there if name in lacking}, f" here or on {host}"
    for name, directory in lacking.items():
        raise ConfigError(f"{option}.{name} {directory}: no such directory{where}.")
    if verifier.pointer is not None:
        require_agent(verifier.pointer)


def require_answer_judge(config: JudgeConfig, specs: Sequence[WorldSpec], *, option: str = "--judge.endpoint") -> None:
    """Raises if a paper's reward needs a model to compare answers and there is none.

    Raises:
        ConfigError: If a world's data have such answers and there is no endpoint.
    """
    reward = config.reward
    if config.endpoint is not None or reward is None:
        return
    needs = reward.needs
    for spec in specs:
        if "answer_judge" in needs and "semantic" in spec.answer_kinds():
            raise ConfigError(
                f"The data of {spec.env_id} have answers that only a model can compare ('semantic'), and the reward "
                f"{config.episode_reward!r} needs to know whether they are right. Name a judge model "
                f"({option}.model NAME and {option}.base-url URL), or use data whose answers can be compared by rule."
            )


def without_judges(config: RunConfig) -> tuple[RunConfig, list[str]]:
    """Returns a configuration without turn judges if no world has rules for judging, and messages about the omissions.

    In a mix, worlds without rules only have their own reward; the scorer omits the judges' terms. This is
    reported only if the user chose a weight, as the default weights apply wherever there are rules. A language model
    that judges turns is omitted, too.
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
    summary = f"Left out: {', '.join(flags)}, because there are no rules to judge {', '.join(unjudged)} by"
    return replace(config, judge=judge), [f"{summary}; their own rewards count."]


def require_judged_texts(
    judge: JudgeConfig, worlds: Sequence[WorldSpec], representations: Sequence[Representation]
) -> None:
    """Raises if a language model is to judge turns of worlds whose representation it cannot judge.

    Args:
        judge: Settings of the judges.
        worlds: The worlds; those without rules are not judged.
        representations: Representation of each world's states.

    Raises:
        ConfigError: If a world has another representation; the message gives the option that changes it.
    """
    if judge.method == "exact" or not (
        judge.grounding_weight or judge.worldmodeling_weight or judge.repetition_penalty
    ):
        return
    from judges.llm.claim_extraction import family_of  # imported late, as it takes a second

    for number, (spec, representation) in enumerate(zip(worlds, representations, strict=True)):
        if not has_rules(spec.env_id):
            continue
        try:
            family_of(spec.env_id, representation)
        except ConfigError as error:
            raise ConfigError(
                f"--judge.method {judge.method}: {error} Use --judge.method exact, or a representation that a model "
                f"can judge: --worlds.{number}.kwargs.representation natural_language."
            ) from error


_TERMS: dict[Model, tuple[str, tuple[str, ...]]] = {
    "likelihoods": ("reasoning", ("likelihood",)),
    "masks": ("grounding", ("detector", "segmenter")),
}
"""Reward terms by the model that judges them, each with the verifier's fields for such models."""


def unjudged_terms(
    reward: EpisodeReward | None,
    verifier: VerifierConfig,
    worlds: Sequence[tuple[str, str | None]],
    *,
    reward_set: str,
) -> list[str]:
    """Returns a message for each term of a reward that nothing can judge in some of the worlds.

    Args:
        reward: The reward with its settings; None for none.
        verifier: The available models.
        worlds: Name of each world with an id of its samples; None for a world without questions.
        reward_set: The option for the reward's settings.
    """
    messages = []
    for model, (term, fields) in _TERMS.items():
        is_named = any(getattr(verifier, name) is not None for name in fields)
        if reward is None or is_named or model not in reward.models:
            continue
        unjudged = [name for name, sample in worlds if model != "masks" or not is_generated_sample(sample or "")]
        if unjudged:
            models = " and ".join(f"{_option(verifier, name)} DIR" for name in fields)
            messages.append(
                f"Nothing judges {term} in {', '.join(unjudged)}, because it needs models and none is named. There the "
                f"reward {reward.name} consists of its other terms, as in the ablation {reward_set} {term}_weight=0. "
                f"Name models with {models}."
            )
    return messages


def _option(verifier: VerifierConfig, name: str) -> str:
    option = field_name(verifier, name)
    return option if option.startswith("--") else f"--judge.verifier.{name}"


@dataclass(frozen=True, kw_only=True)
class AskedEndpoint:
    """A model behind an endpoint that a command will use.

    Attributes:
        option: The option that named it.
        skip: The option that turns its probe off.
        endpoint: The model and its address.
    """

    option: str
    skip: str
    endpoint: EndpointConfig

    def __str__(self) -> str:
        address = self.endpoint.address
        return f"{self.option}: {self.endpoint.model}{address and f' at {address}'}"


def require_made(name: str, option: str) -> EndpointConfig | None:
    """Creates an agent behind an endpoint, which does not connect yet, and validates other agents.

    Returns:
        The endpoint; None for other agents.

    Raises:
        ConfigError: If there is no such agent, or it lacks its model, address, or key; the message names the option.
        FileNotFoundError: If its checkpoint does not exist.
        EngineUnavailableError: If a package that it needs is not installed.
    """
    try:
        require_agent(name)
        entry = entry_of(name)
        require(
            not entry.part or bool(name.partition(":")[2]),
            f"the agent needs an argument: {name.partition(':')[0]}:{entry.part}; got {name!r}.",
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
    """Returns the endpoints that a command will use; empty if they are not to be probed.

    Option names follow `fields_named`.

    Raises:
        ConfigError: If an endpoint is invalid.
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
        if verifier.workers == "local":  # remote machines may reach endpoints that this one cannot
            agents.append((verifier, "pointer"))
    for config, field in agents:
        name, option = getattr(config, field), field_name(config, field)
        if name is not None and name.partition(":")[0] in PROVIDERS:
            named.append((f"{option} {name}", require_made(name, option)))
    option = field_name(run, "probe_endpoints")
    head, _, _ = option.rpartition("probe-endpoints")
    skip = f"{head}no-probe-endpoints" if head else f"{option}=False"
    return [
        AskedEndpoint(option=option, skip=skip, endpoint=endpoint) for option, endpoint in named if endpoint is not None
    ]


def require_answers(asked: Sequence[AskedEndpoint]) -> None:
    """Asks each model one short question, concurrently and only in the main process.

    Raises:
        ConfigError: If a model does not answer; the message lists all such models with suggestions.
    """
    if not asked or process_rank() != 0:
        return
    from agents.api.probe import faults_of  # imported late, as the endpoints' packages take a second

    faults = faults_of([model.endpoint for model in asked])
    dead = [(model, fault) for model, fault in zip(asked, faults, strict=True) if fault]
    if dead:
        lines = "\n".join(f"  {model}: {fault}" for model, fault in dead)
        skips = " ".join(dict.fromkeys(model.skip for model, _ in dead))
        raise ConfigError(
            f"These models behind endpoints do not answer:\n{lines}\nNothing was started. Start or "
            f"repair them; to skip the check for models that are started later, add {skips}"
        )
