"""From a run to a line of the table."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent
from benchmarks.__main__ import main
from benchmarks.results.collect import _looked, collected, curve, differences, file_name, setup_of
from benchmarks.results.picture import draw
from benchmarks.results.report import interval_of, lines, load_results, p_value
from benchmarks.results.result import Result, WorldResult
from tests.unit.benchmarks.models.short_search import shorten_search
from tests.unit.training.batches import run_config
from training.algorithms.grpo import GRPO
from training.config.world_spec import WorldSpec
from training.loop.evaluation import evaluate
from training.run import train
from vlm_envs.errors import ConfigError
from vlm_envs.records.run_data import RunReader
from vlm_envs.splits import split_seeds

CHECKOUT = Path(__file__).parents[4]
LAKE = WorldSpec(
    env_id="VLM/FrozenLake-v0",
    kwargs={"prompt_format": "grounding_worldmodeling", "representation": "structured", "max_turns": 2},
)


def made(before, after, measure="success"):
    return WorldResult(
        world="lake",
        env_id="VLM/FrozenLake-v0",
        kwargs={},
        measure=measure,
        levels=[str(level) for level in range(len(before))],
        before=before,
        after=after,
        lazy=[0.0] * len(before),
    )


def result(*worlds, **changes):
    fields = {"recipe": "lake_tiny", "title": "GRPO", "seed": 0, "setup": "a", "num_parameters": 7, "num_iterations": 3}
    return Result(**fields | {"num_episodes": 24, "minutes": 1.2, "worlds": list(worlds)} | changes)


@pytest.fixture(autouse=True)
def short_search(monkeypatch):
    """What the lazy rival comes to is not asked here."""
    shorten_search(monkeypatch)


@pytest.fixture(scope="module")
def start(tiny_directory, tmp_path_factory):
    """A model beside which it says what it has imitated."""
    start = shutil.copytree(tiny_directory, tmp_path_factory.mktemp("starts") / "start")
    made_from = {"cold_start": {"suboptimal_rate": 0.5}, "worlds": [asdict(LAKE)]}
    (start / "provenance.json").write_text(json.dumps(made_from))
    return start


@pytest.fixture(scope="module")
def run(start, tmp_path_factory):
    before = torch.get_num_threads()
    directory = train(
        run_config(
            name="lake",
            output=str(tmp_path_factory.mktemp("runs")),
            model=str(start),
            worlds=(LAKE,),
            algorithm=GRPO(),
            sampling=SamplingConfig(max_new_tokens=4),
            num_iterations=2,
            num_eval_episodes=3,
            first_eval_level=5,
            num_threads=1,
        )
    )
    torch.set_num_threads(before)
    return directory


@pytest.fixture(scope="module")
def its_result(run):
    return collected(run)


@pytest.mark.soak
def test_a_run_becomes_a_result_with_its_rivals_on_the_same_levels(run, tmp_path, monkeypatch):
    played, rates = [], []

    def evaluate_noting(agent, spec, **options):
        rates.append(getattr(agent, "suboptimal_rate", None))
        played.append(evaluate(agent, spec, **options))
        return played[-1]

    monkeypatch.setattr("benchmarks.results.rivals.evaluate", evaluate_noting)
    found = collected(run)
    assert 0.5 in rates, "the expert is the one that the start says it has imitated"
    rivals = [rival for rival in played if rival.split == "test"]  # others show whether there are pictures
    seeds = [[each.seed for each in rival.trajectories] for rival in rivals]
    assert [[each["seed"] for each in RunReader(run).trajectories("after")], *seeds] == [
        list(split_seeds("test", 3, start=5))
    ] * 8
    (world,) = found.worlds
    levels = [world.before, world.after, world.lazy, world.expert, world.blind, world.told_before, world.told_after]
    levels += [world.greedy_before, world.greedy_after]
    assert [len(each) for each in levels] == [3] * 9
    assert (found.recipe, found.num_iterations, found.num_episodes) == ("lake", 2, 8)
    assert [point["iteration"] for point in found.curve] == [0.0, 1.0]
    found.save(tmp_path / "lake.json")
    assert load_results(tmp_path) == [found]


def test_levels_that_were_lost_from_one_evaluation_alone_are_not_paired_by_place(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "lost")
    for label, lost in (("before", 0), ("after", 2)):
        path = other / "trajectories" / f"{label}.jsonl"
        kept = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for place, line in enumerate(kept) if place != lost))
    path = other / "evaluations.jsonl"
    told = [json.loads(line) | {"num_episodes": 2} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in told))
    with pytest.raises(ConfigError, match="evaluated before on other levels than after"):
        collected(other)


@pytest.mark.soak
def test_rivals_are_sampled_as_the_runs_own_evaluations_were(run, tmp_path, monkeypatch):
    asked, seeds = [], set()

    def rival(*, sampling, seed, **settings):
        asked.append(sampling)
        seeds.add(seed)
        return make_agent("random")

    for kind in ("ToldHFAgent", "BlindHFAgent", "HFAgent"):
        monkeypatch.setattr(f"benchmarks.results.rivals.{kind}", rival)
    saved = json.loads((run / "config.json").read_text())
    other = tmp_path / "greedy"
    shutil.copytree(run, other)
    for evaluated, expected in (({"temperature": 0.0}, 0.0), (None, 1.0)):  # None: a run of before the option
        saved.pop("eval_sampling", None)
        settings = saved if evaluated is None else saved | {"eval_sampling": evaluated}
        (other / "config.json").write_text(json.dumps(settings))
        asked.clear()
        found = collected(other)
        assert found.temperature == expected and ("temperature 0" in lines([found])[-1]) == (expected == 0.0)
        drawn, greedy = [expected] * 3, [0.0] * 2
        assert sorted(each.temperature for each in asked) == sorted([*drawn, *greedy])
        assert {each.max_new_tokens for each in asked} == {4}
    assert seeds == {saved["seed"] + 1}, "they draw otherwise than the run's own evaluations"


@pytest.mark.soak
def test_the_command_adds_a_run_and_draws_the_table(run, tmp_path, capsys):
    picture = tmp_path / "results.png"
    words = ["results", "--add", str(run), "--results", str(tmp_path / "results"), "--picture", str(picture)]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "| `lake` | 0." in shown and "| VLM/FrozenLake-v0 | 1 × 3 |" in shown
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["lake.json"]
    assert picture.stat().st_size > 5000
    assert main(["results", "--results", str(tmp_path / "none")]) == 2
    assert "--add runs/frozenlake_tiny" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"recipe": "lake_of_others"}, "another recipe."),
        ({"seed": 3}, "another seed."),
        ({"setup": "others"}, "other settings or another start."),
        ({"num_iterations": 80}, "another number of iterations."),
        ({"num_iterations": 80, "setup": ""}, "another number of iterations."),
        ({"levels": ["0"] * 3, "seed": 3}, "another seed and other test levels."),
    ],
    ids=str,
)
@pytest.mark.sample(2)
def test_a_result_of_anything_else_is_not_replaced(run, its_result, tmp_path, capsys, changes, told):
    kept = tmp_path / "lake.json"
    its_result.save(kept)
    assert differences(Result.load(kept), run) == []
    assert differences(replace(its_result, setup=""), run) == [], "older results do not tell their settings"
    worlds = [replace(world, levels=changes.get("levels", world.levels)) for world in its_result.worlds]
    others = {name: value for name, value in changes.items() if name != "levels"}
    replace(its_result, worlds=worlds, **others).save(kept)
    before = kept.read_bytes()
    assert main(["results", "--add", str(run), "--results", str(tmp_path)]) == 2
    assert f"is not of {run}: it has {told}" in capsys.readouterr().err
    assert kept.read_bytes() == before


def test_two_runs_of_one_recipe_and_seed_are_refused_before_either_is_added(run, tmp_path, capsys):
    other = shutil.copytree(run, tmp_path / "other")
    assert main(["results", "--add", str(run), str(other), "--results", str(tmp_path / "results")]) == 2
    assert "are of one recipe and seed" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_an_unfinished_run_is_refused(run, tmp_path, capsys):
    other = tmp_path / "unfinished"
    other.mkdir()
    (other / "config.json").write_bytes((run / "config.json").read_bytes())
    assert main(["results", "--add", str(other), "--results", str(tmp_path)]) == 2
    assert "is not finished" in capsys.readouterr().err


def test_evaluations_that_were_not_recorded_whole_are_refused(run, tmp_path, capsys):
    other = tmp_path / "half"
    (other / "trajectories").mkdir(parents=True)
    for name in ("config.json", "metrics.jsonl", "evaluations.jsonl", "trajectories/before.jsonl"):
        (other / name).write_bytes((run / name).read_bytes())
    recorded = (run / "trajectories" / "after.jsonl").read_text().splitlines(keepends=True)
    (other / "trajectories" / "after.jsonl").write_text("".join(recorded[:2]))
    assert main(["results", "--add", str(other), "--results", str(tmp_path)]) == 2
    assert "Of the 3 episodes of 'after' in VLM/FrozenLake-v0, 2 were recorded" in capsys.readouterr().err


def test_a_line_has_the_means_their_interval_and_the_paired_p_value():
    world = made([0.0] * 30 + [1.0] * 10, [0.0] * 10 + [1.0] * 30)
    assert p_value(world) == pytest.approx(2 / 2**20)
    *_, row = lines([result(world)])
    assert row.startswith("| `lake_tiny` | 0.000 | 0.250 | **0.750** (0.598 to 0.858) | < 0.0001 |")


@pytest.mark.soak
def test_seeds_of_a_recipe_share_a_line_whose_interval_is_of_other_seeds_too():
    start = [0.0] * 30 + [1.0] * 10
    good, bad = ([0.0] * (40 - num) + [1.0] * num for num in (36, 24))
    seeds = [result(made(start, after), seed=seed, minutes=seed + 1) for seed, after in enumerate((good, bad))]
    *_, row = lines(seeds)
    _, recipe, _, before, after, *_, minutes, _, num_seeds, _ = row.split("|")
    assert (recipe, num_seeds, before, minutes) == (" `lake_tiny` ", " 2 × 40 ", " 0.250 ", " 2 ")
    waiting = lines([*seeds, result(made(start, good), seed=2, minutes=12)])[-1]
    assert waiting.endswith("| 2 | lake | 3 × 40 |"), "one that had to wait"
    mean, low, _, high = after.strip(" *)").replace("**", "").replace("(", "").split()
    assert float(mean) == 0.75 and float(low) < 0.6 and float(high) > 0.89, "wider than one seed's, 0.598 to 0.858"
    *_, first, second = lines([seeds[0], result(made(start, bad), seed=1, temperature=0.0)])
    assert "| 1 × 40 |" in first and "temperature 0" in second, "what was sampled otherwise stands beside it"
    for other in ({"num_iterations": 2}, {"setup": "of other settings, or another start"}):
        apart = lines([seeds[0], result(made(start, bad), seed=1, **other)])
        assert len(apart) == 4, "or was trained otherwise"
        assert f"`lake_tiny`, {other.get('num_iterations', 3)} iterations |" in apart[-1], "and two of a name say more"
    similar = result(made(start, good, "similarity"))
    assert lines([similar])[-1].startswith("| `lake_tiny`, similarity |")
    assert len(lines([replace(each, setup="") for each in seeds])) == 4, "nobody knows how those were trained"
    with pytest.raises(ConfigError, match="Two results of lake_tiny are of seed 0"):
        lines([seeds[0], seeds[0]])


def test_what_nobody_measured_has_no_column():
    world = made([0.0] * 40, [1.0] * 40)
    plain = result(world)
    for told, heading, cell in (
        ({"blind": [0.25] * 40}, "shown grey", "0.250"),
        ({"expert": [0.75] * 40}, "its expert", "0.750"),
        ({"greedy_before": [0.25] * 40}, "decoded greedily: start, trained", "0.250 → …"),
        ({"looked_before": [0.0, 1.0] * 20, "looked_after": [1.0] * 40}, "tool used: start, trained", "0.500 → 1.000"),
    ):
        assert heading not in lines([plain])[0]
        head, _, *rows = lines([plain, result(replace(world, **told), recipe="other")])
        cells = [row.split(" | ")[head.split(" | ").index(heading)].strip() for row in rows]
        assert sorted(cells) == ["", cell]


def test_who_looked_is_who_called_a_tool_that_did_its_work():
    vain, looked, twice = ({"metrics": {"calls": 3.0, "successful_calls": number}} for number in (0.0, 1.0, 2.0))
    assert _looked([vain, looked], [twice, looked]) == {"looked_before": [0.0, 1.0], "looked_after": [1.0, 1.0]}
    assert _looked([vain, vain], [vain, vain]) == {"looked_before": [0.0, 0.0], "looked_after": [0.0, 0.0]}
    assert _looked([{"metrics": {}}], [{"metrics": {}}]) == {}


def test_a_curve_has_what_thoughts_and_tools_came_to_where_there_are_any():
    told = [{"iteration": 1, "success": 0.5, "thought_score": 0.25, "tool_used": 0.0}]
    assert curve(told) == [{"iteration": 1.0, "success": 0.5, "thought": 0.25, "tool_used": 0.0}]
    assert curve([{"iteration": 1, "success": 0.5}]) == [{"iteration": 1.0, "success": 0.5}]


def test_a_picture_has_a_line_for_what_was_measured(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    drawn = {}
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.update(figure=figure))
    points = [{"iteration": 0.0, "success": 0.5, "tool_used": 0.25}, {"iteration": 1.0, "success": 0.5, "thought": 1.0}]
    world = replace(made([0.0] * 40, [1.0] * 40), expert=[0.5] * 40)
    draw([result(world, curve=points)], tmp_path / "results.png")
    lines_of = {line.get_label(): [*line.get_ydata()] for line in drawn["figure"].axes[0].get_lines()}
    assert lines_of["tool used"] == [0.25] and lines_of["thoughts of what is seen right"] == [1.0]
    assert lines_of["expert it imitated"] == [0.5, 0.5] and lines_of["lazy rival"] == [0.0, 0.0]
    assert "observations right" not in lines_of


def test_a_level_that_is_played_several_times_counts_as_one():
    start, after = [0.0] * 30 + [1.0] * 10, [0.0] * 10 + [1.0] * 30
    once = made(start, after)
    twice = replace(made(start * 2, after * 2), levels=once.levels * 2, lazy=once.lazy * 2)
    assert p_value(twice) == pytest.approx(p_value(once))
    assert interval_of(after * 2, twice) == pytest.approx(interval_of(after, once), abs=0.02)
    for seeds in (1, 2):
        rows = [lines([result(world, seed=seed) for seed in range(seeds)])[-1] for world in (once, twice)]
        low, high = (re.search(r"\((0\.\d+) to (0\.\d+)\)", row).groups() for row in rows)
        assert [float(each) for each in high] == pytest.approx([float(each) for each in low], abs=0.02)
    similar = made([0.4] * 40, [0.4] * 20 + [0.7] * 20, "similarity")
    alike = replace(similar, levels=["a"] * 20 + ["b"] * 20)
    assert p_value(similar) < 0.001 and p_value(alike) == 1.0, "one level that differs proves nothing"
    assert tuple(interval_of(alike.after, alike)) == pytest.approx((0.4, 0.7))


def test_levels_are_told_apart_by_their_start(run, its_result):
    (world,) = its_result.worlds
    hashes = [each["start_state_hash"] for each in RunReader(run).trajectories("after")]
    assert world.levels == [each[:8] for each in hashes] and len(hashes) == 3


def test_runs_are_seeds_of_each_other_where_settings_and_starts_are_the_same(run, tmp_path):
    start = tmp_path / "start"
    start.mkdir()
    (start / "config.json").write_text("{}")
    (start / "model.safetensors").write_bytes(b"weights")
    config = json.loads((run / "config.json").read_text()) | {"model": str(start)}
    setup = setup_of(config)
    faster = [{**each, "workers": "process", "num_workers": 2} for each in config["worlds"]]
    aside = {"seed": 5, "name": "other", "commit": "abc", "num_threads": 2, "num_eval_episodes": 9, "worlds": faster}
    assert setup_of(config | aside) == setup
    assert setup_of(config | {"cold_start": {}}) == setup, "nothing is imitated"
    assert setup_of(config | {"num_groups": 7}) != setup
    before = {name: value for name, value in config["ppo"].items() if name != "target_kl"}
    assert setup_of(config | {"ppo": before}) == setup, "there was no such setting then"
    assert setup_of(config | {"ppo": before | {"target_kl": 0.1}}) != setup
    (start / "model.safetensors").write_bytes(b"others")
    assert setup_of(config) != setup
    own = [config | {"model": None, "cold_start": {"num_steps": number}} for number in (3, 3, 4)]
    assert setup_of(own[0]) == setup_of(own[1]) != setup_of(own[2])
    silent, telling = (config | {"model": None, "cold_start": {"num_steps": 3, "tells_plan": b}} for b in (False, True))
    assert setup_of(silent) == setup_of(own[0]) != setup_of(telling), "no expert told its plan then"


@pytest.mark.parametrize(
    ("name", "seed", "told"),
    [("lake", 0, "lake.json"), ("lake", 2, "lake-2.json"), ("lake-2", 2, "lake-2.json"), ("lake-2", 0, "lake-2.json")],
)
def test_a_seed_at_the_end_of_a_name_is_not_the_recipes(tmp_path, name, seed, told):
    (tmp_path / "config.json").write_text(json.dumps({"recipe": name, "seed": seed}))
    assert file_name(tmp_path) == told


@pytest.mark.parametrize(
    ("worlds", "told"),
    [
        (None, "Unterminated"),
        ([], "no world"),
        ([made([None], [1.0])], "real number"),
        ([made([float("nan")], [1.0])], "no number"),
        ([made([1.0], [])], "not as many"),
        ([made([], [])], "no levels"),
        ([replace(made([0.0], [1.0]), world=None)], "no name"),
        ([made([10**400], [1.0])], "too large"),
    ],
)
def test_a_file_that_is_no_result_is_named(tmp_path, worlds, told):
    text = '{"recipe": "lake_ti' if worlds is None else json.dumps(asdict(result(*worlds)))
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(ConfigError, match=rf"broken\.json is no result that this version reads: .*{told}"):
        load_results(tmp_path)


def test_similarities_have_an_interval_of_resampled_levels():
    values = [0.4] * 20 + [0.6] * 20
    low, high = interval_of(values, made(values, values, "similarity"))
    assert 0.45 < low < 0.5 < high < 0.55
    assert p_value(made([0.4] * 40, [0.5] * 40, "similarity")) < 0.01
    assert p_value(made([0.4] * 40, [0.4] * 40, "similarity")) == 1.0


def test_long_curves_become_means():
    drawn = curve([{"iteration": i, "success": i / 250, "score/observation": None} for i in range(250)])
    assert len(drawn) == 84 and drawn[0] == {"iteration": 1.0, "success": pytest.approx(1 / 250, abs=1e-4)}


def test_a_world_that_is_measured_otherwise_has_that_drawn():
    (point,) = curve([{"iteration": 0, "success": 0.1, "metric/similarity": 0.7}], ["similarity"])
    assert point == {"iteration": 0.0, "similarity": 0.7}


def test_panels_are_drawn_for_each_run(tmp_path):
    points = [{"iteration": float(i), "success": 0.5, "observation": 0.9, "prediction": 0.8} for i in range(3)]
    recipes = [result(made([0.0], [1.0]), curve=points, recipe=str(i // 2), seed=i % 2) for i in range(7)]
    draw(recipes, tmp_path / "all.png")
    assert (tmp_path / "all.png").stat().st_size > 5000


def test_results_are_plain_json(tmp_path):
    result(made([0.0], [1.0])).save(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["worlds"][0]["after"] == [1.0]
