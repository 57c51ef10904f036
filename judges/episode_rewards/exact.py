"""What is exactly so in generated pictures and clips, in place of models that look at them."""

from __future__ import annotations

from judges.episode_rewards.clip_models import clip_descriptions, clip_mask_model
from judges.episode_rewards.episode import final_state
from judges.episode_rewards.models import DescriptionModel, MaskModel
from vlm_envs.content.scenes.clip_source import find_clip, is_clip
from vlm_envs.content.scenes.scene_labels import scene_masks
from vlm_envs.trajectory import Trajectory


def exact_masks(episode: Trajectory) -> MaskModel | None:
    """Returns the exact masks of a generated scene, or of the frames of a generated clip; None for other samples."""
    sample_id = _sample_id(episode)
    if is_clip(sample_id):
        return clip_mask_model(find_clip(sample_id))
    if not _is_scene(sample_id):
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
    return is_clip(sample_id) or _is_scene(sample_id)


def _sample_id(episode: Trajectory) -> str:
    return str(final_state(episode)["sample_id"])


def _is_scene(sample_id: str) -> bool:
    return sample_id.startswith("scene:")
