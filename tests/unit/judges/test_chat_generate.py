"""A judge model behind an endpoint as what the agentic judge asks."""

import numpy as np
import pytest

pytest.importorskip("tenacity", reason="needs tenacity: pip install '.[judge]'")
pytest.importorskip("openai", reason="needs openai: pip install '.[judge]'")

from agents.api.conversation import Picture
from agents.api.failures import Unavailable
from agents.event_loop import run_blocking
from judges.agentic_judge import Utterance, chat_generate

PIXELS = np.zeros((4, 5, 3), np.uint8)


class Client:
    """Stands in for `ChatClient`: answers with what it is given."""

    def __init__(self, answer: str | Unavailable) -> None:
        self.answer, self.messages = answer, None

    async def ask(self, messages, read):
        self.messages = messages
        return self.answer if isinstance(self.answer, Unavailable) else read(self.answer)


def test_a_conversation_becomes_chat_messages():
    client = Client("<think>x</think><answer>True</answer>")
    said = (
        Utterance(role="user", text="Look.", images=(PIXELS,)),
        Utterance(role="assistant", text="I do."),
        Utterance(role="user", text="Well?"),
    )
    assert run_blocking(chat_generate(client)(said)) == "<think>x</think><answer>True</answer>"
    first, second, third = client.messages
    assert first.parts == (Picture.of(PIXELS), "Look.")
    assert [(message.role, message.text) for message in (second, third)] == [("assistant", "I do."), ("user", "Well?")]


def test_unavailable_is_no_reply():
    assert run_blocking(chat_generate(Client(Unavailable("HTTP 503")))(())) == Unavailable("HTTP 503")
