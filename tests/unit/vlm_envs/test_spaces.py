"""`FreeText` holds any string, where Gymnasium's `Text` holds alphanumeric ones."""

from __future__ import annotations

import copy
import json
import pickle

import gymnasium as gym
import pytest
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.errors import ConfigError
from vlm_envs.spaces import FreeText


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
    assert space.shape is None
    assert not space.is_np_flattenable
    assert batch_space(space, 3) == gym.spaces.Tuple([space] * 3)
