"""Settings that would do nothing, or pay twice, in one table: refused before anything runs.

A default cannot be told from the same value written out, so a setting counts as set where it differs from its default.
Settings of a critic (`ppo.critic_...`, `ppo.value_clip`) may stay under GRPO, which has none: their names say whose
they are, and a recipe can be compared under every estimator by changing that one option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from judges.state_text.rules import has_rules
from judges.turn_rewards.shaping import RepetitionTerm
from vlm_envs import make
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import FORMATS, QA_FORMATS

if TYPE_CHECKING:
    from training.config.run import RunConfig, WorldSpec

CRITIC_ESTIMATORS = ("bilevel_gae", "token_gae", "turn_gae")
_READ_BY: dict[str, tuple[str, ...]] = {
    "grpo_scale": ("grpo",),
    "variant": ("bilevel_gae",),
    "gamma_turn": ("bilevel_gae", "turn_gae"),
    "lambda_turn": ("bilevel_gae", "turn_gae"),
    "gamma_token": ("bilevel_gae", "token_gae"),
    "lambda_token": ("bilevel_gae", "token_gae"),
    "sibling_baseline": CRITIC_ESTIMATORS,
    "reward_placement": ("token_gae",),
    "mask": ("token_gae",),
}
"""Which estimators read a setting of `AdvantageConfig`; those that are not here are read by all."""

_PAID_BY: dict[str, tuple[str, ...]] = {
    "answer_reward": ("arm_accuracy", "mags_stage_1", "mags_stage_2", "ivgr", "argos", "agentic"),
    "format_reward": ("arm_exploration", "arm_accuracy", "mags_stage_1", "mags_stage_2", "ivgr"),
}
"""For what worlds that ask pay, the rewards of whole episodes that pay for the same.

ARM-Thinker's exploration pays form and attempts, no answer. Argos and an agentic judge have no term for the format.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way in which settings contradict each other.

    Attributes:
        name: What is wrong, in a few words.
        applies: Whether it is so in a configuration.
        message: What was expected, what came, and which options mend it; a function of the configuration.
    """

    name: str
    applies: Callable[[RunConfig], bool]
    message: Callable[[RunConfig], str]


def refuse_inert(config: RunConfig) -> None:
    """Raises for the rows of the table that a configuration meets.

    Args:
        config: The run.

    Raises:
        ConfigError: With the message of each of them, so that they can all be mended at once.
    """
    messages = [row.message(config) for row in TABLE if row.applies(config)]
    if messages:
        raise ConfigError("\n".join(messages))


def _unread(config: RunConfig) -> Iterator[tuple[str, Any]]:
    """Yields settings of credit assignment that were changed and that the estimator does not read, with defaults."""
    for field in fields(config.advantage):
        readers = _READ_BY.get(field.name)
        is_read = readers is None or config.advantage.estimator in readers
        if not is_read and getattr(config.advantage, field.name) != field.default:
            yield field.name, field.default


def _unread_messages(config: RunConfig) -> str:
    return "\n".join(_unread_message(config, name, default) for name, default in _unread(config))


def _unread_message(config: RunConfig, name: str, default: Any) -> str:
    remedy = f"--advantage.no-{_flag(name)}" if default is False else f"--advantage.{_flag(name)} {default}"
    return (
        f"--advantage.estimator {config.advantage.estimator} does not read --advantage.{_flag(name)}, which is "
        f"{getattr(config.advantage, name)}; {' and '.join(_READ_BY[name])} do. Leave it at its default ({remedy}) or "
        "choose another estimator."
    )


def _is_changed(part: Any, *names: str) -> bool:
    defaults = {field.name: field.default for field in fields(part)}
    return any(getattr(part, name) != defaults[name] for name in names)


def _paid_twice(config: RunConfig, argument: str) -> Iterator[tuple[int, float]]:
    """Yields the worlds that pay for what the episode's reward pays for, too, with what they pay."""
    if config.judge.episode not in _PAID_BY[argument]:
        return
    for number, spec in enumerate(config.worlds):
        if spec.prompt_format in QA_FORMATS:
            paid = spec.kwargs[argument] if argument in spec.kwargs else _default_pay(spec, argument)
            if paid:
                yield number, paid


def _default_pay(spec: WorldSpec, argument: str) -> float:
    world = _of_world(spec)
    paid: float = getattr(world.task if argument == "answer_reward" else world, argument)
    return paid


def _paid_twice_message(config: RunConfig, argument: str, what: str) -> str:
    paid = list(_paid_twice(config, argument))
    return (
        f"--judge.episode {config.judge.episode} has {what} in it, and "
        + ", ".join(f"{config.worlds[number].env_id} pays {amount} for it, too" for number, amount in paid)
        + f". Set {argument}=0 among the world's arguments ("
        + " ".join(f"--worlds.{number}.kwargs.{_flag(argument)} 0" for number, _ in paid)
        + ")."
    )


def _unreadable_formats(config: RunConfig) -> dict[int, str]:
    """Returns the judged worlds' numbers and formats if a repetition penalty finds nothing to read in any of them.

    Where no world has rules every judge is left out, and a line says so: see `training.preflight.start.without_judges`.
    """
    if not config.judge.repetition_penalty:
        return {}
    judged = {number: spec for number, spec in enumerate(config.worlds) if has_rules(spec.env_id)}
    if any(set(_sections(spec)) & set(RepetitionTerm.sections) for spec in judged.values()):
        return {}
    return {number: spec.prompt_format for number, spec in judged.items()}


def _unreadable_message(config: RunConfig) -> str:
    formats = _unreadable_formats(config)
    return (
        f"--judge.repetition-penalty is {config.judge.repetition_penalty}, but it reads "
        f"{' and '.join(f'<{section}>' for section in RepetitionTerm.sections)}, and no format here has either: "
        f"{' and '.join(map(repr, dict.fromkeys(formats.values())))}. Use --judge.repetition-penalty 0, or "
        f"--worlds.{min(formats)}.kwargs.prompt-format grounding, worldmodeling or grounding_worldmodeling."
    )


def _sections(spec: WorldSpec) -> tuple[str, ...]:
    known = FORMATS.get(spec.prompt_format)  # A world with formats of its own has to be asked.
    sections: tuple[str, ...] = (known or _of_world(spec).response_format).sections
    return sections


def _structured_worlds(config: RunConfig) -> list[int]:
    """Returns the numbers of the worlds out of whose structured states a model is to extract claims."""
    if config.judge.method != "extraction":
        return []
    return [number for number, spec in enumerate(config.worlds) if _of_world(spec).representation == "structured"]


def _of_world(spec: WorldSpec) -> Any:
    with closing(make(spec.env_id, **spec.kwargs)) as world:
        return world.unwrapped


def _takes_one_step(num_epochs: int, num_minibatches: int) -> bool:
    return num_epochs * num_minibatches == 1


def _below(num_iterations: int) -> str:
    return f"{num_iterations - 1} or less, " if num_iterations > 1 else ""


def _flag(name: str) -> str:
    return name.replace("_", "-")


TABLE: tuple[Row, ...] = (
    Row(
        name="greedy responses",
        applies=lambda c: c.sampling.temperature == 0 and c.num_iterations > 0,
        message=lambda c: (
            "--sampling.temperature 0 always takes the likeliest token: the siblings of a group are the same episode, "
            "GRPO's advantages are all 0, and no estimator learns what another response would have earned. Use "
            "--sampling.temperature 1, or --num-iterations 0 to evaluate only."
        ),
    ),
    Row(
        name="GRPO without siblings",
        applies=lambda c: c.advantage.estimator == "grpo" and c.group_size < 2,
        message=lambda c: (
            "--advantage.estimator grpo compares siblings: with --group-size 1 every advantage is 0. Use "
            "--group-size 2 or more."
        ),
    ),
    Row(
        name="a baseline of siblings without siblings",
        applies=lambda c: c.advantage.sibling_baseline and c.group_size < 2,
        message=lambda c: (
            "--advantage.sibling-baseline compares siblings: with --group-size 1 there are none. Use --group-size 2 or "
            "more, or --advantage.no-sibling-baseline."
        ),
    ),
    Row(
        name="a critic's warm-up without a critic",
        applies=lambda c: c.advantage.estimator == "grpo" and c.ppo.critic_warmup_iterations > 0,
        message=lambda c: (
            "--advantage.estimator grpo has no critic: --ppo.critic-warmup-iterations "
            f"{c.ppo.critic_warmup_iterations} would be iterations without learning. Use "
            "--ppo.critic-warmup-iterations 0."
        ),
    ),
    Row(
        name="a critic's warm-up as long as the run",
        applies=lambda c: 0 < c.num_iterations <= c.ppo.critic_warmup_iterations,
        message=lambda c: (
            f"--ppo.critic-warmup-iterations {c.ppo.critic_warmup_iterations} leaves the policy nothing of "
            f"--num-iterations {c.num_iterations}. Lower the first or raise the second."
        ),
    ),
    Row(
        name="a setting the estimator does not read",
        applies=lambda c: any(True for _ in _unread(c)),
        message=_unread_messages,
    ),
    Row(
        name="whitening under GRPO",
        applies=lambda c: c.advantage.estimator == "grpo" and c.advantage.whiten is True,
        message=lambda c: (
            "--advantage.estimator grpo scales advantages within each group and whitens nothing over the batch. Leave "
            "out --advantage.whiten True (None, the default, whitens for the estimators with a critic)."
        ),
    ),
    Row(
        name="a clip that one step never meets",
        applies=lambda c: (
            c.ppo.old_logprobs == "trainer"
            and _takes_one_step(c.ppo.num_epochs, c.ppo.num_minibatches)
            and _is_changed(c.ppo, "clip_low", "clip_high")
        ),
        message=lambda c: (
            "With --ppo.num-epochs 1 and --ppo.num-minibatches 1 the ratio of the only step is 1, so "
            f"--ppo.clip-low {c.ppo.clip_low} and --ppo.clip-high {c.ppo.clip_high} never act. Take more steps an "
            "iteration or leave the clip at its defaults."
        ),
    ),
    Row(
        name="a value clip that one step never meets",
        applies=lambda c: (
            _takes_one_step(c.ppo.critic_num_epochs, c.ppo.critic_num_minibatches)
            and c.ppo.value_clip is not None
            and _is_changed(c.ppo, "value_clip")
        ),
        message=lambda c: (
            "With --ppo.critic-num-epochs 1 and --ppo.critic-num-minibatches 1 no value has moved before the only "
            f"step, so --ppo.value-clip {c.ppo.value_clip} never acts. Take more steps or use --ppo.value-clip None."
        ),
    ),
    Row(
        name="a KL penalty without a weight",
        applies=lambda c: c.ppo.kl_coef == 0 and _is_changed(c.ppo, "kl_placement", "kl_estimator"),
        message=lambda c: (
            f"--ppo.kl-placement {c.ppo.kl_placement} and --ppo.kl-estimator {c.ppo.kl_estimator} say how a KL penalty "
            "is taken, and --ppo.kl-coef is 0. Raise it, or leave the two alone."
        ),
    ),
    Row(
        name="a KL loss without a gradient",
        applies=lambda c: c.ppo.kl_placement == "loss" and c.ppo.kl_formula == "k1",
        message=lambda c: (
            "--ppo.kl-placement loss with --ppo.kl-estimator k1 has expected gradient 0: the mean of the score over "
            "the policy's own samples. Use --ppo.kl-estimator k3 (GRPO's) or k2, or --ppo.kl-placement reward."
        ),
    ),
    Row(
        name="top-p where the ratio is the sampler's own",
        applies=lambda c: c.sampling.top_p < 1 and c.ppo.old_logprobs == "sampler",
        message=lambda c: (
            f"With --sampling.top-p {c.sampling.top_p} the sampler's log-probabilities are of another distribution "
            "than the trainer's. Use --ppo.old-logprobs trainer (and --ppo.importance-cap 2) or --sampling.top-p 1."
        ),
    ),
    Row(
        name="observations that no sampler drew",
        applies=lambda c: (
            c.advantage.mask == "all" and (c.ppo.old_logprobs == "sampler" or c.ppo.importance_cap is not None)
        ),
        message=lambda c: (
            "--advantage.mask all learns from observations, too, for which the sampler has no log-probability: the "
            f"ratio cannot be taken against it (--ppo.old-logprobs {c.ppo.old_logprobs}) nor corrected towards it "
            f"(--ppo.importance-cap {c.ppo.importance_cap}). Use --ppo.old-logprobs trainer and --ppo.importance-cap "
            "None."
        ),
    ),
    Row(
        name="evaluations that never come round",
        applies=lambda c: 0 < c.eval_every >= c.num_iterations,
        message=lambda c: (
            f"--eval-every {c.eval_every} never comes round in --num-iterations {c.num_iterations}: the last "
            f"evaluation is not one of these. Use --eval-every {_below(c.num_iterations)}0 for none."
        ),
    ),
    Row(
        name="judges of evaluations that are not made",
        applies=lambda c: (
            c.judge.in_evaluations and c.num_eval_episodes == 0 and (c.eval_every == 0 or c.num_val_episodes == 0)
        ),
        message=lambda c: (
            "--judge.in-evaluations has a model judge evaluations, and none are made: --num-eval-episodes is 0 and so "
            "is --eval-every or --num-val-episodes. Raise them or use --judge.no-in-evaluations."
        ),
    ),
    Row(
        name="evaluations of no episodes",
        applies=lambda c: c.eval_every > 0 and c.num_val_episodes == 0,
        message=lambda c: (
            f"--eval-every {c.eval_every} evaluates --num-val-episodes 0. Raise the second or use --eval-every 0."
        ),
    ),
    Row(
        name="a model judge that is never asked",
        applies=lambda c: (
            c.judge.method != "exact"
            and max(c.judge.grounding_weight, c.judge.worldmodeling_weight, c.judge.repetition_penalty) == 0
        ),
        message=lambda c: (
            f"--judge.method {c.judge.method} judges observations and predictions, but --judge.grounding-weight, "
            "--judge.worldmodeling-weight and --judge.repetition-penalty are all 0. Raise one or use --judge.method "
            "exact."
        ),
    ),
    Row(
        name="a repetition penalty on sections that nobody writes",
        applies=lambda c: bool(_unreadable_formats(c)),
        message=_unreadable_message,
    ),
    Row(
        name="claims extracted from what is structured already",
        applies=lambda c: bool(_structured_worlds(c)),
        message=lambda c: (
            "--judge.method extraction has a model read claims out of sentences, but the states of "
            f"{', '.join(c.worlds[number].env_id for number in _structured_worlds(c))} are structured: the exact judge "
            "reads them without a mistake. Use --judge.method exact, or "
            + " ".join(f"--worlds.{number}.kwargs.representation natural_language" for number in _structured_worlds(c))
            + "."
        ),
    ),
    Row(
        name="a right answer paid twice",
        applies=lambda c: any(True for _ in _paid_twice(c, "answer_reward")),
        message=lambda c: _paid_twice_message(c, "answer_reward", "the reward of a right answer"),
    ),
    Row(
        name="a format paid twice",
        applies=lambda c: any(True for _ in _paid_twice(c, "format_reward")),
        message=lambda c: _paid_twice_message(c, "format_reward", "a reward of the format"),
    ),
    Row(
        name="comparisons with an archive that stays empty",
        applies=lambda c: (
            c.judge.episode == "ivgr" and not any(spec.prompt_format == "ivgr_grounded" for spec in c.worlds)
        ),
        message=lambda c: (
            "--judge.episode ivgr compares textual rollouts with the best grounded ones, and no world here has "
            "prompt_format='ivgr_grounded': consistency would always be 0. Add one, such as "
            f"--worlds.{len(c.worlds)}.env-id VLM/ZoomQAGrounded-v0."
        ),
    ),
    Row(
        name="a rate of careless steps that are not taken",
        applies=lambda c: not c.cold_start.num_careless_steps and _is_changed(c.cold_start, "careless_learning_rate"),
        message=lambda c: (
            f"--cold-start.careless-learning-rate {c.cold_start.careless_learning_rate} is of careless steps, and "
            "--cold-start.num-careless-steps is 0. Set that and --cold-start.careless-rate, or leave the rate alone."
        ),
    ),
)
"""Every row, in the order they are tried."""
