r"""Answer keys and the rules that compare answers with them.

Source: Argos, section 3.1, equations 6-8 (exact match, relative error); Mags-RL, appendix A.2 (refusals, inclusion
accuracy); MP-DocVQA (ANLS at 0.5, page accuracy); MMLongBench-Doc, `eval/eval_score.py` (lists). Choices, where these
are silent:

- Every rule reads an answer through `vlm_envs.responses.extraction.readings`: as it stands, within boxes, bold, code,
  quotation marks or brackets around it, and behind a lead such as `Final answer:`. One reading that is right is enough.
- Texts are compared after NFKC, case folding, removal of invisible characters, collapse of white space, and removal
  of quotation marks around and of punctuation after them. An empty answer is never right.
- Whole numbers must be equal; a number written with a decimal point may be 5 % off, which is Argos' rule for floats,
  unless the key has a tolerance of its own. Numbers may be written in words and with a unit, see
  `vlm_envs.responses.numbers`. Where one side is no number, texts are compared.
- A choice is a letter, a letter with a dot, colon or bracket, an option's whole text, or a letter and its own option's
  text however they are joined ("The answer is B. blue", "B - blue", "B (blue)"). A letter that comes with the text of
  another option contradicts itself and is no choice.
- A verdict on responses is a number, or true or false, alone or in a sentence as papers ask for; see
  `vlm_envs.responses.verdicts`.
- A list is a JSON or Python list, or items separated by commas, semicolons, or lines. Its order does not matter.
- Where the truth is that a question is not answerable, any sentence to that effect is right; see
  `vlm_envs.responses.unanswerable`.
- Inclusion is by whole words, so that 4 is not found in 14 or in 4.5. Scripts without spaces have no word ends.
"""

from __future__ import annotations

import ast
import re
import string
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from vlm_envs.errors import ConfigError, require_choice
from vlm_envs.responses.extraction import readings, unwrap
from vlm_envs.responses.numbers import NUMBER, is_in_words, is_whole, read_number, read_quantity
from vlm_envs.responses.unanswerable import is_unanswerable
from vlm_envs.responses.verdicts import read_verdict

AnswerKind = Literal["exact", "choice", "number", "semantic", "anls", "verdict", "list"]

MAX_ANSWER_CHARS = 4_000
"""Longer answers are wrong unread, which bounds the time spent on them."""

MAX_ITEMS = 200
"""Most items of a list; a longer one is no list."""

RELATIVE_TOLERANCE = 0.05
"""Argos, equation 8."""

_LETTER = r"""[(\["'“‘]?([a-z])[)\]"'”’]?"""
_LETTERED = re.compile(r"[(\[]?([a-z])(?:[.):\]](?: (.*))?)?", flags=re.DOTALL)
_NAMED_LETTER = re.compile(rf"(?:the )?(?:correct )?(?:answer|option|choice)(?: is)?:? {_LETTER}")
_WITH_TEXT = re.compile(
    r"(?:(?:the )?(?:correct |final )?(?:answer|option|choice)(?: is)?:? )?" rf"{_LETTER}(?: ?[.):,=–—-] ?| )(.+)",
    flags=re.DOTALL,
)
_WITH_BRACKETS = re.compile(rf"(?:option |choice )?{_LETTER} ?[(\[](.+)[)\]]", flags=re.DOTALL)
_EMPHASIS = re.compile(r"(?<!\w)[*`_]+(?=\S)|(?<=\S)[*`_]+(?!\w)")
_NO_MARKS = re.compile(r"(?!)")
_QUOTES = "\"'`“”‘’«»"
_ENDS = " .,;:!?。、"
_WHOLE = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+|[1-9][0-9]*|0")
_BETWEEN_ITEMS = re.compile(r"[;\n；、]|[,，](?!\d{3}(?!\d))")
_BETWEEN_OR_AND = re.compile(rf"{_BETWEEN_ITEMS.pattern}|\band\s")
_BULLET = re.compile(r"^\s*(?:(?:[-*•]|\d{1,3}[.)]|and)\s+)?")
_EXACT_TEXT = re.compile(
    r"page.*|.*https?://.*|.*\.(?:py|ipynb)|.*[ap]\.m\..*|\d+(?:[-\s]\d+){0,2}|\+?[\d ()-]{7,20}"
    r"|[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}",
    flags=re.DOTALL,
)
_NOT_ANSWERABLE = ("not answerable", "unanswerable")


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerKey:
    """What the right answer is and how to compare with it.

    Attributes:
        kind: how answers are compared.
        answers: accepted answers, at least one. For a choice: the letters of the right options. For a list: its items
            as a JSON list.
        options: the options' texts in order, A first; empty when unknown or no choice.
        question: for the judge.
        verdicts: of a verdict: the words that it is one of, in order; empty when unknown.
        tolerance: of a number: largest |ŷ - y| / |y| of a right answer; of kinds `anls` and `list`: normalized edit
            distance from which on a text is wrong. 0 means equal, also for kind `exact`, which otherwise accepts whole
            numbers in words. None: whole numbers are equal, other numbers within
            Argos' equation 8, and texts have ANLS' threshold of 0.5.
    """

    kind: AnswerKind
    answers: tuple[str, ...]
    options: tuple[str, ...] = ()
    question: str = ""
    verdicts: tuple[str, ...] = ()
    tolerance: float | None = None

    def __post_init__(self) -> None:
        """Refuses keys that no answer could meet."""
        require_choice("kind", self.kind, get_args(AnswerKind))
        if not self.answers or not all(normalise(answer) for answer in self.answers):
            raise ConfigError(f"answers must hold at least one answer and no empty one; got {self.answers!r}.")
        if len(self.options) > len(string.ascii_lowercase):
            raise ConfigError(f"options must be at most 26, one a letter; got {len(self.options)}.")
        if self.kind == "choice":
            letters = self.letters
            if wrong := [answer for answer in self.answers if normalise(answer) not in letters]:
                raise ConfigError(f"answers of a choice must be letters of its options; got {wrong!r}.")
        if self.tolerance is not None and not 0 <= self.tolerance < 1:
            raise ConfigError(f"tolerance must be None or in [0, 1); got {self.tolerance!r}.")
        if self.kind == "list" and not all(map(read_items, self.answers)):
            raise ConfigError(f"answers of kind 'list' must be lists of 1 to {MAX_ITEMS} items; got {self.answers!r}.")
        if self.kind == "verdict" and not all(map(stated_verdict, self.answers)):
            raise ConfigError(f"answers of a verdict must be a response's number, True or False; got {self.answers!r}.")

    @property
    def letters(self) -> str:
        """The letters that name an option, in lower case."""
        return string.ascii_lowercase[: len(self.options) or None]


def score_answer(answer: str | None, key: AnswerKey, *, relative_tolerance: float = RELATIVE_TOLERANCE) -> float:
    """Scores an answer by rule alone.

    Args:
        answer: The model's answer; None when it gave none.
        key: The truth and how to compare with it. A semantic key pays for the truth's own words only, since no rule
            knows what means the same; `judges.reading.answers.match_answer` asks a judge.
        relative_tolerance: The largest `relative_error` of a right number that is written with a decimal point, where
            the key has no tolerance; at least 0.

    Returns:
        1 or 0; for kinds `anls` and `list` the similarity, in [0, 1].
    """
    if read_answer(answer) in ("", "refusal"):
        return 0.0
    texts = _readings(answer)
    if key.kind == "choice":
        letter = chosen_letter(answer or "", key)
        return float(letter is not None and letter in map(normalise, key.answers))
    if key.kind == "verdict":
        verdict = stated_verdict(answer)
        return float(verdict is not None and verdict in (stated_verdict(truth) for truth in key.answers))
    if any(normalise(truth) in _NOT_ANSWERABLE for truth in key.answers):
        return float(_is_equal(texts, key.answers) or any(is_unanswerable(normalise(text)) for text in texts))
    if key.kind == "number":
        return float(
            any(_numbers_agree(text, truth, key, relative_tolerance) for truth in key.answers for text in texts)
        )
    if key.kind == "list":
        threshold = 0.5 if key.tolerance is None else key.tolerance
        return max(_lists_alike(text, truth, threshold) for truth in key.answers for text in texts)
    if key.kind == "anls" and key.tolerance is None:
        return anls(answer, key.answers)
    if _is_equal(texts, key.answers):
        return 1.0
    if key.kind == "anls":
        return anls(answer, key.answers, key.tolerance or 0.0)
    in_words = key.tolerance is None and any(_counts_agree(text, truth) for truth in key.answers for text in texts)
    return float(in_words)


def read_answer(answer: str | None) -> str:
    """Returns an answer without markup and leads, as it is compared; empty for none, or one that is too long."""
    texts = _readings(answer)
    return normalise(texts[-1]) if texts else ""


def stated_verdict(answer: str | None) -> str | None:
    """Returns the verdict of an answer, such as `"1"` or `"true"`, whatever is around it; None without one."""
    found = (read_verdict(normalise(text)) for text in _readings(answer))
    return next((verdict for verdict in found if verdict is not None), None)


def stated_number(answer: str | None) -> float | None:
    """Returns the number of an answer, whatever is around it; None without one."""
    found = (read_quantity(text) for text in _readings(answer))
    return next((number for number in found if number is not None), None)


def normalise(text: str) -> str:
    """Returns a text as it is compared; empty when it is longer than `MAX_ANSWER_CHARS`."""
    if len(text) > MAX_ANSWER_CHARS:
        return ""
    visible = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    return " ".join(visible.casefold().split()).strip(_QUOTES).rstrip(_ENDS).strip(_QUOTES + " ")


def relative_error(answer: float, truth: float) -> float:
    """Returns the distance of a number from the truth: |ŷ - y| / max(|y|, 1).

    Source: Argos, equation 7.
    """
    return abs(answer - truth) / max(abs(truth), 1.0)


def chosen_letter(answer: str, key: AnswerKey) -> str | None:
    """Returns the letter, in lower case, of the option that an answer (`B`, `(b)`, `B. Yes.`, `Option B`) names.

    None where it names no option or several, or contradicts itself.
    """
    for text in _readings(answer):
        # Emphasis within a text (`**B.** blue`) is removed last, since options may be code.
        for marks in (_NO_MARKS, _EMPHASIS):
            texts = [normalise(marks.sub("", option)) for option in key.options]
            letter = _letter_of(normalise(marks.sub("", text)), texts, key.letters)
            if letter is not None:
                return letter or None
    return None


def _letter_of(said: str, texts: Sequence[str], letters: str) -> str | None:
    """Returns the letter that a text names; empty where it contradicts itself, None where it names none."""
    if match := _NAMED_LETTER.fullmatch(said):
        return match[1] if match[1] in letters else ""
    if (match := _LETTERED.fullmatch(said)) and match[1] in letters:
        return "" if _contradicts(match[1], match[2] or "", texts, letters) else match[1]
    if texts.count(said) == 1:
        return letters[texts.index(said)]
    match = _WITH_BRACKETS.fullmatch(said) or _WITH_TEXT.fullmatch(said)
    if match is None or match[1] not in letters:
        return None
    if _contradicts(match[1], match[2], texts, letters):
        return ""
    is_own = _bare(match[2]).intersection(texts) or (not texts and match.re is _WITH_BRACKETS)
    return match[1] if is_own else None


def _contradicts(letter: str, stated: str, texts: Sequence[str], letters: str) -> bool:
    """Returns whether the text beside a letter is another option's, or another letter."""
    own = {letter, *texts[letters.index(letter) :][:1]}
    said = _bare(stated)
    return not said & own and bool(said & {*texts, *letters})


def _bare(text: str) -> set[str]:
    """Returns a text as it stands and without markup."""
    return {normalise(form) for said in (text, _EMPHASIS.sub("", text)) for form in readings(said, loosely=True)}


def anls(answer: str | None, truths: Collection[str], threshold: float = 0.5) -> float:
    """Returns the normalised Levenshtein similarity of one answer, best over its readings and the accepted ones.

    Args:
        answer: the model's answer; None when it gave none.
        truths: accepted answers.
        threshold: normalised distance from which on a pair scores 0, in [0, 1].

    Returns:
        1 - d / max(|a|, |t|) where that fraction is below the threshold, else 0. In [0, 1].

    Source: ANLS as MP-DocVQA uses it, with threshold 0.5; both sides in lower case, white space collapsed.
    """
    said = [" ".join(text.casefold().split()) for text in _readings(answer)]
    known = {" ".join(form.casefold().split()) for truth in truths for form in _forms(truth[:MAX_ANSWER_CHARS])}
    return max((_similarity(text, truth, threshold) for text in said for truth in known), default=0.0)


def page_accuracy(page: int | None, true_pages: Collection[int]) -> float:
    """Returns 1 when the page that the model names, counted like the true ones, holds the answer, else 0."""
    return float(page is not None and not isinstance(page, bool) and page in true_pages)


def inclusion(answer: str | None, truths: Collection[str]) -> float:
    """Returns 1 when an accepted answer stands in the model's answer as whole words, else 0; a refusal is 0.

    Source: Mags-RL, appendix A.2 (inclusion accuracy). Choice: whole words, see the module.
    """
    if read_answer(answer) in ("", "refusal"):
        return 0.0
    said = [normalise(text) for text in _readings(answer)]
    return float(any(_includes(text, normalise(truth)) for text in said for truth in truths))


def _readings(answer: str | None) -> list[str]:
    return [text for text in readings(answer or "", loosely=True) if len(text) <= MAX_ANSWER_CHARS]


@lru_cache(maxsize=4_096)
def _forms(truth: str) -> tuple[str, ...]:
    """Returns a truth as it stands and without markup; underscores stay, as in `__init__`."""
    found = readings(truth)
    code = next((index for index, form in enumerate(found) if form.startswith("_")), len(found))
    return (truth, *found[: code + 1])


def _is_equal(texts: Sequence[str], truths: Sequence[str]) -> bool:
    said = {normalise(text) for text in texts} - {""}
    return any(normalise(form) in said for truth in truths for form in _forms(truth))


def _numbers_agree(text: str, truth: str, key: AnswerKey, relative_tolerance: float) -> bool:
    said, true = read_quantity(text), stated_number(truth)
    if said is None or true is None:
        return _is_equal([text], [truth])
    if key.tolerance is not None:
        return said == true or abs(said - true) / (abs(true) or 1.0) <= key.tolerance * (true != 0)
    return said == true if is_whole(truth) else relative_error(said, true) <= relative_tolerance


def _counts_agree(text: str, truth: str) -> bool:
    """Returns whether a text is the truth, a whole number in digits, in words."""
    return _WHOLE.fullmatch(truth) is not None and is_in_words(text) and read_quantity(text) == read_quantity(truth)


def _lists_alike(text: str, truth: str, threshold: float) -> float:
    """Returns the least similarity of two sorted lists, item by item; numbers, pages, dates and the like count exactly.

    Source: MMLongBench-Doc, `eval/eval_score.py`. Choice: a list without brackets is cut at commas.
    """
    true = sorted(map(normalise, read_items(truth)[0]))
    cuts = (sorted(map(normalise, items)) for items in read_items(text))
    return max((_items_alike(items, true, threshold) for items in cuts), default=0.0)


def _items_alike(said: Sequence[str], true: Sequence[str], threshold: float) -> float:
    if said == true:
        return 1.0
    if len(said) != len(true):
        return 0.0
    numbers = [[read_number(item) for item in items] for items in (said, true)]
    if None not in numbers[1]:
        return float(None not in numbers[0] and sorted(map(float, numbers[0])) == sorted(map(float, numbers[1])))  # type: ignore[arg-type]
    if read_number(true[0]) is not None or is_exact_text(true[0]):
        return 0.0
    return min(_similarity(one, other, threshold) for one, other in zip(said, true, strict=True))


def read_items(text: str) -> list[list[str]]:
    """Returns the ways to cut a text into the items of a list; none for an empty or very long one."""
    if text.startswith("["):
        try:
            value: Any = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            value = None
        if isinstance(value, list):
            return [[unwrap(str(item)) for item in value]] if 0 < len(value) <= MAX_ITEMS else []
    cuts = [[unwrap(_BULLET.sub("", part)) for part in cut.split(text)] for cut in (_BETWEEN_ITEMS, _BETWEEN_OR_AND)]
    parts = [[item for item in cut if item] for cut in cuts]
    return [items for items in parts if 0 < len(items) <= MAX_ITEMS]


def is_exact_text(text: str) -> bool:
    """Returns whether a text is a page, date, address, file, or telephone number, of which no letter may differ."""
    return _EXACT_TEXT.fullmatch(normalise(text)) is not None


def _similarity(said: str, truth: str, threshold: float) -> float:
    longest = max(len(said), len(truth))
    # The distance is at least the difference in length, so most pairs need no table.
    if abs(len(said) - len(truth)) >= threshold * longest:
        return 0.0
    distance = edit_distance(said, truth) / longest
    return 1.0 - distance if distance < threshold else 0.0


def edit_distance(first: str, second: str) -> int:
    """Returns the fewest insertions, deletions and substitutions of characters that turn one text into another."""
    codes = np.array([ord(c) for c in second], dtype=np.int64)
    columns = np.arange(len(second) + 1)
    row = columns
    for number, character in enumerate(first, start=1):
        upper = np.minimum(row[1:] + 1, row[:-1] + (codes != ord(character)))
        # A run of insertions costs one a column: the running minimum of cost less column.
        row = np.minimum.accumulate(np.concatenate(([number], upper)) - columns) + columns
    return int(row[-1])


def _includes(said: str, truth: str) -> bool:
    if not truth:
        return False
    number = bool(NUMBER.fullmatch(truth))
    before, after = (r"(?<![\w-])(?<![0-9][.,])", r"(?!\w)(?![.,][0-9])") if number else (r"(?<!\w)", r"(?!\w)")
    return re.search(before + re.escape(truth) + after, said) is not None
