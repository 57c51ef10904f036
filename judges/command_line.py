"""The commands of `python -m judges`: their options, and what runs them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from agents.api.endpoint_config import EndpointConfig
from judges.batched_judging import BatchJudge, TextAndState
from judges.calibration import (
    SECTIONS,
    Agreement,
    ChanceBaseline,
    examples_of,
    measure_agreement,
    measure_chance,
    report,
    start_states,
)
from judges.episode_rewards.reward_registry import EPISODE_REWARDS, as_markdown, as_text, episode_reward
from judges.scores import JudgeScore
from judges.state_text.exact_judge import ExactJudge, rules_of
from judges.state_text_writers import Section
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import Representation
from vlm_envs.terminal_tables import terminal_width
from vlm_envs.validation import require_at_least, require_between

if TYPE_CHECKING:
    from agents.api.client import ChatClient

_NOBODY = EndpointConfig(model="NAME", base_url="http://URL")
"""Stands for an endpoint where none was given."""

_COLUMNS = (
    *("world", "representation", "section", "states", "other state", "best constant", "best blind", "worst partial"),
    *("half-blind", "worst full", "own text"),
)
_WIDTHS = (27, 17, 12, 6, 11, 13, 10, 13, 10, 10, 8)
_NUM_NAMES = 3
"""Columns of text, to the left; those of numbers are to the right."""


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Measures the scores of blind text and of true text in a world.

    Best blind must be below worst partial, a true text about one thing; half-blind, which sees one thing and guesses
    the rest, must be below worst full, a true text about everything.

    Attributes:
        env_ids: Such as VLM/FrozenLake-v0.
        representation: How states are written; all that are judged where none is given.
        section: Start states (observation) or states on an expert's way (prediction); both where none is given.
        num_states: Levels to draw.
        seed: Reset seed of the first level.
        texts: Print the texts of the extreme scores as well.
    """

    env_ids: Annotated[tuple[str, ...], Positional, arg(metavar="ENV_ID")]
    representation: tuple[Representation, ...] = ()
    section: tuple[Section, ...] = ()
    num_states: int = 200
    seed: int = 0
    texts: bool = False

    def __post_init__(self) -> None:
        """Refuses numbers that nothing can be measured with."""
        require_at_least(self, 0, "seed")
        require_at_least(self, 4, "num_states")


@dataclass(frozen=True, kw_only=True)
class Score:
    """Scores one text against one state.

    Attributes:
        world: Env id or a world's name.
        text: The text to judge; - reads standard input.
        state: State dict as JSON: {"player_position": [3, 2], …}.
        representation: How the text is written.
    """

    world: Annotated[str, Positional, arg(metavar="WORLD")]
    text: Annotated[str, Positional, arg(metavar="TEXT")]
    state: str
    representation: Representation = "natural_language"


@dataclass(frozen=True, kw_only=True)
class Calibrate:
    """Measures how well a judge agrees with the truth, and its cost.

    Attributes:
        env_id: Such as VLM/FrozenLake-v0.
        judge: exact (by rule); direct or extraction (a model at an endpoint), as in benchmarks evaluate and rescore;
            agentic (a model at an endpoint, with tools).
        representation: How states are written.
        num_states: Start states to draw.
        seed: Reset seed of the first state.
        threshold: Least score that means right.
        skill: What direct and extraction judge.
        judge_endpoint: The model and the limits of its use.
    """

    env_id: Annotated[str, Positional, arg(metavar="ENV_ID")]
    judge: Literal["exact", "direct", "extraction", "agentic"] = "exact"
    representation: Representation = "natural_language"
    num_states: int = 64
    seed: int = 0
    threshold: float = 0.99
    skill: Literal["grounding", "worldmodeling"] = "grounding"
    judge_endpoint: EndpointConfig = _NOBODY

    def __post_init__(self) -> None:
        """Refuses numbers that nothing can be measured with, and a judge without its model."""
        require_at_least(self, 0, "seed")
        require_at_least(self, 2, "num_states")
        require_between(self, 0, 1, "threshold", includes=(False, True))
        endpoint = self.judge_endpoint
        is_missing = endpoint.model == _NOBODY.model or endpoint.base_url == _NOBODY.base_url
        if self.judge != "exact" and is_missing:
            raise ConfigError(f"--judge {self.judge} needs --judge-endpoint.model and --judge-endpoint.base-url.")


@dataclass(frozen=True, kw_only=True)
class Rewards:
    """Lists the constants of rewards of whole episodes: name, default, meaning and source.

    Attributes:
        names: Of rewards, or MODULE:NAME; all that are shipped where none is given.
        markdown: Whether to print the table of the documentation.
    """

    names: Annotated[tuple[str, ...], Positional, arg(metavar="REWARD")] = ()
    markdown: bool = False


def print_rewards(options: Rewards) -> None:
    """Prints the constants of rewards of whole episodes."""
    rewards = [episode_reward(name, option="REWARD") for name in options.names or EPISODE_REWARDS]
    print(as_markdown(rewards) if options.markdown else "\n\n".join(map(as_text, rewards)))


def print_chance(options: Chance) -> None:
    """Prints a row for each world, representation, and section."""
    rules = {env_id: rules_of(env_id) for env_id in options.env_ids}
    is_wide = sum(_WIDTHS) + len(_WIDTHS) - 1 <= terminal_width()
    if is_wide:
        print(_line(_COLUMNS))
    for env_id in options.env_ids:
        for representation in options.representation or rules[env_id].representations:
            for section in options.section or SECTIONS:
                baseline = measure_chance(env_id, representation, options.num_states, options.seed, section=section)
                print(_line(_cells(baseline)) if is_wide else _block(_cells(baseline)))
                if options.texts:
                    print(_extremes(baseline))


def _cells(baseline: ChanceBaseline) -> tuple[str, ...]:
    scores = (
        baseline.other_state,
        baseline.best_constant,
        baseline.best_blind.score,
        baseline.worst_partial.score,
        baseline.best_half_blind.score,
        baseline.worst_full.score,
        baseline.own_state,
    )
    shown = (f"{score:.3f}" for score in scores)
    return (baseline.world, baseline.representation, baseline.section, str(baseline.num_states), *shown)


def _line(cells: Sequence[str]) -> str:
    aligned = (cell.ljust if index < _NUM_NAMES else cell.rjust for index, cell in enumerate(cells))
    return " ".join(align(width) for align, width in zip(aligned, _WIDTHS, strict=True)).rstrip()


def _block(cells: Sequence[str]) -> str:
    """Returns a row as lines, for terminals in which the columns do not fit."""
    named = zip(_COLUMNS[_NUM_NAMES:], cells[_NUM_NAMES:], strict=True)
    return "\n".join([", ".join(cells[:_NUM_NAMES]), *(f"    {name:<14}{cell:>6}" for name, cell in named)])


def _extremes(baseline: ChanceBaseline) -> str:
    extremes = {
        "best blind": baseline.best_blind,
        "worst partial": baseline.worst_partial,
        "half-blind": baseline.best_half_blind,
        "worst full": baseline.worst_full,
    }
    return "\n".join(f"    {label:<14} {found.score:.3f} {found.name}" for label, found in extremes.items())


def print_score(options: Score) -> None:
    """Prints the score of one text."""
    text = sys.stdin.read() if options.text == "-" else options.text
    score = ExactJudge(options.world, options.representation).score(text, _state(options.state))
    print(f"F1 {score.value:.3f} from {score.num_facts_read} facts read ({score.reason})")


def _state(text: str) -> dict[str, Any]:
    """Returns a state from JSON."""
    try:
        state = json.loads(text)
    except ValueError:
        state = None
    if not isinstance(state, dict):
        raise ConfigError(
            "--state takes a world's whole state as a JSON object, the one that its info['state'] holds, such as "
            f"'{{\"player_position\": [3, 2], …}}'; got {text!r}."
        )
    return state


class _FirstAlone:
    """Asks a judge's first question alone: that nobody is there need not be found out hundreds of times."""

    def __init__(self, judge: BatchJudge, client: ChatClient) -> None:
        self._judge, self._client = judge, client

    def score(self, text: str, state: Mapping[str, Any]) -> JudgeScore:
        """Returns the score of one text."""
        return self._judge.score(text, state)

    def score_many(self, claims: Sequence[TextAndState]) -> list[JudgeScore]:
        """Returns the claims' scores: the first one's and, if there was an answer, the others'."""
        first = self._judge.score_many(claims[:1])
        for score in first:
            _require_somebody(self._client, score.reason)
        return [*first, *self._judge.score_many(claims[1:])]


def _require_somebody(client: ChatClient, reason: str) -> None:
    """Stops where no request so far had an answer of any kind.

    Raises:
        ConfigError: The endpoint is not there, or refuses.
    """
    usage = client.usage
    if usage.num_unavailable == usage.num_questions > 0 and usage.num_unreadable == 0:
        raise ConfigError(
            f"Nothing came from {client.config.model} at {client.config.base_url} in {usage.num_requests} attempts "
            f"({reason}). Is the endpoint up, and are its model, base-url, and api-key-variable right?"
        )


def _require_verdicts(agreement: Agreement, endpoint: EndpointConfig) -> None:
    """Refuses to report shares of nothing.

    Raises:
        ConfigError: There is not one verdict.
    """
    if agreement.num_judged == 0:
        raise ConfigError(
            f"{endpoint.model} at {endpoint.base_url} gave no verdict on any of {agreement.num_unavailable} texts, so "
            "there is no agreement to report. Does the model keep to the form that its prompt asks for?"
        )


def print_calibration(options: Calibrate) -> None:
    """Prints how well a judge agrees with the truth."""
    if options.judge == "agentic":
        _print_agentic_calibration(options)
        return
    if options.judge == "exact":
        rules_of(options.env_id)  # whose states may be slow to draw
    described = start_states(options.env_id, options.representation, options.num_states, options.seed)
    examples = examples_of(described)
    title = f"{options.env_id}, {options.representation}, {options.num_states} states, "
    if options.judge == "exact":
        judge = ExactJudge(options.env_id, options.representation)
        agreement = measure_agreement(examples, judge, threshold=options.threshold)
        print(report(agreement, f"{title}exact judge", "none"))
        return
    from agents.api.client import ChatClient
    from judges.llm.llm_judge import DirectJudge, ExtractionJudge

    judge_type = DirectJudge if options.judge == "direct" else ExtractionJudge
    with ChatClient(options.judge_endpoint) as client:
        model = judge_type(client, options.env_id, options.skill, options.representation)
        agreement = measure_agreement(examples, _FirstAlone(model, client), threshold=options.threshold)
        _require_verdicts(agreement, options.judge_endpoint)
        title += f"{options.judge} {options.judge_endpoint.model}, {options.skill}"
        print(report(agreement, title, str(client.usage)))


def _print_agentic_calibration(options: Calibrate) -> None:
    """Lets a judge that uses tools decide on single responses of RewardJudging, right ones and flawed ones."""
    from agents.api.client import ChatClient
    from agents.api.failures import Unavailable
    from judges.agentic_calibration import measure_verdicts
    from judges.agentic_judge import AgenticJudge, Utterance, chat_generate

    with ChatClient(options.judge_endpoint) as client:
        generate = chat_generate(client)

        def generate_if_somebody_is_there(utterances: Sequence[Utterance]) -> str | Unavailable:
            reply = generate(utterances)
            if isinstance(reply, Unavailable):
                _require_somebody(client, reply.reason)
            return reply

        def first_alone(function: Callable[[Any], Any], items: Iterable[Any], /) -> list[Any]:
            first, *others = items
            return [function(first), *client.map(function, others)]

        judge = AgenticJudge(generate_if_somebody_is_there)
        measured = measure_verdicts(
            judge, options.env_id, num_cases=options.num_states, seed=options.seed, map_fn=first_alone
        )
        _require_verdicts(measured, options.judge_endpoint)
        title = f"{options.env_id}, {options.num_states} single responses, {options.judge_endpoint.model} with tools"
        print(report(measured, title, str(client.usage)))
