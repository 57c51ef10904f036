"""The house and its rooms: which part of the code may import which, and a drawing of it.

`tests/unit/test_layering.py` holds the code to `ROOMS` and `FOLDERS`; `make pages` draws them, each folder with its
docstring's first sentence.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent
DRAWING = CHECKOUT / "docs" / "images" / "house.svg"

ROOMS: dict[str, str] = {
    "vlm_envs": "worlds",
    "agents": "who acts",
    "judges": "who scores",
    "training": "who learns",
    "benchmarks": "who measures",
}
"""The rooms and what they are; each may import those before it."""

FOLDERS: dict[str, tuple[str, ...]] = {
    "vlm_envs": (
        *("statistics", "responses", "tools", "vector", "qa", "content", "worlds", "adapter", "testing", "records"),
        "cli",
    ),
    "agents": ("api", "hf", "vllm", "perception"),
    "judges": ("state_text", "llm", "episode_rewards"),
    "training": (
        *("algorithms", "config", "recipes", "engines", "checkpoints", "rewards", "update", "pools", "mixture"),
        *("memory_plan", "curation", "loop", "cold_start", "upscaler", "sft", "stages"),
    ),
}
"""The folders of each room; each may import those before it. `*_config` modules count as part of `config`."""


def folder_of(module: str) -> str:
    """Return the name of a module as if `training` had the configurations of all features in its folder `config`.

    So a run's configuration can be made of those of features, whose other modules need that of a run.
    """
    is_config = module.startswith("training.") and module.endswith("_config")
    return f"training.config.{module.rpartition('.')[2]}" if is_config else module


_WIDTH, _MARGIN, _GAP = 1080, 16, 10
_COLUMNS, _CARD_HEIGHT, _HEAD = 4, 86, 40
_LINE, _LINE_CHARS, _MAX_LINES = 15, 38, 4
_STYLE = (
    "text{font-family:Helvetica,Arial,sans-serif;fill:#1c2733}.room{fill:#eef3f8;stroke:#9fb3c8}"
    ".card{fill:#fff;stroke:#c4d1de}.name{font-weight:bold;font-size:14px}.title{font-weight:bold;font-size:18px}"
    ".what{font-size:12px;fill:#46586b}.door{stroke:#46586b;stroke-width:2;fill:none;marker-end:url(#tip)}"
)


def sentence(package: str) -> str:
    """Returns the first sentence of a package's docstring, without the full stop."""
    text = (CHECKOUT / package / "__init__.py").read_text(encoding="utf-8")
    return " ".join((ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def drawing() -> str:
    """Returns the house as SVG: a band for each room, the one that may import all others on top."""
    body: list[str] = []
    top = _MARGIN
    for room in reversed(FOLDERS):
        height = _HEAD + -(-len(FOLDERS[room]) // _COLUMNS) * (_CARD_HEIGHT + _GAP)
        body += _band(room, top, height)
        top += height + 3 * _GAP
        if room != next(iter(FOLDERS)):
            body.append(f'<path class="door" d="M{_WIDTH // 2} {top - 3 * _GAP + 2}V{top - 6}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img">\n'
        "<title>The rooms, from those who learn down to the worlds; imports go down only</title>\n"
        f"<style>{_STYLE}</style>\n"
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#46586b"/></marker></defs>\n'
        f'<rect width="{_WIDTH}" height="{top}" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _band(room: str, top: int, height: int) -> Iterator[str]:
    """Yields a room and its folders, left to right, each of which may import those to its left and above."""
    yield f'<rect class="room" x="{_MARGIN}" y="{top}" width="{_WIDTH - 2 * _MARGIN}" height="{height}" rx="8"/>'
    yield f'<text class="title" x="{_MARGIN + 14}" y="{top + 26}">{room}/ — {ROOMS[room]}</text>'
    width = (_WIDTH - 2 * _MARGIN - (_COLUMNS + 1) * _GAP) // _COLUMNS
    for number, folder in enumerate(FOLDERS[room]):
        row, column = divmod(number, _COLUMNS)
        x, y = _MARGIN + _GAP + column * (width + _GAP), top + _HEAD + row * (_CARD_HEIGHT + _GAP)
        yield f'<rect class="card" x="{x}" y="{y}" width="{width}" height="{_CARD_HEIGHT}" rx="5"/>'
        yield f'<text class="name" x="{x + 8}" y="{y + 18}">{folder}/</text>'
        lines = textwrap.wrap(sentence(f"{room}/{folder}"), _LINE_CHARS, max_lines=_MAX_LINES, placeholder=" …")
        for line, text in enumerate(lines):
            yield f'<text class="what" x="{x + 8}" y="{y + 35 + line * _LINE}">{escape(text)}</text>'
