"""What the arms of a claim came to, counted by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.claims.arm import Arm, Point
from benchmarks.claims.claim import CLAIMS
from benchmarks.claims.command import ClaimsOptions
from benchmarks.claims.report import (
    KINDS,
    TEST_COLOURS,
    decoded_greedily,
    difference,
    draw,
    gains,
    lines,
    load_arms,
    rate_interval,
)
from training.recipes.shipped import RECIPES
from vlm_envs.errors import ConfigError
from vlm_envs.statistics.bootstrap import paired_seeds_bootstrap

CHECKOUT = Path(__file__).parents[4]
NAME = "frozenlake_suboptimal"


def arm(kind, seed, solved):
    points = [Point(cpu_s=10.0, step=1, success=0.25), Point(cpu_s=60.0, step=2, success=0.5)]
    return Arm(
        kind=kind,
        claim=NAME,
        seed=seed,
        curve=[] if kind == "expert" else points,
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
    made.greedy = [True, True, False, False]
    made.save(tmp_path / "arm.json")
    assert Arm.load(tmp_path / "arm.json") == made
    told = json.loads((tmp_path / "arm.json").read_text())
    (tmp_path / "arm.json").write_text(json.dumps({name: value for name, value in told.items() if name != "greedy"}))
    assert Arm.load(tmp_path / "arm.json").greedy == [], "older files do not have it"
    (tmp_path / "arm.json").write_text(json.dumps(told | {"greedy": "1"}))
    with pytest.raises(ConfigError, match="1 outcomes of 4 levels"):
        Arm.load(tmp_path / "arm.json")


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
    path = results / f"{NAME}-1-rl.json"
    path.write_text(path.read_text().replace("1110", "111x", 1))
    with pytest.raises(ConfigError, match=rf"{NAME}-1-rl\.json is no arm .* KeyError\('x'\)"):
        load_arms(results, NAME)
    path.write_text(json.dumps(json.loads((results / f"{NAME}-2-rl.json").read_text()) | {"cpu_s": float("nan")}))
    with pytest.raises(ConfigError, match=rf"{NAME}-1-rl\.json is no arm .* CPU seconds"):
        load_arms(results, NAME)
    path.write_text("{")
    with pytest.raises(ConfigError, match=rf"{NAME}-1-rl\.json is no arm"):
        load_arms(results, NAME)


def test_it_is_told_where_imitation_learnt_nothing(results):
    loaded = load_arms(results, NAME)
    idle, brief = (
        replace(arm, best=Point(cpu_s=0.0, step=step, success=0.5)) for step, arm in enumerate(loaded["imitation"])
    )
    *_, row = lines({NAME: CLAIMS[NAME]}, {NAME: loaded | {"imitation": [idle, brief]}})
    assert row.count("; the start itself in 1 of 2") == 1


def test_seeds_that_are_run_leave_the_results_of_the_repository_alone():
    assert ClaimsOptions().folder == Path("docs/claims")
    assert ClaimsOptions(only=(NAME,), seeds=(1,), runs=Path("here")).folder == Path("here/results")
    assert ClaimsOptions(only=(NAME,), seeds=(1,), results=Path("there")).folder == Path("there")


@pytest.mark.soak
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


def test_a_level_that_is_played_several_times_is_one():
    """Four episodes on one level leave nothing else to draw; the same four on four levels leave much."""
    none, half = (replace(arm("rl", 1, solved), levels=["a"] * 4) for solved in ("0000", "1100"))
    again = [replace(each, seed=2) for each in (none, half)]
    assert difference([none, again[0]], [half, again[1]]) == (0.5, (0.5, 0.5), 1.0), "p of one level is 2 / 2 at least"
    assert rate_interval([half, again[1]]) == (0.5, (0.5, 0.5))
    of_levels = [arm("rl", seed, "1100") for seed in (1, 2)]
    assert rate_interval(of_levels) == (0.5, (0.0, 1.0))


def test_p_values_are_corrected_for_the_claims_that_are_shown_column_by_column(monkeypatch):
    """One that gains each of N levels has p = 2 / 2^N; of three the smallest counts three times, the next one twice."""
    few = partial(paired_seeds_bootstrap, num_resamples=200)
    monkeypatch.setattr("benchmarks.claims.report.paired_seeds_bootstrap", few)
    of_levels = {"frozenlake_500": 5, "sokoban_500": 3, "sokoban_2000": 6}
    arms = {name: {kind: list[Arm]() for kind in KINDS} for name in CLAIMS}
    for name, number in of_levels.items():
        arms[name] = {kind: [arm(kind, 1, solved * number)] for kind, solved in zip(KINDS, "1001", strict=True)}

    def told(table, column):
        return [row.split("|")[column].split()[-1] for row in table[2:]]

    table, more = lines(CLAIMS, arms), gains(CLAIMS, arms)
    assert told(table, 7) == ["0.1250", "0.2500", "0.0938"], "2 / 16, 1 / 4 and 3 / 32"
    assert [told(more, column) for column in (2, 3, 4)] == [["1.0000"] * 3, told(table, 7), ["1.0000"] * 3]
    assert "+1.000 (+1.000 to +1.000), p = 0.1250 |" in table[2], "intervals are as they are"
    assert all(
        "(95 % CI, p by Holm's method)" in head.split("|")[place] for head, place in ((table[0], 7), (more[0], 4))
    )
    only = {"frozenlake_500": CLAIMS["frozenlake_500"]}
    assert told(lines(only, arms), 7) == told(gains(only, arms), 3) == ["0.0625"], "one alone is as it is"


def test_gains_are_of_the_one_start_and_the_one_expert_and_every_seed(results):
    heading, rule, row = gains(CLAIMS, {name: load_arms(results, name) for name in CLAIMS})
    assert heading.count("|") == rule.count("|") == row.count("|")
    told = [float(cell.split()[0]) for cell in row.split("|")[2:5]]
    assert told == [0.25, 0.5, 0.25]
    arms = {name: load_arms(results, name) for name in CLAIMS}
    solved_all = replace(arms[NAME]["expert"][0], solved=[True] * 32)
    *_, row = gains({NAME: CLAIMS[NAME]}, {NAME: arms[NAME] | {"expert": [solved_all]}})
    assert row.split("|")[4].startswith(" -0.250 (")


def test_what_is_decoded_greedily_has_a_table_where_all_arms_have_it(results, capsys):
    assert decoded_greedily(CLAIMS, {name: load_arms(results, name) for name in CLAIMS}) == []
    for path in results.glob("*.json"):
        made = Arm.load(path)
        outcomes = {"start": "1100", "imitation": "1100", "rl": "1111"}
        if made.kind != "expert":
            made.greedy = [each == "1" for each in outcomes[made.kind] * 8]
            made.save(path)
    heading, rule, row = decoded_greedily(CLAIMS, {name: load_arms(results, name) for name in CLAIMS})
    assert heading.count("|") == rule.count("|") == row.count("|")
    cells = [cell.split() for cell in row.split("|")[2:9]]
    assert [cell[0] for cell in cells] == ["2", "0.500", "0.500", "1.000", "+0.500", "+0.500", "+0.250"]
    assert main(["claims", "--results", str(results), "--only", NAME]) == 0
    assert capsys.readouterr().out.count("greedy (95 % CI)") == 3


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
    assert "| 2 | 0.500 (" in row and "| +0.250 (" in row and "+0.250, +0.250 |" in row
    draw(CLAIMS, arms, tmp_path / "claims.png")
    assert (tmp_path / "claims.png").stat().st_size > 5000


def test_the_picture_has_the_expert_on_validation_levels_and_no_line_where_nobody_kept_that(
    results, tmp_path, monkeypatch
):
    drawn = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *_, **__: drawn.append(figure))
    loaded = load_arms(results, NAME)
    for curve in ([Point(cpu_s=0.0, step=0, success=0.375)], [], [Point(cpu_s=0.0, step=0, success=1.0)]):
        expert = replace(loaded["expert"][0], curve=curve)
        draw({NAME: CLAIMS[NAME]}, {NAME: loaded | {"expert": [expert]}}, tmp_path / "claims.png")
    dotted = [[line for line in figure.axes[0].lines if line.get_linestyle() == ":"] for figure in drawn]
    assert [[[*line.get_ydata()] for line in lines] for lines in dotted] == [[[0.375, 0.375]], [], [[1.0, 1.0]]]
    low, high = rate_interval(loaded["start"])[1].low - 0.03, rate_interval(loaded["rl"])[1].high + 0.03
    limits = [figure.axes[0].get_ylim() for figure in drawn]
    assert limits == [pytest.approx((low, high))] * 3, (
        "from the start's interval to that of reinforcement learning they fill the panel, and no far expert is in it"
    )
    near = replace(loaded["expert"][0], curve=[Point(cpu_s=0.0, step=0, success=high)])
    draw({NAME: CLAIMS[NAME]}, {NAME: loaded | {"expert": [near]}}, tmp_path / "claims.png")
    assert drawn[-1].axes[0].get_ylim() == pytest.approx((low, high + 0.03))


def test_the_picture_has_what_start_and_arms_come_to_on_test_levels(results, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *_, **__: drawn.append(figure))
    arms = load_arms(results, NAME)
    draw({NAME: CLAIMS[NAME]}, {NAME: arms}, tmp_path / "claims.png")
    (panel,) = drawn[0].axes
    (strip,) = panel.child_axes
    assert [each.get_text() for each in strip.get_xticklabels()] == ["test"]
    assert strip.get_ylim() == panel.get_ylim() and strip.get_position().x0 >= panel.get_position().x1
    points = {each.get_label(): each for each in strip.containers}
    assert [*points] == [f"{KINDS[kind]}, test levels (95 %)" for kind in TEST_COLOURS]
    assert {*points} <= {each.get_text() for each in drawn[0].legends[0].get_texts()}
    for kind, (point, _, (bar,)) in zip(TEST_COLOURS, points.values(), strict=True):
        rate, interval = rate_interval(arms[kind])
        assert [*point.get_ydata()] == [rate] and point.get_color() == TEST_COLOURS[kind]
        assert [y for _, y in bar.get_segments()[0]] == pytest.approx([*interval])


def test_panels_show_one_span_each_around_what_it_needs_and_none_beyond_all_or_nothing(results, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *_, **__: drawn.append(figure))
    wide = load_arms(results, NAME)
    narrow = {}
    for name, solved, height in (("middle", "10", 0.5), ("top", "11", 1.0), ("bottom", "00", 0.0)):
        of_one = {kind: arm(kind, 1, solved * 80) for kind in ("start", "imitation", "rl")}
        point = Point(cpu_s=0.0, step=0, success=height)
        narrow[name] = {"expert": []} | {kind: [replace(each, curve=[point])] for kind, each in of_one.items()}
    claims = dict.fromkeys([NAME, *narrow], CLAIMS[NAME])
    draw(claims, {NAME: wide} | narrow, tmp_path / "claims.png")
    limits = [panel.get_ylim() for panel in drawn[0].axes]
    spans = [high - low for low, high in limits]
    assert spans == pytest.approx([spans[0]] * 4) and spans[0] > 0.6
    assert sum(limits[1]) / 2 == pytest.approx(0.5, abs=0.01)
    assert limits[2][1] == pytest.approx(1.02) and limits[3][0] == 0.0


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
