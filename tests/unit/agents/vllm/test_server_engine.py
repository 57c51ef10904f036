"""A server is asked over HTTP; here it is a thread that says what vLLM's says."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgpack
import numpy as np
import pytest
import safetensors.torch
import torch

import agents.vllm.server_engine as server_module
from agents.hf.sampling_config import SamplingConfig
from agents.rollout import rollout
from agents.vllm.server_engine import ServerEngine
from agents.vllm.vllm_agent import ContinuousVLLMAgent, VLLMAgent
from agents.vllm.vllm_config import SamplerLostError, VLLMConfig
from tests.unit.agents.vllm.fake_server import FakeServer
from tests.unit.episodes import play
from vlm_envs.errors import ConfigError
from vlm_envs.registration import make
from vlm_envs.trajectory import failure_of
from vlm_envs.vector.vector_world import VectorWorld

SAMPLING = SamplingConfig(max_new_tokens=4)


@pytest.fixture
def server(tiny):
    with FakeServer(tiny[1].end_of_turn_id) as running:
        yield running
        running.speaks.set()
        running.shutdown()


@pytest.fixture
def engine(server, tiny):
    made = ServerEngine(VLLMConfig(url=server.url, wait_s=0), tiny[1], SAMPLING, max_context_tokens=1024)
    yield made
    made.close()


@pytest.fixture
def agent(tiny, engine):
    return VLLMAgent(model=tiny[0], encoder=tiny[1], sampling=SAMPLING, engine=engine)


def test_agents_that_share_a_server_draw_each_in_its_own_way(agent, server, tiny):
    sampling = SamplingConfig(temperature=0.0, top_p=0.9, max_new_tokens=7)
    greedy = VLLMAgent(model=tiny[0], encoder=tiny[1], sampling=sampling, engine=agent.engine)
    for each in (agent, greedy, agent):
        play(each, range(1), max_turns=(1,))
    asked = [body["sampling_params"] for body in server.asked()]
    drawn = [(each["temperature"], each["top_p"], each["max_tokens"]) for each in asked]
    assert drawn == [(1.0, 1.0, 4), (0.0, 0.9, 7), (1.0, 1.0, 4)]
    assert all(each["stop_token_ids"] == [tiny[1].end_of_turn_id] for each in asked)


def test_tokens_and_pictures_go_over_the_wire_as_they_are(agent, server, tiny):
    (episode,) = play(agent, range(1), max_turns=(2,))
    bodies = server.asked()
    assert [turn.response_ids.tolist() for turn in episode.turns] == [[301, tiny[1].end_of_turn_id]] * 2
    assert bodies[0]["token_ids"] == episode.turns[0].prompt_ids.tolist()
    asked = bodies[1]["sampling_params"]
    assert asked["max_tokens"] == 4 and asked["stop_token_ids"] == [tiny[1].end_of_turn_id] and asked["logprobs"] == 0
    assert asked["seed"] != bodies[0]["sampling_params"]["seed"]
    assert {int(token) for token in asked["logit_bias"]} == set(tiny[1].suppressed_ids())
    features, pictures = bodies[1]["features"], tiny[1].encode(episode.turns[1].observation, is_first=False).images
    (place,) = features["mm_placeholders"]["image"][1:]
    assert bodies[1]["token_ids"][place["offset"]] == tiny[1].image_token_id
    sent = msgpack.unpackb(base64.b64decode(features["kwargs_data"]["image"][1]), ext_hook=lambda _, data: data)
    dtype, shape, data = sent["pixel_values"]["data"]
    assert np.array_equal(np.frombuffer(data, dtype).reshape(shape), pictures[0].inputs["pixel_values"])
    assert sent["image_grid_thw"]["data"][1] == [3], "one picture's grid, without the axis of pictures"


def test_what_the_server_keeps_of_a_prefix_is_of_the_weights_it_was_computed_with(agent, server, tiny):
    for version in (1, 2):
        agent.sync(tiny[0], version)
        play(agent, range(1), max_turns=(1,))
    first, second = server.asked()
    assert first["token_ids"] == second["token_ids"]
    assert first["cache_salt"] != second["cache_salt"]
    assert first["features"]["mm_hashes"] != second["features"]["mm_hashes"]


@pytest.mark.parametrize("part_bytes", [2**26, 2**17])
def test_weights_reach_the_workers_whole_over_http(part_bytes, agent, server, tiny, monkeypatch):
    monkeypatch.setattr(server_module, "_PART_BYTES", part_bytes)
    for _ in range(2):  # what came before is no part of what comes then
        with torch.no_grad():
            tiny[0].lm_head.weight.add_(1.0)
        agent.sync(tiny[0], 1)
        state = tiny[0].state_dict()
        assert server.weights.keys() == state.keys()
        assert all(torch.equal(server.weights[name], state[name]) for name in state)
    num_parts = sum(path == "/collective_rpc" for path, _ in server.bodies) // 2
    assert num_parts == 1 if part_bytes == 2**26 else num_parts > 1


def test_weights_of_which_a_part_is_missing_are_not_taken(server):
    server.worker.receive_weights(base64.b64encode(safetensors.torch.save({})).decode(), "1", "3")
    with pytest.raises(ValueError, match="2 of 3 parts"):
        server.worker.receive_weights(base64.b64encode(safetensors.torch.save({})).decode(), "3", "3")
    assert server.weights is None


def test_weights_reach_the_workers_through_a_folder_that_both_see(server, tiny, tmp_path):
    config = VLLMConfig(url=server.url, weights_dir=str(tmp_path / "weights"))
    engine = ServerEngine(config, tiny[1], SAMPLING, max_context_tokens=1024)
    engine.load(tiny[0].state_dict(), "new")
    engine.close()
    assert server.weight_version == "new"
    state = tiny[0].state_dict()
    assert server.weights.keys() == state.keys(), "a tied head is written out: vLLM would leave its own as it was"
    assert all(torch.equal(server.weights[name], state[name]) for name in state)


@pytest.mark.parametrize(("fault", "told"), [(0, "was lost"), (500, r"refused \(500\): .*so it is")])
def test_a_response_that_cannot_be_had_ends_its_episode_and_says_why(fault, told, agent, server):
    agent.sync(agent._model, 1)
    server.faults["/inference/v1/generate"] = fault
    (episode,) = play(agent, range(1))
    (turn,) = episode.turns
    assert turn.stop_reason == "error" and turn.truncated
    assert re.search(told, turn.info["agent_error"])


def test_a_connection_that_the_server_is_about_to_end_is_not_used_again(agent, server):
    agent.sync(agent._model, 1)
    server.idle_s = 1.2
    (before,) = play(agent, range(1), max_turns=(2,))
    time.sleep(1.5)  # an update takes longer
    (after,) = play(agent, range(1), max_turns=(2,))
    assert not failure_of(before) and not failure_of(after)


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        ({"finish_reason": "abort"}, r"broke off its answer \(abort\) after 2 tokens"),
        ({"logprobs": 1}, "2 tokens with 1 log-probabilities"),
    ],
)
def test_half_an_answer_is_none(answered, told, agent, server):
    agent.sync(agent._model, 1)
    server.answered |= answered
    (episode,) = play(agent, range(1))
    assert re.search(told, episode.turns[0].info["agent_error"])


def test_a_server_that_hangs_costs_one_deadline_and_not_one_for_each_that_waits(server, tiny, monkeypatch):
    monkeypatch.setattr("agents.vllm.server_engine._PROBE_S", 600.0)  # however busy the machine is
    config = VLLMConfig(url=server.url, wait_s=0, timeout_s=1.0, max_parallel=1)
    engine = ServerEngine(config, tiny[1], SAMPLING, max_context_tokens=1024)
    agent = VLLMAgent(model=tiny[0], encoder=tiny[1], sampling=SAMPLING, engine=engine)
    agent.sync(tiny[0], 1)
    for path in ("/inference/v1/generate", "/health"):
        server.faults[path] = "silence"
    reasons = [failure_of(episode) for episode in play(agent, range(8))]
    assert server.unanswered == ["/inference/v1/generate", "/health"], "one answer, and one question whether it is well"
    assert "no whole reply within 1 s" in reasons[0] and all(
        "not answered others in time" in each for each in reasons[1:]
    )
    server.faults.clear()
    agent.sync(tiny[0], 2)
    assert not any(map(failure_of, play(agent, range(2))))
    engine.close()


PROGRAM = """
import sys
from pathlib import Path
from agents.hf.hf_agent import load_checkpoint
from agents.vllm.vllm_config import VLLMConfig
from agents.vllm.vllm_engine import Request
from agents.vllm.server_engine import ServerEngine
from tests.unit.agents.vllm.test_server_engine import SAMPLING

_, encoder = load_checkpoint(Path(sys.argv[2]))
config = VLLMConfig(url=sys.argv[1], wait_s=0, timeout_s=200.0)
closed, left_open = (ServerEngine(config, encoder, SAMPLING, max_context_tokens=1024) for _ in range(2))
input(closed)
for engine in (closed, left_open):
    engine.add_request("one", Request(ids=[1, 2], images=(), offsets=(), seed=0))
input()
closed.close()
print("closed")
"""


@pytest.mark.soak
def test_the_end_waits_for_no_server_that_hangs(server, tiny_directory):
    """Nor does the end of the process, whose threads Python waits for."""
    command = [sys.executable, "-c", PROGRAM, server.url, str(tiny_directory)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    with subprocess.Popen(command, cwd=Path(__file__).parents[4], **pipes) as process:
        assert b"ServerEngine" in process.stdout.read(40)
        server.faults["/inference/v1/generate"] = "silence"
        process.stdin.write(b"\n")
        while len(server.unanswered) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        told, _ = process.communicate(b"\n", timeout=60)
    assert told.endswith(b"closed\n") and process.returncode == 0 and not server.speaks.is_set()


def test_a_server_that_was_silent_and_is_well_again_is_asked_again(agent, server, engine):
    agent.sync(agent._model, 1)
    engine._responses._was_silent = True
    assert not any(map(failure_of, play(agent, range(2))))


def test_a_response_of_other_weights_is_none(agent, server):
    agent.sync(agent._model, 1)
    server.reports = "default"
    (episode,) = play(agent, range(1))
    assert "answered with other weights (default)" in episode.turns[0].info["agent_error"]


def test_a_server_that_is_gone_at_a_sync_is_told_with_what_to_do(agent, server):
    server.faults["/update_weight_version"] = 0
    with pytest.raises(SamplerLostError, match=r"No vLLM server answers at http.*--vllm\.url.*--resume"):
        agent.sync(agent._model, 1)
    server.faults["/update_weight_version"] = 500
    with pytest.raises(SamplerLostError, match=r"refuses /update_weight_version \(500\): .*--worker-extension-cls"):
        agent.sync(agent._model, 1)


def test_a_server_that_is_gone_is_waited_for_aloud_and_then_given_up(server, tiny, monkeypatch, caplog):
    monkeypatch.setattr(server_module, "_PAUSE_S", 0.05)
    engine = ServerEngine(VLLMConfig(url=server.url, wait_s=0.3), tiny[1], SAMPLING, max_context_tokens=1024)
    server.faults["/collective_rpc"] = 0
    with pytest.raises(SamplerLostError, match=r"--resume"):
        engine.load({"one": torch.zeros(1)}, "new")  # which are sent at once, however busy the machine is
    engine.close()
    assert caplog.text.count("0 seconds at most") == 1
    assert sum(path == "/collective_rpc" for path, _ in server.bodies) == 0, "nothing was taken"


@pytest.mark.parametrize("before", ["/collective_rpc", "/update_weight_version"])
def test_a_server_that_is_started_anew_among_its_weights_is_given_all_of_them_again(before, server, tiny, monkeypatch):
    monkeypatch.setattr(server_module, "_PART_BYTES", 2**17)
    monkeypatch.setattr(server_module, "_PAUSE_S", 0.01)
    engine = ServerEngine(VLLMConfig(url=server.url, wait_s=10), tiny[1], SAMPLING, max_context_tokens=1024)
    real, num_parts = server.worker.receive_weights, []

    def fourth(*part):
        real(*part)
        num_parts.append(part)
        server.restart_before = before if len(num_parts) == 4 or before != "/collective_rpc" else ""

    monkeypatch.setattr(server.worker, "receive_weights", fourth, raising=False)
    engine.load(tiny[0].state_dict(), "new")
    engine.close()
    assert num_parts and server.weight_version == "new"
    state = tiny[0].state_dict()
    assert server.weights is not None and all(torch.equal(server.weights[name], state[name]) for name in state)


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("path", ["/server_info", "/collective_rpc"])
def test_a_server_that_a_gateway_answers_for_while_it_starts_is_waited_for(status, path, server, tiny, monkeypatch):
    monkeypatch.setattr(server_module, "_PAUSE_S", 0.05)
    engine = ServerEngine(VLLMConfig(url=server.url, wait_s=30), tiny[1], SAMPLING, max_context_tokens=1024)
    server.faults[path] = status
    threading.Timer(0.2, lambda: server.faults.pop(path)).start()
    engine.load(tiny[0].state_dict(), "new")
    engine.close()
    assert server.weight_version == "new"


def test_a_sync_that_drips_is_given_up_when_its_time_is_over(server, tiny):
    engine = ServerEngine(VLLMConfig(url=server.url, wait_s=0, timeout_s=1.0), tiny[1], SAMPLING, max_context_tokens=9)
    server.drips["/server_info"] = 0.2
    began = time.monotonic()
    with pytest.raises(SamplerLostError, match="no whole reply within 1 s"):
        engine.load(tiny[0].state_dict(), "new")
    assert time.monotonic() - began < 10
    engine.close()


def test_an_address_of_something_else_is_told(server, tiny, monkeypatch):
    monkeypatch.setattr(server, "answer", lambda path, body: {"hello": path})
    with pytest.raises(ConfigError, match=rf"at {server.url} is no vLLM server .*hello.* with --vllm\.url"):
        ServerEngine(VLLMConfig(url=server.url), tiny[1], SAMPLING, max_context_tokens=1024)


def test_one_that_refuses_to_tell_of_itself_is_told_without_a_wrong_remedy(server, tiny, monkeypatch):
    monkeypatch.setattr(server_module, "_PAUSE_S", 0.01)
    server.faults["/server_info"] = 401
    with pytest.raises(SamplerLostError, match=r"refuses /server_info \(401\): .*\. Is it a vLLM server") as caught:
        ServerEngine(VLLMConfig(url=server.url), tiny[1], SAMPLING, max_context_tokens=1024)
    assert "--worker-extension-cls" not in str(caught.value)


def test_a_server_that_was_started_anew_otherwise_is_refused_at_the_next_sync(agent, server):
    agent.sync(agent._model, 1)
    server.config["logprobs_mode"] = "raw_logprobs"
    with pytest.raises(ConfigError, match="raw_logprobs"):
        agent.sync(agent._model, 2)


@pytest.mark.parametrize(
    ("change", "fault", "told"),
    [
        ({"logprobs_mode": "raw_logprobs"}, {}, "started with --logprobs-mode raw_logprobs"),
        ({"multimodal_config": {"mm_device_do_normalize": True}}, {}, "started without --no-mm-device-do-normalize"),
        ({"max_model_len": 512}, {}, "room for 512 tokens where conversations have up to 1024"),
        ({}, {"/server_info": 404}, "not in its development mode"),
        ({}, {"/inference/v1/generate": 403}, "started without --enable-scale-out"),
    ],
)
def test_a_server_that_cannot_be_trained_with_is_refused_with_how_to_start_it(change, fault, told, server, tiny):
    server.config |= change
    server.faults |= fault
    with pytest.raises(
        ConfigError,
        match=rf"{told}.* Start vLLM with: PYTHONPATH=.* VLLM_SERVER_DEV_MODE=1 python -m vllm.* --model DIR .*--ena",
    ):
        ServerEngine(VLLMConfig(url=server.url), tiny[1], SAMPLING, max_context_tokens=1024)


def test_a_server_that_is_not_there_is_told(tiny):
    config = VLLMConfig(url="http://127.0.0.1:9", wait_s=0)
    with pytest.raises(SamplerLostError, match=r"No vLLM server answers at http://127\.0\.0\.1:9"):
        ServerEngine(config, tiny[1], SAMPLING, max_context_tokens=1024)


def late_lake():
    """Returns a world whose steps take longer than the server's quick answers: nobody else is being answered then."""
    world = make("VLM/FrozenLake-v0", prompt_format="free_think", max_turns=2)
    real = world.unwrapped.step

    def step(action):
        time.sleep(0.15)
        return real(action)

    world.unwrapped.step = step
    return world


def test_a_response_that_takes_long_holds_up_no_other(agent, server):
    server.pauses.append(0.01)

    ends = []
    continuous = ContinuousVLLMAgent(model=agent._model, encoder=agent.encoder, sampling=SAMPLING, engine=agent.engine)
    with VectorWorld([late_lake] * 4, workers="thread", num_workers=4) as vector:
        played = rollout(
            continuous,
            vector,
            [0, 1, 2, 3],
            env_ids=["VLM/FrozenLake-v0"] * 4,
            on_turn=lambda row, turn: ends.append(row),
        )
    assert [len(each.turns) for each in played] == [2] * 4
    (slow,) = {row for row in range(4)} - {*ends[:6]}
    assert ends[-2:] == [slow, slow], "the others had both of their turns before it had one"


def test_a_server_that_drips_is_given_up_when_its_time_is_over(server, tiny):
    server.pauses += [0.1] * 4
    config = VLLMConfig(url=server.url, wait_s=0, timeout_s=1.0)
    engine = ServerEngine(config, tiny[1], SAMPLING, max_context_tokens=1024)
    slow = VLLMAgent(model=tiny[0], encoder=tiny[1], sampling=SAMPLING, engine=engine)
    began = time.monotonic()
    (episode,) = play(slow, range(1), max_turns=(1,))
    assert "no whole reply within 1 s" in failure_of(episode)
    assert time.monotonic() - began < 3.0
    engine.close()
