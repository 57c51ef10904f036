"""VideoQA: questions about videos."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

from vlm_envs.content.scenes.clip_questions import CATEGORIES
from vlm_envs.content.scenes.clip_source import ClipSource
from vlm_envs.content.scenes.settings import SETTINGS
from vlm_envs.qa.datasets.image_datasets import video_source
from vlm_envs.qa.datasets.video_r1 import MAX_FRAMES
from vlm_envs.qa.qa_world import QAView, QAWorld
from vlm_envs.qa.strategies import strategies
from vlm_envs.qa.video_questions import VideoContext, VideoPointsStrategy, VideoView
from vlm_envs.tools.coordinates import Coordinates
from vlm_envs.validation import require


class VideoQAWorld(QAWorld):
    """VideoQA: answer a question about what happens in a video, shown as frames with their times.

    ## Description
    Clips of a few things that rest, move in a straight line, and rest again, over scenery with a colored
    line. All frames are shown at once; the text lists their times. All events are known exactly: boxes,
    masks, crossings of the line, and moves. Points, frames, and intervals in a response can therefore be
    checked without a model. Needs the extra `tools`.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format, which ends the episode.

    * `points` (Argos): one `<think>` with points on things in frames, `In frame 2 at 0.5 seconds I see the
      <points x1=".." y1=".." alt="..">..</points>.`, in percent, with facts about a frame and events `from
      0.5 to 1.5 seconds`; and `<answer>`.
    * `direct`: `<think>` and `<answer>`, the control.

    ## Observation Space
    `Dict(text=FreeText, images=Pictures)`; without `images` in text mode. The images are the frames, starting
    with F1 at t = 0.0 s, half a second apart.

    ## Rewards
    +1 for a right answer (`answer_reward`), by rule: `vlm_envs.responses.answers`. The trainer adds the
    paper's reward from the same record (`judges.episode_rewards.argos`).

    ## Starting State
    A clip and a question of the split: `order` (which thing crosses the line first or last, or their order),
    `count` (how many cross it, possibly none), `place` (which side of the line, or which quarter, a thing is
    in at a time), `time` (when it crosses the line, starts, or stops) or `motion` (which way it moves, or
    which one stands still). All options are plausible. Splits are disjoint by a hash of clip and question.
    The val and test splits of a dataset are traversed in order: seed i of the split is item i.

    ## Episode End
    Terminated by an answer, right (`success`) or wrong; truncated after `max_turns`.

    ## Arguments
    For generated clips: `num_frames=(8, 16)`, `num_things=(2, 4)` and `size_px=(24, 40)`, or one number each;
    `side_px=224`; `categories` (or single questions of one, such as `place:quarter`); `settings`. A question
    that needs more things than `num_things` has more. `dataset=None` with `folder=None`: a local copy of
    `video_r1` instead, see `vlm_envs.qa.datasets`, with at most `max_frames=None` frames per video, 32 by
    default; `is_benchmark=None`: whether all of it is `test`, None for the dataset's default;
    `train_on_all=False`: whether all of it is `train`; `source=None`: `"module:factory"` or a `SampleSource`
    to use instead; `max_pixels=50176`, pixel budget of every frame as shown; `coordinates=None`, the unit of
    points: percent, `"thousandths"`, or `"pixels"` of the frame as shown, see `VLM/ZoomQA-v0` (needs
    `max_pixels=100352` or more); `answer_reward=1.0`; `max_turns=None` for the strategies' default of 1; and
    those of every world: `prompt_format="points"` or `"direct"`, `representation` (no `symbolic`),
    `obs_mode`, `split`, `max_steps=None`, `format_reward=0.0`, `prompt_example=True`, `system_prompt=False`,
    `format_reminder=False`, `reading="strict"`, `render_mode`; `max_actions_per_turn` is 1.
    `reset(options={"level": text})` takes a sample's id.

    ## Version History
    * v0: first version.
    """

    view_type: ClassVar[type[QAView]] = VideoView

    def __init__(
        self,
        *,
        prompt_format: str = "points",
        num_frames: tuple[int, int] | int = (8, 16),
        num_things: tuple[int, int] | int = (2, 4),
        size_px: tuple[int, int] | int = (24, 40),
        side_px: int = 224,
        categories: Iterable[str] = CATEGORIES,
        settings: Iterable[str] = tuple(SETTINGS),
        max_pixels: int = 224 * 224,
        coordinates: Coordinates | None = None,
        max_frames: int | None = None,
        **world_kwargs: Any,
    ) -> None:
        require(
            max_frames is None or world_kwargs.get("dataset") is not None,
            f"max_frames={max_frames!r} needs a dataset of videos. For generated clips, set num_frames.",
        )
        clips = ClipSource(
            side_px=side_px,
            size_px=size_px,
            num_frames=num_frames,
            num_things=num_things,
            categories=categories,
            settings=settings,
        )
        super().__init__(
            name="VideoQA",
            goal="Answer a question about a video.",
            generated=clips,
            open_dataset=partial(video_source, max_frames=MAX_FRAMES if max_frames is None else max_frames),
            context=VideoContext(max_pixels=max_pixels, coordinates=coordinates),
            strategies=strategies("direct") | {"points": VideoPointsStrategy()},
            prompt_format=prompt_format,
            **world_kwargs,
        )
