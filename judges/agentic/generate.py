"""What a judge asks a model for: the next words of a conversation with pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from agents.api.failures import Unavailable

if TYPE_CHECKING:
    from agents.api.client import ChatClient

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """One side's turn.

    Attributes:
        role: `user` for the world, `assistant` for the model.
        text: What it says.
        images: Pictures that come before the text, each uint8 [height, width, 3].
    """

    role: Literal["user", "assistant"]
    text: str
    images: tuple[Pixels, ...] = ()


Generate = Callable[[Sequence[Utterance]], str | Unavailable]
"""Continues a conversation, which the world began and spoke in last. It is called from whatever thread judges."""


def chat_generate(client: ChatClient) -> Generate:
    """Returns what has a model behind an endpoint generate; its failures are `Unavailable`. Needs the extra `judge`."""
    from agents.api.conversation import Message, with_images

    def generate(utterances: Sequence[Utterance]) -> str | Unavailable:
        messages = [with_images([Message(role=each.role, parts=(each.text,))], each.images)[0] for each in utterances]
        return client.ask(messages, str)

    return generate
