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
"""Suffix of an unfinished dataset, so that a folder with its final name is always complete."""


HEADER, BATCHES = "curation.json", "batches"
"""File of a curation's settings, and folder of its batches."""


_FREE = {"output", "device", "batch_size", "probe_endpoints"} | {
    name.removeprefix("judge.") for name in MAY_DIFFER if name.startswith(("judge.verifier.", "judge.endpoint."))
} - {"endpoint.base_url"}
"""Settings that a resumed curation may change."""


_SUMMED = ("num_trivial", "num_lost", "num_broken", "num_rollouts", "num_good_rollouts")
"""Fields of `BatchRecord` that are summed over the batches of a world."""

_FIRST_SEED = 950_000_000
"""First training seed reserved for curation; cold starts and reinforcement learning use others."""


@dataclass(frozen=True, kw_only=True)
class QuestionBatch:
    """Questions of one world.

    Attributes:
        world: Index of the world in the `specs` of the configuration.
        seeds: Reset seed of each question.
        levels: Level of each question if a pool provides them; None if they are sampled by seed.
    """

    world: int
    seeds: tuple[int, ...]
    levels: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.seeds)

    def part(self, places: Sequence[int]) -> QuestionBatch:
        """Returns the questions at some indices."""
        levels = None if self.levels is None else tuple(self.levels[index] for index in places)
        return QuestionBatch(world=self.world, seeds=tuple(self.seeds[index] for index in places), levels=levels)


def questions(config: CurateConfig) -> list[QuestionBatch]:
    """Returns all questions, one `QuestionBatch` per world."""
    return [_questions_of(config, number, spec) for number, spec in enumerate(config.specs)]


def _questions_of(config: CurateConfig, number: int, spec: WorldSpec) -> QuestionBatch:
    count = config.num_samples_of(spec)
    pool = spec.pool
    if pool is not None and counts_decide(config, spec):
        pool = replace(pool, drop_trivial=True)
    levels = None if pool is None else tuple(level.level_id for level in chosen_levels(pool)[:count])
    first = _FIRST_SEED + config.seed * 1_000_003 % 40_000_000
    seeds = split_seeds("train", count if levels is None else len(levels), start=first)
    return QuestionBatch(world=number, seeds=tuple(seeds), levels=levels)


def counts_decide(config: CurateConfig, spec: WorldSpec) -> bool:
    """Returns whether a pool's pass counts, rather than rollouts, decide which questions of a world are trivial.

    The counts are the base model's, from before the curation: questions that it always solves are not asked.
    """
    return (
        config.drop_trivial and spec.pool is not None and any(level.attempts for level in read_levels(spec.pool.file))
    )


def counted_by(spec: WorldSpec) -> frozenset[str]:
    """Returns the agents whose passes the pool of a world records."""
    levels = [] if spec.pool is None else read_levels(spec.pool.file)
    return frozenset(level.agent for level in levels if level.attempts and level.agent is not None)


def num_trivial_by_counts(config: CurateConfig, spec: WorldSpec) -> int:
    """Returns how many levels of a world's pool are dropped as trivial by its pass counts."""
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
    """Yields questions in batches, each of a single world.

    Args:
        asked: All questions, as `questions` returns them.
        size: Maximum number of questions per batch.
        num_done: Number of questions to skip at the start of each world.
        has_enough: Whether a world needs no more questions; called before each batch.
    """
    for of_world in asked:
        for start in range(num_done.get(of_world.world, 0), len(of_world), size):
            if has_enough(of_world.world):
                break
            yield of_world.part(range(start, min(start + size, len(of_world))))


def digest_of(asked: Sequence[QuestionBatch]) -> str:
    """Returns a hash of all questions, because a pool file may change under the same name."""
    facts = [[batch.seeds[:1], len(batch), batch.levels] for batch in asked]
    return hashlib.blake2b(json.dumps(facts).encode("ascii"), digest_size=8).hexdigest()


def num_questions(asked: Sequence[QuestionBatch]) -> int:
    """Returns the number of questions, counting repeats under other settings separately."""
    return sum(map(len, asked))


@dataclass(frozen=True, kw_only=True)
class BatchRecord:
    """Statistics of a batch.

    Attributes:
        world: Index of its world in the `specs` of the configuration.
        num_questions: Number of questions processed.
        asked: Hashes of its questions that were played and not trivial.
        kept: Question hash and reward of each kept row, in order.
        num_trivial: See `WorldYield`, also for the other fields.
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
    """A dataset while it is being made; nothing is written before the first batch.

    Args:
        config: The curation.
        asked: Its questions.

    Attributes:
        directory: Final directory of the dataset.
        batches: Records of the finished batches.

    Raises:
        ConfigError: If the folder has batches of another curation.
    """

    def __init__(self, config: CurateConfig, asked: Sequence[QuestionBatch]) -> None:
        self._config, self._specs = config, config.specs
        self.directory = Path(config.output) / config.name
        self._folder = unfinished_folder(self.directory)
        self._header = {
            "curation": to_json(plain(config)),
            "questions": digest_of(asked),
            "num_questions": [len(batch) for batch in asked],
        }
        require_same_curation(config, asked)
        self.batches: list[BatchRecord] = [
            rebuilt(BatchRecord, parse_object((folder / _NUMBERS).read_bytes(), str(folder / _NUMBERS)))
            for folder in batch_folders(self._folder)
        ]
        self._kept: dict[int, set[str]] = {}
        for record in self.batches:
            self._count(record)

    @property
    def num_questions_done(self) -> int:
        """Number of questions that are finished."""
        return self.num_done.total()

    @property
    def num_done(self) -> Counter[int]:
        """Number of finished questions by index of the world in the `specs` of the configuration."""
        done: Counter[int] = Counter()
        for record in self.batches:
            done[record.world] += record.num_questions
        return done

    @property
    def num_good(self) -> int:
        """Number of good questions so far."""
        return sum(map(len, self._kept.values()))

    def has_enough(self, world: int) -> bool:
        """Returns whether a world has as many good questions as are to be kept."""
        wanted = self._config.num_kept_of(self._specs[world])
        return wanted is not None and len(self._kept.get(world, ())) >= wanted

    def require_enough(self) -> None:
        """Checks that every world has as many good questions as are to be kept.

        Raises:
            ConfigError: If one has fewer, with the yield; written batches stay.
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
                f"keep fewer ({wanted} N): the same call then resumes without playing anything twice."
            )

    def _count(self, record: BatchRecord) -> None:
        self._kept.setdefault(record.world, set()).update(key for key, _ in record.kept)

    @property
    def state(self) -> dict[str, Any]:
        """State of expert and judge after the last batch; empty before the first."""
        if not self.batches:
            return {}
        path = self._batch(len(self.batches) - 1) / _STATE
        return parse_object(path.read_bytes(), str(path))

    def add(self, record: BatchRecord, rollouts: Sequence[Trajectory], state: Mapping[str, Any]) -> None:
        """Writes a batch atomically.

        Args:
            record: Its statistics.
            rollouts: The kept rollouts, in the order of `record.kept`.
            state: State of expert and judge after the batch.
        """
        self._begin()
        whole = self._batch(len(self.batches))
        folder = whole.with_name(f"{whole.name}{UNFINISHED}")
        shutil.rmtree(folder, ignore_errors=True)
        images = ImageStore(folder)
        for rollout in rollouts:
            append_line(folder / _ROWS, episode_record(rollout, [TurnNotes()] * len(rollout.turns), images.save))
        replace_file(folder / _STATE, json.dumps(to_json(state)).encode())
        replace_file(folder / _NUMBERS, json.dumps(to_json(asdict(record))).encode())
        folder.replace(whole)
        if self.batches:
            (self._batch(len(self.batches) - 1) / _STATE).unlink(missing_ok=True)
        self.batches.append(record)
        self._count(record)

    def finish(self) -> Yield:
        """Merges the batches into the final dataset; returns its yield."""
        self._begin()
        made = self._folder / "whole"
        shutil.rmtree(made, ignore_errors=True)  # left by a call that was killed here
        result, best = self._yield(), self._chosen()
        ids: dict[str, None] = {}
        writer = RunWriter(made)
        writer.trajectories(CURATED, [])
        curated = made / "trajectories" / f"{slug(CURATED)}.jsonl"
        for number, record in enumerate(self.batches):
            folder = self._batch(number)
            for index, row in enumerate(read_lines(folder / _ROWS)):
                key, _ = record.kept[index]
                if best.get((record.world, key)) != (number, index):
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
        """Writes the settings, whose counts may have grown; before the first batch, clears leftovers."""
        if not self.batches:
            shutil.rmtree(self._folder, ignore_errors=True)
        replace_file(self._folder / HEADER, json.dumps(self._header).encode())

    def _batch(self, number: int) -> Path:
        return self._folder / BATCHES / f"{number:05d}"

    def _chosen(self) -> dict[tuple[int, str], tuple[int, int]]:
        """Returns batch and row of each kept question's best rollout, by world and question."""
        left = {world: self._config.num_kept_of(spec) for world, spec in enumerate(self._specs)}
        chosen: dict[tuple[int, str], tuple[int, int]] = {}
        for (world, key), location in _best(self.batches).items():
            num_left = left[world]
            if num_left is None or num_left > 0:
                chosen[world, key] = location
                left[world] = None if num_left is None else num_left - 1
        return chosen

    def _yield(self) -> Yield:
        names, specs = self._config.names, self._specs
        return Yield(
            worlds=tuple(
                _of_world(
                    name, [record for record in self.batches if record.world == number], self._config.num_kept_of(spec)
                )
                for number, (name, spec) in enumerate(zip(names, specs, strict=True))
            )
        )


def _best(batches: Sequence[BatchRecord]) -> dict[tuple[int, str], tuple[int, int]]:
    """Returns batch and row of each question's best rollout, the first one on ties, in the order of first appearance.

    A small dataset repeats questions: rollouts of equal questions compete with each other.
    """
    best: dict[tuple[int, str], tuple[float, int, int]] = {}
    for number, record in enumerate(batches):
        for index, (key, reward) in enumerate(record.kept):
            found = best.get((record.world, key))
            if found is None or reward > found[0]:
                best[record.world, key] = (reward, number, index)
    return {key: (number, index) for key, (_, number, index) in best.items()}


def _link(folder: Path, made: Path, name: str) -> None:
    """Adds an image of a batch to the dataset, as a hard link if the file system supports it."""
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
    """Returns the folder of a dataset while it is being made."""
    return directory.with_name(f"{directory.name}{UNFINISHED}")


def has_batches(directory: Path) -> bool:
    """Returns whether a dataset has been started and is not finished."""
    return bool(batch_folders(unfinished_folder(directory)))


def require_same_curation(config: CurateConfig, asked: Sequence[QuestionBatch]) -> None:
    """Checks that unfinished batches belong to this curation.

    With `num_kept`, both `num_kept` and a larger `num_samples` may differ.

    Args:
        config: The curation.
        asked: Its questions.

    Raises:
        ConfigError: If the questions differ, or a setting on which the data depend.
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
            f"{folder} holds part of a dataset that was started with {other}. Use the same settings to resume it, "
            "choose another --name, or remove that folder to start over."
        )


def _free_numbers(was: Mapping[str, Any], now: Mapping[str, Any]) -> Collection[str]:
    """Returns the count settings that may differ: with `num_kept`, the number of questions may grow."""
    if was.get("num_kept") is None or now["num_kept"] is None:
        return ()
    return ("num_kept", "num_samples") if now["num_samples"] >= was["num_samples"] else ("num_kept",)


def _first(asked: Sequence[QuestionBatch], counts: Sequence[int]) -> list[QuestionBatch]:
    """Returns the leading questions of each world, as many as there were when the curation started."""
    numbers = (*counts, *(len(batch) for batch in asked[len(counts) :]))
    return [batch.part(range(min(count, len(batch)))) for batch, count in zip(asked, numbers, strict=False)]


def differences(was: Mapping[str, Any], now: Mapping[str, Any], *, free: Collection[str] = ()) -> Iterator[str]:
    """Yields the changed settings on which the data of a curation depend, with old and new values.

    Args:
        was: The settings with which it was started.
        now: The current settings.
        free: Additional settings that may differ.
    """
    for name in (name for name in now if name in was):
        old, new = flat(was[name], name), flat(now[name], name)
        for key in dict.fromkeys((*new, *old)):
            if key not in _FREE and key not in free and old.get(key) != new.get(key):
                yield f"{key} {json.dumps(old.get(key))}, not {json.dumps(new.get(key))}"


def batch_folders(folder: Path) -> list[Path]:
    """Returns the folders of the complete batches, in order."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return sorted(path for path in (folder / BATCHES).iterdir() if path.name.isdecimal())
    return []
