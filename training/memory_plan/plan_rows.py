"""How long the rows of a run get: measured on episodes where its worlds can be played here, else as the user says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from agents.hf.agent import load_encoder
from agents.hf.context import context_limit
from agents.hf.families.family import ProcessedImage, require_pixels
from agents.oracle import RandomAgent
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec
from training.memory_plan.plan_config import PlanConfig
from vlm_envs.errors import ConfigError, EngineUnavailableError, WorkerError, require
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Observation, observation_images

NUM_EPISODES = 4
"""Episodes of each world that are looked at."""


CHARS_PER_TOKEN = 3
"""Fewer than tokenizers of this size have in plain English, about 4: coordinates and tags are shorter."""


TILED = {"internvl": 13, "smolvlm": 17, "gemma3": 1}
"""Tiles of a picture at most, as image processors have them by default: 12 or 4 x 4, and the whole beside them."""


MARKUP_TOKENS = 16
"""Tokens around what is said in a turn."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """What an observation adds to a row: its tokens, placeholders of its pictures among them, and the pictures."""

    num_tokens: int
    images: tuple[ProcessedImage, ...]

    @property
    def num_image_tokens(self) -> int:
        """Placeholders."""
        return sum(image.num_tokens for image in self.images)

    @property
    def num_patches(self) -> int:
        """Vectors that go through the vision tower; those of Qwen-VL, several of which make a token, or the tokens."""
        grids = [image.inputs.get("image_grid_thw") for image in self.images]
        return sum(
            image.num_tokens if grid is None else int(grid.prod())
            for image, grid in zip(self.images, grids, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class RowShape:
    """The longest row of a run, and what it is made of.

    Attributes:
        num_turns: Turns.
        num_tokens: All tokens.
        num_response_tokens: Tokens of one response, at most.
        later: What a later turn is shown; the first one may be shown more.
        first: What the first one is shown.
        told: How this is known, in words.
    """

    num_turns: int
    num_tokens: int
    num_response_tokens: int
    first: Segment
    later: Segment
    told: str

    @property
    def tokens_per_turn(self) -> int:
        """Tokens of an average turn, pictures and response included."""
        return -(-self.num_tokens // self.num_turns)

    def within(self, limit: int, *, ends_seen: bool) -> RowShape:
        """Returns the row as far as conversations may get, and what the last action led to where that is seen."""
        most = limit + ends_seen * self.later.num_tokens
        if self.num_tokens <= most:
            return self
        each = self.later.num_tokens + self.num_response_tokens
        num_turns = 1 + max(0, limit - self.first.num_tokens - self.num_response_tokens) // each
        told = f"{self.told}; cut at {limit:,}, the most that a conversation may have"
        return replace(self, num_turns=min(self.num_turns, num_turns), num_tokens=most, told=told)

    @property
    def num_images(self) -> int:
        """Pictures of the row."""
        return len(self.first.images) + (self.num_turns - 1) * len(self.later.images)

    @property
    def num_patches(self) -> int:
        """What of the pictures goes through the vision tower, as tokens go through the language model."""
        return self.first.num_patches + (self.num_turns - 1) * self.later.num_patches


Encode = Callable[[Observation, bool], Segment]
"""From an observation, and whether it is a conversation's first, to what it adds."""


def longest_row(config: RunConfig, plan: PlanConfig, model_config: Any, directory: Path) -> RowShape:
    """Returns the longest row that a run can have.

    Args:
        config: The run.
        plan: May say how long rows are.
        model_config: The checkpoint's configuration.
        directory: May hold a tokenizer and an image processor.

    Raises:
        ConfigError: If it cannot be known: a world cannot be played here, and nothing is said.
    """
    limit = context_limit(model_config, config.sampling)
    if plan.context_tokens is not None:
        num_positions = int(model_config.get_text_config().max_position_embeddings)
        require(
            plan.context_tokens <= num_positions,
            f"--context-tokens must be at most {num_positions}, the positions that the model was made for; got "
            f"{plan.context_tokens}.",
        )
        return _as_said(config, plan, model_config).within(limit, ends_seen=False)
    encode, how = _encoder(directory, model_config, config.sampling.max_image_pixels)
    rows = [_longest_of(spec, config, encode, how) for spec in config.worlds]
    ends_seen = config.algorithm.needs_final_observations
    return max((row.within(limit, ends_seen=ends_seen) for row in rows), key=lambda row: row.num_tokens)


def _longest_of(spec: WorldSpec, config: RunConfig, encode: Encode, how: str) -> RowShape:
    """Returns the longest row of one world, from what random players are shown in it."""
    try:
        first, later, num_turns = _shown(spec, encode)
    except (EngineUnavailableError, WorkerError, ImportError) as error:
        raise ConfigError(
            f"{spec.env_id} cannot be played here, so how long its rows get is not known ({error}). Say it: "
            "--context-tokens N (and --image-tokens N, how many of them are of pictures)."
        ) from error
    num_response = config.sampling.max_new_tokens
    num_later = num_turns - 1 + config.algorithm.needs_final_observations
    return RowShape(
        num_turns=num_turns,
        num_tokens=first.num_tokens + num_later * later.num_tokens + num_turns * num_response,
        num_response_tokens=num_response,
        first=first,
        later=later,
        told=f"{spec.env_id}, {how}, with every response as long as it may be",
    )


def _shown(spec: WorldSpec, encode: Encode) -> tuple[Segment, Segment, int]:
    """Returns the longest first and the longest later observation of some episodes, and how many turns one has."""
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
        num_turns = int(world.max_turns)
    return _longest(firsts), _longest(laters), num_turns


def _longest(segments: list[Segment]) -> Segment:
    return max(segments, key=lambda segment: segment.num_tokens)


def _encoder(directory: Path, model_config: Any, max_pixels: int | None) -> tuple[Encode, str]:
    """Returns how observations become tokens with pictures of so many pixels at most, and how that is known."""
    if not (directory / "tokenizer_config.json").is_file():
        how = "with the most tiles, an upper estimate" if model_config.model_type in TILED else "counted by the patch"
        told = f"pictures {how}, text at {CHARS_PER_TOKEN} characters a token (there is no tokenizer)"
        return _estimated(model_config, max_pixels), told
    encoder = load_encoder(directory)
    encoder.limit_pixels(max_pixels)

    def encode(observation: Observation, is_first: bool) -> Segment:
        segment = encoder.encode(observation, is_first=is_first)
        return Segment(num_tokens=len(segment.ids), images=segment.images)

    return encode, "counted by the checkpoint's own tokenizer and image processor"


def _estimated(model_config: Any, max_pixels: int | None) -> Encode:
    """Returns how many tokens observations take as far as config.json tells."""

    def encode(observation: Observation, is_first: bool) -> Segment:
        images = tuple(picture(each.shape[:2], model_config, max_pixels) for each in observation_images(observation))
        num_chars = sum(len(value) for value in observation.values() if isinstance(value, str))
        num_text = -(-num_chars // CHARS_PER_TOKEN) + MARKUP_TOKENS
        return Segment(num_tokens=num_text + sum(image.num_tokens for image in images), images=images)

    return encode


def picture(size_px: tuple[int, int], model_config: Any, max_pixels: int | None = None) -> ProcessedImage:
    """Returns a black picture as a model's vision tower takes it: a Qwen-VL at its own size, others as most tiles.

    Args:
        size_px: Height and width.
        model_config: The model's.
        max_pixels: Most that the tower is shown, in all tiles.

    Raises:
        ConfigError: If the model is of another family, whose pictures only its image processor knows, or if the limit
            is below what the smallest picture has.
    """
    vision, kind = getattr(model_config, "vision_config", None), model_config.model_type
    if kind in TILED:
        return _tiled(model_config, _most_tiles(model_config, max_pixels))
    merge = getattr(vision, "spatial_merge_size", None)
    if vision is None or merge is None or not hasattr(vision, "temporal_patch_size"):
        raise ConfigError(
            f"How a {kind} takes pictures is not in its config.json. Put its tokenizer and preprocessor_config.json "
            "beside it, or leave pictures out of the count: --context-tokens N --image-tokens 0."
        )
    height, width = (side * merge for side in _blocks(size_px, vision.patch_size * merge, max_pixels))
    per_patch = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    return ProcessedImage(
        inputs={
            "pixel_values": np.zeros((height * width, per_patch), np.float32),
            "image_grid_thw": np.array([[1, height, width]]),
        },
        num_tokens=height * width // merge**2,
        key=b"",
    )


def _blocks(size_px: tuple[int, int], side_px: int, max_pixels: int | None) -> tuple[int, int]:
    """Returns how many squares a picture has along its sides: as many as are nearest, or that few that it may have."""
    height, width = (max(1, round(side / side_px)) for side in size_px)
    if max_pixels is None or height * width * side_px**2 <= max_pixels:
        return height, width
    require_pixels(max_pixels, side_px**2)
    scale = math.sqrt(max_pixels / math.prod(size_px)) / side_px
    height, width = (max(1, math.floor(side * scale)) for side in size_px)
    return height, width


def _most_tiles(model_config: Any, max_pixels: int | None) -> int:
    """Returns how many tiles a picture has at most, the whole beside them among them."""
    most, side_px = TILED[model_config.model_type], _tile_px(model_config)
    if max_pixels is None:
        return most
    require_pixels(max_pixels, side_px**2)
    return min(most, max_pixels // side_px**2)


def _tiled(model_config: Any, num_tiles: int) -> ProcessedImage:
    """Returns a white picture in so many tiles: SmolVLM2 leaves out tiles of nothing but zeros."""
    side = _tile_px(model_config)
    pixels = np.ones((num_tiles, model_config.vision_config.num_channels, side, side), np.float32)
    is_masked = model_config.model_type == "smolvlm"
    masks = {"pixel_attention_mask": np.ones((num_tiles, side, side), np.int64)} if is_masked else {}
    return ProcessedImage(
        inputs={"pixel_values": pixels, **masks}, num_tokens=num_tiles * _tokens_per_tile(model_config), key=b""
    )


def _tile_px(model_config: Any) -> int:
    size = model_config.vision_config.image_size
    return int(size if isinstance(size, int) else size[0])


def _tokens_per_tile(model_config: Any) -> int:
    if model_config.model_type == "gemma3":
        return int(model_config.mm_tokens_per_image)
    if model_config.model_type == "internvl":
        return int(model_config.image_seq_length)
    per_side = _tile_px(model_config) // model_config.vision_config.patch_size
    return int(per_side**2 // model_config.scale_factor**2)


def _as_said(config: RunConfig, plan: PlanConfig, model_config: Any) -> RowShape:
    """Returns a row of a length that the user says, as one turn; half of it is a picture unless that is said, too."""
    assert plan.context_tokens is not None
    num_tokens = plan.context_tokens
    num_image = num_tokens // 2 if plan.image_tokens is None else min(plan.image_tokens, num_tokens)
    images = (_picture_of(num_image, model_config),) if num_image else ()
    num_response = min(config.sampling.max_new_tokens, num_tokens)
    segment = Segment(num_tokens=max(0, num_tokens - num_response), images=images)
    return RowShape(
        num_turns=1,
        num_tokens=num_tokens,
        num_response_tokens=num_response,
        first=segment,
        later=segment,
        told="as --context-tokens says" + (", half of it pictures" if plan.image_tokens is None else ""),
    )


def _picture_of(num_tokens: int, model_config: Any) -> ProcessedImage:
    """Returns a picture of about so many tokens."""
    if model_config.model_type in TILED:
        return _tiled(model_config, max(1, num_tokens // _tokens_per_tile(model_config)))
    vision = getattr(model_config, "vision_config", None)
    side = getattr(vision, "patch_size", 14) * getattr(vision, "spatial_merge_size", 2)
    height = max(1, round(num_tokens**0.5))
    return picture((height * side, max(1, num_tokens // height) * side), model_config)
