"""Sampling over HTTP, from an environment that has no vLLM: a server as another machine would run it."""

import pytest

from agents.vllm.server_engine import OPTIONS, RECEIVER
from agents.vllm.vllm_agent import VLLMAgent, make_engine
from agents.vllm.vllm_config import SamplerLostError, VLLMConfig
from tests.unit.episodes import play
from tests.vllm.sampling import DRAWN, GREEDY, checkpoint, require_alone, require_new_weights
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import failure_of


@pytest.fixture(scope="module")
def tiny():
    return checkpoint()


@pytest.mark.timeout(1500)
def test_tokens_follow_the_weights_however_they_are_sent_and_a_lost_server_costs_its_episodes(serve, tiny, tmp_path):
    room = ("--max-num-seqs", "64", "--max-num-batched-tokens", str(64 * 2048))
    with serve(*OPTIONS.split(), *room, "--worker-extension-cls", RECEIVER) as server:
        sent = VLLMConfig(url=server.url, wait_s=0)
        engine = make_engine(sent, *tiny, GREEDY)
        require_new_weights(engine, *tiny)
        shared = make_engine(VLLMConfig(url=server.url, weights_dir=str(tmp_path)), *tiny, GREEDY)
        require_new_weights(shared, *tiny)
        drawn = make_engine(sent, *tiny, DRAWN)
        require_alone(lambda _: drawn, *tiny)
        agent = VLLMAgent(model=tiny[0], encoder=tiny[1], sampling=GREEDY, engine=engine)
        agent.sync(tiny[0], 1)
        server.kill()
        assert all("was lost: ConnectError" in failure_of(episode) for episode in play(agent, range(2)))
        server.start()  # with the checkpoint's weights, under no name: what it says then is not ours
        assert all("answered with other weights" in failure_of(episode) for episode in play(agent, range(2)))
        agent.sync(tiny[0], 2)
        assert not any(map(failure_of, play(agent, range(2))))
        server.kill()
        with pytest.raises(SamplerLostError, match=r"No vLLM server answers.*--resume"):
            agent.sync(tiny[0], 3)
        for each in (engine, shared, drawn):
            each.close()


@pytest.mark.timeout(600)
def test_a_server_that_was_started_otherwise_is_refused(server, tiny):
    with pytest.raises(ConfigError, match=r"raw_logprobs\. Start vLLM with: .*VLLM_SERVER_DEV_MODE=1 python -m vllm"):
        make_engine(VLLMConfig(url=server.url), *tiny, GREEDY)
