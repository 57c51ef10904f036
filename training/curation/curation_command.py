"""`python -m training curate`: its options, and its checks before anything is written."""

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
"""Kinds of experts that may be the model that is trained."""
_NUM_COMPARED = 3
"""Number of levels that show whether an argument of a world changes what is asked."""


def curation_options(words: Sequence[str], program: Program, default: CurateConfig | None = None) -> CurateConfig:
    """Returns the curation that a command line describes.

    Args:
        words: The options; those of worlds are too many to be known beforehand, and are read first.
        program: What they belong to.
        default: Gives what is not said.

    Raises:
        ConfigError: If an option is not known, lacks its value or cannot be.
    """
    start = CurateConfig() if default is None else default
    worlds, rest = read_world_options(words, start.worlds)
    changes: dict[str, Any] = {"worlds": worlds}
    if start.endpoint is None and asks_for_endpoint(rest, "--endpoint."):
        changes["endpoint"] = endpoint_to_fill()
    return parsed(CurateConfig, rest, program, default=unchecked(start, **changes))


def require_teachable(config: CurateConfig, *, expert_is_trained: bool | None = None) -> None:
    """Refuses a curation that nobody can teach, or whose rollouts nobody can verify.

    Args:
        config: The curation.
        expert_is_trained: Whether the expert is the model that is to learn from what is curated; None where that is not
            known: a checkpoint is taken for it, and nobody else.

    Raises:
        RunExistsError: If there is one of this name.
        ConfigError: If the folder, a pool, a world, the device or a model is not available; if answers can only be
            compared by a model and there is none; if questions would be asked twice in the same way; if the oracle is
            to teach a world without a planner; if another curation has left a part of a data set there; or if trivial
            questions are to be left out and there are no attempts of the base model.
        FileNotFoundError: If a checkpoint is not there.
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
    """Refuses to make a data set where there is one, or a run.

    Raises:
        RunExistsError: If there is.
    """
    directory = Path(config.output) / config.name
    if holds_run(directory):
        raise RunExistsError(f"{directory} already holds a data set or a run. Choose another --name.")


def _require_counts(config: CurateConfig) -> None:
    """Refuses to tell what the base model always gets right by the rollouts of somebody else.

    What a stronger model always gets right is what there is to learn, and would be dropped; a pool whose passes are
    that model's own tells no more than its rollouts.
    """
    for number, spec in enumerate(config.specs):
        if counts_decide(config, spec) and config.expert not in counted_by(spec):
            continue
        pool = f"{field_name(config, 'worlds')}.{number}.pool.file" if config.worlds else field_name(config, "pool")
        option = field_name(config, "drop_trivial")
        raise ConfigError(
            f"{option} leaves out what the base model gets right in every attempt, and {field_name(config, 'expert')} "
            f"{config.expert} is not that model: what it always gets right may be what there is to learn. Count the "
            f"base model's passes, and ask the levels of that pool: python -m training pool {spec.env_id} with its "
            f"arguments, --agent hf:DIR --attempts 5 --out FILE, then {pool} FILE; or leave {option} out."
        )


def notes_on(config: CurateConfig) -> list[str]:
    """Returns what the user is told of a curation before it starts, a line each."""
    return [*warning_of(settings_without_effect(config)), *trivial_in(config), *_unjudged_in(config)]


def trivial_in(config: CurateConfig) -> list[str]:
    """Returns a line for each pool of which levels are not asked, for the base model gets them right."""
    return [
        f"{name}: {number} levels of {spec.pool.file} are not asked, for every attempt that was counted"
        f"{' (' + ', '.join(sorted(counted_by(spec))) + ')' if counted_by(spec) else ''} solved them."
        for spec, name in zip(config.specs, config.names, strict=True)
        if spec.pool is not None and (number := num_trivial_by_counts(config, spec))
    ]


def _unjudged_in(config: CurateConfig) -> list[str]:
    """Returns a line for each term of the verifier's reward that nothing can judge here."""
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
            "of which questions are. Name others, or is_benchmark=False for a benchmark that is to be trained on.",
        )


def _require_enough_questions(config: CurateConfig, asked: Sequence[QuestionBatch]) -> None:
    """Refuses pools with fewer questions than are to be kept of them."""
    for spec, name, of_world in zip(config.specs, config.names, asked, strict=True):
        num_kept = config.num_kept_of(spec) or 0
        require(
            num_kept <= len(of_world),
            f"{field_name(config, 'num_kept')}: {num_kept} questions of {name} are to be kept, and its pool "
            f"{'' if spec.pool is None else spec.pool.file} has {len(of_world)}. Draw a larger pool, or keep fewer.",
        )


def _require_different_questions(config: CurateConfig) -> None:
    """Refuses arguments that choose what is drawn where a pool gives what is asked: they would change nothing."""
    for one, other in itertools.combinations(config.specs, 2):
        if one.pool is None or (one.env_id, one.pool) != (other.env_id, other.pool):
            continue
        levels = [level.level_id for level in chosen_levels(one.pool)[:_NUM_COMPARED]]
        names = sorted(key for key in {*one.kwargs, *other.kwargs} if one.kwargs.get(key) != other.kwargs.get(key))
        require(
            _first_levels(one) == _first_levels(other) or _first_levels(one, levels) != _first_levels(other, levels),
            f"{one.env_id} with {', '.join(f'{key}={other.kwargs.get(key)!r}' for key in names)} draws other "
            f"questions, and those of the pool {one.pool.file} are given: each would be asked twice in the same way. "
            f"Leave that out, or draw a pool with it: python -m training pool {one.env_id} --out FILE.",
        )


def _first_levels(spec: WorldSpec, level_ids: Sequence[str] | None = None) -> list[Any]:
    """Returns the states of the levels that a world loads, or of the first that it draws; errors as their texts."""
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
    """Refuses rewards that nobody can tell."""
    if not config.has_judge:
        judge = JudgeConfig(episode_reward=config.episode_reward, reward_settings=config.reward_settings)
        try:
            require_answer_judge(judge, config.specs, option="--endpoint")
        except ConfigError as error:
            if not config.reward.strategies or not str(error).startswith("prompt_format must be"):
                raise
            raise ConfigError(
                f"{field_name(config, 'episode_reward')} {config.episode_reward} reads worlds whose prompt_format is "
                f"{' or '.join(config.reward.strategies)}, and there is one that has no such: {error} Choose another "
                "world, or a reward that reads any: one of your own, as MODULE:NAME."
            ) from error
    check_verifier(config.verifier, "--verifier")
    if config.judge is not None:
        require_made(config.judge, "--judge")
    if config.endpoint is not None:
        from agents.api.client import ChatClient  # and with it the endpoints' own package, which takes a second

        with fields_named({EndpointConfig: {"api_key_variable": "--endpoint.api-key-variable"}}):
            ChatClient(config.endpoint).close()


def _require_expert(config: CurateConfig) -> None:
    """Refuses experts that are not there, that cannot be asked, or that have nothing to show."""
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
                    f"{spec.env_id} asks no questions about pictures, so there is nothing to point at. Leave "
                    "--pointing.points out.",
                )
        if carries_out_plans and not facts_of(spec).has_planner:
            raise ConfigError(
                f"{spec.env_id} has no planner, so the oracle has nothing to show. {how_to_plan(spec)}, or name a "
                "model that can play: --expert hf:DIR, or compatible:NAME@URL."
            )
