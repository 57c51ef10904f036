"""Named images and texts that a conversation has collected: ARM-Thinker's `imgs_map` and `texts_map`.

A store is a value. Adding returns another store that shares what was there, so a world's state may hold one, states
may be copied, compared, hashed and pickled, and an earlier state never sees what came later. Paper: section 3
(Indexed Memory Map) and appendix E, which call the images img_0 or original_image, observation_1 …, and the texts
resp_1 … or text_0; the world that fills a store chooses.
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
"""Name of the image that the question is about."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_OBSERVATION = "observation_"
ItemT = TypeVar("ItemT")


def _check_new_name(name: str, taken: tuple[str, ...]) -> None:
    """Refuses names that would be hard to write or that would replace something; names are the programmer's."""
    if not _NAME.match(name):
        raise ConfigError(
            f"A name has 1 to 64 letters, digits and _ . -, and begins with one of the former; got {name!r}."
        )
    if name in taken:
        raise ConfigError(f"{name!r} is in the store already and nothing is ever replaced. Choose another name.")


@dataclass(frozen=True)
class _Store(Generic[ItemT]):
    """Items by name, in the order they came."""

    items: tuple[tuple[str, ItemT], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that exist."""
        return tuple(name for name, _ in self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def _found(self, name: str, what: str, kind: ToolErrorKind) -> ItemT:
        """Returns an item; raises `ToolError` of a kind, with the names that exist."""
        for key, item in self.items:
            if key == name:
                return item
        names = listed(list(self.names))
        raise ToolError(kind, f"There is no {what} {quoted(name)}. {what.capitalize()}s that exist: {names}.")


@dataclass(frozen=True)
class ImageStore(_Store[ImageRef]):
    """Images by name, in the order they came.

    Attributes:
        items: Names and pictures; those that nobody has looked at yet need not have been made.
        max_images: Most images.
        max_total_pixels: Most pixels of all images together.
    """

    _: KW_ONLY
    max_images: int = 64
    max_total_pixels: int = 256_000_000

    @property
    def total_pixels(self) -> int:
        """Pixels of all images together."""
        return sum(image.width * image.height for _, image in self.items)

    def __getitem__(self, name: str) -> Picture:
        """Returns an image.

        Raises:
            ToolError: `UNKNOWN_IMAGE`, with the names that exist.
        """
        return self._found(name, "image", ToolErrorKind.UNKNOWN_IMAGE).picture()

    def with_image(self, name: str, image: ImageRef) -> ImageStore:
        """Returns a store with one image more.

        Args:
            name: Letters, digits and `_ . -`; a new one.
            image: The image.

        Returns:
            The larger store.

        Raises:
            ConfigError: If the name is not usable.
            ToolError: `STORE_FULL`, if the store holds as much as it may.
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
        """Returns a store with a tool's image, and its name: `observation_1`, `observation_2` and so on.

        Raises:
            ToolError: `STORE_FULL`.
        """
        names = self.names
        number = 1 + sum(name.startswith(_OBSERVATION) for name in names)
        while f"{_OBSERVATION}{number}" in names:  # A caller may have taken it.
            number += 1
        return self.with_image(f"{_OBSERVATION}{number}", picture), f"{_OBSERVATION}{number}"


@dataclass(frozen=True)
class TextStore(_Store[str]):
    """Texts by name, in the order they came: responses to be judged.

    Attributes:
        items: Names and texts.
        max_texts: Most texts.
        max_total_chars: Most characters of all texts together.
    """

    _: KW_ONLY
    max_texts: int = 64
    max_total_chars: int = 4_000_000

    def __getitem__(self, name: str) -> str:
        """Returns a text.

        Raises:
            ToolError: `UNKNOWN_TEXT`, with the names that exist.
        """
        return self._found(name, "text", ToolErrorKind.UNKNOWN_TEXT)

    def with_text(self, name: str, text: str) -> TextStore:
        """Returns a store with one text more.

        Raises:
            ConfigError: If the name is not usable.
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
    """What tools can refer to by name.

    Attributes:
        imgs_map: Images.
        texts_map: Texts.
    """

    imgs_map: ImageStore = field(default_factory=ImageStore)
    texts_map: TextStore = field(default_factory=TextStore)
