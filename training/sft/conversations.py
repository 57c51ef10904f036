"""Conversations with images in the layout of other trainers: `messages` and `images`, one row per line.

    {"messages": [{"role": "user", "content": "<image>What is it?"}, {"role": "assistant", "content": "A mug."}],
     "images": ["mug.png"]}

Reads rows of text and images in the layout of TRL, LLaMA-Factory, and ms-swift. Rows with videos, audio, or grounding
objects, or with their placeholders, are rejected. Content is a string, in which each `<image>` in a user's message
stands for the next of `images` (a single one may be `image`), or a list of parts: `{"type": "text", "text": ...}` and
`{"type": "image"}`, which takes the next of `images` unless it names a file itself (`image`, `path` or `url`). In a
conversation without placeholders, all images precede the first text, as in TRL. `"loss": false` in an answer excludes
it from the loss, as in ms-swift. Image files are checked once at the start and loaded when needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_images import row_images, unread_media
from vlm_envs.tools.data_files import FileRoot
from vlm_envs.tools.tool_errors import ToolError

PLACEHOLDER = "<image>"
"""Placeholder for an image in a user's text."""

Content = tuple[str | Path, ...]
"""Texts and image files, in order."""
_NEXT = object()
"""Sentinel for the next of `images`."""
_NUM_THREADS = 8
"""Number of threads that check images; decoding releases the GIL."""


class BrokenRowError(ValueError):
    """A dataset row cannot be trained on; the message gives the reason, and the caller adds the location."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A user message and the assistant's answer.

    Attributes:
        content: Texts and images of the user, in order.
        answer: Answer of the assistant.
        is_learnt: Whether the answer is in the loss.
    """

    content: Content
    answer: str
    is_learnt: bool = True


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """One row of a dataset.

    Attributes:
        file: File of the row.
        line: Line number, from 1.
        system: System message; empty for none.
        exchanges: At least one, of which at least one is in the loss.
    """

    file: Path
    line: int
    system: str
    exchanges: tuple[Exchange, ...]

    @property
    def pictures(self) -> tuple[Path, ...]:
        """All image files, in order."""
        return tuple(part for exchange in self.exchanges for part in exchange.content if isinstance(part, Path))


def conversation(row: Mapping[str, Any], *, file: Path, line: int, folder: Path) -> Conversation:
    """Returns the conversation of a row, without checking that its images exist.

    Args:
        row: Has `messages`, and `images` or `image` unless message parts name files themselves.
        file: File of the row.
        line: Line number of the row.
        folder: Base folder of relative image paths.

    Raises:
        BrokenRowError: If it is not a conversation that can be trained on.
    """
    messages = _messages(row)
    _require_readable(row, messages)
    system = ""
    if messages and messages[0].get("role") == "system":
        system, messages = _text(messages[0]), messages[1:]
    _require_turns(messages)
    files = [_file(image, folder) for image in row_images(row, content=lambda image: image)]
    contents = _with_pictures([_parts(message, folder) for message in messages[::2]], files)
    exchanges = tuple(
        Exchange(content=shown, answer=_text(answer), is_learnt=_is_learnt(answer))
        for shown, answer in zip(contents, messages[1::2], strict=False)  # a final message without an answer is dropped
    )
    if not any(exchange.is_learnt for exchange in exchanges):
        raise BrokenRowError("no answer of the assistant to train on")
    return Conversation(file=file, line=line, system=system, exchanges=exchanges)


def _messages(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    messages = row.get("messages")
    if isinstance(messages, list) and all(isinstance(message, Mapping) for message in messages):
        return messages
    if messages is not None:
        raise BrokenRowError("`messages` is not a list of objects with `role` and `content`")
    is_share_gpt = "conversations" in row
    raise BrokenRowError(
        "there are no `messages`"
        + (" (a list `conversations` of `from` and `value` is ShareGPT's layout: convert it)" if is_share_gpt else "")
    )


def _require_readable(row: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> None:
    """Raises `BrokenRowError` for unsupported media, and for placeholders that would be trained on as text."""
    texts = [(message.get("role"), text) for message in messages for text in _texts(message.get("content"))]
    prompts, answers = ([text for role, text in texts if (role == "assistant") is said] for said in (False, True))
    if unread := unread_media(row, prompts, answers):
        raise BrokenRowError(unread)
    if any(role != "user" and PLACEHOLDER in text for role, text in texts):
        raise BrokenRowError(f"there is a placeholder {PLACEHOLDER} outside the user's messages")
    lists = [message["content"] for message in messages if isinstance(message.get("content"), list)]
    if any(PLACEHOLDER in text for content in lists for text in _texts(content)):
        raise BrokenRowError(f"there is a placeholder {PLACEHOLDER} in a part of type text; use a part of type image")


def _texts(content: Any) -> list[str]:
    """Returns the texts of a message: its content, or those of its parts."""
    if isinstance(content, str):
        return [content]
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    return [text for part in parts if isinstance(text := part.get("text"), str)]


def _require_turns(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raises `BrokenRowError` unless messages alternate between user and assistant."""
    roles = [message.get("role") for message in messages]
    if unknown := next((role for role in roles if role not in ("system", "user", "assistant")), None):
        raise BrokenRowError(f"a message has role {unknown!r}; expected system, user, or assistant")
    if any(message.get("tool_calls") for message in messages):
        raise BrokenRowError("a message has `tool_calls`; write calls into the text of the answer")
    if "assistant" not in roles:
        raise BrokenRowError("no turn of the assistant")
    for number, role in enumerate(roles):
        expected = ("user", "assistant")[number % 2]
        if role != expected:
            raise BrokenRowError(
                f"after the system message, user and assistant must alternate: message {number + 1} has role {role}, "
                f"expected {expected}"
            )


def _is_learnt(message: Mapping[str, Any]) -> bool:
    flag = message.get("loss")
    if flag is not None and not isinstance(flag, bool):
        raise BrokenRowError(f"`loss` of an answer must be true or false; got {flag!r}")
    return flag is not False


def _text(message: Mapping[str, Any]) -> str:
    """Returns the text of a message without images."""
    parts = _parts(message, Path())
    if not all(isinstance(part, str) for part in parts):
        raise BrokenRowError(f"a message of role {message['role']} has a part that is not text")
    return "".join(parts)


def _parts(message: Mapping[str, Any], folder: Path) -> list[Any]:
    """Returns texts, files, and `_NEXT` of a message; only user texts have placeholders."""
    role, content = message["role"], message.get("content")
    if isinstance(content, str):
        texts = content.split(PLACEHOLDER) if role == "user" else [content]
        parts: list[Any] = [part for text in texts for part in (_NEXT, text)][1:]
        return [part for part in parts if part != ""] or [""]
    if not isinstance(content, list):
        raise BrokenRowError(
            f"the content of a message of role {role} is {_kind(content)}; expected a string or a list of parts"
        )
    return [_part(part, folder) for part in content]


def _part(part: Any, folder: Path) -> Any:
    if not isinstance(part, Mapping):
        raise BrokenRowError(f"a part of a message is {_kind(part)}, not an object with `type`")
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return part["text"]
    if kind == "image":
        named = next((part[name] for name in ("image", "path", "url") if part.get(name) is not None), None)
        return _NEXT if named is None else _file(named, folder)
    if kind == "image_url":
        url = part.get("image_url")
        return _file(url.get("url") if isinstance(url, Mapping) else url, folder)
    raise BrokenRowError(f"a part of a message has type {kind!r}; expected text or image")


def _file(named: Any, folder: Path) -> Path:
    """Returns the path of an image in a row."""
    if isinstance(named, Mapping):
        named = named.get("path")
    if not isinstance(named, str) or not named:
        raise BrokenRowError("an image is not named by its file path")
    if named.startswith(("http://", "https://", "data:")):
        raise BrokenRowError(
            f"the image {named[:40]} is not a local file, and nothing is downloaded or decoded; save it and name the "
            "file"
        )
    return folder / os.path.expanduser(named.removeprefix("file://"))


def _with_pictures(contents: Sequence[Sequence[Any]], files: Sequence[Path]) -> list[Content]:
    """Returns contents with the row's images in place of their placeholders."""
    num_places = sum(part is _NEXT for content in contents for part in content)
    is_plain = not any(isinstance(part, Path) for content in contents for part in content)
    if num_places == 0 and is_plain and files:
        return [(*files, *contents[0]), *map(tuple, contents[1:])]
    if num_places != len(files):
        raise BrokenRowError(
            f"images and their placeholders ({PLACEHOLDER}, or parts of type image) must be equal in number; got "
            f"{len(files)} and {num_places}"
        )
    rest = iter(files)
    return [tuple(next(rest) if part is _NEXT else part for part in content) for content in contents]


def _kind(value: Any) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"


class BrokenPictureError(ValueError):
    """An image is missing or cannot be read; the message names its file."""


def load_picture(path: Path) -> npt.NDArray[np.uint8]:
    """Returns an image as worlds show it, uint8[height, width, 3]: upright, with transparent pixels on white.

    Raises:
        BrokenPictureError: If it is missing, damaged, or in a format that worlds cannot read.
    """
    try:
        root = FileRoot(path.parent, follows_links=True)
        if not root.has(path.name):
            raise BrokenPictureError(f"there is no image {path}")
        return root.picture(path.name).pixels
    except ConfigError as error:
        raise BrokenPictureError(f"there is no image {path}: {error}") from error
    except ToolError as error:
        raise BrokenPictureError(f"{path} cannot be read: {error}") from error


def picture_sizes(paths: Iterable[Path]) -> dict[Path, tuple[int, int] | BrokenPictureError]:
    """Returns height and width of each image, or its error; decodes each image completely."""
    distinct = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(_NUM_THREADS) as threads:
        return dict(zip(distinct, threads.map(_size, distinct), strict=True))


def _size(path: Path) -> tuple[int, int] | BrokenPictureError:
    try:
        height, width = load_picture(path).shape[:2]
    except BrokenPictureError as error:
        return error
    return height, width
