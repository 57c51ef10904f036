"""Agents by name: `make_agent("oracle")`, `make_agent("hf:runs/frozenlake_tiny/latest/model", seed=1)`.

A name is an entry's name, followed by a colon and the source of the agent (such as a directory) if it needs one, or
`MODULE:FACTORY` for your own agent. A new agent of this package is one file and one entry here.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

from agents.agent import Agent, ContinuousAgent, LearningAgent
from agents.api.endpoint_config import PROVIDERS
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.user_code import fault_in_module, import_named
from vlm_envs.validation import did_you_mean, require

TITLE = "as="


@dataclass(frozen=True)
class AgentEntry:
    """How an agent is made.

    Attributes:
        factory: `module:callable`, imported only when the agent is requested. It takes the part after the colon, if
            the name has one, and the settings as keyword arguments.
        arguments: Positional arguments before that part.
        summary: One-line description of the agent.
        part: Placeholder for the text after the colon, such as `"DIR"`; empty for none.
        check: `module:callable` that takes the part and raises if no agent can be made from it, before costly work;
            empty for none.
        extra: Extra to install if an import fails.
        carries_out_plans: Whether it plays by the world's planner, and at random in worlds without one.
        shows_observations: Whether it shows observations itself, as to a person.
    """

    factory: str
    summary: str
    arguments: tuple[str, ...] = ()
    part: str = ""
    check: str = ""
    extra: str = "train"
    carries_out_plans: bool = False
    shows_observations: bool = False


_CHECKPOINT: dict[str, Any] = {"part": "DIR", "check": "agents.hf.checkpoint:require_checkpoint"}

AGENTS: dict[str, AgentEntry] = {
    "oracle": AgentEntry("agents.oracle:OracleAgent", "carries out the world's own plan", carries_out_plans=True),
    "random": AgentEntry("agents.oracle:RandomAgent", "takes random valid actions"),
    "human": AgentEntry(
        "agents.human:HumanAgent", "asks you, at the terminal or in a browser", shows_observations=True
    ),
    "lazy": AgentEntry(
        "agents.blind_script:LazyAgent", "gives the same responses in every episode: the best script found by a search"
    ),
    "hf": AgentEntry(
        "agents.hf.hf_agent:HFAgent",
        "a checkpoint of Qwen2.5-VL, Qwen3-VL, InternVL 3, SmolVLM2 or Gemma 3, or a run: hf:runs/NAME",
        **_CHECKPOINT,
    ),
    "hf-told": AgentEntry(
        "agents.hf.ablation_agents:ToldHFAgent",
        "the same, given a true description of the state: what it would solve with perfect perception",
        **_CHECKPOINT,
    ),
    "hf-blind": AgentEntry(
        "agents.hf.ablation_agents:BlindHFAgent",
        "the same, shown blank images: what it solves without looking",
        **_CHECKPOINT,
    ),
    "vllm": AgentEntry(
        "agents.vllm.vllm_agent:VLLMAgent",
        "a checkpoint of Qwen2.5-VL or Qwen3-VL, sampled with vLLM on this machine",
        **_CHECKPOINT,
    ),
    "sb3": AgentEntry(
        "agents.sb3_agent:load_agent",
        "a PPO of stable-baselines3, as python -m benchmarks sb3 saves it",
        part="DIR",
        check="agents.sb3_agent:load_agent",
        extra="sb3",
    ),
    **{
        provider: AgentEntry(
            "agents.api.api_agent:APIAgent",
            f"a model behind {entry.summary}",
            arguments=(provider,),
            part=entry.part,
            extra="api",
        )
        for provider, entry in PROVIDERS.items()
    },
}
"""All agents by name."""


def make_agent(name: str, **settings: Any) -> Agent:
    """Returns an agent by its name.

    Args:
        name: A name such as `"oracle"`, `"random"`, `"hf:DIR"`, or `"MODULE:FACTORY"` for your own.
        **settings: The agent's own; see `setting_names`.

    Returns:
        The agent, ready for `start`.

    Raises:
        ConfigError: If there is no such agent or setting, or a value is not valid.
        EngineUnavailableError: If a package it needs is not installed.
        FileNotFoundError: If its checkpoint or directory does not exist.
    """
    require_agent(name)
    kind, _, part = name.partition(":")
    require_settings(name, settings, setting_names(name))
    if kind not in AGENTS:
        return _own(name, settings)
    if not part and _needs_part(name):
        raise ConfigError(f"The agent {kind!r} needs the part after the colon: {usage(kind)}; got {name!r}.")
    made: Agent = _factory(name)(*([part] if part else []), **settings)
    return made


def require_settings(name: str, settings: Iterable[str], known: Sequence[str]) -> None:
    """Raises `ConfigError` for the first setting that an agent does not have, listing those it has."""
    for setting in settings:
        if setting not in known:
            kind = name.partition(":")[0]
            raise ConfigError(
                f"The agent {kind if kind in AGENTS else name!r} has no setting {setting!r}; it has "
                f"{', '.join(known) or 'none'}.{did_you_mean(setting, known)}"
            )


def _needs_part(name: str) -> bool:
    """Returns whether an agent needs a part after the colon."""
    parameters = inspect.signature(_factory(name)).parameters.values()
    return any(
        parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is parameter.empty
        for parameter in parameters
    )


def _own(name: str, settings: dict[str, Any]) -> Agent:
    """Returns a user's agent; raises `ConfigError` if it cannot be made or is not an agent."""
    try:
        made: Agent = _factory(name)(**settings)
    except Exception as error:
        raise ConfigError(f"The agent {name!r} cannot be made: {fault_in_module(error) or error}") from error
    require_methods(made, name)
    return made


def require_methods(agent: object, name: str) -> None:
    """Raises `ConfigError` unless an object has the members of an agent.

    Args:
        agent: The object.
        name: The agent's name, for messages.
    """
    methods = {"start": ("worlds",), "respond": ("rows", "observations")}
    if inspect.iscoroutinefunction(getattr(agent, "respond", None)):
        methods = {"respond": ("row", "observation")}
    if isinstance(agent, ContinuousAgent):
        methods = {"start": ("worlds",)}
    if missing := [member for member in ("policy_version", *methods) if not hasattr(agent, member)]:
        raise ConfigError(f"The agent {name!r} has no {missing[0]}; see agents.agent.Agent for what an agent has.")
    for method, needed in methods.items():
        try:
            signature = inspect.signature(getattr(agent, method))
            signature.bind(*needed, **({"rows": ()} if method == "start" and "rows" in signature.parameters else {}))
        except TypeError as error:
            raise ConfigError(f"The agent {name!r} needs {method}({', '.join(needed)}): {error}.") from None


def entry_of(name: str) -> AgentEntry:
    """Returns the entry of an agent.

    Raises:
        ConfigError: If there is no such agent.
    """
    require(isinstance(name, str), f"An agent is requested by its name, such as 'oracle' or 'hf:DIR'; got {name!r}.")
    kind, _, part = name.partition(":")
    if kind in AGENTS:
        return AGENTS[kind]
    if kind.replace(".", "").isidentifier() and part.isidentifier():
        return AgentEntry(factory=name, summary="one of your own")
    raise ConfigError(
        f"Unknown agent {name!r}.{_meant(name)} Agents: {', '.join(map(usage, AGENTS))}; use MODULE:FACTORY for your "
        "own."
    )


def make_learning_agent(name: str, **settings: Any) -> LearningAgent:
    """Returns an agent that accepts weights, for collecting rollouts in training.

    Raises:
        ConfigError: As `make_agent`, and if the agent does not learn.
    """
    agent = make_agent(name, **settings)
    if not isinstance(agent, LearningAgent):
        raise ConfigError(f"The agent {name!r} cannot learn: it has no sync(policy, version). Train with 'hf'.")
    return agent


def require_agent(name: str) -> None:
    """Raises unless a name is that of an agent whose source exists; loads no weights.

    Raises:
        ConfigError: If there is no such agent, or the module of a user's agent cannot be imported.
        FileNotFoundError: If its checkpoint or directory does not exist.
        ValueError: If that is of another kind.
    """
    entry = entry_of(name)
    kind, colon, part = name.partition(":")
    if kind not in AGENTS:
        _factory(name)
        return
    if colon and not entry.part:
        raise ConfigError(f"The agent {kind!r} takes nothing after a colon; got {name!r}.")
    if colon and not part:
        raise ConfigError(f"The agent {kind!r} needs the part after the colon: {usage(kind)}; got {name!r}.")
    if part and entry.check:
        _imported(kind, entry.check)(part)


def setting_names(name: str) -> tuple[str, ...]:
    """Returns the settings that an agent has.

    Args:
        name: With or without its part.
    """
    factory = _factory(name)
    parameters = inspect.signature(factory).parameters.values()
    named = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    return (*named, *getattr(getattr(factory, "func", factory), "other_settings", ()))


def _factory(name: str) -> Callable[..., Any]:
    kind, _, attribute = name.partition(":")
    if kind in AGENTS:
        entry = AGENTS[kind]
        return functools.partial(_imported(kind, entry.factory), *entry.arguments)
    instead = f"Run from the folder that holds it, or name that folder in PYTHONPATH.{_meant(name)}"
    there = vars(import_named(kind, option=f"The agent {name!r}", instead=instead))
    factory = there.get(attribute)
    if not callable(factory):
        callables = [key for key, value in there.items() if callable(value)]
        raise ConfigError(f"The agent {name!r}: {kind} has no {attribute!r}.{did_you_mean(attribute, callables)}")
    return cast("Callable[..., Any]", factory)


def _imported(kind: str, where: str) -> Callable[..., Any]:
    module, _, attribute = where.partition(":")
    try:
        return cast("Callable[..., Any]", getattr(importlib.import_module(module), attribute))
    except ModuleNotFoundError as error:
        raise EngineUnavailableError(
            f"The agent {kind!r} needs the package {error.name}, which is not installed. Run: "
            f"{install_command(AGENTS[kind].extra)}"
        ) from error


def usage(kind: str) -> str:
    """Returns how to request an agent: `"oracle"`, `"hf:DIR"`."""
    part = AGENTS[kind].part
    return f"{kind}:{part}" if part else kind


def _meant(name: str) -> str:
    """Returns a sentence with the intended name; empty if no name is close."""
    if Path(name).is_dir():
        return f" Did you mean 'hf:{name}'?"
    kind, colon, part = name.partition(":")
    meant = next(iter(difflib.get_close_matches(kind.lower(), AGENTS, n=1)), "")
    return f" Did you mean {meant + colon + part!r}?" if meant else ""


class NamedAgent(NamedTuple):
    """An agent's name and settings.

    Attributes:
        name: As `make_agent` takes it.
        settings: Settings by name.
        title: Displayed name; empty if the text has no `as=`.
    """

    name: str
    settings: dict[str, Any]
    title: str

    @classmethod
    def parse(cls, text: str, *, option: str) -> Self:
        """Returns the parts of `openai:gpt-4.1,history=last_images:4,temperature=0,as=four images`.

        Args:
            text: The text.
            option: The option's name, for messages.

        Raises:
            ConfigError: If a setting is not NAME=VALUE, or `as=` has no name or appears twice.
        """
        from vlm_envs.cli.named_worlds import parse_settings, split_settings  # imports tyro

        name, settings = split_settings(text, ",")
        values = parse_settings([setting for setting in settings if not setting.startswith(TITLE)], option=option)
        titles = [setting.removeprefix(TITLE).strip() for setting in settings if setting.startswith(TITLE)]
        require(all(title.isprintable() and title for title in titles[:1]), f"{option} {text}: {TITLE} needs a name.")
        require(len(titles) < 2, f"{option} {text}: {TITLE} appears twice.")
        return cls(name, values, next(iter(titles), ""))
