"""The rewards of iVGR: a grounded stream, a textual stream, and the consistency reward that links them.

    grounded rollouts ── format + accuracy + box ──> rewards
            └── best valid one ──> archive ──┐
    textual rollouts ── format + accuracy + consistency with the archive ──> rewards

`score_queries` scores the grounded rollouts of a step first, so that the textual ones are compared with the best
available reference. The trainer normalizes advantages within each stream's own group.

Source: iVGR, sections 3.2 and 3.3, equations 1-4. `training.mixture.mixture_config` pairs every grounded group with a
textual one, like the batches of appendix B. Choices:

- Boxes are read only from the thoughts: an answer that is a list of four numbers is not a box.
- Consistency is paid regardless of the format and the answer, because equation 3 is a plain sum.
- For every query, the archive holds the best grounded rollout so far (equation 4). Only a strictly higher R_box
  replaces it, so that equal rollouts do not change the textual stream's reference.
- Unavailable judgments are left out; the rollout is masked only if all are unavailable.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from judges.asking import gather, resolved
from judges.episode_rewards.episode_reading import key_of, own_pieces, query_id, strategy_of, true_boxes
from judges.episode_rewards.episode_reward import EpisodeReward, RewardSettings
from judges.episode_rewards.judge_models import ConsistencyJudge, JudgeModels, Model
from judges.grading import AnswerJudge, box_reward, extract_answer, match_answer, think_then_answer, thoughts_of
from judges.scores import JudgeScore, Reward, on_rubric
from judges.word_consistency import CONSISTENCY_GRADES
from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.coordinates import WrittenBox, find_boxes
from vlm_envs.trajectory import Trajectory
from vlm_envs.validation import field_name, require, require_at_least, require_between

MIN_BOX_REWARD = 0.3
"""τ: a reference needs a box reward above it; iVGR, section 4.4."""

GROUNDED = "ivgr_grounded"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A grounded rollout to compare textual rollouts with.

    Attributes:
        text: The model's own text.
        box_reward: Its R_box, in [0, 1].
    """

    text: str
    box_reward: float


class RolloutArchive:
    """The best valid grounded rollout of each query; part of the training state.

    Args:
        threshold: Box reward that a reference must exceed, in [0, 1).

    Attributes:
        num_lookups: Number of lookups.
        num_hits: Number of lookups that found a reference from an earlier step.

    Raises:
        ConfigError: The threshold is out of range.
    """

    def __init__(self, threshold: float = MIN_BOX_REWARD) -> None:
        require(0.0 <= threshold < 1.0, f"threshold must be in [0, 1); got {threshold!r}.")
        self.threshold = threshold
        self._references: dict[str, Reference] = {}
        self.num_lookups = self.num_hits = 0

    def __len__(self) -> int:
        return len(self._references)

    @property
    def hit_rate(self) -> float:
        """Share of lookups that found a reference from an earlier step; NaN before the first lookup.

        Source: iVGR, figure 4 (d): the share of references from earlier rollouts, 0 throughout the first epoch.
        """
        return self.num_hits / self.num_lookups if self.num_lookups else math.nan

    def offer(self, query_id: str, text: str, box_reward: float) -> bool:
        """Archives a rollout with right format and answer if it is better grounded than the current reference.

        Args:
            query_id: Identifies the query across epochs.
            text: The model's own text.
            box_reward: Its R_box; NaN is never archived.

        Returns:
            Whether the rollout became the query's reference.
        """
        kept = self._references.get(query_id)
        if not box_reward > (self.threshold if kept is None else kept.box_reward):
            return False
        self._references[query_id] = Reference(text=text, box_reward=box_reward)
        return True

    def look_up(self, query_id: str, *, is_new: bool = False) -> Reference | None:
        """Returns a query's reference, or None without one, and counts the lookup in the hit rate.

        Args:
            query_id: The query.
            is_new: Whether `offer` archived the reference in this same step, which does not count as a hit.
        """
        found = self._references.get(query_id)
        self.num_lookups += 1
        self.num_hits += found is not None and not is_new
        return found

    def state_dict(self) -> dict[str, Any]:
        """Returns the whole state, for a checkpoint: JSON types only."""
        return {
            "threshold": self.threshold,
            "references": {query_id: asdict(kept) for query_id, kept in self._references.items()},
            "num_lookups": self.num_lookups,
            "num_hits": self.num_hits,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state.

        Args:
            state: From `state_dict`.

        Raises:
            ConfigError: The state has a different threshold or is not an archive's. The archive stays unchanged.
        """
        if state.get("threshold") != self.threshold:
            raise ConfigError(
                f"This archive has threshold {self.threshold}; the saved one has {state.get('threshold')!r}. "
                "Use the saved threshold, or start with an empty archive."
            )
        try:
            references = {str(query_id): Reference(**kept) for query_id, kept in state["references"].items()}
            num_lookups, num_hits = int(state["num_lookups"]), int(state["num_hits"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"The state is not an archive's: {error}. Load the result of `state_dict`.") from error
        self._references, self.num_lookups, self.num_hits = references, num_lookups, num_hits


@dataclass(frozen=True, kw_only=True)
class IvgrSettings(RewardSettings):
    """The weights of both streams, the archive's threshold, and the sampling of the consistency judge.

    Attributes:
        format_weight: Weight of R_format in both streams. Source: iVGR, equations 1 and 3, plain sums.
        accuracy_weight: Weight of R_acc in both streams. Source: iVGR, equations 1 and 3, plain sums.
        box_weight: Weight of R_box; 0 leaves the term out, but the archive still uses R_box. Source: iVGR, equations 1
            and 2.
        consistency_weight: Weight of R_consistency; 0 leaves the term out, and its judge is not asked. Source: iVGR,
            equation 3 and the ablation without it, table 5.
        archive_threshold: τ: a reference needs a box reward above it. Source: iVGR, section 4.4 and table 6.
        one_deviation: α of a text that either omits or adds content. Source: iVGR, section 3.3.
        both_deviations: α of a text that both omits and adds content. Source: iVGR, section 3.3.
        num_judgements: Number of judgments to average. The paper's other setting, the mean of 4 at a temperature of
            0.5, is better at four times the cost. Source: iVGR, table 9.
        temperature: Sampling temperature of the judge. Source: iVGR, table 9.
    """

    format_weight: float = 1.0
    accuracy_weight: float = 1.0
    box_weight: float = 1.0
    consistency_weight: float = 1.0
    archive_threshold: float = MIN_BOX_REWARD
    one_deviation: float = 0.7
    both_deviations: float = 0.3
    num_judgements: int = 1
    temperature: float = 0.01

    def __post_init__(self) -> None:
        """Raises `ConfigError` for values out of range, and for repeated judgments at temperature 0."""
        super().__post_init__()
        require_at_least(self, 0, "format_weight", "accuracy_weight", "box_weight", "consistency_weight", "temperature")
        require_between(self, 0, 1, "archive_threshold", includes=(True, False))
        require_between(self, 0, 1, "one_deviation", "both_deviations")
        require_at_least(self, 1, "num_judgements")
        if self.num_judgements > 1 and self.temperature == 0:
            raise ConfigError(
                f"{field_name(self, 'num_judgements')} {self.num_judgements} are all the same at "
                f"{field_name(self, 'temperature')} 0. Raise it, such as to 0.5, or ask once."
            )

    @property
    def levels(self) -> Mapping[float, float]:
        """The value of each of the judge's grades."""
        return dict(zip(CONSISTENCY_GRADES, (0.0, self.both_deviations, self.one_deviation, 1.0), strict=True))


PAPER = IvgrSettings()
"""One judgment at temperature 0.01 (iVGR, appendix C)."""

MEAN_OF_FOUR = IvgrSettings(num_judgements=4, temperature=0.5)
"""iVGR, table 9: better, at four times the cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IvgrQuery:
    """One training query.

    Attributes:
        query_id: Identifies the query across epochs and among all datasets of a run.
        key: The true answer, with the question for the judges.
        true_boxes: Boxes of the objects in question, in the coordinate space that the prompt asks for; empty for
            general samples, which run only in the textual stream.
    """

    query_id: str
    key: AnswerKey
    true_boxes: tuple[WrittenBox, ...] = ()


def format_reward(text: str) -> float:
    """Returns R_format: 1 for exactly `<think>…</think><answer>…</answer>`, else 0.

    Source: iVGR, section 3.2.
    """
    return float(think_then_answer(text) is not None)


async def grounded_reward(
    text: str, query: IvgrQuery, judge: AnswerJudge | None = None, settings: IvgrSettings = PAPER
) -> Reward:
    """Returns R^b = R_format + R_acc + R_box, as the terms `format`, `accuracy`, and `box`.

    Without true boxes there is no `box`. Unavailable if the judge of semantic answers was.

    Source: iVGR, equations 1 and 2.
    """
    box = box_reward(find_boxes(thoughts_of(text)), query.true_boxes)
    return await _reward(text, query, judge, settings, box=box)


async def textual_reward(
    text: str,
    query: IvgrQuery,
    consistency: JudgeScore | None,
    judge: AnswerJudge | None = None,
    settings: IvgrSettings = PAPER,
) -> Reward:
    """Returns R^t = R_format + R_acc + R_consistency, as the terms `format`, `accuracy`, and `consistency`.

    Without a consistency score, as for general samples, that term is absent. Unavailable if a judge was.

    Source: iVGR, equation 3.
    """
    if consistency is not None and not consistency.available:
        return Reward.unavailable(consistency.reason)
    return await _reward(text, query, judge, settings, consistency=None if consistency is None else consistency.value)


async def consistency_score(
    text: str,
    question: str,
    reference: Reference | None,
    judge: ConsistencyJudge,
    settings: IvgrSettings = PAPER,
) -> JudgeScore:
    """Returns R_consistency: α of a textual rollout against the archived grounded one.

    Args:
        text: The textual rollout's own text; the judge sees its thoughts.
        question: The query's question.
        reference: The archived rollout; None without one.
        judge: Grades on `CONSISTENCY_GRADES`; any other grade counts as unavailable.
        settings: Number of judgments, temperature, and value of each grade.

    Returns:
        The mean of the available judgments; 0 without a reference, in which case the judge is not asked; unavailable if
        no judgment is available.

    Source: iVGR, section 3.3; table 9 for the mean of four.
    """
    if reference is None:
        return JudgeScore(value=0.0, reason="the archive holds no reference yet")
    num, levels = settings.num_judgements, settings.levels
    thoughts, grounded = thoughts_of(text), thoughts_of(reference.text)
    asked = await gather(resolved(judge(question, grounded, thoughts, settings.temperature)) for _ in range(num))
    graded = [on_rubric(score, CONSISTENCY_GRADES) for score in asked]
    grades = [levels[score.value] for score in graded if score.available]
    if not grades:
        return graded[0]
    return JudgeScore(value=math.fsum(grades) / len(grades), reason=f"{len(grades)} of {num} judgements")


def offer_best(archive: RolloutArchive, query_id: str, texts: Sequence[str], rewards: Sequence[Reward]) -> bool:
    """Offers the archive a group's best valid rollout: format 1, accuracy 1, and the highest R_box among these.

    Args:
        archive: Keeps the rollout if its R_box exceeds the threshold and the current reference's.
        query_id: The query.
        texts: The grounded rollouts.
        rewards: Their rewards from `grounded_reward`.

    Returns:
        Whether the archive changed.

    Source: iVGR, section 3.3, reference selection and equation 4. Choice: the first wins a tie.
    """
    valid = [
        (reward.raw["box"], text)
        for text, reward in zip(texts, rewards, strict=True)
        if reward.available and reward.raw["format"] == reward.raw["accuracy"] == 1.0 and "box" in reward.raw
    ]
    best_box, best_text = max(valid, key=lambda candidate: candidate[0], default=(math.nan, ""))
    return archive.offer(query_id, best_text, best_box)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryRollouts:
    """A query and its rollouts.

    Attributes:
        query: The query. Without true boxes it is a general sample: no grounded rollouts, no consistency.
        grounded: The grounded rollouts' own texts.
        textual: The textual rollouts' own texts.

    Raises:
        ConfigError: A general sample has grounded rollouts.
    """

    query: IvgrQuery
    grounded: Sequence[str]
    textual: Sequence[str]

    def __post_init__(self) -> None:
        """Raises `ConfigError` for grounded rollouts of a general sample."""
        if self.grounded and not self.query.true_boxes:
            raise ConfigError(
                f"Query {self.query.query_id!r} has no true boxes; give its rollouts to the textual stream."
            )


async def score_queries(
    queries: Sequence[QueryRollouts],
    archive: RolloutArchive,
    *,
    consistency_judge: ConsistencyJudge,
    answer_judge: AnswerJudge | None = None,
    settings: IvgrSettings = PAPER,
) -> list[tuple[list[Reward], list[Reward]]]:
    """Returns the rewards of each query's grounded and textual rollouts, scoring the grounded ones first.

    Args:
        queries: The queries of a step.
        archive: First receives the best grounded rollout of each query, then is looked up once per query.
        consistency_judge: Asked about every textual rollout of a query with a reference.
        answer_judge: Judge of semantic answers.
        settings: The constants.
    """

    async def grounded_rewards(rollouts: QueryRollouts) -> list[Reward]:
        return await gather(grounded_reward(text, rollouts.query, answer_judge, settings) for text in rollouts.grounded)

    async def textual_rewards(rollouts: QueryRollouts, reference: Reference | None) -> list[Reward]:
        query = rollouts.query

        async def rewarded(text: str) -> Reward:
            score = None
            if query.true_boxes and settings.consistency_weight:
                question = query.key.question
                score = await consistency_score(text, question, reference, consistency_judge, settings)
            return await textual_reward(text, query, score, answer_judge, settings)

        return await gather(map(rewarded, rollouts.textual))

    grounded = await gather(map(grounded_rewards, queries))
    references = [
        _renewed_reference(archive, rollouts, rewards) for rollouts, rewards in zip(queries, grounded, strict=True)
    ]
    textual = await gather(map(textual_rewards, queries, references))
    return list(zip(grounded, textual, strict=True))


def _renewed_reference(archive: RolloutArchive, rollouts: QueryRollouts, rewards: Sequence[Reward]) -> Reference | None:
    """Returns a query's reference after offering its new grounded rollouts."""
    query = rollouts.query
    if not query.true_boxes:
        return None
    is_new = offer_best(archive, query.query_id, rollouts.grounded, rewards)
    return archive.look_up(query.query_id, is_new=is_new)


async def _reward(
    text: str, query: IvgrQuery, judge: AnswerJudge | None, settings: IvgrSettings, **extra: float | None
) -> Reward:
    """Returns the terms `format` and `accuracy`, and the extra terms that have a value.

    An extra term with weight 0 is left out, but its raw value stays, because the archive uses it.
    """
    accuracy = await match_answer(extract_answer(text), query.key, judge)
    if not accuracy.available:
        return Reward.unavailable(accuracy.reason)
    present = {name: value for name, value in extra.items() if value is not None}
    raw = {"format": format_reward(text), "accuracy": accuracy.value, **present}
    weights = {name: getattr(settings, f"{name}_weight") for name in raw}
    terms = {name: weights[name] * value for name, value in raw.items() if weights[name] or name not in extra}
    return Reward(terms=terms, raw=raw, reason=accuracy.reason)


class IvgrJudge:
    """Rewards two streams of rollouts per query and keeps the archive that links them.

    A query's grounded and textual rollouts must be in one batch, as they are if both worlds are trained with the same
    seeds; the grounded ones are scored first.

    Args:
        models: Judges of consistency (by default `word_consistency`) and of semantic answers.
        settings: The constants.
    """

    def __init__(self, models: JudgeModels | None = None, settings: IvgrSettings = PAPER) -> None:
        models = models or JudgeModels()
        self.archive = RolloutArchive(settings.archive_threshold)
        self._settings = settings
        self._step_hit_rate = math.nan
        self._consistency_judge, self._answer_judge = models.consistency_judge, models.answer_judge

    async def __call__(self, episodes: Sequence[Trajectory]) -> list[Reward]:
        """Returns the reward of each episode, in order."""
        before = self.state_dict()
        num_lookups, num_hits = self.archive.num_lookups, self.archive.num_hits
        try:
            rewards = await self._rewards(episodes)
        except BaseException:
            self.load_state_dict(before)
            raise
        num_new = self.archive.num_lookups - num_lookups
        self._step_hit_rate = (self.archive.num_hits - num_hits) / num_new if num_new else math.nan
        return rewards

    async def ask_ahead(self, episode: Trajectory) -> None:
        """Asks about the answer, except if the episode is compared with a reference.

        In that case the comparison, which needs the batch, decides whether the answer judge is asked.
        """
        is_compared = strategy_of(episode) != GROUNDED and bool(true_boxes(episode))
        if self._answer_judge is not None and not is_compared:
            await match_answer(extract_answer(own_pieces(episode)[0]), key_of(episode), self._answer_judge)

    async def _rewards(self, episodes: Sequence[Trajectory]) -> list[Reward]:
        members: dict[str, list[int]] = {}
        for index, episode in enumerate(episodes):
            members.setdefault(query_id(episode), []).append(index)
        order: list[list[int]] = []
        queries: list[QueryRollouts] = []
        for query, indices in members.items():
            is_grounded = {i: strategy_of(episodes[i]) == GROUNDED and bool(true_boxes(episodes[i])) for i in indices}
            grounded_first = sorted(indices, key=lambda index: not is_grounded[index])
            texts = [own_pieces(episodes[index])[0] for index in grounded_first]
            num_grounded, first = sum(is_grounded.values()), episodes[grounded_first[0]]
            order.append(grounded_first)
            queries.append(
                QueryRollouts(
                    query=IvgrQuery(query_id=query, key=key_of(first), true_boxes=true_boxes(first)),
                    grounded=texts[:num_grounded],
                    textual=texts[num_grounded:],
                )
            )
        scored = await score_queries(
            queries,
            self.archive,
            consistency_judge=self._consistency_judge,
            answer_judge=self._answer_judge,
            settings=self._settings,
        )
        rewards: dict[int, Reward] = {}
        for indices, streams in zip(order, scored, strict=True):
            rewards |= dict(zip(indices, itertools.chain(*streams), strict=True))
        return [rewards[index] for index in range(len(episodes))]

    def state_dict(self) -> dict[str, Any]:
        """Returns the archive."""
        return {"archive": self.archive.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved archive."""
        self.archive.load_state_dict(state["archive"])

    def metrics(self) -> dict[str, float]:
        """Returns the number of references and the hit rates of all lookups and of the last step's."""
        return {
            "archive_size": float(len(self.archive)),
            "archive_hit_rate": self.archive.hit_rate,
            "archive_step_hit_rate": self._step_hit_rate,
        }


def _ivgr(settings: IvgrSettings) -> EpisodeReward:
    compared: set[Model] = {"consistency_judge"} if settings.consistency_weight else set()
    return EpisodeReward(
        name="ivgr",
        build=lambda models: IvgrJudge(models, settings),
        strategies=(GROUNDED, "ivgr_textual"),
        compares_with=GROUNDED if compared else None,
        models=frozenset({"answer_judge", *compared}),
        needs=frozenset({"answer_judge"}),
        overlapping_rewards=frozenset({"answer_reward", "format_reward"}),
        settings=settings,
        configure=_ivgr,
        num_judgements=settings.num_judgements,
    )


IVGR = _ivgr(PAPER)
