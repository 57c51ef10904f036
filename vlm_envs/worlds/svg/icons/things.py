"""Band 3: everyday things made of plain shapes with fills and strokes."""

from __future__ import annotations

import numpy as np

from vlm_envs.worlds.svg.icons.pen import Pen, pick_colors


def house(rng: np.random.Generator, pen: Pen) -> None:
    """Draws walls, a roof, a door and perhaps a window."""
    wall, roof, door, glass = pick_colors(rng, 4)
    pen.rect(12, 28, 40, 32, wall)
    pen.polygon([(32, 4), (60, 28), (4, 28)], roof)
    pen.rect(18, 40, 12, 20, door)
    if rng.random() < 0.7:
        pen.rect(36, 36, 10, 10, pen.outline("white", 2, fill=glass))


def snowman(rng: np.random.Generator, pen: Pen) -> None:
    """Draws three balls, a hat and buttons."""
    line, hat = pick_colors(rng, 2)
    paint = pen.outline(line, 2, fill="white")
    pen.circle(32, 47, 15, paint)
    pen.circle(32, 23, 10, paint)
    pen.rect(24, 2, 16, 11, hat)
    pen.rect(19, 12, 26, 3, hat)
    for y in range(40, 40 + 7 * int(rng.integers(2, 4)), 7):
        pen.circle(32, y, 2, line)


def traffic_light(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a box with three lamps, one of them lit in its colour."""
    case, dark = [("black", "gray"), ("gray", "black"), ("blue", "black")][rng.integers(3)]
    lit = int(rng.integers(3))
    pen.rect(20, 2, 24, 60, case, rx=6)
    for index, color in enumerate(("red", "gold", "green")):
        pen.circle(32, 14 + 18 * index, 7, color if index == lit else dark)


def target(rng: np.random.Generator, pen: Pen) -> None:
    """Draws rings inside each other."""
    outer, inner = pick_colors(rng, 2)
    radii = [28, 20, 12, 5][: int(rng.integers(3, 5))]
    for index, radius in enumerate(radii):
        pen.circle(32, 32, radius, [outer, "white", inner, "white"][index])


def face(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a head with eyes, a mouth and perhaps ears."""
    skin, ink = pick_colors(rng, 2)
    if rng.random() < 0.5:
        pen.circle(12, 16, 8, skin)
        pen.circle(52, 16, 8, skin)
    pen.circle(32, 34, 24, skin)
    pen.circle(24, 28, 3, ink)
    pen.circle(40, 28, 3, ink)
    mouth = [[(22, 42), (32, 48), (42, 42)], [(22, 46), (32, 40), (42, 46)], [(22, 44), (42, 44)]][rng.integers(3)]
    pen.polyline(mouth, pen.outline(ink, 3))


def fir_tree(rng: np.random.Generator, pen: Pen) -> None:
    """Draws layers of branches over a trunk, perhaps with a star's ball on top."""
    leaves, trunk, ball = pick_colors(rng, 3)
    pen.rect(28, 50, 8, 12, trunk)
    for index in range(int(rng.integers(2, 4))):
        half, bottom = 24 - 5 * index, 52 - 14 * index
        pen.polygon([(32, bottom - 24), (32 + half, bottom), (32 - half, bottom)], leaves)
    if rng.random() < 0.5:
        pen.circle(32, 6, 4, ball)


def car(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a car from its side."""
    body, wheel, glass = pick_colors(rng, 3)
    pen.polygon([(16, 30), (24, 16), (44, 16), (52, 30)], pen.outline(body, 3, fill=glass))
    pen.rect(4, 28, 56, 16, body, rx=4)
    for x in (18, 46):
        pen.circle(x, 44, 7, pen.outline("white", 2, fill=wheel))


def flag(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a striped flag on a pole."""
    stripes = pick_colors(rng, 3)
    upright = rng.random() < 0.5
    pen.line((10, 4), (10, 62), "black", 3)
    for index, color in enumerate(stripes):
        if upright:
            pen.rect(12 + 16 * index, 6, 16, 30, color)
        else:
            pen.rect(12, 6 + 10 * index, 48, 10, color)


def envelope(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a closed letter, perhaps with a seal."""
    paper, ink, seal = pick_colors(rng, 3)
    pen.rect(5, 14, 54, 38, pen.outline(ink, 3, fill=paper))
    pen.polyline([(5, 14), (32, 36), (59, 14)], pen.outline(ink, 3))
    if rng.random() < 0.5:
        pen.circle(32, 36, 6, seal)


def lamp(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a lamp with a shade."""
    shade, stand = pick_colors(rng, 2)
    pen.line((32, 28), (32, 56), stand, 4)
    pen.polygon([(22, 6), (42, 6), (54, 32), (10, 32)], shade)
    pen.rect(18, 54, 28, 6, stand)
    if rng.random() < 0.5:
        pen.circle(32, 36, 4, "gold")


def robot(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a robot's head with an aerial."""
    metal, eye, trim = pick_colors(rng, 3)
    pen.line((32, 4), (32, 16), trim, 3)
    pen.circle(32, 5, 4, trim)
    pen.rect(10, 16, 44, 40, metal, rx=6)
    for x in (22, 42):
        pen.circle(x, 30, 5, pen.outline(eye, 3, fill="white"))
    pen.rect(20, 43, 24, 5, trim)


def chart(rng: np.random.Generator, pen: Pen) -> None:
    """Draws bars over a base line."""
    colors = pick_colors(rng, 3)
    for index, color in enumerate(colors):
        height = 8 * int(rng.integers(1, 7))
        pen.rect(10 + 16 * index, 56 - height, 12, height, color)
    pen.line((4, 58), (60, 58), "black", 3)


def screen(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a monitor on its foot with something on it."""
    case, picture, mark = pick_colors(rng, 3)
    pen.rect(5, 8, 54, 36, pen.outline(case, 4, fill=picture), rx=3)
    pen.rect(28, 46, 8, 8, case)
    pen.rect(18, 54, 28, 5, case)
    if rng.random() < 0.5:
        pen.polygon([(26, 18), (42, 26), (26, 34)], mark)
    else:
        pen.circle(32, 26, 9, mark)


THINGS = (house, snowman, traffic_light, target, face, fir_tree, car, flag, envelope, lamp, robot, chart, screen)
"""Every thing of band 3."""
