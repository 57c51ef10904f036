"""Where paragraphs, sentences and words begin and end, and that no text takes long."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.slow import sized
from vlm_envs.errors import EngineUnavailableError
from vlm_envs.tools import text_profiles
from vlm_envs.tools.text_profiles import cleaned, paragraphs_of, sentences_by_paragraph, sentences_of

pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

CHECKOUT = Path(__file__).parents[4]


def visible(text):
    return "".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (" \n\t\n ", ()),
        ("one", ("one",)),
        ("one\n\ntwo", ("one", "two")),
        ("one\n \t\n\n\ntwo\n", ("one", "two")),
        ("one\r\n\r\ntwo", ("one", "two")),
        ("  one  \n  more  \n\n two", ("one\nmore", "two")),
        ("one\u2029\u2029two", ("one", "two")),  # Paragraph separators end lines, as in str.splitlines.
        ("one\n\u3000\u00a0\ntwo", ("one", "two")),  # Ideographic and no-break spaces are white space.
        ("one\n\u200b\ntwo", ("one\n\u200b\ntwo",)),  # A zero-width space is not: the line is not blank.
    ],
)
def test_paragraphs(text, expected):
    assert paragraphs_of(text) == expected


def test_cleaning_strips_every_line_and_keeps_blank_ones():
    assert cleaned("  a \n\n\t b  \n") == "a\n\nb"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (" \n ", ()),
        ("no mark", ("no mark",)),
        ("One. Two! Three?", ("One.", "Two!", "Three?")),
        # Abbreviations, initials, decimals, times of day, addresses.
        ("Use it, e.g. here. See Fig. 3.5 now.", ("Use it, e.g. here.", "See Fig. 3.5 now.")),
        ("Dr. Who met Mr. J. Smith. They left.", ("Dr. Who met Mr. J. Smith.", "They left.")),
        ("It is 3.5. It is 4 p.m. Now.", ("It is 3.5.", "It is 4 p.m.", "Now.")),
        ("See https://a.b/c?d=e now. Mail a@b.com today.", ("See https://a.b/c?d=e now.", "Mail a@b.com today.")),
        ("Version a!b stays whole.", ("Version a!b stays whole.",)),
        # Sentences inside quotations and brackets count one by one; what Punkt says of each was read off NLTK 3.10 with
        # its punkt_tab for English. A mark and a quotation mark end a sentence wherever they stand.
        ('He said: "I am here. Are you?" She nodded.', ('He said: "I am here.', 'Are you?"', "She nodded.")),
        ('He said "Go. Now." Then he left.', ('He said "Go.', 'Now."', "Then he left.")),
        ("“Hi. You.” She left.", ("“Hi.", "You.”", "She left.")),
        ("(See this. And that.) Then go.", ("(See this.", "And that.)", "Then go.")),
        ('She asked "Why?" and left.', ('She asked "Why?"', "and left.")),
        ("[I am here. Are you?] She nodded.", ("[I am here.", "Are you?]", "She nodded.")),
        ("--I am here. Are you?-- She nodded.", ("--I am here.", "Are you?-- She nodded.")),
        (
            "It is red.[1] It is blue.[2, 3][4] See [5]. Done.",
            ("It is red.[1]", "It is blue.[2, 3][4]", "See [5].", "Done."),
        ),
        # Marks other than a full stop end a sentence whatever follows.
        ("No!!! Yes.", ("No!!!", "Yes.")),
        ("Wait... What? No!!! Yes?!", ("Wait...", "What?", "No!!!", "Yes?!")),
        ("Yahoo! is big. So.", ("Yahoo!", "is big.", "So.")),
        ('"Stop!" he cried. They did.', ('"Stop!"', "he cried.", "They did.")),
        ('A sign reads "MAIN ST." Both are red.', ('A sign reads "MAIN ST." Both are red.',)),
        ('He said "Go."', ('He said "Go."',)),
        # Markdown.
        ("**Bold.** Next one.", ("**Bold.**", "Next one.")),
        # Several marks, ellipses; text of marks alone is one sentence.
        ("Yes!! OK?! Fine...", ("Yes!!", "OK?!", "Fine...")),
        ("Wait... what is it?", ("Wait... what is it?",)),
        ("...", ("...",)),
        # A numbered list has a sentence for each item, not one for each "1." (pin; Punkt counts those).
        ("1. First item. 2. Second item.", ("1. First item.", "2. Second item.")),
        # One line break is a space, a blank line ends a sentence (pin; Punkt reads on over it).
        ("one\ntwo. three", ("one\ntwo.", "three")),
        ("# Title\n\nText. More.", ("# Title", "Text.", "More.")),
        ("- a\n- b", ("- a\n- b",)),
        # A piece without letters or digits belongs to the sentence before it (pin).
        ("Great day! 🎉", ("Great day! 🎉",)),
        ("Great day! 🎉 Yes.", ("Great day!", "🎉 Yes.")),
        # Chinese and Japanese need no space after a mark.
        ("他来了。你好吗？好！", ("他来了。", "你好吗？", "好！")),
        ("「はい。」と言った。次。", ("「はい。」と言った。", "次。")),
        # Right to left, with a direction mark; combining characters; other spaces.
        ("\u200fשלום. מה נשמע?", ("\u200fשלום.", "מה נשמע?")),
        ("Cafe\u0301 au lait. E\u0301te\u0301.", ("Cafe\u0301 au lait.", "E\u0301te\u0301.")),
        ("One.\u00a0Two.\u3000Three.", ("One.", "Two.", "Three.")),
        # Marks that neither pysbd's English nor Punkt's knows end nothing.
        ("मैं। तुम।", ("मैं। तुम।",)),
    ],
)
def test_sentences(text, expected):
    assert sentences_of(text) == expected


def test_sentences_are_counted_in_each_paragraph():
    assert sentences_by_paragraph("A cat. A dog.\n\nA cow.") == (("A cat.", "A dog."), ("A cow.",))


def test_characters_that_pysbd_uses_for_itself_stay_in_the_text():
    assert sentences_of("A∯B ȹ here. Then ☝ &ᓴ& there.") == ("A∯B ȹ here.", "Then ☝ &ᓴ& there.")


def test_long_paragraphs_are_cut_between_sentences():
    sentence = "The lantern hangs above the narrow bridge, e.g. at night, near Mr. Smith."
    assert sentences_of(" ".join([sentence] * 500)) == (sentence,) * 500


def test_a_sentence_longer_than_the_window_stays_whole():
    text = "word " * 2000 + "end. Next one."
    assert [len(sentence.split()) for sentence in sentences_of(text)] == [2001, 2]


def test_texts_beyond_the_limit_are_cut_at_marks_without_pysbd():
    text = "See Mr. Smith. " * (text_profiles.MAX_PYSBD_CHARS // 15 + 1)
    assert len(sentences_of(text)) == 2 * (text_profiles.MAX_PYSBD_CHARS // 15 + 1)
    assert len(sentences_of("See Mr. Smith. " * 100)) == 100


@pytest.mark.parametrize(
    ("text", "here", "punkt"),
    [
        ("1. First item. 2. Second item.", 2, 4),
        ("Bring food (e.g. bread) along.", 1, 2),
        ("The answer is B. Point 2 is wrong.", 1, 2),
        ("She said 'I am here. Are you?' He nodded.", 2, 3),
        ("_I am here. Are you?_ She nodded.", 3, 2),
        ("`I am here. Are you?` She nodded.", 3, 2),
        ("No !!! Yes.", 2, 3),
        ('Is it "Yahoo!", or not? Yes.', 2, 3),
        ("他来了。你好吗？", 2, 1),
        ("A title\n\nA line. Another.", 3, 2),
    ],
)
def test_where_counts_differ_from_punkts_they_differ_like_this(text, here, punkt):
    """Punkt's numbers were read off NLTK 3.10 with its punkt_tab."""
    assert len(sentences_of(text)) == here != punkt


@given(st.text(max_size=300) | st.text(alphabet=".!?。…\"'“”()[]«» \n\r-1a.2AbU&∯ȸ♨☝iv,)e", max_size=200))
@example(".[1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1")
@example("a.\x1c\x85b")
def test_sentences_are_the_text_cut_in_pieces(text):
    sentences = sentences_of(text)
    assert visible("".join(sentences)) == visible(text)
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


PATHOLOGICAL = {
    "quotes": '"',
    "apostrophes": " '",
    "opening brackets": "(",
    "references": "a.[1 1 1 1][1, 1 - 1] ",
    "digits in a bracket": ".[" + "1" * 200,
    "numbered list": " 1. ",
    "lettered list": " a. ",
    "roman list": " (i) A",
    "abbreviations": " e.g.",
    "titles": " Mr. ",
    "dots": ".",
    "spaced dots": " . ",
    "marks": "?!",
    "one letter": "a",
    "spaces": " ",
    "short paragraphs": "x. y\n\n",
    "chinese": "他来了。",
    "escaped": '\\"',
    "dashes": "--",
    "calls": " a!",
    "references without end": ".[1 1 1",
}


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_no_text_takes_long(name):
    piece = PATHOLOGICAL[name]
    num_chars = text_profiles.MAX_PYSBD_CHARS // sized(12, soak=3)
    text = (piece * (num_chars // len(piece) + 1))[:num_chars]
    started = time.process_time()
    sentences_of(text)
    # Linear in the text: 0.01 to 1 s on the machine this was written on. An exponential pattern never ends.
    assert time.process_time() - started < 30


def test_without_pysbd_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysbd", None)
    text_profiles._segmenter.cache_clear()
    try:
        with pytest.raises(EngineUnavailableError, match=r"pip install -e '.*\[tools\]'"):
            sentences_of("A text never cut before. It has two sentences.")
    finally:
        text_profiles._segmenter.cache_clear()


def test_pysbd_is_not_imported_before_sentences_are_counted():
    program = "import sys, vlm_envs.tools.instructions; print('pysbd' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, timeout=280, check=True
    )
    assert result.stdout.strip() == "False"


def test_pysbd_may_be_compiled_where_warnings_are_errors(tmp_path):
    program = (
        "import warnings; from vlm_envs.tools.text_profiles import sentences_of\n"
        "warnings.simplefilter('error'); print(len(sentences_of('One. Two.')))"
    )
    compiled_anew = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=compiled_anew)
    assert (ran.stdout, ran.stderr) == ("2\n", "")
