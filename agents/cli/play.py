"""`python -m agents play AGENT [ENV_ID]`: an agent plays, and each turn is shown as it comes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

import tyro

from agents.agent import Agent
from agents.api.providers.registry import PROVIDERS
from agents.api.reachability import require_reachable
from agents.cli.cast import Cast, cast
from agents.cli.narration import Narration
from agents.cli.recording import Recording
from agents.hf.sampling import SamplingConfig
from agents.lazy import LazyAgent
from agents.named_agent import NamedAgent
from agents.oracle import has_planner
from agents.registry import entry_of, make_agent, require_settings, setting_names
from agents.rollout import rollout
from vlm_envs.cli.named_worlds import parse_settings
from vlm_envs.cli.terminal import Colors, colors_of
from vlm_envs.errors import ConfigError
from vlm_envs.registration import arguments_of, make
from vlm_envs.splits import split_seeds
from vlm_envs.validation import require, require_at_least
from vlm_envs.vector.make_vec import world_vector

_FROM_PYTHON = {"model", "encoder", "sampling"}
"""Settings of agents that are objects."""

_OF_VECTORS = {"env_id", "num_envs", "workers"}
"""What belongs to many worlds at once."""

EXIT_FAILED = 1

_INTERVAL_S = 10.0

_Settings = tyro.conf.UseAppendAction[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class PlayConfig:
    """Shows an agent play, turn by turn.

    Attributes:
        agent: Who plays, as NAME or NAME,SETTING=VALUE,... like --agent of python -m benchmarks run: oracle, random,
            human, recipe:NAME with the start that a recipe ships, hf:DIR with the directory of a run or a checkpoint, a
            model behind an API such as openai:MODEL (python -m agents list), or MODULE:FACTORY of your own.
        env_id: The world, such as VLM/Sokoban-v0; the first that a checkpoint has learnt by default.
        settings: An argument of the world, as NAME=VALUE; may be repeated. Unset arguments are those the checkpoint was
            trained with, or the world's defaults. Actions are read leniently unless you set reading=strict.
        agent_settings: A setting of the agent, as NAME=VALUE, such as temperature=0; may be repeated.
        split: Which levels are played.
        seed: Number of the first level within its split; also the agent's seed.
        episodes: Levels that are played.
        max_turns: Turns of an episode; the world's own number by default.
        out: Where the episodes are kept: a page, FILE.html, or a folder with the page and the pictures.
        colors: Colours of the terminal; found out by default, and none with --out.
    """

    HINTS: ClassVar[Mapping[str, str]] = MappingProxyType({
        "--reading": "It is an argument of the world: --set reading=strict.",
        "--world": "The world is the second argument: python -m agents play AGENT ENV_ID.",
    })  # fmt: skip

    agent: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="AGENT")]
    env_id: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[ENV_ID]")] = None
    settings: Annotated[_Settings, tyro.conf.arg(name="set", metavar="NAME=VALUE")] = ()
    agent_settings: Annotated[_Settings, tyro.conf.arg(name="agent-set", metavar="NAME=VALUE")] = ()
    split: Literal["train", "val", "test"] = "train"
    seed: int = 0
    episodes: int = 1
    max_turns: int | None = None
    out: Path | None = None
    colors: Colors | None = None

    def __post_init__(self) -> None:
        require(self.out is None or self.out.name != "", "--out needs a name: FILE.html, or a folder.")
        require_at_least(self, 0, "seed")
        require_at_least(self, 1, "episodes", *(["max_turns"] if self.max_turns is not None else []))

    def run(self) -> int:
        """Plays and shows the episodes.

        Returns:
            Exit status: 0, or 1 if a failure of the agent's server or of the world ended every episode.

        Raises:
            ConfigError: If the agent, the world or a setting is not there, or `out` cannot be written.
            FileNotFoundError: If the agent's checkpoint is not there.
        """
        named = NamedAgent.parse(self.agent, option="AGENT")
        label = named.title or self.agent
        played = _read_leniently(cast(named.name, self.env_id, self._chosen()))
        described = {"name": f"{label} plays {played.env_id}", **asdict(self), "out": None}
        described |= {"env_id": played.env_id, "arguments": played.kwargs}
        with ExitStack() as stack:
            agent = self._reachable_agent(played, named, label)
            recording = stack.enter_context(closing(Recording(self.out, described)))
            worlds = stack.enter_context(world_vector(played.env_id, **played.kwargs, split=self.split))
            worlds.counts_optimal_actions = self.out is not None
            agent = agent or self._agent(played, named)  # Loading weights takes longer than making a world
            stack.callback(getattr(agent, "close", lambda: None))
            if isinstance(agent, LazyAgent):
                agent.on_progress = _ChoiceProgress()
            _tell(played)
            colors = self.colors or ("none" if self.out else colors_of(sys.stdout, os.environ))
            shows_observations = not entry_of(played.agent).shows_observations
            narration = Narration(label, played.env_id, colors, shows_observations=shows_observations)
            for seed in split_seeds(self.split, self.episodes, start=self.seed):
                narration.start(f"{self.split} seed {seed}")
                try:
                    (episode,) = rollout(agent, worlds, [seed], env_ids=[played.env_id], on_turn=narration.turn)
                except EOFError:  # A person has left.
                    print("\nThe input has ended; the episode under way is left out.", file=sys.stderr)
                    break
                narration.end(episode)
                recording.add(episode)
            narration.total()
        return EXIT_FAILED if narration.has_only_failed else 0

    def _reachable_agent(self, played: Cast, named: NamedAgent, label: str) -> Agent | None:
        """Returns a model behind an API that answers a short question; None for other agents."""
        if named.name.partition(":")[0] not in PROVIDERS:
            return None
        agent = self._agent(played, named)
        try:
            require_reachable({label: agent.config}, "Nothing was played.")  # type: ignore[attr-defined]
        except BaseException:
            agent.close()  # type: ignore[attr-defined]
            raise
        return agent

    def _agent(self, played: Cast, named: NamedAgent) -> Agent:
        """Returns who plays; how responses are drawn may be set name by name."""
        settings = parse_settings(self.agent_settings, option="--agent-set", example="seed=7")
        for name in settings.keys() & named.settings:
            raise ConfigError(f"{name} is set in AGENT and by --agent-set {name}={settings[name]}. Leave one out.")
        settings |= named.settings
        known, said = setting_names(played.agent), _said(setting_names(played.agent))
        for name in settings.keys() & _FROM_PYTHON & {*known}:
            raise ConfigError(f"{name} is for Python, not for a command line; known settings: {', '.join(said)}.")
        require_settings(played.agent, settings, said)
        if "sampling" in known:
            drawn = {name: settings.pop(name) for name in SamplingConfig.__dataclass_fields__ if name in settings}
            settings["sampling"] = SamplingConfig(**{**played.sampling, **drawn})
        if "seed" in known:
            settings.setdefault("seed", self.seed)
        return make_agent(played.agent, **settings)

    def _chosen(self) -> dict[str, Any]:
        """Returns the arguments of the world that are set."""
        kwargs = parse_settings(self.settings)
        for name in kwargs.keys() & {"split", *(() if self.max_turns is None else ("max_turns",))}:
            raise ConfigError(f"{name} is an option of its own: --{name.replace('_', '-')} {kwargs[name]}.")
        for name in kwargs.keys() & _OF_VECTORS:
            raise ConfigError(f"{name} is no argument of a world; leave out --set {name}={kwargs[name]}.")
        return kwargs if self.max_turns is None else {**kwargs, "max_turns": self.max_turns}


class _ChoiceProgress:
    """Prints how far `lazy` is with choosing its responses, now and then."""

    def __init__(self) -> None:
        self._shown_at = float("-inf")

    def __call__(self, env_id: str, step: str, num_done: int, num_wanted: int) -> None:
        if (now := time.monotonic()) - self._shown_at < _INTERVAL_S:
            return
        self._shown_at = now
        print(f"lazy: choosing responses for {env_id}: {step}, {num_done:,} of {num_wanted:,}", file=sys.stderr)


def _read_leniently(played: Cast) -> Cast:
    """Returns the cast with lenient reading, unless `reading` is set or the world does not have it."""
    if "reading" not in arguments_of(played.env_id, played.kwargs):
        return played
    return replace(played, kwargs={"reading": "lenient", **played.kwargs})


def _tell(played: Cast) -> None:
    """Says how a checkpoint has learnt what it plays, and where an agent has no plan to carry out."""
    if played.told:
        print(played.told, file=sys.stderr)
    if entry_of(played.agent).carries_out_plans:
        with closing(make(played.env_id, **played.kwargs)) as world:
            if not has_planner(world.unwrapped):  # type: ignore[arg-type]
                print(f"{played.env_id} has no planner: what {played.agent} does is random.", file=sys.stderr)


def _said(known: Iterable[str]) -> list[str]:
    """Returns what `--agent-set` may name, with the ways to draw responses in place of the object that holds them."""
    drawn = SamplingConfig.__dataclass_fields__ if "sampling" in known else ()
    return sorted({*known, *drawn} - _FROM_PYTHON)
