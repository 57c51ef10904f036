"""Exact stand-ins for models on generated images and clips, and masks of what models saw in others.

What Argos asks models about a generated video is read off the clip's description:

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
from collections.abc import Awaitable, Callable

import numpy as np

from agents.api.failures import Unavailable
from judges.episode_rewards.episode_reading import final_state, shown_images
from judges.episode_rewards.judge_models import (
    ArgosModels,
    AskedMaskModel,
    DescriptionModel,
    LikelihoodModel,
    Mask,
    MaskModel,
    PackedMask,
    Picture,
)
from judges.grading import AnswerJudge
from judges.grounding import Moment, Segment
from vlm_envs.content.scenes.clip_source import find_clip, is_clip
from vlm_envs.content.scenes.scene_labels import scene_masks
from vlm_envs.content.scenes.video_sentences import describes
from vlm_envs.content.scenes.videos import FRAMES_PER_SECOND, Clip, clip_masks
from vlm_envs.trajectory import Trajectory

_FRAME_S = 1 / FRAMES_PER_SECOND
_NOT_SAID = re.compile(r"</?points?\b[^<>]*>|\bonwards?\b", re.IGNORECASE)

Look = Callable[[Picture, str], Awaitable[PackedMask | Unavailable | None]]
"""Finds what a label names in one picture."""


def exact_masks(episode: Trajectory) -> MaskModel | None:
    """Returns the exact masks of a generated scene, or of the frames of a generated clip; None for other samples."""
    sample_id = _sample_id(episode)
    if is_clip(sample_id):
        return clip_mask_model(find_clip(sample_id))
    if not is_generated_sample(sample_id):
        return None
    masks = scene_masks(sample_id)
    return lambda label, frame, time_s: masks(label)


def exact_descriptions(episode: Trajectory) -> DescriptionModel | None:
    """Returns what tells whether descriptions of a generated clip are true; None for other samples."""
    sample_id = _sample_id(episode)
    return clip_descriptions(find_clip(sample_id)) if is_clip(sample_id) else None


def is_generated(episode: Trajectory) -> bool:
    """Returns whether everything that is in an episode's pictures is known."""
    return is_generated_sample(_sample_id(episode))


def is_generated_sample(sample_id: str) -> bool:
    """Returns whether everything that is in a sample's pictures is known."""
    return is_clip(sample_id) or sample_id.startswith("scene:")


def _sample_id(episode: Trajectory) -> str:
    return str(final_state(episode)["sample_id"])


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
        is_moment = isinstance(anchor, Moment)
        if isinstance(anchor, Moment):
            start = end = (anchor.frame, anchor.time_s)
        else:
            start, end = (anchor.start_frame, anchor.start_s), (anchor.end_frame, anchor.end_s)
        first = _frame(clip, *start)
        last = clip.num_frames if end == (None, None) else _frame(clip, *end, ends=not is_moment)
        if first is None or last is None or last < first:
            return False
        # A sentence may point at what it speaks of: the label stays, the tag goes. "onwards" is part of the anchor.
        verdict = describes(clip, _NOT_SAID.sub("", anchor.description), first, None if is_moment else last)
        starts = start[1] is None or abs(start[1] - clip.time_s(first)) < _FRAME_S
        # A frame is shown until the next one is, so a stretch may end then.
        ends = is_moment or end[1] is None or -_FRAME_S < end[1] - clip.time_s(last) <= _FRAME_S
        return verdict and starts and ends

    return is_true


def _frame(clip: Clip, frame: int | None, time_s: float | None, *, ends: bool = False) -> int | None:
    """Returns the frame that a number, or else a time, means; None if the clip has none such."""
    if frame is not None:
        return frame if 1 <= frame <= clip.num_frames else None
    if time_s is None:
        return None
    duration_s = clip.num_frames * _FRAME_S
    is_last = clip.time_s(clip.num_frames) < time_s < duration_s or (ends and time_s == duration_s)
    return clip.num_frames if is_last else clip.nearest_frame(time_s)


def seen_masks(look: Look, episode: Trajectory) -> AskedMaskModel | None:
    """Returns exact masks where there are any, else what a model sees in the picture or the named frame of a video.

    Of several pictures that are no frames nothing: a point does not say which of them it is in.
    """
    exact, state, images = exact_masks(episode), final_state(episode), shown_images(episode)
    if exact is not None:
        return exact
    if state.get("coordinates") == "pixels":  # which puts black margins around them
        width, height = state["shown_size"]
        images = tuple(image[:height, :width] for image in images)
    times_s = state.get("times_s") or ()
    is_video = bool(times_s) and len(times_s) == len(images)

    async def seen(label: str, frame: int | None, time_s: float | None) -> Mask | Unavailable | None:
        if is_video:
            if frame is None and time_s is None:
                return None
            if frame is None:
                frame = 1 + min(range(len(times_s)), key=lambda index: abs(times_s[index] - float(time_s or 0.0)))
        else:
            frame = 1
        if not 1 <= frame <= len(images):
            return np.zeros(images[0].shape[:2], np.bool_)
        answer = await look(images[frame - 1], label)
        return answer.unpacked() if isinstance(answer, PackedMask) else answer

    return seen if is_video or len(images) == 1 else None
