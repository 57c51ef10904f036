"""Registration of every world with Gymnasium, by string entry points so that nothing heavy is imported."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium as gym

from vlm_envs.arguments.faults import import_named, lacking_methods
from vlm_envs.errors import ConfigError, did_you_mean

NAMESPACE = "VLM"

WORLDS: dict[str, str] = {
    "VLM/Sokoban-v0": "vlm_envs.worlds.sokoban.world:SokobanWorld",
    "VLM/FrozenLake-v0": "vlm_envs.worlds.frozen_lake.world:FrozenLakeWorld",
    "VLM/Navigation-v0": "vlm_envs.worlds.navigation.world:NavigationWorld",
    "VLM/PrimitiveSkill-v0": "vlm_envs.worlds.primitive_skill.world:PrimitiveSkillWorld",
    "VLM/SVG-v0": "vlm_envs.worlds.svg.world:SvgWorld",
    "VLM/ZoomQA-v0": "vlm_envs.worlds.zoom_qa.world:ZoomQAWorld",
    "VLM/RewardJudging-v0": "vlm_envs.worlds.reward_judging.world:RewardJudgingWorld",
    "VLM/DocQA-v0": "vlm_envs.worlds.doc_qa.world:DocQaWorld",
    "VLM/VideoQA-v0": "vlm_envs.worlds.video_qa.world:VideoQAWorld",
}
"""Env id to entry point."""


class Variant(NamedTuple):
    """A setting of a world under an id of its own.

    Attributes:
        base_id: The world.
        kwargs: The setting.
        summary: One sentence on what differs.
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
        ("FineGrainedPair", "fine_grained", 2, "which of two paragraphs about a picture is right"),
        ("FineGrainedFour", "fine_grained", 4, "which of four paragraphs about a picture is right"),
        ("DocumentSingle", "document", 1, "whether a paragraph from a report is right"),
        ("DocumentPair", "document", 2, "which of two paragraphs from a report is right"),
        ("InstructionSingle", "instruction_following", 1, "whether a text meets every requirement"),
    )
}
"""Env id to the setting it stands for: the tasks that VAGEN's tables report as worlds of their own, and those of
ARMBench-VL (ARM-Thinker, table 6)."""


class Need(NamedTuple):
    """What a world needs besides the base package.

    Attributes:
        extra: The extra that installs its packages.
        packages: What the world imports of them, by import name.
        besides: What pip cannot install; empty for nothing.
        probe: `"module:function"` without arguments, which raises `EngineUnavailableError` unless the engine starts.
            Empty where there is no engine.
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
        probe="vlm_envs.worlds.primitive_skill.vulkan:require_engine",
    ),
    "VLM/SVG-v0": Need(
        "svg",
        ("cairosvg",),
        besides="the system's library cairo 2",
        probe="vlm_envs.worlds.svg.painter_process:require_painter",
    ),
    "VLM/ZoomQA-v0": Need("tools", ("pydantic",)),
    "VLM/DocQA-v0": Need("tools", _DOCUMENTS),
    "VLM/VideoQA-v0": Need("tools", ("pydantic",)),
    "VLM/RewardJudging-v0": Need("tools", (*_DOCUMENTS, "pysbd")),
}
"""Env id to what that world needs; worlds that need nothing are left out, variants are as their world."""


def register(env_id: str, entry_point: str, **kwargs: Any) -> None:
    """Registers a world, so that `gymnasium.make_vec` gives a `VectorWorld` of it as of every world of this package.

    Args:
        env_id: Its id, such as `My/World-v0`.
        entry_point: `"module:Class"`.
        **kwargs: Arguments it is made with unless told otherwise.
    """
    gym.register(env_id, entry_point, vector_entry_point=f"vlm_envs.vector.make:{env_id}", kwargs=kwargs)


def register_worlds() -> None:
    """Registers every world of this package; doing so twice changes nothing."""
    for env_id, entry_point in WORLDS.items():
        if env_id not in gym.registry:
            register(env_id, entry_point)
    for env_id, variant in VARIANTS.items():
        if env_id not in gym.registry:
            register(env_id, WORLDS[variant.base_id], **variant.kwargs)


def env_ids() -> list[str]:
    """Returns the ids of all registered worlds, those of users included, sorted."""
    return sorted(env_id for env_id in gym.registry if env_id.startswith(f"{NAMESPACE}/"))


def registered_name(env_id: str) -> str:
    """Returns an id as it is registered; a module in front, `"module:Namespace/Name-v0"`, is imported, to register it.

    Raises:
        ConfigError: If the module cannot be imported, or no such world is registered; it names the closest one.
    """
    module, colon, name = env_id.rpartition(":")
    if colon:
        instead = "Write it as in an import statement and run from the folder that holds it."
        import_named(module, option=env_id, instead=instead)
    if name not in gym.registry:
        namespace = name.rpartition("/")[0]
        beside = [each for each in gym.registry if each.rpartition("/")[0] == namespace]
        # Without a module, what has no namespace is Gymnasium's, and hardly meant
        known = [*env_ids(), *(beside if colon or namespace else ())]
        # An id is taken as it is registered: its middle alone could be several
        whole = [each for each in [*known, *gym.registry] if each.rpartition("/")[2].rpartition("-v")[0] == name]
        hint = did_you_mean((whole or [name])[0], whole or known, prefix=module + colon)
        raise ConfigError(f"Unknown env {env_id!r}.{hint} List all: python -m vlm_envs list")
    return name


def make(env_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Makes a world, with an error that suggests the id you meant.

    Args:
        env_id: A registered id, with or without a module in front, which is imported: `my_module:My/World-v0`.
        **kwargs: Arguments of the world.

    Returns:
        The environment, as `gymnasium.make` returns it.

    Raises:
        ConfigError: If no such world is registered, it has no such argument, or a class of it lacks a method. Other
            errors of the world's constructor are raised as they are.
    """
    name = registered_name(env_id)
    try:
        return gym.make(name, **kwargs)
    except TypeError as error:
        if lacking := lacking_methods(error):
            raise ConfigError(f"{env_id} cannot be made: {lacking}.") from error
        unknown = _unknown_argument(error, kwargs, known := list(_parameters(name)))
        if unknown is None:
            raise
        raise ConfigError(
            f"{env_id} cannot be made with {unknown}={kwargs[unknown]!r}: it has no argument {unknown!r}."
            f"{did_you_mean(unknown, known)} It takes {', '.join(known)}."
        ) from error


def _unknown_argument(error: TypeError, kwargs: dict[str, Any], known: list[str]) -> str | None:
    """Returns the keyword argument that a constructor does not have, or None if the error is about something else."""
    match = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    name = match.group(1) if match else None
    return name if name in kwargs and name not in known else None


def arguments_of(env_id: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all arguments that a world would be made with, however much of them is spelled out.

    That is what is spelled out, else what the id stands for, else the constructor's defaults, those of its base classes
    included. Lists are tuples, as they are after a run's configuration was saved.
    """
    name = registered_name(env_id)
    defaults = {key: each.default for key, each in _parameters(name).items() if each.default is not each.empty}
    return {key: _with_tuples(value) for key, value in (defaults | gym.spec(name).kwargs | dict(kwargs)).items()}


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list | tuple) else value


def creator_of(env_id: str) -> Any:
    """Returns the class, or the function, that makes a registered world."""
    entry_point = gym.spec(registered_name(env_id)).entry_point
    return gym.envs.registration.load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def _parameters(env_id: str) -> dict[str, inspect.Parameter]:
    """Returns the keyword parameters of a registered world; of a base class those that no subclass has itself."""
    creator = creator_of(env_id)
    constructors = [vars(each).get("__init__") for each in creator.__mro__] if isinstance(creator, type) else [creator]
    found: dict[str, inspect.Parameter] = {}
    for constructor in filter(None, constructors):
        parameters = inspect.signature(constructor).parameters.values()
        found = found | {e.name: e for e in parameters if e.kind is e.KEYWORD_ONLY and e.name not in found}
        if all(each.kind is not each.VAR_KEYWORD for each in parameters):
            break
    return found
