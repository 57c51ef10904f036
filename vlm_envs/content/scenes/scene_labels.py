"""Resolution of labels to things and their exact masks, for judges of points.

Understood are colors and nouns, singular or plural; articles and number words in front; the text on a sign or
the time on a clock; `X in Y` for the contents of a holder; `X and Y` for both; and `things` for all kinds.
Any other label has no meaning: no mask is better than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from vlm_envs.content.colors import COLORS
from vlm_envs.content.scenes.scene import Scene
from vlm_envs.content.scenes.scene_kinds import KINDS
from vlm_envs.content.scenes.scene_questions import clock_time
from vlm_envs.content.scenes.scene_rendering import SceneImageRef
from vlm_envs.content.scenes.scene_source import find_sample
from vlm_envs.content.scenes.sprites import Mask
from vlm_envs.errors import LevelError
from vlm_envs.qa.sample import Sample

MAX_LABEL_CHARS = 200
"""Longer labels have no meaning."""

_SILENT = re.compile(
    "an?|the|all|each|every|any|some|both|this|that|these|those|which|of|only|single|one|two|three|four|five|six|seven"
    "|eight|nine|ten|colou?red|is|are|with|reading|reads|saying|says|showing|shows|text|time"
)
_COLOR_WORDS = {**{name: name for name in COLORS}, "gray": "grey", "violet": "purple"}
_ANYTHING = frozenset(("thing", "things", "object", "objects", "item", "items", "everything"))
_WORDS = re.compile(r"[^\W_]+(?::[0-9]{2})?")
_PICTURE = re.compile(r"\b(?:in|on) the (?:picture|image|photo|scene)\b")
_IN = re.compile(r"\b(?:inside of|inside|within|in)\b")
_AND = re.compile(r",| and ")


def _nouns() -> Iterator[tuple[str, str]]:
    for kind in KINDS.values():
        for noun in (kind.name, kind.several, *kind.also, *(f"{other}s" for other in kind.also)):
            yield noun, kind.name


_NOUNS = dict(_nouns())


def named_things(scene: Scene, label: str) -> tuple[int, ...] | None:
    """Returns the things that a label names.

    Args:
        scene: The scene.
        label: A label such as `red mug`, `The two Bicycles`, `sign saying R27` or `ball in the blue crate`.

    Returns:
        Indices in order, empty if the scene has no such thing; None if the label has no meaning.
    """
    text = _PICTURE.sub(" ", label.casefold()) if len(label) <= MAX_LABEL_CHARS else ""
    found: set[int] = set()
    for part in _AND.split(text):
        inner, *holders = _IN.split(part, maxsplit=1)
        indices = _simple(scene, inner)
        if indices is None:
            return None
        if holders:
            around = _simple(scene, holders[0])
            if around is None:
                return None
            indices = {index for index in indices if scene.things[index].inside in around}
        found |= indices
    return tuple(sorted(found))


def label_mask(scene: Scene, label: str) -> Mask | None:
    """Returns the pixels of the things that a label names.

    Args:
        scene: The scene.
        label: As for `named_things`.

    Returns:
        bool[height, width], all False if the scene has no such thing; None if the label has no meaning.
    """
    indices = named_things(scene, label)
    return None if indices is None else scene.mask(*indices)


def scene_masks(sample: Sample | str) -> Callable[[str], Mask | None]:
    """Returns a function from labels to masks of a sample's things.

    Args:
        sample: A sample of a `SceneSource`, or its id.

    Returns:
        A function from a label to bool[height, width], as `label_mask`.

    Raises:
        LevelError: If the sample is not about a scene.
    """
    found = find_sample(sample) if isinstance(sample, str) else sample
    image = found.images[0] if found.images else None
    if not isinstance(image, SceneImageRef):
        raise LevelError(f"Expected a sample about a generated scene; got {found.sample_id[:120]!r}.")
    scene = image.scene
    return lambda label: label_mask(scene, label)


def _simple(scene: Scene, words: str) -> set[int] | None:
    """Returns the things named by colors, nouns, and the text or time on them."""
    kinds: set[str] = set()
    colors: set[str] = set()
    shown: set[str] = set()
    anything = False
    for word in _WORDS.findall(words):
        if word in _NOUNS:
            kinds.add(_NOUNS[word])
        elif word in _COLOR_WORDS:
            colors.add(_COLOR_WORDS[word])
        elif word in _ANYTHING:
            anything = True
        elif any(sign.isdigit() for sign in word):
            shown.add(word)
        elif not _SILENT.fullmatch(word):
            return None
    if len(kinds) + anything != 1 or len(colors) > 1 or len(shown) > 1 or (shown and not kinds & {"sign", "clock"}):
        return None
    return {
        index
        for index, thing in enumerate(scene.things)
        if (anything or thing.kind in kinds)
        and (not colors or thing.color in colors)
        and (not shown or shown & {thing.text.casefold(), *_times(thing.kind, thing.minutes)})
    }


def _times(kind: str, minutes: int) -> set[str]:
    """Returns the ways to write the time on a clock."""
    time = clock_time(minutes)
    return {time, time.rjust(5, "0")} if kind == "clock" else set()
