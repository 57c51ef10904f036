"""What furniture, small things, and wall decorations look like.

Each function draws one kind in its own frame: meters, the middle of its footprint at the origin, its lowest point at
z = 0 (its middle if it hangs on a wall), its front toward +y (north). The color is the thing's own; the rest is the
same for all things of a kind.
"""

from __future__ import annotations

from collections.abc import Callable

from vlm_envs.content.colors import RGB, darker, lighter, mixed
from vlm_envs.content.homes.mesh_primitives import (
    BLACK,
    DARK_WOOD,
    FLAME,
    GLASS,
    IRON,
    LEAF,
    LIGHT,
    PAPER,
    SCREEN,
    STEEL,
    WATER,
    WHITE,
    WOOD,
    Mesh,
    ball,
    box,
    boxes,
    column,
    quad,
    upright_disc,
)

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


def _teddy_bear(color: RGB) -> Parts:
    pale = lighter(color, 0.45)
    limbs = [ball((x, 0.12, 0.07), (0.07, 0.10, 0.07), color, num_sides=6) for x in (-0.12, 0.12)]
    arms = [ball((x, 0.03, 0.25), (0.06, 0.08, 0.09), color, num_sides=6) for x in (-0.16, 0.16)]
    ears = [ball((x, 0, 0.53), (0.05, 0.03, 0.05), color, num_sides=6) for x in (-0.11, 0.11)]
    eyes = [ball((x, 0.125, 0.45), (0.017, 0.015, 0.017), BLACK, num_sides=4) for x in (-0.055, 0.055)]
    return [
        ball((0, 0, 0.18), (0.14, 0.12, 0.18), color),
        ball((0, 0.06, 0.19), (0.09, 0.08, 0.12), pale),
        ball((0, 0, 0.43), (0.13, 0.12, 0.12), color),
        ball((0, 0.11, 0.40), (0.055, 0.05, 0.04), pale, num_sides=6),
        ball((0, 0.155, 0.415), (0.02, 0.015, 0.015), BLACK, num_sides=4),
        *limbs,
        *arms,
        *ears,
        *eyes,
    ]


_UP_FRONT, _BACK = (0.0, 0.96, 0.26), (0.0, -0.96, 0.0)


def _toaster(color: RGB) -> Parts:
    toast = (206, 146, 78)
    return [
        box((0, 0), (0.34, 0.20), 0.0, 0.19, color),
        box((0, 0), (0.32, 0.24), 0.02, 0.16, color),
        box((0, 0), (0.34, 0.24), 0.0, 0.03, BLACK),
        box((0, 0.05), (0.25, 0.04), 0.19, 0.193, BLACK),
        box((0, -0.05), (0.25, 0.04), 0.19, 0.193, BLACK),
        box((0, 0.05), (0.19, 0.028), 0.17, 0.255, toast),
        box((0, -0.05), (0.19, 0.028), 0.17, 0.255, toast),
        box((0.17, 0), (0.03, 0.05), 0.11, 0.14, BLACK),
    ]


def _vase(color: RGB) -> Parts:
    heads = (
        (0.06, 0.02, 0.48, (226, 70, 90)),
        (-0.06, 0.03, 0.50, (246, 206, 70)),
        (0.0, -0.05, 0.45, (238, 150, 190)),
    )
    flowers = [ball((x, y, z), (0.055, 0.055, 0.055), color_, num_sides=6) for x, y, z, color_ in heads]
    stems = [box((x / 2, y / 2), (0.018, 0.018), 0.24, z, LEAF) for x, y, z, _ in heads]
    return [
        column((0, 0), 0, 0.12, 0.055, color, top_radius=0.105),
        column((0, 0), 0.12, 0.22, 0.105, color, top_radius=0.045),
        column((0, 0), 0.22, 0.27, 0.045, lighter(color, 0.3), top_radius=0.07, top_color=darker(color, 0.5)),
        *stems,
        *flowers,
    ]


def _book(color: RGB) -> Parts:
    second = darker((color[1], color[2], color[0]), 0.1)
    return [
        box((0, 0), (0.32, 0.24), 0, 0.012, second),
        box((0.01, 0), (0.30, 0.22), 0.012, 0.055, PAPER),
        box((0, 0), (0.32, 0.24), 0.055, 0.067, second),
        box((-0.155, 0), (0.012, 0.24), 0, 0.067, second),
        box((0, 0.01), (0.28, 0.22), 0.067, 0.08, color),
        box((0.01, 0.01), (0.26, 0.20), 0.08, 0.135, PAPER),
        box((0, 0.01), (0.28, 0.22), 0.135, 0.15, color),
        box((-0.135, 0.01), (0.012, 0.22), 0.067, 0.15, color),
    ]


SMALL_ART: dict[str, Art] = {
    "Box": lambda color: [
        box((0, 0), (0.44, 0.36), 0, 0.32, color),
        box((0, 0), (0.06, 0.37), 0.0, 0.325, lighter(color, 0.5)),
        box((-0.13, 0.17), (0.20, 0.03), 0.29, 0.36, lighter(color, 0.2)),
        box((0.13, -0.17), (0.20, 0.03), 0.29, 0.36, lighter(color, 0.2)),
    ],
    "LaundryBasket": lambda color: [
        box((0, 0), (0.44, 0.36), 0, 0.42, color),
        *[box((x, 0.0), (0.03, 0.385), 0.06, 0.40, darker(color, 0.3)) for x in (-0.15, -0.05, 0.05, 0.15)],
        box((0, 0), (0.48, 0.40), 0.38, 0.42, lighter(color, 0.2)),
        ball((-0.08, 0.02, 0.42), (0.13, 0.13, 0.08), (220, 90, 90), num_sides=6),
        ball((0.10, -0.03, 0.42), (0.11, 0.12, 0.07), (90, 120, 210), num_sides=6),
    ],
    "BasketBall": lambda color: [
        ball((0, 0, 0.15), (0.15, 0.15, 0.15), color, num_sides=10),
        ball((0, 0, 0.15), (0.151, 0.022, 0.151), BLACK, num_sides=10),
        ball((0, 0, 0.15), (0.151, 0.151, 0.016), BLACK, num_sides=10),
    ],
    "Guitar": lambda color: [
        upright_disc((0, 0.02, 0.21), 0.20, 0.10, color),
        upright_disc((0, 0.02, 0.47), 0.145, 0.10, color),
        upright_disc((0, 0.075, 0.36), 0.065, 0.02, BLACK),
        box((0, 0.06), (0.16, 0.03), 0.14, 0.18, DARK_WOOD),
        box((0, 0.05), (0.055, 0.03), 0.55, 0.93, DARK_WOOD),
        box((0, 0.05), (0.09, 0.035), 0.93, 1.05, BLACK),
        box((0, 0.085), (0.02, 0.006), 0.18, 0.93, PAPER),
    ],
    "TeddyBear": _teddy_bear,
    "Statue": lambda color: [
        box((0, 0), (0.20, 0.20), 0, 0.08, darker(color, 0.35)),
        column((0, 0), 0.08, 0.24, 0.075, color, top_radius=0.05, num_sides=8),
        column((0, 0), 0.24, 0.34, 0.055, color, top_radius=0.085, num_sides=8),
        ball((0, 0, 0.405), (0.05, 0.05, 0.056), color),
        ball((-0.08, 0.02, 0.26), (0.02, 0.02, 0.08), color, num_sides=5),
        ball((0.08, 0.02, 0.34), (0.02, 0.02, 0.09), color, num_sides=5),
    ],
    "Television": lambda color: [
        box((0, 0), (0.36, 0.16), 0, 0.03, color),
        box((0, -0.02), (0.08, 0.05), 0.03, 0.09, color),
        box((0, 0), (0.95, 0.06), 0.07, 0.62, color),
        box((0, 0.033), (0.88, 0.01), 0.11, 0.58, (52, 104, 160)),
        box((0, 0.036), (0.88, 0.01), 0.11, 0.24, (70, 150, 84)),
        box((0.24, 0.037), (0.10, 0.01), 0.42, 0.52, (250, 224, 120)),
    ],
    "Laptop": lambda color: [
        box((0, 0.04), (0.42, 0.26), 0, 0.025, color),
        box((0, 0.015), (0.36, 0.13), 0.025, 0.03, BLACK),
        box((0, 0.125), (0.12, 0.07), 0.025, 0.03, darker(color, 0.3)),
        quad([(0.20, -0.09, 0.02), (-0.20, -0.09, 0.02), (-0.20, -0.16, 0.29), (0.20, -0.16, 0.29)], color, _UP_FRONT),
        quad([(-0.20, -0.10, 0.02), (0.20, -0.10, 0.02), (0.20, -0.17, 0.29), (-0.20, -0.17, 0.29)], color, _BACK),
        quad(
            [(0.18, -0.09, 0.05), (-0.18, -0.09, 0.05), (-0.18, -0.148, 0.27), (0.18, -0.148, 0.27)], SCREEN, _UP_FRONT
        ),
        quad(
            [(0.14, -0.08, 0.13), (-0.08, -0.08, 0.13), (-0.08, -0.134, 0.24), (0.14, -0.134, 0.24)], GLASS, _UP_FRONT
        ),
    ],
    "Toaster": _toaster,
    "Microwave": lambda color: [
        box((0, -0.005), (0.56, 0.36), 0, 0.34, color),
        box((-0.07, 0.18), (0.37, 0.02), 0.04, 0.30, BLACK),
        box((-0.07, 0.187), (0.27, 0.01), 0.08, 0.26, (88, 98, 106)),
        box((0.20, 0.18), (0.11, 0.02), 0.25, 0.30, (110, 220, 130)),
        *[box((x, 0.18), (0.04, 0.02), z, z + 0.035, IRON) for x in (0.17, 0.23) for z in (0.05, 0.11, 0.17)],
    ],
    "Kettle": lambda color: [
        column((0, 0), 0, 0.22, 0.11, color, top_radius=0.075),
        column((0, 0), 0.22, 0.26, 0.07, BLACK, top_radius=0.03),
        ball((0.115, 0, 0.17), (0.05, 0.025, 0.045), color, num_sides=6),
        box((-0.13, 0), (0.03, 0.03), 0.06, 0.25, BLACK),
        box((-0.10, 0), (0.08, 0.03), 0.22, 0.25, BLACK),
        box((0, 0), (0.03, 0.03), 0.26, 0.31, BLACK),
    ],
    "Pot": lambda color: [
        column((0, 0), 0, 0.16, 0.145, color, num_sides=12),
        column((0, 0), 0.16, 0.19, 0.15, lighter(color, 0.35), top_radius=0.09, num_sides=12),
        ball((0, 0, 0.215), (0.03, 0.03, 0.022), BLACK, num_sides=6),
        *boxes((-0.18, 0), (0.08, 0.05), 0.11, 0.14, BLACK),
    ],
    "Bowl": lambda color: [
        column((0, 0), 0, 0.03, 0.07, darker(color, 0.2), num_sides=12),
        column((0, 0), 0.03, 0.13, 0.08, color, top_radius=0.16, num_sides=12),
        column((0, 0), 0.13, 0.155, 0.16, lighter(color, 0.3), top_color=lighter(color, 0.3), num_sides=12),
        column((0, 0), 0.155, 0.157, 0.135, darker(color, 0.35), num_sides=12),
    ],
    "Mug": lambda color: [
        column((-0.03, 0), 0, 0.18, 0.082, color, top_color=lighter(color, 0.3)),
        column((-0.03, 0), 0.18, 0.182, 0.066, (84, 52, 34)),
        box((0.075, 0), (0.06, 0.03), 0.125, 0.15, color),
        box((0.075, 0), (0.06, 0.03), 0.035, 0.06, color),
        box((0.1, 0), (0.03, 0.03), 0.035, 0.15, color),
    ],
    "Bottle": lambda color: [
        column((0, 0), 0, 0.24, 0.062, color, num_sides=8),
        column((0, 0), 0.24, 0.31, 0.062, color, top_radius=0.025, num_sides=8),
        column((0, 0), 0.31, 0.40, 0.025, color, num_sides=8),
        column((0, 0), 0.39, 0.42, 0.03, DARK_WOOD, num_sides=6),
        column((0, 0), 0.07, 0.18, 0.0645, PAPER, num_sides=8),
    ],
    "Apple": lambda color: [
        ball((0, 0, 0.07), (0.078, 0.078, 0.07), color, num_sides=10),
        box((0, 0), (0.014, 0.014), 0.13, 0.17, DARK_WOOD),
        ball((0.03, 0, 0.155), (0.035, 0.015, 0.012), LEAF, num_sides=5),
    ],
    "Bread": lambda color: [
        ball((0, 0, 0.08), (0.17, 0.09, 0.078), mixed(color, WOOD, 0.3), num_sides=10),
        *[box((x, 0), (0.018, 0.12), 0.14, 0.158, PAPER) for x in (-0.08, 0.0, 0.08)],
    ],
    "Vase": _vase,
    "Candle": lambda color: [
        column((0, 0), 0, 0.03, 0.078, IRON, num_sides=8),
        column((0, 0), 0.03, 0.22, 0.042, color, num_sides=8),
        box((0, 0), (0.01, 0.01), 0.22, 0.25, BLACK),
        column((0, 0), 0.245, 0.275, 0.016, FLAME, top_radius=0.028, num_sides=6),
        column((0, 0), 0.275, 0.34, 0.028, LIGHT, top_radius=0.0, num_sides=6),
    ],
    "Book": _book,
    "TableLamp": lambda color: [
        column((0, 0), 0, 0.03, 0.09, IRON, num_sides=8),
        column((0, 0), 0.03, 0.27, 0.028, DARK_WOOD, num_sides=6),
        column((0, 0), 0.25, 0.50, 0.16, mixed(color, LIGHT, 0.25), top_radius=0.09, top_color=LIGHT),
    ],
    "AlarmClock": lambda color: [
        upright_disc((0, 0, 0.125), 0.115, 0.08, color),
        upright_disc((0, 0.045, 0.125), 0.09, 0.02, WHITE),
        box((0, 0.058), (0.014, 0.01), 0.12, 0.19, BLACK),
        box((0.025, 0.058), (0.055, 0.01), 0.118, 0.132, BLACK),
        ball((-0.07, 0, 0.245), (0.045, 0.04, 0.03), STEEL, num_sides=6),
        ball((0.07, 0, 0.245), (0.045, 0.04, 0.03), STEEL, num_sides=6),
        *boxes((0.07, 0), (0.025, 0.04), 0, 0.04, BLACK),
    ],
    "Globe": lambda color: [
        column((0, 0), 0, 0.04, 0.10, DARK_WOOD, num_sides=8),
        column((0, 0), 0.04, 0.10, 0.02, DARK_WOOD, num_sides=6),
        ball((0, 0, 0.245), (0.15, 0.15, 0.15), lighter(color, 0.25), num_sides=12),
        *[
            ball(place, (0.055, 0.05, 0.06), (82, 160, 80), num_sides=6)
            for place in (
                (0.06, 0.085, 0.28),
                (-0.07, 0.085, 0.2),
                (0.10, -0.04, 0.2),
                (-0.03, -0.10, 0.28),
                (-0.10, -0.03, 0.29),
            )
        ],
        box((0, 0), (0.015, 0.015), 0.39, 0.42, DARK_WOOD),
    ],
    "SoapBottle": lambda color: [
        box((0, 0), (0.15, 0.12), 0, 0.18, color),
        box((0, 0.06), (0.10, 0.01), 0.04, 0.13, WHITE),
        column((0, 0), 0.18, 0.21, 0.035, WHITE, num_sides=6),
        box((0, 0), (0.02, 0.02), 0.21, 0.27, WHITE),
        box((0.03, 0), (0.10, 0.035), 0.27, 0.30, WHITE),
    ],
    "RubberDuck": lambda color: [
        ball((-0.02, 0, 0.07), (0.105, 0.08, 0.07), color),
        ball((0.055, 0, 0.17), (0.06, 0.055, 0.06), color),
        ball((0.115, 0, 0.16), (0.028, 0.03, 0.014), (236, 112, 30), num_sides=6),
        ball((0.09, 0.04, 0.185), (0.014, 0.012, 0.014), BLACK, num_sides=4),
        ball((0.09, -0.04, 0.185), (0.014, 0.012, 0.014), BLACK, num_sides=4),
    ],
    "Painting": lambda color: [
        box((0, 0), (0.75, 0.05), -0.275, 0.275, DARK_WOOD),
        box((0, 0.02), (0.65, 0.02), -0.225, 0.225, mixed(color, WHITE, 0.55)),
        box((0, 0.022), (0.65, 0.02), -0.225, -0.06, darker(color, 0.25)),
        box((-0.16, 0.024), (0.16, 0.02), -0.10, 0.03, (240, 236, 226)),
        quad(
            [(-0.27, 0.037, 0.03), (-0.05, 0.037, 0.03), (-0.16, 0.037, 0.13), (-0.16, 0.037, 0.13)][::-1],
            color,
            (0, 1, 0),
        ),
        upright_disc((0.18, 0.02, 0.11), 0.065, 0.026, (250, 226, 120)),
    ],
    "Clock": lambda color: [
        upright_disc((0, 0, 0), 0.19, 0.05, color),
        upright_disc((0, 0.018, 0), 0.155, 0.03, WHITE),
        box((0, 0.03), (0.022, 0.01), 0, 0.12, BLACK),
        box((0.04, 0.03), (0.09, 0.01), -0.011, 0.011, BLACK),
        *[
            box((x, 0.027), (0.022, 0.01), z - 0.011, z + 0.011, BLACK)
            for x, z in ((0, 0.125), (0, -0.125), (0.125, 0), (-0.125, 0))
        ],
    ],
    "Mirror": lambda color: [
        box((0, 0), (0.55, 0.05), -0.375, 0.375, color),
        box((0, 0.02), (0.45, 0.02), -0.325, 0.325, (186, 212, 222)),
        quad([(0.10, 0.031, -0.14), (0.0, 0.031, -0.14), (-0.19, 0.031, 0.20), (-0.09, 0.031, 0.20)], WHITE, (0, 1, 0)),
        quad([(0.20, 0.031, -0.28), (0.16, 0.031, -0.28), (-0.01, 0.031, 0.0), (0.03, 0.031, 0.0)], WHITE, (0, 1, 0)),
    ],
    "Window": lambda color: [
        box((0, 0), (1.1, 0.06), -0.475, 0.475, color),
        box((0, 0.03), (0.98, 0.01), -0.415, 0.415, (150, 204, 250)),
        box((0, 0.032), (0.98, 0.01), -0.415, -0.16, (110, 176, 100)),
        box((0, 0.035), (0.05, 0.01), -0.415, 0.415, color),
        box((0, 0.035), (0.98, 0.01), -0.025, 0.025, color),
    ],
}
