"""From observations to tokens: one chat segment per turn, rendered once and never again.

Image placeholders are expanded here, and text from the world can never become a special token. At construction the
segments are compared with the checkpoint's own chat template, so that a model is never fed a dialect it was not
trained on.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerBase

from agents.hf.families.family import ProcessedImage
from agents.hf.template import PROBE, SYSTEM_PROBE, mismatch, rendered_probe
from agents.hf.tokenizer import IM_END, IM_START, IMAGE_PAD, VISION_END, VISION_START
from vlm_envs.responses.formats import KNOWN_TAGS
from vlm_envs.trajectory import IntArray, Observation, observation_images

MAX_ASPECT_RATIO = 200
"""Longer side by shorter side of the most elongated picture that the family's image processors take."""


@dataclass(frozen=True, kw_only=True)
class PromptSegment:
    """What one observation appends to a conversation.

    Attributes:
        ids: int64[P], tokens, image placeholders expanded, ending where the response begins.
        images: The pictures, in the order of their placeholders.
    """

    ids: IntArray
    images: tuple[ProcessedImage, ...]


def showable(image: npt.NDArray[np.uint8], max_aspect_ratio: int = MAX_ASPECT_RATIO) -> npt.NDArray[np.uint8]:
    """Returns a picture that an image processor takes: a line of pixels gets black to its right, or below it.

    Pixels keep their places, so coordinates in pixels stay what they were.

    Args:
        image: uint8[height, width, 3].
        max_aspect_ratio: Longer side by shorter side of what is taken.

    Returns:
        uint8[height, width, 3], at most so many times as long as wide.
    """
    height, width = image.shape[:2]
    shortest = -(-max(height, width) // max_aspect_ratio)
    down, across = max(0, shortest - height), max(0, shortest - width)
    return np.pad(image, ((0, down), (0, across), (0, 0))) if down or across else image


def encodable(text: str) -> str:
    """Returns a text with halves of surrogate pairs, which no tokenizer takes, as question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


class ChatEncoder:
    """Encodes observations as ChatML segments of the Qwen-VL family.

    Args:
        tokenizer: The checkpoint's tokenizer.
        image_processor: The checkpoint's image processor (the PIL one; torchvision is not needed).
        cache_bytes: Most bytes of processed pictures kept, so that a picture is patched once per iteration.

    Raises:
        ValueError: If the tokenizer lacks the family's special tokens, its chat template says something else (see
            `agents.hf.template`), or a format's tag is one of its special tokens (such a tag would vanish from decoded
            text).
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, *, cache_bytes: int = 256 * 2**20
    ) -> None:
        self.tokenizer, self.image_processor = tokenizer, image_processor
        self._cache: OrderedDict[bytes, ProcessedImage] = OrderedDict()
        self._free_bytes = cache_bytes
        self._ids = {
            token: self._special_id(token) for token in (IM_START, IM_END, IMAGE_PAD, VISION_START, VISION_END)
        }
        self.end_of_turn_id = self._ids[IM_END]
        self.image_token_id = self._ids[IMAGE_PAD]
        self.pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.end_of_turn_id
        self._prefix_ids: list[int] = []
        self._has_tried_system = False
        self._check_tags()
        self._adopt_template()

    def encode(self, observation: Observation, *, is_first: bool, needs_end_of_turn: bool = False) -> PromptSegment:
        """Returns the segment that shows an observation and opens the response.

        Args:
            observation: What the agent is shown. A system message goes where the conversation starts, in place of the
                template's own.
            is_first: Whether the conversation starts here.
            needs_end_of_turn: Whether the previous response was cut off before its end-of-turn token.

        Raises:
            ValueError: If there is a system message and the checkpoint's template does not take it as ChatML does.
        """
        images = self.process_images(observation_images(observation))
        opening = self._opening_ids(observation.get("system", "")) if is_first else self._text_ids("\n")
        ids = [*opening, *self._turn_ids(observation["text"], [image.num_tokens for image in images])]
        if needs_end_of_turn:
            ids = [self.end_of_turn_id, *ids]
        return PromptSegment(ids=np.asarray(ids, np.int64), images=images)

    def process_images(self, images: Sequence[npt.NDArray[np.uint8]]) -> tuple[ProcessedImage, ...]:
        """Returns pictures as the model takes them; those seen lately are not processed again."""
        return tuple(self._process(image) for image in images)

    def encode_response(self, text: str) -> IntArray:
        """Returns the tokens of a response written by an expert, end of turn included."""
        return np.asarray([*self._text_ids(text), self.end_of_turn_id], np.int64)

    def encode_text(self, text: str) -> IntArray:
        """Returns the tokens of a part of a response; look-alikes of special tokens stay text."""
        return np.asarray(self._text_ids(text), np.int64)

    def decode(self, response_ids: Sequence[int] | IntArray) -> str:
        """Returns a response as text, without special tokens."""
        return str(self.tokenizer.decode(np.asarray(response_ids), skip_special_tokens=True))

    def suppressed_ids(self) -> list[int]:
        """Returns the ids a policy must never sample: every special token but the end of turn.

        Added tokens that are not special, such as the `<think>` of some releases, are ordinary text and stay.
        """
        added = {token_id for token_id, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        special = added | set(self.tokenizer.all_special_ids) | set(self._ids.values())
        return sorted(special - {self.end_of_turn_id})

    def _opening_ids(self, system: str) -> list[int]:
        """Returns what stands before the first turn: a system message, or what the template has without one."""
        if not system:
            return list(self._prefix_ids)
        if not self._has_tried_system:
            self._require_rendered_alike(SYSTEM_PROBE)
            self._has_tried_system = True
        return self._system_ids(system)

    def _system_ids(self, system: str) -> list[int]:
        """Returns a system message."""
        return [self._ids[IM_START], *self._text_ids(f"system\n{system}"), self.end_of_turn_id, *self._text_ids("\n")]

    def _turn_ids(self, text: str, num_image_tokens: Sequence[int]) -> list[int]:
        """Returns one user turn and the opening of the assistant's."""
        ids = [self._ids[IM_START]]
        if num_image_tokens:
            ids += self._text_ids("user\n")
            for num_tokens in num_image_tokens:
                ids += [self._ids[VISION_START], *[self.image_token_id] * num_tokens, self._ids[VISION_END]]
            ids += self._text_ids(text)
        else:
            ids += self._text_ids("user\n" + text)
        ids += [self.end_of_turn_id, *self._text_ids("\n"), self._ids[IM_START], *self._text_ids("assistant\n")]
        return ids

    def _text_ids(self, text: str) -> list[int]:
        """Returns the tokens of plain text; look-alikes of special tokens stay text."""
        return list(self.tokenizer.encode(encodable(text), add_special_tokens=False, split_special_tokens=True))

    def _process(self, image: npt.NDArray[np.uint8]) -> ProcessedImage:
        """Returns the picture as the model takes it, from the cache when it was seen lately."""
        key = hashlib.blake2b(image.tobytes(), digest_size=16).digest() + bytes(str(image.shape), "ascii")
        cached = self._cache.get(key)
        if cached is None:
            # Where channels are has to be said: a picture of one or three rows could be read either way.
            processed = self.image_processor(
                images=[showable(image)], return_tensors="np", input_data_format="channels_last"
            )
            grid = np.asarray(processed["image_grid_thw"], np.int64)
            cached = ProcessedImage(
                inputs={"pixel_values": np.asarray(processed["pixel_values"], np.float32), "image_grid_thw": grid},
                num_tokens=int(grid.prod()) // self.image_processor.merge_size**2,
                key=key,
            )
            self._cache[key] = cached
            self._free_bytes -= cached.nbytes
            while self._free_bytes < 0:
                _, oldest = self._cache.popitem(last=False)
                self._free_bytes += oldest.nbytes
        else:
            self._cache.move_to_end(key)
        return cached

    def _special_id(self, token: str) -> int:
        token_id = self.tokenizer.convert_tokens_to_ids(token)
        if not isinstance(token_id, int) or token_id == self.tokenizer.unk_token_id:
            raise ValueError(
                f"The tokenizer has no token {token}; expected a Qwen2.5-VL or Qwen3-VL checkpoint, or one made by "
                "`agents.hf.tiny.save_tiny`."
            )
        return token_id

    def _check_tags(self) -> None:
        """Refuses a tokenizer that would swallow a format's tags."""
        swallowed = [tag for tag in sorted(KNOWN_TAGS) if self.decode(self.tokenizer.encode(tag)) != tag]
        if swallowed:
            raise ValueError(
                f"The tokenizer treats {', '.join(swallowed)} as special tokens, so format rewards could never be "
                "paid. Use another checkpoint, or make these ordinary tokens of its tokenizer."
            )

    def _adopt_template(self) -> None:
        """Takes the template's system prefix and checks that our segments are what the template renders."""
        prefix = rendered_probe(self.tokenizer).partition(f"{IM_START}user")[0]
        self._prefix_ids = list(self.tokenizer.encode(prefix, add_special_tokens=False)) if prefix else []
        self._require_rendered_alike("")

    def _require_rendered_alike(self, system: str) -> None:
        """Refuses a template that renders the conversation of `PROBE` otherwise, with a system message or without."""
        rendered = rendered_probe(self.tokenizer, system)
        ours = self._system_ids(system) if system else list(self._prefix_ids)
        for number, exchange in enumerate(PROBE):
            ours += [] if number == 0 else self._text_ids("\n")
            ours += self._turn_ids(exchange.text, [1] * exchange.num_images)
            if exchange.answer is not None:
                ours += [*self._text_ids(exchange.answer), self.end_of_turn_id]
        if ours != list(self.tokenizer.encode(rendered, add_special_tokens=False)):
            raise ValueError(mismatch(rendered, str(self.tokenizer.decode(ours)), system))
