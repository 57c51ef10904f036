"""What a reader of the PDF finds: text where text is promised, pictures where it is not, nothing over the edge."""

import hashlib
import io
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.slow import quick
from vlm_envs.content.reports.composition import compose_report
from vlm_envs.content.reports.report_pages import Chart, Paragraph
from vlm_envs.content.reports.report_questions import CATEGORIES, ask
from vlm_envs.content.reports.report_rendering import ReportDocument, render_pdf
from vlm_envs.tools.document_tools import words
from vlm_envs.tools.pdf_documents import PdfDocument
from vlm_envs.tools.tool_errors import ToolError

for package in ("reportlab", "matplotlib", "pypdfium2"):
    pytest.importorskip(package, reason=f"needs {package}: pip install '.[tools]'")

EXTREMES = ("most", "fewest", "largest", "smallest", "larger", "smaller")


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\ufffe", "-").replace("\u00ad", "-"))


@pytest.fixture(scope="module")
def document():
    return ReportDocument.of(26, 8)


@pytest.mark.parametrize("num_pages", quick([5, 60], 5))
def test_the_text_layer_holds_every_word_of_every_page(num_pages):
    """Searching the PDF and searching the report, which is not rendered for it, must find the same."""
    document = ReportDocument.of(num_pages, 8 + num_pages)
    pdf = PdfDocument("report", document.pdf_bytes())
    for number, page in enumerate(document.report.pages, start=1):
        assert sorted(words(document.page_text(number))) == sorted(words(pdf.page_text(number))), page.title
        assert page.label in pdf.page_text(number)


@pytest.mark.parametrize("seed", [0, 1])
def test_evidence_pages_hold_the_words_of_question_and_answer(seed):
    document = ReportDocument.of(24, seed)
    pdf = PdfDocument("report", document.pdf_bytes())
    for category in set(CATEGORIES) - {"unanswerable"}:
        for number in range(6):
            asked = ask(document.report, category, np.random.default_rng(number))
            found = plain(" ".join(pdf.page_text(page) for page in asked.pages)).lower()
            if category not in ("chart_reading", "comparison", "cross_page"):
                assert asked.key.answers[0].lower() in found, asked
            # What months and shares are about is in the picture; what a rule says is worded differently.
            terms = asked.terms[:1] if category == "chart_reading" or asked.template == "rule" else asked.terms
            assert all(term.lower() in found for term in terms if term not in EXTREMES), asked


@pytest.mark.soak
def test_the_values_of_charts_are_in_no_text(document):
    charts = [
        (number, block)
        for number, page in enumerate(document.report.pages, start=1)
        for block in page.blocks
        if isinstance(block, Chart)
    ]
    assert len({chart.kind for _, chart in charts}) >= 2
    pdf = PdfDocument("report", document.pdf_bytes())
    for number, chart in charts:
        found = set(pdf.page_text(number).split())
        assert sum(str(value) in found for value in chart.values) <= 1, "one may be there by chance"
        assert not {"Feb", "Aug", "Nov"} & found


@pytest.mark.soak
def test_the_same_report_gives_the_same_bytes_in_another_process():
    code = (
        "import hashlib; from vlm_envs.content.reports.report_rendering import ReportDocument;"
        "print(hashlib.sha256(ReportDocument.of(9, 3).pdf_bytes()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=dict(os.environ, PYTHONHASHSEED=str(salt)),
        ).stdout.strip()
        for salt in (1, 2)
    ]

    assert runs == [hashlib.sha256(ReportDocument.of(9, 3).pdf_bytes()).hexdigest()] * 2


@pytest.mark.soak
def test_pages_fit_in_every_look():
    """`render_pdf` raises where a page does not fit."""
    for seed in range(6):
        assert ReportDocument.of(14, seed).pdf_bytes().startswith(b"%PDF")


@pytest.mark.soak
def test_nothing_is_drawn_in_the_margins(document):
    for number in range(2, document.num_pages + 1):
        pixels = document.page_picture(number, 800).pixels
        margin = pixels.shape[1] * 17 // 210
        below_head = pixels[pixels.shape[0] // 15 :]
        assert (below_head[:, :margin] == 255).all()
        assert (below_head[:, -margin:] == 255).all()


def test_a_page_that_is_too_full_is_an_error_of_ours():
    report = compose_report(5, 0)
    page = report.pages[2]
    full = replace(page, blocks=(*page.blocks, Paragraph("word " * 3000)))
    with pytest.raises(AssertionError, match=page.title):
        render_pdf(replace(report, pages=(full,)))


@pytest.mark.soak
def test_pdf_has_the_pages_that_the_document_promises(document):
    import pypdfium2

    with pypdfium2.PdfDocument(io.BytesIO(document.pdf_bytes())) as pdf:
        assert len(pdf) == document.num_pages == 26


@pytest.mark.soak
def test_a_page_on_its_own_looks_as_it_does_in_the_whole_file(monkeypatch):
    """Who searches looks at one page; the others are not drawn for that, and that one once."""
    document, drawn = ReportDocument.of(7, 991), []
    whole = PdfDocument("report", document.pdf_bytes())
    monkeypatch.setattr(
        "vlm_envs.content.reports.report_rendering.render_pdf",
        lambda report, *, numbers: drawn.append(numbers) or render_pdf(report, numbers=numbers),
    )
    for number in (1, 2, 5, 7, 5):
        assert document.page_picture(number, 560) == whole.page_picture(number, 560)
    assert drawn == [(1,), (2,), (5,), (7,)]
    assert PdfDocument("page", render_pdf(document.report, numbers=(5,))).num_pages == 1


def test_page_numbers_are_checked_before_anything_is_rendered(document, monkeypatch):
    monkeypatch.setattr("vlm_envs.content.reports.report_rendering.render_pdf", None)
    for number in (0, 27, -1):
        with pytest.raises(ToolError, match="numbered from 1 to 26"):
            document.page_text(number)
