"""Checks of all stages of a run before the first one begins, and of the remaining stages of a resumed run."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training.checkpoints.checkpoint_files import (
    LATEST,
    has_checkpoint,
    is_in_cold_start,
    model_directory,
    num_iterations_done,
)
from training.config.processes import process_rank
from training.config.resume import check_length, check_same_run, saved_config, saved_settings
from training.config.run_config import RunConfig
from training.config.saved_config import plain, require_writable
from training.config.world_spec import WorldSpec
from training.curation.curation_command import CHECKPOINTS, notes_on, require_teachable
from training.curation.curation_config import CurateConfig
from training.curation.curation_set import UNFINISHED, differences, has_batches
from training.pools.pool_levels import chosen_levels
from training.preflight import tried
from training.preflight_judges import AskedEndpoint, endpoints_of, require_answers, without_judges
from training.sft.sft_command import check_fine_tuning, check_same_fine_tuning, saved_fine_tuning
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import (
    DATA_OF,
    STAGE_BEFORE,
    Stage,
    StageRun,
    StagesConfig,
    holds_stages,
    saved_stages,
)
from vlm_envs.command_line import option_names
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.records.json_lines import RunExistsError, to_json
from vlm_envs.records.run_data import holds_run
from vlm_envs.validation import fields_named, require


@dataclass(frozen=True, kw_only=True)
class StageToRun:
    """A stage that is not finished.

    Attributes:
        number: Its place among all of them, from 0.
        run: What is done.
        resume: Whether it has begun, and goes on.
    """

    number: int
    run: StageRun
    resume: bool


def checked_stages(config: StagesConfig, *, resume: bool) -> list[StageToRun]:
    """Returns the stages that are to be run, after trying what each of them needs, and prints what is left out.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and there is no run.
        ConfigError: If something that a stage needs is not there, a model behind an endpoint that one of them asks does
            not answer, or a stage that has begun is now another.
    """
    require_writable(config.directory, config.output)
    finished = _finished(config, resume=resume)
    runs = config.resolved()
    first_start = next(run.model for run in runs if not isinstance(run, CurateConfig))
    to_come: set[str] = set()
    asked: list[AskedEndpoint] = []
    left = []
    for number, (stage, run) in enumerate(zip(config.stages, runs, strict=True)):
        with _of_stage(stage, run):
            is_begun = has_begun(Path(run.output) / run.name)
            if isinstance(run, CurateConfig):
                if resume and _holds_data(Path(run.output) / run.name):  # what has its name is whole
                    _require_same_curation(run)
                    continue
                _check_curation(run, first_start)
                _tell(stage.name, notes_on(run))
                to_come.add(str(Path(run.output) / run.name))
                asked += endpoints_of(run)
                left.append(StageToRun(number=number, run=run, resume=False))
                continue
            if is_begun and isinstance(run, RunConfig):
                run, _ = without_judges(run)  # as it was when it began
            if resume and stage.name in finished:
                if not _is_longer(run):
                    continue
                _require_last_begun(config, number)
            if is_begun:
                _require_length(run)
            is_first = run.model == first_start
            ready = _checked(run, first_start, to_come, resume=is_begun, is_first=is_first, name=stage.name)
            _tell(stage.name, data_told(config, number))
            asked += endpoints_of(ready)
            left.append(StageToRun(number=number, run=ready, resume=is_begun))
    require_answers(asked)
    return left


def has_begun(directory: Path) -> bool:
    """Returns whether a stage has come to a checkpoint, or some of its data are there; one that has not starts over."""
    has_data = _holds_data(directory) or has_batches(directory)
    return has_checkpoint(directory / LATEST) or is_in_cold_start(directory) or has_data


def _holds_data(directory: Path) -> bool:
    return (directory / "sft.jsonl").is_file()


def is_free(directory: Path) -> bool:
    """Returns whether a run of stages may be written there: nothing is, or one of which no stage has begun."""
    if holds_stages(directory):
        folders = {each.name.removesuffix(UNFINISHED) for each in directory.iterdir() if each.is_dir()}
        return not any(has_begun(directory / each) for each in folders)
    return not holds_run(directory)


def _finished(config: StagesConfig, *, resume: bool) -> Sequence[str]:
    """Returns the names of the stages that are finished, of a run whose begun stages are still the same."""
    if not resume:
        if not is_free(config.directory):
            raise RunExistsError(
                f"{config.directory} already holds a run. Go on with it by adding --resume, or choose another --name."
            )
        return ()
    saved, finished = saved_stages(config.directory)
    _require_same_order(config, saved)
    return finished


def _require_same_order(config: StagesConfig, saved: StagesConfig) -> None:
    """Refuses a run whose begun stages are others now, or begin with another model."""
    begun = [number for number, folder in enumerate(saved.folders) if has_begun(saved.directory / folder)]
    here = config.directory
    if config.folders[: len(begun)] != saved.folders[: len(begun)] or len(config.stages) < len(begun):
        raise ConfigError(
            f"The run at {here} has begun its stages {', '.join(saved.folders[: len(begun)])}, and asked for are "
            f"{', '.join(config.folders)}. Name the recipe it was started with, or another run with --name."
        )
    now, then = (_first_model(each) for each in (config, saved))
    if begun and now != then:
        raise ConfigError(
            f"The run at {here} starts from {then}, not from {now}. Leave --model out, or start another run with "
            "--name."
        )
    for number in begun:
        asked, was = config.stages[number].starts_from, saved.stages[number].starts_from
        require(
            asked == was,
            f"Stage {config.stages[number].name!r} has begun from the {was} model of the stage before, not the "
            f"{asked}. Leave {config.stages[number].option}.starts-from out, or start another run with --name.",
        )


def _first_model(config: StagesConfig) -> str | None:
    return next(run.model for run in config.resolved() if not isinstance(run, CurateConfig))


def _check_curation(run: CurateConfig, first_start: str | None) -> None:
    """Refuses a curation that nobody can teach; an expert that is yet to be made is tried as the first start."""
    kind, _, part = run.expert.partition(":")
    is_to_come = kind == "hf" and part.startswith(f"{run.output}{os.sep}") and not _is_model(part)
    stand_in = f"hf:{first_start}" if _is_model(first_start) else "oracle"
    is_of_stages = kind in CHECKPOINTS and (part == str(first_start) or part.startswith(f"{run.output}{os.sep}"))
    require_teachable(replace(run, expert=stand_in) if is_to_come else run, expert_is_trained=is_of_stages)


def _require_same_curation(run: CurateConfig) -> None:
    """Refuses another curation in place of one whose data are there."""
    directory = Path(run.output) / run.name
    other = next(differences(saved_settings(directory)["curation"], to_json(plain(run))), None)
    require(
        other is None,
        f"the data at {directory} were curated with {other}. Leave that out, or start another run with --name.",
    )


def _is_longer(run: SFTConfig | RunConfig) -> bool:
    """Returns whether a finished stage is to be longer than it was; refuses one that is another in any other way."""
    directory = Path(run.output) / run.name
    saved: SFTConfig | RunConfig
    if isinstance(run, RunConfig):
        check_same_run(run, directory)
        saved = saved_config(directory)
        return run.num_iterations != saved.num_iterations or run.num_iterations != num_iterations_done(
            directory / LATEST
        )
    check_same_fine_tuning(run, directory)
    saved = saved_fine_tuning(directory)
    return (run.num_steps, run.num_epochs) != (saved.num_steps, saved.num_epochs)


def _require_length(run: SFTConfig | RunConfig) -> None:
    """Refuses a stage that has begun and is to be shorter than it is already."""
    directory = Path(run.output) / run.name
    num_done = num_iterations_done(directory / LATEST) or 0
    if isinstance(run, RunConfig):
        check_length(run.num_iterations, num_done)
        return
    num_steps = run.steps([each["num_rows"] for each in saved_settings(directory)["data_sets"]]).num_steps
    require(
        num_steps >= num_done,
        f"there are to be {num_steps} steps, and it has done {num_done} already. Give more with --num-steps or "
        "--num-epochs, or start another run with --name.",
    )


def _require_last_begun(config: StagesConfig, number: int) -> None:
    """Refuses a finished stage of another length if the next one has started from what it made."""
    later = config.folders[number + 1 :]
    if later and has_begun(config.directory / later[0]):
        raise ConfigError(
            f"it is finished, and {later[0]} has started from what it made: how long it lasts cannot change any more. "
            f"Leave its length out, or start another run with --name."
        )


def _checked(
    run: SFTConfig | RunConfig,
    first_start: str | None,
    to_come: Container[str],
    *,
    resume: bool,
    is_first: bool,
    name: str,
) -> StageRun:
    """Returns a stage's run without what it has no use for, after trying what it needs, and prints what that is.

    A stage whose start is yet to be made is tried with what the first one starts from, which is of the same family.
    """
    stand_in = None if is_first or resume or _is_model(run.model) else first_start
    is_to_come = not is_first and not resume and not _is_model(run.model) and not _is_model(stand_in)
    if isinstance(run, SFTConfig):
        started = run if stand_in is None else replace(run, model=stand_in)
        _tell(name, check_fine_tuning(started, resume=resume, is_to_come=is_to_come, data_to_come=to_come))
        return run
    reference = run.reference if resume or _is_model(run.reference) or is_first else None
    tried_with: dict[str, Any] = {"model": run.model if stand_in is None else stand_in, "reference": reference}
    ready, told = tried(replace(run, **tried_with), resume=resume, is_to_come=is_to_come)
    _tell(name, told)
    return replace(ready, model=run.model, reference=run.reference)


def _tell(name: str, lines: Sequence[str]) -> None:
    """Prints what is to be known of a stage; of several processes one does."""
    for line in lines if process_rank() == 0 else ():
        print(f"Stage {name!r}: {line}")


def _is_model(directory: str | None) -> bool:
    if directory is None or directory == STAGE_BEFORE:
        return False
    return (model_directory(directory) / "config.json").is_file()


@contextmanager
def _of_stage(stage: Stage, run: StageRun) -> Iterator[None]:
    """Names the stage, and its options, in what is said of its configuration."""
    try:
        with fields_named(option_names(type(run), f"{stage.option}.")):
            yield
    except (VLMEnvsError, ValueError, OSError) as error:
        raise ConfigError(f"Stage {stage.name!r}: {error}") from error


def data_told(config: StagesConfig, number: int) -> list[str]:
    """Returns a line for each earlier curation of data that a stage reads, too, without a pool that keeps them apart.

    Generated levels are of other seeds than those that are curated, and are told of no more.

    Args:
        config: The stages.
        number: Place of one of them.

    Raises:
        ConfigError: If a pool leaves out what a stage curates of a world without samples, which nobody lists.
    """
    stage = config.stages[number]
    before = [each for each in config.stages[:number] if isinstance(each.run, CurateConfig)]
    _require_listed(stage, before)
    lines = (_told(stage, each) for each in before)
    return [line for line in lines if line]


def _require_listed(stage: Stage, before: Sequence[Stage]) -> None:
    for spec in _worlds(stage):
        for curation in before if spec.pool is not None else ():
            assert spec.pool is not None
            if f"{DATA_OF}{curation.name}" in spec.pool.exclude:
                for curated in _worlds(curation):
                    require(
                        _asks_samples(curated),
                        f"{curated.env_id} of stage {curation.name!r} asks no samples with ids, so that a pool cannot "
                        f"leave out {DATA_OF}{curation.name}. Exclude a file of levels.",
                    )


def _told(stage: Stage, curation: Stage) -> str:
    """Returns what is to be known of a stage that reads the data of a curation; nothing if nothing is."""
    shared = [number for number, spec in enumerate(_worlds(stage)) if _may_meet(spec, curation)]
    if not shared:
        return ""
    first = _worlds(stage)[shared[0]]
    numbers, verb = " and ".join(map(str, shared)), "world" if len(shared) == 1 else "worlds"
    option = f"{stage.option}.worlds.{shared[0]}.pool"
    is_drawn = first.pool is not None and first.pool.draw > 0
    drawing = "" if is_drawn else f"{option}.file {curation.name}.jsonl {option}.draw N "
    return (
        f"{verb} {numbers} may train on samples that stage {curation.name!r} has curated: both read "
        f"{first.kwargs['dataset']} at {first.kwargs['folder']}, and no pool keeps them apart. To leave out what is "
        f"imitated: {drawing}{option}.exclude {DATA_OF}{curation.name}"
        + ", and likewise for the others"
        * (len(shared) > 1)
    )


def _worlds(stage: Stage) -> tuple[WorldSpec, ...]:
    if isinstance(stage.run, CurateConfig):
        return stage.run.specs
    return stage.run.worlds if isinstance(stage.run, RunConfig) else ()


def _may_meet(spec: WorldSpec, curation: Stage) -> bool:
    """Returns whether a world may train on what is curated."""
    curated = [each for each in _worlds(curation) if _data_of(each) is not None and _data_of(each) == _data_of(spec)]
    if not curated:
        return False
    if spec.pool is not None and spec.pool.draw:
        return f"{DATA_OF}{curation.name}" not in spec.pool.exclude
    pools = [each.pool for each in curated]
    if spec.pool is None or None in pools:
        return True
    trained = {level.level_id for level in chosen_levels(spec.pool)}
    asked = {level.level_id for pool in pools if pool is not None for level in chosen_levels(pool)}
    return bool(trained & asked)


def _data_of(spec: WorldSpec) -> tuple[str, Path] | None:
    """Returns the name and the folder of a world's data set, if it has one."""
    dataset, folder = spec.kwargs.get("dataset"), spec.kwargs.get("folder")
    if dataset is None or folder is None:
        return None
    return str(dataset), Path(os.path.expanduser(str(folder))).resolve()


def _asks_samples(spec: WorldSpec) -> bool:
    with spec.made() as world:
        return hasattr(getattr(world, "dynamics", None), "source")
