"""The models that episode rewards may ask, as callables that are independent of the implementation."""

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
    """A mask of an image, packed into bits.

    Attributes:
        bits: Its pixels in row-major order, the first in the highest bit of the first byte.
        shape: Height and width.
    """

    bits: bytes
    shape: tuple[int, int]

    @classmethod
    def of(cls, mask: npt.NDArray[np.bool_]) -> PackedMask:
        """Packs a mask, bool[height, width]."""
        height, width = mask.shape
        return cls(bits=np.packbits(mask).tobytes(), shape=(height, width))

    def unpacked(self) -> npt.NDArray[np.bool_]:
        """Returns the mask as bool[height, width]."""
        height, width = self.shape
        bits = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=height * width)
        return bits.astype(np.bool_).reshape(height, width)


Mask = npt.NDArray[np.bool_]
Model = Literal["answer_judge", "consistency_judge", "masks", "likelihoods", "agentic_judge"]
"""A model that a reward may ask: a field of `JudgeModels`; "masks" also stands for `picture_masks`."""


ConsistencyJudge = Callable[[str, str, str, float], JudgeScore | Awaitable[JudgeScore]]
"""Maps question, reference, text, and temperature to the text's grade: 1, 0.7, 0.3, or 0; or unavailable.

May be `async`.
"""

MaskModel = Callable[[str, int | None, float | None], Mask | None]
"""Maps label, frame, and time to the object's mask [height, width] in the sample's image or one frame of its video.

The mask is all False if there is no such object, and None if the model does not know.
"""

MaskAnswer = Mask | Unavailable | None
AskedMaskModel = Callable[[str, int | None, float | None], MaskAnswer | Awaitable[MaskAnswer]]
"""A mask model that may be unavailable, and may be `async`."""

DescriptionModel = Callable[[Moment | Segment], bool | None]
"""Returns whether a description of a moment or segment of the sample's video is true; None if the model does not know.
"""

LikelihoodModel = Callable[[str, str, str], Sequence[float] | Awaitable[Sequence[float] | None] | None]
"""Maps question, reasoning, and answer to the natural log-probability of each token of the answer.

The question includes its options, one per line; the model is bound to the sample's image. None if unavailable. May be
`async`.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArgosModels:
    """The models of one sample; a model of None leaves its term out.

    Attributes:
        mask: For points; if it is unavailable, so is the reward.
        description: For moments and segments; given for videos only.
        likelihood: For reasoning.
        answer: For semantic answers.
    """

    mask: AskedMaskModel | None = None
    description: DescriptionModel | None = None
    likelihood: LikelihoodModel | None = None
    answer: AnswerJudge | None = None


Masks = Callable[[Trajectory], MaskModel | None]
"""Maps an episode to the mask model of its sample; None without one."""

Picture = npt.NDArray[np.uint8]
PictureMasks = Callable[[list[tuple[Picture, str]]], Sequence[PackedMask | Unavailable | None]]
"""Maps a batch of (image, label) pairs to masks of the labeled objects; None means the same as for `MaskModel`."""

Likelihoods = Callable[[list[tuple[Trajectory, str, str, str]]], Sequence[Sequence[float] | None]]
"""Maps a batch of (episode, question, reasoning, answer) tuples to the answers' log-probabilities."""


@dataclass(frozen=True, kw_only=True)
class JudgeModels:
    """The available models. A reward uses only those that its entry names.

    Attributes:
        answer_judge: Grades semantic answers, on the scale that the reward's entry names.
        consistency_judge: Grades one thought against another; by default without a model.
        masks: Finds the objects that points name in each sample; None for exact masks and `picture_masks`.
        picture_masks: Finds these objects in images that are not generated, which have no exact masks.
        likelihoods: Log-probabilities of answers given their reasoning; None leaves the term out.
        agentic_judge: Judges the last response, given the first images.
        questions: Shares questions that are asked repeatedly or ahead of scoring; None for no sharing.
    """

    answer_judge: AnswerJudge | None = None
    consistency_judge: ConsistencyJudge = word_consistency
    masks: Masks | None = None
    picture_masks: PictureMasks | None = None
    likelihoods: Likelihoods | None = None
    agentic_judge: AgenticJudge | None = None
    questions: QuestionCache | None = None

    async def once(self, key: Hashable, ask: Ask) -> Any:
        """Returns the result of `ask()`, shared within a batch by all callers with the same key."""
        return await (ask() if self.questions is None else self.questions.once(key, ask))
