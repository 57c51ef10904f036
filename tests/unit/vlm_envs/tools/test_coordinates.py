import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.errors import ConfigError
from vlm_envs.tools.coordinates import (
    Box,
    OriginalPixels,
    Percents,
    PixelRectangle,
    Point,
    ShownPixels,
    Thousandths,
    check_box,
    convert,
    convert_point,
    pixel_rectangle,
    shown_space,
    size_within,
)
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind

ORIGINAL = OriginalPixels(4000, 3000)
SHOWN = ShownPixels(1000, 750)
SPACES = [ORIGINAL, SHOWN, Thousandths(), Percents()]

sizes = st.integers(1, 20_000)
fractions = st.floats(0, 1, allow_nan=False)


def corners(box):
    return box.x1, box.y1, box.x2, box.y2


# Every row is the same box: x from 1/4 to 1/2, y from 1/3 to 2/3 of 4000 x 3000 pixels shown at 1000 x 750.
SAME_BOX = {
    ORIGINAL: (1000, 1000, 2000, 2000),  # 4000 / 4, 3000 / 3, 4000 / 2, 3000 * 2 / 3
    SHOWN: (250, 250, 500, 500),
    Thousandths(): (250, 1000 / 3, 500, 2000 / 3),
    Percents(): (25, 100 / 3, 50, 200 / 3),
}


@pytest.mark.parametrize("source", SPACES)
@pytest.mark.parametrize("target", SPACES)
def test_the_same_box_in_every_space(source, target):
    converted = convert(Box(*SAME_BOX[source], source), target)
    assert corners(converted) == pytest.approx(SAME_BOX[target])
    assert converted.space is target


def test_whole_numbers_whose_quotient_is_whole_stay_exact():
    # 17 thousandths of 3000 pixels are 51 pixels; divided first, they would be a crumb more.
    assert 17 / 1000 * 3000 > 51
    assert convert(Box(17, 17, 999, 999, Thousandths()), OriginalPixels(3000, 3000)).x1 == 51.0


def test_the_whole_picture_is_the_whole_picture_everywhere():
    for source in SPACES:
        for target in SPACES:
            whole = convert(Box(0, 0, source.width, source.height, source), target)
            assert corners(whole) == (0, 0, target.width, target.height)


@given(width=sizes, height=sizes, xs=st.tuples(fractions, fractions), ys=st.tuples(fractions, fractions))
def test_there_and_back_is_where_it_was(width, height, xs, ys):
    box = Box(xs[0], ys[0], xs[1], ys[1], Percents())
    for space in (OriginalPixels(width, height), ShownPixels(height, width), Thousandths()):
        assert corners(convert(convert(box, space), Percents())) == pytest.approx(corners(box), abs=1e-12)


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        # Thousandths of 100 x 50 pixels: x times 0.1, y times 0.05, floor for the first corner, ceiling for the second.
        ((0, 0, 1000, 1000), (0, 0, 100, 50)),
        ((100, 100, 200, 200), (10, 5, 20, 10)),  # 10.0, 5.0, 20.0, 10.0: whole already
        ((101, 110, 199, 190), (10, 5, 20, 10)),  # 10.1 -> 10, 5.5 -> 5, 19.9 -> 20, 9.5 -> 10
        ((101, 119, 102, 121), (10, 5, 11, 7)),  # 10.1 to 10.2 is in column 10; 5.95 -> 5, 6.05 -> 7
        ((999, 999, 1000, 1000), (99, 49, 100, 50)),
    ],
)
def test_boxes_become_pixels_outwards(box, expected):
    assert pixel_rectangle(convert(Box(*box, Thousandths()), OriginalPixels(100, 50))) == PixelRectangle(*expected)


def test_crumbs_of_scaling_do_not_cost_a_pixel():
    # 0.29 of 100 pixels is 28.999999999999996 in floats; it counts as 29.
    assert 0.29 * 100 < 29
    assert pixel_rectangle(Box(0.29 * 100, 0, 0.57 * 100, 1, OriginalPixels(100, 50))) == PixelRectangle(29, 0, 57, 1)


def test_boxes_beyond_the_picture_are_clamped_and_keep_a_pixel():
    space = OriginalPixels(100, 50)
    assert pixel_rectangle(Box(-5, -5, 500, 500, space)) == PixelRectangle(0, 0, 100, 50)
    assert pixel_rectangle(Box(200, 200, 300, 300, space)) == PixelRectangle(99, 49, 100, 50)


@given(width=sizes, height=sizes, data=st.data())
def test_pixels_written_as_thousandths_are_inside_what_is_read_back(width, height, data):
    left = data.draw(st.integers(0, width - 1))
    top = data.draw(st.integers(0, height - 1))
    right = data.draw(st.integers(left + 1, width))
    bottom = data.draw(st.integers(top + 1, height))
    space = OriginalPixels(width, height)
    written = convert(Box(left, top, right, bottom, space), Thousandths()).outward_whole()
    assert all(float(number).is_integer() and 0 <= number <= 1000 for number in corners(written))
    read = pixel_rectangle(convert(check_box(corners(written), Thousandths(), whole=True), space))
    assert read.left <= left and read.top <= top and read.right >= right and read.bottom >= bottom
    # Each edge moves by less than a thousandth of the side, and by less than a pixel more for rounding outwards.
    assert max(left - read.left, read.right - right) <= width / 1000 + 1


def test_points_are_converted_as_corners_are():
    assert convert_point(Point(250, 500, Thousandths()), ORIGINAL) == Point(1000.0, 1500.0, ORIGINAL)


@pytest.mark.parametrize(
    ("size", "budget", "expected"),
    [
        ((4000, 3000), 750_000, (1000, 750)),  # scale sqrt(750000 / 12000000) = 1/4
        ((4000, 3000), 12_000_000, (4000, 3000)),
        ((10, 10), 50, (7, 7)),  # 10 * sqrt(0.5) = 7.07
        ((1_000_000, 1), 100, (100, 1)),  # the height cannot fall under 1
        ((5, 5), 1, (1, 1)),
    ],
)
def test_sizes_within_a_budget(size, budget, expected):
    assert size_within(*size, budget) == expected


@given(sizes, sizes, st.integers(1, 10**8))
def test_no_size_exceeds_its_budget_or_grows(width, height, budget):
    shown = shown_space(OriginalPixels(width, height), budget)
    assert shown.width * shown.height <= max(budget, 1)
    assert shown.width <= width and shown.height <= height


def test_a_budget_and_a_picture_have_pixels():
    with pytest.raises(ConfigError, match="at least 1"):
        size_within(10, 10, 0)
    for size in ((0, 5), (5, -1), (2.5, 2), (True, 2)):
        with pytest.raises(ConfigError, match="at least 1 pixel"):
            OriginalPixels(*size)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (None, ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ([], ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ([1, 2, 3], ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ([1, 2, 3, 4, 5], ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        (list(range(10_000)), ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ("1234", ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ([1, 2, 3, "4"], ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ([False, False, True, True], ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ([[1, 2], [3, 4]], ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ({"x1": 1}, ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ([0, 0, math.nan, 5], ToolErrorKind.BOX_NOT_FINITE),
        ([0, 0, math.inf, 5], ToolErrorKind.BOX_NOT_FINITE),
        ([0, 0, 1e30, 5], ToolErrorKind.BOX_OUT_OF_RANGE),
        ([0, 0, 10**5000, 5], ToolErrorKind.BOX_OUT_OF_RANGE),
        ([-1, 0, 5, 5], ToolErrorKind.BOX_OUT_OF_RANGE),
        ([0, 0, 1001, 5], ToolErrorKind.BOX_OUT_OF_RANGE),
        ([0.1, 0.1, 0.5, 0.5], ToolErrorKind.BOX_NOT_WHOLE_NUMBERS),
        ([5, 0, 5, 5], ToolErrorKind.BOX_REVERSED),
        ([0, 6, 5, 5], ToolErrorKind.BOX_REVERSED),
    ],
)
def test_every_fault_of_a_box_has_its_kind_and_a_short_message(values, kind):
    with pytest.raises(ToolError) as refusal:
        check_box(values, Thousandths(), whole=True)
    assert refusal.value.kind is kind
    assert 20 < len(refusal.value.message) < 300


@given(
    st.one_of(st.none(), st.text(), st.lists(st.one_of(st.floats(), st.integers(), st.text(max_size=3)), max_size=6))
)
def test_a_box_is_valid_or_refused_whatever_it_is_made_of(values):
    try:
        box = check_box(values, Thousandths())
    except ToolError:
        return
    assert 0 <= box.x1 < box.x2 <= 1000 and 0 <= box.y1 < box.y2 <= 1000


def test_whole_floats_are_whole_numbers():
    assert corners(check_box([0.0, 1.0, 500.0, 1000.0], Thousandths(), whole=True)) == (0, 1, 500, 1000)


@pytest.mark.parametrize(("start", "stop", "whole"), [(5.0, 5.0 + 1e-9, (5, 6)), (100 - 1e-9, 100.0, (99, 100))])
def test_a_box_thinner_than_the_tolerance_is_a_unit_wide(start, stop, whole):
    box = Box(start, start, stop, stop, OriginalPixels(100, 100)).outward_whole()
    assert (box.x1, box.x2) == (box.y1, box.y2) == whole
