"""The whole site, API reference included: every page at two widths in light and dark, and what search finds."""

from itertools import product
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile

import vlm_envs
from docs import navigation
from tests.unit.built_site import broken_words, build_site, opened, overflow, served


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    return build_site(tmp_path_factory.mktemp("whole") / "site", whole_site=True)


@pytest.mark.parametrize(("width", "scheme"), list(product((1280, 390), ("light", "dark"))))
def test_every_page_fits_its_window_and_asks_no_other_host(site, chromium, width, scheme):
    pages = [navigation.HOME, *(page for group in navigation.groups().values() for page in group)]
    with served(site) as address, opened(chromium, address, width=width, scheme=scheme) as (page, elsewhere):
        for name in pages:
            page.goto(f"{address}{name}.html")
            assert overflow(page) == 0, name
            assert broken_words(page) == [], name
        assert elsewhere == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("leaderboard", "boards.html"),
        ("leaderboard", "benchmark.html"),
        ("custom environment", "own-world.html"),
        ("minigrid", "adapt.html"),
        ("make_vec", "api/vlm_envs.html#vlm_envs.make_vec"),
        ("resume", "training.html"),
        ("evaluate", "benchmark.html"),
        ("benchmark", "benchmark.html"),
        ("GPU", "scale.html"),
        ("train", "training.html"),
        ("checkpoint", "training.html"),
        ("huggingface", "benchmark.html"),
        ("stable baselines", "benchmark.html"),
        ("tutorial", "quickstart.html"),
    ],
)
def test_search_finds_a_page_among_the_first_three(site, chromium, query, expected):
    with served(site) as address, opened(chromium, address, width=390, scheme="light") as (page, elsewhere):
        page.goto(address)
        page.locator(".search-button__button:visible").click()
        page.keyboard.type(query)
        page.keyboard.press("Enter")
        page.wait_for_url("**/search.html?q=*")
        page.locator("ul.search > li").first.wait_for()
        page.wait_for_function("!document.querySelector('#search-progress')?.textContent")
        links = page.locator("ul.search > li > a").evaluate_all("links => links.map(a => a.getAttribute('href'))")
        assert expected in [link.partition("?")[0] for link in links[:3]]
        assert overflow(page) == 0
        assert elsewhere == []


def test_every_public_name_is_in_the_api_reference(site):
    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda _, name: name)
    documented = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    public = {f"vlm_envs.{name}" for name in vlm_envs.__all__ if not name.startswith("__")}
    assert public <= documented
    assert {"vlm_envs.world.World", "agents.registry.make_agent", "benchmarks.load_board"} <= documented
