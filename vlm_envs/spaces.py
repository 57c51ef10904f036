"""Gymnasium spaces that arrays cannot represent: free text, and several images of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import create_shared_memory

from vlm_envs.errors import ConfigError
from vlm_envs.validation import require_positive

T = TypeVar("T")

MAX_SIDE_PX = 4096
"""Maximum side of the single image of an observation; the space alone takes four times its bytes."""

MAX_GRID = 512
"""Maximum number of rows or columns of a grid: with cells of 8 px, the smallest, no image can show more."""

MAX_RESOLUTION = 2048
"""Largest `resolution` of the worlds that have one."""

_SAMPLE_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789 ,.<>/_#{}[]()\"'\\\n\té世🙂"


NO_ARRAYS = (
    "Observations with text, or several images, have no array form, so libraries that batch observations in arrays, "
    "such as stable-baselines3, accept only worlds made with gymnasium.make(..., action_mode='discrete'), which "
    "show one "
    "image and number their actions; see 'Other libraries' in docs/reference.md."
)
NO_SHARED_MEMORY = (
    "Observations with text, or several images, have no form in shared memory: call gymnasium.make_vec(..., "
    "vectorization_mode='async', vector_kwargs={'shared_memory': False}), or omit vectorization_mode to get the "
    "suite's own vector environment, with workers='process' for processes."
)


class _NoShape:
    """Placeholder for the shape of an array space; using it as a shape raises an error that explains its absence."""

    def __iter__(self) -> Iterator[int]:
        raise ConfigError(NO_ARRAYS)

    def __len__(self) -> int:
        raise ConfigError(NO_ARRAYS)

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "None"


class _WithoutShape(spaces.Space[T]):
    """A space whose elements have no array form. Spaces of the same type and limits are equal."""

    def __init__(self, dtype: type | None, seed: int | np.random.Generator | None, **limits: int) -> None:
        self.limits = {name: require_positive(name, limit) for name, limit in limits.items()}
        super().__init__(shape=None, dtype=dtype, seed=seed)

    @property
    def shape(self) -> Any:
        """Placeholder without dimensions; iterating over it raises `ConfigError` with a remedy."""
        return _NoShape()

    @property
    def is_np_flattenable(self) -> bool:
        """False, since there is no array form."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> T:
        """Returns a small random element; raises `ValueError` for a mask."""
        if mask is not None or probability is not None:
            raise ValueError(f"{type(self).__name__}.sample takes no mask and no probability; sample without them.")
        return self._sample()

    def _sample(self) -> T:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={limit}' for name, limit in self.limits.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and other.limits == self.limits


class FreeText(_WithoutShape[str]):
    """Any Unicode string, including the empty one, up to a maximum length.

    Gymnasium's `Text` is alphanumeric and at least one character long by default, and its shared-memory
    buffers corrupt their contents. `FreeText` has no buffer form, so vector environments keep the values in
    tuples. Samples have 0 to 32 characters, including tags and non-ASCII characters.

    Args:
        max_length: Maximum length of a string, in characters.
        seed: Seed of `sample`.

    Raises:
        ConfigError: If `max_length` is not a positive integer.
    """

    def __init__(self, max_length: int = 1_000_000, *, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(str, seed, max_length=max_length)
        self.max_length = self.limits["max_length"]

    def _sample(self) -> str:
        length = int(self.np_random.integers(0, min(32, self.max_length) + 1))
        picks = self.np_random.integers(0, len(_SAMPLE_ALPHABET), size=length)
        return "".join(_SAMPLE_ALPHABET[i] for i in picks)

    def contains(self, x: Any) -> bool:
        """Returns whether `x` is a string no longer than `max_length`."""
        return isinstance(x, str) and len(x) <= self.max_length


class Pictures(_WithoutShape[tuple[npt.NDArray[np.uint8], ...]]):
    """Any number of images up to a limit, uint8[H, W, 3] each, of any sizes up to a limit.

    Args:
        max_pictures: Maximum number of images.
        max_side_px: Maximum side of each, in pixels.
        seed: Seed of `sample`.

    Raises:
        ConfigError: If a limit is not a positive integer.
    """

    def __init__(
        self, max_pictures: int = 16, max_side_px: int = 16_384, *, seed: int | np.random.Generator | None = None
    ) -> None:
        super().__init__(None, seed, max_pictures=max_pictures, max_side_px=max_side_px)
        self.max_pictures, self.max_side_px = self.limits["max_pictures"], self.limits["max_side_px"]

    def _sample(self) -> tuple[npt.NDArray[np.uint8], ...]:
        count = int(self.np_random.integers(0, min(3, self.max_pictures) + 1))
        longest = min(8, self.max_side_px)
        sizes = self.np_random.integers(1, longest + 1, size=(count, 2))
        return tuple(self.np_random.integers(0, 256, size=(*size, 3), dtype=np.uint8) for size in sizes)

    def contains(self, x: Any) -> bool:
        """Returns whether `x` is a tuple of images within the limits."""
        return isinstance(x, tuple) and len(x) <= self.max_pictures and all(map(self._is_picture, x))

    def _is_picture(self, x: Any) -> bool:
        if not isinstance(x, np.ndarray) or x.dtype != np.uint8 or x.ndim != 3 or x.shape[2] != 3:
            return False
        sides: tuple[int, ...] = x.shape
        return 1 <= min(sides) <= max(sides) <= self.max_side_px

    def to_jsonable(self, sample_n: Iterable[tuple[npt.NDArray[np.uint8], ...]]) -> list[Any]:
        """Returns the images as nested lists."""
        return [[picture.tolist() for picture in pictures] for pictures in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[tuple[npt.NDArray[np.uint8], ...]]:
        """Returns the images from the output of `to_jsonable`."""
        return [tuple(np.asarray(picture, np.uint8) for picture in pictures) for pictures in sample_n]


@create_shared_memory.register(FreeText)
@create_shared_memory.register(Pictures)
def _refuse_shared_memory(space: FreeText | Pictures, n: int = 1, ctx: Any = None) -> Any:
    """Raises `ConfigError` with a remedy, which Gymnasium's own message lacks."""
    raise ConfigError(NO_SHARED_MEMORY)
