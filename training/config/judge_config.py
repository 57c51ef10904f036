"""Settings of the judges of turns and episodes, and their validation against a run's worlds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from tyro.conf import AvoidSubcommands, UseAppendAction, arg

from agents.api.endpoint_config import EndpointConfig
from judges.episode_rewards.episode_reward import EpisodeReward
from judges.episode_rewards.judge_models import Model
from judges.episode_rewards.reward_registry import EPISODE_REWARDS, episode_reward
from judges.state_text.exact_judge import has_rules
from judges.turn_rewards import RepetitionTerm
from training.config.world_spec import WorldSpec
from vlm_envs.cli.named_worlds import parse_settings
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import QA_FORMATS
from vlm_envs.validation import field_name, require, require_above, require_at_least, require_choice

_NEEDS_MODEL = "name the model with --judge.endpoint.model NAME and --judge.endpoint.base-url URL"


ASKED: frozenset[Model] = frozenset({"answer_judge", "consistency_judge", "agentic_judge"})
"""Models of an episode reward that an endpoint can provide."""


RewardSet = Annotated[tuple[str, ...], UseAppendAction, arg(name="reward-set", metavar="NAME=VALUE")]
"""Type of options for a reward's constants."""


def last_of_each_name(settings: Iterable[str]) -> tuple[str, ...]:
    """Returns `name=value` settings without those that a later one with the same name overrides."""
    return tuple({text.partition("=")[0]: text for text in settings}.values())


def set_reward(name: str, settings: tuple[str, ...], *, option: str, settings_option: str) -> EpisodeReward:
    """Returns a reward by name, with some of its constants set.

    Args:
        name: See `episode_reward`.
        settings: The constants, each `name=value`.
        option: The option for the name, for errors.
        settings_option: The option for the constants.

    Raises:
        ConfigError: If there is no such reward or constant, or a value has the wrong type or is out of range.
    """
    given = parse_settings(settings, option=settings_option, example="answer_weight=1.5")
    return episode_reward(name, option=option).with_settings(given, option=settings_option)


@dataclass(frozen=True, kw_only=True)
class VerifierConfig:
    """Models for verification in Argos, as local directories. Without a model, its part is exact or omitted.

    Attributes:
        likelihood: A checkpoint of a supported family for the likelihood of an answer after its reasoning.
        detector: A Grounding DINO that locates pointed-at objects in images other than generated scenes.
        segmenter: The SAM to use with it.
        pointer: An agent that points where the detector finds nothing, as in charts and maps: `compatible:NAME@URL` or
            `hf:DIR`.
        workers: Where the models run: `"local"`, in the judging process, or `"ray"`, in actors on the machines of a Ray
            cluster, each of which loads all models from the same path on its machine.
        num_workers: Number of actors; None for as many as the cluster has GPUs for, or one if they need none.
        num_gpus: GPUs of each actor, such as 1, or 0.5 if two share one; 0 uses the CPU.
        timeout_s: Time limit of an actor for one question, in seconds; then another actor is asked once.
    """

    likelihood: str | None = None
    detector: str | None = None
    segmenter: str | None = None
    pointer: str | None = None
    workers: Literal["local", "ray"] = "local"
    num_workers: int | None = None
    num_gpus: float = 0.0
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        require_choice(field_name(self, "workers"), self.workers, ("local", "ray"))
        require_at_least(self, 1, "num_workers")
        require_at_least(self, 0, "num_gpus")
        require_above(self, 0, "timeout_s")
        require(
            (self.detector is None) == (self.segmenter is None),
            f"A detector finds boxes that a segmenter fills: give both {field_name(self, 'detector')} and "
            f"{field_name(self, 'segmenter')}, or neither; got {self.detector} and {self.segmenter}.",
        )

    @property
    def directories(self) -> dict[str, str]:
        """The named model directories by field."""
        named = {name: getattr(self, name) for name in ("likelihood", "detector", "segmenter")}
        return {name: model for name, model in named.items() if model is not None}

    def absolute(self) -> VerifierConfig:
        """Returns the same settings with absolute paths, for processes in other folders."""
        whole = {name: os.path.abspath(model) for name, model in self.directories.items()}
        if self.pointer is not None and self.pointer.startswith("hf:"):
            whole["pointer"] = f"hf:{os.path.abspath(self.pointer.removeprefix('hf:'))}"
        return replace(self, **whole)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class JudgeConfig:
    """Turn-level judge rewards, added to the world's raw reward.

    Attributes:
        grounding_weight: Weight of the score of the observation against the current state.
        worldmodeling_weight: Weight of the score of the prediction against the next state.
        repetition_penalty: Subtracted from turns whose text is among the most frequent and incorrect; 0 turns it off.
        method: The judge: `"exact"`, by rule; or a language model behind `endpoint`, by a `"direct"` verdict or by
            `"extraction"` of claims that the exact judge then scores (VAGEN, appendix D.1).
        endpoint: Chat-completions endpoint of that model; none unless its options `model` and `base_url` are given.
            Turns are masked while it is unavailable.
        episode_reward: A paper's episode reward for question-answering worlds, added to the last turn; None for none.
            With an `endpoint`, its model judges answers that no rule can compare, and iVGR's consistency. `"agentic"`
            works in any world: the model inspects it with tools and judges whether the last response is right.
            `MODULE:NAME` imports the module, which registers the reward with that name.
        reward_settings: Constants of that reward, each `name=value`, such as `answer_weight=1.5`; the others are the
            paper's. `python -m judges rewards` lists them. In Python, `MagsSettings(answer_weight=1.5).given`.
        verifier: Models for rewards that need masks or likelihoods, such as `"argos"`.
        in_evaluations: Whether the model behind `endpoint` also judges evaluations. Its cost is then counted separately
            from training. Evaluations are scored by success; otherwise, only their records lack the model's terms.
    """

    grounding_weight: float = 0.5
    worldmodeling_weight: float = 0.5
    repetition_penalty: float = 0.0
    method: Literal["exact", "direct", "extraction"] = "exact"
    endpoint: AvoidSubcommands[EndpointConfig | None] = None
    episode_reward: Annotated[str | None, arg(metavar=f"{{None,{','.join(EPISODE_REWARDS)},MODULE:NAME}}")] = None
    reward_settings: RewardSet = ()
    verifier: VerifierConfig = field(default_factory=VerifierConfig)
    in_evaluations: bool = False

    def __post_init__(self) -> None:
        require_at_least(self, 0, "grounding_weight", "worldmodeling_weight", "repetition_penalty")
        # A resumed run has its saved settings and, again, those of the original command line
        object.__setattr__(self, "reward_settings", last_of_each_name(self.reward_settings))
        reward = self.reward
        require(
            self.method == "exact" or self.endpoint is not None,
            f"--judge.method {self.method} needs a model: {_NEEDS_MODEL}, or use --judge.method exact.",
        )
        require(
            reward is None or "agentic_judge" not in reward.needs or self.endpoint is not None,
            f"--judge.episode-reward {self.episode_reward} needs a model: {_NEEDS_MODEL}.",
        )

    @classmethod
    def of_episodes(cls, episode_reward: str | None = None, **settings: Any) -> JudgeConfig:
        """Returns the judge of an episode reward, or of none, without turn rewards."""
        return cls(grounding_weight=0.0, worldmodeling_weight=0.0, episode_reward=episode_reward, **settings)

    @property
    def reward(self) -> EpisodeReward | None:
        """The episode reward with its constants; None for none."""
        if self.episode_reward is None:
            return None
        return set_reward(
            self.episode_reward,
            self.reward_settings,
            option="--judge.episode-reward",
            settings_option="--judge.reward-set",
        )

    @property
    def of_evaluations(self) -> JudgeConfig:
        """The judges of evaluations, which have no effect on training.

        Repetition depends on the run's history, which evaluations lack. A model behind an endpoint is used only
        if requested, and its replies are cached separately, so that training never reads one of them.
        """
        if self.endpoint is None:
            return replace(self, repetition_penalty=0.0)
        if self.in_evaluations:
            cache = None if self.endpoint.cache_dir is None else self.endpoint.cache_dir / "evaluations"
            return replace(self, repetition_penalty=0.0, endpoint=replace(self.endpoint, cache_dir=cache))
        is_exact = self.method == "exact"
        return JudgeConfig(
            grounding_weight=self.grounding_weight if is_exact else 0.0,
            worldmodeling_weight=self.worldmodeling_weight if is_exact else 0.0,
        )


def judge_contradictions(judge: JudgeConfig, worlds: Sequence[WorldSpec]) -> Iterator[str]:
    """Yields messages about rewards that cannot be earned or compared in these worlds, or that are paid twice.

    Each message gives the expected and actual values and the options to change.
    """
    reward, chosen = judge.reward, f"--judge.episode-reward {judge.episode_reward}"
    judged = [spec for spec in worlds if has_rules(spec.env_id)]
    overlapping = () if reward is None else sorted(reward.overlapping_rewards)
    for number, spec in enumerate(worlds):
        kwargs = f"--worlds.{number}.kwargs"
        wrong = []
        if reward is not None:
            try:
                reward.require_world(spec.prompt_format, spec.kwargs)
            except ConfigError as error:
                wrong.append(f"{chosen} with {kwargs}.prompt-format: {error}")
        for task, section in (("grounding", "observation"), ("worldmodeling", "prediction")):
            weight, flag = getattr(judge, f"{task}_weight"), f"--judge.{task}-weight"
            if weight > 0 and spec in judged and not any(task in other.prompt_format for other in judged):
                wrong.append(
                    f"{flag} is {weight}, but the format {spec.prompt_format!r} of {spec.env_id} has no <{section}>. "
                    f"Use {flag} 0, or {kwargs}.prompt-format with {task} in it."
                )
        yield from (wrong and _unknown_format(spec, kwargs)) or wrong
        for argument in overlapping:
            if spec.prompt_format in QA_FORMATS and (amount := _pay(spec, argument)):
                yield (
                    f"{chosen} already includes {argument}, but {spec.env_id} also pays {amount} for it. Use "
                    f"{kwargs}.{argument.replace('_', '-')} 0."
                )
    if judge.repetition_penalty and judged:
        yield from _unread_repetition(judge, worlds.index(judged[0]), judged)
    wanted = None if reward is None else reward.compares_with
    if wanted is not None and not any(spec.prompt_format == wanted for spec in worlds):
        yield (
            f"{chosen} compares episodes with those of prompt_format={wanted!r}, but no world here has it, so there is "
            f"nothing to compare with. Add one, such as --worlds.{len(worlds)}.env-id {worlds[0].env_id} "
            f"--worlds.{len(worlds)}.kwargs.prompt-format {wanted}."
        )


def _unread_repetition(judge: JudgeConfig, first: int, judged: Sequence[WorldSpec]) -> Iterator[str]:
    """Yields a message if a repetition penalty has no text to read in any judged world; `first` is one's index."""
    for spec in judged:
        with spec.made() as world:
            if not {*world.response_format.sections}.isdisjoint(RepetitionTerm.sections):
                return
    yield (
        f"--judge.repetition-penalty is {judge.repetition_penalty}, but it reads "
        f"{' and '.join(f'<{section}>' for section in RepetitionTerm.sections)}, and no format here has either: "
        f"{' and '.join(dict.fromkeys(repr(spec.prompt_format) for spec in judged))}. Use --judge.repetition-penalty "
        f"0, or --worlds.{first}.kwargs.prompt-format grounding, worldmodeling or grounding_worldmodeling."
    )


def _unknown_format(spec: WorldSpec, kwargs: str) -> list[str]:
    """Returns the world's own error if its format does not exist, as it is clearer than follow-up errors."""
    try:
        with spec.made():
            return []
    except ConfigError as error:
        return [f"{kwargs}.prompt-format: {error}"] if str(error).startswith("prompt_format ") else []


def _pay(spec: WorldSpec, argument: str) -> float:
    """Returns the amount that a world pays, from its explicit argument or by default."""
    if argument in spec.kwargs:
        return float(spec.kwargs[argument])
    with spec.made() as world:
        return float(getattr(world.task if argument == "answer_reward" else world, argument))
