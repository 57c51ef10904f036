"""Checks of all stages of a run before the first one starts, and of the remaining stages of a resumed run."""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from training.checkpoints.checkpoint_files import (
    LATEST,
    has_checkpoint,
    is_in_cold_start,
    model_directory,
    num_iterations_done,
)
from training.config.processes import print_on_main
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
    StageRun,
    StagesConfig,
    holds_stages,
    in_stage,
    saved_stages,
)
from vlm_envs.errors import VLMEnvsError
from vlm_envs.records.json_lines import RunExistsError, to_json
from vlm_envs.records.run_data import holds_run
from vlm_envs.validation import require


@dataclass(frozen=True, kw_only=True)
class StageToRun:
    """A stage that is not finished.

    Attributes:
        number: Index of the stage, from 0.
        run: Its run.
        resume: Whether it has started and is resumed.
    """

    number: int
    run: StageRun
    resume: bool


def checked_stages(config: StagesConfig, *, resume: bool) -> list[StageToRun]:
    """Returns the stages to run, after checking the requirements of each, and prints notes on settings.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and the run does not exist.
        ConfigError: If a requirement of a stage is missing, an endpoint does not answer, or a started stage has
            changed.
    """
    require_writable(config.directory, config.output)
    finished = _finished(config, resume=resume)
    runs = config.resolved()
    first_start = _first_model(runs)
    to_come: set[str] = set()
    asked: list[AskedEndpoint] = []
    left = []
    for number, (stage, run) in enumerate(zip(config.stages, runs, strict=True)):
        directory = Path(run.output) / run.name
        with in_stage(stage.name, run, (VLMEnvsError, ValueError, OSError)):
            is_begun = has_begun(directory)
            if isinstance(run, CurateConfig):
                if resume and _holds_data(directory):  # a dataset under its final name is complete
                    _require_same_curation(run, directory)
                    continue
                _check_curation(run, first_start)
                _print(stage.name, notes_on(run))
                to_come.add(str(directory))
                ready: StageRun = run
            else:
                if is_begun and isinstance(run, RunConfig):
                    run, _ = without_judges(run)  # as when it started
                if resume and stage.name in finished:
                    if not _is_longer(run, directory):
                        continue
                    _require_last_begun(config, number)
                if is_begun:
                    _require_length(run, directory)
                require_listed(config, number)
                ready = _checked(run, first_start, to_come, resume=is_begun, name=stage.name)
                _print(stage.name, shared_samples(config, number))
            asked += endpoints_of(ready)
            is_resumed = is_begun and not stage.makes_data
            left.append(StageToRun(number=number, run=ready, resume=is_resumed))
    require_answers(asked)
    return left


def has_begun(directory: Path) -> bool:
    """Returns whether a stage has a checkpoint or some data; without them it starts over."""
    has_data = _holds_data(directory) or has_batches(directory)
    return has_checkpoint(directory / LATEST) or is_in_cold_start(directory) or has_data


def _holds_data(directory: Path) -> bool:
    return (directory / "sft.jsonl").is_file()


def is_free(directory: Path) -> bool:
    """Returns whether a directory holds no run, or only a staged run of which no stage has started."""
    if holds_stages(directory):
        folders = {folder.name.removesuffix(UNFINISHED) for folder in directory.iterdir() if folder.is_dir()}
        return not any(has_begun(directory / folder) for folder in folders)
    return not holds_run(directory)


def _finished(config: StagesConfig, *, resume: bool) -> Sequence[str]:
    """Returns the names of finished stages, after checking that started stages are unchanged."""
    if not resume:
        if not is_free(config.directory):
            raise RunExistsError(
                f"{config.directory} already holds a run. Resume it by adding --resume, or choose another --name."
            )
        return ()
    saved, finished = saved_stages(config.directory)
    _require_same_order(config, saved)
    return finished


def _require_same_order(config: StagesConfig, saved: StagesConfig) -> None:
    """Checks that the started stages of a run and their initial models are unchanged."""
    begun = [folder for folder in saved.folders if has_begun(saved.directory / folder)]
    require(
        list(config.folders[: len(begun)]) == list(saved.folders[: len(begun)]),
        f"The run at {config.directory} has started the stages {', '.join(saved.folders[: len(begun)])}, but the "
        f"requested ones are {', '.join(config.folders)}. Name the recipe with which it was started, or another run "
        "with --name.",
    )
    now, then = (_first_model(stages.resolved()) for stages in (config, saved))
    require(
        not begun or now == then,
        f"The run at {config.directory} starts from {then}, not from {now}. Remove --model, or start another run with "
        "--name.",
    )
    for stage, was in zip(config.stages, saved.stages[: len(begun)], strict=False):
        require(
            stage.starts_from == was.starts_from,
            f"Stage {stage.name!r} was started from the {was.starts_from} model of the stage before, not the "
            f"{stage.starts_from}. Remove {stage.option}.starts-from, or start another run with --name.",
        )


def _first_model(runs: Sequence[StageRun]) -> str | None:
    return next(run.model for run in runs if not isinstance(run, CurateConfig))


def _check_curation(run: CurateConfig, first_start: str | None) -> None:
    """Checks a curation; an expert that does not exist yet is replaced by the initial model."""
    kind, _, part = run.expert.partition(":")
    is_of_run = part.startswith(f"{run.output}{os.sep}")
    if kind == "hf" and is_of_run and not _is_model(part):
        run = replace(run, expert=f"hf:{first_start}" if _is_model(first_start) else "oracle")
    require_teachable(run, expert_is_trained=kind in CHECKPOINTS and (part == str(first_start) or is_of_run))


def _require_same_curation(run: CurateConfig, directory: Path) -> None:
    """Checks that a finished curation has the same settings."""
    other = next(differences(saved_settings(directory)["curation"], to_json(plain(run))), None)
    require(
        other is None,
        f"the data at {directory} were curated with {other}. Remove the change, or start another run with --name.",
    )


def _is_longer(run: SFTConfig | RunConfig, directory: Path) -> bool:
    """Returns whether a finished stage is extended, after checking that nothing else has changed."""
    if isinstance(run, RunConfig):
        check_same_run(run, directory)
        lengths = {saved_config(directory).num_iterations, num_iterations_done(directory / LATEST)}
        return lengths != {run.num_iterations}
    check_same_fine_tuning(run, directory)
    saved = saved_fine_tuning(directory)
    return (run.num_steps, run.num_epochs) != (saved.num_steps, saved.num_epochs)


def _require_length(run: SFTConfig | RunConfig, directory: Path) -> None:
    """Checks that a started stage is not to be shorter than it already is."""
    num_done = num_iterations_done(directory / LATEST) or 0
    if isinstance(run, RunConfig):
        check_length(run.num_iterations, num_done)
        return
    num_steps = run.steps([dataset["num_rows"] for dataset in saved_settings(directory)["data_sets"]]).num_steps
    require(
        num_steps >= num_done,
        f"{num_steps} steps are requested, but it has already done {num_done}. Request more with --num-steps or "
        "--num-epochs, or start another run with --name.",
    )


def _require_last_begun(config: StagesConfig, number: int) -> None:
    """Checks that a finished stage is not extended after the next one has started from its model."""
    later = config.folders[number + 1 :]
    require(
        not later or not has_begun(config.directory / later[0]),
        f"it is finished, and {', '.join(later[:1])} has started from its model, so its length is fixed. Remove the "
        "length, or start another run with --name.",
    )


def _checked(
    run: SFTConfig | RunConfig, first_start: str | None, to_come: Container[str], *, resume: bool, name: str
) -> StageRun:
    """Returns a stage's run without unused settings, after checking its requirements, and prints notes.

    A stage whose initial model does not exist yet is checked with that of the first stage, which has the same family.
    """
    is_there = run.model == first_start or resume or _is_model(run.model)
    start = run.model if is_there else first_start
    is_to_come = not is_there and not _is_model(start)
    if isinstance(run, SFTConfig):
        tuned = replace(run, model=start or run.model)
        _print(name, check_fine_tuning(tuned, resume=resume, is_to_come=is_to_come, data_to_come=to_come))
        return run
    is_first = run.model == first_start
    reference = run.reference if resume or is_first or _is_model(run.reference) else None
    start = run.model if start is None else start
    ready, notes = tried(replace(run, model=start, reference=reference), resume=resume, is_to_come=is_to_come)
    _print(name, notes)
    return replace(ready, model=run.model, reference=run.reference)


def _print(name: str, lines: Sequence[str]) -> None:
    print_on_main(f"Stage {name!r}: {line}" for line in lines)


def _is_model(directory: str | None) -> bool:
    if directory is None or directory == STAGE_BEFORE:
        return False
    return (model_directory(directory) / "config.json").is_file()


def require_listed(config: StagesConfig, number: int) -> None:
    """Checks that pools exclude only curations of worlds with sample ids."""
    run = config.stages[number].run
    excluded = {
        name for spec in getattr(run, "worlds", ()) for name in (() if spec.pool is None else spec.pool.exclude)
    }
    for stage in config.stages[:number]:
        if f"{DATA_OF}{stage.name}" not in excluded or not isinstance(stage.run, CurateConfig):
            continue
        for spec in stage.run.specs:
            with spec.made() as world:
                require(
                    hasattr(getattr(world, "dynamics", None), "source"),
                    f"{spec.env_id} of stage {stage.name!r} has no samples with ids, so that a pool cannot exclude "
                    f"{DATA_OF}{stage.name}. Exclude a file of levels.",
                )


def shared_samples(config: StagesConfig, number: int) -> list[str]:
    """Returns one line per earlier curation whose samples a stage may also train on because no pool excludes them."""
    stage, lines = config.stages[number], []
    for curation in config.stages[:number]:
        if not isinstance(stage.run, RunConfig) or not isinstance(curation.run, CurateConfig):
            continue
        data = f"{DATA_OF}{curation.name}"
        shared = {index: spec for index, spec in enumerate(stage.run.worlds) if _may_meet(spec, curation.run, data)}
        if shared:
            index, spec = next(iter(shared.items()))
            option = f"{stage.option}.worlds.{index}.pool"
            drawing = f"{option}.file {curation.name}.jsonl {option}.draw N "
            lines.append(
                f"world{'s' * (len(shared) > 1)} {', '.join(map(str, shared))} may train on samples curated by stage "
                f"{curation.name!r}: both read {spec.kwargs['dataset']} at {spec.kwargs['folder']}, and no pool "
                "excludes them. To exclude them: "
                f"{'' if spec.pool is not None and spec.pool.draw else drawing}{option}.exclude {data}"
            )
    return lines


def _may_meet(spec: WorldSpec, curation: CurateConfig, data: str) -> bool:
    """Returns whether a world may train on samples of a curation, which pools exclude as `data`."""
    own = _data_of(spec)
    pools = [curated.pool for curated in curation.specs if own is not None and _data_of(curated) == own]
    if spec.pool is not None and spec.pool.draw:
        return bool(pools) and data not in spec.pool.exclude
    if not pools or spec.pool is None or None in pools:
        return bool(pools)
    asked = {level.level_id for pool in pools if pool is not None for level in chosen_levels(pool)}
    return any(level.level_id in asked for level in chosen_levels(spec.pool))


def _data_of(spec: WorldSpec) -> tuple[str, Path] | None:
    dataset, folder = spec.kwargs.get("dataset"), spec.kwargs.get("folder")
    return None if None in (dataset, folder) else (str(dataset), Path(str(folder)).expanduser().resolve())
