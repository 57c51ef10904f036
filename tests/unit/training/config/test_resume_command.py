"""By which command a run is resumed, and with which sampler."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agents.vllm.vllm_config import VLLMConfig
from tests.unit.training.batches import run_config
from training.config.resume import check_same_run, going_on_by, how_to_go_on, saved_config


@pytest.mark.parametrize(
    ("words", "changes", "told"),
    [
        (["lake"], {}, "`python -m training lake --resume`"),
        (["lake"], {"name": "lake-2"}, "`python -m training lake --name lake-2 --resume`"),
        (["lake"], {"output": "my runs"}, "`python -m training lake --output 'my runs' --resume`"),
        (["--recipe", "my lake.py"], {}, "`python -m training --recipe 'my lake.py' --resume`"),
    ],
)
def test_the_command_names_what_finds_the_run_and_no_more(words, changes, told):
    config = run_config(**{"name": "lake", "output": "runs"} | changes)
    with going_on_by(words, config, name="lake", output="runs"):
        assert how_to_go_on() == told
    assert how_to_go_on() == "--resume", "of a run that Python started"


def test_of_several_processes_only_the_user_knows_the_launcher(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with going_on_by(["lake"], run_config(name="lake"), name="lake", output="runs"):
        assert how_to_go_on() == "--resume"


def test_a_run_whose_vllm_had_its_own_process_is_resumed_without_it(tmp_path, capsys):
    saved = json.loads(json.dumps(run_config(name="lake", sampler="vllm").to_dict()))
    (tmp_path / "config.json").write_text(json.dumps(saved | {"vllm": saved["vllm"] | {"process": "own"}}))
    config = saved_config(tmp_path)
    assert config.vllm == VLLMConfig()
    for vllm in (config.vllm, replace(config.vllm, url="http://127.0.0.1:8000")):
        check_same_run(replace(config, vllm=vllm), tmp_path)
    assert saved_config(tmp_path) == config
    (line,) = capsys.readouterr().err.splitlines()
    assert "--vllm.process own" in line and "--vllm.url" in line
