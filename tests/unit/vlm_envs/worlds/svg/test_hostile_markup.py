"""Whatever a model writes, drawing it is bounded, explained and followed by the next drawing."""

from __future__ import annotations

import os
import signal
import time

import pytest

from vlm_envs.worlds.svg import painter_process
from vlm_envs.worlds.svg.descriptions import describe
from vlm_envs.worlds.svg.renderer import Renderer
from vlm_envs.worlds.svg.shapes import shapes_of
from vlm_envs.worlds.svg.state import SvgState
from vlm_envs.worlds.svg.task import parse_drawing

pytest.importorskip("cairosvg", reason="drawing needs cairosvg: pip install 'vlm-envs[svg]'")

GOOD = '<svg viewBox="0 0 64 64"><circle cx="32" cy="32" r="20" fill="red"/></svg>'
XLINK = 'xmlns:xlink="http://www.w3.org/1999/xlink"'


def svg(inside: str, attributes: str = 'viewBox="0 0 64 64"') -> str:
    return f"<svg {attributes}>{inside}</svg>"


def doubling(element: str, link: str) -> str:
    """Returns eight levels of definitions, ten uses of the level below in each."""
    levels = [f'<g id="a0">{element}</g>']
    levels += [f'<g id="a{level + 1}">{link.format(level) * 10}</g>' for level in range(8)]
    return "".join(levels)


REFUSED = {
    "billion laughs": (
        '<!DOCTYPE svg [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>' + svg("<text>&b;</text>"),
        "DOCTYPE",
    ),
    "undefined entity": (svg("<text>&b;</text>"), "well-formed"),
    "external entity": ('<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/hostname">]>' + svg("&a;"), "DOCTYPE"),
    "style sheet elsewhere": ('<?xml-stylesheet href="http://localhost/a.css"?>' + svg(""), "not allowed"),
    "other encoding": ('<?xml version="1.0" encoding="cp037"?>' + svg(""), "encoding"),
    "exponential use": (svg(doubling("<path/>", '<use href="#a{}"/>')), "more than 5000"),
    "exponential patterns": (
        svg(
            "".join(
                f'<pattern id="p{i}" width="9" height="9">' + f'<path fill="url(#p{i - 1})"/>' * 9 + "</pattern>"
                for i in range(8)
            )
        ),
        "more than 5000",
    ),
    "use of itself": (svg('<g id="a"><use href="#a"/></g>'), "refers to itself"),
    "gradients in a circle": (
        svg('<linearGradient id="a" href="#b"/><linearGradient id="b" href="#a"/><path fill="url(#a)"/>'),
        "refers to itself",
    ),
    "clip path of itself": (svg('<clipPath id="c"><rect clip-path="url(#c)"/></clipPath>'), "refers to itself"),
    "mask of itself": (svg('<mask id="m"><rect mask="url(#m)"/></mask>'), "refers to itself"),
    "filter of itself": (svg('<filter id="f"><feFlood filter="url(#f)"/></filter>'), "refers to itself"),
    "deep nesting": ("<svg>" + "<g>" * 9_000, "nested more than 32"),
    "100,000 levels": ("<svg>" + "<g>" * 100_000, "bytes"),
    "many elements": (svg("<g/>" * 5_000), "more than the 1000 elements"),
    "long chain": (
        svg("".join(f'<g id="a{i}"><use href="#a{i + 1}"/></g>' for i in range(200))),
        "nested more than 64",
    ),
    "huge page": (svg("", 'width="1000000000" height="1000000000"'), "width and height"),
    "huge viewBox": (svg("", 'viewBox="0 0 1e9 1e9"'), "width and height"),
    "no size": ("<svg></svg>", "no viewBox"),
    "viewBox of NaN": (svg("", 'viewBox="0 0 NaN 9"'), "finite numbers"),
    "negative viewBox": (svg("", 'viewBox="0 0 -9 9"'), "width and height"),
    "file by xlink": (svg('<use xlink:href="file:///etc/hostname"/>', f'viewBox="0 0 9 9" {XLINK}'), "outside"),
    "file by href": (svg('<use href="/etc/hostname#a"/>'), "outside"),
    "network by url()": (svg('<rect fill="url( http://localhost/a#b )"/>'), "outside"),
    "network by style": (svg("<style>rect{fill:url('http://localhost/a')}</style>"), "outside"),
    "network by import": (svg("<style>@import 'http://localhost/a';</style>"), "@ rules"),
    "escaped url()": (svg(r"<style>rect{fill:u\72l(http://localhost/a)}</style>"), "backslashes"),
    "data image": (svg('<image href="data:image/png;base64,AAAA"/>'), "<image>"),
    "script": (svg("<script>1</script>"), "<script>"),
    "null byte": (svg("\0"), "well-formed"),
    "surrogate": (svg("\ud800"), "surrogate"),
    "unclosed": ("<svg", "well-formed"),
    "another root": ("<html><svg/></html>", "<html>"),
    "huge pattern": (
        svg('<pattern id="p" width="1e7" height="1e7"><rect width="9" height="9"/></pattern><path fill="url(#p)"/>'),
        None,
    ),
}
"""Markup, and a part of the reason it is refused for; None where it may be drawn as well."""

BOUNDED = {
    "reference to nothing": svg('<rect fill="url(#)" width="9" height="9"/>'),
    "NaN coordinates": svg('<rect x="NaN" y="nan" width="inf" height="1e999" transform="rotate(1e999) scale(1e300)"/>'),
    "NaN opacity": svg('<rect opacity="NaN" width="9" height="9"/>'),
    "tiny dashes": svg('<path d="M0 0L64 64L1e9 0" stroke="red" stroke-dasharray="0.0000001"/>'),
    "many dashes": svg(f'<path d="M0 0L64 64" stroke="red" stroke-dasharray="{"1 " * 20_000}"/>'),
    "tiny pattern": svg('<pattern id="p" width="1e-9" height="1e-9"/><rect width="64" height="64" fill="url(#p)"/>'),
    "many markers": svg(
        f'<marker id="m"><circle r="5"/></marker><polyline marker-mid="url(#m)" points="{"1,2 3,4 " * 7_000}"/>'
    ),
    "strange text": svg('<text y="30">\u202e\u0301🙂Ж世\ufffd\u200b</text>'),
    "huge text": svg('<text font-size="1e9" y="30">a</text>'),
    "mask by style sheet": svg('<style>*{mask:url(#m)}</style><mask id="m"><rect width="9" height="9"/></mask><rect/>'),
    "long transform": svg(f'<rect transform="{"a" * 60_000}" width="9" height="9"/>'),
    "many transforms": svg(f'<rect transform="{"scale(1e9)" * 5_000}" width="9" height="9"/>'),
    "long number": svg(f'<rect x="{"9" * 60_000}" width="9" height="9" fill="{"#" * 3_000}"/>'),
    "path of letters": svg(f'<path d="{"MZAaLl" * 9_000}"/>'),
    "huge arcs": svg('<path d="M0 0A1e9 1e-9 1e9 1 0 1e9 1e9"/>'),
}
"""Markup that may be drawn or not, but not for long."""


@pytest.fixture(scope="module")
def renderer():
    renderer = Renderer(size_px=64, timeout_s=2.0)
    assert renderer.render(GOOD).error is None
    yield renderer
    renderer.close()


@pytest.mark.parametrize("name", [*REFUSED, *BOUNDED])
def test_every_drawing_is_bounded_and_followed_by_the_next(renderer, name):
    markup, reason = REFUSED[name] if name in REFUSED else (BOUNDED[name], None)
    start = time.process_time()  # what this process works; the drawing itself is ended by the renderer's own limit
    rendering = renderer.render(markup)
    state = SvgState(target=GOOD, drawing=markup, error=rendering.error)
    told = [describe(state, representation) for representation in ("natural_language", "structured")]
    assert time.process_time() - start < 5
    assert all(told)
    assert (rendering.error is None) != (rendering.pixels is None)
    if reason is not None:
        assert reason in rendering.error
    if rendering.error is not None:
        assert 0 < len(rendering.error) < 300
    assert renderer.render(GOOD.replace("32", str(len(name)))).error is None


def test_a_reference_without_a_name_is_no_circle(renderer):
    assert renderer.render(BOUNDED["reference to nothing"]).error is None


def test_a_late_drawing_is_ended_and_the_next_one_drawn():
    renderer = Renderer(size_px=64, timeout_s=0.05)
    renderer.render(GOOD)
    late = renderer.render(BOUNDED["many markers"])
    assert late.pixels is None
    assert "more than 0.05 s" in late.error
    assert Renderer(size_px=64).render(GOOD.replace("red", "blue")).pixels[32, 32].tolist() == [0, 0, 255]


def test_a_process_that_neither_reads_nor_answers_is_late_too():
    process = painter_process.PainterProcess()
    process.start()
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(painter_process.PaintingError, match=r"more than 0\.5 s"):
        process.paint(b"<svg/>" + b" " * (1 << 23), size_px=16, timeout_s=0.5)
    process.close()


def test_a_process_ended_from_outside_is_replaced(renderer):
    renderer.render(GOOD.replace("red", "teal"))  # not drawn before, so that there is a process, whatever came before
    before = painter_process.SHARED.pid
    os.kill(before, signal.SIGKILL)
    assert renderer.render(GOOD.replace("red", "lime")).pixels[32, 32].tolist() == [0, 255, 0]
    assert painter_process.SHARED.pid != before


def test_a_process_is_replaced_before_it_grows_old(monkeypatch):
    monkeypatch.setattr(painter_process, "MAX_DRAWINGS", 2)
    renderer = Renderer(size_px=16)
    pids = set()
    for radius in range(1, 6):
        renderer.render(GOOD.replace("20", str(radius)))
        pids.add(painter_process.SHARED.pid)
    assert len(pids) >= 2


def test_what_is_not_installed_is_named(monkeypatch, tmp_path):
    broken = tmp_path / "painter.py"
    broken.write_text(
        "import sys\nsys.modules['cairosvg'] = None\n"
        f"exec(open({painter_process.painter.__file__!r}).read().replace('__file__', 'None'))\n"
    )
    monkeypatch.setattr(painter_process.painter, "__file__", str(broken))
    from vlm_envs.errors import EngineUnavailableError

    with pytest.raises(EngineUnavailableError, match=r"vlm-envs\[svg\]"):
        painter_process.PainterProcess().paint(b"<svg/>", size_px=16, timeout_s=1.0)


def test_drawings_keep_their_proportions_on_white():
    wide = '<svg viewBox="0 0 64 32"><rect width="64" height="32" fill="blue"/></svg>'
    pixels = Renderer(size_px=64).render(wide).pixels
    assert pixels[32, 1].tolist() == [0, 0, 255]
    assert pixels[4, 32].tolist() == pixels[60, 32].tolist() == [255, 255, 255]


def test_equal_markup_is_drawn_once(renderer):
    assert renderer.render(GOOD) is renderer.render(GOOD)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD, GOOD),
        (f"```svg\n{GOOD}\n```", GOOD),
        (f"Here: {GOOD}", f"Here: {GOOD}"),
        ("a red circle", None),
        ("```" + " " * 50_000, None),
        ("``````", None),
        ("<svg", "<svg"),
    ],
)
def test_answers_with_svg_are_drawings(text, expected):
    assert parse_drawing(text) == expected


def test_shapes_beyond_a_limit_are_left_out():
    assert len(shapes_of(svg('<rect width="1" height="1"/>' * 900))) == 200
