"""Settings of a curation: questions, teacher, verifier, filters, and the preference pairs built from a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from tyro.conf import AvoidSubcommands, Suppress, UseAppendAction, arg

from agents.api.endpoint_config import EndpointConfig
from agents.hf.sampling_config import SamplingConfig
from judges.episode_rewards.episode_reward import EpisodeReward
from judges.episode_rewards.reward_registry import EPISODE_REWARDS
from training.config.judge_config import RewardSet, VerifierConfig, set_reward
from training.config.saved_config import require_name
from training.config.world_spec import WorldSpec, world_names
from training.pools.pool_config import PoolConfig
from vlm_envs.cli.named_worlds import Settings, parse_settings
from vlm_envs.errors import ConfigError
from vlm_envs.validation import field_name, require, require_at_least, require_between, require_finite

CURATED = "curated"
"""Label of a curated dataset's recorded episodes."""


LEVELS = "levels.jsonl"
"""File of a curated dataset that lists the ids of its samples, so that pools can exclude them."""


Again = Annotated[tuple[str, ...], UseAppendAction, arg(metavar="NAME=VALUE")]
"""An option field for additional world arguments; each value repeats the work under these arguments."""


_DEFAULT_WORLD = "VLM/ZoomQA-v0"
JUDGED = "judged.jsonl"
"""Name of the output file, which RewardJudging reads with `dataset=judged`."""


NOBODY = EndpointConfig(model="NAME", base_url="http://URL", temperature=1.0, max_tokens=2048)
"""Placeholder for no model; its other settings are the defaults for a named model."""


@dataclass(frozen=True, kw_only=True)
class PointingConfig:
    """Points that are drawn into the teacher's images with their coordinates; the dataset keeps the original images.

    Source: Argos, sections 4.1 and 4.2, appendix C: GPT-4o proposes, Molmo-7B points, and GLM-4.1V sees the result.

    Attributes:
        points: Source of the points: `"none"` draws none; `"exact"` uses the question's evidence, which generated
            images and data with boxes have; `"models"` asks the two models below.
        proposer: An agent that names the relevant objects, given question, correct answer, and images, such as
            `compatible:NAME@URL` or `hf:DIR`.
        pointer: An agent that points at a named object, in percent of the image size, as Molmo does.
    """

    points: Literal["none", "exact", "models"] = "none"
    proposer: str | None = None
    pointer: str | None = None

    def __post_init__(self) -> None:
        points, given = field_name(self, "points"), {"proposer": self.proposer, "pointer": self.pointer}
        missing = " and ".join(field_name(self, name) for name, agent in given.items() if agent is None)
        require(
            self.points != "models" or not missing,
            f"{points} models asks models for objects and their points. Name the models with {missing} NAME, such as "
            f"compatible:NAME@URL, or use the points of generated images: {points} exact.",
        )


@dataclass(frozen=True, kw_only=True)
class CurateConfig:
    """Settings of a curation.

    Attributes:
        name: Name of the dataset, a single path component; it is written to `<output>/<name>`, which must not exist.
        env_id: The world that the expert plays; for several worlds, use `--worlds.0.env-id ID --worlds.1.env-id ID`.
        settings: Arguments of the world, as `name=value`, such as `side_px=600`; the reward sets the default
            `prompt_format`.
        worlds: Several worlds in place of `env_id` and `settings`, played in order, each with its own arguments and
            pool.
        again: World arguments with which all questions are asked again, in addition to the original ones: with
            `reverse_order=True`, the responses of RewardJudging are judged in both orders. Several values are applied
            one at a time.
        episode_reward: The reward that verifies; `MODULE:NAME` imports the module, which registers it.
        reward_settings: Constants of the reward, as `name=value`, such as `needs_tools=False` of `"arm_accuracy"`,
            which also keeps rollouts without a successful tool call; `python -m judges rewards` lists them.
        verifier: Models for rewards that need masks or likelihoods, such as `"argos"`.
        endpoint: A model behind an endpoint that judges for the reward where rules cannot: free-text answers, iVGR's
            consistency, and everything in `"agentic"`; unused unless its `model` and `base_url` are given.
        judge: A checkpoint in place of the endpoint, `"hf:DIR"`.
        expert: The agent that plays: `"oracle"`, a checkpoint directory as `"hf:DIR"`, a model behind an endpoint as
            `"openai:NAME"` or `"compatible:NAME@URL"`, or any other agent name.
        pointing: Points that are drawn into the expert's images; the dataset keeps the original images.
        mistake_rate: Probability that the oracle acts at random, so that there are bad rollouts to filter.
        sampling: Sampling settings of a model's responses.
        num_samples: Questions per world, times the world's weight. With `num_kept`, the maximum number of questions
            asked.
        num_kept: Questions to keep per world, times the world's weight, each with its best rollout. Asking stops once
            this many are good enough, and any surplus is left out. None to ask `num_samples` questions and keep all
            good ones.
        batch_size: Questions that are asked, verified, and written together. Memory use, and the work lost if the
            process is killed, grow with this and not with `num_samples`.
        pool: File of levels to ask instead of sampled ones, as `python -m training pool` writes it; the first
            `num_samples` are used. None to sample.
        exclude: Files of ids to exclude from the pool, such as the pool of another stage.
        num_rollouts: Rollouts per question.
        threshold: Minimum reward of a kept rollout.
        drop_trivial: Whether to drop questions that the base model answers correctly in every attempt: before asking,
            by the pass counts in a pool, or else by the rollouts of the expert, which must then be the base model.
        output: Parent directory of all datasets.
        seed: Seed of the questions and of the expert.
        device: Device of all checkpoints that are loaded locally: `"auto"`, `"cpu"`, or `"cuda"`.
        probe_endpoints: Whether to send a short question to each endpoint at startup, so that an unreachable one is
            reported immediately. Set to False if endpoints are started later.
    """

    name: str = "curated"
    env_id: str = _DEFAULT_WORLD
    settings: Settings = ()
    worlds: Suppress[tuple[WorldSpec, ...]] = ()
    again: Again = ()
    episode_reward: Annotated[str, arg(metavar=f"{{{','.join(EPISODE_REWARDS)},MODULE:NAME}}")] = "argos"
    reward_settings: RewardSet = ()
    verifier: VerifierConfig = field(default_factory=VerifierConfig)
    endpoint: AvoidSubcommands[EndpointConfig | None] = None
    judge: str | None = None
    expert: str = "oracle"
    pointing: PointingConfig = field(default_factory=PointingConfig)
    mistake_rate: float = 0.5
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    num_samples: int = 64
    num_kept: int | None = None
    batch_size: int = 64
    pool: str | None = None
    exclude: tuple[str, ...] = ()
    num_rollouts: int = 4
    threshold: float = 0.7
    drop_trivial: bool = False
    output: str = "runs"
    seed: int = 0
    device: str = "auto"
    probe_endpoints: bool = True

    def __post_init__(self) -> None:
        require_finite(field_name(self, "threshold"), self.threshold)
        require_name(self)
        require_at_least(self, 1, "num_samples", "num_kept", "num_rollouts", "batch_size")
        require_at_least(self, 0, "seed")
        require_between(self, 0, 1, "mistake_rate")
        require(
            self.pool is not None or not self.exclude,
            f"{field_name(self, 'exclude')} excludes levels of a pool. Name a pool ({field_name(self, 'pool')} FILE), "
            f"or remove {field_name(self, 'exclude')}.",
        )
        require(
            self.pointing.points == "none" or self.expert not in ("oracle", "random", "lazy"),
            f"{field_name(self.pointing, 'points')} {self.pointing.points} draws into images, which "
            f"{field_name(self, 'expert')} {self.expert} does not look at. Name a model, such as hf:DIR.",
        )
        require(
            self.num_kept is None or self.num_kept <= self.num_samples,
            f"{field_name(self, 'num_kept')} {self.num_kept} exceeds {field_name(self, 'num_samples')} "
            f"{self.num_samples}, the maximum number of questions asked. Ask more, or keep fewer.",
        )
        messages = [*self._contradictions_of_worlds(), *self._unwritable_points()]
        require(not messages, "\n".join(messages))
        self._require_judges()
        self._require_readable()
        asked = [(spec.env_id, spec.kwargs, spec.pool) for spec in self.specs]
        require(
            all(asked.count(question) == 1 for question in asked),
            f"One of {field_name(self, 'worlds')} or {field_name(self, 'again')} asks every question twice in the "
            "same way. Remove it, or set another value.",
        )

    def _contradictions_of_worlds(self) -> Iterator[str]:
        """Yields a message for each setting of `worlds` that a curation does not support."""
        worlds = field_name(self, "worlds")
        for number, spec in enumerate(self.worlds):
            if spec.pool is not None and spec.pool.draw:
                yield (
                    f"{worlds}.{number}.pool.draw is only for training runs: a curation draws no pool. Draw it first: "
                    f"python -m training pool {spec.env_id} --out FILE, then {worlds}.{number}.pool.file FILE."
                )

    def _unwritable_points(self) -> Iterator[str]:
        """Yields a message for each world whose coordinates differ from the percents that a pointed teacher writes."""
        for spec in self.specs:
            coordinates = spec.kwargs.get("coordinates")
            if self.pointing.points != "none" and coordinates is not None:
                yield (
                    f"{field_name(self.pointing, 'points')} {self.pointing.points} writes points in percents, but "
                    f"{spec.env_id} asks for coordinates={coordinates}. Remove the world's coordinates."
                )

    def _require_judges(self) -> None:
        """Raises `ConfigError` for two judges, or for a reward without the judge that it requires."""
        option, reward = field_name(self, "episode_reward"), self.reward
        endpoint, judge = field_name(self, "endpoint"), field_name(self, "judge")
        require(
            self.endpoint is None or self.judge is None,
            f"{endpoint} and {judge} both name a judge for the reward. Remove one of them.",
        )
        require(
            "agentic_judge" not in reward.needs or self.endpoint is not None,
            f"{option} {self.episode_reward} requires a model behind an endpoint as the judge. Name it with "
            f"{endpoint}.model NAME and {endpoint}.base-url URL.",
        )

    def _require_readable(self) -> None:
        """Raises `ConfigError` for worlds that the reward cannot read."""
        option, settings = field_name(self, "episode_reward"), field_name(self, "settings")
        given = " ".join(f"{settings} {setting}" for setting in self.settings)
        for spec in self.specs:
            if self.worlds:
                given = f"{spec.env_id} {' '.join(f'{name}={value}' for name, value in spec.kwargs.items())}".strip()
            try:
                self.reward.require_world(spec.prompt_format, spec.kwargs)
            except ConfigError as error:
                raise ConfigError(f"{option} {self.episode_reward}{f' with {given}' * bool(given)}: {error}") from error

    @property
    def reward(self) -> EpisodeReward:
        """The reward with `reward_settings` applied."""
        return set_reward(
            self.episode_reward,
            self.reward_settings,
            option=field_name(self, "episode_reward"),
            settings_option=field_name(self, "reward_settings"),
        )

    @property
    def has_judge(self) -> bool:
        """Whether a model judges where rules cannot."""
        return self.endpoint is not None or self.judge is not None

    @property
    def specs(self) -> tuple[WorldSpec, ...]:
        """The worlds to play, in order: each world, followed by its variants with each setting of `again`.

        Prompts use the reward's own strategy unless a world's arguments name another.
        """
        again = ((), *((text,) for text in self.again))
        return tuple(self._spec(world, more) for world in self._worlds for more in again)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of `specs` in the yield: the id, with the arguments that distinguish worlds of the same id."""
        return world_names(self.specs)

    def num_samples_of(self, spec: WorldSpec) -> int:
        """Returns the number of questions for one of `specs`; a pool may have fewer."""
        return max(1, round(self.num_samples * spec.weight))

    def num_kept_of(self, spec: WorldSpec) -> int | None:
        """Returns the number of questions to keep of one of `specs`; None for all that are good enough."""
        return None if self.num_kept is None else max(1, round(self.num_kept * spec.weight))

    @property
    def _worlds(self) -> tuple[WorldSpec, ...]:
        if self.worlds:
            return self.worlds
        pool = None if self.pool is None else PoolConfig(file=self.pool, exclude=self.exclude)
        kwargs = parse_settings(self.settings, option=field_name(self, "settings"))
        return (WorldSpec(env_id=self.env_id, kwargs=kwargs, pool=pool),)

    def _spec(self, world: WorldSpec, more: tuple[str, ...]) -> WorldSpec:
        strategies = self.reward.strategies
        kwargs = {"prompt_format": strategies[0]} if strategies else {}
        kwargs |= world.kwargs
        kwargs |= parse_settings(more, option=field_name(self, "again"), example="reverse_order=True")
        name = world.name if world.name is None or not more else f"{world.name} ({', '.join(more)})"
        return replace(world, kwargs=kwargs, name=name)


@dataclass(frozen=True, kw_only=True)
class PairsConfig:
    """Builds responses to judge: a question's right response with wrong ones, without those that are too similar.

    Attributes:
        folder: Folder of the questions and their images, and of the result.
        rows: File of the questions in `folder`, JSON lines or a table (`.parquet`): `question` and `response` (the
            right one); optionally `wrong` (a list of wrong ones), `answer` (the short answer in the right response),
            `image`, or `document` with or without `pages` and `evidence_pages`; `track` and `id`.
        layout: Format of that file: `own`, as above; `mp_docvqa`, its `train.json` next to its folder `images`;
            `deepeyes`, one of its tables (in both, the true answer is the right response); `mm_ifengine`,
            conversations and preferences as LLaMA-Factory reads them, with `rejected` as the wrong response.
        num_candidates: 2 or 4 responses to choose from, or 1 response to judge alone: the right one in one row, a
            wrong one in another.
        max_similarity: Maximum word similarity of a wrong response to the right one, 1 - word edits / words of the
            longer response; more similar ones are dropped.
        endpoint: A model that writes wrong responses where a row has too few; unused unless `model` and `base_url`
            are given. With a `cache_dir`, repeated requests are answered from the cache.
        probe_endpoints: Whether to send that model a short question at startup, so that an unreachable endpoint is
            reported immediately.
    """

    folder: str = "."
    rows: str = "rows.jsonl"
    layout: Literal["own", "mp_docvqa", "deepeyes", "mm_ifengine"] = "own"
    num_candidates: Literal[1, 2, 4] = 2
    max_similarity: float = 0.9
    endpoint: EndpointConfig = NOBODY
    probe_endpoints: bool = True

    def __post_init__(self) -> None:
        require_between(self, 0, 1, "max_similarity", includes=(False, True))
        require(
            self.rows != JUDGED,
            f"{field_name(self, 'rows')} {JUDGED} is the name of the output file. Name the file of the questions.",
        )
        endpoint = field_name(self, "endpoint")
        is_compatible = self.endpoint.provider == NOBODY.provider
        require(
            self.asks_model == (not is_compatible or self.endpoint.base_url != NOBODY.base_url),
            f"A model that writes wrong responses requires a name and an address: {endpoint}.model NAME and "
            f"{endpoint}.base-url URL.",
        )

    @property
    def asks_model(self) -> bool:
        """Whether a model writes wrong responses."""
        return self.endpoint.model != NOBODY.model

    @property
    def num_wrong(self) -> int:
        """Number of wrong responses per question."""
        return max(1, self.num_candidates - 1)
