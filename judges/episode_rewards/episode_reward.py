"""What an episode reward is: the worlds it reads, the models it asks, and the constants that users may set.

    recorded episodes ── judge of a paper ──> one `Reward` each

The constants are a frozen dataclass whose fields a user may set by name:

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
"""An argument of question-answering worlds: what they themselves pay for."""

_ENTRY = re.compile(r"^    (\w+): (.+(?:\n {8,}\S.*)*)", re.MULTILINE)
_SOURCE = "Source: "


class EpisodeJudge(Protocol):
    """Rewards a batch of episodes."""

    def __call__(self, episodes: Sequence[Trajectory]) -> list[Reward] | Awaitable[list[Reward]]:
        """Returns the reward of each episode, in order; may be `async`. If it raises, the judge forgets the batch."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns what is to be remembered across iterations, for a checkpoint: JSON types only."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from what `state_dict` returned."""
        ...

    def metrics(self) -> dict[str, float]:
        """Returns what there is to log besides the rewards."""
        ...


@runtime_checkable
class AskingEpisodeJudge(EpisodeJudge, Protocol):
    """One whose questions about an episode may be asked before the others of its batch are over."""

    async def ask_ahead(self, episode: Trajectory) -> None:
        """Asks what an episode's reward will ask, as far as that is known, through `JudgeModels.questions`."""
        ...


class RejectionReason(Protocol):
    """Says whether an episode is to be imitated."""

    def __call__(self, trajectory: Trajectory, /) -> str | None:
        """Returns why an episode is not to be imitated, in a word for the count of such; None if it is."""
        ...


def rejection_reason_of(trajectory: Trajectory) -> str | None:
    """Returns why an episode is not to be imitated, whatever its reward: its format, or no success; None if it is."""
    if not all(turn.info.get("format_correct") for turn in trajectory.turns):
        return "format"
    return None if trajectory.success else "accuracy"


@dataclass(frozen=True, kw_only=True)
class EpisodeReward:
    """A reward of whole episodes, as runs and curations find it by its name.

    Attributes:
        name: What it is chosen by; logs call its terms `name/term`.
        build: Makes its judge.
        strategies: The strategies (prompt formats) of worlds that it reads; None for any, of any world.
        why_unreadable: Takes the arguments of a world of such a strategy; says why it cannot be read all the same, and
            what to do about it. Empty where it can.
        compares_with: A strategy without which it has nothing to compare with; None if it compares nothing.
        models: What it asks, of what there is.
        needs: What it cannot do without. An answer judge is needed only where the data have semantic answers.
        answer_scale: The grades that its judge of answers may give: any other is unavailable there.
        overlapping_rewards: What it rewards that worlds can reward by themselves, too.
        rejection_reason: Why an episode is not to be imitated, whatever its reward; None if it is.
        settings: Its constants, which a user may set; None if it has none.
        configure: Makes the entry with other settings of the same type; given where `settings` are.
        num_judgements: How often its judge of consistency is asked the same.
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
        """Returns the entry with some of its settings changed.

        Args:
            given: New values by name.
            option: What they were given by, for the error.

        Raises:
            ConfigError: It has no such setting, or a value has the wrong type or is out of its range.
        """
        if self.settings is None or self.configure is None:
            require_known(given, [], of=self.name)
            return self
        return self.configure(changed(self.settings, given, of=self.name, option=option)) if given else self

    def make_judge(self, models: JudgeModels) -> EpisodeJudge:
        """Returns the reward's judge; raises `ConfigError`, in one line, if it cannot be built or is none."""
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
                "judges.episode_rewards.episode_reward.EpisodeJudge for what a judge has.",
            )
        return judge

    def require_world(self, strategy: str, settings: Mapping[str, Any]) -> None:
        """Refuses a world that the reward cannot read.

        Args:
            strategy: Of the world.
            settings: Its arguments.

        Raises:
            ConfigError: It says which strategies the reward reads, or what its `why_unreadable` says.
        """
        known = self.strategies or (strategy,)
        require(
            strategy in known, f"The reward {self.name!r} reads prompt_format {' or '.join(known)}; got {strategy!r}."
        )
        reason = self.why_unreadable(settings)
        require(not reason, f"The reward {self.name!r} {reason}")


async def rewards_by(
    name: str, judge: Callable[[Sequence[Trajectory]], Any], episodes: Sequence[Trajectory]
) -> list[Reward]:
    """Returns what the judge of the reward `name` gives; raises `ConfigError` if it is not one `Reward` per episode."""
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
    """A judge that rewards each episode by itself and remembers nothing; asynchronous rewards are awaited together.

    Args:
        reward_of: The reward of one episode.
        is_asked_ahead: Whether it may be computed while other episodes are played, to ask its questions early.
    """

    def __init__(self, reward_of: RewardOf, *, is_asked_ahead: bool = False) -> None:
        self._reward_of, self._is_asked_ahead = reward_of, is_asked_ahead

    async def __call__(self, episodes: Sequence[Trajectory]) -> list[Reward]:
        """Returns the reward of each episode, in order; raises `ConfigError` if its function gives anything else."""
        return await gather(map(self._rewarded, episodes))

    async def ask_ahead(self, episode: Trajectory) -> None:
        """Asks what the reward of an episode asks."""
        if self._is_asked_ahead:
            await self._rewarded(episode)

    async def _rewarded(self, episode: Trajectory) -> Reward:
        given = await not_canceling(resolved(self._reward_of(episode)), f"The episode reward {_name(self._reward_of)}")
        return self._required(given)

    def _required(self, given: Any) -> Reward:
        """Returns what the function gave, which may be the user's own; raises `ConfigError` if it is no reward."""
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
        """Refuses what another judge remembered."""
        require(not state, f"This judge remembers nothing; the saved state has {sorted(state)}.")

    def metrics(self) -> dict[str, float]:
        """Returns nothing."""
        return {}


@dataclass(frozen=True, kw_only=True)
class RewardSettings:
    """Constants of a reward. A subclass adds fields; each one's docstring entry ends with `Source:`."""

    def __post_init__(self) -> None:
        """Refuses values of another type, which `-O` or a typo would else let pass; subclasses check the ranges."""
        hints = typing.get_type_hints(type(self))
        for each in fields(self):
            _require_type(field_name(self, each.name), hints[each.name], getattr(self, each.name))

    @property
    def given(self) -> tuple[str, ...]:
        """What differs from the defaults, each as `name=value`: the `reward_settings` of a run or a curation."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return tuple(f"{name}={value!r}" for name, (value, default) in values.items() if value != default)


SettingsT = TypeVar("SettingsT", bound=RewardSettings)


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One setting of a reward, as it is listed.

    Attributes:
        name: What it is set by.
        default: Its value unless it is set.
        meaning: What it does, in a sentence or two.
        source: Paper and equation, table or section, or that it is our choice.
    """

    name: str
    default: Any
    meaning: str
    source: str


def changed(settings: SettingsT, given: Mapping[str, Any], *, of: str, option: str = "setting") -> SettingsT:
    """Returns settings of which some are changed.

    Args:
        settings: The others.
        given: New values by name.
        of: The reward's name, for the error.
        option: What the values were given by, for the error.

    Raises:
        ConfigError: There is no setting of a name, with the closest there is, or a value has the wrong type or is out
            of its range.
    """
    require_known(given, [each.name for each in fields(settings)], of=of)
    with fields_named({type(settings): {name: f"{option} {name}" for name in given}}):
        return replace(settings, **given)


def require_known(given: Mapping[str, Any], known: list[str], *, of: str) -> None:
    """Refuses settings that a reward does not have; raises `ConfigError`, which suggests the closest."""
    for name in given:
        require(
            name in known,
            f"The reward {of!r} has no setting {name!r}; it has {', '.join(known) or 'none'}."
            f"{did_you_mean(name, known)}{' See all: python -m judges rewards.' * bool(known)}",
        )


def constants_of(settings: RewardSettings | None) -> list[Constant]:
    """Returns the constants in their order; none for a reward without settings."""
    if settings is None:
        return []
    told = dict(_documented(type(settings)))
    constants = []
    for each in fields(settings):
        meaning, _, source = told.get(each.name, "").partition(_SOURCE)
        default = getattr(settings, each.name)
        constants.append(Constant(name=each.name, default=default, meaning=meaning.strip(), source=source.strip()))
    return constants


def _documented(kind: type) -> Iterator[tuple[str, str]]:
    """Yields each attribute's name and what the docstrings of its class and those above it say, these first."""
    for each in reversed(kind.__mro__):
        attributes = (inspect.cleandoc(each.__doc__ or "")).partition("\nAttributes:\n")[2]
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
