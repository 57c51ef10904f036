"""Boards of adapted worlds: they hold all that replaying needs, and name what a TOML file changed since."""

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.board.verification import verified_rows
from vlm_envs.adapter import adapter_settings

LAKE = 'env = "FrozenLake-v1"\nname = "board-lake"\nmax_turns = 3\nimage_px = 32\n[make]\nis_slippery = false\n'
RUN = ["run", "--world", "adapt:lake.toml", "--agent", "random", "--no-references", "--episodes", "1", "--out", "board"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adapter_settings, "SOURCES", {})
    (tmp_path / "lake.toml").write_text(LAKE)
    yield tmp_path
    adapter_settings.gym.registry.pop("Adapted/board-lake", None)


def test_a_board_is_replayed_without_its_file_and_a_changed_file_is_named(folder, capsys, monkeypatch):
    assert main(RUN) == 0
    (world,) = Board(folder / "board").record["worlds"]
    assert world["adapted"] == {
        "name": "board-lake",
        "env": "FrozenLake-v1",
        "max_turns": 3,
        "image_px": 32,
        "make": {"is_slippery": False},
        "file": "../lake.toml",
    }
    (folder / "lake.toml").write_text(LAKE.replace("max_turns = 3", 'goal = "Go."'))
    assert main(["replay", "board"]) == 0
    told = capsys.readouterr()
    assert "verified" in told.out and "lake.toml has changed since: max_turns, goal." in told.err
    assert main(RUN) == 2
    assert "lake.toml has changed since: max_turns, goal." in capsys.readouterr().err
    (folder / "lake.toml").unlink()
    adapter_settings.gym.registry.pop("Adapted/board-lake")
    (folder / "other").mkdir()
    monkeypatch.chdir(folder / "other")
    assert main(["replay", "../board"]) == main(["page", "../board"]) == 0
    assert "DIFFERS" not in capsys.readouterr().err


@pytest.fixture
def described(folder, capsys):
    """A verified board of a world with a function beside its file."""
    (folder / "lake_words.py").write_text("def describe(env):\n    return str(env.unwrapped.s)\n")
    (folder / "lake.toml").write_text('describe = "lake_words:describe"\n' + LAKE)
    assert main(RUN) == main(["replay", "board"]) == 0
    adapter_settings.gym.registry.pop("Adapted/board-lake")
    adapter_settings.SOURCES.clear()
    capsys.readouterr()
    return Board(folder / "board")


def verified(board):
    return verified_rows(board, board.episodes())


def test_a_board_is_replayed_from_anywhere_without_its_file(described, folder, monkeypatch, capsys):
    (folder / "lake.toml").unlink()
    (folder / "other").mkdir()
    monkeypatch.chdir(folder / "other")
    assert main(["replay", "../board"]) == main(["rescore", "../board"]) == 0
    with (folder / "lake_words.py").open("a") as functions:
        functions.write("# clearer\n")
    capsys.readouterr()
    assert main(["replay", "../board"]) == 0
    assert "lake_words.py" in capsys.readouterr().err


def test_a_board_is_not_continued_with_other_functions(described, folder, capsys):
    before = described.episodes()
    (folder / "lake_words.py").write_text("def describe(env):\n    return 'elsewhere'\n")
    assert main([*RUN[:-4], "--episodes", "2", "--out", "board"]) == 2
    assert "lake_words.py" in capsys.readouterr().err
    assert Board(folder / "board").episodes() == before


def test_a_world_that_cannot_be_made_is_refused_and_keeps_its_marks(described, folder, capsys):
    row = {("random", "Adapted/board-lake")}
    assert verified(described) == row
    (folder / "lake_words.py").unlink()
    assert main(["replay", "board"]) == 2
    assert str(folder / "lake_words.py") in capsys.readouterr().err
    assert verified(described) == row


def test_a_merged_board_leads_to_the_functions(described, folder, monkeypatch):
    assert main([*RUN[:-1], "second"]) == 0
    assert main(["merge", "board", "second", "--out", "far/away/merged"]) == 0
    adapter_settings.gym.registry.pop("Adapted/board-lake")
    adapter_settings.SOURCES.clear()
    monkeypatch.chdir(folder / "far")
    assert main(["replay", "away/merged"]) == 0


def test_a_file_may_have_an_equals_sign_in_its_name(folder):
    (folder / "a=b.toml").write_text(LAKE)
    assert WorldSpec.parse("adapt:a=b.toml").env_id == "adapt:a=b.toml"
    spec = WorldSpec.parse("adapt:a=b.toml:max_turns=2,image_px=16")
    assert (spec.env_id, spec.kwargs) == ("adapt:a=b.toml", {"max_turns": 2, "image_px": 16})


def test_a_board_of_an_earlier_version_is_replayed_from_the_file(folder, capsys):
    assert main(RUN) == 0
    record = json.loads((folder / "board" / "board.json").read_text())
    del record["worlds"][0]["adapted"]
    (folder / "board" / "board.json").write_text(json.dumps(record))
    assert main(["replay", "board"]) == 0


def test_an_oracle_without_a_planner_is_left_out_with_a_line(folder, capsys):
    assert main([*RUN, "--agent", "oracle"]) == 0
    assert "oracle does not play Adapted/board-lake, as this world has no planner" in capsys.readouterr().err
    assert [agent["label"] for agent in Board(folder / "board").record["agents"]] == ["random"]
    assert main([*RUN[:3], "--agent", "oracle", "--no-references", "--episodes", "1", "--out", "none"]) == 2


def test_versions_name_the_package_of_an_adapted_environment(monkeypatch):
    from benchmarks.models.board import verification as module

    monkeypatch.setattr(module, "_PACKAGES", ())
    assert "gymnasium" not in module.versions([None])
    assert "gymnasium" in module.versions([None, {"env": "FrozenLake-v1"}])
