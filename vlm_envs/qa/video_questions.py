"""Questions about videos: frames with their times, points that say in which frame they are, evidence of all frames."""

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
    """Frames scaled to a budget, each with its time; a sample without times shows pictures. No tools.

    Attributes:
        max_pixels: Budget of every frame as it is shown.
    """

    def introduction(self, sample: Sample) -> str:
        """Returns number and time of every frame, and their size."""
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
        """Returns nothing: all frames are shown at once."""
        return ()


@dataclass(frozen=True, kw_only=True)
class VideoPointsStrategy(PointsStrategy):
    """Argos on videos: what the thought mentions is pointed at in a frame, what happens is said with its times."""

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns how points, moments and stretches are written."""
        return (
            "Think about what you see and when. Point at every thing that you mention, and name the frame: In frame 2 "
            f"at 0.5 seconds I see the {POINT_EXAMPLE}, {point_unit(context, 'frame')}, one pair a thing. "
            "Say what is so in one frame: In frame 2 at 0.5 seconds "
            "..., and what happens over several: ... from 0.5 to 1.5 seconds. Then answer.",
        )

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns a point on everything that the answer rests on, each in its frame, and the facts."""
        sample = state.sample
        if not sample.times_s:
            return super().thoughts(state, context, action)
        space = self.space(sample, context)
        seen = [_pointed_at(sample, evidence, space) for evidence in sample.evidence if space is not None]
        return {"think": f"{' '.join(seen)} {facts_of(sample)}".strip()}


class VideoView(QAView):
    """What came with the last observation, and the truth about the question: evidence of every frame."""

    def image(self, state: QAState) -> Pixels:
        """Returns the frames in rows, each under its number and time."""
        sample = state.sample
        if not sample.times_s:
            return super().image(state)
        frames = [self.context.scaled(image) for image in sample.images]
        captions = [f"F{number}  {time(at)} s" for number, at in enumerate(sample.times_s, start=1)]
        return frame_sheet(frames, captions).pixels.copy()

    def structured(self, state: QAState) -> Mapping[str, Any]:
        """Returns what every question has; boxes say in which frame they are, and frames when they are shown."""
        told, sample = dict(super().structured(state)), state.sample
        if sample.times_s:
            told["evidence"] = written_frames(sample, self.strategy, self.context)
        return told | {"times_s": list(sample.times_s)}


def written_frames(sample: Sample, strategy: Strategy, context: QAContext) -> list[dict[str, Any]]:
    """Returns label, box in a strategy's space and frame, from 1, of a video's evidence; nothing without a space."""
    space = strategy.space(sample, context)
    if space is None:
        return []
    boxes = ((item, convert(item.box, space)) for item in sample.evidence if item.has_box)
    return [
        {"label": item.label, "box": [box.x1, box.y1, box.x2, box.y2], "frame": item.image + 1} for item, box in boxes
    ]


def time(time_s: float) -> str:
    """Returns a time as it is written: in tenths of a second where it has no more, else in hundredths."""
    tenths = f"{time_s:.1f}"
    return tenths if abs(float(tenths) - time_s) < 5e-3 else f"{time_s:.2f}"


def _pointed_at(sample: Sample, evidence: Evidence, space: Space) -> str:
    """Returns a sentence that points at a thing in its frame."""
    at = time(sample.times_s[evidence.image])
    return f"In frame {evidence.image + 1} at {at} seconds I see the {point_tag(evidence, space)}."
