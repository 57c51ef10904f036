import collections
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.content.reports.report_questions import CATEGORIES
from vlm_envs.content.reports.report_source import ReportSource
from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.splits import SPLITS, split_of


@pytest.mark.soak
def test_samples_are_found_again_by_their_id():
    rng = np.random.default_rng(0)
    for _ in range(60):
        sample = ReportSource((5, 30)).draw(rng, "train")
        again = ReportSource(5).find(sample.sample_id)
        assert again == sample
        assert again.document == sample.document


@given(st.integers(5, 60), st.sampled_from(CATEGORIES), st.integers(0, 2**63 - 1))
@pytest.mark.soak
def test_every_id_is_a_question_about_pages_that_exist(num_pages, category, seed):
    sample = ReportSource().find(f"report:{num_pages}:{category}:{seed}")
    assert sample.sample_id == f"report:{num_pages}:{category}:{seed}"
    assert sample.category == category
    assert all(2 <= page <= num_pages for page in sample.evidence_pages)
    assert bool(sample.evidence_pages) == (category != "unanswerable")
    assert list(sample.evidence_pages) == sorted(set(sample.evidence_pages))
    assert sample.facts.endswith(".")


@pytest.mark.parametrize("split", SPLITS)
def test_samples_belong_to_their_split(split):
    rng = np.random.default_rng(1)
    for _ in range(10):
        sample = ReportSource(5).draw(rng, split)
        assert split_of(sample.digest.encode()) == split


@pytest.mark.soak
def test_categories_come_as_often_as_promised():
    rng = np.random.default_rng(2)
    counts = collections.Counter(ReportSource(8).draw(rng, "train").category for _ in range(700))
    assert set(counts) == set(CATEGORIES)
    assert 110 < counts["unanswerable"] < 170  # 140
    assert all(60 < counts[category] < 130 for category in CATEGORIES if category != "unanswerable")  # 93


def test_only_the_categories_and_sizes_asked_for():
    source = ReportSource((6, 9), categories=("chart_reading", "page_label"))
    samples = [source.draw(np.random.default_rng(seed), "train") for seed in range(40)]
    assert {sample.category for sample in samples} == {"chart_reading", "page_label"}
    assert {sample.document.num_pages for sample in samples} == {6, 7, 8, 9}


def test_only_unanswerable_questions_if_only_they_are_asked_for():
    sample = ReportSource(5, categories=("unanswerable",)).draw(np.random.default_rng(0), "train")
    assert sample.evidence_pages == ()
    assert sample.key.answers[0] == "Not answerable"


def test_samples_are_small_and_draw_no_page(monkeypatch):
    monkeypatch.setattr("vlm_envs.content.reports.report_rendering.render_pdf", None)
    sample = ReportSource(60).draw(np.random.default_rng(3), "train")
    assert len(pickle.dumps(sample)) < 3_000
    assert pickle.loads(pickle.dumps(sample)).document == sample.document
    assert sample.document.name.endswith(".pdf")
    assert sample.key.question == sample.question


@pytest.mark.soak
def test_the_digest_tells_reports_and_questions_apart():
    samples = [ReportSource().find(f"report:9:{category}:{seed}") for category in CATEGORIES for seed in range(20)]
    assert len({sample.digest for sample in samples}) == len(samples)


@pytest.mark.soak
def test_another_process_finds_the_same_sample():
    sample_id = "report:14:unanswerable:77"
    code = (
        "from vlm_envs.content.reports.report_source import ReportSource;"
        f"sample = ReportSource().find({sample_id!r}); print(sample.digest, sample.question)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    sample = ReportSource().find(sample_id)
    assert out.stdout.strip() == f"{sample.digest} {sample.question}"


@pytest.mark.parametrize(
    "sample_id",
    [
        "",
        "report",
        "report:12:chart_reading",
        "report:4:chart_reading:1",
        "report:61:chart_reading:1",
        "report:12:charts:1",
        "report:12:chart_reading:-1",
        "report:12:chart_reading:01",
        "report:12:chart_reading:9999999999999999999",
        "report:12:chart_reading:1\n",
        "report:١٢:chart_reading:1",
        "scene:12:chart_reading:1",
    ],
)
def test_unreadable_ids_are_refused(sample_id):
    with pytest.raises(LevelError, match=r"report:<pages>:<category>:<seed>"):
        ReportSource().find(sample_id)


@pytest.mark.parametrize(
    "arguments",
    [{"num_pages": 4}, {"num_pages": (5, 61)}, {"num_pages": (9, 8)}, {"categories": ()}, {"categories": ("chart",)}],
)
def test_unusable_settings_are_refused(arguments):
    with pytest.raises(ConfigError):
        ReportSource(**arguments)


def test_all_reports_can_be_called_alike() -> None:
    source = ReportSource(5, file_name="report.pdf")
    drawn = [source.draw(np.random.default_rng(seed), "train") for seed in range(3)]
    assert {sample.document.name for sample in drawn if sample.document is not None} == {"report.pdf"}
    assert [source.find(sample.sample_id) for sample in drawn] == drawn
    assert ReportSource(5).find(drawn[0].sample_id).digest == drawn[0].digest
    with pytest.raises(ConfigError, match=r"file_name .*report\.pdf.*got '\.\./x\.pdf'"):
        ReportSource(5, file_name="../x.pdf")
