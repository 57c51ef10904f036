"""`python -m benchmarks run`: plays a board, from options or a file, and prints its table."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

from tyro.conf import UseAppendAction

from agents.api.probe import require_reachable
from benchmarks.models.board.board import Board, require_distinct
from benchmarks.models.board.board_spec import (
    AgentSpec,
    WorldSpec,
    entry_for,
    suite_named,
)
from benchmarks.models.board.verification import verified_rows
from benchmarks.models.cli.endings import told_of, unread_of
from benchmarks.models.measures.comparisons import OverallRow, overall
from benchmarks.models.measures.measures import rows, success_text
from benchmarks.models.measures.perception_gaps import gaps_text, perception_gaps, split_views, with_interval
from benchmarks.models.page.board_page import build_page
from benchmarks.models.page.page_tables import columns
from benchmarks.models.play.board_progress import ProgressDisplay
from benchmarks.models.play.contestants import (
    Contestant,
    asked_agents,
    contestants,
    few_items_lines,
    format_warnings,
    is_served,
    make_contestants,
    skip_unplayable,
)
from benchmarks.models.play.playing import BoardRun, RunPlan, require_prices, second_interrupt_quits
from vlm_envs.adapter.stored import fixed
from vlm_envs.command_line import EXIT_INTERRUPTED, Program, description_of, parsed
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import RunDataError
from vlm_envs.registration import registered_name, require_available
from vlm_envs.terminal_tables import text_table
from vlm_envs.validation import require, require_above, require_at_least

EXIT_INCOMPLETE = 1

_CONFIG = "--config"

_DEFAULT_EPISODES = 256

_Texts = UseAppendAction[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Measure agents on the same levels; the same command resumes where it stopped.

    Attributes:
        config: A TOML file of these options, with lists for repeatable ones; the command line overrides it.
        agent: An agent, as NAME or NAME,SETTING=VALUE,...: hf:DIR, openai:MODEL, ...; may be repeated.
        world: A world, as ID or ID:ARGUMENT=VALUE,...; may be repeated.
        suite: A named set of worlds and episodes, in place of --world; python -m benchmarks suites lists them.
        episodes: Levels of each world; by default, 256 or the suite's number.
        repeats: Episodes on each level.
        split: The split the levels come from.
        reading: How actions are parsed. With lenient, the actions of the last complete <answer> are executed even if
            the response is out of the format; the column "out of format" counts such turns. With strict, they are not.
        out: The board's folder.
        references: Whether to also play random, lazy, and oracle; lazy skips datasets without training or validation
            levels, and the oracle skips worlds without a planner.
        budget_usd: Start no further episode once this much is spent on this board.
        stop_when_ci: Let an agent leave a world once the half-width of its confidence interval is at most this.
        split_perception: Also play every world as text, as image and text, and as image with a ground-truth
            description, and print each agent's loss due to perception; random, lazy, and oracle play images only.
    """

    config: Path | None = None
    agent: _Texts = ()
    world: _Texts = ()
    suite: str | None = None
    episodes: int | None = None
    repeats: int = 1
    split: str = "test"
    reading: Literal["lenient", "strict"] = "lenient"
    out: Path | None = None
    references: bool = True
    budget_usd: float | None = None
    stop_when_ci: float | None = None
    split_perception: bool = False

    def __post_init__(self) -> None:
        require_at_least(self, 1, "episodes", "repeats")
        require_above(self, 0, "budget_usd", "stop_when_ci")
        require(not self.split_perception or bool(self.agent), "Name whose sight is measured: --agent NAME.")
        require(self.suite is None or not self.world, "Name worlds with --world, or a suite with --suite, not both.")

    def specs(self) -> list[WorldSpec]:
        """Returns the requested worlds; raises `ConfigError` if there is no such world or suite."""
        texts = self.world if self.suite is None else suite_named(self.suite).worlds
        return [WorldSpec.parse(text, self.split, self.reading) for text in texts]

    def worlds(self) -> list[WorldSpec]:
        """Returns the worlds to play without creating them.

        Raises:
            ConfigError: If there is no such world or suite.
            EngineUnavailableError: If a world cannot run here.
        """
        worlds = self.specs()
        labels = [world.label for world in worlds]
        for world in worlds:
            require(labels.count(world.label) == 1, f"--world {world.label} is given twice.")
            require_available(registered_name(world.env_id))
        return worlds

    def plan(self) -> RunPlan:
        """Returns the plan for the board.

        Raises:
            ConfigError: If there is no such world or suite.
            EngineUnavailableError: If a world cannot run here.
        """
        suite = None if self.suite is None else suite_named(self.suite)
        worlds = self.worlds()
        require_distinct("--world", ((world.label, world.digest) for world in worlds))
        return RunPlan(
            worlds=worlds,
            episodes=self.episodes or (suite.episodes if suite else _DEFAULT_EPISODES),
            repeats=self.repeats,
            budget_usd=self.budget_usd,
            stop_when_ci=self.stop_when_ci,
            suite=None if suite is None else suite.record(worlds),
        )


def run(options: RunOptions) -> int:
    """Plays missing episodes and prints the board; returns 1 if failures left episodes out, 130 after Ctrl-C."""
    board_run, code = play_board(options)
    print_unread(board_run)
    return code


def print_unread(board_run: BoardRun) -> None:
    """Prints the number of unread and cut-off responses; commands call this last."""
    sys.stdout.flush()
    _print_lines(unread_of(board_run))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


def play_board(options: RunOptions) -> tuple[BoardRun, int]:
    """Plays a board like `run`, but without the closing report; returns the run and its exit code."""
    require(
        bool(options.out or options.world or options.suite),
        "Name worlds with --world ID, or a suite with --suite NAME, and the board's folder with --out boards/NAME.",
    )
    out = options.out
    if out is None:
        raise ConfigError("Name the board's folder: --out boards/NAME.")
    with second_interrupt_quits():
        board_run, code = play_missing(options, out)
    print(board_text(board_run.board))
    if options.split_perception:
        gaps = perception_gaps(board_run.board.episodes(), board_run.board.record["worlds"])
        print(f"\n{gaps_text(gaps)}")
    print(page_of(board_run.board))
    return board_run, code


def play_missing(options: RunOptions, out: Path, own: Sequence[Contestant] = ()) -> tuple[BoardRun, int]:
    """Plays a board's missing episodes; progress and reasons for skipped episodes go to stderr.

    Args:
        options: The plan for the board.
        out: The board's folder.
        own: Contestants created in Python, added to those in `options`.

    Returns:
        The finished run and its exit code.
    """
    with fixed(world.env_id for world in options.worlds()):
        asked = asked_agents(options.agent, references=options.references)
        probed = _probe_new(asked, out, has_budget=options.budget_usd is not None)
        plan = options.plan()
        views = _views(plan) if options.split_perception else None
        players, skipped = skip_unplayable(plan.worlds, [*own, *make_contestants(asked)])
        require(
            all(not player.is_person or getattr(player.agent, "sees_pictures", True) for player in players)
            or all(world.kwargs.get("obs_mode") == "text" for world in plan.worlds),
            "This terminal shows no colors and therefore no images: use --agent human,window=True, or set "
            "TERM=xterm-256color and unset NO_COLOR.",
        )
        few = few_items_lines(plan.worlds, options.episodes)
        _print_lines([*skipped, *few, *format_warnings(plan.worlds, players)])
        board_run, code = _played(plan, players, out, probed)
        if views is not None and not board_run.reason:
            of_views = contestants(options.agent, references=False)
            board_run, code_of_views = _played(views, of_views, out, {player.label for player in of_views})
            code = max(code, code_of_views)
    return board_run, code


def _probe_new(asked: Iterable[AgentSpec], out: Path, *, has_budget: bool) -> set[str]:
    """Probes the models that are not on the board yet, before any world is created; returns their labels."""
    known = Board.agents_in(out)
    served = make_contestants(spec for spec in asked if is_served(spec))
    try:
        if has_budget:
            require_prices(served)
        new = [player for player in served if entry_for(player.record(), known, out) is None]
        _require_reachable(new)
    finally:
        for player in served:
            player.close()
    return {player.label for player in new}


def _require_reachable(players: Iterable[Contestant]) -> None:
    endpoints = {player.label: player.config for player in players if player.config is not None}
    require_reachable(endpoints, "Nothing was played.")


def _views(plan: RunPlan) -> RunPlan:
    """Returns the same levels in all views except the image, and prints a message for missing views."""
    views, missing = zip(*map(split_views, plan.worlds), strict=True)
    _print_lines(filter(None, missing))
    return replace(plan, worlds=list(chain(*views)))


def _played(plan: RunPlan, players: Sequence[Contestant], out: Path, probed: Container[str]) -> tuple[BoardRun, int]:
    """Plays a plan, prints why episodes are missing, and returns the finished run and its exit code.

    Models with missing episodes are probed, except those whose labels are in `probed`.
    """
    with ProgressDisplay(sys.stderr) as display:
        board_run = BoardRun(plan, players, out, display.show)
        code = 0
        try:
            _require_reachable(player for player in board_run.waiting() if player.label not in probed)
        except ConfigError:
            board_run.close()
            raise
        _print_lines(board_run.moved)
        try:
            board_run.run(on_person=lambda plays: display.pause(is_paused=plays))
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
    _print_lines(told_of(board_run))
    return board_run, code or (EXIT_INCOMPLETE if board_run.failures else 0)


def page_of(board: Board) -> str:
    """Writes a board's page and returns its path as a message, or why it could not be written."""
    try:
        return f"The page of this board: {build_page(board.directory)}"
    except (OSError, RunDataError) as error:
        why = getattr(error, "strerror", None) or str(error).rstrip(".")
        return f"The page could not be written: {why}. Later: python -m benchmarks page {board.directory}"


def with_file(kind: type[Any], words: Sequence[str], prog: str) -> list[str]:
    """Returns a command line with the options of its `--config` file inserted at the front.

    Args:
        kind: The dataclass of the command's options.
        words: The command line. Its options override those of the file; a repeated option overrides the whole list.
        prog: The command, for messages.

    Raises:
        ConfigError: If the file cannot be read, or contains an unknown option or an invalid value.
    """
    joined = [f"{word}={after}" if word == _CONFIG else word for word, after in pairwise([*words, "--"])]
    names = [word.partition("=")[2] for word in joined if word.startswith(f"{_CONFIG}=")]
    if not names or names[0].startswith("--"):
        return list(words)
    try:
        content = tomllib.loads(Path(names[0]).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read {names[0]}: {error}.") from error
    options = {name.replace("_", "-"): value for name, value in content.items()}
    try:
        of_file = {name: list(_words(name, value)) for name, value in options.items()}
        require("config" not in of_file, "A file of options cannot name another one.")
        parsed(kind, list(chain(*of_file.values())), Program(prog=prog, description=description_of(kind)))
    except ConfigError as error:
        raise ConfigError(f"{names[0]}: {error}") from error
    given = {word.partition("=")[0].replace("_", "-") for word in words}
    kept = [of for name, of in of_file.items() if given.isdisjoint({f"--{name}", f"--no-{name}"})]
    return [*chain(*kept), *words]


def _words(name: str, value: object) -> Iterator[str]:
    """Yields an option of a file as command-line arguments."""
    if isinstance(value, bool):
        yield f"--{name}" if value else f"--no-{name}"
        return
    for item in value if isinstance(value, list) else [value]:
        require(
            isinstance(item, str | int | float), f"{name} must be a text, a number, or a list of those; got {item!r}."
        )
        yield f"--{name}={item}"


_ON_THE_PAGE_ONLY = ("actions × best", "ruined", "seconds")
"""Columns left out of the text table to keep its lines short; so are metrics of worlds and judges."""


HeadedTable = tuple[str, list[dict[str, str]]]
"""A heading, which may be empty, and its rows, as texts by column."""


def board_text(board: Board) -> str:
    """Returns a board's tables as text."""
    return tables_text(board_tables(board))


def tables_text(tables: Iterable[HeadedTable]) -> str:
    """Returns tables as text, separated by blank lines."""
    return "\n\n".join(f"{heading}\n{text_table(table)}".lstrip("\n") for heading, table in tables)


def board_tables(board: Board) -> list[HeadedTable]:
    """Returns a table with a row per agent and world and, with several worlds, a table with a row per agent.

    Worlds are in the board's order, and agents in each by descending success.
    """
    episodes = board.episodes()
    verified = verified_rows(board, episodes)
    order = {world["label"]: index for index, world in enumerate(board.record["worlds"])}
    found = [
        replace(row, metrics={}, judged={}, num_unjudged=None) for row in rows(board.lines(), board.record["worlds"])
    ]
    found.sort(key=lambda row: (order.get(row.world, len(order)), -row.success, row.agent))
    measured = [column for column in columns(found) if column.title not in _ON_THE_PAGE_ONLY]
    table = [
        {
            "world": row.world,
            "agent": row.agent,
            "success": success_text(row),
            **{column.title: column.texts[index] for column in measured},
            "verified": "yes" if (row.agent, row.world) in verified else "",
        }
        for index, row in enumerate(found)
    ]
    return [("", table), *overall_tables(overall(episodes))]


def overall_tables(rows: Sequence[OverallRow]) -> list[HeadedTable]:
    """Returns the table of agents over all worlds; empty unless there are several worlds."""
    if not rows or rows[0].num_worlds < 2:
        return []
    table = [
        {
            "agent": row.agent,
            "mean success": with_interval(row.success, (row.low, row.high)),
            "mean rank": f"{row.mean_rank:.1f}",
            "below lazy": "yes" if row.below_lazy else "",
            "not distinguished from": ", ".join(row.indistinguishable_from),
        }
        for row in rows
    ]
    return [(f"All {rows[0].num_worlds} worlds that every contestant has played:", table)]
