"""A mix stands beside the runs that had one of its worlds each, level by level."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from benchmarks.__main__ import main
from benchmarks.results.collect import _num_played, world_curve
from benchmarks.results.mixes import difference, mix_lines, specialists_of
from benchmarks.results.picture import draw_mixes
from benchmarks.results.report import lines, load_results
from benchmarks.results.result import Result, WorldResult
from vlm_envs.errors import ConfigError

CHECKOUT = Path(__file__).parents[4]
WORSE, BETTER = [0.0] * 30 + [1.0] * 10, [0.0] * 10 + [1.0] * 30
LAKE = WorldResult(
    world="VLM/FrozenLake-v0",
    env_id="VLM/FrozenLake-v0",
    kwargs={"size": 4},
    measure="success",
    before=[0.0] * 40,
    after=WORSE,
    levels=[str(level) for level in range(40)],
    lazy=[0.0] * 40,
    num_episodes=96,
)
BOXES = replace(LAKE, world="VLM/Sokoban-v0", env_id="VLM/Sokoban-v0", num_episodes=104)


def result(recipe, *worlds, seed=0):
    sizes = {"setup": "a", "num_parameters": 7, "num_iterations": 3, "num_episodes": 200, "minutes": 1.2}
    return Result(recipe=recipe, title="GiGPO", seed=seed, worlds=list(worlds), **sizes)


MIX = result("both", LAKE, BOXES)


def test_a_mix_is_compared_on_the_same_levels_and_has_no_line_of_the_other_table():
    results = [MIX, result("lake_tiny", replace(LAKE, after=BETTER, num_episodes=None))]
    header, _, of_lake, of_boxes = mix_lines(results)
    assert header.count("|") == of_lake.count("|") == of_boxes.count("|")
    own = "| 0.000 → **0.250** (0.142 to 0.402) | 0.0039 | 96 | `lake_tiny` | 0.000 → 0.750 | 200 | "
    assert own + "+0.000 (+0.000 to +0.000) | -0.500 (-0.650 to -0.350), " in of_lake
    assert of_boxes.endswith("| 104 | no result |  |  |  |  |")
    assert difference([LAKE], results[1].worlds).mean == pytest.approx(-0.5)
    assert [line.split(" | ")[0] for line in lines(results)[2:]] == ["| `lake_tiny`"]
    assert mix_lines(results[1:]) == []


@pytest.mark.soak
def test_the_table_of_the_page_is_that_of_the_results_in_the_repository():
    kept = CHECKOUT / "docs" / "results"
    table = mix_lines([*load_results(kept), *load_results(kept / "specialists")])
    assert len(table) > 2 and "\n".join(table) in (CHECKOUT / "docs" / "research" / "mix.md").read_text(
        encoding="utf-8"
    )


def test_levels_of_other_arguments_are_not_compared():
    other = result("lake_tiny", replace(LAKE, kwargs={"size": 8}))
    assert mix_lines([MIX, other])[2].endswith("| other arguments |  |")
    same = result("lake_of_four", replace(LAKE, kwargs={"size": 4}))
    assert specialists_of(LAKE, [other, same]) == ([[same]], ""), "one with the same arguments comes first"
    assert specialists_of(BOXES, [MIX, other])[0] == [], "a mix is nobody's specialist"


def test_levels_that_differ_are_not_compared_and_those_that_repeat_count_once():
    others = [
        result("lake_tiny", replace(LAKE, levels=[f"other {level}" for level in range(40)], after=after), seed=seed)
        for seed, after in enumerate((BETTER, WORSE))
    ]
    assert mix_lines([MIX, *others])[2].endswith("| 0.000 → 0.500 (2 seeds) | 200 | other levels |  |")
    same = result("lake_tiny", LAKE)
    assert specialists_of(LAKE, [*others, same]) == ([[same]], ""), "those that can be paired come first"
    pairs = replace(LAKE, levels=["a", "b"] * 20)
    wide, narrow = (difference([each], [replace(each, after=BETTER)]).interval for each in (pairs, LAKE))
    assert wide.high - wide.low < narrow.high - narrow.low, "of two levels that are alike nothing is by chance"


def test_all_seeds_of_a_specialist_count():
    outcomes = (BETTER, WORSE, BETTER)
    seeds = [result("lake_tiny", replace(LAKE, after=after), seed=seed) for seed, after in enumerate(outcomes)]
    row = mix_lines([MIX, *seeds])[2]
    assert "| 0.000 → 0.583 (3 seeds) |" in row and "| -0.333 (" in row
    one, three = (difference([LAKE], [each.worlds[0] for each in some]).interval for some in (seeds[:1], seeds))
    assert three.high - three.low > one.high - one.low, "seeds that disagree are less sure than one of them"


def test_what_a_mix_is_behind_by_is_corrected_for_as_many_tests_as_can_be_made():
    boxes = replace(BOXES, before=[0.0] * 36 + [1.0] * 4)
    few = replace(BOXES, after=[1.0] * 6 + WORSE[6:])
    alone = [result("lake_tiny", replace(LAKE, after=BETTER)), result("boxes_tiny", few)]
    of_lake, of_boxes = mix_lines([result("both", LAKE, boxes), *alone])[2:]
    p_lake, p_boxes = (difference([LAKE], [replace(LAKE, after=each)]).p_value for each in (BETTER, few.after))
    assert p_boxes == 2 / 2**6 and p_lake < p_boxes
    assert of_lake.endswith(f", {2 * p_lake:.4f} |") and of_boxes.endswith(f", {p_boxes:.4f} |")
    assert "| +0.100 (+0.025 to +0.200) | -0.150 (" in of_boxes, "the starts' difference stands beside it"
    assert mix_lines([MIX, alone[0]])[2].endswith(f", {p_lake:.4f} |"), "one test needs no correction"


def test_a_recipe_with_the_share_of_the_mix_is_no_seed_of_the_specialist_and_has_a_line_below():
    share = replace(LAKE, before=[1.0] * 4 + [0.0] * 36, after=WORSE)
    results = [MIX, result("lake_share", share), result("lake_tiny", replace(LAKE, after=BETTER))]
    of_share, of_lake, of_boxes = mix_lines(results)[2:]
    assert of_share.startswith(
        "| `both` | VLM/FrozenLake-v0 | 1 × 40 | 0.000 | 0.000 → **0.250** (0.142 to 0.402) | 0.0039 |"
    )
    assert of_lake.startswith(
        "| `both` | VLM/FrozenLake-v0 |  |  |  |  |  | `lake_tiny` | 0.000 → 0.750 | 200 | +0.000 ("
    )
    assert "| `lake_share` | 0.100 → 0.250 | 200 | -0.100 (-0.200 to -0.025) | +0.000 (" in of_share
    assert of_boxes.endswith("| no result |  |  |  |  |")
    p = difference([LAKE], [replace(LAKE, after=BETTER)]).p_value
    assert of_lake.endswith(f", {2 * p:.4f} |"), "both are tests"
    more = [replace(each, seed=seed) for each in results[2:] for seed in range(2)]
    assert "`lake_tiny`" in mix_lines([*results[:2], *more])[2], "who has more seeds comes first"
    longer = replace(results[2], num_episodes=300)
    assert "`lake_tiny`" in mix_lines([*results[:2], longer])[2], "or who has trained for longer"


def test_all_seeds_of_a_mix_count():
    seeds = [replace(MIX, seed=number) for number in range(2)]
    seeds.append(result("both", replace(LAKE, after=BETTER, num_episodes=99), BOXES))
    seeds[2] = replace(seeds[2], seed=2)
    alone = result("lake_tiny", LAKE)
    of_lake, of_boxes = mix_lines([*seeds, alone])[2:]
    assert (
        "| 3 × 40 | 0.000 | 0.000 → **0.417** (" in of_lake
        and "| 97 | `lake_tiny` | 0.000 → 0.250 | 200 | +0.000 (+0.000 to +0.000) | +0.167 (" in of_lake
    )
    assert "| 3 × 40 | 0.000 | 0.000 → **0.250** (" in of_boxes
    other = replace(MIX, seed=1, num_iterations=4)
    assert len(mix_lines([MIX, other])) == 2 + 4, "who trained for longer is no seed of the other"
    with pytest.raises(ConfigError, match="Two results of both are of seed 0"):
        mix_lines([MIX, MIX])


def test_each_world_of_a_mix_has_a_curve_of_its_own():
    logged = [
        {"iteration": 0, "success": 0.1, "success/lake": 0.5, "score/observation/lake": 0.75, "metric/likeness": 0.25},
        {"iteration": 1, "success": 0.2, "tool_used/lake": None, "thought_score/lake": 1.0, "score/observation": 0.0},
        {"iteration": 2, "success": 0.2},
    ]
    measures = ["success", "likeness"]
    assert world_curve(logged, "lake", "success", measures) == [
        {"iteration": 0.0, "success": 0.5, "observation": 0.75},
        {"iteration": 1.0, "thought": 1.0},
    ]
    assert world_curve(logged, "svg", "likeness", measures) == [{"iteration": 0.0, "likeness": 0.25}]
    assert world_curve(logged, "svg", "likeness", ["likeness"] * 2) == [], "it is of both worlds"
    many = [{"iteration": number, "success/lake": number % 2} for number in range(120)]
    points = world_curve(many, "lake", "success", measures)
    assert len(points) == 30 and {point["success"] for point in points} == {0.5}


def test_a_picture_of_a_mix_has_a_panel_for_each_world(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.update(figure=figure))
    points = [{"iteration": 0.0, "success": 0.5, "observation": 0.25}, {"iteration": 2.0, "success": 0.75}]
    mix = result("both", replace(LAKE, curve=points), BOXES)
    draw_mixes([mix, replace(MIX, seed=1), result("lake_tiny", LAKE)], tmp_path / "mix.png")
    lake, boxes = drawn["figure"].axes
    assert [panel.get_title(loc="left") for panel in (lake, boxes)] == [
        "both: VLM/FrozenLake-v0",
        "both: VLM/Sokoban-v0",
    ]
    of_lake, of_boxes = (
        {line.get_label(): [*line.get_ydata()] for line in panel.get_lines()} for panel in (lake, boxes)
    )
    assert of_lake["solved"] == [0.5, 0.75] and of_lake["observations right"] == [0.25]
    assert "solved" not in of_boxes and "lazy rival" in of_boxes
    with pytest.raises(ConfigError, match="no mix to draw"):
        draw_mixes([result("lake_tiny", LAKE)], tmp_path / "mix.png")


def test_groups_that_a_mix_logged_are_counted():
    played = [{"mix/lake/groups": 3.0}, {"mix/lake/groups": 2.0, "mix/boxes/groups": 1.0}]
    assert [_num_played(played, name, 8) for name in ("lake", "boxes", "other")] == [40, 8, None]


@pytest.mark.soak
def test_the_command_prints_both_tables(tmp_path, capsys):
    for each in (MIX, result("lake_tiny", LAKE)):
        each.save(tmp_path / f"{each.recipe}.json")
    result("boxes_share", BOXES).save(tmp_path / "specialists" / "boxes_share.json")
    pictures = {name: tmp_path / f"{name}.png" for name in ("picture", "mix-picture")}
    options = [word for name, path in pictures.items() for word in (f"--{name}", str(path))]
    assert main(["results", "--results", str(tmp_path), *options]) == 0
    assert all(path.stat().st_size > 10_000 for path in pictures.values())
    first, second = capsys.readouterr().out.split("\n\n")
    assert "lake_tiny" in first and "both" not in first
    assert second.count("`both`") == 2
    assert "boxes_share" in second and "boxes_share" not in first


@pytest.mark.parametrize("option", ["--picture", "--mix-picture"])
@pytest.mark.parametrize(
    ("place", "told"),
    [("none/all.png", "There is no folder for"), ("all", "is a folder. Name"), ("all.svgg", "to end in one of .png")],
)
def test_a_picture_that_has_no_place_is_refused_before_anything_is_shown(tmp_path, capsys, option, place, told):
    MIX.save(tmp_path / "both.json")
    (tmp_path / "all").mkdir()
    assert main(["results", "--results", str(tmp_path), option, str(tmp_path / place)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and told in err
    assert not (tmp_path / "all.png").exists()


def test_levels_are_the_same_whatever_they_pay():
    paid = result("lake_tiny", replace(LAKE, kwargs={"size": 4, "answer_reward": 10.0, "format_reward": 0.0}))
    assert specialists_of(LAKE, [paid]) == ([[paid]], "")
