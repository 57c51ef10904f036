"""Colors and opacities in every notation of CSS are drawn as the plain notation of the same."""

from __future__ import annotations

import numpy as np
import pytest

from vlm_envs.worlds.svg.svg_paints import drawable
from vlm_envs.worlds.svg.svg_renderer import Renderer
from vlm_envs.worlds.svg.svg_styles import color_name

pytest.importorskip("cairosvg", reason="drawing needs cairosvg: pip install 'vlm-envs[svg]'")

GRADIENT = '<linearGradient id="g"><stop stop-color="{0}" stop-opacity="{1}"/><stop offset="100%"/></linearGradient>'
BLUE = '<path d="M0 4h8v4z" fill="blue"/>'


def svg(inside: str) -> str:
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f'<svg viewBox="0 0 8 8" {names}>{inside}</svg>'


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ('<rect width="8" height="8" opacity="50%"/>', '<rect width="8" height="8" opacity="0.5"/>'),
        ('<rect width="8" height="8" fill-opacity="25%"/>', '<rect width="8" height="8" fill-opacity="0.25"/>'),
        ('<path d="M0 4h8" stroke="red" stroke-opacity="9%"/>', '<path d="M0 4h8" stroke="red" stroke-opacity=".09"/>'),
        ('<g style="opacity: 50%"><path d="M0 4h8v4z"/></g>', '<g style="opacity: 0.5"><path d="M0 4h8v4z"/></g>'),
        ('<path d="M0 4h8v4z" fill="hsl(120 100% 25%)"/>', '<path d="M0 4h8v4z" fill="#008000"/>'),
        ('<path d="M0 4h8v4z" fill="hsla(0, 100%, 50%, 50%)"/>', '<path d="M0 4h8v4z" fill="rgba(255,0,0,0.5)"/>'),
        ('<path d="M0 4h8v4z" fill="rgb(255 0 0)"/>', '<path d="M0 4h8v4z" fill="red"/>'),
        ('<path d="M0 4h8v4z" fill="rgb(255 0 0 / 50%)"/>', '<path d="M0 4h8v4z" fill="rgba(255,0,0,0.5)"/>'),
        ('<path d="M0 4h8v4z" fill="#ff000080"/>', '<path d="M0 4h8v4z" fill="rgba(255,0,0,0.502)"/>'),
        ('<path d="M0 4h8v4z" fill="rebeccapurple"/>', '<path d="M0 4h8v4z" fill="#639"/>'),
        ('<path d="M0 4h8v4z" style="fill: RGB(0 0 255)!important"/>', '<path d="M0 4h8v4z" fill="blue"/>'),
        ('<style>path{fill:rgb(255\n 0 0)}</style><path d="M0 4h8v4z"/>', '<path d="M0 4h8v4z" fill="red"/>'),
        ('<g color="red"><path d="M0 4h8v4z" fill="currentcolor"/></g>', '<path d="M0 4h8v4z" fill="red"/>'),
        ('<rect width="8" height="4" fill="rgb(255 0 0 / none)"/><path d="M0 4h8v4z"/>', '<path d="M0 4h8v4z"/>'),
        ('<path d="M0 4h8v4z" opacity="5e1%"/>', '<path d="M0 4h8v4z" opacity="0.5"/>'),
        ('<path d="M0 4h8v4z" fill="blue" opacity="abc"/>', '<path d="M0 4h8v4z" fill="blue"/>'),
        ('<g fill="blue"><path d="M0 4h8v4z" fill="rgb(1,2)"/></g>', '<path d="M0 4h8v4z" fill="blue"/>'),
        ('<path d="M0 4h8v4z" style="fill: blue; fill: rgb(1,2)"/>', '<path d="M0 4h8v4z" fill="blue"/>'),
        *(
            (f'<g opacity="{value}"><path d="M0 4h8v4z" fill="blue" {name}="{value}"/></g>', BLUE)
            for name in ("opacity", "fill-opacity", "stroke-opacity")
            for value in ("", "none", "initial", "unset")
        ),
        ('<g fill="blue"><path d="M0 4h8v4z" fill="" style="fill:"/></g>', BLUE),
        ('<path d="M0 4h8v4z" fill="blue" style="opacity:; fill-opacity: Unset"/>', BLUE),
        ('<g fill-opacity="0"><path d="M0 4h8v4z" fill="blue" fill-opacity="initial"/></g>', BLUE),
        (
            GRADIENT.format("blue", "") + '<rect width="8" height="8" fill="url(#g)"/>',
            GRADIENT.format("blue", "1") + '<rect width="8" height="8" fill="url(#g)"/>',
        ),
        (
            '<style>path { fill: blue; opacity: abc }</style><path d="M0 4h8v4z"/>',
            '<path d="M0 4h8v4z" fill="blue"/>',
        ),
        (
            '<style>path { fill: hsl(0 100% 50%); opacity: 50% }</style><path d="M0 4h8v4z"/>',
            '<path d="M0 4h8v4z" fill="red" opacity="0.5"/>',
        ),
        (
            '<g color="hsl(0 100% 50%)"><path d="M0 4h8v4z" fill="currentColor"/></g>',
            '<path d="M0 4h8v4z" fill="red"/>',
        ),
        (
            '<defs><path id="p" d="M0 4h8v4z" fill="rgb(0 0 255)" opacity="50%"/></defs><use xlink:href="#p"/>',
            '<path d="M0 4h8v4z" fill="blue" opacity="0.5"/>',
        ),
        (
            GRADIENT.format("rgb(0 0 255)", "50%") + '<rect width="8" height="8" fill="url(#g)"/>',
            GRADIENT.format("blue", "0.5") + '<rect width="8" height="8" fill="url(#g)"/>',
        ),
    ],
)
def test_every_notation_is_drawn_as_the_plain_one(written, plain):
    renderer = Renderer(size_px=16)
    first, second = renderer.render(svg(written)), renderer.render(svg(plain))
    assert first.pixels is not None and second.pixels is not None, (first.error, second.error)
    assert not first.is_blank
    assert np.abs(first.pixels.astype(int) - second.pixels).max() <= 1


@pytest.mark.parametrize(
    "inside",
    [
        '<rect width="50%" height="8" fill="red" opacity="0.5"/>',
        '<rect width="8" height="8" fill="rgba(1, 2, 3, 0.5)" style="stroke: #ABC"/>',
        '<rect width="8" height="8" fill="lab(50 20 30)" opacity="inherit"/>',
        '<rect width="8" height="8" fill="url(#hsl)"/>',
    ],
)
def test_what_needs_no_change_is_left_as_it_is(inside):
    assert drawable(svg(inside)) == svg(inside)


def test_nested_parentheses_cost_only_the_declaration():
    depth = 3_000
    rendering = Renderer(size_px=16).render(svg(f'<path style="fill:hsl({"(" * depth}{")" * depth})"/>'))
    assert rendering.pixels is not None
    assert color_name("rgb(" + "(" * 30 + ")" * 30 + ")") == "patterned"


@pytest.mark.parametrize("written", ["rgba(255,0,0,1.)", "rgb(255\n 0 0)", "rgb(255 0 none / none)"])
def test_colors_are_named_as_they_are_drawn(written):
    assert color_name(written) == "red"
