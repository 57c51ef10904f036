import collections
import re
import subprocess
import sys

import pytest

from vlm_envs.content.reports.composition import MAX_PAGES, MIN_PAGES, compose_report
from vlm_envs.content.reports.report_pages import Contents, Table
from vlm_envs.content.reports.subjects import Department, RegionYear


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
