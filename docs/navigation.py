"""The groups of the documentation site and the order of their pages.

Pages are plain Markdown without directives, so the site build adds the tables of contents from here. The first page
of a group is where the group's link in the header leads.
"""

from __future__ import annotations

from pathlib import Path

from docs.pages import page_name
from docs.reference_pages import REFERENCE_PAGES
from vlm_envs.registration import WORLDS

DOCS = Path(__file__).parent

HOME = "index"
"""The page that stands above all groups."""

_GROUPS: dict[str, tuple[str, ...]] = {
    "Start": ("quickstart",),
    "Worlds": (
        *("worlds/index", *(f"worlds/{page_name(env_id).removesuffix('.md')}" for env_id in WORLDS)),
        "question-answering",
    ),
    "Evaluate": ("benchmarks", "judges"),
    "Train": ("training", "scale", "rewards"),
    "Extend": ("own-world",),
    "Results": ("results", "vagen", "argos", "mags-rl", "arm-thinker", "ivgr"),
    "Reference": (
        *("reference", *(f"reference/{name}" for name in REFERENCE_PAGES)),
        *("api/vlm_envs", "api/worlds", "api/responses", "api/records"),
        *("api/agents", "api/judges", "api/training", "api/benchmarks"),
    ),
}

RESEARCH = "Research notes"
"""The title of the entry that stands apart from the main groups."""

SEARCH_WORDS: dict[str, tuple[str, ...]] = {
    "quickstart": ("tutorial", "getting started"),
    "benchmarks": ("evaluate", "evaluation", "benchmark", "huggingface", "hugging face", "stable baselines"),
    "training": ("train", "training", "checkpoint", "huggingface", "hugging face"),
    "scale": ("gpu", "gpus"),
}
"""Page to the words by which search finds it first, whichever words it uses itself."""


def groups() -> dict[str, list[str]]:
    """Returns title to page names without suffix, for every group; pages that do not exist are left out."""
    notes = sorted(f"research/{path.stem}" for path in (DOCS / "research").glob("*.md") if path.stem != "index")
    listed = {**_GROUPS, RESEARCH: ("research/index", *notes)}
    return {title: [page for page in pages if _exists(page)] for title, pages in listed.items()}


def _exists(page: str) -> bool:
    return any((DOCS / f"{page}{suffix}").is_file() for suffix in (".md", ".rst"))
