"""Style sheets and `style` attributes, turned into the attributes they stand for, as the renderer does."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.worlds.svg.markup import SVG_NAMESPACE
from vlm_envs.worlds.svg.paints import css_text

Declarations = list[tuple[str, str]]


def apply_styles(root: ET.Element, markup: str) -> None:
    """Sets the attributes that styles declare: those of sheets, of the element itself, and important ones last.

    `root`, changed in place, is what `read_markup` made of the markup.

    Raises:
        EngineUnavailableError: If there is a style sheet and the packages that read it, which come with cairosvg, are
            missing.
    """
    sheets = _matches(markup) if "style" in markup else None
    for element, (normal, important) in zip(root.iter(), sheets or itertools.repeat(([], [])), strict=False):
        own = list(_declared(element.get("style", "")))
        element.attrib.update(normal)
        element.attrib.update((name, value) for name, value, is_important in own if not is_important)
        element.attrib.update(important)
        element.attrib.update((name, value) for name, value, is_important in own if is_important)


def _declared(style: str) -> Iterator[tuple[str, str, bool]]:
    """Yields name, value and importance of the declarations of a `style` attribute."""
    for declaration in style.split(";"):
        name, colon, value = declaration.partition(":")
        value, _, note = value.partition("!")
        if colon and value.strip() and not name.strip().startswith("-"):
            yield name.strip().lower(), value.strip(), note.strip() == "important"


def _matches(markup: str) -> list[tuple[Declarations, Declarations]] | None:
    """Returns what style sheets declare for each element, in document order; None if there are none.

    Sheets outside the SVG namespace are none, for the renderer either.
    """
    root = ET.fromstring(markup)
    texts = [
        element.text
        for element in root.iter(f"{SVG_NAMESPACE}style")
        if element.text and element.get("type", "text/css") == "text/css"
    ]
    if not texts:
        return None
    tinycss2, cssselect2 = _readers()
    matchers = cssselect2.Matcher(), cssselect2.Matcher()
    for text in texts:
        for rule in tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True):
            if rule.type == "qualified-rule":
                _add(rule, matchers, tinycss2, cssselect2)
    wrapped = {each.etree_element: each for each in cssselect2.ElementWrapper.from_xml_root(root).iter_subtree()}
    found = []
    for element in root.iter():
        normal, important = (
            [pair for match in matcher.match(wrapped[element]) for pair in match[-1]] for matcher in matchers
        )
        found.append((normal, important))
    return found


def _add(rule: Any, matchers: tuple[Any, Any], tinycss2: Any, cssselect2: Any) -> None:
    """Adds a rule to the matcher of normal and to that of important declarations."""
    declarations: tuple[Declarations, Declarations] = ([], [])
    for each in tinycss2.parse_blocks_contents(rule.content):
        if each.type != "declaration" or each.name.startswith("-"):
            continue
        if (value := css_text(each.value)) is not None:
            declarations[each.important].append((each.lower_name, value.strip()))
    try:
        selectors = cssselect2.compile_selector_list(rule.prelude)
    except cssselect2.SelectorError:
        return
    for selector in selectors:
        if selector.pseudo_element is None and not selector.never_matches:
            for matcher, declared in zip(matchers, declarations, strict=True):
                if declared:
                    matcher.add_selector(selector, declared)


def _readers() -> tuple[Any, Any]:
    try:
        return import_module("tinycss2"), import_module("cssselect2")
    except ImportError as error:
        raise EngineUnavailableError(
            f"Style sheets of drawings need the package {error.name}; install it with {install_command('svg')}."
        ) from error
