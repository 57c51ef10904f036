"""Pictures of every world."""

import html
import re

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

import vlm_envs
from vlm_envs.cli import gallery
from vlm_envs.cli.commands import main
from vlm_envs.errors import EngineUnavailableError
from vlm_envs.worlds.frozen_lake import FrozenLakeView


def test_gallery_leaves_out_a_world_without_its_engine(tmp_path, capsys, monkeypatch):
    def no_engine(self, state):
        raise EngineUnavailableError("no driver; install one")

    monkeypatch.setattr(FrozenLakeView, "image", no_engine)
    monkeypatch.setattr(gallery, "env_ids", lambda: ["VLM/FrozenLake-v0", "VLM/Sokoban-v0"])
    assert main(["gallery", "--out", str(tmp_path)]) == 0
    assert "VLM/FrozenLake-v0 is omitted: no driver; install one" in capsys.readouterr().err
    assert "frozenlake" not in (tmp_path / "index.html").read_text()
    assert "sokoban" in (tmp_path / "index.html").read_text()


@pytest.mark.soak
def test_gallery_saves_a_picture_of_every_world_and_a_page(tmp_path, capsys):
    out = tmp_path / "new folder"
    assert main(["gallery", "--out", str(out)]) == 0
    page = (out / "index.html").read_text()
    names = re.findall(r'src="([^"]+)"', page)
    assert len(names) == len(vlm_envs.env_ids())
    heights = []
    for name in names:
        with Image.open(out / name) as image:
            assert image.width > 2 * 168, "several pictures side by side"
            heights.append(image.height)
    with Image.open(out / "worlds.png") as image:
        assert image.height == sum(heights)


def test_gallery_into_what_is_no_folder_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["gallery", "--out", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith("error: --out must be a writable folder")


def test_seeds_are_counted_from_0(capsys):
    assert main(["play", "VLM/FrozenLake-v0", "--seed", "-1"]) == 2
    assert capsys.readouterr().err == "error: --seed must be at least 0; got -1.\n"


def test_gallery_shows_worlds_registered_by_users():
    from vlm_envs.cli.gallery import strip_of

    gym.register("Test/Lake-v0", entry_point="vlm_envs.worlds.frozen_lake:FrozenLakeWorld")
    try:
        strip = strip_of("Test/Lake-v0", seed=0)
    finally:
        del gym.registry["Test/Lake-v0"]
    assert re.fullmatch(r"Test/Lake-v0, seed 0, solved in \d actions", strip.caption)


@pytest.mark.parametrize("env_id", ["VLM/ZoomQA-v0", "VLM/RewardJudging-v0"])
@pytest.mark.sample(1)
def test_pictures_of_worlds_that_ask_show_the_question_and_the_answer(env_id):
    pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")
    strip = gallery.strip_of(env_id, seed=2)
    bare = gallery.draw_strip([np.zeros((168, 168, 3), np.uint8)], strip.caption)
    assert strip.image.height > bare.height + 2 * gallery.LINE_PX, "there are lines for both"
    assert html.escape(strip.caption) in gallery.page([strip])


def test_a_strip_cuts_nothing_however_wide_its_pictures_are():
    red, blue = np.full((100, 3000, 3), (255, 0, 0), np.uint8), np.full((900, 300, 3), (0, 0, 255), np.uint8)
    pixels = np.asarray(gallery.draw_strip([red, blue], "two"))
    assert pixels.shape[1] == gallery.ROW_WIDTH_PX + 2 * gallery.GAP_PX
    for color, (height, width) in (((255, 0, 0), red.shape[:2]), ((0, 0, 255), blue.shape[:2])):
        rows, columns = np.nonzero((pixels == color).all(axis=-1))
        shown = (np.ptp(columns) + 1) / (np.ptp(rows) + 1)
        assert shown == pytest.approx(width / height, rel=0.2), "the whole picture, in its proportions"


def test_long_paragraphs_say_that_they_go_on():
    lines = gallery._wrapped("word " * 500)
    assert len(lines) == gallery.MAX_LINES
    assert lines[-1].endswith("…") and not lines[0].endswith("…")
    assert gallery._wrapped("a short one") == ["a short one"]
    assert gallery._wrapped("x" * 5000)[0].endswith("…"), "one word may be wider than the row"
