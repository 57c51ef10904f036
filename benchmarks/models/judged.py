"""Judging a board's episodes: choosing judges and graders, collecting verdicts, and reporting by stratum."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean
from types import MappingProxyType
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from agents.api.endpoint_config import COMPATIBLE, PROVIDERS, EndpointConfig
from agents.event_loop import run_blocking
from benchmarks.models.measures.measures import GRADED, ZOOM_NEED
from benchmarks.models.measures.perception_gaps import with_interval
from judges.asking import gather, score_claims
from judges.episode_rewards.argos import spatial_score
from judges.episode_rewards.episode_reading import (
    final_state,
    key_of,
    own_pieces,
    point_extent,
    query_id,
    shown_images,
    strategy_of,
    true_boxes,
)
from judges.episode_rewards.exact_models import exact_masks
from judges.grading import (
    AnswerJudge,
    box_reward,
    extract_answer,
    grade_answer,
    in_words,
    question_with_options,
    thoughts_of,
)
from judges.grounding import WrittenPoint, read_response
from judges.scores import JudgeScore
from judges.turn_rewards import JudgeFor, ScoredTurn, Section, claims_by_judge, exact_judge
from judges.word_consistency import contradiction, own_contradiction
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record
from vlm_envs.responses.answers import AnswerKey, anls, inclusion
from vlm_envs.responses.extraction import last_boxed, without_thoughts
from vlm_envs.statistics.success_rates import share_interval
from vlm_envs.terminal_tables import text_table
from vlm_envs.tools.coordinates import find_boxes
from vlm_envs.trajectory import Trajectory, Turn
from vlm_envs.user_code import import_named
from vlm_envs.validation import did_you_mean, require

_BELIEFS = ("observation", "prediction", "think", "rethink")
_WITHOUT_BOXES = ("points", "ivgr_textual")
"""Prompt strategies without boxes: positions are given as points, or only in text."""

_NAME_OF: Mapping[Section, str] = {"observation": "grounding", "prediction": "worldmodeling"}


Place = tuple[int | None, str]
"""Key of a score: the turn's index and section, or None and the name of a measure of the episode."""


@dataclass(frozen=True, kw_only=True)
class EarlierScores:
    """Scores that an episode already has.

    Attributes:
        scores: Scores to keep where a judge gives no verdict.
        final: Keys of `scores` that are not judged again.
    """

    scores: Mapping[Place, float] = field(default_factory=dict)
    final: Set[Place] = frozenset()


@dataclass(frozen=True, kw_only=True)
class JudgedEpisode:
    """The judges' scores for an episode.

    Attributes:
        scores: For each turn, its scores by section, new or kept.
        measures: Measures of the episode, by name.
        num_asked: Texts sent to the judge.
        unjudged: Texts without a verdict, each with the reason.
    """

    scores: tuple[Mapping[str, float], ...]
    measures: Mapping[str, float]
    num_asked: int = 0
    unjudged: Mapping[Place, str] = field(default_factory=dict)


def judge_episodes(
    episodes: Sequence[Trajectory],
    judge_for: JudgeFor | Mapping[Section, JudgeFor] = exact_judge,
    earlier: Sequence[EarlierScores] = (),
) -> list[JudgedEpisode]:
    """Returns the judges' scores for each episode, in order.

    Args:
        episodes: Episodes with the world's full `info`, from a rollout or a replay.
        judge_for: Maps an env id and representation to a judge; see `judges.turn_rewards.shape`.
        earlier: Scores that each episode already has; none by default.
    """
    before = earlier or [EarlierScores() for _ in episodes]
    turns = [(number, turn) for number, episode in enumerate(episodes) for turn in range(len(episode.turns))]
    scored = [ScoredTurn(turn=episodes[number].turns[turn], env_id=episodes[number].env_id) for number, turn in turns]
    asked = []
    for judge, claims in claims_by_judge(scored, tuple(_NAME_OF), judge_for):
        places = [(turns[index][0], (turns[index][1], section), text) for index, section, text in claims]
        asked.append((judge, [item for item in places if item[1] not in before[item[0]].final]))
    verdicts = run_blocking(score_claims([(judge, [text for _, _, text in places]) for judge, places in asked]))
    said: list[dict[Place, JudgeScore]] = [{} for _ in episodes]
    for (_, places), column in zip(asked, verdicts, strict=True):
        for (number, key, _), score in zip(places, column, strict=True):
            said[number][key] = score
    return [_judged(*parts) for parts in zip(episodes, said, before, strict=True)]


def _judged(episode: Trajectory, said: Mapping[Place, JudgeScore], earlier: EarlierScores) -> JudgedEpisode:
    values = {key: score for key, score in earlier.scores.items() if key in said or key in earlier.final}
    values |= {key: score.value for key, score in said.items() if score.available}
    scores: list[Mapping[str, float]] = [
        {section: values[turn, section] for section in _NAME_OF if (turn, section) in values}
        for turn in range(len(episode.turns))
    ]
    measures: dict[str, float | None] = {
        name: _mean([of_turn[section] for of_turn in scores if section in of_turn])
        for section, name in _NAME_OF.items()
    }
    measures["consistency"] = consistency(episode)
    if "sample_id" in final_state(episode):
        measures |= _of_question(episode)
    return JudgedEpisode(
        scores=tuple(scores),
        measures={name: value for name, value in measures.items() if value is not None},
        num_asked=len(said),
        unjudged={key: score.reason for key, score in said.items() if not score.available},
    )


def consistency(episode: Trajectory) -> float | None:
    """Returns the share of turns with stated beliefs that the rules find consistent; None without such turns.

    A turn contradicts itself within one section, or its observation contradicts the previous turn's prediction.
    Sections are read separately, as a prediction and an observation describe different times.
    """
    beliefs = [_beliefs(turn) for turn in episode.turns]
    before = itertools.chain([{}], beliefs)
    return _mean([float(_is_consistent(now, then)) for now, then in zip(beliefs, before, strict=False) if now])


def _beliefs(turn: Turn) -> dict[str, str]:
    sections: Mapping[str, Any] = turn.info.get("sections") or {}
    return {name: text for name in _BELIEFS if (text := sections.get(name))}


def _is_consistent(now: Mapping[str, str], before: Mapping[str, str]) -> bool:
    if any(own_contradiction(text) for text in now.values()):
        return False
    expected, observed = before.get("prediction"), now.get("observation")
    return expected is None or observed is None or contradiction(expected, observed) is None


def _of_question(episode: Trajectory) -> dict[str, float | None]:
    """Returns the measures of a question-answering world's episode."""
    key, pieces = key_of(episode), own_pieces(episode)
    asks_points, asks_boxes = strategy_of(episode) == "points", strategy_of(episode) not in _WITHOUT_BOXES
    written = [box for piece in pieces for box in find_boxes(thoughts_of(piece))]
    points = [point for piece in pieces for point in read_response(piece).points]
    return {
        "box_iou": box_reward(written, true_boxes(episode)) if asks_boxes else None,
        "point_accuracy": _point_accuracy(points, episode) if points or asks_points else None,
        "inclusion": _inclusion(episode, key),
        "anls": anls(final_state(episode)["answer"], key.answers) if key.kind == "anls" else None,
    }


def _inclusion(episode: Trajectory, key: AnswerKey) -> float | None:
    """Returns whether the answer contains a right answer; None for choices, whose letters occur in any text."""
    return None if key.kind == "choice" else inclusion(final_state(episode)["answer"], key.answers)


def _point_accuracy(points: Sequence[WrittenPoint], episode: Trajectory) -> float | None:
    """Returns the share of points on the target, 0 without points; None if no target is known."""
    if not points and true_boxes(episode):
        return 0.0
    if masks := exact_masks(episode):
        return spatial_score(points, masks, point_extent(episode))
    boxes = true_boxes(episode)
    hits = [any(box.x1 <= point.x <= box.x2 and box.y1 <= point.y <= box.y2 for box in boxes) for point in points]
    return _mean(list(map(float, hits))) if boxes else None


def _mean(values: Sequence[float]) -> float | None:
    return float(fmean(values)) if values else None


@dataclass(frozen=True, kw_only=True)
class Graders:
    """Models that grade episodes; those that are None are skipped.

    Attributes:
        extract: Extracts the answer from a reply that does not follow the answer format.
        grade: Grades an answer in quarters.
        zoom_need: Rates from 1 to 10 how much of a question's images must be magnified; called once per question.
    """

    extract: Callable[[str, str], Awaitable[str | None]] | None = None
    grade: AnswerJudge | None = None
    zoom_need: Callable[[str, Sequence[npt.NDArray[np.uint8]]], Awaitable[int | None]] | None = None
    _needs: dict[str, int | None] = field(default_factory=dict, init=False, repr=False)

    def measures(
        self, episodes: Sequence[Trajectory], earlier: Sequence[EarlierScores] = ()
    ) -> list[dict[str, float | None]]:
        """Returns the measures of each episode, in order; empty for worlds that do not ask questions.

        Args:
            episodes: The episodes.
            earlier: Scores that each episode already has.

        Returns:
            Measures by name; None if a grader was asked and gave no verdict.
        """
        if self.grade is None and self.zoom_need is None:
            return [{} for _ in episodes]
        before = earlier or [EarlierScores() for _ in episodes]
        questions = [(episode, scores.final) for episode, scores in zip(episodes, before, strict=True)]
        asked = {query_id(episode): episode for episode, final in questions if self._asks(episode, final, ZOOM_NEED)}
        return run_blocking(self._measured(asked, questions))

    async def _measured(
        self, asked: Mapping[str, Trajectory], questions: Sequence[tuple[Trajectory, Set[Place]]]
    ) -> list[dict[str, float | None]]:
        new = [name for name in asked if name not in self._needs]
        self._needs.update(zip(new, await gather(self._need(asked[name]) for name in new), strict=True))
        return await gather(itertools.starmap(self._of, questions))

    def _asks(self, episode: Trajectory, final: Set[Place], name: str) -> bool:
        grader = self.grade if name == GRADED else self.zoom_need
        return grader is not None and (None, name) not in final and "sample_id" in final_state(episode)

    async def _of(self, episode: Trajectory, final: Set[Place]) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        if self._asks(episode, final, GRADED):
            found[GRADED] = await self._grade(episode)
        if self._asks(episode, final, ZOOM_NEED):
            need = self._needs[query_id(episode)]
            found[ZOOM_NEED] = None if need is None else need / 10
        return found

    async def _need(self, episode: Trajectory) -> int | None:
        assert self.zoom_need is not None
        return await self.zoom_need(key_of(episode).question, shown_images(episode))

    async def _grade(self, episode: Trajectory) -> float | None:
        assert self.grade is not None
        key, said = key_of(episode), own_pieces(episode)[-1]
        answer = extract_answer(said) or last_boxed(without_thoughts(said))
        if answer is None and self.extract is not None:
            answer = await self.extract(question_with_options(key), said)
            if answer is None:
                return None
        score = await grade_answer(answer, in_words(key), self.grade)
        return score.value if score.available else None


NO_GRADERS = Graders()
"""Asks no model."""


NOBODY = EndpointConfig(model="NAME", base_url="http://URL")

_BY_MODEL = ("direct", "extraction")


class AnswerEndpoint(EndpointConfig):
    """A model that grades answers; a separate type so that messages name its options."""


class ZoomEndpoint(EndpointConfig):
    """A vision model that rates how much must be magnified; a separate type so that messages name its options."""


NO_ANSWER_JUDGE = AnswerEndpoint(model=NOBODY.model, base_url=NOBODY.base_url)
NO_ZOOM_JUDGE = ZoomEndpoint(model=NOBODY.model, base_url=NOBODY.base_url)


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """The judges of a board's episodes.

    Attributes:
        judge: exact (by rule), direct or extraction (a model at an endpoint), or MODULE:FACTORY, your own function
            from an env id and a representation to a judges.scores.Judge.
        judge_endpoint: The model for direct and extraction.
        answer_judge: A model that grades answers in quarters, as the measure graded, and extracts answers from
            replies without the answer format; disabled unless its model and base_url are given.
        zoom_judge: A vision model that rates how much of an image must be magnified, as the measure zoom_need; results
            are then also listed by stratum: easy, medium, and hard. Disabled unless its model and base_url are given.
    """

    HINTS: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            f"--judge.{name.replace('_', '-')}": (
                f"The judge's endpoint is set with --judge-endpoint.*: --judge direct --judge-endpoint."
                f"{name.replace('_', '-')} VALUE."
            )
            for name in EndpointConfig.__dataclass_fields__
        }
    )

    judge: str = "exact"
    judge_endpoint: EndpointConfig = NOBODY
    answer_judge: AnswerEndpoint = NO_ANSWER_JUDGE
    zoom_judge: ZoomEndpoint = NO_ZOOM_JUDGE

    def __post_init__(self) -> None:
        kinds = ("exact", *_BY_MODEL)
        provider, _, served = self.judge.partition(":")
        if provider in PROVIDERS:
            raise ConfigError(
                f"--judge {self.judge} names an agent. Use --judge direct {_endpoint_options(provider, served)}."
            )
        require(
            self.judge in kinds or ":" in self.judge,
            f"--judge must be {', '.join(kinds)} or MODULE:FACTORY; got {self.judge!r}."
            f"{did_you_mean(self.judge, kinds)}",
        )
        for option, endpoint in self._asked().items():
            require(
                endpoint.model != NOBODY.model and endpoint.base_url != NOBODY.base_url,
                f"{option} needs both {option}.model and {option}.base-url; got {endpoint.model} at "
                f"{endpoint.base_url}.",
            )

    def _asked(self) -> dict[str, EndpointConfig]:
        """Returns the endpoints in use, by option."""
        asked: dict[str, EndpointConfig] = {}
        if self.judge in _BY_MODEL:
            asked["--judge-endpoint"] = self.judge_endpoint
        if self.answer_judge != NO_ANSWER_JUDGE:
            asked["--answer-judge"] = self.answer_judge
        if self.zoom_judge != NO_ZOOM_JUDGE:
            asked["--zoom-judge"] = self.zoom_judge
        return asked

    @property
    def label(self) -> str:
        """The label of the judges on a board."""
        called = {"--judge-endpoint": self.judge, "--answer-judge": "answers", "--zoom-judge": "zoom"}
        named = [f"{called[option]} {endpoint.model}" for option, endpoint in self._asked().items()]
        return ", ".join(named if self.judge in _BY_MODEL else [self.judge, *named])

    def endpoints(self) -> dict[str, EndpointConfig]:
        """Returns the endpoints to probe, by option; those with a cache are left out, as all replies may be cached."""
        return {
            f"{option.replace('judge-endpoint', 'judge')} {endpoint.model}": endpoint
            for option, endpoint in self._asked().items()
            if endpoint.cache_dir is None
        }

    @contextmanager
    def chosen(self) -> Iterator[JudgeFor | Mapping[Section, JudgeFor]]:
        """Yields the judge in the form that `judge_episodes` takes, and closes its connection on exit.

        Raises:
            ConfigError: If the user's judge cannot be imported.
        """
        if self.judge in _BY_MODEL:
            from agents.api.client import ChatClient
            from judges.llm.llm_judge import Method, llm_judges

            with ChatClient(self.judge_endpoint) as client:
                yield llm_judges(client, cast("Method", self.judge))
        else:
            yield exact_judge if self.judge == "exact" else _own(self.judge)

    @contextmanager
    def graders(self) -> Iterator[Graders]:
        """Yields the graders of answers and images, and closes their connections on exit."""
        asked = self._asked()
        if asked.keys() <= {"--judge-endpoint"}:
            yield NO_GRADERS
            return
        from agents.api.client import ChatClient
        from judges.llm.llm_graders import LLMAnswerExtractor, LLMAnswerJudge, LLMZoomJudge

        made: dict[str, Any] = {}
        with ExitStack() as opened:
            if endpoint := asked.get("--answer-judge"):
                client = opened.enter_context(ChatClient(endpoint))
                made |= {"extract": LLMAnswerExtractor(client), "grade": LLMAnswerJudge(client)}
            if endpoint := asked.get("--zoom-judge"):
                made["zoom_need"] = LLMZoomJudge(opened.enter_context(ChatClient(endpoint)))
            yield Graders(**made)


def _endpoint_options(provider: str, served: str) -> str:
    """Returns the endpoint options for the part of an agent's name after its colon, `MODEL@URL`."""
    model, _, address = served.partition("@")
    options = [f"--judge-endpoint.model {model or 'NAME'}", f"--judge-endpoint.base-url {address or 'URL'}"]
    return " ".join(options + ([] if provider == COMPATIBLE else [f"--judge-endpoint.provider {provider}"]))


def _own(name: str) -> JudgeFor:
    """Returns a function to the user's judges, each created once, as claims are grouped by judge identity."""
    module, _, attribute = name.partition(":")
    instead = "Run from the folder that holds it, or name that folder in PYTHONPATH."
    factory: Any = getattr(import_named(module, option=f"--judge {name}", instead=instead), attribute, None)
    if not callable(factory):
        raise ConfigError(f"--judge {name}: {module} has no callable {attribute!r}.")

    @cache
    def judge_for(env_id: str, representation: Any) -> Any:
        judge = factory(env_id, representation)
        require(hasattr(judge, "score"), f"--judge {name} must return a judge with score(text, state).")
        return judge

    return judge_for


STRATA: Mapping[str, float] = MappingProxyType({"easy": 0.3, "medium": 0.7, "hard": 1.0})
"""Largest `zoom_need` of each stratum; ratings of 1 to 3, 4 to 7, and 8 to 10."""


def stratum_of(episode: Record) -> str | None:
    """Returns the stratum of a judged episode; None if `zoom_need` was not judged."""
    need = (episode.get("judged") or {}).get(ZOOM_NEED)
    if need is None:
        return None
    return next(name for name, largest in STRATA.items() if need <= largest + 1e-9)


def strata_text(episodes: Sequence[Record]) -> str:
    """Returns a table with a row for every world, stratum, and agent; empty if no episode has a stratum."""
    groups: dict[tuple[str, int, str], list[Record]] = defaultdict(list)
    order = list(STRATA)
    for episode in episodes:
        if not episode["error"] and (stratum := stratum_of(episode)) is not None:
            groups[episode["world"], order.index(stratum), episode["agent"]].append(episode)
    table = []
    for world, stratum_index, agent in sorted(groups):
        group = groups[world, stratum_index, agent]
        included = [episode for episode in group if "inclusion" in episode["judged"]]
        grades = [episode["judged"][GRADED] for episode in group if GRADED in episode["judged"]]
        table.append(
            {
                "world": world,
                "zoom": order[stratum_index],
                "agent": agent,
                "episodes": str(len(group)),
                "success": _share(group, [float(episode["success"]) for episode in group]),
                "inclusion": _share(included, [episode["judged"]["inclusion"] for episode in included]),
                GRADED: f"{fmean(grades):.3f}" if grades else "",
            }
        )
    return text_table(table)


def _share(episodes: Sequence[Record], values: Sequence[float]) -> str:
    return with_interval(fmean(values), share_interval(episodes, values)) if values else ""
