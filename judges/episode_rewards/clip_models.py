"""Exact stand-ins for models on generated videos: what Argos asks models about, read off the clip's description.

    point, label, frame ── `videos.clip_masks` ──> mask
    moment, segment ── its frames ── `video_sentences.describes` ──> true, false or open

Choices:

- A frame's number goes before its time. Where both are given, a description with the time of another frame is false.
- An anchor that names no stretch of the clip is false: a frame that is not there, a range backwards. A point in such a
  frame hits nothing.
- A frame is shown until the next one is, so a segment may end when the clip does.
- A point without a frame or a time says nothing that could be checked, and is left out.
"""

from __future__ import annotations

import re

import numpy as np

from judges.episode_rewards.models import ArgosModels, DescriptionModel, LikelihoodModel, Mask, MaskModel
from judges.reading.answers import AnswerJudge
from judges.reading.grounding import Moment, Segment
from vlm_envs.content.scenes.video_sentences import describes
from vlm_envs.content.scenes.videos import FRAMES_PER_SECOND, Clip, clip_masks

_FRAME_S = 1 / FRAMES_PER_SECOND
_NOT_SAID = re.compile(r"</?points?\b[^<>]*>|\bonwards?\b", re.IGNORECASE)


def clip_models(
    clip: Clip, *, likelihood: LikelihoodModel | None = None, answer: AnswerJudge | None = None
) -> ArgosModels:
    """Returns the models of a question about a generated video, for `judges.episode_rewards.argos.argos_reward`.

    Args:
        clip: The video.
        likelihood: Of reasoning, bound to its pictures; None leaves the term out.
        answer: For semantic answers.
    """
    return ArgosModels(
        mask=clip_mask_model(clip), description=clip_descriptions(clip), likelihood=likelihood, answer=answer
    )


def clip_mask_model(clip: Clip) -> MaskModel:
    """Returns the exact masks of a clip's things and line, by label and frame.

    Args:
        clip: The video.

    Returns:
        A mask model whose masks are bool[height, width]: all False for what is not in the frame, and in a frame or at a
        time that the clip does not have; None for words that mean nothing to scenes, and without a frame or time.
    """
    masks = clip_masks(clip)
    nothing = np.zeros((clip.height, clip.width), np.bool_)

    def mask(label: str, frame: int | None, time_s: float | None) -> Mask | None:
        if frame is None and time_s is None:
            return None
        number = _frame(clip, frame, time_s)
        return nothing if number is None else masks(label, number, None)

    return mask


def clip_descriptions(clip: Clip) -> DescriptionModel:
    """Returns what tells whether descriptions of a clip's moments and segments are true.

    Args:
        clip: The video.

    Returns:
        A description model that says False for an anchor that names no stretch of the clip, and else None for sentences
        of no form that `vlm_envs.content.scenes.video_sentences` knows.
    """

    def is_true(anchor: Moment | Segment) -> bool | None:
        frames = _frames(clip, anchor)
        if frames is None:
            return False
        first, last = frames
        # A sentence may point at what it speaks of: the label stays, the tag goes. "onwards" is part of the anchor.
        said = _NOT_SAID.sub("", anchor.description)
        verdict = describes(clip, said, first, None if isinstance(anchor, Moment) else last)
        return verdict and _times_agree(clip, anchor, first, last)

    return is_true


def _frames(clip: Clip, anchor: Moment | Segment) -> tuple[int, int] | None:
    """Returns the first and last frame an anchor names; None when it names no stretch of the clip."""
    if isinstance(anchor, Moment):
        frame = _frame(clip, anchor.frame, anchor.time_s)
        return None if frame is None else (frame, frame)
    onwards = anchor.end_frame is None and anchor.end_s is None
    first = _frame(clip, anchor.start_frame, anchor.start_s)
    last = clip.num_frames if onwards else _frame(clip, anchor.end_frame, anchor.end_s, ends=True)
    return None if first is None or last is None or last < first else (first, last)


def _frame(clip: Clip, frame: int | None, time_s: float | None, *, ends: bool = False) -> int | None:
    """Returns the frame that a number, or else a time, means; None if the clip has none such."""
    if frame is not None:
        return frame if 1 <= frame <= clip.num_frames else None
    if time_s is None:
        return None
    duration_s = clip.num_frames * _FRAME_S
    is_last = clip.time_s(clip.num_frames) < time_s < duration_s or (ends and time_s == duration_s)
    return clip.num_frames if is_last else clip.nearest_frame(time_s)


def _times_agree(clip: Clip, anchor: Moment | Segment, first: int, last: int) -> bool:
    """Returns whether the times an anchor gives, if any, are those of its frames."""
    if isinstance(anchor, Moment):
        return anchor.time_s is None or abs(anchor.time_s - clip.time_s(first)) < _FRAME_S
    starts = anchor.start_s is None or abs(anchor.start_s - clip.time_s(first)) < _FRAME_S
    return starts and (anchor.end_s is None or -_FRAME_S < anchor.end_s - clip.time_s(last) <= _FRAME_S)
