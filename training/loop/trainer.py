"""The training loop in the order of the paper: collect, score, assign credit, update."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from agents.agent import LearningAgent
from agents.hf.chat import ChatEncoder
from agents.hf.sampling_config import context_limit
from training.checkpoints.checkpoint_files import LATEST
from training.checkpoints.checkpoint_state import (
    BestPolicy,
    best_policy,
    load_best,
    load_checkpoint_state,
    save_best,
    save_checkpoint,
    save_together,
)
from training.config.processes import num_local_processes
from training.config.resume import how_to_go_on
from training.config.run_config import RunConfig, how_evaluated
from training.config.world_spec import world_names
from training.engines.engine import Engine
from training.engines.host_memory import GIB, HostBytes, host_memory, in_place_of, local_bytes
from training.errors import TrainingStoppedError
from training.loop.collect import Collector, Round
from training.loop.evaluation import EvaluationResult, evaluate, mean_success, told
from training.loop.interrupts import Rescue, launchers_limit, stop_on_interrupt
from training.loop.loggers import RunConsole, RunLoggers
from training.loop.metrics import PeakMemory, mean_scores, turn_credit, turn_notes
from training.loop.prefetch import Batches, Sampling
from training.loop.rollout_agents import Actors
from training.pools.pool_drawing import worlds_with_pools
from training.rewards.turn_scores import ScoredTrajectory, TurnScorer
from training.update.learner import Learner, weights_like
from training.update.micro_batches import OF_EVALUATION, OF_UPDATE, memory_told
from training.update.update_losses import assigned_credit
from vlm_envs.records.run_data import RunWriter, training_label, validation_label
from vlm_envs.validation import require

SHOWN = ("success", "reward", "format_rate", "entropy")
NUM_RECORDED, NUM_RECORDED_TRAINING = 256, 32
"""Episodes recorded with images, per evaluation and per recorded training iteration."""


class Trainer:
    """One reinforcement-learning run, which trains a model in place."""

    def __init__(
        self,
        config: RunConfig,
        model: Any,
        encoder: ChatEncoder,
        directory: Path,
        writer: RunWriter | None,
        engine: Engine | None = None,
        *,
        reference: Mapping[str, str] | None = None,
        reference_model: Any = None,
    ) -> None:
        self.config, self.encoder, self.directory, self._writer = config, encoder, directory, writer
        self.learner = Learner(model, encoder.suppressed_ids(), config, engine, reference=reference_model)
        require_host_memory(self.learner)
        self._reference = reference
        self.engine = self.learner.engine
        self._actors = Actors(config, encoder, self.engine)
        agent = self._actors.agent(self.learner.acting_policy(), seed=config.seed)
        # Worlds use the pools that this run has drawn
        self.collector = Collector(replace(config, worlds=worlds_with_pools(config.worlds, directory)), self.engine)
        # Judges' state and their model requests are in the main process only
        self._scorer = TurnScorer(config.judge, device=str(model.device)) if self.engine.rank == 0 else None
        limit = context_limit(model.config, config.sampling)
        sampling = Sampling(config, encoder, self.engine, self.collector, self._scorer, max_context_tokens=limit)
        self.batches = Batches(config, self.learner, agent, self._scorer, sampling)
        self.loggers: RunLoggers | None = None
        self.iteration, self.saved_iteration = 0, -1
        self._started, self._memory = time.monotonic(), PeakMemory(model.device)
        self.is_finished = self.is_interrupted = self._is_best = False
        self.best: BestPolicy | None = None
        self._rescue = Rescue(self)

    @property
    def writer(self) -> RunWriter:
        """The writer of the run's data, in the main process."""
        assert self._writer is not None, "only the main process writes"
        return self._writer

    @property
    def agent(self) -> LearningAgent:
        """The agent that plays."""
        return self.batches.agent

    @property
    def scorer(self) -> TurnScorer:
        """The scorer of turns, in the main process."""
        assert self._scorer is not None, "only the main process scores"
        return self._scorer

    @contextmanager
    def _acting(self, best: BestPolicy | None) -> Iterator[Any]:
        """Yields a model with the policy's weights or, in its place on the device, the best policy."""
        model = self.learner.acting_policy()
        if best is None or self._is_best:
            yield model
        else:
            best_model = load_best(self.directory, dtype=getattr(torch, self.config.dtype))
            with in_place_of(model, best_model):
                yield best_model

    def run(self) -> None:
        """Trains until the configured iteration, an interrupt, or an error.

        In each case, the last finished iteration is saved.
        """
        what, lost = "iteration or evaluation", "unsaved work is lost"

        def more() -> str:
            return self._left_told() + launchers_limit(self.directory)

        with stop_on_interrupt(what, lost, more, saves_at_once=True) as is_asked_here:

            def should_stop() -> bool:
                return any(self.engine.gather([is_asked_here()]))

            with ExitStack() as opened:
                self._run_and_close(opened, should_stop)
            # An interrupt may arrive in the last evaluation or while closing, which matters if more runs follow
            self.is_interrupted = should_stop()

    def _run_and_close(self, opened: ExitStack, should_stop: Callable[[], bool]) -> None:
        """Runs what is left, and registers its cleanup with `opened`."""
        if self._scorer is not None:
            opened.callback(self._scorer.close)
        opened.callback(self._actors.close)
        opened.callback(self.collector.close)
        opened.callback(self.batches.drop)
        try:
            is_resumed = self.saved_iteration >= 0
            if self.engine.rank == 0:
                loggers = RunLoggers(self.config, self.directory, iteration=self.iteration, is_resumed=is_resumed)
                self.loggers = opened.enter_context(loggers)
            with memory_told("in an evaluation or a save", OF_EVALUATION):
                self._run(should_stop)
        except BaseException as error:
            self._rescue.save(error)
            raise

    def _run(self, should_stop: Callable[[], bool]) -> None:
        if self.iteration == 0:
            self.save()  # the first checkpoint keeps a long cold start in case of an interrupt
            if self.config.num_iterations > 0:  # otherwise the final evaluation is of the same policy
                self._evaluate("before", "test", self.config.num_eval_episodes)
        with RunConsole("rl", self.config.num_iterations) as console:
            self._make_up_validation(console)
            is_stopped = should_stop()
            while self.iteration < self.config.num_iterations and not is_stopped:
                metrics = self._iterate()
                console.advance(self.iteration - 1, metrics, SHOWN)
                self.batches.check()
                self._after_iteration(console)
                is_stopped = should_stop()
        self.save()
        self.is_finished = not is_stopped
        if is_stopped:
            stopped = f"Interrupted after iteration {self.iteration}; saved.{self._left_told()}"
            print(f"{stopped} Resume with {how_to_go_on()}.")
        else:
            best = self.best if self._validates else None
            self._evaluate("after", "test", self.config.num_eval_episodes, best=best)

    def _left_told(self) -> str:
        """Returns a message if only the evaluation is left; otherwise an empty text."""
        is_trained = self.iteration == self.config.num_iterations and self.config.num_eval_episodes > 0
        return " Only the evaluation is left." if is_trained else ""

    def _iterate(self) -> dict[str, float]:
        """Runs and logs one iteration, with the previous state kept in case it fails."""
        with self._rescue.iteration():
            self._is_best = False
            try:
                metrics = self.train_iteration()
            except TrainingStoppedError as error:
                raise type(error)(
                    f"{error} This was iteration {self.iteration}; to continue with other settings, start a new run "
                    f"with --model {self.directory / LATEST / 'model'}."
                ) from error
            self.engine.on_main(lambda: self._log(metrics))
        return metrics

    def train_iteration(self) -> dict[str, float]:
        """Runs one iteration and returns its metrics."""
        started = time.monotonic()
        with self._memory.phase("rollout"):
            sampled = self.batches.next(self.iteration)
        with self._memory.phase("update"):
            update = self._learn(sampled.sample.learnt)
        self.batches.wait()
        self.iteration += 1
        seconds = {"iteration_s": time.monotonic() - started, "rollout_s": sampled.rollout_s}
        return sampled.metrics | update | sampled.judged | self._memory.metrics() | seconds

    def _learn(self, learnt: Round) -> dict[str, float]:
        """Assigns credit to a sample and updates the models on it; returns their metrics."""
        batch = self.config.algorithm.keep(learnt.batch)
        outputs = self.learner.model_outputs(batch)
        credit = assigned_credit(self.config.algorithm, batch, outputs)
        with memory_told("in the update", OF_UPDATE):
            update = self.learner.update(batch, outputs, credit, iteration=self.iteration)
        if self.config.record_every and self.iteration % self.config.record_every == 0:
            shown = turn_credit(learnt.batch, outputs, credit, NUM_RECORDED_TRAINING)
            self.engine.on_main(lambda: self._record_training(learnt.scored, shown))
        return update if outputs.ref_kl is None else update | {"kl": outputs.ref_kl}

    def _record_training(self, scored: list[ScoredTrajectory], credit: list[list[dict[str, float]]]) -> None:
        """Records some of this iteration's episodes with their credit."""
        self.writer.trajectories(
            training_label(self.iteration),
            [episode.trajectory for episode in scored[: len(credit)]],
            [turn_notes(episode, turns) for episode, turns in zip(scored, credit, strict=False)],
        )

    def _log(self, metrics: dict[str, float]) -> None:
        """Logs the finished iteration."""
        elapsed_s = time.monotonic() - self._started
        iteration = self.iteration - 1
        self.writer.metrics({"iteration": iteration, "phase": "rl", "elapsed_s": elapsed_s, **metrics})
        if self.loggers is not None:
            self.loggers.metrics(metrics, iteration)

    def _after_iteration(self, console: RunConsole) -> None:
        """Validates and saves when due."""
        if self._is_validation_due():
            self._validate(console)
        if self.config.checkpoint_every and self.iteration % self.config.checkpoint_every == 0:
            self.save()

    @property
    def _validates(self) -> bool:
        return self.config.eval_every > 0 and self.config.num_val_episodes > 0

    def _is_validation_due(self) -> bool:
        """Returns whether this policy is a candidate for the best one; the last policy always is."""
        if not self._validates or self.iteration == 0:
            return False
        return self.iteration % self.config.eval_every == 0 or self.iteration == self.config.num_iterations

    def _validate(self, console: RunConsole) -> None:
        evaluations = self._evaluate(validation_label(self.iteration), "val", self.config.num_val_episodes)
        console.say(f"iteration {self.iteration}: validation success {mean_success(evaluations):.3f}")
        self._keep_if_best(mean_success(evaluations), console)

    def _keep_if_best(self, success: float, console: RunConsole) -> None:
        """Saves the policy next to the latest checkpoint if it is better than the best so far."""
        previous, num_episodes = self.best, self.config.num_val_episodes
        best = BestPolicy(iteration=self.iteration, validation_success=success, num_val_episodes=num_episodes)
        if previous is not None and not previous.yields_to(best):
            return
        if previous is not None and previous.num_val_episodes != num_episodes:
            console.say(
                f"The {previous.title} was on {previous.num_val_episodes} levels, not {num_episodes}; comparing again."
            )
        model = self.learner.acting_policy()
        self.engine.on_main(lambda: save_best(self.directory, best, model, self.encoder, self._learnt_with()))
        self.best, self._is_best = best, True

    def _make_up_validation(self, console: RunConsole) -> None:
        """Runs the validation that was due when a run ended, from the start even if part of it was done.

        A finished validation counts, but its policy may not have been kept.

        Worlds are evaluated in sequence with one generator, so continuing a partial validation would change results.
        """
        if not self._is_validation_due():
            return
        success = self.engine.on_main(lambda: self._validated(validation_label(self.iteration)))
        if success is not None:
            return self._keep_if_best(success, console)
        self._validate(console)

    def _validated(self, label: str) -> float | None:
        """Returns the success of a finished validation on the current number of levels; any other is dropped."""
        names, evaluated = world_names(self.config.worlds), self.writer.evaluated(label)
        is_on_others = self.best is not None and self.best.num_val_episodes != self.config.num_val_episodes
        if evaluated.keys() >= set(names) and not is_on_others:
            return float(np.mean([evaluated[name] for name in names]))
        self.writer.drop_evaluation(label)
        return None

    def _evaluate(
        self, label: str, split: str, num_episodes: int, *, best: BestPolicy | None = None
    ) -> list[EvaluationResult]:
        """Evaluates every world with a separate generator and separate judges, so that training is unaffected.

        Plays the current policy, or the best one on validation levels.
        """
        if num_episodes == 0:
            return []
        first = self.config.first_eval_level if split == "test" else 0
        with ExitStack() as opened:
            model = opened.enter_context(self._acting(best))
            agent = self._actors.agent(model, seed=self.config.seed + 1, evaluates=True)
            agent.sync(
                model, agent.policy_version
            )  # here, as all processes must take part, even those without episodes
            scorer = None
            if self._scorer is not None:
                scorer = opened.enter_context(closing(self._scorer.for_evaluation()))
            evaluations, records = [], []
            for spec, name in zip(self.config.worlds, world_names(self.config.worlds), strict=True):
                evaluation = evaluate(
                    agent, spec, split=split, num_episodes=num_episodes, first=first, name=name, engine=self.engine
                )
                record = partial(self._record, evaluation, scorer, label, best)
                records.append(self.engine.on_main(record))
                evaluations.append(evaluation)
        if self.loggers is not None:
            self.loggers.evaluations(records, self.iteration)
        return evaluations

    def _record(
        self, evaluation: EvaluationResult, scorer: TurnScorer | None, label: str, best: BestPolicy | None
    ) -> dict[str, Any]:
        """Records an evaluation with its judges' scores and usage, and returns its numbers, written last."""
        assert scorer is not None, "only the main process scores"
        scored = scorer.score(evaluation.trajectories)
        sampling = self.config.evaluated_sampling
        temperature = sampling.temperature
        record = evaluation.record(label=label, iteration=self.iteration, temperature=temperature, **scorer.metrics())
        self.writer.trajectories(
            label,
            [episode.trajectory for episode in scored],
            [turn_notes(episode) for episode in scored],
            limit=NUM_RECORDED,
        )
        if best is not None:
            record |= {"policy_iteration": best.iteration, "validation_success": best.validation_success}
        self.writer.evaluation(record | mean_scores(scored))
        if label in ("before", "after"):
            how = how_evaluated(self.config.sampling, sampling)
            whose = "" if best is None else f", policy {best.title}"
            print(told(label, record, whose=whose + (how and f", at {how}")))
        return record

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the next iteration depends on; with several processes, this one's part."""
        sampled = self.batches.state()
        return {
            "iteration": self.iteration,
            "elapsed_s": time.monotonic() - self._started,
            "learner": self.learner.state_dict(),
            **self._own_state(),
            "terms": sampled["terms"],
            "reference": self._reference,
            **({"levels": sampled["levels"]} if "levels" in sampled else {}),
        }

    def _own_state(self) -> dict[str, Any]:
        """Returns the state of this process's sampling."""
        return {"agent": self.batches.state()["agent"], "torch_rng": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any], *, acts: bool = True) -> None:
        """Restores the state returned by `state_dict`.

        Args:
            state: The state.
            acts: Whether episodes will be played with it; False only restores it for saving, as the sampler may be
                gone.
        """
        self.batches.drop()
        self.iteration = state["iteration"]
        self._started = time.monotonic() - state["elapsed_s"]
        self.learner.load_state_dict(state["learner"])
        acting = self.learner.acting_policy()
        if state["agent"] is None:  # the checkpoint had fewer processes
            self.batches.agent = self._actors.agent(acting, seed=self.config.seed + self.learner.num_updates)
        if acts:
            self.batches.agent.sync(acting, self.learner.num_updates)
        if state["agent"] is not None:
            torch.set_rng_state(state["torch_rng"])
        self.batches.load_state(state)

    def save(self) -> None:
        """Writes the latest checkpoint; all processes must call it together."""
        directory, state, model = self.directory / LATEST, self.state_dict(), self.learner.acting_policy()
        provenance = {**self._learnt_with(), "iteration": self.iteration}
        if self.engine.num_processes == 1:
            save_checkpoint(directory, state, model, self.encoder, provenance=provenance)
        else:
            own = self._own_state()
            save_together(directory, self.engine, state, own, model, self.encoder, provenance=provenance)
        self.saved_iteration = self.iteration

    def _learnt_with(self) -> dict[str, Any]:
        """Returns the training settings that are saved next to each policy."""
        settings = self.config.to_dict()
        return {"run": self.directory.name, "worlds": settings["worlds"], "sampling": settings["sampling"]}

    def resume(self) -> None:
        """Restores the latest checkpoint of the run's directory; raises if there is none."""
        state = load_checkpoint_state(self.directory / LATEST, engine=self.engine, like=weights_like(self.learner))
        self.load_state_dict(state)
        self.best = best_policy(self.directory)
        self.saved_iteration = self.iteration


def require_host_memory(learner: Learner) -> None:
    """Raises in all processes if a run on a GPU needs more host memory than there is.

    Raises:
        ConfigError: With the needed and available memory, and the options that help.
    """
    if learner.policy.device.type == "cpu":
        return
    found = shortage(host_bytes(learner), host_memory(), num_processes=num_local_processes())
    faults = [fault for fault in learner.engine.gather([found]) if fault is not None]
    require(not faults, "".join(faults[:1]))


def host_bytes(learner: Learner) -> HostBytes:
    """Returns the host memory that this process will need, including AdamW's moments that do not exist yet."""
    config, state = learner.config, learner.state_dict()
    optimizers = [
        optimizer for optimizer in (learner.policy_optimizer, learner.critic_optimizer) if optimizer is not None
    ]
    num_states = sum(optimizer.num_state_bytes() for optimizer in optimizers)
    weights = [*state["policy"].values(), *(state["critic"] or {}).values()]
    is_spread = any(isinstance(weight, DTensor) for weight in learner.policy.parameters())  # shards stay on the device
    return HostBytes(
        reference=0 if is_spread else local_bytes(learner.idle_reference()),
        states=num_states * (config.memory.offload_optimizer and not is_spread),
        copy=config.keeps_copy * (local_bytes(weights) + num_states),
    )


def shortage(needed: HostBytes, available: int | None, *, num_processes: int) -> str | None:
    """Returns a message about insufficient host memory with suggestions; None if there is enough.

    Args:
        needed: Memory of one process.
        available: Memory of this machine in bytes; None if unknown, which counts as enough.
        num_processes: Processes of the run on this machine.
    """
    if available is None or num_processes * needed.total <= available:
        return None

    def gib(num_bytes: float) -> str:
        return f"{num_processes * num_bytes / GIB:.1f}"

    without, enough = needed.without_offloading, available / num_processes
    written = ", and all of the state is written after each iteration"
    ways = [("--checkpoint-every 1", needed.offloaded, written), (without, needed.copy, ", and more of the GPU's")]
    ways = [way for way in ways if way[1] <= enough and way[1] < needed.total] or [
        (f"--checkpoint-every 1 {without}", 0.0, f", and more of the GPU's{written}")
    ]
    mended = ", or ".join(f"{options} (then {gib(left)} GiB{cost})" for options, left, cost in ways)
    plan = f"--num-gpus {num_processes} --host-memory {max(int(10 * available / GIB), 1) / 10:.1f}"
    return (
        f"This run needs {gib(needed.total)} GiB of the host's memory, but there are {available / GIB:.1f}: "
        f"{gib(needed.offloaded)} for --memory.offload-*, and {gib(needed.copy)} for a copy of its state, which is "
        f"saved if an iteration fails. Use {mended}. For other options, run python -m training plan with {plan}."
    )
