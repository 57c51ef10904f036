"""Markup beyond a limit is refused with a reason, a drawing beyond its limits is ended, and the next one is drawn.

Limits are lowered here until a few bytes, elements, or levels exceed them, so no markup in this file costs a renderer
anything, whether the guard is there or not. What the limits at their real size refuse: entities that multiply,
references that repeat each other, nesting of thousands of levels, pages of enormous sides, and everything that is
loaded from outside the markup.
"""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vlm_envs.worlds.svg import svg_markup, svg_paints, svg_renderer, svg_shapes
from vlm_envs.worlds.svg.svg_markup import FORBIDDEN_ELEMENTS, MarkupError, read_markup
from vlm_envs.worlds.svg.svg_renderer import PainterProcess, PaintingError, Renderer
from vlm_envs.worlds.svg.svg_shapes import shapes_of
from vlm_envs.worlds.svg.svg_world import SvgState, describe, parse_drawing

pytest.importorskip("cairosvg", reason="drawing needs cairosvg: pip install 'vlm-envs[svg]'")

GOOD = '<svg viewBox="0 0 64 64"><circle cx="32" cy="32" r="20" fill="red"/></svg>'
XMLNS = 'xmlns="http://www.w3.org/2000/svg"'
XLINK = 'xmlns:xlink="http://www.w3.org/1999/xlink"'


def svg(inside: str, attributes: str = 'viewBox="0 0 64 64"') -> str:
    return f"<svg {attributes}>{inside}</svg>"


CHAIN = svg('<g id="a"><path/></g><g id="b"><use href="#a"/></g><use href="#b"/>')

BEYOND_A_LIMIT = {
    "bytes": (svg_markup, "MAX_BYTES", 48, svg("<!-- sixteen chars -->"), "bytes, more than the 48"),
    "elements": (svg_markup, "MAX_ELEMENTS", 3, svg("<g/><g/><g/>"), "more than the 3 elements"),
    "nesting": (svg_markup, "MAX_DEPTH", 3, svg("<g><g><g/></g></g>"), "nested more than 3 deep"),
    "width of the viewBox": (svg_markup, "MAX_SIDE", 64, svg("", 'viewBox="0 0 65 9"'), "width and height"),
    "width of the page": (svg_markup, "MAX_SIDE", 64, svg("", 'width="65" height="9"'), "width and height"),
    "distance": (svg_markup, "MAX_SIDE", 64, svg("", 'viewBox="0 65 9 9"'), "not too far away"),
    "smallest side": (svg_markup, "MIN_SIDE", 8, svg("", 'viewBox="0 0 9 4"'), "width and height"),
    "elements that use repeats": (
        svg_markup,
        "MAX_EXPANDED_ELEMENTS",
        9,
        svg('<g id="a"><path/><path/></g><use href="#a"/><use href="#a"/>'),
        "more than 9 elements",
    ),
    "elements that patterns repeat": (
        svg_markup,
        "MAX_EXPANDED_ELEMENTS",
        8,
        svg('<pattern id="p"><path/><path/></pattern><path fill="url(#p)"/><path fill="url(#p)"/>'),
        "more than 8 elements",
    ),
    "nesting by references": (svg_markup, "MAX_EXPANDED_DEPTH", 3, CHAIN, "nested more than 3 deep"),
    "selectors": (svg_markup, "MAX_MATCHES", 5, svg("<style>a, b {}</style><g/>"), "2 selectors for 3 elements"),
    "steps of a selector": (svg_markup, "MAX_STEPS", 1, svg("<style>g rect {}</style>"), "1 steps deep"),
}


@pytest.mark.parametrize("name", BEYOND_A_LIMIT)
def test_markup_beyond_a_limit_is_refused_and_accepted_within_it(monkeypatch, name):
    module, limit, value, text, reason = BEYOND_A_LIMIT[name]
    read_markup(text)
    monkeypatch.setattr(module, limit, value)
    with pytest.raises(MarkupError, match=reason):
        read_markup(text)


REFUSED = {
    "a document type": ("<!DOCTYPE svg>" + svg(""), "DOCTYPE"),
    "an entity": ('<!DOCTYPE svg [<!ENTITY a "a">]>' + svg("&a;"), "DOCTYPE"),
    "an entity that is not defined": (svg("&b;"), "well-formed"),
    "a processing instruction": ("<?note?>" + svg(""), "not allowed"),
    "another encoding": ('<?xml version="1.0" encoding="us-ascii"?>' + svg(""), "encoding"),
    "a use of itself": (svg('<g id="a"><use href="#a"/></g>'), "refers to itself"),
    "gradients in a circle": (
        svg('<linearGradient id="a" href="#b"/><linearGradient id="b" href="#a"/>'),
        "refers to itself",
    ),
    "a clip path of itself": (svg('<clipPath id="c"><rect clip-path="url(#c)"/></clipPath>'), "refers to itself"),
    "a mask of itself": (svg('<mask id="m"><rect mask="url(#m)"/></mask>'), "refers to itself"),
    "a filter of itself": (svg('<filter id="f"><feFlood filter="url(#f)"/></filter>'), "refers to itself"),
    "no size": ("<svg></svg>", "no viewBox"),
    "a viewBox of NaN": (svg("", 'viewBox="0 0 NaN 9"'), "finite numbers"),
    "a negative viewBox": (svg("", 'viewBox="0 0 -9 9"'), "width and height"),
    "another file by xlink": (svg('<use xlink:href="b.svg#a"/>', f'viewBox="0 0 9 9" {XLINK}'), "outside"),
    "another file by href": (svg('<use href="b.svg#a"/>'), "outside"),
    "another file by url()": (svg('<rect fill="url( b.svg#a )"/>'), "outside"),
    "another file by style": (svg("<style>rect{fill:url('b.svg#a')}</style>"), "outside"),
    "an @ rule": (svg("<style>@media print {}</style>"), "@ rules"),
    "an escaped url()": (svg(r"<style>rect{fill:u\72l(#a)}</style>"), "backslashes"),
    "a null byte": (svg("\0"), "well-formed"),
    "half of a surrogate pair": (svg("\ud800"), "surrogate"),
    "an unclosed element": ("<svg", "well-formed"),
    "another root": ("<html><svg/></html>", "<html>"),
    **{f"<{name}>": (svg(f"<{name}/>"), f"<{name}>") for name in sorted(FORBIDDEN_ELEMENTS)},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_never_drawn_is_refused_with_a_reason_and_described(name):
    text, reason = REFUSED[name]
    with pytest.raises(MarkupError) as refusal:
        read_markup(text)
    error = str(refusal.value)
    assert reason in error
    assert len(error) < 300
    state = SvgState(target=GOOD, drawing=text, error=error)
    assert all(describe(state, representation) for representation in ("natural_language", "structured"))


@pytest.fixture(scope="module")
def renderer():
    renderer = Renderer(size_px=64, timeout_s=2.0)
    assert renderer.render(GOOD).error is None
    yield renderer
    renderer.close()


def test_refused_markup_never_reaches_the_drawing_process_and_the_next_drawing_does(monkeypatch, renderer):
    painted = []
    paint = PainterProcess.paint
    monkeypatch.setattr(PainterProcess, "paint", lambda *args, **kwargs: painted.append(args) or paint(*args, **kwargs))
    refused = renderer.render("<!DOCTYPE svg>" + svg(""))
    assert refused.pixels is None
    assert "DOCTYPE" in refused.error
    assert painted == []
    assert renderer.render(GOOD.replace("32", "31")).error is None
    assert len(painted) == 1


def test_the_drawing_process_resolves_no_entities_either():
    process = PainterProcess()
    text = '<!DOCTYPE svg [<!ENTITY a "a">]><svg viewBox="0 0 9 9"><text>&a;</text></svg>'
    with pytest.raises(PaintingError, match="Entities"):
        process.paint(text.encode(), size_px=16, timeout_s=5.0)
    process.close()


STRANGE = {
    "NaN coordinates": '<rect x="NaN" y="nan" width="inf" height="9"/>',
    "NaN opacity": '<rect opacity="NaN" width="9" height="9"/>',
    "numbers no float holds": '<rect x="1e999" width="9" height="9"/>',
    "a transform without numbers": '<rect transform="scale() rotate(NaN)" width="9" height="9"/>',
    "strange text": '<text y="30">\u202e\u0301🙂Ж世\ufffd\u200b</text>',
    "a path of letters": '<path d="MZAaLlMZAaLl"/>',
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_values_are_described(name):
    text = svg(STRANGE[name])
    state = SvgState(target=GOOD, drawing=text)
    assert all(describe(state, representation) for representation in ("natural_language", "structured"))
    assert all(abs(side) <= 1e9 for shape in shapes_of(text) or [] for side in shape["box"])


def test_a_reference_without_a_name_is_no_circle(renderer):
    assert renderer.render(svg('<rect fill="url(#)" width="9" height="9"/>')).error is None


@pytest.fixture
def changed_painter(monkeypatch, tmp_path):
    """A function that makes new drawing processes run the program with one piece of it changed."""

    def change(old: str, new: str) -> None:
        source = Path(svg_renderer.svg_painter.__file__).read_text()
        assert old in source
        (tmp_path / "painter.py").write_text(source.replace(old, new))
        (tmp_path / "svg_paints.py").write_text(Path(svg_paints.__file__).read_text())
        monkeypatch.setattr(svg_renderer.svg_painter, "__file__", str(tmp_path / "painter.py"))

    return change


def test_a_late_drawing_is_ended_and_the_next_one_drawn(monkeypatch, changed_painter):
    process = PainterProcess()
    monkeypatch.setattr("vlm_envs.worlds.svg.svg_renderer.SHARED", process)
    changed_painter("    tree =", "    if b'teal' in markup: __import__('time').sleep(2)\n    tree =")
    patient, hasty = Renderer(size_px=16, timeout_s=30.0), Renderer(size_px=16, timeout_s=0.5)
    assert patient.render(GOOD).error is None
    late = hasty.render(GOOD.replace("red", "teal"))
    assert late.pixels is None
    assert "more than 0.5 s" in late.error
    assert patient.render(GOOD.replace("red", "blue")).pixels[8, 8].tolist() == [0, 0, 255]
    process.close()


def test_a_drawing_that_needs_more_memory_than_the_limit_fails_and_the_next_one_is_drawn(changed_painter):
    """The limit is what the process has when it is ready and 24 MiB: an image of 16 MiB and one copy exceed it."""
    pytest.importorskip("resource")
    changed_painter(
        "        import resource\n",
        "        import resource\n"
        "        pages = int(open('/proc/self/statm').read().split()[0])\n"
        "        MAX_MEMORY_BYTES = pages * resource.getpagesize() + (24 << 20)\n",
    )
    process = PainterProcess()
    with pytest.raises(PaintingError, match="memory"):
        process.paint(GOOD.encode(), size_px=2048, timeout_s=20.0)
    assert len(process.paint(GOOD.encode(), size_px=64, timeout_s=20.0)) == 4 * 64 * 64
    process.close()


def test_a_drawing_process_whose_world_is_gone_ends_itself(changed_painter):
    changed_painter("    tree =", "    __import__('time').sleep(5)\n    tree =")
    pipe, far_end = multiprocessing.Pipe()
    child = subprocess.Popen(
        [sys.executable, svg_renderer.svg_painter.__file__, str(far_end.fileno())], pass_fds=[far_end.fileno()]
    )
    far_end.close()
    try:
        assert pipe.recv_bytes() == svg_renderer.svg_painter.DRAWN
        pipe.send((16, 0.1, GOOD.encode()))
        assert child.wait(timeout=4) == -signal.SIGALRM
    finally:
        pipe.close()
        child.kill()
        child.wait()


def test_a_process_that_neither_reads_nor_answers_is_late_too():
    process = PainterProcess()
    process.start()
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(PaintingError, match=r"more than 0\.5 s"):
        process.paint(b"<svg/>" + b" " * (1 << 20), size_px=16, timeout_s=0.5)
    process.close()


def test_a_process_ended_from_outside_is_replaced(renderer):
    renderer.render(GOOD.replace("red", "teal"))  # not drawn before, so that there is a process, whatever came before
    before = svg_renderer.SHARED.pid
    os.kill(before, signal.SIGKILL)
    assert renderer.render(GOOD.replace("red", "lime")).pixels[32, 32].tolist() == [0, 255, 0]
    assert svg_renderer.SHARED.pid != before


def test_a_process_is_replaced_before_it_grows_old(monkeypatch):
    monkeypatch.setattr(svg_renderer, "MAX_DRAWINGS", 2)
    renderer = Renderer(size_px=16)
    pids = set()
    for radius in range(1, 6):
        renderer.render(GOOD.replace("20", str(radius)))
        pids.add(svg_renderer.SHARED.pid)
    assert len(pids) >= 2


def test_what_is_not_installed_is_named(monkeypatch, tmp_path):
    broken = tmp_path / "painter.py"
    broken.write_text(
        "import sys\nsys.modules['cairosvg'] = None\n"
        f"exec(open({svg_renderer.svg_painter.__file__!r}).read().replace('__file__', 'None'))\n"
    )
    monkeypatch.setattr(svg_renderer.svg_painter, "__file__", str(broken))
    from vlm_envs.errors import EngineUnavailableError

    with pytest.raises(EngineUnavailableError, match=r"\[svg\]"):
        PainterProcess().paint(b"<svg/>", size_px=16, timeout_s=1.0)


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
        ("```   ", None),
        ("``````", None),
        ("<svg", "<svg"),
    ],
)
def test_answers_with_svg_are_drawings(text, expected):
    assert parse_drawing(text) == expected


@pytest.mark.parametrize(
    ("limit", "value", "text"),
    [
        ("MAX_SHAPES", 2, svg('<rect width="1" height="1"/>' * 3)),
        ("MAX_USE_DEPTH", 1, svg('<rect id="a" width="1" height="1"/><g id="b"><use href="#a"/></g><use href="#b"/>')),
    ],
)
def test_shapes_beyond_a_limit_are_left_out(monkeypatch, limit, value, text):
    assert len(shapes_of(text)) == 3
    svg_shapes._read.cache_clear()
    monkeypatch.setattr(svg_shapes, limit, value)
    assert len(shapes_of(text)) == 2
    svg_shapes._read.cache_clear()


@pytest.mark.parametrize(
    ("rule", "brackets"),
    [("fill:{0};fill:red", "()"), ("fill:{0};fill:red", "{}"), ("fill:red;{0}", "[]"), ("fill:red;a{0}", "()")],
)
def test_nested_brackets_of_a_style_sheet_cost_only_the_declaration(rule, brackets):
    opening, closing = brackets
    rule = rule.format(opening * 400 + closing * 400)
    text = svg(f'<style>rect{{{rule}}}</style><rect width="9" height="9"/>', f'viewBox="0 0 9 9" {XMLNS}')
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(_stack_depth() + 100)
    try:
        (shape,) = shapes_of(text)
        drawn = svg_paints.drawable(text)
    finally:
        sys.setrecursionlimit(before)
    assert shape["color"] == "red"
    assert opening * 40 not in drawn


def _stack_depth() -> int:
    return len(inspect.stack(0))


@pytest.mark.parametrize(
    "inside",
    [
        '<rect width="9" height="9" fill="rgb({0} 0 0)"/>',
        '<rect width="9" height="9" style="fill: rgb({0} 0 0)"/>',
        "<style>rect {{ opacity: {0} }}</style>",
    ],
)
def test_numbers_of_thousands_of_digits_are_refused_and_described(inside):
    text = svg(inside.format("1" * 4301))
    with pytest.raises(MarkupError, match="digits"):
        read_markup(text)
    assert shapes_of(text) is None
    assert shapes_of(svg(inside.format("1" * 400))) is not None
