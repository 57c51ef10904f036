"""Context of a question (images or a document, tools, coordinates), and the state of an episode."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from PIL import Image

from vlm_envs.qa.sample import Sample
from vlm_envs.tools.coordinates import (
    COORDINATES,
    Box,
    Coordinates,
    OriginalPixels,
    ShownPixels,
    Thousandths,
    WrittenBox,
    convert,
    padded_size,
    shown_space,
    unresized_space,
)
from vlm_envs.tools.pictures import ImageRef, Picture, padded, resized, within_budget
from vlm_envs.tools.tool_memory import ORIGINAL_IMAGE, ImageStore, Memory, TextStore
from vlm_envs.tools.tool_registry import ToolRegistry
from vlm_envs.tools.zoom import ZoomSettings, image_zoom_in_tool
from vlm_envs.validation import require_choice, require_positive

MIN_CONTEXT = 0.06
"""Minimum side of an expert's zoom, as a fraction of the image's side, so that the crop shows its surroundings."""


class QAContext(ABC):
    """Images, tools, and coordinates that a world gives to the agent.

    Attributes:
        max_pixels: Pixel budget of every image as shown.
        coordinates: Coordinates of boxes and points; None for the default of each response format.
    """

    max_pixels: int
    coordinates: Coordinates | None = None

    @abstractmethod
    def opening(self, sample: Sample) -> tuple[Memory, tuple[ImageRef, ...]]:
        """Returns the initial contents of the tools' memory, and the images that are shown."""

    @abstractmethod
    def introduction(self, sample: Sample) -> str:
        """Returns the first prompt's text about the images: their names and sizes."""

    @abstractmethod
    def tools(self, sample: Sample | None) -> ToolRegistry:
        """Returns the tools; without a sample, those for describing in a prompt."""

    @abstractmethod
    def planned_calls(self, sample: Sample, max_calls: int) -> tuple[str, ...]:
        """Returns the text of the calls that an expert makes before it answers."""

    def shown_pixels(self, sample: Sample) -> ShownPixels | None:
        """Returns the size of the first image as shown; None without one."""
        return None

    def shown(self, image: ImageRef, sample: Sample) -> Picture:
        """Returns an image of a sample or a tool, as the model sees it."""
        return self.scaled(image)

    def scaled(self, image: ImageRef) -> Picture:
        """Returns an image scaled to the budget, as people see it; cached for the group."""
        return _within_budget(image, self.max_pixels)


@lru_cache(maxsize=8)
def _within_budget(image: ImageRef, max_pixels: int) -> Picture:
    return within_budget(image.picture(), max_pixels)


@lru_cache(maxsize=8)
def _unresized(image: ImageRef, max_pixels: int) -> Picture:
    space = unresized_space(OriginalPixels(image.width, image.height), max_pixels)
    picture = resized(image.picture(), space.width, space.height, Image.Resampling.LANCZOS)
    return padded(picture, *padded_size(space.width, space.height))


@dataclass(frozen=True, kw_only=True)
class PictureContext(QAContext):
    """Images scaled to a budget, and a tool that crops regions from the originals.

    With `coordinates="pixels"`, the sample's images are shown in the top left corner of black images whose
    size no supported image processor changes.

    Attributes:
        max_pixels: Pixel budget of every image as shown.
        coordinates: Coordinates of boxes and points; None for the default of each response format.
        zoom: Settings for cropping regions.
    """

    max_pixels: int = 1_048_576
    coordinates: Coordinates | None = None
    zoom: ZoomSettings = field(default_factory=ZoomSettings)

    def __post_init__(self) -> None:
        require_positive("max_pixels", self.max_pixels)
        if self.coordinates is not None:
            require_choice("coordinates", self.coordinates, COORDINATES)
        self.shown_size(1, 1)  # rejects a budget that is too small

    def shown_size(self, width: int, height: int) -> ShownPixels:
        """Returns the size at which an image is shown, without padding."""
        original = OriginalPixels(width, height)
        find = unresized_space if self.coordinates == "pixels" else shown_space
        return find(original, self.max_pixels)

    def shown(self, image: ImageRef, sample: Sample) -> Picture:
        """Returns an image as the model sees it; crops are not padded, because no coordinates refer to them."""
        if self.coordinates == "pixels" and image in sample.images:
            return _unresized(image, self.max_pixels)
        return super().shown(image, sample)

    def as_shown(self, image: ImageRef) -> str:
        """Returns the prompt's text about how an image is shown; empty if it is shown unchanged."""
        shown = self.shown_size(image.width, image.height)
        size, whole = (shown.width, shown.height), padded_size(shown.width, shown.height)
        if self.coordinates == "pixels" and whole != size:
            return f", shown at {size[0]} x {size[1]}, in the top left corner of {whole[0]} x {whole[1]}"
        return f", shown at {size[0]} x {size[1]}" if size != (image.width, image.height) else ""

    def opening(self, sample: Sample) -> tuple[Memory, tuple[ImageRef, ...]]:
        """Returns a memory with all images under their names, and shows all of them."""
        return memory_of(sample, dict(zip(image_names(sample), sample.images, strict=True))), sample.images

    def introduction(self, sample: Sample) -> str:
        """Returns the name, size, and shown size of every image."""
        lines = []
        for name, image in zip(image_names(sample), sample.images, strict=True):
            lines.append(f"Picture {name}: {image.width} x {image.height} pixels{self.as_shown(image)}.")
        return "\n".join(lines)

    def tools(self, sample: Sample | None) -> ToolRegistry:
        """Returns the zoom tool."""
        return ToolRegistry((image_zoom_in_tool(self.zoom),))

    def planned_calls(self, sample: Sample, max_calls: int) -> tuple[str, ...]:
        """Returns a zoom into every group of evidence, or into all quarters of the image if there is none."""
        names = image_names(sample)
        if not sample.evidence and names:
            first = sample.images[0]
            quarters = _quarters(OriginalPixels(first.width, first.height))
            return tuple(zoom_call(names[0], quarter) for quarter in quarters)[:max_calls]
        calls = []
        for number, name in enumerate(names):
            boxes = [evidence.box for evidence in sample.evidence if evidence.image == number]
            calls += [zoom_call(name, region) for region in regions(boxes, max_calls)]
        return tuple(dict.fromkeys(calls))[:max_calls]

    def shown_pixels(self, sample: Sample) -> ShownPixels | None:
        """Returns the size of the first image as shown."""
        if not sample.images:
            return None
        return self.shown_size(sample.images[0].width, sample.images[0].height)


def memory_of(sample: Sample, named: Mapping[str, ImageRef]) -> Memory:
    """Returns a memory with named images and the texts of a sample."""
    images, texts = ImageStore(), TextStore()
    for name, image in named.items():
        images = images.with_image(name, image)
    for name, text in sample.texts:
        texts = texts.with_text(name, text)
    return Memory(images, texts)


def image_names(sample: Sample) -> tuple[str, ...]:
    """Returns the names of a sample's images: `original_image`, `image_2`, and so on."""
    return tuple(f"image_{number + 1}" if number else ORIGINAL_IMAGE for number in range(len(sample.images)))


def regions(boxes: Sequence[Box[OriginalPixels]], max_regions: int) -> tuple[Box[OriginalPixels], ...]:
    """Returns up to `max_regions` regions that contain all boxes; neighbors, from left to right, share a region.

    Args:
        boxes: Boxes in one image.
        max_regions: Maximum number of regions, at least 1.

    Returns:
        Regions with some of their surroundings, inside the image.
    """
    ordered = sorted(boxes, key=lambda box: (box.x1 + box.x2, box.y1 + box.y2))
    count = min(max_regions, len(ordered))
    groups = [ordered[len(ordered) * i // count : len(ordered) * (i + 1) // count] for i in range(count)]
    return tuple(_with_context(_hull(group)) for group in groups)


def _quarters(space: OriginalPixels) -> tuple[Box[OriginalPixels], ...]:
    """Returns the four quarters of an image."""
    x, y = space.width / 2, space.height / 2
    return tuple(Box(left, top, left + x, top + y, space) for top in (0.0, y) for left in (0.0, x))


def _hull(boxes: Sequence[Box[OriginalPixels]]) -> Box[OriginalPixels]:
    """Returns the smallest box around several boxes."""
    return Box(
        min(box.x1 for box in boxes),
        min(box.y1 for box in boxes),
        max(box.x2 for box in boxes),
        max(box.y2 for box in boxes),
        boxes[0].space,
    )


def _with_context(box: Box[OriginalPixels]) -> Box[OriginalPixels]:
    """Returns a box enlarged about its center to twice its sides, or to the minimum context, inside the image."""
    (x1, x2), (y1, y2) = (
        _grown(start, stop, size)
        for start, stop, size in ((box.x1, box.x2, box.space.width), (box.y1, box.y2, box.space.height))
    )
    return Box(x1, y1, x2, y2, box.space)


def _grown(start: float, stop: float, size: float) -> tuple[float, float]:
    """Returns an interval enlarged about its center and shifted into [0, size]."""
    length = min(size, max(2 * (stop - start), MIN_CONTEXT * size))
    first = min(max((start + stop - length) / 2, 0.0), size - length)
    return first, first + length


def zoom_call(name: str, box: Box[OriginalPixels]) -> str:
    """Returns the text of a zoom call on a region, in the thousandths that the tool expects."""
    written = convert(box, Thousandths()).outward_whole()
    bbox = [int(side) for side in (written.x1, written.y1, written.x2, written.y2)]
    return written_call("image_zoom_in_tool", image=name, bbox_2d=bbox)


def written_call(tool: str, **arguments: object) -> str:
    """Returns the text of a tool call."""
    return json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRecord:
    """One tool call, as the environment executed it.

    Attributes:
        name: Name of the tool in the call; empty if the text was not a call.
        succeeded: Whether the tool returned a result rather than an error.
        text: The text of the call.
    """

    name: str
    succeeded: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class CallTool:
    """Call a tool.

    Attributes:
        text: The text between the tags, which may not be a valid call; the tool registry validates it.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Zoom:
    """Look at regions of the first image again, enlarged.

    Attributes:
        boxes: The regions, in pixels of the image as shown; they may be invalid.
    """

    boxes: tuple[WrittenBox, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the question and end the episode.

    Attributes:
        text: The answer.
    """

    text: str


Act = CallTool | Zoom | Answer


@dataclass(frozen=True, kw_only=True)
class QAState:
    """The state of a question-answering world.

    Attributes:
        sample: The question.
        memory: The images and texts that tools can refer to.
        shown: Images that came with the last observation; earlier ones are not repeated.
        reply: Last reply of a tool; empty if none was called.
        calls: All calls so far.
        boxes: Requested regions, in pixels of the image as shown.
        answer: The final answer; None until it is given.
        num_passed: Number of turns in which no action could be executed.
    """

    sample: Sample
    memory: Memory
    shown: tuple[ImageRef, ...] = ()
    reply: str = ""
    calls: tuple[CallRecord, ...] = ()
    boxes: tuple[WrittenBox, ...] = ()
    answer: str | None = None
    num_passed: int = 0
