"""From words on the command line to the configuration of a run of stages.

`--name`, `--output` and `--model` are of the run; `--stages.NAME.OPTION` is OPTION of one stage, as a run of its own
would take it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tyro.conf import FlagCreatePairsOff

from training.config.run_config import RunConfig
from training.config.saved_config import unchecked
from training.curation.curation_command import curation_options
from training.curation.curation_config import CurateConfig
from training.run_options import CURATION_OPTIONS, Recipe, configured, option_value, take_option
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import Stage, StageRun, StagesConfig, in_stage, saved_stages
from vlm_envs.command_line import HELP, HELP_ALL, Program, asks_for_help, option_names, parsed
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.validation import did_you_mean, require

_PREFIX = "--stages."


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What a command line says of a run of stages.

    Attributes:
        name: Name of the run, one part of a path; its stages are folders of `<output>/<name>`.
        output: Directory of all runs.
        model: Checkpoint that the first stage starts from, in place of the recipe's.
        resume: Goes on with the run of this name, in the stage where it stands. Options need not be repeated; those of
            stages that have not begun may be others.
    """

    name: str
    output: str = "runs"
    model: str | None = None
    resume: FlagCreatePairsOff[bool] = False


@dataclass(frozen=True, kw_only=True)
class _Program(Program):
    """A staged run, whose users may mean an option of a stage."""

    stages: tuple[Stage, ...]

    def hint(self, option: str) -> str:
        """Returns the stages' options of this name, or where those of each stage are listed."""
        meant = [f"{stage.option}.{option.removeprefix('--')}" for stage in self.stages if _has(stage.run, option)]
        if meant:
            return f" Did you mean {' or '.join(meant)}?"
        return f" Options of a stage: {', '.join(map(_listing, self.stages))}."


def _has(run: StageRun, option: str) -> bool:
    return any(option in names.values() for names in option_names(type(run), default=run).values())


def stage_options(recipe: Recipe, made: StagesConfig, words: Sequence[str]) -> tuple[StagesConfig, bool]:
    """Returns what a command line makes of a recipe's stages, and whether they go on.

    Raises:
        FileNotFoundError: If they are to go on and are not there.
        ConfigError: If an option is not known, lacks its value or cannot be.
    """
    own, of_stages = split_by_stage(words, made.stages)
    if asks_for_help(own):
        print(stages_told(made))
    resume = "--resume" in own
    default = _saved(made, own) if resume and not asks_for_help(own) else made
    program = _Program(prog=f"python -m training {recipe.words}", description=recipe.description, stages=made.stages)
    start = _Options(name=default.name, output=default.output, model=default.model)
    said = parsed(_Options, own, program, default=start)
    stages = tuple(_with_options(recipe, stage, of_stages[stage.option], resume=resume) for stage in default.stages)
    return StagesConfig(name=said.name, output=said.output, model=said.model, stages=stages), resume


def _listing(stage: Stage) -> str:
    """Returns what lists every option of a stage."""
    return f"{stage.option}.{HELP_ALL.removeprefix('--')}"


def split_by_stage(words: Sequence[str], stages: Sequence[Stage]) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the words of the run, and those of each stage by the prefix of its options.

    Raises:
        ConfigError: If one is of a stage that is not there.
    """
    own: list[str] = []
    of_stages: dict[str, list[str]] = {stage.option: [] for stage in stages}
    known = [option.removeprefix(_PREFIX) for option in of_stages]
    current = own
    for word in words:
        if word.startswith(_PREFIX):
            name, _, option = word.removeprefix(_PREFIX).partition(".")
            name = name.replace("_", "-")
            if name not in known:
                raise ConfigError(
                    f"There is no stage {name!r}; there are {', '.join(known)}.{did_you_mean(name, known)}"
                )
            require(bool(option), f"{word} names no option. Options of this stage: {_PREFIX}{name}.help lists them.")
            current, word = of_stages[_PREFIX + name], f"--{option}"
        elif word.startswith("--") or word in HELP:
            current = own
        current.append(word)
    return own, of_stages


def _saved(made: StagesConfig, own: Sequence[str]) -> StagesConfig:
    """Returns the run that goes on, which has the stages of the recipe that is named."""
    name, output = option_value(own, "--name") or made.name, option_value(own, "--output") or made.output
    directory = Path(output) / name
    saved = replace(saved_stages(directory)[0], name=name, output=output)
    require(
        saved.folders == made.folders,
        f"The run at {directory} has the stages {', '.join(saved.folders)}, and the recipe has "
        f"{', '.join(made.folders)}. Name the recipe it was started with, or another run with --name.",
    )
    return saved


def _with_options(recipe: Recipe, stage: Stage, words: list[str], *, resume: bool) -> Stage:
    """Returns a stage with the command line's changes."""
    if not words:
        return stage
    with in_stage(stage.name, None, (VLMEnvsError,)):
        given = {word.partition("=")[0] for word in words}
        for option in ("--name", "--output", "--model", "--resume"):
            of_stage = f"{stage.option}.{option.removeprefix('--')}"
            require(option not in given, f"{of_stage} is no option: {option} is the whole run's.")
        starts_from, words = take_option(words, "--starts-from")
        reference, words = take_option(words, "--reference")
        changes: dict[str, Any] = {"starts_from": starts_from, "reference": reference}
        run = _configured(recipe, stage, words, resume=resume)
        return replace(stage, run=run, **{name: value for name, value in changes.items() if value is not None})


def _configured(recipe: Recipe, stage: Stage, words: list[str], *, resume: bool) -> StageRun:
    run = stage.run
    prog = f"python -m training {recipe.words} (stage {stage.name})"
    help_all = f"python -m training {recipe.words} {_listing(stage)}"
    if isinstance(run, RunConfig):
        of_stage = replace(recipe, name=f"{recipe.name} (stage {stage.name})", make=lambda: run, help_all=help_all)
        return configured(of_stage, words, run if resume else None)
    if isinstance(run, CurateConfig):
        program = Program(prog=prog, description="A curation.", main_options=CURATION_OPTIONS, help_all=help_all)
        return curation_options(words, program, run)
    # Data sets that are named stand in place of its own
    default = run if option_value(words, "--data") is None else unchecked(run, data=())
    program = Program(prog=prog, description="A fine-tuning.", help_all=help_all)
    return parsed(SFTConfig, words, program, default=default)


def stages_told(config: StagesConfig) -> str:
    """Returns a line for each stage, with the option that lists its options."""
    lines = [f"  {number}. {stage.name}: {_summary(stage.run)}" for number, stage in enumerate(config.stages, start=1)]
    listed = "\n".join(f"  {stage.option}.help" for stage in config.stages)
    return "\n".join(["stages:", *lines, "", "Options of each, without its prefix, are listed by:", listed, ""])


def _summary(run: StageRun) -> str:
    if isinstance(run, SFTConfig):
        return f"fine-tuning on {', '.join(run.data)}"
    specs = run.specs if isinstance(run, CurateConfig) else run.worlds
    worlds = ", ".join(dict.fromkeys(spec.env_id for spec in specs))
    if isinstance(run, CurateConfig):
        return f"{run.num_samples} questions of {worlds}, verified by {run.episode_reward}"
    if run.num_iterations == 0:
        return f"a cold start of {run.cold_start.num_steps} steps in {worlds}"
    return f"{run.algorithm.title} in {worlds}, {run.num_iterations} iterations"
