"""Command lines made from dataclasses: parsing, suggestions for unknown options, and short help."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.abc
import importlib.util
import inspect
import io
import itertools
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.requirements import missing_package_message
from vlm_envs.terminal_tables import table, wrapped
from vlm_envs.validation import did_you_mean, fields_named

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

OptionsT = TypeVar("OptionsT")
Command = tuple[type[Any], Callable[[Any], int | None]]
Commands = Mapping[str, Command | str]
"""Commands by name: the options class, whose docstring describes the command, and the function that runs it.

Both may instead be named, as `"module:Options:run"`, and are then imported only when the command is run. An
options class may have `HINTS`: sentences about options that it does not have, by option."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that a user runs. Subclasses may add hints about likely mistakes of their users.

    Attributes:
        prog: How it is run, such as `python -m training frozenlake_tiny`.
        description: Description of the program.
        hints: Sentences about options that it does not have, by option.
        main_options: Options that `--help` shows; a name that ends with a dot stands for all options that
            begin with it. `--help-all` also shows the others. All if empty.
        help_all: Command that lists every option; if empty, `prog` with `--help`, or with `--help-all` if
            that shows more.
    """

    prog: str
    description: str
    hints: Mapping[str, str] | None = None
    main_options: Sequence[str] = ()
    help_all: str = ""

    @property
    def listing(self) -> str:
        """The command that lists every option."""
        return self.help_all or f"{self.prog} {HELP_ALL if self.main_options else '--help'}"

    def refusal(self, option: str, value: str) -> str:
        """Returns why an option is not available although a field has its name; empty if it is.

        Args:
            option: The option as written, with hyphens.
            value: The value after it or its equals sign.
        """
        return ""

    def hint(self, option: str) -> str:
        """Returns a sentence about an unknown option that resembles no known one; may be empty."""
        hints = self.hints or {}
        return f" {hints[option]}" if option in hints else ""

    def listing_of(self, option: str) -> str:
        """Returns the command that lists all options, including the one probably meant by an unknown option."""
        return self.listing

    def stray(self, word: str) -> str:
        """Returns the error message for a word that belongs to no option."""
        return f"{word!r} belongs to no option of {self.prog}. All of them: {self.listing}"


def parsed(kind: type[OptionsT], words: Sequence[str], program: Program, default: OptionsT | None = None) -> OptionsT:
    """Returns the configuration that a command line describes.

    Args:
        kind: Its type, a dataclass.
        words: The options and their values. `--help-all` shows every option, in all programs.
        program: The program they belong to.
        default: Configuration with the values of omitted options; None for the type's own defaults.

    Raises:
        ConfigError: If an option is unknown, lacks its value, or is given twice although it takes all its
            values at once; if a word belongs to no option; or if a value is rejected.
    """
    import tyro  # which takes longer than all that `import vlm_envs` does

    options = option_names(kind, default=default)
    shown: contextlib.AbstractContextManager[None] = readable() if asks_for_help(words) else contextlib.nullcontext()
    if program.main_options and HELP_ALL not in words and asks_for_help(words):
        shown = _shortened(program)
    words = ["--help" if word == HELP_ALL else word for word in words]
    _refuse_unknown(words, options, program)
    _refuse_repeated(words, options)
    start: dict[str, Any] = {} if default is None else {"default": default}
    said = io.StringIO()
    try:
        with shown, fields_named(options), contextlib.redirect_stderr(said):
            found: tuple[OptionsT, list[str]] = tyro.cli(
                kind, args=words, prog=program.prog, description=program.description, return_unknown_args=True, **start
            )
    except SystemExit as stop:
        _raise_own_error(stop)
        if stop.code == 0:  # after --help
            raise
        raise ConfigError(f"{_first_part(said.getvalue())} All options: {program.listing}") from None
    config, left = found
    if left:
        raise ConfigError(program.stray(left[0]))
    return config


def option_names(kind: type, prefix: str = "--", *, default: Any = None) -> dict[type, dict[str, str]]:
    """Returns the option of each field, for a configuration and its nested ones.

    Args:
        kind: A dataclass.
        prefix: Prefix of its options.
        default: An instance, whose parts determine which of several types they have; None to allow any.
    """
    from tyro.conf import OmitArgPrefixes

    names: dict[type, dict[str, str]] = {kind: {}}
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in (field.name for field in fields(kind)):
        hint, value = hints[field], getattr(default, field, None)
        written = getattr(hint, "__metadata__", ())  # `Annotated`, with the settings of `tyro.conf.arg` for the option
        name = next((statement.name for statement in written if getattr(statement, "name", None) is not None), field)
        option = names[kind][field] = prefix + name.replace("_", "-")
        for part in (type(value),) if is_dataclass(value) else _types(hint):
            if isinstance(part, type) and is_dataclass(part):
                inner = prefix if OmitArgPrefixes in written or not name else f"{option}."
                names |= option_names(part, inner, default=value if isinstance(value, part) else None)
    return names


def _types(hint: Any) -> tuple[Any, ...]:
    """Returns the types that a field may have, without the additions of `Annotated`."""
    hint = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def run_command(prog: str, commands: Commands, words: Sequence[str] | None, *, version: str = "") -> int:
    """Runs the command that the first word names; if it cannot be run, prints the reason in one line.

    Args:
        prog: How the program is run, such as `python -m judges`.
        commands: The program's commands.
        words: Command line without the program's name; None for that of the process.
        version: Text that `--version` prints; empty if there is no such option.

    Returns:
        The exit code: the command's return value, or 0 for None; 2 for a usage error; 130 if interrupted.
    """
    name, *rest = [*(sys.argv[1:] if words is None else words)] or [""]
    if name in ("", *HELP, HELP_ALL):
        print(*_usage(prog, commands, version), sep="\n")
        return 0 if name else EXIT_USAGE
    if version and name == "--version":
        print(version)
        return 0
    try:
        if name not in commands:
            raise ConfigError(
                f"Unknown command {name!r}.{did_you_mean(name, commands)} Commands: {', '.join(commands)}."
            )
        kind, run = _imported(commands[name])
        hints = getattr(kind, "HINTS", None)
        options = parsed(kind, rest, Program(prog=f"{prog} {name}", description=description_of(kind), hints=hints))
        with fields_named(option_names(kind)):
            code = run(options)
        sys.stdout.flush()
        return code or 0
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe; without this, Python prints another error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (VLMEnvsError, ValueError, OSError) as error:
        tell(error)
        return EXIT_USAGE
    except ModuleNotFoundError as error:
        tell(missing_package_message(error, prog.removeprefix("python -m ")))
        return EXIT_USAGE
    except KeyboardInterrupt as interrupt:
        if told := str(interrupt):
            print(told, file=sys.stderr)
        return EXIT_INTERRUPTED


def _usage(prog: str, commands: Commands, version: str) -> list[str]:
    summaries = [(f"  {name}", _summary_of(command)) for name, command in commands.items()]
    with_version = [f"       {prog} --version"] if version else []
    start = [f"usage: {prog} COMMAND [--options]", *with_version, "", "commands:"]
    return [*start, *table(summaries), "", f"Options of a command: {prog} COMMAND --help"]


def _summary_of(command: Command | str) -> str:
    if isinstance(command, str):
        return written_docstring(command.rpartition(":")[0]).partition("\n")[0]
    return description_of(command[0]).partition("\n")[0]


def _imported(command: Command | str) -> Command:
    if not isinstance(command, str):
        return command
    module, kind, run = command.split(":")
    names = vars(importlib.import_module(module))
    return names[kind], names[run]


def tell(mistake: object) -> None:
    """Prints a user's error, in the same form in all command lines."""
    print(f"error: {mistake}", file=sys.stderr)


def _first_part(said: str) -> str:
    """Returns, in one line, the text that the parser prints in a frame, up to the first rule below the title."""
    lines = [line.strip("│| ") for line in said.splitlines()][1:]
    parts = itertools.groupby(lines, key=lambda line: "──" in line or "---" in line)  # the latter without UTF-8
    text = " ".join(next(part for is_rule, part in parts if not is_rule)).strip()
    return text if text.endswith(".") else f"{text}."


def _raise_own_error(stop: BaseException) -> None:
    """Raises the error of a configuration's own check if it caused the parser to stop."""
    cause: BaseException | None = stop
    while cause is not None:
        if isinstance(cause, VLMEnvsError):
            raise cause from None
        cause = cause.__cause__ or cause.__context__


def description_of(kind: type) -> str:
    """Returns the part of a configuration's docstring before the fields."""
    return (inspect.getdoc(kind) or "").partition("\n\nAttributes:")[0]


def _refuse_unknown(words: Sequence[str], options: Mapping[type, Mapping[str, str]], program: Program) -> None:
    known = [option for of_kind in options.values() for option in of_kind.values()]
    for index, word in enumerate(words):
        name = word.partition("=")[0].replace("_", "-")
        if not name.startswith("--") or name.startswith("--tyro-") or name == "--help":
            continue
        after = words[index + 1] if index + 1 < len(words) else ""
        if refusal := program.refusal(name, word.partition("=")[2] or after):
            raise ConfigError(refusal)
        if name in known or _positive(name) in known:
            continue
        own_hint = (program.hints or {}).get(name)
        meant = f" {own_hint}" if own_hint else _nearest(name, known) or program.hint(name)
        raise ConfigError(f"{program.prog} has no option {name}.{meant} All of them: {program.listing_of(name)}")


def _refuse_repeated(words: Sequence[str], options: Mapping[type, Mapping[str, str]]) -> None:
    """Rejects repeated options that take all their values at once, since the parser would drop the first ones.

    For an option with one value the last one counts, as usual; values of options that may be repeated add up.
    """
    given = [word.partition("=")[0].replace("_", "-") for word in words]
    for kind, of_kind in options.items():
        hints = typing.get_type_hints(kind, include_extras=True)
        for field, option in of_kind.items():
            if given.count(option) > 1 and _takes_all_at_once(hints[field]):
                raise ConfigError(
                    f"{option} is given {given.count(option)} times. Give it once, with all of its values."
                )


def _takes_all_at_once(hint: Any) -> bool:
    """Returns whether a field of this type is a tuple of any length whose option cannot be repeated."""
    from tyro.conf import UseAppendAction

    has_tuple = any(typing.get_origin(part) is tuple and Ellipsis in typing.get_args(part) for part in _types(hint))
    return has_tuple and UseAppendAction not in getattr(hint, "__metadata__", ())


def _positive(name: str) -> str:
    """Returns the option that `--part.no-name` turns off."""
    before, dot, last = name.removeprefix("--").rpartition(".")
    return f"--{before}{dot}{last.removeprefix('no-')}"


def _nearest(name: str, known: Sequence[str]) -> str:
    """Returns a sentence with the option that was probably meant; empty if none is similar."""
    alike = [option for option in known if option.endswith(f".{name.removeprefix('--')}")]
    return f" Did you mean {' or '.join(alike)}?" if alike else did_you_mean(name, known)


HELP = ("-h", "--help")
HELP_ALL = "--help-all"

_FRAMES = ("│ ", "  ")
"""Line beginnings of options, with the parser's frames and for output that cannot show them."""

_OPTION = re.compile(r"--\w[\w.-]*")


def asks_for_help(words: Sequence[str]) -> bool:
    """Returns whether a command line asks for the short or the full help."""
    return bool({*HELP, HELP_ALL} & {*words})


@contextlib.contextmanager
def _shortened(program: Program) -> Iterator[None]:
    """Prints the help requested within the block with the main options only."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    except SystemExit:
        options = list(_options(printed.getvalue()))
        main = program.main_options
        prefixes = tuple(name for name in main if name.endswith("."))
        shown = [(name, lines) for name, lines in options if name in main or name.startswith(prefixes)]
        resume = " [--resume]" if "--resume" in dict(shown) else ""
        print(f"usage: {program.prog} [--options]{resume}", "", sep="\n")
        print(*_paragraphs(program.description), "", "options:", sep="\n")
        print(*(f"  {line}" for _, lines in shown for line in lines), sep="\n")
        print(f"\nAll {len(options)} options: {program.listing}")
        raise
    print(printed.getvalue(), end="")


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Wraps usage lines and descriptions printed within the block to the width of the terminal."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        for line in map(str.rstrip, printed.getvalue().rstrip().splitlines()):
            is_framed = line.startswith((" ", "│", "╭", "╰"))
            parts = wrapped_usage(line) if line.startswith("usage:") else [line] if is_framed else wrapped(line)
            print(*parts, sep="\n")


def wrapped_usage(text: str) -> list[str]:
    """Returns the lines of a usage text, each option with its value on one line."""
    depth, joined = 0, ""
    for character, after in zip(text, f"{text[1:]} ", strict=True):
        depth += (character in "[{") - (character in "]}")
        is_inside = depth > 0 or after not in "[-"
        joined += "\xa0" if character == " " and is_inside else character
    return [line.replace("\xa0", " ") for line in wrapped(joined, indent=" " * len("usage: "))]


def _paragraphs(text: str) -> list[str]:
    """Returns the lines of a text, with each paragraph wrapped to the width of the terminal."""
    lines = [line for part in text.split("\n\n") for line in ("", *wrapped(" ".join(part.split())))]
    return lines[1:]


def _options(full: str) -> Iterator[tuple[str, list[str]]]:
    """Yields each option of a help text with its lines."""
    name = ""
    lines: list[str] = []
    for line in full.splitlines():
        text = line[2:].rstrip(" │") if line.startswith(_FRAMES) else ""
        start = _OPTION.match(text)
        continues = text.startswith("  ") or (text and not any(line.startswith(" ") for line in lines))
        if start or not continues:
            if name:
                yield name, lines
            name, lines = (start[0] if start else ""), []
        lines.append(text)


def written_docstring(name: str) -> str:
    """Returns the docstring of the class or function `"module:name"` without its indentation; may be empty."""
    module, _, attribute = name.partition(":")
    imports = [node for node in _statements(module) if isinstance(node, ast.ImportFrom) and not node.level]
    for node in imports:
        for imported in node.names:
            if (imported.asname or imported.name) == attribute:
                return written_docstring(f"{node.module}:{imported.name}")
    return written_docstrings(module).get(attribute, "")


def written_docstrings(module: str) -> dict[str, str]:
    """Returns the docstrings of a module's classes and functions by name, without their indentation."""
    return {
        node.name: ast.get_docstring(node) or ""
        for node in _statements(module)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }


def _statements(module: str) -> list[ast.stmt]:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, VLMEnvsError):
        return []
    source = spec.loader.get_source(module) if spec and isinstance(spec.loader, importlib.abc.InspectLoader) else None
    return ast.parse(source).body if source else []
