"""The rollout loop, for training, evaluation, boards, curation, and play.

Each episode is a coroutine: reset the world, then ask the agent and step the world in turn until the episode ends. The
loop has the agent answer and the worlds step, and resumes each coroutine with the result. The agent's adapter
(`agents.answering`) decides when it answers: a batch agent once every episode has a request, any other agent
immediately. The loop resumes coroutines itself: tasks and futures of an event loop would cost more per turn than the
step of a fast world, and could not run in notebooks, which already run a loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, NamedTuple

import numpy as np

from agents.agent import Agent, BoundedAgent, Response, RolloutRows
from agents.answering import FutureAnswering, answering, answers_in_batches
from vlm_envs.trajectory import Observation, Trajectory, Turn, world_terms
from vlm_envs.vector.running_episodes import Step
from vlm_envs.vector.vector_world import JoinedWorlds, VectorWorld
from vlm_envs.world import OPTIMAL_ACTIONS_LEFT

GATHER_S = 0.002
"""Longest wait after a step for another one to be answered together with it, in seconds."""
POLL_S = 0.01
"""Longest wait for worlds before checking for responses again, in seconds."""

Worlds = VectorWorld | JoinedWorlds
OnTurn = Callable[[int, Turn], None]
OnEpisode = Callable[[int, Trajectory], None]


class EpisodeRequest(NamedTuple):
    """An episode to play.

    Attributes:
        seed: Reset seed.
        env_id: Registered id of its world, for the record.
        level: Level text that the world is reset to; None where the seed draws the level.
    """

    seed: int
    env_id: str
    level: str | None = None


class Played(NamedTuple):
    """A finished episode.

    Attributes:
        number: Index of its request.
        trajectory: The episode; None if the world could not be started.
    """

    number: int
    trajectory: Trajectory | None


class WorldBatch(NamedTuple):
    """Arguments of `try_rollout` except the agent."""

    worlds: VectorWorld
    seeds: Sequence[int]
    env_ids: Sequence[str]
    levels: Sequence[str] | None = None
    on_turn: OnTurn | None = None
    on_episode: OnEpisode | None = None

    @property
    def requests(self) -> list[EpisodeRequest]:
        """The episodes, one per world."""
        levels: Sequence[str | None] = self.levels or [None] * len(self.seeds)
        return [EpisodeRequest(*arguments) for arguments in zip(self.seeds, self.env_ids, levels, strict=True)]


def rollout(
    agent: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_ids: Sequence[str],
    levels: Sequence[str] | None = None,
    on_turn: OnTurn | None = None,
) -> list[Trajectory]:
    """Plays one episode in every world of a vector.

    Args:
        agent: Plays the episodes.
        worlds: N worlds, in any mix.
        seeds: N reset seeds; group members share theirs.
        env_ids: N registered ids, for the record.
        levels: N level texts that the worlds are reset to; None where seeds draw the levels.
        on_turn: Called after each turn with the world's index.

    Returns:
        N trajectories, in the order of the worlds. If a world crashes, its episode ends as truncated; so does an
        episode whose next observation exceeds the agent's context: the last `info` then has `context_full`.

    Raises:
        ConfigError: If the agent does not return exactly one `Response` per episode.
        WorkerError: If a worker was lost in a reset.
    """
    batch = WorldBatch(worlds, seeds, env_ids, levels, on_turn)
    observations, infos = worlds.reset(**reset_arguments(batch.requests))
    shown = {row: Step(seen, 0.0, False, False, infos["env"][row]) for row, seen in enumerate(observations)}
    played = _Rollout(agent, worlds, batch.requests, on_turn=on_turn, starts=shown).play_all()
    return [played[row] for row in range(len(seeds))]


def try_rollout(
    agent: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_ids: Sequence[str],
    levels: Sequence[str] | None = None,
    on_turn: OnTurn | None = None,
    on_episode: OnEpisode | None = None,
) -> list[Trajectory | None]:
    """Plays one episode in each world of a vector that can be started; otherwise like `rollout`.

    Args:
        agent: Plays the episodes.
        worlds: N worlds, in any mix.
        seeds: N reset seeds.
        env_ids: N registered ids.
        levels: N level texts, as for `rollout`.
        on_turn: Called after each turn with the world's index.
        on_episode: Called with each finished episode and the world's index.

    Returns:
        N trajectories, in the order of the worlds; None for a world that could not be reset even in a restarted
        worker.
    """
    (played,) = try_rollouts(agent, [WorldBatch(worlds, seeds, env_ids, levels, on_turn, on_episode)])
    return played


def try_rollouts(agent: Agent, batches: Sequence[WorldBatch]) -> list[list[Trajectory | None]]:
    """Plays batches of several kinds of worlds; returns the result of `try_rollout` for each.

    Unless the agent answers in batches, all are played at once, so that no batch waits for the worlds of another. The
    sampled tokens are the same as if they were played one after another.
    """
    if len(batches) > 1 and answers_in_batches(agent):
        return [played for batch in batches for played in try_rollouts(agent, [batch])]
    places = [(batch, row) for batch in batches for row in range(len(batch.seeds))]

    def on_turn(number: int, turn: Turn) -> None:
        batch, row = places[number]
        if batch.on_turn is not None:
            batch.on_turn(row, turn)

    def on_episode(number: int, trajectory: Trajectory) -> None:
        batch, row = places[number]
        if batch.on_episode is not None:
            batch.on_episode(row, trajectory)

    worlds = batches[0].worlds if len(batches) == 1 else JoinedWorlds([batch.worlds for batch in batches])
    requests = [request for batch in batches for request in batch.requests]
    played = _Rollout(agent, worlds, requests, on_turn=on_turn, on_episode=on_episode).play_all()
    numbers = iter(range(len(places)))
    return [[played.get(next(numbers)) for _ in batch.seeds] for batch in batches]


def play_episodes(
    agent: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_id: str,
    goes_on: Callable[[], bool] = lambda: True,
) -> Iterator[Played]:
    """Plays one episode per seed, as many at once as there are worlds, and yields episodes as they end.

    Args:
        agent: Plays the episodes. A batch agent plays one batch after another; with any other agent, a world starts
            its next episode as soon as one ends.
        worlds: Worlds of one kind.
        seeds: Reset seeds.
        env_id: Their id, for the record.
        goes_on: Called before episodes start; once it returns False, only running episodes are finished.
    """
    requests = [EpisodeRequest(seed, env_id) for seed in seeds]
    if not answers_in_batches(agent):
        yield from _Rollout(agent, worlds, requests, goes_on=goes_on).play()
        return
    for start in range(0, len(requests), worlds.num_envs):
        if not goes_on():
            return
        batch = requests[start : start + worlds.num_envs]
        filled = batch + batch[-1:] * (worlds.num_envs - len(batch))  # every world of a vector plays
        played = _Rollout(agent, worlds, filled).play_all()
        yield from (Played(start + row, played.get(row)) for row in range(len(batch)))


def rollout_rows(worlds: Worlds, requests: Sequence[EpisodeRequest]) -> RolloutRows:
    """Returns the rows of a rollout; rows of one vector form a group if their worlds and first requests are equal."""
    vectors = worlds.vectors if isinstance(worlds, JoinedWorlds) else (worlds,)
    kinds = [(number, kind) for number, vector in enumerate(vectors) for kind in vector.kinds]
    starts: list[Any] = [*zip(kinds, requests, strict=False), *range(len(requests), len(kinds))]
    numbers = {start: number for number, start in enumerate(dict.fromkeys(starts))}
    return RolloutRows(
        batch_sizes=tuple(vector.num_envs for vector in vectors), group_of_row=tuple(numbers[start] for start in starts)
    )


def reset_arguments(requests: Sequence[EpisodeRequest], **options: Any) -> dict[str, Any]:
    """Returns arguments for `VectorWorld.reset`, one request per world."""
    levels = [request.level for request in requests]
    options |= {"levels": levels} if any(levels) else {}
    return {"seed": [request.seed for request in requests]} | ({"options": options} if options else {})


def make_turn(
    observation: Observation,
    seen: Mapping[str, Any],
    response: Response,
    info: Mapping[str, Any],
    reward: float = 0.0,
    *,
    terminated: bool = False,
    truncated: bool = False,
) -> Turn:
    """Returns one turn from an observation, the response to it, and the outcome.

    Args:
        observation: Observation shown to the agent.
        seen: The world's `info` with that observation, on the state before the turn.
        response: The agent's response.
        info: The world's `info` after the turn.
        reward: The world's reward for the turn.
        terminated: Whether the world ended in this turn.
        truncated: Whether a limit ended the episode in this turn.
    """
    return Turn(
        observation=observation,
        state=seen["state"],
        state_text=seen.get("state_text"),
        seen_sections=seen.get("seen_sections", {}),
        optimal_actions_left=seen.get(OPTIMAL_ACTIONS_LEFT),
        response_text=response.text,
        stop_reason=response.stop_reason,
        prompt_ids=response.prompt_ids,
        response_ids=response.response_ids,
        sampler_logprobs=response.sampler_logprobs,
        reward=reward,
        reward_terms=world_terms(info.get("reward_terms", {})),
        terminated=terminated,
        truncated=truncated,
        info=info,
        thoughts=response.thoughts,
        usage=response.usage,
        model=response.model,
        stop_detail=response.stop_detail,
        summary=response.summary,
        request=response.request,
        raw=response.raw,
    )


def _unanswered_turn(observation: Observation, seen: Mapping[str, Any], response: Response) -> Turn:
    """Returns the turn of a failed response: the world is not stepped, and the episode is lost."""
    nothing = {"reward_terms": {}, "actions": (), "sections": {}, "action_effective": False, "format_correct": False}
    nothing |= {"actions_read": False, "unread": ""}
    info = {**seen, **nothing, "success": False, "agent_error": response.error or "the agent gave no response"}
    return make_turn(observation, seen, response, info, truncated=True)


class _Pause:
    """Suspends an episode's coroutine until the loop resumes it with a value."""

    def __await__(self) -> Generator[None, Any, Any]:
        return (yield)


_PAUSE = _Pause()


class _LostError(Exception):
    """Resumes an episode whose world was lost while its agent answered."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.step = step


class _NotStartedError(Exception):
    """Resumes an episode without a turn whose worker was lost in a reset of its own or another world."""


class _Rollout:
    """Episodes of one agent: a coroutine per world, and the loop that resumes them.

    Args:
        agent: Plays the episodes.
        worlds: The worlds. World i plays request i, then the next requests of the queue.
        requests: The episodes.
        on_turn: Called after each turn with the world's index.
        on_episode: Called with each finished episode and the world's index.
        goes_on: Called before an episode starts; once it returns False, no further one does.
        starts: First steps of worlds that are already reset, by index; None to reset them here.
    """

    def __init__(
        self,
        agent: Agent,
        worlds: Worlds,
        requests: Sequence[EpisodeRequest],
        *,
        on_turn: OnTurn | None = None,
        on_episode: OnEpisode | None = None,
        goes_on: Callable[[], bool] = lambda: True,
        starts: Mapping[int, Step] | None = None,
    ) -> None:
        self._agent, self._worlds, self._answering = agent, worlds, answering(agent)
        self._waits_for_all = answers_in_batches(agent)
        self._bounds = agent if isinstance(agent, BoundedAgent) else None
        self._on_turn, self._on_episode, self._goes_on, self._starts = on_turn, on_episode, goes_on, starts
        rows = rollout_rows(worlds, requests)
        self._start_arguments = (rows if isinstance(worlds, JoinedWorlds) else worlds, rows)
        self._queue = deque(enumerate(requests))
        self._finished: deque[Played] = deque()
        self._not_started: dict[int, tuple[int, EpisodeRequest]] = {}
        self._was_reset: set[int] = set()
        self._failed_resets: set[int] = set()
        self._has_turn: set[int] = set()
        self._playing: dict[int, Coroutine[None, Any, None]] = {}
        # Every coroutine waits in one of three places: its world, the agent's requests, or the agent's futures
        self._to_reset: dict[int, EpisodeRequest] = {}
        self._to_step: dict[int, str] = {}
        self._resetting: set[int] = set()
        self._stepping: set[int] = set()
        self._asked: set[int] = set()
        self._futures: dict[Future[Response], int] = {}
        self._lost: dict[int, Exception] = {}

    def play_all(self) -> dict[int, Trajectory]:
        """Returns the episodes by the index of their request, without those that could not be started."""
        played = {episode.number: episode.trajectory for episode in self.play() if episode.trajectory is not None}
        return dict(sorted(played.items()))

    def play(self) -> Iterator[Played]:
        """Yields episodes as they end."""
        if self._starts is None and self._waits_for_all:
            self._starts = self._try_reset(dict(zip(range(self._worlds.num_envs), self._queue, strict=False)))
        elif self._starts is None:
            self._worlds.cancel()
        self._answering.start(*self._start_arguments)
        try:
            while self._playing or self._begin():
                if self._playing and not self._finished:
                    self._exchange()
                while self._finished:
                    yield self._finished.popleft()
        finally:
            for future in self._futures:
                future.cancel()
            for coroutine in self._playing.values():
                coroutine.close()
            self._answering.close()

    def _begin(self) -> bool:
        """Starts a coroutine per world with an episode to play; returns whether there is any.

        Episodes that could not be started are retried once, when no other episode is left, because each attempt may
        cost other worlds their worker. They move to worlds that could be reset, unless tokens depend on the world's
        index.
        """
        starts, self._starts = self._starts, None
        if self._not_started:
            begun, self._not_started = self._not_started, {}
            if isinstance(self._answering, FutureAnswering):
                rows = sorted(range(self._worlds.num_envs), key=self._failed_resets.__contains__)
                begun = dict(zip(rows, begun.values(), strict=False))
            self._failed_resets.clear()
            starts = self._try_reset(begun)
            self._answering.restart(*self._start_arguments)
        else:
            num_begun = min(self._worlds.num_envs, len(self._queue)) if self._may_go_on() else 0
            begun = {row: self._queue.popleft() for row in range(num_begun)}
        for row, (number, request) in begun.items():
            self._playing[row] = self._play_in(row, number, request, starts[row] if starts else None)
            self._resume(row, None)
        return bool(begun)

    def _may_go_on(self) -> bool:
        """Returns whether another episode may start; clears the queue once none may."""
        if self._queue and not self._goes_on():
            self._queue.clear()
        return bool(self._queue)

    def _try_reset(self, begun: Mapping[int, tuple[int, EpisodeRequest]]) -> dict[int, Step]:
        """Resets worlds, repeating failed resets in restarted workers; returns their first steps."""
        rows, first = range(self._worlds.num_envs), next(iter(begun.values()))
        mask = np.array([row in begun or row not in self._was_reset for row in rows])
        requests = [begun.get(row, first)[1] for row in rows]
        options = {} if mask.all() else {"reset_mask": mask}
        observations, infos = self._worlds.try_reset(**reset_arguments(requests, **options))
        self._was_reset |= {*rows}
        return {row: Step(observations[row], 0.0, False, False, infos["env"][row]) for row in begun}

    async def _play_in(self, row: int, number: int, request: EpisodeRequest, start: Step | None) -> None:
        """Plays episodes in a world: this one, then others of the queue."""
        try:
            while True:
                trajectory = await self._episode(row, request, start)
                self._finished.append(Played(number, trajectory))
                if trajectory is not None and self._on_episode is not None:
                    self._on_episode(row, trajectory)
                if not self._may_go_on():
                    return
                (number, request), start = self._queue.popleft(), None
        except _NotStartedError:
            self._not_started[row] = number, request

    async def _episode(self, row: int, request: EpisodeRequest, start: Step | None) -> Trajectory | None:
        """Plays one episode.

        Args:
            row: The world's index.
            request: The episode.
            start: First step, if the world has been reset; None to reset it.

        Returns:
            The episode; None if the repeated reset failed.

        Raises:
            _NotStartedError: If it could not be started.
        """
        if start is None:
            self._to_reset[row] = request
            self._resetting.add(row)
            start = await _PAUSE
        observation, info = start.observation, start.info
        if "worker_error" in info:
            return None
        start_hash: str = info["state_hash"]
        turns: list[Turn] = []
        self._has_turn.discard(row)
        self._answering.begin(row)
        while not turns or not (turns[-1].terminated or turns[-1].truncated):
            try:
                response: Response = await self._ask(row, observation)
            except _LostError as lost:
                nothing = Response(text="", stop_reason="error", error=lost.step.info["worker_error"])
                turns.append(make_turn(observation, info, nothing, lost.step.info, truncated=True))
            else:
                if response.stop_reason == "error":
                    turns.append(_unanswered_turn(observation, info, response))
                else:
                    self._to_step[row] = response.text
                    self._stepping.add(row)
                    step: Step = await _PAUSE
                    turns.append(self._turn(row, observation, info, response, step))
                    observation, info = step.observation, turns[-1].info
            self._has_turn.add(row)
            if self._on_turn is not None:
                self._on_turn(row, turns[-1])
        return Trajectory(
            env_id=request.env_id,
            seed=request.seed,
            turns=tuple(turns),
            final_observation=observation,
            start_state_hash=start_hash,
            policy_version=self._agent.policy_version,
            level=request.level or "",
        )

    def _ask(self, row: int, observation: Observation) -> _Pause:
        """Requests a response, to be awaited."""
        if isinstance(self._answering, FutureAnswering):
            self._futures[self._answering.submit(row, observation)] = row
        else:
            self._answering.add_request(row, observation)
            self._asked.add(row)
        return _PAUSE

    def _turn(
        self, row: int, observation: Observation, info: Mapping[str, Any], response: Response, step: Step
    ) -> Turn:
        """Returns a played turn, truncated if the agent's context has no room for another."""
        is_over = step.terminated or step.truncated
        is_full = not is_over and (
            response.stop_reason == "context"
            or (self._bounds is not None and not self._bounds.fits(row, step.observation))
        )
        outcome = {**step.info, "context_full": True} if is_full else step.info
        ends = {"terminated": step.terminated, "truncated": step.truncated or is_full}
        return make_turn(observation, info, response, outcome, step.reward, **ends)

    def _exchange(self) -> None:
        """Advances the agent and the worlds, and resumes the coroutines that waited for them."""
        if self._asked and not isinstance(self._answering, FutureAnswering):
            answers = self._answering.step(are_worlds_busy=bool(self._resetting or self._stepping))
            for row, response in answers.items():
                self._asked.discard(row)
                self._resume(row, response)
        if self._futures:
            is_idle = not (self._resetting or self._stepping)
            done, _ = wait(self._futures, None if is_idle else 0.0, return_when=FIRST_COMPLETED)
            for future in done:
                row = self._futures.pop(future)
                self._resume(row, self._lost.pop(row) if row in self._lost else future.result())
        if self._to_reset:
            requests, self._to_reset = self._to_reset, {}
            levels = {row: request.level for row, request in requests.items() if request.level is not None}
            seeds = {row: request.seed for row, request in requests.items()}
            self._worlds.send_resets(seeds, **({"levels": levels} if levels else {}))
        if self._to_step:
            actions, self._to_step = self._to_step, {}
            self._worlds.send(actions)
        if self._resetting or self._stepping:
            self._take(self._received())

    def _received(self) -> dict[int, Step]:
        """Returns finished steps; waits for one only while the agent has nothing to do.

        Steps that arrive almost together are returned together: their responses then share a forward pass.
        """
        if self._asked and not self._waits_for_all:
            return self._worlds.recv(0.0)
        if self._futures:
            return self._worlds.recv(POLL_S)
        done = more = self._worlds.recv(None)
        while more and len(done) < len(self._resetting) + len(self._stepping):
            more = self._worlds.recv(GATHER_S)
            done |= more
        return done

    def _take(self, done: Mapping[int, Step]) -> None:
        """Resumes episodes with their steps; those whose world was lost while their agent answers get an error."""
        resets = self._resetting & done.keys()
        self._resetting -= resets
        self._was_reset |= resets
        failed = {row for row in resets if "worker_error" in done[row].info}
        self._failed_resets |= failed
        for row in (*sorted(resets), *(row for row in done if row not in resets)):
            step = done[row]
            could_not_start = row in failed or (failed and "worker_error" in step.info and row not in self._has_turn)
            error = _NotStartedError() if could_not_start else _LostError(step)
            if row in resets or row in self._stepping:
                self._stepping.discard(row)
                self._resume(row, error if could_not_start else step)
            elif row in self._asked and not isinstance(self._answering, FutureAnswering):
                self._answering.abort(row)
                self._asked.discard(row)
                self._resume(row, error)
            elif row in self._futures.values():
                self._lost[row] = error
            # otherwise its episode ended early (context full or no response) while its world kept stepping

    def _resume(self, row: int, outcome: Any) -> None:
        """Runs the coroutine of a world until it waits again, or ends."""
        coroutine = self._playing[row]
        try:
            if isinstance(outcome, Exception):
                coroutine.throw(outcome)
            else:
                coroutine.send(outcome)
        except StopIteration:
            del self._playing[row]
