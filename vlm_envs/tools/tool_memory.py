"""Named images and texts of a conversation: ARM-Thinker's `imgs_map` and `texts_map`.

A store is a value. Adding returns another store that shares the existing items, so a world's state may
contain one, states can be copied, compared, hashed, and pickled, and an earlier state never contains later
items. Paper: section 3 (Indexed Memory Map) and appendix E, which name the images img_0 or original_image,
observation_1 …, and the texts resp_1 … or text_0; the world that fills a store chooses the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Generic, TypeVar

from vlm_envs.errors import ConfigError
from vlm_envs.tools.pictures import ImageRef, Picture
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind, listed, quoted

ORIGINAL_IMAGE = "original_image"
"""Name of the image in question."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_OBSERVATION = "observation_"
ItemT = TypeVar("ItemT")


def _check_new_name(name: str, taken: tuple[str, ...]) -> None:
    """Rejects names that are hard to write or already taken; names are chosen by the programmer."""
    if not _NAME.match(name):
        raise ConfigError(
            f"A name must have 1 to 64 letters, digits, and _ . -, and start with a letter or digit; got {name!r}."
        )
    if name in taken:
        raise ConfigError(f"{name!r} is already in the store, which never replaces items. Choose another name.")


@dataclass(frozen=True)
class _Store(Generic[ItemT]):
    """Items by name, in insertion order."""

    items: tuple[tuple[str, ItemT], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all items."""
        return tuple(name for name, _ in self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def _found(self, name: str, what: str, kind: ToolErrorKind) -> ItemT:
        """Returns an item; raises `ToolError` of the given kind, with the available names."""
        for key, item in self.items:
            if key == name:
                return item
        names = listed(list(self.names))
        raise ToolError(kind, f"There is no {what} {quoted(name)}. {what.capitalize()}s that exist: {names}.")


@dataclass(frozen=True)
class ImageStore(_Store[ImageRef]):
    """Images by name, in insertion order.

    Attributes:
        items: Names and images, which may be references to images not yet made.
        max_images: Maximum number of images.
        max_total_pixels: Maximum number of pixels of all images together.
    """

    _: KW_ONLY
    max_images: int = 64
    max_total_pixels: int = 256_000_000

    @property
    def total_pixels(self) -> int:
        """Number of pixels of all images together."""
        return sum(image.width * image.height for _, image in self.items)

    def __getitem__(self, name: str) -> Picture:
        """Returns an image.

        Raises:
            ToolError: `UNKNOWN_IMAGE`, with the available names.
        """
        return self._found(name, "image", ToolErrorKind.UNKNOWN_IMAGE).picture()

    def with_image(self, name: str, image: ImageRef) -> ImageStore:
        """Returns a store with an additional image.

        Args:
            name: A new name of letters, digits, and `_ . -`.
            image: The image.

        Raises:
            ConfigError: If the name is not valid.
            ToolError: `STORE_FULL`, if a limit would be exceeded.
        """
        _check_new_name(name, self.names)
        if len(self.items) >= self.max_images:
            raise ToolError(
                ToolErrorKind.STORE_FULL,
                f"No more than {self.max_images} images can be kept. Answer from those that exist.",
            )
        if self.total_pixels + image.width * image.height > self.max_total_pixels:
            raise ToolError(
                ToolErrorKind.STORE_FULL,
                f"An image of {image.width} x {image.height} pixels would exceed the {self.max_total_pixels} "
                "pixels that can be kept. Ask for a smaller region, or answer from the images that exist.",
            )
        return replace(self, items=(*self.items, (name, image)))

    def with_observation(self, picture: Picture) -> tuple[ImageStore, str]:
        """Returns a store with a tool's image, and its name: `observation_1`, `observation_2`, and so on.

        Raises:
            ToolError: `STORE_FULL`.
        """
        names = self.names
        number = 1 + sum(name.startswith(_OBSERVATION) for name in names)
        while f"{_OBSERVATION}{number}" in names:  # a caller may have used the name
            number += 1
        return self.with_image(f"{_OBSERVATION}{number}", picture), f"{_OBSERVATION}{number}"


@dataclass(frozen=True)
class TextStore(_Store[str]):
    """Texts by name, in insertion order, such as responses to judge.

    Attributes:
        items: Names and texts.
        max_texts: Maximum number of texts.
        max_total_chars: Maximum number of characters of all texts together.
    """

    _: KW_ONLY
    max_texts: int = 64
    max_total_chars: int = 4_000_000

    def __getitem__(self, name: str) -> str:
        """Returns a text.

        Raises:
            ToolError: `UNKNOWN_TEXT`, with the available names.
        """
        return self._found(name, "text", ToolErrorKind.UNKNOWN_TEXT)

    def with_text(self, name: str, text: str) -> TextStore:
        """Returns a store with an additional text.

        Raises:
            ConfigError: If the name is not valid.
            ToolError: `STORE_FULL`.
        """
        _check_new_name(name, self.names)
        total = sum(len(key) for _, key in self.items) + len(text)
        if len(self.items) >= self.max_texts or total > self.max_total_chars:
            raise ToolError(
                ToolErrorKind.STORE_FULL,
                f"No more than {self.max_texts} texts of {self.max_total_chars} characters together can be kept.",
            )
        return replace(self, items=(*self.items, (name, text)))


@dataclass(frozen=True)
class Memory:
    """Images and texts that tools can refer to by name.

    Attributes:
        imgs_map: Images.
        texts_map: Texts.
    """

    imgs_map: ImageStore = field(default_factory=ImageStore)
    texts_map: TextStore = field(default_factory=TextStore)
