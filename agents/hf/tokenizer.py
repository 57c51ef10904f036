"""A small tokenizer trained on the suite's own texts, with the special tokens of the Qwen-VL family.

Coordinates, tags and moves are one token each, so that moves can be counted; everything between them may merge across
spaces, so that a whole stock phrase becomes a token. Any Unicode string survives the round trip (byte-level alphabet).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

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
"""Pieces that never merge with their neighbours, as a regular expression."""


GRID_WORLDS = ("VLM/FrozenLake-v0", "VLM/Sokoban-v0")


def suite_texts(
    env_ids: Sequence[str] = GRID_WORLDS,
    num_levels: int = 64,
    settings: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> Iterator[str]:
    """Yields what is read and written in episodes of some worlds, in every format and representation.

    Args:
        env_ids: The worlds.
        num_levels: Training levels per world and representation.
        settings: Arguments of question-answering worlds, by id, as often as one is played; what they read and write
            depends on them.

    Yields:
        Texts a policy reads or writes.
    """
    writer = OracleAgent(mistake_rate=0.3)
    for env_id in env_ids:
        task = make(env_id).unwrapped.task  # type: ignore[attr-defined]
        if task.formats is not FORMATS:
            for kwargs in (settings or {}).get(env_id, ({},)):
                formats = (kwargs["prompt_format"],) if kwargs.get("prompt_format") else task.formats
                for prompt_format in formats:
                    env = make(env_id, **{**kwargs, "prompt_format": prompt_format})
                    yield from _episode_texts(env, num_levels, writer)
            continue
        for prompt_format in FORMATS:
            yield make(env_id, prompt_format=prompt_format).reset(seed=0)[0]["text"]
        for representation in task.representations:
            yield from _episode_texts(make(env_id, representation=representation), num_levels, writer, max_turns=2)


def _episode_texts(
    env: gym.Env[Any, Any], num_levels: int, writer: OracleAgent, max_turns: int | None = None
) -> Iterator[str]:
    """Yields the texts of whole episodes, or of their first turns with what answers a response without tags."""
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


def build_tokenizer(texts: Iterable[str], *, vocab_size: int = 1024) -> PreTrainedTokenizerFast:
    """Returns a byte-level BPE tokenizer, trained on texts.

    Args:
        texts: Training texts.
        vocab_size: Most tokens, special ones and the 256 bytes included.

    Returns:
        A tokenizer with ChatML template, end-of-turn and padding tokens, usable by `save_pretrained`.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_UNITS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    cells = [f"({row}, {column})" for row in range(10) for column in range(10)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=_MAX_TOKEN_CHARS,
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, *cells * 50, *sorted(KNOWN_TAGS) * 50], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=IM_END,
        pad_token=END_OF_TEXT,
        chat_template=CHATML_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
