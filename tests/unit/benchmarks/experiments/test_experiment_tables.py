"""Tables of experiments, from outcomes that are written out and from those in the repository."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.__main__ import main
from benchmarks.experiments.ablations import CLAIMS
from benchmarks.experiments.experiment import START
from benchmarks.experiments.records import Record, WorldRecord, load_records
from benchmarks.experiments.shipped_experiments import find_experiments
from benchmarks.experiments.tables import (
    claim_section,
    claim_verdict,
    claim_verdicts,
    claims_overview,
    expert_table,
    gain_p_value,
    greedy_table,
    print_tables,
    results_table,
    seeds_rate_interval,
    summary_table,
)
from tests.unit.benchmarks.experiments.made_records import lake, record
from vlm_envs.errors import ConfigError

NUM_LEVELS = 200
CHECKOUT = Path(__file__).parents[4]
KEPT = CHECKOUT / "docs" / "experiments"


class TestResults:
    """Recipes beside their starts, baselines, and experts."""

    @pytest.mark.soak
    def test_tables_of_the_notebook_are_of_the_records_in_the_repository(self):
        page = (CHECKOUT / "docs" / "research" / "tiny-recipes.md").read_text(encoding="utf-8")
        for table_of in (results_table, expert_table, greedy_table):
            table = table_of(load_records(KEPT, "results"))
            assert len(table) > 4 and "\n".join(table) in page

    @pytest.mark.soak
    def test_the_table_of_results_has_the_notebook_s_numbers(self):
        def cells_of(rows: list[str]) -> dict[str, list[str]]:
            split = [row.removesuffix(" |").removeprefix("| ").split(" | ") for row in rows]
            return {recipe.partition(",")[0]: cells for recipe, *cells in split}

        page = (CHECKOUT / "docs" / "results.md").read_text(encoding="utf-8")
        shown = cells_of([line for line in page.splitlines() if line.startswith("| `")])
        full = cells_of(results_table(load_records(KEPT, "results")))
        columns = [
            full["recipe"].index(name) for name in ("blind script", "start", "trained (95 %)", "its expert", "minutes")
        ]
        assert len(shown) == 9
        assert {recipe: [full[recipe][column] for column in columns] for recipe in shown} == shown

    def test_the_readme_s_table_is_of_the_records_in_the_repository(self):
        table = summary_table(load_records(KEPT, "results"))
        assert len(table) == 2 + 9
        assert "\n".join(table) in (CHECKOUT / "README.md").read_text(encoding="utf-8")

    def test_the_summary_has_one_row_per_world_and_leaves_out_controls(self):
        world = lake([0.0] * 40, [0.0] * 10 + [1.0] * 30, world="VLM/FrozenLake-v0", lazy=[1.0] + [0.0] * 39)
        seeds = [record(world, seed=seed) for seed in range(2)]
        svg = replace(world, world="VLM/SVG-v0", measure="similarity")
        *_, of_lake, drawing = summary_table(
            [*seeds, record(world, variant="control"), record(svg, variant="svg_tiny")]
        )
        assert of_lake == "| FrozenLake | 0% | 75% | 2% |"
        assert drawing == "| SVG (similarity) | 0% | 75% | 2% |"

    def test_a_policy_is_compared_with_its_start_decoded_greedily(self, tmp_path, capsys):
        world = lake([0.0] * 40, [0.0] * 10 + [1.0] * 30)
        assert greedy_table([record(world)]) == []
        greedy = replace(world, greedy_before=[0.0] * 20 + [1.0] * 20)
        seeds = [record(greedy, seed=seed) for seed in range(2)]
        heading, _, row = greedy_table([*seeds, record(world, variant="other")])
        assert "both greedy" not in heading and "other" not in row
        assert row.startswith("| `lake_tiny` | 0.000 | 0.500 | 0.750 | +0.250 (")
        both = [record(replace(greedy, greedy_after=[1.0] * 40), seed=seed) for seed in range(2)]
        *_, row, unknown = greedy_table([*both, *(replace(each, variant="other") for each in seeds)])
        assert "| +0.500 (" in row and unknown.endswith("|  |")
        for each in both:
            replace(each, variant="sokoban_tiny").save(tmp_path)
        assert main(["experiment", "results", "--table", "--results", str(tmp_path)]) == 0
        assert "| both greedy (95 % CI, p by Holm's method) |" in capsys.readouterr().out

    def test_a_policy_is_compared_with_an_expert_that_errs(self, tmp_path, capsys):
        world = lake([0.0] * 40, [0.0] * 10 + [1.0] * 30)
        optimal = record(replace(world, expert=[1.0] * 40), variant="optimal")
        assert expert_table([record(world, variant="own"), optimal]) == []
        experts = [[1.0] * 20 + [0.0] * 20, [0.0] * 40]
        seeds = [
            record(replace(world, expert=expert), seed=seed, variant="svg_tiny") for seed, expert in enumerate(experts)
        ]
        heading, _, row = expert_table([*seeds, optimal])
        assert heading == "| recipe | its expert | trained | trained − its expert (95 % CI, p by Holm's method) |"
        assert row.startswith("| `svg_tiny` | 0.250 | 0.750 | +0.500 (")
        for each in seeds:
            each.save(tmp_path)
        assert main(["experiment", "results", "--table", "--results", str(tmp_path)]) == 0
        assert row in capsys.readouterr().out

    @pytest.mark.parametrize("width", [60, 110])
    def test_in_a_terminal_cells_are_wrapped_and_columns_that_do_not_fit_are_named(self, width):
        names = [f"{name} of all" for name in ("recipe", "start", "p", "expert", "greedy", "told", "blind", "used")]
        row = ["**0.889** (0.854 to 0.922)"] * len(names)
        lines = ["Solved:", *(f"| {' | '.join(cells)} |" for cells in (names, ["---"] * len(names), row))]
        shown, piped = io.StringIO(), io.StringIO()
        print_tables([lines], Console(file=shown, force_terminal=True, no_color=True, width=width))
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())
        assert all(len(line) <= width for line in plain.splitlines())
        assert "|" not in plain and "*" not in plain and "0.889" in plain
        assert all(name.split()[0] in plain for name in names)
        assert ("Wider terminals" in plain) == (width == 60)
        print_tables([lines], Console(file=piped, width=width))
        assert piped.getvalue().splitlines() == lines

    def test_a_row_has_the_means_their_interval_and_the_paired_p_value(self):
        world = lake([0.0] * 30 + [1.0] * 10, [0.0] * 10 + [1.0] * 30)
        assert gain_p_value([world]) == pytest.approx(2 / 2**20)
        *_, row = results_table([record(world)])
        assert row.startswith("| `lake_tiny` | 0.000 | 0.250 | **0.750** (0.598 to 0.858) | < 0.0001 |")

    @pytest.mark.soak
    def test_seeds_of_a_variant_share_a_row_whose_interval_covers_seeds_too(self):
        start = [0.0] * 30 + [1.0] * 10
        good, bad = ([0.0] * (40 - num) + [1.0] * num for num in (36, 24))
        seeds = [record(lake(start, after), seed=seed, minutes=seed + 1) for seed, after in enumerate((good, bad))]
        *_, row = results_table(seeds)
        _, variant, _, before, after, *_, minutes, _, num_seeds, _ = row.split("|")
        assert (variant, num_seeds, before, minutes) == (" `lake_tiny` ", " 2 × 40 ", " 0.250 ", " 2 ")
        waiting = results_table([*seeds, record(lake(start, good), seed=2, minutes=12)])[-1]
        assert waiting.endswith("| 2 | lake | 3 × 40 |"), "one that had to wait"
        mean, low, _, high = after.strip(" *)").replace("**", "").replace("(", "").split()
        assert float(mean) == 0.75 and float(low) < 0.6 and float(high) > 0.89, "wider than one seed's"
        *_, first, second = results_table([seeds[0], record(lake(start, bad), seed=1, temperature=0.0)])
        assert "| 1 × 40 |" in first and "temperature 0" in second, "sampled otherwise"
        for other in ({"num_iterations": 2}, {"setup": "of other settings, or another start"}):
            apart = results_table([seeds[0], record(lake(start, bad), seed=1, **other)])
            assert len(apart) == 4, "trained otherwise"
            assert f"`lake_tiny`, {other.get('num_iterations', 3)} iterations |" in apart[-1]
        similar = record(lake(start, good, "similarity"))
        assert results_table([similar])[-1].startswith("| `lake_tiny`, similarity |")
        assert len(results_table([replace(each, setup="") for each in seeds])) == 4, "their settings are unknown"
        with pytest.raises(ConfigError, match="Two records of lake_tiny have seed 0"):
            results_table([seeds[0], seeds[0]])

    def test_what_was_not_measured_has_no_column(self):
        world = lake([0.0] * 40, [1.0] * 40)
        plain = record(world)
        for measured, heading, cell in (
            ({"blind": [0.25] * 40}, "blank images", "0.250"),
            ({"expert": [0.75] * 40}, "its expert", "0.750"),
            ({"greedy_before": [0.25] * 40}, "decoded greedily: start, trained", "0.250 → …"),
            (
                {"looked_before": [0.0, 1.0] * 20, "looked_after": [1.0] * 40},
                "tool used: start, trained",
                "0.500 → 1.000",
            ),
        ):
            assert heading not in results_table([plain])[0]
            head, _, *rows = results_table([plain, record(replace(world, **measured), variant="other")])
            cells = [row.split(" | ")[head.split(" | ").index(heading)].strip() for row in rows]
            assert sorted(cells) == ["", cell]

    def test_a_level_that_is_played_several_times_counts_as_one(self):
        start, after = [0.0] * 30 + [1.0] * 10, [0.0] * 10 + [1.0] * 30
        once = lake(start, after)
        twice = replace(lake(start * 2, after * 2), levels=once.levels * 2, lazy=[0.0] * 80)
        assert gain_p_value([twice]) == pytest.approx(gain_p_value([once]))
        assert seeds_rate_interval([twice]) == pytest.approx(seeds_rate_interval([once]), abs=0.02)
        for seeds in (1, 2):
            rows = [results_table([record(world, seed=seed) for seed in range(seeds)])[-1] for world in (once, twice)]
            low, high = (re.search(r"\((0\.\d+) to (0\.\d+)\)", row).groups() for row in rows)
            assert [float(each) for each in high] == pytest.approx([float(each) for each in low], abs=0.02)
        similar = lake([0.4] * 40, [0.4] * 20 + [0.7] * 20, "similarity")
        alike = replace(similar, levels=["a"] * 20 + ["b"] * 20)
        assert gain_p_value([similar]) < 0.001 and gain_p_value([alike]) == 1.0, "one level proves nothing"
        assert tuple(seeds_rate_interval([alike])) == pytest.approx((0.4, 0.7))

    def test_similarities_have_an_interval_of_resampled_levels(self):
        values = [0.4] * 20 + [0.6] * 20
        low, high = seeds_rate_interval([lake(values, values, "similarity")])
        assert 0.45 < low < 0.5 < high < 0.55
        assert gain_p_value([lake([0.4] * 40, [0.5] * 40, "similarity")]) < 0.01
        assert gain_p_value([lake([0.4] * 40, [0.4] * 40, "similarity")]) == 1.0


@pytest.fixture(scope="module")
def argos():
    """Argos' claim: one rival, and a start that has to solve 0.4."""
    return CLAIMS["argos"]()


def outcome(experiment, variant, seed, share, *, first=0, num_levels=NUM_LEVELS):
    """Returns a record with this share of solved levels, from the given one on."""
    solved = [float(first <= level < first + share * num_levels) for level in range(num_levels)]
    world = WorldRecord(world="clips", env_id="VLM/VideoQA-v0", measure="success", after=solved)
    measures = {"argos/grounding": share / 2}
    fields = {"experiment": experiment.name, "variant": variant, "seed": seed, "measures": measures, "minutes": 1.0}
    return Record(**fields, worlds=[world], num_episodes=8)


def outcomes(experiment, method, rival, *, start=0.5, seeds=(1, 2, 3), first=0):
    runs = [outcome(experiment, "gated", seed, method) for seed in seeds]
    runs += [outcome(experiment, "outcome_only", seed, rival, first=first) for seed in seeds]
    return [*runs, outcome(experiment, START, 0, start)]


class TestClaims:
    """Papers' claims in words."""

    @pytest.mark.parametrize(
        ("method", "rival", "first", "text"),
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
    def test_a_difference_has_a_verdict(self, argos, method, rival, first, text):
        found = claim_verdicts(argos, outcomes(argos, method, rival, first=first))
        assert found["outcome_only"].text == claim_verdict(found) == text
        assert found["outcome_only"].gap.mean == pytest.approx(method - rival, abs=0.01)

    def test_seeds_that_disagree_prove_nothing(self, argos):
        known = [each for each in outcomes(argos, 0.7, 0.6) if (each.variant, each.seed) != ("gated", 2)]
        assert claim_verdict(claim_verdicts(argos, [*known, outcome(argos, "gated", 2, 0.45)])) == "cannot be told"

    def test_a_start_that_sees_nothing_allows_no_verdict(self, argos):
        known = outcomes(argos, 0.8, 0.6, start=0.39)
        assert claim_verdict(claim_verdicts(argos, known)) == "cannot be told"
        assert claim_verdict(claim_verdicts(argos, known[:-1])) == "cannot be told"

    def test_missing_runs_are_reported_and_claim_nothing(self, argos):
        assert claim_verdict(claim_verdicts(argos, [])) == "not run here yet"
        assert claim_section(argos, [])[2].endswith("**Not run here yet.**")
        two = outcomes(argos, 0.8, 0.6, seeds=(1, 2))
        assert claim_verdict(claim_verdicts(argos, two)) == "not finished"
        assert claim_verdicts(argos, two)["outcome_only"].text == "2 of 3 seeds"
        alone = [each for each in two if each.variant != "outcome_only"]
        assert claim_verdict(claim_verdicts(argos, alone)) == "not finished"
        assert "| outcome alone | 0 | not run here yet |" in "\n".join(claim_section(argos, alone))

    def test_one_rival_that_is_not_beaten_is_enough(self):
        vagen = CLAIMS["vagen"]()
        known = [
            outcome(vagen, label, seed, share)
            for seed in (1, 2, 3)
            for label, share in (("full", 0.8), ("grpo", 0.6), ("turn_ppo", 0.8))
        ]
        found = claim_verdicts(vagen, [*known, outcome(vagen, START, 0, 0.5)])
        assert {label: verdict.text for label, verdict in found.items()} == {
            "grpo": "shows",
            "turn_ppo": "does not show",
        }
        assert claim_verdict(found) == "does not show"

    def test_a_section_has_variants_seeds_and_measures(self, argos):
        known = outcomes(argos, 0.8, 0.6)
        *_, heading, _, start, gated, rival, _, cost = claim_section(argos, known)
        assert "| grounding |" in heading
        assert start.startswith("| start |  | 0.500 |") and "| 0.250 |" in start
        assert "**0.800**" in gated and "0.800, 0.800, 0.800" in gated and "+" not in gated
        assert "**0.600**" in rival and "+0.200" in rival and rival.endswith("| shows |")
        assert cost == "6 runs, 6 minutes of one thread."
        *_, row = claims_overview({"argos": (argos, known)})
        assert "| [Argos](#argos) |" in row and row.endswith("| **shows** |")

    def test_runs_with_other_numbers_of_levels_are_not_paired(self, argos):
        known = [each for each in outcomes(argos, 0.8, 0.6) if (each.variant, each.seed) != ("gated", 2)]
        with pytest.raises(ConfigError, match=r"gated-2 .* of argos have .*100.* cannot be paired"):
            claim_verdicts(argos, [*known, outcome(argos, "gated", 2, 0.5, num_levels=100)])

    @pytest.mark.soak
    def test_tables_of_the_page_are_of_the_records_in_the_repository(self, capsys):
        assert main(["experiment", "ablations", "--table", "--results", str(KEPT)]) == 0
        page = (CHECKOUT / "docs" / "research" / "ablations.md").read_text(encoding="utf-8")
        shown = capsys.readouterr().out
        assert shown.count("\n## ") == 5 and shown.strip() in page, "python -m benchmarks experiment ablations --table"


def test_an_experiment_of_curves_has_no_table(capsys):
    (curves,) = find_experiments("curves")
    assert main(["experiment", "curves", "--table", "--results", str(KEPT)]) == 2
    assert f"{curves.name} records only learning curves" in capsys.readouterr().err
