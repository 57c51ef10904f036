"""Encoding of observations into tokens, and conversations: one chat segment per turn, which is never changed later.

The text around messages and images is read from the checkpoint's own chat template and compared with its rendering, so
that a model never gets a format it was not trained on. Text from the world can never become a special token.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerBase

from agents.agent import Response
from agents.hf.chat_template import (
    PROBE,
    SYSTEM_PROBE,
    Dialect,
    Heads,
    mismatch,
    read_dialect,
    read_system,
    rendered_probe,
)
from agents.hf.family import ImageReader, ProcessedImage
from agents.hf.sampling_config import SamplingConfig, require_room
from vlm_envs.responses.formats import KNOWN_TAGS, encodable
from vlm_envs.tools.coordinates import names_pixels
from vlm_envs.trajectory import IntArray, Observation, observation_images, require_image

Piece = int | str
"""The ID of a special token, or text without special tokens."""


@dataclass(frozen=True, kw_only=True)
class PromptSegment:
    """The tokens and images that one observation appends to a conversation.

    Attributes:
        ids: int64[P], tokens with image placeholders expanded, ending where the response begins.
        images: The images, in the order of their placeholders.
    """

    ids: IntArray
    images: tuple[ProcessedImage, ...]

    @property
    def key(self) -> tuple[bytes, ...]:
        """Identifies the content; equal keys mean equal content."""
        return self.ids.tobytes(), *(image.key for image in self.images)


def showable(image: npt.NDArray[np.uint8], max_aspect_ratio: int) -> npt.NDArray[np.uint8]:
    """Returns an image that an image processor accepts: a very narrow one is padded with black on the right or below.

    Pixels keep their positions, so pixel coordinates stay valid.

    Args:
        image: uint8[height, width, 3].
        max_aspect_ratio: Largest accepted ratio of the longer to the shorter side.

    Returns:
        uint8[height, width, 3] within that ratio.
    """
    height, width = image.shape[:2]
    shortest = -(-max(height, width) // max_aspect_ratio)
    down, across = max(0, shortest - height), max(0, shortest - width)
    return np.pad(image, ((0, down), (0, across), (0, 0))) if down or across else image


class ChatEncoder:
    """Encodes observations in the format of a checkpoint's chat template.

    Args:
        tokenizer: The checkpoint's tokenizer.
        image_reader: Converts images into the model's inputs.
        cache_bytes: Most bytes of processed images kept, so that each image is processed once per iteration.

    Attributes:
        end_of_turn_id: The token that ends a response.
        image_token_id: The placeholder token for image features.
        pad_id: The padding token.

    Raises:
        ValueError: If the chat template is not supported (see `agents.hf.chat_template`), or a format's tag is a
            special token (such a tag would vanish from decoded text).
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, image_reader: ImageReader, *, cache_bytes: int = 256 * 2**20
    ) -> None:
        self.tokenizer, self.image_reader = tokenizer, image_reader
        self._cache: OrderedDict[bytes, tuple[ProcessedImage, list[Piece]]] = OrderedDict()
        self._free_bytes = cache_bytes
        self._check_tags()
        self._special_ids = _special_ids(tokenizer) | {
            token: _token_id(tokenizer, token) for token in (image_reader.marker, image_reader.placeholder)
        }
        self._special_pattern = re.compile("(" + "|".join(map(re.escape, self._special_ids)) + ")")
        self.image_token_id = self._special_ids[image_reader.placeholder]
        self._dialect, self._system = read_dialect(tokenizer, image_reader.marker), ("", Heads(text="", images=""))
        self._has_tried_system = self._has_warned = False
        self.end_of_turn_id, self._later = self._ending(self._dialect)
        self.pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.end_of_turn_id
        self._require_rendered_alike("")

    def encode(self, observation: Observation, *, is_first: bool, needs_end_of_turn: bool = False) -> PromptSegment:
        """Returns the segment that shows an observation and opens the response.

        Args:
            observation: The observation. A system message is placed at the start of the conversation, instead of the
                template's default.
            is_first: Whether the conversation starts here.
            needs_end_of_turn: Whether the previous response was cut off before its end-of-turn token.

        Raises:
            ValueError: If there is a system message and the checkpoint's template does not keep it unchanged.
        """
        images, system = observation_images(observation), observation.get("system", "")
        segment = self.encode_content(
            (*images, observation["text"]), system=system, is_first=is_first, needs_end_of_turn=needs_end_of_turn
        )
        if not self._has_warned:
            self._warn_of_resized(images, segment.images, f"{system}\n{observation['text']}")
        return segment

    def _warn_of_resized(
        self, images: Sequence[npt.NDArray[np.uint8]], processed: Sequence[ProcessedImage], prompt: str
    ) -> None:
        """Warns once if an image is resized for the model although the prompt refers to the image's pixels."""
        for image, read in zip(images, processed, strict=True):
            (height, width), size = image.shape[:2], read.size_px
            if size is None or size == (height, width):
                continue
            if size == showable(image, self.image_reader.max_aspect_ratio).shape[:2] or not names_pixels(prompt):
                continue
            self._has_warned = True
            warnings.warn(
                f"The prompt asks for pixels of an image of {width} x {height}, but this checkpoint's image processor "
                f"resizes it to {size[1]} x {size[0]}, so boxes and points miss. Make the world with "
                "coordinates='thousandths', or for Qwen2.5-VL and Qwen3-VL with coordinates='pixels' and its "
                "max_pixels at most max_image_pixels.",
                stacklevel=3,
            )
            return

    def encode_content(
        self,
        content: Sequence[str | npt.NDArray[np.uint8]],
        *,
        system: str = "",
        is_first: bool,
        needs_end_of_turn: bool = False,
    ) -> PromptSegment:
        """Returns the segment that shows texts and images in any order and opens the response.

        Args:
            content: Texts, and images of uint8[height, width, 3], in order.
            system: System message at the start of a conversation; empty for none.
            is_first: Whether the conversation starts here.
            needs_end_of_turn: Whether the previous response was cut off before its end-of-turn token.

        Raises:
            ValueError: If there is a system message and the checkpoint's template does not keep it unchanged.
        """
        read = [part if isinstance(part, str) else self._read(part) for part in content]
        turn = self._turn([part if isinstance(part, str) else part[1] for part in read])
        starts_with_image = bool(content) and not isinstance(content[0], str)
        if is_first:
            turn = [*self._opening(system, with_images=starts_with_image), *turn]
        else:
            end: list[Piece] = [self.end_of_turn_id] if needs_end_of_turn else []
            turn = [*end, *self._pieces(_head(self._later, with_images=starts_with_image)), *turn]
        images = tuple(part[0] for part in read if not isinstance(part, str))
        return PromptSegment(ids=np.asarray(self._ids(turn), np.int64), images=images)

    def process_images(self, images: Sequence[npt.NDArray[np.uint8]]) -> tuple[ProcessedImage, ...]:
        """Returns images as the model's inputs; recently seen ones come from a cache."""
        return tuple(self._read(image)[0] for image in images)

    def limit_pixels(self, max_pixels: int | None) -> None:
        """Scales down images with more pixels from now on, see `agents.hf.family`; None changes nothing.

        Raises:
            ConfigError: If the limit is below the size of the smallest image.
        """
        if max_pixels is not None:
            self.image_reader.limit_pixels(max_pixels)
            self._free_bytes += sum(image.nbytes for image, _ in self._cache.values())
            self._cache.clear()

    def encode_response(self, text: str) -> IntArray:
        """Returns the tokens of an expert's response, including the end of the turn."""
        return np.append(self.encode_text(text, is_start=True), self.end_of_turn_id)

    def encode_text(self, text: str, *, is_start: bool = False) -> IntArray:
        """Returns the tokens of part of a response; text that looks like a special token stays text."""
        before = self._dialect.before_answer if is_start else ""
        return np.asarray(self._ids([before, encodable(text)]), np.int64)

    def decode(self, response_ids: Sequence[int] | IntArray) -> str:
        """Returns a response as text, without special tokens and the template's prefix of every answer."""
        text = str(self.tokenizer.decode(np.asarray(response_ids), skip_special_tokens=True))
        return text.removeprefix(self._dialect.before_answer)

    def suppressed_ids(self) -> list[int]:
        """Returns the IDs a policy must never sample: every special token except the end of turn.

        Added tokens that are not special, such as the `<think>` of some releases, are ordinary text and stay.
        """
        return sorted(set(self._special_ids.values()) - {self.end_of_turn_id})

    def save_processor(self, directory: Path) -> None:
        """Writes tokenizer, chat template and image processor into a checkpoint's directory."""
        self.tokenizer.save_pretrained(directory)
        self.image_reader.image_processor.save_pretrained(directory)

    def _ending(self, dialect: Dialect) -> tuple[int, Heads]:
        """Returns the token that ends answers, and the template's text between it and the next turn's content."""
        found = self._special_pattern.match(dialect.later.text)
        if found is None or not dialect.later.images.startswith(found[0]):
            raise ValueError(
                "The checkpoint's chat template ends answers with no special token of its tokenizer, so the end of an "
                f"answer cannot be detected; got {dialect.later.text!r} after an answer."
            )
        token = found[0]
        heads = Heads(text=dialect.later.text.removeprefix(token), images=dialect.later.images.removeprefix(token))
        return self._special_ids[token], heads

    def _opening(self, system: str, *, with_images: bool) -> list[Piece]:
        """Returns the template's text before the first turn's content, with the system message if there is one."""
        if not system:
            return self._pieces(_head(self._dialect.first, with_images=with_images))
        if not self._has_tried_system:
            self._system = read_system(self.tokenizer, self._dialect)
            self._require_rendered_alike(SYSTEM_PROBE)
            self._has_tried_system = True
        before, heads = self._system
        return [*self._pieces(before), encodable(system), *self._pieces(_head(heads, with_images=with_images))]

    def _turn(self, content: Sequence[str | list[Piece]]) -> list[Piece]:
        """Returns a turn's content, with placeholders for images, and the opening of its answer."""
        before, _, after = self._dialect.image.partition(self.image_reader.marker)
        turn: list[Piece] = []
        for part in content:
            if isinstance(part, str):
                turn.append(self._trimmed(encodable(part)))
            else:
                turn += [*self._pieces(before), *part, *self._pieces(after)]
        return [*turn, *self._pieces(self._dialect.opening)]

    def _trimmed(self, text: str) -> str:
        """Returns a text as the template writes it."""
        return text.strip() if self.image_reader.trims_text else text

    def _pieces(self, literal: str) -> list[Piece]:
        """Splits template text into special tokens, by ID, and other text."""
        return [self._special_ids.get(part, part) for part in self._special_pattern.split(literal)]

    def _ids(self, pieces: Iterable[Piece]) -> list[int]:
        """Returns the tokens of pieces in sequence: adjacent texts are tokenized together."""
        ids: list[int] = []
        text = ""
        for piece in pieces:
            if isinstance(piece, str):
                text += piece
                continue
            ids += self._text_ids(text)
            ids.append(piece)
            text = ""
        return ids + self._text_ids(text)

    def _text_ids(self, text: str) -> list[int]:
        """Returns the tokens of plain text; text that looks like a special token stays text."""
        return list(self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)) if text else []

    def _read(self, image: npt.NDArray[np.uint8]) -> tuple[ProcessedImage, list[Piece]]:
        """Returns an image as the model's input and its placeholder text, from the cache if it was seen recently."""
        key = hashlib.blake2b(require_image(image).tobytes(), digest_size=16).digest() + bytes(
            str(image.shape), "ascii"
        )
        cached = self._cache.get(key)
        if cached is not None:
            self._cache.move_to_end(key)
            return cached
        processed, written = self.image_reader.read(showable(image, self.image_reader.max_aspect_ratio), key)
        self._cache[key] = processed, self._pieces(written)
        self._free_bytes -= processed.nbytes
        read = self._cache[key]
        while self._free_bytes < 0:
            _, (oldest, _) = self._cache.popitem(last=False)
            self._free_bytes += oldest.nbytes
        return read

    def _check_tags(self) -> None:
        """Refuses a tokenizer that drops a format's tags in decoding."""
        tokenizer = self.tokenizer
        swallowed = [
            tag
            for tag in sorted(KNOWN_TAGS)
            if tokenizer.decode(tokenizer.encode(tag, add_special_tokens=False), skip_special_tokens=True) != tag
        ]
        if swallowed:
            raise ValueError(
                f"The tokenizer treats {', '.join(swallowed)} as special tokens, so format rewards could never be "
                "earned. Use another checkpoint, or make these ordinary tokens of its tokenizer."
            )

    def _require_rendered_alike(self, system: str) -> None:
        """Refuses a template whose rendering of `PROBE` differs from ours, with or without a system message."""
        rendered = rendered_probe(self.tokenizer, system)
        ours: list[int] = []
        for number, exchange in enumerate(PROBE):
            images: list[list[Piece]] = [self._pieces(self.image_reader.marker)] * exchange.num_images
            turn = self._turn([*images, exchange.text])
            if number == 0:
                before, heads = self._system if system else ("", self._dialect.first)
                head = _head(heads, with_images=bool(images))
                turn = [*self._pieces(before), system, *self._pieces(head), *turn]
            else:
                turn = [*self._pieces(_head(self._later, with_images=bool(images))), *turn]
            ours += self._ids(turn)
            if exchange.answer is not None:
                ours += self.encode_response(self._trimmed(exchange.answer)).tolist()
        if ours != list(self.tokenizer.encode(rendered, add_special_tokens=False)):
            raise ValueError(mismatch(rendered, str(self.tokenizer.decode(ours)), system=system))


def _head(heads: Heads, *, with_images: bool) -> str:
    return heads.images if with_images else heads.text


def _token_id(tokenizer: PreTrainedTokenizerBase, token: str) -> int:
    token_id = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(token_id, int), f"{token} is one token"
    return token_id


def _special_ids(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Returns the IDs of a tokenizer's special tokens, longest first, so that the longest match wins."""
    added = {str(token): id_ for id_, token in tokenizer.added_tokens_decoder.items() if token.special}
    named = dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
    return dict(sorted((added | named).items(), key=lambda item: -len(item[0])))


@dataclass(frozen=True, kw_only=True)
class SampledResponse:
    """Sampled tokens of one row and their log-probabilities under the distribution they were drawn from.

    Attributes:
        ids: The tokens, including the one that ended the response; empty after an error.
        logprobs: Log-probability of each token.
        error: Why there is no response; empty if there is one.
    """

    ids: list[int]
    logprobs: list[float]
    error: str = ""


class Conversations:
    """The state of a batch of conversations that the next segments depend on.

    Args:
        encoder: The chat format.
        sampling: Sampling settings.
        max_context_tokens: Most tokens per conversation.
    """

    def __init__(self, encoder: ChatEncoder, sampling: SamplingConfig, max_context_tokens: int) -> None:
        self.encoder, self.sampling, self.max_context_tokens = encoder, sampling, max_context_tokens
        self._was_cut: dict[int, bool] = {}
        self._num_tokens: dict[int, int] = {}
        self._next: dict[int, tuple[Observation, PromptSegment]] = {}

    def start(self) -> None:
        """Drops all conversations."""
        self._was_cut, self._num_tokens, self._next = {}, {}, {}

    def release(self) -> None:
        """Frees the segments and their images."""
        self._next = {}

    def fits(self, row: int, observation: Observation) -> bool:
        """Returns whether the context has room for an observation and the longest response to it."""
        num_tokens = self._num_tokens.get(row, 0) + len(self._segment(row, observation).ids)
        return num_tokens + self.sampling.max_new_tokens <= self.max_context_tokens

    def segments(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[PromptSegment]:
        """Returns the segments of the rows' next observations.

        Raises:
            ConfigError: If a first observation leaves no room for a response.
        """
        segments = []
        for row, observation in zip(rows, observations, strict=True):
            segment = self._segment(row, observation)
            if row not in self._was_cut:
                require_room(len(segment.ids), self.max_context_tokens, self.sampling)
            segments.append(segment)
        return segments

    def asked(self, row: int) -> PromptSegment:
        """Returns the last segment of a row."""
        return self._next[row][1]

    def responses(
        self, rows: Sequence[int], segments: Sequence[PromptSegment], samples: Sequence[SampledResponse]
    ) -> list[Response]:
        """Returns the rows' responses to their segments, and appends them to the conversations."""
        return [self._response(*arguments) for arguments in zip(rows, segments, samples, strict=True)]

    def _segment(self, row: int, observation: Observation) -> PromptSegment:
        """Returns the segment of a row's next observation."""
        pending = self._next.get(row)
        if pending is None or pending[0] is not observation:
            segment = self.encoder.encode(
                observation, is_first=row not in self._was_cut, needs_end_of_turn=self._was_cut.get(row, False)
            )
            self._next[row] = pending = observation, segment
        return pending[1]

    def _response(self, row: int, segment: PromptSegment, sample: SampledResponse) -> Response:
        if sample.error:
            return Response(text="", stop_reason="error", error=sample.error, prompt_ids=segment.ids)
        stopped = sample.ids[-1] == self.encoder.end_of_turn_id
        self._was_cut[row] = not stopped
        self._num_tokens[row] = self._num_tokens.get(row, 0) + len(segment.ids) + len(sample.ids)
        return Response(
            text=self.encoder.decode(sample.ids),
            stop_reason="stop" if stopped else "length",
            prompt_ids=segment.ids,
            response_ids=np.asarray(sample.ids, np.int64),
            sampler_logprobs=np.asarray(sample.logprobs, np.float32),
        )
