"""Runs an ablation: its start, then every arm and seed, each a run of stages that goes on where it was stopped.

<runs>/<ablation>/start/          what makes the start
<runs>/<ablation>/<arm>-<seed>/   a run
<runs>/<ablation>/logs/           what each printed
<results>/<ablation>-<arm>-<seed>.json
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agents.hf.hf_agent import load_checkpoint
from agents.registry import make_agent
from benchmarks.ablations.ablation import START, Ablation, Arm
from benchmarks.ablations.outcome import START_SEED, Outcome, outcome_path
from training.checkpoints.checkpoint_files import model_directory
from training.loop.evaluation import evaluate
from training.loop.metrics import mean_scores
from training.loop.provenance import circumstances
from training.rewards.turn_scores import TurnScorer
from training.stages.stages_config import StagesConfig, holds_stages
from training.stages.stages_loop import train_stages
from vlm_envs.validation import require

LOGS = "logs"


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Makes what is not there of an ablation; a result is written when it is whole, and is not made again.

    Attributes:
        ablation: What is run.
        runs: Where models and logs go.
        results: Where results go, a file each.
    """

    ablation: Ablation
    runs: Path
    results: Path

    def prepare(self) -> str:
        """Makes the start, where none ships, and has it play the test levels; returns what it came to.

        Raises:
            ConfigError: If something that a stage needs is not there.
            TrainingStoppedError: If a stage cannot go on; the next call goes on with it.
        """
        since, config = time.process_time(), self.ablation.placed_start(self._folder)
        with self._logged(START):
            if config is not None:
                _train(config)
            path = self._path(START, START_SEED)
            if not path.is_file():
                self._tested(None, self._start, START_SEED, since).save(path)
        return self._told(path)

    def run(self, name: str, seed: int) -> str:
        """Trains an arm with one seed, and has it play the test levels; `prepare` comes first.

        Args:
            name: Of the arm.
            seed: From 1 on; 0 is the start's.

        Returns:
            What it came to, in a line.

        Raises:
            ConfigError: If a run of that name was begun with other settings.
            TrainingStoppedError: If a stage cannot go on; the next call goes on with it.
        """
        since, arm = time.process_time(), self.ablation.arm(name)
        config = arm.placed(self._start, self._folder, seed=seed)
        with self._logged(config.name):
            _train(config)
            path = self._path(name, seed)
            self._tested(arm, config.last_model, seed, since).save(path)
        return self._told(path)

    def is_done(self, name: str, seed: int) -> bool:
        """Returns whether the result of an arm and seed is there."""
        return self._path(name, seed).is_file()

    @property
    def is_prepared(self) -> bool:
        """Whether the start is there, and was tested."""
        return self.is_done(START, START_SEED) and (self._start / "config.json").is_file()

    @property
    def _folder(self) -> Path:
        return self.runs / self.ablation.name

    @property
    def _start(self) -> Path:
        config = self.ablation.placed_start(self._folder)
        return model_directory(str(self.ablation.start)) if config is None else config.last_model

    def _path(self, name: str, seed: int) -> Path:
        return outcome_path(self.results, self.ablation.name, name, seed)

    def _told(self, path: Path) -> str:
        outcome = Outcome.load(path)
        return f"{path.stem}: {np.mean(outcome.levels):.3f} of {len(outcome.levels)} test levels solved"

    @contextlib.contextmanager
    def _logged(self, name: str) -> Iterator[None]:
        """Has what is printed go to a log."""
        logs = self._folder / LOGS
        logs.mkdir(parents=True, exist_ok=True)
        with (
            (logs / f"{name}.txt").open("a", encoding="utf-8") as log,
            contextlib.redirect_stdout(log),
            contextlib.redirect_stderr(log),
        ):
            yield

    def _tested(self, arm: Arm | None, model: Path, seed: int, since: float) -> Outcome:
        """Returns what a model came to on the test levels."""
        solved, measures = self._played(arm, model, seed)
        made_by = circumstances()
        return Outcome(
            ablation=self.ablation.name,
            arm=START if arm is None else arm.name,
            seed=seed,
            solved=solved,
            measures=measures,
            num_episodes=0 if arm is None else arm.num_episodes,
            cpu_s=round(time.process_time() - since, 1),
            made_by={name: made_by[name] for name in ("commit", "versions")},
        )

    def _played(self, arm: Arm | None, directory: Path, seed: int) -> tuple[dict[str, list[bool]], dict[str, float]]:
        """Returns which test levels a model solves, by world, and what else is measured there."""
        ablation = self.ablation
        model, encoder = load_checkpoint(directory)
        agent = make_agent("hf", model=model.eval(), encoder=encoder, sampling=ablation.sampling, seed=seed)
        solved, records = dict[str, list[bool]](), list[dict[str, float]]()
        with contextlib.closing(TurnScorer(ablation.judge)) as training:
            for spec in ablation.test_worlds(arm):
                name = str(spec.name)
                played = evaluate(agent, spec, split="test", num_episodes=ablation.num_test_levels, name=name)
                require(
                    not played.num_lost, f"{played.num_lost} episodes of {name} were lost, and none may be missing."
                )
                solved[name] = [each.success for each in played.trajectories]
                with contextlib.closing(training.for_evaluation()) as scorer:
                    scored = scorer.score(played.trajectories)
                    records.append(_numbers(played.record() | mean_scores(scored) | scorer.metrics()))
        names = dict.fromkeys(name for record in records for name in record)
        return solved, {
            name: round(float(np.mean([each[name] for each in records if name in each])), 4) for name in names
        }


def _train(config: StagesConfig) -> None:
    """Trains a run of stages to its end, from where it stands."""
    train_stages(config, resume=holds_stages(config.directory))


def _numbers(record: dict[str, object]) -> dict[str, float]:
    """Returns what is a finite number of a record."""
    numbers = {name: float(value) for name, value in record.items() if isinstance(value, int | float)}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}
