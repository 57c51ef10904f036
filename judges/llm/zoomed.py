"""Models that Mags-RL evaluates with: one reads the answer out of a reply, one says how much must be magnified.

Source: Mags-RL, appendix A.2 (data extractor, complexity score). Prompts are ours and keep the scales' meaning. The
third one, which grades answers, is `judges.llm.graded.LLMAnswerJudge`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agents.api.client import ChatClient
from agents.api.conversation import with_images
from agents.api.failures import Unavailable, UnreadableReplyError
from judges.llm.templates import prompt_template
from judges.llm.verdict import answer_of

ZOOM_SCORES = tuple(range(1, 11))
"""How much may have to be magnified: nothing, to what cannot be told without."""


class LLMAnswerExtractor:
    """Reads the final answer out of a reply that has it in no form of its own.

    Args:
        client: The model that reads.
    """

    def __init__(self, client: ChatClient) -> None:
        self._client = client
        self._template = prompt_template("answer_extraction")

    def __call__(self, question: str, reply: str) -> str | None:
        """Returns the answer, `Refusal` where there is none; None if the model is unavailable.

        Args:
            question: What was asked, with its options.
            reply: The policy's; a blank one is a refusal without a question to the model.
        """
        if not reply.strip():
            return "Refusal"
        found = self._client.ask(self._template.fill(question=question, reply=reply), answer_of)
        return None if isinstance(found, Unavailable) else found


class LLMZoomJudge:
    """Says how much of a picture has to be magnified to answer a question about it.

    Args:
        client: A model that sees.
    """

    def __init__(self, client: ChatClient) -> None:
        self._client = client
        self._template = prompt_template("zoom_need")

    def __call__(self, question: str, images: Sequence[npt.NDArray[np.uint8]]) -> int | None:
        """Returns a whole number from 1 to 10; None if the model is unavailable.

        Args:
            question: What was asked.
            images: What it is about, as it was shown, each uint8 [height, width, 3].
        """
        messages = with_images(self._template.fill(question=question), images)
        found = self._client.ask(messages, _read_zoom_score)
        return None if isinstance(found, Unavailable) else found


def _read_zoom_score(reply: str) -> int:
    text = answer_of(reply)
    if text not in map(str, ZOOM_SCORES):
        raise UnreadableReplyError(f"expected a whole number from 1 to 10, got {text[:40]!r}")
    return int(text)
