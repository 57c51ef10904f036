"""`python -m agents play AGENT [ENV_ID]`: an agent plays, and each turn is printed as it happens."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

import tyro

from agents.agent import Agent
from agents.api.endpoint_config import PROVIDERS
from agents.api.probe import require_reachable
from agents.blind_script import LazyAgent
from agents.hf.checkpoint import OF_CHECKPOINTS, Learnt, LearntWorld, learnt_with, shipped_start, with_model_in
from agents.hf.sampling_config import SamplingConfig
from agents.human import observation_lines, text_lines
from agents.oracle import has_planner
from agents.registry import NamedAgent, entry_of, make_agent, require_agent, require_settings, setting_names
from agents.rollout import rollout
from vlm_envs.cli.named_worlds import parse_settings
from vlm_envs.cli.terminal import Colors, colors_of, wrapped
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.records.run_data import RunWriter, holds_run
from vlm_envs.registration import arguments_of, make, registered_name, require_available
from vlm_envs.requirements import install_command
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Trajectory, Turn, failure_of
from vlm_envs.validation import require, require_at_least
from vlm_envs.vector.make_vec import world_vector

_FROM_PYTHON = {"model", "encoder", "sampling"}
"""Agent settings that are objects."""

_OF_VECTORS = {"env_id", "num_envs", "workers"}
"""World arguments that concern vectors of worlds."""

EXIT_FAILED = 1

_INTERVAL_S = 10.0

_Settings = tyro.conf.UseAppendAction[tuple[str, ...]]

RECIPE = "recipe"
"""`recipe:NAME` is the start checkpoint that a recipe ships."""

LABEL = "play"
"""Label under which episodes are recorded."""


@dataclass(frozen=True, kw_only=True)
class PlayConfig:
    """Shows an agent play, turn by turn.

    Attributes:
        agent: The agent: NAME or NAME,SETTING=VALUE,... as in --agent of python -m benchmarks run, such as oracle,
            random, human, hf:DIR with the directory of a run or a checkpoint, a model behind an API such as
            openai:MODEL (python -m agents list), or MODULE:FACTORY for your own; also recipe:NAME for the start
            checkpoint that a recipe ships.
        env_id: The world, such as VLM/Sokoban-v0; by default, the first that the checkpoint was trained on.
        settings: A world argument, as NAME=VALUE; may be repeated. Unset arguments are those the checkpoint was
            trained with, or the world's defaults. Actions are read leniently unless you set reading=strict.
        agent_settings: An agent setting, as NAME=VALUE, such as temperature=0; may be repeated.
        split: Split to play levels from.
        seed: Index of the first level within its split; also the agent's seed.
        episodes: Number of levels to play.
        max_turns: Turns per episode; the world's own number by default.
        out: Where to save the episodes: a page, FILE.html, or a folder with the page and the images.
        colors: Terminal colors; detected by default, and none with --out.
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
            ConfigError: If the agent, the world, or a setting does not exist, or `out` cannot be written.
            FileNotFoundError: If the agent's checkpoint does not exist.
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
            agent = agent or self._agent(played, named)  # last, as loading weights takes longer than making a world
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
                except EOFError:  # a person has ended the input
                    print("\nThe input has ended; the current episode is left out.", file=sys.stderr)
                    break
                narration.end(episode)
                recording.add(episode)
            narration.total()
        return EXIT_FAILED if narration.has_only_failed else 0

    def _reachable_agent(self, played: Cast, named: NamedAgent, label: str) -> Agent | None:
        """Returns a model behind an API that answers a short test question; None for other agents."""
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
        """Returns the agent; sampling settings may be set by name."""
        settings = parse_settings(self.agent_settings, option="--agent-set", example="seed=7")
        for name in settings.keys() & named.settings:
            raise ConfigError(f"{name} is set in AGENT and by --agent-set {name}={settings[name]}. Leave one out.")
        settings |= named.settings
        known, said = setting_names(played.agent), _said(setting_names(played.agent))
        for name in settings.keys() & _FROM_PYTHON & {*known}:
            raise ConfigError(f"{name} can only be set from Python; settings: {', '.join(said)}.")
        require_settings(played.agent, settings, said)
        if "sampling" in known:
            drawn = {name: settings.pop(name) for name in SamplingConfig.__dataclass_fields__ if name in settings}
            settings["sampling"] = SamplingConfig(**{**played.sampling, **drawn})
        if "seed" in known:
            settings.setdefault("seed", self.seed)
        return make_agent(played.agent, **settings)

    def _chosen(self) -> dict[str, Any]:
        """Returns the world arguments that are set."""
        kwargs = parse_settings(self.settings)
        for name in kwargs.keys() & {"split", *(() if self.max_turns is None else ("max_turns",))}:
            raise ConfigError(f"{name} has its own option: --{name.replace('_', '-')} {kwargs[name]}.")
        for name in kwargs.keys() & _OF_VECTORS:
            raise ConfigError(f"{name} is not an argument of a world; leave out --set {name}={kwargs[name]}.")
        return kwargs if self.max_turns is None else {**kwargs, "max_turns": self.max_turns}


class _ChoiceProgress:
    """Prints the progress of the `lazy` agent's search every few seconds."""

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
    """Reports what a checkpoint was trained on, and an agent that carries out plans in a world without a planner."""
    if played.told:
        print(played.told, file=sys.stderr)
    if entry_of(played.agent).carries_out_plans:
        with closing(make(played.env_id, **played.kwargs)) as world:
            if not has_planner(world.unwrapped):  # type: ignore[arg-type]
                print(f"{played.env_id} has no planner: {played.agent} plays at random.", file=sys.stderr)


def _said(known: Iterable[str]) -> list[str]:
    """Returns the names that `--agent-set` accepts; sampling settings replace the `sampling` object."""
    drawn = SamplingConfig.__dataclass_fields__ if "sampling" in known else ()
    return sorted({*known, *drawn} - _FROM_PYTHON)


@dataclass(frozen=True, kw_only=True)
class Cast:
    """The agent and the world to play.

    Attributes:
        agent: Name, as `make_agent` takes it.
        env_id: The world.
        kwargs: World arguments that are set; others have the world's defaults.
        sampling: Fields of `SamplingConfig` that a checkpoint specifies.
        told: One line for the user on how the world relates to the checkpoint's training; empty if there is none.
    """

    agent: str
    env_id: str
    kwargs: Mapping[str, Any]
    sampling: Mapping[str, Any]
    told: str


def cast(agent: str, env_id: str | None, chosen: Mapping[str, Any]) -> Cast:
    """Returns the agent and the world to play; a checkpoint plays with the arguments it was trained with.

    Args:
        agent: Name of an agent, or `recipe:NAME`; a checkpoint's directory may be that of a run.
        env_id: The world; None for the first that the checkpoint was trained on.
        chosen: World arguments that are set; they override those of the checkpoint.

    Raises:
        ConfigError: If the agent, recipe, or world does not exist, no world is given or recorded, or a checkpoint's
            record of its training cannot be read.
        EngineUnavailableError: If a requirement of the world is missing on this machine.
        FileNotFoundError: If the checkpoint does not exist.
    """
    name, learnt = _found(agent)
    if env_id is None and not learnt.worlds:
        raise ConfigError(
            f"python -m agents play {agent} needs ENV_ID, such as VLM/Sokoban-v0: the agent has no record of a world "
            "it was trained on. List all: python -m vlm_envs list"
        )
    played = env_id or learnt.worlds[0].env_id
    id_ = registered_name(played)
    require_available(id_)
    alike = [world for world in learnt.worlds if world.name == id_]
    world = min(alike, key=lambda candidate: len(_differences(candidate, chosen)), default=None)
    return Cast(
        agent=name,
        env_id=played,
        kwargs={**(world.kwargs if world else {}), **chosen},
        sampling=learnt.sampling,
        told=_told(agent, played, learnt, world, chosen, is_named=env_id is not None) if learnt.worlds else "",
    )


def _found(agent: str) -> tuple[str, Learnt]:
    """Returns an agent's name as `make_agent` takes it, and its training worlds and settings."""
    kind, _, part = agent.partition(":")
    name = f"hf:{shipped_start(part)}" if kind == RECIPE else with_model_in(agent)
    require_agent(name)
    kind, _, part = name.partition(":")
    return name, learnt_with(Path(part)) if kind in OF_CHECKPOINTS and part else Learnt()


def _differences(world: LearntWorld, chosen: Mapping[str, Any]) -> list[str]:
    """Returns texts on the chosen arguments that differ from those a world was trained with."""
    if not chosen:
        return []
    before, now = (arguments_of(world.env_id, kwargs) for kwargs in (world.kwargs, {**world.kwargs, **chosen}))
    return [f"{name}={before.get(name)}, not {now[name]}" for name in chosen if before.get(name) != now[name]]


def _told(
    agent: str, env_id: str, learnt: Learnt, world: LearntWorld | None, chosen: Mapping[str, Any], *, is_named: bool
) -> str:
    """Returns one line on how the world to play relates to the training worlds."""
    others = ", ".join(
        dict.fromkeys(trained.name for trained in learnt.worlds if world is None or trained.name != world.name)
    )
    if world is None:
        return f"{agent} was not trained on {env_id} but on {others}; its responses may make no sense."
    if differences := _differences(world, chosen):
        left = {name: value for name, value in world.kwargs.items() if name not in chosen}
        rest = f" All other arguments are as in training: {_listed(left)}." if left else ""
        return f"{agent} was trained on {env_id} with {'; '.join(differences)}.{rest}"
    more = f" It was also trained on {others}: name one to see it." if others and not is_named else ""
    return (
        f"{agent} plays {env_id} with the arguments it was trained with: {_listed(world.kwargs)}; change them with "
        f"--set NAME=VALUE.{more}"
    )


def _listed(kwargs: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in kwargs.items()) or "the world's own"


class Narration:
    """Prints each turn as it happens, and how each episode ended.

    Args:
        agent: Displayed name of the agent.
        env_id: Displayed name of the world.
        colors: Terminal colors.
        shows_observations: False for an agent that shows the observations itself.
    """

    def __init__(self, agent: str, env_id: str, colors: Colors, *, shows_observations: bool = True) -> None:
        self.agent, self.env_id, self.colors = agent, env_id, colors
        self.shows_observations = shows_observations
        self._num_turns = self._num_episodes = self._num_solved = 0
        self.num_failed = 0
        self._all_turns: list[Turn] = []
        self._level = ""

    def start(self, level: str) -> None:
        """Starts an episode, of a level such as `"train seed 7"`."""
        self._num_turns, self._level = 0, level

    def turn(self, row: int, turn: Turn) -> None:
        """Prints a turn; `row`, the index of its world, is not used."""
        self._num_turns += 1
        lines = [f"── {self.env_id}, {self._level}, turn {self._num_turns} ──"]
        if self.shows_observations:
            lines += observation_lines(turn.observation, self.colors)
        said = text_lines(turn.response_text)
        outcome = wrapped(_outcome(turn))
        print(*lines, f"{self.agent} responds:", *(f"  {line}" for line in said), *outcome, "", sep="\n", flush=True)

    def end(self, episode: Trajectory) -> None:
        """Prints how an episode ended, with the final observation."""
        self._num_episodes += 1
        self._num_solved += episode.success
        if failure := failure_of(episode):
            self.num_failed += 1
            how = f"Failed ({failure.rstrip('.')})"
        else:
            how = _ending(episode)
        print(f"── {self.env_id}, {self._level}, the end ──")
        print(*observation_lines(episode.final_observation, self.colors), sep="\n")
        turns = f"{len(episode.turns)} turn{'s' * (len(episode.turns) != 1)}"
        self._all_turns += episode.turns
        print(f"{how}: {turns}, return {episode.total_reward:+.2f}.{_used(episode.turns)}\n", flush=True)

    def total(self) -> None:
        """Prints how many episodes were solved, if there were several."""
        if self._num_episodes > 1:
            used = _used(self._all_turns)
            num_played = self._num_episodes - self.num_failed
            solved = f" solved {self._num_solved} of {num_played}." if num_played else ":"
            failed = f" {self.num_failed} failed." if self.num_failed else ""
            print(f"{self.agent}{solved}{failed}{used}", flush=True)

    @property
    def has_only_failed(self) -> bool:
        """Whether a failure ended every episode, so that there is no result."""
        return self.num_failed == self._num_episodes > 0


def _ending(episode: Trajectory) -> str:
    """Returns how an episode without a failure ended."""
    last = episode.turns[-1]
    if episode.success:
        return "Solved"
    if last.terminated:
        return "Not solved; it is over"
    return "Ran out of context" if last.info.get("context_full") else "Not solved in time"


def _used(turns: Sequence[Turn]) -> str:
    """Returns a sentence on the tokens that turns used, and their cost if known; empty without a model."""
    sent, received, usd = (
        sum(turn.usage[name] for turn in turns) if all(name in turn.usage for turn in turns) else None
        for name in ("prompt_tokens", "completion_tokens", "usd")
    )
    if sent is None or received is None:
        return ""
    return f" Used {sent:,.0f} tokens sent, {received:,.0f} received{'' if usd is None else f', {usd:.4f} USD'}."


def _outcome(turn: Turn) -> list[str]:
    """Returns the effects of a response; text that could not be read is quoted verbatim."""
    actions = [str(action) for action in turn.info.get("actions") or ()]
    error = str(turn.info.get("parse_error") or "")
    problems = [
        "cut off at the token limit" if turn.stop_reason == "length" else "",
        f"refused: {turn.stop_detail or 'by the model or its provider'}"
        if turn.stop_reason == "content_filter"
        else "",
        f"the request exceeded a limit of the model: {turn.stop_detail}" if turn.stop_reason == "context" else "",
        f"no response: {turn.info.get('agent_error')}" if turn.stop_reason == "error" else "",
        "" if actions else error,
        f"the world's worker failed: {turn.info['worker_error']}" if "worker_error" in turn.info else "",
    ]
    terms = ", ".join(f"{term.name} {term.value:+g}" for term in turn.reward_terms if term.value)
    return [
        f"Carried out: {', '.join(actions)}" if actions else "Nothing was carried out.",
        *([f"Not in the format: {error}"] if actions and error else []),
        *(f"Problem: {problem}" for problem in problems if problem),
        f"Reward {turn.reward:+g}{f' ({terms})' if terms else ''}",
    ]


class Recording:
    """Keeps episodes, and writes a page of them when closed.

    Args:
        out: `FILE.html` for the page alone, which replaces an existing file; a folder for the page, the episodes, and
            their images; None for nothing.
        described: Settings of the agent and the world, shown on the page.

    Raises:
        ConfigError: If the folder is not empty or cannot be created.
        EngineUnavailableError: If the package that writes pages is not installed.
    """

    def __init__(self, out: Path | None, described: dict[str, Any]) -> None:
        self._out, self._described = out, described
        self._episodes: list[Trajectory] = []
        if out is None:
            return
        if importlib.util.find_spec("jinja2") is None:
            raise EngineUnavailableError(
                f"--out needs the package jinja2, which is not installed. Run: {install_command('records')}"
            )
        folder = out.parent if _is_page(out) else out
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise ConfigError(
                f"--out {out}: {folder} cannot be written to ({error.strerror}). Choose another."
            ) from error
        if holds_run(out) or (_is_page(out) and out.is_dir()):
            raise ConfigError(f"--out {out} already holds episodes or a run. Choose another folder, or a FILE.html.")

    def add(self, episode: Trajectory) -> None:
        """Keeps an episode."""
        self._episodes.append(episode)

    def close(self) -> None:
        """Writes the episodes, if there are any, and prints the path of the page."""
        if self._out is None or not self._episodes:
            return
        if not _is_page(self._out):
            print(f"Page: {self._write(self._out)}")
            return
        with tempfile.TemporaryDirectory() as folder:
            self._out.write_bytes(self._write(Path(folder)).read_bytes())
        print(f"Page: {self._out}")

    def _write(self, folder: Path) -> Path:
        from vlm_envs.records.report_page import build_report  # imported late: most runs write no page

        writer = RunWriter(folder)
        writer.config(self._described)
        writer.trajectories(LABEL, self._episodes)
        return build_report(folder)


def _is_page(out: Path) -> bool:
    return out.suffix.lower() in (".html", ".htm")
