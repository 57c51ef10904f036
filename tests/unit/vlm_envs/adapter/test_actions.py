import json

import numpy as np
import pytest

from tests.unit.vlm_envs.adapter.tally import SPACES
from vlm_envs.adapter.actions import action_texts
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import FORMATS
from vlm_envs.responses.lenient_reading import read_response


def texts_of(space, named=None, own_names=()):
    return action_texts(SPACES[space], named, own_names)


@pytest.mark.parametrize(
    ("space", "text", "action"),
    [
        ("discrete", "2", 2),
        ("shifted", "6", 6),
        ("multi", "[1, 2]", (1, 2)),
        ("binary", "[0,1]", (0, 1)),
        ("box", "[-0.5, 2]", (-0.5, 2.0)),
        ("matrix", "[0.1, 0.2, 0.3, -1]", (0.1, 0.2, 0.3, -1.0)),
        ("pixels", "[9]", (9,)),
        ("endless", "-1e30", (-1e30,)),
    ],
)
def test_actions_of_every_space_are_read_written_and_taken(space, text, action):
    texts = texts_of(space)
    assert texts.read(text) == action
    assert texts.read(texts.write(action)) == action
    assert SPACES[space].contains(texts.value_of(action))
    assert {action: 1}[action] == 1


@pytest.mark.parametrize(
    ("space", "text"),
    [
        ("discrete", "3"),
        ("discrete", "-1"),
        ("discrete", "[1]"),
        ("shifted", "4"),
        ("multi", "[2, 0]"),
        ("multi", "[0]"),
        ("multi", "[0.5, 0]"),
        ("multi", "[true, 0]"),
        ("multi", "[[0], 0]"),
        ("binary", "[2, 0]"),
        ("box", "[1.1, 0]"),
        ("box", "[NaN, 0]"),
        ("box", "[Infinity, 0]"),
        ("box", "[0, 0, 0]"),
        ("box", "0"),
        ("box", '["0", "0"]'),
        ("box", "[" * 100_000),
        ("endless", "1e400"),
        ("endless", "9" * 5000),
        ("pixels", "[0.5]"),
    ],
)
def test_what_is_outside_of_the_space_is_not_read(space, text):
    assert texts_of(space).read(text) is None


def test_messages_say_shape_and_bounds():
    assert "each from -1 to 1" in texts_of("matrix").expected and "4 numbers" in texts_of("matrix").expected
    assert "from -1 to 1; from 0 to 2" in texts_of("box").expected
    assert "whole numbers" in texts_of("multi").expected
    assert texts_of("endless").expected.endswith("from minus infinity to infinity")


@pytest.mark.parametrize("space", [name for name in SPACES if name != "dict"])
def test_random_actions_are_in_the_space(space):
    texts, rng = texts_of(space), np.random.default_rng(0)
    for _ in range(20):
        action = texts.sample(rng, None)
        assert SPACES[space].contains(texts.value_of(action)) and texts.read(texts.write(action)) == action


def test_numbers_in_brackets_are_separated_by_semicolons():
    for reading in ("strict", "lenient"):
        read = read_response(
            "<answer>[0, 2]; [1, 1]</answer>", FORMATS["no_think"], texts_of("multi").grammar, 5, reading
        )
        assert read.format_correct and read.actions == ((0, 2), (1, 1))


def test_only_given_names_are_read_in_any_case_and_may_be_a_subset():
    texts = texts_of("discrete", {"Go": 0, "stay": np.int64(2)})
    assert [texts.read(text) for text in ("go", " GO ", "stay", "0", "1", "left")] == [0, 0, 2, None, None, None]
    assert texts.write(2) == "stay" and texts.expected == "one of Go, stay"


def test_names_may_stand_for_actions_of_any_space():
    texts = texts_of("box", {"back": [-1, 0], "forth": np.array([1.0, 0.5])})
    assert texts.read("forth") == (1.0, 0.5) and texts.grammar.separator == ","
    assert texts_of("shifted", ["a", "b"]).read("b") == 6


def test_a_discrete_space_has_its_own_names_or_numbers():
    assert [*texts_of("discrete", None, ("left", "right", "go", "more")).names] == ["left", "right", "go"]
    assert [*texts_of("discrete", None, ("left", "right")).names] == ["0", "1", "2"]
    assert [*texts_of("discrete", None, ("left", "LEFT", "go")).names] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("space", "named", "words"),
    [
        ("dict", None, "Dict"),
        ("discrete", {"go": 3}, "'go' is 3"),
        ("discrete", {"go": [0, 0]}, "'go' is [0, 0]"),
        ("discrete", {}, "at least one"),
        ("discrete", ["a", "b"], "3 names"),
        ("discrete", ["a", "A", "b"], "'A' cannot be read back"),
        ("discrete", ["a", "b,c", "d"], "'b,c' cannot be read back"),
        ("discrete", ["a", "<b>", "d"], "'<b>' cannot be read back"),
        ("discrete", ["a", " ", "d"], "' ' cannot be read back"),
        ("box", ["a", "b"], "must map names to actions"),
        ("multi", {"go": [[0], [1, 2]]}, "'go' is [[0], [1, 2]]"),
    ],
)
def test_names_that_do_not_fit_are_explained(space, named, words):
    with pytest.raises(ConfigError, match=r".") as caught:
        texts_of(space, named)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_allowed_actions_limit_random_ones():
    texts, rng = texts_of("discrete", {"go": 0, "stay": 1}), np.random.default_rng(0)
    assert {texts.sample(rng, (1,)) for _ in range(10)} == {1}
    assert {texts.sample(rng, (2,)) for _ in range(20)} == {0, 1}  # none of them has a name
    assert json.loads(texts_of("multi").write((0, 1))) == [0, 1]
