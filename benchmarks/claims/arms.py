"""The arms of a claim: the expert, the start that both others have, imitation, and reinforcement learning."""

from __future__ import annotations

import copy
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from agents.hf.chat import ChatEncoder
from agents.registry import make_agent
from benchmarks.claims.arm import Arm, Point
from benchmarks.claims.claim import Claim
from benchmarks.levels import short_hash
from training.checkpoints.checkpoint_files import weights_hash
from training.checkpoints.checkpoint_state import load_for_training, save_model
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.cold_start_loop import cold_start, untaught
from training.cold_start.demonstrations import expert_of
from training.config.run_config import RunConfig
from training.loop.evaluation import EvaluationResult, evaluate
from training.loop.interrupts import prepare
from training.loop.provenance import describe
from training.loop.trainer import Trainer
from vlm_envs.errors import ConfigError
from vlm_envs.validation import require

NUM_TIMED_STEPS = 12
"""Of imitation, to know what one takes."""
MORE_STEPS = 1.15
"""How many times as many steps imitation gets as those tell, which took up to an eighth longer than the average one: it
is to have about the CPU seconds of reinforcement learning, and rather more than fewer."""
IMITATION_RATES = (1e-3, 3e-4)
"""Peak learning rates of more imitation, each for all of the time; the one that is better on validation levels counts.
The first is the start's own, at which much is unlearnt before more is learnt."""


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """How arms are measured.

    Attributes:
        num_points: Validations of each arm, about.
        num_val_episodes: Validation levels of each, by which the best is chosen.
        num_test_episodes: Test levels, which the best plays once.
    """

    num_points: int = 14
    num_val_episodes: int = 256
    num_test_episodes: int = 512


class Stage:
    """A model that learns, validated on the way; its best weights are kept.

    Args:
        arm: What is filled in.
        config: Whose world is played.
        measuring: On how many levels.
        say: Is told of each validation.
    """

    def __init__(self, arm: Arm, config: RunConfig, measuring: Measuring, say: Callable[[str], None]) -> None:
        self.arm, self._config, self._measuring, self._say = arm, config, measuring, say
        self._best_weights: dict[str, torch.Tensor] = {}

    @property
    def best_success(self) -> float:
        """The best of its validations."""
        assert self.arm.best is not None, "nothing was validated"
        return self.arm.best.success

    def validate(self, model: Any, encoder: ChatEncoder, *, step: int) -> None:
        """Validates a model as it stands, with a generator of its own."""
        with torch.random.fork_rng():
            played = self._played(model, encoder, "val", self._measuring.num_val_episodes)
        success = sum(each.success for each in played.trajectories) / len(played.trajectories)
        point = Point(cpu_s=self.arm.cpu_s, step=step, success=success)
        self.arm.curve.append(point)
        if self.arm.best is None or point.success > self.arm.best.success:
            self.arm.best = point
            self._best_weights = copy.deepcopy(model.state_dict())
        arm = self.arm
        self._say(f"{arm.claim}, seed {arm.seed}, {arm.kind}: {point.success:.3f} after {arm.cpu_s:.0f} s of CPU")

    def test(self, model: Any, encoder: ChatEncoder) -> None:
        """Has the best weights play the test levels, drawing and greedily; the model has them from then on."""
        model.load_state_dict(self._best_weights)
        number = self._measuring.num_test_episodes
        record_test(self.arm, self._played(model, encoder, "test", number))
        greedily = self._played(model, encoder, "test", number, temperature=0.0)
        self.arm.greedy = [each.success for each in greedily.trajectories]

    def _played(
        self, model: Any, encoder: ChatEncoder, split: str, num_episodes: int, temperature: float | None = None
    ) -> EvaluationResult:
        """Returns what a model plays, at a temperature or, by default, at the run's own."""
        is_training, sampling = model.training, self._config.sampling
        if temperature is not None:
            sampling = replace(sampling, temperature=temperature)
        agent = make_agent("hf", model=model.eval(), encoder=encoder, sampling=sampling, seed=self._config.seed)
        played = evaluate(agent, self._config.worlds[0], split=split, num_episodes=num_episodes)
        model.train(is_training)
        return played


def record_test(arm: Arm, played: EvaluationResult) -> None:
    """Writes into an arm what it came to on test levels."""
    arm.solved = [each.success for each in played.trajectories]
    arm.levels = [short_hash(each.start_state_hash) for each in played.trajectories]
    arm.format_rate = played.record()["format_rate"]


def imitate(
    stage: Stage, model: Any, encoder: ChatEncoder, config: RunConfig, imitation: ColdStartConfig, num_points: int
) -> None:
    """Has a model imitate, and validates it on the way."""
    every, since = max(1, imitation.num_steps // num_points), time.process_time()

    def on_step(step: int, metrics: dict[str, float]) -> None:
        nonlocal since
        stage.arm.cpu_s += time.process_time() - since
        if (step + 1) % every == 0 or step + 1 == imitation.num_steps:
            stage.validate(model, encoder, step=step + 1)
        since = time.process_time()

    cold_start(model, encoder, config.worlds, imitation, on_step=on_step, seed=config.seed)


def seconds_per_step(model: Any, encoder: ChatEncoder, config: RunConfig, imitation: ColdStartConfig) -> float:
    """Returns the median CPU seconds of a step of imitation, tried on a copy of the model."""
    seconds, since = list[float](), time.process_time()

    def on_step(step: int, metrics: dict[str, float]) -> None:
        nonlocal since
        seconds.append(time.process_time() - since)
        since = time.process_time()

    tried = replace(imitation, num_steps=NUM_TIMED_STEPS)
    cold_start(copy.deepcopy(model), encoder, config.worlds, tried, on_step=on_step)
    return statistics.median(seconds)


@dataclass(frozen=True, kw_only=True)
class Arms:
    """Runs the arms of a claim; each result is a file, written when it is whole, and is not made again.

    Attributes:
        name: Of the claim.
        claim: What is tested.
        runs: Where models go.
        results: Where results go.
        measuring: How arms are measured.
        say: Is told of each validation.
    """

    name: str
    claim: Claim
    runs: Path
    results: Path
    measuring: Measuring
    say: Callable[[str], None]

    @property
    def start(self) -> Path:
        """Where the model is that both arms go on from."""
        return self.runs / self.name / "start"

    @property
    def kept_start(self) -> Path:
        """Where a start is kept beside results, so that further seeds can go on from it."""
        return self.results / "starts" / self.name

    def is_incomplete(self, seeds: Sequence[int]) -> bool:
        """Returns whether an arm of one of these seeds is not there yet, the start's and the expert's included."""
        kinds = {0: ("expert", "start")} | dict.fromkeys(seeds, ("rl", "imitation"))
        return not all(self._path(kind, seed).is_file() for seed, of in kinds.items() for kind in of)

    def prepare(self) -> None:
        """Has the expert play, and makes the start or takes the one that is shipped or kept beside the results.

        Raises:
            ConfigError: If arms are there that went on from another start, or from one that is gone.
        """
        self._made("expert", 0, self._play_expert)
        if self.kept_start.is_dir() and not self.start.is_dir():
            copied = self.start.with_name("start.part")  # so that a copy that was interrupted is no start
            shutil.copytree(self.kept_start, copied, dirs_exist_ok=True)
            copied.rename(self.start)
        if (self.start / "config.json").is_file():
            self._require_alike(weights_hash(self.start))
            self._made("start", 0, self._test_start)
            return
        gone_on = sorted(
            path for kind in ("rl", "imitation") for path in self.results.glob(f"{self.name}-*-{kind}.json")
        )
        require(
            self.claim.num_steps is None or not gone_on,
            f"{self.start} is gone, from which {', '.join(map(str, gone_on))} went on, and another one would not be "
            "the same. Put it back, or put other results elsewhere, with --results.",
        )
        made = self._make_start()
        if gone_on:
            self._require_alike(made.start)
        made.save(self._path("start", 0))

    def run(self, seed: int) -> None:
        """Runs both arms of one seed, which is not 0: that is the start's. `prepare` comes first."""
        learnt = self._made("rl", seed, lambda: self._reinforce(seed))
        self._made("imitation", seed, lambda: self._imitate(seed, learnt.cpu_s))

    def _require_alike(self, start: str) -> None:
        """Raises `ConfigError` where results are of another start, with which arms have nothing in common."""
        for path in sorted(self.results.glob(f"{self.name}-*.json")):
            arm = Arm.load(path)
            if arm.kind != "expert" and arm.start != start:
                went = "went on from another start than" if arm.start else "does not say whether it went on from"
                raise ConfigError(
                    f"{path} {went} the one in {self.start}. Put other results elsewhere, with --results."
                )

    def _path(self, kind: str, seed: int) -> Path:
        return self.results / f"{self.name}-{seed}-{kind}.json"

    def _made(self, kind: str, seed: int, make: Callable[[], Arm]) -> Arm:
        path = self._path(kind, seed)
        if not path.is_file():
            make().save(path)
        return Arm.load(path)

    def _stage(self, kind: str, config: RunConfig) -> Stage:
        prepare(config)
        start = weights_hash(self.start) if kind != "start" else ""
        arm = Arm(kind=kind, claim=self.name, seed=config.seed, start=start, made_by=describe(config))
        return Stage(arm, config, self.measuring, self.say)

    def _play_expert(self) -> Arm:
        """Has the expert play the test levels, and the validation levels, its rate on which is its only point."""
        arm = Arm(kind="expert", claim=self.name, seed=0, made_by=describe(self.claim.config(seed=0)))
        record_test(arm, self._played_by_expert("test", self.measuring.num_test_episodes))
        validated = self._played_by_expert("val", self.measuring.num_val_episodes)
        arm.curve = [Point(cpu_s=0.0, step=0, success=validated.success)]
        return arm

    def _played_by_expert(self, split: str, num_episodes: int) -> EvaluationResult:
        """Returns the episodes of an expert that has played nothing before: a suboptimal one draws as it goes."""
        config = self.claim.config(seed=0)
        expert = expert_of(config.worlds[0], config.cold_start, seed=0)
        assert expert is not None, "a claim's start imitates an expert"
        return evaluate(expert, config.worlds[0], split=split, num_episodes=num_episodes)

    def _make_start(self) -> Arm:
        config = self.claim.config(seed=0)
        stage = self._stage("start", config)
        if config.model is not None:
            model, encoder = load_for_training(config.model, config)
            stage.validate(model, encoder, step=0)
        else:
            model, encoder = untaught(config)
            imitate(stage, model, encoder, config, config.cold_start, self.measuring.num_points)
        stage.test(model, encoder)
        save_model(self.start, model, encoder, provenance=stage.arm.made_by)
        stage.arm.start = weights_hash(self.start)
        return stage.arm

    def _test_start(self) -> Arm:
        """Has the start that is there play; how it was validated on the way is not known any more."""
        config = self.claim.config(seed=0)
        stage = self._stage("start", config)
        model, encoder = load_for_training(self.start, config)
        stage.validate(model, encoder, step=0)
        stage.test(model, encoder)
        stage.arm.start = weights_hash(self.start)
        return stage.arm

    def _imitate(self, seed: int, budget_s: float) -> Arm:
        """Imitates at each rate for as long, and has the best of all play the test levels."""
        config = self.claim.config(seed=seed)
        tried = list[tuple[Stage, Any, ChatEncoder]]()
        for rate in IMITATION_RATES:
            model, encoder = load_for_training(self.start, config)
            imitation = replace(
                config.cold_start, num_first_turn_steps=0, start_from=str(self.start), learning_rate=rate
            )
            num_steps = round(MORE_STEPS * budget_s / seconds_per_step(model, encoder, config, imitation))
            imitation = replace(imitation, num_steps=num_steps)
            stage = self._stage("imitation", replace(config, model=None, cold_start=imitation))
            stage.validate(model, encoder, step=0)
            imitate(stage, model, encoder, config, imitation, self.measuring.num_points)
            tried.append((stage, model, encoder))
        best = max(tried, key=lambda each: each[0].best_success)
        stage, model, encoder = best
        stage.test(model, encoder)
        self._keep(stage, model, encoder)
        stage.arm.rejected = [
            {
                "learning_rate": arm.made_by["cold_start"]["learning_rate"],
                "cpu_s": arm.cpu_s,
                "curve": [asdict(point) for point in arm.curve],
            }
            for arm in (each[0].arm for each in tried if each is not best)
        ]
        return stage.arm

    def _reinforce(self, seed: int) -> Arm:
        config = replace(self.claim.config(seed=seed), model=str(self.start), output=str(self.start.parent))
        model, encoder = load_for_training(self.start, config)
        stage, every = self._stage("rl", config), max(1, config.num_iterations // self.measuring.num_points)
        directory = self.start.parent / f"rl-{seed}"
        directory.mkdir(parents=True, exist_ok=True)
        trainer = Trainer(config, model, encoder, directory, None)
        stage.validate(model, encoder, step=0)
        try:
            for iteration in range(1, config.num_iterations + 1):
                since = time.process_time()
                trainer.train_iteration()
                stage.arm.cpu_s += time.process_time() - since
                if iteration % every == 0 or iteration == config.num_iterations:
                    stage.validate(trainer.learner.acting_policy(), encoder, step=iteration)
        finally:
            trainer.batches.drop()
            trainer.collector.close()
            trainer.scorer.close()
        stage.test(model, encoder)
        self._keep(stage, model, encoder)
        return stage.arm

    def _keep(self, stage: Stage, model: Any, encoder: ChatEncoder) -> None:
        """Saves what played the test levels, so that more can be asked of it."""
        directory = self.start.parent / f"{stage.arm.kind}-{stage.arm.seed}"
        save_model(directory / "model", model, encoder, provenance=stage.arm.made_by)
