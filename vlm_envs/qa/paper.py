"""Questions without pictures, written on a sheet, so that there is something to see when a world is rendered."""

from __future__ import annotations

import textwrap

from PIL import Image, ImageDraw, ImageFont

from vlm_envs.qa.sample import Sample
from vlm_envs.tools.pictures import Picture

_WIDTH_PX, _MARGIN_PX, _FONT_PX, _LINE_PX = 720, 16, 14, 19
_MAX_LINES = 60


def written_sheet(sample: Sample) -> Picture:
    """Returns question and texts of a sample as black letters on white; what is too long for the sheet is left out."""
    font = ImageFont.load_default(size=_FONT_PX)
    parts = (sample.question, *(f"{name}:\n{text}" for name, text in sample.texts))
    lines = [line for part in parts for line in _wrapped(part, font)][:_MAX_LINES]
    canvas = Image.new("RGB", (_WIDTH_PX, 2 * _MARGIN_PX + _LINE_PX * len(lines)), "white")
    draw = ImageDraw.Draw(canvas)
    for row, line in enumerate(lines):
        draw.text((_MARGIN_PX, _MARGIN_PX + row * _LINE_PX), line, "black", font)
    return Picture.from_image(canvas)


def _wrapped(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> list[str]:
    """Returns the lines of a text, and a blank one behind them."""
    columns = int((_WIDTH_PX - 2 * _MARGIN_PX) / (font.getlength("etaoin shrdlu") / 13) * 0.8)
    return [line for whole in text.splitlines() for line in textwrap.wrap(whole, columns) or [""]] + [""]
