"""The commands of `python -m judges`: their options and implementations."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from agents.api.endpoint_config import EndpointConfig
from judges.calibration import (
    SECTIONS,
    Agreement,
    Example,
    examples_of,
    measure_agreement,
    measure_chance,
    report,
    start_states,
)
from judges.episode_rewards.reward_registry import EPISODE_REWARDS, as_markdown, as_text, episode_reward
from judges.state_text.exact_judge import ExactJudge, rules_of
from judges.state_text_writers import Section
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import Representation
from vlm_envs.terminal_tables import terminal_width
from vlm_envs.validation import require, require_at_least, require_between

if TYPE_CHECKING:
    from agents.api.client import ChatClient

_NOBODY = EndpointConfig(model="NAME", base_url="http://URL")
"""Placeholder for an endpoint that was not given."""

_COLUMNS = "{:<27} {:<17} {:<12} {:>6} {:>11} {:>13} {:>10} {:>13} {:>10} {:>10} {:>8}"
_HEADER = (
    *("world", "representation", "section", "states", "other state", "best constant", "best blind", "worst partial"),
    *("half-blind", "worst full", "own text"),
)


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Measures the scores of blind and true texts in a world.

    The best blind text must score below the worst true text about one thing (worst partial). The best text that sees
    one thing and guesses the rest (half-blind) must score below the worst true text about everything (worst full).

    Attributes:
        env_ids: Such as VLM/FrozenLake-v0.
        representation: Representation of the state texts; by default all that are judged.
        section: Start states (observation) or states along an expert's path (prediction); both by default.
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
        """Raises `ConfigError` for numbers too small to measure with."""
        require_at_least(self, 0, "seed")
        require_at_least(self, 4, "num_states")


@dataclass(frozen=True, kw_only=True)
class Score:
    """Scores one text against one state.

    Attributes:
        world: Env id or a world's name.
        text: The text to judge; - reads standard input.
        state: State dict as JSON: {"player_position": [3, 2], …}.
        representation: Representation of the text.
    """

    world: Annotated[str, Positional, arg(metavar="WORLD")]
    text: Annotated[str, Positional, arg(metavar="TEXT")]
    state: str
    representation: Representation = "natural_language"


@dataclass(frozen=True, kw_only=True)
class Calibrate:
    """Measures a judge's agreement with the truth, and its cost.

    Attributes:
        env_id: Such as VLM/FrozenLake-v0.
        judge: exact (by rule); direct or extraction (a model at an endpoint), as in benchmarks evaluate and rescore;
            agentic (a model at an endpoint, with tools).
        representation: Representation of the state texts.
        num_states: Start states to draw.
        seed: Reset seed of the first state.
        threshold: Minimum score that counts as right.
        skill: The skill that direct and extraction judge.
        judge_endpoint: The model's endpoint and usage limits.
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
        """Raises `ConfigError` for numbers too small to measure with, or a judge without its model."""
        require_at_least(self, 0, "seed")
        require_at_least(self, 2, "num_states")
        require_between(self, 0, 1, "threshold", includes=(False, True))
        endpoint = self.judge_endpoint
        is_missing = endpoint.model == _NOBODY.model or endpoint.base_url == _NOBODY.base_url
        require(
            self.judge == "exact" or not is_missing,
            f"--judge {self.judge} needs --judge-endpoint.model and --judge-endpoint.base-url.",
        )


@dataclass(frozen=True, kw_only=True)
class Rewards:
    """Lists the constants of episode rewards: name, default, meaning, and source.

    Attributes:
        names: Rewards to list, by name or as MODULE:NAME; by default all that are shipped.
        markdown: Print the table of the documentation.
    """

    names: Annotated[tuple[str, ...], Positional, arg(metavar="REWARD")] = ()
    markdown: bool = False


def print_rewards(options: Rewards) -> None:
    """Prints the constants of episode rewards."""
    rewards = [episode_reward(name, option="REWARD") for name in options.names or EPISODE_REWARDS]
    print(as_markdown(rewards) if options.markdown else "\n\n".join(map(as_text, rewards)))


def print_chance(options: Chance) -> None:
    """Prints a row for each world, representation, and section."""
    rules = {env_id: rules_of(env_id) for env_id in options.env_ids}
    header = _COLUMNS.format(*_HEADER)
    is_wide = len(header) <= terminal_width()
    if is_wide:
        print(header)
    for env_id in options.env_ids:
        for representation in options.representation or rules[env_id].representations:
            for section in options.section or SECTIONS:
                found = measure_chance(env_id, representation, options.num_states, options.seed, section=section)
                extremes = found.best_blind, found.worst_partial, found.best_half_blind, found.worst_full
                extreme_scores = (extreme.score for extreme in extremes)
                scores = found.other_state, found.best_constant, *extreme_scores, found.own_state
                shown = (f"{score:.3f}" for score in scores)
                cells = (env_id, representation, section, str(found.num_states), *shown)
                print(_COLUMNS.format(*cells) if is_wide else _block(cells))
                if options.texts:
                    for label, extreme in zip(_HEADER[-5:-1], extremes, strict=True):
                        print(f"    {label:<14} {extreme.score:.3f} {extreme.name}")


def _block(cells: Sequence[str]) -> str:
    """Returns a row as several lines, for terminals that are too narrow for the columns."""
    named = zip(_HEADER[3:], cells[3:], strict=True)
    return "\n".join([", ".join(cells[:3]), *(f"    {name:<14}{cell:>6}" for name, cell in named)])


def print_score(options: Score) -> None:
    """Prints the score of one text."""
    text = sys.stdin.read() if options.text == "-" else options.text
    score = ExactJudge(options.world, options.representation).score(text, _state(options.state))
    print(f"F1 {score.value:.3f} from {score.num_facts_read} facts read ({score.reason})")


def _state(text: str) -> dict[str, Any]:
    """Returns a state from JSON."""
    with suppress(ValueError):
        state = json.loads(text)
        if isinstance(state, dict):
            return state
    raise ConfigError(
        "--state takes a world's whole state as a JSON object, as in its info['state'], such as "
        f"'{{\"player_position\": [3, 2], …}}'; got {text!r}."
    )


def print_calibration(options: Calibrate) -> None:
    """Prints how well a judge agrees with the truth."""
    if options.judge == "exact":
        judge = ExactJudge(options.env_id, options.representation)
        agreement = measure_agreement(_examples(options), judge, threshold=options.threshold)
        print(report(agreement, f"{_states_of(options)}, exact judge", "none"))
        return
    from agents.api.client import ChatClient
    from agents.api.probe import require_reachable

    endpoint = options.judge_endpoint
    measure = _measure_agentic if options.judge == "agentic" else _measure_model
    with ChatClient(endpoint) as client:
        require_reachable({"--judge-endpoint": endpoint}, "Nothing was measured.")
        agreement, title = measure(options, client)
        require(
            agreement.num_judged > 0,
            f"{endpoint.model} at {endpoint.base_url} gave no verdict on any of {agreement.num_unavailable} texts, so "
            "there is no agreement to report. Does the model reply in the form that its prompt asks for?",
        )
        print(report(agreement, title, str(client.usage)))


def _examples(options: Calibrate) -> list[Example]:
    return examples_of(start_states(options.env_id, options.representation, options.num_states, options.seed))


def _states_of(options: Calibrate) -> str:
    return f"{options.env_id}, {options.representation}, {options.num_states} states"


def _measure_model(options: Calibrate, client: ChatClient) -> tuple[Agreement, str]:
    from judges.llm.llm_judge import DirectJudge, ExtractionJudge

    judge_type = DirectJudge if options.judge == "direct" else ExtractionJudge
    judge = judge_type(client, options.env_id, options.skill, options.representation)
    agreement = measure_agreement(_examples(options), judge, threshold=options.threshold)
    return agreement, f"{_states_of(options)}, {options.judge} {options.judge_endpoint.model}, {options.skill}"


def _measure_agentic(options: Calibrate, client: ChatClient) -> tuple[Agreement, str]:
    """Measures a judge that uses tools on right and flawed single responses of RewardJudging."""
    from judges.agentic_calibration import measure_verdicts
    from judges.agentic_judge import AgenticJudge, chat_generate

    judge = AgenticJudge(chat_generate(client))
    agreement = measure_verdicts(
        judge,
        options.env_id,
        num_cases=options.num_states,
        seed=options.seed,
        num_parallel=options.judge_endpoint.max_parallel,
    )
    title = f"{options.env_id}, {options.num_states} single responses, {options.judge_endpoint.model} with tools"
    return agreement, title
