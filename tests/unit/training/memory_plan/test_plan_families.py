"""Rows are as long as the model lets them get, and every family is planned for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
from transformers import AutoConfig

from agents.hf.sampling_config import SamplingConfig
from tests.unit.families import SAVERS, TOKENS_PER_TILE
from tests.unit.slow import quick
from tests.unit.training.batches import WORLD, run_config
from training.__main__ import main
from training.memory_plan.plan_config import PlanConfig
from training.memory_plan.plan_rows import longest_row
from vlm_envs.errors import ConfigError

FEW = ("--num-eval-episodes", "4", "--num-val-episodes", "4", "--worlds.0.kwargs.max-turns", "2", "--algorithm", "grpo")


@pytest.fixture
def planned(capsys):
    def plan(directory, *words):
        code = main(["plan", "frozenlake_tiny", "--model", str(directory), *FEW, *words, "--json"])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else None, said.err

    return plan


@pytest.mark.parametrize("family", quick(SAVERS, "smolvlm"))
def test_every_family_is_planned_with_its_tokenizer_and_by_its_config_alone(tmp_path, planned, family):
    SAVERS[family](tmp_path)
    code, whole, _ = planned(tmp_path)
    assert code == 0 and "own tokenizer" in whole["row"]["how"]
    for each in tmp_path.iterdir():
        if each.name != "config.json":
            each.unlink()
    code, _, err = planned(tmp_path)
    assert code == 2 and "has no tokenizer" in err and "--context-tokens N" in err
    code, alone, _ = planned(tmp_path, "--context-tokens", "200")
    assert code == 0 and alone["parameters"] == whole["parameters"]
    assert alone["phases"]["policy update"]["activations"] > 0


@pytest.mark.parametrize("family", [None, *SAVERS])
def test_pictures_are_as_small_as_the_run_makes_them(tiny_directory, tmp_path, family):
    directory = Path(shutil.copytree(tiny_directory, tmp_path / "model")) if family is None else tmp_path
    if family is not None:
        SAVERS[family](directory)
    model_config = AutoConfig.from_pretrained(directory)
    tile_px = 28 if family is None else model_config.vision_config.image_size
    limit = 3 * (tile_px if isinstance(tile_px, int) else tile_px[0]) ** 2

    def num_image_tokens(max_image_pixels):
        config = run_config(worlds=(WORLD,), sampling=SamplingConfig(max_image_pixels=max_image_pixels))
        return longest_row(config, PlanConfig(), model_config, directory).later.num_image_tokens

    own, limited = num_image_tokens(None), num_image_tokens(limit)
    assert limited <= own
    if family is not None:
        assert limited <= 3 * TOKENS_PER_TILE
    if family != "gemma3":  # whose images have one size
        assert limited < own
        with pytest.raises(ConfigError, match="max_image_pixels must be at least"):
            num_image_tokens(1)


@pytest.mark.soak
def test_rows_are_cut_where_conversations_end(tiny_directory, planned):
    longest = planned(tiny_directory)[1]["row"]
    limit = longest["num_tokens"] - 10
    _, data, _ = planned(tiny_directory, "--sampling.max-context-tokens", str(limit))
    assert data["row"]["num_tokens"] == limit and f"cut at {limit:,}" in data["row"]["how"]
    said = planned(tiny_directory, "--sampling.max-context-tokens", "300", "--context-tokens", "400")[1]["row"]
    assert said["num_tokens"] == 300 and "cut at 300" in said["how"]


def test_more_tokens_than_the_model_has_positions_are_refused(tiny_directory, planned):
    code, _, err = planned(tiny_directory, "--context-tokens", "10000000")
    assert code == 2 and "--context-tokens must be at most" in err and len(err.splitlines()) == 1
