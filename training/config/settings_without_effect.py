"""A warning about settings that a user changed and that have no effect in a run.

Settings that contradict each other or would ruin results are errors in the configuration instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from training.algorithms.algorithm import CriticConfig
from training.algorithms.dapo import DAPO
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.judge_config import ASKED, JudgeConfig, VerifierConfig
from training.config.run_config import RunConfig
from training.config.update_config import AdamWConfig, LoRAConfig, PPOConfig
from training.config.world_spec import WorldSpec
from training.curation.curation_config import CurateConfig, PointingConfig
from training.mixture.mixture_config import MixConfig
from training.pools.pool_config import PoolConfig
from training.sft.sft_config import SFTConfig
from vlm_envs.command_line import option_names


def settings_without_effect(config: Any) -> list[str]:
    """Returns the options that differ from their defaults and have no effect in a run, each with the reason.

    Args:
        config: A run of any kind; kinds without rules yield nothing.
    """
    found: dict[str, str] = {}
    for prefix, part in _parts("--", config):
        for rule in _RULES:
            if isinstance(part, rule.kind) and rule.is_inert(part):
                for option in (option for path in rule.settings.split() for option in _changed(prefix, part, path)):
                    found.setdefault(option, rule.reason)
    return [f"{option} ({reason})" for option, reason in found.items()]


def warning_of(settings: Sequence[str]) -> list[str]:
    """Returns a warning about settings without effect, or nothing if there are none."""
    return [f"Settings without effect: {'; '.join(settings)}."] if settings else []


@dataclass(frozen=True)
class _Rule:
    """Settings of one kind of configuration that have no effect under a condition.

    kind: The configuration, or part of one, that the condition is about.
    settings: Paths of fields within it, separated by spaces; `*` matches any characters of a name.
    is_inert: The condition.
    reason: Short reason why the settings have no effect.
    """

    kind: type
    settings: str
    is_inert: Callable[[Any], bool]
    reason: str


def _decides(name: str) -> Callable[[RunConfig], bool]:
    """Returns a condition that an algorithm overrides a setting of the update."""

    def is_decided(run: RunConfig) -> bool:
        decided = run.algorithm.update_settings
        return name in decided and getattr(run.ppo, name) != decided[name]

    return is_decided


def _takes_one_step(run: RunConfig) -> bool:
    return run.decided().ppo.takes_one_step


def _has_adapters(run: RunConfig | SFTConfig) -> bool:
    return run.lora.rank is not None


def _recomputes(run: RunConfig) -> bool:
    return run.memory.gradient_checkpointing


def _evaluates_nothing(run: RunConfig) -> bool:
    return run.num_eval_episodes == 0 and (run.eval_every == 0 or run.num_val_episodes == 0)


def _asks_no_endpoint(judge: JudgeConfig) -> bool:
    return judge.method == "exact" and (judge.reward is None or not judge.reward.models & ASKED)


def _judges_no_turns(judge: JudgeConfig) -> bool:
    return max(judge.grounding_weight, judge.worldmodeling_weight, judge.repetition_penalty) == 0


def _reads_no(model: str) -> Callable[[JudgeConfig | CurateConfig], bool]:
    """Returns a condition that no term of the episode reward uses a verifier's `"masks"` or `"likelihoods"`."""
    return lambda config: config.reward is None or model not in config.reward.models


_ONE_STEP = "the policy's ratio is 1 in an iteration's only step"
_SHARED = "there is no padding where prefixes are shared"

_RULES = (
    *(
        _Rule(RunConfig, f"ppo.{field.name}", _decides(field.name), "the algorithm decides it")
        for field in fields(PPOConfig)
    ),
    _Rule(RunConfig, "vllm.*", lambda run: run.sampler != "vllm", "only --sampler vllm reads it"),
    _Rule(RunConfig, "reference", lambda run: not run.has_reference, "there is no KL penalty"),
    _Rule(RunConfig, "ppo.clip_low ppo.clip_high", _takes_one_step, _ONE_STEP),
    _Rule(RunConfig, "algorithm.*clip_low algorithm.*clip_high", _takes_one_step, _ONE_STEP),
    _Rule(RunConfig, "ppo.num_micro_batches_at_once", _has_adapters, "adapters take one micro-batch at a time"),
    _Rule(RunConfig, "ppo.num_micro_batches_at_once", _recomputes, "checkpointing takes one micro-batch at a time"),
    _Rule(RunConfig, "memory.offload_reference", lambda run: not run.has_reference, "there is no reference"),
    _Rule(RunConfig, "memory.offload_reference", _has_adapters, "the reference is the policy without its adapters"),
    _Rule(RunConfig, "judge.in_evaluations", _evaluates_nothing, "there are no evaluations"),
    _Rule(RunConfig, "mix.schedule", lambda run: len(run.worlds) == 1, "there is one world; add --worlds.1.env-id ID"),
    _Rule(PPOConfig, "kl_placement kl_estimator", lambda ppo: ppo.kl_coef == 0, "there is no KL penalty"),
    _Rule(
        CriticConfig,
        "value_clip",
        lambda critic: critic.value_clip is not None and critic.num_epochs * critic.num_minibatches == 1,
        "no value has moved before an iteration's only step",
    ),
    _Rule(DAPO, "overlong_penalty", lambda dapo: dapo.overlong_share == 0, "--algorithm.overlong-share is 0"),
    _Rule(
        MixConfig,
        "target_success min_factor",
        lambda mix: mix.schedule != "success",
        "only --mix.schedule success reads it",
    ),
    _Rule(MixConfig, "unlock_success", lambda mix: mix.schedule != "stepwise", "only --mix.schedule stepwise reads it"),
    _Rule(MixConfig, "memory", lambda mix: mix.schedule == "fixed", "--mix.schedule fixed does not read it"),
    _Rule(AdamWConfig, "decay_exempt", lambda adamw: adamw.weight_decay == 0, "the weight decay is 0"),
    _Rule(
        LoRAConfig, "alpha target_modules", lambda lora: lora.rank is None, "there are no adapters without --lora.rank"
    ),
    _Rule(
        ColdStartConfig,
        "mistake_rate suboptimal_rate tells_plan num_demonstrations",
        lambda cold_start: cold_start.data is not None,
        "--cold-start.data has its own expert and episodes",
    ),
    _Rule(WorldSpec, "num_workers", lambda world: world.workers == "serial", "serial worlds have no workers"),
    _Rule(PoolConfig, "attempts", lambda pool: pool.draw == 0, "only a pool that the run draws is played"),
    _Rule(JudgeConfig, "endpoint", _asks_no_endpoint, "no turn or episode reward asks a model"),
    _Rule(JudgeConfig, "in_evaluations", lambda judge: judge.endpoint is None, "there is no --judge.endpoint.model"),
    _Rule(JudgeConfig, "reward_settings", lambda judge: judge.reward is None, "there is no --judge.episode-reward"),
    _Rule(JudgeConfig, "method", _judges_no_turns, "the weights of all turn rewards are 0"),
    _Rule(CurateConfig, "endpoint judge", lambda config: not config.reward.models & ASKED, "the reward asks no judge"),
    *(
        _Rule(kind, settings, _reads_no(model), "no term of the episode reward asks it")
        for kind in (JudgeConfig, CurateConfig)
        for settings, model in (("verifier.likelihood", "likelihoods"), ("verifier.detector", "masks"))
    ),
    _Rule(VerifierConfig, "workers", lambda verifier: not verifier.directories, "there are no models"),
    _Rule(
        VerifierConfig,
        "num_workers num_gpus timeout_s",
        lambda verifier: verifier.workers == "local",
        "the models are in the process that judges",
    ),
    _Rule(VerifierConfig, "pointer", lambda verifier: verifier.detector is None, "it assists a detector"),
    _Rule(
        CurateConfig, "env_id settings pool exclude", lambda config: config.worlds, "--worlds has settings of its own"
    ),
    _Rule(CurateConfig, "worlds.cold_start_pool", lambda _: True, "a curation asks the levels of a pool"),
    _Rule(
        PointingConfig,
        "proposer pointer",
        lambda pointing: pointing.points != "models",
        "--pointing.points is not models",
    ),
    _Rule(SFTConfig, "num_epochs", lambda config: config.num_steps is not None, "--num-steps sets the length"),
    _Rule(SFTConfig, "memory.offload_reference", lambda _: True, "there is no reference"),
    _Rule(SFTConfig, "memory.offload_optimizer", lambda _: True, "every step needs the optimizer"),
    *(
        rule
        for kind in (RunConfig, SFTConfig)
        for rule in (
            _Rule(kind, "memory.freeze_vision_tower", _has_adapters, "--lora.rank freezes all but its adapters"),
            _Rule(kind, "memory.packing", lambda run: run.memory.packing == run.memory.prefix_sharing == "on", _SHARED),
        )
    ),
)


def _parts(prefix: str, part: Any) -> Iterator[tuple[str, Any]]:
    """Yields a configuration and all of its parts, each with the prefix of its options."""
    yield prefix, part
    for field in fields(part):
        for inner, value in _within(_option(prefix, part, field.name), getattr(part, field.name)):
            yield from _parts(inner, value)


def _within(option: str, value: Any) -> list[tuple[str, Any]]:
    """Returns the configurations in a field, each with the prefix of its options."""
    if isinstance(value, tuple):
        return [(f"{option}.{index}.", item) for index, item in enumerate(value) if is_dataclass(item)]
    return [(f"{option}.", value)] if is_dataclass(value) else []


def _changed(prefix: str, part: Any, path: str) -> Iterator[str]:
    """Yields the options of a path that differ from their defaults, with their values."""
    name, _, rest = path.partition(".")
    for field in fields(part):
        value, option = getattr(part, field.name), _option(prefix, part, field.name)
        if not fnmatchcase(field.name, name):
            continue
        if rest:
            for inner, within in _within(option, value):
                yield from _changed(inner, within, rest)
        elif value != (field.default if field.default_factory is MISSING else field.default_factory()):
            yield _written(option, value)


def _option(prefix: str, part: Any, name: str) -> str:
    kind: Any = type(part)
    return prefix + _names_of(kind)[name]


@cache
def _names_of(kind: Any) -> dict[str, str]:
    return option_names(kind, "")[kind]


def _written(option: str, value: Any) -> str:
    """Returns an option as written on a command line."""
    if is_dataclass(value):
        return f"{option}.*"
    if value is True:
        return option
    if value is False:
        before, dot, name = option.rpartition(".")
        return f"{before}{dot}no-{name}"
    return f"{option} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"
