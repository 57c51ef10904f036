"""TRL's trainer on the compared work, and a check that it computes the same log-probabilities as ours."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from transformers import AutoModelForImageTextToText, AutoProcessor, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from agents.hf.hf_agent import load_encoder
from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent
from agents.rollout import rollout
from benchmarks.trainers.late_world import LATE_LAKE_ID, LateLake, share_of
from benchmarks.trainers.our_trainer import EndlessEncoder, ModelCounts, Stopwatch, load
from benchmarks.trainers.trainer_comparison import Lap, Measured, Work, peak_mib
from training.batch import Batch, make_batch
from training.checkpoints.checkpoint_files import model_directory
from training.engines.policy import token_logprobs
from vlm_envs.trajectory import Observation, Trajectory, observation_images
from vlm_envs.vector.vector_world import VectorWorld


class Lakes:
    """Creates TRL's environments.

    Args:
        work: The work, with the worlds' arguments.
        watch: Measures the time of worlds.
    """

    def __init__(self, work: Work, watch: Stopwatch) -> None:
        self._work, self._watch = work, watch

    def __call__(self) -> Any:
        """Returns an environment; TRL treats its public methods, except `reset`, as tools."""
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
    """Executes the last response of each episode; a reward function whose rewards are 0."""
    for completion, environment in zip(completions, environments, strict=True):
        environment.act(completion[-1]["content"])
    return [0.0] * len(completions)


def judge_of(work: Work) -> Any:
    """Returns a reward function that judges episodes concurrently, with the same delay as our judge."""
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
    """Yields TRL's trainer for `num_iterations` iterations."""
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
            loss_type="dapo",  # the mean over tokens, as in our trainer
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
    """Returns the measured iterations, after one that warms up."""
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
    """Returns a list to which the number of sampled tokens of each episode is appended from now on."""
    lengths: list[int] = []
    generate = trainer._generate

    def kept(prompts: Any) -> Any:
        generated = generate(prompts)
        lengths.extend(map(sum, generated[2]))
        return generated

    trainer._generate = kept
    return lengths


TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'tool' %}<|im_end|>\n<|im_start|>user\n"
    "{% else %}<|im_start|>{{ message['role'] }}\n{% endif %}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{% for call in message['tool_calls'] or [] %}{{ call['function'] }}{% endfor %}"
    "{% if message['role'] != 'assistant' %}<|im_end|>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOL = "act"


def processor_of(checkpoint: Path) -> Any:
    """Returns a checkpoint's processor with `TEMPLATE` and a parser that turns every response into a tool call."""
    processor = AutoProcessor.from_pretrained(checkpoint, local_files_only=True)
    tokenizer = processor.tokenizer
    processor.chat_template = tokenizer.chat_template = TEMPLATE
    tokenizer.eos_token = tokenizer.pad_token

    def parse_response(ids: Sequence[int], **context: Any) -> dict[str, Any]:
        text = tokenizer.decode(ids, skip_special_tokens=True)
        call = {"type": "function", "function": {"name": TOOL, "arguments": {"response": text}}}
        return {"role": "assistant", "content": text, "tool_calls": [call]}

    tokenizer.response_template = {}
    tokenizer.parse_response = parse_response
    return processor


def blocks(observation: Observation) -> list[dict[str, Any]]:
    """Returns an observation as message content, with images first, as in our encoder."""
    from PIL import Image

    images = [{"type": "image", "image": Image.fromarray(image)} for image in observation_images(observation)]
    return [*images, {"type": "text", "text": observation["text"]}]


NUM_GROUPS = 2


def likeness(work: Work) -> dict[str, Any]:
    """Compares both trainers' log-probabilities; returns `num_tokens` and the `max_difference` over these tokens.

    Raises:
        AssertionError: If the tokens themselves differ.
    """
    group = work.group_size
    small = replace(work, num_groups=NUM_GROUPS, micro_batch_size=group, world_ms=0.0, judge_ms=0.0, num_iterations=1)
    torch.set_num_threads(work.num_threads)
    ours, ours_ids, episodes = _ours(small)
    theirs, theirs_ids = _trls(small, episodes)
    assert theirs_ids == ours_ids, "TRL's conversations have other tokens than ours"
    differences = torch.cat([(a - b).abs() for a, b in zip(ours, theirs, strict=True)])
    return {"num_tokens": len(differences), "max_difference": float(differences.max())}


@torch.no_grad()
def _ours(work: Work) -> tuple[list[Tensor], list[list[int]], list[Trajectory]]:
    """Returns our log-probabilities of sampled tokens, the token ids of each row, and the episodes."""
    model, encoder = load(work)
    agent = make_agent("hf", model=model, encoder=encoder, sampling=SamplingConfig(max_new_tokens=work.tokens))
    levels = [level for level in work.levels(0) for _ in range(work.group_size)]
    maker = partial(LateLake, **work.world_kwargs)
    with VectorWorld([maker] * len(levels)) as worlds:
        episodes = rollout(agent, worlds, levels, env_ids=[LATE_LAKE_ID] * len(levels))
    batch: Batch = make_batch(episodes, [[0.0] * work.turns] * len(levels), encoder)
    logprobs_BT, _ = token_logprobs(model, batch, temperature=1.0, suppressed_ids=[], entropy_mode="none")
    is_sampled_BT = batch.turn_index_BT >= 0
    rows = [batch.input_ids_BT[row][batch.attention_mask_BT[row] > 0].tolist() for row in range(batch.num_rows)]
    return [logprobs_BT[row][is_sampled_BT[row]] for row in range(batch.num_rows)], rows, episodes


@torch.no_grad()
def _trls(work: Work, episodes: Sequence[Trajectory]) -> tuple[list[Tensor], list[list[int]]]:
    """Returns TRL's log-probabilities of the same responses, and the token ids of its rows."""
    with made_trainer(work, Stopwatch("all"), num_iterations=1) as trainer:
        turns = iter(range(work.turns))

        def replayed(*args: Any, **kwargs: Any) -> tuple[list[list[int]], None]:
            turn = next(turns)
            return [episode.turns[turn].response_ids.tolist() for episode in episodes], None

        trainer._generate_single_turn = replayed
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = 1
        prompt = [{"role": "user", "content": ""}]
        rows = trainer._generate_and_score_completions(
            [{"prompt": prompt, "seed": episode.seed} for episode in episodes]
        )
        ids = torch.cat([rows["prompt_ids"], rows["completion_ids"]], dim=1)
        mask = torch.cat([rows["prompt_mask"], rows["completion_mask"]], dim=1)
        shown = {name: rows[name] for name in ("pixel_values", "image_grid_thw", "num_images", "mm_token_type_ids")}
        logprobs, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, mask, rows["completion_ids"].shape[1], **shown
        )
        is_sampled = (rows["completion_mask"] * rows["tool_mask"]) > 0
        return (
            [logprobs[row][is_sampled[row]] for row in range(len(episodes))],
            [ids[row][mask[row] > 0].tolist() for row in range(len(episodes))],
        )
