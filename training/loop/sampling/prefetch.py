"""One-step-off-policy training: the next batch is sampled in a thread, beside the update on the one before.

    main       update on 0       update on 1       update on 2
    thread     sample 1, by w_0  sample 2, by w_1  ...

w_t are the weights before the update on batch t. An update learns from what the weights before the last update have
sampled; which is no longer the policy, and corrected for by importance sampling.

Source of the idea: Noukhovitch et al., "Asynchronous RLHF" (2024), one-step off-policy learning.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from agents.agent import LearningAgent
from training.checkpoints.state import copied
from training.config.run import RunConfig
from training.engines.frozen import copied_but_frozen
from training.engines.sharding import refresh_copy
from training.loop.sampling.iteration import Sampled, Sampling
from training.loop.update.learner import Learner
from training.rewards.score import TurnScorer
from vlm_envs.trajectory import Trajectory, Turn

GIVE_UP_S = 60.0
"""How long a batch that nobody wants any more may take to stop, until it is left to itself."""


class DroppedError(Exception):
    """Ends the sampling of a batch that nobody wants any more; never seen outside."""


class Batches:
    """Where a run's batches come from: each sampled when it is asked for, or beside the update before.

    Errors of the thread are kept until `check`, by which time the update beside it is done.

    Args:
        config: The run.
        learner: Whose policy acts.
        agent: Who acts with it.
        scorer: What judges, in the main process; None elsewhere.
        sampling: Plays and scores.

    Attributes:
        agent: Who acts.
        snapshot: The policy that acts while the other is trained, where one does.
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
        """Returns an iteration's batch; one after it is sampled from now on, where that is asked for.

        Raises:
            Exception: What sampling raises.
        """
        self.check()
        sampled, self._sampled, self._before = self._sampled, None, None
        if sampled is None:
            self.agent.sync(self._learner.acting_policy(), self._learner.num_updates)
            sampled = self._sampling(self.agent, iteration)
        if not self._config.staleness:
            return sampled
        behind = staleness(self._learner.num_updates, [each.trajectory for each in sampled.sample.learnt.scored])
        if iteration + 1 < self._config.num_iterations:
            self._begin(iteration + 1)
        return replace(sampled, metrics=sampled.metrics | {"staleness": behind})

    def _begin(self, iteration: int) -> None:
        """Begins to sample the batch of an iteration by the policy as it stands."""
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
        torch.get_num_threads()  # has a new thread take over their number now, not between two kernels of vLLM
        try:
            self._sampled = self._sampling(self.agent, iteration, watcher)
        except BaseException as error:
            self._error = error

    def wait(self) -> None:
        """Waits until the batch that is sampled is there, or has failed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def check(self) -> None:
        """Raises what the batch in hand failed of, if it did."""
        if self._error is not None:
            raise self._error

    def state(self) -> dict[str, Any]:
        """Returns what the next batch to be learnt from depends on besides weights: of one in hand, from before it.

        A run that goes on from there samples that batch anew, by the weights it has then.
        """
        if self._before is not None:
            return self._before
        terms = self._scorer.state_dict() if self._scorer is not None else None
        levels = self._sampling.collector.state_dict()
        return {"agent": self.agent.state_dict(), "terms": terms} | ({} if levels is None else {"levels": levels})

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state` returned; of a process that was not there, the agent stays as it is."""
        if state["agent"] is not None:
            self.agent.load_state_dict(state["agent"])
        if self._scorer is not None:
            self._scorer.load_state_dict(state["terms"])
        self._sampling.collector.load_state_dict(state.get("levels"))

    def drop(self) -> None:
        """Gives up the batch that is sampled or in hand, as if it had not been begun."""
        if self._thread is not None:
            self._dropped.set()
            if self._scorer is not None:
                self._scorer.close()  # or it would wait for judges
            self._thread.join(GIVE_UP_S)
        before, self._thread, self._sampled, self._error, self._before = self._before, None, None, None, None
        if before is not None:
            self.load_state(before)


class DropsOut:
    """Watches what is played, and ends it at the next turn once that is asked for; a `Watcher`.

    Args:
        dropped: Set when nobody wants the batch any more.
    """

    def __init__(self, dropped: threading.Event) -> None:
        self._dropped = dropped

    def saw_turn(self, env_id: str, turn: Turn) -> None:
        """Raises `DroppedError` once the batch was dropped."""
        if self._dropped.is_set():
            raise DroppedError

    def saw_episode(self, trajectory: Trajectory) -> None:
        """Does nothing: its last turn was seen."""


class Snapshot:
    """A copy of a policy as it was, to act with while that is trained; what is frozen is shared.

    Args:
        policy: Whose weights it takes.
    """

    def __init__(self, policy: Any) -> None:
        self.model = copied_but_frozen(policy).eval()

    def renewed(self, policy: Any) -> Any:
        """Returns the copy, with the weights that the policy has now."""
        refresh_copy(self.model, policy)
        return self.model


def staleness(version: int, episodes: Sequence[Trajectory]) -> float:
    """Returns by how many optimiser steps a policy is ahead of those that played, over episodes."""
    return float(np.mean([version - episode.policy_version for episode in episodes]))
