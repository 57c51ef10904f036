"""iVGR's preset has the paper's constants, written out here; its small variant runs, and goes on after a kill."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace

import pytest
from PIL import Image

from judges.episode_rewards import ivgr as ivgr_rewards
from judges.episode_rewards.ivgr import IvgrSettings
from judges.scores import JudgeScore, Reward
from training.__main__ import main
from training.algorithms.grpo import GRPO
from training.cold_start.cold_start_config import ColdStartConfig
from training.mixture.mixture_config import Shares
from training.pools.pool_config import PoolConfig
from training.preflight import require_levels
from training.recipes.ivgr import ivgr, ivgr_tiny
from training.recipes.shipped import STAGED_RECIPES
from training.run import train
from training.stages.stages_config import StagesConfig
from training.update.learner import Learner
from vlm_envs.records.run_data import RunReader

APPENDIX_C = {
    "sft": {"num_epochs": 1.0, "batch_size": 64, "learning_rate": 1e-5, "final_learning_rate_ratio": 0.0},
    "rl": {"num_iterations": 360, "num_groups": 512, "group_size": 5},
    "ppo": {"learning_rate": 1e-6, "kl_coef": 0.01, "final_learning_rate_ratio": 1.0, "warmup_iterations": 0},
    "sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 4096},
    "judge": {"model": "Qwen/Qwen2.5-72B-Instruct", "temperature": 0.01},
}
APPENDIX_B = {"grounded": 0.45, "textual": 0.45, "general": 0.1}
SECTION_3_3 = {
    "format_weight": 1.0,
    "accuracy_weight": 1.0,
    "box_weight": 1.0,
    "consistency_weight": 1.0,
    "archive_threshold": 0.3,
    "one_deviation": 0.7,
    "both_deviations": 0.3,
    "num_judgements": 1,
    "temperature": 0.01,
}


def parts(config: StagesConfig):
    return [stage.run for stage in config.stages]


def of(config, names):
    return {name: getattr(config, name) for name in names}


def test_what_appendix_c_says():
    tuned, run = parts(ivgr())
    assert of(tuned, APPENDIX_C["sft"]) == APPENDIX_C["sft"]
    assert of(run, APPENDIX_C["rl"]) == APPENDIX_C["rl"]
    assert of(run.ppo, APPENDIX_C["ppo"]) == APPENDIX_C["ppo"]
    assert of(run.sampling, APPENDIX_C["sampling"]) == APPENDIX_C["sampling"]
    assert of(run.judge.endpoint, APPENDIX_C["judge"]) == APPENDIX_C["judge"]
    assert (run.ppo.kl_placement, run.ppo.kl_formula) == ("loss", "k3")
    assert isinstance(run.algorithm, GRPO) and run.algorithm.scale == "std"
    assert tuned.model == "Qwen/Qwen2.5-VL-7B-Instruct" and ivgr().stages[1].reference == "reset"


def test_what_appendix_b_says():
    run = parts(ivgr())[1]
    assert {spec.name: spec.weight for spec in run.worlds} == APPENDIX_B
    grounded, textual, general = run.worlds
    assert [spec.prompt_format for spec in run.worlds] == ["ivgr_grounded", "ivgr_textual", "ivgr_textual"]
    assert grounded.pool == textual.pool and not grounded.pool.reads_pass_rates, "of boxed queries all are taken"
    assert (general.pool.attempts, general.pool.min_pass_rate, general.pool.max_pass_rate) == (5, 0.2, 0.4)
    assert general.pool.draw == 74_000 + 100_000, "table 11: OpenMMReasoner-74K and ArxivQA-100K, before the filter"


def test_all_queries_are_trained_on_and_none_of_them_measures(tmp_path):
    """Section 4.1 and table 11: 37,000 queries with boxes, all of them; evaluations are of benchmarks."""
    run = parts(ivgr())[1]
    assert run.worlds[0].pool.draw == 37_000
    Image.new("RGB", (40, 30)).save(tmp_path / "a.png")
    row = {"problem": "What?", "answer": "A", "target_instances": [], "images": ["a.png"]}
    rows = []
    for number in range(40):  # each picture is of a split of its own by its hash
        (tmp_path / f"{number}.png").write_bytes((tmp_path / "a.png").read_bytes())
        rows.append(json.dumps(row | {"images": [f"{number}.png"]}))
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    worlds = tuple(replace(spec, kwargs=spec.kwargs | {"folder": str(tmp_path)}) for spec in run.worlds)
    for spec in worlds:
        with spec.made() as world:
            assert len(world.dynamics.source.ids("train")) == 40
    require_levels(replace(run, worlds=worlds))


def test_rewards_are_those_of_section_3_3():
    for config in (ivgr(), ivgr_tiny()):
        run = parts(config)[1]
        assert run.judge.episode_reward == "ivgr" and run.judge.reward_settings == ()
        assert all(spec.kwargs["answer_reward"] == spec.kwargs["format_reward"] == 0.0 for spec in run.worlds)
        assert run.judge.grounding_weight == run.judge.worldmodeling_weight == run.judge.repetition_penalty == 0.0
    assert of(IvgrSettings(), SECTION_3_3) == SECTION_3_3


@pytest.mark.parametrize(("preset", "iteration_of_each"), [(ivgr, None), (ivgr_tiny, (9, 9, 2))])
def test_batches_are_mixed_exactly(preset, iteration_of_each, tmp_path):
    run = parts(preset())[1]
    specs = run.worlds
    if preset is ivgr:  # without the paper's data, which decide nothing of this
        specs = [replace(spec, kwargs={"prompt_format": spec.prompt_format, "boxes": boxes})
                 for spec, boxes in zip(specs, (True, True, False), strict=True)]  # fmt: skip
    shares = Shares(specs, run.num_groups)
    assert [unit for unit in shares.units if len(unit) > 1] == [(0, 1)], "the two streams are partners"
    counts = [shares.of(iteration) for iteration in range(10)]
    assert all(sum(count) == run.num_groups and count[0] == count[1] for count in counts)
    played = [sum(column) for column in zip(*counts, strict=True)]
    assert played == [round(10 * run.num_groups * weight) for weight in APPENDIX_B.values()]
    if iteration_of_each:
        assert set(counts) == {iteration_of_each}


def test_thirty_iterations_are_three_epochs_of_the_small_pool():
    run = parts(ivgr_tiny())[1]
    assert run.num_iterations * 9 == 3 * run.worlds[0].pool.draw


@pytest.fixture
def small(tiny_directory, tmp_path):
    """The small variant's second stage with six questions, of which each iteration asks two in both streams."""
    run = parts(ivgr_tiny())[1]
    pools = (PoolConfig(file="boxed.jsonl", draw=6), PoolConfig(file="general.jsonl", draw=2, attempts=1))
    worlds = tuple(
        replace(spec, pool=pools[spec.name == "general"], weight=0.4 if spec.name != "general" else 0.2)
        for spec in run.worlds
    )
    return replace(
        run, model=str(tiny_directory), output=str(tmp_path), worlds=worlds, num_iterations=6, num_groups=5,
        group_size=2, num_eval_episodes=0, record_every=1, checkpoint_every=1, num_threads=1,
        sampling=replace(run.sampling, max_new_tokens=4), ppo=replace(run.ppo, num_minibatches=1),
    )  # fmt: skip


@pytest.fixture
def known(monkeypatch):
    """Lets any grounded text be a reference, and pays by what the texts are, for an untrained model is never right."""

    def share(*texts):
        return int(hashlib.sha256("|".join(texts).encode()).hexdigest()[:6], 16) / 0xFFFFFF

    def grounded(text, query, judge=None, settings=None):
        raw = {"format": 1.0, "accuracy": 1.0, "box": 0.31 + 0.6 * share(text)}
        return Reward(terms=raw, raw=raw, reason="")

    def consistent(text, question, reference, judge, settings=None):
        return JudgeScore(value=0.0 if reference is None else share(text, reference.text), reason="")

    monkeypatch.setattr(ivgr_rewards, "grounded_reward", grounded)
    monkeypatch.setattr(ivgr_rewards, "consistency_score", consistent)


def told(directory):
    """Returns what iterations came to, but for times."""
    return [
        {name: value for name, value in row.items() if not name.endswith("_s")}
        for row in RunReader(directory).metrics()
    ]


def asked(directory, num_iterations):
    """Returns the questions of each iteration by the world that asks, those without boxes marked."""
    found = []
    for iteration in range(num_iterations):
        by_stream = {}
        for each in RunReader(directory).trajectories(f"training-{iteration}"):
            state = each["turns"][0]["state"]
            stream = each["world"] if each.get("world") else state["strategy"]
            about = "" if state["evidence"] or stream == "general" else "without boxes: "
            by_stream.setdefault(stream, set()).add(about + state["sample_id"])
        found.append(by_stream)
    return found


@pytest.mark.usefixtures("known")
@pytest.mark.soak
def test_partners_stay_together_and_nothing_is_found_in_the_first_epoch(small):
    directory = train(small)
    boxed: set[str] = set()
    for by_stream, row in zip(asked(directory, small.num_iterations), told(directory), strict=True):
        assert by_stream["grounded"] == by_stream["textual"] and len(by_stream["grounded"]) == 2
        assert not by_stream["general"] & by_stream["grounded"]
        boxed |= {each for each in by_stream["grounded"] if not each.startswith("without boxes")}
        assert row["archive_size"] == len(boxed), "whatever has boxes has a reference"
    rows = told(directory)
    assert [row["pool/grounded/epoch"] for row in rows] == pytest.approx([n / 3 for n in range(1, 7)])
    hits = [row["archive_step_hit_rate"] or 0.0 for row in rows]  # None where no question of a step has boxes
    assert hits[:3] == [0.0, 0.0, 0.0]
    assert max(hits[3:]) > 0, "references of earlier steps are there from the second epoch on"
    assert rows[2]["archive_hit_rate"] == 0 < rows[-1]["archive_hit_rate"]


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("fails_in", [3])
@pytest.mark.soak
def test_a_run_that_dies_behind_the_rewards_goes_on_with_the_same_ones(small, monkeypatch, fails_in):
    """References that the lost iteration archived are those of nobody: they would be hits when it is played again."""
    whole = told(train(replace(small, name="whole")))
    update = Learner.update

    def dying(self, *args, iteration, **kwargs):
        if iteration == fails_in:
            raise RuntimeError("killed")
        return update(self, *args, iteration=iteration, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "update", dying)
        with pytest.raises(RuntimeError, match="killed"):
            train(small)
    directory = train(small, resume=True)
    assert told(directory) == whole
    assert asked(directory, 6) == asked(directory.with_name("whole"), 6)


def test_both_stages_run_in_one_command(tmp_path, monkeypatch, capsys):
    made = ivgr_tiny()
    sft, rl = parts(made)
    monkeypatch.setattr("training.recipes.ivgr._PASS_RATES", {})
    first = replace(sft, cold_start=ColdStartConfig(num_steps=2, num_first_turn_steps=0, batch_size=4, warmup_steps=1))
    small_pools = [replace(spec, pool=PoolConfig(file=spec.pool.file, draw=3)) for spec in rl.worlds]
    second = replace(rl, worlds=tuple(small_pools))
    stages = (replace(made.stages[0], run=first), replace(made.stages[1], run=second))
    monkeypatch.setitem(STAGED_RECIPES, "ivgr_tiny", lambda: replace(made, stages=stages))
    of_both = {"num-threads": "1", "num-val-episodes": "2", "sampling.max-new-tokens": "8"}
    of_rl = {"num-iterations": "1", "num-groups": "4", "group-size": "2", "num-eval-episodes": "2",
             "ppo.num-minibatches": "1"}  # fmt: skip
    words = [word for name, options in (("sft", of_both), ("rl", of_both | of_rl))
             for key, value in options.items() for word in (f"--stages.{name}.{key}", value)]  # fmt: skip
    assert main(["ivgr_tiny", "--output", str(tmp_path), *words]) == 0
    said = capsys.readouterr().out
    assert "Stage 2 of 2: rl" in said and (tmp_path / "ivgr_tiny" / "report.html").is_file()
    run = RunReader(tmp_path / "ivgr_tiny" / "2-rl")
    assert run.config["model"] == str(tmp_path / "ivgr_tiny" / "1-sft" / "latest" / "model")
    (row,) = run.metrics()
    assert {"pool/general/epoch", "archive_hit_rate", "kl"} <= row.keys() and not math.isnan(row["reward"])
    assert sorted(each["world"] for each in run.evaluations()) == sorted(2 * [*APPENDIX_B])


@pytest.fixture
def papers_data(tmp_path, monkeypatch):
    """A folder with all that the preset looks for, of a few rows in the layouts of the paper's data."""
    for folder, boxes in (("TreeVGR-RL-37K", [{"name": "cart", "bbox": [5, 6, 20, 25]}]), ("general", [])):
        (tmp_path / folder).mkdir()
        rows = []
        for number in range(12):
            Image.new("RGB", (56, 56), (20 * number, 90, 10)).save(tmp_path / folder / f"{number}.png")
            row = {"problem": "<image>What is it? A. a cart B. a dog", "answer": "A", "images": [f"{number}.png"]}
            rows.append(row | {"target_instances": boxes})
        (tmp_path / folder / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, box in (("grounded", " [5, 6, 20, 25]"), ("textual", "")):
        turns = [
            {"role": "user", "content": "<image>What is it? A. a cart B. a dog"},
            {"role": "assistant", "content": f"<think>A cart{box}.</think><answer>A</answer>"},
        ]
        rows = [{"messages": turns, "images": [f"general/{number}.png"]} for number in range(4)]
        broken = [{"messages": turns, "images": ["gone.png"]}]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows + broken))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.soak
def test_the_preset_runs_on_data_in_the_papers_layouts(papers_data, tiny_directory, capsys):
    """With the tiny VLM; nobody passes there, so that the filter would leave nothing."""
    settings = {
        "sft": {"num-steps": 1, "dtype": "float32"},
        "rl": {
            "num-iterations": 1, "num-groups": 4, "group-size": 2, "num-eval-episodes": 0, "eval-every": 0,
            "num-val-episodes": 0, "dtype": "float32", "sampling.max-new-tokens": 8, "record-every": 1,
        },
    }  # fmt: skip
    words = [
        word
        for stage, options in settings.items()
        for key, value in ({"num-threads": 1} | options).items()
        for word in (f"--stages.{stage}.{key}", str(value))
    ]
    command = ["ivgr", "--model", str(tiny_directory), "--output", "runs", *words]
    assert main(command) == 2
    assert "--stages.rl.judge.endpoint: Qwen/Qwen2.5-72B" in capsys.readouterr().err, "its judge is not there"
    assert not (papers_data / "runs").exists()
    command.append("--stages.rl.no-probe-endpoints")
    assert main(command) == 2
    assert "Nothing is left of the pool runs/ivgr/2-rl/pools/general.jsonl" in capsys.readouterr().err
    assert main([*command, "--resume", "--stages.rl.worlds.2.pool.min-pass-rate", "0"]) == 0
    tuned = RunReader(papers_data / "runs" / "ivgr" / "1-sft").config
    assert [(each["path"], each["num_broken"]) for each in tuned["data_sets"]] == [
        ("grounded.jsonl", 1),
        ("textual.jsonl", 1),
    ]
    run = RunReader(papers_data / "runs" / "ivgr" / "2-rl")
    (row,) = run.metrics()
    assert {"archive_size", "kl", "pool/grounded/epoch", "pool/general/epoch"} <= row.keys()
    by_stream = asked(papers_data / "runs" / "ivgr" / "2-rl", 1)[0]
    assert by_stream["grounded"] == by_stream["textual"]
