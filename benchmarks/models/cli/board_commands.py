"""Small commands for boards: page, replay, export, merge, power, forecast, and suites."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from benchmarks.models.board.board import Board, UnwritableBoardError, telling_of
from benchmarks.models.board.board_merge import merge
from benchmarks.models.board.board_spec import SUITES, Suite
from benchmarks.models.board.verification import changed_worlds, mark, verify
from benchmarks.models.cli.run_command import board_text, page_of
from benchmarks.models.measures.board_export import Format, exported
from benchmarks.models.page.board_page import build_page
from benchmarks.models.play.board_forecast import forecast
from benchmarks.models.play.board_progress import duration
from vlm_envs.errors import EngineUnavailableError
from vlm_envs.records.json_lines import replace_file
from vlm_envs.registration import registered_name, require_available
from vlm_envs.statistics.paired_tests import family_levels_needed
from vlm_envs.terminal_tables import text_table
from vlm_envs.validation import require, require_above, require_between


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Rewrite a board's page: index.html with the results, and a folder with its episodes.

    Attributes:
        board: The board's folder.
        single_file: Embed all episodes and images in index.html, so that it can be shared by itself; for small boards.
        max_megabytes: Maximum size of the single file.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]
    single_file: bool = False
    max_megabytes: float = 16

    def __post_init__(self) -> None:
        require_above(self, 0, "max_megabytes")


def run_page(options: PageOptions) -> None:
    """Writes the page and prints its path."""
    with telling_of(options.board):
        max_bytes = round(1e6 * options.max_megabytes)
        print(build_page(options.board, single_file=options.single_file, max_bytes=max_bytes))
        if not Board(options.board).has_images():
            print(
                "The board's folder lacks images, so the page shows none for some turns. "
                f"Draw them: python -m benchmarks replay {options.board}",
                file=sys.stderr,
            )


EXIT_DIFFERS = 1
EXIT_REFUSED = 2


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """Replay every episode of a board and compare it bit for bit; mark rows that match as verified.

    Missing images are redrawn, and kept if they match bit for bit. Rows of a world that cannot be created here keep
    their marks.

    Attributes:
        board: The board's folder.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]


def run_replay(options: ReplayOptions) -> int:
    """Replays a board and returns the exit code: 1 if an episode differs, else 2 if a world cannot be created."""
    board = Board(options.board)
    for line in changed_worlds(board):
        print(line, file=sys.stderr)
    replayed = []
    for row in verify(board):
        replayed.append(row)
        for line in row.differences:
            print(f"DIFFERS: {line}", file=sys.stderr)
        if row.obstacle:
            print(f"error: {row.agent} in {row.world} cannot be replayed: {row.obstacle}", file=sys.stderr)
            continue
        verdict = "verified" if row.is_verified else f"NOT VERIFIED, {len(row.differences)} differ"
        same = "1 episode is" if row.num_same == 1 else f"{row.num_same} episodes are"
        print(f"{row.agent} in {row.world}: {same} the same to the bit; {verdict}", flush=True)
    try:
        mark(board, replayed)
        print(page_of(board))
    except UnwritableBoardError as error:
        print(f"The rows are not marked. {error}", file=sys.stderr)
    if any(row.differences for row in replayed):
        return EXIT_DIFFERS
    return EXIT_REFUSED if any(row.obstacle for row in replayed) else 0


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Write a board as a table with one row per episode; docs/reference/board-columns.md describes its columns.

    Attributes:
        board: The board's folder.
        to: Format of the file.
        out: The file; by default, episodes.csv or episodes.parquet in the board's folder.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]
    to: Format
    out: Path | None = None


def run_export(options: ExportOptions) -> None:
    """Writes the file and prints its path."""
    board = Board(options.board)
    out = options.out or board.directory / f"episodes.{options.to}"
    require(not out.is_dir(), f"--out {out} is a folder. Name a file, such as {out / f'episodes.{options.to}'}.")
    content = exported(board, options.to)
    with telling_of(out.parent):
        replace_file(out, content)
    print(out)


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    """Merge boards with the same suite, split, and reading into a new one after verifying every line.

    Attributes:
        boards: Folders of two or more boards; they are not changed.
        out: Folder of the new board.
    """

    boards: Annotated[tuple[Path, ...], Positional, arg(metavar="BOARD")]
    out: Path


def run_merge(options: MergeOptions) -> None:
    """Writes the new board and its page, and prints its table."""
    require(len(options.boards) > 1, "Name at least two boards to merge.")
    sources = [Board(path) for path in options.boards]
    merged = merge(options.boards, options.out)
    versions = merged.record.get("versions", {})
    for source in sources[1:]:
        other = source.record.get("versions", {})
        names = [name for name in sorted({*versions, *other}) if versions.get(name) != other.get(name)]
        if names:
            changes = ", ".join(f"{name} {versions.get(name)} and {other.get(name)}" for name in names)
            print(f"{sources[0].directory} and {source.directory} differ in versions: {changes}.", file=sys.stderr)
    print(board_text(merged))
    print(page_of(merged))
    num_left = sum(len(source.lines()) for source in sources) - len(merged.lines())
    if num_left:
        print(f"{num_left} episodes were on several boards and are kept once, as on the first of them.")
    print(f"No row is marked verified yet: python -m benchmarks replay {merged.directory}")


_MOST_MODELS, _MOST_WORLDS = 50, 100

_LEAST_ALPHA = 1e-6


@dataclass(frozen=True, kw_only=True)
class PowerOptions:
    """Compute how many levels of each world a board needs to detect a difference between two agents.

    Attributes:
        first: Success rate of one agent.
        second: Success rate of the other.
        models: Number of agents on the board without references; p-values are corrected for all of their pairs.
        worlds: Number of worlds on the board; p-values are corrected for the pairs in all of them.
        agreement: Correlation of the two agents' outcomes on the same level; 0 for independence.
        alpha: Significance level, two-sided.
        power: Probability of detecting the difference.
    """

    first: Annotated[float, Positional, arg(metavar="RATE")]
    second: Annotated[float, Positional, arg(metavar="RATE")]
    models: int = 2
    worlds: int = 1
    agreement: float = 0.0
    alpha: float = 0.05
    power: float = 0.8

    def __post_init__(self) -> None:
        require_between(self, 0, 1, "first", "second", "agreement")
        require_between(self, _LEAST_ALPHA, 1 - _LEAST_ALPHA, "alpha", "power")
        require_between(self, 2, _MOST_MODELS, "models")
        require_between(self, 1, _MOST_WORLDS, "worlds")


def run_power(options: PowerOptions) -> None:
    """Prints the required number of levels."""
    first, second = options.first, options.second
    if first == second:
        print(f"There is no difference to find: both succeed on {first:.0%} of the levels.")
        return
    needed = family_levels_needed(
        first,
        second,
        num_models=options.models,
        num_worlds=options.worlds,
        agreement=options.agreement,
        alpha=options.alpha,
        power=options.power,
    )
    found = "more than 100,000 levels" if needed is None else f"{needed.num_levels} levels"
    num_tests = options.worlds * options.models * (options.models - 1) // 2
    test, of_range = f"McNemar's exact test at {options.alpha:g}", ""
    if num_tests > 1:
        worlds = "1 world" if options.worlds == 1 else f"{options.worlds} worlds"
        test += f", Holm-corrected for {num_tests} pairs ({options.models} models in {worlds}),"
        if needed is not None:
            of_range = (
                f" This probability is {needed.least:.0%} if no other pair differs, and {needed.most:.0%} if half of "
                "the models have each rate in every world."
            )
    assumed = "" if options.agreement else " Assumed: their outcomes on a level do not agree; see --agreement."
    print(
        f"{found}{' of each world' if options.worlds > 1 else ''}: {test} finds {first:g} against {second:g} with a "
        f"probability of {options.power:.0%}.{of_range}{assumed}"
    )


@dataclass(frozen=True, kw_only=True)
class ForecastOptions:
    """Estimate from a board with a few episodes the time, cost, and precision of a larger board.

    A pilot is an ordinary board: python -m benchmarks run ... --episodes 8. The same command with more episodes
    continues it.

    Attributes:
        board: The pilot's folder.
        levels: Numbers of levels per world to estimate for.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]
    levels: tuple[int, ...] = (64, 256, 1024)

    def __post_init__(self) -> None:
        require(bool(self.levels), "--levels needs a number.")
        require(min(self.levels) >= 1, f"--levels must be at least 1; got {min(self.levels)}.")


def run_forecast(options: ForecastOptions) -> None:
    """Prints the forecast as a table."""
    found = forecast(Board(options.board), options.levels)
    require(bool(found), f"{options.board} has no episodes to estimate from. Play some: python -m benchmarks run")
    table = []
    for part in found:
        usd = [f"{part.usd:.2f}"] if part.usd is not None else []
        table.append(
            {
                "levels": str(part.num_levels),
                "world": part.world,
                "agent": part.agent,
                "pilot": str(part.num_pilot),
                "time": duration(part.seconds),
                "tokens": "" if part.tokens is None else f"{part.tokens:,.0f}",
                "USD": " + ".join([*usd, *(["price unknown"] if part.is_price_unknown else [])]),
                "success within": "" if part.half_width is None else f"±{part.half_width:.3f} at most",
            }
        )
    print(text_table(table))


_DIGEST_CHARS = 16


@dataclass(frozen=True, kw_only=True)
class SuitesOptions:
    """List the available suites.

    Attributes:
        digests: Also print the hashes of suites and worlds, which starts every world.
    """

    digests: bool = False


def run_suites(options: SuitesOptions) -> None:
    """Prints one line per suite and one for each of its worlds."""
    for suite in SUITES.values():
        print(f"{suite.name} version {suite.version}: {suite.summary}; {suite.episodes} levels of each world")
        print("".join(f"  {line}\n" for line in _worlds(suite, digests=options.digests)), end="")


def _worlds(suite: Suite, *, digests: bool) -> list[str]:
    if not digests:
        return list(suite.worlds)
    specs, missing = suite.specs(), {}
    for spec in specs:
        try:
            require_available(registered_name(spec.env_id))
            _ = spec.digest
        except EngineUnavailableError as error:
            missing[spec.label] = f"{'no hash':{_DIGEST_CHARS}}  {spec.label}: {error}"
    lines = [missing.get(spec.label) or f"{spec.digest}  {spec.label}" for spec in specs]
    return lines if missing else [*lines, f"{suite.digest(specs)}  all of them"]
