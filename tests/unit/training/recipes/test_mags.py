"""Mags-RL's preset has the paper's constants, written out here, and runs on datasets in its layouts."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")

from PIL import Image  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from agents.perception.super_resolution import SMFANet, SMFANetConfig  # noqa: E402
from judges.episode_rewards.mags import MagsSettings  # noqa: E402
from training.__main__ import main  # noqa: E402
from training.algorithms.grpo import GRPO  # noqa: E402
from training.recipes.mags import (  # noqa: E402
    DATA,
    VARIANTS,
    WEIGHTS,
    mags,
    mags_tiny,
)
from training.recipes.shipped import STAGED_VARIANTS  # noqa: E402
from training.run_options import find_recipe  # noqa: E402
from vlm_envs.errors import ConfigError  # noqa: E402
from vlm_envs.records.run_data import RunReader  # noqa: E402

APPENDIX_C = {
    "foundations": {"steps": 300, "rate": 2e-6, "temperature": 0.09, "beta": 0.04, "data": ("tallyqa", "vsr")},
    "complex": {"steps": 225, "rate": 5e-7, "temperature": 1.0, "beta": 0.03, "data": ("tallyqa", "gqa")},
}
"""Both stages; their data sets are of section 4.1."""


def said(run):
    return {
        "steps": run.num_iterations,
        "rate": run.ppo.learning_rate,
        "temperature": run.sampling.temperature,
        "beta": run.ppo.kl_coef,
        "data": tuple(spec.kwargs["dataset"] for spec in run.worlds),
    }


def test_the_stages_are_those_of_appendix_c():
    config = mags()
    assert config.model == "Qwen/Qwen2.5-VL-3B-Instruct"
    assert {stage.name: said(stage.run) for stage in config.stages} == APPENDIX_C
    assert [stage.reference for stage in config.stages] == ["reset", "reset"], "each stage is held to its own start"
    for number, stage in enumerate(config.stages, start=1):
        run = stage.run
        evaluated = run.evaluated_sampling
        assert (evaluated.temperature, evaluated.top_p) == (0.01, 0.95), "whatever the stage trains at"
        assert (run.group_size, run.num_groups * run.group_size) == (16, 64)
        assert run.algorithm == GRPO(scale="std") and run.ppo.aggregation == "sequence_mean", "section 3.1"
        assert (run.ppo.kl_placement, run.ppo.kl_formula) == ("loss", "k3")
        assert (run.ppo.warmup_iterations, run.ppo.final_learning_rate_ratio) == (0, 1.0)
        assert run.judge.episode_reward == f"mags_stage_{number}"
        assert {spec.weight for spec in run.worlds} == {1.0}, "samples are drawn evenly (section 4.1)"
        for spec in run.worlds:
            assert (spec.kwargs["prompt_format"], spec.kwargs["mags_stage"]) == ("mags", number)
            assert spec.kwargs["upscaler"].endswith(":smfanet")
    reward = config.stages[1].run.judge.reward.settings
    assert isinstance(reward, MagsSettings)
    weights = (reward.answer_weight, reward.zoom_weight, reward.rethink_weight, reward.zoom_format_weight)
    assert (*weights, reward.other_formats_weight) == (2.0, 1.0, 0.5, 0.5, 0.1), "appendix B"


def test_direct_training_has_the_samples_and_steps_of_both_stages_at_once():
    (stage,) = mags("direct").stages
    assert stage.run.num_iterations == 525 and said(stage.run)["data"] == ("tallyqa", "vsr", "tallyqa", "gqa")
    assert {spec.kwargs["mags_stage"] for spec in stage.run.worlds} == {2}
    assert stage.run.judge.episode_reward == "mags_stage_2"
    pools = [spec.pool.file for each in mags().stages for spec in each.run.worlds]
    assert [spec.pool.file for spec in stage.run.worlds] == pools and len(set(pools)) == 4


def test_without_super_resolution_nothing_else_is_another():
    (stage,) = mags("without_super_resolution").stages
    own = mags().stages[0]
    assert {spec.kwargs["upscaler"] for spec in stage.run.worlds} == {"bicubic"}
    assert {spec.kwargs["mags_stage"] for spec in (*stage.run.worlds, *own.run.worlds)} == {1}, "appendix A.2"
    worlds = tuple(
        replace(spec, kwargs={**spec.kwargs, **{name: of.kwargs[name] for name in ("upscaler", "upscaler_kwargs")}})
        for spec, of in zip(stage.run.worlds, own.run.worlds, strict=True)
    )
    assert replace(stage.run, worlds=worlds) == own.run


@pytest.mark.parametrize("recipe", ["mags", "mags_tiny"])
def test_a_variant_is_found_by_its_name(recipe):
    found, rest = find_recipe([f"{recipe}:direct", "--name", "x"])
    assert found is not None and found.made() == STAGED_VARIANTS[recipe]("direct") and rest == ["--name", "x"]
    assert find_recipe([recipe])[0].made() == STAGED_VARIANTS[recipe]()
    names = {STAGED_VARIANTS[recipe](each).name for each in VARIANTS}
    assert names == {recipe, f"{recipe}_direct", f"{recipe}_without_super_resolution"}
    with pytest.raises(ConfigError, match=r"'directly'\. Did you mean 'direct'"):
        STAGED_VARIANTS[recipe]("directly")


def test_the_tiny_stages_differ_as_the_paper_s_do():
    _, first, second = (stage.run for stage in mags_tiny().stages)
    of = APPENDIX_C["foundations"], APPENDIX_C["complex"]
    assert second.num_iterations / first.num_iterations == of[1]["steps"] / of[0]["steps"]
    assert second.ppo.learning_rate / first.ppo.learning_rate == pytest.approx(of[1]["rate"] / of[0]["rate"])
    assert (first.ppo.kl_coef, second.ppo.kl_coef) == (0.04, 0.03)
    assert first.seed != second.seed, "other levels"


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_tiny_cold_start_shows_the_prompts_and_the_crops_of_all_that_follows(variant):
    imitation, *trained = (stage.run for stage in mags_tiny(variant).stages)
    shown = [spec.kwargs for spec in imitation.worlds]
    assert (imitation.model, imitation.num_iterations) == (None, 0) and imitation.cold_start.num_steps > 0
    assert [kwargs["mags_stage"] for kwargs in shown] == [1, 2]
    assert all(spec.kwargs in shown for run in trained for spec in run.worlds)


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """A working directory with copies of the three data sets, lists of samples, and weights."""
    monkeypatch.chdir(tmp_path)
    file = io.BytesIO()
    Image.new("RGB", (84, 56), (200, 20, 20)).save(file, "PNG")
    data = tmp_path / DATA
    for dataset in ("tallyqa", "vsr", "gqa"):
        (data / dataset / "images").mkdir(parents=True)
        for number in range(4):
            name = f"{number}.jpg" if dataset == "gqa" else f"{number}.png"
            (data / dataset / "images" / name).write_bytes(file.getvalue())
    rows = [{"image": f"{n}.png", "question": "How many cats are there?", "answer": n} for n in range(4)]
    (data / "tallyqa" / "train.json").write_text(json.dumps(rows))
    rows = [{"image": f"{n}.png", "caption": "It is red.", "label": 1, "relation": "is"} for n in range(4)]
    (data / "vsr" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    rows = {str(n): {"imageId": str(n), "question": "Is it red?", "answer": "yes"} for n in range(4)}
    (data / "gqa" / "train_balanced_questions.json").write_text(json.dumps(rows))
    ids = {"tallyqa": "tallyqa:train/{}", "vsr": "vsr:train/{}", "gqa": "gqa:train_balanced/{}"}
    for stage, of in APPENDIX_C.items():
        for dataset in of["data"]:
            lines = [json.dumps({"id": ids[dataset].format(n)}) for n in (0, 1)]
            (data / f"{stage}_{dataset}.jsonl").write_text("\n".join(lines))
    torch.manual_seed(0)
    save_file(SMFANet(SMFANetConfig(num_channels=4, num_blocks=1)).state_dict(), tmp_path / WEIGHTS)
    return data


QUICK = {
    "num-iterations": 1,
    "num-groups": 4,
    "group-size": 2,
    "num-eval-episodes": 0,
    "num-threads": 1,
    "dtype": "float32",  # a CPU computes with bfloat16 slowly
    "sampling.max-new-tokens": 8,
}


def options(stages):
    return [word for stage in stages for key, value in QUICK.items() for word in (f"{stage.option}.{key}", str(value))]


def test_both_stages_run_on_copies_of_the_data_sets(copies, tiny_directory, tmp_path):
    words = ["mags", "--output", str(tmp_path), "--model", str(tiny_directory), *options(mags().stages)]
    assert main(words) == 0
    first, second = (RunReader(tmp_path / "mags" / each) for each in ("1-foundations", "2-complex"))
    assert second.config["model"] == str(tmp_path / "mags" / "1-foundations" / "latest" / "model")
    asked = []
    for run, (stage, of) in zip((first, second), APPENDIX_C.items(), strict=True):
        (line,) = run.metrics()
        assert line["kl"] == pytest.approx(0.0, abs=1e-4), "each stage is held to what it starts from"
        pools = {name.split("/")[1] for name in line if name.startswith("pool/")}
        assert pools == {f"{stage}_{dataset}" for dataset in of["data"]}
        (label,) = run.trajectory_labels()
        asked.append(run.trajectories(label)[0]["turns"][0]["system"])
    assert "too small or unclear" in asked[0] and "too small or unclear" not in asked[1]


def test_lists_of_samples_are_drawn_and_share_none(copies, capsys):
    def drawn(stage, *words):
        path = copies / f"{stage}_tallyqa.jsonl"
        path.unlink()
        world = ["--worlds.0.kwargs.dataset", "tallyqa", "--worlds.0.kwargs.folder", str(copies / "tallyqa")]
        assert main(["pool", "VLM/ZoomQA-v0", *world, "--num-samples", "2", "--out", str(path), *words]) == 0
        return {json.loads(line)["id"] for line in path.read_text().splitlines()}

    first = drawn("foundations")
    second = drawn("complex", "--exclude", str(copies / "foundations_tallyqa.jsonl"))
    assert len(first) == len(second) == 2 and not first & second
    assert "--worlds.0.pool.file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (lambda data: (data / "smfanet_x4.safetensors").unlink(), "python -m training upscaler"),
        (lambda data: (data / "complex_gqa.jsonl").write_text(""), "complex_gqa.jsonl"),
        (lambda data: (data / "complex_gqa.jsonl").write_text('{"id": "gqa:train_balanced/77"}'), "77"),
        (lambda data: (data / "complex_tallyqa.jsonl").unlink(), "complex_tallyqa.jsonl"),
        (lambda data: (data / "gqa" / "train_balanced_questions.json").unlink(), "gqa"),
    ],
)
def test_what_is_missing_is_told_before_the_first_stage_begins(copies, tiny_directory, tmp_path, capsys, broken, told):
    broken(copies)
    words = ["mags", "--output", str(tmp_path / "runs"), "--model", str(tiny_directory), *options(mags().stages)]
    assert main(words) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())


def test_without_a_model_it_says_what_to_do(copies, tmp_path, capsys):
    assert main(["mags", "--output", str(tmp_path / "runs"), *options(mags().stages)]) == 2
    told = capsys.readouterr().err
    assert "Qwen/Qwen2.5-VL-3B-Instruct" in told and "--model DIR" in told
