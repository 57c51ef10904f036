"""A checkpoint here in the place of a judge model behind an endpoint: asked the same, read the same."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from agents.agent import Response
from agents.api.client import second_request
from agents.api.conversation import Message, Picture
from agents.api.failures import Unavailable, UnreadableReplyError
from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent, setting_names
from training.rewards.pointing import Rows
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Observation

_MAX_NEW_TOKENS = 512
"""Longest reply, as of an endpoint."""

_Item = TypeVar("_Item")
_Verdict = TypeVar("_Verdict")


class CheckpointJudge:
    """What judges ask of a `ChatClient`, asked of an agent: the likeliest reply to one question after the other.

    Args:
        name: Of the agent, such as `"hf:DIR"`.
        device: Where its model runs.

    Raises:
        ConfigError: If there is no such agent.
        FileNotFoundError: If there is no checkpoint.
    """

    def __init__(self, name: str, *, device: str = "auto") -> None:
        offered = {"sampling": SamplingConfig(temperature=0.0, max_new_tokens=_MAX_NEW_TOKENS), "device": device}
        known = setting_names(name)
        self._name = name
        self._agent = make_agent(name, **{key: value for key, value in offered.items() if key in known})

    def ask(
        self,
        messages: Sequence[Message],
        read: Callable[[str], _Verdict],
        *,
        temperature: float | None = None,
        sample: int = 0,
    ) -> _Verdict | Unavailable:
        """Returns what the reply to one question says; one that cannot be read is asked for once more.

        Args:
            messages: The question: what the system says, if anything, and what the user asks.
            read: Makes a verdict of a reply, or raises `UnreadableReplyError`.
            temperature: Of no effect, and neither is `sample`: the reply is the likeliest.
            sample: See there.
        """
        observation, reason = observation_of(messages), ""
        rows: Any = Rows(1)
        self._agent.start(rows)
        for _ in range(2):
            try:
                (reply,) = self._agent.respond([0], [observation])
            except ConfigError as error:  # no room for the question
                return self._unavailable(str(error))
            if reply.stop_reason == "error":
                return self._unavailable(reply.error)
            try:
                return read(reply.text)
            except UnreadableReplyError as error:
                reason = str(error)
                observation = _once_more(reply, reason)
        return self._unavailable(f"unreadable twice: {reason}")

    def map(self, function: Callable[[_Item], _Verdict], items: Iterable[_Item]) -> list[_Verdict]:
        """Returns a function's results for many items, one after the other."""
        return [function(each) for each in items]

    def close(self) -> None:
        """Lets go of the agent."""
        getattr(self._agent, "close", lambda: None)()

    def _unavailable(self, reason: str) -> Unavailable:
        return Unavailable(f"judge {self._name}: {reason}")


def observation_of(messages: Sequence[Message]) -> Observation:
    """Returns a question as a world would show it: pictures, then text, behind what the system says."""
    parts = [part for each in messages if each.role != "system" for part in each.parts]
    observation: Observation = {
        "text": "\n".join(part for part in parts if isinstance(part, str)),
        "images": tuple(_pixels(part) for part in parts if isinstance(part, Picture)),
    }
    system = "\n".join(
        part for each in messages if each.role == "system" for part in each.parts if isinstance(part, str)
    )
    if system:
        observation["system"] = system
    return observation


def _once_more(reply: Response, reason: str) -> Observation:
    (_, asked_again) = second_request(reply.text, reason)
    return {"text": str(asked_again.parts[0]), "images": ()}


def _pixels(picture: Picture) -> Any:
    return np.asarray(Image.open(io.BytesIO(picture.png)).convert("RGB"))
