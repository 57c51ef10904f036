"""Plays what a board still lacks: all agents side by side, each episode kept as soon as it is over."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.episodes import play_episodes
from agents.rollout import failure_of
from benchmarks.models.board import Board, EpisodeKey
from benchmarks.models.contestants import Contestant
from benchmarks.models.measures import success_interval
from benchmarks.models.spec import WorldSpec
from benchmarks.models.versions import versions
from vlm_envs.arguments.ranges import require_above, require_at_least
from vlm_envs.cli.needs import need_of
from vlm_envs.errors import require
from vlm_envs.registration import registered_name
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Trajectory
from vlm_envs.vector.env import VectorWorld
from vlm_envs.vector.make import world_vector

LEAST_FOR_CI = 16
"""Episodes before an interval is looked at."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What a board shall hold.

    Attributes:
        worlds: What is played.
        episodes: Levels of each world; of a world that lists fewer, all.
        repeats: Episodes on each level.
        budget_usd: Nothing is begun once so much has been spent; None for no limit.
        stop_when_ci: An agent stops in a world once half the width of its success rate's interval is at most this; None
            to play all levels.
        suite: Name and version, for the record.
    """

    worlds: Sequence[WorldSpec]
    episodes: int = 256
    repeats: int = 1
    budget_usd: float | None = None
    stop_when_ci: float | None = None
    suite: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        require(bool(self.worlds), "Name a world with --world, or a suite with --suite.")
        require_at_least(self, 1, "episodes", "repeats")
        require_above(self, 0, *(name for name in ("budget_usd", "stop_when_ci") if getattr(self, name) is not None))


@dataclass
class Progress:
    """How far one agent is in one world.

    Attributes:
        agent: What the board calls it.
        world: What the board calls it.
        num_wanted: Episodes that there shall be.
        num_done: Of these, there.
        num_successes: Of these, solved.
        num_errors: Tries that a failure ended, in this run.
        num_played: Episodes of this run.
        tokens: Of this run.
        usd: Of this run; None once a price is not known.
        began: When this run began, in seconds of the monotonic clock.
    """

    agent: str
    world: str
    num_wanted: int
    num_done: int = 0
    num_successes: int = 0
    num_errors: int = 0
    num_played: int = 0
    tokens: int = 0
    usd: float | None = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def eta_s(self) -> float | None:
        """Seconds until it is through, at the pace of this run; None before its first episode."""
        if not self.num_played:
            return None
        return (time.monotonic() - self.began) / self.num_played * max(0, self.num_wanted - self.num_done)


class BoardRun:
    """One run of `python -m benchmarks run`.

    Args:
        plan: What the board shall hold.
        contestants: Who plays.
        out: The board's folder.
        on_progress: Called after every episode, from any thread.

    Raises:
        ConfigError: If the board there is another one.
    """

    def __init__(
        self,
        plan: RunPlan,
        contestants: Sequence[Contestant],
        out: Path,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self.plan, self.contestants = plan, contestants
        self.board = Board.open(
            out,
            {
                "suite": plan.suite,
                "split": plan.worlds[0].split,
                "worlds": [world.record() for world in plan.worlds],
                "agents": [contestant.record() for contestant in contestants],
                "versions": versions(),
            },
        )
        self._on_progress = on_progress
        self._stop = threading.Event()
        self._lock = threading.Lock()
        episodes = self.board.episodes()
        self._done = {EpisodeKey.of(each): bool(each["success"]) for each in episodes if not each["error"]}
        self._spent = sum(each.get("usd") or 0.0 for each in episodes)
        self.reason = ""

    def run(self) -> None:
        """Plays until nothing is missing, the budget is spent, or Ctrl-C; what was played is on the board."""
        with ThreadPoolExecutor(len(self.contestants), thread_name_prefix="contestant") as pool:
            futures = [pool.submit(self._play, contestant) for contestant in self.contestants]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                self.stop("interrupted")
                raise
            finally:
                for contestant in self.contestants:
                    contestant.close()

    def stop(self, reason: str) -> None:
        """Begins no further episode."""
        self.reason = self.reason or reason
        self._stop.set()

    def _play(self, contestant: Contestant) -> None:
        try:
            for world in self.plan.worlds:
                if not self._stop.is_set():
                    self._play_world(contestant, world)
        except BaseException:
            self.stop("an error")
            raise

    def _play_world(self, contestant: Contestant, world: WorldSpec) -> None:
        with closing(_vector(world, 1)) as one:
            num_levels = one.get_attr("num_levels")[0]
        num_episodes = self.plan.episodes if num_levels is None else min(self.plan.episodes, num_levels)
        keys = [
            EpisodeKey(world.digest, contestant.digest, seed, repeat)
            for repeat in range(self.plan.repeats)
            for seed in split_seeds(world.split, num_episodes)
        ]
        missing = [key for key in keys if key not in self._done]
        solved = [self._done[key] for key in keys if key in self._done]
        progress = Progress(
            agent=contestant.label,
            world=world.label,
            num_wanted=len(keys),
            num_done=len(solved),
            num_successes=sum(solved),
        )
        if not missing or self._is_sure(progress):
            return
        self._on_progress(progress)
        with closing(_vector(world, min(contestant.num_parallel, len(missing)))) as worlds:
            agent = contestant.agent
            seeds = [key.seed for key in missing]
            for index, trajectory in play_episodes(agent, worlds, seeds, env_id=registered_name(world.env_id)):
                self._keep(missing[index], contestant, world, trajectory, progress)
                self._on_progress(progress)
                if self._stop.is_set() or self._is_sure(progress) or self._is_spent():
                    return

    def _keep(
        self,
        key: EpisodeKey,
        contestant: Contestant,
        world: WorldSpec,
        trajectory: Trajectory | None,
        progress: Progress,
    ) -> None:
        error = "the world could not be started" if trajectory is None else failure_of(trajectory)
        used = _used(trajectory)
        self.board.add(key, agent=contestant.label, world=world.label, episode=trajectory, error=error, **used)
        with self._lock:
            self._spent += used.get("usd") or 0.0
        progress.num_played += 1
        progress.tokens += int(used.get("tokens") or 0)
        usd = used.get("usd")
        progress.usd = None if usd is None or progress.usd is None else progress.usd + usd
        if error:
            progress.num_errors += 1
        else:
            progress.num_done += 1
            progress.num_successes += bool(trajectory is not None and trajectory.success)

    def _is_sure(self, progress: Progress) -> bool:
        if self.plan.stop_when_ci is None or progress.num_done < LEAST_FOR_CI:
            return False
        low, high = success_interval(progress.num_successes, progress.num_done)
        return (high - low) / 2 <= self.plan.stop_when_ci

    def _is_spent(self) -> bool:
        if self.plan.budget_usd is None or self._spent < self.plan.budget_usd:
            return False
        self.stop(f"the budget of {self.plan.budget_usd:g} USD is spent")
        return True


def _vector(world: WorldSpec, num_envs: int) -> VectorWorld:
    """Returns worlds; those with an engine get a process of their own, as engines do not live in several threads."""
    need = need_of(registered_name(world.env_id))
    apart: dict[str, Any] = {"workers": "process", "num_workers": 1} if need is not None and need.probe else {}
    return world_vector(world.env_id, num_envs, **world.kwargs, split=world.split, **apart)


def _used(trajectory: Trajectory | None) -> dict[str, Any]:
    """Returns what an episode took: `seconds`, `tokens` and `usd`, as far as its agent said."""
    turns = () if trajectory is None else trajectory.turns
    totals: dict[str, float] = defaultdict(float)
    for turn in turns:
        for name, value in turn.usage.items():
            totals[name] += value
    used: dict[str, Any] = {name: total for name, total in totals.items() if all(name in turn.usage for turn in turns)}
    if "prompt_tokens" in used:
        used["tokens"] = used["prompt_tokens"] + used["completion_tokens"]
    return used
