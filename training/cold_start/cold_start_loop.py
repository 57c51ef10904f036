"""The cold start: imitation of an expert's episodes, which gives reinforcement learning something to improve."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agents.hf.chat import ChatEncoder
from training.batch import Batch, make_batch
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.demonstrations import copying_exercises, demonstrations, spared_tokens, tokenized
from training.config.world_spec import WorldSpec
from training.curation.curated_data import curated_episodes, shuffled_batches
from training.update.supervised_steps import OnCheckpoint, OnStep, SupervisedLearner, take_steps
from vlm_envs.trajectory import Trajectory


def cold_start(
    model: Any,
    encoder: ChatEncoder,
    specs: tuple[WorldSpec, ...],
    config: ColdStartConfig,
    *,
    on_step: OnStep,
    should_stop: Callable[[], bool] = lambda: False,
    seed: int = 0,
    on_checkpoint: OnCheckpoint | None = None,
    num_done: int = 0,
    optimizer_state: dict[str, Any] | None = None,
) -> int:
    """Trains a model in place to imitate an expert.

    After each step `on_step` gets its number and metrics, and `should_stop` says whether to end here. Another seed sees
    other levels. After every so many steps, and the last, `on_checkpoint` gets what it can be gone on from: with
    `num_done` and `optimizer_state` as they were, and the model and torch's generator as they were, it comes to the
    same. Episodes of steps that were done are played once more then, for the expert draws as it goes.

    Returns:
        Steps done, of which those whose gradients were not finite changed nothing.

    Raises:
        NonFiniteGradientError: If that happened too many times in a row.
        Exception: What a world, `on_step` or a step raises. The model is as of the last whole step, whichever it is.
    """
    learner = SupervisedLearner(model, config.steps, what="cold start")
    if num_done and optimizer_state is not None:
        learner.load_optimizer_state(optimizer_state)
    shown = _batches(specs, encoder, config, seed=seed)
    for _ in range(num_done if num_done < config.num_steps else 0):
        next(shown)
    spared = spared_tokens(encoder, [spec.env_id for spec in specs])

    def batches() -> Iterator[Batch]:
        for number, each in enumerate(shown, num_done):
            learner.suppress(spared if number < config.num_copying_steps else [])
            yield make_batch(each, [[0.0] * len(t.turns) for t in each], encoder)

    return take_steps(
        learner,
        batches(),
        on_step=on_step,
        should_stop=should_stop,
        on_checkpoint=on_checkpoint,
        first=num_done,
    )


def _batches(
    specs: tuple[WorldSpec, ...], encoder: ChatEncoder, config: ColdStartConfig, *, seed: int
) -> Iterator[list[Trajectory]]:
    """Returns the batches of a cold start, without end: copying, first turns only, whole episodes."""
    env_ids = [spec.env_id for spec in specs]
    copying = copying_exercises(encoder, env_ids, num_batches=config.num_copying_steps, seed=seed)
    return itertools.chain(copying, _demonstrations(specs, encoder, config, seed=seed))


def _demonstrations(
    specs: tuple[WorldSpec, ...], encoder: ChatEncoder, config: ColdStartConfig, *, seed: int
) -> Iterator[list[Trajectory]]:
    """Yields what an expert did, in batches without end; first turns only in the first steps."""
    if config.data is not None:
        return recorded_demonstrations(config.data, encoder, config, seed=seed)
    shown = partial(
        demonstrations,
        specs,
        encoder,
        batch_size=config.batch_size,
        mistake_rate=config.mistake_rate,
        suboptimal_rate=config.suboptimal_rate,
        tells_plan=config.tells_plan,
    )
    if config.num_demonstrations is None:
        return shown(start=seed * 1_000_003 % 50_000_000, num_first_turn_batches=config.num_first_turn_steps)
    played = itertools.chain.from_iterable(shown())
    return _repeated(list(itertools.islice(played, config.num_demonstrations)), config, seed=seed)


def recorded_demonstrations(
    directory: str, encoder: ChatEncoder, config: ColdStartConfig, *, seed: int
) -> Iterator[list[Trajectory]]:
    """Yields batches of a data set without end; first turns only in the first steps."""
    return _repeated([tokenized(episode, encoder) for episode in curated_episodes(directory)], config, seed=seed)


def _repeated(episodes: Sequence[Trajectory], config: ColdStartConfig, *, seed: int) -> Iterator[list[Trajectory]]:
    """Yields batches of the same episodes without end; first turns only in the first steps."""
    for step, batch in enumerate(shuffled_batches(episodes, config.batch_size, seed)):
        first_only = step < config.num_first_turn_steps
        yield [replace(each, turns=each.turns[:1]) for each in batch] if first_only else batch
