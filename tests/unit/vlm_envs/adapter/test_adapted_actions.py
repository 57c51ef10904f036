import json

import numpy as np
import pytest
from gymnasium import spaces

from tests.unit.vlm_envs.adapter.tally import SPACES
from vlm_envs.adapter.adapted_actions import action_texts
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import FORMATS
from vlm_envs.responses.parsing import read_response


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


@pytest.mark.parametrize(
    ("dtype", "bound"),
    [
        (np.float16, 0.7),
        (np.float16, 1234.0),
        (np.float32, 0.7),
        (np.float32, 0.00031),
        (np.float32, 1234567.0),
        (np.float32, 1e30),
        (np.float64, 0.1),
        (np.float64, 1234567.0),
    ],
)
def test_the_bounds_that_are_shown_can_be_read_and_taken(dtype, bound):
    space = spaces.Box(-bound, bound, (1,), dtype)
    texts = action_texts(space, None, ())
    least, most = texts.expected.partition(", from ")[2].split(" to ")
    for shown in (least, most):
        action = texts.read(f"[{shown}]")
        assert (
            action is not None and space.contains(texts.value_of(action)) and texts.read(texts.write(action)) == action
        )
    assert texts.read(f"[{float(most) * 1.01}]") is None
    assert texts.action_of(space.high) == (float(most),)
    assert action_texts(space, {"most": [float(most)]}, ()).read("most") == (float(most),)


def test_equal_values_of_the_space_are_one_action():
    texts = action_texts(spaces.Box(-1.0, 1.0, (1,), np.float32), None, ())
    assert texts.read("[0.7]") == texts.read("[0.70000001]") == texts.action_of(np.array([0.7], np.float32)) == (0.7,)
    assert action_texts(spaces.Box(-np.inf, np.inf, (1,), np.float32), None, ()).read("[1e39]") is None


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_whole_numbers_are_exact_up_to_the_bounds_of_their_type(dtype):
    limits = np.iinfo(dtype)
    space = spaces.Box(limits.min, limits.max, (2,), dtype)
    texts, rng = action_texts(space, None, ()), np.random.default_rng(0)
    assert texts.read(f"[{limits.min}, {limits.max}]") == (limits.min, limits.max)
    assert texts.read(f"[{limits.min - 1}, 0]") is texts.read(f"[0, {limits.max + 1}]") is None
    assert all(space.contains(texts.value_of(texts.sample(rng, None))) for _ in range(20))
    assert str(limits.max) in texts.expected


@pytest.mark.parametrize(
    ("low", "high", "least", "most"),
    [
        (5, np.inf, 5, 10),
        (-np.inf, -3, -6, -3),
        (0, np.inf, 0, 2),
        (0, 0.001, 0, 0.001),
        (-1.7e308, 1.7e308, -1.7e308, 1.7e308),
        (2, 2, 2, 2),
    ],
)
def test_random_numbers_are_spread_between_finite_bounds(low, high, least, most):
    texts, rng = action_texts(spaces.Box(low, high, (1,), np.float64), None, ()), np.random.default_rng(0)
    drawn = [texts.sample(rng, None)[0] for _ in range(50)]
    assert least <= min(drawn) <= max(drawn) <= most
    assert len(set(drawn)) > 20 or low == high


def test_large_discrete_spaces_without_names_have_numbers_and_short_texts():
    texts, rng = action_texts(spaces.Discrete(10**7), None, ()), np.random.default_rng(0)
    assert texts.read("[9999999]") == texts.read("9999999") == 9999999 and texts.read("10000000") is None
    assert texts.read(texts.write(17)) == 17 and isinstance(texts.sample(rng, None), int)
    assert "from 0 to 9999999" in texts.expected and len(texts.expected) < 100
    assert texts.sample(rng, (3, 5)) in (3, 5)
    assert texts.listed((3, 5)) == "[3]; [5]" and texts.listed(range(50)).endswith("[39] and 10 more")
    assert len(action_texts(spaces.Discrete(3000), [f"a{number}" for number in range(3000)], ()).names) == 3000
