"""Which world is judged by which rules, and what is said where there are none."""

import functools

import gymnasium as gym
import pytest

from judges.__main__ import main
from judges.state_text.egocentric_rules import EgocentricRules
from judges.state_text.exact_judge import RULES, ExactJudge, has_rules, rules_of
from judges.state_text.metric_rules import MetricRules
from judges.state_text.vocabulary import VOCABULARIES
from judges.turn_rewards import RepetitionTerm, grounding_reward
from tests.unit.judges.awaited import shape
from tests.unit.judges.episodes import lake
from vlm_envs.errors import ConfigError
from vlm_envs.worlds.frozen_lake import FrozenLakeWorld


@pytest.mark.parametrize("name", ["Navigation", "VLM/Navigation-v0", "vlm_envs:VLM/Navigation-v3"])
def test_navigation_is_judged_by_egocentric_rules(name):
    assert isinstance(rules_of(name), EgocentricRules)


@pytest.mark.parametrize("task", ["", "Place", "Stack", "Drawer", "Align"])
def test_every_task_of_primitive_skill_is_judged_by_metric_rules(task):
    assert isinstance(rules_of(f"VLM/PrimitiveSkill{task}-v0"), MetricRules)


@pytest.mark.parametrize("world", VOCABULARIES)
def test_grids_are_judged_by_their_vocabulary(world):
    assert rules_of(f"VLM/{world}-v0").vocabulary is VOCABULARIES[world]


@pytest.mark.parametrize("world", ["Navigation", "PrimitiveSkillStack"])
def test_symbols_are_for_grids(world):
    with pytest.raises(ConfigError, match=r"representation.*'natural_language', 'structured'"):
        ExactJudge(world, "symbolic")


def test_another_registration_of_a_world_is_judged_as_that_world():
    gym.register("Mine/Easy-v0", entry_point="vlm_envs.worlds.sokoban:SokobanWorld", kwargs={"num_boxes": 1})
    try:
        assert rules_of("Mine/Easy-v0").vocabulary is VOCABULARIES["Sokoban"]
    finally:
        del gym.registry["Mine/Easy-v0"]
    assert not has_rules("Mine/Easy-v0")


class HarderLake(FrozenLakeWorld):
    """Somebody's own lake, with the same states and texts."""


class SomebodysWorld(gym.Env):
    """A world of somebody else's."""


@pytest.fixture
def registered():
    """Registers worlds for one test."""
    ids = []

    def register(env_id, **changes):
        gym.register(env_id, **changes)
        ids.append(env_id)

    yield register
    for env_id in ids:
        del gym.registry[env_id]


@pytest.mark.parametrize("env_id", ["VLM/LakeVariant-v0", "Mine/LakeVariant-v0", "LakeVariant-v0"])
@pytest.mark.parametrize(
    "entry_point",
    [
        "vlm_envs.worlds.frozen_lake:FrozenLakeWorld",
        FrozenLakeWorld,
        HarderLake,
        f"{__name__}:HarderLake",
        functools.partial(FrozenLakeWorld, size=5),
    ],
    ids=["text", "class", "subclass", "subclass_as_text", "partial"],
)
def test_however_a_world_is_registered_anew_its_rules_are_found(registered, env_id, entry_point):
    registered(env_id, entry_point=entry_point, kwargs={"representation": "structured"})
    assert rules_of(env_id).vocabulary is VOCABULARIES["FrozenLake"]
    assert has_rules(f"my_worlds:{env_id}")


@pytest.mark.parametrize("env_id", ["VLM/Sokoban-v7", "Sokoban-v7", "Their/Sokoban-v7"])
@pytest.mark.parametrize("entry_point", [SomebodysWorld, f"{__name__}:SomebodysWorld", "not.there:World", lambda: None])
def test_a_strangers_world_is_not_judged_by_our_rules_whatever_its_id(registered, env_id, entry_point):
    registered(env_id, entry_point=entry_point)
    assert not has_rules(env_id)


def test_a_namesake_of_somebody_elses_is_not_judged_by_our_rules():
    assert has_rules("VLM/Sokoban-v0")
    assert not has_rules("their_worlds:Their/Sokoban-v0")
    with pytest.raises(ConfigError, match=r"'Their/Sokoban-v0'.*RULES\['Their/Sokoban-v0'\]"):
        rules_of("Their/Sokoban-v0")


def test_a_world_of_ones_own_brings_its_rules(monkeypatch):
    rules = MetricRules(tolerance_mm=1.0)
    monkeypatch.setitem(RULES, "My/Table-v0", rules)
    assert rules_of("my_table:My/Table-v0") is rules


def test_a_misspelt_world_gets_a_suggestion():
    with pytest.raises(ConfigError, match="Did you mean 'PrimitiveSkillPlace'"):
        ExactJudge("VLM/PrimitiveSkilPlace-v0", "structured")


def test_svg_has_no_exact_judge_and_the_error_says_what_to_do():
    with pytest.raises(ConfigError, match=r"'VLM/SVG-v0'.*no exact judge"):
        ExactJudge("VLM/SVG-v0", "natural_language")


def test_adapted_worlds_have_no_rules_which_is_found_before_anything_is_printed(tmp_path, capsys):
    file = tmp_path / "lake.toml"
    file.write_text('env = "FrozenLake-v1"\nname = "judged_lake"\n')
    for words in (
        ["chance", "VLM/FrozenLake-v0", f"adapt:{file}"],
        ["chance", "Adapted/judged_lake", "--representation", "structured"],
        ["calibrate", "Adapted/judged_lake"],
    ):
        assert main(words) == 2
        printed = capsys.readouterr()
        assert "adapted world" in printed.err and "RULES" not in printed.err and printed.out == ""
    del gym.registry["Adapted/judged_lake"]


@pytest.mark.parametrize("term", [grounding_reward(), RepetitionTerm()])
def test_turns_of_a_world_without_rules_earn_nothing_and_are_not_masked(term):
    ((shaped,),) = shape([lake("a red circle", "a red circle", env_id="VLM/SVG-v0")], [term])
    assert (shaped.rewards, shaped.available) == ({term.name: 0.0}, True)


def test_rules_can_be_given():
    state = {"red_cube_position": (0, 0, 20)}
    strict = ExactJudge("My/Table-v0", "structured", rules=MetricRules(tolerance_mm=1.0))
    assert strict.score("{red_cube_position: (2, 0, 20)}", state).value == 0.0
    assert ExactJudge("PrimitiveSkill", "structured").score("{red_cube_position: (2, 0, 20)}", state).value == 1.0


def test_a_tolerance_must_be_one():
    for tolerance in (-1.0, float("nan")):
        with pytest.raises(ConfigError, match="at least 0"):
            MetricRules(tolerance_mm=tolerance)
        with pytest.raises(ConfigError, match="at least 0"):
            EgocentricRules(tolerance_m=tolerance)


@pytest.mark.parametrize("world", ["Navigation", "PrimitiveSkill"])
def test_another_worlds_state_is_misuse(world):
    with pytest.raises(ConfigError, match="another world"):
        ExactJudge(world, "structured").score("", {"player_position": (0, 0)})


def test_chance_of_a_world_without_a_judge(capsys):
    assert main(["chance", "VLM/SVG-v0"]) == 2
    assert "no exact judge" in capsys.readouterr().err
