"""Draws the README's image of all worlds: one frame per world in a 3×3 grid; `make pages` saves it."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from vlm_envs.cli.gallery import INK, PAPER
from vlm_envs.cli.named_worlds import make_world

PATH = Path(__file__).parent / "images" / "all_worlds.png"

FRAMES = (
    ("VLM/Sokoban-v0", 3),
    ("VLM/FrozenLake-v0", 3),
    ("VLM/Navigation-v0", 11),
    ("VLM/PrimitiveSkillDrawer-v0", 3),
    ("VLM/SVG-v0", 6),
    ("VLM/ZoomQA-v0", 2),
    ("VLM/DocQA-v0", 0),
    ("VLM/VideoQA-v0", 38),
    ("VLM/RewardJudging-v0", 1),
)
"""Id and seed of each frame, row by row."""

NUM_COLUMNS = 3
SIDE_PX = 172
CAPTION_PX = 22
GAP_PX = 8


def grid() -> Image.Image:
    """Returns the first frame of each world, cropped to a square, with the world's name above it."""
    num_rows = -(-len(FRAMES) // NUM_COLUMNS)
    width = NUM_COLUMNS * SIDE_PX + (NUM_COLUMNS - 1) * GAP_PX
    canvas = Image.new("RGB", (width, num_rows * (SIDE_PX + CAPTION_PX)), PAPER)
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(size=14)
    for index, (env_id, seed) in enumerate(FRAMES):
        left, top = tile_corner(index)
        draw.text((left, top - CAPTION_PX // 2), name_of(env_id), fill=INK, font=font, anchor="lm")
        canvas.paste(frame(env_id, seed), (left, top))
    return canvas


def tile_corner(index: int) -> tuple[int, int]:
    """Returns the upper left corner of a frame in the grid."""
    row, column = divmod(index, NUM_COLUMNS)
    return column * (SIDE_PX + GAP_PX), row * (SIDE_PX + CAPTION_PX) + CAPTION_PX


def name_of(env_id: str) -> str:
    """Returns a world's name without namespace, version, and task, e.g. `"PrimitiveSkill"`."""
    return env_id.partition("/")[2].partition("-")[0].removesuffix("Drawer")


def frame(env_id: str, seed: int) -> Image.Image:
    """Returns a world's first image: its upper left square, scaled."""
    world = make_world(env_id)
    try:
        world.reset(seed=seed)
        image = Image.fromarray(world.view.image(world.state))
    finally:
        world.close()
    side = min(image.size)
    return image.crop((0, 0, side, side)).resize((SIDE_PX, SIDE_PX), Image.Resampling.LANCZOS)
