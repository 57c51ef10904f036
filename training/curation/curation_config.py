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
"""Under this label a data set's episodes are recorded."""


LEVELS = "levels.jsonl"
"""File of a data set that lists the ids of the samples it keeps, so that a pool may leave them out."""


Again = Annotated[tuple[str, ...], UseAppendAction, arg(metavar="NAME=VALUE")]
"""A field of options that takes arguments of a world, under each of which something is done once more."""


_DEFAULT_WORLD = "VLM/ZoomQA-v0"
JUDGED = "judged.jsonl"
"""The file that is written into the folder, as `dataset=judged` of RewardJudging reads it."""


NOBODY = EndpointConfig(model="NAME", base_url="http://URL", temperature=1.0, max_tokens=2048)
"""No model; what is set besides the name and the address holds for one that is named."""


@dataclass(frozen=True, kw_only=True)
class PointingConfig:
    """Points that are drawn into the pictures for the teacher, with their coordinates; what is kept has the originals.

    Source: Argos, sections 4.1 and 4.2, appendix C: GPT-4o proposes, Molmo-7B points, GLM-4.1V is shown both.

    Attributes:
        points: Where they come from: `"none"` draws none; `"exact"` takes what the question's evidence says, of
            generated pictures and of data with boxes; `"models"` asks the two below.
        proposer: An agent that names what there is to look at, given question, right answer and pictures: such as
            `compatible:NAME@URL` or `hf:DIR`.
        pointer: An agent that points at what it is given, in percents of the picture, as Molmo does.
    """

    points: Literal["none", "exact", "models"] = "none"
    proposer: str | None = None
    pointer: str | None = None

    def __post_init__(self) -> None:
        points, given = field_name(self, "points"), {"proposer": self.proposer, "pointer": self.pointer}
        missing = " and ".join(field_name(self, name) for name, agent in given.items() if agent is None)
        require(
            self.points != "models" or not missing,
            f"{points} models asks models what to look at and where it is: say which with {missing} NAME, such as "
            f"compatible:NAME@URL, or take what is known of generated pictures: {points} exact.",
        )


@dataclass(frozen=True, kw_only=True)
class CurateConfig:
    """How a data set is made.

    Attributes:
        name: Name of the data set, one part of a path; it goes to `<output>/<name>`, which must not exist.
        env_id: The world the expert plays; `--worlds.0.env-id ID --worlds.1.env-id ID` on the command line for several.
        settings: Its arguments, as `name=value`, such as `side_px=600`; `prompt_format` is the reward's own by default.
        worlds: Several worlds in place of these, each with arguments and a pool of its own, one after the other.
        again: An argument under which all questions are asked once more, beside the world's own: `reverse_order=True`
            has the responses of RewardJudging judged in both orders. Of several, each once.
        episode_reward: The reward that verifies; `MODULE:NAME` imports the module, which registers it.
        reward_settings: Constants of the reward, as `name=value`, such as `needs_tools=False` of `"arm_accuracy"`,
            which keeps rollouts without a call that worked, too; `python -m judges rewards` lists them.
        verifier: Models for rewards that ask for masks or likelihoods, such as `"argos"`.
        endpoint: A model behind an endpoint that judges for the reward what no rule can: answers in words, iVGR's
            consistency, and all that `"agentic"` looks at; none unless its `model` and `base_url` are given.
        judge: A checkpoint in place of the endpoint, `"hf:DIR"`.
        expert: Who plays: `"oracle"`, a checkpoint directory as `"hf:DIR"`, a model behind an endpoint as
            `"openai:NAME"` or `"compatible:NAME@URL"`, or any other name of an agent.
        pointing: Places that are drawn into what the expert sees; what is kept has the pictures as they were.
        mistake_rate: How often the oracle acts at random, so that there is something to filter.
        sampling: How a model's responses are drawn.
        num_samples: Questions; of several worlds as many of each, times its weight. With `num_kept`, the most that are
            asked.
        num_kept: Questions to be kept of each world, times its weight, each with its best rollout: asking goes on until
            there are so many, and what is good enough beyond them is left out. None to ask `num_samples` and keep what
            is good enough of them.
        batch_size: Questions that are asked, verified and written together. What is held in memory, and what a kill
            loses, grows with this and not with `num_samples`.
        pool: File of levels that are asked in place of drawn ones, the first `num_samples` of them, as
            `python -m training pool` writes it. None to draw.
        exclude: Files of ids that are left out of the pool, such as the pool of another stage.
        num_rollouts: Rollouts a question.
        threshold: Least reward of a rollout that is kept.
        drop_trivial: Whether questions are left out that the base model answers right in every attempt: by the passes
            that a pool has counted, before anything is asked, or else by the rollouts of the expert, which has to be
            that model then.
        output: Directory of all data sets.
        seed: Seed of the questions and of the expert.
        device: Where checkpoints run that are loaded here, whoever's they are: `"auto"`, `"cpu"` or `"cuda"`.
        probe_endpoints: Whether models behind endpoints are asked a short question at start-up, so that one that does
            not answer is told then. False where they are started later.
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
            f"{field_name(self, 'exclude')} leaves levels out of a pool. Give one ({field_name(self, 'pool')} FILE), "
            f"or leave {field_name(self, 'exclude')} out.",
        )
        require(
            self.pointing.points == "none" or self.expert not in ("oracle", "random", "lazy"),
            f"{field_name(self.pointing, 'points')} {self.pointing.points} draws into pictures that "
            f"{field_name(self, 'expert')} {self.expert} does not look at. Name a model, such as hf:DIR.",
        )
        require(
            self.num_kept is None or self.num_kept <= self.num_samples,
            f"{field_name(self, 'num_kept')} {self.num_kept} cannot be kept of {field_name(self, 'num_samples')} "
            f"{self.num_samples} questions, which is the most that are asked. Ask more, or keep fewer.",
        )
        messages = [*self._contradictions_of_worlds(), *self._unwritable_points()]
        require(not messages, "\n".join(messages))
        self._require_judges()
        self._require_readable()
        asked = [(spec.env_id, spec.kwargs, spec.pool) for spec in self.specs]
        require(
            all(asked.count(each) == 1 for each in asked),
            f"One of {field_name(self, 'worlds')} or {field_name(self, 'again')} asks every question twice in the same "
            "way. Leave it out, or name another value.",
        )

    def _contradictions_of_worlds(self) -> Iterator[str]:
        """Yields what several worlds leave no place for."""
        worlds = field_name(self, "worlds")
        for number, spec in enumerate(self.worlds):
            if spec.pool is not None and spec.pool.draw:
                yield (
                    f"{worlds}.{number}.pool.draw is a run's: a curation draws no pool. Draw it beforehand: python -m "
                    f"training pool {spec.env_id} --out FILE, then {worlds}.{number}.pool.file FILE."
                )

    def _unwritable_points(self) -> Iterator[str]:
        """Yields which worlds ask for points in other coordinates than a shown teacher writes."""
        for spec in self.specs:
            coordinates = spec.kwargs.get("coordinates")
            if self.pointing.points != "none" and coordinates is not None:
                yield (
                    f"{field_name(self.pointing, 'points')} {self.pointing.points} writes points in percents, and "
                    f"{spec.env_id} asks for coordinates={coordinates}. Leave the world's coordinates out."
                )

    def _require_judges(self) -> None:
        """Refuses two judges, and a reward without the one that it cannot do without."""
        option, reward = field_name(self, "episode_reward"), self.reward
        endpoint, judge = field_name(self, "endpoint"), field_name(self, "judge")
        require(
            self.endpoint is None or self.judge is None,
            f"{endpoint} and {judge} both name who judges for the reward. Leave one of them out.",
        )
        require(
            "agentic_judge" not in reward.needs or self.endpoint is not None,
            f"{option} {self.episode_reward} lets a model behind an endpoint look and decide: say which with "
            f"{endpoint}.model NAME and {endpoint}.base-url URL.",
        )

    def _require_readable(self) -> None:
        """Refuses worlds that the reward cannot read."""
        option, settings = field_name(self, "episode_reward"), field_name(self, "settings")
        given = " ".join(f"{settings} {each}" for each in self.settings)
        for spec in self.specs:
            if self.worlds:
                given = f"{spec.env_id} {' '.join(f'{name}={value}' for name, value in spec.kwargs.items())}".strip()
            try:
                self.reward.require_world(spec.prompt_format, spec.kwargs)
            except ConfigError as error:
                raise ConfigError(f"{option} {self.episode_reward}{f' with {given}' * bool(given)}: {error}") from error

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
    def has_judge(self) -> bool:
        """Whether a model judges what no rule can."""
        return self.endpoint is not None or self.judge is not None

    @property
    def specs(self) -> tuple[WorldSpec, ...]:
        """What is played, in order: each world, and then the same under each setting of `again`.

        Prompts are of the reward's own strategy unless a world's arguments name another.
        """
        again = ((), *((text,) for text in self.again))
        return tuple(self._spec(world, more) for world in self._worlds for more in again)

    @property
    def names(self) -> tuple[str, ...]:
        """What the yield calls each of `specs`: its id, with the arguments that tell it from others of the same id."""
        return world_names(self.specs)

    def num_samples_of(self, spec: WorldSpec) -> int:
        """Returns how many questions are asked of one of `specs`; a pool may have fewer."""
        return max(1, round(self.num_samples * spec.weight))

    def num_kept_of(self, spec: WorldSpec) -> int | None:
        """Returns how many questions are to be kept of one of `specs`; None for all that are good enough."""
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
    """Build responses to be judged from questions with a right one: wrong ones beside it, too similar ones dropped.

    Attributes:
        folder: Where the questions and their pictures are, and the result goes.
        rows: File of the questions in it, JSON lines or a table (`.parquet`): `question`, `response` (the right one),
            and what there is of `wrong` (a list of wrong ones), `answer` (what the right response comes to in short),
            `image`, or `document` with or without `pages` and `evidence_pages`; `track` and `id`.
        layout: How that file has them: `own`, as above; `mp_docvqa`, its `train.json` beside its folder `images`;
            `deepeyes`, one of its tables, in both of which the true answer is the right response; `mm_ifengine`,
            conversations and preferences as LLaMA-Factory reads them, in which `rejected` is a wrong one.
        num_candidates: 2 or 4 responses to choose from, or 1 to be judged alone: the right one in one row, a wrong one
            in another.
        max_similarity: A wrong response is dropped if its words are more alike to the right one's than this: 1 less the
            edits of words over the longer one's number of words.
        endpoint: A model that writes wrong responses where a row has too few; nobody unless `model` and `base_url` are
            given. With a `cache_dir`, a call that is repeated asks for nothing twice.
        probe_endpoints: Whether that model is asked one short question at start-up, so that one that does not answer is
            told at once.
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
            f"{field_name(self, 'rows')} {JUDGED} is what the result is called. Name the file of the questions.",
        )
        endpoint = field_name(self, "endpoint")
        is_compatible = self.endpoint.provider == NOBODY.provider
        require(
            self.asks_model == (not is_compatible or self.endpoint.base_url != NOBODY.base_url),
            f"A model that writes wrong responses needs a name and an address: {endpoint}.model NAME and "
            f"{endpoint}.base-url URL.",
        )

    @property
    def asks_model(self) -> bool:
        """Whether a model writes wrong responses."""
        return self.endpoint.model != NOBODY.model

    @property
    def num_wrong(self) -> int:
        """Wrong responses that a question needs."""
        return max(1, self.num_candidates - 1)
