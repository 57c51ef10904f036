"""Judges recorded episodes again: `python -m benchmarks rescore BOARD`. Agents are not asked for responses.

The world of each episode is stepped with the recorded responses, so that judges read what it says today; an episode
that does not go as it was recorded is refused. Of a line, only the `scores` of its turns, `judged`,
`judge`, `unjudged`, and its seals are rewritten, and a row that was verified stays verified.

`unjudged` lists the texts and answers of an episode that the judge gave no verdict on: what (`of`), the turn, and the
judge whose earlier score was kept, if there was one. They are asked about again, alone, the next time. A judge that
gives no verdict at all changes nothing.
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
from benchmarks.models.board.board import ANEW, Board, RowName, broken_seal, follows, row_of
from benchmarks.models.board.board_spec import with_short_names
from benchmarks.models.board.verification import as_recorded
from benchmarks.models.judged import (
    NO_GRADERS,
    EarlierScores,
    Graders,
    JudgedEpisode,
    JudgeOptions,
    judge_episodes,
    strata_text,
)
from benchmarks.models.measures.measures import GRADED_MEASURES, Row, rows
from benchmarks.models.page.board_page import build_page
from benchmarks.models.text_table import text_table
from judges.turn_rewards import JudgeFor, Section
from vlm_envs.command_line import tell
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record
from vlm_envs.records.replay import play_again
from vlm_envs.registration import make
from vlm_envs.trajectory import Trajectory

EXIT_UNJUDGED = 1

_BATCH = 64
"""Episodes that are judged together; their pictures are in memory at once."""


@dataclass(frozen=True, kw_only=True)
class RescoreOptions(JudgeOptions):
    """Judge a board's episodes again, without asking any agent; if interrupted, the board stays as it was.

    Attributes:
        board: The board's folder.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]


@dataclass(frozen=True, kw_only=True)
class Rescored:
    """What came of judging a board.

    Attributes:
        num_changed: Episodes with other scores, or from another judge, than before.
        num_asked: Texts and answers that judges were asked about.
        num_unjudged: Of these, those without a verdict.
        reason: Why the last of them has none; empty where that is not known.
    """

    num_changed: int
    num_asked: int = 0
    num_unjudged: int = 0
    reason: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether there was no verdict at all, so that nothing was written."""
        return self.num_unjudged == self.num_asked > 0

    def report(self, label: str) -> str:
        """Returns a line about missing verdicts; empty where none is missing."""
        why = f" ({self.reason.rstrip('.')})" if self.reason else ""
        if self.is_refused:
            return f"{label} gave no verdict on any of {self.num_asked:,} texts{why}, so no score was changed."
        if not self.num_unjudged:
            return ""
        return (
            f"{label} gave no verdict on {self.num_unjudged:,} of {self.num_asked:,} texts{why}. Their earlier scores "
            "were kept, if they had any. The same command asks about these texts only."
        )


def run_rescore(options: RescoreOptions) -> int:
    """Rescores a board, and prints what the judges say of its rows; 1 where verdicts are missing."""
    board = Board(options.board)
    try:
        require_reachable(options.endpoints(), "No score was changed.")
    except UnreachableModelError as error:
        tell(error)
        return EXIT_UNJUDGED
    with options.chosen() as judge_for, options.graders() as graders:
        rescored = rescore(board, judge_for, options.label, graders=graders)
    if rescored.is_refused:
        tell(rescored.report(options.label))
        return EXIT_UNJUDGED
    print(judged_text(board.episodes()))
    print(f"{rescored.num_changed} episodes have other scores than before.")
    build_page(options.board)
    return tell_unjudged(rescored, options.label)


def tell_unjudged(rescored: Rescored, label: str) -> int:
    """Prints how many verdicts are missing, and returns the exit code that says so."""
    if report := rescored.report(label):
        sys.stdout.flush()
        print(report, file=sys.stderr)
    return EXIT_UNJUDGED if rescored.num_unjudged else 0


def rescore(
    board: Board,
    judge_for: JudgeFor | Mapping[Section, JudgeFor],
    label: str,
    *,
    graders: Graders = NO_GRADERS,
    only_new: bool = False,
) -> Rescored:
    """Replaces the scores of every episode, all at once; a kill on the way leaves the board as it was.

    Where a judge of that name gave no verdict on some texts the last time, only these are judged, and what another
    judge scored.

    Args:
        board: The board.
        judge_for: As `judge_episodes` takes it.
        label: What the board shall call the judge.
        graders: Who grades answers and pictures.
        only_new: Whether to leave out what a judge of that name has scored already, as judges may cost money.

    Raises:
        ConfigError: If an episode is not as it was written, does not go as it was recorded, or its world is not on the
            board.
        BusyFolderError: If somebody is writing to the board.
    """
    with board.writing():
        lines = board.lines()
        rescored = list(lines)
        resumes = only_new or any(_is_incomplete(line, label) for line in lines)
        num_asked = num_unjudged = 0
        reason = ""
        for name, numbers in _by_world(lines, label if resumes else None).items():
            with closing(_made(board, name)) as world, _quiet():
                for start in range(0, len(numbers), _BATCH):
                    batch = numbers[start : start + _BATCH]
                    episodes = [_again(lines[number], world) for number in batch]
                    scores = [_earlier_scores(lines[number], label if resumes else None) for number in batch]
                    grades = [_known_grades(lines[number], label if resumes else None) for number in batch]
                    judged = judge_episodes(episodes, judge_for, scores)
                    graded = graders.measures(episodes, grades)
                    for number, verdicts, found, earlier in zip(batch, judged, graded, grades, strict=True):
                        rescored[number] = _with_scores(lines[number], verdicts, found, label)
                        num_asked += verdicts.num_asked + len(found.keys() - earlier.keys())
                        num_unjudged += len(rescored[number].get("unjudged", ()))
                        reason = next(iter(verdicts.unjudged.values()), reason)
        found_none = num_unjudged == num_asked > 0
        if not found_none:
            board.rewrite(rescored)
    num_changed = 0 if found_none else sum(map(_differs, lines, rescored))
    return Rescored(num_changed=num_changed, num_asked=num_asked, num_unjudged=num_unjudged, reason=reason)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the client from logging each question without a verdict: they are counted."""
    logger = logging.getLogger("agents.api.client")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _is_incomplete(line: Record, label: str) -> bool:
    return line.get("judge") == label and bool(line.get("unjudged"))


def _by_world(lines: Sequence[Record], known_judge: str | None) -> dict[str, list[int]]:
    """Returns the numbers of the lines to judge, by world; raises `ConfigError` for changed ones.

    Lines are sealed again when they are rewritten, so a changed one would pass for genuine afterwards.
    """
    by_world: dict[str, list[int]] = defaultdict(list)
    before: dict[RowName, Record] = {}
    for number, line in enumerate(lines):
        if broken_seal(line) is not None:
            raise _refusal(line, "is not as it was written")
        if not follows(line, before.get(row_of(line))):
            raise _refusal(line, f"does not follow the line before it ({ANEW})")
        before[row_of(line)] = line
        is_judged = known_judge is not None and line.get("judge") == known_judge and not line.get("unjudged")
        if not line["error"] and not is_judged:
            by_world[line["world"]].append(number)
    return by_world


def _refusal(line: Record, fault: str) -> ConfigError:
    where = f"{line['agent']} in {line['world']}, seed {line['seed']}, repeat {line['repeat']}"
    return ConfigError(f"{where} {fault}, so nothing was changed. See what differs: python -m benchmarks replay BOARD")


def _differs(old: Record, new: Record) -> bool:
    return _judgement(old) != _judgement(new)


def _judgement(line: Record) -> object:
    scores = [turn["scores"] for turn in line.get("turns", ())]
    return line.get("judge"), line.get("judged"), line.get("unjudged"), scores


def _made(board: Board, name: str) -> Any:
    record = next((world for world in board.record["worlds"] if world["label"] == name), None)
    if record is None:
        raise ConfigError(f"{board.directory} has episodes in {name}, which its board.json does not list.")
    kwargs = {name: tuple(value) if isinstance(value, list) else value for name, value in record["kwargs"].items()}
    with as_recorded(board, record):
        return make(record["env_id"], **kwargs, split=record["split"], disable_env_checker=True)


def _again(line: Record, world: Any) -> Trajectory:
    """Returns an episode with all that the world says of it; raises `ConfigError` where it is not the recorded one."""
    episode = play_again(line, world.unwrapped)
    recorded = [line["start_state_hash"], *((turn["state_hash"], turn["reward"]) for turn in line["turns"])]
    if recorded != [episode.start_state_hash, *((turn.info["state_hash"], turn.reward) for turn in episode.turns)]:
        raise _refusal(line, "does not go as it was recorded")
    return episode


def _earlier_scores(line: Record, known_judge: str | None) -> EarlierScores:
    """Returns the scores of an episode's texts; final are those that a known judge gave."""
    scores = {
        (turn, section): score
        for turn, recorded in enumerate(line["turns"])
        for section, score in recorded["scores"].items()
        if score is not None
    }
    if known_judge is None or line.get("judge") != known_judge:
        return EarlierScores(fallback=scores)
    missing = _unjudged(line)
    final = {place: score for place, score in scores.items() if place not in missing}
    return EarlierScores(final=final, fallback=scores)


def _known_grades(line: Record, known_judge: str | None) -> dict[str, float]:
    """Returns the graders' measures of an episode that are not asked for again."""
    if known_judge is None or line.get("judge") != known_judge:
        return {}
    missing, judged = _unjudged(line), line.get("judged") or {}
    return {name: judged[name] for name in GRADED_MEASURES if name in judged and (None, name) not in missing}


def _unjudged(line: Record) -> dict[tuple[int | None, str], Record]:
    """Returns the entries of what has no verdict, by turn and section or by measure."""
    return {(entry.get("turn"), entry["of"]): entry for entry in line.get("unjudged") or ()}


def _with_scores(line: Record, said: JudgedEpisode, graded: Mapping[str, float | None], label: str) -> Record:
    turns = [turn | {"scores": dict(scores)} for turn, scores in zip(line["turns"], said.scores, strict=True)]
    missing = [
        {"of": section, "turn": turn, **_kept(line, (turn, section), line["turns"][turn]["scores"].get(section))}
        for turn, section in said.unjudged
    ]
    old, grades = line.get("judged") or {}, {}
    for name, grade in graded.items():
        if grade is None:
            missing.append({"of": name, **_kept(line, (None, name), old.get(name))})
        if (value := old.get(name) if grade is None else grade) is not None:
            grades[name] = value
    plain = {name: value for name, value in line.items() if name != "unjudged"}
    plain |= {"turns": turns, "judged": {**said.measures, **grades}, "judge": label}
    return plain | ({"unjudged": missing} if missing else {})


def _kept(line: Record, place: tuple[int | None, str], score: float | None) -> Record:
    """Returns which judge gave the score that stays in a place without a verdict; nothing where there is no score."""
    if score is None:
        return {}
    entry = _unjudged(line).get(place)
    return {"kept": str(line.get("judge") or "") if entry is None else entry.get("kept", "")}


_NO_VERDICT = "no verdict"


def judged_text(episodes: Sequence[Record]) -> str:
    """Returns success and judges' measures of every row; a measure that does not apply to it is left empty.

    Where a judge has said how much must be magnified, a second table tells them by stratum.
    """
    episodes = with_short_names(episodes)
    found = rows(episodes)
    names = list(dict.fromkeys(name for row in found for name in row.judged))
    names += [_NO_VERDICT] if any(row.num_unjudged for row in found) else []
    of_rows = text_table(
        [_told(row, names) for row in sorted(found, key=lambda row: (row.world, -row.success, row.agent))]
    )
    return "\n\n".join(filter(None, (of_rows, strata_text(episodes))))


def _told(row: Row, names: Sequence[str]) -> dict[str, str]:
    low, high = row.interval
    success = f"{row.success:.3f} ({low:.3f} to {high:.3f})" if row.num_episodes else "–"
    told = {"world": row.world, "agent": row.agent, "success": success, "episodes": str(row.num_episodes)}
    told |= {name: f"{row.judged[name]:.3f}" if name in row.judged else "" for name in names if name != _NO_VERDICT}
    if _NO_VERDICT in names:
        told[_NO_VERDICT] = f"{row.num_unjudged:,} of {row.num_asked:,}" if row.num_unjudged else ""
    return told
