"""Judging rows built from right responses: wrong ones are added, and broken rows are reported and skipped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from tests.unit.agents.api.conftest import endpoint, environment  # noqa: F401 - fixtures
from training.__main__ import main
from training.curation.curation_config import NOBODY, PairsConfig
from training.curation.preference_pairs import build_pairs, read_questions, similarity
from vlm_envs.content.judging.judging_datasets import judging_dataset
from vlm_envs.errors import ConfigError

CAT = {"question": "What sits there?", "response": "A grey cat sits on the mat.", "image": "cat.png", "answer": "grey"}


def written(folder: Path, *rows: object) -> Path:
    Image.new("RGB", (60, 40), (90, 90, 90)).save(folder / "cat.png")
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def built(folder: Path, **changes):
    file, told = build_pairs(PairsConfig(folder=str(folder), **changes))
    return [json.loads(line) for line in file.read_text().splitlines()], told


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ("A grey cat.", "a grey CAT", 1.0),
        ("a grey cat", "a red cat", 2 / 3),
        ("a cat", "a grey cat", 2 / 3),
        ("one two three four", "five six", 0.0),
        ("", "", 1.0),
        ("word", "", 0.0),
    ],
)
def test_similarity_is_of_words(first, second, alike):
    assert similarity(first, second) == similarity(second, first) == pytest.approx(alike)


def test_what_is_too_similar_or_right_after_all_is_dropped_and_counted(tmp_path):
    wrong = [
        "a grey cat sits on the mat",  # the same but for case and full stop
        "A grey dog sits on the mat.",  # 6 of 7 words
        "There is a red cat; grey it is not.",  # holds the answer
        "No animal is there, the mat is bare.",
        "No animal is there, the mat is bare!",
        "Two dogs sleep there.",
    ]
    rows, told = built(written(tmp_path, CAT | {"wrong": wrong}), max_similarity=0.8)
    assert told.dropped_wrong == {"holds the right answer": 3, "said twice": 1}, "what holds the answer comes first"
    assert [row["responses"] for row in rows] == [[CAT["response"], wrong[3]]]
    unanswered = {name: value for name, value in CAT.items() if name != "answer"}
    (tmp_path / "judged.jsonl").unlink()
    rows, told = built(written(tmp_path, unanswered | {"wrong": wrong}), max_similarity=0.8)
    assert told.dropped_wrong == {"too similar": 2, "said twice": 1}
    assert rows[0]["responses"][1] == wrong[2] and rows[0]["answer"] == 1


@pytest.mark.parametrize(("number", "needed", "num_rows"), [(1, 1, 2), (2, 1, 1), (4, 3, 1)])
def test_one_two_or_four_are_read_back_by_the_world_in_both_orders(tmp_path, number, needed, num_rows):
    wrong = ["Two dogs sleep there.", "The mat is bare, as it always was.", "Somebody plays chess."]
    rows, _ = built(written(tmp_path, CAT | {"wrong": wrong}), num_candidates=number)
    assert len(rows) == num_rows and PairsConfig(num_candidates=number).num_wrong == needed
    forward, reverse = (
        judging_dataset("judged", tmp_path, reverse_order=order, is_benchmark=True) for order in (False, True)
    )
    for index in range(num_rows):
        one, other = forward.sample_at(index, "test"), reverse.sample_at(index, "test")
        assert [text for _, text in one.texts] == [text for _, text in other.texts][::-1]
        assert one.category == f"fine_grained_judged_{number}"
        if number > 1:
            right = dict(one.texts)[f"resp_{one.key.answers[0]}"]
            assert right == CAT["response"]
    verdicts = [forward.sample_at(index, "test").key.answers for index in range(num_rows)]
    assert number > 1 or verdicts == [("True",), ("False",)]


def test_documents_keep_their_pages(tmp_path):
    asked = {"question": "When?", "response": "In 1998, says page 2.", "wrong": ["It was 2001."]}
    rows, _ = built(written(tmp_path, asked | {"document": "report", "pages": ["cat.png"], "evidence_pages": [1]}))
    assert (rows[0]["track"], rows[0]["pages"], rows[0]["evidence_pages"]) == ("document", ["cat.png"], [1])
    assert judging_dataset("judged", tmp_path, is_benchmark=True).sample_at(0, "test").document is not None


def test_broken_rows_are_named_and_counted_and_the_others_are_built(tmp_path, capsys):
    good = CAT | {"wrong": ["Two dogs sleep there."]}
    lonely = {name: value for name, value in CAT.items() if name != "id"}
    rows = ["{", good | {"response": " "}, good | {"wrong": "dogs"}, good | {"track": "sport"}, lonely, good]
    written(tmp_path, *rows)
    assert main(["pairs", "--folder", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    for line in (1, 2, 3, 4):
        assert f"rows.jsonl, line {line}: " in told
    assert "1 rows to be judged, of 6 questions; left out: 4 broken, 1 too few wrong responses" in told
    assert main(["pairs", "--folder", str(tmp_path)]) == 2, "it is not written over"
    assert "judged.jsonl already exists" in capsys.readouterr().err


def test_nothing_left_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(ConfigError, match=r"(?s)Nothing is left of .*1 too few wrong responses.*--endpoint.model"):
        build_pairs(PairsConfig(folder=str(written(tmp_path, CAT))))
    assert not (tmp_path / "judged.jsonl").exists()


def test_half_a_model_is_refused():
    for given in ({"model": "judge"}, {"base_url": "http://127.0.0.1:1/v1"}):
        with pytest.raises(ConfigError, match=r"endpoint\.model NAME"):
            PairsConfig(endpoint=replace(NOBODY, **given))


def test_broken_rows_of_what_was_built_end_no_training(tmp_path):
    built(written(tmp_path, CAT | {"wrong": ["Two dogs sleep there."]}))
    with (tmp_path / "judged.jsonl").open("a") as file:
        file.write(
            json.dumps({"id": "x", "track": "fine_grained", "question": "?", "responses": ["a", "a"], "answer": 1})
        )
    with pytest.warns(UserWarning, match=r"1 of 2 rows of judged.*judged.jsonl, line 2.*are equal"):
        source = judging_dataset("judged", tmp_path, is_benchmark=True)
    assert source.num_samples("test") == 1


def test_a_model_writes_what_is_missing_and_sees_the_picture(endpoint, tmp_path):  # noqa: F811 - a fixture
    endpoint.answer = lambda messages: '<answer>{"wrong": ["Two dogs sleep there.", "It is a hat."]}</answer>'
    written(tmp_path, CAT, CAT | {"wrong": ["The mat is bare."]})
    options = {"model": "judge", "base-url": endpoint.base_url, "api-key-variable": "JUDGE_KEY"}
    words = [word for name, value in options.items() for word in (f"--endpoint.{name}", value)]
    assert main(["pairs", "--folder", str(tmp_path), *words]) == 0
    rows = [json.loads(line) for line in (tmp_path / "judged.jsonl").read_text().splitlines()]
    assert [row["responses"][1] for row in rows] == ["Two dogs sleep there.", "The mat is bare."]
    (request,) = endpoint.requests
    content = request["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["image_url", "text"] and CAT["response"] in content[1]["text"]


def test_a_model_that_is_silent_costs_its_questions_only(endpoint, tmp_path):  # noqa: F811 - a fixture
    endpoint.answer = lambda messages: "I cannot do that."
    written(tmp_path, CAT, CAT | {"wrong": ["The mat is bare."]})
    config = {"model": "judge", "base-url": endpoint.base_url, "api-key-variable": "JUDGE_KEY"}
    words = [word for name, value in config.items() for word in (f"--endpoint.{name}", value)]
    assert main(["pairs", "--folder", str(tmp_path), *words]) == 0
    assert len((tmp_path / "judged.jsonl").read_text().splitlines()) == 1


def asking(endpoint) -> list[str]:  # noqa: F811 - a fixture
    options = {"model": "judge", "base-url": endpoint.base_url, "api-key-variable": "JUDGE_KEY"}
    return ["--no-probe-endpoints", *(word for item in options.items() for word in (f"--endpoint.{item[0]}", item[1]))]


def test_a_model_that_does_not_answer_is_told_before_rows_are_asked(tmp_path, capsys):
    nobody = ("--endpoint.model", "judge", "--endpoint.base-url", "http://127.0.0.1:9/v1")
    assert main(["pairs", "--folder", str(written(tmp_path, CAT)), *nobody]) == 2
    told = capsys.readouterr().err
    assert "--endpoint: judge at http://127.0.0.1:9/v1" in told and "--no-probe-endpoints" in told
    assert not (tmp_path / "judged.jsonl").exists()


def test_half_a_surrogate_pair_in_a_row_becomes_a_question_mark(tmp_path):
    rows, _ = built(
        written(tmp_path, CAT | {"id": "\ud83d", "question": "\ud83d sits there?", "wrong": ["\ud83d bare"]})
    )
    assert (rows[0]["id"], rows[0]["question"]) == ("?", "? sits there?")
    assert rows[0]["responses"] == [CAT["response"], "? bare"]


@pytest.mark.parametrize(
    "reply",
    [
        '\ud83d<answer>{"wrong": ["A dog sleeps there."]}</answer>',
        '<answer>{"wrong": ["A dog \ud83d sleeps there."]}</answer>',
        r'<answer>{"wrong": ["A dog \ud83d sleeps there."]}</answer>',
    ],
    ids=["beside the answer", "in it", "as an escape in it"],
)
def test_half_a_surrogate_pair_in_a_reply_costs_its_question_at_most(endpoint, tmp_path, reply):  # noqa: F811
    endpoint.answer = lambda messages: reply
    written(tmp_path, CAT, CAT | {"wrong": ["The mat is bare."]})
    cached = ("--endpoint.cache-dir", str(tmp_path / "cache"))
    assert main(["pairs", "--folder", str(tmp_path), *asking(endpoint), *cached]) == 0
    rows = [json.loads(line) for line in (tmp_path / "judged.jsonl").read_text("utf-8").splitlines()]
    expected = ["A dog sleeps there."] if reply.startswith("\ud83d") else []
    assert [row["responses"][1] for row in rows] == [*expected, "The mat is bare."]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image": True}, "the name or bytes of an image as 'image'; got True"),
        ({"image": ""}, "the name or bytes of an image as 'image'; got ''"),
        ({"image": None, "images": ["cat.png", "cat.png"]}, "expected one image"),
        ({"image": None, "question": "<image>What?"}, "there are 1 placeholders <image> for 0 images"),
        ({"wrong": ["<bbox>"]}, "the placeholder <bbox>"),
        ({"videos": ["a.mp4"]}, "the row has `videos`; only texts and images are read"),
        ({"question": "<video>What happens?"}, "the placeholder <video>"),
        ({"image": "dog.png"}, "image: There is no file 'dog.png'"),
        ({"image": "\ud83d.png"}, "image: There is no file"),
        ({"pages": ["cat.png"]}, "'pages' needs a 'document'"),
        ({"document": "report.pdf"}, "document: There is no file 'report.pdf'"),
        ({"document": "d", "pages": ["cat.png"], "evidence_pages": [0]}, "page numbers from 1 as 'evidence_pages'"),
        ({"track": "\ud83d"}, "as 'track'; got "),
    ],
)
def test_what_the_world_would_leave_out_is_broken_before_a_model_is_asked(
    endpoint,  # noqa: F811 - a fixture
    tmp_path,
    changes,
    said,
    capsys,
):
    endpoint.answer = lambda messages: '<answer>{"wrong": ["Two dogs sleep there."]}</answer>'
    written(tmp_path, CAT | changes, CAT)
    assert main(["pairs", "--folder", str(tmp_path), *asking(endpoint)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("left out: rows.jsonl, line 1: ") and said in told.splitlines()[0]
    assert "1 rows to be judged, of 2 questions; left out: 1 broken;" in told
    assert len(endpoint.requests) == 1
    assert judging_dataset("judged", tmp_path, is_benchmark=True).num_samples("test") == 1


@pytest.mark.parametrize("image", [{"images": "cat.png"}, {"image": "", "images": ["cat.png"]}])
def test_an_own_row_has_its_image_and_no_placeholder_of_it(tmp_path, image):
    written(tmp_path, CAT | {"image": None, "question": "<image>\nWhat sits there?"} | image)
    (question,) = read_questions(PairsConfig(folder=str(tmp_path), rows="rows.jsonl"))
    assert (question.request, question.row(1)["image"]) == ("What sits there?", "cat.png")


def test_mp_docvqa_is_read_as_it_is_published(tmp_path):
    pages = ["doc_p0", "doc_p1"]
    for number, page in enumerate(pages):
        picture = tmp_path / "images" / f"{page}.jpg"
        picture.parent.mkdir(exist_ok=True)
        Image.new("RGB", (60, 90), (number, 90, 90)).save(picture)
    about = {"doc_id": "doc", "page_ids": pages, "answer_page_idx": 1, "data_split": "train"}
    row = {"questionId": 7, "question": "Which year?", "answers": ["In 1998", "98"], **about}
    broken = [row | {"page_ids": ["doc_p0", "doc_p9"]}, row | {"answers": []}]
    (tmp_path / "question_answers").mkdir()
    (tmp_path / "question_answers" / "train.json").write_text(json.dumps({"data": [row, *broken]}))
    config = PairsConfig(folder=str(tmp_path), rows="question_answers/train.json", layout="mp_docvqa")
    read = read_questions(config)
    assert (read[0].request, read[0].right, read[0].answers) == ("Which year?", "In 1998", ("In 1998", "98"))
    built_row = read[0].row(1)
    assert (built_row["id"], built_row["track"], built_row["document"]) == ("7", "document", "doc")
    assert (built_row["pages"], built_row["evidence_pages"]) == ([f"images/{page}.jpg" for page in pages], [2])
    assert "no picture of the page 'doc_p9'" in str(read[1]) and "'answers'" in str(read[2])


def test_a_document_of_mp_docvqa_is_judged_with_its_pages(endpoint, tmp_path):  # noqa: F811 - a fixture
    test_mp_docvqa_is_read_as_it_is_published(tmp_path)
    endpoint.answer = lambda messages: '<answer>{"wrong": ["Nobody in 98 knew.", "In 2001"]}</answer>'
    layout = ("--layout", "mp_docvqa", "--rows", "question_answers/train.json")
    assert main(["pairs", "--folder", str(tmp_path), *layout, *asking(endpoint)]) == 0
    sample = judging_dataset("judged", tmp_path, is_benchmark=True).sample_at(0, "test")
    assert sample.document.num_pages == 2 and sample.evidence_pages == (2,)
    assert {text for _, text in sample.texts} == {"In 1998", "In 2001"}, "what holds another accepted answer is dropped"


@pytest.mark.parametrize("is_table", [True, False])
def test_deepeyes_is_read_as_it_is_published(tmp_path, is_table):
    written(tmp_path)
    content = (tmp_path / "cat.png").read_bytes()
    told = {"question": "<image>What sits there?", "answer": "A grey cat.", "index": 3, "split": "train"}
    if is_table:
        pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[parquet]'")
        parquet = pytest.importorskip("pyarrow.parquet")
        row = {"data_source": "vstar", "images": [{"bytes": content, "path": "/there/cat.png"}], "extra_info": told}
        rows = [row, row | {"images": []}]
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    else:
        row = {"problem": "What sits there?", "solution": "A grey cat.", "images": ["cat.png"]}
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, [row, row | {"solution": None}])))
    name = "rows.parquet" if is_table else "rows.jsonl"
    read, broken = read_questions(PairsConfig(folder=str(tmp_path), rows=name, layout="deepeyes"))
    assert (read.request, read.right, read.answers) == ("What sits there?", "A grey cat.", ("A grey cat.",))
    assert (tmp_path / read.row(1)["image"]).read_bytes() == content
    assert f"{name}, {'row' if is_table else 'line'} 2: expected" in str(broken)


def test_mm_ifengine_is_read_as_llama_factory_reads_it(tmp_path):
    written(tmp_path)
    asked = {"from": "human", "value": "<image>Describe it in one sentence without commas."}
    good, bad = "A grey cat sits in the sun.", "A cat, grey, sits there."
    preference = {
        "conversations": [asked],
        "chosen": {"from": "gpt", "value": good},
        "rejected": {"from": "gpt", "value": bad},
        "images": ["cat.png"],
    }
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": asked["value"]},
        {"role": "assistant", "content": good},
    ]
    rows = [
        preference,
        {"messages": messages, "images": ["cat.png"]},
        {"conversations": [asked | {"value": asked["value"][7:]}], "chosen": good, "rejected": bad, "images": []},
        {"conversations": [asked], "chosen": good, "image": "cat.png"},
        preference | {"conversations": [asked, {"from": "gpt", "value": good}, asked]},
        {"conversations": [asked], "images": ["cat.png"]},
        preference | {"images": ["cat.png", "cat.png"]},
        preference | {"rejected": {"value": bad}},
        {"conversations": []},
        preference | {"images": []},
        {"conversations": [asked, asked], "images": ["cat.png"]},
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    config = PairsConfig(folder=str(tmp_path), rows="rows.json", layout="mm_ifengine")
    *read, _ = (first, second, third, fourth, *broken) = read_questions(config)
    for each in read[:4]:
        assert (each.request, each.right) == ("Describe it in one sentence without commas.", good)
        assert each.row(0)["track"] == "instruction_following"
    assert [each.wrong for each in (first, second, third, fourth)] == [(bad,), (), (bad,), ()]
    assert [each.row(0).get("image") for each in read[:4]] == ["cat.png", "cat.png", None, "cat.png"]
    told = ["one instruction", "one instruction", "expected one image", "messages of role", "a list of messages"]
    told += ["an image in 'images' for each <image>", "one instruction"]
    assert len(broken) == len(told) and all(what in str(each) for each, what in zip(broken, told, strict=True))


def test_pictures_of_a_table_are_saved_beside_it_once_each(endpoint, tmp_path):  # noqa: F811 - a fixture
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    written(tmp_path)
    picture = (tmp_path / "cat.png").read_bytes()
    rows = [
        CAT | {"image": {"bytes": picture, "path": None}, "wrong": ["Two dogs sleep there."]},
        CAT | {"image": {"bytes": picture, "path": "cat.png"}, "wrong": None},
        CAT | {"image": {"bytes": picture[:60], "path": "cut.png"}, "wrong": ["Two dogs sleep there."]},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    endpoint.answer = lambda messages: '<answer>{"wrong": ["It is a hat."]}</answer>'
    assert main(["pairs", "--folder", str(tmp_path), "--rows", "rows.parquet", *asking(endpoint)]) == 0
    (saved,) = (tmp_path / "pictures").iterdir()
    assert saved.suffix == ".png" and saved.read_bytes() == picture
    (request,) = endpoint.requests
    assert request["messages"][-1]["content"][0]["type"] == "image_url", "and the model sees them"
    source = judging_dataset("judged", tmp_path, is_benchmark=True)
    assert [source.sample_at(index, "test").images[0].picture().pixels.shape for index in range(2)] == [(40, 60, 3)] * 2
    assert source.num_samples("test") == 2
