"""The recipes and commands of `python -m training`."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from training.checkpoints.checkpoint_files import LATEST, has_checkpoint, is_in_cold_start, num_iterations_done
from training.cold_start.cold_start_options import (
    COLD_START_USAGE,
    cold_start_options,
    next_command,
    require_free,
    start_directory,
)
from training.config.processes import print_on_main, process_rank
from training.config.resume import (
    check_length,
    check_same_run,
    check_same_worlds,
    going_on_by,
    recorded_worlds,
    saved_config,
    started_by,
)
from training.config.run_config import RunConfig
from training.config.saved_config import numbered, require_writable
from training.curation.curation_command import curation_options, notes_on, require_teachable
from training.curation.curation_config import CurateConfig, PairsConfig
from training.errors import (
    CurationInterruptedError,
    GradientError,
    NothingCuratedError,
    PeerError,
    PeerInterruptedError,
    TerminatedError,
    TrainingStoppedError,
)
from training.memory_plan.plan_command import run_plan
from training.pools.pool_command import pool_to_draw, require_pools
from training.preflight import checked, ready
from training.preflight_judges import endpoints_of, require_answers
from training.recipes.listing import recipe_lines
from training.recipes.shipped import RECIPES, STAGED_PRESETS, STAGED_RECIPES
from training.recipes.tiny import name_for
from training.run_options import CURATION_OPTIONS, Recipe, configured, find_recipe, option_value, recipe_word
from training.sft.sft_command import check_fine_tuning, require_one_process, sft_options
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import StagesConfig
from training.stages.stages_options import stage_options
from training.stages.stages_preflight import checked_stages, is_free
from training.upscaler.upscaler_command import check_upscaler, upscaler_options
from training.upscaler.upscaler_config import UpscalerConfig
from vlm_envs.adapter.stored import fixed
from vlm_envs.command_line import Program, asks_for_help, description_of, option_names, parsed, readable, tell
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.records.folder_lock import alone_in
from vlm_envs.records.json_lines import RunDataError
from vlm_envs.registration import ADAPT
from vlm_envs.requirements import missing_package_message
from vlm_envs.validation import did_you_mean, fields_named, require

_Tuning = TypeVar("_Tuning", SFTConfig, UpscalerConfig)
_REPORTED_WITHIN_S = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a recipe or a command.

    Args:
        arguments: Command line without the program's name; the process's own by default.

    Returns:
        Exit status: 0 for success, including reinforcement learning that Ctrl-C stopped after a saved iteration; 1 if
        training must stop or a curation keeps nothing; 2 for a usage or configuration error; 130 after an interrupt,
        including a SIGTERM that waits for a short step; and 143 if SIGTERM stops the process immediately.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    name, rest = (words[0], words[1:]) if words else ("", [])
    try:
        if name in COMMANDS:
            COMMANDS[name](rest)
        else:
            recipe, options = find_recipe(words)
            if recipe is None:
                known = [*RECIPES, *STAGED_RECIPES, *STAGED_PRESETS, *COMMANDS]
                tell(f"Unknown recipe {name!r}.{did_you_mean(name, known)} All of them: python -m training --help")
                return 2
            with ExitStack() as stack:
                if "--resume" in options and not asks_for_help(options):
                    stack.enter_context(recorded_worlds(_directory_of(recipe, options)))
                made = None if _is_adapted(recipe) else recipe.made()  # a resumed run does not need its TOML file
                if isinstance(made, StagesConfig):
                    _run_stages(recipe, made, options)
                else:
                    _run_recipe(recipe, options)
    except TrainingStoppedError as error:
        if not isinstance(error, GradientError) or process_rank() == 0:
            print(f"stopped: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        if name != "list" and not asks_for_help([name, *rest]):
            raise
        # The reader, such as `head`, closed the pipe; without this, Python reports another error at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (VLMEnvsError, RunDataError, ValueError, FileNotFoundError, FileExistsError) as error:
        if (
            process_rank() > 0
        ):  # give the main process time to report the same error, after which the launcher stops all
            time.sleep(_REPORTED_WITHIN_S)
        if process_rank() == 0 or not isinstance(error, PeerError):
            tell(error)
        return 2
    except ModuleNotFoundError as error:
        tell(missing_package_message(error, "training"))
        return 2
    except KeyboardInterrupt as interrupt:
        if not isinstance(interrupt, PeerInterruptedError):
            print(str(interrupt) or "Stopped at once.", file=sys.stderr)
        return 128 + (signal.SIGTERM if isinstance(interrupt, TerminatedError) else signal.SIGINT)
    return 0


def _run_recipe(recipe: Recipe, words: list[str]) -> None:
    resume = "--resume" in words
    words = [word for word in words if word != "--resume"]
    config = _resumed(recipe, words) if resume else configured(recipe, words)
    with fixed(spec.env_id for spec in config.worlds):
        _train(recipe, words, config, resume=resume)


def _is_adapted(recipe: Recipe) -> bool:
    return recipe.name.startswith(f"{ADAPT}:")


def _directory_of(recipe: Recipe, words: Sequence[str]) -> Path:
    """Returns the directory of the run that a command line resumes.

    If the TOML files of a recipe's worlds are missing, only the options and defaults determine it.
    """
    output, name = option_value(words, "--output"), option_value(words, "--name")
    default = None
    if not _is_adapted(recipe):
        with suppress(ConfigError) if name is not None else nullcontext():
            default = recipe.made()
    output = output or (RunConfig.output if default is None else default.output)
    return Path(output) / (name or (name_for(recipe.name) if default is None else default.name))


def _train(recipe: Recipe, words: Sequence[str], config: RunConfig, *, resume: bool) -> None:
    taken = config.name
    if not resume and option_value(words, "--name") is None:
        config = replace(config, name=_free_name(config))
    with fields_named(option_names(RunConfig)):
        config = checked(config, resume=resume)
    _tell_run(recipe, config, taken)
    from training.run import trained  # imported late, so that usage errors need not wait for torch

    default = recipe.config()
    with (
        fields_named(option_names(RunConfig)),
        going_on_by(recipe.as_words, config, name=default.name, output=default.output),
    ):
        trained(config, resume=resume)


def _run_stages(recipe: Recipe, made: StagesConfig, words: list[str]) -> None:
    config, resume = stage_options(recipe, made, words)
    with fixed(config.env_ids):
        _train_stages(recipe, made, words, config, resume=resume)


def _train_stages(
    recipe: Recipe, made: StagesConfig, words: Sequence[str], config: StagesConfig, *, resume: bool
) -> None:
    taken = config.name
    if not resume and option_value(words, "--name") is None:
        require_writable(config.directory, config.output)
        free = (name for name in numbered(config.name) if is_free(Path(config.output) / name))
        config = replace(config, name=next(free))
    left = checked_stages(config, resume=resume)
    _tell_run(recipe, config, taken)
    # Imported late, so that usage errors need not wait for torch
    from training.stages.stages_loop import train_stages_checked

    with going_on_by(recipe.as_words, config, name=made.name, output=made.output):
        train_stages_checked(config, left, resume=resume)


def _tell_run(recipe: Recipe, config: RunConfig | StagesConfig, taken: str) -> None:
    """Prints, in the main process, the title and directory of a run, and how to watch it.

    Args:
        recipe: The recipe.
        config: Its configuration with the final name.
        taken: The name it would have had if no other run used it.
    """
    if process_rank() > 0:
        return
    if recipe.title:
        num = config.num_iterations if isinstance(config, RunConfig) else None
        length = "" if num is None else f" ({num} iteration{'s' * (num != 1)})"
        print(f"{recipe.name}{length}: {recipe.title}")
    directory = Path(config.output) / config.name
    reason = f", since {directory.with_name(taken)} holds another run" if config.name != taken else ""
    print(f"Run: {directory}{reason}. While it runs: python -m vlm_envs report {shlex.quote(str(directory))} --live")
    sys.stdout.flush()


def _resumed(recipe: Recipe, words: list[str]) -> RunConfig:
    """Returns the configuration of an existing run with the command line's changes, if they are allowed."""
    if asks_for_help(words):
        return configured(recipe, words)
    default = recipe.config()
    output, name = option_value(words, "--output"), option_value(words, "--name")
    output, name = default.output if output is None else output, default.name if name is None else name
    with fields_named(option_names(RunConfig)):
        replace(default, output=output, name=name)  # validates them before the run is looked up
        directory = Path(output) / name
        saved = replace(saved_config(directory), output=output, name=name)
    if recipe_word(started_by(directory)) != recipe.name:  # the same recipe may have got other worlds by options
        check_same_worlds(recipe.name, default.worlds, saved)
    num_done, asked = num_iterations_done(directory / LATEST), option_value(words, "--num-iterations")
    if num_done is not None and asked is not None and asked.isdecimal():
        check_length(int(asked), num_done)
    config = configured(recipe, words, saved)
    check_same_run(config, directory)
    return config


def _free_name(config: RunConfig | SFTConfig | UpscalerConfig) -> str:
    """Returns the recipe's name, with a number appended if a finished or resumable run already has it."""
    require_writable(Path(config.output) / config.name, config.output)
    runs = ((name, Path(config.output) / name) for name in numbered(config.name))
    return next(name for name, run in runs if not has_checkpoint(run / LATEST) and not is_in_cold_start(run))


@contextmanager
def _named(command: str, words: Sequence[str], config: _Tuning, resume: bool) -> Iterator[tuple[_Tuning, bool]]:
    """Yields a command's run with a free name unless it is named or resumed; errors refer to its options."""
    kind = type(config)
    if not resume and option_value(words, "--name") is None:
        config = replace(config, name=_free_name(config))
    with (
        fields_named(option_names(kind)),
        going_on_by([command], config, name=kind.name, output=kind.output),
    ):
        yield config, resume


def _cold_start(words: list[str]) -> None:
    if asks_for_help(words[:1]):
        with readable():
            print(COLD_START_USAGE)
        return
    recipe, config = cold_start_options(words)
    directory = start_directory(config, is_named=option_value(words, "--name") is not None)
    of_pools = require_pools(config.worlds)
    config, messages = ready(config, imitates=True)
    print_on_main([*of_pools, *messages])
    from training.cold_start.cold_start_loop import make_cold_start
    from training.loop.interrupts import prepare

    prepare(config)
    with alone_in(directory):
        require_free(directory)  # again, as another process may have been faster
        print(f"Imitates for {config.cold_start.num_steps:,} steps, into {directory}", flush=True)
        make_cold_start(config, directory, writer=None)
    print(f"Cold start: {directory}\n{next_command(recipe, directory)}")


def _sft(words: list[str]) -> None:
    with _named("sft", words, *sft_options(words)) as (config, resume):
        require_one_process()
        print_on_main(check_fine_tuning(config, resume=resume))
        from training.sft.sft_loop import fine_tuned

        fine_tuned(config, resume=resume)


def _upscaler(words: list[str]) -> None:
    with _named("upscaler", words, *upscaler_options(words)) as (config, resume):
        check_upscaler(config, resume=resume)
        from training.upscaler.upscaler_loop import train_upscaler

        print(f"Weights: {train_upscaler(config, resume=resume)}")


def _curate(words: list[str]) -> None:
    program = Program(
        prog="python -m training curate", description=description_of(CurateConfig), main_options=CURATION_OPTIONS
    )
    default = CurateConfig()
    require(
        bool(words),
        f"{program.prog} takes options; got none. The defaults ask the expert {default.expert!r} "
        f"{default.num_samples} questions of {default.env_id}, {default.num_rollouts} times each, and "
        f"{default.episode_reward!r} verifies the rollouts. To create this dataset: {program.prog} --name "
        f"{default.name}. All options: {program.prog} --help",
    )
    config = curation_options(words, program)
    with fields_named(option_names(CurateConfig)):
        require_teachable(config)
        print_on_main(notes_on(config))
        require_answers(endpoints_of(config))
        # Imported late, so that usage errors need not wait for torch
        from training.curation.curation_loop import make_data_set

        try:
            directory, result = make_data_set(config)
        except CurationInterruptedError as interrupt:
            message = f"Interrupted. {interrupt}; the same command resumes where this one stopped."
            raise KeyboardInterrupt(message) from interrupt
    print(result)
    print(f"Dataset: {directory}")
    if not result.total.num_kept:
        raise NothingCuratedError(
            f"{directory} is empty, as no response was good enough. Ask more questions (--num-samples), lower "
            "--threshold, or choose another --expert, and another --name."
        )
    print(
        f"Train on it: python -m training sft --model DIR --data {directory}\n"
        f"         or: python -m training cold_start RECIPE --cold-start.data {directory}"
    )


def _pairs(words: list[str]) -> None:
    program = Program(prog="python -m training pairs", description=description_of(PairsConfig))
    config = parsed(PairsConfig, words, program)
    from training.curation.preference_pairs import build_pairs

    with fields_named(option_names(PairsConfig)):
        require_answers(endpoints_of(config))
        file, built = build_pairs(config)
    print(built)
    print(f"Responses to be judged: {file}")
    print(
        f"Train on them: --worlds.0.env-id VLM/RewardJudging-v0 --worlds.0.kwargs.dataset judged "
        f"--worlds.0.kwargs.folder {config.folder}"
    )


def _pool(words: list[str]) -> None:
    trained_on, spec, config = pool_to_draw(words)
    # Imported late, so that usage errors need not wait for torch
    from training.pools.pool_drawing import draw_pool

    drawn = draw_pool(spec, config)
    if drawn.num_levels < config.num_samples:
        print(f"{spec.env_id} has fewer levels than the requested {config.num_samples}.")
    print(drawn)
    print(f"Pool: {config.out}")
    print(f"Train on it, with the same options of the world: python -m training {trained_on}")


def _list(words: list[str]) -> None:
    """Shows what each recipe needs and how long it takes.

    Raises:
        ConfigError: If there are arguments other than a request for help.
    """
    if asks_for_help(words):
        print("usage: python -m training list\n\nShows what each recipe needs and how long it takes here.")
        return
    require(not words, f"`python -m training list` takes no arguments; got {' '.join(words)}.")
    print("\n".join(recipe_lines()))


COMMANDS: dict[str, Callable[[list[str]], object]] = {
    "list": _list,
    "sft": _sft,
    "cold_start": _cold_start,
    "pool": _pool,
    "plan": run_plan,
    "upscaler": _upscaler,
    "pairs": _pairs,
    "curate": _curate,
}
"""The commands, by name as in `training.recipes.listing.COMMANDS`."""
