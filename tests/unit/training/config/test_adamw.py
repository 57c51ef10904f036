"""AdamW's settings: their ranges, their options, the runs that go on by them, and those of presets."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.unit.training.batches import run_config
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.resume import check_same_run, check_same_settings, continued, saved_config
from training.config.run_config import RunConfig
from training.config.update_config import AdamWConfig, PPOConfig
from training.curation.curation_config import CurateConfig
from training.recipes.shipped import RECIPES, STAGED_PRESETS, STAGED_RECIPES
from training.run_options import configured, find_recipe
from training.sft.sft_command import sft_options
from training.sft.sft_config import SFTConfig
from training.upscaler.upscaler_command import upscaler_options
from training.upscaler.upscaler_config import UpscalerConfig
from vlm_envs.errors import ConfigError

OTHERS = ("--betas", "0.8", "0.99", "--eps", "1e-6", "--weight-decay", "0.1", "--decay-exempt", "norms", "biases")
AS_ASKED = AdamWConfig(betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1, decay_exempt=("norms", "biases"))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"betas": (0.9, 1.0)},
            r"^betas must be two numbers from 0 to below 1, such as \(0.9, 0.95\); got \(0.9, 1.0\)\.$",
        ),
        ({"betas": (-0.1, 0.9)}, "betas"),
        ({"betas": (0.9, math.nan)}, "betas"),
        ({"betas": (0.9,)}, "betas"),
        ({"eps": 0.0}, "eps"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"weight_decay": 0.1, "decay_exempt": ("norm",)}, "'norm'. Did you mean 'norms'"),
        ({"weight_decay": 0.1, "decay_exempt": ("norms", "norms")}, "decay_exempt names 'norms' twice"),
    ],
)
def test_what_cannot_be_is_refused(settings, told):
    with pytest.raises(ConfigError, match=told):
        AdamWConfig(**settings)


@pytest.mark.parametrize("part", ["ppo", "cold_start"])
def test_a_runs_settings_are_options_and_errors_name_them(part):
    recipe, _ = find_recipe(["frozenlake_tiny"])
    prefix, model = f"--{part.replace('_', '-')}.", ["--model", "None"]
    config = configured(recipe, [*model, *(word.replace("--", prefix) for word in OTHERS)])
    assert getattr(config, part).adamw == AS_ASKED
    with pytest.raises(ConfigError, match=rf"^{prefix}betas must be"):
        configured(recipe, [*model, f"{prefix}betas", "0.9", "2"])


def test_fine_tunings_and_upscalers_have_the_same_options():
    assert sft_options(["--model", "start", "--data", "rows.jsonl", *OTHERS])[0].adamw == AS_ASKED
    assert upscaler_options([*OTHERS])[0].adamw == AS_ASKED


def test_steps_are_taken_by_them():
    settings = {each.name: getattr(AS_ASKED, each.name) for each in fields(AS_ASKED)}
    assert ColdStartConfig(**settings).steps.adamw == AS_ASKED
    assert SFTConfig(model="start", data=("rows.jsonl",), **settings).steps([8]).adamw == AS_ASKED
    assert UpscalerConfig(**settings).steps().adamw == AS_ASKED


def test_a_run_cannot_be_resumed_with_other_ones(tmp_path):
    config = run_config(ppo=PPOConfig(num_minibatches=1, weight_decay=0.01))
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()), encoding="utf-8")
    assert saved_config(tmp_path).ppo.adamw == AdamWConfig(betas=(0.9, 0.95), weight_decay=0.01)
    check_same_run(saved_config(tmp_path), tmp_path)
    described = dict.fromkeys(("command", "commit", "started", "versions"))
    assert continued(config, tmp_path, num_done=1, described=described)["resumed"][0]["changes"] == {}
    papers = replace(config, ppo=replace(config.ppo, betas=(0.9, 0.999)))
    with pytest.raises(ConfigError, match=r"--ppo\.betas: the run has \[0\.9, 0\.95\], requested is \[0\.9, 0\.999\]"):
        check_same_run(papers, tmp_path)


@pytest.mark.parametrize("config", [SFTConfig(model="start", data=("rows.jsonl",)), UpscalerConfig()])
def test_nor_can_fine_tunings_and_upscalers(config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()), encoding="utf-8")
    check_same_settings(config.to_dict(), tmp_path, may_differ=lambda _: False)
    with pytest.raises(ConfigError, match="--eps"):
        check_same_settings(replace(config, eps=1e-6).to_dict(), tmp_path, may_differ=lambda _: False)


VERL = AdamWConfig(betas=(0.9, 0.999), weight_decay=0.01)
NO_DECAY = AdamWConfig(betas=(0.9, 0.999))
OURS = (0.9, 0.95)
OF_PRESETS = {
    "vagen_base": [VERL],
    "vagen_full": [VERL],
    "argos": [VERL, VERL],  # Easy-R1
    "ivgr": [NO_DECAY, VERL],  # LLaMA-Factory, verl
    "arm_thinker": [NO_DECAY, VERL, VERL],  # LLaMA-Factory, verl
    "mags": [NO_DECAY, NO_DECAY],  # TRL's defaults
}
"""AdamW of presets with a paper's constants, stage by stage: the defaults of what the papers train with."""


def optimizers(made):
    """Returns AdamW's settings of a recipe's updates and fine-tunings."""
    runs = [made] if isinstance(made, RunConfig) else [stage.run for stage in made.stages]
    trained = [run for run in runs if not isinstance(run, CurateConfig)]
    return [run.ppo.adamw if isinstance(run, RunConfig) else run.adamw for run in trained]


@pytest.mark.parametrize("name", sorted({**RECIPES, **STAGED_RECIPES, **STAGED_PRESETS}))
def test_presets_have_their_papers_settings_and_other_recipes_our_betas(name):
    found = optimizers({**RECIPES, **STAGED_RECIPES, **STAGED_PRESETS}[name]())
    if name in OF_PRESETS:
        assert found == OF_PRESETS[name]
    else:
        assert {each.betas for each in found} == {OURS}


def test_no_other_optimizer_is_made():
    root = Path(__file__).parents[4]
    files = [
        path for package in ("training", "agents", "judges", "benchmarks") for path in (root / package).rglob("*.py")
    ]
    makers = [path.relative_to(root).as_posix() for path in files if "torch.optim." in path.read_text(encoding="utf-8")]
    assert makers == ["training/engines/optimizer.py"]
