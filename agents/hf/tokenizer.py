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
"""Coordinates in small pictures up to this are one token each."""
_MAX_TABLE_MM = 200
"""So are round coordinates on a table."""

GRID_WORLDS = ("VLM/FrozenLake-v0", "VLM/Sokoban-v0")


def suite_texts(
    env_ids: Sequence[str] = GRID_WORLDS,
    num_levels: int = 64,
    settings: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> Iterator[str]:
    """Yields what is read and written in episodes of some worlds, in every format and representation.

    Worlds that ask questions are read in the format that their arguments say, or their own: few have them all.

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
                yield from _episode_texts(make(env_id, **kwargs), num_levels, writer)
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


def telling_words(env_ids: Sequence[str]) -> tuple[str, ...]:
    """Returns the words of some worlds that tell one answer from another; each is a token of its own wherever it is.

    In stock phrases a colour would be part of as many tokens as there are phrases around it, each learnt on its own. A
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
    """Returns what names of generated reports are made of, such as `oakhampton_`, each a token too."""
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
        vocab_size: Most tokens, special ones and the 256 bytes included, and those of words and parts not.
        words: That never merge with their neighbours, not even with the s of a plural.
        parts: Of words, that never do either.

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
        vocab_size=vocab_size + 3 * len(own),  # each is made by several merges
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
