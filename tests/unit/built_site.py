"""The documentation site: built as `make docs` builds it, served over HTTP, and opened without a network."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

CHECKOUT = Path(__file__).parents[2]


def build_site(folder: Path, *, whole_site: bool) -> Path:
    """Builds the site with warnings as errors, unless another test process has built it there.

    Args:
        folder: Where to build it; test processes may share it.
        whole_site: Whether the API reference and the boards are built, which take most of the time.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "searchindex.js").is_file():
            define = f"--define=whole_site={int(whole_site)}"
            command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", define]
            command += ["--doctree-dir", str(folder.with_suffix(".doctrees")), "docs", str(folder)]
            built = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
            assert built.returncode == 0, built.stderr
    return folder


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves a folder on this machine; yields its address, which ends in a slash."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def opened(browser: Browser, address: str, *, width: int, scheme: str) -> Iterator[tuple[Page, list[str]]]:
    """Opens an empty page whose requests to other hosts are refused.

    Yields:
        The page, and the addresses it requested elsewhere.
    """
    elsewhere: list[str] = []

    def answer(route: Route) -> None:
        if route.request.url.startswith(address):
            route.continue_()
        else:
            elsewhere.append(route.request.url)
            route.abort()

    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)  # type: ignore[arg-type]
    context.route(lambda url: not url.startswith("data:"), answer)
    try:
        yield context.new_page(), elsewhere
    finally:
        context.close()


def overflow(page: Page) -> int:
    """Returns by how many pixels a page, or a heading, paragraph, or signature on it, is wider than its space."""
    return int(
        page.evaluate("""() => {
            const texts = document.querySelectorAll("article :is(h1, h2, h3, h4, p, dt)");
            const page = document.documentElement;
            // scrollWidth rounds up; clientWidth rounds to the nearest pixel, so 190.2 pixels would be 1 too wide
            const beyond = [...texts].map(part => part.scrollWidth - Math.ceil(part.getBoundingClientRect().width));
            return Math.max(page.scrollWidth - page.clientWidth, ...beyond);
        }""")
    )


def broken_words(page: Page) -> list[str]:
    """Returns the words in the tables of a page that are broken over several lines."""
    return list(
        page.evaluate(r"""() => [...document.querySelectorAll("article :is(td, th)")].flatMap(cell => {
            const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [], range = new Range();
            while (texts.nextNode()) {
                for (const word of texts.currentNode.data.matchAll(/[\p{L}\p{N}]+/gu)) {
                    range.setStart(texts.currentNode, word.index);
                    range.setEnd(texts.currentNode, word.index + word[0].length);
                    const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
                    if (lines.size > 1) broken.push(word[0]);
                }
            }
            return broken;
        })""")
    )
