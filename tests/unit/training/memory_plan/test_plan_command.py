"""`python -m training plan`: what fits, what does not and what would, and mistakes on the command line."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from tests.unit.training.memory_plan.configs import save_shallow
from tests.unit.training.own_critic import with_own_critic
from training.__main__ import main
from training.memory_plan.plan_report import PARTS
from training.recipes.shipped import RECIPES

GIB = 2**30
GIVEN_ROWS = ("--context-tokens", 1500, "--image-tokens", 300)
"""Rows of about the length of Sokoban's: there is no tokenizer beside the configuration."""
NUM = 3_754_622_976
"""Of Qwen2.5-VL-3B, of whose 36 layers each has `IN_LAYER`, and of whose tower's 32 blocks each `IN_BLOCK`."""
IN_LAYER = 2 * (2048 * 2048) + 2 * (2048 * 256) + 2048 + 2 * 256 + 3 * 2048 * 11_008 + 2 * 2048
IN_BLOCK = 4 * (1280 * 1280) + 4 * 1280 + 3 * 1280 * 3420 + 2 * 3420 + 1280 + 2 * 1280


@pytest.fixture
def planned(capsys, monkeypatch):
    monkeypatch.setitem(RECIPES, "sokoban_tiny", with_own_critic)

    def plan(*words):
        code = main(["plan", "sokoban_tiny", *map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return plan


def check_eight_gpus(planned, model, num_parameters, kept_by_token):
    """Checks the plan of the paper's run on eight GPUs, whose activations are some bytes for each token of a row."""
    code, out, err = planned(
        *("--model", model, "--dtype", "bfloat16", "--num-gpus", 8, "--gpu-memory", 80, "--engine", "fsdp2"),
        *("--json", "--ppo.micro-batch-size", 4, *GIVEN_ROWS),
    )
    data = json.loads(out)
    assert code == 0 and data["fits"] and not err
    assert data["parameters"]["num_parameters"] == num_parameters
    update = data["phases"]["policy update"]
    assert update["weights"] == num_parameters * 4 / 8 and update["masters"] == 0 and update["Adam"] == num_parameters
    assert update["sampler"] == num_parameters * 2
    assert data["phases"]["policy step"]["gradients"] == num_parameters * 4 / 8
    assert data["peak"] == max(phase["total"] for phase in data["phases"].values())
    assert 4 * kept_by_token * data["row"]["num_tokens"] == pytest.approx(update["activations"], rel=0.2)
    assert data["largest_micro_batch_rows"] == 4  # 128 rows in 4 steps on 8 GPUs


@pytest.mark.soak
def test_eight_gpus_hold_a_part_of_the_papers_model(tmp_path, planned):
    """Its whole model is in `make soak`."""
    model = save_shallow(tmp_path, num_layers=10)
    # 10 layers keep some 36 vectors of 2048 numbers each, and what comes before and behind them a fifth of that
    check_eight_gpus(planned, model, NUM - 26 * IN_LAYER - 31 * IN_BLOCK, 1.2 * 10 * 0.14e6)


@pytest.mark.soak
def test_one_small_gpu_is_refused_with_what_would_do(tmp_path, planned):
    words = ("--model", save_shallow(tmp_path), "--dtype", "bfloat16", "--reserved", 1, "--algorithm", "grpo")
    words += ("--num-eval-episodes", 128, "--context-tokens", 300, "--image-tokens", 100)
    code, out, err = planned(*words, "--gpu-memory", 6)
    assert code == 2
    assert "GiB per GPU" in out and all(part in out for part in PARTS)
    assert "Does not fit: needs" in err and "of 6 GiB" in err
    assert "--lora.rank 32" in err
    assert planned(*words, "--gpu-memory", 6, "--lora.rank", 32)[0] == 0


def test_a_line_comes_before_the_counting_but_not_before_json(planned, monkeypatch):
    monkeypatch.setattr("training.memory_plan.plan_report.show_plan", lambda *arguments: None)
    assert planned()[1:] != ("", "")
    assert planned("--json") == (0, "", "")


def test_the_tiny_run_fits_and_is_counted_by_its_own_tokenizer(planned):
    code, out, _ = planned("--num-groups", 8, "--worlds.0.kwargs.max-turns", 2)
    assert code == 0 and "Fits: needs" in out
    assert "32 in training" in out and "in 2 turns" in out and "own tokenizer" in out


@pytest.mark.soak
def test_an_algorithm_without_kl_has_no_reference_to_hold(planned):
    words = ("--context-tokens", 500, "--image-tokens", 100, "--json", "--algorithm")
    updates = [json.loads(planned(*words, name)[1])["phases"]["policy update"] for name in ("grpo", "dapo")]
    assert updates[0]["reference"] > 0 and updates[1]["reference"] == 0


@pytest.mark.soak
def test_the_length_of_rows_can_be_said(planned):
    code, out, _ = planned("--context-tokens", 2000, "--image-tokens", 100, "--json")
    row = json.loads(out)["row"]
    assert code == 0 and row["num_tokens"] == 2000 and row["num_images"] == 1


@pytest.mark.soak
def test_the_hosts_memory_is_compared_where_it_is_said(planned):
    words = ("--context-tokens", 500, "--image-tokens", 100, "--num-gpus", 2, "--engine", "ddp", "--json")
    code, out, err = planned(*words, "--host-memory", 0.001)
    host = json.loads(out)["host"]
    assert host["machine"] == 2 * host["process"] == 2 * host["copy"] > host["capacity"] == pytest.approx(0.001 * GIB)
    assert code == 2 and not json.loads(out)["fits"] and "of the host's memory" in err
    code, out, _ = planned(*words[:-1], "--host-memory", 0.001, "--checkpoint-every", 1)
    assert code == 0 and "and 0.0 of 0.001 GiB of the host's memory" in out
    assert "Host memory: 0.0 GiB per process, 0.0 on the whole machine" in out


def test_a_world_without_its_engine_asks_for_the_length(planned, monkeypatch):
    from training.memory_plan import plan_rows
    from vlm_envs.errors import EngineUnavailableError

    def unavailable(*_):
        raise EngineUnavailableError("no simulator here")

    monkeypatch.setattr(plan_rows, "_shown", unavailable)
    code, _, err = planned()
    assert code == 2 and "--context-tokens N" in err and "no simulator here" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--num-gpu", "8"], "no option --num-gpu"),
        (["--gpu-memory", "0"], "--gpu-memory must be above 0"),
        (["--vllm-memory", "1.5"], "--vllm-memory must be"),
        (["--ppo.micro-batch-sizes", "8"], "--ppo.micro-batch-size"),
        (["--model", "None"], "--model DIR"),
        (["--model", "/nowhere"], "No checkpoint at /nowhere"),
    ],
)
def test_mistakes_are_told(planned, words, told):
    code, _, err = planned(*words)
    assert code == 2 and told in err and len(err.splitlines()) == 1


def test_help_names_units(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["plan", "--help"])
    said = capsys.readouterr().out
    assert stop.value.code == 0 and "GiB" in said and "--context-tokens" in said
