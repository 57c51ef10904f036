"""From a run to its record, with its baselines on the same levels."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace

import pytest
import torch

from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent
from benchmarks.experiments import measuring
from benchmarks.experiments.experiment import Claim, Experiment, Variant
from benchmarks.experiments.measuring import (
    Baselines,
    curve_points,
    imitated_of,
    measured,
    setup_of,
    shows_images,
    tool_uses,
)
from benchmarks.experiments.records import Record, load_records
from tests.unit.benchmarks.experiments.made_records import lake, record
from tests.unit.benchmarks.models.short_search import shorten_search
from tests.unit.training.batches import NO_JUDGE, run_config
from training.algorithms.grpo import GRPO
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.demonstrations import expert_of
from training.config.world_spec import WorldSpec
from training.loop.evaluation import evaluate
from training.run import train
from vlm_envs.errors import ConfigError
from vlm_envs.records.run_data import RunReader
from vlm_envs.splits import split_seeds

LAKE = WorldSpec(
    env_id="VLM/FrozenLake-v0",
    kwargs={"prompt_format": "grounding_worldmodeling", "representation": "structured", "max_turns": 2},
)
RESULTS = Experiment(
    name="results", question="?", variants={"lake": Variant(command="lake")}, seeds=(0,), has_baselines=True
)


@pytest.fixture(autouse=True)
def short_search(monkeypatch):
    """Shortens the search for blind scripts, whose outcomes are not tested here."""
    shorten_search(monkeypatch)


@pytest.fixture(scope="module")
def start(tiny_directory, tmp_path_factory):
    """A model whose provenance says what it imitated."""
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
def its_record(run):
    return measured(RESULTS, "lake", 0, run)


@pytest.mark.soak
def test_a_run_becomes_a_record_with_its_baselines_on_the_same_levels(run, tmp_path, monkeypatch):
    played, rates = [], []

    def evaluate_noting(agent, spec, **options):
        rates.append(getattr(agent, "suboptimal_rate", None))
        played.append(evaluate(agent, spec, **options))
        return played[-1]

    monkeypatch.setattr(measuring, "evaluate", evaluate_noting)
    found = measured(RESULTS, "lake", 0, run)
    assert 0.5 in rates, "the expert is the one that the start says it has imitated"
    baselines = [each for each in played if each.split == "test"]  # others show whether there are images
    seeds = [[each.seed for each in baseline.trajectories] for baseline in baselines]
    assert [[each["seed"] for each in RunReader(run).trajectories("after")], *seeds] == [
        list(split_seeds("test", 3, start=5))
    ] * 8
    (world,) = found.worlds
    outcomes = [world.before, world.after, world.lazy, world.expert, world.blind, world.told_before, world.told_after]
    outcomes += [world.greedy_before, world.greedy_after]
    assert [len(each) for each in outcomes] == [3] * 9
    assert (found.experiment, found.variant, found.num_iterations, found.num_episodes) == ("results", "lake", 2, 8)
    (span,) = found.spans
    assert [point["iteration"] for point in span.points] == [0.0, 1.0] and found.made_by["commit"]
    found.save(tmp_path)
    assert load_records(tmp_path, "results") == [found]


@pytest.mark.soak
def test_a_claim_s_variant_and_its_start_play_the_claim_s_test_levels(start, tmp_path):
    claim = Claim(
        title="Small",
        text="One beats the other.",
        setting="Here.",
        method="one",
        worlds=(LAKE,),
        sampling=SamplingConfig(max_new_tokens=4),
        judge=NO_JUDGE,
        start=str(start),
        num_test_levels=2,
    )
    variants = {name: Variant(command=name) for name in ("one", "other")}
    experiment = Experiment(name="small", question="?", variants=variants, seeds=(1,), claim=claim)
    found = measured(experiment, "start", 0, None)
    assert (found.variant, found.num_episodes, len(found.outcomes)) == ("start", 0, 2)
    assert found.measures["num_turns"] and found.made_by["commit"] and found.spans == []


def test_levels_that_only_one_evaluation_lost_are_not_paired_by_position(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "lost")
    for label, lost in (("before", 0), ("after", 2)):
        path = other / "trajectories" / f"{label}.jsonl"
        kept = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for index, line in enumerate(kept) if index != lost))
    path = other / "evaluations.jsonl"
    lines = [json.loads(line) | {"num_episodes": 2} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ConfigError, match="different levels before and after"):
        measured(RESULTS, "lake", 0, other)


@pytest.mark.soak
def test_baselines_are_sampled_as_the_run_s_own_evaluations_were(run, tmp_path, monkeypatch):
    asked, seeds = [], set()

    def baseline(*, sampling, seed, **settings):
        asked.append(sampling)
        seeds.add(seed)
        return make_agent("random")

    for kind in ("ToldHFAgent", "BlindHFAgent", "HFAgent"):
        monkeypatch.setattr(measuring, kind, baseline)
    saved = json.loads((run / "config.json").read_text())
    other = tmp_path / "greedy"
    shutil.copytree(run, other)
    for evaluated, expected in (({"temperature": 0.0}, 0.0), (None, 1.0)):  # None: a run from before the option
        saved.pop("eval_sampling", None)
        settings = saved if evaluated is None else saved | {"eval_sampling": evaluated}
        (other / "config.json").write_text(json.dumps(settings))
        asked.clear()
        assert measured(RESULTS, "lake", 0, other).temperature == expected
        assert sorted(each.temperature for each in asked) == sorted([*[expected] * 3, 0.0, 0.0])
        assert {each.max_new_tokens for each in asked} == {4}
    assert seeds == {saved["seed"] + 1}, "they are sampled with another seed than the run's own evaluations"


def test_an_unfinished_run_is_refused(run, tmp_path):
    other = tmp_path / "unfinished"
    other.mkdir()
    (other / "config.json").write_bytes((run / "config.json").read_bytes())
    with pytest.raises(ConfigError, match="is not finished"):
        measured(RESULTS, "lake", 0, other)


def test_evaluations_that_were_not_recorded_as_a_whole_are_refused(run, tmp_path):
    other = tmp_path / "half"
    (other / "trajectories").mkdir(parents=True)
    for name in ("config.json", "metrics.jsonl", "evaluations.jsonl", "trajectories/before.jsonl"):
        (other / name).write_bytes((run / name).read_bytes())
    recorded = (run / "trajectories" / "after.jsonl").read_text().splitlines(keepends=True)
    (other / "trajectories" / "after.jsonl").write_text("".join(recorded[:2]))
    with pytest.raises(ConfigError, match=r"Of the 3 episodes of 'after' in VLM/FrozenLake-v0, 2 were recorded"):
        measured(RESULTS, "lake", 0, other)


def test_a_checkpoint_is_refused_as_a_run(tiny_directory):
    with pytest.raises(FileNotFoundError, match="is a checkpoint, not a run"):
        measured(RESULTS, "lake", 0, tiny_directory)


def test_a_tool_use_is_a_call_that_succeeded():
    vain, looked, twice = ({"metrics": {"calls": 3.0, "successful_calls": number}} for number in (0.0, 1.0, 2.0))
    assert tool_uses([vain, looked], [twice, looked]) == {"looked_before": [0.0, 1.0], "looked_after": [1.0, 1.0]}
    assert tool_uses([vain, vain], [vain, vain]) == {"looked_before": [0.0, 0.0], "looked_after": [0.0, 0.0]}
    assert tool_uses([{"metrics": {}}], [{"metrics": {}}]) == {}


def test_a_curve_has_thoughts_and_tools_where_there_are_any():
    logged = [{"iteration": 1, "success": 0.5, "thought_score": 0.25, "tool_used": 0.0}]
    assert curve_points(logged) == [{"iteration": 1.0, "success": 0.5, "thought": 0.25, "tool_used": 0.0}]
    assert curve_points([{"iteration": 1, "success": 0.5, "kl": 1.0}]) == [{"iteration": 1.0, "success": 0.5}]
    (point,) = curve_points([{"iteration": 0, "success": 0.1, "metric/similarity": 0.7}])
    assert point == {"iteration": 0.0, "success": 0.1, "similarity": 0.7}


def test_long_curves_become_means():
    drawn = curve_points([{"iteration": i, "success": i / 250, "score/observation": None} for i in range(250)])
    assert len(drawn) == 84 and drawn[0] == {"iteration": 1.0, "success": pytest.approx(1 / 250, abs=1e-4)}


def test_levels_are_identified_by_their_start(run, its_record):
    (world,) = its_record.worlds
    hashes = [each["start_state_hash"] for each in RunReader(run).trajectories("after")]
    assert world.levels == [each[:8] for each in hashes] and len(hashes) == 3


def test_runs_with_the_same_settings_and_start_are_seeds_of_each_other(run, tmp_path):
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
    (start / "model.safetensors").write_bytes(b"others")
    assert setup_of(config) != setup
    own = [config | {"model": None, "cold_start": {"num_steps": number}} for number in (3, 3, 4)]
    assert setup_of(own[0]) == setup_of(own[1]) != setup_of(own[2])


@pytest.mark.parametrize(
    ("worlds", "problem"),
    [
        (None, "Unterminated"),
        ([], "lacks"),
        ([lake([None], [1.0])], "real number"),
        ([lake([float("nan")], [1.0])], "not a number"),
        ([lake([1.0], [])], "numbers of outcomes and levels"),
        ([lake([], [])], "numbers of outcomes and levels"),
        ([replace(lake([0.0], [1.0]), world=None)], "lacks its name"),
        ([lake([10**400], [1.0])], "too large"),
    ],
)
def test_a_file_that_is_not_a_record_is_named(tmp_path, worlds, problem):
    text = '{"experiment": "res' if worlds is None else json.dumps(asdict(record(*worlds)))
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "broken.json").write_text(text)
    with pytest.raises(ConfigError, match=rf"broken\.json is not a record of an experiment .*{problem}.* Move it away"):
        load_records(tmp_path, "results")


def test_records_are_plain_json(tmp_path):
    path = record(lake([0.0], [1.0])).save(tmp_path)
    assert path.relative_to(tmp_path).as_posix() == "results/lake_tiny-0.json"
    assert json.loads(path.read_text())["worlds"][0]["after"] == [1.0]
    assert Record.load(path) == record(lake([0.0], [1.0]))


def test_each_baseline_is_of_the_model_that_its_name_says(monkeypatch):
    for kind in ("ToldHFAgent", "BlindHFAgent", "HFAgent"):
        monkeypatch.setattr(
            measuring,
            kind,
            lambda kind=kind, **settings: (kind, settings["model"], settings["sampling"].temperature),
        )
    found = baselines(start="start", trained="trained").agents(LAKE)
    assert (found["told_before"], found["told_after"]) == (
        ("ToldHFAgent", "start", 1.0),
        ("ToldHFAgent", "trained", 1.0),
    )
    assert (found["greedy_before"], found["greedy_after"]) == (("HFAgent", "start", 0.0), ("HFAgent", "trained", 0.0))
    assert found["blind"] == ("BlindHFAgent", "trained", 1.0) and "expert" not in found


def baselines(**changes):
    fields = {"start": None, "trained": None, "encoder": None, "sampling": SamplingConfig(), "seed": 1}
    return Baselines(**fields | {"imitated": ColdStartConfig(), "imitated_in": ()} | changes)


def test_the_expert_is_the_one_that_the_start_has_imitated():
    imitated = ColdStartConfig(mistake_rate=0.25, suboptimal_rate=0.5, tells_plan=True)
    expert = expert_of(LAKE, imitated, seed=3)
    assert (expert.mistake_rate, expert.suboptimal_rate, expert.tells_plan) == (0.25, 0.5, True)
    own = replace(LAKE, cold_start_suboptimal_rate=0.75)
    assert expert_of(own, imitated, seed=3).suboptimal_rate == 0.75, "a world of a mix may have its own rate"
    for nobody in (ColdStartConfig(num_steps=0), ColdStartConfig(data="recorded")):
        assert expert_of(LAKE, nobody, seed=3) is None


def test_a_start_s_provenance_says_what_it_imitated(tmp_path):
    lakes = [asdict(LAKE)]
    config = {"model": None, "cold_start": {"suboptimal_rate": 0.25}, "worlds": lakes}
    assert imitated_of(config) == (ColdStartConfig(suboptimal_rate=0.25), (LAKE,))
    of_another = config | {"model": str(tmp_path)}
    assert imitated_of(of_another)[1] == (), "nothing says what it imitated"
    made_from = {"cold_start": {"suboptimal_rate": 0.5, "tells_plan": True}, "worlds": lakes}
    (tmp_path / "provenance.json").write_text(json.dumps(made_from))
    assert imitated_of(of_another) == (ColdStartConfig(suboptimal_rate=0.5, tells_plan=True), (LAKE,))


def test_the_expert_is_as_suboptimal_as_in_the_world_of_the_start():
    other, own = (
        replace(LAKE, kwargs=kwargs, cold_start_suboptimal_rate=rate)
        for kwargs, rate in (({}, 0.5), (LAKE.kwargs, 0.75))
    )
    found = baselines(imitated_in=(other, own))
    assert found.expert(replace(LAKE, cold_start_suboptimal_rate=0.0)).suboptimal_rate == 0.75
    assert found.expert(replace(LAKE, kwargs={"size": 8})).suboptimal_rate == 0.5, "of another lake at least"
    assert found.expert(replace(LAKE, env_id="VLM/Sokoban-v0")) is None, "it imitated nothing there"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (LAKE, True),
        (WorldSpec(env_id="VLM/RewardJudging-v0", kwargs={"tracks": "instruction_following"}), False),
    ],
    ids=["a world of images", "a world of texts"],
)
def test_only_worlds_of_images_have_a_baseline_with_blank_ones(spec, expected):
    if not expected:
        pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")
    assert shows_images(spec) is expected
