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
"""Where recipes that ship put their runs."""
_WITHOUT_LOGIN = ("offline", "dryrun", "disabled")


class WorldFacts(NamedTuple):
    """What is known of a world that has started.

    Attributes:
        has_planner: Whether it has a plan to imitate.
        has_suboptimal_planner: Whether it has one that overlooks what makes it hard.
        has_intention: Whether it has words for what a whole plan wants.
        representation: How it writes its state in words.
        observation: What the first training level shows first.
        sample_id: Of its question; None in a world that asks none.
    """

    has_planner: bool
    has_suboptimal_planner: bool
    has_intention: bool
    representation: Representation
    observation: Observation
    sample_id: str | None


def _told(world: World[Any, Any]) -> dict[str, Any]:
    return {
        "has_planner": has_planner(world),
        "has_suboptimal_planner": has_suboptimal_planner(world),
        "has_intention": has_intention(world),
        "representation": cast(Representation, world.representation),
        "sample_id": getattr(getattr(world.state, "sample", None), "sample_id", None),
    }


def facts_of(spec: WorldSpec) -> WorldFacts:
    """Starts one world, where its workers are, and returns what is known of it then.

    Raises:
        ConfigError: If it cannot be made with its arguments, or is no world of `vlm_envs`.
        EngineUnavailableError: If its engine is not there.
    """
    with spec.make_vector(1, split="train") as worlds:
        observations, _ = worlds.reset(seed=list(split_seeds("train", 1)))
        return WorldFacts(**worlds.apply({0: _told})[0], observation=observations[0])


def checked(config: RunConfig, *, resume: bool) -> RunConfig:
    """Returns a configuration that can be trained, after trying what it needs, and prints what is left out.

    See `tried`. The models behind endpoints are asked, too, once all else is there.
    """
    config, told = tried(config, resume=resume)
    require_answers(endpoints_of(config))
    print_on_main(told)
    return config


def tried(config: RunConfig, *, resume: bool, is_to_come: bool = False) -> tuple[RunConfig, list[str]]:
    """Returns a configuration that can be trained, after trying what it needs.

    Args:
        config: The run.
        resume: Whether it goes on.
        is_to_come: Whether what it starts from is yet to be made, so that it need not be there.

    Returns:
        The configuration, without what its worlds have no use for; and a line for each thing that was left out.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and there is no run, or if a checkpoint to start from is not one.
        ConfigError: If something it needs is not there, or, on resumption, its settings are others.
        EngineUnavailableError: If a world's engine is not there.
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
            none = "; --model None starts from the tiny VLM, which a cold start teaches"
            require_start(config.model, besides=none)
        if config.reference is not None:
            _require_reference(config.reference, config.model)
    config, told = ready(config, imitates=config.model is None and (not resume or is_in_cold_start(directory)))
    return config, [*of_pools, *told]


def _require_reference(reference: str, model: str | None) -> None:
    """Refuses to hold a policy to what is no checkpoint, or to one of another family or vocabulary than its start."""
    instead = "Name another, or leave --reference out: the policy is held to the model that the run starts from then."
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
            f"--reference {reference} has {what} {of_reference}, and --model {model} has {of_model}: what one says the "
            f"other cannot be asked about. {instead}",
        )


def _kind_of(model: str) -> tuple[Any, Any]:
    """Returns a checkpoint's family and how many tokens it knows."""
    settings = json.loads((model_directory(model) / "config.json").read_text(encoding="utf-8"))
    return settings.get("model_type"), {**settings, **settings.get("text_config", {})}.get("vocab_size")


def _facts_of_place(number: int, spec: WorldSpec) -> WorldFacts:
    """Returns what `facts_of` does; what a world does not take may be the recipe's, so all it was given is told."""
    try:
        return facts_of(spec)
    except ConfigError as error:
        given = ", ".join(f"{name}={value!r}" for name, value in spec.kwargs.items())
        if not given:
            raise
        raise ConfigError(
            f"{error}\n--worlds.{number} is {spec.env_id} with {given}. Change what it does not take, yours or a "
            f"recipe's, with --worlds.{number}.kwargs.NAME VALUE."
        ) from error


def _unfinished(start: str) -> list[str]:
    """Returns a line if a model is of an interrupted cold start, which its name does not show."""
    made_from = provenance_of(start) or {}
    done, steps = made_from.get("num_steps_done"), (made_from.get("cold_start") or {}).get("num_steps")
    if not isinstance(done, int) or not isinstance(steps, int) or done >= steps:
        return []
    return [f"{start} is of a cold start that was interrupted after {done:,} of {steps:,} steps."]


def ready(config: RunConfig, *, imitates: bool) -> tuple[RunConfig, list[str]]:
    """Returns a configuration with which a run can start, after trying what it needs.

    Returns:
        The configuration, without what its worlds have no use for; and a line for all settings without effect, for each
        thing that was left out, and for each that nothing can judge.

    Raises:
        ConfigError: If a world, the device or a judge's model cannot be had, or there is nobody to imitate.
        FileNotFoundError: If a cold start is to go on from a checkpoint that is not there.
        EngineUnavailableError: If a world's engine is not there.
    """
    require_device(config.device)
    check_judges(config.judge)
    facts = [_facts_of_place(number, spec) for number, spec in enumerate(config.worlds)]
    require_judged_texts(config.judge, config.worlds, [each.representation for each in facts])
    start = config.cold_start.start_from if imitates else config.model
    if start is not None:
        _require_contexts(config, start, [each.observation for each in facts])
    inert = warning_of(settings_without_effect(config))
    config, told = without_judges(config)
    told = [*inert, *([] if start is None else _unfinished(start)), *told]
    samples = zip(world_names(config.worlds), [each.sample_id for each in facts], strict=True)
    reward_set = field_name(config.judge, "reward_settings")
    reward_set = reward_set if reward_set.startswith("--") else "--judge.reward-set"
    told += unjudged_terms(config.judge.reward, config.judge.verifier, [*samples], reward_set=reward_set)
    if imitates:
        _require_expert(config, facts)
        if config.cold_start.start_from is not None:
            require_checkpoint(model_directory(config.cold_start.start_from))
        config, left_out = _without_missing_plans(config, facts)
        told += left_out
    return config, told


def _without_missing_plans(config: RunConfig, facts: Sequence[WorldFacts]) -> tuple[RunConfig, list[str]]:
    """Returns a configuration whose cold start asks for no plans that its worlds do not have, and what is left out."""
    told = []
    for name, has, what in (
        ("suboptimal_rate", "has_suboptimal_planner", "a suboptimal_plan"),
        ("tells_plan", "has_intention", "an intention to tell"),
    ):
        if getattr(config.cold_start, name) and not any(getattr(known, has) for known in facts):
            default = {name: getattr(ColdStartConfig, name)}
            config = replace(config, cold_start=replace(config.cold_start, **default))
            told.append(f"Left out: --cold-start.{name.replace('_', '-')}, for no world here has {what}.")
    worlds = list(config.worlds)
    for number, (spec, known) in enumerate(zip(config.worlds, facts, strict=True)):
        if spec.cold_start_suboptimal_rate and not known.has_suboptimal_planner:
            worlds[number] = replace(spec, cold_start_suboptimal_rate=0.0)
            option = f"--worlds.{number}.cold-start-suboptimal-rate"
            told.append(f"Left out: {option}, for {spec.env_id} has no suboptimal_plan.")
    return replace(config, worlds=tuple(worlds)), told


def _require_contexts(config: RunConfig, start: str, observations: Sequence[Observation]) -> None:
    """Refuses worlds whose first observation leaves no room for a response, in training or in an evaluation."""
    require_context(start, observations, config.sampling)
    if config.eval_sampling.max_new_tokens is not None:
        names = {each.name: field_name(config.sampling, each.name) for each in fields(SamplingConfig)}
        names["max_new_tokens"] = field_name(config.eval_sampling, "max_new_tokens")
        with fields_named({SamplingConfig: names}):
            require_context(start, observations, config.evaluated_sampling)


def _require_expert(config: RunConfig, facts: Sequence[WorldFacts]) -> None:
    if config.cold_start.data is not None:
        return _require_data_set(config.cold_start.data)
    for name, spec, known in zip(world_names(config.worlds), config.worlds, facts, strict=True):
        if config.cold_start.num_steps and not known.has_planner:
            raise ConfigError(
                f"{name} has no planner for a cold start to imitate. {how_to_plan(spec)}; or "
                "start from a checkpoint that can play (--model DIR); or imitate recorded episodes (--cold-start.data "
                "DIR); or start reinforcement learning without imitation (--cold-start.num-steps 0)."
            )


def how_to_plan(spec: WorldSpec) -> str:
    """Returns how a world gets a planner, as a sentence without its period."""
    if not registered_name(spec.env_id).startswith(f"{NAMESPACE}/"):
        return "Write its Dynamics.plan"
    if spec.env_id.lower().endswith(".toml"):
        return f'Write a function plan(env) and name it in {spec.env_id.partition(":")[2]}, plan = "module:function"'
    return "Write a function plan(env) and give it to vlm_envs.adapt as plan=..., or name it in a TOML file"


def _require_data_set(directory: str) -> None:
    try:
        episodes = RunReader(directory).each_trajectory(CURATED)
        is_empty = not any(isinstance(each, dict) for _, each in episodes)
    except MissingRunDataError as error:
        raise ConfigError(f"--cold-start.data must be a data set of `python -m training curate`. {error}") from error
    if is_empty:
        raise ConfigError(f"--cold-start.data: the data set at {directory} is empty.")


def require_unused(directory: Path) -> None:
    """Refuses to write a new run over another one.

    Raises:
        RunExistsError: If there is a run; one that never reached a checkpoint has nothing to lose and starts over.
    """
    has_any = has_checkpoint(directory / LATEST) or is_in_cold_start(directory)
    starts_over = (directory / "config.json").is_file() and not has_any
    if holds_run(directory) and not starts_over:
        raise RunExistsError(
            f"{directory} already holds a run. Go on with it by adding --resume, or choose another --name."
        )


def require_levels(config: RunConfig) -> None:
    """Refuses, before anything runs, data sets without a level to train on, or to evaluate on where that is asked for.

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
                f"The data of {spec.env_id} ({spec.kwargs.get('dataset', 'its source')}) have no level of split "
                f"{split!r}, which this run needs. "
                f"{remedy} Or ask for 0 episodes where a split is not there (--num-val-episodes 0, "
                "--num-eval-episodes 0)."
            )


def require_context(model: str, observations: Sequence[Observation], sampling: SamplingConfig) -> None:
    """Refuses worlds whose first observation is too long for a checkpoint; one that is not there is refused elsewhere.

    Args:
        model: The checkpoint, of which everything but its weights is read.
        observations: First ones.
        sampling: How responses are drawn.

    Raises:
        ConfigError: If there is no room for a response.
        ValueError: If the checkpoint is of no family that is known, incomplete or damaged.
    """
    directory = model_directory(model)
    if not (directory / "config.json").is_file():
        return
    from transformers import AutoConfig  # and torch with it, which takes seconds that no mistyped option should

    from agents.hf.hf_agent import load_encoder
    from agents.hf.sampling_config import context_limit, require_room

    encoder = load_encoder(directory)
    encoder.limit_pixels(sampling.max_image_pixels)
    limit = context_limit(AutoConfig.from_pretrained(directory, local_files_only=True), sampling)
    for observation in observations:
        require_room(len(encoder.encode(observation, is_first=True).ids), limit, sampling)


def require_start(model: str, *, besides: str = "") -> None:
    """Refuses a start from what is no checkpoint; a recipe may name one that only its user has, or another one makes.

    Args:
        model: The directory.
        besides: What may be done in place of naming a checkpoint, begun with a semicolon.

    Raises:
        FileNotFoundError: If there is none. It names the recipe that makes it, where one does.
    """
    try:
        require_weights(require_checkpoint(model_directory(model)))
    except FileNotFoundError as error:
        parts = Path(model).parts
        is_of_recipe = len(parts) > 2 and parts[0] == _OUTPUT and parts[1] in RECIPES | STAGED_RECIPES
        first = f"Run `python -m training {parts[1]}` first, which makes it, or name" if is_of_recipe else "Name"
        raise FileNotFoundError(f"{error} {first} yours with --model DIR{besides}.") from error


def require_peft(lora: LoRAConfig) -> None:
    """Refuses adapters where the package that makes them is missing.

    Raises:
        ConfigError: If a rank is given and peft is not installed.
    """
    if lora.rank is not None:
        _require_package("peft", f"--lora.rank {lora.rank}", install_command("scale"))


def require_attention(memory: MemoryConfig) -> None:
    """Refuses flash attention where its package is missing.

    Raises:
        ConfigError: If it is asked for and flash-attn is not installed.
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
    """Refuses to sample with vLLM where its packages are missing, or with more servers than processes that ask them.

    Raises:
        ConfigError: If a server would have nobody to ask it.
        EngineUnavailableError: If a package is not installed.
    """
    if config.sampler != "vllm":
        return
    servers, processes = len(config.vllm.urls), num_processes()
    require(
        servers <= processes,
        f"--vllm.url names {servers} servers for {processes} training process{'es' if processes > 1 else ''}, each of "
        "which asks one. Name fewer; one server takes several GPUs itself, by vLLM's --data-parallel-size.",
    )
    if config.vllm.url is None:
        require_vllm()
    else:
        require_msgpack()


def require_wandb(project: str | None) -> None:
    """Refuses to log to W&B where it cannot be: without its package, or without a login that its server takes.

    Args:
        project: The project that is asked for; None for none, which needs nothing.

    Raises:
        ConfigError: If the package is missing, or, unless `WANDB_MODE` is offline or disabled, there is no login.
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
            f"--wandb-project {project}: W&B takes no login here ({reason}) Log in with `wandb login`, or set "
            "WANDB_MODE=offline to log to the run's folder and upload it later with `wandb sync`."
        ) from error


def import_wandb() -> Any:
    """Returns the package `wandb`, with reports of its own errors off unless `WANDB_ERROR_REPORTING` says otherwise.

    Its service sends them before it ends, and where nothing answers, a command waits for them for a minute.
    """
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    return importlib.import_module("wandb")
