"""Band 5: figures of curved paths, some on a badge."""

from __future__ import annotations

import numpy as np

from vlm_envs.worlds.svg.icons.pen import Pen, pick_colors


def heart(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a heart, filled or outlined, perhaps with a highlight."""
    fill, line = pick_colors(rng, 2)
    steps = "M 32 58 C 10 42 4 32 4 21 C 4 3 26 1 32 17 C 38 1 60 3 60 21 C 60 32 54 42 32 58 Z"
    pen.path(steps, fill if rng.random() < 0.5 else pen.outline(line, 4, fill=fill))
    if rng.random() < 0.5:
        pen.path("M 12 22 Q 12 12 21 12", pen.outline("white", 3))


def cloud(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a cloud with rain, a bolt or the sun behind it."""
    puff, drop = pick_colors(rng, 2)
    weather = rng.integers(3)
    if weather == 0:
        pen.circle(44, 18, 12, "gold")
    pen.path("M 16 42 C 2 42 2 24 16 24 C 18 8 40 8 43 21 C 62 19 62 42 48 42 Z", puff)
    if weather == 1:
        for x in range(18, 50, 12):
            pen.line((x, 47), (x - 4, 57), drop, 3)
    if weather == 2:
        pen.path("M 34 44 L 24 54 L 31 54 L 27 63 L 40 51 L 33 51 Z", "gold")


def moon(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a crescent and stars in a night sky."""
    sky = ("black", "blue", "purple", "teal")[rng.integers(4)]
    pen.rect(2, 2, 60, 60, sky, rx=int(rng.choice([0, 8, 30])))
    pen.path("M 40 12 C 6 14 10 56 46 50 C 26 48 22 22 40 12 Z", "gold")
    for x, y in rng.permutation([(46, 18), (52, 32), (40, 34), (44, 44)])[: int(rng.integers(1, 4))]:
        pen.circle(x, y, 2, "white")


def fish(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a fish with a tail, a fin and perhaps bubbles."""
    body, fin = pick_colors(rng, 2)
    pen.path("M 42 32 L 60 16 Q 54 32 60 48 Z", fin)
    pen.path("M 4 34 C 14 12 36 12 50 32 C 36 54 14 54 4 34 Z", body)
    pen.path("M 24 30 Q 36 34 24 42 Z", fin)
    pen.circle(15, 29, 3, "white")
    if rng.random() < 0.5:
        pen.circle(8, 14, 4, pen.outline(body, 2))


def leaf(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a leaf with its veins."""
    blade, vein = pick_colors(rng, 2)
    pen.path("M 10 54 C 4 16 30 6 58 6 C 58 36 44 58 10 54 Z", blade)
    pen.path("M 4 60 Q 24 44 46 18", pen.outline(vein, 3))
    if rng.random() < 0.6:
        pen.path("M 26 40 L 26 24 M 26 40 L 42 40", pen.outline(vein, 2))


def bell(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a bell with its clapper, perhaps ringing."""
    metal, clapper = pick_colors(rng, 2)
    pen.circle(32, 53, 6, clapper)
    pen.path("M 8 50 Q 16 44 16 28 C 16 4 48 4 48 28 Q 48 44 56 50 Z", metal)
    pen.circle(32, 8, 4, metal)
    if rng.random() < 0.5:
        pen.path("M 6 26 Q 6 12 14 6 M 58 26 Q 58 12 50 6", pen.outline(clapper, 3))


def pin(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a map pin, perhaps with its shadow."""
    drop, hole = pick_colors(rng, 2)
    if rng.random() < 0.5:
        pen.ellipse(32, 57, 16, 5, "lightgray")
    pen.path(
        "M 32 58 C 24 44 12 36 12 23 C 12 -3 52 -3 52 23 C 52 36 40 44 32 58 Z",
        drop,
    )
    pen.circle(32, 23, 8, ("white", hole)[rng.integers(2)])


def bubble(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a speech bubble with dots or lines."""
    fill, ink = pick_colors(rng, 2)
    tail = "L 30 44 L 16 58 L 18 44 L 14 44"
    pen.path(f"M 14 6 L 50 6 Q 60 6 60 16 L 60 34 Q 60 44 50 44 {tail} Q 4 44 4 34 L 4 16 Q 4 6 14 6 Z", fill)
    if rng.random() < 0.5:
        for x in (18, 32, 46):
            pen.circle(x, 25, 4, ("white", ink)[int(ink != "white")])
    else:
        for y, right in ((18, 50), (30, 38)):
            pen.line((14, y), (right, y), ink, 4)


def umbrella(rng: np.random.Generator, pen: Pen) -> None:
    """Draws an open umbrella."""
    cloth, stick = pick_colors(rng, 2)
    pen.path("M 32 30 L 32 52 Q 32 60 24 60 Q 18 60 18 54", pen.outline(stick, 4))
    pen.path("M 4 34 C 6 -2 58 -2 60 34 Q 52 26 44 34 Q 32 24 20 34 Q 12 26 4 34 Z", cloth)
    if rng.random() < 0.5:
        pen.path("M 20 34 Q 22 14 32 7 Q 42 14 44 34", pen.outline("white", 2))


def cup(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a steaming cup."""
    china, steam = pick_colors(rng, 2)
    pen.path("M 44 30 C 62 26 62 50 42 48", pen.outline(china, 4))
    pen.path(
        "M 8 26 L 48 26 L 45 48 Q 44 56 36 56 L 20 56 Q 12 56 11 48 Z",
        china,
    )
    for x in (18, 28, 38)[: int(rng.integers(1, 4))]:
        pen.path(f"M {x} 20 Q {x - 5} 15 {x} 11 Q {x + 5} 7 {x} 3", pen.outline(steam, 3))


def boat(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a sailing boat on waves."""
    hull, sail, other = pick_colors(rng, 3)
    pen.path("M 30 4 Q 56 22 52 38 L 30 38 Z", sail)
    pen.path("M 26 10 Q 14 26 12 38 L 26 38 Z", other)
    pen.path("M 6 42 L 58 42 Q 52 56 42 56 L 20 56 Q 10 56 6 42 Z", hull)
    if rng.random() < 0.6:
        pen.path("M 2 60 Q 9 55 17 60 Q 24 64 32 60 Q 40 55 47 60 Q 54 64 62 60", pen.outline("skyblue", 3))


def bird(rng: np.random.Generator, pen: Pen) -> None:
    """Draws a bird with a wing and a beak."""
    body, wing, beak = pick_colors(rng, 3)
    pen.path("M 50 18 L 63 23 L 50 28 Z", beak)
    pen.path("M 2 26 L 18 34 C 26 34 28 8 44 8 C 58 8 56 28 52 34 C 46 56 16 60 2 26 Z", body)
    pen.path("M 18 36 Q 34 30 42 34 Q 36 50 18 36 Z", wing)
    pen.circle(44, 18, 3, "white")
    if rng.random() < 0.5:
        pen.path("M 28 50 L 26 62 M 36 48 L 38 62", pen.outline(beak, 3))


def apple(rng: np.random.Generator, pen: Pen) -> None:
    """Draws an apple with a stalk and a leaf."""
    skin, green = pick_colors(rng, 2)
    pen.path("M 32 20 C 18 10 4 20 6 36 C 8 52 22 66 32 58 C 42 66 56 52 58 36 C 60 20 46 10 32 20 Z", skin)
    pen.path("M 32 20 Q 32 10 26 4", pen.outline("brown", 3))
    if rng.random() < 0.7:
        pen.path("M 34 14 Q 38 2 52 4 Q 48 16 34 14 Z", green)


CURVED = (heart, cloud, moon, fish, leaf, bell, pin, bubble, umbrella, cup, boat, bird, apple)
"""Every figure of band 5."""
