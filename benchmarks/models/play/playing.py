"""Plays a board's missing episodes, within a budget, until they are done or the run is interrupted."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from agents.agent import Agent, Response, RolloutRows
from agents.answering import FutureAnswering, answering
from agents.blind_script import LazyAgent
from agents.rollout import play_episodes
from benchmarks.models.board.board import Board, EpisodeKey
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.board.verification import versions
from benchmarks.models.measures.measures import spent
from benchmarks.models.play.board_progress import Pace, Progress, RunProgress
from benchmarks.models.play.contestants import Contestant
from vlm_envs.command_line import EXIT_INTERRUPTED
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record
from vlm_envs.registration import need_of, registered_name
from vlm_envs.splits import SPLIT_SEEDS, split_seeds
from vlm_envs.statistics.success_rates import by_cluster, cluster_of
from vlm_envs.trajectory import Observation, Trajectory, failure_of
from vlm_envs.validation import require, require_above, require_at_least
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.vector.vector_world import VectorWorld

LEAST_FOR_CI = 16
"""Minimum episodes before the interval is checked."""

WIDEST_HALF = 0.5
"""Half-width of the widest interval that a rate can have."""

MOST_FAILURES = 8
"""Consecutive failures after which an agent leaves a world; it returns after playing the others."""

MOST_TRIES = 2
"""Attempts per episode in one run: failed ones are retried in worlds that the agent left."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """The plan for a board.

    Attributes:
        worlds: Worlds to play.
        episodes: Levels of each world; all levels of a world that lists fewer.
        repeats: Episodes on each level.
        budget_usd: No episode starts once this much is spent; None for no limit.
        stop_when_ci: An agent stops in a world once the half-width of its success rate's confidence interval is at most
            this; None to play all levels.
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
        require_above(self, 0, "budget_usd", "stop_when_ci")
        require(
            self.stop_when_ci is None or self.stop_when_ci <= WIDEST_HALF,
            f"--stop-when-ci must be at most {WIDEST_HALF}; got {self.stop_when_ci}. 0.03 means 3 points.",
        )
        for world in self.worlds:
            owned = len(SPLIT_SEEDS[world.split])
            require(self.episodes <= owned, f"--episodes must be at most {owned}, the number of levels in a split.")

    def keys(self, world: WorldSpec, contestant: Contestant) -> list[EpisodeKey]:
        """Returns the episodes that an agent plays in a world; every level once before any is repeated."""
        if world.label in contestant.skipped:
            return []
        return [
            EpisodeKey(world.digest, contestant.digest, seed, repeat)
            for repeat in range(self.repeats)
            for seed in split_seeds(world.split, self.num_levels(world))
        ]

    def num_levels(self, world: WorldSpec) -> int:
        """Returns the number of levels to play in a world."""
        return self.episodes if world.num_levels is None else min(self.episodes, world.num_levels)


class BoardRun:
    """One run of `python -m benchmarks run`. It locks the board until `run` is over.

    Args:
        plan: The plan for the board.
        contestants: The agents that play.
        out: The board's folder.
        on_progress: Called after every episode, from any thread.

    Attributes:
        left_out: Faults of items that cannot be shown, by world label and seed. These items are not played: the world
            would show the next item instead, which would then count twice.
        moved: A message for each agent whose server address has changed.

    Raises:
        ConfigError: If the folder has a different board, or a budget cannot be enforced because a price is unknown.
        BusyFolderError: If another process is writing to the board.
        UnwritableBoardError: If the board cannot be written.
    """

    def __init__(
        self,
        plan: RunPlan,
        contestants: Sequence[Contestant],
        out: Path,
        on_progress: Callable[[RunProgress], None] = lambda progress: None,
    ) -> None:
        if plan.budget_usd is not None:
            require_prices(contestants)
        self.plan, self.contestants = plan, contestants
        definition = {
            "suite": plan.suite,
            "split": plan.worlds[0].split,
            "reading": plan.worlds[0].reading,
            "worlds": [world.record(out) for world in plan.worlds],
            "agents": [contestant.record() for contestant in contestants],
            "versions": versions(world.adapted for world in plan.worlds),
        }
        self.board = Board.open(out, definition)
        self._done: dict[EpisodeKey, bool] = {}
        self._started: set[EpisodeKey] = set()
        self._num_tries: Counter[EpisodeKey] = Counter()  # in this run
        try:
            lines = self.board.lines()
            self._resume_agents()
            for line in lines:
                key = EpisodeKey.of(line)
                self._started.add(key)
                if not line["error"]:
                    self._done[key] = bool(line["success"])
            self.left_out = {world.label: self._unshown(world) for world in plan.worlds}
        except BaseException:
            self.board.close()
            raise
        self.spent_usd = sum(line.get("usd") or 0.0 for line in lines)
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._stopping, self._interrupted = threading.Event(), threading.Event()
        self.reason, self.remedy = "", ""
        self.failures: dict[str, str] = {}
        self._paces = {contestant.label: Pace() for contestant in contestants}
        self._parts = {
            (contestant.label, world.label): self._part(contestant, world, lines)
            for contestant in contestants
            for world in plan.worlds
        }
        self.progress = RunProgress(parts=list(self._parts.values()))
        self.moved = list(self._moved(lines))

    def run(self, on_person: Callable[[bool], None] = lambda plays: None) -> None:
        """Plays until nothing is missing, the budget is spent, or Ctrl-C; finished episodes are on the board.

        Args:
            on_person: Called with True before a human plays at the terminal, and with False afterwards.
        """
        try:
            for contestant in self.contestants:
                if contestant.is_person:
                    on_person(True)
                    self._play(contestant)
                    on_person(False)
            self._play_side_by_side([contestant for contestant in self.contestants if not contestant.is_person])
        except BaseException as error:
            self._stop("interrupted" if isinstance(error, KeyboardInterrupt) else "an error")
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Closes the board and the agents created for this run; `run` calls it at its end."""
        for contestant in self.contestants:
            if not contestant.stays_open:
                contestant.close()
        self.board.close()

    def waiting(self) -> list[Contestant]:
        """Returns the agents that have episodes left to play."""
        labels = {part.agent for part in self.progress.parts if part.num_missing}
        return [contestant for contestant in self.contestants if contestant.label in labels]

    def not_started(self) -> list[tuple[Progress, int]]:
        """Returns the number of episodes never started, for each agent and world with such episodes."""
        found = []
        for contestant in self.contestants:
            for world in self.plan.worlds:
                count = sum(key not in self._started for key in self._keys(world, contestant))
                found += [(self._parts[contestant.label, world.label], count)] if count else []
        return found

    def _resume_agents(self) -> None:
        """Gives agents the labels and hashes under which the board already lists them."""
        labels = set()
        for contestant in self.contestants:
            contestant.resume(self.board.agent_entry(contestant.record()))
            require(
                contestant.label not in labels,
                f"Two agents of this command are {contestant.label} on this board. Leave one out, or name it with "
                "as=NAME.",
            )
            labels.add(contestant.label)

    def _moved(self, lines: Sequence[Record]) -> Iterator[str]:
        last = {line["agent"]: line for line in lines}
        entries = {entry["label"]: entry for entry in self.board.record["agents"]}
        for contestant in self.waiting():
            label = contestant.label
            if label in last and contestant.asks_endpoint:
                recorded = entries[label].get("identity", {}).get("base_url", "")
                before = last[label].get("address", recorded)
                if before.rstrip("/") != contestant.address.rstrip("/"):
                    then, now = before or "its provider", contestant.address or "its provider"
                    yield (
                        f"{label} was served by {then} and is now served by {now}. Both count as one agent; to add it "
                        "as another, use as=NAME."
                    )

    def _play_side_by_side(self, contestants: Sequence[Contestant]) -> None:
        if not contestants:
            return
        with ThreadPoolExecutor(len(contestants), thread_name_prefix="contestant") as pool:
            try:
                for future in as_completed([pool.submit(self._play, contestant) for contestant in contestants]):
                    future.result()
            except BaseException:
                # Running agents must neither continue nor wait for a provider
                self._stopping.set()
                self._interrupted.set()
                for contestant in self.contestants:
                    contestant.close()
                raise

    def _stop(self, reason: str, remedy: str = "The same command resumes.") -> None:
        """Starts no further episode and records the reason and what to do."""
        if not self.reason:
            self.reason, self.remedy = reason, remedy
        self._stopping.set()

    def _unshown(self, world: WorldSpec) -> dict[int, str]:
        """Returns the faults of items that are still to be played and cannot be shown, by seed."""
        keys = (key for contestant in self.contestants for key in self.plan.keys(world, contestant))
        return world.unshown(key.seed for key in keys if key not in self._done)

    def _keys(self, world: WorldSpec, contestant: Contestant) -> list[EpisodeKey]:
        """Returns the planned episodes except those on items that cannot be shown; finished episodes stay."""
        left_out = self.left_out[world.label]
        return [key for key in self.plan.keys(world, contestant) if key in self._done or key.seed not in left_out]

    def _part(self, contestant: Contestant, world: WorldSpec, lines: Sequence[Record]) -> Progress:
        keys = self._keys(world, contestant)
        solved = [self._done[key] for key in keys if key in self._done]
        names = contestant.digest, world.digest
        before = [line for line in lines if (line["agent_digest"], line["world_digest"]) == names]
        played = list({EpisodeKey.of(line): line for line in before if not line["error"]}.values())
        return Progress(
            agent=contestant.label,
            world=world.label,
            num_wanted=len(keys),
            num_done=len(solved),
            num_successes=sum(solved),
            tokens=int(spent("tokens", before) or 0),
            usd=spent("usd", before) if before else 0.0,
            pace=self._paces[contestant.label],
            outcomes=by_cluster(map(cluster_of, played), [bool(line["success"]) for line in played]),
        )

    def _play(self, contestant: Contestant) -> None:
        self._paces[contestant.label].restart()
        try:
            left = [world for world in self.plan.worlds if self._play_world(contestant, world)]
            while left:
                left = [world for world in left if self._play_world(contestant, world, returns=True)]
        except EOFError:
            if not contestant.is_person:
                raise
            self.failures[contestant.label] = "the input has ended"
        except Exception:
            if not self._interrupted.is_set():  # an interrupt closes agents, so their requests then fail
                raise

    def _missing(self, world: WorldSpec, contestant: Contestant) -> list[EpisodeKey]:
        """Returns the episodes that an agent may still play in this run; never-started ones come first."""
        keys = [key for key in self._keys(world, contestant) if key not in self._done]
        return sorted((key for key in keys if self._num_tries[key] < MOST_TRIES), key=self._started.__contains__)

    def _play_world(self, contestant: Contestant, world: WorldSpec, *, returns: bool = False) -> bool:
        """Plays missing episodes of an agent in a world.

        Args:
            contestant: The agent.
            world: The world.
            returns: Whether the agent left this world before.

        Returns:
            Whether failures made the agent leave and it should return: always once, then as long as each visit
            finishes an episode.
        """
        progress = self._parts[contestant.label, world.label]
        progress.num_failed_in_a_row, progress.has_left, num_done = 0, False, progress.num_done
        missing = self._missing(world, contestant)
        if missing and self._goes_on(progress):
            lapped = time.monotonic()
            agent = Interruptible.of(contestant.agent, self._interrupted)
            if isinstance(contestant.agent, LazyAgent):
                contestant.agent.on_progress = partial(self._on_choice, progress)
            self._on_progress(self.progress)
            num_envs = min(contestant.num_parallel, len(missing))
            with closing(_vector(world, num_envs)) as worlds:
                seeds, env_id = [key.seed for key in missing], registered_name(world.env_id)
                for number, trajectory in play_episodes(
                    agent, worlds, seeds, env_id=env_id, goes_on=lambda: self._goes_on(progress)
                ):
                    wall_s, lapped = time.monotonic() - lapped, time.monotonic()
                    progress.pace.num_ended += 1
                    self._keep(missing[number], contestant, progress, trajectory, wall_s)
        has_left = progress.has_left or progress.num_failed_in_a_row >= MOST_FAILURES
        worth_it = not self._stopping.is_set() and (not returns or progress.num_done > num_done)
        comes_back = has_left and worth_it and bool(self._missing(world, contestant))
        progress.is_over = not comes_back
        self._on_progress(self.progress)
        return comes_back

    def _on_choice(self, progress: Progress, env_id: str, step: str, num_done: int, num_wanted: int) -> None:
        """Reports the progress of `lazy` in choosing its responses; raises if the run was interrupted."""
        if self._interrupted.is_set():
            raise RunInterruptedError
        progress.pace.restart()
        progress.preparing = f"choosing responses for {env_id}: {step}, {num_done:,} of {num_wanted:,}"
        self._on_progress(self.progress)

    def _keep(
        self,
        key: EpisodeKey,
        contestant: Contestant,
        progress: Progress,
        trajectory: Trajectory | None,
        wall_s: float,
    ) -> None:
        error = "the world could not be started" if trajectory is None else failure_of(trajectory)
        if error and self._interrupted.is_set():
            raise RunInterruptedError  # caused by closing the agents
        used = used_by(trajectory)
        label, world = contestant.label, progress.world
        facts = used | ({"address": contestant.address} if contestant.address else {})
        line = self.board.add(key, agent=label, world=world, episode=trajectory, error=error, wall_s=wall_s, **facts)
        with self._lock:
            self._started.add(key)
            self._num_tries[key] += 1
            if not error:
                self._done[key] = trajectory is not None and trajectory.success
            usd = used.get("usd")
            self.spent_usd += usd or 0.0
            solved = trajectory is not None and trajectory.success
            tokens, cluster = int(used.get("tokens", 0)), cluster_of(line)
            progress.add(solved=solved, failed=bool(error), tokens=tokens, usd=usd, cluster=cluster)
            if error:
                self.failures[label] = error
            elif self.plan.budget_usd is not None and contestant.asks_endpoint and usd is None:
                self._stop(
                    f"{label} does not count its tokens, so no budget can be enforced",
                    "Without --budget-usd, the same command resumes.",
                )
        self._on_progress(self.progress)

    def _goes_on(self, progress: Progress) -> bool:
        """Returns whether an agent starts another episode in a world."""
        budget = self.plan.budget_usd
        if budget is not None and self.spent_usd >= budget:
            self._stop(
                f"the budget of {budget:g} USD is spent", "With a higher --budget-usd, the same command resumes."
            )
        if self._stopping.is_set():
            return False
        if progress.num_failed_in_a_row >= MOST_FAILURES:
            progress.has_left = True
            return False
        return not self.is_narrow_enough(progress)

    def is_narrow_enough(self, progress: Progress) -> bool:
        """Returns whether an agent's interval in a world is as narrow as requested."""
        wanted = self.plan.stop_when_ci
        return wanted is not None and progress.num_done >= LEAST_FOR_CI and progress.half_width <= wanted


def _vector(world: WorldSpec, num_envs: int) -> VectorWorld:
    """Creates worlds; those with an engine run in a separate process, as engines are bound to one thread."""
    need = need_of(registered_name(world.env_id))
    apart: dict[str, Any] = {"workers": "process", "num_workers": 1} if need is not None and need.probe else {}
    worlds = world_vector(world.env_id, num_envs, **world.made_with, split=world.split, **apart)
    worlds.counts_optimal_actions = True
    return worlds


class RunInterruptedError(RuntimeError):
    """The agent is not asked any more because its run was stopped."""


class Interruptible:
    """An agent that stops answering once its run is interrupted, even in the middle of a batch of episodes.

    Args:
        agent: The agent.
        interrupted: Set when the run is interrupted.
    """

    def __init__(self, agent: Agent, interrupted: threading.Event) -> None:
        self._agent, self._answering, self._interrupted = agent, answering(agent), interrupted

    @classmethod
    def of(cls, agent: Agent, interrupted: threading.Event) -> Agent:
        """Returns an interruptible agent; agents that answer episodes separately are interrupted by closing them."""
        return agent if isinstance(answering(agent), FutureAnswering) else cls(agent, interrupted)

    @property
    def policy_version(self) -> int:
        """The agent's policy version."""
        return self._agent.policy_version

    @policy_version.setter
    def policy_version(self, version: int) -> None:
        self._agent.policy_version = version

    def start(self, worlds: VectorWorld, rows: RolloutRows) -> None:
        """Starts the agent.

        Raises:
            RunInterruptedError: If the run was interrupted.
        """
        self._check()
        self._answering.start(worlds, rows)

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns the agent's responses.

        Raises:
            RunInterruptedError: If the run was interrupted.
        """
        self._check()
        return self._answering.respond(rows, observations)

    def _check(self) -> None:
        if self._interrupted.is_set():
            raise RunInterruptedError


@contextmanager
def second_interrupt_quits() -> Iterator[None]:
    """Makes the first Ctrl-C in the block raise `KeyboardInterrupt` and the next one end the process immediately.

    A board is consistent at any time, so quitting is safe. A handler that is not Python's default, as in background
    jobs, is left in place.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def quit_at_once(number: int, frame: object) -> None:
        os._exit(EXIT_INTERRUPTED)

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, quit_at_once)
        message = b"Stopping. Ctrl-C again quits at once."
        # At a terminal, no extra line: the progress display overwrites from its first line
        os.write(2, b"\r" + message if os.isatty(2) else b"\n" + message + b"\n")
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, cast("Any", signal.default_int_handler))


def require_prices(contestants: Sequence[Contestant]) -> None:
    """Raises `ConfigError` if the price of a contestant is unknown, as a budget could not be enforced."""
    unknown = [contestant.label for contestant in contestants if contestant.asks_endpoint and not contestant.has_price]
    if unknown:
        raise ConfigError(
            f"--budget-usd cannot be enforced for {', '.join(unknown)}: the price is unknown. Add it to a table like "
            "agents/api/prices.toml and pass the table with prices=FILE after the agent's name; 0 is a valid price."
        )


def used_by(trajectory: Trajectory | None) -> dict[str, Any]:
    """Returns the usage of an episode.

    Returns:
        Sums of its agent's usage per turn (`seconds`, tokens by kind, `usd`), and `tokens` in both directions. Keys
        that a turn lacks are left out, unless a failure ended that turn. `uncounted` is present if the token counts of
        some replies are estimates.
    """
    turns = () if trajectory is None else trajectory.turns
    totals: dict[str, float] = defaultdict(float)
    for turn in turns:
        for name, value in turn.usage.items():
            totals[name] += value
    usages = [turn.usage for turn in turns if not turn.info.get("agent_error")]
    used: dict[str, Any] = {
        name: total for name, total in totals.items() if name == "uncounted" or all(name in usage for usage in usages)
    }
    if "prompt_tokens" in used:
        used["tokens"] = used["prompt_tokens"] + used["completion_tokens"]
    return used
