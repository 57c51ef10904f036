"""Small random models of further families, as `save_pretrained` writes them, each with a template as its family has.

The templates were written anew and behave as the published ones do, as of November 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    InternVLConfig,
    InternVLForConditionalGeneration,
    PreTrainedTokenizerFast,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
)
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from vlm_envs.responses.formats import KNOWN_TAGS

TILE_PX, PATCH_PX = 28, 7
TOKENS_PER_TILE = 4
GEMMA3_IMAGE_TOKENS = ("<start_of_image>", "<end_of_image>", "<image_soft_token>")
WIDTH = 64

INTERNVL_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}{% if part.type == 'image' %}<IMG_CONTEXT>\n{% elif part.type == 'text' %}"
    "{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML; a line break behind each picture."""

SMOLVLM_TEMPLATE = (
    "<|im_start|>{% for m in messages %}{{ m.role | capitalize }}{{ ':' if m.content[0].type == 'image' else ': ' }}"
    "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% elif part.type == 'image' %}<image>"
    "{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)
"""One start for all turns; roles by name, followed by a space unless a picture comes first."""

GEMMA3_TEMPLATE = (
    "{{ bos_token }}{% set rules = '' %}{% if messages[0].role == 'system' %}{% set rules = "
    "(messages[0].content if messages[0].content is string else messages[0].content[0].text) + '\n\n' %}"
    "{% set messages = messages[1:] %}{% endif %}{% for m in messages %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ rules if loop.first else '' }}"
    "{% if m.content is string %}{{ m.content | trim }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'image' %}<start_of_image>{% elif part.type == 'text' %}{{ part.text | trim }}{% endif %}"
    "{% endfor %}{% endif %}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
"""Rules in front of the first text, white space trimmed, roles strictly in turn."""

_TEXT_CONFIG = {
    "hidden_size": WIDTH,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 4096,
}
_VISION_CONFIG = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "patch_size": PATCH_PX,
}
_TEXTS = (
    "You are on a frozen lake. Go Up, Down, Left or Right.",
    "System: User: Assistant: system user assistant model",
)


def build_tokenizer(special: Sequence[str], *, template: str, **named: Any) -> PreTrainedTokenizerFast:
    """Returns a byte-level BPE tokenizer that splits words as GPT-2 does, with a family's special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text for text in (*_TEXTS, *KNOWN_TAGS) for _ in range(20)], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=template, clean_up_tokenization_spaces=False, **named
    )


def save_tiny_internvl(directory: Path) -> None:
    """Writes a random InternVL 3: tiles of 28 pixels, four tokens each, at most four of them and a thumbnail."""
    tokenizer = build_tokenizer(
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>"),
        template=INTERNVL_TEMPLATE,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
        },
    )
    config = InternVLConfig(
        text_config={**_TEXT_CONFIG, "model_type": "qwen2", "vocab_size": len(tokenizer)},
        vision_config={**_VISION_CONFIG, "image_size": [TILE_PX, TILE_PX], "patch_size": [PATCH_PX, PATCH_PX]},
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=TOKENS_PER_TILE,
        tie_word_embeddings=False,
    )
    _save(directory, InternVLForConditionalGeneration, config, tokenizer)
    GotOcr2ImageProcessorPil(size={"height": TILE_PX, "width": TILE_PX}, max_patches=4).save_pretrained(directory)


def save_tiny_smolvlm(directory: Path) -> None:
    """Writes a random SmolVLM2: pictures of 56 pixels in tiles of 28, four tokens each, and the whole."""
    around, whole, image = "<fake_token_around_image>", "<global-img>", "<image>"
    places = [f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)]
    tokenizer = build_tokenizer(
        ("<|endoftext|>", "<|im_start|>", "<end_of_utterance>", around, whole, image, *places),
        template=SMOLVLM_TEMPLATE,
        bos_token="<|im_start|>",
        eos_token="<end_of_utterance>",
        pad_token="<|endoftext|>",
        extra_special_tokens={"fake_image_token": around, "image_token": image, "global_image_token": whole},
    )
    config = SmolVLMConfig(
        text_config={**_TEXT_CONFIG, "model_type": "llama", "vocab_size": len(tokenizer)},
        vision_config={**_VISION_CONFIG, "image_size": TILE_PX},
        image_token_id=tokenizer.convert_tokens_to_ids(image),
        scale_factor=2,
        tie_word_embeddings=False,
    )
    _save(directory, SmolVLMForConditionalGeneration, config, tokenizer)
    SmolVLMImageProcessorPil(
        size={"longest_edge": 2 * TILE_PX}, max_image_size={"longest_edge": TILE_PX}
    ).save_pretrained(directory)


def save_tiny_gemma3(directory: Path) -> None:
    """Writes a random Gemma 3: pictures of 28 pixels, four tokens each; three of four layers see 16 tokens."""
    tokenizer = build_tokenizer(
        ("<pad>", "<bos>", "<start_of_turn>", "<end_of_turn>", *GEMMA3_IMAGE_TOKENS),
        template=GEMMA3_TEMPLATE,
        bos_token="<bos>",
        eos_token="<end_of_turn>",
        pad_token="<pad>",
    )
    start, end, image = tokenizer.convert_tokens_to_ids(list(GEMMA3_IMAGE_TOKENS))
    config = Gemma3Config(
        text_config={
            **_TEXT_CONFIG,
            "vocab_size": len(tokenizer),
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
            "sliding_window": 16,
            "head_dim": 32,
            "query_pre_attn_scalar": 32,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={**_VISION_CONFIG, "image_size": TILE_PX, "model_type": "siglip_vision_model"},
        mm_tokens_per_image=TOKENS_PER_TILE,
        boi_token_index=start,
        eoi_token_index=end,
        image_token_index=image,
        tie_word_embeddings=False,
    )
    _save(directory, Gemma3ForConditionalGeneration, config, tokenizer)
    Gemma3ImageProcessorPil(size={"height": TILE_PX, "width": TILE_PX}).save_pretrained(directory)


SAVERS: dict[str, Callable[[Path], None]] = {
    "internvl": save_tiny_internvl,
    "smolvlm": save_tiny_smolvlm,
    "gemma3": save_tiny_gemma3,
}


def _save(directory: Path, model_class: Any, config: Any, tokenizer: PreTrainedTokenizerFast) -> None:
    """Writes a model whose every weight is random, those that start as zero included, and its tokenizer."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = model_class(config)
        for name, weight in model.named_parameters():
            if weight.dim() > 1 or "norm" not in name.lower():
                weight.normal_(std=0.15)
    assert sum(weight.numel() for weight in model.parameters()) < 1_000_000
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
