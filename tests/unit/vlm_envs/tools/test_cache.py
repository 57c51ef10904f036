"""Caches keep what was used last."""

import pickle

from vlm_envs.tools.data_files import BoundedCache


def test_the_values_used_last_are_kept():
    made, dropped = [], []

    def get(name):
        return cache.get(name, lambda: made.append(name) or name)

    cache = BoundedCache(2, drop=dropped.append)
    for name in ("a", "b", "a", "c", "a"):  # "b" is the longest unused when "c" comes.
        assert get(name) == name
    assert (made, dropped) == (["a", "b", "c"], ["b"])
    get("b")
    assert (made, dropped) == (["a", "b", "c", "b"], ["b", "c"])


def test_one_value_is_kept_however_large():
    cache = BoundedCache(10, size_of=len)
    first = cache.get("a", lambda: "x" * 40)
    assert cache.get("a", lambda: "another") is first
    cache.get("b", lambda: "y" * 10)
    assert cache.get("a", lambda: "another") == "another"


def test_pickled_copies_are_empty():
    cache = BoundedCache(10, size_of=len)
    cache.get("a", lambda: "x")
    assert pickle.loads(pickle.dumps(cache)).get("a", lambda: "y") == "y"
