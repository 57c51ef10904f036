"""The commands of boards: `python -m benchmarks run | replay | power | forecast`."""

from __future__ import annotations

import math
import sys
import tomllib
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, UseAppendAction

from benchmarks.models.board import Board
from benchmarks.models.contestants import contestants
from benchmarks.models.measures import rows
from benchmarks.models.page.page import build_page
from benchmarks.models.progress import ProgressLine
from benchmarks.models.run import BoardRun, RunPlan
from benchmarks.models.spec import WorldSpec
from benchmarks.models.suites import suite_named
from benchmarks.models.text_table import text_table
from vlm_envs.arguments.ranges import require_above, require_between
from vlm_envs.errors import ConfigError, did_you_mean, require
from vlm_envs.records.comparisons import num_levels_needed
from vlm_envs.records.json_lines import Record
from vlm_envs.records.replay import replay
from vlm_envs.registration import make

EXIT_DIFFERS = 1

_Texts = UseAppendAction[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Measure agents on the same levels; run again, it goes on where it stopped.

    Attributes:
        config: A TOML file of these options; what is said here too, counts.
        agent: Who plays, as NAME or NAME,SETTING=VALUE,...: hf:DIR, openai:MODEL, ...; may be repeated.
        world: What is played, as ID or ID:ARGUMENT=VALUE,...; may be repeated.
        suite: Worlds and episodes by name, in place of --world.
        episodes: Levels of each world; 256 unless a suite says otherwise.
        repeats: Episodes on each level.
        split: Whose levels.
        out: The board's folder.
        references: Whether random, lazy and oracle play too.
        budget_usd: Begin nothing more once so much has been spent on this board.
        stop_when_ci: Let an agent leave a world once half the width of its interval is at most this.
    """

    config: Path | None = None
    agent: _Texts = ()
    world: _Texts = ()
    suite: str | None = None
    episodes: int | None = None
    repeats: int = 1
    split: str = "test"
    out: Path | None = None
    references: bool = True
    budget_usd: float | None = None
    stop_when_ci: float | None = None

    def plan(self) -> RunPlan:
        """Returns what the board shall hold.

        Raises:
            ConfigError: If there is no such world or suite, or both are named.
        """
        require(self.suite is None or not self.world, "Name worlds with --world, or a suite with --suite, not both.")
        suite = None if self.suite is None else suite_named(self.suite)
        worlds = [WorldSpec.parse(text, self.split) for text in (suite.worlds if suite else self.world)]
        labels = [world.label for world in worlds]
        if twice := next((label for label in labels if labels.count(label) > 1), None):
            raise ConfigError(f"--world {twice} is there twice.")
        return RunPlan(
            worlds=worlds,
            episodes=self.episodes or (suite.episodes if suite else 256),
            repeats=self.repeats,
            budget_usd=self.budget_usd,
            stop_when_ci=self.stop_when_ci,
            suite=None if suite is None else {"name": suite.name, "version": suite.version, "digest": suite.digest()},
        )


def run(options: RunOptions) -> None:
    """Plays what is missing, and prints the board."""
    options = _with_file(options)
    if options.out is None:
        raise ConfigError("Name the board's folder: --out boards/NAME.")
    plan = options.plan()
    with ProgressLine(sys.stderr) as line:
        board_run = BoardRun(plan, contestants(options.agent, references=options.references), options.out, line.show)
        try:
            board_run.run()
        except KeyboardInterrupt:
            line.clear()
            print("Interrupted. The same command goes on.", file=sys.stderr)
    if board_run.reason and board_run.reason != "interrupted":
        print(f"Stopped: {board_run.reason}. The same command goes on.", file=sys.stderr)
    print(board_text(board_run.board))
    print(f"The page of this board: {build_page(options.out)}")


def _with_file(options: RunOptions) -> RunOptions:
    """Returns options with those of a file under them."""
    if options.config is None:
        return options
    try:
        content = tomllib.loads(options.config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read {options.config}: {error}.") from error
    known = {each.name for each in fields(RunOptions)} - {"config"}
    merged: dict[str, Any] = {}
    for name, value in content.items():
        name = name.replace("-", "_")
        if name not in known:
            raise ConfigError(f"{options.config}: there is no option {name!r}.{did_you_mean(name, known)}")
        merged[name] = tuple(value) if isinstance(value, list) else Path(value) if name == "out" else value
    said = {each.name: getattr(options, each.name) for each in fields(options)}
    return RunOptions(
        **merged
        | {name: value for name, value in said.items() if value != RunOptions.__dataclass_fields__[name].default}
    )


def board_text(board: Board) -> str:
    """Returns a board as a table of text."""
    table = []
    for row in rows(board.episodes(), board.record["worlds"]):
        low, high = row.interval
        table.append(
            {
                "world": row.world,
                "agent": row.agent,
                "success": f"{row.success:.3f} ({low:.3f} to {high:.3f})" if row.num_episodes else "–",
                "episodes": str(row.num_episodes),
                "errors": str(row.num_errors),
                "reward": _told(row.reward, ".2f"),
                "invalid": _told(row.invalid_rate, ".1%"),
                "ineffective": _told(row.ineffective_rate, ".1%"),
                "turns/optimal": _told(row.turns_over_optimal, ".2f"),
                "regret": _told(row.regret, ".2f"),
                "tokens/success": _told(row.tokens_per_success, ",.0f"),
                "USD": _told(row.usd, ".2f"),
                "USD/success": _told(row.usd_per_success, ".4f"),
            }
        )
    return text_table(sorted(table, key=lambda row: row["world"]))


def _told(value: float | None, how: str) -> str:
    return "" if value is None else format(value, how)


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """Play every episode of a board again and compare it bit by bit; rows that pass are marked verified.

    Attributes:
        board: The board's folder.
    """

    board: Annotated[Path, Positional]


def run_replay(options: ReplayOptions) -> int:
    """Replays a board; 1 where something differs."""
    board = Board(options.board)
    worlds = {world["label"]: world for world in board.record["worlds"]}
    verified: dict[tuple[str, str], int] = {}
    differing: list[str] = []
    by_world: dict[str, list[Record]] = {}
    for episode in board.episodes():
        if not episode["error"]:
            by_world.setdefault(episode["world"], []).append(episode)
    for label, episodes in by_world.items():
        spec = worlds[label]
        kwargs = {name: tuple(value) if isinstance(value, list) else value for name, value in spec["kwargs"].items()}
        with closing(make(spec["env_id"], **kwargs, split=spec["split"], disable_env_checker=True)) as world:
            for episode in episodes:
                row = episode["agent"], label
                difference = replay(episode, world.unwrapped, board.images.load)
                if difference is None:
                    verified[row] = verified.get(row, 0) + 1
                else:
                    where = f"{episode['agent']} in {label}, seed {episode['seed']}, repeat {episode['repeat']}"
                    differing.append(f"{where}, {difference}")
    for (agent, label), number in verified.items():
        print(f"{agent} in {label}: {number} episodes are the same to the bit")
    for line in differing:
        print(f"DIFFERS: {line}", file=sys.stderr)
    return EXIT_DIFFERS if differing else 0


@dataclass(frozen=True, kw_only=True)
class PowerOptions:
    """Tell how many levels it takes to find a difference between two agents on the same levels.

    Attributes:
        first: Success rate of one agent.
        second: Success rate of the other.
        agreement: Correlation of their outcomes on the same level, 0 for none.
        alpha: Level of significance, two-sided.
        power: Probability of finding the difference.
    """

    first: Annotated[float, Positional]
    second: Annotated[float, Positional]
    agreement: float = 0.0
    alpha: float = 0.05
    power: float = 0.8

    def __post_init__(self) -> None:
        require_between(self, 0, 1, "first", "second", "agreement")
        require_above(self, 0, "alpha", "power")
        require(self.alpha < 1 and self.power < 1, "--alpha and --power must be below 1.")


def run_power(options: PowerOptions) -> None:
    """Prints the number of levels."""
    first, second = options.first, options.second
    both = first * second + options.agreement * math.sqrt(first * (1 - first) * second * (1 - second))
    both = min(both, first, second)
    needed = num_levels_needed(first - both, second - both, alpha=options.alpha, power=options.power)
    told = f"{needed} levels" if needed is not None else "more than 100,000 levels, or no number of them"
    test = f"McNemar's exact test at {options.alpha:g}"
    print(f"{told}: {test} finds {first:g} against {second:g} with a probability of {options.power:.0%}.")
