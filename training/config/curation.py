"""How a data set is curated, apart from doing it, so that a command line can be read without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from tyro.conf import UseAppendAction, arg

from agents.hf.sampling import SamplingConfig
from judges.episode_rewards.registry import EPISODE_REWARDS
from judges.episode_rewards.reward import EpisodeReward
from training.config.judges import RewardSet, VerifierConfig, set_reward
from training.config.places import require_name
from training.config.pointing import PointingConfig
from training.config.pools import PoolConfig
from training.config.worlds import WorldSpec
from vlm_envs.arguments.ranges import field_name, require_at_least, require_between
from vlm_envs.cli.settings import Settings, parse_settings
from vlm_envs.errors import ConfigError, require

CURATED = "curated"
"""Under this label a data set's episodes are recorded."""


Again = Annotated[tuple[str, ...], UseAppendAction, arg(metavar="NAME=VALUE")]
"""A field of options that takes arguments of a world, under each of which something is done once more."""

_REWARDS = tuple(name for name, each in EPISODE_REWARDS.items() if "agentic_judge" not in each.needs)
"""What verifies without a model behind an endpoint, for which a curation has no options."""


@dataclass(frozen=True, kw_only=True)
class CurateConfig:
    """How a data set is made.

    Attributes:
        name: Name of the data set, one part of a path; it goes to `<output>/<name>`, which must not exist.
        env_id: The world the expert plays.
        settings: Its arguments, as `name=value`, such as `side_px=600`; `prompt_format` is the reward's own by default.
        again: An argument under which all questions are asked once more, beside the world's own: `reverse_order=True`
            has the responses of RewardJudging judged in both orders. Of several, each once.
        episode_reward: The reward that verifies; `MODULE:NAME` imports the module, which registers it.
        reward_settings: Constants of the reward, as `name=value`, such as `needs_tools=False` of `"arm_accuracy"`,
            which keeps rollouts without a call that worked, too; `python -m judges rewards` lists them.
        verifier: Models for rewards that ask for masks or likelihoods, such as `"argos"`.
        expert: Who plays: `"oracle"`, `"hf:DIR"` with a checkpoint directory, or any other name of an agent.
        pointing: Places that are drawn into what the expert sees; what is kept has the pictures as they were.
        mistake_rate: How often the oracle acts at random, so that there is something to filter.
        sampling: How a model's responses are drawn.
        num_samples: Questions.
        pool: File of levels that are asked in place of drawn ones, the first `num_samples` of them, as
            `python -m training pool` writes it. None to draw.
        exclude: Files of ids that are left out of the pool, such as the pool of another stage.
        num_rollouts: Rollouts a question.
        threshold: Least reward of a rollout that is kept.
        drop_trivial: Whether questions that every rollout answers right are dropped.
        output: Directory of all data sets.
        seed: Seed of the questions and of the expert.
    """

    name: str = "curated"
    env_id: str = "VLM/ZoomQA-v0"
    settings: Settings = ()
    again: Again = ()
    episode_reward: Annotated[str, arg(metavar=f"{{{','.join(_REWARDS)},MODULE:NAME}}")] = "argos"
    reward_settings: RewardSet = ()
    verifier: VerifierConfig = field(default_factory=VerifierConfig)
    expert: str = "oracle"
    pointing: PointingConfig = field(default_factory=PointingConfig)
    mistake_rate: float = 0.5
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    num_samples: int = 64
    pool: str | None = None
    exclude: tuple[str, ...] = ()
    num_rollouts: int = 4
    threshold: float = 0.7
    drop_trivial: bool = False
    output: str = "runs"
    seed: int = 0

    def __post_init__(self) -> None:
        require_name(self)
        require_at_least(self, 1, "num_samples", "num_rollouts")
        require_at_least(self, 0, "seed")
        require_between(self, 0, 1, "mistake_rate")
        require(
            self.pool is not None or not self.exclude,
            f"{field_name(self, 'exclude')} leaves levels out of a pool. Give one ({field_name(self, 'pool')} FILE), "
            f"or leave {field_name(self, 'exclude')} out.",
        )
        require(
            self.pointing.points == "none" or self.expert not in ("oracle", "random", "lazy"),
            f"{field_name(self.pointing, 'points')} {self.pointing.points} draws into pictures that "
            f"{field_name(self, 'expert')} {self.expert} does not look at. Name a model, such as hf:DIR.",
        )
        option, settings = field_name(self, "episode_reward"), field_name(self, "settings")
        reward = self.reward
        require(
            "agentic_judge" not in reward.needs,
            f"{option} {self.episode_reward} lets a model behind an endpoint look and decide, which a curation does "
            f"not ask. Choose another: {', '.join(_REWARDS)}.",
        )
        self.verifier.require_reader(reward, option)
        try:
            reward.require_world(self.spec.prompt_format, self.spec.kwargs)
        except ConfigError as error:
            given = " ".join(f"{settings} {each}" for each in self.settings)
            raise ConfigError(f"{option} {self.episode_reward}{f' with {given}' * bool(given)}: {error}") from error
        self._require_other_settings()

    def _require_other_settings(self) -> None:
        """Refuses to ask all questions twice in the same way, under whose ids only one rollout would be kept."""
        kwargs = [spec.kwargs for spec in self.specs]
        option = field_name(self, "again")
        twice = next((text for text, each in zip(self.again, kwargs[1:], strict=True) if kwargs.count(each) > 1), None)
        require(
            twice is None,
            f"{option} {twice} asks every question twice in the same way. Leave it out, or name another value.",
        )

    @property
    def reward(self) -> EpisodeReward:
        """The reward, with the settings of its own."""
        return set_reward(
            self.episode_reward,
            self.reward_settings,
            option=field_name(self, "episode_reward"),
            settings_option=field_name(self, "reward_settings"),
        )

    @property
    def spec(self) -> WorldSpec:
        """The world, in the reward's own strategy unless its settings name another."""
        return self._spec(())

    @property
    def specs(self) -> tuple[WorldSpec, ...]:
        """The world, and the same under each setting of `again`."""
        return (self.spec, *(self._spec((text,)) for text in self.again))

    def _spec(self, more: tuple[str, ...]) -> WorldSpec:
        strategies = self.reward.strategies
        kwargs = {"prompt_format": strategies[0]} if strategies else {}
        kwargs |= parse_settings(self.settings, option=field_name(self, "settings"))
        kwargs |= parse_settings(more, option=field_name(self, "again"), example="reverse_order=True")
        pool = None if self.pool is None else PoolConfig(file=self.pool, exclude=self.exclude)
        return WorldSpec(env_id=self.env_id, kwargs=kwargs, pool=pool)
