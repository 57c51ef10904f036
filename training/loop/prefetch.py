"""Sampling of an iteration's batch, before the update or in a thread during the previous one (one-step off-policy).

    main       update on 0       update on 1       update on 2
    thread     sample 1, by w_0  sample 2, by w_1  ...

w_t are the weights before the update on batch t. Each update trains on samples of the weights before the last update,
which differ from the policy; importance sampling corrects for the difference.

Source of the idea: Noukhovitch et al., "Asynchronous RLHF" (2024), one-step off-policy learning.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from agents.agent import LearningAgent
from agents.hf.chat import ChatEncoder
from training.batch import Batch, make_batch
from training.checkpoints.checkpoint_state import copied
from training.config.run_config import RunConfig
from training.engines.accelerated_engine import refresh_copy
from training.engines.engine import Engine
from training.engines.policy import copied_but_frozen
from training.errors import NothingLeftError
from training.loop.collect import Collector, Sample, Watcher, sample_groups
from training.loop.metrics import rollout_metrics
from training.rewards.turn_scores import ScoredTrajectory, TurnScorer
from training.update.learner import Learner
from training.update.micro_batches import OF_SAMPLING, memory_told
from vlm_envs.trajectory import Trajectory, Turn

GIVE_UP_S = 60.0
"""Maximum wait for a canceled batch to stop, after which it is abandoned."""


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """A batch with its metrics.

    Attributes:
        sample: The episodes to train on, and the first round.
        metrics: Metrics of the rollout.
        judged: Usage of the judges so far.
        rollout_s: Duration of the rollout, in seconds.
    """

    sample: Sample
    metrics: dict[str, float]
    judged: dict[str, float]
    rollout_s: float


class Sampling:
    """Plays and scores the batches of a run, in all processes together.

    Args:
        config: The run.
        encoder: The chat format.
        engine: Engine of its processes.
        collector: Plays the episodes.
        scorer: Scores them, in the main process; None elsewhere.
        max_context_tokens: Maximum tokens of a row.
    """

    def __init__(
        self,
        config: RunConfig,
        encoder: ChatEncoder,
        engine: Engine,
        collector: Collector,
        scorer: TurnScorer | None,
        *,
        max_context_tokens: int,
    ) -> None:
        self._config, self._engine, self._collector, self._scorer = config, engine, collector, scorer
        self._to_batch = partial(scored_batch, encoder=encoder, config=config, max_context_tokens=max_context_tokens)

    @property
    def collector(self) -> Collector:
        """The collector that plays the episodes."""
        return self._collector

    def __call__(self, agent: LearningAgent, iteration: int, watcher: Watcher | None = None) -> Sampled:
        """Returns an iteration's batch, played by an agent with its weights, whose memory is freed afterwards.

        Args:
            agent: The agent.
            iteration: Number of the iteration, from 0.
            watcher: An additional watcher of turns and episodes.

        Raises:
            NothingLeftError: If all episodes were lost or could not be judged.
        """
        config, rollout_s = self._config, list[float]()

        def play(sampling_round: int, worlds: frozenset[str] | None) -> list[ScoredTrajectory]:
            return self._play(agent, iteration, sampling_round, worlds, watcher, rollout_s)

        sample = sample_groups(
            play,
            self._to_batch,
            config.algorithm,
            units=self._collector.units(iteration),
            group_size=config.group_size,
        )
        agent.release()
        if not sample.learnt.batch.trainable_B.any():
            raise NothingLeftError(
                f"Nothing is left of iteration {iteration}: the judges could score none of its "
                f"{len(sample.learnt.scored)} episodes. The warnings above give the reasons. Fix what they report, "
                "then resume with --resume."
            )
        if not sample.learnt.batch.usable_B.any():
            raise NothingLeftError(
                f"Nothing is left of iteration {iteration}: all of its {len(sample.learnt.scored)} episodes have an "
                "infinite or NaN reward. Check the rewards of the world and the judges, then resume with "
                "--resume."
            )
        metrics = rollout_metrics(sample.first.scored, sample.first.batch, rollout_s=rollout_s[0])
        return Sampled(
            sample=sample,
            metrics=metrics | self._collector.metrics() | sample.metrics,
            judged=self._engine.on_main(lambda: self._required_scorer.metrics()),
            rollout_s=sum(rollout_s),
        )

    def _play(
        self,
        agent: LearningAgent,
        iteration: int,
        sampling_round: int,
        worlds: frozenset[str] | None,
        watcher: Watcher | None,
        rollout_s: list[float],
    ) -> list[ScoredTrajectory]:
        """Plays and scores a round of groups."""
        started, judges = time.monotonic(), self._scorer if self._config.rollout == "async" else None
        watchers = [candidate for candidate in (watcher, judges) if candidate is not None]
        with nullcontext() if judges is None else judges.asking_ahead():
            with memory_told("while sampling", OF_SAMPLING):
                groups = self._collector.collect(agent, iteration, sampling_round, worlds, watchers)
            rollout_s.append(time.monotonic() - started)
            played = [trajectory for group in groups for trajectory in group.trajectories]
            return self._engine.on_main(lambda: self._required_scorer.score(played)) if played else []

    @property
    def _required_scorer(self) -> TurnScorer:
        assert self._scorer is not None, "only the main process scores"
        return self._scorer


class DroppedError(Exception):
    """Cancels the sampling of a batch; internal."""


class Batches:
    """Provides a run's batches, sampled on request or during the previous update.

    Errors of the sampling thread are kept until `check`, after the concurrent update.

    Args:
        config: The run.
        learner: The learner of the policy.
        agent: The agent that plays with the policy.
        scorer: Scores turns, in the main process; None elsewhere.
        sampling: Plays and scores batches.

    Attributes:
        agent: The agent that plays.
        snapshot: A copy of the policy that plays during updates, if there is one.
    """

    def __init__(
        self, config: RunConfig, learner: Learner, agent: LearningAgent, scorer: TurnScorer | None, sampling: Sampling
    ) -> None:
        self.agent = agent
        self._config, self._learner, self._scorer, self._sampling = config, learner, scorer, sampling
        self.snapshot = Snapshot(learner.policy) if config.acts_on_copy else None
        self._thread: threading.Thread | None = None
        self._dropped = threading.Event()
        self._sampled: Sampled | None = None
        self._error: BaseException | None = None
        self._before: dict[str, Any] | None = None

    def next(self, iteration: int) -> Sampled:
        """Returns an iteration's batch and, with staleness, starts sampling the next one.

        Raises:
            Exception: Raised by sampling.
        """
        self.check()
        sampled, self._sampled, self._before = self._sampled, None, None
        if sampled is None:
            self.agent.sync(self._learner.acting_policy(), self._learner.num_updates)
            sampled = self._sampling(self.agent, iteration)
        if not self._config.staleness:
            return sampled
        behind = staleness(self._learner.num_updates, [episode.trajectory for episode in sampled.sample.learnt.scored])
        if iteration + 1 < self._config.num_iterations:
            self._begin(iteration + 1)
        return replace(sampled, metrics=sampled.metrics | {"staleness": behind})

    def _begin(self, iteration: int) -> None:
        """Starts sampling an iteration's batch with the current policy."""
        acting = self._learner.acting_policy()
        if self.snapshot is not None:
            acting = self.snapshot.renewed(acting)
        self.agent.sync(acting, self._learner.num_updates)
        self._before, self._dropped = copied(self.state()), threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(iteration, DropsOut(self._dropped)), name=f"batch {iteration}", daemon=True
        )
        self._thread.start()

    def _run(self, iteration: int, watcher: DropsOut) -> None:
        torch.get_num_threads()  # makes the new thread copy the number now, not between two kernels of vLLM
        try:
            self._sampled = self._sampling(self.agent, iteration, watcher)
        except BaseException as error:
            self._error = error

    def wait(self) -> None:
        """Waits until the batch being sampled is ready or has failed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def check(self) -> None:
        """Raises the error of the current batch, if any."""
        if self._error is not None:
            raise self._error

    def state(self) -> dict[str, Any]:
        """Returns the state that the next batch depends on, except weights; for a batch in progress, from before it.

        A run resumed from this state samples that batch again, with its weights at that time.
        """
        if self._before is not None:
            return self._before
        terms = self._scorer.state_dict() if self._scorer is not None else None
        levels = self._sampling.collector.state_dict()
        return {"agent": self.agent.state_dict(), "terms": terms} | ({} if levels is None else {"levels": levels})

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state returned by `state`; if a process has no saved state, its agent is unchanged."""
        if state["agent"] is not None:
            self.agent.load_state_dict(state["agent"])
        if self._scorer is not None:
            self._scorer.load_state_dict(state["terms"])
        self._sampling.collector.load_state_dict(state.get("levels"))

    def drop(self) -> None:
        """Cancels the batch that is being sampled or ready, and restores the state before it."""
        if self._thread is not None:
            self._dropped.set()
            if self._scorer is not None:
                self._scorer.close()  # otherwise the thread would wait for judges
            self._thread.join(GIVE_UP_S)
        before, self._thread, self._sampled, self._error, self._before = self._before, None, None, None, None
        if before is not None:
            self.load_state(before)


class DropsOut:
    """A `Watcher` that ends a rollout at the next turn once its batch is canceled.

    Args:
        dropped: Set when the batch is canceled.
    """

    def __init__(self, dropped: threading.Event) -> None:
        self._dropped = dropped

    def saw_turn(self, env_id: str, turn: Turn) -> None:
        """Raises `DroppedError` if the batch was canceled."""
        if self._dropped.is_set():
            raise DroppedError

    def saw_episode(self, trajectory: Trajectory) -> None:
        """Does nothing, as `saw_turn` has seen its last turn."""


class Snapshot:
    """A copy of a policy that plays while the policy is trained; frozen weights are shared.

    Args:
        policy: The policy to copy.
    """

    def __init__(self, policy: Any) -> None:
        self.model = copied_but_frozen(policy).eval()

    def renewed(self, policy: Any) -> Any:
        """Returns the copy after updating it to the policy's current weights."""
        refresh_copy(self.model, policy)
        return self.model


def staleness(version: int, episodes: Sequence[Trajectory]) -> float:
    """Returns the mean number of optimizer steps by which the policy is ahead of the episodes' policies."""
    return float(np.mean([version - episode.policy_version for episode in episodes]))


def scored_batch(
    scored: Sequence[ScoredTrajectory], encoder: ChatEncoder, config: RunConfig, *, max_context_tokens: int
) -> Batch:
    """Returns whole groups of adjacent episodes as tensors, limited to the context they were played in."""
    return make_batch(
        [episode.trajectory for episode in scored],
        [episode.turn_rewards for episode in scored],
        encoder,
        group_index=[index // config.group_size for index in range(len(scored))],
        trainable=[episode.trainable_turns for episode in scored],
        final_observations=config.algorithm.needs_final_observations,
        max_response_tokens=config.sampling.max_new_tokens,
        max_context_tokens=max_context_tokens,
    )
