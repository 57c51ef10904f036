"""Judged responses from files in the layouts of public data sets, whole and broken."""

from __future__ import annotations

import base64
import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from PIL import Image

from vlm_envs.content.judging.judging_datasets import judging_dataset
from vlm_envs.errors import ConfigError, GenerationError, LevelError
from vlm_envs.qa.datasets.dataset_source import DatasetSource
from vlm_envs.splits import SPLITS

RNG = np.random.default_rng


def num_rows(source: DatasetSource) -> int:
    return sum(map(source.num_samples, SPLITS))


def png(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 6), (shade, 0, 0)).save(file, "PNG")
    return file.getvalue()


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    lines = "\n".join(map(json.dumps, rows)) if name.endswith(".jsonl") else json.dumps(rows)
    (folder / name).write_text(lines, encoding="utf-8")
    (folder / "images").mkdir(exist_ok=True)
    (folder / "images" / "a.png").write_bytes(png(200))
    return folder


def preference(**changes: Any) -> dict[str, Any]:
    row = {
        "id": "RLAIF-V-1",
        "query": "How many cats are there?",
        "response": ["There are two cats.", "There are three cats."],
        "image": "images/a.png",
        "human_ranking": [1, 0],
    }
    return row | changes


def comparison(verdict: str, **changes: Any) -> dict[str, Any]:
    asked = (
        "<image>\nJudge the answers.\nQuestion: [What is [this]?]\nThe first response: [A boat.]\n"
        "The second response: [A car,\nred.]\nASSISTANT:\n"
    )
    turns = [{"from": "human", "value": asked}, {"from": "gpt", "value": verdict}]
    return {"id": "c1", "image": "images/a.png", "conversations": turns} | changes


def instruction(prediction: str, **changes: Any) -> dict[str, Any]:
    calls = [
        {"func": "check_whether_response_word_count_in_range", "params": [2, 3]},
        {"func": "check_whether_total_keyword_in_list_metioned_in_range", "params": [["cat"], 1, 5]},
    ]
    constraint = {"key": "k", "value": "Be short.", "judge": {"method": "rule_based", "verify_funcs": calls}}
    row = {"id": "m1", "tag": "C-Level", "question": "Describe.", "constraints": [constraint], "prediction": prediction}
    return row | {"image": base64.b64encode(png(90)).decode()} | changes


def bench(**changes: Any) -> dict[str, Any]:
    row = {"id": 1, "track": "fine_grained", "question": "q", "responses": ["w", "x", "y", "z"], "answer": 3}
    return row | {"image": "images/a.png"} | changes


def test_vl_rewardbench(tmp_path):
    rows = [preference(), preference(id="x", query_source="MathVerse", human_ranking=[0, 1])]
    source = judging_dataset("vl_rewardbench", write(tmp_path, "vl_rewardbench.jsonl", rows))
    assert source.num_samples("test") == 2
    first, second = (source.find(sample_id) for sample_id in source.ids("test"))
    shown = [text for _, text in first.texts]
    assert sorted(shown) == sorted(preference()["response"])
    assert first.key.answers[0] == str(1 + shown.index("There are three cats."))
    assert second.key.answers[0] == str(1 + [text for _, text in second.texts].index("There are two cats."))
    assert (first.category, second.category) == ("vl_rewardbench_hallucination", "vl_rewardbench_reasoning")
    assert first.images[0].picture().pixels[0, 0].tolist() == [200, 0, 0]
    assert "How many cats are there?" in first.question


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("vl_rewardbench", preference(response=["There are two cats.", " There are two cats.\n"])),
        ("armbench_vl", bench(responses=["w", "x", "y", "x"])),
        ("vl_rewardbench", {"id": 1, "prompt": "q", "chosen": "Two.", "rejected": "Two. ", "image": "images/a.png"}),
        ("pairs", {"prompt": "q", "chosen": "Two.", "rejected": "Two."}),
    ],
)
def test_equal_candidates_are_refused_since_none_of_them_can_be_the_right_one(tmp_path, kind, row):
    with pytest.raises(ConfigError, match=rf"{kind}\.jsonl, line 1: .* are equal"):
        judging_dataset(kind, write(tmp_path, f"{kind}.jsonl", [row]))


@pytest.mark.parametrize(
    "verdict",
    [
        "It is not the case that the first response is better.",
        "It isn't true that the first response is better.",
        "I do not think the first response is better.",
        "Neither do I say that the first response is better.",
        "It would be wrong to say that the first response is better.",
    ],
)
def test_a_verdict_that_is_denied_is_none(tmp_path, verdict):
    rows = [comparison(verdict), comparison("No doubt about it. The first response is better.", id="c2")]
    assert num_rows(judging_dataset("llava_critic", write(tmp_path, "llava_critic.jsonl", rows))) == 1


@pytest.mark.parametrize(
    "verdict",
    [
        "While neither is perfect, I believe the first response is better.",
        "Although it is not fully accurate, I would say the first response is better.",
        "Both do not mention the cat, but overall I think the first response is better.",
        "The second response is wrong about the colour, so I say the first response is better.",
        "I do not hesitate to say that the first response is better.",
    ],
)
def test_a_verdict_after_a_reservation_is_one(tmp_path, verdict):
    assert num_rows(judging_dataset("llava_critic", write(tmp_path, "llava_critic.jsonl", [comparison(verdict)]))) == 1


def test_a_comparison_of_equal_responses_has_no_winner(tmp_path):
    row = comparison("The first response is better.")
    row["conversations"][0]["value"] = row["conversations"][0]["value"].replace("A car,\nred.", "A boat. ")
    rows = [row, comparison("The first response is better.", id="c2")]
    assert num_rows(judging_dataset("llava_critic", write(tmp_path, "llava_critic.jsonl", rows))) == 1


def test_reversed_order_turns_the_answer(tmp_path):
    folder = write(tmp_path, "vl_rewardbench.jsonl", [preference(query=f"Question {n}") for n in range(12)])
    forward, backward = (judging_dataset("vl_rewardbench", folder, reverse_order=turned) for turned in (False, True))
    answers = []
    for one, other in zip(forward.ids("test"), backward.ids("test"), strict=True):
        first, second = forward.find(one), backward.find(other)
        assert [text for _, text in first.texts] == [text for _, text in second.texts][::-1]
        assert {first.key.answers[0], second.key.answers[0]} == {"1", "2"}
        assert first.digest == second.digest
        answers.append(first.key.answers[0])
    assert len(set(answers)) == 2  # In the file the second response is always the better one.


def test_an_id_of_the_other_order_is_found_in_the_reverse_one(tmp_path):
    folder = write(tmp_path, "vl_rewardbench.jsonl", [preference(query=f"Question {n}") for n in range(3)])
    forward, backward = (judging_dataset("vl_rewardbench", folder, reverse_order=turned) for turned in (False, True))
    for one, other in zip(forward.ids("test"), backward.ids("test"), strict=True):
        assert one != other
        assert backward.find(one) == backward.find(other) == forward.find(other)
        assert backward.find(one).sample_id == other and backward.split_of(one) == "test"
        assert forward.find(one).sample_id == one
    assert backward.num_samples("test") == 3


def sample_of(folder: Path, shade: int = 200, **changes: Any):
    """The one row of a folder whose picture is named in the row and painted here."""
    folder.mkdir()
    row = preference(**changes)
    write(folder, "vl_rewardbench.jsonl", [row])
    if "." in row["image"]:
        (folder / row["image"]).write_bytes(png(shade))
    source = judging_dataset("vl_rewardbench", folder)
    return source.find(source.ids("test")[0])


def test_the_same_words_about_other_pictures_are_another_sample(tmp_path):
    red, black = sample_of(tmp_path / "one", 200), sample_of(tmp_path / "other", 0)
    assert red.question == black.question and red.sample_id == black.sample_id
    assert red.digest != black.digest


def test_a_picture_is_the_same_under_another_name_and_written_into_the_row(tmp_path):
    one = sample_of(tmp_path / "one")
    renamed = sample_of(tmp_path / "other", image="images/b.png")
    encoded = sample_of(tmp_path / "third", image=base64.b64encode(png(200)).decode())
    assert one.digest == renamed.digest == encoded.digest
    assert one.texts == renamed.texts == encoded.texts, "and the responses stand in the same order"
    assert one.truth_digest == renamed.truth_digest == encoded.truth_digest


def test_rows_that_differ_in_which_response_is_right_only_differ_in_their_truth(tmp_path):
    one, other = sample_of(tmp_path / "one"), sample_of(tmp_path / "other", human_ranking=[0, 1])
    assert one.digest == other.digest
    assert one.truth_digest != other.truth_digest


def test_llava_critic(tmp_path):
    rows = [
        comparison("The second response is clearly better: it names the colour."),
        comparison("Both are poor. The first response is better than the second response.", id="c2"),
        comparison("Two responses are equally good.", id="c3"),
        comparison("The first response is not better.", id="c4"),
        comparison("The first response is better. The second response is better.", id="c5"),
        comparison("The first response is better.", id="c6", conversations=[{"value": "Score it."}, {"value": "7"}]),
    ]
    source = judging_dataset("llava_critic", write(tmp_path, "llava_critic.json", rows), is_benchmark=True)
    found = [source.find(sample_id) for sample_id in source.ids("test")]
    rights = [sample.texts[int(sample.key.answers[0]) - 1][1] for sample in found]
    assert rights == ["A car,\nred.", "A boat."]
    assert "What is [this]?" in found[0].question


def test_mm_ifeval(tmp_path):
    by_model = {"method": "direct_gpt", "verify_funcs": []}
    rows = [
        instruction("A cat sleeps."),
        instruction("A dog sleeps.", id="m2"),
        instruction("A cat sleeps on the mat.", id="m3", constraints=json.dumps(instruction("")["constraints"])),
        instruction("x", id="m4", constraints=[{"key": "k", "value": "Be kind.", "judge": by_model}]),
        {"id": "m5", "tag": "P-Level", "question": "q", "answer": "a"},
    ]
    source = judging_dataset("mm_ifeval", write(tmp_path, "mm_ifeval.jsonl", rows))
    found = [source.find(sample_id) for sample_id in source.ids("test")]
    assert [sample.key.answers for sample in found] == [("True",), ("False",), ("False",)]
    assert [sample.category for sample in found] == [
        "mm_ifeval_right",
        "mm_ifeval_check_whether_total_keyword_in_list_mentioned_in_range",
        "mm_ifeval_check_whether_response_word_count_in_range",
    ]
    assert found[0].images[0].picture().pixels[0, 0].tolist() == [90, 0, 0]


def test_armbench(tmp_path):
    rows = [
        bench(),
        bench(track="document", image="images/a.png", document="d", pages=["images/a.png"], evidence_pages=[1]),
        {"id": 3, "track": "instruction_following", "question": "q", "responses": ["r"], "answer": False},
    ]
    del rows[1]["image"]
    source = judging_dataset("armbench_vl", write(tmp_path, "armbench_vl.jsonl", rows))
    four, pages, single = (source.find(sample_id) for sample_id in source.ids("test"))
    assert four.texts[int(four.key.answers[0]) - 1][1] == "y"
    assert pages.document.num_pages == 1
    assert pages.evidence_pages == (1,)
    assert single.key.answers == ("False",)
    assert [sample.category for sample in (four, pages, single)] == [
        "fine_grained_armbench_4",
        "document_armbench_4",
        "instruction_following_armbench_1",
    ]


def test_splits_are_disjoint_by_picture_and_a_benchmark_is_all_test(tmp_path):
    rows = [comparison("The first response is better.", id=str(n), image=f"images/{n % 40}.png") for n in range(120)]
    folder = write(tmp_path, "llava_critic.json", rows)
    for number in range(40):
        (folder / "images" / f"{number}.png").write_bytes(png(number))
    source = judging_dataset("llava_critic", folder)
    ids = {split: source.ids(split) for split in SPLITS}
    assert sum(map(len, ids.values())) == 120
    assert min(map(len, ids.values())) >= 3
    shades = {
        split: {int(source.find(found).images[0].picture().pixels[0, 0, 0]) for found in ids[split]} for split in SPLITS
    }
    assert not shades["train"] & shades["val"] and not shades["train"] & shades["test"]
    drawn = {source.draw(RNG(seed), "val").sample_id for seed in range(60)}
    assert drawn == set(ids["val"])
    benchmark = judging_dataset("llava_critic", folder, is_benchmark=True)
    with pytest.raises(GenerationError, match="no sample of split 'train'"):
        benchmark.draw(RNG(0), "train")


def test_ids_are_those_of_this_file(tmp_path):
    source = judging_dataset("vl_rewardbench", write(tmp_path, "vl_rewardbench.jsonl", [preference()]))
    (good,) = source.ids("test")
    assert source.find(good) == pickle.loads(pickle.dumps(source)).find(good)
    for bad in ("", "vl_rewardbench:forward:2:" + good[-8:], good[:-1] + "g", good.replace(good[-8:], "0" * 8)):
        with pytest.raises(LevelError, match="look like vl_rewardbench:forward:1:"):
            source.find(bad)


@pytest.mark.parametrize(
    ("kind", "row", "message"),
    [
        ("vl_rewardbench", preference(human_ranking=[1, 1]), "expected .* as 'human_ranking'"),
        ("vl_rewardbench", preference(response=["one"]), "expected a list of 2 texts as 'response'"),
        ("vl_rewardbench", preference(query=" "), "expected a text as 'query'; got ' '"),
        ("vl_rewardbench", {"id": "x", "human_ranking": [0, 1]}, "expected a text as 'query'; got None"),
        ("llava_critic", comparison("x", conversations="none"), "expected a list as 'conversations'"),
        ("mm_ifeval", instruction("x", constraints="[{"), "not valid JSON"),
        ("mm_ifeval", instruction("x", constraints=[]), "at least one constraint"),
        ("armbench_vl", bench(answer=5), "expected a number from 1 to 4 as 'answer'; got 5"),
        ("armbench_vl", bench(answer=True), "expected a number as 'answer'; got True"),
        ("armbench_vl", bench(track="poetry"), "expected one of .* as 'track'"),
        ("armbench_vl", bench(responses=["a", "b", "c"]), "1 or 2 or 4 texts"),
        ("armbench_vl", bench(pages=["images/a.png"]), "'pages' needs a 'document'"),
    ],
)
def test_a_broken_row_is_named_and_left_out(tmp_path, kind, row, message):
    preferred = comparison("The first response is better.")
    good = {"vl_rewardbench": preference(), "llava_critic": preferred, "mm_ifeval": instruction("x")}
    folder = write(tmp_path, f"{kind}.jsonl", [good.get(kind, bench()), row])
    with pytest.warns(UserWarning, match=rf"1 of 2 rows of {kind}.*{kind}.jsonl, line 2: .*{message}"):
        source = judging_dataset(kind, folder)
    assert sum(source.num_samples(split) for split in SPLITS) == 1 == len(source.broken_rows)


def test_unknown_and_misused_checks_are_explained(tmp_path):
    def row(func: str, params: Any) -> dict[str, Any]:
        judge = {"method": "rule_based", "verify_funcs": [{"func": func, "params": params}]}
        return instruction("x", constraints=[{"key": "k", "value": "v", "judge": judge}])

    for func, params, message in (
        ("check_whether_response_words_in_range", [1, 2], "There is no check"),
        ("check_whether_response_word_count_in_range", [1], "it takes lower_bound, upper_bound"),
        ("check_whether_response_word_count_in_range", [9, 2], "above the upper bound"),
    ):
        with pytest.raises(ConfigError, match=message):
            judging_dataset("mm_ifeval", write(tmp_path, "mm_ifeval.jsonl", [row(func, params)]))


def test_rows_without_predictions_say_what_to_do(tmp_path):
    row = instruction("x")
    del row["prediction"]
    with pytest.raises(ConfigError, match=r"line 1: .*run a model on MM-IFEval"):
        judging_dataset("mm_ifeval", write(tmp_path, "mm_ifeval.jsonl", [row]))


@pytest.mark.parametrize(
    "image", ["../secret.png", "/outside/secret.txt", "images/missing.png", "images", "data:image/png;base64,%%"]
)
def test_pictures_stay_in_the_folder(tmp_path, image):
    (tmp_path / "secret.png").write_bytes(png(1))
    folder = tmp_path / "data"
    folder.mkdir()
    source = judging_dataset("vl_rewardbench", write(folder, "vl_rewardbench.jsonl", [preference(image=image)]))
    with pytest.raises(ConfigError, match=r"line 1: .*image"):
        source.find(source.ids("test")[0])


def test_missing_files_and_kinds_are_explained(tmp_path):
    with pytest.raises(ConfigError, match=r"no vl_rewardbench\.jsonl, .* or data\.jsonl; it has nothing"):
        judging_dataset("vl_rewardbench", tmp_path)
    with pytest.raises(ConfigError, match="Did you mean 'vl_rewardbench'"):
        judging_dataset("vl_reward_bench", tmp_path)
    (tmp_path / "armbench_vl.json").write_text('{"rows": []}')
    with pytest.raises(ConfigError, match="expected a list of rows"):
        judging_dataset("armbench_vl", tmp_path)
    (tmp_path / "vl_rewardbench.jsonl").write_text("{}\n[1]\n{")
    with pytest.raises(ConfigError, match=r"no questions.* line 1: .* line 2: .* line 3: "):
        judging_dataset("vl_rewardbench", tmp_path)


def test_a_mark_at_the_start_of_a_file_from_windows_is_passed_over(tmp_path):
    folder = write(tmp_path, "vl_rewardbench.jsonl", [preference()])
    file = folder / "vl_rewardbench.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert judging_dataset("vl_rewardbench", folder).num_samples("test") == 1


def test_worlds_on_one_folder_share_its_rows(tmp_path):
    folder = write(tmp_path, "vl_rewardbench.jsonl", [preference()])
    forward = judging_dataset("vl_rewardbench", folder)
    assert judging_dataset("vl_rewardbench", folder) is forward
    assert judging_dataset("vl_rewardbench", folder, reverse_order=True) is not forward
