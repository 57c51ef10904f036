"""Rendering of scenes: any region, or a whole image in bands, with a cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs.content.scenes.scene import Scene
from vlm_envs.content.scenes.settings import SETTINGS
from vlm_envs.content.scenes.settings.setting import Scenery, Stroke, draw_strokes
from vlm_envs.content.scenes.sprites import sprite
from vlm_envs.tools.coordinates import PixelRectangle
from vlm_envs.tools.data_files import BoundedCache
from vlm_envs.tools.pictures import Picture

CACHE_BYTES = 512 * 1024 * 1024
"""Maximum bytes of images cached per process; the most recent one is kept regardless of size."""

_BAND_ROWS = 1024
"""Rows drawn at a time: Pillow needs four bytes per pixel, and a quarter of a gigabyte for an 8,000 x 8,000 canvas."""

_STROKES_SEED = 1
_PLAN_SEED = 0


def scenery_plan(setting: str, width: int, height: int, seed: int) -> Scenery:
    """Returns the scenery plan of a setting, deterministically."""
    return SETTINGS[setting](width, height, np.random.default_rng((_PLAN_SEED, seed)))


def render_region(scene: Scene, region: PixelRectangle) -> npt.NDArray[np.uint8]:
    """Renders a region of a scene; its pixels equal those of the whole image.

    Args:
        scene: The scene.
        region: A rectangle inside it.

    Returns:
        uint8[rows, columns, 3].
    """
    return _drawn(scene, _scenery(scene), region)


def render(scene: Scene) -> npt.NDArray[np.uint8]:
    """Renders a whole scene, uint8[height, width, 3]."""
    strokes = _scenery(scene)
    pixels = np.empty((scene.height, scene.width, 3), np.uint8)
    for top in range(0, scene.height, _BAND_ROWS):
        bottom = min(scene.height, top + _BAND_ROWS)
        pixels[top:bottom] = _drawn(scene, strokes, PixelRectangle(0, top, scene.width, bottom))
    return pixels


@dataclass(frozen=True)
class SceneImageRef:
    """A scene as an image that is drawn on demand.

    Attributes:
        scene: The description; only this is pickled and compared.
    """

    scene: Scene

    @property
    def width(self) -> int:
        """Columns."""
        return self.scene.width

    @property
    def height(self) -> int:
        """Rows."""
        return self.scene.height

    @property
    def digest(self) -> str:
        """Hash of the description."""
        return self.scene.digest

    def picture(self) -> Picture:
        """Returns the pixels, drawn unless they are still cached."""
        return _pictures.get(self.scene, lambda: _picture(self.scene))


_pictures: BoundedCache[Picture] = BoundedCache(CACHE_BYTES, size_of=lambda picture: picture.pixels.nbytes)


def _picture(scene: Scene) -> Picture:
    pixels = render(scene)
    pixels.flags.writeable = False  # so that `Picture` need not copy them
    return Picture(pixels)


def _scenery(scene: Scene) -> list[Stroke]:
    plan = scenery_plan(scene.setting, scene.width, scene.height, scene.scenery_seed)
    return list(plan.strokes(np.random.default_rng((_STROKES_SEED, scene.scenery_seed))))


def _drawn(scene: Scene, strokes: list[Stroke], region: PixelRectangle) -> npt.NDArray[np.uint8]:
    plan = scenery_plan(scene.setting, scene.width, scene.height, scene.scenery_seed)
    canvas = Image.fromarray(plan.ground(region))
    draw_strokes(canvas, strokes, region)
    for thing in scene.things:
        if thing.frame.overlap(region):
            image = sprite(thing.appearance)
            canvas.paste(image, (thing.x - region.left, thing.y - region.top), image)
    return np.asarray(canvas)
