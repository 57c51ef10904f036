"""The README: short, with the two commands first, and with images that are small."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from PIL import Image

from docs import grid, screenshots
from vlm_envs.errors import ConfigError
from vlm_envs.registration import WORLDS

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
IMAGES = re.findall(r"!\[.+?\]\((.+?)\)", README)


def test_it_is_short():
    lines = README.splitlines()
    assert len(lines) <= 130
    assert max(map(len, lines)) <= 110
    assert len(README.split()) <= 800


def test_the_two_commands_come_first():
    first = re.search(r"```bash\n(.*?)```", README, flags=re.DOTALL)
    assert [line.partition("#")[0].strip() for line in first[1].splitlines()] == ["make train", "make test"]
    assert "#" not in README[: first.start()].removeprefix("# ") and "![" not in README[: first.start()]


def test_the_program_prints_what_is_shown():
    program, shown = re.search(r"```python\n(import.*?)```\n\n```text\n(.*?)```", README, flags=re.DOTALL).groups()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    assert printed.getvalue() == shown


def test_every_world_has_a_row():
    assert re.findall(r"^\| \[`(VLM/[\w-]+)`\]", README, flags=re.MULTILINE) == list(WORLDS)


@pytest.mark.parametrize("path", IMAGES)
def test_images_are_small(path):
    assert (CHECKOUT / path).stat().st_size <= 300_000


def test_the_grid_has_a_frame_of_every_world():
    assert grid.PATH.relative_to(CHECKOUT).as_posix() in IMAGES
    assert len(grid.FRAMES) == 9 == len({grid.name_of(env_id) for env_id, _ in grid.FRAMES})
    with Image.open(grid.PATH) as image:
        assert image.height <= 600
        size = image.size
    assert all(grid.tile_corner(8)[axis] + grid.SIDE_PX == size[axis] for axis in (0, 1))


def test_a_frame_is_the_upper_left_square_of_the_first_image():
    env_id, seed = grid.FRAMES[1]
    left, top = grid.tile_corner(1)
    with Image.open(grid.PATH) as image:
        shown = image.convert("RGB").crop((left, top, left + grid.SIDE_PX, top + grid.SIDE_PX))
    assert shown.tobytes() == grid.frame(env_id, seed).tobytes()


def test_a_folder_without_a_page_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"--board must be a folder with index\.html"):
        screenshots.main(board=tmp_path)


def test_a_screenshot_starts_at_an_element(tmp_path, chromium):
    page = tmp_path / "page.html"
    page.write_text(
        '<body style="margin:0;background:blue"><div style="height:900px"></div><b id="x">.</b>'
        "<style>#x{display:block;height:200px;background:red}</style>"
    )
    screenshots.save(chromium, page, tmp_path / "x.png", 60, start="#x")
    with Image.open(tmp_path / "x.png") as image:
        assert image.size == (screenshots.WIDTH_PX, 60)
        assert image.convert("RGB").getpixel((500, 1)) == (255, 0, 0)
