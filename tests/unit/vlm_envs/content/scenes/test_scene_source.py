import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.content.scenes import scene_rendering
from vlm_envs.content.scenes.scene_source import SceneSource, find_sample
from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.splits import SPLITS, split_of

SMALL = {"side_px": 224, "target_px": (16, 24), "max_objects": 14}


def drawn(seed=0, split="train", **settings):
    return SceneSource(**{**SMALL, **settings}).draw(np.random.default_rng(seed), split)


def test_an_id_leads_back_to_its_sample_on_any_source():
    sample = drawn(categories=("count", "relation"), kinds=("number", "choice"), settings=("desk", "map"))
    find_sample.cache_clear()
    assert SceneSource().find(sample.sample_id) == sample


def test_ids_are_one_line_that_tells_all_settings():
    sample = drawn(categories=("existence",), kinds=("exact",), settings=("shelf",))
    start = "scene:side=224-224,target=16-24,things=14,ask=existence,key=exact,in=shelf:"
    assert sample.sample_id.startswith(start)
    assert int(sample.sample_id.removeprefix(start)) < 2**63


def test_a_single_question_of_a_category_is_asked_by_its_name():
    clocks = {"target_px": (24, 30), "categories": ("attribute:time_choice",)}
    for seed in range(4):
        sample = drawn(seed, **clocks)
        assert "time" in sample.question
        assert sample.category == "attribute"
    find_sample.cache_clear()
    assert SceneSource().find(sample.sample_id) == sample
    with pytest.raises(ConfigError, match="attribute:time_choice"):
        drawn(target_px=16, categories=("attribute:time_choice",))
    with pytest.raises(ConfigError, match="attribute:tiem"):
        drawn(categories=("attribute:tiem",))


@pytest.mark.parametrize("split", SPLITS)
def test_samples_belong_to_their_split_by_content(split):
    source, rng = SceneSource(**SMALL), np.random.default_rng(5)
    for _ in range(5):
        assert split_of(source.draw(rng, split).digest.encode()) == split


@pytest.mark.soak
def test_another_process_draws_the_same():
    program = (
        "import numpy as np, hashlib\n"
        "from vlm_envs.content.scenes.scene_source import SceneSource\n"
        "sample = SceneSource(side_px=224, target_px=(16, 24), max_objects=14).draw(np.random.default_rng(0), 'val')\n"
        "print(sample.sample_id, sample.digest, sample.images[0].picture().digest)"
    )
    here = drawn(split="val")
    expected = f"{here.sample_id} {here.digest} {here.images[0].picture().digest}\n"
    for hash_seed in ("0", "77"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
        )
        assert done.stdout == expected


def test_drawing_renders_nothing(monkeypatch):
    monkeypatch.setattr(scene_rendering, "render", None)
    sample = drawn(side_px=8000, target_px=(8, 40))
    assert (sample.images[0].width, sample.images[0].height) == (8000, 8000)
    assert sample.images[0].digest


def test_samples_are_small_to_pickle():
    sample = drawn(side_px=(2000, 8000), target_px=(8, 40), max_objects=40)
    assert len(pickle.dumps(sample)) < 8000
    assert pickle.loads(pickle.dumps(sample)) == sample


def test_sides_and_targets_are_in_their_ranges():
    source, rng = SceneSource(side_px=(1000, 1600), target_px=(20, 30), max_objects=12), np.random.default_rng(2)
    shapes = set()
    for _ in range(25):
        sample = source.draw(rng, "train")
        scene = sample.images[0].scene
        assert min(scene.width, scene.height) >= 1000 and max(scene.width, scene.height) <= 1600
        shapes.add(scene.width / scene.height > 1)
        for evidence in sample.evidence:
            longest = max(evidence.box.x2 - evidence.box.x1, evidence.box.y2 - evidence.box.y1)
            assert longest <= (30 if evidence.label.split()[1] not in ("tray", "crate") else 80)
    assert shapes == {True, False}


def test_only_what_was_asked_for_is_drawn():
    source, rng = SceneSource(**SMALL, categories=("comparison",), kinds=("exact",), settings=("map",)), np.random
    for seed in range(5):
        sample = source.draw(rng.default_rng(seed), "train")
        assert (sample.category, sample.key.kind, sample.images[0].scene.setting) == ("comparison", "exact", "map")


def test_a_scene_of_few_things_holds_what_its_question_needs():
    settings = {"side_px": 336, "target_px": (24, 36), "categories": ("attribute:time_choice",)}
    few, many = (SceneSource(max_objects=number, **settings) for number in (1, 12))
    for seed in range(5):
        clocks = few.draw(np.random.default_rng(seed), "train").images[0].scene.things
        assert [thing.kind for thing in clocks] == ["clock"] * 3
    assert len(many.draw(np.random.default_rng(0), "train").images[0].scene.things) > 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"side_px": 50}, "side_px must be a range within 96"),
        ({"side_px": (4000, 9000)}, "within 96 to 8192"),
        ({"target_px": (16, 200)}, "target_px must be a range within 8 to 56"),
        ({"target_px": (24, 16)}, "got 24 to 16"),
        ({"target_px": (8, 11)}, "cannot be asked"),
        ({"max_objects": 0}, "max_objects"),
        ({"categories": ("counts",)}, "Did you mean 'count'"),
        ({"categories": ()}, "at least one"),
        ({"categories": ("count", "count")}, "without duplicates"),
        ({"kinds": ("number",)}, "existence, attribute, relation, comparison cannot be asked"),
        ({"settings": ("stret",)}, "Did you mean 'street'"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        SceneSource(**{**SMALL, **settings})


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text + " ",
        lambda text: text.replace("scene:", "svg:"),
        lambda text: text.replace("side=224-224", "side=0224-0224"),
        lambda text: text.replace("side=224-224", "side=90000-90000"),
        lambda text: text.replace("relation", "relations"),
        lambda text: text.rsplit(":", 1)[0] + ":" + str(2**63),
        lambda text: text.rsplit(":", 1)[0] + ":-1",
        lambda text: text + "٣",
    ],
)
def test_ids_of_no_scene_are_refused(change):
    with pytest.raises(LevelError, match="scene"):
        find_sample(change(drawn().sample_id))


@given(st.text(max_size=60))
def test_no_text_but_an_id_is_read(text):
    with pytest.raises(LevelError):
        find_sample(f"scene:{text}")
