"""Agents by name: `make_agent("oracle")`, `make_agent("hf:runs/frozenlake_tiny/latest/model", seed=1)`.

A name is that of an entry, with what the agent is made from after a colon where it needs something. A new agent is one
file and one entry here.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agents.agent import Agent, LearningAgent
from vlm_envs.errors import ConfigError, EngineUnavailableError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class AgentEntry:
    """How an agent is made.

    Attributes:
        factory: `module:callable`, imported only when the agent is asked for. It takes the part after the colon, if
            the name has one, and the settings as keyword arguments.
        summary: What the agent is, in one line.
        part: What stands after the colon, such as `"DIR"`; empty for nothing.
        check: `module:callable` that takes the part and raises if nothing can be made from it, before anything costly;
            empty for no such check.
        needs: What to install where an import fails.
        carries_out_plans: Whether it plays by the world's planner, and at random where a world has none.
    """

    factory: str
    summary: str
    part: str = ""
    check: str = ""
    needs: str = "pip install '.[train]'"
    carries_out_plans: bool = False


AGENTS: dict[str, AgentEntry] = {
    "oracle": AgentEntry(
        factory="agents.oracle:OracleAgent", summary="carries out the world's own plan", carries_out_plans=True
    ),
    "random": AgentEntry(factory="agents.oracle:RandomAgent", summary="takes random valid actions"),
    "human": AgentEntry(factory="agents.human:HumanAgent", summary="asks whoever sits at the terminal"),
    "hf": AgentEntry(
        factory="agents.hf.agent:HFAgent",
        summary="a Qwen2.5-VL or Qwen3-VL checkpoint directory, such as runs/NAME/latest/model",
        part="DIR",
        check="agents.hf.checkpoint:require_checkpoint",
    ),
}
"""Every agent by the name it is asked for."""


def make_agent(name: str, **settings: Any) -> Agent:
    """Returns an agent by its name.

    Args:
        name: Such as `"oracle"`, `"random"` or `"hf:DIR"`.
        **settings: The agent's own; see `setting_names`.

    Returns:
        The agent, ready for `start`.

    Raises:
        ConfigError: If there is no such agent, or it has no such setting, or cannot have such a value.
        EngineUnavailableError: If a package it needs is not installed.
        FileNotFoundError: If what it is made from is not there.
    """
    require_agent(name)
    kind, _, part = name.partition(":")
    known = setting_names(name)
    for setting in settings:
        if setting not in known:
            raise ConfigError(
                f"The agent {kind!r} has no setting {setting!r}; it has {', '.join(known)}."
                f"{did_you_mean(setting, known)}"
            )
    made: Agent = _factory(kind)(*([part] if part else []), **settings)
    return made


def carries_out_plans(name: str) -> bool:
    """Returns whether an agent plays by the world's planner, and at random where a world has none."""
    return AGENTS[name.partition(":")[0]].carries_out_plans


def make_learning_agent(name: str, **settings: Any) -> LearningAgent:
    """Returns an agent that takes weights, which is what a trainer collects with.

    Raises:
        ConfigError: As `make_agent`, and if the agent does not learn.
    """
    agent = make_agent(name, **settings)
    if not isinstance(agent, LearningAgent):
        raise ConfigError(f"The agent {name!r} cannot learn: it has no sync(policy, version). Train with 'hf'.")
    return agent


def require_agent(name: str) -> None:
    """Refuses what cannot be an agent's name, and one whose agent has nothing to be made from; loads no weights.

    Raises:
        ConfigError: If there is no such agent.
        FileNotFoundError: If what it is made from is not there.
        ValueError: If that is of another kind.
    """
    kind, colon, part = name.partition(":")
    if kind not in AGENTS:
        raise ConfigError(f"Unknown agent {name!r}.{_meant(name)} Agents: {', '.join(map(usage, AGENTS))}.")
    entry = AGENTS[kind]
    if colon and not entry.part:
        raise ConfigError(f"The agent {kind!r} takes nothing after a colon; got {name!r}.")
    if colon and not part:
        raise ConfigError(f"The agent {kind!r} is made from something: {usage(kind)}; got {name!r}.")
    if part and entry.check:
        _imported(kind, entry.check)(part)


def setting_names(name: str) -> tuple[str, ...]:
    """Returns the settings that an agent has.

    Args:
        name: With or without its part.
    """
    parameters = inspect.signature(_factory(name.partition(":")[0])).parameters.values()
    return tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)


def _factory(kind: str) -> Callable[..., Any]:
    return _imported(kind, AGENTS[kind].factory)


def _imported(kind: str, where: str) -> Callable[..., Any]:
    module, _, attribute = where.partition(":")
    try:
        return cast("Callable[..., Any]", getattr(importlib.import_module(module), attribute))
    except ModuleNotFoundError as error:
        raise EngineUnavailableError(
            f"The agent {kind!r} needs the package {error.name}, which is not installed. Run: {AGENTS[kind].needs}"
        ) from error


def usage(kind: str) -> str:
    """Returns how an agent is asked for: `"oracle"`, `"hf:DIR"`."""
    part = AGENTS[kind].part
    return f"{kind}:{part}" if part else kind


def _meant(name: str) -> str:
    """Returns a sentence with the name that was meant, as far as that can be told."""
    if Path(name).is_dir():
        return f" Did you mean 'hf:{name}'?"
    kind, colon, part = name.partition(":")
    meant = next(iter(difflib.get_close_matches(kind.lower(), AGENTS, n=1)), "")
    return f" Did you mean {meant + colon + part!r}?" if meant else ""
