"""Boards from Python: `evaluate(agent, worlds)` plays boards like `python -m benchmarks run`."""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from agents.agent import Agent
from agents.callable_agent import NUM_PARALLEL, CallableAgent, ChatFunction, name_of
from agents.registry import AGENTS, require_methods
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_merge import merge
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.cli.run_command import (
    HeadedTable,
    RunOptions,
    board_tables,
    play_missing,
    print_unread,
    tables_text,
)
from benchmarks.models.measures.board_export import load_board
from benchmarks.models.measures.measures import Row, rows
from benchmarks.models.page.board_page import build_page
from benchmarks.models.play.contestants import BATCH, Contestant
from vlm_envs.command_line import EXIT_INTERRUPTED
from vlm_envs.errors import ConfigError
from vlm_envs.splits import SPLITS
from vlm_envs.validation import as_names, require, require_choice, require_positive

if TYPE_CHECKING:
    import pandas as pd

Worlds = str | Iterable[str] | Mapping[str, Mapping[str, Any]]


class SuccessRate(NamedTuple):
    """A success rate with its confidence interval.

    Attributes:
        rate: From 0 to 1; NaN if no episode was completed.
        low: Lower end of the 95% interval.
        high: Upper end.
    """

    rate: float
    low: float
    high: float


class MeasuredBoard(Board):
    """A board with its measures; notebooks display its tables, and `print` writes them as text.

    Args:
        directory: The board's folder.
        agent: The agent whose success rates `success` returns; by default the board's first.

    Raises:
        ConfigError: If the board does not have this agent or has another format.
        MissingRunDataError: If there is no board.
        BrokenRunDataError: If the board cannot be read.
    """

    def __init__(self, directory: str | Path, agent: str = "") -> None:
        super().__init__(directory)
        labels = [entry["label"] for entry in self.record["agents"]]
        self.agent = require_choice("agent", agent or next(iter(labels), ""), labels)

    @property
    def success(self) -> dict[str, SuccessRate]:
        """The agent's success rate by world."""
        return {
            row.world: SuccessRate(row.success if row.num_episodes else math.nan, *row.interval)
            for row in self.rows
            if row.agent == self.agent
        }

    @property
    def rows(self) -> list[Row]:
        """All measures of each agent in each world."""
        return rows(self.lines(), self.record["worlds"])

    def frame(self) -> pd.DataFrame:
        """Returns one row per episode; see `benchmarks.load_board`."""
        return load_board(self.directory)

    def page(self) -> Path:
        """Writes the board's page, which shows every episode, and returns the path of its `index.html`."""
        return build_page(self.directory)

    def save(self, folder: str | Path) -> MeasuredBoard:
        """Copies the board into a new folder, after verifying that no line was changed; see `merge`."""
        return MeasuredBoard(merge([self.directory], Path(folder)).directory, self.agent)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.directory)!r}, agent={self.agent!r})"

    def __str__(self) -> str:
        return tables_text(board_tables(self))

    def _repr_html_(self) -> str:
        return "".join(map(_html, board_tables(self))) + f"<p>{escape(str(self.directory))}</p>"


def _html(table: HeadedTable) -> str:
    heading, lines = table
    names = [name for name in (lines[0] if lines else ()) if any(line[name] for line in lines)]
    cells = [[("th", name) for name in names], *([("td", line[name]) for name in names] for line in lines)]
    body = ("".join(f"<{tag}>{escape(text)}</{tag}>" for tag, text in line) for line in cells)
    return f"<p>{escape(heading)}</p><table>{''.join(f'<tr>{line}</tr>' for line in body)}</table>"


def evaluate(
    agent: str | Agent | ChatFunction,
    worlds: Worlds,
    *,
    episodes: int = 64,
    repeats: int = 1,
    split: str = "test",
    reading: Literal["lenient", "strict"] = "lenient",
    folder: str | Path | None = None,
    name: str = "",
    num_parallel: int | None = None,
    budget_usd: float | None = None,
) -> MeasuredBoard:
    """Plays an agent on levels of worlds and returns the board, like `python -m benchmarks run`.

    Blocks until the last episode is over, even inside a running event loop; inside `asyncio.run`, Ctrl-C takes effect
    only then. Progress is written to stderr.

    A function gets the conversation of the episode so far, in OpenAI's chat format: dictionaries with `role` (`system`,
    `user`, `assistant`) and `content`, a list of `{"type": "text", "text": ...}` and
    `{"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}}`. It returns the text of the response.
    `async` functions are awaited concurrently; others are called in threads. An exception ends the episode as an
    error, which counts in no measure and is retried by the next call.

    Args:
        agent: A name that `--agent` takes, such as `"oracle"`, `"hf:DIR"`, or `"anthropic:MODEL,temperature=0"`; an
            object with the methods of `agents.agent.Agent`; or a function, `async` or not.
        worlds: An id, with arguments as in `--world`; several of them; or a mapping from ids to keyword arguments.
        episodes: Levels of each world; all levels of a world that lists fewer.
        repeats: Episodes on each level.
        split: The split the levels come from.
        reading: How actions are parsed. With `"lenient"`, those of the last complete `<answer>` are executed even if
            the response is out of the format. The board records it.
        folder: The board's folder. An existing board is continued: finished episodes are not played again, and the
            agent and the worlds are added if they are missing. None for a new temporary folder, `board.directory`.
        name: Label of a function or an object on the board. A folder recognizes the agent by this name and its
            qualified name, so a changed function needs a new one.
        num_parallel: Episodes that a function (8 by default) or an object plays concurrently.
        budget_usd: No episode starts after this much is spent on the board.

    Raises:
        ConfigError: If an argument is invalid, a model does not answer, or a function does not return text.
        KeyboardInterrupt: After Ctrl-C; the board keeps finished episodes.
    """
    specs = _world_specs(worlds, split, reading)
    own = () if isinstance(agent, str) else (_contestant(agent, name, num_parallel),)
    if isinstance(agent, str):
        unused = [option for option, value in {"name": name, "num_parallel": num_parallel}.items() if value]
        require(not unused, f"{agent!r} takes settings in its name, such as 'hf:DIR,as=NAME'; leave out {unused}.")
    options = _PythonOptions(
        given=specs,
        agent=(agent,) if isinstance(agent, str) else (),
        episodes=episodes,
        repeats=repeats,
        split=split,
        reading=reading,
        references=False,
        budget_usd=budget_usd,
    )
    with _board_folder(folder) as out:
        run, code = play_missing(options, out, own)
        print_unread(run)
        if code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt(f"Pass folder={str(out)!r} to resume.")
    (player,) = run.contestants
    return MeasuredBoard(out, player.label)


@dataclass(frozen=True, kw_only=True)
class _PythonOptions(RunOptions):
    given: Sequence[WorldSpec]

    def specs(self) -> list[WorldSpec]:
        """Returns the given worlds."""
        return list(self.given)


def _world_specs(worlds: Worlds, split: str, reading: str) -> list[WorldSpec]:
    require_choice("split", split, SPLITS)
    require_choice("reading", reading, ("lenient", "strict"))
    if not isinstance(worlds, Mapping):
        specs = [WorldSpec.parse(text, split, reading) for text in as_names(worlds)]
    else:
        specs = [
            WorldSpec(env_id=env_id, kwargs=dict(kwargs), split=split, reading=reading)
            for env_id, kwargs in worlds.items()
        ]
        for spec in specs:
            spec.check(f"worlds[{spec.env_id!r}]")
    require(bool(specs), "worlds is empty: name at least one, such as 'VLM/FrozenLake-v0'.")
    return specs


def _contestant(agent: Any, name: str, num_parallel: int | None) -> Contestant:
    """Returns an agent or a function from Python as a contestant."""
    if num_parallel is not None:
        require_positive("num_parallel", num_parallel)
    is_agent = hasattr(agent, "respond")
    if not is_agent and not callable(agent):
        raise ConfigError(
            "agent must be a name such as 'oracle' or 'hf:DIR', an object with the methods of agents.agent.Agent, or a "
            f"function from messages to text; got {agent!r}."
        )
    kind = type(agent) if is_agent else agent
    label = name or name_of(kind)
    require(label not in AGENTS, f"The name {label!r} belongs to another agent; choose another one with name=NAME.")
    path = f"{getattr(kind, '__module__', '')}:{getattr(kind, '__qualname__', name_of(kind))}"
    identity = {"name": label, "made_by": path, **getattr(agent, "identity", {})}
    if not is_agent:
        agent = CallableAgent(agent, num_parallel=num_parallel or NUM_PARALLEL)
        return Contestant(label=label, identity=identity, agent=agent, num_parallel=agent.num_parallel)
    require_methods(agent, label)
    return Contestant(
        label=label,
        identity=identity,
        agent=agent,
        num_parallel=getattr(agent, "num_parallel", BATCH) if num_parallel is None else num_parallel,
        stays_open=True,
    )


@contextmanager
def _board_folder(folder: str | Path | None) -> Iterator[Path]:
    """Yields a board's folder; after an error, prints the path of a temporary folder with episodes, or removes it."""
    if folder is not None:
        yield Path(folder)
        return
    out = Path(tempfile.mkdtemp(prefix="board-"))
    try:
        yield out
    except BaseException:
        if (out / "episodes.jsonl").exists():
            print(f"Finished episodes are kept: folder={str(out)!r} continues this board.", file=sys.stderr)
        else:
            shutil.rmtree(out)
        raise
