"""Settings of the documentation site: `make docs` builds it into site/."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

from docs import docstrings, navigation

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from docs.pages import BOARDS, write_boards  # noqa: E402
from vlm_envs import __version__  # noqa: E402

logger = logging.getLogger(__name__)

project = "vlm-envs"
release = version = __version__
language = "en"
root_doc = navigation.HOME
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["boards"]
highlight_language = "text"
smartquotes = False  # Pages read the same as in the checkout.

# --- Markdown and docstrings --------------------------------------------------------------------------

myst_heading_anchors = 6  # The anchors that code hosts give headings.
suppress_warnings = ["misc.highlighting_failure"]  # Blocks may hold excerpts, which are not whole programs.

default_role = "py:obj"  # A name in backticks becomes a link where the site documents it.
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 90
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # Attributes that a class docstring lists are documented once.

# --- Theme: every file comes from the package ---------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "vlm-envs"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/favicon.svg"
templates_path = ["templates"]
html_sidebars = {"**": ["group-pages"]}
html_search_scorer = str(DOCS / "templates" / "search-scorer.js")
html_theme_options: dict[str, Any] = {
    "logo": {"text": f"vlm-envs {version}"},
    "navbar_align": "left",
    "header_links_before_dropdown": len(navigation.groups()) - 1,  # All but the research notes.
    "navbar_end": ["theme-switcher"],
    "article_header_start": [],
    "show_toc_level": 1,
    "search_bar_text": "Search",
    "primary_sidebar_end": [],
    "secondary_sidebar_items": ["page-toc", "sourcelink"],
    "footer_start": [],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def add_tables_of_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Adds hidden tables of contents to the home page and to the first page of every group."""
    groups = navigation.groups()
    if page == navigation.HOME:
        source[0] += _toctree(f"{title} <{pages[0]}>" for title, pages in groups.items())
    for pages in groups.values():
        if page == pages[0] and len(pages) > 1:
            source[0] += _toctree(pages[1:])


def _toctree(entries: Any) -> str:
    listed = "\n".join(entry if entry.endswith(">") else f"/{entry}" for entry in entries)
    return f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def add_search_words(app: Sphinx, doctree: Any) -> None:
    """Adds the words by which search finds a page to the index."""
    words = navigation.SEARCH_WORDS.get(app.env.docname, ())
    doctree.append(addnodes.index(entries=[("single", word, "", "main", None) for word in words]))


def add_group_pages(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Gives the sidebar's template the pages of the group that is open; the home page gets all of them."""
    titles = app.env.titles
    groups = {
        title: [(name, titles[name].astext()) for name in pages if name in titles]
        for title, pages in navigation.groups().items()
    }
    if app.config.whole_site:
        for name in sorted(path.parent.name for path in BOARDS.glob("*/board.json")):
            groups["Evaluate"].append((f"{BOARDS.name}/{name}/index", f"Board page: {name}"))
    opened = {title: pages for title, pages in groups.items() if page in (name for name, _ in pages)}
    context["group_pages"] = opened or groups


def convert_docstring(app: Sphinx, kind: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Converts what docstrings have of Markdown."""
    lines[:] = docstrings.as_restructured_text(lines)


def shorten_signature(
    app: Sphinx, kind: str, name: str, thing: object, options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Writes defaults that are no Python expressions, such as `<factory>`, as `...`."""
    return (None if signature is None else re.sub(r"<[^<>]*>", "...", signature)), returned


def leave_out_code(app: Sphinx, page: str, source: list[str]) -> None:
    """Removes the directives that read code from pages, unless the whole site is built."""
    if not app.config.whole_site:
        source[0] = re.sub(r"^\.\. auto.*\n(?:   :.*\n)*", "", source[0], flags=re.MULTILINE)


def add_boards(app: Sphinx, exception: Exception | None) -> None:
    """Writes the pages of the boards in docs/boards, whose episodes are replayed for their images."""
    if exception is None and app.config.whole_site and app.builder.name == "html":
        for difference in write_boards(Path(app.outdir) / BOARDS.name):
            logger.warning("%s", difference)


def setup(app: Sphinx) -> None:
    """Connects what plain Markdown pages lack."""
    # --define whole_site=0 leaves out the API reference and the boards, which take most of the time.
    app.add_config_value("whole_site", True, "env")
    app.connect("autodoc-process-docstring", convert_docstring)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("source-read", leave_out_code)
    app.connect("source-read", add_tables_of_contents)
    app.connect("doctree-read", add_search_words)
    app.connect("html-page-context", add_group_pages)
    app.connect("build-finished", add_boards)
