"""Colors and opacities as CSS means them, rewritten into the notations that the renderer, cairosvg, reads.

It knows keywords, `#rgb`, `#rrggbb`, `rgb()` and `rgba()` with commas, and opacities without percent signs. Anything
else it draws black or opaque, or fails on. Not rewritten: `lab()`, `lch()`, `oklab()`, `oklch()`, `color()`, and the
color after a `url()`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import lru_cache
from importlib import import_module
from typing import Any

from vlm_envs.errors import EngineUnavailableError

Rgba = tuple[float, float, float, float]

_COLORS = frozenset({"fill", "stroke", "color", "stop-color", "flood-color", "lighting-color"})
_OPACITIES = frozenset({"opacity", "fill-opacity", "stroke-opacity", "stop-opacity", "flood-opacity"})
_SUSPECT = re.compile(r"%|rgb|hsl|hwb|rebeccapurple|#(?:[0-9a-f]{4}|[0-9a-f]{8})\b", re.IGNORECASE)
_NOTATION = re.compile(r"(?:rgba?|hsla?|hwb)\(.+\)|rebeccapurple|#(?:[0-9a-f]{4}|[0-9a-f]{8})", re.IGNORECASE)
_INTEGERS = r"\s*\d+\s*,\s*\d+\s*,\s*\d+\s*"
_READ_BY_THE_RENDERER = re.compile(rf"rgb\({_INTEGERS}\)|rgba\({_INTEGERS},\s*(?:\d+\.?\d*|\.\d+)\s*\)", re.IGNORECASE)
_PERCENT = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+))%")


@lru_cache(maxsize=4096)
def rgba_of(written: str) -> Rgba | None:
    """Returns red, green, blue, and alpha, each from 0 to 1, of a color in functional or hexadecimal notation.

    None for anything else, also for plain keywords.

    Raises:
        EngineUnavailableError: If tinycss2, which comes with cairosvg, is not installed.
    """
    written = written.strip()
    if not _NOTATION.fullmatch(written):
        return None
    color = _package("tinycss2.color4").parse_color(written)
    if color is None or isinstance(color, str):
        return None
    red, green, blue, alpha = (min(1.0, max(0.0, channel)) for channel in color.to("srgb"))
    return red, green, blue, alpha


def drawable(markup: str) -> str:
    """Returns well-formed markup with every color and opacity in a notation of the renderer's.

    Markup that needs no change is returned as it is, character for character.
    """
    if not _SUSPECT.search(markup):
        return markup
    root = ET.fromstring(markup)
    changed = [_rewrite(element) for element in root.iter()]
    return ET.tostring(root, encoding="unicode") if any(changed) else markup


def _rewrite(element: ET.Element) -> bool:
    """Rewrites attributes, `style` and style sheet of one element; returns whether anything changed."""
    changes = {name: plain for name, value in element.items() if (plain := _plain(name, value)) is not None}
    if (style := element.get("style")) and _SUSPECT.search(style) and (plain := _declarations(style)) is not None:
        changes["style"] = plain
    element.attrib.update(changes)
    sheet = element.text if element.tag.rpartition("}")[2] == "style" else None
    if not sheet or not _SUSPECT.search(sheet) or (plain := _style_sheet(sheet)) is None:
        return bool(changes)
    element.text = plain
    return True


def _plain(name: str, value: str) -> str | None:
    """Returns a value in a notation that the renderer reads; None where it reads it already, or cannot be helped."""
    value = value.strip()
    if name in _OPACITIES and (percent := _PERCENT.fullmatch(value)):
        return f"{min(1.0, max(0.0, float(percent[1]) / 100)):g}"
    if name not in _COLORS or _READ_BY_THE_RENDERER.fullmatch(value) or (color := rgba_of(value)) is None:
        return None
    channels = ",".join(f"{255 * channel:g}" for channel in color[:3])
    return f"rgba({channels},{color[3]:g})" if color[3] < 1 else f"rgb({channels})"


def _declarations(content: Any) -> str | None:
    """Returns declarations, as text or as tinycss2's tokens, with plain values; None if nothing changes."""
    tinycss2 = _package("tinycss2")
    changed, written = False, []
    for node in tinycss2.parse_blocks_contents(content, skip_comments=True, skip_whitespace=True):
        if node.type != "declaration":
            continue
        value = tinycss2.serialize(node.value).strip()
        plain = _plain(node.lower_name, value)
        changed |= plain is not None
        written.append(f"{node.name}:{plain or value}{'!important' if node.important else ''}")
    return ";".join(written) if changed else None


def _style_sheet(text: str) -> str | None:
    """Returns a style sheet with plain values; None if nothing changes."""
    tinycss2 = _package("tinycss2")
    changed, written = False, []
    for rule in tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True):
        if rule.type != "qualified-rule":
            continue
        plain = _declarations(rule.content)
        changed |= plain is not None
        content = tinycss2.serialize(rule.content) if plain is None else plain
        written.append(f"{tinycss2.serialize(rule.prelude)}{{{content}}}")
    return "\n".join(written) if changed else None


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise EngineUnavailableError(
            f"Colors of drawings need the package {error.name}; install it with pip install 'vlm-envs[svg]'."
        ) from error
