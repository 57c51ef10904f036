"""Judging of a board's episodes: graders, the choice of a judge, verdicts, and their strata."""

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
"""Strategies that know where things are and do not ask for boxes."""

_NAME_OF: Mapping[Section, str] = {"observation": "grounding", "prediction": "worldmodeling"}


Place = tuple[int | None, str]
"""A text of an episode: its turn, from 0, and its section; None and the name of a measure that a model is asked for."""


@dataclass(frozen=True, kw_only=True)
class EarlierScores:
    """Scores that an episode has already.

    Attributes:
        scores: Those that stay where a judge gives no verdict.
        final: Of these, what is not asked about again.
    """

    scores: Mapping[Place, float] = field(default_factory=dict)
    final: Set[Place] = frozenset()


@dataclass(frozen=True, kw_only=True)
class JudgedEpisode:
    """What judges say of an episode.

    Attributes:
        scores: Of each turn, the score of each section that has one, now or from before.
        measures: Of the episode, by name.
        num_asked: Texts that the judge was asked about.
        unjudged: Of these, each text that it gave no verdict on, and why.
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
    """Returns what judges say of each episode, in order.

    Args:
        episodes: With what the world said, as a rollout or a replay gives them.
        judge_for: Finds the judge of what is observed and predicted, as `judges.turn_rewards.shape` takes it.
        earlier: Scores that each episode has already; none by default.
    """
    before = earlier or [EarlierScores() for _ in episodes]
    turns = [(number, turn) for number, episode in enumerate(episodes) for turn in range(len(episode.turns))]
    scored = [ScoredTurn(turn=episodes[number].turns[turn], env_id=episodes[number].env_id) for number, turn in turns]
    asked = []
    for judge, claims in claims_by_judge(scored, tuple(_NAME_OF), judge_for):
        places = [(turns[index][0], (turns[index][1], section), text) for index, section, text in claims]
        asked.append((judge, [each for each in places if each[1] not in before[each[0]].final]))
    verdicts = run_blocking(score_claims([(judge, [text for _, _, text in places]) for judge, places in asked]))
    said: list[dict[Place, JudgeScore]] = [{} for _ in episodes]
    for (_, places), column in zip(asked, verdicts, strict=True):
        for (number, place, _), score in zip(places, column, strict=True):
            said[number][place] = score
    return [_judged(*each) for each in zip(episodes, said, before, strict=True)]


def _judged(episode: Trajectory, said: Mapping[Place, JudgeScore], earlier: EarlierScores) -> JudgedEpisode:
    values = {place: score for place, score in earlier.scores.items() if place in said or place in earlier.final}
    values |= {place: score.value for place, score in said.items() if score.available}
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
        unjudged={place: score.reason for place, score in said.items() if not score.available},
    )


def consistency(episode: Trajectory) -> float | None:
    """Returns the share of turns with stated beliefs of which no rule sees a contradiction; None without such turns.

    A turn contradicts itself within one section, or what it observes contradicts what the turn before predicted. Each
    section is read by itself, as a prediction tells of another moment than an observation.
    """
    said = [_beliefs(turn) for turn in episode.turns]
    before = itertools.chain([{}], said)
    return _mean([float(_is_consistent(now, then)) for now, then in zip(said, before, strict=False) if now])


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
    """Returns whether a right answer is in the answer; None of choices, whose letters stand in any text."""
    return None if key.kind == "choice" else inclusion(final_state(episode)["answer"], key.answers)


def _point_accuracy(points: Sequence[WrittenPoint], episode: Trajectory) -> float | None:
    """Returns the share of points that hit, 0 without any; None where nothing is known to hit."""
    if not points and true_boxes(episode):
        return 0.0
    if masks := exact_masks(episode):
        return spatial_score(points, masks, point_extent(episode))
    boxes = true_boxes(episode)
    hits = [any(box.x1 <= each.x <= box.x2 and box.y1 <= each.y <= box.y2 for box in boxes) for each in points]
    return _mean(list(map(float, hits))) if boxes else None


def _mean(values: Sequence[float]) -> float | None:
    return float(fmean(values)) if values else None


@dataclass(frozen=True, kw_only=True)
class Graders:
    """Who is asked; what is None is left out.

    Attributes:
        extract: Reads the answer out of a reply without one in its form.
        grade: Grades it in quarters.
        zoom_need: Says of a question and its pictures, from 1 to 10, how much has to be magnified; asked once each.
    """

    extract: Callable[[str, str], Awaitable[str | None]] | None = None
    grade: AnswerJudge | None = None
    zoom_need: Callable[[str, Sequence[npt.NDArray[np.uint8]]], Awaitable[int | None]] | None = None
    _needs: dict[str, int | None] = field(default_factory=dict, init=False, repr=False)

    def measures(
        self, episodes: Sequence[Trajectory], earlier: Sequence[EarlierScores] = ()
    ) -> list[dict[str, float | None]]:
        """Returns what they say of each episode, in order; nothing of worlds that do not ask.

        Args:
            episodes: The episodes.
            earlier: Scores that each episode has already.

        Returns:
            Measures by name; None where a grader was asked and gave no verdict.
        """
        if self.grade is None and self.zoom_need is None:
            return [{} for _ in episodes]
        before = earlier or [EarlierScores() for _ in episodes]
        questions = [(each, known.final) for each, known in zip(episodes, before, strict=True)]
        asked = {query_id(each): each for each, known in questions if self._asks(each, known, ZOOM_NEED)}
        return run_blocking(self._measured(asked, questions))

    async def _measured(
        self, asked: Mapping[str, Trajectory], questions: Sequence[tuple[Trajectory, Set[Place]]]
    ) -> list[dict[str, float | None]]:
        new = [name for name in asked if name not in self._needs]
        self._needs.update(zip(new, await gather(self._need(asked[name]) for name in new), strict=True))
        return await gather(itertools.starmap(self._of, questions))

    def _asks(self, episode: Trajectory, known: Set[Place], name: str) -> bool:
        grader = self.grade if name == GRADED else self.zoom_need
        return grader is not None and (None, name) not in known and "sample_id" in final_state(episode)

    async def _of(self, episode: Trajectory, known: Set[Place]) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        if self._asks(episode, known, GRADED):
            found[GRADED] = await self._grade(episode)
        if self._asks(episode, known, ZOOM_NEED):
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
"""Nobody is asked."""


NOBODY = EndpointConfig(model="NAME", base_url="http://URL")

_BY_MODEL = ("direct", "extraction")


class AnswerEndpoint(EndpointConfig):
    """A model that grades answers: of a type of its own, so that messages name its options."""


class ZoomEndpoint(EndpointConfig):
    """A model that sees how much has to be magnified, likewise."""


NO_ANSWER_JUDGE = AnswerEndpoint(model=NOBODY.model, base_url=NOBODY.base_url)
NO_ZOOM_JUDGE = ZoomEndpoint(model=NOBODY.model, base_url=NOBODY.base_url)


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """A judge of what responses observe and predict.

    Attributes:
        judge: exact (by rule), direct or extraction (a model at an endpoint), or MODULE:FACTORY of your own, which is
            called with an env id and a representation and returns a judge, as judges.scores.Judge is.
        judge_endpoint: The model of a judge that asks one.
        answer_judge: A model that grades answers in quarters, as the measure graded, and first reads them out of
            replies that have none in its form; nobody unless its model and base_url are given.
        zoom_judge: A model that sees, and says how much of a picture has to be magnified, as the measure zoom_need:
            results are then also told by stratum, easy, medium and hard. Nobody unless its model and base_url are
            given.
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
        """Returns the models that are asked, by option."""
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
        """What a board calls it."""
        called = {"--judge-endpoint": self.judge, "--answer-judge": "answers", "--zoom-judge": "zoom"}
        named = [f"{called[option]} {endpoint.model}" for option, endpoint in self._asked().items()]
        return ", ".join(named if self.judge in _BY_MODEL else [self.judge, *named])

    def endpoints(self) -> dict[str, EndpointConfig]:
        """Returns the models that are asked, by option; without those whose replies may all be cached."""
        return {
            f"{option.replace('judge-endpoint', 'judge')} {endpoint.model}": endpoint
            for option, endpoint in self._asked().items()
            if endpoint.cache_dir is None
        }

    @contextmanager
    def chosen(self) -> Iterator[JudgeFor | Mapping[Section, JudgeFor]]:
        """Gives the judge, as `judge_episodes` takes it, and lets go of its connection afterwards.

        Raises:
            ConfigError: If one of the user's own cannot be had.
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
        """Gives who grades answers and pictures, and lets go of their connections afterwards."""
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
    """Returns the options of a judge's endpoint for what an agent's name has after its colon, `MODEL@URL`."""
    model, _, address = served.partition("@")
    options = [f"--judge-endpoint.model {model or 'NAME'}", f"--judge-endpoint.base-url {address or 'URL'}"]
    return " ".join(options + ([] if provider == COMPATIBLE else [f"--judge-endpoint.provider {provider}"]))


def _own(name: str) -> JudgeFor:
    """Returns the user's judges, each made once, as judges are told apart by what they are."""
    module, _, attribute = name.partition(":")
    instead = "Run from the folder that holds it, or name that folder in PYTHONPATH."
    factory: Any = getattr(import_named(module, option=f"--judge {name}", instead=instead), attribute, None)
    if not callable(factory):
        raise ConfigError(f"--judge {name}: {module} has no {attribute!r} that could be called.")

    @cache
    def judge_for(env_id: str, representation: Any) -> Any:
        judge = factory(env_id, representation)
        require(hasattr(judge, "score"), f"--judge {name} must return a judge with score(text, state).")
        return judge

    return judge_for


STRATA: Mapping[str, float] = MappingProxyType({"easy": 0.3, "medium": 0.7, "hard": 1.0})
"""Largest `zoom_need` of each: scores of 1 to 3, 4 to 7, and 8 to 10."""


def stratum_of(episode: Record) -> str | None:
    """Returns the stratum of a judged episode; None where nobody said how much must be magnified."""
    need = (episode.get("judged") or {}).get(ZOOM_NEED)
    if need is None:
        return None
    return next(name for name, largest in STRATA.items() if need <= largest + 1e-9)


def strata_text(episodes: Sequence[Record]) -> str:
    """Returns a table with a row for every stratum, agent and world; empty where no episode has a stratum."""
    groups: dict[tuple[str, int, str], list[Record]] = defaultdict(list)
    order = list(STRATA)
    for each in episodes:
        if not each["error"] and (stratum := stratum_of(each)) is not None:
            groups[each["world"], order.index(stratum), each["agent"]].append(each)
    table = []
    for world, place, agent in sorted(groups):
        group = groups[world, place, agent]
        included = [each for each in group if "inclusion" in each["judged"]]
        grades = [each["judged"][GRADED] for each in group if GRADED in each["judged"]]
        table.append(
            {
                "world": world,
                "zoom": order[place],
                "agent": agent,
                "episodes": str(len(group)),
                "success": _share(group, [float(each["success"]) for each in group]),
                "inclusion": _share(included, [each["judged"]["inclusion"] for each in included]),
                GRADED: f"{fmean(grades):.3f}" if grades else "",
            }
        )
    return text_table(table)


def _share(episodes: Sequence[Record], values: Sequence[float]) -> str:
    return with_interval(fmean(values), share_interval(episodes, values)) if values else ""
