"""The base of all strategies: a thought and an answer, and what their experts have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from vlm_envs.qa.context import QAContext
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.qa.state import Act, QAState, Zoom
from vlm_envs.responses.formats import QA_FORMATS, ResponseFormat
from vlm_envs.tools.coordinates import Percents, Space, Thousandths, convert
from vlm_envs.tools.written_boxes import WrittenBox

Reader = Callable[[str], Act | None]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way of looking and answering; this one thinks and answers, and looks no closer.

    Attributes:
        name: Key of `QA_FORMATS`.
        max_turns: Turns there usually are.
        has_tools: Whether tools can be called.
        magnifies: Whether every region it is shown is enlarged, not only small ones.
        expected: What the agent is told when nothing could be carried out.
    """

    name: str = "direct"
    max_turns: int = 1
    has_tools: bool = False
    magnifies: bool = False
    expected: str = "an answer"

    @property
    def response_format(self) -> ResponseFormat:
        """The tags."""
        return QA_FORMATS[self.name]

    @property
    def looks_closer(self) -> bool:
        """Whether a tool can be called, or a zoom be asked for."""
        return self.has_tools or bool(self.readers())

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns what the prompt says of how to look."""
        return ("Think about what you see in the pictures, then answer.",)

    def readers(self) -> Mapping[str, Reader]:
        """Returns how sections other than `<answer>` are read, by section."""
        return {}

    def lenient_readers(self) -> Mapping[str, Reader]:
        """Returns how worlds with lenient reading read those sections; by default they read them as others do."""
        return {}

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns how boxes and points are written in thoughts; None where they are not."""
        return None

    def regions(self, boxes: tuple[WrittenBox, ...], space: Space) -> tuple[WrittenBox, ...]:
        """Returns the regions that are shown enlarged of those a zoom asks for, proper or not, in the same space."""
        return ()

    def reply(self, num_shown: int, num_asked: int, context: QAContext) -> str:
        """Returns what is said about a zoom."""
        return ""

    def write_zoom(self, action: Zoom) -> str:
        """Returns a zoom as it stands in a thought."""
        return " ".join(map(write_box, action.boxes))

    def expert_calls(self, state: QAState, context: QAContext, max_calls: int) -> tuple[Act, ...]:
        """Returns the looks that an expert still takes before it answers."""
        return ()

    def careless_calls(self, state: QAState, context: QAContext) -> tuple[Act, ...]:
        """Returns the looks without which a response would not be in the format, wherever they go."""
        return ()

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns what an expert thinks before an action, by section."""
        return {"think": f"{facts_of(state.sample)} That settles the question."}


def box_space(sample: Sample, context: QAContext) -> Space | None:
    """Returns pixels of the first picture as shown, or thousandths if the context says so; None without a picture."""
    shown = context.shown_pixels(sample)
    return Thousandths() if context.coordinates == "thousandths" and shown is not None else shown


def box_unit(context: QAContext) -> str:
    """Returns what boxes are written in, for prompts."""
    if context.coordinates == "thousandths":
        return "in thousandths of the picture's width and height"
    return "in pixels of the picture as shown"


def written_evidence(sample: Sample, space: Space | None) -> tuple[tuple[Evidence, WrittenBox], ...]:
    """Returns the first picture's evidence with its boxes in a space, in whole units or in percents; nothing for None.

    What has no box of its own, only a point, is left out.
    """
    if space is None:
        return ()
    converted = [(each, convert(each.box, space)) for each in sample.evidence if each.image == 0 and each.has_box]
    whole = not isinstance(space, Percents)
    rounded = [(each, box.outward_whole() if whole else box) for each, box in converted]
    return tuple((each, WrittenBox(box.x1, box.y1, box.x2, box.y2)) for each, box in rounded)


def write_box(box: WrittenBox) -> str:
    """Returns a box as it is written, `[x1, y1, x2, y2]`."""
    return f"[{', '.join(f'{side:g}' for side in box)}]"


def from_the_left(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Returns evidence in the order in which experts list it: from the left, of equals from the top."""
    return sorted(evidence, key=lambda each: (each.box.x1, each.box.y1))


def seen_in(sample: Sample) -> str:
    """Returns everything in the first picture that the answer rests on, from the left, and the facts, in words."""
    listed = from_the_left(sample.evidence)
    labels = " ".join(f"{evidence.label}." for evidence in listed if evidence.image == 0)
    return f"{labels} {facts_of(sample)}".strip()


def facts_of(sample: Sample) -> str:
    """Returns the facts that settle a question, or that nothing is left out where a sample tells none."""
    return sample.facts or "I have looked at everything that bears on it."
