import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.errors import ConfigError
from vlm_envs.tools.pictures import Picture, contact_sheet, sheet_grid, stitched_row


def page(width, height, value):
    return Picture(np.full((height, width, 3), value, np.uint8))


def test_a_row_is_pages_and_paddings_and_as_high_as_the_highest():
    # ARM-Thinker, appendix E: width = sum of widths + paddings, here 30 + 8 + 20 + 8 + 10 = 76; height = 50.
    row = stitched_row([page(30, 40, 0), page(20, 50, 80), page(10, 5, 255)])
    assert (row.width, row.height) == (76, 50)
    assert row.pixels[0, 0, 0] == 0 and row.pixels[39, 29, 0] == 0  # Page 1: columns 0 to 29, rows 0 to 39.
    assert row.pixels[40, 0].tolist() == row.pixels[0, 30].tolist() == row.pixels[0, 37].tolist() == [176] * 3
    assert row.pixels[0, 38, 0] == 80 and row.pixels[49, 57, 0] == 80  # Page 2: columns 38 to 57.
    assert row.pixels[0, 66, 0] == 255 and row.pixels[4, 75, 0] == 255  # Page 3: columns 66 to 75, rows 0 to 4.


def test_a_row_beyond_the_budget_is_scaled_down_with_its_shape():
    # 2 * 96 + 8 = 200 by 100 pixels; a budget of 5000 is a quarter: 100 by 50.
    row = stitched_row([page(96, 100, 0), page(96, 100, 9)], max_pixels=5_000)
    assert (row.width, row.height) == (100, 50)


def test_one_page_is_itself():
    only = page(30, 40, 7)
    assert stitched_row([only]) == only


def test_no_pages_are_refused():
    for make in (stitched_row, contact_sheet):
        with pytest.raises(ConfigError, match="at least one page"):
            make([])


def test_a_contact_sheet_is_row_major():
    # 5 pages: 3 columns, 2 rows; each page's grey tells where it is.
    values = [10, 60, 110, 160, 210]
    sheet = contact_sheet([page(100, 141, value) for value in values], max_pixels=60_000)
    grid = sheet_grid(5, max_pixels=60_000)
    assert (grid.columns, grid.rows) == (3, 2)
    for index, value in enumerate(values):
        x = index % 3 * (grid.width + 8) + 4 + grid.width // 2
        y = index // 3 * (grid.height + grid.number_height + 8) + 4 + grid.number_height + grid.height // 2
        assert sheet.pixels[y, x].tolist() == [value] * 3
    assert sheet.pixels[-grid.height // 2, -grid.width // 2].tolist() == [176] * 3  # The sixth place is empty.


def test_every_page_has_its_number_above_it():
    sheet = contact_sheet([page(50, 70, 255)] * 12)
    grid = sheet_grid(12)
    strips = []
    for index in range(12):
        left, top = index % grid.columns * grid.step[0] + 4, index // grid.columns * grid.step[1] + 4
        strip = sheet.pixels[top : top + grid.number_height, left : left + grid.width]
        assert strip.min() < 60, f"page {index + 1} has no number"
        strips.append(strip.tobytes())
    assert len(set(strips)) == 12


def test_numbers_grow_with_the_pages():
    # A page has 480 pixels at most: a number has 48. A page of 24 pixels keeps a number of 16.
    assert (sheet_grid(1).width, sheet_grid(1).number_height) == (480, 48)
    assert (sheet_grid(500, max_pixels=1_000).width, sheet_grid(500, max_pixels=1_000).number_height) == (24, 16)


@given(st.integers(1, 500), st.sampled_from([100_000, 1_000_000, 4_194_304]))
def test_a_sheet_keeps_to_its_budget_and_shows_every_page(num_pages, max_pixels):
    grid = sheet_grid(num_pages, max_pixels=max_pixels)
    assert grid.columns * grid.rows >= num_pages > grid.columns * (grid.rows - 1)
    assert grid.num_pixels <= max_pixels or grid.width == 24


def test_pages_of_other_shapes_fit_their_room():
    sheet = contact_sheet([page(2000, 10, 0), page(10, 2000, 0), page(3, 3, 0)], max_pixels=200_000)
    assert sheet.num_pixels <= 200_000


@pytest.mark.soak
def test_tall_pictures_beside_wide_ones_do_not_fill_the_memory():
    wide, tall = (Picture(np.zeros((*shape, 3), np.uint8)) for shape in ((8, 20_000), (20_000, 8)))
    tracemalloc.start()
    row = stitched_row([wide, tall, wide, tall], max_pixels=100_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert row.num_pixels <= 100_000
    assert peak < 500_000_000, "the whole row would be 2.4 GB"
