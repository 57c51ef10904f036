"""Answer keys and the rules that compare answers with them.

Source: Argos, section 3.1, equations 6-8 (exact match, relative error); Mags-RL, appendix A.2 (refusals,
inclusion accuracy); MP-DocVQA (ANLS at 0.5, page accuracy); MMLongBench-Doc, `eval/eval_score.py` (lists).
Choices made where these are silent:

- Every rule reads an answer through `vlm_envs.responses.extraction.readings`: unchanged, within boxes, bold,
  code, quotation marks or brackets around it, and after a lead such as `Final answer:`. One correct reading
  is enough.
- Texts are compared after NFKC, case folding, replacement of typeset hyphens and apostrophes by ASCII ones,
  removal of invisible characters, collapse of white space, and removal of surrounding quotation marks and
  trailing punctuation. An empty answer is never correct.
- Whole numbers must be equal; a number written with a decimal point may be off by 5%, which is Argos' rule
  for floats, unless the key has its own tolerance. Numbers may be written in words and with a unit, see
  `vlm_envs.responses.numbers`. If either side is not a number, the texts are compared.
- A choice is a letter, a letter with a dot, colon or bracket, an option's whole text, or a letter and its own
  option's text in any combination ("The answer is B. blue", "B - blue", "B (blue)"). After a dot, colon, or
  bracket, an explanation may follow ("B. It is the blue one") unless it names another letter, a word or
  number of another option that its own option lacks, or a word of doubt or denial. Such an answer is not a
  choice.
- A verdict on responses is a number, or true or false, alone or in a sentence of the form papers ask for; see
  `read_verdict`.
- A list is a JSON or Python list of texts and numbers, or items separated by commas, semicolons, lines,
  "and", or "&". Its order does not matter. An "and" may also be part of an item. Numbers may be written in
  words and with a unit.
- If the truth is that a question is not answerable, any sentence to that effect is correct; see
  `is_unanswerable`.
- Inclusion compares whole words, so 4 is not found in 14 or in 4.5. Scripts without spaces have no word ends.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from vlm_envs.errors import ConfigError
from vlm_envs.responses.extraction import readings, unwrap
from vlm_envs.responses.numbers import EMPHASIS, NUMBER, TYPOGRAPHY, is_in_words, is_whole, read_number, read_quantity
from vlm_envs.validation import require_choice

AnswerKind = Literal["exact", "choice", "number", "semantic", "anls", "verdict", "list"]

MAX_ANSWER_CHARS = 4_000
"""Longer answers are wrong without being read, which bounds the time spent on them."""

MAX_ITEMS = 200
"""Maximum number of items in a list; longer lists are not accepted."""

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
_OTHER_LETTER = re.compile(r"(?<![\w'’])(?:([A-Z]|[b-hj-z])(?![\w'’])|a(?=[^\w\s'’]|\s*$)|(?<=[(\[])[ai](?=[)\]]))")
_ARTICLES = frozenset(("a", "an", "the"))
_DOUBT_WORDS = (
    "or nor not no none never neither both either all any other others another else instead rather but though although "
    "however except unless if than wait actually sorry wrong incorrect false untrue impossible cannot isn aren wasn "
    "don doesn can't isn't maybe perhaps possibly probably likely unlikely sure unsure uncertain unknown unclear guess "
    "could might may should also too"
)
_DOUBTS = frozenset(_DOUBT_WORDS.split())
"""Words after a letter that retract it, unless they belong to its option."""
_NO_MARKS = re.compile(r"(?!)")
_QUOTES = "\"'`“”‘’«»"
_ENDS = " .,;:!?。、"
_WHOLE = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+|[1-9][0-9]*|0")
_BETWEEN_ITEMS = re.compile(r"[;\n；、]|[,，](?!\d{3}(?!\d))")
_AND = re.compile(r"\band\s|\s&\s")
_LISTED = re.compile(
    r"""\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s,"'\[\]{}][^,"\[\]{}]*))\s*(?:,|$)""",
    flags=re.DOTALL,
)
_MAX_ANDS = 4
_MAX_CHARS_WITH_ANDS = 500
"""Maximum number of "and"s in a list, and maximum length, for which all combinations of cuts are tried."""
_BULLET = re.compile(r"^\s*(?:(?:[-*•]|\d{1,3}[.)]|and)\s+)?")
_EXACT_TEXT = re.compile(
    r"page.*|.*https?://.*|.*\.(?:py|ipynb)|.*[ap]\.m\..*|\d+(?:[-\s]\d+){0,2}|\+?[\d ()-]{7,20}"
    r"|[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}",
    flags=re.DOTALL,
)
_NOT_ANSWERABLE = ("not answerable", "unanswerable")


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerKey:
    """The correct answer to a question, and how answers are compared with it.

    Attributes:
        kind: How answers are compared.
        answers: Accepted answers, at least one. For a choice: the letters of the correct options. For a list:
            its items as a JSON list.
        options: The options' texts in order, A first; empty if unknown, or if the question is not a choice.
        question: Text of the question, for the judge.
        verdicts: The words a verdict is chosen from, in order; empty if unknown.
        tolerance: For a number: largest |ŷ - y| / |y| of a correct answer. For the kinds `anls` and `list`:
            normalized edit distance from which a text is wrong. 0 requires equality, also for the kind
            `exact`, which otherwise accepts whole numbers in words. If None, whole numbers must be equal,
            other numbers must satisfy Argos' equation 8, and texts use ANLS' threshold of 0.5.
    """

    kind: AnswerKind
    answers: tuple[str, ...]
    options: tuple[str, ...] = ()
    question: str = ""
    verdicts: tuple[str, ...] = ()
    tolerance: float | None = None

    def __post_init__(self) -> None:
        """Rejects keys that no answer could match."""
        require_choice("kind", self.kind, get_args(AnswerKind))
        if not self.answers or not all(normalise(answer) for answer in self.answers):
            raise ConfigError(f"answers must hold at least one answer and no empty one; got {self.answers!r}.")
        if len(self.options) > len(string.ascii_lowercase):
            raise ConfigError(f"options must have at most 26 entries, one per letter; got {len(self.options)}.")
        if self.kind == "choice":
            letters = self.letters
            if wrong := [answer for answer in self.answers if normalise(answer) not in letters]:
                raise ConfigError(f"answers of a choice must be letters of its options; got {wrong!r}.")
        if self.tolerance is not None and not 0 <= self.tolerance < 1:
            raise ConfigError(f"tolerance must be None or in [0, 1); got {self.tolerance!r}.")
        if self.kind == "list" and not all(map(_true_items, self.answers)):
            raise ConfigError(f"answers of kind 'list' must be lists of 1 to {MAX_ITEMS} items; got {self.answers!r}.")
        if self.kind == "verdict" and not all(map(stated_verdict, self.answers)):
            raise ConfigError(f"answers of a verdict must be a response's number, True or False; got {self.answers!r}.")

    @property
    def letters(self) -> str:
        """The letters that name an option, in lower case."""
        return string.ascii_lowercase[: len(self.options) or None]


def score_answer(answer: str | None, key: AnswerKey, *, relative_tolerance: float = RELATIVE_TOLERANCE) -> float:
    """Scores an answer by rules alone.

    Args:
        answer: The model's answer; None if it gave none.
        key: The correct answer and how to compare with it. For a semantic key, only the words of the correct
            answer itself score, since no rule recognizes a paraphrase; `judges.grading.match_answer` asks a
            judge.
        relative_tolerance: Largest `relative_error` of a correct number written with a decimal point, if the
            key has no tolerance; at least 0.

    Returns:
        1 or 0; for the kinds `anls` and `list` the similarity, in [0, 1].
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
    """Returns an answer as it is compared, without markup and leads; empty for no answer or one that is too long."""
    texts = _readings(answer)
    return normalise(texts[-1]) if texts else ""


def stated_verdict(answer: str | None) -> str | None:
    """Returns the verdict in an answer, such as `"1"` or `"true"`, ignoring markup around it; None if there is none."""
    found = (read_verdict(normalise(text)) for text in _readings(answer))
    return next((verdict for verdict in found if verdict is not None), None)


def stated_number(answer: str | None) -> float | None:
    """Returns the number in an answer, ignoring markup around it; None if there is none."""
    found = (read_quantity(text) for text in _readings(answer))
    return next((number for number in found if number is not None), None)


def normalise(text: str) -> str:
    """Returns a text in the form in which it is compared; empty if it is longer than `MAX_ANSWER_CHARS`."""
    if len(text) > MAX_ANSWER_CHARS:
        return ""
    plain = unicodedata.normalize("NFKC", text.translate(TYPOGRAPHY))
    visible = "".join(c for c in plain if unicodedata.category(c) != "Cf")
    return " ".join(visible.casefold().split()).strip(_QUOTES).rstrip(_ENDS).strip(_QUOTES + " ")


def relative_error(answer: float, truth: float) -> float:
    """Returns the distance of a number from the truth: |ŷ - y| / max(|y|, 1).

    Source: Argos, equation 7.
    """
    return abs(answer - truth) / max(abs(truth), 1.0)


def chosen_letter(answer: str, key: AnswerKey) -> str | None:
    """Returns the letter, in lower case, of the option that an answer (`B`, `(b)`, `B. Yes.`, `Option B`) names.

    None if it names no option or several, or contradicts itself.
    """
    for text in _readings(answer):
        # Emphasis within a text (`**B.** blue`) is removed last, since options may be code.
        for marks in (_NO_MARKS, EMPHASIS):
            options = [marks.sub("", option) for option in key.options]
            letter = _letter_of(marks.sub("", text), options, key.letters)
            if letter is not None:
                return letter or None
    return None


def _letter_of(text: str, options: Sequence[str], letters: str) -> str | None:
    """Returns the letter that a text names; empty if it contradicts itself, None if it names none."""
    said, texts = normalise(text), [normalise(option) for option in options]
    if match := _NAMED_LETTER.fullmatch(said):
        return match[1] if match[1] in letters else ""
    if texts.count(said) == 1 and not (len(said) == 1 and said in letters):
        return letters[texts.index(said)]
    explained = _LETTERED.fullmatch(said) or _WITH_BRACKETS.fullmatch(said)
    match = explained or _WITH_TEXT.fullmatch(said)
    if match is None or match[1] not in letters:
        return None
    letter, stated = match[1], match[2] or ""
    forms, index = _bare(stated), letters.index(letter)
    own = {letter, *texts[index : index + 1]}
    if not stated or forms & own:
        return letter
    if forms & {*texts, *letters} or _names_another(text, stated, options, index):
        return ""
    return letter if explained else None


def _names_another(text: str, stated: str, options: Sequence[str], index: int) -> bool:
    """Returns whether the text after a letter names another option or retracts the letter.

    Args:
        text: The whole answer as written, since a capital A is a letter and a lower-case one an article.
        stated: The text after the letter, normalized.
        options: Texts of the options; empty if unknown.
        index: Index of the letter.
    """
    own_text = options[index] if options else ""
    others = [option for number, option in enumerate(options) if number != index]
    own_words = _words(own_text)
    foreign = (_DOUBTS | {word for option in others for word in _words(option)}) - own_words - _ARTICLES
    if _words(stated) & foreign:
        return True
    own_numbers, numbers = _numbers([own_text]), _numbers(others)
    if _numbers([stated, *_words(stated)]) & numbers - own_numbers:
        return True
    letters = string.ascii_lowercase[: len(options) or None]
    written = unicodedata.normalize("NFKC", text)
    named = {match.group().casefold() for match in _OTHER_LETTER.finditer(written) if not _is_article(match, own_words)}
    return bool(named & set(letters) - own_words - {string.ascii_lowercase[index]})


def _is_article(match: re.Match[str], own_words: Collection[str]) -> bool:
    """Returns whether a capital letter begins a phrase of its own option, such as "A man", or is the pronoun "I"."""
    following = re.match(r" (\w+)", match.string[match.end() :])
    return following is not None and (
        match.group() == "I" or (match.group() == "A" and following[1].casefold() in own_words)
    )


def _numbers(texts: Collection[str]) -> set[float]:
    return {number for text in texts if (number := read_quantity(text)) is not None}


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+(?:['’]\w+)?", normalise(text)))


def _bare(text: str) -> set[str]:
    """Returns the forms of a text: unchanged, and without markup and articles."""
    texts = (text, EMPHASIS.sub("", text))
    forms = {normalise(form) for marked in texts for form in readings(marked, loosely=True)}
    return forms | {form.removeprefix(f"{article} ") for form in forms for article in _ARTICLES}


def anls(answer: str | None, truths: Collection[str], threshold: float = 0.5) -> float:
    """Returns the normalized Levenshtein similarity of an answer: the best over its readings and the accepted answers.

    Args:
        answer: The model's answer; None if it gave none.
        truths: Accepted answers.
        threshold: Normalized distance from which a pair scores 0, in [0, 1].

    Returns:
        1 - d / max(|a|, |t|) if that fraction is below the threshold, else 0. In [0, 1].

    Source: ANLS as in MP-DocVQA, with threshold 0.5; both sides in lower case, white space collapsed.
    """
    said = [" ".join(text.casefold().split()) for text in _readings(answer)]
    known = {" ".join(form.casefold().split()) for truth in truths for form in _forms(truth[:MAX_ANSWER_CHARS])}
    return max((_similarity(text, truth, threshold) for text in said for truth in known), default=0.0)


def page_accuracy(page: int | None, true_pages: Collection[int]) -> float:
    """Returns 1 if the page the model names, counted like the true ones, contains the answer, else 0."""
    return float(page is not None and not isinstance(page, bool) and page in true_pages)


def inclusion(answer: str | None, truths: Collection[str]) -> float:
    """Returns 1 if an accepted answer occurs in the model's answer as whole words, else 0; a refusal scores 0.

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
    """Returns a truth unchanged and without markup; underscores stay, as in `__init__`."""
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
    """Returns whether a text spells out in words the whole number that the truth gives in digits."""
    return _WHOLE.fullmatch(truth) is not None and is_in_words(text) and read_quantity(text) == read_quantity(truth)


def _lists_alike(text: str, truth: str, threshold: float) -> float:
    """Returns the minimum similarity of two sorted lists, item by item; numbers and exact texts must be equal.

    Source: MMLongBench-Doc, `eval/eval_score.py`. Choice: a list without brackets is split at commas.
    """
    true = sorted(map(normalise, _true_items(truth)))
    cuts = (sorted(map(normalise, items)) for items in read_items(text))
    return max((_items_alike(items, true, threshold) for items in cuts), default=0.0)


def _true_items(truth: str) -> list[str]:
    """Returns the items of a key's list; empty if it is in square brackets but not a list of texts and numbers."""
    items = _bracketed_items(truth) if truth.startswith("[") else next(iter(read_items(truth)), [])
    return items if len(items) <= MAX_ITEMS else []


def _items_alike(said: Sequence[str], true: Sequence[str], threshold: float) -> float:
    if said == true:
        return 1.0
    if len(said) != len(true):
        return 0.0
    true_numbers = [number for item in true if (number := read_number(item)) is not None]
    if len(true_numbers) == len(true):
        numbers = [number for item in said if (number := read_quantity(item)) is not None]
        return float(sorted(numbers) == sorted(true_numbers))
    if read_number(true[0]) is not None or is_exact_text(true[0]):
        return 0.0
    return min(_similarity(one, other, threshold) for one, other in zip(said, true, strict=True))


def read_items(text: str) -> list[list[str]]:
    """Returns the ways to split a text into the items of a list; empty for an empty or very long text."""
    if listed := _bracketed_items(text):
        return [listed] if len(listed) <= MAX_ITEMS else []
    pieces = [_AND.split(part) for part in _BETWEEN_ITEMS.split(text)]
    num_ands = sum(len(parts) - 1 for parts in pieces)
    is_short = num_ands <= _MAX_ANDS and len(text) <= _MAX_CHARS_WITH_ANDS
    kept = range(2**num_ands) if is_short else (0, 2**num_ands - 1)
    cuts = [_without_bullets(_cut(text, which)) for which in kept]
    return [items for items in cuts if 0 < len(items) <= MAX_ITEMS]


def _cut(text: str, kept: int) -> list[str]:
    """Returns the parts of a text, split at each "and" whose bit in `kept` is not set."""
    parts: list[str] = []
    number = 0
    for part in _BETWEEN_ITEMS.split(text):
        start = 0
        for match in _AND.finditer(part):
            if not kept >> number & 1:
                parts.append(part[start : match.start()])
                start = match.end()
            number += 1
        parts.append(part[start:])
    return parts


def _without_bullets(parts: Sequence[str]) -> list[str]:
    return [item for part in parts if (item := unwrap(_BULLET.sub("", part)))]


def _bracketed_items(text: str) -> list[str]:
    """Returns the items of a JSON or Python list of texts and numbers; empty if the text is not such a list."""
    if not (text.startswith("[") and text.endswith("]")):
        return []
    items: list[str] = []
    inside, start = text[1:-1].strip(), 0
    while start < len(inside):
        match = _LISTED.match(inside, start)
        if match is None:
            return []
        items.append(unwrap(_unescaped(match)))
        start = match.end()
    return items


def _unescaped(match: re.Match[str]) -> str:
    """Returns an item without its quotation marks and backslashes; unchanged if its backslashes are not escapes."""
    if match["bare"] is not None:
        return match["bare"].strip()
    quoted = match["double"] if match["single"] is None else match["single"].replace("\\'", "'").replace('"', '\\"')
    try:
        return str(json.loads(f'"{quoted}"', strict=False))
    except ValueError:
        return quoted


def is_exact_text(text: str) -> bool:
    """Returns whether a text has a form in which every character must match.

    Source: MMLongBench-Doc, `eval/eval_score.py`: texts that begin with "page", dates in digits, times with
        a.m. or p.m., URLs, names of `.py` and `.ipynb` files, telephone numbers, and email addresses. Dates
        in words ("May 6, 2024") and other files are not included.
    """
    return _EXACT_TEXT.fullmatch(normalise(text)) is not None


def _similarity(said: str, truth: str, threshold: float) -> float:
    longest = max(len(said), len(truth))
    # The distance is at least the difference in length, so most pairs need no table.
    if abs(len(said) - len(truth)) >= threshold * longest:
        return 0.0
    distance = edit_distance(said, truth) / longest
    return 1.0 - distance if distance < threshold else 0.0


def edit_distance(first: str, second: str) -> int:
    """Returns the minimum number of inserted, deleted, and replaced characters that turn one text into the other."""
    codes = np.array([ord(c) for c in second], dtype=np.int64)
    columns = np.arange(len(second) + 1)
    row = columns
    for number, character in enumerate(first, start=1):
        upper = np.minimum(row[1:] + 1, row[:-1] + (codes != ord(character)))
        # A run of insertions costs one per column: the running minimum of cost minus column.
        row = np.minimum.accumulate(np.concatenate(([number], upper)) - columns) + columns
    return int(row[-1])


def _includes(said: str, truth: str) -> bool:
    if not truth:
        return False
    number = bool(NUMBER.fullmatch(truth))
    before, after = (r"(?<![\w-])(?<![0-9][.,])", r"(?!\w)(?![.,][0-9])") if number else (r"(?<!\w)", r"(?!\w)")
    return re.search(before + re.escape(truth) + after, said) is not None


_DOCUMENT = (
    r"(?:document|report|paper|text|file|pdf|slide|page|content|context|passage|article|information|image|excerpt|table"
    r"|chart|figure|section|statement|source|data)s?"
)
_SOURCE = rf"(?:(?:any of )?(?:the|this|that|these|those|any) )?(?:(?:given|provided|available|supplied) )?{_DOCUMENT}"
_DOES_NOT = r"(?:do(?:es)? not|doesn['’]?t|don['’]?t|did not|didn['’]?t)(?: explicitly)?"
_HOLD = (
    r"(?:say|state|contain|mention|provide|specify|include|give|list|show|answer|report|indicate|disclose|cover|discuss"
    r"|have|offer|address|tell)"
)
_GIVEN = (
    r"(?:answerable|answered|mentioned|stated|specified|given|provided|found|available|disclosed|included|listed"
    r"|reported|present|contained|shown|covered|discussed)"
)
_DATA = (
    r"(?:such |relevant |specific |explicit )?(?:answer|information|mention|data|details?|record|indication|reference"
    r"|evidence)"
)
_WORD = r"[\w$€£%“”\"'‘’«»][\w$€£%“”\"'‘’«»./&-]*"
_TAIL = rf"(?: {_WORD}){{0,40}}"
_PLACE = (
    rf"(?: (?:anywhere|explicitly|directly|clearly|here))?"
    rf"(?: (?:in|on|by|from|within|with|using|given|through|based on|according to)(?: {_WORD}){{0,3}}? {_SOURCE}"
    rf"(?: (?:provided|given|available))?)?"
)
_ABOUT = rf"(?: (?:about|on|for|of|to|regarding|concerning|in|that|which|whether|how|available|provided|given){_TAIL})?"
_SAYINGS = (
    rf"(?:in )?{_SOURCE} {_DOES_NOT} {_HOLD}(?! [\d$€£.,%]+$){_TAIL}",
    rf"{_SOURCE} (?:has|have|contains?|provides?|gives?|offers?) no {_DATA}{_ABOUT}",
    rf"(?:there (?:is|are|was) )?no {_DATA}(?: \w+){{0,8}}? (?:(?:(?:is|are|was|were|has been) )?{_GIVEN}{_PLACE}"
    rf"|in {_SOURCE})",
    rf"there (?:is|are|was) no {_DATA}{_ABOUT}",
    rf"(?:(?:it|this|that|(?:(?:this|the) )?(?:question|answer|information))(?: \w+){{0,6}}? )?(?:(?:is|are|was) )?"
    rf"(?:not (?:explicitly |clearly )?{_GIVEN}|unanswerable|can(?: ?not|['’]t) be (?:answered|determined|found)"
    rf"|not in {_SOURCE}){_PLACE}",
)
_SAYING = re.compile(
    rf"(?:(?:sorry|unfortunately)[,.]? )?(?:(?:according to|based on|from|in) {_SOURCE}, )?(?:{'|'.join(_SAYINGS)})",
    flags=re.DOTALL,
)
_TURNS = re.compile(
    r"\b(?:but|however|although|though|yet|so the answer|only"
    r"|instead|rather|except|besides|less|fewer|more than|other than"
    r"|(?:it|this|which) (?:says|states|shows|gives))\b"
)
_BETWEEN = re.compile(
    r"(?:[,;.!]| because| since| as)(?<!sorry,)(?<!unfortunately,) (?:(?:and|so|hence|thus|therefore),? )?"
)


def is_unanswerable(text: str) -> bool:
    """Returns whether a text states only that the document does not answer the question.

    Each of its clauses has to state this. A number or name after a comma, a colon, or "but" may be an answer,
    so a text with one does not count.

    Args:
        text: The answer, case-folded, with single spaces.
    """
    return _TURNS.search(text) is None and _says_so(text)


def _says_so(text: str) -> bool:
    """Returns whether a text matches a saying, or can be split once into two parts that do."""
    if _SAYING.fullmatch(text):
        return True
    cuts = _BETWEEN.finditer(text)
    return any(_SAYING.fullmatch(text[: cut.start()]) and _SAYING.fullmatch(text[cut.end() :]) for cut in cuts)


_MARKDOWN = re.compile(r"[*`#>]|(?<![^\W_])_+|_+(?![^\W_])")
"""Emphasis, code, headings, and quotations; the underscore of `resp_1` does not match."""

_BRACKETS_AND_QUOTES = re.compile(r"[\[\](){}\"“”„«»‹›‘’]|(?<![^\W_])'|'(?![^\W_])")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!;])\s+|\n")

_LEAD = r"(?:(?:my |the )?(?:(?:overall|final) )?(?:judge?ment|verdict|decision|answer)(?: is)?\s*[:\-–—]?\s*)?"
_RESPONSE = r"(?:(?:the )?(?:answer|response|resp|option|candidate)[ _:]*)?"
_BETTER = (
    r"(?: is(?: the)?(?: slightly| clearly| much)? (?:better|best|right|correct|preferred)(?: one| answer| response)?)?"
)
_WHICH = re.compile(rf"{_LEAD}{_RESPONSE}(?P<verdict>[1-9]){_BETTER}")
_WHETHER = re.compile(rf"{_LEAD}(?P<verdict>true|false)")


def read_verdict(text: str) -> str | None:
    """Returns the number of a response, such as `"1"`, or `"true"` or `"false"`; None for no verdict, or several.

    Source: ARM-Thinker, figures 5 and 6: "Overall Judgment: True", "Overall Judgment: Answer 1 is better.";
        its released code also accepts a bare number, "preferred" and "slightly better". Case, white space,
        Markdown, and punctuation, including brackets and quotation marks (figure 5 has “True” in some), are
        ignored. Reading is strict: every sentence must be a verdict, and all must agree, so a text that names
        two responses, hedges, or explains itself is not a verdict.

    Args:
        text: Case-folded, with single spaces, as `vlm_envs.responses.answers.normalise` returns it.
    """
    plain = " ".join(_BRACKETS_AND_QUOTES.sub(" ", _MARKDOWN.sub("", text)).split(" "))
    sentences = (" ".join(part.split()).strip(" .,:;!?") for part in _BETWEEN_SENTENCES.split(plain))
    found = {_verdict(sentence) for sentence in sentences if sentence}
    return found.pop() if len(found) == 1 else None


def _verdict(sentence: str) -> str | None:
    match = _WHICH.fullmatch(sentence) or _WHETHER.fullmatch(sentence)
    return match["verdict"] if match else None
