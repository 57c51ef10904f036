"""Rejudges recorded episodes: `python -m benchmarks rescore BOARD`. Agents are not asked for responses.

The world of each episode is stepped with the recorded responses, so that judges read its current `info`; an episode
that does not replay as recorded is an error. Of a line, only the `scores` of its turns, `judged`, `judge`, `unjudged`,
and its seals are rewritten, and verified rows stay verified.

`unjudged` lists the texts and answers of an episode that have no verdict: the section or measure (`of`), the turn, and
the judge whose earlier score was kept, if any. The next call asks about these alone. If a judge gives no verdict at
all, nothing changes.
"""

from __future__ import annotations

import logging
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from agents.api.probe import UnreachableModelError, require_reachable
from benchmarks.models.board.board import Board, name_of, require_as_written
from benchmarks.models.board.verification import as_recorded, make_recorded
from benchmarks.models.judged import (
    NO_GRADERS,
    EarlierScores,
    Graders,
    JudgedEpisode,
    JudgeOptions,
    Place,
    judge_episodes,
    strata_text,
)
from benchmarks.models.measures.measures import GRADED_MEASURES, rows, success_text
from benchmarks.models.page.board_page import build_page
from judges.turn_rewards import JudgeFor, Section
from vlm_envs.command_line import tell
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record
from vlm_envs.records.replay import play_again
from vlm_envs.terminal_tables import text_table
from vlm_envs.trajectory import Trajectory
from vlm_envs.validation import require

EXIT_UNJUDGED = 1

_BATCH = 64
"""Episodes judged together; their images are in memory at the same time."""


@dataclass(frozen=True, kw_only=True)
class RescoreOptions(JudgeOptions):
    """Rejudge a board's episodes without asking any agent; an interrupted call leaves the board unchanged.

    Attributes:
        board: The board's folder.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]


@dataclass(frozen=True, kw_only=True)
class Rescored:
    """The result of judging a board.

    Attributes:
        num_changed: Episodes whose scores or judge changed.
        num_asked: Texts and answers sent to judges.
        num_unjudged: Of these, those without a verdict.
        reason: Reason for the last missing verdict; empty if unknown.
    """

    num_changed: int
    num_asked: int = 0
    num_unjudged: int = 0
    reason: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether there was no verdict at all, so that nothing was written."""
        return self.num_unjudged == self.num_asked > 0

    def report(self, label: str) -> int:
        """Prints a line about missing verdicts, if any, and returns the exit code."""
        if not self.num_unjudged:
            return 0
        why = f" ({self.reason.rstrip('.')})" if self.reason else ""
        report = (
            f"{label} gave no verdict on any of {self.num_asked:,} texts{why}, so no score was changed."
            if self.is_refused
            else f"{label} gave no verdict on {self.num_unjudged:,} of {self.num_asked:,} texts{why}. Their earlier "
            "scores were kept, if they had any. The same command asks about these texts only."
        )
        sys.stdout.flush()
        print(report, file=sys.stderr)
        return EXIT_UNJUDGED


def run_rescore(options: RescoreOptions) -> int:
    """Rescores a board and prints the judges' results by row; returns 1 if verdicts are missing."""
    board = Board(options.board)
    try:
        require_reachable(options.endpoints(), "No score was changed.")
    except UnreachableModelError as error:
        tell(error)
        return EXIT_UNJUDGED
    with options.chosen() as judge_for, options.graders() as graders:
        rescored = rescore(board, judge_for, options.label, graders=graders)
    if not rescored.is_refused:
        print(judged_text(board.episodes()))
        print(f"{rescored.num_changed} episodes have other scores than before.")
        build_page(options.board)
    return rescored.report(options.label)


def rescore(
    board: Board,
    judge_for: JudgeFor | Mapping[Section, JudgeFor],
    label: str,
    *,
    graders: Graders = NO_GRADERS,
    only_new: bool = False,
) -> Rescored:
    """Replaces the scores of every episode atomically; a killed process leaves the board unchanged.

    If a judge with this label gave no verdict on some texts last time, only these and texts scored by other judges are
    judged.

    Args:
        board: The board.
        judge_for: See `judge_episodes`.
        label: Label of the judge on the board.
        graders: Graders for answers and images.
        only_new: Whether to skip scores by a judge with this label, as judging may cost money.

    Raises:
        ConfigError: If an episode was edited or does not replay as recorded, or its world is not on the board.
        BusyFolderError: If another process is writing to the board.
    """
    with board.writing():
        lines = board.lines()
        require_as_written(board, lines, "nothing was changed")  # lines are resealed, which would hide edits
        resumes = only_new or any(line.get("judge") == label and line.get("unjudged") for line in lines)
        known_judge = label if resumes else None
        rescored = list(lines)
        num_asked = num_unjudged = 0
        reason = ""
        for name, numbers in _to_judge(lines, known_judge).items():
            with closing(_made(board, name)) as world, _quiet():
                for start in range(0, len(numbers), _BATCH):
                    batch = numbers[start : start + _BATCH]
                    episodes = [_again(lines[number], world) for number in batch]
                    earlier = [_earlier_scores(lines[number], known_judge) for number in batch]
                    judged = judge_episodes(episodes, judge_for, earlier)
                    graded = graders.measures(episodes, earlier)
                    for number, before, verdicts, grades in zip(batch, earlier, judged, graded, strict=True):
                        rescored[number] = _with_scores(lines[number], before, verdicts, grades, label)
                        num_asked += verdicts.num_asked + len(grades)
                        num_unjudged += len(rescored[number].get("unjudged", ()))
                        reason = next(iter(verdicts.unjudged.values()), reason)
        if num_unjudged == num_asked > 0:
            rescored = lines
        else:
            board.rewrite(rescored)
    num_changed = sum(_judgment(old) != _judgment(new) for old, new in zip(lines, rescored, strict=True))
    return Rescored(num_changed=num_changed, num_asked=num_asked, num_unjudged=num_unjudged, reason=reason)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the client from logging each missing verdict, as these are counted."""
    logger = logging.getLogger("agents.api.client")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _to_judge(lines: Sequence[Record], known_judge: str | None) -> dict[str, list[int]]:
    """Returns the indices of the lines to judge, by world."""
    by_world: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        is_judged = known_judge is not None and line.get("judge") == known_judge and not line.get("unjudged")
        if not line["error"] and not is_judged:
            by_world[line["world"]].append(number)
    return by_world


def _judgment(line: Record) -> object:
    scores = [turn["scores"] for turn in line.get("turns", ())]
    return line.get("judge"), line.get("judged"), line.get("unjudged"), scores


def _made(board: Board, name: str) -> Any:
    entry = next((world for world in board.record["worlds"] if world["label"] == name), None)
    if entry is None:
        raise ConfigError(f"{board.directory} has episodes in {name}, which its board.json does not list.")
    with as_recorded(board, entry):
        return make_recorded(entry)


def _again(line: Record, world: Any) -> Trajectory:
    """Returns an episode with the world's full `info`; raises `ConfigError` if it differs from the recorded one."""
    episode = play_again(line, world.unwrapped)
    recorded = [line["start_state_hash"], *((turn["state_hash"], turn["reward"]) for turn in line["turns"])]
    require(
        recorded == [episode.start_state_hash, *((turn.info["state_hash"], turn.reward) for turn in episode.turns)],
        f"{name_of(line)} does not replay as recorded, so nothing was changed. To see the differences: python -m "
        "benchmarks replay BOARD",
    )
    return episode


def _earlier_scores(line: Record, known_judge: str | None) -> EarlierScores:
    """Returns an episode's scores; those by the known judge are final."""
    scores: dict[Place, float] = {
        (turn, section): score
        for turn, recorded in enumerate(line["turns"])
        for section, score in recorded["scores"].items()
        if score is not None
    }
    judged = line.get("judged") or {}
    scores |= {(None, name): judged[name] for name in GRADED_MEASURES if judged.get(name) is not None}
    if known_judge is None or line.get("judge") != known_judge:
        return EarlierScores(scores=scores)
    return EarlierScores(scores=scores, final=scores.keys() - _kept_from(line).keys())


def _kept_from(line: Record) -> dict[Place, str]:
    """Returns the places without a verdict, each with the judge whose score was kept there."""
    return {(entry.get("turn"), entry["of"]): entry.get("kept", "") for entry in line.get("unjudged") or ()}


def _with_scores(
    line: Record, earlier: EarlierScores, said: JudgedEpisode, graded: Mapping[str, float | None], label: str
) -> Record:
    """Returns a line with the new scores; earlier scores are kept where there is no new verdict."""
    turns = [turn | {"scores": dict(scores)} for turn, scores in zip(line["turns"], said.scores, strict=True)]
    kept_from = _kept_from(line)
    missing = []
    for turn, name in (*said.unjudged, *((None, name) for name, grade in graded.items() if grade is None)):
        entry = {"of": name} if turn is None else {"of": name, "turn": turn}
        if (turn, name) in earlier.scores:
            entry["kept"] = kept_from.get((turn, name), line.get("judge") or "")
        missing.append(entry)
    measures: dict[str, float] = dict(said.measures)
    for name in GRADED_MEASURES:
        if name in graded or (None, name) in earlier.final:
            grade = graded.get(name)
            value = earlier.scores.get((None, name)) if grade is None else grade
            measures |= {} if value is None else {name: value}
    rest = {name: value for name, value in line.items() if name != "unjudged"}
    return rest | {"turns": turns, "judged": measures, "judge": label} | ({"unjudged": missing} if missing else {})


def judged_text(episodes: Sequence[Record]) -> str:
    """Returns a table of success and judge measures by row; cells of measures that do not apply are empty.

    If a judge scored how much must be magnified, a second table lists the measures by stratum.
    """
    found = sorted(rows(episodes), key=lambda row: (row.world, -row.success, row.agent))
    names = dict.fromkeys(name for row in found for name in row.judged)
    of_rows = text_table(
        [
            {
                "world": row.world,
                "agent": row.agent,
                "success": success_text(row),
                "episodes": str(row.num_episodes),
                **{name: f"{row.judged[name]:.3f}" if name in row.judged else "" for name in names},
                "no verdict": f"{row.num_unjudged:,} of {row.num_asked:,}" if row.num_unjudged else "",
            }
            for row in found
        ]
    )
    return "\n\n".join(filter(None, (of_rows, strata_text(episodes))))
