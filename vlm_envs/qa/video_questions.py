"""Questions about videos: frames with times, points that name their frame, and evidence in all frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vlm_envs.qa.qa_context import Act, PictureContext, QAContext, QAState
from vlm_envs.qa.qa_world import Pixels, QAView
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.qa.strategies import POINT_EXAMPLE, PointsStrategy, Strategy, facts_of, point_tag, point_unit
from vlm_envs.tools.coordinates import Space, convert
from vlm_envs.tools.pictures import frame_sheet
from vlm_envs.tools.tool_registry import ToolRegistry


@dataclass(frozen=True, kw_only=True)
class VideoContext(PictureContext):
    """Frames scaled to a budget, with their times; images for a sample without times. There are no tools.

    Attributes:
        max_pixels: Pixel budget of every frame as shown.
    """

    def introduction(self, sample: Sample) -> str:
        """Returns the number and time of each frame, and their size."""
        if not sample.times_s:
            return super().introduction(sample)
        frames = ", ".join(f"F{number} at t = {time(at)} s" for number, at in enumerate(sample.times_s, start=1))
        return f"Frames of a video, in order: {frames}.\n{self._size(sample)}"

    def _size(self, sample: Sample) -> str:
        first = sample.images[0]
        return f"Each frame: {first.width} x {first.height} pixels{self.as_shown(first)}."

    def tools(self, sample: Sample | None) -> ToolRegistry:
        """Returns no tools."""
        return ToolRegistry(())

    def planned_calls(self, sample: Sample, max_calls: int) -> tuple[str, ...]:
        """Returns no calls, because all frames are shown at once."""
        return ()


@dataclass(frozen=True, kw_only=True)
class VideoPointsStrategy(PointsStrategy):
    """Argos on videos: thoughts point at things in a frame, and state events with their times."""

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns the rules for writing points, times, and intervals."""
        return (
            "Think about what you see and when. Point at every thing that you mention, and name the frame: In frame 2 "
            f"at 0.5 seconds I see the {POINT_EXAMPLE}, {point_unit(context, 'frame')}, one pair a thing. "
            "Say what is so in one frame: In frame 2 at 0.5 seconds "
            "..., and what happens over several: ... from 0.5 to 1.5 seconds. Then answer.",
        )

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns a point on each piece of evidence in its frame, and the facts."""
        sample = state.sample
        if not sample.times_s:
            return super().thoughts(state, context, action)
        space = self.space(sample, context)
        seen = [_pointed_at(sample, evidence, space) for evidence in sample.evidence if space is not None]
        return {"think": f"{' '.join(seen)} {facts_of(sample)}".strip()}


class VideoView(QAView):
    """Shows all frames, and provides the ground truth with evidence in every frame."""

    def image(self, state: QAState) -> Pixels:
        """Returns the frames in rows, each with its number and time."""
        sample = state.sample
        if not sample.times_s:
            return super().image(state)
        frames = [self.context.scaled(image) for image in sample.images]
        captions = [f"F{number}  {time(at)} s" for number, at in enumerate(sample.times_s, start=1)]
        return frame_sheet(frames, captions).pixels.copy()

    def structured(self, state: QAState) -> Mapping[str, Any]:
        """Returns the state of any question; boxes include their frame, and frames their time."""
        told, sample = dict(super().structured(state)), state.sample
        if sample.times_s:
            told["evidence"] = written_frames(sample, self.strategy, self.context)
        return told | {"times_s": list(sample.times_s)}


def written_frames(sample: Sample, strategy: Strategy, context: QAContext) -> list[dict[str, Any]]:
    """Returns label, box in a strategy's space, and frame number, from 1, of evidence; empty without a space."""
    space = strategy.space(sample, context)
    if space is None:
        return []
    boxes = ((item, convert(item.box, space)) for item in sample.evidence if item.has_box)
    return [
        {"label": item.label, "box": [box.x1, box.y1, box.x2, box.y2], "frame": item.image + 1} for item, box in boxes
    ]


def time(time_s: float) -> str:
    """Formats a time in tenths of a second if that is exact, else in hundredths."""
    tenths = f"{time_s:.1f}"
    return tenths if abs(float(tenths) - time_s) < 5e-3 else f"{time_s:.2f}"


def _pointed_at(sample: Sample, evidence: Evidence, space: Space) -> str:
    """Returns a sentence that points at a thing in its frame."""
    at = time(sample.times_s[evidence.image])
    return f"In frame {evidence.image + 1} at {at} seconds I see the {point_tag(evidence, space)}."
