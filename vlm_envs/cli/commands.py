"""The commands of `vlm-envs`, or `python -m vlm_envs`; all but `play` and `gallery` are defined here."""

from __future__ import annotations

import importlib.util
import json
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
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from vlm_envs import __version__
from vlm_envs.cli import gallery, play
from vlm_envs.cli.named_worlds import Settings, describe, make_world, parse_settings
from vlm_envs.command_line import Commands, run_command
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.registration import VARIANTS, Need, env_ids, need_of, packages_missing, reasons_missing, registered_name
from vlm_envs.requirements import install_command
from vlm_envs.terminal_tables import table, wrapped
from vlm_envs.validation import require, require_at_least

if TYPE_CHECKING:
    from vlm_envs.testing.contract import CheckResult


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the list.

    Attributes:
        env_id: The world's id.
        summary: What it is, or what differs from the world it is a variant of.
        need: What it needs besides the base package; None for nothing.
        reason: Why it cannot run here and what to do; None if it can.
    """

    env_id: str
    summary: str
    need: Need | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """List the worlds.

    Attributes:
        json: Whether to print a JSON object: id to what is known of the world.
        start_engines: Also start each engine whose packages are installed, which takes seconds: only that shows
            whether its drivers and libraries fit.
    """

    json: bool = False
    start_engines: bool = False


def run_list(options: ListOptions) -> None:
    """Prints the worlds."""
    listed = entries(start_engines=options.start_engines)
    if options.json:
        print(json.dumps({entry.env_id: as_json(entry) for entry in listed}, indent=2, ensure_ascii=False))
    else:
        print("\n".join(list_lines(listed, start_engines=options.start_engines)))


def entries(*, start_engines: bool = True) -> list[Entry]:
    """Returns every registered world, sorted by id.

    Args:
        start_engines: Whether engines are started to see whether they run; if not, only packages are looked for.
    """
    needs = {env_id: need_of(env_id) for env_id in env_ids()}
    found = [need for need in needs.values() if need is not None]
    reasons = reasons_missing(found) if start_engines else {need: packages_missing(need) for need in found}
    return [
        Entry(env_id=env_id, summary=describe(env_id), need=need, reason=None if need is None else reasons[need])
        for env_id, need in needs.items()
    ]


def list_lines(listed: Sequence[Entry], *, start_engines: bool, width: float | None = None) -> list[str]:
    """Returns the list for people, and below it what is missing."""
    rows = [
        (
            entry.env_id,
            f"[{entry.need.extra}]" if entry.need else "",
            _status(entry, start_engines=start_engines),
        )
        for entry in listed
    ]
    lines = table(rows, notes=[entry.summary for entry in listed], width=width)
    if any("installed" in row for row in rows):
        lines += ["", *wrapped("installed: its packages are. To start its engine, too: list --start-engines", width)]
    if missing := _what_is_missing(listed):
        lines += ["", *(line for text in missing for line in wrapped(text, width, indent="    "))]
    return lines


def _status(entry: Entry, *, start_engines: bool) -> str:
    if entry.reason is not None:
        return "missing"
    return "installed" if entry.need and entry.need.probe and not start_engines else "ready"


def _what_is_missing(listed: Sequence[Entry]) -> list[str]:
    """Returns a line for each need that is not met, with the remedy."""
    reasons = {entry.need: entry.reason for entry in listed if entry.need is not None and entry.reason is not None}
    return [
        f"{', '.join(entry.env_id for entry in listed if entry.need == need)}: {reason}"
        for need, reason in reasons.items()
    ]


def as_json(entry: Entry) -> dict[str, object]:
    """Returns an entry as `--json` prints it."""
    variant = VARIANTS.get(entry.env_id)
    need = entry.need
    return {
        "summary": entry.summary,
        "variant_of": None if variant is None else variant.base_id,
        "arguments": {} if variant is None else dict(variant.kwargs),
        "needs": [] if need is None else [f"vlm-envs[{need.extra}]", *filter(None, [need.besides])],
        "available": entry.reason is None,
        "reason": entry.reason,
    }


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Check a world, yours included, against the contract.

    Attributes:
        env_id: For example VLM/Sokoban-v0, my_module:My/World-v0 for your own, or adapt:ID for a Gymnasium environment.
        settings: Arguments of the world.
    """

    env_id: Annotated[str, Positional, arg(metavar="ENV_ID")]
    settings: Settings = ()


def run_check(options: CheckOptions) -> int:
    """Prints one line per check as soon as it is done; returns 1 if any failed."""
    from vlm_envs.testing.contract import (
        run_checks,  # Only this command needs it.
        watched,
    )
    from vlm_envs.testing.world_under_test import WorldUnderTest

    env_id = registered_name(options.env_id)
    under_test = WorldUnderTest(env_id=env_id, kwargs=parse_settings(options.settings))
    with watched("The first reset"):
        require_engine(env_id, under_test.kwargs)
    verdicts: Counter[str] = Counter()
    first_with: dict[str, str] = {}
    note = ""
    with warnings.catch_warnings():
        # Gymnasium warns about the misuse that a check commits on purpose.
        warnings.simplefilter("ignore", UserWarning)
        for result in run_checks(under_test):
            verdict = "skip" if result.skipped else "fail" if result.failure else "pass"
            verdicts[verdict] += 1
            _print_wrapped(f"{verdict}  {result.name}: {_reason(result, first_with)}")
            if not note and (note := under_test.planner.note):
                _print_wrapped(f"note  {note}.")
            while under_test.notes:
                _print_wrapped(f"note  {under_test.notes.pop(0)}.")
    failed = f", {verdicts['fail']} failed" if verdicts["fail"] else ""
    print(f"{verdicts['pass']} checks passed, {verdicts['skip']} skipped{failed}")
    return 1 if failed else 0


def _reason(result: CheckResult, first_with: dict[str, str]) -> str:
    """Returns what a line says of a result; a failure that an earlier check had too is not repeated."""
    if result.failure is None:
        return result.skipped or result.clause
    first = first_with.setdefault(result.failure, result.name)
    return result.failure if first == result.name else f"fails as {first} does"


def require_engine(env_id: str, kwargs: dict[str, Any]) -> None:
    """Raises `EngineUnavailableError` if a world's engine is missing: every check would call that the world's fault.

    Whatever else goes wrong is for the checks to say.
    """
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


def _print_wrapped(text: str) -> None:
    print("\n".join(wrapped(text, indent="      ")), flush=True)


_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_FILES = {"world.py.txt": "{}.py", "test_world.py.txt": "test_{}.py", "pyproject.toml.txt": "pyproject.toml"}
"""Template to the name of the file that is made from it."""

_IMPORTED_BY = {"setup": "setuptools", "conftest": "pytest", "sitecustomize": "Python", "usercustomize": "Python"}
"""Module names that are free, and what imports a module of that name by itself."""


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """Write a package with a world of your own: a small one that is complete, to be changed into yours.

    Attributes:
        name: Its module, such as my_world.
        folder: Where its folder is made; the current one by default.
    """

    name: Annotated[str, Positional, arg(metavar="NAME")]
    folder: Path = Path()


def run_new(options: NewOptions) -> None:
    """Writes the package and prints what to do with it."""
    package = options.folder.expanduser() / options.name
    _require_name(options.name)
    if package.exists():
        raise ConfigError(f"{package} exists already and is left as it is. Choose another name or --folder.")
    _require_new_module(options.name)
    title = "".join(part.capitalize() for part in options.name.split("_"))
    env_id = f"Own/{title}-v0"
    names = {"module": options.name, "title": title, "env_id": env_id, "distribution": options.name.replace("_", "-")}
    package.mkdir(parents=True)
    for template, file in _FILES.items():
        text = (files("vlm_envs.cli") / "templates" / template).read_text(encoding="utf-8")
        (package / file.format(options.name)).write_text(Template(text).substitute(names), encoding="utf-8")
    print(_next_commands(package, f"{options.name}:{env_id}"))


def _require_name(name: str) -> None:
    """Raises `ConfigError` unless a name can be that of a module and of a distribution."""
    if not _NAME.fullmatch(name):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        meant = re.sub(r"[^a-z0-9]+", "_", words).strip("_")
        hint = f" Did you mean {meant!r}?" if _NAME.fullmatch(meant) else ""
        raise ConfigError(f"NAME is a Python module in lower case, such as my_world; got {name!r}.{hint}")
    require(not keyword.iskeyword(name), f"{name!r} is a keyword of Python. Choose another name.")


def _require_new_module(name: str) -> None:
    """Raises `ConfigError` if a module would hide another one, or be hidden by it."""
    if name in sys.stdlib_module_names:
        raise ConfigError(f"{name!r} is a module of Python's standard library. Choose another name.")
    if name in _IMPORTED_BY:
        raise ConfigError(f"{_IMPORTED_BY[name]} imports any module named {name!r} by itself. Choose another name.")
    spec = importlib.util.find_spec(name)
    if spec is not None:
        where = spec.origin or ", ".join(spec.submodule_search_locations or ())
        raise ConfigError(f"There is a module {name!r} already, at {where}. Choose another name.")


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
        run: The run's directory, such as runs/frozenlake_tiny; of a run of stages, that of all of them.
        beside: Directory of another run to lay beside it.
        live: Whether to write the report again and again, until interrupted; an open page follows by itself, but for
            one of stages.
        every_s: Seconds between two reports with `live`.
    """

    run: Annotated[str, Positional, arg(metavar="RUN")]
    beside: str | None = None
    live: bool = False
    every_s: float = 20.0

    def __post_init__(self) -> None:
        """Refuses a report that would be written without pause."""
        require_at_least(self, 1, "every_s")


def run_report(options: ReportOptions) -> None:
    """Writes the report, and prints where it is."""
    try:
        from vlm_envs.records.report_page import build_report, build_stages_report, stage_folders
    except ImportError as error:
        raise EngineUnavailableError(f"{error}. A report needs: {install_command('records')}") from error

    def write(reload_s: float | None) -> Path:
        if options.beside is None and (folders := stage_folders(options.run)):
            return build_stages_report(options.run, folders)
        return build_report(options.run, beside=options.beside, reload_s=reload_s)

    print(write(options.every_s if options.live else None), flush=True)
    try:
        while options.live:
            time.sleep(options.every_s)
            write(options.every_s)
    except KeyboardInterrupt:  # the page that stays behind must not wait for another
        write(None)


@dataclass(frozen=True, kw_only=True)
class FilmOptions:
    """Write recorded episodes as an animated GIF: each picture beside what the agent says of it.

    Attributes:
        run: Directory of a run, such as runs/frozenlake_tiny, or of any recorded episodes.
        out: The file; film.gif of the run by default.
        label: Which evaluation's, such as before; by default after, or the last one where there is no after.
        seeds: Levels to show, in this order; by default the first solved ones of several turns.
        num_episodes: How many of those.
    """

    run: Annotated[str, Positional, arg(metavar="RUN")]
    out: Path | None = None
    label: str | None = None
    seeds: tuple[int, ...] = ()
    num_episodes: int = 3

    def __post_init__(self) -> None:
        """Refuses a film of nothing."""
        require_at_least(self, 1, "num_episodes")


def run_film(options: FilmOptions) -> None:
    """Writes the film, and prints where it is and how large."""
    from vlm_envs.records.film import write_film  # Pillow, for which a wrong option must not wait

    path = options.out or Path(options.run) / "film.gif"
    size = write_film(options.run, path, label=options.label, seeds=options.seeds, num_episodes=options.num_episodes)
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
        words: Arguments after the program's name; None takes those of the process.

    Returns:
        The exit code: 0 when all is well, 1 when a check failed, 2 when the call was wrong.
    """
    is_script = Path(sys.argv[0]).stem == SCRIPT
    if is_script and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does, for the user's own worlds
    program = SCRIPT if is_script else "python -m vlm_envs"
    return run_command(program, COMMANDS, words, version=f"vlm-envs {__version__}")
