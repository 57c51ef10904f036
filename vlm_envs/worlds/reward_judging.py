"""RewardJudging: decide which response is right, with tools for checking."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vlm_envs.content.judging.instruction_track import Requirements
from vlm_envs.content.judging.judging_cases import TRACKS, Case, request_of, response_name, track_of
from vlm_envs.content.judging.judging_datasets import judging_dataset
from vlm_envs.content.judging.judging_source import JudgingSource
from vlm_envs.content.reports.report_source import ReportSource
from vlm_envs.content.scenes.scene_source import SceneSource
from vlm_envs.errors import LevelError
from vlm_envs.qa.document_context import DocumentContext
from vlm_envs.qa.qa_context import Act, Answer, PictureContext, QAContext, QAState, written_call
from vlm_envs.qa.qa_world import QATask, QAWorld
from vlm_envs.qa.sample import Sample
from vlm_envs.qa.strategies import strategies
from vlm_envs.responses.answers import score_answer
from vlm_envs.responses.formats import encodable
from vlm_envs.tools.coordinates import OriginalPixels, ShownPixels, shown_space
from vlm_envs.tools.document_tools import page_retrieval_by_index, page_retrieval_by_query
from vlm_envs.tools.instruction_checkers import CHECKERS, Constraint
from vlm_envs.tools.instruction_texts import COUNTED, PLANS
from vlm_envs.tools.instructions import MAX_CONSTRAINTS, checker_tools
from vlm_envs.tools.pdf_documents import DocumentShelf
from vlm_envs.tools.pictures import ImageRef, Picture, within_budget
from vlm_envs.tools.tool_memory import Memory
from vlm_envs.tools.tool_registry import ToolRegistry
from vlm_envs.tools.zoom import image_zoom_in_tool
from vlm_envs.validation import as_names, require_flag, require_range


@dataclass(frozen=True, slots=True)
class Reduced:
    """An image that is scaled down to a pixel budget on demand.

    Attributes:
        image: The image.
        max_pixels: The budget.
    """

    image: ImageRef
    max_pixels: int

    @property
    def _space(self) -> ShownPixels:
        return shown_space(OriginalPixels(self.image.width, self.image.height), self.max_pixels)

    @property
    def width(self) -> int:
        """Columns."""
        return self._space.width

    @property
    def height(self) -> int:
        """Rows."""
        return self._space.height

    @property
    def digest(self) -> str:
        """Identifies the image and the budget."""
        return f"{self.image.digest} within {self.max_pixels}"

    def picture(self) -> Picture:
        """Returns the scaled image."""
        return within_budget(self.image.picture(), self.max_pixels)


@dataclass(frozen=True, kw_only=True)
class JudgingContext(QAContext):
    """Images, documents, and responses, with the tools of the selected tracks.

    Attributes:
        source: Source of the cases, from which an expert knows the flaws; None if they are unknown.
        tracks: Tracks whose tools are available.
        profile: Definition by which constraints are checked.
        checks: Names of the checks that can be called.
        pictures: Context of images; small things should be too small to see at first.
        documents: Context of documents.
    """

    source: JudgingSource | None = None
    tracks: tuple[str, ...] = TRACKS
    profile: str = "arm"
    checks: tuple[str, ...] = tuple(CHECKERS)
    pictures: PictureContext = field(default_factory=PictureContext)
    documents: DocumentContext = field(default_factory=DocumentContext)

    @property
    def max_pixels(self) -> int:  # type: ignore[override]
        """Pixel budget of shown images: the larger of both, because images are already scaled to their own budget."""
        return max(self.pictures.max_pixels, self.documents.max_pixels)

    def opening(self, sample: Sample) -> tuple[Memory, tuple[ImageRef, ...]]:
        """Returns images and responses under their names, and shows the images, or a contact sheet of the pages."""
        if sample.document is not None:
            return self.documents.opening(sample)
        memory, shown = self.pictures.opening(sample)
        return memory, tuple(Reduced(image, self.pictures.max_pixels) for image in shown)

    def introduction(self, sample: Sample) -> str:
        """Returns the names and sizes of the images, or the name and length of the document."""
        if sample.document is None:
            return self.pictures.introduction(sample)
        return (
            f"Document {sample.document.name}: {sample.document.num_pages} pages. Picture original_image shows all of "
            "them, each under its position in the file, counted from 1; numbers printed on the pages may differ."
        )

    def tools(self, sample: Sample | None) -> ToolRegistry:
        """Returns the tools of all selected tracks; document tools can access the sample's document."""
        shelf = DocumentShelf((sample.document,) if sample is not None and sample.document is not None else ())
        registry = ToolRegistry()
        if {"fine_grained", "document"} & set(self.tracks):
            registry = registry.with_tools((image_zoom_in_tool(self.pictures.zoom),))
        if "document" in self.tracks:
            retrieval = self.documents.retrieval
            by_query, by_index = page_retrieval_by_query(shelf, retrieval), page_retrieval_by_index(shelf, retrieval)
            registry = registry.with_tools((by_query, by_index))
        if "instruction_following" in self.tracks:
            registry = registry.with_tools(checker_tools(self.profile, self.checks))
        return registry

    def planned_calls(self, sample: Sample, max_calls: int) -> tuple[str, ...]:
        """Returns an expert's calls: checks of responses, a look at each evidence page, or a zoom into evidence."""
        if sample.document is not None:
            return tuple(_page_calls(sample))[:max_calls]
        if not sample.images and (case := self._case(sample)) is not None:
            return tuple(dict.fromkeys(_check_calls(case)))[:max_calls]
        return self.pictures.planned_calls(sample, max_calls)

    def shown_pixels(self, sample: Sample) -> ShownPixels | None:
        """Returns the size of the first image as shown."""
        return self.pictures.shown_pixels(sample)

    def _case(self, sample: Sample) -> Case | None:
        """Returns the case of a sample; None if it has another source."""
        if self.source is None:
            return None
        try:
            return _case(self.source, sample.sample_id)
        except LevelError:
            return None


@functools.lru_cache(maxsize=64)
def _case(source: JudgingSource, sample_id: str) -> Case:
    return source.case(sample_id)


def _page_calls(sample: Sample) -> Iterator[str]:
    """Yields a call for each page with the answer, or a search for the request's words if there is none."""
    assert sample.document is not None
    name = sample.document.name
    for page in sample.evidence_pages:
        yield written_call("doc_page_retrieval_by_index", filename=name, image_idx=page)
    if not sample.evidence_pages:
        yield written_call("doc_page_retrieval_by_query", filename=name, query=request_of(sample.question))


def _check_calls(case: Case) -> Iterator[str]:
    """Yields the decisive checks.

    For one or two responses: each requirement of the first one, up to one that it violates; this identifies
    the right response. For four responses, that would take too many calls: only the violated requirement of
    each flawed one.
    """
    for index, candidate in enumerate(case.candidates[:1] if len(case.candidates) <= 2 else case.candidates):
        for constraint in case.constraints:
            fails = candidate.flaw is not None and candidate.flaw.kind.endswith(f":{constraint.checker}")
            if fails or len(case.candidates) <= 2:
                yield _check_call(constraint, response_name(index))
            if fails:
                break


def _check_call(constraint: Constraint, name: str) -> str:
    """Returns the text of a call that checks a response."""
    return written_call(constraint.checker, **constraint.arguments.model_dump(mode="json"), response=name)


class JudgingTask(QATask):
    """Judge responses, which are shown as quotations. Accuracy is reported for each track."""

    def instruction(self, state: QAState) -> str:
        """Returns images, responses, and question."""
        texts = tuple((name, quotation(text)) for name, text in state.sample.texts)
        return super().instruction(replace(state, sample=replace(state.sample, texts=texts)))

    def expert_sections(self, state: QAState, actions: Sequence[Act]) -> Mapping[str, str]:
        """Returns the strategy's thoughts, or the result of the last check of a pair's first response."""
        is_pair_of_texts = track_of(state.sample.category) == "instruction_following" and len(state.sample.texts) == 2
        if not (is_pair_of_texts and self.strategy.has_tools and isinstance(actions[0], Answer)):
            return super().expert_sections(state, actions)
        first, second = map(response_name, range(2))
        if not state.calls:
            return {"think": f"{response_name(int(actions[0].text) - 1)} looks right at a glance."}
        if actions[0].text == "1":
            return {"think": f"{first} meets every requirement, so {first} is right."}
        return {"think": f"{first} fails this requirement, so {second} is right."}

    def metrics(self, state: QAState) -> dict[str, float]:
        """Returns the metrics of every question-answering world, and the score under the name of its track."""
        score = score_answer(state.answer, state.sample.key)
        return super().metrics(state) | {f"score_{track_of(state.sample.category)}": score}


def quotation(text: str) -> str:
    """Returns a text with a bar at the start of every line and angle brackets replaced by similar characters.

    No line of it can be mistaken for the prompt's, and no tag for the model's. Lone surrogates, which no
    message could contain, become question marks.
    """
    inert = encodable(text).replace("<", "‹").replace(">", "›")
    return "\n".join(f"| {line}".rstrip() for line in inert.splitlines())


class RewardJudgingWorld(QAWorld):
    """RewardJudging: decide which of several responses is right, or whether a single one is, and check it with tools.

    ## Description
    A request with one, two, or four responses, whose flaws are known. Three tracks follow ARM-Thinker's
    ARMBench-VL: `fine_grained` (paragraphs about small things in a large image), `document` (paragraphs about
    a long report), and `instruction_following` (texts that satisfy all of an instruction's constraints, or
    all but one). A wrong response has exactly one flaw. Right and wrong responses are alike in length,
    position, and vocabulary, and what a wrong one claims is true of something else in the same image or
    report, so the flaw can only be found by looking. Needs the extra `tools`.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. `arm`: a thought, then one tool call,
        `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, or the answer. `direct`: a thought and the
        answer. The answer is the number of the right response, or `True` or `False` if there is only one; the
        paper's sentences (`Overall Judgment: Answer 1 is better.`) are equivalent.

    ## Observation Space
    `Dict(text=FreeText, images=Pictures)`; without `images` in text mode. The first observation shows the
    image scaled to `max_pixels`, or a contact sheet of the document, and the responses, named `resp_1`,
    `resp_2`, and so on, with a bar at the start of every line. Later ones show a tool's reply and images.

    ## Rewards
    1 for the right answer, at the end; `format_reward` (0) per turn for a response in the format. The trainer
    adds ARM-Thinker's rewards for calls and format (`judges.episode_rewards.arm`).

    ## Starting State
    A case of the split; tracks are equally likely. The val and test splits of a dataset are traversed in
    order: seed i of the split is row i.

    ## Episode End
    Terminated by an answer; truncated after `max_turns` turns (5 for `arm`, 1 for `direct`). `success` is the
    right answer. `info["metrics"]` has `score`, also under the name of the track and of the kind of flaw.

    ## Arguments
    `tracks=("fine_grained", "document", "instruction_following")` or one of them; `num_candidates=2`, 1, 2 or
    4; `reverse_order=False`: True shows the responses of the same seeds, or of levels given by their ids, in
    the opposite order, so judging in both orders takes two runs; `profile="arm"` or `"mm_ifengine"`, the
    definition of the checks; `checks=None`, names of the checks that requirements use and that can be called,
    or all; `num_requirements=(1, 4)`, or one number; `counterfactual=False`: True uses only pairs of texts of
    which either would be right if another number were required, so that nothing in them reveals which one is;
    `tools=True`: False leaves only `direct`; `side_px=(2000, 8000)` and `target_px=(8, 40)`, sizes of images
    and of things in them; `num_pages=(5, 60)` of reports.

    `dataset=None` with `folder=None`: a local copy of `vl_rewardbench`, `llava_critic`, `mm_ifeval` or
    `armbench_vl`, or your own data as `judged` or `pairs`, in place of generated cases, see
    `vlm_envs.content.judging.judging_datasets`; `is_benchmark=None`: whether all of it is `test`, None for
    the dataset's default; `train_on_all=False`: whether all of it is `train`; `source=None`:
    `"module:factory"` or a `SampleSource` to use instead; `max_pixels=1048576`, pixel budget of an image as
    shown (4194304 for document pages); `answer_reward=1.0`; `max_turns=None` for the strategy's default; and
    those of every world: `prompt_format="arm"`, `representation` (no `symbolic`), `obs_mode`, `split`,
    `max_steps=None`, `format_reward=0.0`, `prompt_example=True`, `system_prompt=False`,
    `format_reminder=False`, `reading="strict"`, `render_mode`; `max_actions_per_turn` is 1.
    `reset(options={"level": text})` takes a sample's id.

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
