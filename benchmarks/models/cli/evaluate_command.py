"""Evaluates one agent: `python -m benchmarks evaluate hf:DIR --world VLM/Sokoban-v0 --out boards/NAME`.

It is a board like any other, so that it can be replayed, opened as a page and played on by further agents; what judges
say stands beside success. Of a world that lists its levels, as the user's copy of a benchmark does, every item is
played once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from agents.api.probe import UnreachableModelError, require_reachable
from agents.hf.checkpoint import with_model_in
from agents.registry import require_agent, setting_names
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.cli.rescore_command import EXIT_UNJUDGED, judged_text, rescore
from benchmarks.models.cli.run_command import RunOptions, play_board, print_unread
from benchmarks.models.judged import JudgeOptions
from benchmarks.models.measures.comparisons import grouped_rows, grouped_text, in_modes, modes_text
from benchmarks.models.page.board_page import build_page
from benchmarks.models.play.playing import RunPlan
from vlm_envs.command_line import tell
from vlm_envs.validation import require


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(JudgeOptions):
    """Measure one agent, with what judges say beside its success; run again, it goes on where it stopped.

    Attributes:
        agent: Who plays, as NAME or NAME,SETTING=VALUE,...: hf:DIR, openai:MODEL, ....
        world: What is played, as ID or ID:ARGUMENT=VALUE,...; may be repeated. A benchmark of which you have a copy is
            VLM/ZoomQA-v0:dataset=NAME,folder=DIR.
        modes: Ways in which each world is asked: `ivgr` for its grounded and its textual stream and the four sets of
            views of its test-time workflow. None for the one that the world is given.
        episodes: Levels of each world; if not given, every item of a benchmark, and 256 levels of other worlds.
        repeats: Episodes on each level.
        split: Whose levels; a benchmark is all test.
        reading: How actions are read; see run.
        temperature: Of the agent's responses; 0 takes the likeliest. If not given, the agent's own.
        top_p: Smallest probability mass that is kept; if not given, the agent's own.
        max_tokens: Tokens a response may have; if not given, the agent's own.
        out: The board's folder.
        references: Whether random, lazy and oracle play too.
        budget_usd: Begin nothing more once so much has been spent on this board.
    """

    agent: Annotated[str, Positional, arg(metavar="AGENT")]
    world: UseAppendAction[tuple[str, ...]] = ()
    modes: Literal["ivgr"] | None = None
    episodes: int | None = None
    repeats: int = 1
    split: str = "test"
    reading: Literal["lenient", "strict"] = "lenient"
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    out: Path | None = None
    references: bool = True
    budget_usd: float | None = None

    @property
    def worlds(self) -> tuple[str, ...]:
        """What is played, in each way of asking."""
        return self.world if self.modes is None else in_modes(self.world, self.modes)

    @property
    def sampled_agent(self) -> str:
        """The agent with how its responses are drawn."""
        # Models of one's own call the limit by another name
        limit = "max_new_tokens" if "sampling" in setting_names(self.agent.partition(",")[0]) else "max_tokens"
        drawn = {"temperature": self.temperature, "top_p": self.top_p, limit: self.max_tokens}
        return ",".join([self.agent, *(f"{name}={value}" for name, value in drawn.items() if value is not None)])


@dataclass(frozen=True, kw_only=True)
class _WholePlan(RunPlan):
    """Every item of worlds that list theirs."""

    def num_levels(self, world: WorldSpec) -> int:
        """Returns how many levels of a world are played."""
        return world.num_levels or self.episodes


@dataclass(frozen=True, kw_only=True)
class _Evaluation(RunOptions):
    def plan(self) -> RunPlan:
        """Returns what the board shall hold."""
        plan = super().plan()
        return plan if self.episodes is not None else _WholePlan(**vars(plan))


def run_evaluate(options: EvaluateOptions) -> int:
    """Plays what is missing, judges it, and prints both tables.

    Returns:
        The exit code of `run`; also 1 if the judge does not answer, or verdicts are missing.
    """
    require(bool(options.world), "Name what is played: --world VLM/Sokoban-v0.")
    require_agent(with_model_in(options.agent.partition(",")[0]))
    same = ("episodes", "repeats", "split", "reading", "out", "references", "budget_usd")
    evaluation = _Evaluation(
        agent=(options.sampled_agent,), world=options.worlds, **{name: getattr(options, name) for name in same}
    )
    try:
        require_reachable(options.endpoints(), "Nothing was played.")
    except UnreachableModelError as error:
        tell(error)
        return EXIT_UNJUDGED
    with options.chosen() as judge_for, options.graders() as graders:
        board_run, code = play_board(evaluation)
        assert options.out is not None
        board = Board(options.out)
        rescored = rescore(board, judge_for, options.label, graders=graders, only_new=True)
        build_page(options.out)
    print(f"\n{judged_text(board.episodes())}")
    if grouped := grouped_rows(board.episodes(), board.record["worlds"]):
        print(f"\n{grouped_text(grouped)}")
    if options.modes is not None:
        print(f"\n{modes_text(board.episodes(), options.world, options.modes, options.split)}")
    print_unread(board_run)
    return max(code, rescored.report(options.label))
