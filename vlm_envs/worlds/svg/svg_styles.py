"""Styles of shapes: colors as numbers, and the declarations of style sheets."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from PIL import ImageColor

from vlm_envs.worlds.svg.svg_markup import SVG_NAMESPACE
from vlm_envs.worlds.svg.svg_paints import css_text, package, rgba_of

_LANDMARKS = (
    "red", "orange", "gold", "yellow", "lime", "green", "teal", "cyan", "skyblue", "blue", "navy",
    "purple", "magenta", "pink", "brown", "maroon", "tan", "white", "lightgray", "gray", "black",
)  # fmt: skip
_NOT_A_COLOR = "patterned"
_LONGEST = 80


def color_name(written: str) -> str:
    """Returns the name of a CSS color: its own, or that of the nearest well-known one, ignoring opacity.

    Gradients, patterns, and invalid colors are `"patterned"`.
    """
    return _name(written) if len(written) <= _LONGEST else _NOT_A_COLOR


@lru_cache(maxsize=4096)
def _name(written: str) -> str:
    if written.isalpha():
        return _own_name(written)
    try:
        wanted = _rgb(written)
    except ValueError:
        return _NOT_A_COLOR
    return min(_LANDMARKS, key=lambda name: _distance(wanted, _rgb(name)))


def _own_name(keyword: str) -> str:
    if keyword.lower() == "currentcolor":
        return "black"
    return keyword.lower().replace("grey", "gray") if keyword.lower() in ImageColor.colormap else _NOT_A_COLOR


def _rgb(written: str) -> tuple[int, ...]:
    """Returns red, green, and blue, 0 to 255; raises `ValueError` if the text is not a color."""
    if "(" not in written:
        return ImageColor.getrgb(written)[:3]
    if (color := rgba_of(written)) is None:
        raise ValueError(f"expected a CSS color; got {written!r}")
    return tuple(round(255 * channel) for channel in color[:3])


def _distance(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))


Declarations = list[tuple[str, str]]


def apply_styles(root: ET.Element, markup: str) -> None:
    """Sets the attributes that styles declare: those of sheets, then of the element itself, then important ones.

    `root`, which is modified, must be the result of `read_markup`.

    Raises:
        EngineUnavailableError: If there is a style sheet and the packages that parse it, which come with
            cairosvg, are missing.
    """
    sheets = _matches(markup) if "style" in markup else None
    for element, (normal, important) in zip(root.iter(), sheets or itertools.repeat(([], [])), strict=False):
        own = list(_declared(element.get("style", "")))
        element.attrib.update(normal)
        element.attrib.update((name, value) for name, value, is_important in own if not is_important)
        element.attrib.update(important)
        element.attrib.update((name, value) for name, value, is_important in own if is_important)


def _declared(style: str) -> Iterator[tuple[str, str, bool]]:
    """Yields name, value, and importance of the declarations in a `style` attribute."""
    for declaration in style.split(";"):
        name, colon, value = declaration.partition(":")
        value, _, note = value.partition("!")
        if colon and value.strip() and not name.strip().startswith("-"):
            yield name.strip().lower(), value.strip(), note.strip() == "important"


def _matches(markup: str) -> list[tuple[Declarations, Declarations]] | None:
    """Returns the declarations of style sheets for each element, in document order; None if there are no sheets.

    Sheets outside the SVG namespace are ignored, as by the renderer.
    """
    root = ET.fromstring(markup)
    texts = [
        element.text
        for element in root.iter(f"{SVG_NAMESPACE}style")
        if element.text and element.get("type", "text/css") == "text/css"
    ]
    if not texts:
        return None
    tinycss2, cssselect2 = package("tinycss2"), package("cssselect2")
    matchers = cssselect2.Matcher(), cssselect2.Matcher()
    for text in texts:
        for rule in tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True):
            if rule.type == "qualified-rule":
                _add(rule, matchers, tinycss2, cssselect2)
    wrapped = {
        element.etree_element: element for element in cssselect2.ElementWrapper.from_xml_root(root).iter_subtree()
    }
    found = []
    for element in root.iter():
        normal, important = (
            [pair for match in matcher.match(wrapped[element]) for pair in match[-1]] for matcher in matchers
        )
        found.append((normal, important))
    return found


def _add(rule: Any, matchers: tuple[Any, Any], tinycss2: Any, cssselect2: Any) -> None:
    """Adds a rule to the matchers of normal and important declarations."""
    declarations: tuple[Declarations, Declarations] = ([], [])
    for declaration in tinycss2.parse_blocks_contents(rule.content):
        if declaration.type != "declaration" or declaration.name.startswith("-"):
            continue
        if (value := css_text(declaration.value)) is not None:
            declarations[declaration.important].append((declaration.lower_name, value.strip()))
    try:
        selectors = cssselect2.compile_selector_list(rule.prelude)
    except cssselect2.SelectorError:
        return
    for selector in selectors:
        if selector.pseudo_element is None and not selector.never_matches:
            for matcher, declared in zip(matchers, declarations, strict=True):
                if declared:
                    matcher.add_selector(selector, declared)
