"""What markup refers to: only itself, never in a circle, and not so often that it grows beyond bounds.

`<use>`, patterns, masks, clips and markers repeat what they refer to. Ten levels of ten references each are a short
text and ten thousand million shapes, so what counts is the drawing with every reference followed. It is counted
without following them: the size of a referenced element is worked out once.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass

from vlm_envs.worlds.svg.selectors import why_too_costly

MAX_EXPANDED_ELEMENTS = 5_000
"""Most elements with every reference followed."""

MAX_EXPANDED_DEPTH = 64
"""Deepest nesting with every reference followed."""

_URL = re.compile(r"url\(\s*[\"']?\s*([^)\"'\s]*)", re.IGNORECASE)
_HREFS = ("href", "{http://www.w3.org/1999/xlink}href")


@dataclass(frozen=True, slots=True)
class _Extent:
    """How large an element is with every reference followed."""

    num_elements: int
    depth: int


def check_references(root: ET.Element, error: type[Exception]) -> None:
    """Raises `error` unless all references stay inside the markup, are free of circles and expand to a bounded drawing.

    The markup's own nesting must already be bounded, because this walks it recursively.
    """
    _Expansion(root, error).extent_of(root, 0)


class _Expansion:
    """One walk through markup with the elements known so far."""

    def __init__(self, root: ET.Element, error: type[Exception]) -> None:
        self._by_id = {name: element for element in reversed(list(root.iter())) if (name := element.get("id"))}
        self._num_elements = sum(1 for _ in root.iter())
        self._known: dict[ET.Element, _Extent] = {}
        self._open: set[ET.Element] = set()
        self._error = error

    def extent_of(self, element: ET.Element, level: int) -> _Extent:
        """Returns how large an element is; `level` is how deep the walk stands."""
        if element in self._open:
            raise self._error(f"the element with id={element.get('id', '')[:40]!r} refers to itself")
        known = self._known.get(element)
        if level + (known.depth if known else 0) > MAX_EXPANDED_DEPTH:
            raise self._error(f"with its references it is nested more than {MAX_EXPANDED_DEPTH} deep")
        if known:
            return known
        self._open.add(element)
        num_elements, depth = 1, 0
        for part in (*element, *self._targets(element)):
            extent = self.extent_of(part, level + 1)
            num_elements, depth = num_elements + extent.num_elements, max(depth, extent.depth)
            if num_elements > MAX_EXPANDED_ELEMENTS:
                raise self._error(f"with its references it has more than {MAX_EXPANDED_ELEMENTS} elements")
        self._open.discard(element)
        self._known[element] = extent = _Extent(num_elements, depth + 1)
        return extent

    def _targets(self, element: ET.Element) -> list[ET.Element]:
        """Returns the elements an element refers to; those that do not exist draw nothing and are left out."""
        texts = [value for name, value in element.items() if name not in _HREFS]
        if element.tag == "style":
            texts.append("".join(element.itertext()))
            if "@" in texts[-1]:
                raise self._error("style sheets may not contain @ rules")
            if reason := why_too_costly(texts[-1], self._num_elements):
                raise self._error(reason)
        if any("\\" in text for text in texts):  # CSS may spell url( with escapes
            raise self._error("backslashes are not allowed")
        links = [link for text in texts for link in _URL.findall(text)]
        if element.tag != "a":
            links += [link for name in _HREFS if (link := element.get(name)) is not None]
        for link in links:
            if not link.startswith("#"):
                raise self._error(
                    f"{link[:40]!r} lies outside the drawing; only references such as '#name' are allowed"
                )
        return [found for link in links if (found := self._by_id.get(link[1:])) is not None]
