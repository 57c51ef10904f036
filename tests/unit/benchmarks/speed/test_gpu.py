"""What a GPU took is read off a run's metrics and set beside its plan; runs on one are in docs/gpu."""

from __future__ import annotations

import copy
import json
import subprocess
import sys

import pytest

from benchmarks.speed.gpu import table

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from agents.hf.hf_agent import load_checkpoint
from benchmarks.__main__ import main
from benchmarks.speed.gpu import QWEN2_5_VL_3B, planned_gib, result_of, run_iterations
from benchmarks.speed.gpu_checkpoint import save_random_qwen2_5_vl

GIB = 2**30
KEYS = ("rollout_s", "iteration_s", "tokens_per_s", "rollout_peak_gib", "update_peak_gib")
PHASES = {
    "sample": {"weights": 7 * GIB, "reserved": 2 * GIB, "total": 12 * GIB},
    "evaluate": {"reserved": 2 * GIB, "total": 40 * GIB},
    "policy update": {"reserved": 2 * GIB, "total": 13 * GIB},
    "critic step": {"reserved": 2 * GIB, "total": 16 * GIB},
}


def test_a_plan_is_compared_by_the_tensors_of_playing_and_of_the_largest_phase_of_learning():
    assert planned_gib(PHASES) == {"rollout": 10.0, "update": 14.0}


def test_medians_leave_out_the_first_iteration_and_memory_does_not():
    lines = [
        {
            "rollout_s": 10.0 * number,
            "iteration_s": 30.0 * number,
            "tokens_per_s": 100.0 / number,
            "rollout_peak_gib": 9.0 - number,
            "update_peak_gib": 7.0,
        }
        for number in (1, 2, 3, 4)
    ]
    result = result_of("critic", PHASES, lines, "a GPU")
    assert (result.rollout_s, result.update_s) == (30.0, 60.0)
    assert result.measured_gib == {"rollout": 8.0, "update": 7.0}
    assert "| critic | 10.0 and 8.0 GiB | 14.0 and 7.0 GiB | 30 s | 33 | 60 s |" in table([result])


def test_a_checkpoint_of_random_weights_can_be_loaded(tmp_path):
    shape = copy.deepcopy(QWEN2_5_VL_3B)
    shape["text_config"] |= {"num_hidden_layers": 1, "hidden_size": 256, "intermediate_size": 64}
    shape["text_config"] |= {"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 8192}
    shape["vision_config"] |= {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2}
    shape["vision_config"] |= {"fullatt_block_indexes": [0], "out_hidden_size": 256}
    num_parameters = save_random_qwen2_5_vl(tmp_path, shape, ("VLM/FrozenLake-v0",))
    model, encoder = load_checkpoint(tmp_path)
    assert model.num_parameters() == num_parameters
    # Most of its tokens are none of the tokenizer's, as a few of the published model's are
    assert len(encoder.tokenizer) < json.loads((tmp_path / "config.json").read_text())["text_config"]["vocab_size"]


def test_without_a_gpu_it_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["gpu", "--output", str(tmp_path)]) == 2
    assert "no CUDA GPU" in capsys.readouterr().err


def test_a_case_is_not_run_where_one_lies(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    (tmp_path / "siblings").mkdir()
    assert main(["gpu", "--output", str(tmp_path)]) == 2
    assert f"{tmp_path / 'siblings'} already exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["siblings"]


def test_an_unknown_case_is_told(capsys):
    assert main(["gpu", "--only", "whole"]) == 2
    assert "'siblings'" in capsys.readouterr().err


_RUN = """
import pathlib, sys, time
log = pathlib.Path(sys.argv[1])
for number in range(int(sys.argv[2])):
    time.sleep(0.2)
    with log.open("a") as file:
        file.write('{"phase": "rl", "iteration": %d}\\n{"phase": "eval"' % number)
        file.flush()
        file.write('}\\n')
time.sleep(float(sys.argv[3]))
"""


def test_a_run_is_killed_when_it_has_logged_what_is_waited_for(tmp_path):
    log = tmp_path / "metrics.jsonl"
    lines = run_iterations([sys.executable, "-c", _RUN, str(log), "3", "600"], log, 2)
    assert lines == [{"phase": "rl", "iteration": number} for number in range(2)]


def test_a_run_that_ends_before_is_an_error(tmp_path):
    log = tmp_path / "metrics.jsonl"
    with pytest.raises(subprocess.CalledProcessError):
        run_iterations([sys.executable, "-c", _RUN, str(log), "1", "0"], log, 2)


def test_a_case_that_is_named_twice_is_run_once(monkeypatch, tmp_path):
    run = []

    def measured(case, *_, **__):
        run.append(case)
        return result_of(case, PHASES, [dict.fromkeys(KEYS, 1.0)], "a GPU")

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("benchmarks.speed.gpu_checkpoint.save_random_qwen2_5_vl", lambda *_: None)
    monkeypatch.setattr("benchmarks.speed.gpu.measured", measured)
    assert main(["gpu", "--only", "full", "critic", "full", "--output", str(tmp_path)]) == 0
    assert run == ["full", "critic"]
