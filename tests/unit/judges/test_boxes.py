"""Boxes: overlap, the box reward of iVGR (equation 2), lenient and strict reading, boxes from hostile text."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.grading import box_reward, count_zoomable, intersection_over_union
from vlm_envs.errors import ConfigError
from vlm_envs.responses.extraction import MAX_TEXT_CHARS
from vlm_envs.tools.coordinates import MAX_BOXES, WrittenBox, find_boxes, read_box_list

A, B = WrittenBox(0, 0, 10, 10), WrittenBox(20, 0, 30, 10)
UPPER_HALF_OF_A = WrittenBox(0, 0, 10, 5)
FAR = WrittenBox(50, 50, 60, 60)
IMPROPER = [
    WrittenBox(10, 0, 0, 10),
    WrittenBox(0, 0, 0, 10),
    WrittenBox(math.nan, 0, 10, 10),
    WrittenBox(0, 0, math.inf, 10),
    WrittenBox(-1e30, -1e30, 1e30, 1e30),
    WrittenBox(-1e308, -1e308, 1e308, 1e308),
]
sides = st.one_of(st.floats(), st.floats(-50, 50), st.sampled_from([1e30, -1e308, 0.0, 1e-300]))
boxes = st.builds(WrittenBox, sides, sides, sides, sides)


def test_intersection_over_union():
    assert intersection_over_union(A, A) == 1.0
    assert intersection_over_union(A, UPPER_HALF_OF_A) == 0.5  # 50 / (100 + 50 - 50)
    assert intersection_over_union(A, WrittenBox(5, 5, 15, 15)) == pytest.approx(25 / 175)
    assert intersection_over_union(A, B) == 0.0
    assert intersection_over_union(A, WrittenBox(10, 0, 20, 10)) == 0.0  # a shared side is no area


@pytest.mark.parametrize("box", IMPROPER)
def test_an_improper_box_overlaps_with_nothing(box):
    assert intersection_over_union(box, box) == intersection_over_union(A, box) == 0.0


class TestBoxReward:
    @pytest.mark.parametrize(
        ("predicted", "true", "expected"),
        [
            ([A], [A], 1.0),
            # ½ (mean over true (½, 0) + mean over predicted (½)) = ½ (0.25 + 0.5)
            ([UPPER_HALF_OF_A], [A, B], 0.375),
            # ½ ((1 + 0)/2 + (1 + 0)/2)
            ([A, FAR], [A, B], 0.5),
            # ½ ((1 + 1)/2 + (1 + 1 + 0)/3)
            ([A, B, FAR], [A, B], 5 / 6),
            ([FAR], [A], 0.0),
        ],
    )
    def test_half_recall_and_half_precision(self, predicted, true, expected):
        # iVGR, equation 2.
        assert box_reward(predicted, true) == pytest.approx(expected)

    def test_the_empty_cases(self):
        # Choice: equation 2 divides by zero in both.
        assert box_reward([], [A]) == 0.0
        assert box_reward([A], []) is None
        assert box_reward([], []) is None

    @pytest.mark.parametrize("box", IMPROPER)
    def test_an_improper_prediction_costs_precision(self, box):
        # ½ (1/1 + (1 + 0)/2)
        assert box_reward([A, box], [A]) == 0.75

    def test_a_true_box_must_be_proper(self):
        with pytest.raises(ConfigError, match="True boxes"):
            box_reward([A], [WrittenBox(1, 1, 0, 0)])

    @given(st.lists(boxes, max_size=6), st.lists(st.sampled_from([A, B, FAR]), min_size=1, max_size=3))
    def test_it_stays_in_its_range_for_every_box(self, predicted, true):
        assert 0.0 <= box_reward(predicted, true) <= 1.0


class TestLenientReading:
    @pytest.mark.parametrize(
        "text",
        [
            "[1, 2, 3, 4]",
            "(1,2,3,4)",
            "<box>[1.0, 2.0, 3.0, 4.0]</box>",
            "<box>1, 2, 3, 4</box>",
            "<box>(1,2),(3,4)</box>",
            "from [1, 2] [3, 4] on",
            '{"bbox_2d": [1, 2, 3, 4], "label": "dog"}',
            "[[1,2,3,4]]",
            "[1 2 3 4]",
            "[1,\n 2,\n 3,\n 4]",
            "[+1, 2., 3e0, 4]",
        ],
    )
    def test_ways_to_write_a_box(self, text):
        assert find_boxes(text) == (WrittenBox(1, 2, 3, 4),)

    def test_several_boxes_keep_their_order(self):
        assert find_boxes("[[1,2,3,4],[5,6,7,8]] and (9,9,9,9)") == (
            WrittenBox(1, 2, 3, 4),
            WrittenBox(5, 6, 7, 8),
            WrittenBox(9, 9, 9, 9),
        )

    @pytest.mark.parametrize("text", ["", "[1,2,3]", "[1,2,3,4,5]", "1,2,3,4", "[a,b,c,d]", "[１,２,３,４]"])
    def test_what_is_no_box(self, text):
        assert find_boxes(text) == ()

    @pytest.mark.parametrize("text", ["[nan, 0, 1, 1]", "[0, 0, inf, 1]", "[0,0,1e999,1]", "[0,0," + "9" * 400 + ",1]"])
    def test_a_box_does_not_hide_behind_its_numbers(self, text):
        (box,) = find_boxes(text)
        assert not box.is_proper

    def test_reading_is_bounded(self):
        assert len(find_boxes("[1,2,3,4]" * 5_000)) == MAX_BOXES
        assert find_boxes("[1,2,3,4]" + " " * MAX_TEXT_CHARS) == ()

    @pytest.mark.parametrize("text", ["[" * 100_000, "[1" * 50_000, "[1," * 33_000, "9" * 100_000, "(1,2)" * 20_000])
    def test_walls_of_text_take_bounded_time(self, text):
        start = time.process_time()
        find_boxes(text)
        assert time.process_time() - start < 5

    @given(st.text(alphabet="[]()<>,.0123456789eE+-naif \n"))
    def test_no_text_raises(self, text):
        assert all(isinstance(side, float) for box in find_boxes(text) for side in box)
        read_box_list(text)


class TestStrictReading:
    def test_a_list_of_lists_of_four_numbers(self):
        assert read_box_list(" [[1, 2, 3, 4],\n[5.5, 6, 7, 1e2]] ") == (
            WrittenBox(1, 2, 3, 4),
            WrittenBox(5.5, 6, 7, 100),
        )

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "[[]]",
            "[1,2,3,4]",
            "[[1,2,3]]",
            "[[1,2,3,4],[1,2,3]]",
            "[[1,2,3,4],]",
            "[[1,2,3,4]] please",
            "[[NaN,2,3,4]]",
            "[[true,2,3,4]]",
            '[["1",2,3,4]]',
            "[[[1,2,3,4]]]",
            "((1,2,3,4))",
            "[[1,2,3,4" + "]" * 20,
            "[[" + "[" * 20 + "]]",
            "[" + "[1,2,3,4]," * 256 + "[1,2,3,4]]",
        ],
    )
    def test_anything_else_is_malformed(self, text):
        assert read_box_list(text) is None

    def test_huge_numbers_are_read_and_are_improper(self):
        (box,) = read_box_list("[[0,0,1e999," + "9" * 400 + "]]")
        assert not box.is_proper


class TestZoomable:
    @pytest.mark.parametrize(
        ("box", "valid"),
        [
            (WrittenBox(0, 0, 79, 50), True),  # 3950 of 10000
            (WrittenBox(0, 0, 80, 50), False),  # 4000: not under 40 %
            (WrittenBox(90, 90, 100, 100), True),  # the border belongs to the image
            (WrittenBox(90, 90, 101, 100), False),
            (WrittenBox(-1, 0, 10, 10), False),
            *((box, False) for box in IMPROPER),
        ],
    )
    def test_ordered_inside_and_under_forty_percent(self, box, valid):
        # Mags-RL, appendix A.1.
        assert count_zoomable([box], 100, 100) == valid

    def test_a_box_written_twice_counts_once(self):
        assert count_zoomable([A, A, B], 100, 100) == 2
