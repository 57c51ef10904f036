"""What furniture looks like.

Each function draws one kind in its own frame: metres, the middle of its footprint at the origin, its lowest point at
z = 0, its front towards +y (north). The colour is the thing's own; the rest is the same for all of a kind.
"""

from __future__ import annotations

from collections.abc import Callable

from vlm_envs.content.colors import RGB, darker, lighter, mixed
from vlm_envs.content.homes.palette import BLACK, DARK_WOOD, GLASS, IRON, LEAF, LIGHT, STEEL, WATER, WHITE, WOOD
from vlm_envs.content.homes.primitives import Mesh, ball, box, boxes, column, upright_disc

Parts = list[Mesh]
Art = Callable[[RGB], Parts]


def _legs(width: float, depth: float, height: float, color: RGB, thickness: float = 0.05) -> Parts:
    """Returns four legs under the corners of a rectangle."""
    x, y = (width - thickness) / 2, (depth - thickness) / 2
    corners = ((-x, -y), (x, -y), (-x, y), (x, y))
    return [box(corner, (thickness, thickness), 0, height, color) for corner in corners]


def _front(x: float, y: float, width: float, low: float, high: float, color: RGB) -> Mesh:
    """Returns a thin panel on a front at depth y: a drawer, a handle, an oven door."""
    return box((x, y), (width, 0.02), low, high, color)


def _sofa(color: RGB) -> Parts:
    seat, pillow = lighter(color, 0.15), lighter(color, 0.45)
    return [
        box((0, 0), (1.8, 0.85), 0, 0.30, darker(color, 0.15)),
        box((0, -0.33), (1.8, 0.19), 0.30, 0.80, color),
        *boxes((0.81, 0.05), (0.18, 0.75), 0.30, 0.60, color),
        *boxes((0.36, 0.09), (0.69, 0.62), 0.30, 0.44, seat),
        *boxes((0.52, -0.16), (0.34, 0.14), 0.44, 0.70, pillow),
    ]


def _tv_stand(color: RGB) -> Parts:
    dark = darker(color, 0.35)
    return [
        box((0, 0), (1.3, 0.40), 0, 0.50, color),
        _front(-0.42, 0.20, 0.38, 0.10, 0.44, dark),
        _front(0.42, 0.20, 0.38, 0.10, 0.44, dark),
        _front(0, 0.20, 0.40, 0.28, 0.44, BLACK),
    ]


def _bookshelf(color: RGB) -> Parts:
    parts = [
        box((0, -0.145), (0.9, 0.03), 0, 1.9, darker(color, 0.3)),
        *boxes((0.43, 0), (0.04, 0.32), 0, 1.9, color),
    ]
    parts += [box((0, 0), (0.82, 0.30), low, low + 0.04, color) for low in (0.02, 0.40, 0.78, 1.16, 1.52, 1.86)]
    spines = ((190, 52, 46), (44, 90, 160), (232, 196, 80), (60, 130, 80), (118, 70, 140), (230, 226, 214))
    for row, low in enumerate((0.06, 0.44, 0.82, 1.20, 1.56)):
        for place in range(4):
            width = (0.16, 0.11, 0.19, 0.13)[(place + row) % 4]
            height = (0.25, 0.21, 0.27, 0.23)[(place * 3 + row) % 4]
            x = -0.30 + 0.19 * place
            parts.append(box((x, 0.0), (width, 0.2), low, low + height, spines[(row * 2 + place) % 6]))
    return parts


def _fridge(color: RGB) -> Parts:
    seam = darker(color, 0.55)
    return [
        box((0, -0.01), (0.7, 0.62), 0, 1.80, color),
        _front(0, 0.30, 0.68, 1.20, 1.215, seam),
        box((-0.27, 0.315), (0.03, 0.04), 1.27, 1.62, seam),
        box((-0.27, 0.315), (0.03, 0.04), 0.70, 1.14, seam),
        _front(0.16, 0.30, 0.13, 1.40, 1.52, (230, 190, 70)),
        _front(0.10, 0.30, 0.10, 1.55, 1.66, (90, 150, 210)),
    ]


def _dresser(color: RGB) -> Parts:
    parts = [box((0, -0.01), (1.0, 0.42), 0, 0.85, color)]
    for low in (0.10, 0.35, 0.60):
        for x in (-0.24, 0.24):
            parts.append(_front(x, 0.205, 0.44, low, low + 0.20, lighter(color, 0.25)))
            parts.append(box((x, 0.22), (0.12, 0.02), low + 0.09, low + 0.12, IRON))
    return parts


FURNITURE_ART: dict[str, Art] = {
    "Sofa": _sofa,
    "ArmChair": lambda color: [
        box((0, 0), (0.85, 0.8), 0, 0.30, darker(color, 0.15)),
        box((0, -0.31), (0.85, 0.18), 0.30, 0.85, color),
        *boxes((0.34, 0.05), (0.17, 0.7), 0.30, 0.58, color),
        box((0, 0.09), (0.51, 0.6), 0.30, 0.45, lighter(color, 0.3)),
    ],
    "CoffeeTable": lambda color: [
        box((0, 0), (0.9, 0.55), 0.36, 0.42, color),
        box((0, 0), (0.76, 0.42), 0.12, 0.15, darker(color, 0.3)),
        *_legs(0.86, 0.51, 0.36, darker(color, 0.2)),
    ],
    "TVStand": _tv_stand,
    "Bookshelf": _bookshelf,
    "FloorLamp": lambda color: [
        column((0, 0), 0, 0.04, 0.17, IRON),
        column((0, 0), 0.04, 1.26, 0.022, IRON, num_sides=6),
        column((0, 0), 1.24, 1.60, 0.21, mixed(color, LIGHT, 0.25), top_radius=0.12, top_color=LIGHT),
    ],
    "HousePlant": lambda color: [
        column((0, 0), 0, 0.36, 0.15, color, top_radius=0.21, top_color=DARK_WOOD),
        column((0, 0), 0.36, 0.55, 0.025, WOOD, num_sides=5),
        ball((0.14, 0.02, 0.62), (0.11, 0.07, 0.24), LEAF, num_sides=6),
        ball((-0.14, 0.05, 0.66), (0.11, 0.07, 0.26), darker(LEAF, 0.15), num_sides=6),
        ball((0.02, 0.14, 0.60), (0.07, 0.11, 0.24), lighter(LEAF, 0.15), num_sides=6),
        ball((-0.02, -0.14, 0.64), (0.08, 0.11, 0.25), darker(LEAF, 0.1), num_sides=6),
        ball((0, 0, 0.78), (0.10, 0.10, 0.27), LEAF, num_sides=6),
    ],
    "Fridge": _fridge,
    "Stove": lambda color: [
        box((0, 0), (0.6, 0.56), 0.0, 0.86, color),
        box((0, -0.27), (0.6, 0.04), 0.86, 0.90, STEEL),
        _front(0, 0.285, 0.50, 0.12, 0.68, IRON),
        _front(0, 0.292, 0.36, 0.22, 0.54, (92, 62, 40)),
        box((0, 0.295), (0.44, 0.01), 0.62, 0.65, STEEL),
        *[column((x, y), 0.86, 0.875, 0.1, BLACK) for x in (-0.14, 0.14) for y in (-0.12, 0.14)],
        *[box((x, 0.295), (0.05, 0.03), 0.77, 0.82, BLACK) for x in (-0.21, -0.07, 0.07, 0.21)],
    ],
    "CounterTop": lambda color: [
        box((0, -0.02), (1.0, 0.52), 0.0, 0.85, color),
        box((0, 0), (1.0, 0.6), 0.85, 0.90, (112, 104, 100)),
        _front(-0.25, 0.25, 0.46, 0.10, 0.80, lighter(color, 0.25)),
        _front(0.25, 0.25, 0.46, 0.10, 0.80, lighter(color, 0.25)),
        *[box((x, 0.29), (0.16, 0.02), 0.72, 0.75, IRON) for x in (-0.24, 0.24)],
    ],
    "Sink": lambda color: [
        box((0, -0.01), (0.8, 0.50), 0.0, 0.76, color),
        _front(-0.2, 0.25, 0.37, 0.08, 0.70, lighter(color, 0.2)),
        _front(0.2, 0.25, 0.37, 0.08, 0.70, lighter(color, 0.2)),
        box((0, 0), (0.8, 0.55), 0.76, 0.84, WHITE),
        box((0, 0.03), (0.56, 0.36), 0.84, 0.845, WATER),
        box((0, 0.03), (0.08, 0.08), 0.845, 0.85, IRON),
        column((0, -0.21), 0.84, 1.05, 0.025, STEEL, num_sides=6),
        box((0, -0.12), (0.04, 0.2), 1.0, 1.05, STEEL),
        box((-0.12, -0.21), (0.07, 0.05), 0.84, 0.90, (200, 50, 50)),
        box((0.12, -0.21), (0.07, 0.05), 0.84, 0.90, (50, 90, 200)),
    ],
    "DiningTable": lambda color: [
        box((0, 0), (1.3, 0.8), 0.69, 0.75, color),
        box((0, 0), (1.14, 0.64), 0.61, 0.69, darker(color, 0.2)),
        *_legs(1.22, 0.72, 0.69, darker(color, 0.2), 0.08),
    ],
    "Chair": lambda color: [
        box((0, 0.01), (0.44, 0.42), 0.42, 0.47, color),
        *_legs(0.42, 0.42, 0.42, darker(color, 0.2), 0.045),
        *boxes((0.19, -0.2), (0.045, 0.045), 0.47, 0.90, darker(color, 0.2)),
        box((0, -0.2), (0.34, 0.03), 0.74, 0.88, color),
        box((0, -0.2), (0.34, 0.03), 0.56, 0.66, color),
    ],
    "GarbageCan": lambda color: [
        column((0, 0), 0, 0.48, 0.135, color, top_radius=0.18),
        column((0, 0), 0.48, 0.53, 0.19, darker(color, 0.35)),
        column((0, 0), 0.53, 0.57, 0.17, darker(color, 0.25), top_radius=0.08),
        box((0, 0), (0.10, 0.03), 0.56, 0.60, BLACK),
        box((0, 0.17), (0.12, 0.03), 0.0, 0.04, BLACK),
    ],
    "Bed": lambda color: [
        box((0, 0), (1.36, 1.96), 0.10, 0.32, DARK_WOOD),
        box((0, -0.965), (1.4, 0.07), 0, 0.95, DARK_WOOD),
        box((0, 0.02), (1.32, 1.88), 0.32, 0.50, WHITE),
        box((0, 0.28), (1.38, 1.42), 0.34, 0.54, color),
        box((0, -0.36), (1.38, 0.20), 0.50, 0.56, lighter(color, 0.5)),
        *boxes((0.32, -0.70), (0.54, 0.36), 0.50, 0.62, WHITE),
    ],
    "Nightstand": lambda color: [
        box((0, -0.005), (0.45, 0.37), 0, 0.52, color),
        _front(0, 0.18, 0.38, 0.30, 0.46, lighter(color, 0.25)),
        _front(0, 0.18, 0.38, 0.10, 0.26, lighter(color, 0.25)),
        box((0, 0.19), (0.06, 0.02), 0.36, 0.40, IRON),
        box((0, 0.19), (0.06, 0.02), 0.16, 0.20, IRON),
    ],
    "Wardrobe": lambda color: [
        box((0, -0.01), (1.1, 0.54), 0.0, 2.0, color),
        _front(-0.27, 0.26, 0.51, 0.10, 1.92, lighter(color, 0.18)),
        _front(0.27, 0.26, 0.51, 0.10, 1.92, lighter(color, 0.18)),
        *boxes((0.06, 0.28), (0.03, 0.02), 0.9, 1.15, BLACK),
    ],
    "Dresser": _dresser,
    "Desk": lambda color: [
        box((0, 0), (1.25, 0.62), 0.69, 0.74, color),
        box((0.42, 0), (0.38, 0.54), 0.02, 0.69, darker(color, 0.12)),
        box((-0.58, 0), (0.05, 0.56), 0, 0.69, darker(color, 0.2)),
        *[_front(0.42, 0.27, 0.32, low, low + 0.17, lighter(color, 0.25)) for low in (0.08, 0.28, 0.48)],
    ],
    "Toilet": lambda color: [
        box((0, -0.25), (0.40, 0.17), 0.38, 0.82, color),
        box((0, -0.25), (0.42, 0.18), 0.78, 0.82, lighter(color, 0.5)),
        column((0, 0.04), 0, 0.36, 0.11, darker(color, 0.1), top_radius=0.19),
        column((0, 0.09), 0.36, 0.43, 0.205, color, num_sides=12),
        column((0, 0.10), 0.43, 0.435, 0.13, WATER, num_sides=12),
        box((0, -0.15), (0.34, 0.05), 0.43, 0.74, darker(color, 0.08)),
    ],
    "Bathtub": lambda color: [
        box((0, 0), (1.6, 0.75), 0, 0.50, color),
        box((0, 0.34), (1.6, 0.07), 0.50, 0.56, lighter(color, 0.6)),
        box((0, -0.34), (1.6, 0.07), 0.50, 0.56, lighter(color, 0.6)),
        *boxes((-0.765, 0), (0.07, 0.61), 0.50, 0.56, lighter(color, 0.6)),
        box((0, 0), (1.46, 0.61), 0.50, 0.51, WATER),
        box((0.66, 0), (0.05, 0.05), 0.51, 0.58, STEEL),
        ball((-0.2, 0.05, 0.52), (0.14, 0.12, 0.05), WHITE, num_sides=6),
        ball((0.02, -0.1, 0.52), (0.1, 0.1, 0.05), WHITE, num_sides=6),
    ],
    "WashingMachine": lambda color: [
        box((0, -0.01), (0.6, 0.54), 0, 0.86, color),
        _front(0, 0.26, 0.56, 0.70, 0.82, darker(color, 0.25)),
        box((0.18, 0.275), (0.07, 0.03), 0.73, 0.79, BLACK),
        box((-0.16, 0.275), (0.16, 0.02), 0.73, 0.79, WHITE),
        upright_disc((0, 0.26, 0.38), 0.22, 0.03, IRON),
        upright_disc((0, 0.27, 0.38), 0.165, 0.03, GLASS),
    ],
}
