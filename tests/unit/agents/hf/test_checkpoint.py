"""What a checkpoint has learnt with is read from the files beside it, and what is wrong with them is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.hf.checkpoint import (
    PROVENANCE,
    Learnt,
    LearntWorld,
    format_differences,
    learnt_with,
    model_in,
    shipped_start,
    weights_digest,
)
from vlm_envs.errors import ConfigError
from vlm_envs.registration import registered_name

CHECKOUT = Path(__file__).parents[4]
STARTS = sorted(path.parent.name for path in (CHECKOUT / "training/recipes/checkpoints").glob("*/config.json"))
LAKE = {"env_id": "VLM/FrozenLake-v0", "kwargs": {"size": 5}, "weight": 1.0}
LEARNT = Learnt(worlds=(LearntWorld(env_id="VLM/FrozenLake-v0", kwargs={"size": 5}),), sampling={"max_new_tokens": 7})


def written(path: Path, record: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))


@pytest.mark.parametrize("name", STARTS)
def test_every_start_that_ships_says_what_it_has_learnt_with(name):
    learnt = learnt_with(shipped_start(name))
    assert learnt.worlds
    assert [registered_name(world.env_id) for world in learnt.worlds] == [world.name for world in learnt.worlds]
    assert all(world.kwargs for world in learnt.worlds)


def test_there_are_starts():
    assert {"frozenlake_tiny", "mix_tiny", "svg_tiny"} < {*STARTS}


def test_a_model_says_it_itself_or_its_start_or_its_run_does(tmp_path):
    run = tmp_path / "run"
    model = run / "latest" / "model"
    written(model / "config.json", {"model_type": "qwen3_vl"})
    assert learnt_with(model) == Learnt()
    written(run / "config.json", {"name": "run", "worlds": [LAKE], "sampling": {"max_new_tokens": 7, "later": 1}})
    assert learnt_with(model) == LEARNT, "of a setting that is not known here nothing is made"
    written(run / "best" / "model" / "provenance.json", {"run": "run", "iteration": 3})
    assert learnt_with(run / "best" / "model") == LEARNT
    assert learnt_with(run / "cold_start") == Learnt(), "which has a file of its own"
    written(model / "provenance.json", {"worlds": [LAKE | {"kwargs": {"size": 6}}]})
    assert learnt_with(model).worlds[0].kwargs == {"size": 6}
    written(tmp_path / "tuned" / "provenance.json", {"started_from": {"started_from": {"worlds": [LAKE]}}})
    assert learnt_with(tmp_path / "tuned").worlds == LEARNT.worlds


def test_a_run_stands_for_its_latest_model_and_a_run_of_stages_for_none(tmp_path):
    written(tmp_path / "run" / "latest" / "model" / "config.json", {})
    assert model_in(tmp_path / "run") == tmp_path / "run" / "latest" / "model"
    assert model_in(tmp_path / "run" / "latest" / "model") == tmp_path / "run" / "latest" / "model"
    assert model_in("nowhere") == Path("nowhere")
    for stage in ("1-sft", "2-rl"):
        written(tmp_path / "whole" / stage / "latest" / "model" / "config.json", {})
    written(tmp_path / "whole" / "stages.json", {})
    with pytest.raises(ConfigError, match=r"is a staged run\..* \S+/1-sft, \S+/2-rl\."):
        model_in(tmp_path / "whole")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"worlds": [', r"Expected a JSON object in \S+provenance\.json: .*\. Remove or repair it\."),
        ("[]", r"Expected a JSON object in \S+provenance\.json; got list\."),
        ('{"worlds": 3}', r"Expected `worlds`, each with an `env_id` .* in \S+provenance\.json; got something else"),
        ('{"worlds": ["VLM/SVG-v0"]}', "Expected `worlds`"),
        ('{"worlds": [{"kwargs": {}}]}', "Expected `worlds`.*KeyError: 'env_id'"),
        ('{"worlds": [{"env_id": "VLM/SVG-v0", "kwargs": 3}]}', "Expected `worlds`"),
        ('{"worlds": [], "sampling": 3}', "Expected `worlds`"),
    ],
)
def test_a_broken_file_is_told(text, message, tmp_path):
    (tmp_path / "provenance.json").write_text(text)
    with pytest.raises(ConfigError, match=message):
        learnt_with(tmp_path)


def test_an_unknown_recipe_is_told_with_the_closest():
    with pytest.raises(ConfigError, match=r"'svg_tny' ships no .*Did you mean 'svg_tiny'\?"):
        shipped_start("svg_tny")
    with pytest.raises(ConfigError, match=r"mix_tiny"):
        shipped_start("")


def test_it_is_found_out_without_torch():
    program = (
        "import sys\nfrom agents.hf.checkpoint import learnt_with, shipped_start\n"
        "print(learnt_with(shipped_start('svg_tiny')).worlds[0].env_id, 'torch' in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, timeout=280, check=True
    ).stdout
    assert shown.split() == ["VLM/SVG-v0", "False"]


def test_equal_weights_are_one_model_whichever_run_they_are_of(tmp_path):
    for name, value in (("config.json", {"hidden_size": 8}), ("model.safetensors", [1])):
        written(tmp_path / name, value)
    digest = weights_digest(tmp_path)
    written(tmp_path / PROVENANCE, {"run": "lake-2"})
    assert weights_digest(tmp_path) == digest
    written(tmp_path / "config.json", {"hidden_size": 9})
    assert weights_digest(tmp_path) != digest


@pytest.mark.parametrize(
    ("learnt", "env_id", "kwargs", "differences"),
    [
        (
            {"prompt_format": "no_think"},
            "VLM/FrozenLake-v0",
            {},
            {"prompt_format": ("no_think", "grounding_worldmodeling")},
        ),
        ({"prompt_format": "no_think"}, "VLM/FrozenLake-v0", {"prompt_format": "no_think", "size": 5}, {}),
        ({}, "VLM/FrozenLake-v0", {"prompt_format": "grounding_worldmodeling"}, {}),
        (
            {"representation": "structured", "prompt_format": "no_think"},
            "VLM/FrozenLake-v0",
            {"prompt_format": "no_think", "representation": "symbolic"},
            {"representation": ("structured", "symbolic")},
        ),
        ({"prompt_format": "no_think"}, "VLM/Sokoban-v0", {}, {}),
    ],
)
def test_another_format_than_in_training_is_found(learnt, env_id, kwargs, differences, tmp_path):
    written(tmp_path / PROVENANCE, {"worlds": [{"env_id": "VLM/FrozenLake-v0", "kwargs": learnt}]})
    assert format_differences(tmp_path, env_id, kwargs) == differences


def test_of_several_formats_that_were_trained_on_the_most_similar_counts(tmp_path):
    worlds = [
        {"env_id": "VLM/ZoomQA-v0", "kwargs": {"prompt_format": each}} for each in ("ivgr_grounded", "ivgr_textual")
    ]
    written(tmp_path / PROVENANCE, {"worlds": worlds})
    assert format_differences(tmp_path, "VLM/ZoomQA-v0", {"prompt_format": "ivgr_textual"}) == {}
    assert set(format_differences(tmp_path, "VLM/ZoomQA-v0", {})) == {"prompt_format"}


def test_a_variant_of_a_world_is_that_world(tmp_path):
    worlds = [{"env_id": "VLM/RewardJudging-v0", "kwargs": {"prompt_format": "direct"}}]
    written(tmp_path / PROVENANCE, {"worlds": worlds})
    assert set(format_differences(tmp_path, "VLM/RewardJudgingDocumentPair-v0", {})) == {"prompt_format"}


@pytest.mark.parametrize("record", [{}, {"worlds": 3}, {"worlds": [{"env_id": "Gone/World-v0", "kwargs": {}}]}])
def test_where_nothing_can_be_said_of_the_training_nothing_is(record, tmp_path):
    assert format_differences(tmp_path, "VLM/FrozenLake-v0", {}) == {}
    written(tmp_path / PROVENANCE, record)
    assert format_differences(tmp_path, "VLM/FrozenLake-v0", {}) == {}
