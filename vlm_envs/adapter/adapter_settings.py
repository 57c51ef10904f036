"""`vlm_envs.adapt`: registers a world around a registered Gymnasium environment, from Python or from a TOML file."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import math
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import gymnasium as gym

from vlm_envs.errors import ConfigError
from vlm_envs.registration import ADAPT, PACKAGES, RESOLVERS, keyword_parameters, register
from vlm_envs.user_code import import_named
from vlm_envs.validation import did_you_mean, require, require_positive

NAMESPACE = "Adapted"
ENTRY_POINT = "vlm_envs.adapter.adapted_world:AdaptedWorld"

HEADLESS: Mapping[str, str] = {
    "SDL_VIDEODRIVER": "dummy",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
    "PYGLET_HEADLESS": "true",
    "MUJOCO_GL": "egl",
}
"""Environment variables that are set if they are missing and there is no display."""

SUCCESS_RULES = ("reward", "terminated", "truncated")

_NAME = re.compile(r"[\w-][\w.-]{0,99}")
_SUCCESS_HELP = (
    "'reward' (the episode ends with a positive reward), 'terminated', 'truncated' (the episode lasts until the "
    "time limit), a "
    "number (the minimum return), 'info:KEY', or a function, also as 'module:function'"
)
_FUNCTION_HELP = "a function or its name as 'module:function'"


@dataclass(frozen=True, kw_only=True)
class AdapterSettings:
    """The arguments of `adapt` that describe how an environment becomes a world.

    Raises:
        ConfigError: If a setting has the wrong type.
    """

    env: str
    actions: Mapping[str, Any] | Sequence[str] | None = None
    goal: str = ""
    rules: Sequence[str] = ()
    success: str | float | Callable[..., bool] | None = None
    describe: str | Callable[[Any], str] | None = None
    plan: str | Callable[[Any], Iterable[Any] | None] | None = None
    hint: Sequence[str] | None = None
    make: Mapping[str, Any] | None = None
    image_px: int | None = None

    def __post_init__(self) -> None:
        names = [*self.actions] if isinstance(self.actions, Mapping) else self.actions
        arguments: Any = {} if self.make is None else self.make
        checks = (
            (
                "env",
                isinstance(self.env, str) and bool(self.env),
                "the id of a Gymnasium environment",
            ),
            ("actions", names is None or _is_texts(names), "a mapping from names to actions, or a list of names"),
            ("goal", isinstance(self.goal, str), "a sentence"),
            ("rules", _is_texts(self.rules), "a list of sentences"),
            ("success", _is_rule(self.success), _SUCCESS_HELP),
            ("describe", _is_function(self.describe), _FUNCTION_HELP),
            ("plan", _is_function(self.plan), _FUNCTION_HELP),
            ("hint", self.hint is None or _is_texts(self.hint), "a list of entries of the observation"),
            (
                "make",
                isinstance(arguments, Mapping) and _is_texts([*arguments]),
                "a table of arguments of gymnasium.make",
            ),
        )
        for name, is_valid, expected in checks:
            require(is_valid, f"{name} must be {expected}; got {getattr(self, name)!r}.")
        mode = arguments.get("render_mode", "rgb_array")
        require(mode == "rgb_array", f"make: render_mode must be 'rgb_array', the default; got {mode!r}.")
        if self.image_px is not None:
            require_positive("image_px", self.image_px, minimum=8)

    @property
    def title(self) -> str:
        """The environment's name without module and version, for prompts."""
        return re.sub(r"-v\d+$", "", self.env.rpartition(":")[2])


SETTINGS: tuple[str, ...] = tuple(field.name for field in fields(AdapterSettings))


def _is_function(value: object) -> bool:
    return value is None or callable(value) or (isinstance(value, str) and ":" in value)


def _is_rule(value: object) -> bool:
    if isinstance(value, int | float):
        return not isinstance(value, bool) and math.isfinite(value)
    return value in SUCCESS_RULES or _is_function(value)


def _is_texts(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, str) for item in value)


def adapt(
    env_id: str,
    *,
    actions: Mapping[str, Any] | Sequence[str] | None = None,
    goal: str = "",
    rules: Sequence[str] = (),
    success: str | float | Callable[..., bool] | None = None,
    describe: str | Callable[[Any], str] | None = None,
    plan: str | Callable[[Any], Iterable[Any] | None] | None = None,
    hint: Sequence[str] | None = None,
    make: Mapping[str, Any] | None = None,
    image_px: int | None = None,
    name: str | None = None,
    **world_kwargs: Any,
) -> str:
    """Registers a world around a Gymnasium environment. Registering it again with the same settings has no effect.

    If the name is already used for a world with other settings, the new one replaces it, with Gymnasium's
    warning.

    Args:
        env_id: Id of the environment, with or without the module that registers it: `"ale_py:ALE/Pong-v5"`.
        actions: Names of actions: `{"left": 0, ...}`, which may omit actions, or a list with one name for
            each number of a discrete space. Only these names are then valid. Values are actions of the space,
            numbers or lists of them. None for the environment's own names, or numbers.
        goal: One sentence for the prompt; empty for the known goal of the environment, if any.
        rules: Further sentences for the prompt.
        success: Criterion of success: `"reward"` (the episode ends with a positive reward), `"terminated"`,
            `"truncated"` (the episode lasts until the time limit), a number (the minimum return),
            `"info:KEY"`, or a function `success(env, reward, terminated, truncated, info) -> bool`, also as
            `"module:function"`. None for `success` or `is_success` of `info`, else the known criterion of the
            environment, else `"reward"`.
        describe: `describe(env) -> str` returns the state in words; required for text modes.
        plan: `plan(env)` returns an optimal plan as names or values of actions, or None; it must not step
            `env`. Required for the oracle. Functions may be given as `"module:function"`.
        hint: Entries of a dict observation whose text is part of every observation; None for all texts.
        make: Arguments of `gymnasium.make`.
        image_px: Longer side of images, in pixels; None for the size that the environment draws.
        name: The world's id is `Adapted/NAME`; None for the environment's id, with `-` in place of `/`.
        **world_kwargs: Default arguments of the world, such as `max_turns`.

    Returns:
        The id of the world.

    Raises:
        ConfigError: If the environment does not exist, or an argument is not valid.
    """
    world_id, kwargs = _registration(
        name,
        {
            "env": env_id,
            **{key: value for key, value in locals().items() if key in SETTINGS and key != "env"},
            **world_kwargs,
        },
    )
    if not _is_registered(world_id, kwargs):
        _register(world_id, kwargs)
    return world_id


def resolved(text: str) -> str:
    """Returns the id of the adapted world that `adapt:TEXT` stands for, and registers the world.

    Args:
        text: Id of a Gymnasium environment, or path of a TOML file with the arguments of `adapt`. Functions
            that it names may be in modules next to it.

    Raises:
        ConfigError: If the environment or file does not exist, a key of the file is unknown or not valid, or
            the name is already used for a world with other settings.
    """
    source, is_file = source_of(text), is_toml(text)
    if not is_file:
        _require_no_settings(text)
    if source in FIXED:
        return FIXED[source]
    arguments: dict[str, Any] = {"env": text}
    if is_file:
        folder = os.path.dirname(source)
        search(folder)
        arguments = located(_read(text), folder, folder)
    try:
        world_id, kwargs = _registration(arguments.pop("name", None), arguments)
    except ConfigError as error:
        if is_file:
            raise ConfigError(f"{text}: {error}") from error
        if Path(f"{text}.toml").is_file():
            raise ConfigError(f"{error} Did you mean '{ADAPT}:{text}.toml'?") from error
        raise
    if not _is_registered(world_id, kwargs):
        require(
            world_id not in gym.registry or SOURCES.get(world_id) == source,
            f"{ADAPT}:{text}: {world_id} is already a world with other settings. Give this one another name: "
            f"name = {(world_id.rpartition('/')[2] + '-2')!r} in the TOML file.",
        )
        gym.registry.pop(world_id, None)  # the same file with changed contents
        _register(world_id, kwargs)
        SOURCES[world_id] = source
    return world_id


def _require_no_settings(text: str) -> None:
    """Rejects settings after the path of a file; boards remove settings first."""
    found = re.match(r"(.+\.toml):(.*)", text, re.DOTALL | re.IGNORECASE)
    if found is None:
        return
    file, setting = found.groups()
    name, equals, value = setting.partition("=")
    require(
        bool(equals) and name.isidentifier(),
        f"{ADAPT}:{text}: expected NAME=VALUE after {file}:, such as max_turns=5; got {setting!r}.",
    )
    raise ConfigError(
        f"{ADAPT}:{text}: only boards accept settings after the file. Use --set {setting}; for training, "
        f"--worlds.0.kwargs.{name.replace('_', '-')} {value}."
    )


def source_of(text: str) -> str:
    """Returns the text after `adapt:`, with the absolute path if it is a file."""
    return os.path.abspath(text) if is_toml(text) else text


def is_toml(text: str) -> bool:
    """Returns whether a text names a TOML file."""
    return text.lower().endswith(".toml")


FIXED: dict[str, str] = {}
"""Source to the id of the world that it stands for, whatever its file contains: see `vlm_envs.adapter.stored`."""

SOURCES: dict[str, str] = {}
"""World id to the text after `adapt:`."""

RESOLVERS[ADAPT] = resolved


def _registration(name: str | None, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns the id of a world, and the arguments that differ from the defaults, as plain values."""
    require("env" in arguments, 'env = "ID" is missing; add the id of a Gymnasium environment.')
    described = AdapterSettings(**{key: value for key, value in arguments.items() if key in SETTINGS})
    require_env(described.env)
    defaults = {field.name: field.default for field in fields(AdapterSettings) if field.default is not MISSING}
    kwargs = {key: plain(value) for key, value in arguments.items() if key not in defaults or value != defaults[key]}
    # The class of adapted worlds is imported only when the first world is adapted
    known = [*keyword_parameters(gym.envs.registration.load_env_creator(ENTRY_POINT)), "name"]
    for key in kwargs:
        require(
            key in known,
            f"adapt has no argument {key!r}.{did_you_mean(key, known)} Its arguments are {', '.join(known)}.",
        )
    for key in ("max_turns", "max_actions_per_turn"):
        if key in kwargs:
            require_positive(key, kwargs[key])
    chosen = described.env.rpartition(":")[2].replace("/", "-") if name is None else name
    require(
        isinstance(chosen, str) and _NAME.fullmatch(chosen) is not None,
        "name must consist of 1 to 100 letters, digits, '.', '_', and '-', and must not start with '.'; got "
        f"{chosen!r:.120}.",
    )
    return f"{NAMESPACE}/{chosen}", kwargs


def _register(world_id: str, kwargs: Mapping[str, Any]) -> None:
    """Registers a world; raises `ConfigError` if Gymnasium rejects its name because of another one."""
    # Gymnasium compares versions of adapted worlds, but users may want several of their environments
    warnings.filterwarnings("ignore", rf".*environment {NAMESPACE}/\S+ is out of date")
    try:
        register(world_id, ENTRY_POINT, **kwargs)
    except gym.error.RegistrationError as error:
        start = world_id.rpartition("-v")[0] or world_id
        others = [other for other in gym.registry if other == start or other.rpartition("-v")[0] in (start, world_id)]
        raise ConfigError(
            f"{world_id} conflicts with {', '.join(others)}: Gymnasium does not allow names with and without a "
            "version "
            "together. Choose another name."
        ) from error


def _is_registered(world_id: str, kwargs: Mapping[str, Any]) -> bool:
    """Returns whether a world already has these settings, ignoring a module before the environment's id."""
    spec = gym.registry.get(world_id)
    if spec is None or spec.entry_point != ENTRY_POINT:
        return False
    of_env = [{**settings, "env": settings["env"].rpartition(":")[2]} for settings in (spec.kwargs, kwargs)]
    return of_env[0] == of_env[1]


def _read(file: str) -> dict[str, Any]:
    """Returns the arguments in a TOML file."""
    import tomllib  # needed for files only

    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # of the encoding or the syntax
        raise ConfigError(f"{ADAPT}:{file}: the file cannot be read: {error}.") from error


def plain(value: Any) -> Any:
    """Returns a setting with arrays and tuples as lists, and mappings as dicts, so that settings can be compared."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def require_env(env_id: str) -> str:
    """Returns the id of a registered environment, after importing its module.

    Raises:
        ConfigError: If the environment does not exist, or its package is not installed.
    """
    described = env_id.removeprefix(f"{ADAPT}:")
    require(
        described == env_id,
        f"{env_id}: omit the prefix {ADAPT!r} of the environment's id: {described!r}.",
    )
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        for variable, value in HEADLESS.items():  # most are read when a library is imported
            os.environ.setdefault(variable, value)
    module, _, name = env_id.rpartition(":")
    if not module and name not in gym.registry:
        module = next((package for start, package in PACKAGES.items() if name.startswith(start)), "")
    if module:
        likely = module.partition(".")[0].replace("_", "-")
        import_named(module, option=env_id, instead=f"Install what registers {name}, such as: pip install {likely}")
    if name not in gym.registry:
        whole = [other for other in gym.registry if other.rpartition("-v")[0] == name]
        hint = did_you_mean(name, whole or [*gym.registry])
        raise ConfigError(
            f"{env_id!r} is not a registered Gymnasium environment.{hint} To import the module that registers it, "
            "put its name in front: "
            "'my_module:My/Env-v0'."
        )
    require(not name.startswith(f"{NAMESPACE}/"), f"{env_id} is already an adapted world; use it without adapt.")
    return name


INFO_RULE = "info:"
"""Prefix of a `success` that names an entry of `info`, not a function."""

_SETTINGS = ("success", "describe", "plan")
_DIGEST_CHARS = 16
_LOCK = threading.Lock()


class _Named(NamedTuple):
    """The parts of a function's name; `folder` is empty for modules that are imported by name."""

    folder: str
    module: str
    function: str

    @classmethod
    def parse(cls, value: object) -> _Named | None:
        if not isinstance(value, str) or ":" not in value:
            return None
        path, _, function = value.rpartition(":")
        return cls(*os.path.split(path), function)

    def __str__(self) -> str:
        return f"{os.path.join(self.folder, self.module)}:{self.function}"

    @property
    def file(self) -> Path | None:
        """The module's file in the folder, or None if it does not exist."""
        path = Path(self.folder, *self.module.split("."))
        files = (path / "__init__.py", path.with_name(f"{path.name}.py"))
        return next(filter(Path.is_file, files), None) if self.folder else None


def _functions(arguments: Mapping[str, Any]) -> dict[str, _Named]:
    found = {key: _Named.parse(arguments.get(key)) for key in _SETTINGS}
    is_rule = str(arguments.get("success")).startswith(INFO_RULE)
    return {key: named for key, named in found.items() if named is not None and not (key == "success" and is_rule)}


def located(arguments: Mapping[str, Any], directory: str | Path, beside: str) -> dict[str, Any]:
    """Returns arguments of `adapt` with absolute folders of functions.

    Args:
        arguments: The arguments.
        directory: Directory to which folders in the arguments are relative.
        beside: Folder whose modules are used if a function has no folder or its folder does not contain the
            module; empty for none.
    """
    found = dict(arguments)
    for key, named in _functions(arguments).items():
        own = named._replace(folder=named.folder and os.path.abspath(os.path.join(directory, named.folder)))
        other = named._replace(folder=beside)
        found[key] = str(other if own.file is None and other.file is not None else own)
    return found


def relative(arguments: Mapping[str, Any], directory: str | Path) -> dict[str, Any]:
    """Returns arguments with the folders of functions relative to a directory."""
    named = {key: value for key, value in _functions(arguments).items() if value.folder}
    moved = {key: str(value._replace(folder=os.path.relpath(value.folder, directory))) for key, value in named.items()}
    return {**arguments, **moved}


def without_folders(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments with functions as `"module:function"`."""
    return {**arguments, **{key: str(named._replace(folder="")) for key, named in _functions(arguments).items()}}


def digests(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Returns a hash of every file that functions come from, by its path within its folder."""
    files = {named.file: named.folder for named in _functions(arguments).values()}
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()[:_DIGEST_CHARS]
        for file, folder in files.items()
        if file is not None
    }


def search(folder: str) -> None:
    """Adds a folder to the end of the import path; an environment's module may be next to a TOML file."""
    if folder and folder not in sys.path:
        sys.path.append(folder)


def function_of(what: str, value: str | Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function, importing it if it is given by name.

    Args:
        what: Name of the setting, for messages.
        value: The function, `"module:function"`, or `"folder/module:function"`.

    Raises:
        ConfigError: If the module or function does not exist.
    """
    if not isinstance(value, str):
        return value
    named = _Named.parse(value)
    assert named is not None, value
    option = f"{what}={str(named._replace(folder=''))!r}"
    if named.folder:
        module = _beside(named, option)
    else:
        module = import_named(named.module, option=option, instead="Run from the folder that holds it, or install it.")
    found: Any = getattr(module, named.function, None)
    hint = did_you_mean(named.function, vars(module))
    require(callable(found), f"{option}: {named.module} has no function {named.function!r}.{hint}")
    return found  # type: ignore[no-any-return]


def _beside(named: _Named, option: str) -> ModuleType:
    """Returns a module of a folder, even if other modules have the same name."""
    folder, file = os.path.abspath(named.folder), named.file
    if file is None:
        raise ConfigError(
            f"{option}: {os.path.join(folder, *named.module.split('.'))}.py does not exist. Restore it or, if it "
            "was "
            "moved with the TOML file, run from the folder that the file's path is relative to."
        )
    by_name = sys.modules.get(named.module)
    if by_name is not None and _path_of(by_name) == file.resolve():
        return by_name  # it registered the environment; the classes must be the same objects
    package = f"_vlm_envs_beside_{hashlib.sha256(folder.encode()).hexdigest()[:_DIGEST_CHARS]}"
    with _LOCK:
        if (imported := sys.modules.get(f"{package}.{named.module}")) is not None:
            return imported
        if package not in sys.modules:
            sys.modules[package] = ModuleType(package)
            sys.modules[package].__path__ = [folder]
        with _siblings_first(folder):
            return import_named(f"{package}.{named.module}", option=option, instead="", shown=named.module)


@contextlib.contextmanager
def _siblings_first(folder: str) -> Iterator[None]:
    """Makes imports prefer a folder's modules to others of the same names, except for the standard library's."""
    names = {path.stem for path in Path(folder).iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    names -= sys.stdlib_module_names

    def loaded() -> dict[str, ModuleType]:
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}

    def is_elsewhere(module: ModuleType) -> bool:
        path = _path_of(module)
        return path is None or not path.is_relative_to(Path(folder).resolve())

    others = {name: module for name, module in loaded().items() if is_elsewhere(module)}
    for name in others:
        del sys.modules[name]
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(folder)
        hidden = {name.partition(".")[0] for name in others}
        for name in loaded():
            if name.partition(".")[0] in hidden:
                del sys.modules[name]
        sys.modules.update(others)


def _path_of(module: ModuleType) -> Path | None:
    path = getattr(module, "__file__", None)
    return None if path is None else Path(path).resolve()
