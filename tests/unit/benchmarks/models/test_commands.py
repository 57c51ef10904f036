"""`run` takes options from a command line and a file, and says in one line what is wrong with either."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from benchmarks.__main__ import main
from benchmarks.models.board.board_spec import SUITES, WorldSpec
from tests.unit.agents.api.endpoint import FakeEndpoint, status
from tests.unit.benchmarks.models.playing import ALONE, LAKE, lines_of
from vlm_envs.errors import EngineUnavailableError

RUN = ["run", "--agent", "random", "--world", LAKE, "--episodes", "2", ALONE]

BOARD_COMMANDS = ("replay", "page", "forecast", "rescore")


def file_of(tmp_path, text):
    path = tmp_path / "board.toml"
    path.write_text(text)
    return str(path)


def test_a_file_holds_the_same_options(tmp_path):
    out = tmp_path / "board"
    file = file_of(
        tmp_path,
        f'agent = ["random", "oracle"]\nworld = "{LAKE}:max_turns=2"\nepisodes = 2\nrepeats = 2\nreferences = false\n'
        f'split = "val"\nout = "{out}"\nbudget-usd = 1.5\nstop_when_ci = 0.4\n',
    )
    assert main(["run", "--config", file]) == 0
    lines = lines_of(out)
    assert len(lines) == 2 * 2 * 2
    assert {line["world"] for line in lines} == {f"{LAKE}:max_turns=2"}
    assert {line["seed"] for line in lines} == {1_000_000_000, 1_000_000_001}


def test_what_the_command_line_says_counts_even_where_it_says_the_usual(tmp_path):
    out = tmp_path / "board"
    file = file_of(
        tmp_path,
        f'agent = ["oracle", "lazy"]\nworld = ["{LAKE}"]\nepisodes = 5\nrepeats = 3\nout = "{out}"\n',
    )
    assert main(["run", f"--config={file}", "--agent", "random", "--episodes=2", "--repeats", "1", ALONE]) == 0
    assert [(line["agent"], line["repeat"]) for line in lines_of(out)] == [("random", 0)] * 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("episods = 2", "Did you mean '--episodes'?"),
        ('episodes = "many"', "--episodes"),
        ("episodes = 0", "--episodes must be at least 1; got 0."),
        ("episodes = true", "--episodes"),
        ('references = "no"', "'no' belongs to no option"),
        ("budget_usd = nan", "--budget-usd must be above 0; got nan."),
        ("agent = 3.5\nworld = [[1]]", "world must be a text, a number, or a list of those; got [1]."),
        ("[[agent]]\nname = 'oracle'", "agent must be a text, a number, or a list of those; got {'name': 'oracle'}."),
        ("agent = [", "Cannot read"),
        ('config = "more.toml"', "A file of options cannot name another one."),
    ],
)
def test_a_mistake_in_a_file_is_one_line_with_its_name(text, told, tmp_path, capsys):
    file = file_of(tmp_path, text)
    assert main(["run", "--config", file, "--out", str(tmp_path / "board")]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert file in said
    assert told in said
    assert not (tmp_path / "board").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--world", "VLM/FrozenLak-v0"], "Did you mean 'VLM/FrozenLake-v0'?"),
        (["--world", f"{LAKE}:sise=3"], "sise"),
        (["--world", f"{LAKE}:size=1000"], "size"),
        (["--world", f"{LAKE}:split=val"], "set the split with --split"),
        (["--world", LAKE, "--split", "tests"], "--split must be one of 'train', 'val', 'test'; got 'tests'."),
        ([], "Name a world with --world, or a suite with --suite."),
        (["--suite", "light"], "--suite must be one of 'lite', 'full'; got 'light'. Did you mean 'lite'?"),
        (["--suite", "lite", "--world", LAKE], "not both"),
        (["--world", LAKE, "--world", LAKE], f"--world {LAKE} is given twice."),
        (["--world", LAKE, "--agent", "random", "--agent", "random"], "--agent random is given twice."),
        (
            ["--world", LAKE, "--world", f"{LAKE}:obs_mode=image"],
            f"--world {LAKE}:obs_mode=image is the same as {LAKE}.",
        ),
        (["--world", LAKE, "--agent", "opnai:gpt-4.1"], "Did you mean 'openai:gpt-4.1'?"),
        (["--world", LAKE, "--agent", "openai:gpt-4.1,histry=full"], "Did you mean 'history'?"),
        (["--world", LAKE, "--agent", "openai:gpt-4.1,history=most"], "history"),
        (["--world", LAKE, "--agent", "openai:gpt-4.1"], "OPENAI_API_KEY, which is not set. Set it.\n"),
        (["--world", LAKE, "--agent", "compatible:qwen"], "NAME@URL"),
        (["--world", LAKE, "--agent", "hf:nowhere"], "No checkpoint at nowhere"),
        (["--world", LAKE, "--agent", "hf"], "hf:DIR"),
        (["--world", LAKE, "--episodes", "0"], "--episodes must be at least 1; got 0."),
        (["--world", LAKE, "--episodes", "-3"], "--episodes must be at least 1; got -3."),
        (["--world", LAKE, "--episodes", "2.5"], "--episodes"),
        (["--world", LAKE, "--episodes", "600000000"], "--episodes must be at most 500000000"),
        (["--world", LAKE, "--repeats", "0"], "--repeats must be at least 1; got 0."),
        (["--world", LAKE, "--budget-usd", "0"], "--budget-usd must be above 0; got 0"),
        (["--world", LAKE, "--budget-usd", "inf"], "--budget-usd must be"),
        (["--world", LAKE, "--stop-when-ci", "-0.1"], "--stop-when-ci must be above 0; got -0.1."),
        (["--world", LAKE, "--stop-when-ci", "small"], "--stop-when-ci"),
        (["--world", LAKE, "--stop-when-ci", "3"], "--stop-when-ci must be at most 0.5; got 3.0. 0.03 means 3 points."),
        (["--world", LAKE, "--config"], "--config"),
        (["--world", LAKE, "--config", "nowhere.toml"], "Cannot read nowhere.toml"),
        (["--wrld", LAKE], "Did you mean '--world'?"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(words, told, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["run", *words, ALONE, "--out", str(tmp_path / "board")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert told in said
    assert not (tmp_path / "board").exists()


def test_without_any_options_it_tells_which_it_needs(capsys):
    assert main(["run"]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert "--world ID" in said and "--suite NAME" in said and "--out boards/NAME" in said


@pytest.mark.parametrize(
    ("command", "needed"),
    [("evaluate", "AGENT"), ("sb3", "WORLD"), ("power", "RATE"), *((each, "BOARD") for each in BOARD_COMMANDS)],
)
def test_what_stands_behind_a_command_is_called_what_it_is(command, needed, capsys):
    assert main([command]) == 2
    assert needed in capsys.readouterr().err


def test_a_board_needs_a_folder(tmp_path, capsys):
    assert main(RUN) == 2
    assert capsys.readouterr().err == "error: Name the board's folder: --out boards/NAME.\n"
    (tmp_path / "file").write_text("mine")
    assert main([*RUN, "--out", str(tmp_path / "file")]) == 2
    assert "is a file. Name a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_a_table_of_prices_with_a_typo_is_told_before_anything_is_played(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    prices = tmp_path / "prices.toml"
    prices.write_text('[models]\n"m" = { promt = 1.0, completion = 2.0 }\n')
    agent = f"openai:m,prices={prices}"
    assert main(["run", "--agent", agent, "--world", LAKE, ALONE, "--out", str(tmp_path / "board")]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert "models.m.promt" in said and "Did you mean 'prompt'?" in said
    assert not (tmp_path / "board").exists()


def test_a_budget_for_a_model_without_a_price_is_refused_before_anything_is_spent(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    words = ["--agent", "compatible:mystery@http://127.0.0.1:9/v1", "--budget-usd", "1", "--world", LAKE, ALONE]
    assert main(["run", *words, "--out", str(tmp_path / "board")]) == 2
    assert "cannot be enforced for compatible:mystery:" in capsys.readouterr().err
    assert not (tmp_path / "board").exists()


def test_a_missing_package_is_told_with_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "agents.api.openai_responses", raising=False)
    assert main(["run", "--agent", "openai:gpt-4.1", "--world", LAKE, ALONE, "--out", str(tmp_path / "board")]) == 2
    assert "pip install -e '.[api]'" in capsys.readouterr().err
    assert not (tmp_path / "board").exists()


def test_a_missing_engine_is_told_before_any_agent_is_made(tmp_path, capsys, monkeypatch):
    def missing(env_id):
        raise EngineUnavailableError(f"{env_id} cannot run here: no package panda3d. Install: pip install")

    monkeypatch.setattr("benchmarks.models.cli.run_command.require_available", missing)
    monkeypatch.setattr(
        "benchmarks.models.cli.run_command.contestants", lambda *a, **k: pytest.fail("an agent was made")
    )
    assert main([*RUN, "--out", str(tmp_path / "board")]) == 2
    assert "no package panda3d" in capsys.readouterr().err


def test_a_broken_line_in_the_middle_is_told_and_nothing_is_lost(tmp_path, capsys):
    out = tmp_path / "board"
    assert main([*RUN, "--out", str(out)]) == 0
    path = out / "episodes.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first[:50] + b"\n" + second)
    capsys.readouterr()
    for words in ([*RUN, "--out", str(out)], ["replay", str(out)], ["forecast", str(out)]):
        before = path.read_bytes()
        assert main(words) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert "line 1" in said
        assert path.read_bytes() == before
    path.write_bytes(second)  # As it was advised: what the line held is played again
    assert main([*RUN, "--out", str(out)]) == 0
    assert len(lines_of(out)) == 2


def test_a_board_of_another_version_of_a_suite_is_told(tmp_path, capsys):
    out = tmp_path / "board"
    assert main([*RUN, "--out", str(out)]) == 0
    record = json.loads((out / "board.json").read_text())
    record["suite"] = {"name": "lite", "version": 0, "digest": "f"}
    (out / "board.json").write_text(json.dumps(record))
    capsys.readouterr()
    assert main([*RUN, "--out", str(out)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert "made with suite lite version 0" in said
    assert "Name another folder with --out." in said


def test_weights_that_have_changed_are_another_agent(tmp_path, capsys, tiny_directory):
    import shutil

    model = shutil.copytree(tiny_directory, tmp_path / "model")
    agent = f"hf:{model},max_new_tokens=2,device=cpu"
    words = ["run", "--agent", agent, "--world", f"{LAKE}:max_turns=2", "--episodes", "1", ALONE]
    assert main([*words, "--out", str(tmp_path / "board")]) == 0
    weights = next(model.glob("*.safetensors"))
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert main([*words, "--out", str(tmp_path / "board")]) == 2
    assert "it has changed since" in capsys.readouterr().err


def test_how_fast_an_agent_may_be_asked_is_no_part_of_what_it_is(tmp_path, monkeypatch):
    from benchmarks.models.play.contestants import contestants

    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    (slow,) = contestants(["openai:m,max_parallel=1,history=full"], references=False)
    (fast,) = contestants(["openai:m,max_parallel=9,timeout_s=3,history=full"], references=False)
    (other,) = contestants(["openai:m,history=last_turns:2"], references=False)
    assert (slow.label, slow.digest) == (fast.label, fast.digest) == ("openai:m,history=full", slow.digest)
    assert other.digest != slow.digest
    assert (slow.num_parallel, fast.num_parallel) == (1, 9)
    for each in (slow, fast, other):
        each.close()


def test_failures_are_told_apart_and_by_the_exit_status(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with FakeEndpoint() as server:
        server.script.extend([status(500)] * 2)
        agent = f"compatible:m@{server.base_url},max_attempts=1"
        words = ["run", "--agent", agent, "--agent", "oracle", "--world", LAKE, "--episodes", "2", ALONE]
        assert main([*words, "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "compatible:m failed 2 times, at last: HTTP 500" in said.err
    assert "The same command tries again." in said.err
    (row,) = [line.split() for line in said.out.splitlines() if "compatible:m" in line]
    assert row[2:5] == ["–", "0", "2"]


def test_a_page_that_finds_no_room_is_told_and_the_board_is_printed(tmp_path, capsys, monkeypatch):
    def full(directory):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("benchmarks.models.cli.run_command.build_page", full)
    assert main([*RUN, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "random" in said
    assert f"could not be written: No space left on device. Later: python -m benchmarks page {tmp_path}" in said


def test_the_table_has_the_names_and_the_order_of_the_page(tmp_path, capsys):
    words = ["--agent", "random", "--agent", "oracle", "--repeats", "2", "--episodes", "2", ALONE]
    worlds = ["--world", "VLM/Sokoban-v0:max_turns=9", "--world", LAKE]
    assert main(["run", *words, *worlds, "--out", str(tmp_path)]) == 0
    table = capsys.readouterr().out.splitlines()
    named = [cell.split() for cell in table[0].split("  ")]
    for title in ("out of format", "turns × best", "pass@2", "pass^2"):
        assert title.split() in named
    order = [line.split()[:2] for line in table[1:5]]
    assert [world.partition(":")[0] for world, _ in order] == ["VLM/Sokoban-v0"] * 2 + [LAKE] * 2
    assert [agent for _, agent in order] == ["oracle", "random"] * 2


def test_a_page_command_that_finds_no_room_says_where_and_what_to_do(tmp_path, capsys, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    assert main([*RUN, "--out", str(tmp_path)]) == 0
    monkeypatch.setattr("benchmarks.models.page.board_page.write_document", full)
    assert main(["page", str(tmp_path)]) == 2
    assert f"Cannot write to {tmp_path}: No space left on device. " in capsys.readouterr().err


def test_a_board_without_its_images_names_the_command_that_draws_them(tmp_path, capsys):
    assert main([*RUN, "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["page", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    shutil.rmtree(tmp_path / "images")
    assert main(["page", str(tmp_path)]) == 0
    assert f"python -m benchmarks replay {tmp_path}" in capsys.readouterr().err


def test_the_suites_are_listed(capsys):
    assert main(["suites"]) == 0
    said = capsys.readouterr().out
    assert "lite version 1: grids and zoom; needs no engine; 64 levels of each world" in said
    assert "  VLM/PrimitiveSkill-v0" in said


def test_hashes_are_printed_of_all_worlds_that_run_here(capsys, monkeypatch):
    def missing(env_id):
        if env_id == "VLM/ZoomQA-v0":
            raise EngineUnavailableError(f"{env_id} cannot run here: no package panda3d. Install: pip install")

    suites = {name: suite for name, suite in SUITES.items() if name == "lite"}
    monkeypatch.setattr("benchmarks.models.cli.board_commands.SUITES", suites)
    monkeypatch.setattr("benchmarks.models.cli.board_commands.require_available", missing)
    assert main(["suites", "--digests"]) == 0
    _, lake, sokoban, zoom = capsys.readouterr().out.splitlines()
    assert lake.split() == [WorldSpec.parse(LAKE).digest, LAKE]
    assert sokoban.split()[1] == "VLM/Sokoban-v0"
    assert zoom.strip().startswith("no hash") and zoom.endswith("Install: pip install")
