"""A reference that a run names is there and of the policy's kind."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.unit.training.batches import run_config
from training.config.update_config import LoRAConfig, PPOConfig
from training.preflight import tried
from vlm_envs.errors import ConfigError

HELD = PPOConfig(num_minibatches=1, kl_coef=0.1)


def test_adapters_take_no_other_reference():
    with pytest.raises(ConfigError, match=r"--reference there is another model than the base of --lora.rank 4"):
        run_config(reference="there", ppo=HELD, lora=LoRAConfig(rank=4))


def test_a_reference_is_there_and_speaks_as_the_policy_does(tiny_directory, qwen2_5_directory, tmp_path):
    fields = {"model": str(tiny_directory), "ppo": HELD, "output": str(tmp_path / "runs")}
    with pytest.raises(FileNotFoundError, match=r"nowhere.* leave --reference out"):
        tried(run_config(reference="nowhere", **fields), resume=False)
    with pytest.raises(ConfigError, match=r"qwen2_5_vl, .*--model .* has qwen3_vl"):
        tried(run_config(reference=str(qwen2_5_directory), **fields), resume=False)
    other = shutil.copytree(tiny_directory, tmp_path / "other")
    settings = json.loads((other / "config.json").read_text())
    settings["text_config"]["vocab_size"] += 1
    (other / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ConfigError, match="has vocabulary size"):
        tried(run_config(reference=str(other), **fields), resume=False)
    same = run_config(reference=str(tiny_directory), **fields)
    assert tried(same, resume=False) == (same, [])
    assert not (tmp_path / "runs").exists()
