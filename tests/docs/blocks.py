"""Code blocks of Markdown pages, and the marks that say what a test does with each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
LANGUAGES = ("bash", "sh", "shell", "console", "python")
"""Languages whose blocks need a mark."""

MARKS = ("run", "dry", "not run here", "example", "output")

_COMMENT = re.compile(r"<!-- (?P<mark>run|dry|output) -->")
_NOTE = re.compile(r"\*Not run here: .+\*")
_EXAMPLE = re.compile(r"`(?P<path>examples/\w+\.py)`:$")
_FILE = re.compile(r"(?<=[` ])[a-z_]+\.(?:py|toml)(?=`)")
_FENCED = re.compile(r"^ *(?P<fence>```+|~~~+).*?^ *(?P=fence) *$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_COMMAND = re.compile(r"(?:python3? -m|vlm-envs|make)(?: |$)")
_FENCE = re.compile(r"(?P<indent> *)(?P<fence>```+|~~~+) ?(?P<language>\w*)")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A code block.

    Attributes:
        page: Its page, relative to the checkout.
        line: Line number of its fence.
        language: What follows the fence.
        text: The code, without the indentation of the fence.
        mark: One of `MARKS`, or empty where the page gives none. `example` is the whole file of an example, which
            `tests/smoke` runs; `output` is what the commands before it print.
        file: Name of the file that the page says the block is, without a folder, such as `my_recipe.py`; may be empty.
    """

    page: str
    line: int
    language: str
    text: str
    mark: str
    file: str


def user_pages() -> list[str]:
    """Returns the pages whose code blocks are marked, relative to the checkout."""
    docs = CHECKOUT / "docs"
    pages = [*sorted(docs.glob("*.md")), *sorted(docs.glob("reference/*.md"))]
    return ["README.md", *(path.relative_to(CHECKOUT).as_posix() for path in pages)]


def blocks_of(page: str) -> list[Block]:
    """Returns the blocks of a page in `LANGUAGES` and TOML, and those marked as output, in order."""
    lines = (CHECKOUT / page).read_text(encoding="utf-8").split("\n")
    blocks, index = [], 0
    while index < len(lines):
        found = _FENCE.match(lines[index])
        if not found:
            index += 1
            continue
        end = next(
            number for number in range(index + 1, len(lines)) if lines[number].strip().startswith(found["fence"])
        )
        mark = _mark(lines[:index])
        if found["language"] in (*LANGUAGES, "toml") or mark == "output":
            text = "\n".join(line.removeprefix(found["indent"]) for line in lines[index + 1 : end])
            file = _file(lines[:index], text) if found["language"] in ("python", "toml") else ""
            language = found["language"]
            if language == "console":  # Commands after a prompt, and what they print
                language, text = "bash", "\n".join(line[2:] for line in text.split("\n") if line.startswith("$ "))
            if language in ("sh", "shell"):
                language = "bash"
            blocks.append(Block(page=page, line=index + 1, language=language, text=text, mark=mark, file=file))
        index = end + 1
    return blocks


def inline_commands(page: str) -> list[str]:
    """Returns the commands that a page names in its text, in order and each once."""
    text = _FENCED.sub("", (CHECKOUT / page).read_text(encoding="utf-8"))
    found = (" ".join(code.split()) for code in _INLINE.findall(text))
    return list(dict.fromkeys(code for code in found if _COMMAND.match(code)))


def _file(lines_before: list[str], text: str) -> str:
    """Returns the file that a block's first line names, or the paragraph before it; empty where neither does."""
    if own := re.match(r"# (\w+\.(?:py|toml))\n", text):
        return own[1]
    paragraph = list[str]()
    for line in reversed(lines_before):
        if line.strip() and not _COMMENT.fullmatch(line.strip()):
            paragraph.append(line)
        elif paragraph:
            break
    named = _FILE.findall(" ".join(reversed(paragraph)))
    return named[-1] if named else ""


def _mark(lines_before: list[str]) -> str:
    """Returns the mark in the last line before a block that is not blank."""
    last = next((line.strip() for line in reversed(lines_before) if line.strip()), "")
    if comment := _COMMENT.fullmatch(last):
        return comment["mark"]
    if _NOTE.fullmatch(last):
        return "not run here"
    return "example" if _EXAMPLE.search(last) else ""
