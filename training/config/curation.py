"""How a data set is curated, apart from doing it, so that a command line can be read without torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from agents.hf.sampling import SamplingConfig
from judges.episode_rewards.registry import episode_reward
from training.config.judges import VerifierConfig
from training.config.places import require_name
from training.config.worlds import WorldSpec
from vlm_envs.arguments.ranges import field_name, require_at_least, require_between
from vlm_envs.cli.settings import parse_settings
from vlm_envs.errors import ConfigError

CURATED = "curated"
"""Under this label a data set's episodes are recorded."""


@dataclass(frozen=True, kw_only=True)
class CurateConfig:
    """How a data set is made.

    Attributes:
        name: Name of the data set, one part of a path; it goes to `<output>/<name>`, which must not exist.
        env_id: The world the expert plays.
        settings: Its arguments, as `name=value`, such as `side_px=600`.
        method: The reward that verifies, a name of `judges.episode_rewards.registry.EPISODE_REWARDS`.
        verifier: Models for rewards that ask for masks or likelihoods, such as `"argos"`.
        expert: Who plays: `"oracle"`, `"hf:DIR"` with a checkpoint directory, or any other name of an agent.
        mistake_rate: How often the oracle acts at random, so that there is something to filter.
        sampling: How a model's responses are drawn.
        num_samples: Questions.
        num_rollouts: Rollouts a question.
        threshold: Least reward of a rollout that is kept.
        drop_trivial: Whether questions that every rollout answers right are dropped.
        needs_tools: Whether a rollout of strategy `arm` is kept only with a call that worked.
        output: Directory of all data sets.
        seed: Seed of the questions and of the expert.
    """

    name: str = "curated"
    env_id: str = "VLM/ZoomQA-v0"
    settings: tuple[str, ...] = ("prompt_format=points",)
    method: str = "argos"
    verifier: VerifierConfig = field(default_factory=VerifierConfig)
    expert: str = "oracle"
    mistake_rate: float = 0.5
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    num_samples: int = 64
    num_rollouts: int = 4
    threshold: float = 0.7
    drop_trivial: bool = False
    needs_tools: bool = True
    output: str = "runs"
    seed: int = 0

    def __post_init__(self) -> None:
        require_name(self)
        require_at_least(self, 1, "num_samples", "num_rollouts")
        require_at_least(self, 0, "seed")
        require_between(self, 0, 1, "mistake_rate")
        method, settings = field_name(self, "method"), field_name(self, "settings")
        reward = episode_reward(self.method, option=method)
        self.verifier.require_reader(reward, method)
        try:
            reward.require_world(self.spec.prompt_format, self.spec.kwargs)
        except ConfigError as error:
            raise ConfigError(f"{method} {self.method} with {settings} {' '.join(self.settings)}: {error}") from error

    @property
    def spec(self) -> WorldSpec:
        """The world."""
        return WorldSpec(env_id=self.env_id, kwargs=parse_settings(self.settings, option=field_name(self, "settings")))
