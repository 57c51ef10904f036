"""What a run is planned for: GPUs, and the length of its rows, measured on episodes or given by the user."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from agents.hf.family import ProcessedImage, require_pixels
from agents.hf.hf_agent import load_encoder
from agents.hf.sampling_config import context_limit
from agents.oracle import RandomAgent
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec
from training.memory_plan.plan_config import PlanConfig
from vlm_envs.errors import ConfigError, EngineUnavailableError, WorkerError
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Observation, observation_images
from vlm_envs.validation import require

NUM_EPISODES = 4
"""Episodes of each world that are looked at."""


CHARS_PER_TOKEN = 3
"""Fewer than tokenizers of this size have in plain English, about 4: coordinates and tags are shorter."""


TILED = {"internvl": 13, "smolvlm": 17, "gemma3": 1}
"""Tiles of a picture at most, as image processors have them by default: 12 or 4 x 4, and the whole beside them."""


MARKUP_TOKENS = 16
"""Tokens around what is said in a turn."""


GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class ImageSize:
    """What one image takes: tokens of the language model, and patches of the vision tower."""

    num_tokens: int
    num_patches: int


@dataclass(frozen=True, kw_only=True)
class Segment:
    """What an observation adds to a row: tokens, placeholders of its images included, and the images."""

    num_tokens: int
    images: tuple[ImageSize, ...] = ()

    @property
    def num_image_tokens(self) -> int:
        """Placeholders."""
        return sum(image.num_tokens for image in self.images)

    @property
    def num_patches(self) -> int:
        """Vectors that go through the vision tower."""
        return sum(image.num_patches for image in self.images)


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
    """Returns how observations become tokens, with images of so many pixels at most, and how that is known."""
    if not (directory / "tokenizer_config.json").is_file():
        how = "with the most tiles, an upper estimate" if model_config.model_type in TILED else "counted by the patch"
        told = f"pictures {how}, text at {CHARS_PER_TOKEN} characters a token (there is no tokenizer)"
        return partial(_estimated, model_config, max_pixels), told
    encoder = load_encoder(directory)
    encoder.limit_pixels(max_pixels)

    def encode(observation: Observation, is_first: bool) -> Segment:
        segment = encoder.encode(observation, is_first=is_first)
        images = tuple(_size_of(image, model_config) for image in segment.images)
        return Segment(num_tokens=len(segment.ids), images=images)

    return encode, "counted by the checkpoint's own tokenizer and image processor"


def _size_of(image: ProcessedImage, model_config: Any) -> ImageSize:
    """Returns what an image takes that a processor has made: patches of a grid, or tiles."""
    grid = image.inputs.get("image_grid_thw")
    num_tiles = 0 if grid is not None else len(image.inputs["pixel_values"])
    num_patches = int(grid.prod()) if grid is not None else num_tiles * _patches_per_side(model_config) ** 2
    return ImageSize(num_tokens=image.num_tokens, num_patches=num_patches)


def _estimated(model_config: Any, max_pixels: int | None, observation: Observation, is_first: bool) -> Segment:
    """Returns how many tokens an observation takes, as far as config.json says."""
    shapes = [image.shape[:2] for image in observation_images(observation)]
    images = tuple(image_size(shape, model_config, max_pixels) for shape in shapes)
    num_chars = sum(len(value) for value in observation.values() if isinstance(value, str))
    num_text = -(-num_chars // CHARS_PER_TOKEN) + MARKUP_TOKENS
    return Segment(num_tokens=num_text + sum(image.num_tokens for image in images), images=images)


def image_size(size_px: tuple[int, int], model_config: Any, max_pixels: int | None = None) -> ImageSize:
    """Returns what an image takes: of a Qwen-VL at its own size, of others in the most tiles.

    Args:
        size_px: Height and width.
        model_config: The model's.
        max_pixels: Most pixels that the tower is shown, in all tiles.

    Raises:
        ConfigError: If the model is of another family, whose images only its image processor knows, or if the limit is
            below the smallest image.
    """
    vision, kind = getattr(model_config, "vision_config", None), model_config.model_type
    if kind in TILED:
        most, side_px = TILED[kind], _tile_px(model_config)
        if max_pixels is not None:
            require_pixels(max_pixels, side_px**2)
            most = min(most, max_pixels // side_px**2)
        return _tiles(most, model_config)
    merge = getattr(vision, "spatial_merge_size", None)
    if vision is None or merge is None or not hasattr(vision, "temporal_patch_size"):
        raise ConfigError(
            f"How a {kind} takes pictures is not in its config.json. Put its tokenizer and preprocessor_config.json "
            "beside it, or leave pictures out of the count: --context-tokens N --image-tokens 0."
        )
    side_px = vision.patch_size * merge
    height, width = (max(1, round(side / side_px)) for side in size_px)
    if max_pixels is not None and height * width * side_px**2 > max_pixels:
        require_pixels(max_pixels, side_px**2)
        scale = math.sqrt(max_pixels / math.prod(size_px)) / side_px
        height, width = (max(1, math.floor(side * scale)) for side in size_px)
    return ImageSize(num_tokens=height * width, num_patches=height * width * merge**2)


def _tiles(num_tiles: int, model_config: Any) -> ImageSize:
    per_side = _patches_per_side(model_config)
    tokens_per_tile = {
        "gemma3": lambda: model_config.mm_tokens_per_image,
        "internvl": lambda: model_config.image_seq_length,
        "smolvlm": lambda: per_side**2 // model_config.scale_factor**2,
    }[model_config.model_type]()
    return ImageSize(num_tokens=num_tiles * int(tokens_per_tile), num_patches=num_tiles * per_side**2)


def _tile_px(model_config: Any) -> int:
    return _side(model_config.vision_config.image_size)


def _patches_per_side(model_config: Any) -> int:
    return _tile_px(model_config) // _side(model_config.vision_config.patch_size)


def _side(size: Any) -> int:
    return int(size if isinstance(size, int) else size[0])


def _as_said(config: RunConfig, plan: PlanConfig, model_config: Any) -> RowShape:
    """Returns a row of the length given by the user, as one turn; half of it is an image unless that is given too."""
    assert plan.context_tokens is not None
    num_tokens = plan.context_tokens
    num_image = num_tokens // 2 if plan.image_tokens is None else min(plan.image_tokens, num_tokens)
    num_response = min(config.sampling.max_new_tokens, num_tokens)
    images = (_image_of(num_image, model_config),) if num_image else ()
    segment = Segment(num_tokens=max(0, num_tokens - num_response), images=images)
    return RowShape(
        num_turns=1,
        num_tokens=num_tokens,
        num_response_tokens=num_response,
        first=segment,
        later=segment,
        told="as --context-tokens says" + (", half of it pictures" if plan.image_tokens is None else ""),
    )


def _image_of(num_tokens: int, model_config: Any) -> ImageSize:
    """Returns an image of about so many tokens."""
    if model_config.model_type in TILED:
        return _tiles(max(1, num_tokens // _tiles(1, model_config).num_tokens), model_config)
    merge = getattr(getattr(model_config, "vision_config", None), "spatial_merge_size", 2)
    return ImageSize(num_tokens=num_tokens, num_patches=num_tokens * merge**2)
