"""The longest row of a run: measured on episodes with the checkpoint's own tokenizer, or given by the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from agents.hf.hf_agent import load_encoder
from agents.hf.sampling_config import context_limit
from agents.oracle import RandomAgent
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec
from training.memory_plan.plan_config import PlanConfig
from vlm_envs.errors import ConfigError, EngineUnavailableError, WorkerError
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Observation
from vlm_envs.validation import require

NUM_EPISODES = 4
"""Number of measured episodes per world."""

GIB = 2**30


class Segment(NamedTuple):
    """Size of an observation in a row: its tokens, its image tokens, and its number of images."""

    num_tokens: int
    num_image_tokens: int = 0
    num_images: int = 0


@dataclass(frozen=True, kw_only=True)
class RowShape:
    """The longest row of a run.

    Attributes:
        num_turns: Number of turns.
        num_tokens: Total number of tokens.
        num_response_tokens: Maximum tokens per response.
        first: Observation of the first turn.
        later: Observation of each later turn.
        told: Description of the source of these numbers.
    """

    num_turns: int
    num_tokens: int
    num_response_tokens: int
    first: Segment
    later: Segment
    told: str

    @property
    def tokens_per_turn(self) -> int:
        """Tokens of an average turn, images and response included."""
        return -(-self.num_tokens // self.num_turns)

    @property
    def num_images(self) -> int:
        """Images of the row."""
        return self.first.num_images + (self.num_turns - 1) * self.later.num_images

    @property
    def num_image_tokens(self) -> int:
        """Tokens of all images."""
        return self.first.num_image_tokens + (self.num_turns - 1) * self.later.num_image_tokens

    def within(self, limit: int, *, ends_seen: bool) -> RowShape:
        """Returns the row cut to the maximum conversation length, plus the final observation if it is encoded."""
        most = limit + ends_seen * self.later.num_tokens
        if self.num_tokens <= most:
            return self
        per_turn = self.later.num_tokens + self.num_response_tokens
        num_turns = 1 + max(0, limit - self.first.num_tokens - self.num_response_tokens) // per_turn
        told = f"{self.told}; cut at {limit:,}, the maximum conversation length"
        return replace(self, num_turns=min(self.num_turns, num_turns), num_tokens=most, told=told)


def longest_row(config: RunConfig, plan: PlanConfig, model_config: Any, directory: Path) -> RowShape:
    """Returns the longest row that a run can have.

    Args:
        config: The run.
        plan: The plan, which may set the length of rows.
        model_config: The checkpoint's configuration.
        directory: The checkpoint, with tokenizer and image processor unless the length is given.

    Raises:
        ConfigError: If the length is not given and a world cannot be played here, or there is no tokenizer.
    """
    limit = context_limit(model_config, config.sampling)
    if plan.context_tokens is not None:
        num_positions = int(model_config.get_text_config().max_position_embeddings)
        require(
            plan.context_tokens <= num_positions,
            f"--context-tokens must be at most {num_positions}, the number of the model's positions; got "
            f"{plan.context_tokens}.",
        )
        return _given(config, plan.context_tokens, plan.image_tokens).within(limit, ends_seen=False)
    require(
        (directory / "tokenizer_config.json").is_file(),
        f"{directory} has no tokenizer, so the length of rows is unknown. Copy its tokenizer and image processor next "
        "to config.json, or set the length: --context-tokens N (and --image-tokens N, the image tokens among them).",
    )
    encoder = load_encoder(directory)
    encoder.limit_pixels(config.sampling.max_image_pixels)

    def encode(observation: Observation, is_first: bool) -> Segment:
        segment = encoder.encode(observation, is_first=is_first)
        image_tokens = [image.num_tokens for image in segment.images]
        return Segment(len(segment.ids), sum(image_tokens), len(image_tokens))

    ends_seen = config.algorithm.needs_final_observations
    rows = [_longest_of(spec, config, encode).within(limit, ends_seen=ends_seen) for spec in config.worlds]
    return max(rows, key=lambda row: row.num_tokens)


def _longest_of(spec: WorldSpec, config: RunConfig, encode: Callable[[Observation, bool], Segment]) -> RowShape:
    """Returns the longest row of one world, from the observations of a random agent."""
    try:
        first, later, num_turns = _shown(spec, encode)
    except (EngineUnavailableError, WorkerError, ImportError) as error:
        raise ConfigError(
            f"{spec.env_id} cannot be played here, so the length of its rows is unknown ({error}). Set the length: "
            "--context-tokens N (and --image-tokens N, the image tokens among them)."
        ) from error
    num_response = config.sampling.max_new_tokens
    num_later = num_turns - 1 + config.algorithm.needs_final_observations
    return RowShape(
        num_turns=num_turns,
        num_tokens=first.num_tokens + num_later * later.num_tokens + num_turns * num_response,
        num_response_tokens=num_response,
        first=first,
        later=later,
        told=f"{spec.env_id}, counted by the checkpoint's own tokenizer, with the longest responses",
    )


def _shown(spec: WorldSpec, encode: Callable[[Observation, bool], Segment]) -> tuple[Segment, Segment, int]:
    """Returns the longest first and later observations of some episodes, and the maximum number of turns."""
    firsts, laters = [], []
    agent = RandomAgent()
    with spec.made(split="train") as world:
        for seed in split_seeds("train", NUM_EPISODES):
            observation, _ = world.reset(seed=seed)
            firsts.append(encode(observation, True))
            over = False
            while not over:
                observation, _, terminated, truncated, _ = world.step(agent.write(world))
                laters.append(encode(observation, False))
                over = terminated or truncated
        return max(firsts), max(laters), int(world.max_turns)


def _given(config: RunConfig, num_tokens: int, num_image: int | None) -> RowShape:
    """Returns a row of a given length with one turn, half of it image tokens unless their number is given."""
    num_response = min(config.sampling.max_new_tokens, num_tokens)
    num_image_tokens = num_tokens // 2 if num_image is None else min(num_image, num_tokens)
    segment = Segment(max(0, num_tokens - num_response), num_image_tokens, int(num_image_tokens > 0))
    return RowShape(
        num_turns=1,
        num_tokens=num_tokens,
        num_response_tokens=num_response,
        first=segment,
        later=segment,
        told="as given by --context-tokens" + (", half of it images" if num_image is None else ""),
    )
