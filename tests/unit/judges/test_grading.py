"""Finding the final answer and comparing it: Argos equations 6-8, Mags-RL appendix A.2, ANLS."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.grading import extract_answer
from judges.scores import JudgeScore
from tests.unit.judges.awaited import grade_answer, match_answer
from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import (
    AnswerKey,
    anls,
    chosen_letter,
    edit_distance,
    inclusion,
    normalise,
    page_accuracy,
    relative_error,
)
from vlm_envs.responses.extraction import MAX_TEXT_CHARS
from vlm_envs.responses.numbers import read_number

YES_NO = AnswerKey(kind="choice", answers=("B",), options=("No.", "Yes."))


def key(kind, *answers, **rest):
    return AnswerKey(kind=kind, answers=answers, **rest)


def judge_saying(*grades):
    grades = list(grades)

    def judge(question, truth, answer):
        grade = grades.pop(0)
        return JudgeScore.unavailable("no route") if grade is None else JudgeScore(value=grade)

    return judge


def never(question, truth, answer):
    raise AssertionError("the judge is not to be asked")


class TestExtraction:
    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            ("<answer> 4 </answer>", "4"),
            ("<think>2</think><answer>so <|begin_of_box|>B. Yes.<|end_of_box|></answer>", "B. Yes."),
            (r"<answer>thus \boxed{\frac{1}{2}}</answer>", r"\frac{1}{2}"),
            (r"<answer>thus \boxed{1} no, \boxed{2}</answer>", "2"),
            (r"<answer>\boxed{1} <|begin_of_box|>2<|end_of_box|></answer>", "2"),
            ("<answer>1</answer><answer>2</answer>", "2"),
            ("<answer><answer>1</answer></answer>", "1"),
            ("<answer></answer>", ""),
        ],
    )
    def test_the_last_answer_and_the_box_in_it(self, text, answer):
        assert extract_answer(text) == answer

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "the answer is 4",
            "<answer>4",
            r"\boxed{4}",  # worlds read no answer without its tags either
            "<answer>the jeep <|begin_of_box|>B. Yes.<|end_of_box|>",
            "<think><answer>4</answer>",
            "<|end_of_box|>4<|begin_of_box|>",
            "<think><answer>4</answer></think>",
            r"<think>\boxed{4}</think>",
            "＜answer＞4＜/answer＞",
        ],
    )
    def test_thoughts_fragments_and_look_alikes_are_no_answer(self, text):
        assert extract_answer(text) is None

    def test_a_text_that_is_too_long_is_not_read(self):
        assert extract_answer("x" * MAX_TEXT_CHARS + "<answer>4</answer>") is None


class TestExact:
    @pytest.mark.parametrize(
        "answer", ["red car", " Red  Car. ", '"red car"', "red\u200b car", "ｒｅｄ car", "RED CAR!"]
    )
    def test_equal_after_normalisation(self, answer):
        # Argos, equation 6: 1[ŷ = y].
        assert match_answer(answer, key("exact", "Red car")).value == 1.0

    @pytest.mark.parametrize("answer", ["red", "a red car", "redcar", "", None, ".", "x" * 5_000])
    def test_anything_else_is_wrong(self, answer):
        assert match_answer(answer, key("exact", "Red car")).value == 0.0

    @pytest.mark.parametrize(
        ("kind", "truth", "answer"),
        [
            ("exact", "T-shirt", "T\u2011shirt"),
            ("exact", "don't know", "don\u2019t know"),
            ("number", "42", "forty\u2011two"),
            ("list", '["2024-05-06"]', "2024\u201105\u201106"),
        ],
    )
    def test_typeset_hyphens_and_apostrophes_are_ascii_ones(self, kind, truth, answer):
        assert match_answer(answer, key(kind, truth)).value == 1.0
        assert match_answer(f"{answer}\u2011x", key(kind, truth)).value == 0.0

    def test_any_accepted_answer_will_do(self):
        assert match_answer("kitty", key("exact", "cat", "kitty")).value == 1.0

    def test_a_refusal_is_wrong_even_where_it_is_the_truth(self):
        # Mags-RL, appendix A.2: "Refusal" is assigned a score of zero.
        assert match_answer("Refusal", key("exact", "refusal")).value == 0.0

    def test_an_answer_full_of_zero_width_characters_is_empty(self):
        assert normalise("\u200b\u200d\u2060") == ""


class TestNumber:
    @pytest.mark.parametrize(
        ("answer", "truth", "right"),
        [
            ("105", "100.0", True),  # |105 - 100| / max(100, 1) = 0.05 ≤ 0.05
            ("105.1", "100.0", False),  # 5.1 / 100 = 0.051
            ("0.54", "0.5", True),  # 0.04 / max(0.5, 1) = 0.04: absolute below 1, as the paper has it
            ("0.56", "0.5", False),  # 0.06 / 1
            ("-0.04", "0.0", True),
            ("1,050", "1000.0", True),
            ("$1,050.00", "1000.0", True),
            ("half", "0.5", False),
        ],
    )
    def test_floats_may_be_off_by_five_percent(self, answer, truth, right):
        # Argos, equations 7 and 8.
        assert match_answer(answer, key("number", truth)).value == float(right)

    @pytest.mark.parametrize(
        ("answer", "truth", "right"),
        [
            ("20", "20", True),
            ("21", "20", False),
            ("42", "40", False),
            ("1950", "1998", False),
            ("0", "0", True),
            ("-0.04", "0", False),
            ("20.0", "20", True),
            ("20.5", "20", False),
            ("-100", "100", False),
            ("1,000", "1000", True),
            ("1,050", "1000", False),
            ("45%", "45", True),
            ("0.45", "45%", False),
            ("1e2", "100", True),
            ("\N{MINUS SIGN}5.", "-5", True),
            ("1,2", "12", False),
            ("40", "forty", True),
        ],
    )
    def test_whole_numbers_must_be_equal(self, answer, truth, right):
        assert match_answer(answer, key("number", truth)).value == float(right)

    @pytest.mark.parametrize(
        ("answer", "truth", "tolerance", "right"),
        [
            ("105", "100", 0.05, True),
            ("106", "100", 0.05, False),
            ("0.044", "0.045", 0.01, False),  # relative to the truth, also below 1
            ("0.0446", "0.045", 0.01, True),
            ("0.001", "0", 0.05, False),
            ("3.14", "3.14", 0.0, True),
            ("3.15", "3.14", 0.0, False),
        ],
    )
    def test_a_key_may_have_a_tolerance_of_its_own(self, answer, truth, tolerance, right):
        assert match_answer(answer, key("number", truth, tolerance=tolerance)).value == float(right)

    def test_relative_error(self):
        assert relative_error(90.0, 100.0) == pytest.approx(0.1)
        assert relative_error(0.7, 0.5) == pytest.approx(0.2)  # the divisor is 1

    @pytest.mark.parametrize("text", ["nan", "inf", "1e999", "-1e9999", "9" * 400, "1_000", "0x10", "", "4²"])
    def test_what_is_no_finite_number(self, text):
        assert read_number(text) is None
        assert match_answer(text, key("number", "4")).value == 0.0

    def test_texts_are_compared_where_one_side_is_no_number(self):
        # Argos: "when both answers are float numbers".
        assert match_answer("Four", key("number", "four")).value == 1.0


class TestChoice:
    @pytest.mark.parametrize(
        "answer",
        ["B", "b", "(B)", "B.", "B. Yes.", "B) yes", "B: yes", "Option B", "Yes", "yes!", "[B]", "（Ｂ）", "Ｂ．"],
    )
    def test_a_letter_or_an_options_text(self, answer):
        assert match_answer(answer, YES_NO).value == 1.0

    @pytest.mark.parametrize(
        "answer", ["A", "A. No.", "C", "A and B", "B, A", "B (A)", "B. A", "B or not", "", "maybe", "be"]
    )
    def test_other_letters_several_letters_and_words_are_wrong(self, answer):
        assert match_answer(answer, YES_NO).value == 0.0

    def test_a_letter_with_another_options_text_contradicts_itself(self):
        assert chosen_letter("B. No.", YES_NO) is None

    @pytest.mark.parametrize(
        "answer",
        [
            *(
                "The answer is B. blue",
                "Option B: blue",
                "B - blue",
                "B blue",
                "B, blue",
                "B.blue",
                "**B**",
                "**B. Blue**",
            ),
            *(
                "B (blue)",
                "B(blue)",
                "(B) blue",
                "[B] blue",
                "**B** (blue)",
                "**B.** blue",
                "`B` blue",
                "Ｂ（blue）",
                '"B" (blue)',
            ),
            *("[B] (blue)", "B. (blue)", "B. **blue**", "B) `blue`", "Option B (blue)", "The answer is B (blue)"),
            *(
                "Final answer: B",
                "B。",
                "The correct answer is option B.",
                "Answer: B (blue)",
                r"\boxed{\text{B (blue)}}",
            ),
        ],
    )
    def test_a_letter_may_come_with_its_options_own_text_however_they_are_joined(self, answer):
        colors = key("choice", "B", options=("red", "blue", "a dog"))
        assert chosen_letter(answer, colors) == "b"
        assert "blue" not in answer or chosen_letter(answer.replace("blue", "red"), colors) is None

    def test_a_text_that_begins_like_a_letter_is_its_own_options(self):
        assert chosen_letter("a dog", key("choice", "C", options=("red", "blue", "a dog"))) == "c"
        assert chosen_letter("a dog", key("choice", "B", options=("red", "dog"))) is None

    def test_letters_work_without_the_options_texts(self):
        assert match_answer("(d)", key("choice", "D")).value == 1.0

    def test_a_letter_may_come_with_brackets_where_the_options_are_unknown(self):
        assert match_answer("B (blue)", key("choice", "B")).value == 1.0
        assert match_answer("B (A)", key("choice", "B")).value == 0.0

    @pytest.mark.parametrize(
        "answer",
        [
            *(
                "(B) or (C)",
                "(B) and (C)",
                "(b) or (c)",
                "B. or C",
                "B. C",
                "(B) not (C)",
                "B. No, C",
                "B. Wait, C. green",
            ),
            *(
                "B: not sure, maybe C",
                "B: red, not blue",
                "B. blue or red",
                "B. wrong",
                "B (not sure)",
                "B. the red one",
            ),
            *(
                "B. I am unsure",
                "B. The blue one, not A",
                "B: A is better",
                "B. blue, (a)",
                "B. Possibly",
                "**B.** or **C**",
            ),
            *("B or C", "B, C", "B and C", "B. blue and C. green", "The answer is B. Or C.", "(B) (C)", "B (green)"),
        ],
    )
    def test_a_letter_that_comes_with_another_option_or_doubt_is_no_choice(self, answer):
        colors = key("choice", "B", options=("red", "blue", "green"))
        assert chosen_letter(answer, colors) is None
        assert match_answer(answer, colors).value == 0.0

    @pytest.mark.parametrize(
        ("answer", "options", "letter"),
        [
            ("A. the blue car", ("red car", "blue car"), None),
            ("A. blue", ("red car", "blue car"), None),
            ("A. the red car", ("red car", "blue car"), "a"),
            ("A: the car that is red", ("red car", "blue car"), "a"),
            ("B: three", ("3", "4", "5"), None),
            ("B: there are three", ("3", "4", "5"), None),
            ("B: four", ("3", "4", "5"), "b"),
            ("B (four)", ("3", "4", "5"), "b"),
            ("B: it shows four chairs", ("3", "4", "5"), "b"),
            ("A. red", ("red car", "red"), None),
            ("A. the red", ("red car", "red"), None),
            ("B. It is the blue one", ("red", "blue", "green"), "b"),
            ("(B) the blue one", ("red", "blue", "green"), "b"),
            ("B. a nice blue", ("red", "blue", "green"), "b"),
            ("B. I see a sky", ("red", "blue", "green"), "b"),
            ("B. A man on a horse", ("a cow", "A man rides a horse"), "b"),
            ("B. no", ("yes", "no"), "b"),
            ("B. vitamin C", ("vitamin D", "vitamin C", "iron"), "b"),
            ("B. not sure", ("sure", "not sure"), "b"),
        ],
    )
    def test_an_explanation_after_a_letter_may_name_its_own_option_only(self, answer, options, letter):
        assert chosen_letter(answer, key("choice", "A", options=options)) == letter

    @pytest.mark.parametrize(
        "answer",
        ["B (or C)", "B (maybe C)", "B (blue) or C (green)", "B (wrong)", "B (not sure)", "B (none of these)", "B (C)",
         "B. or C", "(B) and (C)", "B: not sure", "B. Wait, C", "B (all)"],
    )  # fmt: skip
    def test_doubt_and_further_letters_are_no_choice_where_the_options_are_unknown(self, answer):
        assert match_answer(answer, key("choice", "B")).value == 0.0

    def test_options_that_are_code_or_formulas_are_told_apart(self):
        code = key("choice", "A", options=("__init__", "init", "5*3", "53"))
        assert [chosen_letter(text, code) for text in ("__init__", "init", "5*3", "53", "`5*3`")] == [*"abcdc"]

    def test_a_text_that_two_options_share_names_neither(self):
        assert chosen_letter("yes", key("choice", "A", options=("yes", "Yes."))) is None


class TestSemantic:
    def test_equal_texts_need_no_judge(self):
        assert match_answer("Cat.", key("semantic", "cat"), never).value == 1.0

    @pytest.mark.parametrize("grade", [0.0, 1.0])
    def test_the_judges_verdict_counts(self, grade):
        assert match_answer("kitty", key("semantic", "cat"), judge_saying(grade)).value == grade

    @pytest.mark.parametrize("grade", [None, 0.5, math.nan, 2.0])
    def test_unavailable_or_another_grade_is_no_score(self, grade):
        score = match_answer("kitty", key("semantic", "cat"), judge_saying(grade))
        assert not score.available
        assert math.isnan(score.value)

    def test_unavailable_beside_a_wrong_is_unavailable_and_beside_a_right_is_right(self):
        two = key("semantic", "cat", "tabby")
        assert not match_answer("kitty", two, judge_saying(None, 0.0)).available
        assert match_answer("kitty", two, judge_saying(None, 1.0)).value == 1.0

    def test_a_semantic_key_without_a_judge_is_the_programmers_mistake(self):
        with pytest.raises(ConfigError, match="needs a judge"):
            match_answer("kitty", key("semantic", "cat"))


class TestGrades:
    @pytest.mark.parametrize("grade", [0.0, 0.25, 0.5, 0.75, 1.0])
    def test_quarters(self, grade):
        # Mags-RL, appendix A.2: the judge's five grades.
        assert grade_answer("kitty", key("exact", "cat"), judge_saying(grade)).value == grade

    def test_another_grade_is_unavailable(self):
        assert not grade_answer("kitty", key("exact", "cat"), judge_saying(0.7)).available

    @pytest.mark.parametrize("answer", ["Refusal", "refusal.", "", None])
    def test_a_refusal_scores_zero_unasked(self, answer):
        assert grade_answer(answer, key("exact", "cat"), never).value == 0.0


class TestAnls:
    @pytest.mark.parametrize(
        ("answer", "truths", "expected"),
        [
            ("Hallo", ["hello"], 0.8),  # one substitution in five: 1 - 1/5
            ("abxy", ["abcd"], 0.0),  # 2/4 = 0.5 is not below the threshold
            ("abcxy", ["abcde"], 0.6),  # 2/5 = 0.4
            ("abc", ["abc", "zzz"], 1.0),  # the best truth counts
            ("a  b", ["A B"], 1.0),
            ("", ["a"], 0.0),
            (None, ["a"], 0.0),
            ("a" * 4_001, ["a" * 4_001], 0.0),
        ],
    )
    def test_hand_computed(self, answer, truths, expected):
        assert anls(answer, truths) == pytest.approx(expected)

    def test_edit_distance(self):
        assert edit_distance("kitten", "sitting") == 3
        assert edit_distance("", "abc") == edit_distance("abc", "") == 3

    def test_the_longest_texts_take_bounded_time(self):
        start = time.process_time()
        assert anls("ab" * 2_000, ["ba" * 2_000]) > 0.9
        assert time.process_time() - start < 20


def test_page_accuracy():
    # MP-DocVQA: 1 when the page named is the answer's.
    assert [page_accuracy(page, {3}) for page in (3, 4, None, True)] == [1.0, 0.0, 0.0, 0.0]
    assert page_accuracy(True, {1}) == 0.0


@pytest.mark.parametrize(
    ("answer", "truth", "expected"),
    [
        ("There are 4 buses", "4", 1.0),
        ("There are 14 buses", "4", 0.0),
        ("about 4.5", "4", 0.0),
        ("-4", "4", 0.0),
        ("It is 4.", "4", 1.0),
        ("on the left side", "Left", 1.0),
        ("a category", "cat", 0.0),
        ("the red-car", "car", 1.0),
        ("Refusal", "refusal", 0.0),
        ("c++ (old)", "C++", 1.0),
        (None, "4", 0.0),
    ],
)
def test_inclusion_is_by_whole_words(answer, truth, expected):
    # Mags-RL, appendix A.2: inclusion accuracy; whole words are a pin.
    assert inclusion(answer, [truth]) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {"kind": "exact", "answers": ()},
        {"kind": "exact", "answers": ("",)},
        {"kind": "choice", "answers": ("C",), "options": ("no", "yes")},
        {"kind": "free", "answers": ("a",)},
        {"kind": "list", "answers": ("[]",)},
        {"kind": "number", "answers": ("1",), "tolerance": -0.1},
        {"kind": "number", "answers": ("1",), "tolerance": math.nan},
    ],
)
def test_a_key_that_no_answer_meets_is_refused(arguments):
    with pytest.raises(ConfigError):
        AnswerKey(**arguments)


@given(st.text(), st.sampled_from(["exact", "choice", "number"]))
def test_no_answer_raises_and_every_score_is_zero_or_one(text, kind):
    assert match_answer(text, key(kind, "b")).value in (0.0, 1.0)
    assert 0.0 <= anls(text, ["some page"]) <= 1.0
    assert inclusion(text, ["b"]) in (0.0, 1.0)
    extract_answer(text)


@given(st.lists(st.sampled_from([r"\boxed{", "{", "}", "<answer>", "</answer>", "a", "</think>"]), max_size=60))
def test_no_tangle_of_brackets_raises(pieces):
    extract_answer("".join(pieces))


@given(st.text(max_size=12), st.text(max_size=12))
def test_edit_distance_is_the_textbooks(first, second):
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        row, old = [i], row
        for j, b in enumerate(second, 1):
            row.append(min(row[-1] + 1, old[j] + 1, old[j - 1] + (a != b)))
    assert edit_distance(first, second) == row[-1]


def test_deep_braces_and_a_wall_of_tags_take_bounded_time():
    start = time.process_time()
    extract_answer((r"\boxed{" * 14_000)[:MAX_TEXT_CHARS])
    extract_answer(("<answer>" * 14_000)[:MAX_TEXT_CHARS])
    assert time.process_time() - start < 5
