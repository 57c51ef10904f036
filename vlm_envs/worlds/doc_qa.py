"""DocQA: questions about documents with many pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vlm_envs.content.reports.composition import MAX_PAGES, MIN_PAGES
from vlm_envs.content.reports.report_questions import CATEGORIES
from vlm_envs.content.reports.report_source import ReportSource
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.document_datasets import document_source
from vlm_envs.qa.document_context import DocumentContext
from vlm_envs.qa.qa_context import QAState
from vlm_envs.qa.qa_world import QATask, QAWorld
from vlm_envs.qa.strategies import strategies
from vlm_envs.responses.answers import anls, page_accuracy
from vlm_envs.tools.document_tools import Bm25Retriever, RetrievalSettings, Retriever
from vlm_envs.tools.pdf_documents import PAGE_LONG_SIDE_PX
from vlm_envs.tools.pictures import MAX_STITCHED_PIXELS
from vlm_envs.tools.tool_registry import ToolCall, parse_tool_call
from vlm_envs.user_code import resolved


class DocQaTask(QATask):
    """One question about a document, one answer."""

    def metrics(self, state: QAState) -> dict[str, float]:
        """Returns the metrics of every question, `anls`, and, if pages contain the answer, metrics of pages.

        `page_accuracy` follows MP-DocVQA, whose models name the page with the answer; here, that is the last
        page the agent fetched by number. `page_recall` is the fraction of evidence pages that were fetched by
        number, for questions that need several.
        """
        key = state.sample.key
        measured = super().metrics(state)
        measured["anls"] = measured["score"] if key.kind == "list" else anls(state.answer, key.answers)
        if state.sample.evidence_pages:
            fetched = fetched_pages(state)
            true_pages = set(state.sample.evidence_pages)
            measured["page_accuracy"] = page_accuracy(fetched[-1] if fetched else None, true_pages)
            measured["page_recall"] = len(true_pages.intersection(fetched)) / len(true_pages)
        return measured


def fetched_pages(state: QAState) -> list[int]:
    """Returns the pages fetched by number, in order."""
    pages = []
    for record in state.calls:
        if record.succeeded and record.name == "doc_page_retrieval_by_index":
            call = parse_tool_call(record.text)
            assert isinstance(call, ToolCall), "a call that succeeded can be read"
            pages.append(int(call.arguments["image_idx"]))  # 3.0 is page 3
    return pages


class DocQaWorld(QAWorld):
    """DocQA: answer a question about a document with many pages, after finding the right ones.

    ## Description
    A question about one document. The first image is a contact sheet of all pages, too small to read if there
    are many. Tools (ARM-Thinker, appendix E) find pages by words, show a page by its position in the file,
    and zoom into shown images. Documents are annual reports of 5 to 60 pages, generated for each question,
    with tables, charts, similar pages that differ in region or year, and printed page numbers that differ
    from positions. 20% of the questions have no answer in the report; then `Not answerable` is right.
    Questions from your own data are also supported. Needs the extra `tools`.

    ## Action Space
    `FreeText`: the model's whole response. With `prompt_format="arm"`, a thought, then either one call,
        `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, or `<answer>`. The tools are
        `doc_page_retrieval_by_query(filename, query)`, `doc_page_retrieval_by_index(filename, image_idx)`,
        and `image_zoom_in_tool(image, bbox_2d)` with a box in thousandths. With `"direct"`, a thought and the
        answer, from the contact sheet alone.

    ## Observation Space
    `Dict(text=FreeText, images=Pictures)`; without `images` in text mode. The first observation contains the
    contact sheet, or no image with `show_sheet=False`; later ones contain the result of the last call: a page
    with `long_side_px` pixels on its longer side, or the best pages side by side. Each image is scaled down
    to `max_pixels`.

    ## Rewards
    +1 for the right answer. Numbers, names, and page labels must be exact, values read off charts have a
    tolerance of 5%, and phrases earn their similarity to the right one (ANLS, 0 below one half). Looking is
    free and `format_reward` is 0: rewards for calls come from the judge (`judges.episode_rewards.arm`).

    ## Starting State
    A question of the split. Categories: `table_lookup`; `chart_reading`, whose values are in no text layer;
    `text_fact`; `comparison` of two to four pages; `cross_page`, a sum or difference across two;
    `page_label`, the number printed on a page; `unanswerable`. Splits are disjoint by a hash of report and
    question. The val and test splits of a dataset are traversed in order: seed i of the split is item i.

    ## Episode End
    Terminated by an answer; truncated after `max_turns` turns. `success` is an answer that scores at least
    one half. `info["metrics"]` has `score`, `anls`, `page_accuracy` (whether the last page fetched by number
    contains the answer), `page_recall` (fraction of evidence pages that were fetched), and the number of
    calls; the page metrics are omitted if no page contains the answer.

    ## Arguments
    For generated reports: `num_pages=(5, 60)`, or one number; `categories`; `file_name=None`, such as
    `"report.pdf"` to give all documents the same name; `first_label=1`, the number printed on the body's
    first page, or the smallest and largest, such as `(1, 6)`, from which each report draws;
    `label_size=None`, or the size of printed page numbers in points, such as 140; such numbers stand next to
    the titles and are in no text layer.

    `dataset=None` with `folder=None`: a local copy of `"mp_docvqa"` or `"mmlongbench_doc"`, or any PDF files
    with a file of questions (`"pdf_folder"`), see `vlm_envs.qa.datasets.document_datasets`;
    `is_benchmark=None`: whether all of it is `test`, None for the dataset's default; `train_on_all=False`:
    whether all of it is `train`; `source=None`: `"module:factory"` or a `SampleSource` to use instead;
    `retriever=None` for BM25 over the text layer, `"module:factory"` or a
    `vlm_envs.tools.document_tools.Retriever`; `num_found=5`, maximum pages per query; `long_side_px=1120`;
    `max_pixels=4194304` per image; `show_sheet=True`: whether the first observation shows the contact sheet;
    `answer_reward=1.0`; and those of every world: `prompt_format="arm"` or `"direct"`, `representation` (no
    `symbolic`), `obs_mode`, `split`, `max_turns=None` (5 for `arm`, 1 for `direct`), `max_steps=None`,
    `format_reward=0.0`, `prompt_example=True`, `system_prompt=False`, `format_reminder=False`,
    `reading="strict"`, `render_mode`; `max_actions_per_turn` is 1. Defaults follow ARM-Thinker, appendix E,
    where it specifies them. `reset(options={"level": text})` takes the id of a question, such as
    `report:12:chart_reading:834`: pages, category, seed.

    ## Version History
    * v0: first version.
    """

    def __init__(
        self,
        *,
        num_pages: int | tuple[int, int] = (MIN_PAGES, MAX_PAGES),
        categories: Sequence[str] = CATEGORIES,
        file_name: str | None = None,
        first_label: int | tuple[int, int] = 1,
        label_size: int | None = None,
        retriever: str | Retriever | None = None,
        num_found: int = 5,
        long_side_px: int = PAGE_LONG_SIDE_PX,
        max_pixels: int = MAX_STITCHED_PIXELS,
        show_sheet: bool = True,
        prompt_format: str = "arm",
        **world_kwargs: Any,
    ) -> None:
        retrieval = RetrievalSettings(
            retriever=resolved("retriever", Bm25Retriever() if retriever is None else retriever, "search"),
            num_pages=num_found,
            long_side_px=long_side_px,
            max_pixels=min(max_pixels, MAX_STITCHED_PIXELS),
        )
        if prompt_format == "direct" and not show_sheet:
            raise ConfigError(
                "prompt_format='direct' answers from the contact sheet, so show_sheet must be True; got False."
            )
        super().__init__(
            name="DocQA",
            goal="Answer a question about a document.",
            generated=ReportSource(num_pages, categories, file_name, first_label=first_label, label_size=label_size),
            open_dataset=document_source,
            context=DocumentContext(max_pixels=max_pixels, show_sheet=show_sheet, retrieval=retrieval),
            strategies=strategies("direct", "arm"),
            prompt_format=prompt_format,
            task_type=DocQaTask,
            **world_kwargs,
        )
