"""The subjects of a board: worlds, agents with their identities, and suites of worlds."""

from __future__ import annotations

import functools
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from agents.api.endpoint_config import COMPATIBLE
from agents.oracle import has_planner
from agents.registry import TITLE, NamedAgent
from vlm_envs.adapter.stored import comparable, stored_arguments
from vlm_envs.cli.named_worlds import parse_settings, split_settings
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_splits import unshown_items
from vlm_envs.records.json_lines import Record, to_json
from vlm_envs.registration import arguments_of, make, need_of, registered_name
from vlm_envs.splits import SPLITS, split_seeds
from vlm_envs.trajectory import Observation, observation_images, observation_words
from vlm_envs.validation import require_choice

_DIGEST_CHARS = 16

_LATER: Mapping[str, Any] = MappingProxyType(
    {
        "system_prompt": False,
        "format_reminder": False,
        "things": None,
        "checks": None,
        "num_requirements": (1, 4),
        "counterfactual": False,
        "file_name": None,
        "grid_mm": 1,
        "tell_walls": False,
        "camera": "front",
        "num_cubes": None,
        "boxes": True,
        "upscaler_kwargs": None,
        "train_on_all": False,
        "max_frames": None,
        "first_label": 1,
        "label_size": None,
        "show_sheet": True,
        "coordinates": None,
    }
)
"""Arguments added to worlds after the first boards, with the values that change neither the world nor its hash."""

REFERENCES = ("random", "lazy", "oracle")
"""Agents on every board, for scale."""

NUM_LEVELS_MET = 4
"""Number of levels included in a world's hash."""


class _Met(NamedTuple):
    """Facts that require creating the world."""

    digest: str
    num_levels: int | None
    max_actions_per_turn: int
    has_planner: bool


@dataclass(frozen=True, kw_only=True)
class WorldSpec:
    """A world with its settings.

    Attributes:
        env_id: A registered id, optionally prefixed with a module.
        kwargs: Its explicit arguments.
        split: The split of the levels.
        reading: How actions are parsed unless `kwargs` sets it; worlds without this argument parse strictly.
    """

    env_id: str
    kwargs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    split: str = "test"
    reading: str = "strict"

    @classmethod
    def parse(cls, text: str, split: str = "test", reading: str = "strict") -> WorldSpec:
        """Parses a world such as `VLM/Sokoban-v0:num_boxes=2,dim_room=(7,7)`.

        Raises:
            ConfigError: If there is no such world, or it has no such argument.
        """
        env_id, settings = split_settings(text, ":")
        kwargs = parse_settings(settings, option="--world")
        spec = cls(env_id=env_id, kwargs=kwargs, split=split, reading=reading)
        spec.check(f"--world {text}")
        return spec

    def check(self, what: str) -> None:
        """Raises `ConfigError` unless the world exists and a board can store its arguments.

        Args:
            what: Name of the world in messages.
        """
        if "split" in self.kwargs:
            raise ConfigError(f"{what}: set the split with --split, which applies to all worlds.")
        require_choice("--split", self.split, SPLITS)
        registered_name(self.env_id)
        arguments_of(self.env_id, self.kwargs)
        try:
            to_json(self.kwargs)
        except TypeError as error:
            raise ConfigError(f"{what}: {error}") from None

    @functools.cached_property
    def label(self) -> str:
        """The label of the world: its id and explicit arguments."""
        return label_of(registered_name(self.env_id), self.kwargs)

    @functools.cached_property
    def adapted(self) -> dict[str, Any] | None:
        """Its arguments of `vlm_envs.adapt`, as `stored_arguments` returns them; None for other worlds."""
        return stored_arguments(self.env_id)

    @functools.cached_property
    def made_with(self) -> dict[str, Any]:
        """Arguments for creating the world, without `split`: `kwargs`, plus a `reading` that is not its default."""
        default = arguments_of(self.env_id, self.kwargs).get("reading", self.reading)
        return {**({} if default == self.reading else {"reading": self.reading}), **self.kwargs}

    @functools.cached_property
    def read(self) -> str:
        """How the world parses actions; `"strict"` if it has no argument `reading`."""
        return str(arguments_of(self.env_id, self.made_with).get("reading", "strict"))

    @functools.cached_property
    def digest(self) -> str:
        """Hash of the world's arguments, its first levels, and the outcome of an empty response.

        Includes images unless an engine renders them, as their pixels then depend on its drivers. Worlds with
        strict reading keep the hash from before worlds had a `reading`.
        """
        return self.level_digest if self.read == "strict" else digest_of([self.level_digest, self.read])

    @property
    def level_digest(self) -> str:
        """Hash that does not depend on the reading; suite hashes are computed from it."""
        return self._met.digest

    @property
    def max_actions_per_turn(self) -> int:
        """Maximum number of actions per turn."""
        return self._met.max_actions_per_turn

    @property
    def num_levels(self) -> int | None:
        """Number of levels of a world that lists them; otherwise None."""
        return self._met.num_levels

    @property
    def has_planner(self) -> bool:
        """Whether the world has a planner; without one, an oracle's actions are random."""
        return self._met.has_planner

    @functools.cached_property
    def _met(self) -> _Met:
        adapted = {name: value for name, value in comparable(self.adapted or {}).items() if name != "name"}  # the id
        arguments = arguments_of(self.env_id, {**adapted, **self.kwargs, "split": self.split})
        arguments.pop("reading", None)  # the hashed episode has empty responses, which both readings treat alike
        need = need_of(registered_name(self.env_id))
        with closing(make(self.env_id, **self.made_with, split=self.split, disable_env_checker=True)) as world:
            unwrapped = cast("Any", world.unwrapped)
            num_levels, max_actions_per_turn = unwrapped.num_levels, int(unwrapped.max_actions_per_turn)
            can_plan = has_planner(unwrapped)
            num_met = NUM_LEVELS_MET if num_levels is None else max(1, min(NUM_LEVELS_MET, num_levels))
            shown = [world.reset(seed=seed) for seed in split_seeds(self.split, num_met)]
            answer, reward, *ends, outcome = world.step("")
        later = _LATER.items()
        met = {
            "id": registered_name(self.env_id),
            "arguments": {name: _plain(value) for name, value in arguments.items() if (name, value) not in later},
            "texts": [*(observation_words(observation) for observation, _ in shown), answer["text"]],
            "states": [*(info["state_hash"] for _, info in shown), outcome["state_hash"]],
            "outcome": [reward, *ends, outcome["reward_terms"]],
            "pictures": None if need is not None and need.probe else [_pixels(observation) for observation, _ in shown],
        }
        return _Met(digest_of(met), num_levels, max_actions_per_turn, can_plan)

    def unshown(self, seeds: Iterable[int]) -> dict[int, str]:
        """Returns the faults of items that cannot be shown, by seed; empty for worlds that do not list items."""
        looked_at = sorted(set(seeds))
        if self.num_levels is None or not looked_at:
            return {}
        with closing(make(self.env_id, **self.kwargs, split=self.split, disable_env_checker=True)) as world:
            return unshown_items(world.unwrapped, looked_at)

    def record(self, directory: Path) -> Record:
        """Returns the world's entry for the board in `directory`."""
        adapted = stored_arguments(self.env_id, directory)
        return {
            "label": self.label,
            "env_id": self.env_id,
            "kwargs": to_json(self.kwargs),
            "split": self.split,
            "reading": self.read,
            "digest": self.digest,
            "max_actions_per_turn": self.max_actions_per_turn,
            **({} if adapted is None else {"adapted": adapted}),
        }


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """An agent with its settings.

    Attributes:
        name: See `make_agent`.
        settings: Its explicit settings.
        title: Label on the board; empty for name and settings.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    title: str = ""

    @classmethod
    def parse(cls, text: str) -> AgentSpec:
        """Parses an agent such as `openai:gpt-4.1,history=last_images:4,temperature=0,as=four images`.

        Raises:
            ConfigError: If a setting is invalid.
        """
        named = NamedAgent.parse(text, option="--agent")
        return cls(name=named.name, settings=named.settings, title=named.title)

    @property
    def label(self) -> str:
        """The label on the board: the title if set, or else the name and settings."""
        if self.title:
            return self.title
        settings = ",".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        return f"{self.name}{f',{settings}' if settings else ''}"

    def text_with(self, name: str, value: object) -> str:
        """Returns the text of this agent with a changed setting, and with a new title if it has one."""
        settings = {**self.settings, name: value}
        title = [f"{TITLE}{self.title}-{value}"] if self.title else []
        return ",".join([self.name, *(f"{setting}={settings[setting]}" for setting in settings), *title])


def label_of(world_id: str, kwargs: Mapping[str, Any]) -> str:
    """Returns the label of a world on a board: its id and explicit arguments."""
    settings = ",".join(f"{name}={value}".replace(" ", "") for name, value in sorted(kwargs.items()))
    return f"{world_id}{f':{settings}' if settings else ''}"


def _pixels(observation: Observation) -> list[str]:
    """Returns a hash of each image."""
    images = observation_images(observation)
    return [hashlib.sha256(repr(image.shape).encode() + image.tobytes()).hexdigest() for image in images]


def _plain(value: Any) -> Any:
    """Returns an argument as JSON; classes and functions become their names, other objects their types' names."""
    try:
        return to_json(value)
    except TypeError:
        named = value if hasattr(value, "__qualname__") else type(value)
        path = f"{named.__module__}.{named.__qualname__}"
        return _HASHED_AS.get(path, path)


_HASHED_AS = {"vlm_envs.qa.qa_world.QATask": "vlm_envs.qa.task.QATask"}
"""Former paths of moved classes; they are hashed, so that boards recorded before the move remain comparable."""


def digest_of(value: Any) -> str:
    """Returns a hash of any JSON-serializable value; equal values have equal hashes on every machine."""
    text = json.dumps(to_json(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


_NOT_DECIDING = ("base_url", "title")
"""Identity fields that do not affect responses. Older boards recorded the address as `base_url`."""


def name_without_address(name: str) -> str:
    """Returns an agent's name without its server's address: `compatible:qwen` for `compatible:qwen@http://…/v1`."""
    kind = name.partition(":")[0]
    return name.partition("@http")[0] if kind == COMPATIBLE else name


def entry_for(agent: Record, entries: Sequence[Record], where: object) -> Record | None:
    """Returns a board's entry for an agent; None if the board does not have this agent.

    Args:
        agent: From `Contestant.record`.
        entries: The board's agents.
        where: Path of the board's file, for messages.

    Raises:
        ConfigError: If another agent has this label, or several entries are this model at different addresses.
    """
    for entry in entries:
        if entry["label"] == agent["label"]:
            if is_another(entry, agent):
                raise ConfigError(
                    f"{where} has another {entry['label']} (hash {entry['digest']}, now {agent['digest']}): it has "
                    "changed since. Name another folder with --out, or this agent with as=NAME."
                )
            return entry
    if "title" in agent.get("identity", {}):
        return None
    served = [entry for entry in entries if _has_address_in_label(entry) and _is_same_model(entry, agent)]
    if len(served) > 1:
        raise ConfigError(
            f"{where} has {len(served)} agents that are {agent['label']} at different addresses: "
            f"{', '.join(entry['label'] for entry in served)}. To add another, use as=NAME."
        )
    return next(iter(served), None)


def is_another(entry: Record, agent: Record) -> bool:
    """Returns whether two records are different agents with the same label."""
    is_same = entry["digest"] == agent["digest"] or _is_same_model(entry, agent)
    return entry["label"] == agent["label"] and not is_same


def _has_address_in_label(entry: Record) -> bool:
    """Returns whether an entry has a default label from when labels still contained addresses."""
    name = str(entry.get("identity", {}).get("name", ""))
    return name != name_without_address(name) and entry["label"].startswith(name)


def _is_same_model(entry: Record, agent: Record) -> bool:
    """Returns whether two records are the same served model with the same settings."""
    one, other = (record.get("identity", {}) for record in (entry, agent))
    return "provider" in one and "provider" in other and _deciding(one) == _deciding(other)


def _deciding(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that affect responses, without unset ones, as older boards lack newer settings."""
    found = {name: value for name, value in identity.items() if name not in _NOT_DECIDING and value not in (None, "")}
    return {**found, "name": name_without_address(str(identity.get("name", "")))}


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A named, versioned set of worlds.

    Attributes:
        name: Name for `--suite`.
        version: Incremented whenever the measurement changes; results of different versions are not comparable.
        worlds: World arguments as in `--world`.
        episodes: Levels of each world.
        summary: One-line description.
    """

    name: str
    version: int
    worlds: tuple[str, ...]
    episodes: int
    summary: str

    def specs(self, split: str = "test", reading: str = "strict") -> list[WorldSpec]:
        """Returns its worlds as specs."""
        return [WorldSpec.parse(world, split, reading) for world in self.worlds]

    def digest(self, worlds: Sequence[WorldSpec]) -> str:
        """Returns the hash of its version and its worlds' content; boards record the reading separately.

        Args:
            worlds: Its worlds, from `specs`.
        """
        return digest_of([self.name, self.version, self.episodes, [world.level_digest for world in worlds]])

    def record(self, worlds: Sequence[WorldSpec]) -> Record:
        """Returns its entry for a board.

        Args:
            worlds: Its worlds, from `specs`.
        """
        return {"name": self.name, "version": self.version, "digest": self.digest(worlds)}


_SUITES = tomllib.loads(Path(__file__).with_name("suites.toml").read_text(encoding="utf-8"))
SUITES = {name: Suite(name=name, **suite | {"worlds": tuple(suite["worlds"])}) for name, suite in _SUITES.items()}


def suite_named(name: str) -> Suite:
    """Returns a suite; raises `ConfigError` if there is no suite with that name."""
    return SUITES[require_choice("--suite", name, SUITES)]
