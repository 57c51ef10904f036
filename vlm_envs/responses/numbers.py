r"""Numbers as models write them: in digits, in words, as fractions, and followed by a unit.

- Thousands separators, a currency sign before the number, and a percent sign after it are ignored: 45% and 45
  are the same number, 45% and 0.45 are not.
- "There are" before a number, and the same number in brackets after it (`3 (three)`), are ignored.
- Fractions in words (`two thirds`) and scales (`1.2 thousand`, `12M`, `$3bn`, `5 crore`) are read.
- A quantity may have a unit of up to `MAX_UNIT_WORDS` words (`3 chairs`, `1,234.5 kg`, `48°`, `45 percent`).
  Nothing checks that the unit fits the question. Words that change, deny, or compare a number are not units
  (`3 dozens`, `3 is wrong`, `3 less`, `1998 BC`). Two numbers (`3 chairs and 2 tables`), ranges, and ordinals
  are not quantities.
"""

from __future__ import annotations

import math
import re
import unicodedata

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
SMALL_NUMBERS = tuple(_SMALL.split())
"""Zero to nineteen."""

TYPOGRAPHY = str.maketrans("\u2010\u2011\u2012\u2212\u2018\u2019", "----''")
"""Maps hyphens, the minus sign, and apostrophes of typeset text to ASCII; NFKC leaves them unchanged."""

EMPHASIS = re.compile(r"(?<!\w)[*`_]+(?=\S)|(?<=\S)[*`_]+(?!\w)")
"""Bold, italics, and code around words within a text, such as `**3** chairs`."""
_LATEX_TEXT = re.compile(r"\\text\{([^{}]*)\}")

MAX_NUMBER_CHARS = 80
MAX_UNIT_WORDS = 3
"""Maximum number of words in a unit, such as `people per hour`."""

_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: n for n, word in enumerate(SMALL_NUMBERS)} | {word: 20 + 10 * n for n, word in enumerate(_TENS)}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000}
_LARGE_SCALES = _SCALES | {"lakh": 10**5, "million": 10**6, "crore": 10**7, "billion": 10**9, "trillion": 10**12}
_PART_NAMES = "half quarter third fourth fifth sixth seventh eighth ninth tenth"
_PARTS = dict(zip(_PART_NAMES.split(), (2, 4, 3, 4, 5, 6, 7, 8, 9, 10), strict=True))
_PARTS |= {"halves" if name == "half" else f"{name}s": n for name, n in _PARTS.items()}

_SCALE = f"(?:{'|'.join(_SCALES)})"
_TEN = rf"(?:{'|'.join(_TENS)})(?:[- ](?:{'|'.join(SMALL_NUMBERS[1:10])})\b)?"
_UNIT = rf"(?:{_TEN}|{'|'.join(sorted(SMALL_NUMBERS, key=len, reverse=True))}|\d{{1,6}})"
_IN_WORDS = re.compile(
    rf"(?<!\d[.,])\b(?:(?:a[- ]|{_UNIT}[- ]){_SCALE}\b"
    rf"(?:(?: and)?[- ]{_UNIT}[- ]{_SCALE}\b)*(?:(?: and)?[- ]{_UNIT}\b)?|{_TEN}\b)"
)
_COMMA = re.compile(r"(?<=\d),(?=\d{3}\b)")

NUMBER = re.compile(r"[-+]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)(?:e[-+]?[0-9]{1,4})?")
_SIGN_AND_CURRENCY = re.compile(r"(?P<sign>(?:minus |negative |[-+])?) ?(?:us ?)?[$€£¥]? ?")
_SMALL_WORD = re.compile(rf"(?:{'|'.join(sorted(SMALL_NUMBERS, key=len, reverse=True))})(?![\w-])")
_FRACTION = re.compile(r"(?:([0-9]{1,9}) )?([0-9]{1,9}) ?/ ?([0-9]{1,9})(?![0-9/.,])")
_FRACTION_IN_WORDS = re.compile(rf"(a|{'|'.join(SMALL_NUMBERS[1:10])})[- ]({'|'.join(_PARTS)})(?![\w-])")
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\{([0-9]{1,9})\}\{([0-9]{1,9})\}")
_DIGITS = re.compile(
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?![0-9.,]*[0-9])(?:e[-+]?[0-9]{1,4}(?![a-z0-9]))?"
)
_LARGE = re.compile(rf"[- ](?:{'|'.join(_LARGE_SCALES)})\b")
_ABBREVIATED = re.compile(
    r"(?P<currency>[$€£¥] ?)?(?P<digits>(?<![\w.,])\d[\d,.]*)"
    r"(?:(?P<scale>K|k)|(?P<spaced> ?(?:M|B|T|[Mm]ln|[Mm]n|[Bb]n|[Tt]n))|(?P<small>m|b))(?![\w/²³-])"
)
_ABBREVIATIONS = {"k": "thousand", "m": "million", "b": "billion", "t": "trillion"}
_ATTACHED = re.compile(
    r"%|°[cf]?|[$€£¥]|(?!(?:st|nd|rd|th|s|x|k)\b)[a-zµμ]{1,3}[23]?(?:/[a-z]{1,3})?(?![\w-])"
    r"|[個个只本张張人名件台辆輛匹头頭条條枚年元岁歳歲](?!\w)"
)
_UNIT_WORD = re.compile(r"%|°[cf]?|[$€£¥]|[^\W\d_]+(?:[./-][^\W\d_]+)*[23]?\.?")
_OTHER_WORDS = """
tens score scores couple hundredth hundredths thousandth thousandths millionth millionths
b bn bln k mil mill mio mn mln mrd tn trn squared cubed factorial
no not none never neither nor cannot without wrong false incorrect untrue invalid impossible unlikely negative positive
is are was were be been being has have had do does did can could will would should must might
seems seem looks look means equals makes think guess believe say says
more less fewer most least than over under above below higher lower greater smaller bigger larger
minus plus times x by up down about around almost nearly approximately roughly max maximum minimum
additional another extra too to as at between through until till versus vs
and or but if unless except instead rather though although however yet while because since so then that which who
maybe perhaps possibly probably bc bce ad ce
"""
_NO_UNIT = frozenset(
    (*_VALUES, *_PARTS, *_LARGE_SCALES, *(f"{scale}s" for scale in _LARGE_SCALES), *_OTHER_WORDS.split())
)
"""Words that change, deny, or compare a number, so that the number alone is not the quantity."""
_LEAD = re.compile(r"(?:there (?:is|are|was|were)|it is|it's|i (?:see|count)) (?=\S)")
_REPEATED = re.compile(r"(.+?) ?[(\[]([^()\[\]]+)[)\]]")
_SUPERSCRIPT = re.compile(r"(?<=\d)[⁰¹²³⁴-⁹₀-₉]")
_NOT_WHOLE = re.compile(r"\.\d|\d ?[/⁄] ?\d|[¼-¾⅐-⅞]|frac|\de[-+\d]")
_VULGAR = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")


def in_digits(text: str) -> str:
    """Returns a lower-case text with numbers above nineteen in digits: "one hundred and twenty" as "120".

    Small numbers stay words ("one" may be a pronoun); "1,200" becomes "1200", and "half a dozen" becomes "6".
    """
    text = _COMMA.sub("", text).replace("half a dozen", "6")
    return _IN_WORDS.sub(lambda match: str(_value(match.group())), text)


def read_number(text: str) -> float | None:
    """Returns the number that a text consists of, in digits, without currency and percent signs; None if not finite."""
    has_exponent = _SUPERSCRIPT.search(text[:MAX_NUMBER_CHARS])
    text = _plain(text).removesuffix("%").strip().lstrip("$€£¥").strip()
    if has_exponent or len(text) > MAX_NUMBER_CHARS or not NUMBER.fullmatch(text):
        return None
    value = float(text.replace(",", ""))
    return value if math.isfinite(value) else None


def read_quantity(text: str) -> float | None:
    """Returns the only number in a text, in digits or words, with or without a unit; None if there is none."""
    if len(text) > 2 * MAX_NUMBER_CHARS or _SUPERSCRIPT.search(text[:MAX_NUMBER_CHARS]):
        return None
    text = EMPHASIS.sub("", _LATEX_TEXT.sub(r"\1", text))
    plain = in_digits(_plain(_VULGAR.sub(" ", text[: MAX_NUMBER_CHARS + 1])).replace("\N{FRACTION SLASH}", "/"))
    if len(plain) > MAX_NUMBER_CHARS:
        return None
    plain = _LEAD.sub("", plain, count=1) if _LEAD.match(plain) else plain
    if repeated := _REPEATED.fullmatch(plain):
        numbers = [_stated(part) for part in repeated.groups()]
        return numbers[0] if numbers[0] == numbers[1] else None
    return _stated(plain)


def _stated(plain: str) -> float | None:
    """Returns the number in a lower-case text whose large numbers are in digits."""
    start = _SIGN_AND_CURRENCY.match(plain)
    assert start is not None, "the pattern matches nothing, too"
    read = _leading_number(plain[start.end() :])
    if read is None:
        return None
    value, rest = read
    if not _is_unit(rest) or not math.isfinite(value):
        return None
    return -value if start["sign"].startswith(("-", "minus", "negative")) else value


def is_whole(text: str) -> bool:
    """Returns whether a number is whole and written without decimal point, fraction, or exponent."""
    value = read_quantity(text)
    return value is not None and value.is_integer() and not _NOT_WHOLE.search(text.casefold())


def is_in_words(text: str) -> bool:
    """Returns whether a text consists only of number words, such as `forty-two`."""
    words = re.split(r"[- ]", _plain(text))
    return all(word in _VALUES or word in _LARGE_SCALES or word in ("a", "and") for word in words)


def _plain(text: str) -> str:
    text = " ".join(text[: MAX_NUMBER_CHARS + 1].split())
    text = unicodedata.normalize("NFKC", text.translate(TYPOGRAPHY))
    text = f"-{text[1:]}" if text.startswith("\N{EN DASH}") else text
    return _ABBREVIATED.sub(_spelled_out, text).casefold().rstrip(".,;:!?。 ")


def _spelled_out(match: re.Match[str]) -> str:
    """Returns a number with its scale as a word: `12M` as `12 million`. `12m` means meters unless it is money."""
    if match["small"] and not match["currency"]:
        return match.group()
    scale = (match["scale"] or match["spaced"] or match["small"]).strip()
    return f"{match['currency'] or ''}{match['digits']} {_ABBREVIATIONS[scale[0].lower()]}"


def _leading_number(text: str) -> tuple[float, str] | None:
    """Returns the number at the beginning of a text, including scales such as "million", and the rest."""
    if match := _FRACTION.match(text) or _LATEX_FRACTION.match(text):
        whole, over, under = ("0", *match.groups())[-3:]
        return (int(whole or 0) + int(over) / int(under), text[match.end() :]) if int(under) else None
    if match := _FRACTION_IN_WORDS.match(text):
        return ({"a": 1} | _VALUES)[match[1]] / _PARTS[match[2]], text[match.end() :]
    if match := _SMALL_WORD.match(text):
        value = float(_VALUES[match.group()])
    elif match := _DIGITS.match(text) or re.match(r"\.[0-9]+(?![0-9.,]*[0-9])", text):
        value = float(match.group().replace(",", ""))
    else:
        return None
    rest = text[match.end() :]
    while large := _LARGE.match(rest):
        # 2.3 * 10**6 is not 2,300,000 in binary.
        value, rest = round(value * _LARGE_SCALES[large.group()[1:]], 6), rest[large.end() :]
    return value, rest


def _is_unit(text: str) -> bool:
    """Returns whether only a unit follows the number."""
    if not text.startswith(" "):
        attached = _ATTACHED.match(text)
        if attached and attached.group() in _NO_UNIT:
            return False
        text = text[attached.end() :] if attached else text
        if text and not text.startswith(" "):
            return False
    words = text.split()
    return len(words) <= MAX_UNIT_WORDS and all(map(_is_unit_word, words))


def _is_unit_word(word: str) -> bool:
    if not _UNIT_WORD.fullmatch(word) or word.replace(".", "") in _NO_UNIT:
        return False
    return not any(part in _NO_UNIT for part in re.split(r"[/-]", word))


def _value(words: str) -> int:
    total = current = 0
    for word in re.findall(r"[a-z]+|\d+", words):
        if word == "thousand":
            total, current = total + max(1, current) * 1000, 0
        elif word in _SCALES:
            current = max(1, current) * _SCALES[word]
        elif word not in ("a", "and"):
            current += int(word) if word.isdecimal() else _VALUES[word]
    return total + current
