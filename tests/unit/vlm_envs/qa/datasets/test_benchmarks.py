"""A benchmark's own split is whole: each item once, in the order of its files, by the seed's place in the split."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from PIL import Image

import vlm_envs
import vlm_envs.content.judging.judging_datasets as judged
from tests.unit.vlm_envs.qa.quiz import Quiz
from tests.unit.vlm_envs.tools.pdfs import pdf
from vlm_envs.errors import ConfigError, GenerationError
from vlm_envs.qa.datasets.dataset_splits import BY_FILES, BY_HASH, remedy_of
from vlm_envs.qa.datasets.document_datasets import DOCUMENT_DATASETS
from vlm_envs.qa.datasets.image_datasets import DATASETS, VIDEO_DATASETS, dataset_source
from vlm_envs.splits import SPLIT_SEEDS, seed_index, split_seeds
from vlm_envs.testing.contract import check_world

NUM_ITEMS = 30


def image_bytes(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 30), (shade, 0, 0)).save(file, "PNG")
    return file.getvalue()


def vstar(folder: Path, num_items: int = NUM_ITEMS) -> Path:
    kind = folder / "direct_attributes"
    kind.mkdir(parents=True, exist_ok=True)
    row = {"target_object": ["flag"], "bbox": [[1, 1, 5, 5]], "options": ["red.", "blue."]}
    for number in range(num_items):
        (kind / f"sa_{number:03}.jpg").write_bytes(image_bytes(number))
        (kind / f"sa_{number:03}.json").write_text(json.dumps(row | {"question": f"Flag {number}?"}))
    return folder


def hrbench(folder: Path) -> Path:
    header = "index\tquestion\tanswer\tcategory\tA\tB\tC\tD\tcycle_category\timage"
    pictures = [base64.b64encode(image_bytes(number)).decode() for number in range(NUM_ITEMS)]
    rows = [f"{n}\tQ{n}?\tA\tsingle\t1\t2\t3\t4\t0\t{pictures[n]}" for n in range(NUM_ITEMS)]
    (folder / "hr_bench_4k.tsv").write_text("\n".join([header, *rows]) + "\n")
    return folder


def mmlongbench_doc(folder: Path) -> Path:
    (folder / "documents").mkdir()
    row = {"answer": "4", "evidence_pages": "[1]", "evidence_sources": "['Chart']", "answer_format": "Int"}
    rows = [row | {"doc_id": f"{n}.pdf", "question": f"Q{n}?"} for n in range(NUM_ITEMS)]
    for number in range(NUM_ITEMS):
        (folder / "documents" / f"{number}.pdf").write_bytes(pdf([f"page of {number}"]))
    (folder / "samples.json").write_text(json.dumps(rows))
    return folder


def vl_rewardbench(folder: Path) -> Path:
    row = {"response": ["Two.", "Three."], "human_ranking": [0, 1]}
    pictures = [base64.b64encode(image_bytes(number)).decode() for number in range(NUM_ITEMS)]
    rows = [row | {"id": f"RLHF-V-{n}", "query": f"Flag {n}?", "image": pictures[n]} for n in range(NUM_ITEMS)]
    (folder / "vl_rewardbench.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


BENCHMARKS: dict[str, tuple[str, Any]] = {
    "vstar": ("VLM/ZoomQA-v0", vstar),
    "hrbench": ("VLM/ZoomQA-v0", hrbench),
    "mmlongbench_doc": ("VLM/DocQA-v0", mmlongbench_doc),
    "vl_rewardbench": ("VLM/RewardJudging-v0", vl_rewardbench),
}


def world_of(kind: str, folder: Path, *, split: str = "test", **kwargs: Any) -> Any:
    env_id, write = BENCHMARKS[kind]
    kwargs = {"obs_mode": "text", "dataset": kind, "folder": str(write(folder)), "split": split} | kwargs
    return vlm_envs.make(env_id, **kwargs).unwrapped


@pytest.mark.parametrize("kind", BENCHMARKS)
def test_the_test_split_is_the_whole_benchmark_each_item_once_in_order(kind, tmp_path):
    world = world_of(kind, tmp_path)
    assert world.num_levels == NUM_ITEMS
    seen = []
    for seed in split_seeds("test", NUM_ITEMS):
        world.reset(seed=seed)
        seen.append(world.state.sample.sample_id)
    assert tuple(seen) == world.dynamics.source.ids("test")
    assert len(set(seen)) == NUM_ITEMS
    questions = [world.dynamics.source.find(each).question for each in seen]
    assert [int(re.findall(r"(\d+)\?$", question)[0]) for question in questions] == list(range(NUM_ITEMS))


def test_seeds_name_items_and_start_over_beyond_the_last(tmp_path):
    world = world_of("vstar", tmp_path)
    first = SPLIT_SEEDS["test"][0]

    def item(**kwargs: Any) -> str:
        world.reset(**kwargs)
        return str(world.state.sample.question)

    assert item(seed=first + 7) == item(seed=7) == "Flag 7?"
    assert item(seed=first + NUM_ITEMS) == "Flag 0?"
    assert [item(seed=first + 28), item(), item(), item()] == ["Flag 28?", "Flag 29?", "Flag 0?", "Flag 1?"]
    level = world.dynamics.source.ids("test")[12]
    assert [item(options={"level": level}), item()] == ["Flag 12?", "Flag 2?"]


def test_without_any_seed_a_benchmark_begins_with_its_first_item(tmp_path):
    world = world_of("hrbench", tmp_path)
    seen = []
    for _ in range(3):
        world.reset()
        seen.append(world.state.sample.question)
    assert seen == ["Q0?", "Q1?", "Q2?"]


@pytest.mark.parametrize("kind", BENCHMARKS)
def test_a_benchmark_has_nothing_to_train_on_unless_it_is_told_that_it_is_none(kind, tmp_path):
    world = world_of(kind, tmp_path, split="train")
    assert world.num_levels is None
    with pytest.raises(GenerationError, match=r"is_benchmark=False"):
        world.reset(seed=0)
    env_id, _ = BENCHMARKS[kind]
    divided = vlm_envs.make(env_id, dataset=kind, folder=str(tmp_path), is_benchmark=False).unwrapped
    parts = {split: set(divided.dynamics.source.ids(split)) for split in ("train", "val", "test")}
    assert sum(map(len, parts.values())) == NUM_ITEMS == len(set.union(*parts.values()))
    assert len(parts["train"]) > NUM_ITEMS / 2
    divided.reset(seed=0)
    assert divided.state.sample.sample_id in parts["train"]


def test_training_levels_are_still_drawn(tmp_path):
    world = world_of("vl_rewardbench", tmp_path, split="train", is_benchmark=False)
    assert world.num_levels is None
    seen = set()
    for seed in range(12):
        world.reset(seed=seed)
        seen.add(world.state.sample.sample_id)
    assert seen < set(world.dynamics.source.ids("train")) and len(seen) > 4


def test_data_sets_with_splits_of_their_own_are_not_divided_again(tmp_path):
    (tmp_path / "test.json").write_text(json.dumps([{"image": "a.jpg", "question": "How many?", "answer": 2}]))
    with pytest.raises(ConfigError, match=r"'tallyqa' define its splits; got is_benchmark=True"):
        dataset_source("tallyqa", tmp_path, is_benchmark=True)
    assert dataset_source("tallyqa", tmp_path).num_samples("test") == 1


def test_what_helps_is_what_the_data_set_takes():
    for kind, dataset in (DATASETS | VIDEO_DATASETS | DOCUMENT_DATASETS).items():
        is_divided = dataset.is_benchmark is not None
        assert ("is_benchmark=False" in remedy_of(kind)) == is_divided
        assert ("put the file of that split" in remedy_of(kind)) != is_divided


def test_names_are_listed_by_how_data_sets_are_divided():
    published = {name: each.is_benchmark for name, each in (DATASETS | VIDEO_DATASETS | DOCUMENT_DATASETS).items()}
    published |= {name: each.is_benchmark for name, each in judged._KINDS.items()}
    assert sorted(BY_HASH) == sorted(name for name, is_benchmark in published.items() if is_benchmark is False)
    assert sorted(BY_FILES) == sorted(name for name, is_benchmark in published.items() if is_benchmark is None)
    for name in BY_HASH:
        assert "the default here, its rows are split by a hash" in remedy_of(name)


def test_is_benchmark_needs_a_data_set():
    for env_id in ("VLM/ZoomQA-v0", "VLM/DocQA-v0", "VLM/RewardJudging-v0"):
        with pytest.raises(ConfigError, match="is_benchmark=False needs a dataset"):
            vlm_envs.make(env_id, is_benchmark=False)
        with pytest.raises(ConfigError, match="train_on_all=True needs a dataset"):
            vlm_envs.make(env_id, train_on_all=True)


@pytest.mark.parametrize("kind", BENCHMARKS)
def test_all_of_a_data_set_is_trained_on_where_another_one_measures(kind, tmp_path):
    world = world_of(kind, tmp_path, split="train", train_on_all=True)
    source = world.dynamics.source
    assert [source.num_samples(split) for split in SPLIT_SEEDS] == [NUM_ITEMS, 0, 0]
    world.reset(seed=0)
    assert source.split_of(world.state.sample.sample_id) == "train"
    env_id, _ = BENCHMARKS[kind]
    held_out = vlm_envs.make(env_id, dataset=kind, folder=str(tmp_path), split="test", train_on_all=True)
    with pytest.raises(GenerationError, match=r"'test' \(train 30, val 0, test 0\).*another dataset.*train_on_all"):
        held_out.reset(seed=0)
    assert vlm_envs.make(env_id, dataset=kind, folder=str(tmp_path), split="test").unwrapped.num_levels == NUM_ITEMS


def test_who_trains_on_all_of_a_data_set_says_nothing_else_about_its_splits(tmp_path):
    for is_benchmark in (True, False):
        with pytest.raises(ConfigError, match=f"'vstar' into 'train', contradicts is_benchmark={is_benchmark}"):
            world_of("vstar", tmp_path, train_on_all=True, is_benchmark=is_benchmark)
        with pytest.raises(ConfigError, match="into 'train', contradicts is_benchmark"):
            world_of("vl_rewardbench", tmp_path, train_on_all=True, is_benchmark=is_benchmark)
    (tmp_path / "test.json").write_text(json.dumps([{"image": "a.jpg", "question": "How many?", "answer": 2}]))
    with pytest.raises(ConfigError, match=r"'tallyqa' define its splits; got train_on_all=True"):
        dataset_source("tallyqa", tmp_path, train_on_all=True)


def test_generated_worlds_and_sources_without_a_list_draw_their_levels():
    assert vlm_envs.make("VLM/FrozenLake-v0", split="test").unwrapped.num_levels is None
    assert vlm_envs.make("VLM/ZoomQA-v0", split="test", source=Quiz()).unwrapped.num_levels is None


def test_a_source_of_ones_own_is_gone_through_in_order_once_it_lists_its_samples():
    class Listed(Quiz):
        def num_samples(self, split: str) -> int:
            return 3

        def sample_at(self, index: int, split: str) -> Any:
            return self.find(f"quiz:{index}")

    world = vlm_envs.make("VLM/ZoomQA-v0", split="val", source=Listed()).unwrapped
    assert world.num_levels == 3
    world.reset(seed=SPLIT_SEEDS["val"][2])
    assert world.state.sample.sample_id == "quiz:2"


def test_the_place_of_a_seed_in_its_split():
    assert [seed_index(seed, "test") for seed in split_seeds("test", 3, start=5)] == [5, 6, 7]
    assert seed_index(7, "test") == 7
    assert seed_index(7, "train") == 7
    assert seed_index(int(np.int64(1_500_000_000)), "test") == 0


@pytest.mark.parametrize("kwargs", [{"split": "test"}, {"is_benchmark": False}])
def test_a_data_set_keeps_the_contract_of_worlds(tmp_path, kwargs):
    check_world("VLM/ZoomQA-v0", dataset="vstar", folder=str(vstar(tmp_path)), **kwargs)
