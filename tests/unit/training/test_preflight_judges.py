"""Models behind endpoints that a run will ask are asked at start-up; all that do not answer are told at once."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from agents.api.endpoint_config import EndpointConfig
from tests.unit.agents.api.conftest import KEY
from tests.unit.agents.api.endpoint import FakeEndpoint, status
from tests.unit.agents.api.test_probe import closed_port
from tests.unit.training.batches import run_config
from tests.unit.training.stages.test_stages_of_data_config import LEARNS, ROLLOUTS
from training.__main__ import main
from training.config.judge_config import JudgeConfig
from training.config.saved_config import plain
from training.config.world_spec import WorldSpec
from training.curation.curation_config import CurateConfig
from training.preflight_judges import endpoints_of
from training.stages.stages_config import Stage, StagesConfig, save_stages
from training.stages.stages_preflight import checked_stages
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import to_json

BRIEF = ["--num-iterations", "1", "--num-groups", "2", "--group-size", "2", "--ppo.num-minibatches", "1"]
BRIEF += ["--worlds.0.kwargs.representation", "natural_language", "--judge.method", "direct"]
BRIEF += ["--algorithm.critic.num-minibatches", "1", "--algorithm.critic.warmup-iterations", "0"]
BRIEF += ["--num-eval-episodes", "2", "--sampling.max-new-tokens", "4", "--num-threads", "1", "--device", "cpu"]

SMALL_SCENES = ["--set", "side_px=400", "--set", "target_px=40"]

SAYS_WHAT_IT_SEES = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"representation": "natural_language"})


@pytest.fixture(autouse=True)
def key(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("JUDGE_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def server():
    with FakeEndpoint() as served:
        yield served


def nowhere() -> str:
    return f"http://127.0.0.1:{closed_port()}/v1"


def judged(base_url: str) -> list[str]:
    return ["--judge.endpoint.model", "judge", "--judge.endpoint.base-url", base_url]


def test_a_curation_names_all_that_do_not_answer_and_leaves_nothing(server, tmp_path, capsys):
    server.on_probe = status(404, "no such model")
    pointing = ["--pointing.points", "models", "--pointing.proposer", f"compatible:one@{nowhere()}"]
    words = ["curate", *SMALL_SCENES, "--num-samples", "1", "--output", str(tmp_path / "runs"), *pointing]
    words += ["--pointing.pointer", f"compatible:molmo@{server.base_url}", "--device", "cpu"]
    assert main([*words, "--expert", f"compatible:teacher@{nowhere()}"]) == 2
    told = capsys.readouterr().err
    assert "models behind endpoints do not answer" in told
    assert re.search(r"--expert compatible:teacher@\S+: teacher at http://127.0.0.1:\d+/v1: no connection", told)
    assert re.search(r"--pointing.proposer compatible:one@\S+: one at \S+: no connection", told)
    assert re.search(r"--pointing.pointer compatible:molmo@\S+: .*HTTP 404.*serve a model called 'molmo'", told)
    assert "--no-probe-endpoints" in told and not (tmp_path / "runs").exists() and server.requests == []


def test_one_that_is_started_later_is_not_asked(server, tmp_path, capsys):
    server.on_probe = status(503, "loading")
    words = ["curate", *SMALL_SCENES, "--num-samples", "1", "--num-rollouts", "1", "--output", str(tmp_path)]
    words += ["--device", "cpu", "--expert", f"compatible:teacher@{server.base_url}"]
    assert main(words) == 2
    assert main([*words, "--no-probe-endpoints"]) == 1, "it is asked, and nothing it says is good enough to imitate"
    assert len(server.requests) == 1, "by then it serves"


def test_a_plain_run_asks_its_judge_before_anything_is_made(server, tmp_path, capsys):
    runs = tmp_path / "runs"
    words = ["frozenlake_tiny", *BRIEF, "--output", str(runs)]
    assert main([*words, *judged(nowhere())]) == 2
    told = capsys.readouterr().err
    assert "models behind endpoints do not answer" in told
    assert "--judge.endpoint: judge at" in told and "--no-probe-endpoints" in told
    assert not runs.exists()


def test_a_run_goes_on_only_with_a_judge_that_answers(server, tmp_path, capsys):
    words = ["frozenlake_tiny", *BRIEF, "--output", str(tmp_path), "--name", "run"]
    server.answer = lambda messages: "<think>.</think><answer>YES</answer>"
    assert main([*words, *judged(server.base_url)]) == 0 and len(server.probes) == 1
    went_on = ["frozenlake_tiny", "--output", str(tmp_path), "--name", "run", "--num-iterations", "2", "--resume"]
    before = (tmp_path / "run" / "config.json").read_bytes()
    server.on_probe = status(401, "who are you")
    assert main(went_on) == 2
    assert "HTTP 401" in capsys.readouterr().err and (tmp_path / "run" / "config.json").read_bytes() == before
    assert main([*went_on, "--no-probe-endpoints"]) == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["probe_endpoints"] is False


def staged(tmp_path, tiny_directory, *, teacher: str, judge: str, **changes) -> StagesConfig:
    endpoint = EndpointConfig(model="judge", base_url=judge, api_key_variable="JUDGE_KEY")
    run = run_config(worlds=(SAYS_WHAT_IT_SEES,), judge=JudgeConfig(method="direct", endpoint=endpoint), **changes)
    learns = replace(LEARNS, run=replace(LEARNS.run, model=str(tiny_directory), data=("stage:rollouts",)))
    rollouts = replace(ROLLOUTS.run, expert=f"compatible:teacher@{teacher}")
    return StagesConfig(
        name="staged",
        output=str(tmp_path / "runs"),
        stages=(Stage(name="rollouts", run=rollouts), learns, Stage(name="rl", run=run)),
    )


def test_the_judge_of_the_last_stage_is_missed_before_the_first(server, tiny_directory, tmp_path):
    config = staged(tmp_path, tiny_directory, teacher=nowhere(), judge=nowhere())
    with pytest.raises(ConfigError) as told:
        checked_stages(config, resume=False)
    said = str(told.value)
    assert "--stages.rollouts.expert compatible:teacher@" in said
    assert "--stages.rl.judge.endpoint: judge at" in said
    assert said.endswith("--stages.rollouts.no-probe-endpoints --stages.rl.no-probe-endpoints")
    assert not (tmp_path / "runs").exists()
    later = staged(tmp_path, tiny_directory, teacher=server.base_url, judge=nowhere(), probe_endpoints=False)
    assert [each.number for each in checked_stages(later, resume=False)] == [0, 1, 2]
    assert len(server.probes) == 1


def test_stages_that_are_over_have_nobody_to_ask(server, tiny_directory, tmp_path):
    config = staged(tmp_path, tiny_directory, teacher=nowhere(), judge=server.base_url)
    save_stages(config, ["rollouts"])
    curated = config.directory / "1-rollouts"
    curated.mkdir()
    (curated / "sft.jsonl").write_text("")
    (curated / "trajectories").mkdir()
    (curated / "trajectories" / "curated.jsonl").write_text("")
    (resolved, *_) = config.resolved()
    (curated / "config.json").write_text(json.dumps({"curation": to_json(plain(resolved))}))
    assert [each.number for each in checked_stages(config, resume=True)] == [1, 2]
    assert len(server.probes) == 1, "the judge; the teacher has taught"


def test_only_who_will_be_asked_is():
    endpoint = EndpointConfig(model="judge", base_url="http://127.0.0.1:9/v1")
    asks = {"worlds": (SAYS_WHAT_IT_SEES,), "judge": JudgeConfig(method="direct", endpoint=endpoint)}
    assert [each.endpoint for each in endpoints_of(run_config(**asks))] == [endpoint]
    assert endpoints_of(run_config(**asks, num_iterations=0)) == []
    assert endpoints_of(run_config(**asks, probe_endpoints=False)) == []
    assert endpoints_of(CurateConfig()) == [] == endpoints_of(LEARNS.run)
