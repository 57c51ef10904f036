"""A film of recorded episodes: what is shown, for how long, and in which order."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.unit.vlm_envs.records.test_run_data import trajectory, turn
from vlm_envs.cli.commands import main
from vlm_envs.records import film
from vlm_envs.records.film import END_MS, PICTURE_PX, SECTION_MS, TURN_MS, write_film
from vlm_envs.records.json_lines import MissingRunDataError
from vlm_envs.records.run_data import RunWriter

SAID = {"observation": "I see a player.", "answer": "Up"}


@pytest.fixture
def run(tmp_path):
    said = turn(info={"success": True, "sections": SAID})
    unreadable = turn(response="Up, I think", info={"success": False, "sections": {}})
    writer = RunWriter(tmp_path)
    writer.config({})
    writer.trajectories(
        "after", [trajectory(unreadable, seed=1), trajectory(said, said, seed=2), trajectory(said, seed=3)]
    )
    return tmp_path


def frames_of(path):
    with Image.open(path) as film:
        found = []
        for number in range(film.n_frames):
            film.seek(number)
            found.append((np.asarray(film.convert("RGB")), film.info["duration"]))
    return found


def test_each_section_comes_in_turn_and_a_whole_turn_stands_longer(run, tmp_path):
    size = write_film(run, tmp_path / "film.gif", label="after", seeds=(3,))
    frames = frames_of(tmp_path / "film.gif")
    assert (tmp_path / "film.gif").stat().st_size == size
    assert [duration for _, duration in frames] == [SECTION_MS, SECTION_MS, TURN_MS, END_MS]
    inked = [int((pixels[:, PICTURE_PX + 32 :] < 128).any(-1).sum()) for pixels, _ in frames]
    assert inked[0] < inked[1] < inked[2]
    shown = frames[0][0][60, 40]
    assert abs(shown.astype(int) - (200, 30, 30)).max() < 16, "the picture of the turn"


def test_what_stands_still_keeps_its_colours(tmp_path):
    shades = np.stack(np.meshgrid(np.arange(0, 256, 4), np.arange(0, 256, 4), [90]), axis=-1)[:, :, 0].astype(np.uint8)
    shown = turn(observation={"text": "look", "image": shades}, info={"success": True, "sections": SAID})
    writer = RunWriter(tmp_path)
    writer.config({})
    writer.trajectories("after", [trajectory(shown, seed=1)])
    write_film(tmp_path, tmp_path / "film.gif", label="after")
    *turns, _ = [pixels[60:, : PICTURE_PX + 16] for pixels, _ in frames_of(tmp_path / "film.gif")]
    assert all((pixels == turns[0]).all() for pixels in turns[1:])
    assert len(np.unique(turns[0].reshape(-1, 3), axis=0)) > 128


def test_solved_episodes_of_several_turns_come_first(run, tmp_path):
    write_film(run, tmp_path / "chosen.gif", label="after", num_episodes=1)
    write_film(run, tmp_path / "named.gif", label="after", seeds=(2,))
    assert (tmp_path / "chosen.gif").read_bytes() == (tmp_path / "named.gif").read_bytes()


def test_a_response_that_could_not_be_read_is_shown_as_it_is(run, tmp_path):
    write_film(run, tmp_path / "film.gif", label="after", seeds=(1,))
    frames = frames_of(tmp_path / "film.gif")
    assert len(frames) == 3 and (frames[1][0][:, PICTURE_PX + 32 :] < 128).any()


def test_a_level_that_was_not_recorded_is_told(run, tmp_path, capsys):
    with pytest.raises(MissingRunDataError, match=r"seed 9; .* \[1, 2, 3\]"):
        write_film(run, tmp_path / "film.gif", label="after", seeds=(9,))
    assert main(["film", str(run), "--seeds", "2", "3"]) == 0
    assert "film.gif" in capsys.readouterr().out
    assert main(["film", str(run), "--label", "befor"]) != 0
    assert "recorded: 'after'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["film", "report"])
def test_the_folder_of_a_board_names_the_page_to_open(command, tmp_path, capsys):
    (tmp_path / "board.json").write_text("{}")
    assert main([command, str(tmp_path)]) == 2
    assert str(tmp_path / "index.html") in capsys.readouterr().err


def asked(question, options=()):
    """Returns an episode of a question, whose last observation shows no image."""
    state = {"question": question, "answers": ["B"], "options": list(options), "answer": "", "answer_kind": "choice"}
    shown = turn(state=state, info={"success": True, "sections": {"answer": "B"}})
    return replace(trajectory(shown, seed=1), final_observation={"text": "over", "images": ()})


def film_of(folder, episode):
    writer = RunWriter(folder)
    writer.config({})
    writer.trajectories("after", [episode])
    write_film(folder, folder / "film.gif", label="after")
    return frames_of(folder / "film.gif")


def test_a_question_and_its_options_stand_beside_the_image_from_the_first_frame(tmp_path):
    inked = []
    for number, episode in enumerate((asked(""), asked("What is it?"), asked("What is it?", ["a mug", "a cup"]))):
        pixels, _ = film_of(tmp_path / str(number), episode)[0]
        inked.append(int((pixels[:, PICTURE_PX + 32 :] < 128).any(-1).sum()))
    assert inked[0] < inked[1] < inked[2]


def test_the_last_image_stays_where_none_follows(tmp_path):
    *_, (last, duration) = film_of(tmp_path, asked("What is it?"))
    assert duration == END_MS
    assert abs(last[60, 40].astype(int) - (200, 30, 30)).max() < 16


def test_levels_of_a_split_are_named_by_their_place_in_it(tmp_path, monkeypatch):
    titles = []
    draw = film._frame
    monkeypatch.setattr(film, "_frame", lambda title, *rest: titles.append(title) or draw(title, *rest))
    shades = np.full((16, 16, 3), 90, np.uint8)
    shown = turn(observation={"text": "look", "image": shades}, info={"success": True, "sections": SAID})
    writer = RunWriter(tmp_path)
    writer.config({})
    writer.trajectories("after", [trajectory(shown, seed=1_500_000_004)])
    write_film(tmp_path, tmp_path / "film.gif")
    assert titles and all(", test level 4" in title for title in titles)
