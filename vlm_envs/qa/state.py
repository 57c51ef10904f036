"""How far an episode about a question has come, and what an agent can do about it."""

from __future__ import annotations

from dataclasses import dataclass

from vlm_envs.qa.sample import Sample
from vlm_envs.tools.pictures import ImageRef
from vlm_envs.tools.stores import Memory
from vlm_envs.tools.written_boxes import WrittenBox


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRecord:
    """One tool call, as the environment that carried it out recorded it.

    Attributes:
        name: The tool's name as it was written; empty where the text was no call.
        succeeded: Whether the tool gave a result and not an error.
        text: The call as it was written.
    """

    name: str
    succeeded: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class CallTool:
    """Call a tool.

    Attributes:
        text: What stands between the tags; whether it is a call at all is the registry's to say.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Zoom:
    """Look at regions of the first picture again, enlarged.

    Attributes:
        boxes: The regions, in pixels of the picture as shown; proper or not.
    """

    boxes: tuple[WrittenBox, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the question, which ends the episode.

    Attributes:
        text: The answer.
    """

    text: str


Act = CallTool | Zoom | Answer


@dataclass(frozen=True, kw_only=True)
class QAState:
    """The state of a question-answering world.

    Attributes:
        sample: What is asked.
        memory: What tools can refer to.
        shown: Pictures that came with the last observation; an earlier one is not shown twice.
        reply: What tools said last; empty when nothing was called.
        calls: Every call so far, as it was carried out.
        boxes: Regions that were asked for, in pixels of the picture as shown.
        answer: The final answer; None while there is none.
        num_passed: Turns in which nothing could be carried out.
    """

    sample: Sample
    memory: Memory
    shown: tuple[ImageRef, ...] = ()
    reply: str = ""
    calls: tuple[CallRecord, ...] = ()
    boxes: tuple[WrittenBox, ...] = ()
    answer: str | None = None
    num_passed: int = 0
