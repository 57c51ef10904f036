"""The command line, driven as a person or a script drives it."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

import vlm_envs
from tests.unit.vlm_envs.adapter import tally
from vlm_envs.cli.commands import main
from vlm_envs.cli.named_worlds import make_world, parse_settings
from vlm_envs.cli.play import frame, serve
from vlm_envs.cli.session import Session
from vlm_envs.errors import ConfigError, EngineUnavailableError, LevelError, VLMEnvsError
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.testing.contract import CheckResult, check_world
from vlm_envs.worlds.frozen_lake import FrozenLakeTask

CHECKOUT = Path(__file__).parents[4]

SOKOBAN_LEVEL = """\
######
#_XO_#
#____#
#___P#
###_##
######
"""
"""The player must get left of the box, to (1, 1), and push once: five moves to walk there, and the push."""
SOKOBAN_SOLUTION = ["Up", "Left", "Left", "Left", "Up", "Right"]


def run_cli(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vlm_envs", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=CHECKOUT, timeout=280)


# --- list -----------------------------------------------------------------------------------------


def test_list_names_every_world_and_what_it_is(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()  # Below stands what this machine lacks.
    assert [line.split()[0] for line in lines] == vlm_envs.env_ids()
    assert any("Sokoban: push every box onto a target" in line for line in lines)


# --- Wrong calls ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["play", "check"])
def test_unknown_id_suggests_the_meant_one_without_traceback(command):
    result = run_cli(command, "VLM/Sokobn-v0")
    assert result.returncode == 2
    assert result.stderr.strip() == (
        "error: Unknown env 'VLM/Sokobn-v0'. Did you mean 'VLM/Sokoban-v0'? List all: python -m vlm_envs list"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["play", "My/World-v0"], "my_module:My/World-v0"),
        (["play", "no_such_module:My/World-v0"], "cannot import 'no_such_module'"),
        (["play", "CartPole-v1"], "adapt:CartPole-v1"),
        (["check", "CartPole"], "'adapt:CartPole-v1'"),
        (["play", "VLM/Sokoban-v0", "--set", "num_boxes"], "NAME=VALUE"),
        (["play", "VLM/Sokoban-v0", "--set", "nonsense=1"], "nonsense"),
        (["play", "VLM/Sokoban-v0", "--level", "no/such/file"], "Cannot read the level file 'no/such/file'"),
    ],
)
def test_wrong_calls_are_explained(arguments, said, capsys):
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["play", "check"])
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import os\ndef broken(:\n", "line 2: SyntaxError: "),
        ("import os\n\n\nraise RuntimeError('no display')\n", "line 4: RuntimeError: no display"),
        ("import not_installed\n", "line 1: ModuleNotFoundError: No module named 'not_installed'"),
    ],
)
def test_a_module_that_does_not_import_is_told_with_file_and_line(command, source, said, tmp_path, monkeypatch, capsys):
    module = f"of_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main([command, f"{module}:Own/World-v0"]) == 2
    told = capsys.readouterr().err
    assert f"{module}:Own/World-v0: cannot import '{module}': " in told
    assert f"{tmp_path / module}.py, {said}" in told
    assert len(told.splitlines()) == 1


def test_a_fault_in_an_installed_module_names_its_file_and_line(tmp_path, monkeypatch, capsys):
    module = f"of_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text("import os\nos.environ['NOPE']\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    assert main(["check", f"{module}:Own/World-v0"]) == 2
    assert f"{tmp_path / module}.py, line 2: KeyError: 'NOPE'" in capsys.readouterr().err


TOWERS = """\
import vlm_envs
from tests.unit.vlm_envs.corridor import CorridorDynamics, CorridorTask, CorridorView
from vlm_envs.parts import Task
from vlm_envs.world import World

class BarTask(Task):
    pass

class BuggyView(CorridorView):
    def image(self, state):
        return p2

class Towers(World):
    def __init__(self, task=BarTask, view=CorridorView, **kwargs):
        super().__init__(CorridorDynamics(), view(), task(), **kwargs)

vlm_envs.register("Own/Bars-v0", f"{__name__}:Towers")
vlm_envs.register("Own/Bugs-v0", f"{__name__}:Towers", task=CorridorTask, view=BuggyView)
"""


@pytest.fixture
def towers(tmp_path, monkeypatch):
    module = f"of_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(TOWERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield f"{tmp_path / module}.py"
    gym.registry.pop("Own/Bars-v0", None)
    gym.registry.pop("Own/Bugs-v0", None)


@pytest.mark.parametrize("command", ["play", "check"])
def test_a_class_that_lacks_methods_is_named_with_them(command, towers, capsys):
    assert main([command, f"{Path(towers).stem}:Own/Bars-v0"]) == 2
    told = capsys.readouterr().err
    assert "Own/Bars-v0 cannot be created: " in told
    assert "BarTask" in told and "noop_terms" in told
    assert len(told.splitlines()) == 1


def test_check_tells_a_worlds_own_mistake_once_with_file_and_line(towers, capsys):
    assert main(["check", f"{Path(towers).stem}:Own/Bugs-v0"]) == 1
    told = capsys.readouterr().out
    assert told.count(f"{towers}, line 11: NameError: name 'p2' is not defined") == 1
    assert "levels_round_trip" in told


def test_no_command_shows_the_commands(capsys):
    assert main([]) == 2
    assert "gallery" in capsys.readouterr().out


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m vlm_envs list | true"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=CHECKOUT, timeout=280)
    assert result.stderr == ""


def test_true_false_and_none_may_be_written_in_any_case() -> None:
    assert parse_settings(["a=false", "b=TRUE", "c=None", "d=none"]) == {"a": False, "b": True, "c": None, "d": None}


def test_settings_are_literals_where_they_can_be():
    assert parse_settings(["num_boxes=2", "dim_room=(7, 7)", "split=val"]) == {
        "num_boxes": 2,
        "dim_room": (7, 7),
        "split": "val",
    }
    with pytest.raises(ConfigError, match="NAME=VALUE"):
        parse_settings(["=2"])


def test_gymnasiums_own_envs_are_not_worlds(monkeypatch):
    with pytest.raises(ConfigError, match=r"adapt:gymnasium\.envs\.toy_text:FrozenLake-v1"):
        make_world("gymnasium.envs.toy_text:FrozenLake-v1")
    made = EnvSpec("Own/Function-v0", entry_point=lambda **_: gym.make("FrozenLake-v1"))
    monkeypatch.setitem(gym.registry, "Own/Function-v0", made)
    for use in (make_world, check_world):
        with pytest.raises(VLMEnvsError, match="adapt:Own/Function-v0"):
            use("Own/Function-v0")


# --- check ----------------------------------------------------------------------------------------


def test_check_passes_for_a_world_of_this_package(capsys):
    assert main(["check", "VLM/FrozenLake-v0"]) == 0
    out = capsys.readouterr().out
    assert "checks passed, 0 skipped" in out
    assert "oracle" in out


def test_check_fails_for_a_world_that_lies_about_its_best_return(capsys, monkeypatch):
    from vlm_envs.worlds.frozen_lake import FrozenLakeTask

    monkeypatch.setattr(FrozenLakeTask, "best_return", lambda self, state, num_actions: 11.0)
    assert main(["check", "VLM/FrozenLake-v0"]) == 1
    assert "best_return" in capsys.readouterr().out


def test_check_prints_each_result_as_it_comes(capsys, monkeypatch):
    seen = []

    def two_checks(under_test):
        yield CheckResult(name="first", clause="It is.")
        seen.append(capsys.readouterr().out)
        yield CheckResult(name="second", clause="It is not.", failure="broken")
        seen.append(capsys.readouterr().out)
        yield CheckResult(name="third", clause="Neither.", failure="broken")

    monkeypatch.setattr("vlm_envs.testing.contract.run_checks", two_checks)
    assert main(["check", "VLM/FrozenLake-v0"]) == 1
    assert seen == ["pass  first: It is.\n", "fail  second: broken\n"]
    assert capsys.readouterr().out == "fail  third: fails as second does\n1 checks passed, 0 skipped, 2 failed\n"


def test_check_reports_once_that_the_engine_of_a_setting_is_missing(capsys, monkeypatch):
    def missing(*parts, **settings):
        raise EngineUnavailableError("There is no Unity build.")

    monkeypatch.setattr("vlm_envs.worlds.navigation.ai2thor_engine.make_ai2thor", missing)
    assert main(["check", "VLM/Navigation-v0", "--set", "engine=ai2thor"]) == 2
    assert capsys.readouterr() == ("", "error: There is no Unity build.\n")


# --- play: lines ----------------------------------------------------------------------------------


def test_play_by_lines_solves_a_level_from_a_file(tmp_path):
    level = tmp_path / "level.txt"
    level.write_text(SOKOBAN_LEVEL)
    result = run_cli("play", "VLM/Sokoban-v0", "--level", str(level), stdin=", ".join(SOKOBAN_SOLUTION) + "\n")
    assert result.returncode == 0, result.stderr
    assert SOKOBAN_LEVEL in result.stdout
    assert "At least 6 actions to go." in result.stdout
    # Six steps at -0.1, one box on its target +1, solved +10 (VAGEN Table 16).
    assert "total +10.4" in result.stdout
    assert "Solved with 6 actions; the fewest possible are 6." in result.stdout


def test_play_says_what_cannot_be_read_and_goes_on():
    result = run_cli("play", "VLM/FrozenLake-v0", stdin="Upp\nr\nn\nq\nUp\n")
    assert "'Upp' is not an action" in result.stdout
    assert "seed 1  turn 0" in result.stdout
    assert "seed 1  turn 1" not in result.stdout, "q stops before what follows it"


def test_lines_are_commands_or_actions():
    session, shown = Session("VLM/Sokoban-v0"), []
    lines = ["Up, Left\n", "\n", "r\n", " n \n"]
    assert not serve(session, lines, lambda: shown.append((session.seed, session.num_actions)))
    assert shown == [(0, 0), (0, 2), (0, 0), (1, 0)]
    assert serve(session, ["q", "Up"], lambda: None)
    assert session.num_actions == 0, "q stops before what follows it"


def test_actions_named_like_commands_come_first_until_the_episode_is_over(monkeypatch):
    compass = {"n": 0, "s": 1, "w": 2, "e": 3}
    grammar = ActionGrammar(parse=compass.get, separator=",", expected="n, s, w, or e")
    monkeypatch.setattr(FrozenLakeTask, "action_names", tuple(compass))
    monkeypatch.setattr(FrozenLakeTask, "grammar", grammar)
    session, shown = Session("VLM/FrozenLake-v0", size=3, min_solution_length=2, level="P_G\n___\n___"), []
    assert ":n next level, q quit" in session.help() and session.help().startswith("r again")
    lines = ["n", "s", ":r", "e", "e", "n", ":n"]
    assert not serve(session, lines, lambda: shown.append((session.seed, session.num_actions, session.over)))
    assert shown[:6] == [(0, 0, False), (0, 1, False), (0, 2, False), (0, 0, False), (0, 1, False), (0, 2, True)]
    assert [seed for seed, _, _ in shown[6:]] == [1, 2]
    assert serve(session, [":q", "e"], lambda: None) and session.num_actions == 0


@pytest.mark.parametrize(("size", "rows"), [("5", 5), ("7", 7)])
def test_play_size_sets_the_rows(size, rows):
    result = run_cli("play", "VLM/FrozenLake-v0", "--size", size)
    lines = result.stdout.splitlines()
    assert lines[0] == "FrozenLake. Walk over the ice to the goal."
    assert rows in map(len, lines[1:]) and lines[-1] == "The input ended before the episode."


@pytest.mark.parametrize(("obs_mode", "has_symbols"), [("image", True), ("text", False), ("image+text", True)])
def test_play_shows_what_the_mode_shows(obs_mode, has_symbols):
    result = run_cli("play", "VLM/Sokoban-v0", "--obs-mode", obs_mode)
    assert ("######" in result.stdout) == has_symbols
    assert ("the player" in result.stdout) == (obs_mode != "image")


# --- play: session --------------------------------------------------------------------------------


def test_a_person_gets_the_levels_of_an_agent_without_the_agents_limits():
    session = Session("VLM/Sokoban-v0", seed=5)
    agents_world = vlm_envs.make("VLM/Sokoban-v0")
    _, info = agents_world.reset(seed=5)
    assert session.info["state_hash"] == info["state_hash"]
    for _ in range(150):  # More than max_turns=3 and max_steps=100.
        session.act("Up")
    assert not session.over
    assert session.num_actions == 150


def test_limits_that_a_person_sets_apply_to_them():
    session = Session("VLM/Sokoban-v0", seed=5, max_turns=4, max_actions_per_turn=2)
    session.act("Up, Up, Up")
    assert session.info["turn"] == 0 and session.note, "too many actions cost no turn"
    for _ in range(4):
        assert not session.over
        session.act("Up, Up")
    assert session.over and session.num_actions == 8


@pytest.mark.parametrize(("env_id", "obs_mode"), [("VLM/SVG-v0", "image+text"), ("VLM/SVG-v0", "image+description")])
def test_a_description_is_shown_once(env_id, obs_mode):
    session = Session(env_id, obs_mode=obs_mode)
    lines = frame(session, "none", session.help())
    assert sum("The drawing shows nothing yet" in line for line in lines) == 1


def test_an_adapted_world_without_words_shows_none():
    env_id = vlm_envs.adapt(f"{tally.__name__}:Tests/Tally-v0", name="WordlessTally")
    assert Session(env_id).drawn_in_words() == []


def test_restart_gives_the_same_level_and_next_another():
    session = Session("VLM/FrozenLake-v0", seed=2)
    first = session.info["state_hash"]
    session.act("Up, Down, Left")
    session.restart()
    assert (session.info["state_hash"], session.num_actions, session.total) == (first, 0, 0.0)
    session.next_level()
    assert session.seed == 3
    assert session.info["state_hash"] != first


def test_next_leaves_a_level_of_ones_own_behind():
    session = Session("VLM/Sokoban-v0", level=SOKOBAN_LEVEL)
    assert "own level" in session.status()[0]
    session.next_level()
    assert "seed 1" in session.status()[0]


def test_lost_and_finished_episodes_are_said_and_take_no_further_actions():
    session = Session("VLM/FrozenLake-v0", level="PO__\n__G_\n____\n____")
    session.act("Right")
    assert session.status()[2].startswith("Lost.")
    session.act("Left")
    assert session.num_actions == 1
    assert "over" in session.note


def test_an_unsolvable_position_is_said():
    session = Session("VLM/Sokoban-v0", level="######\n#___P#\n#_X__#\n#____#\n#__O_#\n######")
    session.act("Down, Left")
    # Up, Left, Down, Down push the box to the bottom; Left, Down, Right push it onto the target.
    assert session.status()[2] == "At least 7 actions to go."
    session.act("Left")  # The box is now at the left wall, where no target is.
    assert session.status()[2] == "It can no longer be solved."


def test_a_bad_level_is_refused():
    with pytest.raises(LevelError):
        Session("VLM/Sokoban-v0", level="###")


@pytest.mark.parametrize(
    ("env_id", "advice"),
    [
        ("MiniGrid-Missing-5x5-v0", "adapt:MiniGrid-Missing-5x5-v0"),
        ("MiniGridMine-v0", ""),
        ("HumanoidStandup-v5", "adapt:HumanoidStandup-v5"),  # MuJoCo may be missing
        ("Own/X-v0", "my_module:Own/X-v0"),
        ("CartPoel-v1", ""),
        ("missing.toml", ""),
    ],
)
def test_only_what_can_help_is_advised_for_unknown_ids(env_id, advice):
    with pytest.raises(ConfigError) as error:
        make_world(env_id)
    assert advice in str(error.value)
    assert ("adapt:" in str(error.value), "my_module" in str(error.value)) == ("adapt:" in advice, "my_" in advice)
