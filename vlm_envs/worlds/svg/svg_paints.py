"""Conversion of CSS colors and opacities to notations that the renderer, cairosvg, supports.

cairosvg supports keywords, `#rgb`, `#rrggbb`, `rgb()` and `rgba()` with commas, and opacities without percent
signs. It draws anything else black or opaque, or fails. Invalid declarations are dropped, as CSS requires.
`lab()`, `lch()`, `oklab()`, `oklch()`, `color()`, and the color after a `url()` are not converted.

The drawing process loads this file on its own, so it imports nothing of this package.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any

MAX_NESTING = 32
"""Maximum nesting of brackets in a declaration."""

Rgba = tuple[float, float, float, float]

_COLORS = frozenset({"fill", "stroke", "color", "stop-color", "flood-color", "lighting-color"})
_OPACITIES = frozenset({"opacity", "fill-opacity", "stroke-opacity", "stop-opacity", "flood-opacity"})
_KEYWORDS = frozenset({"none", "inherit", "initial", "unset", "context-fill", "context-stroke"})
_NOTATION = re.compile(
    r"(?:rgba?|hsla?|hwb)\(.+\)|rebeccapurple|#(?:[0-9a-f]{4}|[0-9a-f]{8})", re.IGNORECASE | re.DOTALL
)
_INTEGERS = r"\s*\d+\s*,\s*\d+\s*,\s*\d+\s*"
_READ_BY_THE_RENDERER = re.compile(rf"rgb\({_INTEGERS}\)|rgba\({_INTEGERS},\s*(?:\d+\.?\d*|\.\d+)\s*\)", re.IGNORECASE)
_OPACITY = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,2})?)(%?)", re.IGNORECASE)
_NO_ALPHA = re.compile(r"/\s*none\s*\)", re.IGNORECASE)
_BARE_POINT = re.compile(r"(?<=\d)\.(?!\d)")


@lru_cache(maxsize=4096)
def rgba_of(written: str) -> Rgba | None:
    """Returns red, green, blue, and alpha, each from 0 to 1, of a color in functional or hexadecimal notation.

    None for anything else, including plain keywords.

    Raises:
        EngineUnavailableError: If tinycss2, which comes with cairosvg, is not installed.
    """
    written = written.strip()
    if not _NOTATION.fullmatch(written):
        return None
    color = _parsed(written)
    if color is None or isinstance(color, str):
        return None
    red, green, blue, alpha = (min(1.0, max(0.0, channel or 0.0)) for channel in color.to("srgb"))
    return red, green, blue, alpha


def _parsed(written: str) -> Any:
    """Parses a color with tinycss2, which supports neither `1.` nor an alpha of `none`."""
    return package("tinycss2.color4").parse_color(_BARE_POINT.sub("", _NO_ALPHA.sub("/ 0)", written)))


def drawable(markup: str) -> str:
    """Returns well-formed markup with every color and opacity in a supported notation.

    Markup that needs no change is returned unchanged, character for character.
    """
    root = ET.fromstring(markup)
    changed = [_rewrite(element) for element in root.iter()]
    return ET.tostring(root, encoding="unicode") if any(changed) else markup


def _rewrite(element: ET.Element) -> bool:
    """Rewrites attributes, `style`, and style sheet of an element; returns whether anything changed."""
    before = dict(element.attrib)
    for name, value in before.items():
        plain = _declarations(value) if name == "style" else plain_value(name, value)
        if plain is None:
            del element.attrib[name]
        elif plain != value.strip():
            element.set(name, plain)
    sheet = element.text if element.tag.rpartition("}")[2] == "style" else None
    if not sheet or (plain := _style_sheet(sheet)) == sheet:
        return element.attrib != before
    element.text = plain
    return True


def plain_value(name: str, value: str) -> str | None:
    """Returns the value of an attribute or property in a supported notation; None if it is not valid.

    Also returns None for an opacity that is `unset`.
    """
    value = value.strip()
    if name in _OPACITIES:
        return _plain_opacity(value)
    return _plain_color(value) if name in _COLORS else value


def css_text(nodes: Iterable[Any]) -> str | None:
    """Serializes tinycss2's nodes; None if brackets are nested more than `MAX_NESTING` deep.

    tinycss2 parses any depth but serializes by recursion.
    """
    nodes = level = list(nodes)
    for _ in range(MAX_NESTING + 1):
        level = [part for node in level for part in _inside(node)]
    return None if level else str(package("tinycss2").serialize(nodes))


def _inside(node: Any) -> list[Any]:
    return getattr(node, "content", None) or getattr(node, "arguments", None) or []


def _plain_opacity(value: str) -> str | None:
    if value.lower() in ("inherit", "initial"):
        return "1" if value.lower() == "initial" else "inherit"
    number = _OPACITY.fullmatch(value)
    if number is None or not number[2]:
        return number and value
    return f"{min(1.0, max(0.0, float(number[1]) / 100)):g}"


@lru_cache(maxsize=4096)
def _plain_color(value: str) -> str | None:
    if value.lower() == "currentcolor":
        return "currentColor"
    if value.lower() in _KEYWORDS or value.lower().startswith("url(") or _READ_BY_THE_RENDERER.fullmatch(value):
        return value
    if (color := rgba_of(value)) is None:
        return None if _parsed(value) is None else value
    channels = ",".join(f"{255 * channel:g}" for channel in color[:3])
    return f"rgba({channels},{color[3]:g})" if color[3] < 1 else f"rgb({channels})"


def _declarations(content: Any) -> str:
    """Returns declarations, given as text or tinycss2's tokens, with supported values; unchanged if possible."""
    tinycss2 = package("tinycss2")
    changed, written = False, []
    for node in tinycss2.parse_blocks_contents(content, skip_comments=True, skip_whitespace=True):
        if node.type != "declaration":
            continue
        value = css_text(node.value)
        plain = None if value is None else plain_value(node.lower_name, value)
        changed |= plain is None or plain != str(value).strip()
        if plain is not None:
            written.append(f"{node.name}:{plain}{'!important' if node.important else ''}")
    whole = content.strip() if isinstance(content, str) else css_text(content)
    return ";".join(written) if changed or whole is None else whole


def _style_sheet(text: str) -> str:
    """Returns a style sheet with supported values; unchanged if possible."""
    tinycss2 = package("tinycss2")
    changed, written = False, []
    for rule in tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True):
        if rule.type != "qualified-rule":
            continue
        content = _declarations(rule.content)
        changed |= content != css_text(rule.content)
        written.append(f"{tinycss2.serialize(rule.prelude)}{{{content}}}")
    return "\n".join(written) if changed else text


def package(name: str) -> Any:
    """Imports a package that comes with cairosvg; raises `EngineUnavailableError` if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        from vlm_envs.errors import EngineUnavailableError  # Not at the top: the drawing process is without the package
        from vlm_envs.requirements import install_command

        raise EngineUnavailableError(
            f"Colors and styles of drawings need the package {error.name}; install it with {install_command('svg')}."
        ) from error
