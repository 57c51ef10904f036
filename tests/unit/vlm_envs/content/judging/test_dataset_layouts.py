"""Rows with every field of the published ones, in the types they have there; texts and pictures are invented.

Read off the data cards and released readers in November 2026: VL-RewardBench (its card; cal.py and inference_hf.py of
its repository; R1-Reward's data.jsonl, all 1,250 rows of which load, in groups of 749, 318 and 183), LLaVA-Critic-113k
(its card and LLaVA-Critic's model card), MM-IFEval (MM-IFEngine's and VLMEvalKit's evaluation), ARMBench-VL
(ARM-Thinker's eval_utils).
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from PIL import Image

import vlm_envs
from tests.unit.vlm_envs.tools.pdfs import pdf
from vlm_envs.content.judging.judging_datasets import DATASETS, judging_dataset
from vlm_envs.errors import ConfigError, GenerationError
from vlm_envs.qa.datasets.dataset_source import DatasetSource
from vlm_envs.qa.sample import Sample
from vlm_envs.splits import SPLITS


def picture(shade: int = 200) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (60, 40), (shade, 20, 20)).save(file, "PNG")
    return file.getvalue()


def put(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def put_table(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)


def shade(sample: Sample) -> int:
    return int(sample.images[0].picture().pixels[0, 0, 0])


def everything(source: DatasetSource, split: str = "test") -> list[Sample]:
    return [source.sample_at(index, split) for index in range(source.num_samples(split))]


def right(sample: Sample) -> str:
    return sample.texts[int(sample.key.answers[0]) - 1][1]


RANKED = {
    "id": "hallucination_pair-1003",
    "query": "<image>\nHow many cats are there?",
    "response": ["There are two cats.", "There are three cats."],
    "human_ranking": [1, 0],
    "models": ["one", "other"],
    "judge": "human",
    "rationale": "There are three.",
    "query_source": "LLaVA",
    "ground_truth": "",
}
GROUPS = {
    # By the id, as the released cal.py has it: all that begin otherwise are VLFeedback's.
    "hallucination_pair-10032": "hallucination",
    "RLAIF-V-14": "hallucination",
    "RLHF-V-31": "hallucination",
    "mathverse_1294": "reasoning",
    "mmmu_pro_test_Electronics_6": "reasoning",
    "wildvision-battle-13": "general",
    "jailbreak-Fraud-29": "general",
    "svit-complex_reasoning-876": "general",
    "LRVInstruction-000000007746": "general",
    "politics-Gov_Decision-124": "general",
}


def test_vl_rewardbench_as_its_card_has_it(tmp_path):
    rows = [RANKED | {"id": name, "image": {"bytes": picture(9 * n), "path": None}} for n, name in enumerate(GROUPS)]
    put_table(tmp_path / "data" / "test-00000-of-00001.parquet", rows)
    samples = everything(judging_dataset("vl_rewardbench", tmp_path))
    assert [sample.category.removeprefix("vl_rewardbench_") for sample in samples] == list(GROUPS.values())
    assert {right(sample) for sample in samples} == {"There are three cats."}
    assert [shade(sample) for sample in samples] == [9 * n for n in range(len(GROUPS))]
    assert "<image>" not in samples[0].question


def test_vl_rewardbench_as_data_jsonl_with_the_paths_of_pictures(tmp_path):
    paths = {
        "images/povid/7.png": "hallucination",
        "rlaif-v/7.png": "hallucination",
        "images/reasoning_tasks/7.png": "reasoning",
        "images/mmmu/7.png": "reasoning",
        "images/wildvision-battle/7.png": "general",
        "vlfeedback/7.png": "general",
    }
    # What a query is from says nothing of its group: here it is always MathVerse.
    rows = [RANKED | {"id": f"{n}", "image_path": path, "query_source": "MathVerse"} for n, path in enumerate(paths)]
    put(tmp_path / "data.jsonl", "\n".join(map(json.dumps, rows)).encode())
    for path in paths:
        put(tmp_path / path, picture(77))
    samples = everything(judging_dataset("vl_rewardbench", tmp_path))
    assert [sample.category.removeprefix("vl_rewardbench_") for sample in samples] == list(paths.values())
    assert [shade(sample) for sample in samples] == [77] * 6


def test_vl_rewardbench_as_r1_reward_has_it(tmp_path):
    row = {
        "id": "RLHF-V-31",
        "prompt": "How many cats are there?",
        "chosen": "There are three cats.",
        "rejected": "There are two cats.",
        "image": "vl_reward/img/image_0.jpg",
        "chosen_reason": "",
        "rejected_reason": "",
    }
    put(tmp_path / "data.jsonl", row)
    put(tmp_path / row["image"], picture(3))
    (sample,) = everything(judging_dataset("vl_rewardbench", tmp_path))
    assert (right(sample), sample.category, shade(sample)) == (
        "There are three cats.",
        "vl_rewardbench_hallucination",
        3,
    )


def test_llava_critic_as_its_card_has_it(tmp_path):
    def row(number: int, verdict: str) -> dict[str, Any]:
        asked = (
            "<image>\nJudge the two answers.\nQuestion: [What is it?]\nThe first response: [A boat.]\n"
            "The second response: [A car.]\nASSISTANT:\n"
        )
        turns = [{"from": "human", "value": asked}, {"from": "gpt", "value": verdict}]
        image = {"bytes": picture(number), "path": f"{number}.jpg"}
        return {"id": f"pair-{number}", "source": "somewhere", "conversations": turns, "image": image}

    verdicts = ["The first response is better.", "**The second response** is better: it is a car.", "Both are good."]
    for part in range(2):
        rows = [row(10 * part + number, verdict) for number, verdict in enumerate(verdicts)]
        put_table(tmp_path / "pairwise" / f"train-0000{part}-of-00002.parquet", rows)
    samples = everything(judging_dataset("llava_critic", tmp_path, is_benchmark=True))
    assert [right(sample) for sample in samples] == ["A boat.", "A car."] * 2
    assert [shade(sample) for sample in samples] == [0, 1, 10, 11]
    divided = judging_dataset("llava_critic", tmp_path)
    assert sum(divided.num_samples(split) for split in ("train", "val", "test")) == 4


ASKED = "Judge.\nQuestion: [{}What?]\nThe first response: [{}A boat.]\nThe second response: [A car.]\nASSISTANT:\n"


def llava_critic(question: str = "", response: str = "", before: str = "<image>\n") -> dict[str, Any]:
    said = before + ASKED.format(question, response), "The first response is better."
    return {"id": "1", "image": "a.png", "conversations": [{"from": "human", "value": value} for value in said]}


@pytest.mark.parametrize(
    ("name", "row", "reason"),
    [
        ("vl_rewardbench", {"query": "<video>How many?"}, "the placeholder <video>"),
        ("vl_rewardbench", {"query": "<image><image>How many?"}, "2 placeholders <image> for 1 images"),
        ("vl_rewardbench", {"response": ["<image>Two.", "Three."]}, "<image> in an answer"),
        ("vl_rewardbench", {"videos": ["a.mp4"]}, "`videos`"),
        ("vl_rewardbench", {"prompt": "<video>?", "chosen": "Three.", "rejected": "Two."}, "the placeholder <video>"),
        ("vl_rewardbench", {"prompt": "?", "chosen": "<image>Three.", "rejected": "Two."}, "<image> in an answer"),
        ("llava_critic", llava_critic(question="<video>"), "the placeholder <video>"),
        ("llava_critic", llava_critic(before="<video>\n"), "the placeholder <video>"),
        ("llava_critic", llava_critic(response="<image>"), "<image> in an answer"),
        ("llava_critic", llava_critic() | {"videos": ["a.mp4"]}, "`videos`"),
        ("llava_critic", llava_critic(question="<image>"), None),
        ("llava_critic", llava_critic(response="<video>"), None),
    ],
)
def test_published_pairs_with_media_that_are_not_read_are_broken(tmp_path, name, row, reason):
    put(tmp_path / "a.png", picture())
    put(tmp_path / f"{name}.json", [(RANKED if name == "vl_rewardbench" else {}) | {"image": "a.png"} | row])
    if reason is None:
        (sample,) = everything(judging_dataset(name, tmp_path, is_benchmark=True))
        assert "<image>" not in sample.question
        return
    with pytest.raises(ConfigError, match=reason):
        judging_dataset(name, tmp_path, is_benchmark=True)


CONSTRAINT = {
    "key": "word_count",
    "value": "Use two or three words.",
    "judge": {
        "method": "rule_based",
        "verify_funcs": [{"func": "check_whether_response_word_count_in_range", "params": [2, 3]}],
    },
}


@pytest.mark.parametrize(
    ("fields", "request_text"),
    [
        # MM-IFEngine's own files: the instruction apart from the constraints, the picture a file.
        (
            {"instruction": "Describe it.", "constraints": [CONSTRAINT], "image": "images/1.png"},
            "Describe it. Use two or three words.",
        ),
        ({"instruction": "Describe it.", "constraints": [CONSTRAINT], "image_path": "images/1.png"}, None),
        # VLMEvalKit's table: the whole prompt, the constraints as JSON.
        (
            {"question": "Describe it in two words.", "constraints": json.dumps([CONSTRAINT]), "image": "images/1.png"},
            "Describe it in two words.",
        ),
    ],
)
def test_mm_ifeval(tmp_path, fields, request_text):
    row = {"index": 3, "id": "c_3", "tag": "C-Level", "infer_type": "main"} | fields
    aside = row | {"infer_type": "aux_cmp_gpt", "del_cons": "word_count", "prediction": "x"}
    perception = {"index": 9, "id": "p_9", "tag": "P-Level", "infer_type": "main", "question": "q", "answer": '["a"]'}
    rows = [row | {"prediction": "A cat."}, row | {"prediction": ""}, aside, perception | {"prediction": "a"}]
    put(tmp_path / "mm_ifeval.jsonl", "\n".join(map(json.dumps, rows)).encode())
    put(tmp_path / "images" / "1.png", picture(44))
    samples = everything(judging_dataset("mm_ifeval", tmp_path))
    assert [sample.key.answers for sample in samples] == [("True",), ("False",)]
    assert [shade(sample) for sample in samples] == [44, 44]
    assert samples[0].question.endswith(f"\n{request_text}" if request_text else "words.")


def test_armbench_vl_as_released(tmp_path):
    single = {"idx": 1, "rm_tag": "single_rm", "question": "<image>\nWhich colour?", "preds": ["Red."], "gt": "False"}
    single |= {"images": ["vstar/1.png"]}
    pair = single | {"idx": "relpos-cb8b258c", "rm_tag": "2-way-pair_rm", "preds": ["Red.", "Blue."], "gt": 2}
    four = pair | {"rm_tag": "4-way-pair_rm", "preds": ["a", "b", "c", "d"], "gt": 3}
    paged = pair | {"rm_tag": "pair_rm", "doc_id": "report.pdf", "images": ["report_all.png"]}
    told = single | {"gt": "True", "constraints": [CONSTRAINT]}
    put(tmp_path / "fine_grained_perception.jsonl", "\n".join(map(json.dumps, [single, pair, four])).encode())
    put(tmp_path / "multimodal_long_document.jsonl", paged)
    put(tmp_path / "multimodal_instruction_following.jsonl", told)
    put(tmp_path / "vstar" / "1.png", picture(5))
    put(tmp_path / "documents" / "report.pdf", pdf(["one", "two"]))
    one, two, several, document, instruction = everything(judging_dataset("armbench_vl", tmp_path))
    assert one.key.answers == ("False",) and instruction.key.answers == ("True",)
    assert (right(two), right(several), right(document)) == ("Blue.", "c", "Blue.")
    assert shade(one) == 5 and document.document.num_pages == 2 and document.images == ()
    assert instruction.question.endswith("Which colour?\nUse two or three words.")
    assert [sample.category for sample in (one, several, document, instruction)] == [
        "fine_grained_armbench_1",
        "fine_grained_armbench_4",
        "document_armbench_2",
        "instruction_following_armbench_1",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rm_tag": "triple_rm"}, "expected one of single_rm, .* as 'rm_tag'"),
        ({"gt": "maybe"}, "expected True or False as 'gt'; got 'maybe'"),
        ({"rm_tag": "pair_rm", "preds": ["a", "b"], "gt": 3}, "expected a number from 1 to 2 as 'gt'; got '3'"),
        ({"preds": ["a", "b"]}, "expected a list of 1 texts as 'preds'"),
        ({"rm_tag": "pair_rm", "preds": ["a", "a "], "gt": 1}, "responses 1 and 2 are equal"),
        ({"images": []}, "expected a list of texts as 'images'"),
        ({"constraints": ["short"]}, "expected a constraint with a text as 'value'"),
    ],
)
def test_broken_rows_of_the_released_armbench_are_named(tmp_path, changes, message):
    row = {"idx": 1, "rm_tag": "single_rm", "question": "q", "preds": ["a"], "gt": "True", "images": ["1.png"]}
    put(tmp_path / "fine_grained_perception.jsonl", row | changes)
    with pytest.raises(ConfigError, match=f"fine_grained_perception.jsonl, line 1: {message}"):
        judging_dataset("armbench_vl", tmp_path)


def test_the_released_armbench_may_have_one_mistake_twice(tmp_path):
    row = {"idx": 1, "rm_tag": "4-way-pair_rm", "question": "q", "preds": ["a", "b", "a", "c"], "gt": 2}
    put(tmp_path / "fine_grained_perception.jsonl", row | {"images": ["1.png"]})
    put(tmp_path / "1.png", picture(5))
    assert right(*everything(judging_dataset("armbench_vl", tmp_path))) == "b"


def pairs(folder: Path, num_rows: int = 60) -> str:
    rows = [{"prompt": f"What is {n} and 1?", "chosen": f"{n + 1}.", "rejected": f"{n}."} for n in range(num_rows)]
    put(folder / "pairs.jsonl", "\n".join(map(json.dumps, rows)).encode())
    return str(folder)


def test_pairs_of_ones_own_need_no_picture_and_no_id(tmp_path):
    source = judging_dataset("pairs", pairs(tmp_path))
    numbers = {split: source.num_samples(split) for split in ("train", "val", "test")}
    assert sum(numbers.values()) == 60 and numbers["train"] > 30 and min(numbers.values()) > 0
    sample = source.draw(np.random.default_rng(0), "train")
    asked = int(sample.question.rpartition("What is ")[2].split()[0])
    assert right(sample) == f"{asked + 1}." and sample.images == ()
    put(tmp_path / "pairs.jsonl", {"prompt": "q", "chosen": "a", "rejected": "b", "image": "1.png", "id": 7})
    put(tmp_path / "1.png", picture(8))
    one = judging_dataset("pairs", tmp_path, is_benchmark=True)
    assert [shade(sample) for sample in everything(one)] == [8]


def test_a_request_without_a_picture_is_not_said_to_be_about_one(tmp_path):
    sample = judging_dataset("pairs", pairs(tmp_path)).draw(np.random.default_rng(0), "train")
    assert "picture" not in sample.question and "document" not in sample.question
    assert "or 2.\nThe request:\nWhat is " in sample.question
    put(tmp_path / "pairs.jsonl", {"prompt": "q", "chosen": "a", "rejected": "b", "image": "1.png"})
    put(tmp_path / "1.png", picture(8))
    (shown,) = everything(judging_dataset("pairs", tmp_path, is_benchmark=True))
    assert "or 2. The request is about the picture.\nThe request:\nq" in shown.question


def test_a_split_without_rows_says_how_many_the_others_have_and_what_helps(tmp_path):
    source = judging_dataset("pairs", pairs(tmp_path, num_rows=1))
    (filled,) = (split for split in SPLITS if source.num_samples(split))
    empty = next(split for split in SPLITS if split != filled)
    with pytest.raises(GenerationError) as told:
        source.draw(np.random.default_rng(0), empty)
    counts = ", ".join(f"{split} {int(split == filled)}" for split in SPLITS)
    assert f"pairs has no sample of split {empty!r} ({counts}). Its rows are split by a hash" in str(told.value)
    whole = judging_dataset("pairs", tmp_path, is_benchmark=True)
    with pytest.raises(GenerationError, match=r"\(train 0, val 0, test 1\)\. .*is_benchmark=False"):
        whole.draw(np.random.default_rng(0), "train")


@pytest.mark.parametrize(
    ("row_id", "path", "group"),
    [
        ("hallucination_pair-8", "VLFeedback/a.jpg", "general"),
        ("mathverse_5", "images/RLAIF-V/a.jpg", "hallucination"),
        ("hallucination_pair-8", "images/a.jpg", "hallucination"),
        ("x", "images/WildVision/a.jpg", "general"),
        ("x", "povid/MMMU/RLAIF-V-1.jpg", "reasoning"),
        ("WildVision-3", "images/RLAIF-V-1.jpg", "hallucination"),
    ],
)
def test_the_pictures_folder_tells_a_group_before_the_id_does(tmp_path, row_id, path, group):
    put(tmp_path / "data.jsonl", RANKED | {"id": row_id, "image_path": path, "image": None})
    put(tmp_path / path, picture(1))
    (sample,) = everything(judging_dataset("vl_rewardbench", tmp_path))
    assert sample.category == f"vl_rewardbench_{group}"


def test_the_worlds_argument_arrives_and_the_papers_sentences_are_paid(tmp_path):
    for number in range(60):
        put(tmp_path / f"{number}.png", picture(number))
    rows = [RANKED | {"id": str(n), "image": f"{n}.png"} for n in range(60)]
    put(tmp_path / "vl_rewardbench.jsonl", "\n".join(map(json.dumps, rows)).encode())
    kwargs: dict[str, Any] = {"dataset": "vl_rewardbench", "folder": str(tmp_path), "prompt_format": "direct"}
    world = vlm_envs.make("VLM/RewardJudging-v0", is_benchmark=False, **kwargs).unwrapped
    rewards = []
    for number in (1, 2):
        world.reset(seed=0)
        _, reward, *_ = world.step(f"<think>a</think><answer>**Overall Judgment:** Answer {number} is better.</answer>")
        rewards.append(reward)
    assert sorted(rewards) == [0.0, 1.0]


def test_judged_rows_of_ones_own_are_trained_on(tmp_path):
    put(tmp_path / "a.png", picture())
    row = {"id": "1", "track": "fine_grained", "question": "What is it?", "image": "a.png", "responses": ["A", "B"]}
    put(tmp_path / "judged.jsonl", row | {"answer": 2})
    source = judging_dataset("judged", tmp_path)
    (sample,) = (each for split in SPLITS for each in everything(source, split))
    assert (right(sample), sample.category) == ("B", "fine_grained_judged_2")


def test_every_published_data_set_is_here():
    tested = " ".join(name for name in globals() if name.startswith("test_"))
    assert all(kind in tested for kind in DATASETS)
