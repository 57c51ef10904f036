"""Iterations of TRL's GRPOTrainer with environments (`environment_factory`), on the same work.

What is done to TRL so that the work is the same: its chat template and parser (`benchmarks.trainers.trl_chat`), the
tokens that are never sampled, which are ours, and the last turn's step. TRL samples once more after each tool call; so
its loop ends one call early (`max_tool_calling_iterations`), and the last response is carried out by a reward function,
one episode after another, as its loop would. What is not: nothing of TRL is replaced or left out. It collects, pads,
reads pictures, samples and updates by its own code, with its own defaults where the work does not say otherwise. All
episodes of an iteration are sampled in one batch, worlds answer one after another as they do in TRL, and the judge is
an asynchronous reward function, under way for as many episodes at a time as ours.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForImageTextToText, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from agents.hf.hf_agent import load_encoder
from benchmarks.trainers.measured import Lap, Measured, peak_mib
from benchmarks.trainers.ours import EndlessEncoder
from benchmarks.trainers.stopwatch import ModelCounts, Stopwatch
from benchmarks.trainers.trl_chat import blocks, processor_of
from benchmarks.trainers.work import Work
from benchmarks.trainers.world import LateLake, share_of
from training.checkpoints.checkpoint_files import model_directory


class Lakes:
    """What TRL makes its environments from.

    Args:
        work: What they are like.
        watch: Counts the time of worlds.
    """

    def __init__(self, work: Work, watch: Stopwatch) -> None:
        self._work, self._watch = work, watch

    def __call__(self) -> Any:
        """Returns an environment; its public methods but `reset` are tools."""
        watch = self._watch
        with watch.part("worlds"):
            world = LateLake(**self._work.world_kwargs)

        class Lake:
            def reset(self, seed: int, **row: Any) -> list[dict[str, Any]]:
                with watch.part("worlds"):
                    return blocks(world.reset(seed=seed)[0])

            def act(self, response: str) -> list[dict[str, Any]]:
                """Carries out a response.

                Args:
                    response: The whole text.
                """
                with watch.part("worlds"):
                    return blocks(world.step(response)[0])

        return Lake()


def last_steps(completions: list[list[dict[str, Any]]], environments: list[Any], **columns: Any) -> list[float]:
    """Carries out the last response of each episode; a reward function, which gives nothing."""
    for completion, environment in zip(completions, environments, strict=True):
        environment.act(completion[-1]["content"])
    return [0.0] * len(completions)


def judge_of(work: Work) -> Any:
    """Returns a reward function that asks about several episodes at a time, and takes as long as ours for each."""
    numbers = itertools.count()

    async def late_judge(completions: list[list[dict[str, Any]]], **columns: Any) -> list[float]:
        slots = asyncio.Semaphore(work.judge_parallel)

        async def score(completion: list[dict[str, Any]]) -> float:
            if work.judge_ms:
                async with slots:
                    await asyncio.sleep(work.judge_ms / 1000)
            return share_of(f"episode {next(numbers)}")

        return list(await asyncio.gather(*map(score, completions)))

    return late_judge


@contextmanager
def made_trainer(work: Work, watch: Stopwatch, *, num_iterations: int) -> Iterator[Any]:
    """Gives TRL's trainer of that many iterations."""
    torch.set_num_threads(work.num_threads)
    checkpoint = model_directory(work.model)
    encoder = load_encoder(checkpoint)
    never_sampled = EndlessEncoder(encoder.tokenizer, encoder.image_reader).suppressed_ids()
    model = AutoModelForImageTextToText.from_pretrained(checkpoint, local_files_only=True, dtype=torch.float32)
    num_micro_batches = work.num_episodes // work.micro_batch_size
    levels = [level for iteration in range(num_iterations) for level in work.levels(iteration)]
    with tempfile.TemporaryDirectory() as directory:
        config = GRPOConfig(
            output_dir=directory,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=work.micro_batch_size,
            gradient_accumulation_steps=num_micro_batches,
            steps_per_generation=num_micro_batches,
            num_generations=work.group_size,
            max_steps=num_iterations,
            shuffle_dataset=False,
            learning_rate=work.learning_rate,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            max_grad_norm=1.0,
            beta=0.0,
            loss_type="dapo",  # the mean over tokens, as ours
            temperature=1.0,
            max_completion_length=model.config.get_text_config().max_position_embeddings,  # of all turns together
            generation_kwargs={"max_new_tokens": work.tokens, "suppress_tokens": never_sampled},
            max_tool_calling_iterations=work.turns - 1,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        yield GRPOTrainer(
            model=model,
            args=config,
            processing_class=processor_of(checkpoint),
            reward_funcs=[last_steps, judge_of(work)],
            environment_factory=Lakes(work, watch),
            train_dataset=Dataset.from_dict(
                {"prompt": [[{"role": "user", "content": ""}]] * len(levels), "seed": levels},
            ),
        )


def measured(work: Work) -> Measured:
    """Returns what iterations take, after one that warms up."""
    watch = Stopwatch("update")
    with made_trainer(work, watch, num_iterations=work.num_iterations + 1) as trainer:
        counts = ModelCounts(watch, trainer.model)
        watch.wrap(trainer, "_prepare_inputs", "rest")
        watch.wrap(trainer, "_generate_single_turn", "decode")
        watch.wrap(trainer, "_tokenize_prompts", "encode")
        watch.wrap(trainer, "_get_tool_suffix_ids", "encode")
        watch.wrap(trainer.processing_class.image_processor, "preprocess", "encode")
        watch.wrap(trainer, "_calculate_rewards", "judges")
        lengths = _kept_lengths(trainer)
        laps: list[Lap] = []

        class Laps(TrainerCallback):
            def on_step_end(self, *args: Any, **kwargs: Any) -> None:
                laps.append(Lap(seconds=watch.lap(), counts=counts.lap()))

        trainer.add_callback(Laps())
        watch.lap()
        trainer.train()
    assert lengths == [work.turns * work.tokens] * work.num_episodes * len(laps), "responses have other lengths"
    return Measured(laps=laps[1:], peak_mib=peak_mib())


def _kept_lengths(trainer: Any) -> list[int]:
    """Returns a list to which the number of sampled tokens of each episode is added from here on."""
    lengths: list[int] = []
    generate = trainer._generate

    def kept(prompts: Any) -> Any:
        generated = generate(prompts)
        lengths.extend(map(sum, generated[2]))
        return generated

    trainer._generate = kept
    return lengths
