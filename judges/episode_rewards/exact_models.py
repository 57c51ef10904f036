"""Exact substitutes for models on generated images and clips, and model-predicted masks for other images.

Argos's questions about a generated video are answered from the clip's description:

    point, label, frame ── `videos.clip_masks` ──> mask
    moment, segment ── its frames ── `video_sentences.describes` ──> true, false or open

Choices:

- A frame's number takes precedence over its time. If both are given, a description with the time of another frame is
  false.
- An anchor outside the clip, such as a missing frame or a reversed range, is false. A point in such a frame misses.
- A frame lasts until the next one, so a segment may end with the clip.
- A point without a frame or a time cannot be checked and is left out.
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
"""Finds the object that a label names in one image."""


def exact_masks(episode: Trajectory) -> MaskModel | None:
    """Returns the exact masks of a generated scene or of a generated clip's frames; None for other samples."""
    sample_id = _sample_id(episode)
    if is_clip(sample_id):
        return clip_mask_model(find_clip(sample_id))
    if not is_generated_sample(sample_id):
        return None
    masks = scene_masks(sample_id)
    return lambda label, frame, time_s: masks(label)


def exact_descriptions(episode: Trajectory) -> DescriptionModel | None:
    """Returns the exact description model of a generated clip; None for other samples."""
    sample_id = _sample_id(episode)
    return clip_descriptions(find_clip(sample_id)) if is_clip(sample_id) else None


def is_generated(episode: Trajectory) -> bool:
    """Returns whether an episode's images are generated, so that their contents are known exactly."""
    return is_generated_sample(_sample_id(episode))


def is_generated_sample(sample_id: str) -> bool:
    """Returns whether a sample's images are generated, so that their contents are known exactly."""
    return is_clip(sample_id) or sample_id.startswith("scene:")


def _sample_id(episode: Trajectory) -> str:
    return str(final_state(episode)["sample_id"])


def clip_models(
    clip: Clip, *, likelihood: LikelihoodModel | None = None, answer: AnswerJudge | None = None
) -> ArgosModels:
    """Returns the models of a question about a generated video, for `judges.episode_rewards.argos.argos_reward`.

    Args:
        clip: The video.
        likelihood: Likelihood model for reasoning, bound to the clip's images; None leaves the term out.
        answer: Judge of semantic answers.
    """
    return ArgosModels(
        mask=clip_mask_model(clip), description=clip_descriptions(clip), likelihood=likelihood, answer=answer
    )


def clip_mask_model(clip: Clip) -> MaskModel:
    """Returns the exact masks of a clip's objects and line, by label and frame.

    Args:
        clip: The video.

    Returns:
        A mask model whose masks are bool[height, width]: all False for an object that is not in the frame, and for a
        frame or time outside the clip; None for labels unknown to scenes, and without a frame or time.
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
    """Returns an exact description model for a clip's moments and segments.

    Args:
        clip: The video.

    Returns:
        A description model that returns False for an anchor outside the clip, and None for sentences in a form that
        `vlm_envs.content.scenes.video_sentences` does not know.
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
        # Strip point tags but keep their labels. "onwards" is part of the anchor.
        verdict = describes(clip, _NOT_SAID.sub("", anchor.description), first, None if is_moment else last)
        starts = start[1] is None or abs(start[1] - clip.time_s(first)) < _FRAME_S
        # A frame lasts until the next one, so a segment may end there.
        ends = is_moment or end[1] is None or -_FRAME_S < end[1] - clip.time_s(last) <= _FRAME_S
        return verdict and starts and ends

    return is_true


def _frame(clip: Clip, frame: int | None, time_s: float | None, *, ends: bool = False) -> int | None:
    """Returns the frame for a number, or else for a time; None if it is outside the clip."""
    if frame is not None:
        return frame if 1 <= frame <= clip.num_frames else None
    if time_s is None:
        return None
    duration_s = clip.num_frames * _FRAME_S
    is_last = clip.time_s(clip.num_frames) < time_s < duration_s or (ends and time_s == duration_s)
    return clip.num_frames if is_last else clip.nearest_frame(time_s)


def seen_masks(look: Look, episode: Trajectory) -> AskedMaskModel | None:
    """Returns exact masks if there are any, else a model's masks for the image or the named frame of a video.

    Returns None for several images that are not video frames, because a point does not name its image.
    """
    exact, state, images = exact_masks(episode), final_state(episode), shown_images(episode)
    if exact is not None:
        return exact
    if state.get("coordinates") == "pixels":  # then images have black margins, which are cropped
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
