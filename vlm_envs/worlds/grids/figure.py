"""The player's figure, shared by all grid worlds so that an agent learns to see it once."""

from __future__ import annotations

from vlm_envs.worlds.grids.canvas import Canvas

_SKIN, _INK = "#f8cfa2", "#2b2118"
_COAT, _COAT_SHADE, _CAP, _CAP_BRIM = "#2563d9", "#1c4aa8", "#d92626", "#a81818"
_BOOTS = "#3b2a20"


def draw_player(canvas: Canvas) -> None:
    """Draws a standing figure: red cap, smiling face, blue coat."""
    canvas.rectangle((0.33, 0.80), (0.47, 0.95), _BOOTS, radius=0.04)
    canvas.rectangle((0.53, 0.80), (0.67, 0.95), _BOOTS, radius=0.04)
    canvas.line([(0.30, 0.64), (0.20, 0.76)], _COAT_SHADE, 0.12)
    canvas.line([(0.70, 0.64), (0.80, 0.76)], _COAT_SHADE, 0.12)
    canvas.rectangle((0.28, 0.54), (0.72, 0.87), _COAT, radius=0.10)
    canvas.rectangle((0.28, 0.73), (0.72, 0.79), "#f4c430")
    draw_head(canvas, centre_y=0.36)


def draw_head(canvas: Canvas, *, centre_y: float, is_happy: bool = True) -> None:
    """Draws the capped head with its middle at (0.5, `centre_y`)."""
    y = centre_y
    canvas.ellipse((0.5, y), 0.245, _SKIN)
    canvas.pie((0.5, y - 0.03), 0.265, 180, 360, _CAP)
    canvas.rectangle((0.20, y - 0.09), (0.80, y - 0.02), _CAP_BRIM, radius=0.035)
    for eye_x in (0.40, 0.60):
        canvas.ellipse((eye_x, y + 0.05), 0.036, _INK, radius_y=0.048)
    if is_happy:
        canvas.arc((0.5, y + 0.08), 0.10, 25, 155, _INK, 0.035)
    else:
        canvas.ellipse((0.5, y + 0.165), 0.055, _INK)
