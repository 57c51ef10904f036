"""`FreeText` holds any string, where Gymnasium's `Text` holds alphanumeric ones."""

from __future__ import annotations

import copy
import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.errors import ConfigError
from vlm_envs.spaces import FreeText, Pictures


@given(st.text(st.characters()))
def test_contains_every_string(text: str) -> None:
    assert text in FreeText()


@pytest.mark.parametrize("thing", [None, 3, b"bytes", ["a"], ("a",), {"text": "a"}])
def test_contains_nothing_else(thing: object) -> None:
    assert thing not in FreeText()


def test_length_limit_is_inclusive_and_counts_characters() -> None:
    assert "🙂🙂🙂" in FreeText(3)
    assert "🙂🙂🙂🙂" not in FreeText(3)
    assert "" in FreeText(1)


def test_limits_are_attributes() -> None:
    assert FreeText(3).max_length == 3
    assert (Pictures(2, 50).max_pictures, Pictures(2, 50).max_side_px) == (2, 50)


@pytest.mark.parametrize("max_length", [0, -1, 2.0, True, "9"])
def test_bad_limit(max_length: object) -> None:
    with pytest.raises(ConfigError, match="max_length"):
        FreeText(max_length)  # type: ignore[arg-type]


def test_samples_are_contained_seeded_and_hostile() -> None:
    space = FreeText(seed=3)
    samples = [space.sample() for _ in range(500)]
    assert all(sample in space for sample in samples)
    assert [FreeText(seed=3).sample() for _ in range(1)] == samples[:1]
    assert {"<", "世", "\n", "🙂"} <= set("".join(samples)), "samples should try what breaks parsers"
    assert "" in samples
    assert all(len(FreeText(2, seed=seed).sample()) <= 2 for seed in range(50))


def test_sample_takes_no_mask() -> None:
    with pytest.raises(ValueError, match="no mask"):
        FreeText().sample(mask=[1])


@given(st.lists(st.text(st.characters())))
def test_json_round_trip(texts: list[str]) -> None:
    space = FreeText()
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(texts)))) == texts


def test_equality_repr_and_copies() -> None:
    assert FreeText(5) == FreeText(5, seed=1)
    assert FreeText(5) != FreeText(6)
    assert FreeText(5) != gym.spaces.Text(5)
    assert repr(FreeText(5)) == "FreeText(max_length=5)"
    for twin in (pickle.loads(pickle.dumps(FreeText(5, seed=2))), copy.deepcopy(FreeText(5, seed=2))):
        assert twin == FreeText(5)
        assert twin.sample() == FreeText(5, seed=2).sample(), "the generator's state is copied too"


def test_no_array_form() -> None:
    space = FreeText()
    assert not space.shape and repr(space.shape) == "None"
    assert not space.is_np_flattenable
    assert batch_space(space, 3) == gym.spaces.Tuple([space] * 3)


# --- Pictures ---------------------------------------------------------------------------------------


def picture(height: int = 2, width: int = 3) -> np.ndarray:
    return np.zeros((height, width, 3), np.uint8)


def test_pictures_of_different_sizes_and_none_at_all() -> None:
    assert (picture(), picture(5, 1)) in Pictures()
    assert () in Pictures()


@pytest.mark.parametrize(
    "thing",
    [
        [picture()],
        picture(),
        (picture().astype(np.float32),),
        (np.zeros((2, 3, 4), np.uint8),),
        (np.zeros((0, 3, 3), np.uint8),),
        (picture(),) * 3,
        (picture(9, 1),),
        ("picture",),
    ],
)
def test_what_is_no_tuple_of_pictures_within_the_limits(thing: object) -> None:
    assert thing not in Pictures(max_pictures=2, max_side_px=8)


def test_samples_are_contained_repeat_with_the_seed_and_survive_json_and_pickle() -> None:
    space, same = Pictures(seed=5), Pictures(seed=5)
    samples = [space.sample() for _ in range(20)]
    assert all(sample in space for sample in samples)
    assert {len(sample) for sample in samples} == {0, 1, 2, 3}
    again = [same.sample() for _ in range(20)]
    restored = space.from_jsonable(json.loads(json.dumps(space.to_jsonable(samples))))
    for one, two, three in zip(samples, again, restored, strict=True):
        for a, b, c in zip(one, two, three, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)
    assert pickle.loads(pickle.dumps(space)) == space
    assert Pictures(3) != Pictures(4)
