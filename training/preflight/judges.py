"""What is found out about judges before a run leaves anything behind: whether they are there and can read worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agents.api.config import EndpointConfig
from agents.perception.model_worker import lacking_where_ray_places
from agents.registry import require_agent
from judges.episode_rewards.models import JudgeModels
from judges.state_text.rules import has_rules
from training.config.judges import JudgeConfig, VerifierConfig
from training.config.processes import process_rank
from training.config.run import RunConfig
from training.config.worlds.spec import WorldSpec, world_names
from vlm_envs.adapter.adapter_settings import NAMESPACE as ADAPTED
from vlm_envs.errors import ConfigError
from vlm_envs.registration import registered_name
from vlm_envs.responses.formats import Representation
from vlm_envs.validation import fields_named


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
    only those are told who chose a weight: the default ones are paid wherever there are rules. A language model as
    judge is left out, too, where all worlds are adapted environments, none of which has rules of its own.
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
        if all(registered_name(spec.env_id).startswith(f"{ADAPTED}/") for spec in config.worlds):
            judge = replace(judge, method="exact", endpoint=None, in_evaluations=False)
            return _silenced(config, judge), _left_out(in_use, unjudged, f"--judge.method {config.judge.method}")
        raise ConfigError(
            f"--judge.method {config.judge.method} would do nothing: there are no rules to judge {', '.join(unjudged)} "
            "by. Use --judge.method exact, and leave --judge.endpoint out."
        )
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
    from judges.llm.families import family_of  # Which takes a second, and only models need it

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
