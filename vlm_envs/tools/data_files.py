"""Regular files of bounded size in a folder, named by a model or a dataset; and a cache of bounded size."""

from __future__ import annotations

import io
import os
import stat
import threading
import unicodedata
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Generic, TypeVar

from PIL import ExifTags, Image, UnidentifiedImageError

from vlm_envs.errors import ConfigError
from vlm_envs.tools.pictures import Picture
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind, listed, quoted
from vlm_envs.validation import require

MAX_IMAGE_PIXELS = 80_000_000
"""Maximum size that an image may declare, in pixels; above 8192 x 8192 and below Pillow's own limit, which only
warns."""

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Maximum size of a file."""

_MAX_NAME_CHARS = 512
_FORBIDDEN_CHARS = frozenset("\\:<>")
"""Characters of other systems' paths, and angle brackets, since a message that repeats a name must not
contain tags."""

_IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")


class FileRoot:
    """The only folder that names may refer to.

    A name may differ from the file's in the case of its extension and in its Unicode normalization.

    Args:
        folder: An existing folder; `~` is the user's home.
        follows_links: Whether symbolic links may lead outside the folder. Allowed for names from the user's
            own data files, which often link to a cache; names written by a model must stay inside.

    Raises:
        ConfigError: If it is not a folder.
    """

    def __init__(self, folder: str | Path, *, follows_links: bool = False) -> None:
        require(bool(str(folder).strip()), f"folder must be a folder's path; got {folder!r}.")
        self._folder = Path(os.path.expanduser(folder)).resolve()
        self._follows_links = follows_links
        if not self._folder.is_dir():
            raise ConfigError(f"{folder} is not a folder. Give the folder that contains the files.")

    @property
    def folder(self) -> str:
        """Its absolute path."""
        return str(self._folder)

    def names(self, suffix: str = "") -> list[str]:
        """Returns the names of the files directly in the folder, in order.

        Args:
            suffix: Only names with this ending, with lower-case extensions; empty for all names, unchanged.
        """
        names = (path.name for path in self._folder.iterdir() if path.is_file())
        if not suffix:
            return sorted(names)
        return sorted({name for name in map(with_plain_extension, names) if name.endswith(suffix)})

    def existing(self, names: Iterable[str]) -> list[str]:
        """Returns the names that refer to a file."""
        return [name for name in names if self.has(name)]

    def has(self, name: str) -> bool:
        """Returns whether a name refers to a file, without the file list that an error message needs."""
        return self._leads_to(name, Path.is_file)

    def has_folder(self, name: str) -> bool:
        """Returns whether a name refers to a folder."""
        return self._leads_to(name, Path.is_dir)

    def _leads_to(self, name: str, is_it: Callable[[Path], bool]) -> bool:
        with suppress(ToolError):
            return (path := self._found(name)) is not None and is_it(path)
        return False

    def read(self, name: str, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """Reads a whole file.

        Args:
            name: Path relative to the folder, with forward slashes.
            max_bytes: Maximum size.

        Raises:
            ToolError: `FORBIDDEN_PATH` for absolute names, names with `..`, and links that lead outside;
                `UNKNOWN_FILE`; `UNREADABLE_FILE` for folders, devices, and pipes; `TOO_LARGE`.
        """
        with self.opened(name) as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(max_bytes + 1)  # not by its size, because a file may grow while it is read
        if len(content) > max_bytes:
            raise ToolError(
                ToolErrorKind.TOO_LARGE,
                f"The file {quoted(name)} has {size} bytes; at most {max_bytes} are read.",
            )
        return content

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        """Opens a file for reading, for files too large to read at once.

        Args:
            name: Path relative to the folder, with forward slashes.

        Yields:
            The file, which is closed afterwards.

        Raises:
            ToolError: As `read`, except for `TOO_LARGE`.
        """
        descriptor = self._open(name)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ToolError(ToolErrorKind.UNREADABLE_FILE, f"{quoted(name)} is no regular file.")
            with open(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)

    def picture(self, name: str, *, max_pixels: int = MAX_IMAGE_PIXELS) -> Picture:
        """Decodes an image file.

        Args:
            name: Path relative to the folder.
            max_pixels: Maximum number of pixels it may declare.

        Returns:
            Its first frame, rotated upright according to its EXIF orientation.

        Raises:
            ToolError: As `read` and `decode_image`.
        """
        return decode_image(self.read(name), name=name, max_pixels=max_pixels)

    def _open(self, name: str) -> int:
        """Returns a descriptor of the file, folder, or device that a name refers to."""
        # Links are already resolved, so the target must not be one; opening a pipe must not block
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(self._path(name), flags)
        except OSError as error:
            raise ToolError(
                ToolErrorKind.UNREADABLE_FILE, f"The file {quoted(name)} cannot be read: {error.strerror}."
            ) from error

    def _path(self, name: str) -> Path:
        """Returns the real path of a name; raises `ToolError` with the existing names if there is none."""
        if (path := self._found(name)) is None:
            there = listed(self.names())
            raise ToolError(ToolErrorKind.UNKNOWN_FILE, f"There is no file {quoted(name)}. Files that exist: {there}.")
        return path

    def _found(self, name: str) -> Path | None:
        """Returns the real path of a name, inside the folder unless links may lead outside; None if there is none."""
        self._check_name(name)
        for spelling in _spellings(self._folder, name):
            try:
                path = (self._folder / spelling).resolve(strict=True)
            except (OSError, RuntimeError, ValueError):  # RuntimeError: cyclic links
                continue
            if not self._follows_links and not path.is_relative_to(self._folder):
                raise ToolError(ToolErrorKind.FORBIDDEN_PATH, f"{quoted(name)} leads out of the folder.")
            return path
        return None

    def _check_name(self, name: str) -> None:
        """Rejects names that lead upward, and, from a model, characters with a meaning in other systems or tags."""
        pure = PurePosixPath(name[: _MAX_NAME_CHARS + 1])
        is_own = self._follows_links
        is_plain = "\0" not in name if is_own else name.isprintable() and not _FORBIDDEN_CHARS & set(name)
        leads_up = pure.is_absolute() or ".." in pure.parts
        if not name.strip() or len(name) > _MAX_NAME_CHARS or not is_plain or leads_up:
            without = "'..' or a leading '/'" if is_own else "'..', a leading '/' or any of \\ : < >"
            raise ToolError(
                ToolErrorKind.FORBIDDEN_PATH,
                f"A file is named by its path inside the folder, without {without}; got {quoted(name)}.",
            )


def with_plain_extension(name: str) -> str:
    """Converts the extension of a file name to lower case."""
    stem, dot, extension = name.rpartition(".")
    return f"{stem}{dot}{extension.lower()}" if dot else name


def _spellings(folder: Path, name: str) -> Iterator[str]:
    """Yields a name, then variants for the same file: other Unicode normal forms, its extension in another case."""
    forms = dict.fromkeys((name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD"))))
    yield from forms
    for form in forms:
        parent = (folder / form).parent
        with suppress(OSError, ValueError):
            found = _files_by_key(parent, parent.stat().st_mtime_ns).get(_key(PurePosixPath(form).name))
            if found is not None:
                yield str(PurePosixPath(form).parent / found)


@lru_cache(maxsize=64)
def _files_by_key(folder: Path, mtime_ns: int) -> dict[str, str]:
    """Returns the names in a folder by their keys; read again when the folder has changed."""
    return {_key(name): name for name in sorted(os.listdir(folder), reverse=True)}


def _key(name: str) -> str:
    """Returns a key shared by names that differ only in the case of their extension or in their normal form."""
    return unicodedata.normalize("NFC", with_plain_extension(name))


def decode_image(
    content: bytes, *, name: str = "image", max_pixels: int = MAX_IMAGE_PIXELS, upright: bool = True
) -> Picture:
    """Decodes an image whose header declares at most `max_pixels` pixels.

    The header is read first, and nothing is decoded before the size is known: a few kilobytes of PNG can
    contain a billion pixels.

    Args:
        content: The file's bytes.
        name: Name for messages.
        max_pixels: Maximum number of pixels.
        upright: Whether to apply the EXIF orientation; False if boxes refer to the stored pixels.

    Returns:
        The first frame, with 8 bits per channel, transparent pixels on white.

    Raises:
        ToolError: `TOO_LARGE`, or `UNREADABLE_FILE` if it is not an image or is broken.
    """
    with _declared(content, name, max_pixels) as image:
        turn = _turn(image) if upright else None
        return Picture.from_image(image if turn is None else image.transpose(turn))


def image_size(
    content: bytes, *, name: str = "image", max_pixels: int = MAX_IMAGE_PIXELS, upright: bool = True
) -> tuple[int, int]:
    """Returns the width and height in an image's header, without decoding its pixels.

    Args:
        content: The file's bytes.
        name: Name for messages.
        max_pixels: Maximum number of pixels.
        upright: As in `decode_image`.

    Returns:
        Columns and rows.

    Raises:
        ToolError: As `decode_image`.
    """
    with _declared(content, name, max_pixels) as image:
        width, height = image.size
        return (height, width) if upright and _turn(image) in _SIDEWAYS else (width, height)


_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Transformation that makes an image upright, by EXIF orientation. `ImageOps.exif_transpose` fails on some
invalid tags."""

_SIDEWAYS = tuple(_TURNS[orientation] for orientation in (5, 6, 7, 8))


def _turn(image: Image.Image) -> Image.Transpose | None:
    """Returns an image's transformation from its header; the PNG reader's own method would decode the pixels."""
    try:
        orientation: Any = Image.Image.getexif(image).get(ExifTags.Base.Orientation)
        return _TURNS.get(orientation)
    except Exception:  # invalid EXIF data raise many kinds of errors, but the pixels may be intact
        return None


@contextmanager
def _declared(content: bytes, name: str, max_pixels: int) -> Iterator[Image.Image]:
    """Yields an image with a limited declared size; exceptions of decoders become `ToolError`."""
    try:
        with Image.open(io.BytesIO(content), formats=_IMAGE_FORMATS) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise ToolError(
                    ToolErrorKind.TOO_LARGE,
                    f"The image {quoted(name)} declares {width} x {height} pixels; at most {max_pixels} are decoded.",
                )
            yield image
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ToolError(
            ToolErrorKind.TOO_LARGE,
            f"The image {quoted(name)} declares more pixels than can be decoded; at most {max_pixels} are.",
        ) from error
    except (ToolError, MemoryError):
        raise
    except UnidentifiedImageError as error:
        raise ToolError(
            ToolErrorKind.UNREADABLE_FILE, f"The file {quoted(name)} is no image of {', '.join(_IMAGE_FORMATS)}."
        ) from error
    except Exception as error:  # decoders raise OSError, SyntaxError, ValueError, EOFError, struct.error, and others
        raise ToolError(
            ToolErrorKind.UNREADABLE_FILE, f"The image {quoted(name)} is broken: {quoted(str(error))}."
        ) from error


ValueT = TypeVar("ValueT")


class BoundedCache(Generic[ValueT]):
    """A least-recently-used cache. Thread-safe: each value is made by one thread; pickled copies are empty.

    Args:
        max_size: Total size of the values; the last one is kept regardless of its size.
        size_of: Returns a value's size, which must not change; None if each counts as 1.
        drop: Called with every evicted value.
    """

    def __init__(
        self,
        max_size: int,
        *,
        size_of: Callable[[ValueT], int] | None = None,
        drop: Callable[[ValueT], None] | None = None,
    ) -> None:
        self._max_size, self._size_of, self._drop = max_size, size_of, drop
        self._values: OrderedDict[Hashable, ValueT] = OrderedDict()
        self._size = 0
        self.renew_lock()
        _caches.add(self)

    def get(self, key: Hashable, make: Callable[[], ValueT]) -> ValueT:
        """Returns the value of a key, making it unless it is cached."""
        with self._lock:
            if key not in self._values:
                self._values[key] = made = make()
                self._size += self._weight(made)
            self._values.move_to_end(key)
            while len(self._values) > 1 and self._size > self._max_size:
                _, dropped = self._values.popitem(last=False)
                self._size -= self._weight(dropped)
                if self._drop is not None:
                    self._drop(dropped)
            return self._values[key]

    def _weight(self, value: ValueT) -> int:
        return 1 if self._size_of is None else self._size_of(value)

    def renew_lock(self) -> None:
        """Replaces the lock: in a process forked while a thread was making a value, it would never be released."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _empty, (self._max_size, self._size_of, self._drop)


def _empty(max_size: int, size_of: Any, drop: Any) -> BoundedCache[Any]:
    return BoundedCache(max_size, size_of=size_of, drop=drop)


_caches: weakref.WeakSet[BoundedCache[Any]] = weakref.WeakSet()


def _renew_locks() -> None:
    for cache in _caches:
        cache.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
