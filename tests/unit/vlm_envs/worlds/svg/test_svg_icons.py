"""Random icons: short, drawable, within the sheet, different, and as hard as their band says."""

from __future__ import annotations

import numpy as np
import pytest

from vlm_envs.errors import ConfigError
from vlm_envs.worlds.svg.svg_icons import BANDS, check_difficulty, draw_icon
from vlm_envs.worlds.svg.svg_renderer import Renderer
from vlm_envs.worlds.svg.svg_shapes import shapes_of
from vlm_envs.worlds.svg.svg_world import suboptimal_markup

pytest.importorskip("cairosvg", reason="drawing needs cairosvg: pip install 'vlm-envs[svg]'")

LONGEST = {1: 100, 2: 260, 3: 600, 4: 1_400, 5: 800}


@pytest.mark.parametrize("band", BANDS)
def test_icons_are_short_and_can_be_drawn(band):
    rng, renderer = np.random.default_rng(band), Renderer(size_px=64)
    for _ in range(60):
        markup = draw_icon(rng, band)
        assert len(markup) <= LONGEST[band]
        assert not renderer.render(markup).is_blank


@pytest.mark.parametrize("band", BANDS)
def test_icons_differ(band):
    rng = np.random.default_rng(band)
    assert len({draw_icon(rng, band) for _ in range(500)}) > 450


def test_the_same_generator_draws_the_same_icons():
    first, second = ([draw_icon(np.random.default_rng(3), "mixed") for _ in range(5)] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("band", "counts"), [(1, {1}), (2, {2, 3})])
def test_plain_bands_have_few_shapes(band, counts):
    rng = np.random.default_rng(0)
    assert {len(shapes_of(draw_icon(rng, band))) for _ in range(100)} == counts


@pytest.mark.parametrize("band", [1, 2])
def test_plain_shapes_lie_on_the_sheet(band):
    rng = np.random.default_rng(0)
    for _ in range(100):
        for shape in shapes_of(draw_icon(rng, band)):
            assert min(shape["box"]) >= 4 and max(shape["box"]) <= 60


@pytest.mark.parametrize(("band", "made_of", "share"), [(3, "<rect", 0.5), (4, "transform=", 1.0), (5, "<path", 1.0)])
def test_bands_use_what_they_are_made_of(band, made_of, share):
    rng = np.random.default_rng(1)
    assert np.mean([made_of in draw_icon(rng, band) for _ in range(100)]) >= share


@pytest.mark.parametrize("difficulty", [0, 6, True, "hard", None, 1.0])
def test_other_difficulties_are_refused(difficulty):
    with pytest.raises(ConfigError, match="difficulty must be"):
        check_difficulty(difficulty)


def test_a_suboptimal_drawing_is_something_else_that_can_be_drawn():
    rng, renderer, num_different = np.random.default_rng(2), Renderer(size_px=64), 0
    for _ in range(100):
        markup = draw_icon(rng, "mixed")
        suboptimal = suboptimal_markup(markup)
        assert renderer.render(suboptimal).error is None
        num_different += suboptimal != markup
    assert num_different > 70
