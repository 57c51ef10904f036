"""Datasets to fine-tune on: reading, left-out rows, held-out rows, and order."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agents.hf.chat import ChatEncoder
from tests.unit.training.curation.test_curate import config as curate_config
from training.cold_start.demonstrations import tokenized
from training.curation.curated_data import curated_episodes
from training.curation.curation_loop import make_data_set
from training.sft.sft_config import DataSource, SFTConfig
from training.sft.sft_rows import (
    DataSet,
    encoded,
    num_tokens,
    read_data_set,
    row_batches,
    row_order,
    told,
    with_held_out,
)
from vlm_envs.errors import ConfigError


def picture(path: Path, seed: int = 0, size: tuple[int, int] = (40, 56)) -> None:
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)).save(path)


def asked(image: str, answer: str = "A mug.") -> dict[str, object]:
    messages = [{"role": "user", "content": "<image>What is it?"}, {"role": "assistant", "content": answer}]
    return {"messages": messages, "images": [image]}


def written(path: Path, rows: list[object]) -> DataSource:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return DataSource(path=str(path))


@pytest.fixture
def encoder(tiny) -> ChatEncoder:
    return tiny[1]


def tokens(read: DataSet, encoder: ChatEncoder) -> list[list[list[int]]]:
    return [
        [[*turn.prompt_ids.tolist(), -1, *turn.response_ids.tolist()] for turn in encoded(row, encoder).turns]
        for row in read.rows
    ]


@pytest.mark.parametrize("with_system", [False, True])
def test_what_curate_writes_for_others_reads_back_as_its_own_episodes(tmp_path, encoder, with_system):
    chosen = curate_config(tmp_path, mistake_rate=0.0, num_rollouts=1)
    if with_system:
        chosen = curate_config(tmp_path, mistake_rate=0.0, num_rollouts=1, name="system")
        object.__setattr__(chosen, "settings", (*chosen.settings, "system_prompt=True"))
    directory, _ = make_data_set(chosen)
    own, others = (
        read_data_set(DataSource(path=str(path)), encoder, 4096) for path in (directory, directory / "sft.jsonl")
    )
    assert tokens(own, encoder) == tokens(others, encoder)
    assert [row.pictures for row in own.rows] == [row.pictures for row in others.rows]
    imitated = [tokenized(episode, encoder) for episode in curated_episodes(directory)]
    shown = [[[*t.prompt_ids.tolist(), -1, *t.response_ids.tolist()] for t in each.turns] for each in imitated]
    assert tokens(own, encoder) == shown, "what a cold start reads of it"
    first, again = (next(row_batches(iter(each.rows), 4, encoder)) for each in (own, others))
    assert first.input_ids_BT.equal(again.input_ids_BT) and first.response_mask_BT.equal(again.response_mask_BT)
    assert [image.key for image in first.images] == [image.key for image in again.images]


def test_broken_rows_are_named_by_file_and_line_and_the_others_are_read(tmp_path, encoder):
    picture(tmp_path / "a.png")
    picture(tmp_path / "cut.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "cut.jpg").read_bytes()[:-200])
    (tmp_path / "text.png").write_text("no picture")
    rows = [
        asked("a.png"),
        asked("missing.png"),
        "",
        '{"messages": [',
        asked("cut.jpg"),
        asked("text.png"),
        [1],
        {"messages": [{"role": "user", "content": "?"}]},
        {**asked("a.png"), "images": []},
        asked(str(tmp_path / "a.png"), "It is a mug."),
    ]
    read = read_data_set(written(tmp_path / "rows.jsonl", rows), encoder, 4096)
    assert [row.line for row in read.rows] == [1, 10]
    named = {each.line: each.reason for each in read.left_out}
    assert [*named] == [2, 4, 5, 6, 7, 8, 9]
    assert named[2] == f"there is no image {tmp_path / 'missing.png'}"
    for line, part in {4: "not a JSON object", 5: "truncated", 6: "no image of PNG", 7: "not a JSON object"}.items():
        assert part in named[line], line
    assert "no turn of the assistant" in named[8] and "placeholders" in named[9]
    assert read.num_left_out("broken") == 7
    lines = list(told(read.left_out, most=2))
    assert lines[0] == f"left out: {tmp_path / 'rows.jsonl'}, line 2: {named[2]}"
    assert lines[-1] == "left out: 5 more; left_out.jsonl lists all"


def test_rows_longer_than_the_context_are_counted_and_left_out(tmp_path, encoder):
    picture(tmp_path / "a.png")
    source = written(tmp_path / "rows.jsonl", [asked("a.png"), asked("a.png", "mug " * 50)])
    (short, long) = read_data_set(source, encoder, 4096).rows
    sizes = {tmp_path / "a.png": (40, 56)}
    limit = num_tokens(short, encoder, sizes)
    turn = encoded(short, encoder).turns[0]
    assert limit == len(turn.prompt_ids) + len(turn.response_ids) < num_tokens(long, encoder, sizes)
    read = read_data_set(source, encoder, limit)
    assert [row.line for row in read.rows] == [1]
    assert [(each.line, each.why) for each in read.left_out] == [(2, "too long")]
    with pytest.raises(ConfigError, match=r"none of 2 rows .*: 0 are broken, 2 longer .*--max-context-tokens"):
        read_data_set(source, encoder, limit - 1)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "the dataset is empty"),
        ('{"messages": []}\n', r"none of 1 rows .*: 1 are broken.*rows\.jsonl, line 1: no turn"),
        ('[{"messages": []}]', "is one JSON list, .*jq -c"),
    ],
)
def test_a_data_set_of_which_nothing_is_left_is_refused(tmp_path, encoder, content, told):
    (tmp_path / "rows.jsonl").write_text(content)
    with pytest.raises(ConfigError, match=told):
        read_data_set(DataSource(path=str(tmp_path / "rows.jsonl")), encoder, 4096)


def test_damaged_episodes_of_a_curated_set_are_left_out_too(tmp_path, encoder):
    directory, _ = make_data_set(curate_config(tmp_path, mistake_rate=0.0, num_rollouts=1))
    path = directory / "trajectories" / "curated.jsonl"
    first, second, *rest = path.read_text().splitlines()
    cut = json.dumps({**json.loads(second), "turns": [{}]})
    path.write_text("\n".join([first[:50], cut, *rest]) + "\n")
    read = read_data_set(DataSource(path=str(directory)), encoder, 4096)
    assert [each.line for each in read.left_out] == [1, 2] and len(read.rows) == len(rest)
    assert "not an episode recorded by `curate`" in read.left_out[1].reason


def test_transparent_turned_and_grey_pictures_are_shown_as_they_look(tmp_path, encoder):
    turned = Image.new("RGB", (60, 30), "red").getexif()
    turned[0x0112] = 6  # to be turned by a quarter
    Image.new("RGB", (60, 30), "red").save(tmp_path / "turned.jpg", exif=turned)
    Image.new("RGBA", (30, 30), (255, 0, 0, 128)).save(tmp_path / "clear.png")
    Image.new("L", (30, 30), 7).save(tmp_path / "grey.png")
    rows = [asked(name) for name in ("turned.jpg", "clear.png", "grey.png")]
    read = read_data_set(written(tmp_path / "rows.jsonl", rows), encoder, 4096)
    shapes = [encoded(row, encoder).turns[0].observation["images"][0].shape for row in read.rows]
    assert shapes == [(60, 30, 3), (30, 30, 3), (30, 30, 3)]


def two_sets_of_ten_pictures(directory: Path, encoder: ChatEncoder) -> list[DataSet]:
    directory.mkdir()
    for number in range(10):
        picture(directory / f"{number}.png", number)
    one = written(directory / "one.jsonl", [asked(f"{number}.png") for number in range(10)])
    two = written(directory / "two.jsonl", [asked(f"{number}.png", "Another.") for number in range(10)])
    return [read_data_set(source, encoder, 4096) for source in (one, two)]


def test_rows_of_one_picture_are_held_out_together_in_whichever_set_they_are(tmp_path, encoder):
    sets = two_sets_of_ten_pictures(tmp_path / "sets", encoder)
    split = with_held_out(sets, 0.3, seed=1)
    assert [len(each.held_out) for each in split] == [3, 3]
    assert [row.pictures for row in split[0].held_out] == [row.pictures for row in split[1].held_out]
    assert not {row.pictures for row in split[0].rows} & {row.pictures for row in split[1].held_out}
    assert [len(each.rows) + len(each.held_out) for each in split] == [10, 10]
    assert with_held_out(sets, 0.3, seed=1) == split != with_held_out(sets, 0.3, seed=2)
    assert with_held_out(sets, 0.0, seed=1) == sets


def test_the_same_rows_are_held_out_wherever_the_data_lies(tmp_path, encoder):
    here, there = (
        with_held_out(two_sets_of_ten_pictures(tmp_path / name, encoder), 0.3, seed=1) for name in ("here", "there")
    )
    for one, other in zip(here, there, strict=True):
        names = [[row.pictures[0].name for row in each.held_out] for each in (one, other)]
        assert names[0] == names[1] and len(names[0]) == 3


def test_a_set_of_which_nothing_is_left_is_refused(tmp_path, encoder):
    rows = [asked(f"{number}.png") for number in range(3)]
    for number in range(3):
        picture(tmp_path / f"{number}.png", number)
    sets = [
        read_data_set(written(tmp_path / f"{name}.jsonl", [row]), encoder, 4096)
        for name, row in zip("abc", rows, strict=True)
    ]
    with pytest.raises(ConfigError, match=r"--eval-share 0.9 holds out all 1 rows of .*\.jsonl"):
        with_held_out(sets, 0.9, seed=1)


def test_an_epoch_shows_each_row_as_often_as_its_weight_says():
    sizes, weights = [6, 5, 4], [1.0, 2.0, 0.5]
    of_epoch = 6 + 10 + 2
    shown = list(islice(row_order(sizes, weights, seed=3), 2 * of_epoch))
    for epoch in (shown[:of_epoch], shown[of_epoch:]):
        assert Counter(number for number, _ in epoch) == {0: 6, 1: 10, 2: 2}
        assert Counter(row for number, row in epoch if number == 0) == Counter(range(6))
        assert Counter(row for number, row in epoch if number == 1) == Counter({row: 2 for row in range(5)})
    assert {row for number, row in shown if number == 2} == set(range(4)), "the other half in the next epoch"
    assert shown[:of_epoch] != shown[of_epoch:]
    assert list(islice(row_order(sizes, weights, seed=3), 2 * of_epoch)) == shown
    assert list(islice(row_order(sizes, weights, seed=4), 2 * of_epoch)) != shown


@pytest.mark.parametrize(
    ("text", "path", "weight"),
    [("a.jsonl", "a.jsonl", 1.0), ("a.jsonl=2", "a.jsonl", 2.0), ("k=v/a=0.5", "k=v/a", 0.5), ("k=v", "k=v", 1.0)],
)
def test_a_weight_stands_behind_a_data_set(text, path, weight):
    assert DataSource.of(text) == DataSource(path=path, weight=weight)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"data": ()}, "data PATH"),
        ({"data": ("a=0",)}, "a weight must be positive"),
        ({"data": ("a=nan",)}, "a weight must be positive"),
        ({"data": ("a", "a=2")}, "given twice"),
        ({"eval_share": 1.0}, "eval_share must be at least 0 and below 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, told):
    with pytest.raises(ConfigError, match=told):
        SFTConfig(**{"model": "m", "data": ("a",)} | changes)


def test_steps_follow_from_epochs_and_weights():
    config = SFTConfig(model="m", data=("a", "b=0.5"), num_epochs=2.0, batch_size=4, warmup_ratio=0.1)
    steps = config.steps([10, 6])
    assert (steps.num_steps, steps.warmup_steps) == (7, 1), "2 * (10 + 3) rows by 4, rounded up"
    assert steps.learning_rate_at(0) == config.learning_rate
    assert steps.learning_rate_at(7) == pytest.approx(0.0)
    assert SFTConfig(model="m", data=("a",), num_steps=3).steps([10]).num_steps == 3
