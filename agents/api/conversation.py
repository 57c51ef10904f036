"""A conversation with a model, in no provider's format: messages of texts and pictures."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs.responses.formats import encodable
from vlm_envs.trajectory import require_image

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture as it is sent: PNG, encoded once however often it is shown again.

    Attributes:
        png: The file.
        width: In pixels.
        height: In pixels.
    """

    png: bytes
    width: int
    height: int

    @classmethod
    def of(cls, pixels: npt.NDArray[np.uint8]) -> Picture:
        """Returns a picture of pixels, none of them changed; the same pixels always give the same file.

        Args:
            pixels: uint8[H, W, 3].

        Raises:
            ConfigError: If the array is no picture.
        """
        file = io.BytesIO()
        Image.fromarray(require_image(pixels)).save(file, format="PNG")
        return cls(png=file.getvalue(), width=pixels.shape[1], height=pixels.shape[0])

    @functools.cached_property
    def base64(self) -> str:
        """The file in base64."""
        return base64.b64encode(self.png).decode("ascii")

    @property
    def data_uri(self) -> str:
        """The file as `data:image/png;base64,…`."""
        return f"data:image/png;base64,{self.base64}"

    @functools.cached_property
    def sha256(self) -> str:
        """Hash of the file, 64 hexadecimal digits."""
        return hashlib.sha256(self.png).hexdigest()


Part = str | Picture


@dataclass(frozen=True, kw_only=True)
class Message:
    """What one side says.

    Attributes:
        role: Who says it. A system message comes first, if there is one, and is the only one.
        parts: Texts and pictures in reading order.
        comes_again: Whether the next request of the conversation begins, to the letter, with everything up to here: a
            provider that keeps prompts when it is asked to is asked.
    """

    role: Role
    parts: tuple[Part, ...]
    comes_again: bool = False

    @property
    def text(self) -> str:
        """Its texts, pictures left out."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Its pictures."""
        return tuple(part for part in self.parts if isinstance(part, Picture))


def sendable(message: Message) -> Message:
    """Returns a message with halves of surrogate pairs, which have no UTF-8 form, as question marks."""
    return replace(message, parts=tuple(encodable(part) if isinstance(part, str) else part for part in message.parts))


def split_system(messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    """Returns the system prompt, empty where there is none, and the messages after it."""
    if messages and messages[0].role == "system":
        return messages[0].text, messages[1:]
    return "", messages


def with_images(messages: Sequence[Message], images: Sequence[npt.NDArray[np.uint8]]) -> tuple[Message, ...]:
    """Returns messages with pictures before the parts of the last one.

    Args:
        messages: At least one.
        images: Each uint8[height, width, 3].
    """
    *earlier, last = messages
    return (*earlier, replace(last, parts=(*map(Picture.of, images), *last.parts)))
