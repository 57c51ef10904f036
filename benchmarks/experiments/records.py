"""Records of experiments: what one run of a variant and seed reached, each in a JSON file of its own."""

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
    """What a policy solved during a run.

    Attributes:
        iteration: Iterations or steps of its span until then.
        label: Its name in the run.
        world: Its world's name in the run.
        split: `val` or `test`.
        num_successes: Levels solved.
        num_episodes: Levels played.
        reward: Mean of their episodes; None where it is unknown.
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
    """The learning curve of a stage, or of a part of a run that counts its own iterations.

    Attributes:
        stage: Name of the stage's folder, or of the run.
        kind: A curation of data, a cold start's imitation, a fine-tuning (`sft`), or reinforcement learning (`rl`).
        num_iterations: Iterations, or steps of imitation and fine-tuning; 0 for a curation.
        points: Means over some iterations each: `iteration` and the metrics logged.
        evaluations: In the order they were made.
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
    """Outcomes on the test levels of one world; a list has one number per level, and None was not measured.

    Attributes:
        world: Its name in the run.
        env_id: Its id.
        kwargs: Its arguments.
        measure: What a level is measured by: `success`, or one of the world's metrics.
        levels: A short hash of each level's start, in the order of the split; small worlds repeat some. May be empty.
        before: The start.
        after: The trained policy.
        lazy: The best blind script, which never looks at an image.
        expert: The expert that the start imitated.
        blind: The policy, with blank images.
        told_before: The start, with the true state written into its responses.
        told_after: The policy, with the true state written into its responses.
        greedy_before: The start, decoded greedily.
        greedy_after: The policy, decoded greedily.
        looked_before: Whether the start used a tool with success, 1 or 0.
        looked_after: Whether the policy used a tool with success, 1 or 0.
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
    """One run.

    Attributes:
        experiment: Name of the experiment.
        variant: Label of the variant.
        seed: Seed of the run.
        setup: Digest of the training settings and the start's weights, without the seed: records with the same digest
            are seeds of each other. Empty where it is unknown.
        num_parameters: Of the policy; 0 where it is unknown.
        num_iterations: Iterations of reinforcement learning.
        num_episodes: Episodes played for training.
        minutes: Duration of training, without evaluations.
        temperature: Of all evaluations; 0 is greedy.
        worlds: Outcomes on test levels.
        measures: Means over test episodes: what evaluations record, and judges' scores.
        spans: Learning curves.
        made_by: Command, commit, and versions.
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
        """Outcomes on all test levels, world after world."""
        return [outcome for world in self.worlds for outcome in world.after]

    def save(self, results: Path) -> Path:
        """Writes the record to its place in a folder of results, and returns the path."""
        path = record_path(results, self.experiment, self.variant, self.seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(_plain(self), allow_nan=False) + "\n").encode())
        return path

    @classmethod
    def load(cls, path: Path) -> Record:
        """Returns what `save` wrote.

        Raises:
            ConfigError: If the file holds something else.
        """
        try:
            record: Record = rebuilt(cls, json.loads(path.read_text(encoding="utf-8")))
            _require_whole(record)
            return record
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
            raise ConfigError(
                f"{path} is not a record of an experiment ({error!r}). Move it away, and the run is made again."
            ) from error


def record_path(results: Path, experiment: str, variant: str, seed: int) -> Path:
    """Returns where a record is kept."""
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
    told = _without_empty(asdict(record))
    parts = {name: [*map(_without_empty, told[name])] for name in ("worlds", "spans") if name in told}
    return told | parts


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _require_whole(record: Record) -> None:
    """Raises `ValueError` or `TypeError` where a record lacks what tables and figures need."""
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
        raise ValueError(f"there are not as many outcomes as levels in {world}")
    if not all(math.isfinite(outcome) for outcomes in played for outcome in outcomes):
        raise ValueError(f"an outcome in {world} is not a number")
