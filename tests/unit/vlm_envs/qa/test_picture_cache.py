import numpy as np

from vlm_envs.qa.picture_cache import PictureCache
from vlm_envs.tools.pictures import Picture


def test_the_pictures_used_last_are_kept():
    made = []

    def maker(name):
        return lambda: made.append(name) or Picture(np.zeros((10, 10, 3), np.uint8))

    cache = PictureCache(2 * 300)
    first = cache.picture("a", maker("a"))
    cache.picture("b", maker("b"))
    assert cache.picture("a", maker("a")) is first
    cache.picture("c", maker("c"))  # "b" is the longest unused.
    assert cache.picture("a", maker("a")) is first
    assert made == ["a", "b", "c"]
    cache.picture("b", maker("b"))
    assert made == ["a", "b", "c", "b"]


def test_one_picture_is_kept_however_large():
    made = []
    cache = PictureCache(1)
    for _ in range(3):
        cache.picture("a", lambda: made.append(1) or Picture(np.zeros((10, 10, 3), np.uint8)))
    assert len(made) == 1
