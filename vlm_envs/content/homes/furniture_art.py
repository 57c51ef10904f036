"""What furniture, small things, and wall decorations look like: the shapes that `furniture_art.toml` lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vlm_envs.content.colors import RGB, described_color
from vlm_envs.content.data_tables import data_table
from vlm_envs.content.homes.mesh_primitives import MATERIALS, Mesh, ball, box, column, quad, upright_disc

ART: Mapping[str, list[dict[str, Any]]] = data_table(__file__, "furniture_art.toml")
"""The shapes of every kind, by its name."""

_SHAPES: Mapping[str, Callable[..., Mesh]] = {
    "box": box,
    "column": column,
    "ball": ball,
    "upright_disc": upright_disc,
    "quad": quad,
}


def drawn_parts(kind: str, own: RGB) -> list[Mesh]:
    """Returns the parts of a kind whose own color is given, in the frame of the kind."""
    named = {**MATERIALS, "own": own, "rotated": (own[1], own[2], own[0])}
    return [_part(named, **shape) for shape in ART[kind]]


def _part(named: Mapping[str, RGB], *, shape: str, **arguments: Any) -> Mesh:
    for name in {"color", "top_color"} & arguments.keys():
        arguments[name] = described_color(arguments[name], named)
    return _SHAPES[shape](**arguments)
