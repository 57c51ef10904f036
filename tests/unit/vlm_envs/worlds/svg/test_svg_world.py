"""VLM/SVG-v0 played: what drawings earn, what broken ones cost, what is told."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import vlm_envs
from vlm_envs.errors import ConfigError, GenerationError, LevelError
from vlm_envs.splits import split_of
from vlm_envs.worlds.svg.svg_corpus import load_icons
from vlm_envs.worlds.svg.svg_scorers import resolve_scorer

pytest.importorskip("cairosvg", reason="drawing needs cairosvg: pip install 'vlm-envs[svg]'")

TARGET = '<svg viewBox="0 0 64 64"><circle cx="32" cy="32" r="20" fill="red"/></svg>'
NEAR = TARGET.replace('"20"', '"17"')
BROKEN = "<svg><g></svg>"


class BrightnessScorer:
    """Compares mean brightness; stands for a user's scorer."""

    name = "brightness"

    def similarity(self, target, drawing):
        return 1 - abs(float(target.mean()) - float(drawing.mean())) / 255


class BrokenScorer:
    name = "broken"

    def similarity(self, target, drawing):
        return float("nan")


def make(**kwargs):
    return vlm_envs.make("VLM/SVG-v0", **{"prompt_format": "no_think", "resolution": 64, **kwargs}).unwrapped


def play(world, *drawings, target=TARGET):
    world.reset(seed=0, options={"level": target})
    for drawing in drawings:
        observation, reward, terminated, truncated, info = world.step(f"<answer>{drawing}</answer>")
    return observation, reward, terminated, truncated, info


def test_the_source_earns_five_every_turn():
    world = make()
    world.reset(seed=3)
    total = 0.0
    for _ in range(world.max_turns):
        (markup,) = world.dynamics.plan(world.state)
        _, reward, terminated, truncated, info = world.step(f"<answer>{markup}</answer>")
        total += reward
        assert info["success"] and not terminated
        assert info["state"]["similarity"] == pytest.approx(1.0, abs=1e-6)
    assert truncated
    assert total == pytest.approx(2 * (5.0 + 0.5))


def test_a_better_drawing_earns_more():
    scores = [play(make(), drawing)[4]["reward_terms"]["similarity"] for drawing in (TARGET, NEAR, "<svg/>")]
    assert scores[0] == 5.0
    assert 2.5 < scores[1] < 4.5
    assert scores[2] == 0.0


def test_broken_markup_scores_nothing_and_is_explained():
    observation, reward, terminated, truncated, info = play(make(), BROKEN)
    assert info["format_correct"] and info["action_valid"]
    assert reward == 0.5  # for the format
    assert not terminated and not truncated
    assert "mismatched tag" in observation["text"]
    assert info["state"]["drawing_shapes"] is None
    _, reward, *_ = world_step = play(make(), BROKEN, TARGET)
    assert reward == 5.5 and world_step[4]["success"]


def test_an_answer_without_svg_is_not_in_the_format():
    observation, reward, *_, info = play(make(), "a red circle")
    assert reward == 0.0 and not info["format_correct"]
    assert info["parse_error"] in observation["text"]


def test_the_picture_shows_target_and_drawing():
    world = make()
    first, _ = world.reset(seed=0, options={"level": TARGET})
    assert first["image"].shape == (64, 128, 3)
    assert first["image"][32, 32].tolist() == [255, 0, 0]
    assert (first["image"][:, 64:] < 250).any(axis=2).all()  # grey paper: unlike a drawing, nowhere white
    second, *_ = world.step(f"<answer>{TARGET.replace('red', 'blue')}</answer>")
    assert (second["image"][:, :64] == first["image"][:, :64]).all()
    assert second["image"][32, 96].tolist() == [0, 0, 255]
    third, *_ = play(make(), BROKEN)
    assert (third["image"][:, 64:] != first["image"][:, 64:]).any()


def test_the_state_is_told_in_words_and_as_data():
    *_, info = play(make(), '<svg viewBox="0 0 64 64"><rect x="2" y="4" width="8" height="6" fill="#0000fe"/></svg>')
    assert info["state_text"] == (
        "The target shows a large red circle in the middle. The drawing shows a small blue rectangle at the top left."
    )
    circle = {"kind": "circle", "color": "red", "filled": True, "box": [12.0, 12.0, 52.0, 52.0]}
    rectangle = {"kind": "rect", "color": "blue", "filled": True, "box": [2.0, 4.0, 10.0, 10.0]}
    assert info["state"]["target_shapes"] == [circle]
    assert info["state"]["drawing_shapes"] == [rectangle]
    assert info["state"]["viewbox"] == [0.0, 0.0, 64.0, 64.0]
    assert play(make(representation="structured"), NEAR)[4]["state_text"] == (
        "{target: [red circle [12, 12, 52, 52]], drawing: [red circle [15, 15, 49, 49]]}"
    )


@pytest.mark.parametrize(
    "level", ["", "no markup", BROKEN, '<svg viewBox="0 0 9 9"/>', '<svg viewBox="0 0 9 9"><rect fill="white"/></svg>']
)
def test_levels_that_show_nothing_are_refused(level):
    with pytest.raises(LevelError):
        make().reset(options={"level": level})


def test_a_second_scorer_adds_a_term():
    world = make(scorer=BrightnessScorer(), second_scorer="structural")
    *_, info = play(world, NEAR)
    assert 0 < info["reward_terms"]["second_similarity"] < 1e-4
    assert info["reward_terms"]["similarity"] > 4.5
    assert world.task.best_return(world.state, 1) == pytest.approx(5.0001)


def test_scorers_are_found_by_path():
    assert resolve_scorer("scorer", "vlm_envs.worlds.svg.svg_scorers:StructuralScorer").name == "structural"


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        ("dreamsim", "agents.perception.similarity:dreamsim"),
        ("structurel", "Did you mean 'structural'"),
        ("no_such_module:factory", "cannot import"),
        ("math:no_such_name", "math has no 'no_such_name'"),
        ("builtins:dict", "an object with name and similarity"),
        ("math:pi", "not callable"),
        (5, "or an object"),
    ],
)
def test_other_scorers_are_refused(scorer, message):
    with pytest.raises(ConfigError, match=message):
        make(scorer=scorer)


def test_a_scorer_that_returns_no_similarity_is_named():
    with pytest.raises(ConfigError, match=r"broken.*nan"):
        play(make(scorer=BrokenScorer()), NEAR)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"resolution": 8},
        {"resolution": 10_000},
        {"render_timeout_s": 0},
        {"render_timeout_s": float("nan")},
        {"success_threshold": 0},
        {"success_threshold": 1.5},
        {"difficulty": 6},
        {"max_actions_per_turn": 2},
        {"representation": "symbolic"},
        {"data": "no/such/folder"},
    ],
)
def test_unusable_arguments_are_refused(kwargs):
    with pytest.raises(ConfigError):
        make(**kwargs)


def test_worlds_draw_icons_of_their_split():
    for split, start in (("train", 0), ("val", 1_000_000_000), ("test", 1_500_000_000)):
        world = make(split=split, difficulty=1)
        for seed in range(start, start + 20):
            world.reset(seed=seed)
            assert split_of(world.state.target.encode()) == split


def test_random_actions_are_icons_of_the_same_difficulty():
    world = make(difficulty=1)
    world.reset(seed=0)
    markup = world.task.sample_action(world.state, np.random.default_rng(0))
    assert len(markup) < 100 and play(world, markup)[4]["action_valid"]


def test_closing_one_world_leaves_the_others_drawing():
    first, second = make(), make()
    for world in (first, second):
        world.reset(seed=0)
    first.close()
    first.close()
    assert play(second, NEAR)[4]["state"]["similarity"] > 0.5
    assert play(pickle.loads(pickle.dumps(second)), NEAR)[4]["state"]["similarity"] > 0.5


def icons_as(form, folder):
    """Writes thirty icons in one of the forms that `data` takes, a bad one and a copy among them."""
    rows = [(f"{index}.svg", TARGET.replace("32", str(20 + index))) for index in range(30)]
    rows += [("bad.svg", BROKEN), ("copy.svg", rows[0][1]), ("text.svg", "no markup")]
    if form == "folder":
        (folder / "deeper").mkdir()
        for index, (name, markup) in enumerate(rows):
            (folder / ("deeper" if index % 2 else ".") / name).write_text(markup)
        return folder
    path = folder / f"icons.{form}"
    with path.open("w", newline="") as lines:
        if form == "csv":
            import csv

            csv.writer(lines).writerows([("Filename", "Svg"), *rows])
        else:
            lines.writelines(json.dumps({"Filename": name, "Svg": markup}) + "\n" for name, markup in rows)
    return path


@pytest.mark.parametrize("form", ["folder", "csv", "jsonl"])
def test_icons_of_a_users_own_are_drawn(form, tmp_path):
    source = str(icons_as(form, tmp_path))
    icons = load_icons(source)
    assert sorted(len(markups) for markups in icons.values())[-1] > 15
    assert sum(map(len, icons.values())) == 31  # the copy counts once, and what is no markup not at all
    for split in icons:
        if icons[split]:
            world = make(data=source, split=split)
            world.reset(seed={"train": 0, "val": 1_000_000_000, "test": 1_500_000_000}[split])
            assert world.state.target in icons[split] and world.state.target != BROKEN


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("icons.csv", "Name,Markup\na,b\n", "columns: Name, Markup"),
        ("icons.csv", "", "columns: none"),
        ("icons.jsonl", '{"Svg": ', "line 1: expected a JSON object"),
        ("icons.jsonl", "[1]\n", "expected a JSON object"),
        ("icons.parquet", "PAR1", "Cannot read .*icons.parquet"),
        ("icons.txt", "<svg/>", "'.txt'"),
        ("icons.jsonl", "[" * 1500, "expected a JSON object"),
        ("icons.jsonl", '{"Svg": ' + "1" * 5_000 + "}", "expected a JSON object"),
        ("icons.csv", "Filename,Svg\na,nothing\n", "contains no icons"),
    ],
)
def test_other_data_is_refused(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=message):
        make(data=str(tmp_path / name))


def test_data_without_icons_of_a_split_says_so(tmp_path):
    only = next(m for m in (TARGET.replace("32", str(n)) for n in range(9, 60)) if split_of(m.encode()) == "train")
    (tmp_path / "one.svg").write_text(only)
    make(data=str(tmp_path)).reset(seed=0)
    with pytest.raises(GenerationError, match="'val'"):
        make(data=str(tmp_path), split="val").reset(seed=1_000_000_000)
