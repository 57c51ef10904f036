"""What ablations came to in words, from solved levels that are written out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.ablations.outcome import Outcome, Outcomes, load_outcomes, outcome_path
from benchmarks.ablations.papers import ABLATIONS
from benchmarks.ablations.report import claim_verdict, page, section, verdicts
from vlm_envs.errors import ConfigError

NUM_LEVELS = 200
CHECKOUT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def ablation():
    """Returns Argos' with few levels: one rival, and a start that has to solve 0.4."""
    return replace(ABLATIONS["argos"](), num_test_levels=NUM_LEVELS)


def outcome(ablation, arm, seed, share, *, first=0):
    """Returns a result with so large a share of solved levels, from the first one that is given."""
    solved = [first <= level < first + share * NUM_LEVELS for level in range(NUM_LEVELS)]
    return Outcome(
        ablation=ablation.name,
        arm=arm,
        seed=seed,
        solved={ablation.world_names[0]: solved},
        measures={"argos/grounding": share / 2},
        num_episodes=8,
        cpu_s=60.0,
    )


def outcomes(ablation, method, rival, *, start=0.5, seeds=(1, 2, 3), first=0):
    arms = {
        "gated": {seed: outcome(ablation, "gated", seed, method) for seed in seeds},
        "outcome_only": {seed: outcome(ablation, "outcome_only", seed, rival, first=first) for seed in seeds},
    }
    return Outcomes(start=outcome(ablation, "start", 0, start), arms=arms)


@pytest.mark.parametrize(
    ("method", "rival", "first", "words"),
    [
        (0.8, 0.6, 0, "shows"),
        (0.6, 0.6, 0, "does not show"),
        (0.6, 0.8, 0, "does not show"),
        (0.62, 0.59, 60, "cannot be told"),  # each solves some 60 levels that the other does not
        (0.99, 0.96, 0, "cannot be told"),
        (0.04, 0.0, 0, "cannot be told"),
    ],
)
@pytest.mark.sample(2)
def test_a_difference_is_told_in_words(ablation, method, rival, first, words):
    known = outcomes(ablation, method, rival, first=first)
    found = verdicts(ablation, known, 3)
    assert found["outcome_only"].words == claim_verdict(found) == words
    assert found["outcome_only"].gap.mean == pytest.approx(method - rival, abs=0.01)


def test_seeds_that_disagree_prove_nothing(ablation):
    known = outcomes(ablation, 0.7, 0.6)
    known.arms["gated"][2] = outcome(ablation, "gated", 2, 0.45)
    assert claim_verdict(verdicts(ablation, known, 3)) == "cannot be told"


def test_without_a_start_that_sees_nothing_can_be_told(ablation):
    assert claim_verdict(verdicts(ablation, outcomes(ablation, 0.8, 0.6, start=0.39), 3)) == "cannot be told"
    assert (
        claim_verdict(verdicts(ablation, Outcomes(start=None, arms=outcomes(ablation, 0.8, 0.6).arms), 3))
        == "cannot be told"
    )


def test_what_was_not_run_is_told_and_claims_nothing(ablation):
    nothing = Outcomes(start=None, arms={"gated": {}, "outcome_only": {}})
    assert claim_verdict(verdicts(ablation, nothing, 3)) == "not run here yet"
    assert section(ablation, nothing, verdicts(ablation, nothing, 3))[2].endswith("**Not run here yet.**")
    two = outcomes(ablation, 0.8, 0.6, seeds=(1, 2))
    assert claim_verdict(verdicts(ablation, two, 3)) == "not finished"
    assert verdicts(ablation, two, 3)["outcome_only"].words == "2 of 3 seeds"
    two.arms["outcome_only"].clear()
    assert claim_verdict(verdicts(ablation, two, 3)) == "not finished"
    assert "| outcome alone | 0 | not run here yet |" in "\n".join(section(ablation, two, verdicts(ablation, two, 3)))


def test_one_rival_that_is_not_beaten_is_enough(ablation):
    vagen = replace(ABLATIONS["vagen"](), num_test_levels=NUM_LEVELS)
    arms = {
        name: {seed: outcome(vagen, name, seed, share) for seed in (1, 2, 3)}
        for name, share in (("full", 0.8), ("grpo", 0.6), ("turn_ppo", 0.8))
    }
    known = Outcomes(start=outcome(vagen, "start", 0, 0.5), arms=arms)
    assert {name: each.words for name, each in verdicts(vagen, known, 3).items()} == {
        "grpo": "shows",
        "turn_ppo": "does not show",
    }
    assert claim_verdict(verdicts(vagen, known, 3)) == "does not show"


def test_a_table_has_arms_seeds_and_what_else_was_measured(ablation):
    known = outcomes(ablation, 0.8, 0.6)
    *_, heading, _, start, gated, rival, _, cost = section(ablation, known, verdicts(ablation, known, 3))
    assert "| grounding |" in heading
    assert start.startswith("| start |  | 0.500 |") and "| 0.250 |" in start
    assert "**0.800**" in gated and "0.800, 0.800, 0.800" in gated and "+" not in gated
    assert "**0.600**" in rival and "+0.200" in rival and rival.endswith("| shows |")
    assert cost == "6 runs, 6 minutes of one thread."
    told = page([(ablation, known)], num_seeds=3)
    assert "| [Argos](#argos) |" in told and "| **shows** |" in told and "mean nothing" not in told
    assert "mean nothing" in page([(ablation, known)], num_seeds=3, is_quick=True)


def test_results_come_back_from_their_files(ablation, tmp_path):
    known = outcomes(ablation, 0.8, 0.6)
    for seed, each in known.arms["gated"].items():
        each.save(outcome_path(tmp_path, "argos", "gated", seed))
    known.start.save(outcome_path(tmp_path, "argos", "start", 0))
    found = load_outcomes(tmp_path, ablation, 3)
    assert found.arms == {"gated": known.arms["gated"], "outcome_only": {}} and found.start == known.start


def test_a_file_that_cannot_be_read_or_paired_is_named(ablation, tmp_path):
    path = outcome_path(tmp_path, "argos", "gated", 2)
    path.write_text('{"solved": 3}')
    with pytest.raises(ConfigError, match=r"argos-gated-2\.json is no result.* Move it away"):
        load_outcomes(tmp_path, ablation, 3)
    outcome(replace(ablation, num_test_levels=100), "gated", 2, 0.5).save(path)
    with pytest.raises(ConfigError, match=r"argos-gated-2\.json.*'.*': 200.*': 100.*cannot be paired"):
        load_outcomes(tmp_path, replace(ablation, num_test_levels=100), 3)


@pytest.mark.soak
def test_the_page_is_what_the_result_files_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(CHECKOUT)
    made = tmp_path / "ablations.md"
    assert main(["ablations", "--seeds", "0", "--page", str(made)]) == 0
    assert str(made) in capsys.readouterr().out
    assert made.read_text() == (CHECKOUT / "docs" / "research" / "ablations.md").read_text(), (
        "python -m benchmarks ablations --seeds 0"
    )
