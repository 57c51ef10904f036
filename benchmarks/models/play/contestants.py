"""Contestants: the agents of a board, and the worlds that each one skips."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from agents.agent import Agent
from agents.api.endpoint_config import PROVIDERS, EndpointConfig
from agents.blind_script import LazyAgent
from agents.hf.checkpoint import format_differences, with_model_in
from agents.oracle import OracleAgent
from agents.registry import entry_of, make_agent, require_agent, require_settings, setting_names
from benchmarks.models.board.board import require_distinct
from benchmarks.models.board.board_spec import REFERENCES as REFERENCES
from benchmarks.models.board.board_spec import AgentSpec, WorldSpec, digest_of, name_without_address
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.qa.datasets.dataset_splits import BY_HASH
from vlm_envs.records.json_lines import Record
from vlm_envs.registration import make
from vlm_envs.splits import split_seeds
from vlm_envs.validation import require

BATCH = 32
"""Episodes that batched agents play concurrently."""

PACE_SETTINGS = frozenset({
    "api_key_variable", "max_attempts", "max_parallel", "max_retry_s", "max_wait_s", "prices", "requests_per_minute",
    "stream", "timeout_s", "tokens_per_minute",
})  # fmt: skip
"""Settings that affect an agent's speed and cost but not its behavior; not part of its label or identity."""


@dataclass(kw_only=True)
class Contestant:
    """An agent on a board.

    Attributes:
        label: Label of the agent on the board.
        identity: Everything that determines its behavior, as JSON.
        agent: The agent.
        num_parallel: Number of concurrent episodes.
        is_person: Whether a human plays at the terminal, which needs exclusive access.
        spec: The agent as named on the command line; None if it was created in Python.
        skipped: Labels of worlds that it does not play.
        stays_open: Whether the caller owns the agent, which is then closed only to interrupt it.
    """

    label: str
    identity: Record
    agent: Agent
    num_parallel: int = BATCH
    is_person: bool = False
    spec: AgentSpec | None = None
    skipped: frozenset[str] = frozenset()
    stays_open: bool = False
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        self.digest = digest_of(self.identity)

    @property
    def address(self) -> str:
        """URL of its server; empty for a provider's default and for agents without a server."""
        return str(getattr(self.agent, "address", ""))

    @property
    def config(self) -> EndpointConfig | None:
        """Its model and server; None for agents without a server."""
        return getattr(self.agent, "config", None) if self.asks_endpoint else None

    @property
    def asks_endpoint(self) -> bool:
        """Whether it is a model behind an API, which may cost money."""
        return hasattr(self.agent, "client")

    @property
    def has_price(self) -> bool:
        """Whether its price per token is known."""
        return self.asks_endpoint and self.agent.client.price is not None  # type: ignore[attr-defined]

    def record(self) -> Record:
        """Returns its entry on the board."""
        return {"label": self.label, "identity": self.identity, "digest": self.digest}

    def resume(self, entry: Record) -> None:
        """Adopts the label and hash under which the board already lists this agent."""
        self.label, self.digest = entry["label"], entry["digest"]

    def close(self) -> None:
        """Closes the agent's connections, if any."""
        if callable(close := getattr(self.agent, "close", None)):
            close()


def contestants(texts: Sequence[str], *, references: bool = True) -> list[Contestant]:
    """Returns the agents named in `texts` and, optionally, the references.

    Args:
        texts: Agents such as `openai:gpt-4.1,history=last_images:4`; `as=NAME` sets the label on the board.
        references: Whether to add random, lazy, and oracle.

    Raises:
        ConfigError: If there is no such agent, two share a name, or one has two.
    """
    return make_contestants(asked_agents(texts, references=references))


def asked_agents(texts: Sequence[str], *, references: bool = True) -> list[AgentSpec]:
    """Returns the agents that `contestants` creates, validated without loading weights or opening connections."""
    asked = [AgentSpec.parse(text) for text in texts]
    asked = [replace(spec, name=with_model_in(spec.name)) for spec in asked]
    named = {spec.name for spec in asked if not spec.settings}
    asked += [AgentSpec(name=name) for name in REFERENCES if references and name not in named]
    labels = [_label(spec) for spec in asked]
    for spec, label in zip(asked, labels, strict=True):
        require(
            labels.count(label) == 1,
            f"--agent {label} is given twice. To play one model at several servers ({spec.name}), use as=NAME.",
        )
    for spec in asked:  # validate all of them before loading the weights of the first one
        require_agent(spec.name)
        require_settings(spec.name, spec.settings, _known_settings(spec.name))
    return asked


def make_contestants(asked: Iterable[AgentSpec]) -> list[Contestant]:
    """Creates the agents; raises `ConfigError` if one cannot be created or two are the same."""
    made = [_contestant(spec) for spec in asked]
    try:
        require_distinct("--agent", ((contestant.label, contestant.digest) for contestant in made))
    except ConfigError:
        for contestant in made:
            contestant.close()
        raise
    return made


def _known_settings(name: str) -> tuple[str, ...]:
    """Returns the settings that may follow an agent's name, including sampling settings."""
    known = setting_names(name)
    if "sampling" not in known:
        return known
    from agents.hf.sampling_config import SamplingConfig

    return (*(setting for setting in known if setting != "sampling"), *SamplingConfig.__dataclass_fields__)


def _label(spec: AgentSpec) -> str:
    return replace(spec, name=name_without_address(spec.name), settings=_deciding(spec)).label


def _deciding(spec: AgentSpec) -> Record:
    """Returns the settings that determine an agent's behavior."""
    ignored = PACE_SETTINGS if is_served(spec) else ()
    return {name: value for name, value in spec.settings.items() if name not in ignored}


def is_served(spec: AgentSpec) -> bool:
    """Returns whether an agent is a model behind an API."""
    return spec.name.partition(":")[0] in PROVIDERS


def _contestant(spec: AgentSpec) -> Contestant:
    settings = dict(spec.settings)
    if "sampling" in setting_names(spec.name):
        from agents.hf.sampling_config import SamplingConfig

        drawn = {name: settings.pop(name) for name in SamplingConfig.__dataclass_fields__ if name in settings}
        settings["sampling"] = SamplingConfig(**drawn)
    agent = make_agent(spec.name, **settings)
    name = name_without_address(spec.name)
    identity = {"name": name, "settings": _deciding(spec), **getattr(agent, "identity", {})}
    if spec.title and is_served(spec):
        identity["title"] = spec.title  # distinguishes several servers of one model
    is_person = entry_of(spec.name).shows_observations
    num_parallel = getattr(agent, "num_parallel", 1 if is_person else BATCH)
    return Contestant(
        label=_label(spec),
        identity=identity,
        agent=agent,
        num_parallel=num_parallel,
        is_person=is_person,
        spec=spec,
    )


def format_warnings(worlds: Sequence[WorldSpec], players: Iterable[Contestant]) -> list[str]:
    """Returns a warning for each checkpoint and world whose format differs from training."""
    warnings = []
    for player in players:
        directory = str(getattr(player.agent, "directory", None) or "")
        for world in worlds if directory else ():
            if differences := format_differences(Path(directory), world.env_id, world.kwargs):
                trained, own = (
                    " and ".join(f"{name}={values[index]}" for name, values in differences.items()) for index in (0, 1)
                )
                as_trained = {name: values[0] for name, values in differences.items()}
                warnings.append(
                    f"Warning: {player.label} was trained on this world with {trained}, but {world.label} has {own}. "
                    "To evaluate it in its training format, use --world "
                    f"{replace(world, kwargs={**world.kwargs, **as_trained}).label}"
                )
    return warnings


def skip_unplayable(worlds: Sequence[WorldSpec], players: Sequence[Contestant]) -> tuple[list[Contestant], list[str]]:
    """Makes the lazy agent and the oracle skip worlds in which their results would be meaningless.

    The lazy agent skips datasets without training or validation levels, such as benchmarks that are all test. The
    oracle skips worlds without a planner, where its actions would be random.

    Returns:
        The agents that have a world left to play, and a message for each skipped world.

    Raises:
        ConfigError: If no agent is left.
    """
    why_not = {LazyAgent: _why_lazy_cannot_choose, OracleAgent: _why_oracle_cannot_plan}
    lines: list[str] = []
    left: list[Contestant] = []
    for player in players:
        ask = next((ask for kind, ask in why_not.items() if isinstance(player.agent, kind)), None)
        skipped = {world.label: why for world in worlds if ask is not None and (why := ask(world))}
        lines += [f"{player.label} does not play {label}, {why}" for label, why in skipped.items()]
        player.skipped = frozenset(skipped)
        if len(skipped) < len(worlds):
            left.append(player)
    if not left:
        raise ConfigError(" ".join(lines))
    return left, lines


def _why_oracle_cannot_plan(world: WorldSpec) -> str:
    if world.has_planner:
        return ""
    how = "write its Dynamics.plan" if world.adapted is None else "give plan=... to vlm_envs.adapt or its TOML file"
    return f"as this world has no planner: {how} to have such a row."


def _why_lazy_cannot_choose(world: WorldSpec) -> str:
    """Returns why `lazy` cannot choose responses in a world with listed levels; other worlds have every split."""
    for split in () if world.num_levels is None else ("train", "val"):
        try:
            with closing(make(world.env_id, **world.made_with, split=split, disable_env_checker=True)) as made:
                made.reset(seed=next(iter(split_seeds(split, 1))))
        except VLMEnvsError as error:
            fault = str(error).partition(". ")[0].rstrip(".")
            return f"as it chooses its responses on training and validation levels: {fault}."
    return ""


def few_items_lines(worlds: Sequence[WorldSpec], asked: int | None) -> list[str]:
    """Returns a message for each world with fewer items than the user may expect.

    Args:
        worlds: The worlds to play.
        asked: Number of episodes that the user requested; None for the default.
    """
    lines = []
    for world in worlds:
        count = world.num_levels
        # Split by a hash only because no other split was requested
        is_divided = (
            world.kwargs.get("dataset") in BY_HASH and not {"is_benchmark", "train_on_all"} & world.kwargs.keys()
        )
        if count is not None and (is_divided if asked is None else asked > count):
            of_asked = "" if asked is None else f" of {asked}"
            remedy = "; is_benchmark=True makes all of them test" if is_divided and world.split == "test" else ""
            items = "1 item" if count == 1 else f"{count} items"
            lines.append(f"{world.label}: plays {count}{of_asked}: split {world.split} has {items}{remedy}.")
    return lines
