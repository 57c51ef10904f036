"""ZoomQA: questions about small things in large images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from vlm_envs.content.scenes.scene_questions import CATEGORIES
from vlm_envs.content.scenes.scene_source import KINDS_OF_ANSWERS, SceneSource
from vlm_envs.content.scenes.settings import SETTINGS
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.image_datasets import dataset_source
from vlm_envs.qa.qa_context import PictureContext
from vlm_envs.qa.qa_world import QAWorld
from vlm_envs.qa.strategies import STRATEGIES, VIEWS, MagsStage, Views, ViewsStrategy, ZoomStrategy
from vlm_envs.tools.coordinates import Coordinates
from vlm_envs.tools.zoom import BicubicUpscaler, LanczosUpscaler, Upscaler, ZoomSettings
from vlm_envs.user_code import resolved
from vlm_envs.validation import require_choice, require_flag

UPSCALERS: dict[str, Upscaler] = {"lanczos": LanczosUpscaler(), "bicubic": BicubicUpscaler()}
"""Upscalers without weights, by name."""


class ZoomQAWorld(QAWorld):
    """ZoomQA: answer a question about a small thing in a large image; `prompt_format` is `arm` by default.

    ## Description
    Generated scenes with sides of 2,000 to 8,000 pixels (streets, shelves, desks, charts) contain dozens of
    things; questions are about those of 8 to 40 pixels. The image is shown scaled to a pixel budget, at which
    such things are a pixel or two wide; crops come from the original pixels. Boxes, masks, attributes, and
    counts are exact. Needs the extra `tools`.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format.

    * `arm` (ARM-Thinker): `<think>`, then `<tool_call>` of `image_zoom_in_tool` with a box in thousandths, or
      `<answer>`; text after `</tool_call>` is dropped. The next observation reports errors in a call.
    * `mags` (Mags-RL): round 1 is one `<think>` that contains `<zoom>[[x1, y1, x2, y2], ...]</zoom>`, in
      pixels of the image as shown; text after `</think>` is dropped. All regions are shown enlarged. Round 2:
      `<rethink>`, `<answer>`.
    * `ivgr_grounded`, `ivgr_textual` (iVGR): one `<think>` with boxes, or without, and `<answer>`.
    * `ivgr_views` (iVGR at test time): round 1 is one `<think>` with boxes; text after `</think>` is dropped.
      The boxed regions, and the region around all of them, are shown enlarged. Round 2: `<think>` in words,
      `<answer>`.
    * `points` (Argos): the same with `<points x1=".." y1=".." alt="..">..</points>`, in percent.
    * `direct`: `<think>` and `<answer>`, the control.

    ## Observation Space
    `Dict(text=FreeText, images=Pictures)`; without `images` in text mode. The first observation shows the
    whole image, later ones the requested crops, if any, each once. A tool's text is in `<tool_response>`.

    ## Rewards
    +1 for a right answer (`answer_reward`), by rule: `vlm_envs.responses.answers`. Looking is free. The
    trainer adds the papers' rewards from the same record (`judges`). There is no format reward by default,
    because a reward per turn encourages as many calls as possible.

    ## Starting State
    A scene and a question of the split: `existence`, `attribute`, `relation`, `count` (possibly 0) or
    `comparison`. The val and test splits of a dataset are traversed in order: seed i of the split is item i.

    ## Episode End
    Terminated by an answer, right (`success`) or wrong; truncated after `max_turns`.

    ## Arguments
    For generated scenes: `side_px=(2000, 8000)`, `target_px=(8, 40)`, `max_objects=40`, `categories` (or
    single questions of one, such as `attribute:time_choice`), `answer_kinds` (`choice`, `exact`, `number`),
    `settings`; `dataset=None` with `folder=None`: a local copy of a dataset instead, see
    `vlm_envs.qa.datasets`; `is_benchmark=None`: whether all of it is `test`, None for the dataset's default;
    `train_on_all=False`: whether all of it is `train`; `source=None`: `"module:factory"` or a `SampleSource`
    to use instead; `max_pixels=1048576`, pixel budget of every image as shown; `coordinates=None`, the unit
    of boxes and points: each strategy's own as above, `"thousandths"` of the image's sides, or `"pixels"` of
    the image as shown, which is then placed in the top left corner of a black image whose sides are multiples
    of 224, so that no supported image processor resizes it (`arm` takes thousandths only; needs `max_pixels`
    of 100352 or more); `blank_crops=False`, a control that shows whether the content of crops matters;
    `views="both"`, `"crops"`, `"union"` or `"none"`, the views of `ivgr_views` in round 2; `mags_stage=None`,
    the curriculum stage of the prompt of `mags`, 1 or 2, None for 2; `upscaler="lanczos"` (the
    super-resolution agent of `mags` and `ivgr_views`), `"bicubic"`, `"module:factory"` or an object, and
    `upscaler_kwargs=None`, arguments of the factory (with torch,
    `upscaler="agents.perception.super_resolution:smfanet"` is SMFANet, with the weights in `{"weights":
    FILE}`); `answer_reward=1.0`; `boxes=True`, whether evidence has known positions: False for questions
    without annotated boxes, which iVGR asks in words alone; `max_turns=None` for the strategy's default
    (`arm` 5, `mags` and `ivgr_views` 2, others 1); and those of every world: `prompt_format="arm"`,
    `representation` (no `symbolic`), `obs_mode`, `split`, `format_reward=0.0`, `prompt_example`,
    `system_prompt=False`, `format_reminder=False`, `reading="strict"`, `render_mode`; `max_actions_per_turn`
    is 1. `reset(options={"level": text})` takes a sample's id.

    ## Version History
    * v0: first version.
    """

    def __init__(
        self,
        *,
        prompt_format: str = "arm",
        side_px: tuple[int, int] | int = (2000, 8000),
        target_px: tuple[int, int] | int = (8, 40),
        max_objects: int = 40,
        categories: Iterable[str] = CATEGORIES,
        answer_kinds: Iterable[str] = KINDS_OF_ANSWERS,
        settings: Iterable[str] = tuple(SETTINGS),
        max_pixels: int = 1_048_576,
        coordinates: Coordinates | None = None,
        blank_crops: bool = False,
        views: str | None = "both",
        mags_stage: int | None = None,
        upscaler: str | Upscaler = "lanczos",
        upscaler_kwargs: Mapping[str, Any] | None = None,
        **world_kwargs: Any,
    ) -> None:
        views = "none" if views is None else views  # command lines parse the word none as None
        require_choice("views", views, VIEWS)
        require_flag("blank_crops", blank_crops)
        if views != "both" and prompt_format != "ivgr_views":
            raise ConfigError(f"views={views!r} needs prompt_format='ivgr_views'; got {prompt_format!r}.")
        if mags_stage is not None:
            if mags_stage not in (1, 2):
                raise ConfigError(f"mags_stage must be 1 or 2, or None for 2; got {mags_stage!r}.")
            if prompt_format != "mags":
                raise ConfigError(f"mags_stage={mags_stage} needs prompt_format='mags'; got {prompt_format!r}.")
        scenes = SceneSource(
            side_px=side_px,
            target_px=target_px,
            max_objects=max_objects,
            categories=categories,
            kinds=answer_kinds,
            settings=settings,
        )
        super().__init__(
            name="ZoomQA",
            goal="Answer a question about a picture that is larger than it is shown.",
            generated=scenes,
            open_dataset=dataset_source,
            context=PictureContext(
                max_pixels=max_pixels, coordinates=coordinates, zoom=ZoomSettings(blank=blank_crops)
            ),
            strategies=STRATEGIES
            | {
                "ivgr_views": ViewsStrategy(views=cast("Views", views)),
                "mags": ZoomStrategy(stage=cast("MagsStage", mags_stage or 2)),
            },
            prompt_format=prompt_format,
            crops=ZoomSettings(
                upscaler=resolved(
                    "upscaler", upscaler, "factor", "upscale", known=UPSCALERS, settings=upscaler_kwargs or {}
                ),
                blank=blank_crops,
            ),
            **world_kwargs,
        )
