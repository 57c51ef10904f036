"""What drawings show, as shapes and in words."""

from __future__ import annotations

import time

import numpy as np
import pytest

from vlm_envs.worlds.svg.svg_markup import MarkupError, read_markup
from vlm_envs.worlds.svg.svg_renderer import Renderer
from vlm_envs.worlds.svg.svg_shapes import Shape, path_points, shapes_of
from vlm_envs.worlds.svg.svg_styles import color_name
from vlm_envs.worlds.svg.svg_world import shape_words


def boxes(inside: str) -> list[list[float]]:
    shapes = shapes_of(f'<svg viewBox="0 0 64 64">{inside}</svg>')
    assert shapes is not None
    return [shape["box"] for shape in shapes]


@pytest.mark.parametrize(
    ("element", "box"),
    [
        ('<circle cx="10" cy="20" r="5"/>', [5, 15, 15, 25]),
        ('<ellipse cx="10" cy="20" rx="5" ry="2"/>', [5, 18, 15, 22]),
        ('<rect x="1" y="2" width="3" height="4"/>', [1, 2, 4, 6]),
        ('<line x1="5" y1="6" x2="1" y2="9" stroke="red"/>', [1, 6, 5, 9]),
        ('<polygon points="1,2 3,4 5,0"/>', [1, 0, 5, 4]),
        ('<path d="M1 2h4v-2l-1 9z"/>', [1, 0, 5, 9]),
        ('<path d="M0 0C0 8 8 8 8 0 8 9 9 9 9 9"/>', [0, 0, 9, 9]),
        ('<g transform="translate(10)"><rect width="3" height="4"/></g>', [10, 0, 13, 4]),
        ('<rect width="4" height="2" transform="translate(8 0) rotate(90)"/>', [6, 0, 8, 4]),
        ('<rect width="4" height="2" transform="rotate(180 2 1)"/>', [0, 0, 4, 2]),
        ('<rect width="4" height="2" transform="matrix(2 0 0 3 1 1)"/>', [1, 1, 9, 7]),
        ('<g transform="translate(64 0) scale(-1 1)"><rect width="4" height="2"/></g>', [60, 0, 64, 2]),
    ],
)
def test_boxes(element, box):
    assert boxes(element) == [pytest.approx(box)]


@pytest.mark.parametrize(
    ("element", "box"),
    [
        # Lengths in per cent of the viewBox: along x, along y, and of hypot(width, height) / sqrt(2) for a radius
        ('<rect width="100%" height="50%"/>', [0, 0, 64, 32]),
        ('<rect x="25%" y="10%" width="50%" height="5"/>', [16, 6.4, 48, 11.4]),
        ('<circle cx="50%" cy="50%" r="25%"/>', [16, 16, 48, 48]),
        ('<ellipse cx="50%" cy="32" rx="50%" ry="10%"/>', [0, 25.6, 64, 38.4]),
        ('<line x2="100%" y2="25%" stroke="red"/>', [0, 0, 64, 16]),
        ('<rect width="0.5in" height="12pt"/>', [0, 0, 48, 16]),
        ('<rect width="1cm" height="10mm"/>', [0, 0, 37.8, 37.8]),
        # A drawing inside the drawing has a viewport of its own, and shows nothing beyond it
        ('<svg x="10" y="20" width="32" height="32"><rect width="8" height="4"/></svg>', [10, 20, 18, 24]),
        ('<svg x="10" y="20" width="32" height="32"><rect width="50%" height="25%"/></svg>', [10, 20, 26, 28]),
        (
            '<svg x="8" width="32" height="32" viewBox="0 0 8 8"><rect x="1" width="2" height="4"/></svg>',
            [12, 0, 20, 16],
        ),
        ('<svg width="32" height="32" viewBox="2 4 8 8"><rect x="2" y="4" width="2" height="2"/></svg>', [0, 0, 8, 8]),
        ('<svg width="40" height="20" viewBox="0 0 10 10"><rect width="10" height="10"/></svg>', [10, 0, 30, 20]),
        (
            '<svg width="40" height="20" viewBox="0 0 10 10" preserveAspectRatio="xMinYMid">'
            '<rect width="10" height="10"/></svg>',
            [0, 0, 20, 20],
        ),
        (
            '<svg width="40" height="20" viewBox="0 0 10 10" preserveAspectRatio="none">'
            '<rect width="10" height="5"/></svg>',
            [0, 0, 40, 10],
        ),
        ('<svg width="20" height="20"><rect x="10" width="30" height="5"/></svg>', [10, 0, 20, 5]),
        (
            '<svg width="50%" height="50%"><svg width="50%" height="50%"><rect width="100%" height="4"/></svg></svg>',
            [0, 0, 16, 4],
        ),
        (
            '<symbol id="s" viewBox="0 0 4 4"><rect width="2" height="4"/></symbol>'
            '<use href="#s" x="8" y="8" width="16" height="16"/>',
            [8, 8, 16, 24],
        ),
    ],
)
def test_lengths_and_viewports_are_those_of_the_picture(element, box):
    assert boxes(element) == [pytest.approx(box, abs=0.06)]
    assert inked(element) == pytest.approx(box, abs=0.6), "what the renderer draws"


@pytest.mark.parametrize(
    ("element", "box"),
    [
        # Lengths in transforms: per cent are of the diagonal, what cannot be read is 0
        ('<rect width="10" height="10" transform="translate(10%,10%)"/>', [6.4, 6.4, 16.4, 16.4]),
        ('<rect width="10" height="10" transform="translate(2em 1ex)" font-size="10"/>', [20, 5, 30, 15]),
        ('<rect width="10" height="10" transform="translate(30-5.5.5)"/>', [30, 0, 40, 4.5]),
        ('<rect width="10" height="10" transform="rotate(45deg)"/>', [0, 0, 10, 10]),
        (
            '<svg x="8" width="32" height="32" viewBox="0 0 8 8">'
            '<rect width="2" height="2" transform="translate(50%)"/></svg>',
            [24, 0, 32, 8],
        ),
        # Where a transform turns about
        (
            '<rect x="20" y="20" width="10" height="10" transform="rotate(90)" transform-origin="25 30"/>',
            [25, 25, 35, 35],
        ),
        ('<rect x="9" y="9" width="9" height="9" transform="scale(2)" transform-origin="25% 12.5%"/>', [2, 10, 20, 28]),
        (
            '<g transform="scale(2)" transform-origin="10px left"><rect x="9" y="9" width="9" height="9"/></g>',
            [8, 18, 26, 36],
        ),
        ('<rect x="9" y="9" width="9" height="9" transform="scale(2)" transform-origin="top 10"/>', [8, 18, 26, 36]),
        ('<rect x="9" y="9" width="9" height="9" transform="scale(2)" transform-origin="10  9"/>', [8, 18, 26, 36]),
        # Points with units and per cent; the odd one is left out
        ('<polygon points="10%,10% 50%,10% 30%,50%"/>', [6.4, 6.4, 32, 32]),
        ('<polygon points="0.5in 48px 10 a 30 40 7"/>', [10, 0, 48, 48]),
        ('<polygon points="1e1-5.5.5 40 20 40"/>', [0.5, -5.5, 20, 40]),
        ('<rect x="30" y="30" width="-10" height="10"/>', [20, 30, 30, 40]),
    ],
)
def test_transforms_and_points_are_those_of_the_picture(element, box):
    box = [max(value, 0) for value in box]
    assert boxes(element) == [pytest.approx(box, abs=0.06)]
    assert inked(element) == pytest.approx(box, abs=0.8), "what the renderer draws"


@pytest.mark.parametrize(
    "element",
    [
        '<rect width="10 px" height="10"/>',
        '<rect width="10 10" height="10"/>',
        '<ellipse cx="9" cy="9" rx="5" ry="auto"/>',
        '<circle cx="9" cy="9" r="0" stroke="red"/>',
        '<circle cx="9" cy="9" r="-5"/>',
        '<rect width="9" height="9" transform="scale(0)"/>',
        '<g transform="scale(1 0)"><rect width="9" height="9"/></g>',
        '<g width="0"><rect width="9" height="9"/></g>',
        '<circle cx="9" cy="9" r="5" height="auto"/>',
    ],
)
def test_what_the_renderer_skips_is_no_shape(element):
    assert boxes(element) == []
    paper = inked(element + '<rect x="60" y="60" width="4" height="4"/>')
    assert paper == pytest.approx([60, 60, 64, 64], abs=0.6), "nothing else is drawn"


@pytest.mark.parametrize(
    ("element", "box", "drawn"),
    [
        ('<path d="M10% 10%H50%V50%z"/>', [10, 10, 50, 50], [6.4, 6.4, 32, 32]),
        # Half of 512 pixels, in units of the drawing
        (
            '<rect x="250" y="250" width="9" height="9" transform="scale(2)" transform-origin="center"/>',
            None,
            [244, 244, 262, 262],
        ),
        ('<rect y="250" width="9" height="9" transform="scale(2)" transform-origin="9"/>', None, [-9, 244, 9, 262]),
    ],
)
def test_what_is_not_followed_differs_from_the_picture(element, box, drawn):
    """The list of `vlm_envs/worlds/svg/svg_shapes.py`; the last two depend on how large the picture is."""
    assert boxes(element) == ([] if box is None else [box])
    if box is None:
        left, top = (value - 2 for value in drawn[:2])
        drawn = [value - offset for value, offset in zip(drawn, (left, top, left, top), strict=True)]
        element = f'<g transform="translate({-left} {-top})">{element}</g>'
    assert inked(element) == pytest.approx(drawn, abs=0.6)


def inked(element: str) -> list[float]:
    """Returns the box of everything a picture shows, in units of a viewBox of 64."""
    pytest.importorskip("cairosvg")
    markup = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">{element}</svg>'
    rendering = Renderer(size_px=512).render(markup)
    assert rendering.pixels is not None, rendering.error
    rows, columns = np.nonzero((rendering.pixels < 128).any(axis=2))
    return [value / 8 for value in (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)]


def test_per_cent_of_a_drawing_that_is_not_square_are_what_the_renderer_makes_of_them():
    """By the standard 25 % of a height of 32 are 8; in a square picture cairosvg takes them of 64."""
    pytest.importorskip("cairosvg")
    markup = '<svg viewBox="0 0 64 32"><rect width="50%" height="25%"/></svg>'
    (shape,) = shapes_of(markup)
    assert shape["box"] == [0, 0, 32, 16]
    rows, columns = np.nonzero((Renderer(size_px=512).render(markup).pixels < 128).all(axis=2))
    assert (columns.max() + 1) / 8 == 32
    assert (rows.max() + 1 - rows.min()) / 8 == 16


def test_nothing_outside_an_inner_viewport_is_seen():
    assert boxes('<svg width="20" height="20"><rect x="30" width="9" height="5"/></svg>') == []
    (box,) = boxes('<svg width="20" height="20" overflow="visible"><rect x="30" width="9" height="5"/></svg>')
    assert box == [30, 0, 39, 5]


STYLED = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><style>{}</style>{}</svg>'


@pytest.mark.parametrize(
    ("rules", "element", "color", "filled"),
    [
        ("rect { fill: red }", '<rect width="1" height="1"/>', "red", True),
        (".a{fill:red}", '<rect class="b a" width="1" height="1" fill="blue"/>', "red", True),
        ("#a, #b { fill: teal }", '<rect id="b" width="1" height="1"/>', "teal", True),
        ("g rect { fill: red }", '<g><rect width="1" height="1"/></g>', "red", True),
        ("g { fill: red }", '<g><rect width="1" height="1"/></g>', "red", True),
        ("rect { fill: red }", '<rect width="1" height="1" style="fill: blue"/>', "blue", True),
        ("rect { fill: red !important }", '<rect width="1" height="1" style="fill: blue"/>', "red", True),
        ("rect { fill: red } .a { fill: green }", '<rect class="a" width="1" height="1"/>', "green", True),
        (".a { fill: green } rect { fill: red }", '<rect class="a" width="1" height="1"/>', "green", True),
        ("rect { fill: none; stroke: red }", '<rect width="1" height="1"/>', "red", False),
        ("/* rect { fill: red } */ nonsense", '<rect width="1" height="1"/>', "black", True),
    ],
)
def test_style_sheets_color_as_they_do_in_the_picture(rules, element, color, filled):
    pytest.importorskip("cairosvg")
    (shape,) = shapes_of(STYLED.format(rules, element))
    assert (shape["color"], shape["filled"]) == (color, filled)


@pytest.mark.parametrize(
    ("rules", "num_elements", "reason"),
    [
        ("a," * 300 + "b {}", 40, "301 selectors for 42 elements"),
        ("a a a b { fill: red }", 1, "3 steps deep"),
        ("a:not(b c) { fill: red }", 1, "element, class and id"),
        ("a ~ b { fill: red }", 1, "element, class and id"),
        ("a[b] { fill: red }", 1, "element, class and id"),
    ],
)
def test_sheets_that_are_long_work_to_match_are_refused(rules, num_elements, reason):
    with pytest.raises(MarkupError, match=reason):
        read_markup(STYLED.format(rules, "<g/>" * num_elements))


def test_the_costliest_sheet_that_is_allowed_takes_no_longer_than_a_drawing_may():
    rules = ",".join(["x g rect"] * 95) + "{fill:red}"
    nested = "<g>" * 29 + "<rect/>" * 70 + "</g>" * 29
    started = time.process_time()
    assert shapes_of(STYLED.format(rules, nested)) == []
    assert time.process_time() - started < 2


@pytest.mark.parametrize("rules", ["rect { display: none }", "rect { visibility: hidden }", "rect { opacity: 0 }"])
def test_what_a_style_sheet_hides_is_no_shape(rules):
    pytest.importorskip("cairosvg")
    assert shapes_of(STYLED.format(rules, '<rect width="1" height="1"/>')) == []


def test_a_style_sheet_without_the_namespace_is_none_as_for_the_renderer():
    pytest.importorskip("cairosvg")
    markup = '<svg viewBox="0 0 64 64"><style>rect { fill: red }</style><rect width="64" height="64"/></svg>'
    (shape,) = shapes_of(markup)
    assert shape["color"] == "black"
    assert Renderer(size_px=16).render(markup).pixels[8, 8].tolist() == [0, 0, 0]


def test_references_are_followed_and_definitions_left_out():
    inside = '<defs><rect id="a" width="2" height="2"/></defs><use href="#a" x="5" y="6"/><use href="#missing"/>'
    assert boxes(inside) == [[5, 6, 7, 8]]


@pytest.mark.parametrize(
    ("element", "color", "filled"),
    [
        ('<rect width="1" height="1"/>', "black", True),
        ('<g fill="red"><rect width="1" height="1"/></g>', "red", True),
        ('<rect width="1" height="1" fill="red" style="fill: blue"/>', "blue", True),
        ('<rect width="1" height="1" fill="none" stroke="#ff0000"/>', "red", False),
        ('<line x2="1" stroke="teal"/>', "teal", False),
        ('<rect width="1" height="1" fill="url(#g)"/>', "patterned", True),
    ],
)
def test_colors(element, color, filled):
    (shape,) = shapes_of(f'<svg viewBox="0 0 9 9">{element}</svg>')
    assert (shape["color"], shape["filled"]) == (color, filled)


@pytest.mark.parametrize(
    "element",
    [
        '<rect width="1" height="1" fill="none"/>',
        '<rect width="1" height="1" fill="transparent"/>',
        '<g display="none"><rect width="1" height="1"/></g>',
        '<g style="display:none"><rect width="1" height="1"/></g>',
        '<g visibility="hidden"><rect width="1" height="1"/></g>',
        '<g opacity="0"><rect width="1" height="1"/></g>',
        '<rect width="0" height="1"/>',
        "<g/>",
    ],
)
def test_what_cannot_be_seen_is_no_shape(element):
    assert shapes_of(f'<svg viewBox="0 0 9 9">{element}</svg>') == []


def test_unreadable_markup_has_no_shapes():
    assert shapes_of("<svg><g></svg>") is None


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("red", "red"),
        ("#f00", "red"),
        ("#ff000080", "red"),
        ("rgb(1,2,250)", "blue"),
        ("rgb(1 2 250)", "blue"),
        ("rgb(255.0, 0, 0)", "red"),
        ("rgb(100% 0% 0% / 50%)", "red"),
        ("RGBA(255, 0, 0, 0.5)", "red"),
        ("hsl(240, 100%, 50%)", "blue"),
        ("hsl(0.5turn 100% 50%)", "cyan"),
        ("hsla(120deg, 100%, 25%, 0.3)", "green"),
        ("hwb(60 0% 0%)", "yellow"),
        ("rebeccapurple", "rebeccapurple"),
        ("DimGrey", "dimgray"),
        ("nonsense", "patterned"),
        ("rgb(1 2)", "patterned"),
        ("rgb()", "patterned"),
        ("color()", "patterned"),
        ("hsl(x, y, z)", "patterned"),
    ],
)
def test_color_names(written, name):
    assert color_name(written) == name


def test_arcs_are_inside_the_box_of_their_points():
    points = path_points("M10 30A20 20 0 0 1 50 30")
    assert min(y for _, y in points) <= 20 and points[-1] == (50, 30)


@pytest.mark.parametrize(
    ("kind", "box", "words"),
    [
        ("circle", [12, 12, 52, 52], "a large red circle in the middle"),
        ("rect", [0, 0, 8, 8], "a small red rectangle at the top left"),
        ("path", [40, 24, 60, 44], "a red curved shape at the right"),
    ],
)
def test_shapes_in_words(kind, box, words):
    shape = Shape(kind=kind, color="red", filled=True, box=box)
    assert shape_words(shape, (0, 0, 64, 64)) == words


@pytest.mark.parametrize(
    ("element", "seen"),
    [
        # fill-opacity and stroke-opacity are inherited
        ('<rect width="9" height="9" fill-opacity="0"/>', []),
        ('<g fill-opacity="0"><rect width="9" height="9"/></g>', []),
        ('<rect width="9" height="9" fill="rgba(1,2,3,0)"/>', []),
        ('<line x1="8" y1="8" x2="20" y2="20" stroke="red" stroke-opacity="0"/>', []),
        # em is the size of the font, which is inherited as written: 2em of 2em of 4
        ('<g font-size="4"><rect width="2em" height="1em"/></g>', [[0, 0, 8, 4, "black"]]),
        ('<rect width="2em" height="1em" font-size="5"/>', [[0, 0, 10, 5, "black"]]),
        ('<svg font-size="4"><g font-size="2em"><rect width="1em" height="4"/></g></svg>', [[0, 0, 16, 4, "black"]]),
        ('<g color="red"><rect width="4" height="4" fill="currentColor"/></g>', [[0, 0, 4, 4, "red"]]),
        (
            '<g color="red" fill="currentColor"><rect color="blue" width="4" height="4"/></g>',
            [[0, 0, 4, 4, "red"]],
        ),
        (
            '<switch><rect width="4" height="4"/><rect x="20" width="4" height="4"/></switch>',
            [[0, 0, 4, 4, "black"]],
        ),
        (
            '<switch><rect requiredExtensions="x" width="4" height="4"/><rect x="20" width="4" height="4"/></switch>',
            [[20, 0, 24, 4, "black"]],
        ),
        # Nothing is seen beyond the picture
        ('<rect x="60" width="20" height="4"/>', [[60, 0, 64, 4, "black"]]),
        ('<rect x="70" width="20" height="4"/>', []),
        ('<rect width="4" height="4" fill="hsl(0, 100%, 50%)"/>', [[0, 0, 4, 4, "red"]]),
        ('<rect width="4" height="4" style="fill: rgb(255 0 0)"/>', [[0, 0, 4, 4, "red"]]),
        ('<rect width="9" height="9" fill="rgb(1 2 3 / 0%)"/>', []),
        ('<rect width="9" height="9" fill="#12345600"/>', []),
        ('<rect width="9" height="9" opacity="0%"/>', []),
        ('<rect width="9" height="9" fill-opacity="0%"/>', []),
        # What the renderer cannot read is of no length
        ('<rect width="50vw" height="4"/>', []),
        ('<rect width="4" height="50vh"/>', []),
    ],
)
def test_shapes_are_those_the_renderer_draws(element, seen):
    pytest.importorskip("cairosvg")
    shapes = shapes_of(f'<svg viewBox="0 0 64 64">{element}</svg>')
    assert [[*shape["box"], shape["color"]] for shape in shapes] == seen
    picture = Renderer(size_px=128).render(f'<svg viewBox="0 0 64 64">{element}</svg>')
    assert picture.pixels is not None, picture.error
    rows, columns = np.nonzero((picture.pixels < 128).any(axis=2))
    if not seen:
        assert len(rows) == 0
        return
    drawn = [value / 2 for value in (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)]
    assert drawn == pytest.approx(seen[0][:4], abs=0.6)
    red, green, blue = picture.pixels[rows[len(rows) // 2], columns[len(columns) // 2]]
    assert {"black": (red, green, blue) == (0, 0, 0), "red": red > 200 > green}[seen[0][4]]


def test_the_letter_box_of_a_drawing_that_is_not_square_shows_what_lies_there():
    """Clipped at the picture: a square one shows y from -16 to 48 of a viewBox 32 high."""
    (shape,) = shapes_of('<svg viewBox="0 0 64 32"><rect y="-20" width="4" height="10"/></svg>')
    assert shape["box"] == [0, -16, 4, -10]
