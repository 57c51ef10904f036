"""What DocQA measures beside the score: similarity of answers, and whether the right pages were looked at."""

from __future__ import annotations

from vlm_envs.qa.qa_context import QAState
from vlm_envs.qa.qa_world import QATask
from vlm_envs.responses.answers import anls, page_accuracy
from vlm_envs.tools.tool_registry import ToolCall, parse_tool_call


class DocQaTask(QATask):
    """One question about a document, one answer."""

    def metrics(self, state: QAState) -> dict[str, float]:
        """Returns those of every question, `anls`, and, where pages hold the answer, `page_accuracy`, `page_recall`.

        `page_accuracy` is MP-DocVQA's, whose models name the page that holds the answer. Choice: the page an agent
        names is the last one that it fetched by its number. `page_recall` is the share of pages with evidence that were
        fetched by number at any time; it is for questions that need several.
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
    """Returns the pages that were fetched by their number, in the order they were."""
    pages = []
    for record in state.calls:
        if record.succeeded and record.name == "doc_page_retrieval_by_index":
            call = parse_tool_call(record.text)
            assert isinstance(call, ToolCall), "a call that succeeded can be read"
            pages.append(int(call.arguments["image_idx"]))  # 3.0 is page 3
    return pages
