"""The rewards of four papers for whole episodes of worlds that ask: what the trainer adds to an episode's last turn.

    recorded episodes ── judge of a paper ──> one `Reward` each

A judge here reads nothing but what the world recorded: the model's own pieces, one per turn and cut where generation
counts as over, whether each was in the format, the final state, and the pictures that came with the question. What
tools said is in none of these.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from judges.answers import AnswerJudge, match_answer
from judges.archive import RolloutArchive
from judges.argos import ArgosConfig, LikelihoodTeacher, MaskTeacher, Teachers, argos_reward
from judges.arm import ArmOutcome, accuracy_reward, exploration_reward
from judges.consistency import word_consistency
from judges.ivgr import ConsistencyConfig, ConsistencyJudge, Query, score_query
from judges.mags import MagsRollout, Stage, mags_reward
from judges.reward import Reward
from vlm_envs.answers import AnswerKey, read_number
from vlm_envs.errors import ConfigError, require_choice
from vlm_envs.formats import INQUIRY_FORMATS
from vlm_envs.scenes.labels import scene_masks
from vlm_envs.tools.pictures import Picture
from vlm_envs.tools.registry import CallRecord
from vlm_envs.tools.written_boxes import WrittenBox

if TYPE_CHECKING:
    from judges.agentic import AgenticJudge

EpisodeMethod = Literal["arm_exploration", "arm_accuracy", "mags_stage_1", "mags_stage_2", "ivgr", "argos", "agentic"]
EPISODE_METHODS: tuple[str, ...] = get_args(EpisodeMethod)

_STRATEGIES: Mapping[str, tuple[str, ...]] = {
    "arm_exploration": ("arm",),
    "arm_accuracy": ("arm",),
    "mags_stage_1": ("mags",),
    "mags_stage_2": ("mags",),
    "ivgr": ("ivgr_grounded", "ivgr_textual"),
    "argos": ("points",),
}
"""What each paper's reward can read."""

NEED_ANSWER_JUDGE: tuple[str, ...] = ("arm_exploration", "arm_accuracy", "ivgr", "argos")
"""Rewards that ask a judge of answers where a key is semantic; Mags-RL pays a full point for the same words alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedEpisode:
    """What the judges see of one episode.

    Attributes:
        responses: what the model wrote, one text per turn.
        formats_correct: whether each was in the format.
        state: the final state dict of the world, as `InquiryView.structured` gives it.
        images: the pictures that were shown with the question, each uint8[height, width, 3]; for teachers that look.
        prompt: the text that was shown with them.
    """

    responses: tuple[str, ...]
    formats_correct: tuple[bool, ...]
    state: Mapping[str, Any]
    images: tuple[npt.NDArray[np.uint8], ...] = field(default=(), repr=False, compare=False)
    prompt: str = field(default="", repr=False, compare=False)

    @property
    def strategy(self) -> str:
        """The strategy it was played with."""
        return str(self.state["strategy"])

    @property
    def own_pieces(self) -> tuple[str, ...]:
        """The responses, each cut where it counts as over."""
        response_format = INQUIRY_FORMATS[self.strategy]
        return tuple(response_format.at(turn).cut(text) for turn, text in enumerate(self.responses))

    @property
    def last_words(self) -> str:
        """The last response; in a world that asks, as far as it counts."""
        return self.own_pieces[-1] if self.state.get("strategy") in INQUIRY_FORMATS else self.responses[-1]

    @property
    def num_objects(self) -> int | None:
        """The true count, where the question asks for one."""
        if self.key.kind != "number" or not str(self.state["category"]).startswith("count"):
            return None
        count = read_number(self.key.answers[0])
        return int(count) if count is not None and count >= 0 and count.is_integer() else None

    @property
    def key(self) -> AnswerKey:
        """The truth; an answer compared by similarity is compared so."""
        return AnswerKey(
            kind=self.state["answer_kind"],
            answers=tuple(self.state["answers"]),
            options=tuple(self.state["options"]),
            question=self.state["question"],
        )

    @property
    def true_boxes(self) -> tuple[WrittenBox, ...]:
        """Boxes of what the answer rests on, in the strategy's space."""
        return tuple(WrittenBox(*each["box"]) for each in self.state["evidence"])


class EpisodeJudge(Protocol):
    """Rewards a batch of episodes."""

    def __call__(self, episodes: Sequence[JudgedEpisode]) -> list[Reward]:
        """The reward of each episode, in order."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What is to be remembered across iterations, for a checkpoint: JSON types only."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        ...

    def metrics(self) -> dict[str, float]:
        """What there is to log besides the rewards."""
        ...


class _Memoryless:
    """A judge that looks at one episode at a time and remembers nothing."""

    def __init__(self, reward_of: Callable[[JudgedEpisode], Reward]) -> None:
        self._reward_of = reward_of

    def __call__(self, episodes: Sequence[JudgedEpisode]) -> list[Reward]:
        return [self._reward_of(episode) for episode in episodes]

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            raise ConfigError(f"This judge remembers nothing; the saved state has {sorted(state)}.")

    def metrics(self) -> dict[str, float]:
        return {}


class IvgrJudge:
    """Two streams of rollouts per query, and the archive that ties the second to the first.

    A query's grounded and textual rollouts must come in one batch, as they do when both worlds are trained on with the
    same seeds; the grounded ones are scored first.
    """

    def __init__(
        self,
        consistency_judge: ConsistencyJudge = word_consistency,
        *,
        answer_judge: AnswerJudge | None = None,
        config: ConsistencyConfig | None = None,
        archive: RolloutArchive | None = None,
    ) -> None:
        """Start with an empty archive, or with one.

        Args:
            consistency_judge: grades a textual thought against the archived grounded one; by words unless a model does.
            answer_judge: for semantic answers.
            config: how the consistency judge is asked.
            archive: the references so far.
        """
        self.archive = archive if archive is not None else RolloutArchive()
        self._consistency_judge, self._answer_judge, self._config = consistency_judge, answer_judge, config

    def __call__(self, episodes: Sequence[JudgedEpisode]) -> list[Reward]:
        """The reward of each episode, in order."""
        members: dict[str, list[int]] = {}
        for index, episode in enumerate(episodes):
            members.setdefault(str(episode.state["sample_id"]), []).append(index)
        rewards: dict[int, Reward] = {}
        for sample_id, indices in members.items():
            rewards |= self._score(sample_id, {index: episodes[index] for index in indices})
        return [rewards[index] for index in range(len(episodes))]

    def _score(self, sample_id: str, episodes: Mapping[int, JudgedEpisode]) -> dict[int, Reward]:
        grounded = {i: e for i, e in episodes.items() if e.strategy == "ivgr_grounded" and e.true_boxes}
        textual = {i: e for i, e in episodes.items() if i not in grounded}
        first = next(iter((grounded or textual).values()))
        scored = score_query(
            Query(query_id=sample_id, key=first.key, true_boxes=first.true_boxes),
            [episode.own_pieces[0] for episode in grounded.values()],
            [episode.own_pieces[0] for episode in textual.values()],
            self.archive,
            consistency_judge=self._consistency_judge,
            answer_judge=self._answer_judge,
            config=self._config,
        )
        return dict(zip((*grounded, *textual), (*scored.grounded, *scored.textual), strict=True))

    def state_dict(self) -> dict[str, Any]:
        """The archive."""
        return {"archive": self.archive.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with a saved archive."""
        self.archive.load_state_dict(state["archive"])

    def metrics(self) -> dict[str, float]:
        """References, and how often one was found."""
        return {"archive_size": float(len(self.archive)), "archive_hit_rate": self.archive.hit_rate}


MasksOf = Callable[[JudgedEpisode], MaskTeacher | None]
"""From an episode to the teacher of masks of its sample; None where nobody can tell."""

LikelihoodOf = Callable[[JudgedEpisode], LikelihoodTeacher | None]
"""From an episode to the teacher of likelihood bound to its pictures; None leaves the term out."""


def exact_masks(episode: JudgedEpisode) -> MaskTeacher | None:
    """The exact masks of a generated scene; None for other samples."""
    sample_id = str(episode.state["sample_id"])
    if not sample_id.startswith("scene:"):
        return None
    masks = scene_masks(sample_id)
    return lambda label, frame, time_s: masks(label)


def episode_judge(
    method: str,
    *,
    answer_judge: AnswerJudge | None = None,
    consistency_judge: ConsistencyJudge = word_consistency,
    masks_of: MasksOf = exact_masks,
    likelihood_of: LikelihoodOf | None = None,
    argos: ArgosConfig | None = None,
    agentic: "AgenticJudge | None" = None,
) -> EpisodeJudge:
    """Returns the judge of a paper, or one that looks for itself.

    Args:
        method: one of `EPISODE_METHODS`.
        answer_judge: for semantic answers, and for half points of Mags-RL.
        consistency_judge: of iVGR.
        masks_of: finds Argos' teacher of masks.
        likelihood_of: finds Argos' teacher of reasoning; None leaves the term out.
        argos: gate and weights of Argos; points are read as percents, whatever it says.
        agentic: the judge of method `agentic`, which looks at the first pictures and judges the last response.

    Raises:
        ConfigError: there is no such method, or its judge is missing.
    """
    require_choice("method", method, EPISODE_METHODS)
    if method == "agentic":
        if agentic is None:
            raise ConfigError("The reward 'agentic' needs a judge with a model; got None.")
        return _Memoryless(lambda e: _agentic(e, agentic))
    if method == "ivgr":
        return IvgrJudge(consistency_judge, answer_judge=answer_judge)
    if method == "argos":
        config = replace(argos or ArgosConfig(require_points=True), space="percents")
        return _Memoryless(lambda e: _argos(e, masks_of, likelihood_of, answer_judge, config))
    if method.startswith("mags"):
        stage: Stage = 1 if method == "mags_stage_1" else 2
        return _Memoryless(lambda e: _mags(e, stage, answer_judge))
    return _Memoryless(lambda e: _arm(e, method, answer_judge))


def require_strategy(method: str, strategy: str) -> None:
    """Refuses a strategy that a paper's reward cannot read; an agentic judge reads any.

    Raises:
        ConfigError: it says which strategies the method reads.
    """
    known = _STRATEGIES.get(require_choice("method", method, EPISODE_METHODS), (strategy,))
    if strategy not in known:
        raise ConfigError(f"The reward {method!r} reads prompt_format {' or '.join(known)}; got {strategy!r}.")


def _agentic(episode: JudgedEpisode, judge: "AgenticJudge") -> Reward:
    """The verdict, as the only term; an outage where there is none."""
    verdict = judge.score(episode.prompt, episode.last_words, pictures=tuple(map(Picture, episode.images)))
    if not verdict.available:
        return Reward.outage(verdict.reason)
    return Reward(terms={"verdict": verdict.f1}, raw={"verdict": verdict.f1}, reason=verdict.reason)


def arm_outcome(episode: JudgedEpisode, answer_judge: AnswerJudge | None = None) -> ArmOutcome:
    """What an episode came to, from the world's own records.

    Args:
        episode: of strategy `arm`.
        answer_judge: for semantic answers.
    """
    return ArmOutcome(
        format_correct=all(episode.formats_correct),
        answer=match_answer(episode.state["answer"], episode.key, answer_judge),
        calls=tuple(CallRecord(**call) for call in episode.state["calls"]),
    )


def _arm(episode: JudgedEpisode, method: str, answer_judge: AnswerJudge | None) -> Reward:
    outcome = arm_outcome(episode, answer_judge)
    return exploration_reward(outcome) if method == "arm_exploration" else accuracy_reward(outcome)


def _mags(episode: JudgedEpisode, stage: Stage, answer_judge: AnswerJudge | None) -> Reward:
    width, height = episode.state["shown_size"]
    round_1, round_2 = (*episode.own_pieces, "")[:2]
    return mags_reward(
        MagsRollout(round_1=round_1, round_2=round_2, width_px=width, height_px=height),
        episode.key,
        stage=stage,
        judge=answer_judge,
        num_objects=episode.num_objects,
    )


def _argos(
    episode: JudgedEpisode,
    masks_of: MasksOf,
    likelihood_of: LikelihoodOf | None,
    answer_judge: AnswerJudge | None,
    config: ArgosConfig,
) -> Reward:
    # A question about something absent has nothing to point at, so that points cannot be asked for.
    config = config if episode.state["evidence"] else replace(config, require_points=False)
    likelihood = likelihood_of(episode) if likelihood_of is not None else None
    teachers = Teachers(mask=masks_of(episode), likelihood=likelihood, answer=answer_judge)
    return argos_reward(episode.own_pieces[-1], episode.key, teachers, config)
