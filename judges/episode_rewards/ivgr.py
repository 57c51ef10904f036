"""The rewards of iVGR: a grounded stream, a textual stream, and the consistency that ties the second to the first.

    grounded rollouts ── format + accuracy + box ──> rewards
            └── best valid one ──> archive ──┐
    textual rollouts ── format + accuracy + consistency with the archive ──> rewards

The grounded rollouts of a step are scored first, so that the textual ones meet the best reference there is;
`score_queries` holds that order. Advantages are normalised within each stream's own group, by the trainer.

Source: iVGR, sections 3.2 and 3.3, equations 1-4. `training.mixture.mixture_config` gives every grounded group its
textual partner, as appendix B's batches do. Choices:

- Boxes are looked for in the thoughts only: an answer that is a list of four numbers is no box.
- Consistency is paid whatever the format and the answer are, as equation 3 is a plain sum.
- The archive holds for every query the best grounded rollout seen so far (equation 4). Replacement is by a strictly
  higher R_box, so that equal rollouts do not swap the reference under the textual stream.
- Of several judgements those that are unavailable are left out; the rollout is masked only when all are.
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
    """A grounded rollout that textual rollouts are compared with.

    Attributes:
        text: The model's own text.
        box_reward: Its R_box, in [0, 1].
    """

    text: str
    box_reward: float


class RolloutArchive:
    """The best valid grounded rollout of each query; a part of the training state.

    Args:
        threshold: Box reward that a reference must exceed, in [0, 1).

    Attributes:
        num_lookups: How often references were looked up.
        num_hits: How many of the lookups found a reference of an earlier step.

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
        """Part of the lookups that found a reference of an earlier step; NaN before the first.

        Source: iVGR, figure 4 (d): how often historical rollouts serve as references, 0 throughout the first epoch.
        """
        return self.num_hits / self.num_lookups if self.num_lookups else math.nan

    def offer(self, query_id: str, text: str, box_reward: float) -> bool:
        """Keeps a rollout of right format and answer if it is better grounded than what is there.

        Args:
            query_id: Names the query across epochs.
            text: The model's own text.
            box_reward: Its R_box; NaN is never kept.

        Returns:
            Whether the rollout is the query's reference now.
        """
        kept = self._references.get(query_id)
        if not box_reward > (self.threshold if kept is None else kept.box_reward):
            return False
        self._references[query_id] = Reference(text=text, box_reward=box_reward)
        return True

    def look_up(self, query_id: str, *, is_new: bool = False) -> Reference | None:
        """Returns a query's reference, None when there is none yet; counted in the hit rate.

        Args:
            query_id: The query.
            is_new: Whether the reference was archived in this very step, as `offer` said: then it is no hit.
        """
        found = self._references.get(query_id)
        self.num_lookups += 1
        self.num_hits += found is not None and not is_new
        return found

    def state_dict(self) -> dict[str, Any]:
        """Returns all there is to save, as values that JSON can hold."""
        return {
            "threshold": self.threshold,
            "references": {query_id: asdict(kept) for query_id, kept in self._references.items()},
            "num_lookups": self.num_lookups,
            "num_hits": self.num_hits,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Becomes what was saved.

        Args:
            state: From `state_dict`.

        Raises:
            ConfigError: It was saved under another threshold, or is no archive's state. Nothing is changed then.
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
            raise ConfigError(f"The state is not an archive's: {error}. Load what `state_dict` gave.") from error
        self._references, self.num_lookups, self.num_hits = references, num_lookups, num_hits


@dataclass(frozen=True, kw_only=True)
class IvgrSettings(RewardSettings):
    """The weights of both streams, the archive's threshold, and how the judge of consistency is asked.

    Attributes:
        format_weight: Of R_format, in both streams. Source: iVGR, equations 1 and 3, plain sums.
        accuracy_weight: Of R_acc, in both streams. Source: iVGR, equations 1 and 3, plain sums.
        box_weight: Of R_box; 0 leaves the term out, and the archive still goes by it. Source: iVGR, equations 1 and 2.
        consistency_weight: Of R_consistency; 0 leaves the term out, and its judge unasked. Source: iVGR, equation 3 and
            the ablation without it, table 5.
        archive_threshold: τ: a reference needs a box reward above it. Source: iVGR, section 4.4 and table 6.
        one_deviation: α of a text that omits or adds. Source: iVGR, section 3.3.
        both_deviations: α of a text that omits and adds. Source: iVGR, section 3.3.
        num_judgements: Judgements whose mean is taken; the other setting of the paper, and the better one at four times
            the cost, is the mean of 4 at a temperature of 0.5. Source: iVGR, table 9.
        temperature: At which the judge samples. Source: iVGR, table 9.
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
        """Refuses what cannot be sampled or kept, and weights that make a fault worth something."""
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
        """The judge's grades, each with what it is worth."""
        return dict(zip(CONSISTENCY_GRADES, (0.0, self.both_deviations, self.one_deviation, 1.0), strict=True))


PAPER = IvgrSettings()
"""Once at 0.01 (iVGR, appendix C)."""

MEAN_OF_FOUR = IvgrSettings(num_judgements=4, temperature=0.5)
"""iVGR, table 9: better, at four times the cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IvgrQuery:
    """One training query.

    Attributes:
        query_id: Names the query across epochs, and among all data sets of a run.
        key: The true answer, with the question for the judges.
        true_boxes: Boxes of the objects asked about, in the coordinate space that the model is asked to write;
            empty for general samples, which run in the textual stream only.
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
    """Returns R^b = R_format + R_acc + R_box, as the terms `format`, `accuracy` and `box`.

    Without true boxes there is no `box`. Unavailable when the judge of semantic answers was.

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
    """Returns R^t = R_format + R_acc + R_consistency, as the terms `format`, `accuracy` and `consistency`.

    Without a consistency, as for general samples, there is no such term. Unavailable when a judge was.

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
        reference: What the archive holds; None when it holds nothing.
        judge: Grades on `CONSISTENCY_GRADES`; any other grade is unavailable.
        settings: How often it is asked, how, and what its grades are worth.

    Returns:
        The mean of the judgements that came; 0 for an empty archive, unasked; unavailable when none came.

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
    """Offers the archive a group's best valid rollout: format 1, accuracy 1, and the highest R_box of those.

    Args:
        archive: Keeps it when its R_box is above the threshold and above what is there.
        query_id: The query.
        texts: The grounded rollouts.
        rewards: Their rewards from `grounded_reward`.

    Returns:
        Whether the archive changed.

    Source: iVGR, section 3.3, reference selection and equation 4. Choice: of equals the first.
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
        query: The truth. Without true boxes it is a general sample: no grounded rollouts, no consistency.
        grounded: The grounded rollouts' own texts.
        textual: The textual rollouts' own texts.

    Raises:
        ConfigError: A general sample comes with grounded rollouts.
    """

    query: IvgrQuery
    grounded: Sequence[str]
    textual: Sequence[str]

    def __post_init__(self) -> None:
        """Refuses grounded rollouts of a general sample."""
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
    """Returns the rewards of each query's grounded and textual rollouts, scored in the order that the archive needs.

    Args:
        queries: The queries of a step.
        archive: Gets the best grounded rollout of each query first, and is then asked once per query.
        consistency_judge: Asked for every textual rollout of a query that has a reference.
        answer_judge: For semantic answers.
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
    """Returns a query's reference, after its new grounded rollouts were offered."""
    query = rollouts.query
    if not query.true_boxes:
        return None
    is_new = offer_best(archive, query.query_id, rollouts.grounded, rewards)
    return archive.look_up(query.query_id, is_new=is_new)


async def _reward(
    text: str, query: IvgrQuery, judge: AnswerJudge | None, settings: IvgrSettings, **extra: float | None
) -> Reward:
    """Returns the terms `format` and `accuracy`, and those extra ones that have a value.

    An extra term without a weight is left out, and its raw value stays: the archive goes by it.
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
    """Two streams of rollouts per query, and the archive that ties the second to the first.

    A query's grounded and textual rollouts must come in one batch, as they do when both worlds are trained on with the
    same seeds; the grounded ones are scored first.

    Args:
        models: Who judges consistency, by words unless a model does, and semantic answers.
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
        """Asks about the answer, except where the batch decides what is asked.

        That is where an episode is compared with a reference: whether its answer is asked about depends on the
        comparison.
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
        """Continues with a saved archive."""
        self.archive.load_state_dict(state["archive"])

    def metrics(self) -> dict[str, float]:
        """Returns the number of references, and how often one of an earlier step was found, in all and in this step."""
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
