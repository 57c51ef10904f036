"""Settings every test shares."""

import gc
import os

import pytest
from hypothesis import settings

# Many compare bit by bit, which a GPU does not repeat itself to. With `CUDA_VISIBLE_DEVICES=0` they run on one.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

# The same examples on every run and every machine, and no failure because a machine was busy.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("soak", derandomize=True, deadline=None, max_examples=500)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", help="run the tests of worlds in workers over this kind alone: ray (`make test-ray`)")


def pytest_collection_finish() -> None:
    """What imports have left is never garbage; a collection looks through the rest alone."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # models are called so often that a search after 700 objects takes a twentieth
