"""Questions without pictures as sheets."""

from dataclasses import replace

from vlm_envs.qa.qa_world import written_sheet
from vlm_envs.qa.sample import Sample
from vlm_envs.responses.answers import AnswerKey

SAMPLE = Sample(
    sample_id="s",
    question="Which one is right?",
    key=AnswerKey(kind="exact", answers=("1",)),
    category="c",
    digest="d",
    texts=(("resp_1", "One.\n\nTwo."),),
)


def test_a_sheet_has_a_line_for_every_line():
    sheet = written_sheet(SAMPLE)
    # The question and a blank line; the name, three lines of the text, a blank line: 7 of 19 px, 16 px above and below.
    assert (sheet.width, sheet.height) == (720, 165)
    rows = (sheet.pixels.min(axis=(1, 2)) < 100).reshape(-1)
    inked = [bool(rows[16 + 19 * line : 16 + 19 * (line + 1)].any()) for line in range(7)]
    assert inked == [True, False, True, True, False, True, False]


def test_long_lines_are_wrapped_inside_the_margin_and_long_texts_cut():
    long = replace(SAMPLE, texts=(("resp_1", "many words " * 3_000),))
    sheet = written_sheet(long)
    assert sheet.height == 32 + 60 * 19
    assert (sheet.pixels[:, 704:] == 255).all()
