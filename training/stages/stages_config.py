"""A staged run: curations, fine-tunings, and reinforcement learning in turn, and the file that records its progress."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from training.config.resume import run_of
from training.config.run_config import ADAPTED, RunConfig
from training.config.saved_config import plain, rebuilt, require_name
from training.config.world_spec import WorldSpec
from training.curation.curation_config import LEVELS, CurateConfig
from training.sft.sft_config import SFTConfig
from vlm_envs.adapter.stored import stored_arguments
from vlm_envs.command_line import option_names
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import parse_object, replace_file
from vlm_envs.records.run_data import STAGES
from vlm_envs.validation import field_name, fields_named, require, require_choice

STAGE_BEFORE = "stage before"
"""Value of `model` in stages after the first, which start from the model of the stage before."""

DATA_OF = "stage:"
"""Prefix of data from an earlier curation, as in `stage:rollouts`; also allowed in the `exclude` of a pool, to
exclude the samples that the curation keeps."""

StageRun: TypeAlias = CurateConfig | SFTConfig | RunConfig
StageReference: TypeAlias = Literal["reset", "kept"]
StageStart: TypeAlias = Literal["latest", "best"]

EXPERT_BEFORE = f"hf:{STAGE_BEFORE}"
"""Value of `expert` in a curation that the model of the stage before plays."""

_KINDS = {"curation": CurateConfig, "sft": SFTConfig, "rl": RunConfig}
"""Types of runs by their names in records."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage: a run, and its relation to the stage before.

    Attributes:
        name: Name of the stage, used in its folder and in options: `--stages.NAME.OPTION`.
        run: Run of the stage; the staged run sets its `name`, its `output`, and, after the first stage that trains,
            its `model`. A later fine-tuning refers to the data of a curation as `stage:NAME`; with the expert
            `hf:stage before`, the model of the stage before plays.
        starts_from: The model of the stage before to start from: the last one (`latest`), or the one with most
            validation success (`best`).
        reference: Reference policy of the KL penalty: the stage's initial model (`reset`), or the initial model of
            the first reinforcement learning stage (`kept`).
    """

    name: str
    run: StageRun
    starts_from: StageStart = "latest"
    reference: StageReference = "reset"

    def __post_init__(self) -> None:
        require(
            _NAME.fullmatch(self.name) is not None,
            f"A stage's name must consist of letters, digits, -, and _, such as sft; got {self.name!r}.",
        )
        require(
            isinstance(self.run, StageRun),
            f"Stage {self.name!r}: its run must be a CurateConfig, an SFTConfig, or a RunConfig; got "
            f"{type(self.run).__name__}.",
        )
        require_choice(f"Stage {self.name!r}: starts_from", self.starts_from, ("latest", "best"))
        require_choice(f"Stage {self.name!r}: reference", self.reference, ("reset", "kept"))

    @property
    def option(self) -> str:
        """Prefix of the stage's options."""
        return f"--stages.{self.name.replace('_', '-')}"

    @property
    def makes_data(self) -> bool:
        """Whether it is a curation, which trains no model."""
        return isinstance(self.run, CurateConfig)

    @property
    def kind(self) -> str:
        """Name of its type in records."""
        return next(name for name, kind in _KINDS.items() if isinstance(self.run, kind))


@dataclass(frozen=True, kw_only=True)
class StagesConfig:
    """A staged run. Each stage is an ordinary run with its own optimizer, in `<output>/<name>/<n>-<stage>`.

    Attributes:
        name: Name of the run, a single path component; its files are written to `<output>/<name>`.
        output: Parent directory of all runs.
        model: Initial checkpoint of the first stage; None for the one in the stage's run.
        stages: The stages, in order.
    """

    name: str
    stages: tuple[Stage, ...]
    output: str = "runs"
    model: str | None = None

    def __post_init__(self) -> None:
        require_name(self)
        require(bool(self.stages), "A staged run must have at least one stage.")
        names = [stage.option for stage in self.stages]
        twice = next((stage.name for stage in self.stages if names.count(stage.option) > 1), None)
        require(twice is None, f"Two stages are named {twice!r}. Rename one of them.")
        self._require_starts()
        self._require_references()
        self._require_data()
        first = self.stages.index(self._trained[0])
        object.__setattr__(self, "stages", (*self.stages[: first + 1], *map(_following, self.stages[first + 1 :])))
        self.resolved()

    def _require_starts(self) -> None:
        trained = self._trained
        require(bool(trained), "A staged run must train a model: add a fine-tuning or reinforcement learning.")
        first = trained[0]
        require(
            self.model is not None or _model_of(first) not in ("", STAGE_BEFORE),
            f"Stage {first.name!r} is the first, so there is no model before it to start from. Name a checkpoint: "
            f"{field_name(self, 'model')} DIR.",
        )
        require(
            first.starts_from == "latest",
            f"Stage {first.name!r} is the first, so there is no best model to start from. Remove starts_from.",
        )
        for before, stage in itertools.pairwise(trained):
            require(
                _model_of(stage) in (None, "", STAGE_BEFORE),
                f"Stage {stage.name!r} names its own checkpoint, {_model_of(stage)}, but starts from the model of "
                f"{before.name!r}. Remove its model (STAGE_BEFORE in an SFTConfig), or make it the first stage of "
                "another run.",
            )
            keeps_best = isinstance(before.run, RunConfig) and before.run.eval_every * before.run.num_val_episodes > 0
            require(
                stage.starts_from == "latest" or keeps_best,
                f"Stage {stage.name!r} starts from the best model of {before.name!r} on validation levels, but that "
                f"stage keeps none. Let it evaluate ({before.option}.eval-every 10, with --num-val-episodes above 0; "
                "reinforcement learning only), or start from its last model (starts_from latest).",
            )

    def _require_data(self) -> None:
        """Checks that references to the data of other stages name earlier curations."""
        for number, stage in enumerate(self.stages):
            made = [earlier.name for earlier in self.stages[:number] if earlier.makes_data]
            there = f"no earlier stage curates data of that name (earlier curations: {', '.join(made) or 'none'})"
            sources = stage.run.sources if isinstance(stage.run, SFTConfig) else ()
            for name in _data_of([source.path for source in sources]):
                require(
                    name in made,
                    f"Stage {stage.name!r} trains on {DATA_OF}{name}, but {there}. Move the curation before it, or "
                    "name a directory.",
                )
            for index, spec in enumerate(stage.run.worlds if isinstance(stage.run, RunConfig) else ()):
                option = f"{stage.option}.worlds.{index}.pool"
                for name in () if spec.pool is None else _data_of(spec.pool.exclude):
                    excluded = f"Stage {stage.name!r}: {option}.exclude {DATA_OF}{name}"
                    require(name in made, f"{excluded}: {there}. Name another, or a file of ids.")
                    require(
                        spec.pool is not None and spec.pool.draw > 0,
                        f"{excluded} is known only after that stage, so the run must draw the pool. Use {option}.draw "
                        "256, or exclude a file of ids.",
                    )
            if isinstance(stage.run, CurateConfig):
                require(
                    (stage.starts_from, stage.reference) == ("latest", "reset"),
                    f"Stage {stage.name!r} is a curation and trains no model: remove starts_from and reference.",
                )
                require(
                    stage.run.expert != EXPERT_BEFORE or self._start_of(number) is not None,
                    f"Stage {stage.name!r} is played by the model of the stage before, but there is no checkpoint "
                    f"yet. Name one: {field_name(self, 'model')} DIR, or another expert.",
                )

    def _require_references(self) -> None:
        is_first, moved_tower = True, None
        for stage in self._trained:
            assert not isinstance(stage.run, CurateConfig)
            freezes = stage.run.memory.freeze_vision_tower
            require(
                stage.reference == "reset" or isinstance(stage.run, RunConfig),
                f"Stage {stage.name!r} is supervised and has no reference policy. Remove its reference.",
            )
            if stage.reference == "kept" and isinstance(stage.run, RunConfig):
                require(
                    moved_tower is None or not freezes,
                    f"Stage {stage.name!r} freezes the vision tower, which its policy and its reference share, but "
                    f"keeps a reference from before {moved_tower!r}, which trains the tower. Use reference reset, or "
                    f"also freeze it there: --stages.{moved_tower}.memory.freeze-vision-tower.",
                )
                require(
                    not is_first,
                    f"Stage {stage.name!r} is the first of reinforcement learning, so there is no reference to keep. "
                    "Use reference reset, the stage's initial model.",
                )
                require(
                    stage.run.reference is None,
                    f"Stage {stage.name!r} keeps the reference of an earlier stage, but also names its own. Remove "
                    "one of them.",
                )
            is_first = is_first and not isinstance(stage.run, RunConfig)
            if not is_first and not freezes and stage.run.lora.rank is None:
                moved_tower = moved_tower or stage.name

    @property
    def directory(self) -> Path:
        """Directory of the run."""
        return Path(self.output) / self.name

    @property
    def folders(self) -> tuple[str, ...]:
        """Names of the stages' folders within the run's directory."""
        return tuple(f"{number}-{stage.name}" for number, stage in enumerate(self.stages, start=1))

    @property
    def env_ids(self) -> tuple[str, ...]:
        """The worlds of all stages."""
        runs = (stage.run for stage in self.stages)
        specs = (run.specs if isinstance(run, CurateConfig) else getattr(run, "worlds", ()) for run in runs)
        return tuple(dict.fromkeys(spec.env_id for spec in itertools.chain.from_iterable(specs)))

    @property
    def _trained(self) -> tuple[Stage, ...]:
        """The stages that train a model."""
        return tuple(stage for stage in self.stages if not stage.makes_data)

    @property
    def last_model(self) -> Path:
        """Directory of the run's final model."""
        return self._folder_of(self._trained[-1].name) / "latest" / "model"

    def _folder_of(self, name: str) -> Path:
        folders = dict(zip((stage.name for stage in self.stages), self.folders, strict=True))
        return self.directory / folders[name]

    def resolved(self) -> tuple[StageRun, ...]:
        """Returns the complete runs of the stages, with outputs, initial models, and references.

        Raises:
            ConfigError: If a run is not valid.
        """
        runs = []
        for number, stage in enumerate(self.stages):
            with in_stage(stage.name, None):
                runs.append(self._resolved(number, stage))
        return tuple(runs)

    def _resolved(self, number: int, stage: Stage) -> StageRun:
        location: dict[str, Any] = {"output": str(self.directory), "name": self.folders[number]}
        start, run = self._start_of(number), stage.run
        if isinstance(run, CurateConfig):
            return replace(run, expert=f"hf:{start}" if run.expert == EXPERT_BEFORE else run.expert, **location)
        if isinstance(run, SFTConfig):
            data = (
                f"{self._folder_of(source.path.removeprefix(DATA_OF))}={source.weight:g}"
                if source.path.startswith(DATA_OF)
                else text
                for text, source in zip(run.data, run.sources, strict=True)
            )
            return replace(run, model=str(start), data=tuple(data), **location)
        kept = str(self._kept_reference()) if stage.reference == "kept" else run.reference
        worlds = tuple(map(self._without_curated, run.worlds))
        return replace(run, model=None if start is None else str(start), reference=kept, worlds=worlds, **location)

    def _without_curated(self, spec: WorldSpec) -> WorldSpec:
        """Returns a world whose pool excludes files of ids in place of `stage:NAME`."""
        if spec.pool is None:
            return spec
        exclude = (
            str(self._folder_of(file.removeprefix(DATA_OF)) / LEVELS) if file.startswith(DATA_OF) else file
            for file in spec.pool.exclude
        )
        return replace(spec, pool=replace(spec.pool, exclude=tuple(exclude)))

    def _start_of(self, number: int) -> str | Path | None:
        """Returns the initial checkpoint of a stage; None for its own cold start."""
        before = [stage for stage in self.stages[:number] if not stage.makes_data]
        if not before:
            return _model_of(self._trained[0]) if self.model is None else self.model
        return self._folder_of(before[-1].name) / self.stages[number].starts_from / "model"

    def _kept_reference(self) -> str | Path:
        """Returns the initial checkpoint of the first reinforcement learning stage."""
        number, first = next((n, stage) for n, stage in enumerate(self.stages) if isinstance(stage.run, RunConfig))
        return self._start_of(number) or self._folder_of(first.name) / "cold_start"

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration as plain data."""
        stages = [
            {
                "name": stage.name,
                "kind": stage.kind,
                "starts_from": stage.starts_from,
                "reference": stage.reference,
                "run": _saved(stage.run),
            }
            for stage in self.stages
        ]
        found = {env_id: stored_arguments(env_id, self.directory) for env_id in self.env_ids}
        adapted = {env_id: stored for env_id, stored in found.items() if stored is not None}
        saved = {"name": self.name, "output": self.output, "model": self.model, "stages": stages}
        return saved | ({ADAPTED: adapted} if adapted else {})


@contextmanager
def in_stage(
    name: str, run: StageRun | None, errors: tuple[type[Exception], ...] = (ConfigError,), *, advice: str = ""
) -> Iterator[None]:
    """Adds the name of a stage to errors within the block, and option names if its run is given.

    Args:
        name: Name of the stage.
        run: Its run, whose fields errors name as options; None for no option names.
        errors: Types of errors to convert to `ConfigError`.
        advice: A sentence to append.
    """
    options = {} if run is None else option_names(type(run), f"--stages.{name.replace('_', '-')}.")
    try:
        with fields_named(options):
            yield
    except errors as error:
        raise ConfigError(f"Stage {name!r}: {error}{advice}") from error


def _saved(run: StageRun) -> dict[str, Any]:
    """Returns the run of a stage as plain data; adapted worlds are recorded for all stages together."""
    if isinstance(run, RunConfig):
        return run.to_dict() | {"worlds": plain(run.worlds)}
    saved: dict[str, Any] = plain(run)
    return saved


def _model_of(stage: Stage) -> str | None:
    """Returns the `model` of a stage's run."""
    return None if isinstance(stage.run, CurateConfig) else stage.run.model


def _data_of(files: Sequence[str]) -> list[str]:
    """Returns the names of stages in a list of files."""
    return [file.removeprefix(DATA_OF) for file in files if file.startswith(DATA_OF)]


def _following(stage: Stage) -> Stage:
    """Returns a stage after the first, with `STAGE_BEFORE` as its model."""
    if isinstance(stage.run, CurateConfig):
        return stage
    return replace(stage, run=replace(stage.run, model=STAGE_BEFORE))


def save_stages(config: StagesConfig, finished: Sequence[str]) -> None:
    """Writes the settings of a staged run and the names of finished stages, replacing an earlier record."""
    text = json.dumps({**config.to_dict(), "finished": [*finished]}, indent=2) + "\n"
    replace_file(config.directory / STAGES, text.encode(), sync=True)


def holds_stages(directory: Path) -> bool:
    """Returns whether a directory holds a staged run."""
    return (directory / STAGES).is_file()


def saved_stages(directory: Path) -> tuple[StagesConfig, list[str]]:
    """Returns the settings of a staged run, and the names of finished stages.

    Raises:
        FileNotFoundError: If the run does not exist.
        BrokenRunDataError: If its file cannot be read.
        ConfigError: If its settings are no longer valid.
    """
    path = directory / STAGES
    if not path.is_file():
        raise FileNotFoundError(
            f"No staged run at {directory}: expected a file {STAGES}. Start it without --resume, or name the run to "
            "resume with --name and --output."
        )
    saved = parse_object(path.read_bytes(), str(path))
    config = StagesConfig(
        name=saved["name"],
        output=saved["output"],
        model=saved["model"],
        stages=tuple(
            Stage(
                name=record["name"],
                starts_from=record["starts_from"],
                reference=record["reference"],
                run=_run_of(record["kind"], record["run"]),
            )
            for record in saved["stages"]
        ),
    )
    return config, list(saved["finished"])


def _run_of(kind: str, saved: dict[str, Any]) -> StageRun:
    if kind == "rl":
        return run_of(saved)
    run: StageRun = rebuilt(_KINDS[kind], saved)
    return run
