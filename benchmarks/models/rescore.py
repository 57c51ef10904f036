"""Judges recorded episodes anew: `python -m benchmarks rescore BOARD`. Nobody is asked for a response again.

The world of each episode is stepped with the recorded responses, so that judges read what it says today; an episode
that does not go as it was recorded is refused. Of a line, `scores` of its turns, `judged` and `judge` are written anew
and nothing else: what was shown, said and paid stays as it is, and so does what a replay verifies.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional

from benchmarks.models.board import Board
from benchmarks.models.judge_choice import JudgeOptions
from benchmarks.models.judged import JudgedEpisode, judge_episodes
from benchmarks.models.judged_table import judged_text
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

    board: Annotated[Path, Positional]


def run_rescore(options: RescoreOptions) -> None:
    """Rescores a board, and prints what the judges say of its rows."""
    board = Board(options.board)
    with board.writing(), options.chosen() as judge_for:
        num_changed = rescore(board, judge_for, options.label)
    print(judged_text(board.episodes()))
    print(f"{num_changed} episodes have other scores than before.")


def rescore(board: Board, judge_for: JudgeFor | Mapping[Section, JudgeFor], label: str) -> int:
    """Writes the scores of every episode anew, all at once; a kill on the way leaves the board as it was.

    Args:
        board: The board.
        judge_for: As `judge_episodes` takes it.
        label: What the board shall call the judge.

    Returns:
        How many episodes have other scores, or from another judge, than before.

    Raises:
        ConfigError: If an episode does not go as it was recorded, or its world is not on the board.
    """
    lines = board.lines()
    anew = list(lines)
    played = [number for number, line in enumerate(lines) if not line["error"]]
    worlds = {world["label"]: world for world in board.record["worlds"]}
    for name, numbers in itertools.groupby(
        sorted(played, key=lambda each: lines[each]["world"]), lambda each: lines[each]["world"]
    ):
        if name not in worlds:
            raise ConfigError(f"{board.directory} has episodes in {name}, which its board.json does not list.")
        with closing(_made(worlds[name])) as world:
            for batch in _batches(list(numbers), _BATCH):
                episodes = [_again(lines[number], world) for number in batch]
                for number, said in zip(batch, judge_episodes(episodes, judge_for), strict=True):
                    anew[number] = _with_scores(lines[number], said, label)
    board.rewrite(anew)
    return sum(old != new for old, new in zip(lines, anew, strict=True))


def _made(record: Mapping[str, Any]) -> Any:
    kwargs = {name: tuple(value) if isinstance(value, list) else value for name, value in record["kwargs"].items()}
    return make(record["env_id"], **kwargs, split=record["split"], disable_env_checker=True)


def _batches(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    yield from (numbers[start : start + size] for start in range(0, len(numbers), size))


def _again(line: Record, world: Any) -> Trajectory:
    """Returns an episode with all that the world says of it; raises `ConfigError` where it is not the recorded one."""
    episode = play_again(line, world.unwrapped)
    recorded = [line["start_state_hash"], *((turn["state_hash"], turn["reward"]) for turn in line["turns"])]
    if recorded != [episode.start_state_hash, *((turn.info["state_hash"], turn.reward) for turn in episode.turns)]:
        raise ConfigError(
            f"{line['agent']} in {line['world']}, seed {line['seed']}, repeat {line['repeat']} does not go as it was "
            "recorded, so nothing was changed. See what differs: python -m benchmarks replay BOARD"
        )
    return episode


def _with_scores(line: Record, said: JudgedEpisode, label: str) -> Record:
    turns = [turn | {"scores": dict(scores)} for turn, scores in zip(line["turns"], said.scores, strict=True)]
    return line | {"turns": turns, "judged": dict(said.measures), "judge": label}
