"""What the arms of a claim came to, counted by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.claims.arms import Arm, Point
from benchmarks.claims.claim import CLAIMS
from benchmarks.claims.command import ClaimsOptions
from benchmarks.claims.report import difference, draw, gains, lines, load_arms, rate_interval
from training.recipes.shipped import RECIPES
from vlm_envs.errors import ConfigError

CHECKOUT = Path(__file__).parents[4]
NAME = "frozenlake_suboptimal"


def arm(kind, seed, solved):
    points = [Point(cpu_s=10.0, step=1, success=0.25), Point(cpu_s=60.0, step=2, success=0.5)]
    return Arm(
        kind=kind,
        claim=NAME,
        seed=seed,
        curve=points,
        cpu_s=60.0,
        best=points[1],
        solved=[each == "1" for each in solved],
        levels=[str(level) for level in range(len(solved))],
        start="" if kind == "expert" else "a",
    )


@pytest.fixture
def results(tmp_path):
    for kind, solved in (("expert", "1010" * 8), ("start", "1000" * 8)):
        arm(kind, 0, solved).save(tmp_path / f"{NAME}-0-{kind}.json")
    for seed in (1, 2):
        for kind, solved in (("imitation", "1100" * 8), ("rl", "1110" * 8)):
            arm(kind, seed, solved).save(tmp_path / f"{NAME}-{seed}-{kind}.json")
    arm("rl", 3, "1110" * 8).save(tmp_path / f"{NAME}-3-rl.json")
    return tmp_path


def test_an_arm_comes_back_from_its_file(tmp_path):
    made = arm("rl", 3, "1011")
    made.save(tmp_path / "arm.json")
    assert Arm.load(tmp_path / "arm.json") == made


def test_only_seeds_whose_two_arms_are_there_count(results):
    arms = load_arms(results, NAME)
    assert {kind: [each.seed for each in of] for kind, of in arms.items()} == {
        "expert": [0],
        "start": [0],
        "imitation": [1, 2],
        "rl": [1, 2],
    }


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"levels": [f"other {level}".replace(" ", "") for level in range(32)]}, "played different levels"),
        ({"start": "b"}, "went on from different starts"),
        ({"levels": ["1"]}, "32 outcomes of 1 levels"),
    ],
)
def test_arms_that_cannot_be_compared_are_refused(results, changes, told):
    replace(arm("rl", 1, "1110" * 8), **changes).save(results / f"{NAME}-1-rl.json")
    with pytest.raises(ConfigError, match=told):
        load_arms(results, NAME)


def test_a_file_that_is_no_arm_is_named_and_seeds_without_their_start_do_not_count(results):
    (results / f"{NAME}-0-start.json").unlink()
    assert load_arms(results, NAME)["rl"] == []
    (results / f"{NAME}-1-rl.json").write_text("{")
    with pytest.raises(ConfigError, match=rf"{NAME}-1-rl\.json is no arm"):
        load_arms(results, NAME)


def test_it_is_told_where_imitation_learnt_nothing(results):
    loaded = load_arms(results, NAME)
    idle = replace(loaded["imitation"][0], best=Point(cpu_s=0.0, step=0, success=0.5))
    *_, row = lines({NAME: CLAIMS[NAME]}, {NAME: loaded | {"imitation": [idle, loaded["imitation"][1]]}})
    assert row.count("; the start itself in 1 of 2") == 1


def test_seeds_that_are_run_leave_the_results_of_the_repository_alone():
    assert ClaimsOptions().folder == Path("docs/claims")
    assert ClaimsOptions(only=(NAME,), seeds=(1,), runs=Path("here")).folder == Path("here/results")
    assert ClaimsOptions(only=(NAME,), seeds=(1,), results=Path("there")).folder == Path("there")


def test_the_page_has_the_table_that_the_files_make():
    page = (CHECKOUT / "docs" / "training-results.md").read_text()
    arms = {name: load_arms(CHECKOUT / "docs" / "claims", name) for name in CLAIMS}
    for table in (lines(CLAIMS, arms), gains(CLAIMS, arms)):
        assert "\n".join(table) in page, "paste what python -m benchmarks claims prints"


def test_rates_and_differences_are_of_all_levels_and_seeds(results):
    arms = load_arms(results, NAME)
    rate, (low, high) = rate_interval(arms["rl"])
    assert rate == 0.75 and 0.55 < low < 0.75 < high < 0.95
    gap = difference(arms["imitation"], arms["rl"])
    assert gap.mean == 0.25 and gap.interval.low > 0 and gap.p_value < 0.02
    assert difference(arms["rl"], arms["rl"]).p_value == 1.0


def test_gains_are_of_the_one_start_and_the_one_expert_and_every_seed(results):
    heading, rule, row = gains(CLAIMS, {name: load_arms(results, name) for name in CLAIMS})
    assert heading.count("|") == rule.count("|") == row.count("|")
    told = [float(cell.split()[0]) for cell in row.split("|")[2:5]]
    assert told == [0.25, 0.5, 0.25]
    arms = {name: load_arms(results, name) for name in CLAIMS}
    solved_all = replace(arms[NAME]["expert"][0], solved=[True] * 32)
    *_, row = gains({NAME: CLAIMS[NAME]}, {NAME: arms[NAME] | {"expert": [solved_all]}})
    assert row.split("|")[4].startswith(" -0.250 (")


def test_the_difference_is_of_other_seeds_too():
    """Two seeds that gain as much as each other tell more than two of which one gains nothing."""
    none, half, all_ = ([arm("rl", seed, each * 16) for seed in (1, 2)] for each in ("00", "01", "11"))
    of_both, of_one = difference(none, half), difference(none, [none[0], all_[1]])
    assert of_both.mean == of_one.mean == 0.5
    assert of_both.interval.low > 0.3 and of_one.interval.low == 0.0


def test_the_table_and_the_picture_show_claims_that_were_run(results, tmp_path):
    arms = {name: load_arms(results, name) for name in CLAIMS}
    heading, rule, row = lines(CLAIMS, arms)
    assert heading.count("|") == rule.count("|") == row.count("|")
    assert "| 2 | 0.500 (" in row and "**+0.250**" in row and "+0.250, +0.250 |" in row
    draw(CLAIMS, arms, tmp_path / "claims.png")
    assert (tmp_path / "claims.png").stat().st_size > 5000


def test_a_claim_that_is_not_there_and_results_that_are_not_are_told(tmp_path, capsys):
    assert main(["claims", "--only", "frozenlake_subptimal"]) == 2
    assert "Did you mean 'frozenlake_suboptimal'?" in capsys.readouterr().err
    assert main(["claims", "--results", str(tmp_path)]) == 2
    assert "--seeds 1 2 3" in capsys.readouterr().err


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_is_a_run_of_its_recipe_behind_imitation_of_its_expert(name):
    claim = CLAIMS[name]
    config = claim.config(seed=4)
    assert config.seed == 4
    assert (config.cold_start.suboptimal_rate > 0) == ("suboptimal" in name)
    assert config.cold_start.tells_plan == (name == "sokoban_suboptimal")
    assert (config.model is None) == (claim.num_steps is not None)
    if config.model is not None:
        assert config.cold_start == RECIPES[claim.recipe]().cold_start, "the shipped start was made so"
