"""The interface of episode rewards: the worlds they read, the models they ask, and the constants users can set.

    recorded episodes ── judge of a paper ──> one `Reward` each

The constants are a frozen dataclass whose fields users can set by name:

    class Settings(RewardSettings)      defaults, ranges; each field's docstring ends with its source
    `answer_weight=1.5`  ── read ──>    the same class, one field changed
    `constants_of`       ── list ──>    name, default, meaning, source, for commands and documentation
"""

from __future__ import annotations

import inspect
import re
import reprlib
import types
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, Literal, Protocol, TypeVar, cast, runtime_checkable

from agents.event_loop import not_canceling
from judges.asking import gather, resolved
from judges.episode_rewards.judge_models import JudgeModels, Model
from judges.grading import AnswerScale
from judges.scores import Reward
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.trajectory import Trajectory
from vlm_envs.user_code import fault_in_module
from vlm_envs.validation import (
    did_you_mean,
    field_name,
    fields_named,
    require,
    require_choice,
    require_finite,
    require_flag,
)

WorldReward = Literal["answer_reward", "format_reward"]
"""An argument of question-answering worlds for a reward that the world itself pays."""

_ENTRY = re.compile(r"^    (\w+): (.+(?:\n {8,}\S.*)*)", re.MULTILINE)
_SOURCE = "Source: "


class EpisodeJudge(Protocol):
    """Rewards a batch of episodes."""

    def __call__(self, episodes: Sequence[Trajectory]) -> list[Reward] | Awaitable[list[Reward]]:
        """Returns the reward of each episode, in order; may be `async`. If it raises, it must forget the batch."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns the state to keep across iterations, for a checkpoint: JSON types only."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state from `state_dict`."""
        ...

    def metrics(self) -> dict[str, float]:
        """Returns metrics to log in addition to the rewards."""
        ...


@runtime_checkable
class AskingEpisodeJudge(EpisodeJudge, Protocol):
    """A judge that may ask about an episode before the rest of its batch is finished."""

    async def ask_ahead(self, episode: Trajectory) -> None:
        """Asks the known questions of an episode's reward early, through `JudgeModels.questions`."""
        ...


class RejectionReason(Protocol):
    """Decides whether an episode should be imitated."""

    def __call__(self, trajectory: Trajectory, /) -> str | None:
        """Returns why an episode should not be imitated, in one word that curation counts by; None if it should."""
        ...


def rejection_reason_of(trajectory: Trajectory) -> str | None:
    """Returns why an episode should not be imitated, regardless of its reward; None if it should."""
    if not all(turn.info.get("format_correct") for turn in trajectory.turns):
        return "format"
    return None if trajectory.success else "accuracy"


@dataclass(frozen=True, kw_only=True)
class EpisodeReward:
    """An entry of the episode reward registry, which runs and curation look up by name.

    Attributes:
        name: Its unique name; logs call its terms `name/term`.
        build: Makes its judge.
        strategies: The strategies (prompt formats) that it reads; None for any strategy of any world.
        why_unreadable: Takes the arguments of a world with such a strategy and returns why the reward still cannot read
            it, and what to do; empty if it can.
        compares_with: A strategy whose episodes it needs for comparison; None if it compares nothing.
        models: The models that it asks if they are available.
        needs: The models that it requires. An answer judge is required only if the data have semantic answers.
        answer_scale: The grades that its answer judge may give; any other grade makes the score unavailable.
        overlapping_rewards: Rewards that worlds could pay for the same thing.
        rejection_reason: Returns why an episode should not be imitated, regardless of its reward; None if it should.
        settings: Its constants, which users can set; None if it has none.
        configure: Makes the entry with other settings of the same type; required with `settings`.
        num_judgements: Number of times its consistency judge gets the same question.
    """

    name: str
    build: Callable[[JudgeModels], EpisodeJudge]
    strategies: tuple[str, ...] | None = None
    why_unreadable: Callable[[Mapping[str, Any]], str] = lambda settings: ""
    compares_with: str | None = None
    models: frozenset[Model] = frozenset()
    needs: frozenset[Model] = frozenset()
    answer_scale: AnswerScale = "binary"
    overlapping_rewards: frozenset[WorldReward] = frozenset()
    rejection_reason: RejectionReason = rejection_reason_of
    settings: RewardSettings | None = None
    configure: Callable[[Any], EpisodeReward] | None = None
    num_judgements: int = 1

    def with_settings(self, given: Mapping[str, Any], *, option: str = "setting") -> EpisodeReward:
        """Returns the entry with some settings changed.

        Args:
            given: New values by name.
            option: The command-line option or argument that set them, for the error.

        Raises:
            ConfigError: It has no such setting, or a value has the wrong type or is out of range.
        """
        if self.settings is None or self.configure is None:
            require_known(given, [], of=self.name)
            return self
        return self.configure(changed(self.settings, given, of=self.name, option=option)) if given else self

    def make_judge(self, models: JudgeModels) -> EpisodeJudge:
        """Returns the reward's judge; raises `ConfigError` if it cannot be built or is not an `EpisodeJudge`."""
        try:
            judge = self.build(models)
        except VLMEnvsError:
            raise
        except Exception as error:
            why = fault_in_module(error) or repr(error)
            raise ConfigError(f"The judge of the reward {self.name!r} cannot be built: {why}") from error
        for method in ("__call__", "state_dict", "load_state_dict", "metrics"):
            require(
                hasattr(judge, method),
                f"The judge of the reward {self.name!r} has no {method}; got {judge!r}. See "
                "judges.episode_rewards.episode_reward.EpisodeJudge for the methods of a judge.",
            )
        return judge

    def require_world(self, strategy: str, settings: Mapping[str, Any]) -> None:
        """Checks that the reward can read a world.

        Args:
            strategy: Strategy (prompt format) of the world.
            settings: Arguments of the world.

        Raises:
            ConfigError: The reward does not read this strategy, or `why_unreadable` gives a reason.
        """
        readable = self.strategies or (strategy,)
        require(
            strategy in readable,
            f"The reward {self.name!r} reads prompt_format {' or '.join(readable)}; got {strategy!r}.",
        )
        reason = self.why_unreadable(settings)
        require(not reason, f"The reward {self.name!r} {reason}")


async def rewards_by(
    name: str, judge: Callable[[Sequence[Trajectory]], Any], episodes: Sequence[Trajectory]
) -> list[Reward]:
    """Returns the rewards from the judge of the reward `name`; raises `ConfigError` unless it is one per episode."""
    given = await not_canceling(resolved(judge(episodes)), f"The judge of the reward {name!r}")
    is_list = isinstance(given, Sequence) and all(map(_has_numbers, given))
    require(
        is_list and len(given) == len(episodes),
        f"The judge of the reward {name!r} must return a list of {len(episodes)} judges.scores.Reward, one for each "
        f"episode; got {f'{len(given)} of them' if is_list else reprlib.repr(given)}.",
    )
    return list(given)


def _has_numbers(given: object) -> bool:
    return isinstance(given, Reward) and all(
        isinstance(values, Mapping) and all(isinstance(value, Real) for value in values.values())
        for values in (given.terms, given.raw)
    )


def _name(function: Any) -> str:
    return f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"


RewardOf = Callable[[Trajectory], Reward | Awaitable[Reward]]
"""Rewards one episode; may be `async`."""


class EachByItself:
    """A stateless judge that rewards each episode independently; asynchronous rewards are awaited together.

    Args:
        reward_of: The reward of one episode.
        is_asked_ahead: Whether to compute it while other episodes are played, so that its questions are asked early.
    """

    def __init__(self, reward_of: RewardOf, *, is_asked_ahead: bool = False) -> None:
        self._reward_of, self._is_asked_ahead = reward_of, is_asked_ahead

    async def __call__(self, episodes: Sequence[Trajectory]) -> list[Reward]:
        """Returns the reward of each episode, in order; raises `ConfigError` if `reward_of` returns anything else."""
        return await gather(map(self._rewarded, episodes))

    async def ask_ahead(self, episode: Trajectory) -> None:
        """Computes an episode's reward early if `is_asked_ahead`, so that its questions are asked."""
        if self._is_asked_ahead:
            await self._rewarded(episode)

    async def _rewarded(self, episode: Trajectory) -> Reward:
        given = await not_canceling(resolved(self._reward_of(episode)), f"The episode reward {_name(self._reward_of)}")
        return self._required(given)

    def _required(self, given: Any) -> Reward:
        """Returns the result of a function that may be the user's own; raises `ConfigError` unless it is a reward."""
        if _has_numbers(given):
            return cast("Reward", given)
        own = self._reward_of
        raise ConfigError(
            f"The episode reward {_name(own)} must return a judges.scores.Reward, such as "
            f"Reward(terms={{'brevity': 0.5}}), with a number for each term; got {given!r}."
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises `ConfigError` for a non-empty state, which must be from a different judge."""
        require(not state, f"This judge has no state; the saved state has {sorted(state)}.")

    def metrics(self) -> dict[str, float]:
        """Returns nothing."""
        return {}


@dataclass(frozen=True, kw_only=True)
class RewardSettings:
    """Constants of a reward. A subclass adds fields; each one's docstring entry ends with `Source:`."""

    def __post_init__(self) -> None:
        """Raises `ConfigError` for values of the wrong type; subclasses check the ranges."""
        hints = typing.get_type_hints(type(self))
        for field in fields(self):
            _require_type(field_name(self, field.name), hints[field.name], getattr(self, field.name))

    @property
    def given(self) -> tuple[str, ...]:
        """Non-default settings, each as `name=value`: the `reward_settings` of a run or a curation."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return tuple(f"{name}={value!r}" for name, (value, default) in values.items() if value != default)


SettingsT = TypeVar("SettingsT", bound=RewardSettings)


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One setting of a reward, for listings.

    Attributes:
        name: Its name.
        default: Its default value.
        meaning: Its effect, in a sentence or two.
        source: Paper and equation, table, or section; or "our choice".
    """

    name: str
    default: Any
    meaning: str
    source: str


def changed(settings: SettingsT, given: Mapping[str, Any], *, of: str, option: str = "setting") -> SettingsT:
    """Returns settings with some values changed.

    Args:
        settings: The current settings.
        given: New values by name.
        of: The reward's name, for the error.
        option: The command-line option or argument that set the values, for the error.

    Raises:
        ConfigError: A name is unknown, which suggests the closest one, or a value has the wrong type or is out of
            range.
    """
    require_known(given, [field.name for field in fields(settings)], of=of)
    with fields_named({type(settings): {name: f"{option} {name}" for name in given}}):
        return replace(settings, **given)


def require_known(given: Mapping[str, Any], known: list[str], *, of: str) -> None:
    """Raises `ConfigError` for settings that a reward does not have, and suggests the closest."""
    for name in given:
        require(
            name in known,
            f"The reward {of!r} has no setting {name!r}; it has {', '.join(known) or 'none'}."
            f"{did_you_mean(name, known)}{' See all: python -m judges rewards.' * bool(known)}",
        )


def constants_of(settings: RewardSettings | None) -> list[Constant]:
    """Returns the constants in field order; empty for a reward without settings."""
    if settings is None:
        return []
    entries = dict(_documented(type(settings)))
    constants = []
    for field in fields(settings):
        meaning, _, source = entries.get(field.name, "").partition(_SOURCE)
        default = getattr(settings, field.name)
        constants.append(Constant(name=field.name, default=default, meaning=meaning.strip(), source=source.strip()))
    return constants


def _documented(kind: type) -> Iterator[tuple[str, str]]:
    """Yields the name and docstring entry of each attribute, base classes first."""
    for base in reversed(kind.__mro__):
        attributes = (inspect.cleandoc(base.__doc__ or "")).partition("\nAttributes:\n")[2]
        for name, text in _ENTRY.findall(attributes):
            yield name, " ".join(text.split())


_TYPES: Mapping[type, tuple[type, str]] = {int: (Integral, "a whole number"), float: (Real, "a number")}


def _require_type(name: str, hint: Any, value: object) -> None:
    if typing.get_origin(hint) is typing.Literal:
        require_choice(name, value, typing.get_args(hint))
    elif hint is bool:
        require_flag(name, value)
    else:
        kind, expected = _TYPES.get(hint, (types.NoneType | str, "text or None"))
        is_right = isinstance(value, kind) and not isinstance(value, bool)
        require(is_right, f"{name} must be {expected}; got {value!r}.")
        if hint is float:
            require_finite(name, value)
