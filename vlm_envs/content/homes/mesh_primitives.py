"""Named colors, and solids as colored triangles with lighting baked into their colors.

Baking the light into the vertices once makes rendering fast and identical everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vlm_envs.content.colors import RGB, hex_color
from vlm_envs.content.data_tables import data_table

_PALETTE = data_table(__file__, "palette.toml")

COLORS: Mapping[str, RGB] = {name: hex_color(color) for name, color in _PALETTE["colors"].items()}
"""Colors of things."""

WALLS: Mapping[str, RGB] = {name: hex_color(color) for name, color in _PALETTE["walls"].items()}
"""Wall paints."""

FLOORS: Mapping[str, tuple[RGB, RGB]] = {
    name: (hex_color(light), hex_color(dark)) for name, (light, dark) in _PALETTE["floors"].items()
}
"""Floors: the two colors of their planks, tiles, or stripes."""

MATERIALS: Mapping[str, RGB] = {name: hex_color(color) for name, color in _PALETTE["materials"].items()}
"""Colors of parts of things and rooms."""

Floats = NDArray[np.float32]

UNDERSIDE_FROM_M = 1.05
"""Solids above this height are also visible from below."""

_AMBIENT, _SUN = 0.80, np.array([0.11, -0.06, 0.17], dtype=np.float32)
"""Six directions get six shades, so every edge of a box shows."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Colored triangles.

    Attributes:
        vertices: float32[V, 3], meters.
        colors: float32[V, 3], sRGB 0 to 255 before lighting.
        normals: float32[V, 3], unit vectors.
        triangles: uint16[T, 3], vertex numbers, counter-clockwise from outside.
    """

    vertices: Floats
    colors: Floats
    normals: Floats
    triangles: NDArray[np.uint16]

    def turned(self, turn: int) -> Mesh:
        """Returns the mesh rotated clockwise by quarter turns, seen from above."""
        cosine, sine = ((1, 0), (0, 1), (-1, 0), (0, -1))[turn % 4]
        return self._rotated([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]])

    def tipped(self) -> Mesh:
        """Returns the mesh tipped over, so that its top faces the front (+y)."""
        return self._rotated([[1, 0, 0], [0, 0, -1], [0, 1, 0]])

    def _rotated(self, matrix: list[list[int]]) -> Mesh:
        rotation = np.array(matrix, dtype=np.float32)
        return replace(self, vertices=self.vertices @ rotation, normals=self.normals @ rotation)

    def moved(self, x: float, y: float, z: float) -> Mesh:
        """Returns the mesh translated, in meters."""
        return replace(self, vertices=self.vertices + np.array([x, y, z], dtype=np.float32))

    def without_back(self) -> Mesh:
        """Returns the mesh without the triangles that face straight back (-y)."""
        shows_back = self.normals[self.triangles[:, 0], 1] < -0.99
        return replace(self, triangles=self.triangles[~shows_back])

    def lit_colors(self) -> NDArray[np.uint8]:
        """Returns the colors with lighting, uint8[V, 3]."""
        light = _AMBIENT + self.normals @ _SUN
        return np.clip(np.rint(self.colors * light[:, None]), 0, 255).astype(np.uint8)


def joined(meshes: Iterable[Mesh]) -> Mesh:
    """Merges one or more meshes."""
    parts = list(meshes)
    starts = np.cumsum([0, *(len(part.vertices) for part in parts[:-1])])
    return Mesh(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.colors for part in parts]),
        np.concatenate([part.normals for part in parts]),
        np.concatenate([part.triangles + start for part, start in zip(parts, starts, strict=True)]).astype(np.uint16),
    )


def quad(corners: ArrayLike, color: RGB, normal: ArrayLike) -> Mesh:
    """Returns a flat face with four corners.

    Args:
        corners: Four (x, y, z), meters, counterclockwise seen from the visible side.
        color: Its color.
        normal: Unit vector towards the visible side.
    """
    return _mesh(np.array(corners), np.array([normal] * 4), np.array([[0, 1, 2], [0, 2, 3]]), color)


# Corners of the unit cube's faces, counterclockwise from outside; the bottom is last.
_CORNERS = np.array(
    [
        [(-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1)],
        [(1, -1, -1), (1, 1, -1), (1, 1, 1), (1, -1, 1)],
        [(-1, 1, -1), (-1, -1, -1), (-1, -1, 1), (-1, 1, 1)],
        [(1, 1, -1), (-1, 1, -1), (-1, 1, 1), (1, 1, 1)],
        [(-1, -1, -1), (1, -1, -1), (1, -1, 1), (-1, -1, 1)],
        [(-1, 1, -1), (1, 1, -1), (1, -1, -1), (-1, -1, -1)],
    ],
    dtype=np.float32,
)
_NORMALS = _CORNERS.mean(axis=1)  # the center of a face points outward


def box(middle: tuple[float, float], size: tuple[float, float], low: float, high: float, color: RGB) -> Mesh:
    """Returns an axis-aligned box.

    Args:
        middle: (x, y) of its middle, meters.
        size: Its extent along x and y, meters.
        low: z of its bottom, meters.
        high: z of its top, meters.
        color: Its color.
    """
    half = np.array([size[0] / 2, size[1] / 2, (high - low) / 2], dtype=np.float32)
    center = np.array([middle[0], middle[1], (low + high) / 2], dtype=np.float32)
    faces = [quad(corners * half + center, color, normal) for corners, normal in zip(_CORNERS, _NORMALS, strict=True)]
    return joined(faces if low > UNDERSIDE_FROM_M else faces[:-1])


def column(
    middle: tuple[float, float],
    low: float,
    high: float,
    radius: float,
    color: RGB,
    *,
    top_radius: float | None = None,
    top_color: RGB | None = None,
    num_sides: int = 10,
) -> Mesh:
    """Returns a cylinder, cone, or truncated cone.

    Args:
        middle: (x, y) of its axis, meters.
        low: z of its bottom, meters.
        high: z of its top, meters.
        radius: Radius at the bottom, meters.
        color: Its color.
        top_radius: Radius at the top, meters; None for the same as at the bottom.
        top_color: Color of the lid; None for the same color.
        num_sides: Number of facets.
    """
    upper = radius if top_radius is None else top_radius
    angles = np.arange(num_sides, dtype=np.float64) * (2 * math.pi / num_sides)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    slope = (radius - upper) / max(high - low, 1e-6)
    flat = 1 / math.sqrt(1 + slope * slope)
    normals = np.column_stack([ring * flat, np.full(num_sides, slope * flat)])
    bottom = np.column_stack([np.array(middle) + ring * radius, np.full(num_sides, low)])
    top = np.column_stack([np.array(middle) + ring * upper, np.full(num_sides, high)])
    current = np.arange(num_sides)
    following = (current + 1) % num_sides
    triangles = [
        np.column_stack([current, following, following + num_sides]),
        np.column_stack([current, following + num_sides, current + num_sides]),
    ]
    meshes = [_mesh(np.concatenate([bottom, top]), np.tile(normals, (2, 1)), np.concatenate(triangles), color)]
    if upper > 0:
        meshes.append(_disc(top, top_color or color, is_up=True))
    if low > UNDERSIDE_FROM_M:
        meshes.append(_disc(bottom, color, is_up=False))
    return joined(meshes)


def ball(
    middle: tuple[float, float, float], radii: tuple[float, float, float], color: RGB, *, num_sides: int = 8
) -> Mesh:
    """Returns an ellipsoid.

    Args:
        middle: (x, y, z), meters.
        radii: Half the extent along each axis, meters.
        color: Its color.
        num_sides: Facets around; half as many from pole to pole.
    """
    num_rings = max(3, num_sides // 2)
    latitudes = np.linspace(-math.pi / 2, math.pi / 2, num_rings + 1)
    longitudes = np.arange(num_sides) * (2 * math.pi / num_sides)
    normals = np.array(
        [
            (math.cos(latitude) * math.cos(longitude), math.cos(latitude) * math.sin(longitude), math.sin(latitude))
            for latitude in latitudes
            for longitude in longitudes
        ]
    )
    triangles = []
    for ring in range(num_rings):
        for side in range(num_sides):
            a, b = ring * num_sides + side, ring * num_sides + (side + 1) % num_sides
            if ring > 0:
                triangles.append((a, b, b + num_sides))
            if ring < num_rings - 1:
                triangles.append((a, b + num_sides, a + num_sides))
    return _mesh(np.array(middle) + normals * np.array(radii), normals, np.array(triangles), color)


def _disc(rim: NDArray[np.float64], color: RGB, *, is_up: bool) -> Mesh:
    """Returns a horizontal disc that faces up or down."""
    fan = [(0, i, i + 1) if is_up else (0, i + 1, i) for i in range(1, len(rim) - 1)]
    normals = np.tile([0.0, 0.0, 1.0 if is_up else -1.0], (len(rim), 1))
    return _mesh(rim, normals, np.array(fan), color)


def _mesh(vertices: NDArray[Any], normals: NDArray[Any], triangles: NDArray[np.int_], color: RGB) -> Mesh:
    return Mesh(
        vertices.astype(np.float32),
        np.full((len(vertices), 3), color, dtype=np.float32),
        normals.astype(np.float32),
        triangles.astype(np.uint16),
    )


def upright_disc(middle: tuple[float, float, float], radius: float, depth: float, color: RGB) -> Mesh:
    """Returns a round plate that faces the front, such as a clock's face or a guitar's body.

    Args:
        middle: (x, y, z), meters.
        radius: Radius, meters.
        depth: Thickness along y, meters.
        color: Its color.
    """
    return column((0, 0), -depth / 2, depth / 2, radius, color, num_sides=12).tipped().moved(*middle)
