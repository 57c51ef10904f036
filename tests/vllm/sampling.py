"""What every vLLM engine has to do as the transformers sampler does it, wherever it runs."""

import copy

import numpy as np
import torch

from agents.agent import RolloutRows
from agents.hf.hf_agent import HFAgent, load_checkpoint
from agents.hf.sampling_config import SamplingConfig
from agents.vllm.vllm_agent import ContinuousVLLMAgent, VLLMAgent, VLLMSampler
from tests.unit.episodes import play
from tests.vllm.server import CHECKPOINT
from vlm_envs.trajectory import failure_of

GREEDY = SamplingConfig(temperature=0.0, max_new_tokens=40, max_context_tokens=1024)
DRAWN = SamplingConfig(temperature=0.8, top_p=0.9, max_new_tokens=40, max_context_tokens=1024)
NEAR = 1e-3
"""Log-probabilities of the same token, from two implementations in float32."""


def checkpoint():
    return load_checkpoint(CHECKPOINT)


def changed(model):
    """Returns a model whose weights are others, and which says other things."""
    other, generator = copy.deepcopy(model), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(0.02 * torch.randn(weight.shape, generator=generator))
    return other


def require_alike(engine, model, encoder, *, num_episodes=6):
    """Asserts that episodes of three turns, a picture in each, are the same tokens; returns the responses."""
    asked = {"model": model, "encoder": encoder, "sampling": GREEDY}
    theirs = play(VLLMAgent(**asked, engine=engine), range(num_episodes), max_turns=(3,))
    ours = play(HFAgent(**asked), range(num_episodes), max_turns=(3,))
    assert sum(len(episode.turns) for episode in ours) >= 2 * num_episodes, "most have three turns"
    assert [failure_of(episode) for episode in theirs] == [""] * num_episodes
    for a, b in zip(theirs, ours, strict=True):
        assert [turn.response_ids.tolist() for turn in a.turns] == [turn.response_ids.tolist() for turn in b.turns]
        for mine, other in zip(a.turns, b.turns, strict=True):
            assert np.array_equal(mine.prompt_ids, other.prompt_ids) and mine.stop_reason == other.stop_reason
            np.testing.assert_allclose(mine.sampler_logprobs, other.sampler_logprobs, atol=NEAR, rtol=0)
    return [turn.response_text for episode in theirs for turn in episode.turns]


def require_new_weights(engine, model, encoder):
    """Asserts that what is sampled after a sync is what the weights then say, and back again."""
    before = require_alike(engine, model, encoder)
    assert require_alike(engine, changed(model), encoder) != before
    assert require_alike(engine, model, encoder) == before


def require_never_waiting(engine, model, encoder):
    """Asserts that episodes are those of a batch that waits, when none waits for another."""
    asked = {"model": model, "encoder": encoder, "sampling": GREEDY, "engine": engine}
    waiting, continuous = (play(kind(**asked), range(6), max_turns=(3, 1)) for kind in (VLLMAgent, ContinuousVLLMAgent))
    for a, b in zip(waiting, continuous, strict=True):
        assert [turn.response_ids.tolist() for turn in a.turns] == [turn.response_ids.tolist() for turn in b.turns]
        assert failure_of(b) == ""


def segments_of(encoder, num_rows):
    """Returns one conversation's three segments for each row: two pictures, none, and one of another size."""
    draw = np.random.default_rng(0).integers
    rows = []
    for row in range(num_rows):
        large, small = draw(0, 256, (84, 112, 3), np.uint8), draw(0, 256, (56, 56, 3), np.uint8)
        shown = [
            {"text": f"Two pictures, {row}.", "images": (large, small)},
            {"text": "None.", "images": ()},
            {"text": "One.", "image": small},
        ]
        rows.append([encoder.encode(each, is_first=index == 0) for index, each in enumerate(shown)])
    return rows


def require_alone(make_engine, model, encoder):
    """Asserts that a row's responses are the same whoever is sampled beside it, and in whatever order."""
    engine, shown = make_engine(DRAWN), segments_of(encoder, 4)
    engine.load(model.state_dict(), "alone")

    def drawn(rows, seed=7):
        sampler = VLLMSampler(engine, encoder, seed)
        sampler.start(RolloutRows.ungrouped(4))
        said = {row: [] for row in rows}
        for turn in range(3):
            for row, sample in zip(rows, sampler.continue_rows(rows, [shown[row][turn] for row in rows]), strict=True):
                assert sample.error == "" and len(sample.ids) == len(sample.logprobs) > 0
                said[row].append(sample.ids)
        return said

    together, turned, other = drawn([0, 1, 2, 3]), drawn([3, 1]), drawn([0, 1, 2, 3], seed=8)
    assert {row: together[row] for row in turned} == turned
    assert together != other
    assert len({tuple(map(tuple, each)) for each in together.values()}) == 4
