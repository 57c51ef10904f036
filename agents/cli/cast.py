"""Who plays what: where a checkpoint says what it has learnt, nobody has to say it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.hf.learnt import OF_CHECKPOINTS, Learnt, LearntWorld, learnt_with, shipped_start, with_model_in
from agents.registry import require_agent
from vlm_envs.errors import ConfigError
from vlm_envs.registration import arguments_of, registered_name, require_available

RECIPE = "recipe"
"""`recipe:NAME` is the start that a recipe ships."""


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Who plays what.

    Attributes:
        agent: As `make_agent` takes it.
        env_id: The world.
        kwargs: Its arguments, as far as they are said; others are the world's own.
        sampling: How responses are drawn, as far as a checkpoint says so; fields of `SamplingConfig`.
        told: What whoever watches should know, in one line; empty for nothing.
    """

    agent: str
    env_id: str
    kwargs: Mapping[str, Any]
    sampling: Mapping[str, Any]
    told: str


def cast(agent: str, env_id: str | None, chosen: Mapping[str, Any]) -> Cast:
    """Returns who plays what; a checkpoint plays the worlds that it has learnt as it has learnt them.

    Args:
        agent: Name of an agent, or `recipe:NAME`; a checkpoint's directory may be that of a run.
        env_id: The world; None for the first that the checkpoint has learnt.
        chosen: Arguments of the world that are set; they come before those that were learnt with.

    Raises:
        ConfigError: If there is no such agent, recipe or world, none is named and none is known, or what a checkpoint
            says of itself cannot be read.
        EngineUnavailableError: If the world lacks something here.
        FileNotFoundError: If there is no such checkpoint.
    """
    name, learnt = _found(agent)
    if env_id is None and not learnt.worlds:
        raise ConfigError(
            f"python -m agents play {agent} needs ENV_ID, such as VLM/Sokoban-v0: nothing says which world it has "
            "learnt. List all: python -m vlm_envs list"
        )
    played = env_id or learnt.worlds[0].env_id
    id_ = registered_name(played)
    require_available(id_)
    alike = [world for world in learnt.worlds if world.name == id_]
    world = min(alike, key=lambda each: len(_differences(each, chosen)), default=None)
    return Cast(
        agent=name,
        env_id=played,
        kwargs={**(world.kwargs if world else {}), **chosen},
        sampling=learnt.sampling,
        told=_told(agent, played, learnt, world, chosen, is_named=env_id is not None) if learnt.worlds else "",
    )


def _found(agent: str) -> tuple[str, Learnt]:
    """Returns an agent's name as `make_agent` takes it, and what it has learnt with."""
    kind, _, part = agent.partition(":")
    name = f"hf:{shipped_start(part)}" if kind == RECIPE else with_model_in(agent)
    require_agent(name)
    kind, _, part = name.partition(":")
    return name, learnt_with(Path(part)) if kind in OF_CHECKPOINTS and part else Learnt()


def _differences(world: LearntWorld, chosen: Mapping[str, Any]) -> list[str]:
    """Returns in words in which of the chosen arguments a world is not as it was learnt."""
    if not chosen:
        return []
    before, now = (arguments_of(world.env_id, kwargs) for kwargs in (world.kwargs, {**world.kwargs, **chosen}))
    return [f"{name}={before.get(name)}, not {now[name]}" for name in chosen if before.get(name) != now[name]]


def _told(
    agent: str, env_id: str, learnt: Learnt, world: LearntWorld | None, chosen: Mapping[str, Any], *, is_named: bool
) -> str:
    """Returns how what is played is related to what was learnt."""
    others = ", ".join(dict.fromkeys(each.name for each in learnt.worlds if world is None or each.name != world.name))
    if world is None:
        return f"{agent} has not learnt {env_id}, but {others}: what it says here may make no sense."
    if differences := _differences(world, chosen):
        left = {name: value for name, value in world.kwargs.items() if name not in chosen}
        rest = f" What is not set is as it has learnt it: {_listed(left)}." if left else ""
        return f"{agent} has learnt {env_id} with {'; '.join(differences)}.{rest}"
    more = f" It has learnt {others}, too: name one to see it." if others and not is_named else ""
    return (
        f"{agent} plays {env_id} with the arguments it has learnt with: {_listed(world.kwargs)}; --set NAME=VALUE for "
        f"others.{more}"
    )


def _listed(kwargs: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in kwargs.items()) or "the world's own"
