"""A language model writes wrong responses beside a right one: material for those who judge responses.

Source: ARM-Thinker, section 3.2 and figure 8. The prompt is ours and keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agents.api.client import ChatClient
from agents.api.conversation import with_images
from agents.api.failures import Unavailable, UnreadableReplyError
from judges.llm.templates import prompt_template
from judges.llm.verdict import read_object


def write_wrong_responses(
    client: ChatClient, request: str, right: str, number: int, *, images: Sequence[npt.NDArray[np.uint8]] = ()
) -> tuple[str, ...] | Unavailable:
    """Returns responses to a request that are wrong, or why there are none.

    Args:
        client: The model.
        request: What is responded to.
        right: A right response.
        number: How many are asked for, at least 1.
        images: What the request is about, each uint8 [height, width, 3].

    Returns:
        At least that many texts; whether they are wrong and differ is for the caller to check.
    """

    def read(reply: str) -> tuple[str, ...]:
        wrong = read_object(reply).get("wrong")
        texts = [each.strip() for each in wrong if isinstance(each, str)] if isinstance(wrong, list) else []
        if len([each for each in texts if each]) < number:
            raise UnreadableReplyError(f'expected {{"wrong": [...]}} with {number} texts')
        return tuple(filter(None, texts))

    messages = prompt_template("wrong_responses").fill(request=request, right=right, number=number)
    return client.ask(with_images(messages, images), read)
