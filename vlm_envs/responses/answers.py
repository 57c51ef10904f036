r"""What counts as the right answer: keys, and comparison by rule.

Source: Argos, section 3.1, equations 6-7 (exact match, relative error); Mags-RL, appendix A.2 (refusals, inclusion
accuracy); MP-DocVQA (ANLS at 0.5, page accuracy). Choices, where the papers are silent:

- Texts are compared after NFKC, case folding, removal of invisible characters, collapse of white space, and removal
  of quotation marks around and of punctuation after them. An empty answer is never right.
- Numbers are digits, with thousands commas, a currency sign before and a percent sign after them allowed and
  ignored: 45 % and 45 are the same answer, 45 % and 0.45 are not. Where one side is no number, texts are compared.
- A choice is a letter, a letter with a dot, colon or bracket, an option's whole text, or a letter and its own option's
  text however they are joined ("The answer is B. blue", "B - blue"). A letter that comes with the text of another
  option contradicts itself and is no choice. Asterisks for bold are left out.
- A verdict on responses is a number, or true or false, alone or in a sentence as papers ask for; see
  `vlm_envs.responses.verdicts`.
- Inclusion is by whole words, so that 4 is not found in 14 or in 4.5. Scripts without spaces have no word ends.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from vlm_envs.errors import ConfigError, require_choice
from vlm_envs.responses.verdicts import read_verdict

AnswerKind = Literal["exact", "choice", "number", "semantic", "anls", "verdict"]

MAX_ANSWER_CHARS = 4_000
"""Longer answers are wrong unread, which bounds the time spent on them."""

RELATIVE_TOLERANCE = 0.05
"""Argos, equation 8."""

_NUMBER = re.compile(r"[-+]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)(?:e[-+]?[0-9]{1,4})?")
_MAX_NUMBER_CHARS = 64
_LETTERED = re.compile(r"\(?([a-z])(?:[.):](?: (.*))?)?", flags=re.DOTALL)
_NAMED_LETTER = re.compile(r"(?:the )?(?:correct )?(?:answer|option|choice)(?: is)?:? \(?([a-z])\)?")
_WITH_TEXT = re.compile(
    r"(?:(?:the )?(?:correct |final )?(?:answer|option|choice)(?: is)?:? )?\(?([a-z])\)?(?: ?[.):,=–—-] ?| )(.+)",
    flags=re.DOTALL,
)
_QUOTES = "\"'`“”‘’«»"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerKey:
    """What the right answer is and how to compare with it.

    Attributes:
        kind: how answers are compared.
        answers: accepted answers, at least one. For a choice: the letters of the right options.
        options: the options' texts in order, A first; empty when unknown or no choice.
        question: for the judge.
        verdicts: of a verdict: the words that it is one of, in order; empty when unknown.
    """

    kind: AnswerKind
    answers: tuple[str, ...]
    options: tuple[str, ...] = ()
    question: str = ""
    verdicts: tuple[str, ...] = ()

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
        if self.kind == "verdict" and not all(read_verdict(normalise(answer)) for answer in self.answers):
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
        relative_tolerance: The largest `relative_error` of a right number, at least 0.

    Returns:
        1 or 0; for kind `anls` the similarity, in [0, 1].
    """
    if answer is None or (said := normalise(answer)) in ("", "refusal"):
        return 0.0
    if key.kind == "choice":
        letter = chosen_letter(answer, key)
        return float(letter is not None and letter in map(normalise, key.answers))
    if key.kind == "number":
        return float(any(_numbers_agree(answer, truth, relative_tolerance) for truth in key.answers))
    if key.kind == "anls":
        return anls(answer, key.answers)
    if key.kind == "verdict":
        verdict = read_verdict(said)
        return float(verdict is not None and verdict in (read_verdict(normalise(truth)) for truth in key.answers))
    return float(said in map(normalise, key.answers))


def normalise(text: str) -> str:
    """Returns a text as it is compared; empty when it is longer than `MAX_ANSWER_CHARS`."""
    if len(text) > MAX_ANSWER_CHARS:
        return ""
    visible = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    return " ".join(visible.casefold().split()).strip(_QUOTES).rstrip(" .,;:!?").strip(_QUOTES + " ")


def read_number(text: str) -> float | None:
    """Returns the number that a text is, currency and per cent signs around it ignored; None if none, or infinite."""
    text = " ".join(text[: _MAX_NUMBER_CHARS + 1].split())
    text = unicodedata.normalize("NFKC", text).casefold().replace("\N{MINUS SIGN}", "-")
    text = text.rstrip(".,;:!? ").removesuffix("%").strip().lstrip("$€£¥").strip()
    if len(text) > _MAX_NUMBER_CHARS or not _NUMBER.fullmatch(text):
        return None
    value = float(text.replace(",", ""))
    return value if math.isfinite(value) else None


def relative_error(answer: float, truth: float) -> float:
    """Returns the distance of a number from the truth: |ŷ - y| / max(|y|, 1).

    Source: Argos, equation 7.
    """
    return abs(answer - truth) / max(abs(truth), 1.0)


def chosen_letter(answer: str, key: AnswerKey) -> str | None:
    """Returns the letter, in lower case, of the option that an answer (`B`, `(b)`, `B. Yes.`, `Option B`) names.

    None where it names no option or several, or contradicts itself.
    """
    said = normalise(answer.replace("**", ""))
    texts = [normalise(option.replace("**", "")) for option in key.options]
    if match := _NAMED_LETTER.fullmatch(said):
        return match[1] if match[1] in key.letters else None
    if (match := _LETTERED.fullmatch(said)) and match[1] in key.letters:
        stated = normalise(match[2] or "")
        index = key.letters.index(match[1])
        return match[1] if not stated or stated not in texts or texts[index] == stated else None
    if texts.count(said) == 1:
        return key.letters[texts.index(said)]
    match = _WITH_TEXT.fullmatch(said)
    if match and match[1] in key.letters[: len(texts)] and normalise(match[2]) == texts[key.letters.index(match[1])]:
        return match[1]
    return None


def anls(answer: str | None, truths: Collection[str], threshold: float = 0.5) -> float:
    """Returns the normalised Levenshtein similarity of one answer, best over the accepted ones.

    Args:
        answer: the model's answer; None when it gave none.
        truths: accepted answers.
        threshold: normalised distance from which on a pair scores 0, in (0, 1].

    Returns:
        1 - d / max(|a|, |t|) where that fraction is below the threshold, else 0. In [0, 1].

    Source: ANLS as MP-DocVQA uses it, with threshold 0.5; both sides in lower case, white space collapsed.
    """
    if answer is None or len(answer) > MAX_ANSWER_CHARS:
        return 0.0
    said = " ".join(answer.casefold().split())
    known = [" ".join(truth[:MAX_ANSWER_CHARS].casefold().split()) for truth in truths]
    return max((_similarity(said, truth, threshold) for truth in known), default=0.0) if said else 0.0


def page_accuracy(page: int | None, true_pages: Collection[int]) -> float:
    """Returns 1 when the page that the model names, counted like the true ones, holds the answer, else 0."""
    return float(page is not None and not isinstance(page, bool) and page in true_pages)


def inclusion(answer: str | None, truths: Collection[str]) -> float:
    """Returns 1 when an accepted answer stands in the model's answer as whole words, else 0; a refusal is 0.

    Source: Mags-RL, appendix A.2 (inclusion accuracy). Choice: whole words, see the module.
    """
    said = normalise(answer or "")
    if said in ("", "refusal"):
        return 0.0
    return float(any(_includes(said, normalise(truth)) for truth in truths))


def _numbers_agree(answer: str, truth: str, tolerance: float) -> bool:
    said, true = read_number(answer), read_number(truth)
    if said is None or true is None:
        return normalise(answer) == normalise(truth)
    return relative_error(said, true) <= tolerance


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
    number = bool(_NUMBER.fullmatch(truth))
    before, after = (r"(?<![\w-])(?<![0-9][.,])", r"(?!\w)(?![.,][0-9])") if number else (r"(?<!\w)", r"(?!\w)")
    return re.search(before + re.escape(truth) + after, said) is not None
