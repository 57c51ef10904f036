"""Judges recorded episodes anew: `python -m benchmarks rescore BOARD`. Nobody is asked for a response again.

The world of each episode is stepped with the recorded responses, so that judges read what it says today; an episode
that does not go as it was recorded is refused. Of a line, `scores` of its turns, `judged` and `judge` are written anew
and nothing else but the line's own seals: what was shown, said and paid stays as it is, and a row that was verified
stays verified.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from benchmarks.models.board.board import Board
from benchmarks.models.board.lines import ANEW, RowName, broken_seal, follows, row_of
from benchmarks.models.cli.judged_table import judged_text
from benchmarks.models.judged.graders import NO_GRADERS, Graders
from benchmarks.models.judged.judge_choice import JudgeOptions
from benchmarks.models.judged.judged import JudgedEpisode, judge_episodes
from benchmarks.models.page.page import build_page
from judges.turn_rewards.shaping import JudgeFor, Section
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record
from vlm_envs.records.replay import play_again
from vlm_envs.registration import make
from vlm_envs.trajectory import Trajectory

_BATCH = 64
"""Episodes that are judged together; their pictures are in memory at once."""


@dataclass(frozen=True, kw_only=True)
class RescoreOptions(JudgeOptions):
    """Judge a board's episodes anew, without asking any agent again; interrupted, the board stays as it was.

    Attributes:
        board: The board's folder.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]


def run_rescore(options: RescoreOptions) -> None:
    """Rescores a board, and prints what the judges say of its rows."""
    board = Board(options.board)
    with options.chosen() as judge_for, options.graders() as graders:
        num_changed = rescore(board, judge_for, options.label, graders=graders)
    print(judged_text(board.episodes()))
    print(f"{num_changed} episodes have other scores than before.")
    build_page(options.board)


def rescore(
    board: Board,
    judge_for: JudgeFor | Mapping[Section, JudgeFor],
    label: str,
    *,
    graders: Graders = NO_GRADERS,
    only_new: bool = False,
) -> int:
    """Writes the scores of every episode anew, all at once; a kill on the way leaves the board as it was.

    Args:
        board: The board.
        judge_for: As `judge_episodes` takes it.
        label: What the board shall call the judge.
        graders: Who grades answers and pictures.
        only_new: Whether to leave out what a judge of that name has scored already, as judges may cost money.

    Returns:
        How many episodes have other scores, or from another judge, than before.

    Raises:
        ConfigError: If an episode is not as it was written, does not go as it was recorded, or its world is not on the
            board.
        BusyFolderError: If somebody is writing to the board.
    """
    with board.writing():
        lines = board.lines()
        anew = list(lines)
        for name, numbers in _by_world(lines, label if only_new else None).items():
            with closing(_made(board, name)) as world:
                for start in range(0, len(numbers), _BATCH):
                    batch = numbers[start : start + _BATCH]
                    episodes = [_again(lines[number], world) for number in batch]
                    judged = zip(judge_episodes(episodes, judge_for), graders.measures(episodes), strict=True)
                    for number, (said, graded) in zip(batch, judged, strict=True):
                        anew[number] = _with_scores(lines[number], said, graded, label)
        board.rewrite(anew)
    return sum(_judgement(old) != _judgement(new) for old, new in zip(lines, anew, strict=True))


def _by_world(lines: Sequence[Record], known_judge: str | None) -> dict[str, list[int]]:
    """Returns the numbers of the lines to judge, by world; raises `ConfigError` for changed ones.

    Lines are sealed anew when they are written: one that somebody has changed would pass for genuine afterwards.
    """
    by_world: dict[str, list[int]] = defaultdict(list)
    before: dict[RowName, Record] = {}
    for number, line in enumerate(lines):
        if broken_seal(line) is not None:
            raise _refusal(line, "is not as it was written")
        if not follows(line, before.get(row_of(line))):
            raise _refusal(line, f"does not follow the line before it ({ANEW})")
        before[row_of(line)] = line
        if not line["error"] and (known_judge is None or line.get("judge") != known_judge):
            by_world[line["world"]].append(number)
    return by_world


def _refusal(line: Record, fault: str) -> ConfigError:
    where = f"{line['agent']} in {line['world']}, seed {line['seed']}, repeat {line['repeat']}"
    return ConfigError(f"{where} {fault}, so nothing was changed. See what differs: python -m benchmarks replay BOARD")


def _judgement(line: Record) -> object:
    return line.get("judge"), line.get("judged"), [turn["scores"] for turn in line.get("turns", ())]


def _made(board: Board, name: str) -> Any:
    record = next((world for world in board.record["worlds"] if world["label"] == name), None)
    if record is None:
        raise ConfigError(f"{board.directory} has episodes in {name}, which its board.json does not list.")
    kwargs = {name: tuple(value) if isinstance(value, list) else value for name, value in record["kwargs"].items()}
    return make(record["env_id"], **kwargs, split=record["split"], disable_env_checker=True)


def _again(line: Record, world: Any) -> Trajectory:
    """Returns an episode with all that the world says of it; raises `ConfigError` where it is not the recorded one."""
    episode = play_again(line, world.unwrapped)
    recorded = [line["start_state_hash"], *((turn["state_hash"], turn["reward"]) for turn in line["turns"])]
    if recorded != [episode.start_state_hash, *((turn.info["state_hash"], turn.reward) for turn in episode.turns)]:
        raise _refusal(line, "does not go as it was recorded")
    return episode


def _with_scores(line: Record, said: JudgedEpisode, graded: Mapping[str, float], label: str) -> Record:
    turns = [turn | {"scores": dict(scores)} for turn, scores in zip(line["turns"], said.scores, strict=True)]
    return line | {"turns": turns, "judged": {**said.measures, **graded}, "judge": label}
