"""Registration of every world with Gymnasium, requirements of worlds, and the type of their classes.

Entry points are strings, so nothing heavy is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from abc import ABCMeta
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.vector import VectorEnv

from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.user_code import import_named
from vlm_envs.validation import did_you_mean, require, require_choice

NAMESPACE = "VLM"
ADAPT = "adapt"
"""`adapt:` before a Gymnasium id, or before the path of a TOML file, denotes the adapted world."""

WORLDS: dict[str, str] = {
    "VLM/Sokoban-v0": "vlm_envs.worlds.sokoban:SokobanWorld",
    "VLM/FrozenLake-v0": "vlm_envs.worlds.frozen_lake:FrozenLakeWorld",
    "VLM/Navigation-v0": "vlm_envs.worlds.navigation.navigation_world:NavigationWorld",
    "VLM/PrimitiveSkill-v0": "vlm_envs.worlds.primitive_skill.primitive_skill_world:PrimitiveSkillWorld",
    "VLM/SVG-v0": "vlm_envs.worlds.svg.svg_world:SvgWorld",
    "VLM/ZoomQA-v0": "vlm_envs.worlds.zoom_qa:ZoomQAWorld",
    "VLM/RewardJudging-v0": "vlm_envs.worlds.reward_judging:RewardJudgingWorld",
    "VLM/DocQA-v0": "vlm_envs.worlds.doc_qa:DocQaWorld",
    "VLM/VideoQA-v0": "vlm_envs.worlds.video_qa:VideoQAWorld",
}
"""Env id to entry point."""


class Variant(NamedTuple):
    """A setting of a world that has its own id.

    Attributes:
        base_id: The world.
        kwargs: The setting.
        summary: One sentence about the difference.
    """

    base_id: str
    kwargs: Mapping[str, Any]
    summary: str


VARIANTS: dict[str, Variant] = {
    f"VLM/PrimitiveSkill{task.title()}-v0": Variant(
        "VLM/PrimitiveSkill-v0", MappingProxyType({"task": task}), f"PrimitiveSkill with task={task!r}: {what}."
    )
    for task, what in (
        ("place", "put two cubes on two targets"),
        ("stack", "put one cube on another, and a third on a target"),
        ("drawer", "put a cube into a drawer that has to be opened first"),
        ("align", "put all cubes into one line"),
    )
} | {
    f"VLM/RewardJudging{name}-v0": Variant(
        "VLM/RewardJudging-v0",
        MappingProxyType({"tracks": track, "num_candidates": number}),
        f"RewardJudging with tracks={track!r} and num_candidates={number}: {what}.",
    )
    for name, track, number, what in (
        ("FineGrainedPair", "fine_grained", 2, "which of two paragraphs about an image is correct"),
        ("FineGrainedFour", "fine_grained", 4, "which of four paragraphs about an image is correct"),
        ("DocumentSingle", "document", 1, "whether a paragraph from a report is correct"),
        ("DocumentPair", "document", 2, "which of two paragraphs from a report is correct"),
        ("InstructionSingle", "instruction_following", 1, "whether a text meets every requirement"),
    )
}
"""Env id to the setting it denotes: the tasks that VAGEN's tables report as separate worlds, and those of
ARMBench-VL (ARM-Thinker, table 6)."""


class Need(NamedTuple):
    """Requirements of a world in addition to the base package.

    Attributes:
        extra: The extra that installs its packages.
        packages: Packages that the world imports from it, by import name.
        besides: Requirements that pip cannot install; empty for none.
        probe: `"module:function"` without arguments, which raises `EngineUnavailableError` unless the engine
            starts. Empty if there is no engine.
    """

    extra: str
    packages: tuple[str, ...]
    besides: str = ""
    probe: str = ""


_DOCUMENTS = ("bm25s", "matplotlib", "pydantic", "pypdfium2", "reportlab")

NEEDS: dict[str, Need] = {
    "VLM/Navigation-v0": Need("navigation", ("panda3d",), probe="vlm_envs.content.homes.panda_engine:engine"),
    "VLM/PrimitiveSkill-v0": Need(
        "manipulation",
        ("sapien", "mani_skill"),
        besides="a Vulkan driver",
        probe="vlm_envs.worlds.primitive_skill.sapien_scene:require_engine",
    ),
    "VLM/SVG-v0": Need(
        "svg",
        ("cairosvg",),
        besides="the system's library cairo 2",
        probe="vlm_envs.worlds.svg.svg_renderer:require_painter",
    ),
    "VLM/ZoomQA-v0": Need("tools", ("pydantic",)),
    "VLM/DocQA-v0": Need("tools", _DOCUMENTS),
    "VLM/VideoQA-v0": Need("tools", ("pydantic",)),
    "VLM/RewardJudging-v0": Need("tools", (*_DOCUMENTS, "pysbd")),
}
"""Env id to the requirements of that world; worlds without any are omitted, and variants share those of their world."""


PACKAGES: Mapping[str, str] = MappingProxyType(
    {"MiniGrid": "minigrid", "BabyAI": "minigrid", "ALE": "ale_py", "MiniWorld": "miniworld"}
)
"""Prefix of the ids of another package's environments to the module that registers them."""

RESOLVERS: dict[str, Callable[[str], str]] = {}
"""Prefix of ids, before a colon, to a function that registers the world described by the rest and returns its id."""


def register(env_id: str, entry_point: str, **kwargs: Any) -> None:
    """Registers a world such that `gymnasium.make_vec` creates a `VectorWorld`, as for the worlds of this package.

    Args:
        env_id: Its id, such as `My/World-v0`.
        entry_point: `"module:Class"`.
        **kwargs: Default arguments of the world.
    """
    gym.register(env_id, entry_point, vector_entry_point=f"vlm_envs.vector.make_vec:{env_id}", kwargs=kwargs)


def register_worlds() -> None:
    """Registers every world of this package; may be called repeatedly."""
    for env_id, entry_point in WORLDS.items():
        if env_id not in gym.registry:
            register(env_id, entry_point)
    for env_id, variant in VARIANTS.items():
        if env_id not in gym.registry:
            register(env_id, WORLDS[variant.base_id], **variant.kwargs)


def env_ids() -> list[str]:
    """Returns the ids of all registered worlds, including those of users, sorted."""
    return sorted(env_id for env_id in gym.registry if env_id.startswith(f"{NAMESPACE}/"))


def registered_name(env_id: str) -> str:
    """Returns an id as it is registered, after importing its module if it has the form `"module:Namespace/Name-v0"`.

    `"adapt:ID"` and `"adapt:FILE.toml"` register an adapted world: see `vlm_envs.adapt`.

    Raises:
        ConfigError: If the module cannot be imported, or the world is not registered; the message names the
            closest id, or the id under which a Gymnasium environment can be used.
    """
    prefix, colon, described = env_id.partition(":")
    if colon and prefix in RESOLVERS:
        return RESOLVERS[prefix](described)
    module, colon, name = env_id.rpartition(":")
    if colon:
        instead = "Write it as in an import statement and run from the folder that holds it."
        import_named(module, option=env_id, instead=instead)
    if adapting := advice_to_adapt(env_id):
        raise ConfigError(adapting)
    if name not in gym.registry:
        namespace = name.rpartition("/")[0]
        # Ids without module and namespace are Gymnasium's own, so they are not suggested
        beside = (
            [env_id for env_id in gym.registry if env_id.rpartition("/")[0] == namespace] if colon or namespace else []
        )
        whole = [env_id for env_id in gym.registry if env_id.rpartition("/")[2].rpartition("-v")[0] == name]
        meant = max(whole, key=lambda each: (each.startswith(f"{NAMESPACE}/"), "/" not in each, each), default=name)
        prefix = f"{ADAPT}:" if _is_plain_env(meant) else module + colon
        hint = did_you_mean(meant, whole or [*env_ids(), *beside], prefix=prefix)
        if not hint and namespace and not colon and not name.lower().endswith(".toml"):
            hint = f" The id of your own world needs its module in front, as in my_module:{name}."
        if module and not hint:
            raise ConfigError(f"{module} does not register {name!r}. {_registered_by(module)}")
        raise ConfigError(f"Unknown env {env_id!r}.{hint} List all: python -m vlm_envs list")
    return name


def _registered_by(module: str) -> str:
    """Returns which ids a module registers, or how it would register one."""
    found = []
    for env_id, spec in gym.registry.items():
        entry = spec.entry_point
        of_entry = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
        if of_entry == module or of_entry.startswith(f"{module}."):
            found.append(f"{module}:{env_id}")
    if found:
        return f"It registers {', '.join(found[:5])}{', …' * (len(found) > 5)}."
    return "It registers none; add vlm_envs.register('My/World-v0', f'{__name__}:MyWorld') to it."


def advice_to_adapt(env_id: str) -> str:
    """Returns advice on the id to use instead of one that names a Gymnasium environment or a TOML file; else empty."""
    name = env_id.rpartition(":")[2]
    if env_id.lower().endswith(".toml") and Path(env_id).is_file():
        return f"{env_id} is a file, not the id of a world. To adapt the environment it describes: {ADAPT}:{env_id}"
    if _is_plain_env(name) or (name not in gym.registry and re.split("[-/]", name)[0] in PACKAGES):
        return not_a_world(env_id)
    return ""


def not_a_world(env_id: str) -> str:
    """Returns advice on the id to use for an environment that is not a world."""
    return f"{env_id} is a Gymnasium environment, not a world. To adapt it: {ADAPT}:{env_id}"


def _is_plain_env(name: str) -> bool:
    """Returns whether a registered class is not a world; functions may return one, and wrappers may contain one."""
    if name not in gym.registry or name.startswith(f"{NAMESPACE}/"):
        return False
    entry_point = gym.registry[name].entry_point
    try:
        creator: Any = (
            gym.envs.registration.load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
        )
    except (Exception, SystemExit):  # Errors of the module are reported when the environment is created
        return isinstance(entry_point, str) and entry_point.startswith("gymnasium.")
    is_env = isinstance(creator, type) and issubclass(creator, gym.Env) and not issubclass(creator, gym.Wrapper)
    return is_env and not isinstance(creator, WorldType)


def make(env_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Creates a world; if its id is unknown, the error suggests a similar one.

    Args:
        env_id: A registered id; in `my_module:My/World-v0`, the module is imported first.
        **kwargs: Arguments of the world. With `action_mode="discrete"`, actions are numbers, with one action
            per turn, and observations are images, as for `make_vec`; `num_levels` is then the number of
            levels drawn in advance.

    Returns:
        The environment, as `gymnasium.make` returns it.

    Raises:
        ConfigError: If the world is not registered, it has no such argument, or its class lacks a method.
            Other errors of the world's constructor pass through.
    """
    name = registered_name(env_id)
    try:
        return gym.make(name, **kwargs)
    except TypeError as error:
        if "abstract class" in str(error):
            raise ConfigError(f"{env_id} cannot be created: {error}.") from error
        _refuse_unknown_arguments(error, env_id, creator_of(name), kwargs)
        raise
    except UnknownArgumentError as error:  # names the world's class
        raise UnknownArgumentError(env_id, error.args[1]) from error


def make_vec(env_id: str, num_envs: int = 1, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """Creates several worlds at once, as `gymnasium.make_vec` does, with the error messages of `make`.

    Args:
        env_id: See `make`.
        num_envs: Number of worlds.
        **kwargs: Arguments of each world, `action_mode` and `num_levels` (see `make`), and those of
            `VectorWorld`.

    Returns:
        A `VectorWorld`, or with `action_mode="discrete"` a vector environment with integer actions.

    Raises:
        ConfigError: If the world does not exist, or an argument is not valid.
    """
    return gym.make_vec(registered_name(env_id), num_envs, **kwargs)


def arguments_of(env_id: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all arguments that a world would be created with, whether given or default.

    Given arguments take precedence over those of a variant's id, and these over the defaults of the
    constructor and its base classes. Lists become tuples, so that the result is the same after a run's
    configuration was saved.
    """
    name = registered_name(env_id)
    defaults = {
        key: parameter.default
        for key, parameter in keyword_parameters(creator_of(name)).items()
        if parameter.default is not parameter.empty
    }
    return {key: _with_tuples(value) for key, value in (defaults | gym.spec(name).kwargs | dict(kwargs)).items()}


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list | tuple) else value


def creator_of(env_id: str) -> Any:
    """Returns the class or function that creates a registered world."""
    entry_point = gym.spec(registered_name(env_id)).entry_point
    return gym.envs.registration.load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


ACTION_MODES = ("text", "discrete")

_ADDED = ("action_mode", "num_levels")


class UnknownArgumentError(ConfigError):
    """A world has no argument of that name; its arguments are what cannot be created, and the rest of the sentence."""

    def __str__(self) -> str:
        return " ".join(self.args)


class WorldType(ABCMeta):
    """The metaclass of worlds, which gives every world the argument `action_mode`, also in `gymnasium.make`.

    `action_mode="discrete"` wraps the world in a `vlm_envs.discrete_world.DiscreteWorld`. It then also has
    the argument `num_levels`, the number of levels drawn in advance, as for `gymnasium.make_vec`. A class
    whose constructor has a parameter of either name keeps its own.

    It derives from `ABCMeta`, so worlds may have abstract base classes in addition to `World`. Base classes
    with any other metaclass, such as those of Qt objects, cause a metaclass conflict: keep such an object as
    an attribute.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Returns the world, or the wrapper around it.

        Raises:
            UnknownArgumentError: For misspelled arguments.
            ConfigError: For `num_levels` without `action_mode="discrete"`.
        """
        given = {name: kwargs.pop(name) for name in _ADDED if name in kwargs and name in added_arguments(cls)}
        is_discrete = require_choice("action_mode", given.get("action_mode", "text"), ACTION_MODES) == "discrete"
        num_levels = given.get("num_levels")
        require(
            is_discrete or num_levels is None,
            f"{cls.__name__} with num_levels={num_levels!r} needs action_mode='discrete'. Add that argument, "
            "or "
            "remove num_levels.",
        )
        try:
            world = super().__call__(*args, **kwargs)
        except TypeError as error:
            _refuse_unknown_arguments(error, cls.__name__, cls, kwargs)
            raise
        if not is_discrete:
            return world
        from vlm_envs.discrete_world import discrete_world  # Text worlds do not need it

        return discrete_world(world, num_levels=num_levels)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's own signature, for help texts."""
        return inspect.signature(cls.__init__.__get__(object()))  # type: ignore[misc]


def _refuse_unknown_arguments(error: TypeError, made: str, creator: Any, kwargs: Mapping[str, Any]) -> None:
    """Raises `UnknownArgumentError` if a call of a creator failed because of an argument that it does not have."""
    known = [*keyword_parameters(creator), *(added_arguments(creator) if isinstance(creator, WorldType) else ())]
    for name in kwargs:
        if name not in known and f"unexpected keyword argument '{name}'" in str(error):
            raise UnknownArgumentError(
                made,
                f"cannot be created with {name}={kwargs[name]!r}: it has no argument {name!r}."
                f"{did_you_mean(name, known)} Its arguments are {', '.join(known) or 'none'}.",
            ) from error


def added_arguments(cls: type) -> tuple[str, ...]:
    """Returns which of `action_mode` and `num_levels` a world class gets from `WorldType`: those it lacks itself."""
    own = keyword_parameters(cls)
    return () if "action_mode" in own else tuple(name for name in _ADDED if name not in own)


def keyword_parameters(creator: Any) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a class or a function that can be given as keywords.

    If a constructor has `**kwargs`, those of base classes are included, except required ones that may be
    positional, since a subclass passes these itself.
    """
    constructors = [vars(base).get("__init__") for base in creator.__mro__] if isinstance(creator, type) else [creator]
    found: dict[str, inspect.Parameter] = {}
    for number, constructor in enumerate(filter(None, constructors)):
        parameters = [*inspect.signature(constructor).parameters.values()][isinstance(creator, type) :]  # Without self
        for parameter in parameters:
            is_required = parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is parameter.empty
            is_keyword = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if is_keyword and not (number and is_required):
                found.setdefault(parameter.name, parameter)
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
            break
    return found


def need_of(env_id: str) -> Need | None:
    """Returns the requirements of a registered world; None if it has none, or is not a world of this package."""
    entry_point = gym.registry[env_id].entry_point
    return next((need for base_id, need in NEEDS.items() if WORLDS[base_id] == entry_point), None)


def reason_missing(need: Need) -> str | None:
    """Returns why a world with a need cannot run here and the remedy, or None if it can.

    Packages are only searched for; an engine is started, since only that shows whether its libraries and
    drivers fit.
    """
    if missing := packages_missing(need):
        return missing
    if not need.probe:
        return None
    module, _, function = need.probe.partition(":")
    try:
        getattr(importlib.import_module(module), function)()
    except EngineUnavailableError as error:
        return str(error)
    return None


def packages_missing(need: Need) -> str | None:
    """Returns the missing packages of a need and the command that installs them, or None; starts no engine."""
    missing = [package for package in need.packages if importlib.util.find_spec(package) is None]
    if missing:
        besides = f" It also needs {need.besides}." if need.besides else ""
        noun = "packages" if len(missing) > 1 else "package"
        return f"no {noun} {', '.join(missing)}. Install: {install_command(need.extra)}{besides}"
    return None


def require_available(env_id: str) -> None:
    """Raises `EngineUnavailableError`, with the remedy, if a registered world lacks something here."""
    need = need_of(env_id)
    reason = None if need is None else reason_missing(need)
    if reason is not None:
        raise EngineUnavailableError(f"{env_id} cannot run here: {reason}")
