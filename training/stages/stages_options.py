"""From words on the command line to the configuration of a run of stages.

`--name`, `--output` and `--model` are of the run; `--stages.NAME.OPTION` is OPTION of one stage, as a run of its own
would take it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tyro.conf import FlagCreatePairsOff

from training.config.run_config import RunConfig, how_evaluated
from training.config.saved_config import unchecked
from training.curation.curation_command import curation_options
from training.curation.curation_config import CurateConfig
from training.run_options import CURATION_OPTIONS, Recipe, configured, option_value, take_option
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import Stage, StageRun, StagesConfig, saved_stages
from vlm_envs.command_line import HELP, HELP_ALL, Program, asks_for_help, option_names, parsed
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.terminal_tables import wrapped
from vlm_envs.validation import did_you_mean, require

_PREFIX = "--stages."
_OF_THE_RUN = ("name", "output", "model", "resume")


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
    """A run of stages, whose users may mean an option of a stage."""

    stages: tuple[Stage, ...]

    def hint(self, option: str) -> str:
        """Returns the stages' options of this name, or where those of each stage are listed."""
        if meant := [f"{stage.option}.{option.removeprefix('--')}" for stage in self._with_option(option)]:
            return f" Did you mean {' or '.join(meant)}?"
        return f" Options of a stage: {', '.join(_listing(stage) for stage in self.stages)}."

    def listing_of(self, option: str) -> str:
        """Returns the command that lists the options of the first stage with this one, or else those of the run."""
        return next((f"{self.prog} {_listing(stage)}" for stage in self._with_option(option)), self.listing)

    def _with_option(self, option: str) -> list[Stage]:
        return [
            stage
            for stage in self.stages
            if any(option in names.values() for names in option_names(type(stage.run), default=stage.run).values())
        ]


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
    stages = tuple(
        _with_options(
            recipe,
            stage,
            of_stages[stage.option],
            resume=resume,
        )
        for number, stage in enumerate(default.stages)
    )
    return StagesConfig(name=said.name, output=said.output, model=said.model, stages=stages), resume


def _listing(stage: Stage) -> str:
    """Returns what lists every option of a stage."""
    return f"{stage.option}.{HELP_ALL.removeprefix('--')}"


def split_by_stage(words: Sequence[str], stages: Sequence[Stage]) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the words that are of the run, and those of each stage by what its options begin with.

    Raises:
        ConfigError: If one is of a stage that is not there.
    """
    own: list[str] = []
    of_stages: dict[str, list[str]] = {stage.option: [] for stage in stages}
    current = own
    for word in words:
        if word.startswith(_PREFIX):
            name, dot, option = word.removeprefix(_PREFIX).partition(".")
            current = _words_of(name.replace("_", "-"), of_stages)
            require(
                bool(dot and option), f"{word} names no option. Options of this stage: {_PREFIX}{name}.help lists them."
            )
            current.append(f"--{option}")
            continue
        current = own if word.startswith("--") or word in HELP else current
        current.append(word)
    return own, of_stages


def _words_of(name: str, of_stages: dict[str, list[str]]) -> list[str]:
    known = [option.removeprefix(_PREFIX) for option in of_stages]
    if name not in known:
        raise ConfigError(f"There is no stage {name!r}; there are {', '.join(known)}.{did_you_mean(name, known)}")
    return of_stages[_PREFIX + name]


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
    with _of_stage(stage):
        for option in _OF_THE_RUN:
            is_given = any(word.partition("=")[0] == f"--{option}" for word in words)
            require(not is_given, f"{stage.option}.{option} is no option: --{option} is the whole run's.")
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


@contextmanager
def _of_stage(stage: Stage) -> Iterator[None]:
    """Names the stage in what is said of its options."""
    try:
        yield
    except VLMEnvsError as error:
        raise ConfigError(f"Stage {stage.name!r}, whose options begin with {stage.option}.: {error}") from error


def stages_told(config: StagesConfig) -> str:
    """Returns the stages in words, a line each, and where their options are listed."""
    lines = [
        line
        for number, stage in enumerate(config.stages, start=1)
        for line in wrapped(f"  {number}. {_told(stage)}", indent="     ")
    ]
    listed = "\n".join(f"  {stage.option}.help" for stage in config.stages)
    return "\n".join(["stages:", *lines, "", "Options of each, behind its name, are listed by:", listed, ""])


def _told(stage: Stage) -> str:
    run = stage.run
    start = ", from the best model of the stage before" if stage.starts_from == "best" else ""
    if isinstance(run, CurateConfig):
        again = f", again with {' and '.join(run.again)}" if run.again else ""
        worlds = " and of ".join(dict.fromkeys(spec.env_id for spec in run.specs))
        kept = "" if run.num_kept is None else f"{run.num_kept} to be kept of at most "
        return f"{stage.name}: {kept}{run.num_samples} questions of {worlds}{again}, verified by {run.episode_reward}"
    if isinstance(run, SFTConfig):
        length = f"{run.num_epochs:g} epochs" if run.num_steps is None else f"{run.num_steps} steps"
        return f"{stage.name}: fine-tuning on {', '.join(run.data)}, {length}, rate {run.learning_rate:g}{start}"
    worlds = ", ".join(dict.fromkeys(spec.env_id for spec in run.worlds))
    if run.num_iterations == 0:  # of a model that the run is given, nothing but an evaluation
        return f"{stage.name}: a cold start of {run.cold_start.num_steps} steps in {worlds}, where no model is given"
    reward = "" if run.judge.episode_reward is None else f", reward {run.judge.episode_reward}"
    how = how_evaluated(run.sampling, run.evaluated_sampling)
    evaluated = how and f" (evaluated at {how})"
    ppo = run.decided().ppo
    held = f", KL {ppo.kl_coef:g} (reference {stage.reference})" if run.has_reference else ""
    return (
        f"{stage.name}: {run.algorithm.title} in {worlds}{reward}, {run.num_iterations} iterations, rate "
        f"{ppo.learning_rate:g}, temperature {run.sampling.temperature:g}{evaluated}{held}{start}"
    )
