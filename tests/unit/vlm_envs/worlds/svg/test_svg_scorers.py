"""The structural similarity, validated on random icons of all bands: growing mistakes lower it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from tests.unit.slow import quick, sized
from vlm_envs.worlds.svg.svg_icons import draw_icon
from vlm_envs.worlds.svg.svg_renderer import Renderer
from vlm_envs.worlds.svg.svg_scorers import StructuralScorer

pytest.importorskip("cairosvg", reason="drawing needs cairosvg: pip install 'vlm-envs[svg]'")

NUM_ICONS = sized(50, soak=200)
TOLERANCE = 0.01
RENDERER = Renderer(size_px=112)
SCORER = StructuralScorer()


def icons() -> list[str]:
    rng = np.random.default_rng(0)
    return [draw_icon(rng, 1 + index % 5) for index in range(NUM_ICONS)]


def pixels(markup: str) -> np.ndarray:
    rendering = RENDERER.render(markup)
    assert rendering.pixels is not None, rendering.error
    return rendering.pixels


def transformed(markup: str, transform: str) -> str:
    head, bracket, body = markup.partition(">")
    return f'{head}{bracket}<g transform="{transform}">{body.removesuffix("</svg>")}</g></svg>'


def shifted(markup: str) -> list[np.ndarray]:
    return [pixels(transformed(markup, f"translate({by} {by / 2})")) for by in (2, 5, 10, 18, 30)]


def scaled(markup: str) -> list[np.ndarray]:
    about = "translate(32 32) scale({}) translate(-32 -32)"
    return [pixels(transformed(markup, about.format(factor))) for factor in (0.93, 0.85, 0.7, 0.5, 0.3)]


def hue_turned(markup: str) -> list[np.ndarray]:
    original = np.array(Image.fromarray(pixels(markup)).convert("HSV"))
    turned = []
    for degrees in (20, 50, 80, 120, 160):
        hsv = original.copy()
        hsv[..., 0] += np.uint8(degrees * 256 // 360)  # wraps around as hues do
        turned.append(np.asarray(Image.fromarray(hsv, "HSV").convert("RGB")))
    return turned


def without_elements(markup: str) -> list[np.ndarray]:
    num_elements = len(ET.fromstring(markup))
    drawings = []
    for num_left in range(num_elements - 1, -1, -1):
        root = ET.fromstring(markup)
        for element in list(root)[num_left:]:
            root.remove(element)
        drawings.append(pixels(ET.tostring(root, encoding="unicode")))
    return drawings


@pytest.mark.parametrize(
    ("perturb", "share"),
    quick([(shifted, 0.97), (scaled, 0.99), (hue_turned, 0.97), (without_elements, 0.99)], (without_elements, 0.99)),
)
def test_growing_mistakes_lower_the_score(perturb, share):
    num_monotone = 0
    for markup in icons():
        target = pixels(markup)
        scores = [1.0, *(SCORER.similarity(target, drawing) for drawing in perturb(markup))]
        num_monotone += all(later <= earlier + TOLERANCE for earlier, later in pairwise(scores))
    assert num_monotone / NUM_ICONS >= share


def test_true_beats_near_beats_far():
    rng, num_ranked = np.random.default_rng(5), 0
    for index, markup in enumerate(icons()):
        dx, dy, degrees = rng.integers(-6, 7), rng.integers(-6, 7), rng.integers(-10, 11)
        target = pixels(markup)
        near = SCORER.similarity(target, pixels(transformed(markup, f"translate({dx} {dy}) rotate({degrees} 32 32)")))
        far = SCORER.similarity(target, pixels(draw_icon(rng, 1 + index % 5)))
        num_ranked += SCORER.similarity(target, target) > near > far
    assert num_ranked / NUM_ICONS >= 0.95


def test_equal_is_one_and_blank_is_nothing():
    blank = np.full((112, 112, 3), 255, np.uint8)
    for markup in icons()[:20]:
        target = pixels(markup)
        assert SCORER.similarity(target, target.copy()) == 1.0
        assert SCORER.similarity(target, blank) == 0.0
        one_pixel_off = target.copy()
        one_pixel_off[0, 0] = 0
        assert 0.9 < SCORER.similarity(target, one_pixel_off) < 1.0


def test_covering_everything_earns_little():
    black = np.zeros((112, 112, 3), np.uint8)
    scores = [SCORER.similarity(pixels(markup), black) for markup in icons()]
    assert np.mean(scores) < 0.2
