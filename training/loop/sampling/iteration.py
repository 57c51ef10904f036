"""What an iteration learns from: groups that are played and scored, round by round."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from agents.agent import LearningAgent
from agents.hf.chat import ChatEncoder
from training.config.run import RunConfig
from training.engines.engine import Engine
from training.errors import NothingLeftError
from training.loop.sampling.collect import Collector, Watcher
from training.loop.sampling.rounds import Sample, sample_groups
from training.loop.sampling.scored_batch import scored_batch
from training.loop.tracking.metrics import rollout_metrics
from training.loop.update.out_of_memory import OF_SAMPLING, memory_told
from training.rewards.score import ScoredTrajectory, TurnScorer


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """A batch and what is logged of it.

    Attributes:
        sample: What is learnt from, and the first round.
        metrics: Of what was played.
        judged: What judges have used up by then.
        rollout_s: Time that was played, in seconds.
    """

    sample: Sample
    metrics: dict[str, float]
    judged: dict[str, float]
    rollout_s: float


class Sampling:
    """Plays and scores the batches of a run; all processes do together.

    Args:
        config: The run.
        encoder: The chat format.
        engine: Its processes.
        collector: What plays.
        scorer: What judges, in the main process; None elsewhere.
        max_context_tokens: Most tokens of a row.
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
        """What plays."""
        return self._collector

    def __call__(self, agent: LearningAgent, iteration: int, watcher: Watcher | None = None) -> Sampled:
        """Returns an iteration's batch, played by an agent that has its weights; it lets go of its memory afterwards.

        Args:
            agent: Who acts.
            iteration: Number of the iteration, from 0.
            watcher: Who is told of what is played, besides judges.

        Raises:
            NothingLeftError: If nothing can be learnt from, as everything was lost or nobody could judge it.
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
                f"{len(sample.learnt.scored)} episodes. The warnings above say why. Look after what they ask, then go "
                "on with --resume."
            )
        if not sample.learnt.batch.usable_B.any():
            raise NothingLeftError(
                f"Nothing is left of iteration {iteration}: every one of its {len(sample.learnt.scored)} episodes has "
                "a reward that is infinite or NaN. Look after the world's reward and the judges', then go on with "
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
        watchers = [each for each in (watcher, judges) if each is not None]
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
