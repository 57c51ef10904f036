"""VLM/RewardJudging-v0."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from vlm_envs.content.judging.cases import TRACKS
from vlm_envs.content.judging.datasets.registry import judging_dataset
from vlm_envs.content.judging.instruction_track import Requirements
from vlm_envs.content.judging.source import JudgingSource
from vlm_envs.content.reports.source import ReportSource
from vlm_envs.content.scenes.source import SceneSource
from vlm_envs.qa.qa_context import PictureContext
from vlm_envs.qa.qa_world import QAWorld
from vlm_envs.qa.strategies import strategies
from vlm_envs.tools.instruction_texts import COUNTED, PLANS
from vlm_envs.tools.instructions import MAX_CONSTRAINTS
from vlm_envs.validation import as_names, require_flag, require_range
from vlm_envs.worlds.reward_judging.context import JudgingContext
from vlm_envs.worlds.reward_judging.task import JudgingTask


class RewardJudgingWorld(QAWorld):
    """RewardJudging: say which of several responses is right, or whether a single one is, and check it with tools.

    ## Description
    A request with one, two or four responses, of which what is wrong with each is known. Three tracks, after
    ARM-Thinker's ARMBench-VL: `fine_grained` (paragraphs about small things of a large picture), `document` (paragraphs
    from a long report) and `instruction_following` (texts that satisfy all of an instruction's constraints, or all but
    one). A wrong response has exactly one flaw. Lengths, places and words of right and wrong responses are alike, and
    what a wrong one says is true of something else in the same picture or report: only looking tells.
    Needs the extra `tools`.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. `arm`: a thought, then one call of a tool,
    `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, or the answer. `direct`: a thought and the answer. The
    answer is the number of the right response, or `True` or `False` where there is one; the paper's sentences (`Overall
    Judgment: Answer 1 is better.`) say the same.

    ## Observation Space
    `Dict(text=FreeText, images=Pictures)`; without `images` in text mode. The first observation shows the picture
    scaled to `max_pixels`, or a contact sheet of the document, and the responses, named `resp_1`, `resp_2` and so on,
    behind a bar on every line. Later ones show what a tool said and its pictures.

    ## Rewards
    1 for the right answer, at the end; `format_reward` (0) a turn for a response in the format. ARM-Thinker's rewards
    for calls and format are added by the trainer (`judges.episode_rewards.arm`), not here.

    ## Starting State
    A case of the split, of each track with the same chance. Of a data set, val and test are gone through in order: seed
    i of the split is row i.

    ## Episode End
    Terminated by an answer; truncated after `max_turns` turns (5 for `arm`, 1 for `direct`). `success` is the right
    answer. `info["metrics"]` has `score`, and the same under the name of the track and of the kind of flaw.

    ## Arguments
    `tracks=("fine_grained", "document", "instruction_following")` or one of them; `num_candidates=2`, 1, 2 or 4;
    `reverse_order=False`: True shows the same seeds' responses in the opposite order, so judging in both orders is two
    runs, and levels given by their ids likewise; `profile="arm"` or `"mm_ifengine"`, what the checks count;
    `checks=None`, names of those that requirements are of and that can be called, or all; `num_requirements=(1, 4)`,
    or one number; `counterfactual=False`: True takes pairs of texts only of which either would be right, were another
    number asked for, so that nothing in them tells which is; `tools=True`: False leaves only `direct`;
    `side_px=(2000, 8000)` and `target_px=(8, 40)`, sizes of pictures and of things in them; `num_pages=(5, 60)` of
    reports; `dataset=None` with `folder=None`: a local copy of `vl_rewardbench`, `llava_critic`, `mm_ifeval` or
    `armbench_vl`, or `judged` or `pairs` of one's own, in place of generated cases, see
    `vlm_envs.content.judging.datasets`; `is_benchmark=None`: whether all of it is `test`, None for what it was
    published as; `train_on_all=False`: whether all of it is `train`; `source=None`: `"module:factory"` or a
    `SampleSource` in place of both; `max_pixels=1048576`, budget of a picture as shown (pages of documents have
    4194304); `answer_reward=1.0`; `max_turns=None` for the strategy's own number; and those of every world:
    `prompt_format="arm"`, `representation` (no `symbolic`), `obs_mode`, `split`, `max_steps=None`,
    `format_reward=0.0`, `prompt_example=True`, `system_prompt=False`, `format_reminder=False`, `reading="strict"`,
    `render_mode`; `max_actions_per_turn` is 1. `reset(options={"level": text})` takes a sample's id.

    ## Version History
    * v0: first version.
    """

    def __init__(
        self,
        *,
        tracks: str | tuple[str, ...] = TRACKS,
        num_candidates: int = 2,
        reverse_order: bool = False,
        profile: str = "arm",
        checks: str | Sequence[str] | None = None,
        num_requirements: int | tuple[int, int] = (1, MAX_CONSTRAINTS),
        counterfactual: bool = False,
        tools: bool = True,
        side_px: tuple[int, int] | int = (2000, 8000),
        target_px: tuple[int, int] | int = (8, 40),
        num_pages: tuple[int, int] | int = (5, 60),
        max_pixels: int = 1_048_576,
        prompt_format: str | None = None,
        **world_kwargs: Any,
    ) -> None:
        requirements = Requirements(
            checks=tuple(COUNTED if counterfactual else PLANS) if checks is None else as_names(checks),
            number=require_range("num_requirements", num_requirements),
            counterfactual=require_flag("counterfactual", counterfactual),
        )
        cases = JudgingSource(
            tracks=(tracks,) if isinstance(tracks, str) else tuple(tracks),
            num_candidates=num_candidates,
            reverse_order=reverse_order,
            profile=profile,
            requirements=requirements,
            scenes=SceneSource(side_px=side_px, target_px=target_px),
            reports=ReportSource(num_pages=num_pages),
        )
        context = JudgingContext(
            pictures=PictureContext(max_pixels=max_pixels),
            source=None if any(world_kwargs.get(name) for name in ("dataset", "source")) else cases,
            tracks=cases.tracks,
            profile=profile,
            checks=requirements.checks,
        )
        super().__init__(
            name="RewardJudging",
            goal="Judge responses to a request.",
            generated=cases,
            open_dataset=functools.partial(judging_dataset, reverse_order=reverse_order),
            context=context,
            strategies=strategies("direct", *(("arm",) if require_flag("tools", tools) else ())),
            prompt_format=prompt_format or ("arm" if tools else "direct"),
            task_type=JudgingTask,
            **world_kwargs,
        )
