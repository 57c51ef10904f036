"""Our trainer on the compared work, without evaluations and checkpoints, and a stopwatch for its parts."""

from __future__ import annotations

import functools
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from agents.hf.chat import ChatEncoder
from agents.hf.hf_agent import load_checkpoint
from agents.hf.sampling_config import SamplingConfig
from benchmarks.trainers.late_world import LATE_LAKE_ID, LateLake, register_judge
from benchmarks.trainers.trainer_comparison import Lap, Measured, Mode, Work, peak_mib
from training.algorithms.grpo import GRPO
from training.checkpoints.checkpoint_files import model_directory
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.update_config import PPOConfig
from training.config.world_spec import WorldSpec
from training.loop.collect import Collector
from training.loop.interrupts import prepare
from training.loop.trainer import Trainer
from vlm_envs.trajectory import TrajectoryGroup
from vlm_envs.vector.vector_world import VectorWorld


class EndlessEncoder(ChatEncoder):
    """A chat format that never samples the end of a turn, so that every response has the maximum length."""

    def suppressed_ids(self) -> list[int]:
        """Returns the tokens that are never sampled, including the end of a turn."""
        return sorted({*super().suppressed_ids(), self.end_of_turn_id})


def load(work: Work) -> tuple[Any, EndlessEncoder]:
    """Loads the checkpoint's model in float32 and its chat format."""
    model, encoder = load_checkpoint(model_directory(work.model), dtype="float32")
    return model, EndlessEncoder(encoder.tokenizer, encoder.image_reader)


def run_config(work: Work, mode: Mode) -> RunConfig:
    """Returns the run's configuration; its judge must be registered."""
    return RunConfig(
        name="trainer_benchmark",
        model=work.model,
        worlds=(
            WorldSpec(
                env_id=f"{LateLake.__module__}:{LATE_LAKE_ID}",
                kwargs=dict(work.world_kwargs),
                workers=mode.workers,
                num_workers=work.num_episodes if mode.workers != "serial" else None,
            ),
        ),
        # With staleness, the last measured iteration must also overlap with the sampling of another one
        num_iterations=work.num_iterations + 1 + mode.staleness,
        num_groups=work.num_groups,
        group_size=work.group_size,
        sampling=SamplingConfig(max_new_tokens=work.tokens),
        rollout=mode.rollout,
        staleness=mode.staleness,
        judge=JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0, episode_reward="late_judge"),
        algorithm=GRPO(),
        ppo=PPOConfig(
            learning_rate=work.learning_rate,
            betas=(0.9, 0.999),  # TRL's default
            warmup_iterations=0,
            num_minibatches=1,
            micro_batch_size=work.micro_batch_size,
            num_micro_batches_at_once=max(1, work.num_threads // (1 + mode.staleness)),
            kl_coef=0.0,
            old_logprobs="sampler",
        ),
        num_eval_episodes=0,
        checkpoint_every=0,
        record_every=0,
        device="cpu",
        num_threads=max(1, work.num_threads // (1 + mode.staleness)),  # with staleness, half for sampling
        engine="local",
    )


def measured(work: Work, mode: Mode) -> Measured:
    """Returns the measured iterations, after one that warms up."""
    register_judge(work.judge_ms, work.judge_parallel)
    config = run_config(work, mode)
    prepare(config)
    model, encoder = load(work)
    watch = Stopwatch("rest")
    for name in ("step", "recv", "send", "send_resets", "try_reset"):
        watch.wrap(VectorWorld, name, "worlds")
    watch.wrap(encoder, "encode", "encode")
    with tempfile.TemporaryDirectory() as directory:
        trainer = Trainer(config, model, encoder, Path(directory), None)
        acting = [trainer.batches.snapshot.model] if trainer.batches.snapshot else []
        counts = ModelCounts(watch, model, *acting)
        _watch(trainer, watch)
        played = _kept(trainer.collector)
        laps = []
        try:
            for iteration in range(work.num_iterations + 1):
                watch.lap(), counts.lap()
                trainer.train_iteration()
                laps.append(Lap(seconds=watch.lap(), counts=counts.lap()))
                _require_the_work(work, iteration, played.pop(0))
        finally:
            trainer.batches.drop()
            trainer.collector.close()
            trainer.scorer.close()
    return Measured(laps=laps[1:], peak_mib=peak_mib())


def _kept(collector: Collector) -> list[list[TrajectoryGroup]]:
    """Returns a list to which the collector's episodes are appended from now on."""
    played: list[list[TrajectoryGroup]] = []
    collect = collector.collect

    def kept(*args: Any, **kwargs: Any) -> list[TrajectoryGroup]:
        played.append(collect(*args, **kwargs))
        return played[-1]

    setattr(collector, "collect", kept)  # noqa: B010
    return played


def _require_the_work(work: Work, iteration: int, groups: list[TrajectoryGroup]) -> None:
    """Checks that an iteration did the work that `work` specifies."""
    assert [group.trajectories[0].seed for group in groups] == work.levels(iteration), "other levels were played"
    lengths = [
        [len(turn.response_ids) for turn in trajectory.turns] for group in groups for trajectory in group.trajectories
    ]
    assert lengths == [[work.tokens] * work.turns] * work.num_episodes, "turns or responses have other lengths"


def _watch(trainer: Trainer, watch: Stopwatch) -> None:
    agent = trainer.agent
    for name in ("respond", "step"):
        if hasattr(agent, name):
            watch.wrap(agent, name, "decode")
    watch.wrap(trainer.scorer, "score", "judges")
    watch.wrap(trainer.learner, "model_outputs", "passes")
    watch.wrap(trainer.learner, "update", "update")


class Stopwatch:
    """Measures the seconds of one thread by part; time in a nested part counts only for the inner one.

    Args:
        base: The part for all other time.
        clock: Returns seconds.
    """

    def __init__(self, base: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._thread = clock, threading.get_ident()
        self._parts = [base]
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._since = clock()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Counts the time within the block for a part; has no effect in other threads."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._settle()
        self._parts.append(name)
        try:
            yield
        finally:
            self._settle()
            self._parts.pop()

    def lap(self) -> dict[str, float]:
        """Returns the seconds by part since the last lap."""
        self._settle()
        seconds, self._seconds = dict(self._seconds), defaultdict(float)
        return seconds

    def wrap(self, owner: Any, name: str, part: str) -> None:
        """Counts the time of an object's or a class's method for a part."""
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(part):
                return inner(*args, **kwargs)

        setattr(owner, name, timed)

    def _settle(self) -> None:
        now = self._clock()
        self._seconds[self._parts[-1]] += now - self._since
        self._since = now


class ModelCounts:
    """Counts tokens and images that a model processes, including padding, with and without gradients.

    A pass over several columns without gradients is a prefill, and its time counts for that part.

    Args:
        watch: Measures the time.
        models: Qwen3-VLs with their heads, counted together; two of them may run concurrently.
    """

    def __init__(self, watch: Stopwatch, *models: Any) -> None:
        self._watch, self._counts, self._counting = watch, Counter[str](), threading.Lock()
        for model in models:
            self._wrap(model.model, "forward", self._of_backbone)
            self._wrap(model.model, "get_rope_index", lambda *args, **kwargs: "")
            self._wrap(model.model, "get_image_features", lambda *args, **kwargs: "")
            self._wrap(model.model.visual, "forward", self._of_tower)

    def lap(self) -> dict[str, int]:
        """Returns the counts since the last lap."""
        with self._counting:
            counts, self._counts = dict(self._counts), Counter()
        return counts

    def _wrap(self, module: Any, name: str, count: Callable[..., str]) -> None:
        inner = getattr(module, name)

        @functools.wraps(inner)
        def counted(*args: Any, **kwargs: Any) -> Any:
            with self._counting:
                decodes = count(*args, **kwargs) == "decode"
            if torch.is_grad_enabled() or decodes:
                return inner(*args, **kwargs)
            with self._watch.part("prefill"):
                return inner(*args, **kwargs)

        setattr(module, name, counted)

    def _of_backbone(self, *args: Any, **kwargs: Any) -> str:
        ids_BT = kwargs.get("input_ids")
        ids_BT = args[0] if ids_BT is None else ids_BT
        num_rows, width = ids_BT.shape
        kind = "trained" if torch.is_grad_enabled() else "prefill" if width > 1 else "decode"
        self._counts[f"{kind}_tokens"] += num_rows * width
        return kind

    def _of_tower(self, *args: Any, **kwargs: Any) -> str:
        grids = kwargs.get("grid_thw")
        grids = args[1] if grids is None else grids
        kind = "trained" if torch.is_grad_enabled() else "sampled"
        self._counts[f"{kind}_images"] += len(grids)
        return kind
