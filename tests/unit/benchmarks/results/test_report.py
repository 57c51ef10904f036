"""Tables of results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.results.report import expert_lines, greedy_lines, lines, load_results, summary_lines
from tests.unit.benchmarks.results.test_results import made, result

CHECKOUT = Path(__file__).parents[4]


@pytest.mark.soak
def test_the_tables_of_training_results_are_those_of_the_results_in_the_repository():
    page = (CHECKOUT / "docs" / "training-results.md").read_text(encoding="utf-8")
    for of in (lines, expert_lines, greedy_lines):
        table = of(load_results(CHECKOUT / "docs" / "results"))
        assert len(table) > 4 and "\n".join(table) in page


def test_the_table_of_the_readme_is_that_of_the_results_in_the_repository(capsys):
    assert main(["results", "--summary", "--results", str(CHECKOUT / "docs" / "results")]) == 0
    table = capsys.readouterr().out
    assert len(table.splitlines()) == 2 + 9
    assert table in (CHECKOUT / "README.md").read_text(encoding="utf-8")


def test_the_summary_has_one_row_per_world_and_leaves_out_controls():
    world = replace(made([0.0] * 40, [0.0] * 10 + [1.0] * 30), world="VLM/FrozenLake-v0", lazy=[1.0] + [0.0] * 39)
    seeds = [result(world, seed=seed) for seed in range(2)]
    svg = replace(world, world="VLM/SVG-v0", measure="similarity")
    *_, lake, drawing = summary_lines([*seeds, result(world, recipe="control"), result(svg, recipe="svg_tiny")])
    assert lake == "| FrozenLake | 0% | 75% | 2% |"
    assert drawing == "| SVG (similarity) | 0% | 75% | 2% |"


def test_what_was_trained_is_held_against_its_start_without_drawing(tmp_path, capsys):
    world = made([0.0] * 40, [0.0] * 10 + [1.0] * 30)
    assert greedy_lines([result(world)]) == []
    greedy = replace(world, greedy_before=[0.0] * 20 + [1.0] * 20)
    seeds = [result(greedy, seed=seed) for seed in range(2)]
    heading, _, row = greedy_lines([*seeds, result(world, recipe="other")])
    assert "both greedy" not in heading and "other" not in row
    assert row.startswith("| `lake_tiny` | 0.000 | 0.500 | 0.750 | +0.250 (")
    both = [result(replace(greedy, greedy_after=[1.0] * 40), seed=seed) for seed in range(2)]
    *_, row, unknown = greedy_lines([*both, *(replace(each, recipe="other") for each in seeds)])
    assert "| +0.500 (" in row and unknown.endswith("|  |")
    for each in both:
        each.save(tmp_path / f"{each.seed}.json")
    assert main(["results", "--results", str(tmp_path)]) == 0
    assert "| both greedy (95 % CI, p by Holm's method) |" in capsys.readouterr().out


def test_who_interrupts_is_told_which_runs_are_added(tmp_path, monkeypatch, capsys):
    def of_first(directory):
        if directory.name == "second":
            raise KeyboardInterrupt
        return result(made([0.0], [1.0]), recipe=directory.name)

    monkeypatch.setattr("benchmarks.results.collect.require_finished", lambda directory: None)
    monkeypatch.setattr("benchmarks.results.collect.file_name", lambda directory: f"{directory.name}.json")
    monkeypatch.setattr("benchmarks.results.collect.collected", of_first)
    assert main(["results", "--results", str(tmp_path), "--add", "first", "second"]) == 130
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == "Interrupted while the rivals of second played; 1 of 2 runs are added."
    assert [each.recipe for each in load_results(tmp_path)] == ["first"]


def test_what_was_trained_is_held_against_an_expert_that_errs(tmp_path, capsys):
    world = made([0.0] * 40, [0.0] * 10 + [1.0] * 30)
    optimal = result(replace(world, expert=[1.0] * 40), recipe="optimal")
    assert expert_lines([result(world, recipe="own"), optimal]) == []
    of_seeds = [[1.0] * 20 + [0.0] * 20, [0.0] * 40]
    seeds = [result(replace(world, expert=of), seed=seed) for seed, of in enumerate(of_seeds)]
    heading, _, row = expert_lines([*seeds, optimal])
    assert heading == "| recipe | its expert | trained | trained − its expert (95 % CI, p by Holm's method) |"
    assert row.startswith("| `lake_tiny` | 0.250 | 0.750 | +0.500 (")
    for each in seeds:
        each.save(tmp_path / f"{each.seed}.json")
    assert main(["results", "--results", str(tmp_path)]) == 0
    assert row in capsys.readouterr().out
