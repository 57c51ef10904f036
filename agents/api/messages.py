"""Messages as chat completions take them, and pictures as parts of them."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs.errors import ConfigError

Message = dict[str, Any]
"""One message of a conversation, as chat completions take it."""


def data_uri(image: npt.NDArray[np.uint8]) -> str:
    """Returns a picture, uint8 [height, width, 3], as a data URI, PNG inside; the same picture gives the same text.

    Raises:
        ConfigError: The array is no picture.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
        raise ConfigError(f"Expected a picture uint8[height, width, 3], got {image.dtype}{list(image.shape)}.")
    file = io.BytesIO()
    Image.fromarray(image).save(file, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def with_images(messages: Sequence[Message], images: Sequence[npt.NDArray[np.uint8]]) -> list[Message]:
    """Returns messages with pictures, each uint8 [height, width, 3], before the text of the last one.

    The messages given are not changed; there must be at least one.
    """
    if not images:
        return list(messages)
    *earlier, last = messages
    pictures: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": data_uri(image)}} for image in images]
    return [*earlier, {**last, "content": [*pictures, {"type": "text", "text": last["content"]}]}]
