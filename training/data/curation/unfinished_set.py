"""A data set while it is made: a folder for each batch of questions, whole or not there, and merged in the end.

    <name>.unfinished/
        curation.json        the settings, and a hash of the questions
        batches/00000/       what is kept of the first questions
            batch.json       numbers; which question each row is of, and its reward
            rows.jsonl       the best rollout of each question, where it is good enough
            images/          its pictures
            state.json       where the expert and the judge stand behind it; of the last batch only
    <name>/                  what the batches come to, and levels.jsonl, a pool of the samples that are kept

A batch is written under another name and then renamed, and so is the data set: a kill loses the batch that was under
way, and nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from training.config.curation.curate import CURATED, LEVELS, CurateConfig
from training.config.curation.left import (
    BATCHES,
    HEADER,
    UNFINISHED,
    batch_folders,
    header_of,
    require_same_curation,
    unfinished_folder,
)
from training.config.curation.questions import QuestionBatch
from training.config.saved import rebuilt
from training.data.curation.curated import chat_messages
from training.data.curation.yields import WorldYield, Yield
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record, append_line, parse_object, read_lines, replace_file, to_json
from vlm_envs.records.run_data import ImageStore, RunWriter, TurnNotes, episode_record, slug
from vlm_envs.trajectory import Trajectory
from vlm_envs.validation import field_name

_STATE, _NUMBERS, _ROWS = "state.json", "batch.json", "rows.jsonl"


@dataclass(frozen=True, kw_only=True)
class BatchRecord:
    """The numbers of a batch.

    Attributes:
        world: Place of its world among the `specs` of the configuration.
        num_questions: Questions that it has dealt with.
        asked: What tells its questions apart, of those that were played and not trivial.
        kept: Of each row that is kept, in order, which of these it is of, and its reward.
        num_trivial: As in `WorldYield`, and so are the others.
    """

    world: int
    num_questions: int
    asked: tuple[str, ...] = ()
    kept: tuple[tuple[str, float], ...] = ()
    num_trivial: int = 0
    num_lost: int = 0
    num_broken: int = 0
    num_rollouts: int = 0
    num_good_rollouts: int = 0
    rejections: Mapping[str, int] = field(default_factory=dict)
    broken_rows: tuple[str, ...] = ()


class UnfinishedSet:
    """What there is of a data set that is being made; nothing is written before the first batch.

    Args:
        config: The curation.
        asked: Its questions.

    Attributes:
        directory: Where the data set will be.
        batches: The batches that are done.

    Raises:
        ConfigError: If another curation has left batches there.
    """

    def __init__(self, config: CurateConfig, asked: Sequence[QuestionBatch]) -> None:
        self._config, self._specs = config, config.specs
        self.directory = Path(config.output) / config.name
        self._folder = unfinished_folder(self.directory)
        self._header = header_of(config, asked)
        require_same_curation(config, asked)
        self.batches = [_read_record(each) for each in batch_folders(self._folder)]
        self._kept: dict[int, set[str]] = {}
        for each in self.batches:
            self._count(each)

    @property
    def num_questions_done(self) -> int:
        """How many questions need not be asked again."""
        return self.num_done.total()

    @property
    def num_done(self) -> Counter[int]:
        """The same of each world, by its place among the `specs` of the configuration."""
        done: Counter[int] = Counter()
        for each in self.batches:
            done[each.world] += each.num_questions
        return done

    @property
    def num_good(self) -> int:
        """Questions that are good enough so far."""
        return sum(map(len, self._kept.values()))

    def has_enough(self, world: int) -> bool:
        """Returns whether as many questions of a world are good enough as are to be kept."""
        wanted = self._config.num_kept_of(self._specs[world])
        return wanted is not None and len(self._kept.get(world, ())) >= wanted

    def require_enough(self) -> None:
        """Refuses to be content with fewer questions of a world than are to be kept.

        Raises:
            ConfigError: It says what the yield was; what was played stays.
        """
        for world, spec in enumerate(self._specs):
            if self._config.num_kept_of(spec) is not None and not self.has_enough(world):
                raise ConfigError(self._too_few(world))

    def _too_few(self, world: int) -> str:
        config, spec = self._config, self._specs[world]
        wanted, asked = field_name(config, "num_kept"), field_name(config, "num_samples")
        num_good, num_done = len(self._kept.get(world, ())), self.num_done[world]
        more = f"Ask more ({asked} {2 * config.num_samples})"
        if spec.pool is not None and num_done < config.num_samples_of(spec):
            more = f"Add levels to the end of {spec.pool.file}"
        fewer = f" or keep fewer ({wanted} {int(num_good / spec.weight)})" if num_good >= spec.weight else ""
        return (
            f"{num_good} of {num_done} questions of {config.names[world]} are good enough, and "
            f"{config.num_kept_of(spec)} are to be kept ({wanted} {config.num_kept}).\n{self._yield()}\n{more}{fewer}: "
            "the same call goes on then, and nothing is played twice."
        )

    def _count(self, record: BatchRecord) -> None:
        self._kept.setdefault(record.world, set()).update(key for key, _ in record.kept)

    @property
    def state(self) -> dict[str, Any]:
        """Where expert and judge stood behind the last batch; nothing before the first."""
        if not self.batches:
            return {}
        path = self._batch(len(self.batches) - 1) / _STATE
        return parse_object(path.read_bytes(), str(path))

    def add(self, record: BatchRecord, rollouts: Sequence[Trajectory], state: Mapping[str, Any]) -> None:
        """Writes a batch; it is there, whole, when this returns.

        Args:
            record: Its numbers.
            rollouts: What is kept, as `record.kept` lists it.
            state: Where expert and judge stand now.
        """
        self._begin()
        whole = self._batch(len(self.batches))
        folder = whole.with_name(f"{whole.name}{UNFINISHED}")
        shutil.rmtree(folder, ignore_errors=True)
        images = ImageStore(folder)
        for each in rollouts:
            append_line(folder / _ROWS, episode_record(each, [TurnNotes()] * len(each.turns), images.save))
        replace_file(folder / _STATE, json.dumps(to_json(state)).encode())
        replace_file(folder / _NUMBERS, json.dumps(to_json(asdict(record))).encode())
        folder.replace(whole)
        if self.batches:
            (self._batch(len(self.batches) - 1) / _STATE).unlink(missing_ok=True)
        self.batches.append(record)
        self._count(record)

    def finish(self) -> Yield:
        """Makes the data set of its batches, under its own name; returns what the yield was."""
        self._begin()
        made = self._folder / "whole"
        shutil.rmtree(made, ignore_errors=True)  # what a call left that was killed here
        result, best = self._yield(), self._chosen()
        ids: dict[str, None] = {}
        writer = RunWriter(made)
        writer.trajectories(CURATED, [])
        curated = made / "trajectories" / f"{slug(CURATED)}.jsonl"
        for number, record in enumerate(self.batches):
            folder = self._batch(number)
            for place, row in enumerate(_rows(folder)):
                key, _ = record.kept[place]
                if best.get((record.world, key)) != (number, place):
                    continue
                append_line(curated, row)
                append_line(made / "sft.jsonl", chat_messages(row))
                if (level := row["turns"][0]["state"].get("sample_id")) is not None and level not in ids:
                    ids[level] = None
                    append_line(made / LEVELS, {"id": level})
                for name in _pictures(row):
                    _link(folder, made, name)
        writer.config({"curation": asdict(self._config), "yield": result.record()})
        made.replace(self.directory)
        shutil.rmtree(self._folder, ignore_errors=True)
        return result

    def _begin(self) -> None:
        """Writes the settings down, whose numbers may have grown; what a kill has left before the first batch goes."""
        if not self.batches:
            shutil.rmtree(self._folder, ignore_errors=True)
        replace_file(self._folder / HEADER, json.dumps(self._header).encode())

    def _batch(self, number: int) -> Path:
        return self._folder / BATCHES / f"{number:05d}"

    def _chosen(self) -> dict[tuple[int, str], tuple[int, int]]:
        """Returns batch and row of each question's best rollout, of the first questions that are to be kept."""
        left = {world: self._config.num_kept_of(spec) for world, spec in enumerate(self._specs)}
        chosen: dict[tuple[int, str], tuple[int, int]] = {}
        for (world, key), place in _best(self.batches).items():
            num_left = left[world]
            if num_left is None or num_left > 0:
                chosen[world, key] = place
                left[world] = None if num_left is None else num_left - 1
        return chosen

    def _yield(self) -> Yield:
        names, specs = self._config.names, self._specs
        return Yield(
            worlds=tuple(
                _of_world(name, [each for each in self.batches if each.world == number], self._config.num_kept_of(spec))
                for number, (name, spec) in enumerate(zip(names, specs, strict=True))
            )
        )


def _read_record(folder: Path) -> BatchRecord:
    record: BatchRecord = rebuilt(BatchRecord, parse_object((folder / _NUMBERS).read_bytes(), str(folder / _NUMBERS)))
    return record


def _best(batches: Sequence[BatchRecord]) -> dict[tuple[int, str], tuple[int, int]]:
    """Returns batch and row of each question's best rollout, of equals the first, as questions came to be kept.

    A small data set gives one question more than once: its rollouts belong together.
    """
    best: dict[tuple[int, str], tuple[float, int, int]] = {}
    for number, record in enumerate(batches):
        for place, (key, reward) in enumerate(record.kept):
            found = best.get((record.world, key))
            if found is None or reward > found[0]:
                best[record.world, key] = (reward, number, place)
    return {key: (number, place) for key, (_, number, place) in best.items()}


def _rows(folder: Path) -> list[Record]:
    return read_lines(folder / _ROWS)


def _pictures(row: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names of the pictures that a recorded episode shows."""
    for shown in (*row["turns"], row["final"]):
        yield from shown["images"]


def _link(folder: Path, made: Path, name: str) -> None:
    """Puts a picture of a batch into the data set, without a copy where the file system can."""
    part = Path("images") / name[:2] / f"{name}.png"
    target = made / part
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(folder / part, target)
    except OSError:
        shutil.copyfile(folder / part, target)


def _of_world(name: str, batches: Sequence[BatchRecord], wanted: int | None) -> WorldYield:
    asked = {key for each in batches for key in each.asked}
    num_good = len({key for each in batches for key, _ in each.kept})
    num_kept = num_good if wanted is None else min(num_good, wanted)
    num_trivial = sum(each.num_trivial for each in batches)
    return WorldYield(
        world=name,
        num_samples=len(asked) + num_trivial,
        num_trivial=num_trivial,
        num_lost=sum(each.num_lost for each in batches),
        num_broken=sum(each.num_broken for each in batches),
        num_rollouts=sum(each.num_rollouts for each in batches),
        num_good_rollouts=sum(each.num_good_rollouts for each in batches),
        num_kept=num_kept,
        num_surplus=num_good - num_kept,
        rejections=sum((Counter(each.rejections) for each in batches), Counter[str]()),
        broken_rows=tuple(dict.fromkeys(row for each in batches for row in each.broken_rows)),
    )
