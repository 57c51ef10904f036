"""Records of experiments: the results of one variant and seed, each in its own JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from training.config.saved_config import rebuilt
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import replace_file

Kind: TypeAlias = Literal["curation", "imitation", "sft", "rl"]

_PLAYED = (
    *("before", "after", "lazy", "expert", "blind", "told_before", "told_after"),
    *("greedy_before", "greedy_after", "looked_before", "looked_after"),
)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One evaluation of a policy during a run.

    Attributes:
        iteration: Iterations or steps of its span completed before it.
        label: Its name in the run.
        world: Its world's name in the run.
        split: `val` or `test`.
        num_successes: Levels solved.
        num_episodes: Levels played.
        reward: Mean reward of the episodes; None if unknown.
    """

    iteration: int
    label: str
    world: str
    split: str
    num_successes: int
    num_episodes: int
    reward: float | None = None


@dataclass(frozen=True, kw_only=True)
class Span:
    """The learning curve of a stage, or of a part of a run with its own iteration count.

    Attributes:
        stage: Name of the stage's folder, or of the run.
        kind: A data curation (`curation`), a cold start's imitation (`imitation`), fine-tuning (`sft`), or
            reinforcement learning (`rl`).
        num_iterations: Iterations, or steps of imitation and fine-tuning; 0 for a curation.
        points: Points of the curve, each averaged over some iterations: `iteration` and the logged metrics.
        evaluations: Evaluations in chronological order.
        note: Shown with the figure; may be empty.
    """

    stage: str
    kind: Kind
    num_iterations: int = 0
    points: list[dict[str, float]] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class WorldRecord:
    """Outcomes on the test levels of one world; a list has one number per level, None means not measured.

    Attributes:
        world: Its name in the run.
        env_id: Its id.
        kwargs: Its arguments.
        measure: The outcome measure: `success` or one of the world's metrics.
        levels: Short hashes of the levels' initial states, in split order; small worlds repeat some. May be empty.
        before: The start checkpoint.
        after: The trained policy.
        lazy: The blind-script baseline, which never looks at an image.
        expert: The expert that the start checkpoint imitated.
        blind: The trained policy with blank images.
        told_before: The start checkpoint with the true state written into its responses.
        told_after: The trained policy with the true state written into its responses.
        greedy_before: The start checkpoint, decoded greedily.
        greedy_after: The trained policy, decoded greedily.
        looked_before: Whether the start checkpoint used a tool successfully, 1 or 0.
        looked_after: Whether the trained policy used a tool successfully, 1 or 0.
    """

    world: str
    env_id: str
    measure: str
    after: list[float]
    kwargs: dict[str, Any] = field(default_factory=dict)
    levels: list[str] = field(default_factory=list)
    before: list[float] | None = None
    lazy: list[float] | None = None
    expert: list[float] | None = None
    blind: list[float] | None = None
    told_before: list[float] | None = None
    told_after: list[float] | None = None
    greedy_before: list[float] | None = None
    greedy_after: list[float] | None = None
    looked_before: list[float] | None = None
    looked_after: list[float] | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """The results of one run.

    Attributes:
        experiment: Name of the experiment.
        variant: Label of the variant.
        seed: Seed of the run.
        setup: Digest of the training settings and the start's weights, without the seed: records with equal digests
            differ only in their seeds. Empty if unknown.
        num_parameters: Parameters of the policy; 0 if unknown.
        num_iterations: Iterations of reinforcement learning.
        num_episodes: Training episodes.
        minutes: Duration of training without evaluations.
        temperature: Sampling temperature of all evaluations; 0 is greedy.
        worlds: Outcomes on test levels.
        measures: Means over test episodes of the evaluations' metrics and the judges' scores.
        spans: Learning curves.
        made_by: Command, commit, and package versions.
    """

    experiment: str
    variant: str
    seed: int
    setup: str = ""
    num_parameters: int = 0
    num_iterations: int = 0
    num_episodes: int = 0
    minutes: float = 0.0
    temperature: float = 1.0
    worlds: list[WorldRecord] = field(default_factory=list)
    measures: dict[str, float] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    made_by: dict[str, Any] = field(default_factory=dict)

    @property
    def outcomes(self) -> list[float]:
        """Outcomes on all test levels, concatenated over worlds."""
        return [outcome for world in self.worlds for outcome in world.after]

    def save(self, results: Path) -> Path:
        """Writes the record into a results folder and returns its path."""
        path = record_path(results, self.experiment, self.variant, self.seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(_plain(self), allow_nan=False) + "\n").encode())
        return path

    @classmethod
    def load(cls, path: Path) -> Record:
        """Loads a record written by `save`.

        Raises:
            ConfigError: If the file is not a valid record.
        """
        try:
            record: Record = rebuilt(cls, json.loads(path.read_text(encoding="utf-8")))
            _require_whole(record)
            return record
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
            raise ConfigError(
                f"{path} is not a record of an experiment ({error!r}). Move it away to repeat the run."
            ) from error


def record_path(results: Path, experiment: str, variant: str, seed: int) -> Path:
    """Returns the path of a record."""
    return results / experiment / f"{variant}-{seed}.json"


def load_records(results: Path, experiment: str) -> list[Record]:
    """Returns the records of an experiment, sorted by variant and seed.

    Raises:
        ConfigError: If a file cannot be read.
    """
    records = map(Record.load, (results / experiment).glob("*.json"))
    return sorted(records, key=lambda record: (record.variant, record.seed))


def _plain(record: Record) -> dict[str, Any]:
    """Returns a record as plain data, without fields that are None or empty."""
    fields = _without_empty(asdict(record))
    parts = {name: [*map(_without_empty, fields[name])] for name in ("worlds", "spans") if name in fields}
    return fields | parts


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _require_whole(record: Record) -> None:
    """Raises `ValueError` or `TypeError` if a record lacks fields that tables and figures need."""
    for name, value in {"seed": record.seed, "minutes": record.minutes, "temperature": record.temperature}.items():
        if not math.isfinite(value):
            raise ValueError(f"its {name} is not a number")
    texts = (record.experiment, record.variant, record.setup)
    if not all(isinstance(text, str) for text in texts) or not (record.worlds or record.spans):
        raise ValueError("it lacks an experiment, a variant, or worlds")
    for world in record.worlds:
        if not all(isinstance(text, str) for text in (world.world, world.env_id, world.measure, *world.levels)):
            raise ValueError("a world lacks its name, id, measure, or levels")
        played = [outcomes for name in _PLAYED if (outcomes := getattr(world, name)) is not None]
        _require_outcomes(world.world, len(world.levels or world.after), played)


def _require_outcomes(world: str, num_levels: int, played: Sequence[Sequence[float]]) -> None:
    if not num_levels or {*map(len, played)} != {num_levels}:
        raise ValueError(f"the numbers of outcomes and levels differ in {world}")
    if not all(math.isfinite(outcome) for outcomes in played for outcome in outcomes):
        raise ValueError(f"an outcome in {world} is not a number")
