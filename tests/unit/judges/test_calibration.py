"""Agreement of a judge with ground truth: hand-computed statistics, and texts that are wrong indeed."""

import math

import pytest

from judges.__main__ import main
from judges.calibration import Agreement, examples_of, measure_agreement, perturbed, start_states
from judges.scores import JudgeScore
from judges.state_text.exact_judge import ExactJudge, rules_of
from vlm_envs.errors import ConfigError


def agreement(true_yes, false_no, false_yes, true_no):
    return Agreement(
        num_true_yes=true_yes,
        num_false_no=false_no,
        num_false_yes=false_yes,
        num_true_no=true_no,
        num_unavailable=0,
        mean_scores={},
        num_texts={},
    )


def test_kappa_and_accuracy_by_hand():
    # Of 50 texts 25 are right. p_o = (20 + 15) / 50 = 0.7; yes is said 30 times:
    # p_e = (30 · 25 + 20 · 25) / 2500 = 0.5; kappa = (0.7 - 0.5) / (1 - 0.5) = 0.4.
    measured = agreement(20, 5, 10, 15)
    assert measured.accuracy == pytest.approx(0.7)
    assert measured.chance_agreement == pytest.approx(0.5)
    assert measured.kappa == pytest.approx(0.4)
    assert measured.constant_accuracy == 0.5


def test_a_judge_that_always_says_no_has_no_kappa_worth():
    measured = agreement(0, 10, 0, 20)
    assert measured.accuracy == measured.constant_accuracy == pytest.approx(2 / 3)
    assert measured.kappa == pytest.approx(0.0)
    assert math.isnan(agreement(0, 0, 0, 20).kappa)
    assert math.isnan(agreement(0, 0, 0, 0).accuracy)


@pytest.mark.parametrize("world", ["VLM/FrozenLake-v0", "VLM/Sokoban-v0"])
def test_the_exact_judge_agrees_with_the_truth_in_every_representation(world):
    for representation in rules_of(world).representations:
        examples = examples_of(start_states(world, representation, 16))
        measured = measure_agreement(examples, ExactJudge(world, representation))
        assert measured.num_texts == {"own": 16, "other": 16, "perturbed": 16}
        assert (measured.accuracy, measured.kappa) == (1.0, 1.0), representation
        assert measured.mean_scores["own"] == 1.0 > max(measured.mean_scores[kind] for kind in ("other", "perturbed"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("box0 is above and to the left of the player.", "box0 is below and to the left of the player."),
        (
            "box0 is at the same row and to the left of the player.",
            "box0 is at the same row and to the right of the player.",
        ),
        ("the target is at the same place as the player.", "the target is above and to the left of the player."),
        ("the toaster is to the right at 2.59 m.", "the toaster is to the left at 2.59 m."),
        ("{target_direction_to_player: back, …}", "{target_direction_to_player: ahead, …}"),
        ("{player_position: (4, 4), box_positions: [(3, 3)]}", "{player_position: (5, 4), box_positions: [(3, 3)]}"),
        ("the left target is at (-16, 80, 0).", "the left target is at (44, 80, 0)."),
        ("{left_target_position: (80, -100, 0)}", "{left_target_position: (140, -100, 0)}"),
        ("_G__\nO__P", "PG__\nO___"),
        ("nothing to turn", None),
        ("", None),
    ],
)
def test_one_fact_is_turned(text, expected):
    assert perturbed(text) == expected


def test_equal_texts_are_no_other_states_texts():
    state = {"player_position": (0, 0)}
    examples = examples_of([("a", state), ("a", state), ("b", state)])
    assert [(example.kind, example.text) for example in examples] == [
        ("own", "a"), ("other", "b"), ("own", "a"), ("other", "b"), ("own", "b"), ("other", "a"),
    ]  # fmt: skip
    assert [example.kind for example in examples_of([("a", state), ("a", state)])] == ["own", "own"]
    with pytest.raises(ConfigError, match="at least 2"):
        examples_of([("a", state)])


class _OutOnB:
    def score(self, text, state):
        return JudgeScore.unavailable("down") if text == "b" else JudgeScore(value=0.6)


def test_unavailable_verdicts_are_counted_and_are_no_verdicts():
    examples = examples_of([("a", {}), ("b", {})])
    measured = measure_agreement(examples, _OutOnB(), threshold=0.5)
    # Of a / b each once as own and once as other text, "b" has no verdict.
    assert (measured.num_true_yes, measured.num_false_yes, measured.num_unavailable) == (1, 1, 2)
    assert measured.mean_scores["own"] == 0.6 and math.isnan(measured.mean_scores["perturbed"])
    assert measure_agreement(examples, _OutOnB(), threshold=0.7).num_true_no == 1
    with pytest.raises(ConfigError, match="threshold"):
        measure_agreement(examples, _OutOnB(), threshold=0.0)


def test_the_command_prints_agreement_chance_and_cost(capsys):
    assert main(["calibrate", "VLM/FrozenLake-v0", "--num-states", "4"]) == 0
    printed = capsys.readouterr().out
    assert "FrozenLake-v0, natural_language, 4 states, exact judge" in printed
    assert "accuracy     1.000" in printed and "kappa        1.000" in printed
    assert "chance       0.667" in printed and "cost         none" in printed


def test_a_judge_model_needs_a_name_and_an_address(capsys):
    assert main(["calibrate", "VLM/FrozenLake-v0", "--num-states", "4", "--judge", "direct"]) == 2
    assert "--judge direct needs --judge-endpoint.model and --judge-endpoint.base-url" in capsys.readouterr().err
