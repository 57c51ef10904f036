"""Checks of a run before it writes anything: its worlds, start, device, packages, and W&B login.

Nothing here imports torch, except to resolve a device, so that errors in options are reported instantly.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from agents.hf.checkpoint import require_checkpoint, require_device, require_weights
from agents.hf.sampling_config import SamplingConfig
from agents.oracle import has_intention, has_planner, has_suboptimal_planner
from agents.vllm.vllm_config import require_msgpack, require_vllm
from training.checkpoints.checkpoint_files import (
    LATEST,
    has_checkpoint,
    is_in_cold_start,
    model_directory,
    provenance_of,
    require_run_state,
)
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.processes import num_processes, print_on_main, require_engine
from training.config.resume import check_same_run
from training.config.run_config import RunConfig
from training.config.saved_config import require_writable
from training.config.settings_without_effect import settings_without_effect, warning_of
from training.config.update_config import LoRAConfig, MemoryConfig
from training.config.world_spec import WorldSpec, world_names
from training.curation.curation_config import CURATED
from training.pools.pool_command import require_pools
from training.preflight_judges import (
    check_judges,
    endpoints_of,
    require_answer_judge,
    require_answers,
    require_judged_texts,
    unjudged_terms,
    without_judges,
)
from training.recipes.shipped import RECIPES, STAGED_RECIPES
from vlm_envs.adapter.adapter_settings import NAMESPACE
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_splits import remedy_of
from vlm_envs.records.json_lines import MissingRunDataError, RunExistsError
from vlm_envs.records.run_data import RunReader, holds_run
from vlm_envs.registration import registered_name
from vlm_envs.requirements import install_command
from vlm_envs.responses.formats import Representation
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Observation
from vlm_envs.validation import field_name, fields_named, require
from vlm_envs.world import World

_OUTPUT = "runs"
"""Output directory of the shipped recipes."""
_WITHOUT_LOGIN = ("offline", "dryrun", "disabled")


class WorldFacts(NamedTuple):
    """Facts about a started world.

    Attributes:
        has_planner: Whether it has a planner to imitate.
        has_suboptimal_planner: Whether it has a planner that ignores the level's main difficulty.
        has_intention: Whether it can describe the intention of a whole plan.
        representation: The representation of its state text.
        observation: First observation of the first training level.
        sample_id: Id of its question; None for a world without questions.
    """

    has_planner: bool
    has_suboptimal_planner: bool
    has_intention: bool
    representation: Representation
    observation: Observation
    sample_id: str | None


def _world_facts(world: World[Any, Any]) -> dict[str, Any]:
    return {
        "has_planner": has_planner(world),
        "has_suboptimal_planner": has_suboptimal_planner(world),
        "has_intention": has_intention(world),
        "representation": cast(Representation, world.representation),
        "sample_id": getattr(getattr(world.state, "sample", None), "sample_id", None),
    }


def facts_of(spec: WorldSpec) -> WorldFacts:
    """Starts one world on its worker and returns facts about it.

    Raises:
        ConfigError: If it cannot be created with its arguments, or is not a world of `vlm_envs`.
        EngineUnavailableError: If its engine is not installed.
    """
    with spec.make_vector(1, split="train") as worlds:
        observations, _ = worlds.reset(seed=list(split_seeds("train", 1)))
        return WorldFacts(**worlds.apply({0: _world_facts})[0], observation=observations[0])


def checked(config: RunConfig, *, resume: bool) -> RunConfig:
    """Validates a configuration, prints messages about omitted settings, and returns it ready for training.

    See `tried`. After all other checks, the models behind endpoints are probed, too.
    """
    config, messages = tried(config, resume=resume)
    require_answers(endpoints_of(config))
    print_on_main(messages)
    return config


def tried(config: RunConfig, *, resume: bool, is_to_come: bool = False) -> tuple[RunConfig, list[str]]:
    """Validates a configuration and its requirements.

    Args:
        config: The run.
        resume: Whether the run is resumed.
        is_to_come: Whether the start checkpoint is yet to be created, and need not exist.

    Returns:
        The configuration without settings that its worlds do not use, and a message for each of these.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and there is no run, or if a checkpoint to start from is not one.
        ConfigError: If a requirement is missing or, when resuming, settings differ from the run's.
        EngineUnavailableError: If a world's engine is not installed.
    """
    directory = Path(config.output) / config.name
    require_writable(directory, config.output)
    require_engine(
        config.engine,
        num_groups=config.num_groups,
        has_adapters=config.lora.rank is not None,
        staleness=config.staleness,
        critic_trunk=config.algorithm.critic_trunk,
    )
    if resume:
        check_same_run(config, directory)
        if not is_in_cold_start(directory):
            require_run_state(directory / LATEST)
    else:
        require_unused(directory)
    require_answer_judge(config.judge, config.worlds)
    require_levels(config)
    of_pools = require_pools(config.worlds)
    require_wandb(config.wandb_project)
    require_peft(config.lora)
    require_attention(config.memory)
    require_sampler(config)
    if not resume and not is_to_come:
        if config.model is not None:
            none = "; --model None starts from the tiny VLM after a cold start"
            require_start(config.model, besides=none)
        if config.reference is not None:
            _require_reference(config.reference, config.model)
    config, messages = ready(config, imitates=config.model is None and (not resume or is_in_cold_start(directory)))
    return config, [*of_pools, *messages]


def _require_reference(reference: str, model: str | None) -> None:
    """Raises unless the reference is a checkpoint with the same family and vocabulary as the start."""
    instead = "Name another, or leave --reference out to use the model that the run starts from."
    try:
        require_weights(require_checkpoint(model_directory(reference)))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} {instead}") from error
    if model is None:
        return
    for what, of_reference, of_model in zip(
        ("family", "vocabulary size"), _kind_of(reference), _kind_of(model), strict=True
    ):
        require(
            of_reference == of_model,
            f"--reference {reference} has {what} {of_reference}, but --model {model} has {of_model}, so their "
            f"log-probabilities cannot be compared. {instead}",
        )


def _kind_of(model: str) -> tuple[Any, Any]:
    """Returns a checkpoint's family and vocabulary size."""
    settings = json.loads((model_directory(model) / "config.json").read_text(encoding="utf-8"))
    return settings.get("model_type"), {**settings, **settings.get("text_config", {})}.get("vocab_size")


def _facts_of_place(number: int, spec: WorldSpec) -> WorldFacts:
    """Returns `facts_of` a world; errors list its arguments, as a rejected one may come from the recipe."""
    try:
        return facts_of(spec)
    except ConfigError as error:
        given = ", ".join(f"{name}={value!r}" for name, value in spec.kwargs.items())
        if not given:
            raise
        raise ConfigError(
            f"{error}\n--worlds.{number} is {spec.env_id} with {given}. Change the argument that it does not accept, "
            f"yours or a recipe's, with --worlds.{number}.kwargs.NAME VALUE."
        ) from error


def _unfinished(start: str) -> list[str]:
    """Returns a message if a model comes from an interrupted cold start."""
    made_from = provenance_of(start) or {}
    done, steps = made_from.get("num_steps_done"), (made_from.get("cold_start") or {}).get("num_steps")
    if not isinstance(done, int) or not isinstance(steps, int) or done >= steps:
        return []
    return [f"{start} comes from a cold start that was interrupted after {done:,} of {steps:,} steps."]


def ready(config: RunConfig, *, imitates: bool) -> tuple[RunConfig, list[str]]:
    """Validates the worlds, device, and judges of a run.

    Returns:
        The configuration without settings that its worlds do not use, and messages about settings without effect,
        omitted settings, and reward terms that nothing can judge.

    Raises:
        ConfigError: If a world, the device, or a judge's model is unavailable, or there is no expert to imitate.
        FileNotFoundError: If the checkpoint that a cold start starts from does not exist.
        EngineUnavailableError: If a world's engine is not installed.
    """
    require_device(config.device)
    check_judges(config.judge)
    facts = [_facts_of_place(number, spec) for number, spec in enumerate(config.worlds)]
    require_judged_texts(config.judge, config.worlds, [world.representation for world in facts])
    start = config.cold_start.start_from if imitates else config.model
    if start is not None:
        _require_contexts(config, start, [world.observation for world in facts])
    inert = warning_of(settings_without_effect(config))
    config, messages = without_judges(config)
    messages = [*inert, *([] if start is None else _unfinished(start)), *messages]
    samples = zip(world_names(config.worlds), [world.sample_id for world in facts], strict=True)
    reward_set = field_name(config.judge, "reward_settings")
    reward_set = reward_set if reward_set.startswith("--") else "--judge.reward-set"
    messages += unjudged_terms(config.judge.reward, config.judge.verifier, [*samples], reward_set=reward_set)
    if imitates:
        _require_expert(config, facts)
        if config.cold_start.start_from is not None:
            require_checkpoint(model_directory(config.cold_start.start_from))
        config, left_out = _without_missing_plans(config, facts)
        messages += left_out
    return config, messages


def _without_missing_plans(config: RunConfig, facts: Sequence[WorldFacts]) -> tuple[RunConfig, list[str]]:
    """Returns a configuration whose cold start requests no plans that its worlds lack, and messages about omissions."""
    messages = []
    for name, has, what in (
        ("suboptimal_rate", "has_suboptimal_planner", "a suboptimal_plan"),
        ("tells_plan", "has_intention", "an intention to tell"),
    ):
        if getattr(config.cold_start, name) and not any(getattr(world, has) for world in facts):
            default = {name: getattr(ColdStartConfig, name)}
            config = replace(config, cold_start=replace(config.cold_start, **default))
            messages.append(f"Left out: --cold-start.{name.replace('_', '-')}, because no world here has {what}.")
    worlds = list(config.worlds)
    for number, (spec, world) in enumerate(zip(config.worlds, facts, strict=True)):
        if spec.cold_start_suboptimal_rate and not world.has_suboptimal_planner:
            worlds[number] = replace(spec, cold_start_suboptimal_rate=0.0)
            option = f"--worlds.{number}.cold-start-suboptimal-rate"
            messages.append(f"Left out: {option}, because {spec.env_id} has no suboptimal_plan.")
    return replace(config, worlds=tuple(worlds)), messages


def _require_contexts(config: RunConfig, start: str, observations: Sequence[Observation]) -> None:
    """Raises if a world's first observation leaves no room for a response, in training or in an evaluation."""
    require_context(start, observations, config.sampling)
    if config.eval_sampling.max_new_tokens is not None:
        names = {setting.name: field_name(config.sampling, setting.name) for setting in fields(SamplingConfig)}
        names["max_new_tokens"] = field_name(config.eval_sampling, "max_new_tokens")
        with fields_named({SamplingConfig: names}):
            require_context(start, observations, config.evaluated_sampling)


def _require_expert(config: RunConfig, facts: Sequence[WorldFacts]) -> None:
    if config.cold_start.data is not None:
        return _require_data_set(config.cold_start.data)
    for name, spec, world in zip(world_names(config.worlds), config.worlds, facts, strict=True):
        if config.cold_start.num_steps and not world.has_planner:
            raise ConfigError(
                f"{name} has no planner for a cold start to imitate. {how_to_plan(spec)}; or "
                "start from a checkpoint that can play (--model DIR); or imitate recorded episodes (--cold-start.data "
                "DIR); or start reinforcement learning without imitation (--cold-start.num-steps 0)."
            )


def how_to_plan(spec: WorldSpec) -> str:
    """Returns how to add a planner to a world, as a sentence without its period."""
    if not registered_name(spec.env_id).startswith(f"{NAMESPACE}/"):
        return "Write its Dynamics.plan"
    if spec.env_id.lower().endswith(".toml"):
        return f'Write a function plan(env) and name it in {spec.env_id.partition(":")[2]}, plan = "module:function"'
    return "Write a function plan(env) and give it to vlm_envs.adapt as plan=..., or name it in a TOML file"


def _require_data_set(directory: str) -> None:
    try:
        episodes = RunReader(directory).each_trajectory(CURATED)
        is_empty = not any(isinstance(episode, dict) for _, episode in episodes)
    except MissingRunDataError as error:
        raise ConfigError(f"--cold-start.data must be a dataset of `python -m training curate`. {error}") from error
    if is_empty:
        raise ConfigError(f"--cold-start.data: the dataset in {directory} is empty.")


def require_unused(directory: Path) -> None:
    """Raises if a new run would overwrite another one.

    Raises:
        RunExistsError: If there is a run. One that never reached a checkpoint may be overwritten.
    """
    has_any = has_checkpoint(directory / LATEST) or is_in_cold_start(directory)
    starts_over = (directory / "config.json").is_file() and not has_any
    if holds_run(directory) and not starts_over:
        raise RunExistsError(f"{directory} already holds a run. Add --resume to resume it, or choose another --name.")


def require_levels(config: RunConfig) -> None:
    """Raises if a dataset has no level for training, or for a requested evaluation.

    Raises:
        ConfigError: If a split that the run needs is empty.
    """
    is_validated = config.num_val_episodes > 0 and (config.eval_every > 0 or config.model is None)
    needed = {"train": True, "val": is_validated, "test": config.num_eval_episodes > 0}
    for spec in config.worlds:
        for split in (split for split, is_needed in needed.items() if is_needed and not spec.has_level(split)):
            kwargs, train_on_all = spec.kwargs, bool(spec.kwargs.get("train_on_all"))
            remedy = remedy_of(kwargs.get("dataset"), kwargs.get("is_benchmark"), train_on_all=train_on_all)
            raise ConfigError(
                f"The data of {spec.env_id} ({spec.kwargs.get('dataset', 'its source')}) have no level in split "
                f"{split!r}, which this run needs. "
                f"{remedy} Or set the number of episodes of missing splits to 0 (--num-val-episodes 0, "
                "--num-eval-episodes 0)."
            )


def require_context(model: str, observations: Sequence[Observation], sampling: SamplingConfig) -> None:
    """Raises if a world's first observation is too long for a checkpoint; a missing checkpoint is ignored here.

    Args:
        model: The checkpoint; everything but its weights is read.
        observations: First observations.
        sampling: The sampling settings.

    Raises:
        ConfigError: If there is no room for a response.
        ValueError: If the checkpoint's family is unknown, or it is incomplete or damaged.
    """
    directory = model_directory(model)
    if not (directory / "config.json").is_file():
        return
    from transformers import AutoConfig  # imported late, as it imports torch, which takes seconds

    from agents.hf.hf_agent import load_encoder
    from agents.hf.sampling_config import context_limit, require_room

    encoder = load_encoder(directory)
    encoder.limit_pixels(sampling.max_image_pixels)
    limit = context_limit(AutoConfig.from_pretrained(directory, local_files_only=True), sampling)
    for observation in observations:
        require_room(len(encoder.encode(observation, is_first=True).ids), limit, sampling)


def require_start(model: str, *, besides: str = "") -> None:
    """Raises unless the start is a checkpoint; a recipe may name one that the user or another recipe must provide.

    Args:
        model: The directory.
        besides: Alternatives to naming a checkpoint, beginning with a semicolon.

    Raises:
        FileNotFoundError: If there is no checkpoint. The message names the recipe that creates it, if there is one.
    """
    try:
        require_weights(require_checkpoint(model_directory(model)))
    except FileNotFoundError as error:
        parts = Path(model).parts
        is_of_recipe = len(parts) > 2 and parts[0] == _OUTPUT and parts[1] in RECIPES | STAGED_RECIPES
        first = f"Run `python -m training {parts[1]}` first, which creates it, or name" if is_of_recipe else "Name"
        raise FileNotFoundError(f"{error} {first} yours with --model DIR{besides}.") from error


def require_peft(lora: LoRAConfig) -> None:
    """Raises if adapters are requested and peft is missing.

    Raises:
        ConfigError: If a rank is given and peft is not installed.
    """
    if lora.rank is not None:
        _require_package("peft", f"--lora.rank {lora.rank}", install_command("scale"))


def require_attention(memory: MemoryConfig) -> None:
    """Raises if flash attention is requested and its package is missing.

    Raises:
        ConfigError: If it is requested and flash-attn is not installed.
    """
    if memory.attention == "flash_attention_2":
        _require_package(
            "flash_attn", "--memory.attention flash_attention_2", "pip install flash-attn --no-build-isolation"
        )


def _require_package(name: str, option: str, install: str) -> None:
    require(
        importlib.util.find_spec(name) is not None,
        f"{option} needs the package {name}, which is not installed. Install it: {install}; or leave the option out.",
    )


def require_sampler(config: RunConfig) -> None:
    """Raises if vLLM's packages are missing, or there are more servers than processes to use them.

    Raises:
        ConfigError: If a server would be unused.
        EngineUnavailableError: If a package is not installed.
    """
    if config.sampler != "vllm":
        return
    servers, processes = len(config.vllm.urls), num_processes()
    require(
        servers <= processes,
        f"--vllm.url names {servers} servers for {processes} training process{'es' if processes > 1 else ''}, each of "
        "which uses one. Name fewer; one server can use several GPUs, by vLLM's --data-parallel-size.",
    )
    if config.vllm.url is None:
        require_vllm()
    else:
        require_msgpack()


def require_wandb(project: str | None) -> None:
    """Raises if logging to W&B is requested but impossible: the package or a valid login is missing.

    Args:
        project: The requested project; None for none.

    Raises:
        ConfigError: If the package is missing, or there is no login and `WANDB_MODE` is neither offline nor disabled.
    """
    if project is None:
        return
    _require_package("wandb", f"--wandb-project {project}", install_command("wandb"))
    wandb = import_wandb()
    try:
        if wandb.setup().settings.mode not in _WITHOUT_LOGIN:
            wandb.login(verify=True)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"--wandb-project {project}: W&B rejects the login here ({reason}) Log in with `wandb login`, or set "
            "WANDB_MODE=offline to log to the run's folder and upload it later with `wandb sync`."
        ) from error


def import_wandb() -> Any:
    """Imports `wandb` with its error reporting off unless `WANDB_ERROR_REPORTING` is set.

    Its service sends reports at exit, and without a network a command would wait a minute for them.
    """
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    return importlib.import_module("wandb")
