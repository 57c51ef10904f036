"""Drawings in words: what they show, how large and where."""

from __future__ import annotations

from collections.abc import Sequence

from vlm_envs.worlds.svg.markup import ViewBox
from vlm_envs.worlds.svg.shapes import Shape, shapes_of, view_box_of
from vlm_envs.worlds.svg.state import SvgState

MAX_TOLD = 12
"""Most shapes that are told one by one."""

_SMALL, _LARGE = 0.05, 0.3
_KIND_WORDS = {"rect": "rectangle", "polyline": "bent line", "path": "curved shape"}
_ROWS, _COLUMNS = ("top", "", "bottom"), ("left", "", "right")
_NO_DRAWING, _BROKEN_DRAWING = "nothing yet", "nothing, because its markup is broken"


def describe(state: SvgState, representation: str) -> str:
    """Returns a state as two sentences, one about the target and one about the drawing; or as a dictionary in text."""
    drawn = _NO_DRAWING if state.drawing is None else _BROKEN_DRAWING if state.error else None
    tell = _sentence if representation == "natural_language" else _list
    target = tell(state.target)
    if representation == "natural_language":
        return f"The target shows {target}. The drawing shows {drawn or tell(state.drawing or '')}."
    return f"{{target: {target}, drawing: {'[]' if drawn else tell(state.drawing or '')}}}"


def shape_words(shape: Shape, view_box: ViewBox) -> str:
    """Returns a shape with its size, colour and place, e.g. `a large red circle at the top left`."""
    left, top, right, bottom = shape["box"]
    x, y, width, height = view_box
    share = (right - left) * (bottom - top) / (width * height)
    size = "small " if share < _SMALL else "large " if share > _LARGE else ""
    hollow = "" if shape["filled"] or "line" in shape["kind"] else "hollow "
    kind = _KIND_WORDS.get(shape["kind"], shape["kind"])
    row, column = _third(top + bottom - 2 * y, height), _third(left + right - 2 * x, width)
    place = f"at the {_ROWS[row]} {_COLUMNS[column]}".replace("  ", " ").strip()
    where = "in the middle" if row == column == 1 else place
    words = f"{size}{hollow}{shape['color']} {kind} {where}"
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _third(doubled_center: float, side: float) -> int:
    """Returns in which third of a side a centre lies, 0 to 2."""
    return min(2, max(0, int(doubled_center / 2 / side * 3)))


def _sentence(markup: str) -> str:
    """Returns a drawing as a list of its shapes in words, those drawn first coming first."""
    shapes, view_box = shapes_of(markup), view_box_of(markup)
    if not shapes or view_box is None:
        return "no shapes"
    told = [shape_words(shape, view_box) for shape in shapes[:MAX_TOLD]]
    return _joined([*told, *_untold(shapes)])


def _list(markup: str) -> str:
    """Returns a drawing as a list of colours, kinds and boxes."""
    shapes = shapes_of(markup) or []
    told = [f"{shape['color']} {shape['kind']} {_box(shape['box'])}" for shape in shapes[:MAX_TOLD]]
    return f"[{', '.join([*told, *_untold(shapes)])}]"


def _untold(shapes: Sequence[Shape]) -> list[str]:
    """Returns how many shapes are not told one by one, if there are any."""
    return [f"{len(shapes) - MAX_TOLD} more"] if len(shapes) > MAX_TOLD else []


def _box(box: Sequence[float]) -> str:
    return f"[{', '.join(f'{value:g}' for value in box)}]"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
