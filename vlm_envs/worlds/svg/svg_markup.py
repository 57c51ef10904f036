"""Parsing of markup written by a model, under limits, before anything draws it.

The author of the markup is not trusted. Anything that could be expensive to render (size, nesting,
repetition) or reach outside the markup (entities, links, scripts) is rejected here, in this process, at the
cost of one parse. The renderer's limits on time and memory stop the rest.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import TypeAlias

MAX_MATCHES = 10_000
"""Maximum number of selectors times elements."""

MAX_STEPS = 3
"""Maximum number of steps in a selector: `g .a rect` has three."""

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"([^{}]*)\{")
_PLAIN = re.compile(r"[\w\s.#*>:-]*")
_STEP = re.compile(r"[\s>]+")


def why_too_costly(sheet: str, num_elements: int) -> str:
    """Returns why a style sheet is too costly to match, for the model to read, or an empty string."""
    selectors = [selector.strip() for found in _RULE.findall(_COMMENT.sub(" ", sheet)) for selector in found.split(",")]
    if len(selectors) * num_elements > MAX_MATCHES:
        return f"its style sheet has {len(selectors)} selectors for {num_elements} elements, which is too many"
    for selector in selectors:
        if not _PLAIN.fullmatch(selector) or len(_STEP.split(selector)) > MAX_STEPS:
            return (
                f"style sheets may select by element, class and id, {MAX_STEPS} steps deep at most; "
                f"one selects by {selector[:40]!r}"
            )
    return ""


MAX_EXPANDED_ELEMENTS = 5_000
"""Maximum number of elements after following every reference."""

MAX_EXPANDED_DEPTH = 64
"""Maximum nesting after following every reference."""

_URL = re.compile(r"url\(\s*[\"']?\s*([^)\"'\s]*)", re.IGNORECASE)
_HREFS = ("href", "{http://www.w3.org/1999/xlink}href")


@dataclass(frozen=True, slots=True)
class _Extent:
    """The size of an element after following every reference."""

    num_elements: int
    depth: int


def check_references(root: ET.Element, error: type[Exception]) -> None:
    """Raises `error` unless references stay inside the markup, form no cycle, and expand to a bounded drawing.

    `<use>`, patterns, masks, clips, and markers repeat the elements they refer to. Ten levels of ten
    references each are a short text and ten billion shapes, so the limits apply to the drawing after
    following every reference. Its size is computed without expansion: the size of a referenced element is
    computed once.

    The markup's own nesting must already be bounded, because this recurses into it.
    """
    _Expansion(root, error).extent_of(root, 0)


class _Expansion:
    """One traversal of markup, with the sizes of elements computed so far."""

    def __init__(self, root: ET.Element, error: type[Exception]) -> None:
        self._by_id = {name: element for element in reversed(list(root.iter())) if (name := element.get("id"))}
        self._num_elements = sum(1 for _ in root.iter())
        self._known: dict[ET.Element, _Extent] = {}
        self._open: set[ET.Element] = set()
        self._error = error

    def extent_of(self, element: ET.Element, level: int) -> _Extent:
        """Returns the size of an element; `level` is the current depth of the traversal."""
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
        """Returns the elements an element refers to; nonexistent ones are ignored because they draw nothing."""
        texts = [value for name, value in element.items() if name not in _HREFS]
        if element.tag == "style":
            texts.append("".join(element.itertext()))
            if "@" in texts[-1]:
                raise self._error("style sheets may not contain @ rules")
            if reason := why_too_costly(texts[-1], self._num_elements):
                raise self._error(reason)
        if any("\\" in text for text in texts):  # CSS could write url( with escapes
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


MAX_BYTES = 65_536
"""Maximum size of markup, in bytes of UTF-8."""

MAX_ELEMENTS = 1_000
"""Maximum number of elements as written."""

MAX_DEPTH = 32
"""Maximum nesting as written; references may add as much again."""

MAX_DIGITS = 1_000
"""Maximum number of consecutive digits in an attribute or a style sheet; Python parses integers of up to
4,300."""

MIN_SIDE, MAX_SIDE = 1e-3, 1e6
"""Minimum and maximum width or height of a `viewBox`, in its own units."""

SVG_NAMESPACE = "{http://www.w3.org/2000/svg}"
FORBIDDEN_ELEMENTS = frozenset({"image", "feImage", "foreignObject", "script", "tref", "iframe", "include"})
"""Elements that load or run something outside the markup."""

ViewBox: TypeAlias = tuple[float, float, float, float]

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_DIGITS = re.compile(r"\d+")
_ENCODING = re.compile(r"<\?xml[^>]*?encoding\s*=\s*[\"']([^\"'>]*)")


class MarkupError(Exception):
    """Markup cannot be drawn. The message is for the model; the world catches the exception."""


def read_markup(markup: str) -> ET.Element:
    """Parses markup within the limits and returns its `<svg>` element; tags lose the SVG namespace.

    Raises:
        MarkupError: If it is not well-formed XML, not an `<svg>`, exceeds a limit, or refers to anything
            outside itself.
    """
    try:
        num_bytes = len(markup.encode())
    except UnicodeEncodeError as error:
        raise MarkupError("it contains half of a surrogate pair, which is not a character") from error
    if num_bytes > MAX_BYTES:
        raise MarkupError(f"it has {num_bytes} bytes, more than the {MAX_BYTES} allowed")
    # A declared encoding would make the renderer decode other characters than this function
    if (declared := _ENCODING.match(markup)) and declared[1].lower() not in ("utf-8", "utf8"):
        raise MarkupError(f"it declares the encoding {declared[1][:20]!r}; leave the declaration out")
    parser = ET.XMLParser(target=_BoundedBuilder())
    try:
        parser.feed(markup)
        root: ET.Element = parser.close()
    except ET.ParseError as error:
        raise MarkupError(f"it is not well-formed XML: {error}") from error
    if root.tag != "svg":
        raise MarkupError(f"the outermost element is <{root.tag[:40]}>, expected <svg>")
    _check_digits(root)
    view_box(root)
    check_references(root, MarkupError)
    return root


def _check_digits(root: ET.Element) -> None:
    for element in root.iter():
        sheet = element.text if element.tag.rpartition("}")[2] == "style" else None
        for value in (*element.attrib.values(), sheet or ""):
            if any(len(digits) > MAX_DIGITS for digits in _DIGITS.findall(value)):
                raise MarkupError(f"it has a number of more than {MAX_DIGITS} digits")


def view_box(root: ET.Element) -> ViewBox:
    """Returns the visible part of the plane as (x, y, width, height), in a drawing's own units.

    Raises:
        MarkupError: If the element has neither a usable `viewBox` nor a usable `width` and `height`.
    """
    written = root.get("viewBox")
    if written is None:
        sides = [root.get("width"), root.get("height")]
        if None in sides:
            raise MarkupError('<svg> has no viewBox; write for example <svg viewBox="0 0 64 64">')
        numbers = [0.0, 0.0, *(_number(side.removesuffix("px")) for side in sides if side is not None)]
    else:
        numbers = [_number(piece) for piece in written.replace(",", " ").split()]
    if len(numbers) != 4 or not all(map(math.isfinite, numbers)):
        raise MarkupError(f"the viewBox must be four finite numbers; it is {(written or sides)!r:.60}")
    x, y, width, height = numbers
    if not all(MIN_SIDE <= side <= MAX_SIDE for side in (width, height)) or max(abs(x), abs(y)) > MAX_SIDE:
        raise MarkupError(
            f"width and height must be {MIN_SIDE:g} to {MAX_SIDE:g}, not too far away; got {numbers!r:.60}"
        )
    return x, y, width, height


def _number(text: str) -> float:
    """Parses an SVG number; NaN if the text is not one."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else math.nan


class _BoundedBuilder:
    """A parser target that builds a tree and stops at the first exceeded limit, before the tree is large."""

    def __init__(self) -> None:
        self._builder = ET.TreeBuilder()
        self._depth = self._num_elements = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Opens an element."""
        self._depth += 1
        self._num_elements += 1
        if self._depth > MAX_DEPTH:
            raise MarkupError(f"elements are nested more than {MAX_DEPTH} deep")
        if self._num_elements > MAX_ELEMENTS:
            raise MarkupError(f"it has more than the {MAX_ELEMENTS} elements allowed")
        name = tag.removeprefix(SVG_NAMESPACE)
        if name.rpartition("}")[2] in FORBIDDEN_ELEMENTS:
            raise MarkupError(f"<{name}> is not allowed: a drawing is made of its own shapes only")
        self._builder.start(name, attributes)

    def end(self, tag: str) -> None:
        """Closes an element."""
        self._depth -= 1
        self._builder.end(tag.removeprefix(SVG_NAMESPACE))

    def data(self, text: str) -> None:
        """Adds text."""
        self._builder.data(text)

    def doctype(self, name: str, public_id: str | None, system_id: str | None) -> None:
        """Rejects document types, and with them entities."""
        raise MarkupError("<!DOCTYPE> and entities are not allowed")

    def pi(self, target: str, text: str | None = None) -> None:
        """Rejects processing instructions, which may refer to external style sheets."""
        raise MarkupError(f"<?{target[:20]} ...?> is not allowed")

    def close(self) -> ET.Element:
        """Returns the tree."""
        return self._builder.close()
