"""Recognizes answers that say a document does not hold the answer."""

from __future__ import annotations

import re

_SOURCE = (
    r"(?:(?:the|this|that) )?(?:(?:given|provided|available) )?"
    r"(?:document|report|paper|text|file|pdf|slide|page|content|context|passage|article|information|image)s?"
)
_DOES_NOT = r"(?:do(?:es)? not|doesn['’]?t|don['’]?t|did not|didn['’]?t)(?: explicitly)?"
_HOLD = (
    r"(?:say|state|contain|mention|provide|specify|include|give|list|show|answer|report|indicate|disclose|cover|discuss"
    r"|have|offer|address|tell)"
)
_GIVEN = (
    r"(?:answerable|answered|mentioned|stated|specified|given|provided|found|available|disclosed|included|listed"
    r"|reported|present|contained|shown|covered|discussed|in)"
)
_DATA = r"(?:such )?(?:answer|information|mention|data|details?)"
_SAYINGS = (
    rf"(?:in |from |according to |based on )?{_SOURCE},? (?:{_DOES_NOT} {_HOLD}|(?:has|contains?|provides?|gives?) no)",
    rf"(?:there (?:is|are|was) )?no {_DATA}(?: \w+){{0,8}} {_GIVEN}",
    rf"there (?:is|are|was) no {_DATA}",
    rf"(?:(?:it|this|that|(?:this|the) (?:question|answer|information))(?: \w+){{0,6}} )?(?:(?:is|are|was) )?"
    rf"(?:not {_GIVEN}|unanswerable|can(?: ?not|['’]t) be (?:answered|determined|found))",
)
_SAYING = re.compile(rf"(?:(?:sorry|unfortunately)[,.]? )?(?:{'|'.join(_SAYINGS)})\b.*", flags=re.DOTALL)
_TURNS = re.compile(r"\b(?:but|however|although|though|yet|so the answer|therefore)\b|[.;!?] \S")


def is_unanswerable(text: str) -> bool:
    """Returns whether one sentence says that the document does not answer the question.

    Args:
        text: The answer, case-folded, with single spaces. What comes after a "but" may be an answer, so that text is
            not read as such a sentence; neither are two sentences.
    """
    return _SAYING.fullmatch(text) is not None and _TURNS.search(text) is None
