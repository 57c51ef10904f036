"""Rows with every field of the published ones, in the types they have there; texts and pictures are invented.

Read off the data cards and released readers in November 2026: V*Bench (penghao-wu/vstar, README and
vstar_bench_eval.py), HR-Bench (its card, hr_bench_4k.tsv), VSR (cambridgeltl/visual-spatial-reasoning, both splits, all
rows of which load), TallyQA (manoja328/tallyqa, README), GQA (questions 1.2 and scene graphs 1.1), TreeVGR-RL (as its
users describe it), PixMo-Count and Video-R1 (as their users' readers describe them), MP-DocVQA (RRC's
question_answers), MMLongBench-Doc (data/samples.json, all rows of which load).
"""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")

from PIL import Image

from tests.unit.vlm_envs.tools.pdfs import pdf
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.document_datasets import DOCUMENT_DATASETS, document_source
from vlm_envs.qa.datasets.image_datasets import DATASETS, VIDEO_DATASETS, dataset_source, video_source
from vlm_envs.qa.sample import Sample
from vlm_envs.responses.answers import score_answer


def picture(form: str = "JPEG", size: tuple[int, int] = (60, 40)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (200, 20, 20)).save(file, form)
    return file.getvalue()


def put(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def boxes(sample: Sample) -> list[tuple[Any, ...]]:
    return [(each.label, each.box.x1, each.box.y1, each.box.x2, each.box.y2) for each in sample.evidence]


def test_vstar(tmp_path):
    row = {
        "target_object": ["bucket", "ladder"],
        "bbox": [[10, 5, 8, 6], [30, 20, 5, 12]],  # x, y, width, height
        "question": "Is the bucket on the left or right side of the ladder?",
        "options": ["The bucket is on the left side of the ladder.", "The bucket is on the right side of the ladder."],
    }
    put(tmp_path / "relative_position" / "sa_86.jpg", picture())
    put(tmp_path / "relative_position" / "sa_86.json", row)
    put(tmp_path / "test_questions.jsonl", {"text": "not read: it has no boxes"})
    (sample,) = map(dataset_source("vstar", tmp_path).find, dataset_source("vstar", tmp_path).ids("test"))
    assert boxes(sample) == [("bucket", 10, 5, 18, 11), ("ladder", 30, 20, 35, 32)]
    assert score_answer(row["options"][0], sample.key) == 1.0 and score_answer(row["options"][1], sample.key) == 0.0


def test_hrbench(tmp_path):
    header = "index\tquestion\tanswer\tcategory\tA\tB\tC\tD\tcycle_category\timage"
    text = base64.b64encode(picture()).decode()
    rows = [f"{n}\tWhat number is it?\t{letter}\tsingle\t2\t3\t4\t5\t{n}\t{text}" for n, letter in enumerate("ADCB")]
    put(tmp_path / "hr_bench_4k.tsv", ("\n".join([header, *rows]) + "\n").encode())
    put(tmp_path / "hr_bench_4k.parquet", b"the same rows again, not read")
    source = dataset_source("hrbench", tmp_path)
    assert source.ids("test") == tuple(f"hrbench:hr_bench_4k/{n}" for n in range(4))
    assert [source.find(each).key.answers for each in source.ids("test")] == [("A",), ("D",), ("C",), ("B",)]


def hrbench_table(path: Path, *, num_groups: int = 1, **changes: Any) -> None:
    """Writes the published columns: a whole number as index, texts otherwise, the image as base64."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install '.[parquet]'")
    pyarrow = pytest.importorskip("pyarrow")
    columns: dict[str, list[Any]] = {"index": [*range(4)], "question": ["What number is it?"] * 4, "answer": [*"ADCB"]}
    columns |= {"category": ["single"] * 4} | {letter: [text] * 4 for letter, text in zip("ABCD", "2345", strict=True)}
    columns |= {"cycle_category": [str(n) for n in range(4)]}
    columns |= {"image": [base64.b64encode(picture(size=(60, 40 + n))).decode() for n in range(4)]}
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table(columns | changes), path, row_group_size=4 // num_groups)


@pytest.mark.parametrize("num_groups", [1, 2])
def test_hrbench_as_parquet(tmp_path, num_groups):
    hrbench_table(tmp_path / "hr_bench_4k.parquet", num_groups=num_groups)
    source = dataset_source("hrbench", tmp_path)
    samples = [*map(source.find, source.ids("test"))]
    assert source.ids("test") == tuple(f"hrbench:hr_bench_4k/{n}" for n in range(4))
    assert [sample.key.answers for sample in samples] == [("A",), ("D",), ("C",), ("B",)]
    assert samples[0].key.options == ("2", "3", "4", "5") and samples[0].category == "single"
    assert [sample.images[0].picture().height for sample in samples] == [40, 41, 42, 43]


def test_hrbench_is_divided_alike_as_tsv_and_as_parquet(tmp_path):
    text = base64.b64encode(picture()).decode()
    header = "index\tquestion\tanswer\tcategory\tA\tB\tC\tD\tcycle_category\timage"
    put(tmp_path / "tsv" / "hr_bench_4k.tsv", f"{header}\n0\tWhat?\tA\tsingle\t2\t3\t4\t5\t0\t{text}\n".encode())
    hrbench_table(tmp_path / "parquet" / "hr_bench_4k.parquet", image=[text] * 4)
    found = [dataset_source("hrbench", tmp_path / name, is_benchmark=False) for name in ("tsv", "parquet")]
    (splits,) = {tuple(bool(each.num_samples(split)) for split in ("train", "val", "test")) for each in found}
    assert sum(splits) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"answer": [*"AEAA"]}, "row 2: expected A, B, C or D as answer; got 'E'"),
        ({"C": ["4", "4", None, "4"]}, "row 3: expected something in column C"),
        ({"image": ["", "aGk=", "aGk=", "aGk="]}, "row 1: expected an image as base64 text"),
    ],
)
def test_broken_rows_of_hrbench_as_parquet_are_named(tmp_path, changes, reason):
    hrbench_table(tmp_path / "hr_bench_8k.parquet", **changes)
    with pytest.warns(UserWarning, match="1 of 4 rows of hrbench"):
        source = dataset_source("hrbench", tmp_path)
    (broken,) = source.broken_rows
    assert broken.startswith(f"hr_bench_8k.parquet, {reason}")


def test_a_cell_of_hrbench_that_is_no_image_is_named_when_it_is_shown(tmp_path):
    hrbench_table(tmp_path / "hr_bench_4k.parquet", image=["no base64!"] * 4)
    source = dataset_source("hrbench", tmp_path)
    with pytest.raises(ConfigError, match=r"hr_bench_4k.parquet, row 1: .* is no base64"):
        source.find("hrbench:hr_bench_4k/0")


@pytest.mark.parametrize(
    "more",
    [
        {"reference_frame": None},  # splits/random
        {"subj": "horse", "obj": "bus"},  # splits/zeroshot
    ],
)
def test_vsr(tmp_path, more):
    row = {
        "image": "000000172406.jpg",
        "image_link": "http://images.cocodataset.org/train2017/000000172406.jpg",
        "caption": "The horse is beside the bus.",
        "label": 0,
        "relation": "beside",
        "annotator_id": 35,
        "vote_true_validator_id": "[]",
        "vote_false_validator_id": "[2, 52, 6]",
    }
    put(tmp_path / "test.jsonl", row | more)
    put(tmp_path / "trainval2017" / row["image"], picture())
    (sample,) = map(dataset_source("vsr", tmp_path).find, dataset_source("vsr", tmp_path).ids("test"))
    assert score_answer("No.", sample.key) == score_answer("False", sample.key) == 1.0
    assert sample.category == "beside"


def test_tallyqa(tmp_path):
    row = {
        "answer": 4,
        "data_source": "imported_genome",
        "image": "VG_100K_2/2410408.jpg",
        "image_id": 92410408,
        "issimple": False,
        "question": "How many lamps does the black van have?",
        "question_id": 30095774,
    }
    put(tmp_path / "test.json", [row])
    put(tmp_path / row["image"], picture())
    (sample,) = map(dataset_source("tallyqa", tmp_path).find, dataset_source("tallyqa", tmp_path).ids("test"))
    assert (sample.category, sample.key.answers) == ("count_complex", ("4",))


@pytest.mark.parametrize(
    ("count", "right", "wrong"),
    [
        (20, ("20", "twenty", "20 lamps", "twenty lamps", "20.0"), ("21", "19", "twenty-one", "20 lamps and 2 vans")),
        (40, ("40", "forty"), ("38", "39", "41", "42", "forty-two")),
    ],
)
def test_a_count_of_tallyqa_must_be_equal(tmp_path, count, right, wrong):
    row = {"answer": count, "image": "VG_100K/1.jpg", "image_id": 1, "question": "How many lamps?", "question_id": 1}
    put(tmp_path / "test.json", [row | {"data_source": "amt", "issimple": True}])
    put(tmp_path / row["image"], picture())
    source = dataset_source("tallyqa", tmp_path)
    key = source.find(source.ids("test")[0]).key
    assert [score_answer(answer, key) for answer in (*right, *wrong)] == [1.0] * len(right) + [0.0] * len(wrong)


def test_questions_about_one_image_are_a_cluster_whatever_its_files_are_called(tmp_path):
    images = {"VG_100K/1.jpg": picture(), "VG_100K/copy.jpg": picture(), "VG_100K/2.png": picture("PNG")}
    for name, content in images.items():
        put(tmp_path / name, content)
    row = {"answer": 4, "question": "How many lamps?", "issimple": True}
    put(tmp_path / "test.json", [row | {"image": name} for name in (*images, "VG_100K/1.jpg")])
    source = dataset_source("tallyqa", tmp_path)
    first, copy, other, again = (source.find(each).cluster for each in source.ids("test"))
    assert first == copy == again != other


def test_gqa(tmp_path):
    question = {
        "semantic": [{"operation": "select", "dependencies": [], "argument": "roof (719060)"}],
        "entailed": ["02930160"],
        "equivalent": ["02930152"],
        "question": "Is the roof dark?",
        "imageId": "2354786",
        "isBalanced": True,
        "groups": {"global": None, "local": "06-roof_dark"},
        "answer": "yes",
        "semanticStr": "select: roof (719060)->verify color: dark [0]",
        "annotations": {"answer": {}, "question": {"2": "719060"}, "fullAnswer": {"2": "719060"}},
        "types": {"detailed": "verifyAttr", "semantic": "attr", "structural": "verify"},
        "fullAnswer": "Yes, the roof is dark.",
    }
    thing = {"name": "roof", "x": 3, "y": 4, "w": 30, "h": 10, "attributes": ["dark"], "relations": []}
    graph = {"width": 60, "height": 40, "location": "street", "weather": "none", "objects": {"719060": thing}}
    put(tmp_path / "val_balanced_questions.json", {"02930152": question})
    put(tmp_path / "val_all_questions.json", {"02930152": question, "02930160": question | {"isBalanced": False}})
    put(tmp_path / "testdev_all_questions.json", {"20": question | {"isBalanced": False}, "201": question})
    put(tmp_path / "submission_all_questions.json", {"7": {"question": "Without an answer?", "imageId": "1"}})
    put(tmp_path / "val_sceneGraphs.json", {"2354786": graph})
    put(tmp_path / "images" / "2354786.jpg", picture())
    source = dataset_source("gqa", tmp_path)
    assert source.ids("val") == ("gqa:val_balanced/02930152",)  # not a second time from the whole file
    assert source.num_samples("test") == 2 and source.num_samples("train") == 0
    assert boxes(source.find("gqa:val_balanced/02930152")) == [("roof", 3, 4, 33, 14)]


def test_treevgr(tmp_path):
    row = {
        "problem": "<image>\nWhat is left of the van?\nA. a tree\nB. a cart",
        "answer": "B",
        "images": ["images/visdrone/1.jpg"],
        "target_instances": [{"name": "cart", "bbox": [5, 6, 20, 25]}],  # x1, y1, x2, y2
    }
    import pyarrow
    from pyarrow import parquet

    put(tmp_path / row["images"][0], picture())
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "vstar30k_visdrone6k_x1y1x2y2.parquet")
    source = dataset_source("treevgr", tmp_path, is_benchmark=True)
    (sample,) = map(source.find, source.ids("test"))
    assert boxes(sample) == [("cart", 5, 6, 20, 25)] and sample.key.answers == ("B",)


@pytest.mark.parametrize("below", ["", "question_answers/"])
def test_mp_docvqa(tmp_path, below):
    row = {
        "questionId": 49153,
        "question": "What is the total?",
        "doc_id": "abcd0123",
        "page_ids": ["abcd0123_p0", "abcd0123_p1"],
        "answers": ["12", "twelve"],
        "answer_page_idx": 1,
        "data_split": "val",
    }
    head = {"dataset_name": "MP-DocVQA", "dataset_split": "val", "dataset_version": "1.0"}
    unanswered = {name: row[name] for name in ("question", "doc_id", "page_ids")}
    put(tmp_path / f"{below}val.json", head | {"data": [row]})
    put(tmp_path / f"{below}test.json", head | {"data": [unanswered | {"questionId": 1}, unanswered | {"answers": []}]})
    for page in row["page_ids"]:
        put(tmp_path / "images" / f"{page}.jpg", picture())
    put(tmp_path / "ocr" / "abcd0123_p1.json", {"LINE": [{"Text": "Total: 12"}], "WORD": []})
    source = document_source("mp_docvqa", tmp_path)
    assert (source.ids("val"), source.num_samples("test")) == (("mp_docvqa:49153",), 0)
    sample = source.find("mp_docvqa:49153")
    assert sample.evidence_pages == (2,) and sample.document.page_text(2) == "Total: 12"


def test_mmlongbench_doc(tmp_path):
    row = {
        "doc_id": "PH_2016.pdf",
        "doc_type": "Research report / Introduction",
        "question": "Which colours does the figure show?",
        "answer": "['gray', 'red']",
        "evidence_pages": "[2]",
        "evidence_sources": "['Figure']",
        "answer_format": "List",
    }
    odd = [
        {"answer": "[]"},
        {"answer": "92"},
        {"answer": "0.66"},
        {"answer": "[1500, 8000]"},
        {"evidence_pages": "[0]"},
        {"answer": "14:04 CET", "answer_format": "Int"},
        {"answer": "21%", "answer_format": "Int"},
        {"answer": " 12.35", "answer_format": "Float"},
        {"answer": "$1577.00", "answer_format": "Float"},
        {"answer": "Not answerable", "answer_format": "None", "evidence_pages": "[]", "evidence_sources": "[]"},
    ]
    put(tmp_path / "samples.json", [row, *(row | changes for changes in odd)])
    put(tmp_path / "documents" / "PH_2016.pdf", pdf(["cover", "a figure"]))
    source = document_source("mmlongbench_doc", tmp_path)
    assert source.num_samples("test") == 11
    answers = ["gray, red", "none", "92", "0.66", "1500, 8000", "gray, red", "14:04 CET", "21", "12.35", "1577"]
    for index, answer in enumerate([*answers, "Not answerable"]):
        assert score_answer(answer, source.sample_at(index, "test").key) == 1.0, answer


def test_pixmo_count(tmp_path):
    import pyarrow
    from pyarrow import parquet

    row = {
        "image_url": "https://farm8.example.com/7/123_b.jpg",
        "image_sha256": "0a" * 32,
        "count": 1,
        "points": {"x": [12.5], "y": [30.0]},
        "label": "butterflys",
    }
    put(tmp_path / "images" / f"{row['image_sha256']}.jpg", picture())
    (tmp_path / "data").mkdir()
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "data" / "validation-00000-of-00001.parquet")
    source = dataset_source("pixmo_count", tmp_path)
    (sample,) = map(source.find, source.ids("val"))
    (evidence,) = sample.evidence
    assert (evidence.label, evidence.point.x, evidence.point.y) == ("butterflys", 12.5, 30.0)


def test_video_r1(tmp_path):
    row = {
        "problem_id": 7,
        "problem": "What happens first?",
        "data_type": "video",
        "problem_type": "multiple choice",
        "options": ["A. It falls.", "B. It stands."],
        "process": "<think>It is still on the table at first.</think>",  # of the COT file
        "solution": "<answer>B</answer>",
        "path": "./NeXT-QA/1164/3238737531.mp4",
        "data_source": "NeXT-QA",
    }
    put(tmp_path / "Video-R1-COT-165k.json", [row])
    for frame in (1, 2):
        put(tmp_path / "NeXT-QA" / "1164" / "3238737531" / f"{frame:04d}.jpg", picture())
    source = video_source("video_r1", tmp_path, is_benchmark=True)
    (sample,) = map(source.find, source.ids("test"))
    assert score_answer("It stands.", sample.key) == 1.0 and sample.times_s == (0.0, 0.5)


def test_every_published_data_set_is_here():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    own = {"pdf_folder", "image_folder"}
    assert (DATASETS.keys() | VIDEO_DATASETS.keys() | DOCUMENT_DATASETS.keys()) - own <= tested
