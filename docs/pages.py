"""Writes the generated parts of the documentation: world pages, reference pages, examples, and images.

`make pages` runs it, and a test fails when a page is out of date. Generated pages are committed, so that they also
read well in the checkout.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tyro

from benchmarks.models.board.board import Board
from benchmarks.models.board.verification import verify
from benchmarks.models.page.board_page import build_page
from docs import grid, house
from docs.reference_pages import reference_pages
from vlm_envs.cli.gallery import file_name, strip_of
from vlm_envs.cli.named_worlds import describe, docstring
from vlm_envs.registration import NEEDS, VARIANTS, WORLDS

CHECKOUT = Path(__file__).parent.parent
DOCS = CHECKOUT / "docs"
BOARDS = DOCS / "boards"
RECORDS = ("board.json", "episodes.jsonl", "verified.json")
"""Files of a board that are not made from others."""
PICTURES = DOCS / "images" / "worlds"

SEEDS = {
    "VLM/Sokoban-v0": 3,
    "VLM/FrozenLake-v0": 3,
    "VLM/Navigation-v0": 11,
    "VLM/PrimitiveSkill-v0": 0,
    "VLM/PrimitiveSkillStack-v0": 0,
    "VLM/PrimitiveSkillDrawer-v0": 3,
    "VLM/PrimitiveSkillAlign-v0": 0,
    "VLM/SVG-v0": 6,
    "VLM/ZoomQA-v0": 2,
    "VLM/DocQA-v0": 0,
    "VLM/VideoQA-v0": 38,
    "VLM/RewardJudging-v0": 1,
}
"""Id to the seed of the episode that is shown."""

EXAMPLE = re.compile(r"(`(?P<path>examples/\w+\.py)`:\n\n```python\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
"""A whole example in a page, after its name."""


def pages() -> dict[Path, str]:
    """Returns the text of every file that this module writes, by path."""
    examples = {path: with_examples(path.read_text(encoding="utf-8")) for path in DOCS.glob("*.md")}
    reference = {DOCS / "reference" / f"{name}.md": text for name, text in reference_pages().items()}
    worlds = {DOCS / "worlds" / page_name(env_id): world_page(env_id) for env_id in WORLDS}
    return examples | reference | worlds | {DOCS / "worlds" / "index.md": index_page(), house.DRAWING: house.drawing()}


def with_examples(markdown: str) -> str:
    """Returns a page with each example replaced by its file's contents."""
    return EXAMPLE.sub(lambda match: match[1] + (CHECKOUT / match["path"]).read_text(encoding="utf-8"), markdown)


def page_name(env_id: str) -> str:
    """Returns a world's page, e.g. `"sokoban-v0.md"`."""
    return file_name(env_id).replace(".png", ".md")


def world_page(env_id: str) -> str:
    """Returns a world's page: image, construction, variants, and docstring."""
    summary, _, rest = docstring(env_id).partition("\n")
    parts = [
        f"# {env_id}",
        summary,
        _picture(env_id),
        f'```python\nimport gymnasium as gym\nimport vlm_envs\n\nenv = gym.make("{env_id}")\n```',
        f"Play it yourself: `python -m vlm_envs play {env_id}`",
        *_variants(env_id),
        rest.strip(),
    ]
    return "\n\n".join(parts) + "\n"


def index_page() -> str:
    """Returns the page that lists every world."""
    entries = (
        f"[{env_id}]({page_name(env_id)}){_needed(env_id)}. {describe(env_id)}\n\n{_picture(env_id)}\n"
        for env_id in WORLDS
    )
    opening = (
        "# All worlds\n\nThe pictures are what an agent sees in an episode that the world's own planner solves; "
        "what is asked and what is right stand beside them.\n"
    )
    return "\n".join((opening, *entries))


def _needed(env_id: str) -> str:
    need = NEEDS.get(env_id)
    return f" (extra `{need.extra}`)" if need else ""


def _picture(env_id: str) -> str:
    return f"![A solved episode of {env_id}](../images/worlds/{file_name(env_id)})"


def _variants(env_id: str) -> Iterator[str]:
    """Yields the table of a world's variants, with images of those that look different."""
    variants = {name: variant for name, variant in VARIANTS.items() if variant.base_id == env_id}
    if not variants:
        return
    yield "These ids are the same world with a setting:"
    rows = [f"| `{name}` | {_setting(variant.kwargs)} |" for name, variant in variants.items()]
    yield "\n".join(["| id | setting |", "|---|---|", *rows])
    yield from (_picture(name) for name in variants if name in SEEDS)


def _setting(kwargs: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={json.dumps(value)}`" for name, value in kwargs.items())


def write_boards(folder: Path = BOARDS) -> list[str]:
    """Writes the page of each board in docs/boards and draws its missing images by replaying its episodes.

    Takes about 20 s and the boards' engines unless the images are there.

    Args:
        folder: Where each board goes, into a folder of its name; by default where it is.

    Returns:
        Episodes without a bit-exact replay. Their pages may lack images, and their rows are not verified.
    """
    differences = []
    for definition in sorted(BOARDS.glob("*/board.json")):
        directory = folder / definition.parent.name
        if folder != BOARDS:
            directory.mkdir(parents=True, exist_ok=True)
            for name in RECORDS:
                shutil.copyfile(definition.parent / name, directory / name)
        board = Board(directory)
        if not board.has_images():
            for row in verify(board):
                differences += [*row.differences, *([row.obstacle] if row.obstacle else [])]
        build_page(directory)
    return differences


def main(*, pictures: bool = False, boards: bool = False) -> int:
    """Writes the generated parts of docs/.

    Args:
        pictures: Also draws the images, which requires every world's engine.
        boards: Writes the pages of the boards in docs/boards and draws their missing images; without `pictures`,
            nothing else.

    Returns:
        Exit status: 1 if a replay of a board's episode was not bit-exact, else 0.
    """
    if boards:
        differences = write_boards()
        for line in differences:
            print(line, file=sys.stderr)
        if differences or not pictures:
            return 1 if differences else 0
    if pictures:
        PICTURES.mkdir(parents=True, exist_ok=True)
        for env_id, seed in SEEDS.items():
            strip_of(env_id, seed).image.save(PICTURES / file_name(env_id), optimize=True)
        grid.grid().save(grid.PATH, optimize=True)
    for folder in ("reference", "worlds"):
        (DOCS / folder).mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
