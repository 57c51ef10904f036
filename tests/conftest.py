"""Settings every test shares."""

import gc
import os
import shutil

import pytest
from hypothesis import settings

# Many compare bit by bit, which a GPU does not repeat itself to. With `CUDA_VISIBLE_DEVICES=0` they run on one.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

# The same examples on every run and every machine, and no failure because a machine was busy.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("soak", derandomize=True, deadline=None, max_examples=500)
settings.load_profile("repeatable")

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it in its workers; commands write whole lines without it


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", help="run the tests of worlds in workers over this kind alone: ray (`make test-ray`)")


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all but some cases of a test that is marked `sample` as slow proofs."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample") and not item.get_closest_marker("soak"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in cases.values():
        marker = found[0].get_closest_marker("sample")
        assert marker is not None
        num_kept = min(marker.args[0], len(found))
        kept = {index * len(found) // num_kept for index in range(num_kept)}
        for index, item in enumerate(found):
            if index not in kept:
                item.add_marker(pytest.mark.soak)


def pytest_collection_finish() -> None:
    """What imports have left is never garbage; a collection looks through the rest alone."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # models are called so often that a search after 700 objects takes a twentieth


@pytest.fixture(scope="session")
def chromium():
    """The system's Chromium; one per session, since Playwright's synchronous API starts once per process."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "Chromium is missing: sudo .ci/drivers --browser"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
