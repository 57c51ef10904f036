"""Options of `python -m training curate`, and the checks before anything is written."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.api.endpoint_config import EndpointConfig
from agents.hf.checkpoint import require_device
from agents.registry import entry_of
from training.config.judge_config import JudgeConfig
from training.config.saved_config import require_writable, unchecked
from training.config.settings_without_effect import settings_without_effect, warning_of
from training.config.world_spec import WorldSpec
from training.curation.curation_config import CurateConfig
from training.curation.curation_set import (
    QuestionBatch,
    counted_by,
    counts_decide,
    num_trivial_by_counts,
    questions,
    require_same_curation,
)
from training.pools.pool_command import require_pools
from training.pools.pool_levels import chosen_levels
from training.preflight import facts_of, how_to_plan
from training.preflight_judges import check_verifier, require_answer_judge, require_made, unjudged_terms
from training.run_options import asks_for_endpoint, endpoint_to_fill
from training.world_options import read_world_options
from vlm_envs.command_line import Program, parsed
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.records.json_lines import RunExistsError
from vlm_envs.records.run_data import holds_run
from vlm_envs.splits import split_seeds
from vlm_envs.validation import field_name, fields_named, require

CHECKPOINTS = ("hf", "vllm")
"""Kinds of agents that may be the model to train."""
_NUM_COMPARED = 3
"""Number of levels compared to find out whether a world argument changes the questions."""


def curation_options(words: Sequence[str], program: Program, default: CurateConfig | None = None) -> CurateConfig:
    """Returns the curation settings of a command line.

    Args:
        words: The options; those of `--worlds`, whose number is not fixed, are read first.
        program: The program of the options.
        default: Settings for options that are not given.

    Raises:
        ConfigError: If an option is unknown, lacks its value, or is invalid.
    """
    start = CurateConfig() if default is None else default
    worlds, rest = read_world_options(words, start.worlds)
    changes: dict[str, Any] = {"worlds": worlds}
    if start.endpoint is None and asks_for_endpoint(rest, "--endpoint."):
        changes["endpoint"] = endpoint_to_fill()
    return parsed(CurateConfig, rest, program, default=unchecked(start, **changes))


def require_teachable(config: CurateConfig, *, expert_is_trained: bool | None = None) -> None:
    """Checks that the expert can play every world, that the rollouts can be verified, and that the output is free.

    Args:
        config: The curation.
        expert_is_trained: Whether the expert is the model that will be trained on the dataset; None if unknown: then
            only checkpoints count as that model.

    Raises:
        RunExistsError: If a dataset or run of this name exists.
        ConfigError: If the folder, a pool, a world, the device, or a model is not available; if answers need a model
            to compare them and there is none; if questions would be asked twice in the same way; if the expert is the
            oracle and a world has no planner; if the folder has an unfinished dataset of another curation; or if
            trivial questions are to be dropped without attempts of the base model.
        FileNotFoundError: If a checkpoint does not exist.
    """
    require_writable(Path(config.output) / config.name, config.output)
    require_new(config)
    require_device(config.device)
    _require_levels(config)
    require_pools(config.specs)
    asked = questions(config)
    require_same_curation(config, asked)
    _require_enough_questions(config, asked)
    _require_different_questions(config)
    _require_verifier(config)
    _require_expert(config)
    is_checkpoint = config.expert.partition(":")[0] in CHECKPOINTS
    if config.drop_trivial and not (is_checkpoint if expert_is_trained is None else expert_is_trained):
        _require_counts(config)


def require_new(config: CurateConfig) -> None:
    """Checks that the output directory holds neither a dataset nor a run.

    Raises:
        RunExistsError: If it does.
    """
    directory = Path(config.output) / config.name
    if holds_run(directory):
        raise RunExistsError(f"{directory} already holds a dataset or a run. Choose another --name.")


def _require_counts(config: CurateConfig) -> None:
    """Checks that trivial questions are identified by the base model's attempts.

    Questions that a stronger model always solves are the ones to learn from and must not be dropped. Pass counts of
    the expert itself are no better than its rollouts.
    """
    for number, spec in enumerate(config.specs):
        if counts_decide(config, spec) and config.expert not in counted_by(spec):
            continue
        pool = f"{field_name(config, 'worlds')}.{number}.pool.file" if config.worlds else field_name(config, "pool")
        option = field_name(config, "drop_trivial")
        raise ConfigError(
            f"{option} drops questions that the base model always solves, but {field_name(config, 'expert')} "
            f"{config.expert} is not that model: the questions that it always solves may be the ones to learn from. "
            f"Count the base model's passes in a pool and use that: python -m training pool {spec.env_id} with its "
            f"arguments, --agent hf:DIR --attempts 5 --out FILE, then {pool} FILE; or remove {option}."
        )


def notes_on(config: CurateConfig) -> list[str]:
    """Returns warnings and notes to print before a curation starts, one per line."""
    return [*warning_of(settings_without_effect(config)), *trivial_in(config), *_unjudged_in(config)]


def trivial_in(config: CurateConfig) -> list[str]:
    """Returns one line per pool with levels that are skipped because the base model always solves them."""
    return [
        f"{name}: {number} levels of {spec.pool.file} are skipped because every counted attempt"
        f"{' (' + ', '.join(sorted(counted_by(spec))) + ')' if counted_by(spec) else ''} solved them."
        for spec, name in zip(config.specs, config.names, strict=True)
        if spec.pool is not None and (number := num_trivial_by_counts(config, spec))
    ]


def _unjudged_in(config: CurateConfig) -> list[str]:
    """Returns one line per reward term for which no judge is available."""
    reward = config.reward
    if not reward.models & {"masks", "likelihoods"}:
        return []
    samples = [(name, facts_of(spec).sample_id) for spec, name in zip(config.specs, config.names, strict=True)]
    return unjudged_terms(reward, config.verifier, samples, reward_set=field_name(config, "reward_settings"))


def _require_levels(config: CurateConfig) -> None:
    for spec in config.specs:
        require(
            spec.has_level("train"),
            f"The data of {spec.env_id} ({spec.kwargs.get('dataset', 'its source')}) have no level of split 'train', "
            "from which questions are taken. Name other data, or set is_benchmark=False to train on a benchmark.",
        )


def _require_enough_questions(config: CurateConfig, asked: Sequence[QuestionBatch]) -> None:
    """Checks that every pool has as many questions as are to be kept of it."""
    for spec, name, of_world in zip(config.specs, config.names, asked, strict=True):
        num_kept = config.num_kept_of(spec) or 0
        require(
            num_kept <= len(of_world),
            f"{field_name(config, 'num_kept')}: {num_kept} questions of {name} are to be kept, but its pool "
            f"{'' if spec.pool is None else spec.pool.file} has {len(of_world)}. Draw a larger pool, or keep fewer.",
        )


def _require_different_questions(config: CurateConfig) -> None:
    """Checks that worlds with the same pool ask different questions, not only sample differently."""
    for one, other in itertools.combinations(config.specs, 2):
        if one.pool is None or (one.env_id, one.pool) != (other.env_id, other.pool):
            continue
        levels = [level.level_id for level in chosen_levels(one.pool)[:_NUM_COMPARED]]
        names = sorted(key for key in {*one.kwargs, *other.kwargs} if one.kwargs.get(key) != other.kwargs.get(key))
        require(
            _first_levels(one) == _first_levels(other) or _first_levels(one, levels) != _first_levels(other, levels),
            f"{one.env_id} with {', '.join(f'{key}={other.kwargs.get(key)!r}' for key in names)} samples other "
            f"questions, but the pool {one.pool.file} fixes the questions: each would be asked twice in the same way. "
            f"Remove the argument, or draw a pool with it: python -m training pool {one.env_id} --out FILE.",
        )


def _first_levels(spec: WorldSpec, level_ids: Sequence[str] | None = None) -> list[Any]:
    """Returns the states of the given levels, or of the first sampled ones; error messages in place of broken ones."""
    found: list[Any] = []
    with spec.made(split="train") as world:
        for level in split_seeds("train", _NUM_COMPARED) if level_ids is None else level_ids:
            try:
                if level_ids is None:
                    world.reset(seed=level)
                found.append(world.dynamics.dump(world.state if level_ids is None else world.dynamics.load(level)))
            except VLMEnvsError as error:
                found.append(str(error))
    return found


def _require_verifier(config: CurateConfig) -> None:
    """Checks that the judges that the reward needs are available."""
    if not config.has_judge:
        judge = JudgeConfig(episode_reward=config.episode_reward, reward_settings=config.reward_settings)
        try:
            require_answer_judge(judge, config.specs, option="--endpoint")
        except ConfigError as error:
            if not config.reward.strategies or not str(error).startswith("prompt_format must be"):
                raise
            raise ConfigError(
                f"{field_name(config, 'episode_reward')} {config.episode_reward} requires worlds with prompt_format "
                f"{' or '.join(config.reward.strategies)}, but one does not support it: {error} Choose another world, "
                "or a reward without this requirement, such as your own as MODULE:NAME."
            ) from error
    check_verifier(config.verifier, "--verifier")
    if config.judge is not None:
        require_made(config.judge, "--judge")
    if config.endpoint is not None:
        from agents.api.client import ChatClient  # imports the provider's package, which takes a second

        with fields_named({EndpointConfig: {"api_key_variable": "--endpoint.api-key-variable"}}):
            ChatClient(config.endpoint).close()


def _require_expert(config: CurateConfig) -> None:
    """Checks that the expert and the pointing models exist and can play every world."""
    require_made(config.expert, "--expert")
    pointing = config.pointing
    for option, name in (("proposer", pointing.proposer), ("pointer", pointing.pointer)):
        if name is not None:
            require_made(name, f"--pointing.{option}")
    carries_out_plans = entry_of(config.expert).carries_out_plans
    for spec in config.specs:
        if pointing.points != "none":
            with spec.made() as world:
                require(
                    hasattr(getattr(world, "dynamics", None), "source"),
                    f"{spec.env_id} asks no questions about images, so there is nothing to point at. Remove "
                    "--pointing.points.",
                )
        if carries_out_plans and not facts_of(spec).has_planner:
            raise ConfigError(
                f"{spec.env_id} has no planner, so the oracle cannot play it. {how_to_plan(spec)}, or name a "
                "model that can play: --expert hf:DIR, or compatible:NAME@URL."
            )
