"""Evaluates one agent: `python -m benchmarks evaluate hf:DIR --world VLM/Sokoban-v0 --out boards/NAME`.

The result is an ordinary board, which can be replayed, viewed as a page, and extended with further agents; judge scores
are shown next to success. For a world that lists its levels, such as the user's copy of a benchmark, every item is
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
    """Measure one agent's success and judge scores; the same command resumes where it stopped.

    Attributes:
        agent: The agent, as NAME or NAME,SETTING=VALUE,...: hf:DIR, openai:MODEL, ....
        world: A world to play, as ID or ID:ARGUMENT=VALUE,...; may be repeated. For a benchmark of which you have a
            copy, use VLM/ZoomQA-v0:dataset=NAME,folder=DIR.
        modes: Prompt modes in which each world is played: `ivgr` for its grounded and textual prompts and the four
            view sets of its test-time workflow. None plays only the mode of the world's arguments.
        episodes: Levels of each world; by default, every item of a benchmark and 256 levels of other worlds.
        repeats: Episodes on each level.
        split: The split the levels come from; benchmarks are all test.
        reading: How actions are parsed; see run.
        temperature: Sampling temperature; 0 is greedy. By default, the agent's own.
        top_p: Nucleus sampling threshold; by default, the agent's own.
        max_tokens: Maximum tokens per response; by default, the agent's own.
        out: The board's folder.
        references: Whether to also play random, lazy, and oracle.
        budget_usd: Start no further episode once this much is spent on this board.
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
        """The worlds to play, once per mode."""
        return self.world if self.modes is None else in_modes(self.world, self.modes)

    @property
    def sampled_agent(self) -> str:
        """The agent with its sampling settings."""
        # Local models use a different name for the limit
        limit = "max_new_tokens" if "sampling" in setting_names(self.agent.partition(",")[0]) else "max_tokens"
        drawn = {"temperature": self.temperature, "top_p": self.top_p, limit: self.max_tokens}
        return ",".join([self.agent, *(f"{name}={value}" for name, value in drawn.items() if value is not None)])


@dataclass(frozen=True, kw_only=True)
class _WholePlan(RunPlan):
    """Plays every item of worlds that list their items."""

    def num_levels(self, world: WorldSpec) -> int:
        """Returns the number of levels to play in a world."""
        return world.num_levels or self.episodes


@dataclass(frozen=True, kw_only=True)
class _Evaluation(RunOptions):
    def plan(self) -> RunPlan:
        """Returns the plan for the board."""
        plan = super().plan()
        return plan if self.episodes is not None else _WholePlan(**vars(plan))


def run_evaluate(options: EvaluateOptions) -> int:
    """Plays missing episodes, judges them, and prints both tables.

    Returns:
        The exit code of `run`; also 1 if the judge does not answer or verdicts are missing.
    """
    require(bool(options.world), "Name a world to play: --world VLM/Sokoban-v0.")
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
