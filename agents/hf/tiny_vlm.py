"""The embedded tiny VLM: a real Qwen3-VL of about a million parameters, and a tokenizer of the suite's own texts.

The tokenizer has the special tokens of the Qwen-VL family. Coordinates, tags, and moves are one token each, so
that moves can be counted; all other text may merge across spaces, so that a stock phrase becomes one token. Any
Unicode string survives the round trip (byte-level alphabet).

The model exists so that the whole pipeline runs and learns on two CPU cores through the code that trains larger
models. Its vision tower has learned absolute patch positions and DeepStack, which let such a small model locate
objects; patch 14 and merge 2 make one visual token of each 28-pixel cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agents.oracle import OracleAgent
from vlm_envs.registration import make
from vlm_envs.responses.formats import FORMATS, KNOWN_TAGS
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import observation_words

IM_START, IM_END = "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE_PAD, VIDEO_PAD = "<|image_pad|>", "<|video_pad|>"
END_OF_TEXT = "<|endoftext|>"
SPECIAL_TOKENS = (END_OF_TEXT, IM_START, IM_END, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD)

CHATML_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML with Qwen-VL's image markers."""

_MAX_TOKEN_CHARS = 24
_UNITS = "|".join(
    [
        *sorted(KNOWN_TAGS),
        r"\(\d{1,2}, \d{1,2}\)",
        "Up|Down|Left|Right",
        "move(?:ahead|back|left|right)|rotate(?:left|right)|look(?:up|down)",
        r"\n|\d+",
    ]
)
"""Pieces that never merge with adjacent text, as a regular expression."""


_WORLD_OF_REPORTS = "VLM/DocQA-v0"
_WORLD_OF_CLIPS = "VLM/VideoQA-v0"
_WORLDS_OF_AN_ARM = "VLM/PrimitiveSkill"
_WORLDS_OF_SCENES = frozenset(("VLM/ZoomQA-v0", "VLM/RewardJudging-v0", _WORLD_OF_CLIPS))
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six")
_YEARS = 2000, 2031
_PLACES = ("left", "right", "above", "below")
_SIDES = _PLACES[:2]
_WAYS = ("up", "down", "upper", "lower")
_MAX_PIXEL = 128
"""Coordinates in small images up to this are one token each."""
_MAX_TABLE_MM = 200
"""Round coordinates on a table up to this are one token each."""

GRID_WORLDS = ("VLM/FrozenLake-v0", "VLM/Sokoban-v0")

PATCH_PX = 14
MERGE = 2


def suite_texts(
    env_ids: Sequence[str] = GRID_WORLDS,
    num_levels: int = 64,
    settings: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> Iterator[str]:
    """Yields the texts read and written in episodes of some worlds, in every format and representation.

    Question-answering worlds are read only in the format of their arguments, or their default: few have all formats.

    Args:
        env_ids: The worlds.
        num_levels: Training levels per world and representation.
        settings: Argument sets of question-answering worlds, by ID, each played separately, because their texts depend
            on them.

    Yields:
        Texts a policy reads or writes.
    """
    writer = OracleAgent(mistake_rate=0.3)
    for env_id in env_ids:
        task = make(env_id).unwrapped.task  # type: ignore[attr-defined]
        if task.formats is not FORMATS:
            for kwargs in (settings or {}).get(env_id, ({},)):
                yield from _episode_texts(make(env_id, **kwargs), num_levels, writer)
            continue
        for prompt_format in FORMATS:
            yield make(env_id, prompt_format=prompt_format).reset(seed=0)[0]["text"]
        for representation in task.representations:
            yield from _episode_texts(make(env_id, representation=representation), num_levels, writer, max_turns=2)


def _episode_texts(
    env: gym.Env[Any, Any], num_levels: int, writer: OracleAgent, max_turns: int | None = None
) -> Iterator[str]:
    """Yields the texts of full episodes, or of their first turns with the reply to a response without tags."""
    for seed in split_seeds("train", num_levels):
        yield observation_words(env.reset(seed=seed)[0])
        for turn in itertools.count():
            if turn == max_turns:
                yield env.step("no tags")[0]["text"]
                break
            response = writer.write(env.unwrapped)  # type: ignore[arg-type]
            observation, _, terminated, truncated, _ = env.step(response)
            yield response
            yield observation["text"]
            if terminated or truncated:
                break


def telling_words(env_ids: Sequence[str]) -> tuple[str, ...]:
    """Returns the words that distinguish one answer from another in some worlds; each is always its own token.

    Otherwise a color would be part of a separate token for each stock phrase around it, each learned separately. A
    name in pieces takes many steps to copy.
    """
    words: list[str] = []
    if _WORLDS_OF_SCENES.intersection(env_ids):
        from vlm_envs.content.colors import COLORS
        from vlm_envs.content.scenes.scene_kinds import KINDS

        words += [*COLORS, *KINDS, *_NUMBERS, *_PLACES, *map(str, range(_MAX_PIXEL + 1))]
    if _WORLD_OF_CLIPS in env_ids:
        words += _WAYS
    if any(env_id.startswith(_WORLDS_OF_AN_ARM) for env_id in env_ids):
        from vlm_envs.worlds.primitive_skill.skill_state import COLORS as CUBES

        words += [*CUBES, *_SIDES, *map(str, range(0, _MAX_TABLE_MM + 1, 10))]
    if _WORLD_OF_REPORTS in env_ids:
        from vlm_envs.content.reports.subjects import FIRST_NAMES, LAST_NAMES, PROJECTS

        words += [*FIRST_NAMES, *LAST_NAMES, *PROJECTS, *map(str, range(*_YEARS))]
    return tuple(words)


def file_name_parts(env_ids: Sequence[str]) -> tuple[str, ...]:
    """Returns parts of the names of generated reports, such as `oakhampton_`, each of which is also a token."""
    if _WORLD_OF_REPORTS not in env_ids:
        return ()
    from vlm_envs.content.reports.subjects import TOWNS, TRADES

    names = (*TOWNS, *(kind for trade in TRADES for kind in trade.kinds))
    return tuple(f"{name.replace(chr(39), '').replace(' ', '_').lower()}_" for name in names)


def build_tokenizer(
    texts: Iterable[str], *, vocab_size: int = 1024, words: Sequence[str] = (), parts: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """Returns a byte-level BPE tokenizer, trained on texts.

    Args:
        texts: Training texts.
        vocab_size: Most tokens, including special ones and the 256 bytes, excluding those of words and parts.
        words: Words that never merge with adjacent text, not even with a plural s.
        parts: Parts of words that never merge either.

    Returns:
        A tokenizer with ChatML template, end-of-turn and padding tokens, usable by `save_pretrained`.
    """
    own = [*(f"{space}{word}" for word in words for space in ("", " ")), *parts]
    units = "|".join(
        (
            _UNITS,
            *([rf" ?\b(?:{'|'.join(words)})(?=s?\b)"] if words else []),
            *parts,
        )
    )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(units), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    cells = [f"({row}, {column})" for row in range(10) for column in range(10)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size + 3 * len(own),  # each takes several merges
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=_MAX_TOKEN_CHARS,
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, *cells * 50, *own * 50, *sorted(KNOWN_TAGS) * 50], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=IM_END,
        pad_token=END_OF_TEXT,
        chat_template=CHATML_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


@dataclass(frozen=True, kw_only=True)
class TinyConfig:
    """Sizes of the tiny VLM.

    Attributes:
        width: Hidden size of the language model.
        num_layers: Number of its decoder layers.
        num_heads: Number of its attention heads, 32 wide each.
        num_kv_heads: Number of its key-value heads.
        mlp_width: Its feed-forward width.
        vision_width: Hidden size of the vision tower.
        num_vision_layers: Layers of the vision tower; the first one feeds DeepStack.
        vision_grid: Learned patch positions per side; larger images interpolate them.
        max_positions: Longest sequence, in tokens.
        init_std: Standard deviation of the initial weights; larger than the family's 0.02, as a narrow model needs.
        position_init_std: Standard deviation of the initial patch positions. The model must locate patches before it
            can learn anything else; from 0.02 it stays at chance several times longer.
        residual_scale: Factor on the initial weights with which the language model's layers write into the residual
            stream. At 1 their output is so much larger than the embeddings that it masks a token's identity, and
            copying is learned ten times more slowly than at 0.15.
        seed: Seed of the initial weights.
    """

    width: int = 128
    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 2
    mlp_width: int = 384
    vision_width: int = 64
    num_vision_layers: int = 2
    vision_grid: int = 16
    max_positions: int = 4096
    init_std: float = 0.06
    position_init_std: float = 0.5
    residual_scale: float = 1.0
    seed: int = 0

    def model_config(self, vocab_size: int, text: Mapping[str, Any], **token_ids: Any) -> Qwen3VLConfig:
        """Returns the model's configuration.

        Args:
            vocab_size: Number of tokens.
            text: Additional settings of the language model.
            **token_ids: Ids of the special tokens of images.
        """
        head_dim = self.width // self.num_heads
        return Qwen3VLConfig(
            text_config={
                "vocab_size": vocab_size,
                "hidden_size": self.width,
                "intermediate_size": self.mlp_width,
                "num_hidden_layers": self.num_layers,
                "num_attention_heads": self.num_heads,
                "num_key_value_heads": self.num_kv_heads,
                "head_dim": head_dim,
                "initializer_range": self.init_std,
                "max_position_embeddings": self.max_positions,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10_000.0,
                    "mrope_section": [head_dim // 2 - 2 * (head_dim // 6), head_dim // 6, head_dim // 6],
                    "mrope_interleaved": True,
                },
                **text,
            },
            vision_config={
                "depth": self.num_vision_layers,
                "hidden_size": self.vision_width,
                "intermediate_size": 2 * self.vision_width,
                "num_heads": self.vision_width // 16,
                "patch_size": PATCH_PX,
                "spatial_merge_size": MERGE,
                "temporal_patch_size": 1,
                "out_hidden_size": self.width,
                "num_position_embeddings": self.vision_grid**2,
                "deepstack_visual_indexes": [0],
                "initializer_range": self.init_std,
            },
            tie_word_embeddings=True,
            **token_ids,
        )


def build_tiny_model(
    tokenizer: PreTrainedTokenizerBase, config: TinyConfig | None = None
) -> Qwen3VLForConditionalGeneration:
    """Returns a randomly initialized tiny Qwen3-VL for a tokenizer."""
    config = config or TinyConfig()

    def token_id(token: str) -> int:
        found = tokenizer.convert_tokens_to_ids(token)
        assert isinstance(found, int), f"{token} is one token"
        return found

    model_config = config.model_config(
        len(tokenizer),
        {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id},
        image_token_id=token_id(IMAGE_PAD),
        video_token_id=token_id(VIDEO_PAD),
        vision_start_token_id=token_id(VISION_START),
        vision_end_token_id=token_id(VISION_END),
    )
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        model = Qwen3VLForConditionalGeneration(model_config)
        torch.nn.init.normal_(model.model.visual.pos_embed.weight, std=config.position_init_std)
    with torch.no_grad():
        for layer in model.model.language_model.layers:
            layer.self_attn.o_proj.weight *= config.residual_scale
            layer.mlp.down_proj.weight *= config.residual_scale
    model.generation_config.eos_token_id = token_id(IM_END)
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def build_tiny_image_processor() -> Qwen2VLImageProcessorPil:
    """Returns the family's image processor, configured to keep grid images at their size."""
    return Qwen2VLImageProcessorPil(
        patch_size=PATCH_PX,
        temporal_patch_size=1,
        merge_size=MERGE,
        size={"shortest_edge": (PATCH_PX * MERGE) ** 2, "longest_edge": (PATCH_PX * MERGE * 32) ** 2},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )


def save_tiny(
    directory: str | Path,
    config: TinyConfig | None = None,
    *,
    env_ids: Sequence[str] = GRID_WORLDS,
    settings: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> None:
    """Builds a tokenizer, an image processor, and a model, and saves them like any other checkpoint.

    Args:
        directory: Target directory; created if needed.
        config: Sizes.
        env_ids: Worlds whose texts the tokenizer is trained on.
        settings: Argument sets of question-answering worlds, by ID, each played separately.
    """
    tokenizer = build_tokenizer(
        suite_texts(env_ids, settings=settings), words=telling_words(env_ids), parts=file_name_parts(env_ids)
    )
    build_tiny_model(tokenizer, config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    build_tiny_image_processor().save_pretrained(directory)
