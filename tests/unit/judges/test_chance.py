"""Chance baselines, on states where chance is known and on the worlds themselves; and the command line."""

import json

import pytest

from judges.__main__ import main
from judges.calibration import SECTIONS, WRITERS, chance_baseline, measure_chance, next_states, start_states
from judges.scores import JudgeScore
from judges.state_text.exact_judge import RULES, ExactJudge, rules_of
from vlm_envs.errors import EngineUnavailableError

WORLDS = ("VLM/Sokoban-v0", "VLM/FrozenLake-v0")


def lake(row):
    state = {"player_position": (row, 0), "target_position": (1, 1), "hole_positions": []}
    return f"player_position: ({row}, 0), target_position: (1, 1)", state


def test_chance_of_states_that_alternate():
    # Row 0 or 2 in turn. The other row's text misplaces the player: goal 2·1/(2+2), holes 0 of 1: 0.35.
    described = [lake(row) for row in (0, 2, 0, 2)]
    judge = ExactJudge("FrozenLake", "structured")
    baseline = chance_baseline(described, judge, world="FrozenLake", representation="structured", num_partners=2)
    # Shifted by one every text is wrong, by two every text is right.
    assert baseline.other_state == pytest.approx((0.35 + 1.0) / 2)
    assert baseline.best_constant == pytest.approx((0.35 + 1.0) / 2)
    assert baseline.best_constant_text == described[0][0]
    assert baseline.own_state == 1.0


def test_the_constant_text_is_chosen_on_states_it_is_not_measured_on():
    described = [lake(row) for row in (0, 0, 0, 2, 2, 2)]
    judge = ExactJudge("FrozenLake", "structured")
    baseline = chance_baseline(described, judge, world="FrozenLake", representation="structured")
    assert baseline.best_constant == pytest.approx(0.35)


def test_a_guess_is_tried_like_a_states_text():
    class LikesOneText:
        def score(self, text, state):
            return JudgeScore(value=float(text == "a guess"))

    described = [lake(row) for row in (0, 2, 0, 2)]
    guesses = ["no good", "a guess"]
    baseline = chance_baseline(described, LikesOneText(), world="", representation="structured", guesses=guesses)
    assert (baseline.best_constant_text, baseline.best_constant, baseline.own_state) == ("a guess", 1.0, 0.0)


def test_too_few_states():
    judge = ExactJudge("FrozenLake", "structured")
    with pytest.raises(ValueError, match="at least 4"):
        chance_baseline([lake(0)], judge, world="FrozenLake", representation="structured")


@pytest.mark.parametrize("env_id", WORLDS)
@pytest.mark.parametrize("representation", ["natural_language", "symbolic", "structured"])
@pytest.mark.sample(3)
def test_every_world_reads_its_own_text_and_chance_is_below_it(env_id, representation):
    baseline = measure_chance(env_id, representation, num_states=24)
    assert baseline.own_state == 1.0
    assert 0.0 < baseline.other_state < 0.7
    assert 0.0 < baseline.best_constant < 0.8


def measured_or_skipped(env_id, representation):
    try:
        return measure_chance(env_id, representation, num_states=24)
    except EngineUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("env_id", ["VLM/Navigation-v0", "VLM/PrimitiveSkill-v0", "VLM/PrimitiveSkillDrawer-v0"])
@pytest.mark.parametrize("representation", ["natural_language", "structured"])
@pytest.mark.sample(2)
def test_worlds_on_engines_read_their_own_text_and_chance_is_below_it(env_id, representation):
    baseline = measured_or_skipped(env_id, representation)
    assert baseline.own_state == 1.0
    assert 0.0 <= baseline.other_state < 0.5
    assert 0.0 <= baseline.best_constant < 0.8


def test_a_searcher_who_never_looks_does_best_by_one_direction():
    # The target's type is in the prompt, so "the target" needs no sight; other states' texts name other types.
    baseline = measured_or_skipped("VLM/Navigation-v0", "natural_language")
    assert baseline.best_constant_text.startswith("the target is ")
    assert baseline.best_constant > baseline.other_state


def test_two_boxes_are_read_too():
    described = start_states("VLM/Sokoban-v0", "natural_language", 4, dim_room=(7, 7), num_boxes=2)
    judge = ExactJudge("Sokoban", "natural_language")
    assert [judge.score(text, state).value for text, state in described] == [1.0] * 4


def test_the_sample_depends_on_the_seed_only():
    first, again, other = (measure_chance(WORLDS[1], "structured", num_states=8, seed=s) for s in (3, 3, 1000))
    assert first == again
    assert first != other


def test_chance_command_prints_a_row(capsys):
    arguments = ["chance", "VLM/FrozenLake-v0", "--representation", "structured", "--num-states", "8"]
    assert main(arguments) == 0
    header, observation, prediction = capsys.readouterr().out.strip().splitlines()
    assert header.split()[:3] == ["world", "representation", "section"]
    assert observation.split()[:4] == ["VLM/FrozenLake-v0", "structured", "observation", "8"]
    assert prediction.split()[:4] == ["VLM/FrozenLake-v0", "structured", "prediction", "8"]


def test_score_command_and_its_errors(capsys):
    state = json.dumps({"player_position": [0, 0], "target_position": [1, 1], "hole_positions": []})
    assert main(["score", "FrozenLake", "The goal is below", "--state", state]) == 0
    # goal 2·1/(1+2), no holes: 0.7·2/3 + 0.3 = 0.767.
    assert capsys.readouterr().out.startswith("F1 0.767 from 1 facts read")
    assert main(["score", "Pond", "The goal is below", "--state", state]) == 2
    assert "'Pond'" in capsys.readouterr().err


def listed_writers(world, section, num_states, writers=None):
    """The chance baseline of the listed writers alone, in natural language."""
    states = start_states if section == "observation" else next_states
    try:
        described = states(f"VLM/{world}-v0", "natural_language", num_states)
    except EngineUnavailableError as error:
        pytest.skip(str(error))
    return chance_baseline(
        described,
        ExactJudge(world, "natural_language"),
        world=world,
        representation="natural_language",
        section=section,
        num_partners=1,
        num_candidates=4,
        writers=WRITERS[world] if writers is None else writers,
    )


def assert_sound(baseline):
    assert baseline.own_state == 1.0
    assert baseline.best_blind.score < baseline.worst_partial.score, (baseline.best_blind, baseline.worst_partial)
    assert baseline.best_half_blind.score < baseline.worst_full.score, (baseline.best_half_blind, baseline.worst_full)


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize(
    ("world", "num_states"), [("FrozenLake", 30), ("Sokoban", 30), ("Navigation", 60), ("PrimitiveSkill", 4)]
)
@pytest.mark.sample(3)
def test_no_blind_text_scores_above_any_listed_truth(world, num_states, section):
    assert_sound(listed_writers(world, section, num_states))


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("world", sorted(WRITERS))
def test_no_blind_text_scores_above_any_listed_truth_on_300_levels(world, section):
    env_id = f"VLM/{world}-v0"
    for representation in rules_of(env_id).representations:
        try:
            assert_sound(measure_chance(env_id, representation, 300, section=section))
        except EngineUnavailableError as error:
            pytest.skip(str(error))


def test_holes_guessed_where_the_goal_is_score_below_an_honest_plural():
    plural = "holes as a plural for each side with any"
    guesses = ("the holes are where the goal is", "two holes where the goal is", "three holes where the goal is")
    writers = [writer for writer in WRITERS["FrozenLake"] if writer.name in (plural, *guesses)]
    baseline = listed_writers("FrozenLake", "observation", 100, writers)
    assert {scored.name for scored in baseline.by_sight["half_blind"]} == set(guesses)
    assert baseline.worst_full.name == plural
    assert max(baseline.by_sight["half_blind"]).score < baseline.worst_full.score < 1.0


def test_every_judged_world_has_blind_and_truthful_writers():
    assert set(WRITERS) == set(RULES)
    for world, writers in WRITERS.items():
        assert {"blind", "partial", "full"} <= {writer.sight for writer in writers}, world


def test_predictions_are_measured_on_states_along_a_solution():
    described = next_states(WORLDS[1], "structured", 24)
    solved = [state["player_position"] == state["target_position"] for _, state in described]
    assert 0 < sum(solved) < len(solved) / 2
    assert described == next_states(WORLDS[1], "structured", 24)


def test_the_command_prints_the_extreme_texts(capsys):
    arguments = ["chance", WORLDS[1], "--representation", "natural_language", "--section", "observation"]
    assert main([*arguments, "--num-states", "8", "--texts"]) == 0
    labels = [line.split("  ")[2].strip() for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]
    assert labels == ["best blind", "worst partial", "half-blind", "worst full"]
