"""Loaders, each on a few rows in the layout of the original data, whole and broken."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from PIL import Image

from tests.unit.vlm_envs.tools.pdfs import pdf
from vlm_envs.errors import ConfigError, GenerationError, LevelError
from vlm_envs.qa.datasets.document_datasets import document_source
from vlm_envs.qa.document_context import DocumentContext
from vlm_envs.responses.answers import score_answer
from vlm_envs.splits import SPLITS, split_of
from vlm_envs.tools.tool_errors import ToolError

for package in ("pypdfium2", "bm25s", "pydantic"):
    pytest.importorskip(package, reason=f"needs {package}: pip install '.[tools]'")

RNG = np.random.default_rng(0)


# --- MP-DocVQA ---------------------------------------------------------------------------------------------------


def mp_row(number=49153, **changes):
    row = {
        "questionId": number,
        "question": "What is the date of the letter?",
        "doc_id": "pybv0228",
        "page_ids": ["pybv0228_p80", "pybv0228_p81", "pybv0228_p82"],
        "answers": ["4 May 1973", "May 4, 1973"],
        "answer_page_idx": 1,
        "data_split": "val",
    }
    return {key: value for key, value in (row | changes).items() if value is not ...}  # `...` takes a key out.


@pytest.fixture
def mp_folder(tmp_path):
    def write(*rows, split="val"):
        (tmp_path / f"{split}.json").write_text(json.dumps({"dataset_name": "MP-DocVQA", "data": list(rows)}))
        (tmp_path / "images").mkdir(exist_ok=True)
        for index, grey in enumerate((40, 120, 200)):
            picture = Image.new("RGB", (60, 90), (grey,) * 3)
            picture.save(tmp_path / "images" / f"pybv0228_p{80 + index}.jpg")
        return tmp_path

    return write


def test_mp_docvqa(mp_folder):
    source = document_source("mp_docvqa", mp_folder(mp_row(), mp_row(7, answer_page_idx=0)))
    sample = source.find("mp_docvqa:49153")
    assert sample.evidence_pages == (2,)
    assert sample.document.num_pages == 3
    assert sample.document.name == "pybv0228"
    assert abs(int(sample.document.page_picture(2).pixels[0, 0, 0]) - 120) <= 2
    assert score_answer("4 may 1973", sample.key) == 1.0
    assert {source.draw(RNG, "val").sample_id for _ in range(40)} == {"mp_docvqa:49153", "mp_docvqa:7"}
    assert pickle.loads(pickle.dumps(sample)).document == sample.document
    assert source.ids("val") == ("mp_docvqa:49153", "mp_docvqa:7")


def test_mp_docvqa_keeps_its_own_splits(mp_folder):
    mp_folder(mp_row(1), split="train")
    source = document_source("mp_docvqa", mp_folder(mp_row(2)))
    assert source.draw(RNG, "train").sample_id == "mp_docvqa:1"
    with pytest.raises(GenerationError, match="train 1, val 1, test 0"):
        source.draw(RNG, "test")


def test_mp_docvqa_leaves_out_test_rows_without_answers(mp_folder):
    mp_folder(mp_row(1, answers=..., answer_page_idx=...), split="test")
    assert document_source("mp_docvqa", mp_folder(mp_row(2))).num_samples("test") == 0


def test_mp_docvqa_is_searched_by_its_ocr(mp_folder):
    folder = mp_folder(mp_row())
    (folder / "ocr").mkdir()
    (folder / "ocr" / "pybv0228_p81.json").write_text(
        json.dumps({"LINE": [{"Text": "Dear Sir,"}, {"Text": "4 May 1973"}], "WORD": [{"Text": "Dear"}]})
    )
    document = document_source("mp_docvqa", folder).find("mp_docvqa:49153").document
    assert document.page_text(2) == "Dear Sir,\n4 May 1973"
    assert document.page_text(1) == ""


@pytest.mark.parametrize("content", ["", "[]", '{"LINE": [1]}', '{"LINE": [{}]}', "[" * 1500])
def test_ocr_that_is_none_is_explained(mp_folder, content):
    folder = mp_folder(mp_row())
    (folder / "ocr").mkdir()
    (folder / "ocr" / "pybv0228_p81.json").write_text(content)
    document = document_source("mp_docvqa", folder).find("mp_docvqa:49153").document
    with pytest.raises(ToolError, match="is no OCR of a page"):
        document.page_text(2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question": ...}, "val.json, row 2: expected a text as 'question'; got None"),
        ({"question": "  "}, "val.json, row 2: expected a text as 'question'; got '  '"),
        ({"answers": []}, "val.json, row 2: expected a list of texts as 'answers'"),
        ({"answers": [""]}, "val.json, row 2: expected a list of texts as 'answers'"),
        ({"answer_page_idx": 3}, "val.json, row 2: expected an index of the 3 'page_ids' as 'answer_page_idx'; got 3"),
        ({"answer_page_idx": True}, "val.json, row 2: expected a whole number from 0 as 'answer_page_idx'"),
        ({"answer_page_idx": "1"}, "val.json, row 2: expected a whole number from 0 as 'answer_page_idx'"),
        (
            {"page_ids": ["../../outside/secret.txt"], "answer_page_idx": 0},
            "val.json, row 2: expected as 'page_ids' files inside the folder",
        ),
        ({"doc_id": "<answer>"}, "val.json, row 2: expected as 'doc_id' a file inside the folder"),
        ({"questionId": None}, "val.json, row 2: expected a number or a text as 'questionId'"),
        ({"questionId": "a b"}, "val.json, row 2: expected an id of letters, digits and _ . -; got 'a b'"),
        ({"questionId": 1}, "val.json, row 2: expected an id other than that of val.json, row 1"),
    ],
)
def test_broken_rows_of_mp_docvqa_are_named_and_left_out(mp_folder, changes, message):
    with pytest.warns(UserWarning, match=f"1 of 2 rows of mp_docvqa. {message}"):
        source = document_source("mp_docvqa", mp_folder(mp_row(1), mp_row(**({"number": 2} | changes))))
    assert source.ids("val") == ("mp_docvqa:1",) and len(source.broken_rows) == 1


def test_missing_and_escaping_pictures_are_named(mp_folder):
    folder = mp_folder(mp_row(1, page_ids=["pybv0228_p99"], answer_page_idx=0))
    with pytest.raises(ConfigError, match=r"val.json, row 1: There is no picture of the page 'pybv0228_p99'"):
        document_source("mp_docvqa", folder).find("mp_docvqa:1")
    with pytest.raises(ConfigError, match=r"files inside the folder, without '\.\.'"):
        document_source("mp_docvqa", mp_folder(mp_row(1, page_ids=["../secret"], answer_page_idx=0)))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"data": 3}', '{"data": [3]}', "[" * 1500])
def test_files_that_are_no_mp_docvqa_are_refused(tmp_path, content):
    (tmp_path / "val.json").write_text(content)
    with pytest.raises(ConfigError, match=r"val\.json"):
        document_source("mp_docvqa", tmp_path)


# --- MMLongBench-Doc ---------------------------------------------------------------------------------------------


def long_row(**changes):
    row = {
        "doc_id": "PH_2016.06.08_Economy-Final.pdf",
        "doc_type": "Research report / Introduction",
        "question": "How many regions does the chart show?",
        "answer": "4",
        "evidence_pages": "[2, 3]",
        "evidence_sources": "['Chart']",
        "answer_format": "Int",
    }
    return row | changes


@pytest.fixture
def long_folder(tmp_path):
    def write(*rows):
        (tmp_path / "samples.json").write_text(json.dumps(list(rows)))
        (tmp_path / "documents").mkdir(exist_ok=True)
        content = pdf(["cover", "four regions in a chart", "more about regions"])
        (tmp_path / "documents" / "PH_2016.06.08_Economy-Final.pdf").write_bytes(content)
        return tmp_path

    return write


def test_mmlongbench_doc(long_folder):
    source = document_source("mmlongbench_doc", long_folder(long_row()))
    sample = source.draw(RNG, "test")
    assert sample.sample_id == "mmlongbench_doc:1"
    assert sample.evidence_pages == (2, 3)
    assert sample.category == "chart"
    assert sample.document.num_pages == 3
    assert "four regions" in sample.document.page_text(2)
    calls = DocumentContext().planned_calls(sample, 4)
    assert [json.loads(call)["arguments"].get("image_idx") for call in calls] == [None, 2, 3]
    assert pickle.loads(pickle.dumps(sample)).document.page_text(2) == sample.document.page_text(2)


@pytest.mark.parametrize(
    ("changes", "right", "wrong"),
    [
        ({"answer": "1200", "answer_format": "Int"}, "1,200", "1201"),
        ({"answer": 12, "answer_format": "Int"}, "12", "13"),
        ({"answer": "12.5", "answer_format": "Float"}, "12.4", "14"),
        ({"answer": "1200", "answer_format": "Int"}, "twelve hundred people", "1,000"),
        ({"answer": "12", "answer_format": "Int"}, "twelve", "12.5"),
        ({"answer": "45%", "answer_format": "Float"}, "45", "60"),
        ({"answer": "45%", "answer_format": "Float"}, "0.45", "0.47"),
        ({"answer": "0.45", "answer_format": "Float"}, "45%", "0.47"),
        ({"answer": "0.45", "answer_format": "Float"}, "0.4520", "0.44"),
        ({"answer": "0.03", "answer_format": "Float"}, "3 %", "0.08"),
        ({"answer": "3.14", "answer_format": "Float"}, "3.15", "3.29"),
        ({"answer": 0.45, "answer_format": "Float"}, "45 percent", "47"),
        ({"answer": "Page 12", "answer_format": "Str"}, "page 12", "Page 13"),
        ({"answer": "2024-05-06", "answer_format": "Str"}, "2024-05-06", "2024-05-07"),
        ({"answer": "https://a.example/b1", "answer_format": "Str"}, "https://a.example/b1.", "https://a.example/b2"),
        ({"answer": "eval_score.py", "answer_format": "Str"}, "`eval_score.py`", "eval_scores.py"),
        ({"answer": "555-0142", "answer_format": "Str"}, "555-0142", "555-0143"),
        ({"answer": "+1 (555) 010-4200", "answer_format": "Str"}, "+1 (555) 010-4200", "+1 (555) 010-4201"),
        ({"answer": "a.b@mail.example", "answer_format": "Str"}, "A.B@mail.example", "a.c@mail.example"),
        ({"answer": "Facebook", "answer_format": "Str"}, "`FACEBOOK`", "Instagram"),
        ({"answer": "['12','15','18']", "answer_format": "List"}, "18, 12, 15", "12, 15, 19"),
        ({"answer": "['12','15','18']", "answer_format": "List"}, "[12, 15, 18]", "12, 15"),
        ({"answer": "['Alice','Bob']", "answer_format": "List"}, "Bob, Alice", "Alice"),
        ({"answer": "['Facebook', 'Instagram']", "answer_format": "List"}, "Instagram and Facebook", "Facebook, X"),
        ({"answer": "Pew Research", "answer_format": "Str"}, "pew research", "Gallup"),
        ({"answer": "['north', 'south']", "answer_format": "List"}, "north, south", "east"),
        ({"answer": "[]", "answer_format": "List"}, "An empty list.", "red"),
        ({"answer": "92", "answer_format": "List"}, "92", "17"),
        ({"answer": "Not answerable", "answer_format": "None"}, "Not answerable.", "4"),
        (
            {"answer": "Not answerable", "answer_format": "None"},
            "The document does not contain the answer",
            "Answerable",
        ),
    ],
)
def test_answers_are_compared_by_their_format(long_folder, changes, right, wrong):
    key = document_source("mmlongbench_doc", long_folder(long_row(**changes))).find("mmlongbench_doc:1").key
    assert score_answer(right, key) == 1.0
    assert score_answer(wrong, key) == 0.0


@pytest.mark.parametrize(
    ("truth", "said", "score"), [("May 6, 2024", "May 7, 2024", 10 / 11), ("report.txt", "reports.txt", 10 / 11)]
)
def test_dates_in_words_and_other_files_are_compared_by_anls_as_the_benchmark_does(long_folder, truth, said, score):
    row = long_row(answer=truth, answer_format="Str")
    key = document_source("mmlongbench_doc", long_folder(row)).find("mmlongbench_doc:1").key
    assert score_answer(truth, key) == 1.0
    assert score_answer(said, key) == pytest.approx(score)


def test_categories_are_where_the_evidence_is(long_folder):
    rows = [
        long_row(evidence_sources="['Pure-text (Plain-text)']"),
        long_row(evidence_sources="['Chart', 'Table']"),
        long_row(evidence_sources="[]"),
        long_row(answer_format="None", answer="Not answerable", evidence_pages="[]", evidence_sources="[]"),
    ]
    source = document_source("mmlongbench_doc", long_folder(*rows))
    found = [source.find(f"mmlongbench_doc:{number}").category for number in (1, 2, 3, 4)]
    assert found == ["pure_text_plain_text", "several_sources", "other", "unanswerable"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"evidence_pages": "__import__('os').mkdir('owned')"},
            "row 1: expected a Python literal .* as 'evidence_pages'",
        ),
        ({"evidence_pages": "[" * 250}, "row 1: expected a Python literal .* as 'evidence_pages'"),
        ({"evidence_pages": "[-1]"}, "row 1: expected a list of page numbers from 1 as 'evidence_pages'"),
        ({"evidence_pages": "[True]"}, "row 1: expected a list of page numbers from 1 as 'evidence_pages'"),
        ({"evidence_pages": "'2'"}, "row 1: expected a list of page numbers from 1 as 'evidence_pages'"),
        ({"answer": "[x for x in y]", "answer_format": "List"}, "row 1: expected a Python literal .* as 'answer'"),
        ({"answer": "{}", "answer_format": "List"}, "row 1: expected a list as 'answer'"),
        ({"answer_format": "Date"}, "row 1: expected one of Int, Float, Str, List, None as 'answer_format'"),
        ({"doc_id": "../samples.json"}, "row 1: expected as 'doc_id' a file inside"),
        ({"doc_id": "/outside/secret.txt"}, "row 1: expected as 'doc_id' a file inside"),
        ({"evidence_sources": "3"}, "row 1: expected a list of texts as 'evidence_sources'"),
    ],
)
def test_broken_rows_of_mmlongbench_are_named(long_folder, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f"samples.json, {message}"):
        document_source("mmlongbench_doc", long_folder(long_row(**changes)))
    assert not (tmp_path / "owned").exists()


def test_documents_that_are_missing_or_too_short_are_named(long_folder):
    source = document_source("mmlongbench_doc", long_folder(long_row(doc_id="gone.pdf")))
    with pytest.raises(ConfigError, match=r"samples.json, row 1: There is no file 'gone.pdf'"):
        source.find("mmlongbench_doc:1")


def test_pages_that_a_published_document_does_not_have_are_left_out(long_folder):
    """Three published rows have their evidence on page 0."""
    source = document_source(
        "mmlongbench_doc", long_folder(long_row(evidence_pages="[0]"), long_row(evidence_pages="[2, 4]"))
    )
    assert [source.find(f"mmlongbench_doc:{number}").evidence_pages for number in (1, 2)] == [(), (2,)]


def test_pages_that_a_document_of_ones_own_does_not_have_are_the_rows_fault(pdf_folder):
    source = document_source(
        "pdf_folder", pdf_folder('{"document": "a.pdf", "question": "q", "answer": "1", "pages": [3]}')
    )
    with pytest.raises(ConfigError, match=r"questions.jsonl, line 1: expected pages from 1 to the document's 2"):
        source.find("pdf_folder:1")


# --- Any PDF files -----------------------------------------------------------------------------------------------


@pytest.fixture
def pdf_folder(tmp_path):
    def write(*lines, file="questions.jsonl"):
        (tmp_path / file).write_text("\n".join(lines))
        for name in ("a.pdf", "b.pdf"):
            (tmp_path / name).write_bytes(pdf([f"first page of {name}", "the sum is 42"]))
        return tmp_path

    return write


def test_a_folder_of_pdf_files(pdf_folder):
    rows = [
        {
            "document": "a.pdf",
            "question": "What is the sum?",
            "answer": ["42", "forty-two"],
            "pages": [2],
            "kind": "exact",
        },
        {"document": "b.pdf", "question": "What is it?", "answer": "a page", "category": "Plain Text", "split": "val"},
    ]
    source = document_source("pdf_folder", pdf_folder(*map(json.dumps, rows)))
    first, second = source.find("pdf_folder:1"), source.find("pdf_folder:2")
    assert score_answer("Forty-two", first.key) == 1.0
    assert (first.evidence_pages, second.evidence_pages) == ((2,), ())
    assert (first.category, second.category) == ("document", "plain_text")
    assert source.draw(RNG, "val") == second or split_of(b"a.pdf") == "val"
    assert first.digest != second.digest


def test_windows_of_a_document_are_one_cluster(mp_folder):
    rows = [mp_row(1), mp_row(2, page_ids=["pybv0228_p82"], answer_page_idx=0), mp_row(3, doc_id="another")]
    source = document_source("mp_docvqa", mp_folder(*rows))
    first, window, other = (source.find(each).cluster for each in source.ids("val"))
    assert first == window != other


@pytest.mark.parametrize(("answer", "accepted"), [(3, ("3",)), (2.0, ("2",)), ([3, "three"], ("3", "three"))])
def test_answers_in_a_folder_of_pdf_files_may_be_numbers(pdf_folder, answer, accepted):
    row = {"document": "a.pdf", "question": "q", "answer": answer}
    key = document_source("pdf_folder", pdf_folder(json.dumps(row))).find("pdf_folder:1").key
    assert (key.kind, key.answers) == ("anls", accepted)


def test_all_questions_about_a_document_are_in_one_split(pdf_folder):
    rows = [{"document": "a.pdf", "question": f"Question {n}?", "answer": "42"} for n in range(9)]
    source = document_source("pdf_folder", pdf_folder(json.dumps(rows), file="questions.json"))
    assert {source.draw(RNG, split_of(b"a.pdf")).sample_id for _ in range(80)} == {
        f"pdf_folder:{n}" for n in range(1, 10)
    }
    others = {"train", "val", "test"} - {split_of(b"a.pdf")}
    for split in others:
        with pytest.raises(GenerationError):
            source.draw(RNG, split)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "questions.jsonl, line 2: expected a JSON object"),
        ("3", "questions.jsonl, line 2: expected a JSON object"),
        ('{"document": "a.pdf", "question": "q"}', r"questions.jsonl, line 2: expected .* as 'answer'"),
        (
            '{"document": "a.pdf", "question": "q", "answer": "1", "kind": "fuzzy"}',
            "line 2: expected one of anls, exact, number, semantic as 'kind'",
        ),
        (
            '{"document": "a.pdf", "question": "q", "answer": "1", "pages": 2}',
            "line 2: expected a list of page numbers from 1 as 'pages'",
        ),
        (
            '{"document": "a.pdf", "question": "q", "answer": "1", "split": "dev"}',
            "line 2: expected one of train, val, test as 'split'",
        ),
        ('{"document": "../a.pdf", "question": "q", "answer": "1"}', "line 2: expected as 'document' a file inside"),
    ],
)
def test_broken_lines_are_named_and_left_out(pdf_folder, line, message):
    good = '{"document": "a.pdf", "question": "q", "answer": "1"}'
    with pytest.warns(UserWarning, match=message):
        source = document_source("pdf_folder", pdf_folder(good, line, good))
    assert {each for split in SPLITS for each in source.ids(split)} == {"pdf_folder:1", "pdf_folder:3"}


def test_ids_kinds_and_options_are_explained(pdf_folder):
    folder = pdf_folder('{"document": "a.pdf", "question": "q", "answer": "1"}')
    source = document_source("pdf_folder", folder)
    for sample_id in ("pdf_folder:2", "mp_docvqa:1", "1", ""):
        with pytest.raises(LevelError, match="look like pdf_folder:1"):
            source.find(sample_id)
    with pytest.raises(ConfigError, match="Did you mean 'mp_docvqa'"):
        document_source("mp_docvq", folder)
    with pytest.raises(ConfigError, match=r"a folder of PDF files with questions\.jsonl or"):
        document_source("pdf_folder", folder.parent)
    with pytest.raises(ConfigError, match="is not a folder"):
        document_source("mp_docvqa", folder / "nowhere")
