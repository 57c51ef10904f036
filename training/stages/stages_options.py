"""Command line options of staged runs.

`--name`, `--output`, and `--model` belong to the run; `--stages.NAME.OPTION` is an option of one stage, as in a run
of its own.
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
    """Options of a staged run.

    Attributes:
        name: Name of the run, a single path component; its stages are folders of `<output>/<name>`.
        output: Parent directory of all runs.
        model: Initial checkpoint of the first stage, in place of the recipe's.
        resume: Resumes the run with this name in its current stage. Options need not be repeated; those of stages
            that have not started may change.
    """

    name: str
    output: str = "runs"
    model: str | None = None
    resume: FlagCreatePairsOff[bool] = False


@dataclass(frozen=True, kw_only=True)
class _Program(Program):
    """The program of a staged run, with hints for options of its stages."""

    stages: tuple[Stage, ...]

    def hint(self, option: str) -> str:
        """Returns a hint with the stages' options of this name, or with the options that list them."""
        meant = [f"{stage.option}.{option.removeprefix('--')}" for stage in self.stages if _has(stage.run, option)]
        if meant:
            return f" Did you mean {' or '.join(meant)}?"
        return f" Options of a stage: {', '.join(map(_listing, self.stages))}."


def _has(run: StageRun, option: str) -> bool:
    return any(option in names.values() for names in option_names(type(run), default=run).values())


def stage_options(recipe: Recipe, made: StagesConfig, words: Sequence[str]) -> tuple[StagesConfig, bool]:
    """Applies command line options to a recipe's stages; also returns whether to resume.

    Raises:
        FileNotFoundError: If the run to resume does not exist.
        ConfigError: If an option is unknown, lacks its value, or is invalid.
    """
    own, of_stages = split_by_stage(words, made.stages)
    if asks_for_help(own):
        print(stages_told(made))
    resume = "--resume" in own
    default = _saved(made, own) if resume and not asks_for_help(own) else made
    program = _Program(prog=f"python -m training {recipe.words}", description=recipe.description, stages=made.stages)
    start = _Options(name=default.name, output=default.output, model=default.model)
    parsed_options = parsed(_Options, own, program, default=start)
    stages = tuple(_with_options(recipe, stage, of_stages[stage.option], resume=resume) for stage in default.stages)
    return StagesConfig(
        name=parsed_options.name, output=parsed_options.output, model=parsed_options.model, stages=stages
    ), resume


def _listing(stage: Stage) -> str:
    """Returns the option that lists all options of a stage."""
    return f"{stage.option}.{HELP_ALL.removeprefix('--')}"


def split_by_stage(words: Sequence[str], stages: Sequence[Stage]) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the arguments of the run, and those of each stage by the prefix of its options.

    Raises:
        ConfigError: If an option names an unknown stage.
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
                raise ConfigError(f"There is no stage {name!r}. Stages: {', '.join(known)}.{did_you_mean(name, known)}")
            require(bool(option), f"{word} names no option. To list the options of this stage: {_PREFIX}{name}.help.")
            current, word = of_stages[_PREFIX + name], f"--{option}"
        elif word.startswith("--") or word in HELP:
            current = own
        current.append(word)
    return own, of_stages


def _saved(made: StagesConfig, own: Sequence[str]) -> StagesConfig:
    """Returns the settings of the run to resume, after checking that it has the recipe's stages."""
    name, output = option_value(own, "--name") or made.name, option_value(own, "--output") or made.output
    directory = Path(output) / name
    saved = replace(saved_stages(directory)[0], name=name, output=output)
    require(
        saved.folders == made.folders,
        f"The run at {directory} has the stages {', '.join(saved.folders)}, but the recipe has "
        f"{', '.join(made.folders)}. Name the recipe with which it was started, or another run with --name.",
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
            require(option not in given, f"{of_stage} is not an option: {option} belongs to the whole run.")
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
    # Named datasets replace the stage's own
    default = run if option_value(words, "--data") is None else unchecked(run, data=())
    program = Program(prog=prog, description="A fine-tuning.", help_all=help_all)
    return parsed(SFTConfig, words, program, default=default)


def stages_told(config: StagesConfig) -> str:
    """Returns one line per stage, and the options that list the stages' options."""
    lines = [f"  {number}. {stage.name}: {_summary(stage.run)}" for number, stage in enumerate(config.stages, start=1)]
    listed = "\n".join(f"  {stage.option}.help" for stage in config.stages)
    return "\n".join(["stages:", *lines, "", "To list the options of a stage, without its prefix:", listed, ""])


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
