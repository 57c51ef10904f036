"""`python -m vlm_envs gallery`: the first, middle, and last image of a solved episode of every world."""

from __future__ import annotations

import html
import math
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from vlm_envs.cli.named_worlds import describe, make_world
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.registration import env_ids, require_available
from vlm_envs.world import World

Picture = npt.NDArray[np.uint8]

PICTURE_HEIGHT_PX = 168
GAP_PX = 12
ROW_WIDTH_PX = 3 * PICTURE_HEIGHT_PX + 2 * GAP_PX
"""Maximum width of a row of images; wider ones are scaled down, never cropped."""
FONT_SIZE = 14
LINE_PX = 20
MAX_LINES = 3
"""Maximum number of lines of a paragraph in an image."""
INK = (40, 44, 52)
PAPER = (255, 255, 255)


class Strip(NamedTuple):
    """Some images of one episode, side by side, with text above and below.

    Attributes:
        env_id: The world's id.
        caption: One line with the world, the seed, and the outcome.
        image: The whole strip.
    """

    env_id: str
    caption: str
    image: Image.Image


@dataclass(frozen=True, kw_only=True)
class GalleryOptions:
    """Save images of every world.

    Attributes:
        out: Folder for the images.
    """

    out: Path


def run(options: GalleryOptions) -> None:
    """Saves one image per world, one with all of them (`worlds.png`), and a page that shows them."""
    out = options.out
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out must be a writable folder; got {str(out)!r}: {error.strerror}.") from error
    strips: list[Strip] = []
    for env_id in env_ids():
        try:
            require_available(env_id)
            strips.append(strip_of(env_id, seed=0))
        except EngineUnavailableError as error:
            print(f"{env_id} is omitted: {error}", file=sys.stderr)
    for strip in strips:
        strip.image.save(out / file_name(strip.env_id))
    stack([strip.image for strip in strips]).save(out / "worlds.png")
    (out / "index.html").write_text(page(strips), encoding="utf-8")
    print(f"{len(strips)} worlds in {out / 'index.html'}")


def file_name(env_id: str) -> str:
    """Returns the file name of a world's image, e.g. `"sokoban-v0.png"`."""
    return env_id.rpartition("/")[2].lower() + ".png"


def strip_of(env_id: str, seed: int) -> Strip:
    """Returns the first, middle, and last image of an episode solved by the world's own planner.

    Args:
        env_id: A registered id.
        seed: Seed of the episode.

    Returns:
        The strip; for a world without a planner, with its first image only.

    Raises:
        EngineUnavailableError: If the world's engine is missing or cannot start.
    """
    world = make_world(env_id)
    world.reset(seed=seed)
    start, plan = world.state, tuple(world.dynamics.plan(world.state) or ())
    pictures = solved_episode(world, plan)
    chosen = [pictures[index] for index in sorted({0, len(pictures) // 2, len(pictures) - 1})]
    caption = f"{env_id}, seed {seed}" + (f", solved in {len(plan)} action{'s' * (len(plan) != 1)}" if plan else "")
    below = f"{'Answer' if world.shows_several else 'Actions'}: {world.task.solution(start, plan)}" if plan else ""
    image = draw_strip(chosen, caption, above=world.task.brief(start), below=below)
    world.close()
    return Strip(env_id, caption, image)


def solved_episode(world: World[Any, Any], plan: Sequence[Any]) -> list[Picture]:
    """Returns the image before the first action and after each action that leads to one.

    Args:
        world: The world, reset.
        plan: Actions that solve its level.
    """
    state = world.state
    pictures = [world.view.image(state)]
    for action in plan:
        state, _ = world.dynamics.step(state, action, world.np_random)
        if world.view.images(state) != ():  # After an answer there is no image.
            pictures.append(world.view.image(state))
    return pictures


def draw_strip(pictures: Sequence[Picture], caption: str, *, above: Sequence[str] = (), below: str = "") -> Image.Image:
    """Returns images of equal height, side by side, with a caption and paragraphs around them."""
    height = _row_height(pictures)
    images = [Image.fromarray(picture) for picture in pictures]
    sizes = [(round(image.width * height / image.height), height) for image in images]
    panels = [image.resize(size, Image.Resampling.LANCZOS) for image, size in zip(images, sizes, strict=True)]
    head = [caption, *(line for paragraph in above for line in _wrapped(paragraph))]
    tail = _wrapped(below)
    top = len(head) * LINE_PX + GAP_PX // 2
    size = ROW_WIDTH_PX + 2 * GAP_PX, top + height + len(tail) * LINE_PX + GAP_PX
    canvas = Image.new("RGB", size, PAPER)
    left = GAP_PX
    for panel in panels:
        canvas.paste(panel, (left, top))
        left += panel.width + GAP_PX
    _write(canvas, head, 0)
    _write(canvas, tail, top + height + 2)
    return canvas


def _row_height(pictures: Sequence[Picture]) -> int:
    """Returns the height at which images and the gaps between them fit into a row."""
    room = ROW_WIDTH_PX - GAP_PX * (len(pictures) - 1)
    ratios = [float(picture.shape[1] / picture.shape[0]) for picture in pictures]
    height: int = min(PICTURE_HEIGHT_PX, math.ceil(room / sum(ratios)))
    while sum(round(ratio * height) for ratio in ratios) > room:
        height -= 1
    return height


def _wrapped(paragraph: str) -> list[str]:
    """Returns a paragraph in at most `MAX_LINES` lines that fit into a row; an ellipsis marks omitted text."""
    font = ImageFont.load_default(size=FONT_SIZE)
    lines: list[str] = []
    for word in paragraph.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= ROW_WIDTH_PX:
            lines[-1] = longer
        else:
            lines.append(word)
    shown = [_shortened(line, font) for line in lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        shown[-1] = _shortened(lines[MAX_LINES - 1], font, goes_on=True)
    return shown


def _shortened(line: str, font: Any, *, goes_on: bool = False) -> str:
    """Returns a line that fits into a row, with an ellipsis if text is omitted."""
    if not goes_on and font.getlength(line) <= ROW_WIDTH_PX:
        return line
    num_fitting = bisect_right(range(1, len(line) + 1), ROW_WIDTH_PX, key=lambda n: font.getlength(f"{line[:n]} …"))
    return f"{line[:num_fitting]} …"


def _write(canvas: Image.Image, lines: Sequence[str], top: int) -> None:
    font = ImageFont.load_default(size=FONT_SIZE)
    for number, line in enumerate(lines):
        ImageDraw.Draw(canvas).text(
            (GAP_PX, top + number * LINE_PX + LINE_PX // 2), line, fill=INK, font=font, anchor="lm"
        )


def stack(images: Sequence[Image.Image]) -> Image.Image:
    """Returns images of equal width, one below the other."""
    return Image.fromarray(np.concatenate([np.asarray(image) for image in images]))


def page(strips: Sequence[Strip]) -> str:
    """Returns a page that shows the strips by their file names."""
    figures = "\n".join(
        f'<figure><img src="{file_name(strip.env_id)}" alt="{html.escape(strip.caption)}">'
        f"<figcaption>{html.escape(describe(strip.env_id))}</figcaption></figure>"
        for strip in strips
    )
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>VLM worlds</title>\n'
        "<style>body{font:16px sans-serif;margin:2em}img{max-width:100%}</style>\n"
        f"<h1>VLM worlds</h1>\n{figures}\n</html>\n"
    )
