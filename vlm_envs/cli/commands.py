"""The commands of `vlm-envs`, or `python -m vlm_envs`; all but `play` and `gallery` are defined here."""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import shlex
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, Any

from tyro.conf import Positional, arg

from vlm_envs import __version__
from vlm_envs.cli import gallery, play
from vlm_envs.cli.named_worlds import Settings, describe, make_world, parse_settings
from vlm_envs.command_line import Commands, run_command
from vlm_envs.errors import EngineUnavailableError
from vlm_envs.registration import env_ids, need_of, packages_missing, registered_name
from vlm_envs.requirements import install_command
from vlm_envs.terminal_tables import table, wrapped
from vlm_envs.validation import require


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """List the worlds and the packages that some of them lack."""


def run_list(options: ListOptions) -> None:
    """Prints every registered world, sorted by id, and any missing packages. Starts no engine."""
    needs = {env_id: need_of(env_id) for env_id in env_ids()}
    reasons = {need: packages_missing(need) for need in needs.values() if need is not None}
    rows = []
    for env_id, need in needs.items():
        status = "not installed" if need and reasons[need] else "installed"
        rows.append((env_id, f"[{need.extra}]" if need else "", status))
    lines = table(rows, notes=[*map(describe, needs)])
    for missing, reason in reasons.items():
        if reason:
            worlds = ", ".join(env_id for env_id, need in needs.items() if need == missing)
            lines += ["", *wrapped(f"{worlds}: {reason}", indent="    ")]
    print("\n".join(lines))


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Check a world, including your own, against the contract.

    Attributes:
        env_id: For example VLM/Sokoban-v0, my_module:My/World-v0 for your own, or adapt:ID for a Gymnasium
            environment.
        settings: Arguments of the world.
    """

    env_id: Annotated[str, Positional, arg(metavar="ENV_ID")]
    settings: Settings = ()


def run_check(options: CheckOptions) -> int:
    """Prints one line per check as soon as it is done; returns 1 if any failed."""
    from vlm_envs.testing.contract import located_interrupts, run_checks  # only this command needs it
    from vlm_envs.testing.world_under_test import WorldUnderTest

    env_id = registered_name(options.env_id)
    under_test = WorldUnderTest(env_id=env_id, kwargs=parse_settings(options.settings))
    with located_interrupts("the first reset"):
        _require_engine(env_id, under_test.kwargs)
    verdicts: Counter[str] = Counter()
    first_with: dict[str, str] = {}
    with warnings.catch_warnings():
        # Gymnasium warns about misuse that a check commits intentionally.
        warnings.simplefilter("ignore", UserWarning)
        for result in run_checks(under_test):
            verdict = "skip" if result.skipped else "fail" if result.failure else "pass"
            verdicts[verdict] += 1
            said = result.failure or result.skipped or result.clause
            if result.failure and (first := first_with.setdefault(said, result.name)) != result.name:
                said = f"fails as {first} does"
            print("\n".join(wrapped(f"{verdict}  {result.name}: {said}", indent="      ")), flush=True)
    failed = f", {verdicts['fail']} failed" if verdicts["fail"] else ""
    print(f"{verdicts['pass']} checks passed, {verdicts['skip']} skipped{failed}")
    return 1 if failed else 0


def _require_engine(env_id: str, kwargs: dict[str, Any]) -> None:
    """Raises `EngineUnavailableError` if a world lacks its engine; the checks report all other errors."""
    try:
        world = make_world(env_id, **kwargs)
        try:
            world.reset(seed=0)
        finally:
            world.close()
    except EngineUnavailableError:
        raise
    except (Exception, SystemExit):
        return


_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_FILES = {"world.py.txt": "{}.py", "test_world.py.txt": "test_{}.py", "pyproject.toml.txt": "pyproject.toml"}
"""Template to the name of the file created from it."""

_IMPORTED_BY_TOOLS = frozenset(("setup", "conftest", "sitecustomize", "usercustomize"))
"""Modules that setuptools, pytest, or Python import if they exist."""


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """Write a package with your own world: a small complete example for you to change.

    Attributes:
        name: Its module, such as my_world.
        folder: Folder in which the package's folder is created; the current one by default.
    """

    name: Annotated[str, Positional, arg(metavar="NAME")]
    folder: Path = Path()


def run_new(options: NewOptions) -> None:
    """Writes the package and prints the next commands."""
    package = options.folder.expanduser() / options.name
    _require_new_module(options.name, package)
    title = "".join(part.capitalize() for part in options.name.split("_"))
    env_id = f"Own/{title}-v0"
    names = {"module": options.name, "title": title, "env_id": env_id, "distribution": options.name.replace("_", "-")}
    package.mkdir(parents=True)
    for template, file in _FILES.items():
        text = (files("vlm_envs.cli") / "templates" / template).read_text(encoding="utf-8")
        (package / file.format(options.name)).write_text(Template(text).substitute(names), encoding="utf-8")
    print(_next_commands(package, f"{options.name}:{env_id}"))


def _require_new_module(name: str, package: Path) -> None:
    """Raises `ConfigError` unless a name is valid for a new module and hides no other one."""
    is_name = _NAME.fullmatch(name) is not None and not keyword.iskeyword(name)
    require(is_name, f"NAME must be the name of a Python module in lower case, such as my_world; got {name!r}.")
    require(not package.exists(), f"{package} already exists and is not changed. Choose another name or --folder.")
    is_taken = name in sys.stdlib_module_names | _IMPORTED_BY_TOOLS or importlib.util.find_spec(name) is not None
    require(not is_taken, f"A module {name!r} already exists, or Python or its tools use the name. Choose another.")


def _next_commands(package: Path, env_id: str) -> str:
    path = shlex.quote(str(package.absolute()))
    return f"""\
Wrote {package}. Next:
  cd {shlex.quote(str(package))}
  python -m vlm_envs check {env_id}
  python -m vlm_envs play {env_id}
  python -m pytest    (needs pytest: pip install pytest)
Put it on a board, in a checkout of vlm-envs:
  PYTHONPATH={path} python -m benchmarks run --agent random --world {env_id} \\
      --episodes 64 --out boards/{package.name}
Train it, in a checkout, which takes about 10 to 20 minutes on one idle CPU core:
  PYTHONPATH={path} python -m training {env_id} \\
      --worlds.0.kwargs.prompt-format no_think --cold-start.num-steps 400 --num-iterations 40
Then change {package.name}.py into your world: docs/own-world.md"""


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Write the report of a run, or of any recorded episodes, as one HTML file.

    Attributes:
        run: The run's directory, such as runs/frozenlake_tiny; for a run of stages, the directory of all
            stages.
        beside: Directory of another run to compare it with.
        live: Whether to rewrite the report every 20 seconds until interrupted; an open page reloads itself,
            except that of a run of stages.
    """

    run: Annotated[str, Positional, arg(metavar="RUN")]
    beside: str | None = None
    live: bool = False


_EVERY_S = 20.0
"""Seconds between two reports with `--live`."""


def run_report(options: ReportOptions) -> None:
    """Writes the report, and prints its path."""
    try:
        from vlm_envs.records.report_page import build_report, build_stages_report, stage_folders
    except ImportError as error:
        raise EngineUnavailableError(f"{error}. A report needs: {install_command('records')}") from error

    def write(reload_s: float | None) -> Path:
        if options.beside is None and (folders := stage_folders(options.run)):
            return build_stages_report(options.run, folders)
        return build_report(options.run, beside=options.beside, reload_s=reload_s)

    print(write(_EVERY_S if options.live else None), flush=True)
    try:
        while options.live:
            time.sleep(_EVERY_S)
            write(_EVERY_S)
    except KeyboardInterrupt:  # the remaining page must not wait for another version
        write(None)


@dataclass(frozen=True, kw_only=True)
class FilmOptions:
    """Write recorded episodes as an animated GIF that shows each image next to the agent's response.

    Attributes:
        run: Directory of a run, such as runs/frozenlake_tiny, or of any recorded episodes.
        out: Output file; film.gif in the run's directory by default.
        label: Label of the evaluation, such as before; by default after, or the last one if there is no
            after.
        seeds: Levels to show, in this order; by default the first three solved ones with several turns.
    """

    run: Annotated[str, Positional, arg(metavar="RUN")]
    out: Path | None = None
    label: str | None = None
    seeds: tuple[int, ...] = ()


def run_film(options: FilmOptions) -> None:
    """Writes the film, and prints its path and size."""
    from vlm_envs.records.film import write_film  # Pillow, for which a wrong option must not wait

    path = options.out or Path(options.run) / "film.gif"
    size = write_film(options.run, path, label=options.label, seeds=options.seeds)
    print(f"{path} ({size / 2**20:.2f} MB)")


COMMANDS: Commands = {
    "list": (ListOptions, run_list),
    "new": (NewOptions, run_new),
    "check": (CheckOptions, run_check),
    "play": (play.PlayOptions, play.run),
    "gallery": (gallery.GalleryOptions, gallery.run),
    "report": (ReportOptions, run_report),
    "film": (FilmOptions, run_film),
}

SCRIPT = "vlm-envs"
"""Command that an installation adds."""


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        words: Arguments after the program's name; None for those of the process.

    Returns:
        The exit code: 0 for success, 1 if a check failed, 2 for a usage error.
    """
    is_script = Path(sys.argv[0]).stem == SCRIPT
    if is_script and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does, for users' own worlds
    program = SCRIPT if is_script else "python -m vlm_envs"
    return run_command(program, COMMANDS, words, version=f"vlm-envs {__version__}")
