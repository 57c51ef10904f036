"""The track `document`: paragraphs about a long report, in which one claim may be wrong.

Claims use the same facts as questions about reports. A wrong figure is printed elsewhere in the same report,
often on a similar page. Claiming that the report does not answer a question is wrong if it does; an answer is
wrong if it does not.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from vlm_envs.content.judging.claims import Claim, Dispute, draw_dispute, topics, write_candidates
from vlm_envs.content.judging.judging_cases import Case, shown_candidates
from vlm_envs.content.random_choice import pick
from vlm_envs.content.reports.composition import Report
from vlm_envs.content.reports.page_questions import CHART, Asked, absent_fact, facts_of
from vlm_envs.content.reports.report_rendering import ReportDocument
from vlm_envs.content.reports.subjects import grouped
from vlm_envs.errors import ConfigError
from vlm_envs.qa.sample import Sample
from vlm_envs.responses.numbers import read_number

_FLAWS = {
    "wrong_name": (
        *("chair", "manager", "head", "deputy", "approved_by", "warden", "project_lead", "owner", "spokesperson"),
        "watcher",
    ),
    "wrong_date": (
        *("founded", "since", "approved_in", "project_start", "elected", "bar_most", "bar_fewest", "line_most"),
        "line_least",
    ),
    "wrong_place": ("seat",),
    "wrong_term": ("project_status", "largest_share", "risk", "term"),
}
"""Kinds of flaws by the template of the fact; all other templates are figures."""

_FLAW_OF = {template: flaw for flaw, templates in _FLAWS.items() for template in templates}
_NUM_ABSENT = 8
"""Facts missing from a report, drawn for each case."""

_LEAST_APART = 0.2
"""Values read off a chart differ by at least this fraction of the larger one, so that they can be told apart."""

_STATED, _REFUSED = "stated", "refused"
_LOWERED = ("In", "The", "Of", "A")
_CHART_VALUES = ("bar_value", "share")
"""Templates of values that are drawn and not always printed next to the drawing."""

_OPENINGS = (
    "",
    "This is what the report tells.",
    "The pages in question say the following.",
    "Having looked it up, I can say this.",
)


def draw_document_case(rng: np.random.Generator, question: Sample, *, num_candidates: int) -> Case | None:
    """Draws a case about the report of a question, its candidates in random order.

    Args:
        rng: The only source of randomness.
        question: A sample of a `ReportSource`; only its document is used.
        num_candidates: 1, 2 or 4. A single one is right half the time.

    Returns:
        The case; None if the report offers none, or if the chart values in dispute are too close together.

    Raises:
        ConfigError: If the question is not about a generated report.
    """
    document = question.document
    if not isinstance(document, ReportDocument):
        raise ConfigError(
            f"The track document needs a question about a generated report; got {question.sample_id[:80]!r}."
        )
    dispute = draw_dispute(rng, document_claims(rng, document.report), max(2, num_candidates))
    if dispute is None or not _is_legible(dispute):
        return None
    asked = " ".join(topics(rng, dispute))
    written = write_candidates(rng, dispute, opening=_OPENINGS)
    if written is None:
        return None
    decisive = dispute.decisive(num_candidates)
    return Case(
        track="document",
        request=f"Answer from the report {document.name}, in one short paragraph: {asked}",
        candidates=shown_candidates(rng, written, num_candidates),
        document=document,
        evidence_pages=tuple(dict.fromkeys(page for claim in decisive for page in claim.pages)),
        facts=" ".join(claim.fact for claim in decisive),
    )


def document_claims(rng: np.random.Generator, report: Report) -> dict[str, Sequence[Claim]]:
    """Returns claims about a report, grouped by kind of fact.

    Args:
        rng: Draws facts missing from the report.
        report: The report.
    """
    groups: dict[str, list[Claim]] = {}
    found: dict[str, list[tuple[Asked, str, int]]] = {}
    for number, page in enumerate(report.pages, start=1):
        for fact in facts_of(page.subject, report.organisation):
            value = _value_in(fact)
            if value:
                found.setdefault(fact.template, []).append((fact, value, number))
                groups.setdefault(_group(fact), []).append(_claim(fact, value, number))
    groups["page:label"] = list(_labels(report))
    for template, absent in _absent(rng, report).items():
        present = found.get(template, [])
        if present:
            values = [value for _, value, _ in present]
            groups[f"answer:{template}"] = [
                *(_answered(fact, value, number) for fact, value, number in present),
                *(_unanswered(rng, fact, reason, values) for fact, reason in absent),
            ]
    return dict(groups)


def _group(fact: Asked) -> str:
    """Returns the group of a fact. Its family is its kind of flaw; chart values are separate from printed ones.

    A count takes values of the same line in other quarters, years, and regions. Each rule is a group of its
    own, because common sense would reveal that another rule's number is wrong.
    """
    flaw = _FLAW_OF.get(fact.template, "wrong_figure")
    family = "chart" if fact.category == CHART and flaw == "wrong_figure" else flaw
    detail = {"count": fact.terms[2:3], "rule": fact.terms[1:2]}.get(fact.template, ())
    return ":".join((family, fact.template, *detail))


def _claim(fact: Asked, value: str, number: int) -> Claim:
    head, tail = _split(fact.facts, value)
    return Claim(
        topic=fact.question,
        wordings=_wordings(f"{head}{{value}}{tail}"),
        value=value,
        subjects=frozenset((f"page {number}",)),
        flaw=_FLAW_OF.get(fact.template, "wrong_figure"),
        is_reading=fact.template in _CHART_VALUES,
        pages=(number,),
    )


def _wordings(sentence: str) -> tuple[str, ...]:
    """Returns several ways to state a sentence."""
    first, _, rest = sentence.partition(" ")
    lowered = f"{first.lower()} {rest}" if first in _LOWERED else sentence
    return (sentence, f"According to the report, {lowered}", f"The report has it that {lowered}")


def _value_in(fact: Asked) -> str:
    """Returns the answer as written in a fact's sentence; empty unless it occurs there exactly once."""
    answers = [grouped(int(answer)) for answer in fact.key.answers if answer.isdigit()]
    return next((answer for answer in (*answers, *fact.key.answers) if len(_places(fact.facts, answer)) == 1), "")


def _places(sentence: str, value: str) -> list[int]:
    return [match.start() for match in re.finditer(rf"(?<![\w,.-]){re.escape(value)}(?![\w-]|[,.]\d)", sentence)]


def _split(sentence: str, value: str) -> tuple[str, str]:
    (start,) = _places(sentence, value)
    return sentence[:start], sentence[start + len(value) :]


def _labels(report: Report) -> Iterator[Claim]:
    """Yields claims about printed page numbers, for pages with a unique title.

    Roman numerals and appendix numbers are omitted: they reveal the position of the page.
    """
    titles = Counter(page.title for page in report.pages)
    for number, page in enumerate(report.pages, start=1):
        if page.label.isdigit() and titles[page.title] == 1:
            yield Claim(
                topic=f"Which page number is printed on the page “{page.title}”?",
                wordings=(
                    f"The page “{page.title}” carries the printed number {{value}}.",
                    f"The number printed on the page “{page.title}” is {{value}}.",
                ),
                value=page.label,
                subjects=frozenset((f"page {number}",)),
                flaw="wrong_page",
                pages=(number,),
            )


def _absent(rng: np.random.Generator, report: Report) -> dict[str, list[tuple[Asked, str]]]:
    """Returns facts missing from a report, each with the reason, by template."""
    drawn = [absent_fact(report, rng) for _ in range(_NUM_ABSENT)]
    found: dict[str, list[tuple[Asked, str]]] = {}
    for pair in drawn:
        if pair is not None and pair[0].template != "rule" and _value_in(pair[0]):
            found.setdefault(pair[0].template, []).append(pair)
    return found


def _answered(fact: Asked, value: str, number: int) -> Claim:
    """Returns the claim that the report answers a question; denying it is wrong."""
    claim = _claim(fact, value, number)
    return Claim(
        topic=claim.topic,
        wordings=claim.wordings,
        value=_STATED,
        subjects=claim.subjects,
        flaw="answerable_refused",
        forms=((_STATED, claim.sentences(value)), (_REFUSED, _refusals(fact.question))),
        truth=fact.facts,
        pages=claim.pages,
    )


def _unanswered(rng: np.random.Generator, fact: Asked, reason: str, values: Sequence[str]) -> Claim:
    """Returns the claim that the report does not answer a question; answering it is wrong.

    The wrong answer is printed elsewhere in the report.
    """
    value = pick(rng, values)
    head, tail = _split(fact.facts, _value_in(fact))
    stated = tuple(text.replace("{value}", value) for text in _wordings(f"{head}{{value}}{tail}"))
    return Claim(
        topic=fact.question,
        wordings=stated,
        value=_REFUSED,
        subjects=frozenset((fact.question,)),
        flaw="unanswerable_answered",
        forms=((_STATED, stated), (_REFUSED, _refusals(fact.question))),
        truth=reason,
    )


def _refusals(question: str) -> tuple[str, ...]:
    return (
        f"The report does not answer this question: “{question}”",
        f"To the question “{question}” the report gives no answer.",
        f"Nothing in the report answers the question “{question}”",
    )


def _is_legible(dispute: Dispute) -> bool:
    """Returns whether disputed chart values are far enough apart."""
    if not dispute.claim.is_reading:
        return True
    values = (dispute.claim.value, *dispute.wrong)
    numbers = sorted(number for value in values if (number := read_number(value)) is not None)
    return all(high - low >= _LEAST_APART * high for low, high in itertools.pairwise(numbers))
