"""Printed numbers that begin anywhere and are large: only who looks at a page knows them."""

import collections
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from vlm_envs.content.reports.composition import MAX_PAGES, MIN_PAGES, Numbering, Numberings, compose_report
from vlm_envs.content.reports.report_pages import Contents, Table
from vlm_envs.content.reports.report_rendering import ReportDocument, render_pdf
from vlm_envs.content.reports.report_source import ReportSource
from vlm_envs.content.reports.subjects import Department, RegionYear
from vlm_envs.errors import ConfigError
from vlm_envs.tools.document_tools import Bm25Retriever, words
from vlm_envs.tools.pdf_documents import PdfDocument


@pytest.mark.parametrize("num_pages", range(MIN_PAGES, MAX_PAGES + 1))
@pytest.mark.sample(8)
def test_a_report_has_as_many_pages_as_asked_for(num_pages):
    assert len(compose_report(num_pages, 11).pages) == num_pages


def test_front_matter_is_roman_and_the_body_starts_at_one():
    labels = [page.label for page in compose_report(60, 4).pages]
    assert labels[:6] == ["", "ii", "iii", "iv", "1", "2"]
    assert len(set(labels)) == 60
    assert [page.label for page in compose_report(5, 0).pages] == ["", "ii", "1", "2", "3"]


def test_appendices_may_be_lettered():
    reports = [compose_report(60, seed) for seed in range(20)]
    lettered = [report for report in reports if report.style.letters_appendix]
    assert 3 < len(lettered) < 17
    assert all(
        [page.label for page in report.pages if page.chapter == "Appendix"] == ["A-1", "A-2", "A-3"][:report_len]
        for report in lettered
        if (report_len := sum(page.chapter == "Appendix" for page in report.pages))
    )


@pytest.mark.parametrize("num_pages", [5, 9, 20, 38, 60])
def test_the_contents_name_every_page_by_its_label(num_pages):
    report = compose_report(num_pages, 2)
    blocks = [block for page in report.pages for block in page.blocks if isinstance(block, Contents)]
    entries = {(title, label) for block in blocks for title, label, _ in block.entries}
    body = [page for page in report.pages if page.chapter]
    assert {(page.title, page.label) for page in body} <= entries
    assert all(len(block.entries) <= 42 for block in blocks)


@pytest.mark.parametrize("num_pages", [5, 6, 7, 30, 60])
@pytest.mark.sample(2)
def test_every_report_has_look_alikes_and_a_department(num_pages):
    for seed in range(30):
        subjects = [page.subject for page in compose_report(num_pages, seed).pages]
        regional = [subject for subject in subjects if isinstance(subject, RegionYear)]
        pairs = collections.Counter(subject.region for subject in regional)
        pairs += collections.Counter(subject.year for subject in regional)
        assert max(pairs.values()) >= 2
        assert any(isinstance(subject, Department) for subject in subjects)


def test_tables_add_up():
    report = compose_report(40, 9)
    tables = [block for page in report.pages for block in page.blocks if isinstance(block, Table) and block.has_total]
    assert len(tables) >= 5
    for table in tables:
        rows = [[int(cell.replace(",", "")) for cell in row[1:]] for row in table.rows]
        assert all(sum(row[:-1]) == row[-1] for row in rows)
        assert [sum(column) for column in zip(*rows[:-1], strict=True)] == rows[-1]


def test_nobody_has_two_posts():
    """Names answer questions, so each stands for one post in one year."""
    text = "\n".join(page.text for page in compose_report(60, 1).pages)
    names = re.findall(r"was led by ([^.]+)\.|Head\n(.+)\nDeputy\n(.+)|Warden\n(.+)", text)
    found = [name for groups in names for name in groups if name]
    assert len(found) > 30
    assert len(found) == len(set(found))


@pytest.mark.soak
def test_another_process_composes_the_same_report():
    code = "from vlm_envs.content.reports.composition import compose_report; print(compose_report(17, 5).digest)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == compose_report(17, 5).digest


def test_digests_differ_by_seed_and_size():
    digests = {compose_report(pages, seed).digest for pages in (5, 6) for seed in range(20)}
    assert len(digests) == 40


for package in ("reportlab", "matplotlib", "pypdfium2", "bm25s"):
    pytest.importorskip(package, reason=f"needs {package}: pip install '.[tools]'")

LARGE = 140


def corners(first_label, seeds):
    """Returns where the large number stands on each page of the bodies, as 112 pixels show it, and the numbers."""
    for seed in seeds:
        document = ReportDocument.of(6, seed, Numbering(first_label(seed), LARGE))
        for number in range(3, 7):
            corner = document.page_picture(number, 112).pixels[5:22, 55:].astype(np.int64)
            yield corner.ravel(), document.report.pages[number - 1].label


def test_usual_reports_are_as_they_were_before_there_were_other_numberings():
    """Digests as this package gave them before."""
    assert compose_report(6, 11).digest == "2abda45b6c0e63472df301a79d3358ff"
    assert compose_report(60, 4).digest == "365e0673e4d311f7e8447d3cc317fae0"
    assert ReportDocument.of(6, 11) == ReportDocument.of(6, 11, Numbering(1, None))
    drawn = [source.draw(np.random.default_rng(5), "test") for source in (ReportSource(), ReportSource(first_label=1))]
    assert drawn[0] == drawn[1]


def test_numbers_go_on_from_the_first_and_the_front_matter_keeps_its_own():
    assert [page.label for page in compose_report(6, 0, Numbering(14)).pages] == ["", "ii", "14", "15", "16", "17"]


def test_nothing_but_numbers_depends_on_the_numbering():
    """The same pages, but for the labels and the lines of the contents."""
    plain, other = compose_report(9, 3), compose_report(9, 3, Numbering(5, LARGE))
    assert plain.digest != other.digest and replace(other.style, label_size=None) == plain.style
    for before, after in zip(plain.pages, other.pages, strict=True):
        assert before.subject == after.subject
        assert before.title == "Contents" or before.blocks == after.blocks


def test_each_first_number_is_as_likely_whatever_the_report():
    firsts = [Numberings.of((1, 6), LARGE).drawn(6, seed).first_label for seed in range(1200)]
    counts = np.bincount(firsts, minlength=7)[1:]
    assert len(counts) == 6 and counts.min() > 150 and counts.max() < 250  # 200, standard deviation 13


@pytest.mark.soak
def test_the_place_does_not_tell_the_number():
    """Who says the most frequent number of each place is right as often as who throws a die."""
    source = ReportSource(6, categories=("page_label",), first_label=(1, 6), label_size=LARGE)
    rng = np.random.default_rng(8)
    table = np.zeros((7, 10), int)
    for _ in range(1200):
        sample = source.draw(rng, "train")
        table[sample.evidence_pages[0], int(sample.key.answers[0])] += 1
    assert table[:3].sum() == 0
    assert 1 / 6 <= table.max(axis=1).sum() / table.sum() < 0.21
    assert table.sum(axis=0).max() / table.sum() < 0.21
    plain = ReportSource(6, categories=("page_label",))
    for _ in range(50):
        sample = plain.draw(rng, "train")
        assert int(sample.key.answers[0]) == sample.evidence_pages[0] - 2


@pytest.mark.parametrize("num_pages", [6, 30])
@pytest.mark.soak
def test_no_text_layer_tells_large_numbers(num_pages):
    """It is the same whatever the numbers are, in the PDF as in the report that is searched."""
    ones, others = (ReportDocument.of(num_pages, 7, Numbering(first, LARGE)) for first in (1, 501))
    pdf = PdfDocument("report", others.pdf_bytes())
    for number in range(1, num_pages + 1):
        assert ones.page_text(number) == others.page_text(number)
        assert sorted(words(pdf.page_text(number))) == sorted(words(others.page_text(number)))


def test_who_searches_for_a_large_number_learns_nothing():
    """A number of the usual size is found on its page and in the contents."""
    small, large = (ReportDocument.of(6, 7, Numbering(501, size)) for size in (None, LARGE))
    assert [sorted(Bm25Retriever().search(each, "503")) for each in (small, large)] == [[2, 5], []]


@pytest.mark.soak
def test_large_numbers_are_read_off_small_pictures():
    """The nearest of pages of other reports, in whichever colours, has the same number."""
    known = list(corners(lambda seed: 1 + seed % 6, range(24)))
    unknown = list(corners(lambda seed: 1 + (seed // 2) % 6, range(1000, 1009)))
    shown = np.stack([corner for corner, _ in known])
    read = [known[np.abs(shown - corner).sum(axis=1).argmin()][1] for corner, _ in unknown]
    assert {label for _, label in unknown} == set("123456789")
    assert np.mean([label == told for label, (_, told) in zip(read, unknown, strict=True)]) >= 0.99


def test_large_numbers_are_thirteen_pixels_high_where_a_page_has_112():
    document = ReportDocument.of(6, 0, Numbering(1, LARGE))
    dark = (document.page_picture(3, 112).pixels[6:24, 60:] < 90).all(axis=2)
    (rows,) = np.nonzero(dark.any(axis=1))
    assert 13 <= rows.max() - rows.min() + 1 <= 15


@pytest.mark.soak
def test_pages_with_large_numbers_fit_in_every_look():
    """`render_pdf` raises where a page does not fit; so large, roman and lettered numbers are set smaller."""
    for num_pages, seed in (*((6, seed) for seed in range(6)), (60, 4)):
        assert render_pdf(compose_report(num_pages, seed, Numbering(880, 160))).startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"first_label": 0}, "first_label must lie between 1 and 900; got 0"),
        ({"first_label": (6, 1)}, "first_label must lie between 1 and 900"),
        ({"first_label": 901}, "first_label must lie between 1 and 900"),
        ({"first_label": "3"}, "first_label must be an integer, or"),
        ({"label_size": 0}, "label_size must be an integer from 24 to 160; got 0"),
        ({"label_size": 140.0}, "label_size must be an integer from 24 to 160"),
    ],
)
def test_unusable_numberings_are_refused(arguments, told):
    with pytest.raises(ConfigError, match=told):
        ReportSource(**arguments)
