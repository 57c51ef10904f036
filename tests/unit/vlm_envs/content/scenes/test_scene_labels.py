import numpy as np
import pytest

from vlm_envs.content.scenes.scene import Scene, Thing
from vlm_envs.content.scenes.scene_labels import label_mask, named_things, scene_masks
from vlm_envs.content.scenes.scene_source import SceneSource
from vlm_envs.errors import LevelError
from vlm_envs.qa.sample import Sample
from vlm_envs.responses.answers import AnswerKey

SCENE = Scene(
    width=200,
    height=100,
    setting="map",
    scenery_seed=4,
    things=(
        Thing(kind="mug", color="red", x=0, y=0, size_px=20),
        Thing(kind="mug", color="grey", x=30, y=0, size_px=20),
        Thing(kind="sign", color="red", x=60, y=0, size_px=30, text="R27"),
        Thing(kind="clock", color="blue", x=100, y=0, size_px=30, minutes=225),
        Thing(kind="tray", color="blue", x=0, y=40, size_px=60),
        Thing(kind="fish", color="red", x=15, y=50, size_px=20, inside=4),
        Thing(kind="fish", color="red", x=100, y=60, size_px=20),
    ),
)


@pytest.mark.parametrize(
    ("label", "indices"),
    [
        ("red mug", (0,)),
        ("The RED mugs.", (0,)),
        ("mug", (0, 1)),
        ("two cups", (0, 1)),
        ("a gray mug", (1,)),
        ("red-coloured mug", (0,)),
        ("sign", (2,)),
        ("red sign reading R27", (2,)),
        ('sign "r27"', (2,)),
        ("sign saying R28", ()),
        ("the clock showing 3:45", (3,)),
        ("clock 03:45", (3,)),
        ("clock showing 3:00", ()),
        ("fish", (5, 6)),
        ("fish in the picture", (5, 6)),
        ("red fish in the blue tray", (5,)),
        ("the fish inside the crate", ()),
        ("red mug and the blue clock", (0, 3)),
        ("red things", (0, 2, 5, 6)),
        ("every object in the tray", (5,)),
        ("green mug", ()),
        ("bicycle", ()),
        ("bikes", ()),
        ("road", None),
        ("small mug", None),
        ("red", None),
        ("", None),
        ("mug clock", None),
        ("red blue mug", None),
        ("mug 7", None),
        ("mug and road", None),
        ("mug in the house", None),
        ("not a mug", None),
        ("杯 mug", None),
        ("mug " * 100, None),
    ],
)
def test_words_name_things(label, indices):
    assert named_things(SCENE, label) == indices


def test_masks_of_labels():
    mask = label_mask(SCENE, "mugs")
    assert mask is not None and mask.dtype == np.bool_ and mask.shape == (100, 200)
    assert np.array_equal(mask, SCENE.mask(0) | SCENE.mask(1))
    absent = label_mask(SCENE, "blue mug")
    assert absent is not None and not absent.any()
    assert label_mask(SCENE, "house") is None


def test_evidence_of_samples_lies_on_its_masks():
    source = SceneSource(side_px=224, target_px=(16, 24), max_objects=14)
    for seed in range(12):
        sample = source.draw(np.random.default_rng(seed), "train")
        models = scene_masks(sample), scene_masks(sample.sample_id)
        for evidence in sample.evidence:
            masks = [model(evidence.label) for model in models]
            assert np.array_equal(*masks)
            assert evidence.point is not None and masks[0][int(evidence.point.y), int(evidence.point.x)]


def test_samples_about_something_else_are_refused():
    key = AnswerKey(kind="exact", answers=("yes",))
    with pytest.raises(LevelError, match="about a generated scene"):
        scene_masks(Sample(sample_id="x", question="?", key=key, category="existence", digest="0"))
