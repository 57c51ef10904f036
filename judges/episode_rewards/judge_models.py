"""The models that episode rewards may ask, each as a callable, whatever implements it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from agents.api.failures import Unavailable
from judges.asking import Ask, QuestionCache
from judges.grading import AnswerJudge
from judges.grounding import Moment, Segment
from judges.scores import JudgeScore
from judges.word_consistency import word_consistency
from vlm_envs.trajectory import Trajectory

if TYPE_CHECKING:
    from judges.agentic_judge import AgenticJudge


@dataclass(frozen=True, kw_only=True)
class PackedMask:
    """A mask of a picture.

    Attributes:
        bits: Its pixels row by row, the first in the highest bit of the first byte.
        shape: Height and width.
    """

    bits: bytes
    shape: tuple[int, int]

    @classmethod
    def of(cls, mask: npt.NDArray[np.bool_]) -> PackedMask:
        """Returns a mask, bool[height, width], packed."""
        height, width = mask.shape
        return cls(bits=np.packbits(mask).tobytes(), shape=(height, width))

    def unpacked(self) -> npt.NDArray[np.bool_]:
        """Returns bool[height, width]."""
        height, width = self.shape
        bits = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=height * width)
        return bits.astype(np.bool_).reshape(height, width)


Mask = npt.NDArray[np.bool_]
Model = Literal["answer_judge", "consistency_judge", "masks", "likelihoods", "agentic_judge"]
"""A model that a reward may ask: a field of `JudgeModels`; "masks" is `picture_masks`, too."""


ConsistencyJudge = Callable[[str, str, str, float], JudgeScore | Awaitable[JudgeScore]]
"""From question, reference, text, and temperature to the text's grade: 1, 0.7, 0.3 or 0; or unavailable.

May be `async`.
"""

MaskModel = Callable[[str, int | None, float | None], Mask | None]
"""From label, frame, and time to the object's mask [height, width] in the sample's image or one frame of its video.

It is all False where there is no such object, and None where the model cannot tell.
"""

MaskAnswer = Mask | Unavailable | None
AskedMaskModel = Callable[[str, int | None, float | None], MaskAnswer | Awaitable[MaskAnswer]]
"""A mask model that may be unavailable, and may be `async`."""

DescriptionModel = Callable[[Moment | Segment], bool | None]
"""Whether a description is true of a frame or a stretch of the sample's video; None where the model cannot tell."""

LikelihoodModel = Callable[[str, str, str], Sequence[float] | Awaitable[Sequence[float] | None] | None]
"""From question, reasoning, and answer to the natural log-probability of each token of the answer.

The question comes with its options, one per line, and the sample's image is known. None where unavailable. May be
`async`.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArgosModels:
    """The models of one sample; one that is None leaves its term out.

    Attributes:
        mask: For points; without an answer of its there is no reward.
        description: For moments and segments; given for videos only.
        likelihood: For reasoning.
        answer: For semantic answers.
    """

    mask: AskedMaskModel | None = None
    description: DescriptionModel | None = None
    likelihood: LikelihoodModel | None = None
    answer: AnswerJudge | None = None


Masks = Callable[[Trajectory], MaskModel | None]
"""From an episode to the mask model of its sample; None where nobody can tell."""

Picture = npt.NDArray[np.uint8]
PictureMasks = Callable[[list[tuple[Picture, str]]], Sequence[PackedMask | Unavailable | None]]
"""From pictures, each with a label, to masks of what they name, all at once; None as of `MaskModel`."""

Likelihoods = Callable[[list[tuple[Trajectory, str, str, str]]], Sequence[Sequence[float] | None]]
"""From episodes, each with a question, a reasoning and an answer, to the answers' log-probabilities, all at once."""


@dataclass(frozen=True, kw_only=True)
class JudgeModels:
    """What there is to ask. A reward takes those that its entry names and leaves the others alone.

    Attributes:
        answer_judge: For semantic answers; grades on the scale that the reward's entry names.
        consistency_judge: Grades one thought against another; by words unless a model does.
        masks: Finds what points name in each sample; None for exact masks and `picture_masks`.
        picture_masks: Finds it in pictures that are not generated, where nothing is known exactly.
        likelihoods: Of answers after their reasoning; None leaves that out.
        agentic_judge: Looks at the first pictures and judges the last response.
        questions: Shares questions that are asked more than once, or ahead of scoring; None if nothing does.
    """

    answer_judge: AnswerJudge | None = None
    consistency_judge: ConsistencyJudge = word_consistency
    masks: Masks | None = None
    picture_masks: PictureMasks | None = None
    likelihoods: Likelihoods | None = None
    agentic_judge: AgenticJudge | None = None
    questions: QuestionCache | None = None

    async def once(self, key: Hashable, ask: Ask) -> Any:
        """Returns the result of `ask()`, shared within a batch by all that have the same key."""
        return await (ask() if self.questions is None else self.questions.once(key, ask))
