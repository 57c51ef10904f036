"""vLLM in a process of its own, whose weights go through a file. Run in .venv-vllm, by `make test-vllm`."""

from agents.rollout import failure_of
from agents.vllm.agent import VLLMAgent, make_engine
from agents.vllm.config import VLLMConfig
from tests.unit.episodes import play
from tests.vllm.sampling import GREEDY, checkpoint, require_new_weights

CONFIG = VLLMConfig(process="own", memory_fraction=0.1, max_images=4)


def test_its_tokens_follow_the_weights_and_where_it_died_it_is_started_anew():
    model, encoder = checkpoint()
    engine = make_engine(CONFIG, model, encoder, GREEDY)
    require_new_weights(engine, model, encoder)
    agent = VLLMAgent(model=model, encoder=encoder, sampling=GREEDY, engine=engine)
    agent.sync(model, 1)
    engine._kill()
    episodes = play(agent, range(2))
    assert all("was lost: ConnectError" in failure_of(episode) for episode in episodes)
    agent.sync(model, 2)
    assert not any(map(failure_of, play(agent, range(2))))
    engine.close()
