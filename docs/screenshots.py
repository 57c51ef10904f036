"""Takes the README's screenshots of a board and of a training report, with the system's Chromium.

`python -m docs.screenshots --board docs/boards/four-worlds --report runs/frozenlake_tiny`

The README's animation needs no browser; after `make train`:
`vlm-envs film runs/frozenlake_tiny --out docs/images/frozenlake_tiny.gif`
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import tyro
from PIL import Image

from vlm_envs.errors import ConfigError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).parent / "images"
WIDTH_PX = 1100
BOARD_HEIGHT_PX, REPORT_HEIGHT_PX = 1080, 1060
EPISODE = {
    "label": "tiny VLM before training · VLM/FrozenLake-v0:prompt_example=False,"
    "prompt_format=grounding_worldmodeling,representation=structured",
    "filter": "failed",
    "beside": "tiny VLM after training",
}
"""The episode that is open in the screenshot of `docs/boards/four-worlds`."""


def main(*, board: Path | None = None, address: str = "#" + urlencode(EPISODE), report: Path | None = None) -> None:
    """Writes `board.png`, `board_episode.png`, and `report.png` into docs/images.

    Args:
        board: Folder of a board with its page, `index.html`; None for no screenshot of it.
        address: Address of the board's open episode, as the page writes it into the address bar.
        report: Folder of a run with its `report.html`; None for no screenshot of it.
    """
    pages = [("--board", board, "index.html"), ("--report", report, "report.html")]
    for option, folder, name in pages:
        if folder is not None and not (folder / name).is_file():
            raise ConfigError(
                f"{option} must be a folder with {name}; got {str(folder)!r}. "
                "Write a board's page with `make boards`, a report with `vlm-envs report`."
            )
    with _browser() as browser:
        if board is not None:
            save(browser, board / "index.html", IMAGES / "board.png", BOARD_HEIGHT_PX)
            save(browser, board / "index.html", IMAGES / "board_episode.png", BOARD_HEIGHT_PX, address, start="#map")
        if report is not None:
            save(browser, report / "report.html", IMAGES / "report.png", REPORT_HEIGHT_PX)


@contextmanager
def _browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if executable is None:
        raise ConfigError("Screenshots need Chromium. Install it with `.ci/drivers --browser`.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


def save(browser: Browser, page: Path, path: Path, height_px: int, address: str = "", *, start: str = "body") -> None:
    """Saves a screenshot of a page, from the top of an element on, with a palette of 256 colors.

    Args:
        browser: The browser that opens the page.
        page: The HTML file.
        path: The PNG file.
        height_px: Height of the screenshot.
        address: Fragment of the page's address, `"#…"`.
        start: CSS selector of the element that the screenshot starts with.
    """
    window = browser.new_page(viewport={"width": WIDTH_PX, "height": height_px}, color_scheme="light")
    window.goto(page.resolve().as_uri() + address, wait_until="networkidle")
    top = window.locator(start).first.evaluate("element => element.getBoundingClientRect().top + window.scrollY")
    data = window.screenshot(clip={"x": 0, "y": top, "width": WIDTH_PX, "height": height_px}, full_page=True)
    window.close()
    image = Image.open(io.BytesIO(data)).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except ConfigError as error:
        sys.exit(str(error))
