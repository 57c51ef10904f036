"""The page on which a person plays, on its own and as `play --window`."""

import queue
import threading
from contextlib import closing
from functools import partial
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest

import vlm_envs.cli.play
from vlm_envs.cli.play import PlayOptions, run
from vlm_envs.cli.player_page import PlayerPage

IS_ASKED = 'number > {} && !document.getElementById("answer").disabled && document.images[0].complete'


@pytest.fixture
def opened(chromium, monkeypatch):
    """Plays with options in a browser: `opened(env_id, ...)` returns its page."""
    urls, threads = queue.Queue(), []
    monkeypatch.setattr(vlm_envs.cli.play, "PlayerPage", partial(PlayerPage, open_url=urls.put))
    page = chromium.new_page()
    page.set_default_timeout(60_000)

    def open_page(env_id, **options):
        threads.append(threading.Thread(target=run, args=[PlayOptions(env_id=env_id, window=True, **options)]))
        threads[0].start()
        page.goto(urls.get(timeout=60))
        page.wait_for_function(IS_ASKED.format(0))
        return page

    yield open_page
    if page.locator("#answer").is_visible():
        page.locator("#answer").fill("q")
    page.keyboard.press("q" if page.locator("#answer").is_hidden() else "Enter")
    page.get_by_text("You may close this window").wait_for()
    page.close()
    threads[0].join(timeout=30)
    assert not threads[0].is_alive()


def test_keys_move_in_a_browser(opened, tmp_path):
    level = tmp_path / "level.txt"
    level.write_text("P___\n__G_\n____\n____")
    page = opened("VLM/FrozenLake-v0", level=level)
    assert "Walk over the ice" in page.locator("#text").inner_text()
    for number, key in enumerate(("ArrowRight", "d", "S", "x", "r")):
        page.keyboard.press(key)
        if key == "x":
            assert "Solved with 3 actions" in page.locator("#text").inner_text(), "x is no key"
        else:
            page.wait_for_function(IS_ASKED.format(number + (number < 3)))
    assert "actions 0" in page.locator("#text").inner_text()


def test_lines_are_typed_in_a_browser(opened):
    page = opened("VLM/FrozenLake-v0", typed=True)
    page.get_by_label("Your answer").fill("Upp")
    page.keyboard.press("Enter")
    page.wait_for_function(IS_ASKED.format(1))
    assert "'Upp' is not an action" in page.locator("#text").inner_text()
    page.get_by_label("Your answer").fill("Up, Down")
    page.keyboard.press("Enter")
    page.wait_for_function(IS_ASKED.format(2))
    assert "actions 2" in page.locator("#text").inner_text()


def test_the_pointer_reports_its_place_in_a_picture_and_the_question_stays_in_sight(opened):
    pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")
    page = opened("VLM/ZoomQA-v0", settings=("side_px=600", "target_px=(20, 40)", "settings=street"))
    box = page.locator("img").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 4)
    thousandths, pixels = page.locator("#place").inner_text().split("; ")
    x, y = (int(number) for number in thousandths.removesuffix(" thousandths").split(", "))
    assert np.abs(np.subtract([x, y], [500, 250])).max() <= 5
    assert pixels == f"{round(x * 0.6)}, {round(y * 0.6)} pixels"
    page.locator("#answer").fill("image_zoom_in_tool image=original_image bbox_2d=[400, 200, 600, 300]")
    page.keyboard.press("Enter")
    page.wait_for_function(IS_ASKED.format(1))
    assert page.locator("img").count() == 2


def test_nobody_answers_without_the_word_in_the_address():
    opened = []
    with closing(PlayerPage(opened.append)) as page:
        assert opened == [page.url]
        elsewhere = page.url.rsplit("/", 2)[0]
        for path, content in (("/", None), ("/next", None), ("/answer?number=1", b"Up"), ("/wrong/answer", b"Up")):
            with pytest.raises(HTTPError, match="404"):
                urlopen(elsewhere + path, content)


def test_an_answer_to_an_earlier_turn_is_passed_over():
    with closing(PlayerPage(lambda url: None)) as page:
        answers = queue.Queue()
        asking = threading.Thread(target=lambda: answers.put(page.ask("", "one", [])), daemon=True)
        asking.start()
        assert page.turn_after(0)["number"] == 1
        urlopen(f"{page.url}answer?number=7", b"wrong")
        urlopen(f"{page.url}answer?number=0", b"wrong")
        assert answers.empty()
        urlopen(f"{page.url}answer?number=1", "Süd <b>".encode())
        assert answers.get(timeout=10) == "Süd <b>"
