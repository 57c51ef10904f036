"""The rewards of four papers for whole episodes of worlds that ask: what the trainer adds to an episode's last turn.

    recorded episodes ── judge of a paper ──> one `Reward` each

A judge here reads nothing but what the world recorded: the model's own pieces, one per turn and cut where generation
counts as over, whether each was in the format, the final state, and the pictures that came with the question. What
tools said is in none of these.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from judges.at_once import Map, Noted, one_by_one, rewards_at_once
from judges.consistency.words import word_consistency
from judges.episode_rewards.archive import RolloutArchive
from judges.episode_rewards.argos import ArgosConfig, LikelihoodTeacher, MaskTeacher, Teachers, argos_reward
from judges.episode_rewards.arm import ArmOutcome, accuracy_reward, exploration_reward
from judges.episode_rewards.ivgr import ConsistencyConfig, ConsistencyJudge, Query, score_query
from judges.episode_rewards.judged_episode import JudgedEpisode
from judges.episode_rewards.mags import MagsRollout, Stage, mags_reward
from judges.reading.answers import AnswerJudge, match_answer
from judges.scores import JudgeScore, Reward
from vlm_envs.content.scenes.labels import scene_masks
from vlm_envs.errors import ConfigError, require_choice
from vlm_envs.responses.answers import normalise
from vlm_envs.tools.pictures import Picture
from vlm_envs.tools.registry import CallRecord

if TYPE_CHECKING:
    from judges.agentic.judge import AgenticJudge
    from judges.llm.graded import AnswerScale

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


def answer_scale(method: str) -> "AnswerScale":
    """The grades that a method's judge of answers may give: any other is unavailable there.

    Args:
        method: one of `EPISODE_METHODS`.

    Returns:
        `graded` for Mags-RL, whose half points begin at a grade of 0.7; `binary` for the others.

    Source: Argos, section 3.1 (iii); iVGR, section 3.2; ARM-Thinker, equation 5; Mags-RL, appendix A.2.
    """
    return "graded" if method.startswith("mags") else "binary"


class EpisodeJudge(Protocol):
    """Rewards a batch of episodes."""

    def __call__(self, episodes: Sequence[JudgedEpisode]) -> list[Reward]:
        """The reward of each episode, in order; where anything raises, nothing of the batch is remembered."""
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
    """A judge that rewards each episode by itself and remembers nothing; what it asks others, it asks at once."""

    def __init__(self, reward_of: Callable[[JudgedEpisode], Reward], noted: Sequence[Noted] = ()) -> None:
        self._reward_of, self._noted = reward_of, noted

    def __call__(self, episodes: Sequence[JudgedEpisode]) -> list[Reward]:
        def rewards_of(unit: list[JudgedEpisode]) -> list[Reward]:
            return [self._reward_of(episode) for episode in unit]

        return rewards_at_once(rewards_of, [[episode] for episode in episodes], self._noted)

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
        at_once: Map = one_by_one,
    ) -> None:
        """Start with an empty archive, or with one.

        Args:
            consistency_judge: grades a textual thought against the archived grounded one; by words unless a model does.
            answer_judge: for semantic answers.
            config: how the consistency judge is asked.
            archive: the references so far.
            at_once: how many questions are put to a judge together.
        """
        self.archive = archive if archive is not None else RolloutArchive()
        self._config = config
        self._consistency_judge = _noted(consistency_judge, at_once, is_sampled=True)
        self._answer_judge = None if answer_judge is None else _noted(answer_judge, at_once)

    def __call__(self, episodes: Sequence[JudgedEpisode]) -> list[Reward]:
        """The reward of each episode, in order."""
        noted = [each for each in (self._answer_judge, self._consistency_judge) if each is not None]
        before = self.state_dict()
        return rewards_at_once(self._rewards, [list(episodes)], noted, lambda: self.load_state_dict(before))

    def _rewards(self, episodes: list[JudgedEpisode]) -> list[Reward]:
        members: dict[str, list[int]] = {}
        for index, episode in enumerate(episodes):
            members.setdefault(episode.query_id, []).append(index)
        rewards: dict[int, Reward] = {}
        for query_id, indices in members.items():
            rewards |= self._score(query_id, {index: episodes[index] for index in indices})
        return [rewards[index] for index in range(len(episodes))]

    def _score(self, query_id: str, episodes: Mapping[int, JudgedEpisode]) -> dict[int, Reward]:
        grounded = {i: e for i, e in episodes.items() if e.strategy == "ivgr_grounded" and e.true_boxes}
        textual = {i: e for i, e in episodes.items() if i not in grounded}
        first = next(iter((grounded or textual).values()))
        scored = score_query(
            Query(query_id=query_id, key=first.key, true_boxes=first.true_boxes),
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
        """References, and how often one of an earlier step was found."""
        return {"archive_size": float(len(self.archive)), "archive_hit_rate": self.archive.hit_rate}


MasksOf = Callable[[JudgedEpisode], MaskTeacher | None]
"""From an episode to the teacher of masks of its sample; None where nobody can tell."""

LikelihoodOf = Callable[[JudgedEpisode], LikelihoodTeacher | None]
"""From an episode to the teacher of likelihood bound to its pictures; None leaves the term out."""


LikelihoodsOf = Callable[[list[tuple[JudgedEpisode, str, str, str]]], Sequence[Sequence[float] | None]]
"""From episodes, each with a question, a reasoning and an answer, to the answers' log-probabilities, all at once."""


def _noted(judge: Callable[..., JudgeScore], at_once: Map, *, is_sampled: bool = False) -> Noted:
    """The stand-in of a judge; the repetitions of one question are asked one after the other, in their order."""

    def ask_all(questions: list[tuple[Any, ...]]) -> list[JudgeScore]:
        places: dict[tuple[Any, ...], list[int]] = {}
        for place, question in enumerate(questions):
            places.setdefault(question, []).append(place)
        answers = at_once(lambda question: [judge(*question) for _ in places[question]], list(places))
        by_place = {
            place: answer
            for question, given in zip(places, answers, strict=True)
            for place, answer in zip(places[question], given, strict=True)
        }
        return [by_place[place] for place in range(len(questions))]

    return Noted(ask_all, JudgeScore.unavailable("not asked yet"), is_sampled=is_sampled)


def exact_masks(episode: JudgedEpisode) -> MaskTeacher | None:
    """The exact masks of a generated scene; None for other samples."""
    if not _is_scene(episode):
        return None
    masks = scene_masks(str(episode.state["sample_id"]))
    return lambda label, frame, time_s: masks(label)


def _is_scene(episode: JudgedEpisode) -> bool:
    return str(episode.state["sample_id"]).startswith("scene:")


def episode_judge(
    method: str,
    *,
    answer_judge: AnswerJudge | None = None,
    consistency_judge: ConsistencyJudge = word_consistency,
    masks_of: MasksOf = exact_masks,
    likelihood_of: LikelihoodOf | None = None,
    likelihoods: LikelihoodsOf | None = None,
    argos: ArgosConfig | None = None,
    agentic: "AgenticJudge | None" = None,
    at_once: Map = one_by_one,
) -> EpisodeJudge:
    """Returns the judge of a paper, or one that looks for itself.

    Args:
        method: one of `EPISODE_METHODS`.
        answer_judge: for semantic answers, and for half points of Mags-RL; grades as `answer_scale` says.
        consistency_judge: of iVGR.
        masks_of: finds Argos' teacher of masks.
        likelihood_of: finds Argos' teacher of reasoning; None leaves the term out.
        likelihoods: in place of `likelihood_of`, a teacher that is asked about all episodes of a batch together.
        argos: gate and weights of Argos; points are read as percents, whatever it says.
        agentic: the judge of method `agentic`, which looks at the first pictures and judges the last response.
        at_once: how many questions are put to a judge together; `ChatClient.map` for a model behind an endpoint.

    Raises:
        ConfigError: there is no such method, or its judge is missing.
    """
    require_choice("method", method, EPISODE_METHODS)
    if method == "agentic":
        if agentic is None:
            raise ConfigError("The reward 'agentic' needs a judge with a model; got None.")

        def look_at_all(asked: list[tuple[Any, ...]]) -> list[Reward]:
            return at_once(lambda one: _agentic(one[0], agentic), asked)

        look = Noted(look_at_all, Reward.unavailable("not asked yet"), key_of=lambda asked: id(asked[0]))
        return _Memoryless(look, [look])
    if method == "ivgr":
        return IvgrJudge(consistency_judge, answer_judge=answer_judge, at_once=at_once)
    answers = None if answer_judge is None else _noted(answer_judge, at_once)
    noted = [] if answers is None else [answers]
    if method == "argos":
        config = replace(argos or ArgosConfig(require_points=True), space="percents")
        if likelihoods is not None:
            told = Noted(likelihoods, None, key_of=lambda asked: (id(asked[0]), *asked[1:]))
            noted.append(told)

            def likelihood_of(episode: JudgedEpisode) -> LikelihoodTeacher:
                return partial(told, episode)

        return _Memoryless(lambda e: _argos(e, masks_of, likelihood_of, answers, config), noted)
    if method.startswith("mags"):
        stage = _mags_stage(method)
        return _Memoryless(lambda e: _mags(e, stage, answers), noted)
    return _Memoryless(lambda e: _arm(e, method, answers), noted)


def require_strategy(method: str, strategy: str, *, mags_stage: int | None = None) -> None:
    """Refuses a strategy that a paper's reward cannot read; an agentic judge reads any.

    Args:
        method: one of `EPISODE_METHODS`.
        strategy: of the world.
        mags_stage: the stage whose prompt a world of Mags-RL shows; None for its default, 2.

    Raises:
        ConfigError: it says which strategies the method reads, or that it is of the other stage's prompt.
    """
    known = _STRATEGIES.get(require_choice("method", method, EPISODE_METHODS), (strategy,))
    if strategy not in known:
        raise ConfigError(f"The reward {method!r} reads prompt_format {' or '.join(known)}; got {strategy!r}.")
    if method.startswith("mags") and (stage := _mags_stage(method)) != (mags_stage or 2):
        raise ConfigError(
            f"The reward {method!r} pays for what the prompt of stage {stage} asks, and the world shows that of stage "
            f"{mags_stage or 2}. Give the world mags_stage={stage}, or take the other stage's reward."
        )


def _mags_stage(method: str) -> Stage:
    return 1 if method == "mags_stage_1" else 2


def _agentic(episode: JudgedEpisode, judge: "AgenticJudge") -> Reward:
    """The verdict, as the only term; unavailable where there is none."""
    verdict = judge.score(episode.prompt, episode.last_words, pictures=tuple(map(Picture, episode.images)))
    if not verdict.available:
        return Reward.unavailable(verdict.reason)
    return Reward(terms={"verdict": verdict.f1}, raw={"verdict": verdict.f1}, reason=verdict.reason)


def arm_outcome(episode: JudgedEpisode, answer_judge: AnswerJudge | None = None) -> ArmOutcome:
    """What an episode came to, from the world's own records.

    Args:
        episode: of strategy `arm`.
        answer_judge: for semantic answers.
    """
    return ArmOutcome(
        # Looking for ever is not the format: the last response of a think-act-observe chain is the answer, and one of
        # a full stop or of characters that nobody sees is none, as for `match_answer`.
        format_correct=all(episode.formats_correct) and bool(normalise(episode.state["answer"] or "")),
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
    # Only a generated scene is known to hold nothing to point at. Elsewhere boxes are missing because nobody drew them:
    # were points not required there, a response without any would earn more than one whose points are half right.
    if _is_scene(episode) and not episode.state["evidence"]:
        config = replace(config, require_points=False)
    likelihood = likelihood_of(episode) if likelihood_of is not None else None
    teachers = Teachers(mask=masks_of(episode), likelihood=likelihood, answer=answer_judge)
    return argos_reward(episode.own_pieces[-1], episode.key, teachers, config)
