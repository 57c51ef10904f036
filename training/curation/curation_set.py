"""A dataset while it is curated: batches of questions, each written completely or not at all, and merged at the end.

    <name>.unfinished/
        curation.json        the settings, and a hash of the questions
        batches/00000/       what is kept of the first questions
            batch.json       numbers; which question each row is of, and its reward
            rows.jsonl       the best rollout of each question, where it is good enough
            images/          its images
            state.json       the state of the expert and the judge after it; of the last batch only
    <name>/                  the merged batches, and levels.jsonl, a pool of the samples that are kept

A batch is written under another name and then renamed, and so is the dataset: a kill loses only the batch in progress.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from training.config.resume import MAY_DIFFER, flat
from training.config.saved_config import plain, rebuilt
from training.config.world_spec import WorldSpec
from training.curation.curated_data import WorldYield, Yield, chat_messages
from training.curation.curation_config import CURATED, LEVELS, CurateConfig
from training.pools.pool_levels import chosen_levels, read_levels
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import append_line, parse_object, read_lines, replace_file, to_json
from vlm_envs.records.run_data import ImageStore, RunWriter, TurnNotes, episode_record, slug
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Trajectory
from vlm_envs.validation import field_name

_STATE, _NUMBERS, _ROWS = "state.json", "batch.json", "rows.jsonl"


UNFINISHED = ".unfinished"
"""Behind the name of a data set that is being made, so that what has its own name is whole."""


HEADER, BATCHES = "curation.json", "batches"
"""The settings of a curation, and the folder of its batches."""


_FREE = {"output", "device", "batch_size", "probe_endpoints"} | {
    name.removeprefix("judge.") for name in MAY_DIFFER if name.startswith(("judge.verifier.", "judge.endpoint."))
} - {"endpoint.base_url"}
"""Settings that a resumed curation may change."""


_SUMMED = ("num_trivial", "num_lost", "num_broken", "num_rollouts", "num_good_rollouts")
"""Numbers of batches that add up to those of their world."""

_FIRST_SEED = 950_000_000
"""Training seeds from here on belong to curation; cold starts and reinforcement learning use others."""


@dataclass(frozen=True, kw_only=True)
class QuestionBatch:
    """Questions of one world.

    Attributes:
        world: The world's place among the `specs` of the configuration.
        seeds: Reset seed of each question.
        levels: Level of each question, where they are a pool's; None where seeds draw them.
    """

    world: int
    seeds: tuple[int, ...]
    levels: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.seeds)

    def part(self, places: Sequence[int]) -> QuestionBatch:
        """Returns some of the questions."""
        levels = None if self.levels is None else tuple(self.levels[place] for place in places)
        return QuestionBatch(world=self.world, seeds=tuple(self.seeds[place] for place in places), levels=levels)


def questions(config: CurateConfig) -> list[QuestionBatch]:
    """Returns all questions of each world."""
    return [_questions_of(config, number, spec) for number, spec in enumerate(config.specs)]


def _questions_of(config: CurateConfig, number: int, spec: WorldSpec) -> QuestionBatch:
    count = config.num_samples_of(spec)
    pool = spec.pool
    if pool is not None and counts_decide(config, spec):
        pool = replace(pool, drop_trivial=True)
    levels = None if pool is None else tuple(each.level_id for each in chosen_levels(pool)[:count])
    first = _FIRST_SEED + config.seed * 1_000_003 % 40_000_000
    seeds = split_seeds("train", count if levels is None else len(levels), start=first)
    return QuestionBatch(world=number, seeds=tuple(seeds), levels=levels)


def counts_decide(config: CurateConfig, spec: WorldSpec) -> bool:
    """Returns whether passes that a world's pool has counted tell which questions are trivial, and no rollout does.

    They are the base model's, of before anything is curated: what it always gets right is not asked at all.
    """
    return config.drop_trivial and spec.pool is not None and any(each.attempts for each in read_levels(spec.pool.file))


def counted_by(spec: WorldSpec) -> frozenset[str]:
    """Returns the agents whose passes a world's pool has counted, where its rows say so."""
    levels = [] if spec.pool is None else read_levels(spec.pool.file)
    return frozenset(each.agent for each in levels if each.attempts and each.agent is not None)


def num_trivial_by_counts(config: CurateConfig, spec: WorldSpec) -> int:
    """Returns how many levels of a world's pool are left out for it."""
    if spec.pool is None or not counts_decide(config, spec):
        return 0
    return len(chosen_levels(spec.pool)) - len(chosen_levels(replace(spec.pool, drop_trivial=True)))


def in_batches(
    asked: Sequence[QuestionBatch],
    size: int,
    *,
    num_done: Mapping[int, int] = MappingProxyType({}),
    has_enough: Callable[[int], bool] = lambda world: False,
) -> Iterator[QuestionBatch]:
    """Yields questions in batches of one world each.

    Args:
        asked: All questions, as `questions` returns them.
        size: Most questions of a batch.
        num_done: How many questions of each world, the first ones, are left out.
        has_enough: Whether no more is to be asked of a world; it is asked before each batch.
    """
    for of_world in asked:
        for start in range(num_done.get(of_world.world, 0), len(of_world), size):
            if has_enough(of_world.world):
                break
            yield of_world.part(range(start, min(start + size, len(of_world))))


def digest_of(asked: Sequence[QuestionBatch]) -> str:
    """Returns a hash of all questions: a pool may be another one under the same name."""
    said = [[each.seeds[:1], len(each), each.levels] for each in asked]
    return hashlib.blake2b(json.dumps(said).encode("ascii"), digest_size=8).hexdigest()


def num_questions(asked: Sequence[QuestionBatch]) -> int:
    """Returns how many questions there are; one that is asked again under another setting is another."""
    return sum(map(len, asked))


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
        self._header = {
            "curation": to_json(plain(config)),
            "questions": digest_of(asked),
            "num_questions": [len(each) for each in asked],
        }
        require_same_curation(config, asked)
        self.batches: list[BatchRecord] = [
            rebuilt(BatchRecord, parse_object((folder / _NUMBERS).read_bytes(), str(folder / _NUMBERS)))
            for folder in batch_folders(self._folder)
        ]
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
        """Refuses to finish with fewer questions of a world than are to be kept.

        Raises:
            ConfigError: With the yield; what was played stays.
        """
        config = self._config
        for world, spec in enumerate(self._specs):
            num_wanted, num_done = config.num_kept_of(spec), self.num_done[world]
            if num_wanted is None or self.has_enough(world):
                continue
            wanted = field_name(config, "num_kept")
            more = f"{field_name(config, 'num_samples')} {2 * config.num_samples}"
            if spec.pool is not None and num_done < config.num_samples_of(spec):
                more = f"Add levels to the end of {spec.pool.file}"
            raise ConfigError(
                f"{len(self._kept.get(world, ()))} of {num_done} questions of {config.names[world]} are good enough, "
                f"and {num_wanted} are to be kept ({wanted} {config.num_kept}).\n{self._yield()}\nAsk more ({more}) or "
                f"keep fewer ({wanted} N): the same call goes on then, and nothing is played twice."
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
            for place, row in enumerate(read_lines(folder / _ROWS)):
                key, _ = record.kept[place]
                if best.get((record.world, key)) != (number, place):
                    continue
                append_line(curated, row)
                append_line(made / "sft.jsonl", chat_messages(row))
                if (level := row["turns"][0]["state"].get("sample_id")) is not None and level not in ids:
                    ids[level] = None
                    append_line(made / LEVELS, {"id": level})
                for shown in (*row["turns"], row["final"]):
                    for name in shown["images"]:
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
    counts: Counter[str] = Counter()
    rejections: Counter[str] = Counter()
    for batch in batches:
        counts.update({field: getattr(batch, field) for field in _SUMMED})
        rejections.update(batch.rejections)
    num_good = len({key for batch in batches for key, _ in batch.kept})
    num_kept = num_good if wanted is None else min(num_good, wanted)
    return WorldYield(
        world=name,
        num_samples=len({key for batch in batches for key in batch.asked}) + counts["num_trivial"],
        num_kept=num_kept,
        num_surplus=num_good - num_kept,
        rejections=rejections,
        broken_rows=tuple(dict.fromkeys(row for batch in batches for row in batch.broken_rows)),
        **counts,
    )


def unfinished_folder(directory: Path) -> Path:
    """Returns where a data set is while it is made."""
    return directory.with_name(f"{directory.name}{UNFINISHED}")


def has_batches(directory: Path) -> bool:
    """Returns whether a data set has been begun and is not whole yet."""
    return bool(batch_folders(unfinished_folder(directory)))


def require_same_curation(config: CurateConfig, asked: Sequence[QuestionBatch]) -> None:
    """Refuses to go on with what another curation has left.

    One that is to keep so many questions may keep another number of them, and ask more.

    Args:
        config: The curation.
        asked: Its questions.

    Raises:
        ConfigError: If a setting on which the data depend is another one, or the questions are.
    """
    directory = Path(config.output) / config.name
    folder = unfinished_folder(directory)
    if not batch_folders(folder):
        return
    was = parse_object((folder / HEADER).read_bytes(), str(folder / HEADER))
    now = to_json(plain(config))
    other = next(differences(was["curation"], now, free=_free_numbers(was["curation"], now)), "")
    if not other and was["questions"] != digest_of(_first(asked, was.get("num_questions", ()))):
        other = "another pool"
    if other:
        raise ConfigError(
            f"{folder} holds a part of a data set that was begun with {other}. Give it the same settings to go on "
            "with it, choose another --name, or remove that folder to begin anew."
        )


def _free_numbers(was: Mapping[str, Any], now: Mapping[str, Any]) -> Collection[str]:
    """Returns which numbers of questions may be others: more may be asked where it is said how many are kept."""
    if was.get("num_kept") is None or now["num_kept"] is None:
        return ()
    return ("num_kept", "num_samples") if now["num_samples"] >= was["num_samples"] else ("num_kept",)


def _first(asked: Sequence[QuestionBatch], counts: Sequence[int]) -> list[QuestionBatch]:
    """Returns the first questions of each world, as many as there were when the curation began."""
    numbers = (*counts, *(len(each) for each in asked[len(counts) :]))
    return [each.part(range(min(count, len(each)))) for each, count in zip(asked, numbers, strict=False)]


def differences(was: Mapping[str, Any], now: Mapping[str, Any], *, free: Collection[str] = ()) -> Iterator[str]:
    """Yields the settings of a curation on which its data depend and that are others now, as they were and are.

    Args:
        was: The settings that it was begun with.
        now: Those of today.
        free: More settings that may be others.
    """
    for name in (name for name in now if name in was):
        old, new = flat(was[name], name), flat(now[name], name)
        for key in dict.fromkeys((*new, *old)):
            if key not in _FREE and key not in free and old.get(key) != new.get(key):
                yield f"{key} {json.dumps(old.get(key))}, not {json.dumps(new.get(key))}"


def batch_folders(folder: Path) -> list[Path]:
    """Returns the folders of the batches that are whole, in order."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return sorted(each for each in (folder / BATCHES).iterdir() if each.name.isdecimal())
    return []
