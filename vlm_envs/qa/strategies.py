"""How a question may be looked into: what the prompt asks for, how a response is read, how an expert would do it.

The response formats are `vlm_envs.responses.formats.QA_FORMATS`; here is what belongs into them. Boxes and points
are written in one coordinate space per strategy: thousandths in calls of the zoom tool (`arm`), pixels of the picture
as shown in `<zoom>` and in grounded thoughts (`mags`, `ivgr_grounded`, `ivgr_views`), percents with two decimals in
`points`, where pixels of a scaled picture would be too coarse for the smallest things. A context's `coordinates` puts
thousandths or pixels in their place, except in calls of the zoom tool, whose boxes are thousandths as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vlm_envs.qa.context import QAContext
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.qa.state import Act, Answer, CallTool, QAState
from vlm_envs.qa.strategy import (
    Reader,
    Strategy,
    box_space,
    box_unit,
    facts_of,
    from_the_left,
    seen_in,
    write_box,
    written_evidence,
)
from vlm_envs.qa.zoom_strategies import ViewsStrategy, ZoomStrategy
from vlm_envs.tools.coordinates import Percents, Point, Space, SpaceT, convert_point
from vlm_envs.tools.registry import plain_call

POINT_EXAMPLE = '<points x1="12.34" y1="56.78" alt="what it is">what it is</points>'


@dataclass(frozen=True, kw_only=True)
class ToolStrategy(Strategy):
    """ARM-Thinker: a thought, then one call of a tool or the answer."""

    name: str = "arm"
    max_turns: int = 5
    has_tools: bool = True

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns the tools and how they are called."""
        return (
            "What matters may be too small to see, or on another page. Call tools to look before you answer.",
            'One call a turn: {"name": ..., "arguments": {...}} as JSON. Its result comes in <tool_response>.',
            f"Tools:\n{context.tools(None).prompt()}",
        )

    def readers(self) -> Mapping[str, Reader]:
        """Returns the reader of calls; what is wrong with a call, the tool's response says."""
        return {"tool_call": CallTool}

    def lenient_readers(self) -> Mapping[str, Reader]:
        """Returns a reader of calls in a code fence, and of calls whose arguments are JSON text."""
        return {"tool_call": read_call}

    def expert_calls(self, state: QAState, context: QAContext, max_calls: int) -> tuple[Act, ...]:
        """Returns the planned calls that were not made yet."""
        made = {call.text for call in state.calls}
        return tuple(CallTool(text) for text in context.planned_calls(state.sample, max_calls) if text not in made)

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns why a tool is called, or what was found."""
        if isinstance(action, Answer):
            return {"think": f"{facts_of(state.sample)} That settles the question."}
        again = "I have not seen everything yet." if state.calls else "This cannot be settled at a glance."
        return {"think": f"{again} A closer look at the place that matters will help."}


def read_call(text: str) -> CallTool:
    """Reads a call in a code fence, or with arguments as JSON text, as the call that it is."""
    return CallTool(plain_call(text))


@dataclass(frozen=True, kw_only=True)
class GroundedStrategy(Strategy):
    """iVGR's grounded stream: boxes of what matters stand in the thought."""

    name: str = "ivgr_grounded"

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns how boxes are written."""
        return (
            "Think about what you see. Behind everything that matters write its box [x1, y1, x2, y2], "
            f"{box_unit(context)}. Then answer.",
        )

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns pixels of the picture as shown, or thousandths."""
        return box_space(sample, context)

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns the facts, and everything that they rest on with its box, from the left."""
        boxes = dict(written_evidence(state.sample, self.space(state.sample, context)))
        listed = from_the_left(boxes)
        seen = " ".join(f"{evidence.label} {write_box(boxes[evidence])}." for evidence in listed)
        return {"think": f"{seen} {facts_of(state.sample)}".strip()}


@dataclass(frozen=True, kw_only=True)
class TextualStrategy(Strategy):
    """iVGR's textual stream: the same thought in words alone."""

    name: str = "ivgr_textual"

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns that places are said in words."""
        return ("Think about what you see and where it is, in words and without coordinates. Then answer.",)

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns that of `ivgr_grounded`: for the truth in `info`, nothing of it is written here."""
        return box_space(sample, context)

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns the grounded thought without its boxes."""
        return {"think": seen_in(state.sample)}


@dataclass(frozen=True, kw_only=True)
class PointsStrategy(Strategy):
    """Argos: everything that the thought mentions is pointed at."""

    name: str = "points"

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns how points are written."""
        return (
            f"Think about what you see, and point at every thing you mention: {POINT_EXAMPLE}, "
            f"{point_unit(context, 'picture')}, one pair a thing. Then answer.",
        )

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns percents, unless the context asks for thousandths or pixels."""
        return Percents() if context.coordinates is None else box_space(sample, context)

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns the facts, and a point on everything that they rest on."""
        sample = state.sample
        space = self.space(sample, context)
        seen = [point_tag(evidence, space) for evidence in sample.evidence if evidence.image == 0 and space is not None]
        return {"think": f"{' '.join(seen)} {facts_of(sample)}".strip()}


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy(),
        ToolStrategy(),
        ZoomStrategy(),
        GroundedStrategy(),
        TextualStrategy(),
        ViewsStrategy(),
        PointsStrategy(),
    )
}
"""Every strategy by name."""


def strategies(*names: str) -> dict[str, Strategy]:
    """Returns some of the strategies by name."""
    return {name: STRATEGIES[name] for name in names}


def point_unit(context: QAContext, thing: str) -> str:
    """Returns what points in a picture or a frame are written in, for prompts."""
    if context.coordinates == "pixels":
        return f"in pixels of the {thing} as shown"
    return f"in {context.coordinates or 'percents'} of the {thing}'s width and height"


def point_tag(evidence: Evidence, space: Space) -> str:
    """Returns a tag that points at a thing."""
    at = _middle(evidence, space)
    return f'<points x1="{at.x:.2f}" y1="{at.y:.2f}" alt="{evidence.label}">{evidence.label}</points>'


def point_in_percents(evidence: Evidence) -> Point[Percents]:
    """Returns where a thing is: the pixel that surely belongs to it, else its middle."""
    return _middle(evidence, Percents())


def _middle(evidence: Evidence, space: SpaceT) -> Point[SpaceT]:
    box = evidence.box
    pixel = evidence.point or Point((box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2, box.space)
    middle = Point(int(pixel.x) + 0.5, int(pixel.y) + 0.5, pixel.space) if evidence.point else pixel
    return convert_point(middle, space)
