"""Masks of what a label names, in any picture: Grounding DINO finds boxes, SAM fills them.

    label ── Grounding DINO ──> boxes ── SAM ──> masks ── union ──> bool[height, width]
      └── no box ── pointing model ──> points ──┘

Both models come from directories of the user's, as `save_pretrained` writes them and as they are published; nothing is
downloaded. Not run on trained weights here: the tests load and run both with small random ones.

Source: Argos, section 3.1, equation 1; Grounding DINO (Liu et al. 2023); Segment Anything (Kirillov et al. 2023).
Choices and deviations:

- Equation 1 has one box to a label. Here every box above the threshold counts, and the mask is the union: a label may
  name three kites, and a point on any of them is right. `max_boxes=1` is the letter of the equation.
- A box's score is that of its best token, as in Grounding DINO's own code. So "red mug" may find a blue one.
- The paper has a pointing model in place of the detector where a picture is synthetic, a chart or a map. Whether it is
  one, nobody says: here the pointing model is asked where the detector finds nothing. There may be none.
- No box above the threshold, and no point, is an empty mask, "no such object". None, "cannot tell", is only for labels
  without words or with more of them than the model takes, where nobody points.
- SAM is asked for one mask a box, as its authors advise for prompts that leave no doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from agents.hf.chat import showable
from agents.perception.detector import DetectionConfig, GroundingDino, Pixels
from agents.perception.segmenter import Mask, Sam
from vlm_envs.trajectory import require_image

_MAX_ASPECT_RATIO = 32
"""Both models scale the longer side to a fixed length; of a line of pixels nothing would be left."""


Pointer = Callable[[Pixels, str], Sequence[tuple[float, float]]]
"""From a picture and a label to where such things are, x and y in percents of its sides."""


class GroundingDinoSam:
    """Masks for pictures that nobody has exact masks of."""

    def __init__(self, detector: GroundingDino, segmenter: Sam, pointer: Pointer | None = None) -> None:
        self.detector, self.segmenter, self.pointer = detector, segmenter, pointer

    @classmethod
    def from_pretrained(
        cls,
        detector: str | Path,
        segmenter: str | Path,
        *,
        config: DetectionConfig | None = None,
        pointer: Pointer | None = None,
        device: str | torch.device = "cpu",
    ) -> GroundingDinoSam:
        """Returns detector and segmenter of two local directories.

        Args:
            detector: Of a Grounding DINO, such as the published `grounding-dino-tiny`.
            segmenter: Of a SAM, such as the published `sam-vit-base`.
            config: What counts as found.
            pointer: Who is asked where the detector finds nothing; None for nobody.
            device: Where both run.

        Raises:
            WeightsUnavailableError: If one of them has no weights, or other ones.
        """
        return cls(
            GroundingDino.from_pretrained(detector, config=config, device=device),
            Sam.from_pretrained(segmenter, device=device),
            pointer,
        )

    def mask(self, picture: Pixels, label: str) -> Mask | None:
        """Returns bool[height, width] of what a label names, all False for no such thing; None if it cannot tell."""
        seen = showable(require_image(picture), _MAX_ASPECT_RATIO)
        boxes = self.detector.boxes(seen, label)
        height, width = picture.shape[:2]
        if self.pointer is not None and (boxes is None or not len(boxes)):
            points = [(x * width / 100, y * height / 100) for x, y in self.pointer(picture, label)]
            return self.segmenter.mask_at(seen, torch.tensor(points).reshape(-1, 2))[:height, :width]
        return None if boxes is None else self.segmenter.mask(seen, boxes)[:height, :width]
