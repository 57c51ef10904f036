"""Language models as judges, behind any endpoint that speaks OpenAI's chat completions.

Needs the `judge` extra. `import judges` does not import this package.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judges.llm.client import ChatClient
    from judges.llm.config import EndpointConfig
    from judges.llm.ensemble import Ensemble
    from judges.llm.failures import Outage
    from judges.llm.graded import AnswerJudge, ConsistencyJudge
    from judges.llm.judge import DirectJudge, ExtractionJudge
    from judges.llm.pairwise import PairVerdict, PairwiseJudge
    from judges.llm.shaping import LLMJudges
    from judges.llm.usage import Usage

_HOMES = {
    "AnswerJudge": "graded",
    "ChatClient": "client",
    "ConsistencyJudge": "graded",
    "DirectJudge": "judge",
    "EndpointConfig": "config",
    "Ensemble": "ensemble",
    "ExtractionJudge": "judge",
    "LLMJudges": "shaping",
    "Outage": "failures",
    "PairVerdict": "pairwise",
    "PairwiseJudge": "pairwise",
    "Usage": "usage",
}
"""Which module each name is in; the client's own imports take seconds that a configuration need not wait for."""

__all__ = [
    "AnswerJudge",
    "ChatClient",
    "ConsistencyJudge",
    "DirectJudge",
    "EndpointConfig",
    "Ensemble",
    "ExtractionJudge",
    "LLMJudges",
    "Outage",
    "PairVerdict",
    "PairwiseJudge",
    "Usage",
]


def __getattr__(name: str) -> Any:
    """Imports what is asked for when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
