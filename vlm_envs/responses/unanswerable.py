"""Recognizes answers that say a document does not hold the answer."""

from __future__ import annotations

import re

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
    """Returns whether a text says that the document does not answer the question, and nothing else.

    Each of its clauses has to say so. A number or name after a comma, a colon, or "but" may be an answer, so a text
    with one is not read as such a sentence.

    Args:
        text: The answer, case-folded, with single spaces.
    """
    return _TURNS.search(text) is None and _says_so(text)


def _says_so(text: str) -> bool:
    """Returns whether a text is a saying, or can be cut once into two parts that are."""
    if _SAYING.fullmatch(text):
        return True
    cuts = _BETWEEN.finditer(text)
    return any(_SAYING.fullmatch(text[: cut.start()]) and _SAYING.fullmatch(text[cut.end() :]) for cut in cuts)
