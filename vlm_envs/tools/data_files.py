"""Files that a model or a dataset names in one folder (regular ones of bounded size), and a cache of bounded size."""

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
"""Most pixels an image may declare; above 8192 x 8192 and below Pillow's own limit, which only warns."""

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Largest file that is read."""

_MAX_NAME_CHARS = 512
_FORBIDDEN_CHARS = frozenset("\\:<>")
"""Those of other systems' paths, and angle brackets, since a message that repeats a name must hold no tag."""

_IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")


class FileRoot:
    """The one folder that names refer to.

    A name may differ from the file's in the case of its extension and in its Unicode normalization.

    Args:
        folder: It must exist; `~` is the user's home.
        follows_links: Whether symbolic links may lead out of the folder: for names from the user's own data files,
            which often link to a cache. Names that a model writes must stay inside.

    Raises:
        ConfigError: If it is not a folder.
    """

    def __init__(self, folder: str | Path, *, follows_links: bool = False) -> None:
        require(bool(str(folder).strip()), f"folder must be a folder's path; got {folder!r}.")
        self._folder = Path(os.path.expanduser(folder)).resolve()
        self._follows_links = follows_links
        if not self._folder.is_dir():
            raise ConfigError(f"{folder} is not a folder. Give the folder that holds the files.")

    @property
    def folder(self) -> str:
        """Its absolute path."""
        return str(self._folder)

    def names(self, suffix: str = "") -> list[str]:
        """Returns the names of the files directly in the folder, in order.

        Args:
            suffix: Only names that end in it, their extensions written in lower case; empty for all names as they are.
        """
        names = (path.name for path in self._folder.iterdir() if path.is_file())
        if not suffix:
            return sorted(names)
        return sorted({name for name in map(with_plain_extension, names) if name.endswith(suffix)})

    def existing(self, names: Iterable[str]) -> list[str]:
        """Returns those of some names that name a file."""
        return [name for name in names if self.has(name)]

    def has(self, name: str) -> bool:
        """Returns whether a name names a file, without the list of files that an error would take."""
        return self._leads_to(name, Path.is_file)

    def has_folder(self, name: str) -> bool:
        """Returns whether a name names a folder."""
        return self._leads_to(name, Path.is_dir)

    def _leads_to(self, name: str, is_it: Callable[[Path], bool]) -> bool:
        with suppress(ToolError):
            return (path := self._found(name)) is not None and is_it(path)
        return False

    def read(self, name: str, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """Returns a file's bytes.

        Args:
            name: Path relative to the folder, with forward slashes.
            max_bytes: Largest size read.

        Returns:
            All of it.

        Raises:
            ToolError: `FORBIDDEN_PATH` for absolute names, names with `..` and links that lead outside;
                `UNKNOWN_FILE`; `UNREADABLE_FILE` for folders, devices and pipes; `TOO_LARGE`.
        """
        with self.opened(name) as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(max_bytes + 1)  # Not by its size: a file may grow while it is read.
        if len(content) > max_bytes:
            raise ToolError(
                ToolErrorKind.TOO_LARGE,
                f"The file {quoted(name)} has {size} bytes; at most {max_bytes} are read.",
            )
        return content

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        """Opens a file for reading, for those too large to be read at once.

        Args:
            name: Path relative to the folder, with forward slashes.

        Yields:
            The file, closed afterwards.

        Raises:
            ToolError: As `read`, but for `TOO_LARGE`.
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
        """Returns an image file's pixels.

        Args:
            name: Path relative to the folder.
            max_pixels: Most pixels it may declare.

        Returns:
            Its first frame, turned upright as its EXIF orientation says.

        Raises:
            ToolError: As `read` and `decode_image`.
        """
        return decode_image(self.read(name), name=name, max_pixels=max_pixels)

    def _open(self, name: str) -> int:
        """Returns a descriptor of what a name refers to, whatever it is."""
        # Links were resolved: what is opened must not be one again. A pipe must not block.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(self._path(name), flags)
        except OSError as error:
            raise ToolError(
                ToolErrorKind.UNREADABLE_FILE, f"The file {quoted(name)} cannot be read: {error.strerror}."
            ) from error

    def _path(self, name: str) -> Path:
        """Returns the real path of a name; raises `ToolError` with the names that exist where there is none."""
        if (path := self._found(name)) is None:
            there = listed(self.names())
            raise ToolError(ToolErrorKind.UNKNOWN_FILE, f"There is no file {quoted(name)}. Files that exist: {there}.")
        return path

    def _found(self, name: str) -> Path | None:
        """Returns the real path of a name, inside the folder unless a link may lead out; None where there is none."""
        self._check_name(name)
        for spelling in _spellings(self._folder, name):
            try:
                path = (self._folder / spelling).resolve(strict=True)
            except (OSError, RuntimeError, ValueError):  # RuntimeError: a loop of links.
                continue
            if not self._follows_links and not path.is_relative_to(self._folder):
                raise ToolError(ToolErrorKind.FORBIDDEN_PATH, f"{quoted(name)} leads out of the folder.")
            return path
        return None

    def _check_name(self, name: str) -> None:
        """Refuses names that lead upward; from a model also characters that other systems or tags give a meaning."""
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
    """Returns a file name with its extension in lower case."""
    stem, dot, extension = name.rpartition(".")
    return f"{stem}{dot}{extension.lower()}" if dot else name


def _spellings(folder: Path, name: str) -> Iterator[str]:
    """Yields a name, then what the same file may be called: other normal forms, its extension in another case."""
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
    """Returns what names have in common that differ in the case of their extension or in their normal form."""
    return unicodedata.normalize("NFC", with_plain_extension(name))


def decode_image(
    content: bytes, *, name: str = "image", max_pixels: int = MAX_IMAGE_PIXELS, upright: bool = True
) -> Picture:
    """Decodes an image whose header declares no more than `max_pixels` pixels.

    The header is read first and nothing is decoded before its size is known: a few kilobytes of PNG can declare, and
    hold, a thousand million pixels.

    Args:
        content: A file's bytes.
        name: What to call it in messages.
        max_pixels: Most pixels.
        upright: Whether the EXIF orientation is applied; False where boxes refer to the stored pixels.

    Returns:
        The first frame, in 8 bits per channel, transparent pixels on white.

    Raises:
        ToolError: `TOO_LARGE`, or `UNREADABLE_FILE` if it is no picture or a broken one.
    """
    with _declared(content, name, max_pixels) as image:
        turn = _turn(image) if upright else None
        return Picture.from_image(image if turn is None else image.transpose(turn))


def image_size(
    content: bytes, *, name: str = "image", max_pixels: int = MAX_IMAGE_PIXELS, upright: bool = True
) -> tuple[int, int]:
    """Returns width and height as an image's header declares them; its pixels are not decoded.

    Args:
        content: A file's bytes.
        name: What to call it in messages.
        max_pixels: Most pixels.
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
"""What makes an image of each EXIF orientation upright. `ImageOps.exif_transpose` fails on some invalid EXIF tags."""

_SIDEWAYS = tuple(_TURNS[orientation] for orientation in (5, 6, 7, 8))


def _turn(image: Image.Image) -> Image.Transpose | None:
    """Returns what makes an image upright, read off its header: the PNG reader's own method would decode the pixels."""
    try:
        orientation: Any = Image.Image.getexif(image).get(ExifTags.Base.Orientation)
        return _TURNS.get(orientation)
    except Exception:  # Invalid EXIF data raise many kinds of errors; the pixels may be whole
        return None


@contextmanager
def _declared(content: bytes, name: str, max_pixels: int) -> Iterator[Image.Image]:
    """Yields an image whose header declares no more than so many pixels; what decoders raise becomes `ToolError`."""
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
    except Exception as error:  # Decoders raise OSError, SyntaxError, ValueError, EOFError, struct.error and others.
        raise ToolError(
            ToolErrorKind.UNREADABLE_FILE, f"The image {quoted(name)} is broken: {quoted(str(error))}."
        ) from error


ValueT = TypeVar("ValueT")


class BoundedCache(Generic[ValueT]):
    """Keeps the values used last. Safe under threads: a value is made by one of them; pickled copies are empty.

    Args:
        max_size: Of all values together; the last one is kept however large it is.
        size_of: A value's size, which never changes; None where each counts as 1.
        drop: Called with every value that is let go.
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
        """Returns the value of a key, made if it is not kept."""
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
        """Makes the lock anew: a process forked while a thread was making a value would wait for ever."""
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
