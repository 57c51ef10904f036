"""The documentation: it builds, and reads the same on the site as where a checkout's Markdown is looked at."""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from docs import navigation, pages
from tests.unit.built_site import broken_words, build_site, opened, overflow, served
from vlm_envs.cli.gallery import GAP_PX, PICTURE_HEIGHT_PX, file_name
from vlm_envs.cli.named_worlds import make_world
from vlm_envs.registration import VARIANTS, WORLDS

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{page}" for page in PAGES)]
VOID_TAGS = {"br", "hr", "img", "input", "link", "meta"}
INLINE_TAGS = {"a", "code", "em", "span", "strong"}


class Reading(HTMLParser):
    """What a reader sees of a page: its words, links, code, images, and tables.

    Args:
        article_only: Whether only `<article>` counts.
    """

    def __init__(self, *, article_only: bool) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.codes: list[str] = []
        self.images: list[str] = []
        self.table_rows: list[list[str]] = []
        self._text: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self._article_only = article_only

    @property
    def words(self) -> list[str]:
        return "".join(self._text).split()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        inside_code = self._is_inside("pre", "code")
        if tag not in VOID_TAGS:
            self._open.append((tag, attributes))
        if tag not in INLINE_TAGS:
            self._text.append(" ")
        if not self._is_read():
            return
        if tag == "a" and "href" in attributes:
            self.links.append((attributes["href"] or "", ""))
        elif tag == "img":
            self.images.append(attributes.get("src") or "")
        elif tag in ("pre", "code") and not inside_code:
            self.codes.append("")
        elif tag == "tr":
            self.table_rows.append([])
        elif tag in ("td", "th"):
            self.table_rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in INLINE_TAGS:
            self._text.append(" ")
        if self._is_inside(tag):
            while self._open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self._is_read():
            return
        self._text.append(data)
        if self._is_inside("a"):
            href, text = self.links[-1]
            self.links[-1] = href, text + data
        if self._is_inside("pre", "code"):
            self.codes[-1] += data
        if self._is_inside("td", "th"):
            self.table_rows[-1][-1] += data

    def _is_inside(self, *tags: str) -> bool:
        return any(tag in tags for tag, _ in self._open)

    def _is_read(self) -> bool:
        """Whether the parser is in the article, outside of permalinks, scripts, and styles."""
        if any(tag in ("script", "style", "head") or "headerlink" in (a.get("class") or "") for tag, a in self._open):
            return False
        return not self._article_only or self._is_inside("article")


def read_html(html: str, *, article_only: bool) -> Reading:
    reading = Reading(article_only=article_only)
    reading.feed(html)
    return reading


def in_the_checkout(document: str) -> Reading:
    """Returns how a web host of repositories shows a Markdown file: CommonMark with tables."""
    markdown_it = pytest.importorskip("markdown_it", reason="needs markdown-it-py: pip install '.[dev]'")
    parser = markdown_it.MarkdownIt("commonmark").enable("table")
    return read_html(parser.render(text_of(document)), article_only=False)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the site, built as `make docs` builds it but without the API reference and the boards."""
    pytest.importorskip("sphinx", reason="needs Sphinx: pip install -e '.[dev]'")
    base = tmp_path_factory.getbasetemp()
    return build_site((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site", whole_site=False)


def text_of(document: str) -> str:
    return (CHECKOUT / document).read_text(encoding="utf-8")


def html_of(site: Path, page: str) -> str:
    return (site / page).with_suffix(".html").read_text(encoding="utf-8")


def on_the_site(site: Path, page: str) -> Reading:
    return read_html(html_of(site, page), article_only=True)


def sidebar_of(site: Path, page: str) -> str:
    """Returns the list of pages beside a page."""
    return html_of(site, page).partition('<nav class="bd-docs-nav')[2].partition("</nav>")[0]


def slugs_of(document: str) -> set[str]:
    """Returns the anchors that a web host gives the headings of a Markdown file."""
    text = re.sub(r"```.*?```", "", text_of(document), flags=re.DOTALL)
    slugs: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} (.+)$", text, flags=re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{slugs[slug]}" if slugs[slug] else slug)
        slugs[slug] += 1
    return found


@pytest.mark.parametrize("page", PAGES)
def test_a_page_reads_the_same_on_the_site_and_in_the_checkout(site, page):
    there, here = on_the_site(site, page), in_the_checkout(f"docs/{page}")
    assert there.words == here.words
    assert [text.split() for _, text in there.links] == [text.split() for _, text in here.links]
    assert [code.split() for code in there.codes] == [code.split() for code in here.codes]
    assert len(there.images) == len(here.images)
    assert [len(row) for row in there.table_rows] == [len(row) for row in here.table_rows]


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_the_site_leads_to_a_page_and_an_anchor_that_are_there(site, page):
    shown = (site / page).with_suffix(".html")
    lost = []
    for href, _ in on_the_site(site, page).links:
        path, _, anchor = href.partition("#")
        if "://" in path:
            continue
        target = (shown.parent / path).resolve() if path else shown
        if not target.is_file() or (anchor and f'id="{anchor}"' not in target.read_text(encoding="utf-8")):
            lost.append(href)
    assert lost == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_of_the_checkout_leads_to_a_file_and_an_anchor_that_are_there(document):
    reading = in_the_checkout(document)
    lost = []
    for href in [*(href for href, _ in reading.links), *reading.images]:
        path, _, anchor = href.partition("#")
        if "://" in path:
            continue
        target = (CHECKOUT / document).parent / path if path else CHECKOUT / document
        known = not anchor or (
            target.suffix == ".md" and anchor in slugs_of(target.resolve().relative_to(CHECKOUT).as_posix())
        )
        if not target.exists() or not known:
            lost.append(href)
    assert lost == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_macro_is_left_for_readers_of_the_checkout(document):
    prose = re.sub(r"`[^`\n]*`", "", text_of(document))
    assert "{{" not in prose and "{%" not in prose


def test_formulas_are_whole_and_no_part_of_one_is_a_link(site):
    reading = on_the_site(site, "rewards.md")
    formulas = [
        row[0] for row in reading.table_rows if len(row) == 2 and row[1].startswith(("Argos,", "Mags", "ARM", "iVGR"))
    ]
    assert len(formulas) > 15
    for formula in formulas:
        for opening, closing in ("()", "[]", "{}"):
            # A half-open interval has one of each.
            intervals = len(re.findall(r"\[[^][()]*\)|\([^][()]*\]", formula)) if opening == "[" else 0
            assert abs(formula.count(opening) - formula.count(closing)) <= intervals, formula
    assert "[zoom ok][N ≥ 5](0.1[d < 0.4] + [d ≥ 0.4](0.5 + 0.5 min(1, ln(N + 1) / ln 20)))" in " ".join(formulas)
    assert all("≥" not in href and " " not in href for href, _ in reading.links)


@pytest.mark.parametrize("page", ["index.md", "worlds/index.md", "worlds/sokoban-v0.md"])
def test_the_sidebar_lists_each_world_once(site, page):
    assert Counter(re.findall(r">(VLM/[\w-]+)<", sidebar_of(site, page))) == dict.fromkeys(WORLDS, 1)


def test_the_sidebar_of_a_page_lists_its_group_and_no_other(site):
    pages_of_group = navigation.groups()["Train"]
    links = re.findall(r'href="([^"]+)"', sidebar_of(site, "training.md"))
    assert links == ["#" if page == "training" else f"{page}.html" for page in pages_of_group]


def test_every_page_is_in_exactly_one_group():
    listed = Counter(page for pages_of_group in navigation.groups().values() for page in pages_of_group)
    reference = [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.rst")]
    expected = {page.removesuffix(".md") for page in PAGES} - {navigation.HOME} | set(reference)
    assert listed == dict.fromkeys(expected, 1)


def test_the_glossary_is_in_alphabetical_order():
    section = text_of("CONTRIBUTING.md").partition("## Glossary")[2].partition("\n## ")[0]
    terms = re.findall(r"^\| ([^|]+) \|", section, flags=re.MULTILINE)[1:]
    assert len(terms) > 40
    assert terms == sorted(terms, key=str.lower)


def test_the_quickstart_lists_every_extra():
    extras = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"]
    rows = [row for row in in_the_checkout("docs/quickstart.md").table_rows if len(row) == 3][1:]
    assert Counter(name for row in rows for name in row[0].split(", ")) == dict.fromkeys(extras, 1)


def test_every_public_package_is_in_the_api_reference():
    """Names in a package's `__all__` are documented with their module, in whichever order they come."""
    reference = "".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.rst")))
    public = [path.parent.name for path in CHECKOUT.glob("*/__init__.py") if "__all__" in path.read_text("utf-8")]
    assert "vlm_envs" in public
    for package in public:
        assert f".. automodule:: {package}\n   :imported-members:\n" in reference


# --- In a browser ---------------------------------------------------------------------------------

WIDE_PAGES = ["index", "worlds/sokoban-v0", "training", "rewards", "reference/options"]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_fit_their_window_search_is_visible_and_no_other_host_is_asked(site, chromium, width, scheme):
    with served(site) as address, opened(chromium, address, width=width, scheme=scheme) as (page, elsewhere):
        for name in WIDE_PAGES:
            page.goto(f"{address}{name}.html")
            assert overflow(page) == 0, name
            (button,) = (found for found in page.locator(".search-button__button").all() if found.is_visible())
            box = button.bounding_box()
            assert box is not None and 0 <= box["x"] <= width - box["width"] and 0 <= box["y"] <= 60, name
            assert page.evaluate("document.documentElement.dataset.theme") == scheme
        assert elsewhere == []


def test_the_site_has_an_icon_of_its_own(site):
    (icon,) = re.findall(r'<link rel="icon" href="([^"]+)"', html_of(site, "index.md"))
    assert (site / icon.partition("?")[0]).is_file()


def test_words_in_tables_of_results_stay_whole(site, chromium):
    with served(site) as address, opened(chromium, address, width=1280, scheme="light") as (page, _):
        page.goto(f"{address}results.html")
        assert broken_words(page) == []


def test_code_has_colors_and_a_copy_button(site, chromium):
    with served(site) as address, opened(chromium, address, width=1280, scheme="light") as (page, _):
        page.goto(f"{address}quickstart.html")
        assert page.locator("div.highlight-python button.copybtn").count() > 1
        colors = "spans => new Set(spans.map(span => getComputedStyle(span).color)).size"
        assert page.locator("div.highlight-python pre span").evaluate_all(colors) > 3


def test_every_id_stands_on_one_worlds_page():
    pages_of_worlds = [(DOCS / page).read_text(encoding="utf-8") for page in PAGES if page.startswith("worlds/")]
    titles = [text.partition("\n")[0].removeprefix("# ") for text in pages_of_worlds]
    assert sorted(titles) == sorted([*WORLDS, "All worlds"])
    for env_id, variant in VARIANTS.items():
        (page,) = (text for text in pages_of_worlds if text.startswith(f"# {variant.base_id}\n"))
        assert f"| `{env_id}` |" in page


def test_what_is_taken_from_elsewhere_is_up_to_date():
    """World pages, reference pages, and whole examples; `make pages` writes them."""
    stale = [
        path.relative_to(CHECKOUT).as_posix()
        for path, text in pages.pages().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run make pages"
    shown = {
        name for page in PAGES for name in re.findall(r"`(examples/\w+\.py)`:\n\n```python", text_of(f"docs/{page}"))
    }
    assert shown == {path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "examples").glob("*.py")}


# --- Pictures -------------------------------------------------------------------------------------


def test_every_world_that_is_shown_has_an_image():
    assert {path.name for path in pages.PICTURES.iterdir()} == {file_name(env_id) for env_id in pages.SEEDS}


@pytest.mark.parametrize("env_id", ["VLM/Sokoban-v0", "VLM/FrozenLake-v0"])
def test_pictures_have_the_colors_of_the_worlds(env_id):
    """The letters around them depend on the machine's font renderer, the pictures on nothing."""
    world = make_world(env_id)
    world.reset(seed=pages.SEEDS[env_id])
    side_px = PICTURE_HEIGHT_PX
    seen = Image.fromarray(world.view.image(world.state)).resize((side_px, side_px), Image.Resampling.LANCZOS)
    with Image.open(pages.PICTURES / file_name(env_id)) as image:
        shown = np.asarray(image)
    differences = [
        np.abs(np.subtract(shown[top : top + side_px, GAP_PX : GAP_PX + side_px], seen, dtype=np.int16)).max()
        for top in range(shown.shape[0] - side_px)
    ]
    assert min(differences) <= 2, "but for rounding, the same red hat"
