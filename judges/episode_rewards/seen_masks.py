"""Masks of what a model sees in the pictures of an episode, where they are not generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from agents.api.failures import Unavailable
from agents.perception.packed_mask import PackedMask
from judges.episode_rewards.episode import final_state, shown_images
from judges.episode_rewards.exact import exact_masks
from judges.episode_rewards.models import AskedMaskModel, Mask, Picture
from vlm_envs.trajectory import Trajectory

Look = Callable[[Picture, str], PackedMask | Unavailable | None]
"""Finds what a label names in one picture."""


def seen_masks(look: Look, episode: Trajectory) -> AskedMaskModel | None:
    """Returns exact masks where there are any, else what a model sees in the picture or the named frame of a video.

    Of several pictures that are no frames nothing: a point does not say which of them it is in.
    """
    exact, images = exact_masks(episode), _without_margins(episode)
    if exact is not None:
        return exact
    times_s = final_state(episode).get("times_s") or ()
    if times_s and len(times_s) == len(images):
        return partial(_in_frame, look, images, times_s)
    return (lambda label, frame, time_s: _unpacked(look(images[0], label))) if len(images) == 1 else None


def _without_margins(episode: Trajectory) -> tuple[Picture, ...]:
    """Returns the pictures shown with the question without the black margins of `coordinates="pixels"`."""
    state, images = final_state(episode), shown_images(episode)
    if state.get("coordinates") != "pixels":
        return images
    width, height = state["shown_size"]
    return tuple(image[:height, :width] for image in images)


def _in_frame(
    look: Look,
    images: Sequence[Picture],
    times_s: Sequence[float],
    label: str,
    frame: int | None,
    time_s: float | None,
) -> Mask | Unavailable | None:
    """Returns what a model sees in the frame of a number, from 1, or else the one nearest to a time.

    An empty mask for a number that no frame has; None without number and time.
    """
    if frame is None and time_s is None:
        return None
    if frame is None:
        frame = 1 + min(range(len(times_s)), key=lambda index: abs(times_s[index] - float(time_s or 0.0)))
    if not 1 <= frame <= len(images):
        return np.zeros(images[0].shape[:2], np.bool_)
    return _unpacked(look(images[frame - 1], label))


def _unpacked(answer: PackedMask | Unavailable | None) -> Mask | Unavailable | None:
    return answer.unpacked() if isinstance(answer, PackedMask) else answer
