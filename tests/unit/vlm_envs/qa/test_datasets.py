"""Every loader on a tiny copy in its data set's layout, written here; the data sets themselves are not at hand."""

import base64
import io
import json
import pickle

import numpy as np
import pytest
from PIL import Image

from vlm_envs.errors import ConfigError, EngineUnavailableError, GenerationError, LevelError
from vlm_envs.qa.datasets.dataset_splits import content_split
from vlm_envs.qa.datasets.image_datasets import DATASETS, dataset_source
from vlm_envs.responses.answers import score_answer

RED, BLUE, GREEN = (250, 0, 0), (0, 0, 250), (0, 250, 0)


def image_bytes(color=RED, size=(40, 30)):
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, "PNG")
    return buffer.getvalue()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def everything(source):
    return [source.find(name) for split in ("train", "val", "test") for name in source.ids(split)]


def only(source):
    (sample,) = everything(source)
    return sample


def corners(evidence):
    return evidence.label, evidence.box.x1, evidence.box.y1, evidence.box.x2, evidence.box.y2


VSTAR = {
    "target_object": ["flag"],
    "bbox": [[10, 5, 8, 6]],
    "question": "What is the color of the flag?",
    "options": ["The color of the flag is red.", "It is blue.", "It is green.", "It is white."],
}


def vstar(folder, **changes):
    write(folder / "direct_attributes" / "sa_1.jpg", image_bytes())
    write(folder / "direct_attributes" / "sa_1.json", VSTAR | changes)
    return dataset_source("vstar", folder)


def test_vstar(tmp_path):
    sample = only(vstar(tmp_path))
    assert sample.sample_id == "vstar:direct_attributes/sa_1"
    assert (sample.question, sample.category) == (VSTAR["question"], "direct_attributes")
    assert sorted(sample.key.options) == sorted(VSTAR["options"])
    assert sample.key.options["ABCD".index(sample.key.answers[0])] == VSTAR["options"][0]
    assert [corners(evidence) for evidence in sample.evidence] == [("flag", 10, 5, 18, 11)]
    assert sample.facts == "The color of the flag is red."
    assert sample.images[0].picture().pixels[0, 0].tolist() == list(RED)


def test_options_of_vstar_are_shuffled_each_question_its_own_way(tmp_path):
    for number in range(40):
        write(tmp_path / "relative_position" / f"sa_{number}.jpg", image_bytes((number, 0, 0)))
        write(tmp_path / "relative_position" / f"sa_{number}.json", VSTAR)
    letters, again = (
        {sample.sample_id: sample.key.answers[0] for sample in everything(dataset_source("vstar", tmp_path))}
        for _ in range(2)
    )
    assert letters == again
    assert min(list(letters.values()).count(letter) for letter in "ABCD") >= 3


HEADER = "index\tquestion\tanswer\tcategory\tA\tB\tC\tD\tcycle_category\timage"


def hrbench(folder, rows=None, header=HEADER, is_benchmark=None):
    picture = base64.b64encode(image_bytes(BLUE)).decode()
    rows = rows or [
        f"0\tWhat number?\tB\tsingle\t1\t2\t3\t4\t0\t{picture}",
        f'1\t"A ""tab"" here:\tand a\nline?"\tA\tcross\tyes\tno\tboth\tnone\t1\t{picture}',
    ]
    write(folder / "hr_bench_4k.tsv", "\n".join([header, *rows]) + "\n")
    return dataset_source("hrbench", folder, is_benchmark=is_benchmark)


def test_hrbench(tmp_path):
    samples = {sample.sample_id: sample for sample in everything(hrbench(tmp_path))}
    first, second = samples["hrbench:hr_bench_4k/0"], samples["hrbench:hr_bench_4k/1"]
    assert (first.question, first.key.answers, first.key.options) == ("What number?", ("B",), ("1", "2", "3", "4"))
    assert (first.category, second.category) == ("single", "cross")
    assert second.question == 'A "tab" here:\tand a\nline?'
    assert first.images[0].digest == second.images[0].digest
    assert first.digest != second.digest
    assert (first.images[0].width, first.images[0].height) == (40, 30)
    assert first.images[0].picture().pixels[3, 3].tolist() == list(BLUE)


def test_turns_of_a_question_stay_in_one_split(tmp_path):
    pictures = [base64.b64encode(image_bytes((number, 9, 9))).decode() for number in range(12)]
    rows = [f"{n}\tQ?\tA\tsingle\t1\t2\t3\t4\t{n % 4}\t{pictures[n // 4]}" for n in range(48)]
    source = hrbench(tmp_path, rows, is_benchmark=False)
    split_of_image = {}
    for split in ("train", "val", "test"):
        for name in source.ids(split):
            digest = source.find(name).images[0].digest
            assert split_of_image.setdefault(digest, split) == split
    assert len(split_of_image) == 12 and len(set(split_of_image.values())) > 1


VSR = {"image": "000000085637.jpg", "caption": "The dog is left of the cat.", "label": 1, "relation": "left of"}


def vsr(folder, *rows, **changes):
    write(folder / "images" / VSR["image"], image_bytes())
    write(folder / "dev.jsonl", lines(*(rows or (VSR | changes,))))
    return dataset_source("vsr", folder)


def test_vsr(tmp_path):
    source = vsr(tmp_path, VSR, VSR | {"label": 0, "relation": "At the right side of"})
    assert source.ids("val") == ("vsr:dev/0", "vsr:dev/1") and source.num_samples("train") == 0
    true, false = everything(source)
    assert VSR["caption"] in true.question
    assert (true.key.answers[0], false.key.answers[0]) == ("yes", "no")
    assert (true.category, false.category) == ("left_of", "at_the_right_side_of")
    assert true.facts == VSR["caption"] and false.facts.startswith("It is not so that")


def test_images_of_vsr_are_found_in_cocos_folders(tmp_path):
    write(tmp_path / "train2017" / "a.jpg", image_bytes(GREEN))
    write(tmp_path / "test.jsonl", lines(VSR | {"image": "a.jpg"}))
    sample = only(dataset_source("vsr", tmp_path))
    assert sample.images[0].stored.name == "train2017/a.jpg"


TALLYQA = {"image": "VG_100K/1.jpg", "question": "How many dogs?", "answer": 2, "question_id": 7, "issimple": True}


def tallyqa(folder, *rows, name="train.json", **changes):
    write(folder / "VG_100K" / "1.jpg", image_bytes())
    write(folder / name, list(rows) or [TALLYQA | changes])
    return dataset_source("tallyqa", folder)


def test_tallyqa(tmp_path):
    sample = only(tallyqa(tmp_path, name="test.json"))
    assert sample.sample_id == "tallyqa:test/0"
    assert (sample.key.kind, sample.key.answers, sample.category) == ("number", ("2",), "count_simple")
    assert dataset_source("tallyqa", tmp_path).ids("test") == ("tallyqa:test/0",)


def test_the_questions_of_an_image_of_tallyqa_stay_in_one_split(tmp_path):
    rows = [TALLYQA | {"image": f"VG_100K/{number // 2}.jpg", "issimple": None} for number in range(120)]
    source = tallyqa(tmp_path, *rows)
    numbers = {int(name.split("/")[1]) for name in source.ids("val")}
    assert 0 < len(numbers) < 60 and source.num_samples("test") == 0
    assert all((number ^ 1) in numbers for number in numbers)


GQA = {
    "imageId": "2354786",
    "question": "Is the sky dark?",
    "answer": "yes",
    "fullAnswer": "Yes, the sky is dark.",
    "types": {"structural": "verify", "semantic": "attr", "detailed": "verifyAttr"},
    "annotations": {"question": {"2": "719060"}, "answer": {}, "fullAnswer": {"2": "719060", "3": "5,6"}},
}
GRAPH = {
    "2354786": {
        "width": 40,
        "height": 30,
        "objects": {
            "719060": {"name": "sky", "x": 0, "y": 0, "w": 45, "h": 10, "relations": [], "attributes": ["dark"]},
            "5": {"name": "tree", "x": 4, "y": 12, "w": 3, "h": 8},
        },
    }
}


def gqa(folder, *, graphs=GRAPH, **changes):
    write(folder / "images" / "2354786.jpg", image_bytes())
    write(folder / "val_balanced_questions.json", {"02930152": GQA | changes})
    if graphs:
        write(folder / "val_sceneGraphs.json", graphs)
    return dataset_source("gqa", folder)


def test_gqa(tmp_path):
    source = gqa(tmp_path)
    assert source.ids("val") == ("gqa:val_balanced/02930152",)
    sample = only(source)
    assert (sample.key.kind, sample.key.answers, sample.category) == ("exact", ("yes",), "verify")
    assert sample.facts == "Yes, the sky is dark."
    # The sky's box reaches beyond the picture and is cut.
    assert [corners(evidence) for evidence in sample.evidence] == [("sky", 0, 0, 40, 10), ("tree", 4, 12, 7, 20)]
    assert only(gqa(tmp_path / "other", graphs=None)).evidence == ()


TREEVGR = {
    "problem": "<image>\nWhich is it?\n(A) car\n(B) bus",
    "answer": "B",
    "images": ["visdrone/1.jpg"],
    "target_instances": [{"name": "bus", "bbox": [5, 6, 20, 25]}, {"name": None, "bbox": [50, 50, 60, 60]}],
}


def treevgr(folder, *rows, **changes):
    write(folder / "visdrone" / "1.jpg", image_bytes())
    write(folder / "table.jsonl", lines(*(rows or (TREEVGR | changes,))))
    return dataset_source("treevgr", folder)


def test_treevgr(tmp_path):
    source = treevgr(tmp_path, TREEVGR, TREEVGR | {"answer": "It is red."})
    choice, words = everything(source)
    assert (choice.question, choice.key.options) == ("Which is it?", ("car", "bus"))
    assert (choice.key.kind, choice.key.answers, words.key.kind) == ("choice", ("B",), "semantic")
    assert [corners(evidence) for evidence in choice.evidence] == [("bus", 5, 6, 20, 25)]
    assert source.num_samples(content_split("visdrone/1.jpg")) == 2


@pytest.mark.parametrize(
    ("changes", "question", "options", "answer"),
    [
        ({"problem": "<image>Which?", "options": ["car", "bus"]}, "Which?", ("car", "bus"), "B"),
        ({"problem": "Which?", "options": ["A. car", "B. bus"]}, "Which?", ("car", "bus"), "B"),
        ({"problem": "Which?", "options": ["car", "bus"], "answer": "Bus."}, "Which?", ("car", "bus"), "B"),
        ({"problem": "Which?", "options": {"A": "car", "B": "bus", "C": None}}, "Which?", ("car", "bus"), "B"),
        ({"problem": "Which?\nOptions:\nA. car\nB. bus"}, "Which?", ("car", "bus"), "B"),
        ({"problem": "Which?\nA. car\nB. bus", "options": ["car", "bus"]}, "Which?", ("car", "bus"), "B"),
        ({"problem": "Which?\n(A) car\n(B) bus\nAnswer by a letter."}, None, (), "B"),
        ({"problem": "Which?\n(A) car\n(B) bus", "answer": "C"}, None, (), "C"),
        ({"problem": "Which? (A) car (B) bus"}, None, (), "B"),
        ({"problem": "Which?"}, "Which?", (), "B"),
    ],
)
def test_a_choice_of_treevgr_has_its_options(tmp_path, changes, question, options, answer):
    sample = only(treevgr(tmp_path, **changes))
    expected = (changes["problem"] if question is None else question, "choice", options, (answer,))
    assert (sample.question, sample.key.kind, sample.key.options, sample.key.answers) == expected
    assert score_answer("bus", sample.key) == bool(options)


def test_options_of_treevgr_may_be_numbers(tmp_path):
    key = only(treevgr(tmp_path, problem="How many?", options=[1.0, 2.5], answer=2.5)).key
    assert (key.options, key.answers) == (("1", "2.5"), ("B",))


@pytest.mark.parametrize(("lines", "asked"), [("(A) 1.0\n(B) 2.5", "What?"), ("(A) 1.0\n(B) 2.6", None)])
def test_lettered_lines_that_repeat_numbers_are_removed(tmp_path, lines, asked):
    problem = f"What?\nOptions:\n{lines}"
    assert only(treevgr(tmp_path, problem=problem, options=[1.0, 2.5])).question == (asked or problem)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"options": ["car", "bus"], "answer": "C"}, "expected a letter from A to B or the text of an option"),
        ({"options": ["car", "bus"], "answer": "tram"}, "expected a letter from A to B or the text of an option"),
        ({"problem": "<video>What is it?"}, "the placeholder <video>"),
        ({"problem": "<image><image>What is it?"}, "2 placeholders <image> for 1 images"),
        ({"videos": ["a.mp4"]}, "`videos`"),
        ({"options": ["car"]}, "2 to 26 different texts"),
        ({"options": ["car", "car"]}, "2 to 26 different texts"),
        ({"options": ["car", ""]}, "2 to 26 different texts"),
        ({"options": [f"car {number}" for number in range(27)]}, "2 to 26 different texts"),
        ({"options": "car, bus"}, "a list of texts as 'options'"),
        ({"options": {"A": "car", "C": "bus"}}, "options in all columns from A to C"),
    ],
)
def test_options_that_cannot_be_are_named(tmp_path, changes, reason):
    with pytest.raises(ConfigError, match=rf"table.jsonl, line 1: .*{reason}"):
        treevgr(tmp_path, **changes)


def test_treevgr_reads_parquet(tmp_path):
    import pyarrow
    from pyarrow import parquet

    write(tmp_path / "visdrone" / "1.jpg", image_bytes())
    parquet.write_table(pyarrow.Table.from_pylist([TREEVGR]), tmp_path / "table.parquet")
    assert only(dataset_source("treevgr", tmp_path)).key.answers == ("B",)
    write(tmp_path / "table.parquet", b"PAR1 no more")
    with pytest.raises(ConfigError, match=r"Cannot read table\.parquet"):
        dataset_source("treevgr", tmp_path)


def test_parquet_without_pyarrow_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    write(tmp_path / "table.parquet", b"PAR1")
    with pytest.raises(EngineUnavailableError, match=r"\[parquet\]'.* JSON lines"):
        dataset_source("treevgr", tmp_path)


def pixmo_count(folder):
    write(folder / "images" / "abc.png", image_bytes())
    row = {"image_url": "https://a.example/1.png", "image_sha256": "abc", "count": 1, "label": "cups"}
    write(folder / "train-00000-of-00001.jsonl", lines(row | {"points": {"x": [3.5], "y": [4.5]}}))
    return dataset_source("pixmo_count", folder)


def image_folder(folder):
    write(folder / "a.png", image_bytes())
    write(folder / "questions.jsonl", lines({"image": "a.png", "question": "Red?", "answer": "yes"}))
    return dataset_source("image_folder", folder)


MAKERS = {made.__name__: made for made in (vstar, hrbench, vsr, tallyqa, gqa, treevgr, pixmo_count, image_folder)}


def test_every_data_set_is_tested_here():
    assert set(MAKERS) == set(DATASETS)


@pytest.mark.parametrize("kind", list(MAKERS))
def test_sources_find_what_they_draw_and_splits_share_no_image(kind, tmp_path):
    source = MAKERS[kind](tmp_path)
    filled = [split for split in ("train", "val", "test") if source.num_samples(split)]
    for split in filled:
        sample = source.draw(np.random.default_rng(0), split)
        assert sample == source.find(sample.sample_id) == source.draw(np.random.default_rng(0), split)
        assert sample.sample_id in source.ids(split)
        assert len(pickle.dumps(sample)) < 4000 and pickle.loads(pickle.dumps(sample)) == sample
    (empty, *_) = [split for split in ("train", "val", "test") if split not in filled]
    with pytest.raises(GenerationError, match=f"no sample of split '{empty}'"):
        source.draw(np.random.default_rng(0), empty)
    for wrong in ("", kind, f"{kind}:", f"{kind}:nothing", "scene:3"):
        with pytest.raises(LevelError, match=f"look like {kind}:"):
            source.find(wrong)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("vstar", {"options": []}, r"direct_attributes/sa_1\.json: expected a list of texts as 'options'"),
        ("vstar", {"bbox": [[1, 2, 3]]}, r"sa_1\.json: expected a box of four numbers"),
        ("vstar", {"bbox": []}, "a box for each of 1 target objects"),
        ("vstar", {"question": 3}, "expected a text as 'question'; got 3"),
        ("vsr", {"label": 2}, r"dev\.jsonl, line 1: expected 0 or 1 as 'label'; got 2"),
        ("vsr", {"caption": " "}, "expected a text as 'caption'"),
        ("tallyqa", {"answer": "two"}, r"train\.json, row 1: expected a whole number from 0 as 'answer'"),
        ("tallyqa", {"answer": True}, "whole number"),
        ("gqa", {"imageId": None}, r"val_balanced_questions\.json, question 02930152: expected a text as 'imageId'"),
        ("gqa", {"answer": "..."}, "question 02930152.*at least one answer"),
        ("treevgr", {"images": ["a.jpg", "b.jpg"]}, r"table\.jsonl, line 1: expected one image"),
        ("treevgr", {"problem": "<image>"}, "a question as 'problem'"),
        ("treevgr", {"target_instances": [{"bbox": [1, 2, float("nan"), 4]}]}, "box of four numbers"),
    ],
)
def test_broken_rows_are_named(kind, changes, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        MAKERS[kind](tmp_path, **changes)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0\tQ?\tE\tsingle\t1\t2\t3\t4\t0\tAAAA", r"hr_bench_4k\.tsv, row 1: expected A, B, C or D as answer"),
        ("0\tQ?\tA\tsingle\t1\t2\t\t4\t0\tAAAA", "something in column C"),
        ("0\tQ?\tA\tsingle", "expected 10 columns"),
        ("x\tQ?\tA\tsingle\t1\t2\t3\t4\t0\tAAAA", "whole number as index"),
        ('0\t"Q?\tA\tsingle\t1\t2\t3\t4\t0\tAAAA', "quotes that are closed"),
    ],
)
def test_broken_rows_of_tables_are_named(row, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        hrbench(tmp_path, [row])


def test_tables_need_their_columns(tmp_path):
    with pytest.raises(ConfigError, match="a table without category"):
        hrbench(tmp_path, header="index\tquestion\tanswer\tA\tB\tC\tD\timage")


def test_base64_that_is_none_is_named(tmp_path):
    source = hrbench(tmp_path, ["0\tQ?\tA\tsingle\t1\t2\t3\t4\t0\t!!!"])
    with pytest.raises(ConfigError, match=r"hr_bench_4k\.tsv, row 1.*no base64"):
        everything(source)


@pytest.mark.parametrize("kind", ["vsr", "tallyqa", "treevgr", "gqa"])
@pytest.mark.parametrize("name", ["../secret.png", "/outside/secret.txt", "x/../../secret.png"])
def test_names_of_images_do_not_lead_out(kind, name, tmp_path):
    write(tmp_path / "secret.png", image_bytes())
    write(tmp_path / "secret.jpg", image_bytes())
    field = {"vsr": "image", "tallyqa": "image", "treevgr": "images", "gqa": "imageId"}[kind]
    value = [name] if kind == "treevgr" else f"../{name}" if kind == "gqa" else name
    source = MAKERS[kind](tmp_path / "copy", **{field: value})
    with pytest.raises(ConfigError, match="inside the folder"):
        everything(source)


def test_missing_and_broken_images_name_their_row(tmp_path):
    source = vsr(tmp_path, image="gone.jpg")
    with pytest.raises(ConfigError, match=r"dev\.jsonl, line 1: There is no file 'images/gone\.jpg'"):
        everything(source)
    write(tmp_path / "images" / "gone.jpg", b"no image")
    with pytest.raises(ConfigError, match=r"dev\.jsonl, line 1: .*is no image"):
        everything(source)


def test_folders_that_hold_something_else_say_what_was_expected(tmp_path):
    for kind in DATASETS:
        with pytest.raises(ConfigError, match="Expected a "):
            dataset_source(kind, tmp_path)
        with pytest.raises(ConfigError, match=r"is not a folder.*Expected a "):
            dataset_source(kind, tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="Did you mean 'vstar'"):
        dataset_source("vstarr", tmp_path)


def test_files_that_are_no_json_are_named(tmp_path):
    write(tmp_path / "train.json", "[{")
    with pytest.raises(ConfigError, match=r"Cannot read train\.json as JSON"):
        dataset_source("tallyqa", tmp_path)
    write(tmp_path / "dev.jsonl", '{"image": "a"}\n\n[1]\n')
    with pytest.raises(ConfigError, match=r"dev\.jsonl, line 1: expected a text as 'caption'"):
        dataset_source("vsr", tmp_path)
    write(tmp_path / "dev.jsonl", "\n[1]\n")
    with pytest.raises(ConfigError, match=r"dev\.jsonl, line 2: expected a JSON object"):
        dataset_source("vsr", tmp_path)


@pytest.mark.parametrize(("kind", "name"), [("hrbench", "hr_bench_4k.tsv"), ("vsr", "train.jsonl"), ("gqa", "*.json")])
def test_a_mark_at_the_start_of_a_file_from_windows_is_passed_over(kind, name, tmp_path):
    whole = everything(MAKERS[kind](tmp_path))
    for path in tmp_path.glob(name):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [sample.digest for sample in everything(dataset_source(kind, tmp_path))] == [each.digest for each in whole]


def test_worlds_on_one_folder_share_its_rows_until_the_folder_changes(tmp_path):
    first = tallyqa(tmp_path)
    assert dataset_source("tallyqa", tmp_path) is first
    assert dataset_source("tallyqa", str(tmp_path)) is first
    assert len(everything(tallyqa(tmp_path, TALLYQA, TALLYQA))) == 2


def test_a_source_says_how_its_answers_are_compared(tmp_path):
    assert tallyqa(tmp_path / "a").answer_kinds == {"number"}
    rows = (TREEVGR, TREEVGR | {"answer": "a red flag"})
    assert treevgr(tmp_path / "b", *rows).answer_kinds == {"choice", "semantic"}
