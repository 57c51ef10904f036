"""What sampling keeps and lets go of: features of pictures, the key-value cache, prompts in chunks."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy as np
import pytest
import torch

from agents.agent import RolloutRows
from agents.hf.hf_agent import HFAgent
from agents.hf.model_families import SeenImages, family_of, vision_parts
from agents.hf.sampler import CachedSampler, EpisodeDraws
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import play
from tests.unit.families import SAVERS, TOKENS_PER_TILE
from tests.unit.models import load, with_ending
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import observation_images


@pytest.fixture
def shown_to_tower(monkeypatch):
    """The keys of all pictures that a tower is shown, call by call."""
    from agents.hf.model_families import QwenVL

    calls, tower = [], QwenVL.image_features
    monkeypatch.setattr(
        QwenVL,
        "image_features",
        lambda self, model, images: (calls.append([image.key for image in images]), tower(self, model, images))[1],
    )
    return calls


def agent_of(model, encoder, **sampling):
    return HFAgent(model=model, encoder=encoder, sampling=SamplingConfig(**{"max_new_tokens": 5, **sampling}), seed=3)


def keys_of(trajectories, encoder):
    return {
        image.key
        for trajectory in trajectories
        for turn in trajectory.turns
        for image in encoder.process_images(observation_images(turn.observation))
    }


def test_a_picture_is_shown_to_the_tower_once_a_version(tiny, shown_to_tower):
    model, encoder = with_ending(*tiny), tiny[1]
    agent = agent_of(model, encoder)
    played = play(agent, [0, 0, 0, 1], max_turns=(2,))
    shown = [key for call in shown_to_tower for key in call]
    assert len(shown_to_tower[0]) == 2, "three siblings see one picture"
    assert len(shown) == len(set(shown))
    assert set(shown) == keys_of(played, encoder)
    agent.sync(model, 0)
    num_calls = len(shown_to_tower)
    play(agent, [0, 0, 0, 1], max_turns=(2,))
    assert not {key for call in shown_to_tower[num_calls:] for key in call} & set(shown), "the weights are the same"
    agent.sync(model, 1)
    shown_to_tower.clear()
    play(agent, [0, 0, 0, 1], max_turns=(2,))
    assert set(shown_to_tower[0]) <= set(shown), "the weights are new, and so is what they make of a picture"


def test_a_frozen_tower_is_not_asked_again(tiny, shown_to_tower):
    model, encoder = with_ending(*tiny), tiny[1]
    for part in vision_parts(model):
        part.requires_grad_(False)
    agent = agent_of(model, encoder)
    play(agent, [0, 1], max_turns=(2,))
    shown = {key for call in shown_to_tower for key in call}
    shown_to_tower.clear()
    agent.release()
    agent.sync(model, 1)
    play(agent, [0, 1], max_turns=(2,))
    assert not shown & {key for call in shown_to_tower for key in call}


def test_features_are_kept_up_to_a_limit_and_come_out_the_same(tiny):
    model, encoder = tiny
    pictures = encoder.process_images(
        [np.random.default_rng(seed).integers(0, 256, (56, 56, 3), dtype=np.uint8) for seed in range(6)]
    )
    with torch.no_grad():
        roomy, tight = SeenImages(), SeenImages(max_bytes=3000 * pictures[0].num_tokens)
        for order in ([0, 1, 2, 0], [5, 4, 3, 2, 1, 0], [3, 3]):
            asked = [pictures[index] for index in order]
            one, other = roomy.features(model, asked), tight.features(model, asked)
            assert torch.allclose(one.tokens_ND, other.tokens_ND, atol=1e-5)
            assert all(torch.allclose(*pair, atol=1e-5) for pair in zip(one.layers, other.layers, strict=True))
            assert tight._num_bytes == sum(each.nbytes for each in tight._features.values()) <= tight._max_bytes
    assert len(roomy._features) == 6 > len(tight._features) > 0


def test_released_memory_is_free(tiny):
    agent = agent_of(with_ending(*tiny), tiny[1])
    play(agent, range(3), max_turns=(2,))
    buffers = [weakref.ref(layer._buffers) for layer in agent._sampler._cache.layers]
    features = [weakref.ref(each.tokens_ND) for each in agent._sampler.seen._features.values()]
    assert all(each() is not None for each in buffers + features)
    agent.release()
    gc.collect()
    assert buffers
    assert features
    assert all(each() is None for each in buffers + features)
    play(agent, range(3), max_turns=(2,))


@pytest.fixture(scope="module")
def further_directories(tmp_path_factory):
    directories = {name: tmp_path_factory.mktemp(name) for name in SAVERS}
    for name, directory in directories.items():
        SAVERS[name](directory)
    return directories


@pytest.fixture(params=["qwen3_vl", "qwen2_5_vl", *SAVERS])
def family(request):
    name = request.param
    own = {"qwen3_vl": "tiny_directory", "qwen2_5_vl": "qwen2_5_directory"}
    if name in own:
        return load(request.getfixturevalue(own[name]))
    return load(request.getfixturevalue("further_directories")[name])


def sampled(model, encoder, chunk):
    """Returns two turns of rows of many lengths, greedily, and the columns that were fed, block by block."""
    rng = np.random.default_rng(1)
    square, wide = (rng.integers(0, 256, shape, dtype=np.uint8) for shape in ((56, 56, 3), (56, 112, 3)))
    config = SamplingConfig(temperature=0.0, max_new_tokens=4, prefill_chunk_tokens=chunk)
    sampler = CachedSampler(model, encoder, config, EpisodeDraws(0))
    fed, forward = [], sampler.family.hidden_states

    def hidden_states(model, ids, **kwargs):
        fed.append(ids)
        return forward(model, ids, **kwargs)

    sampler.family = copy.copy(sampler.family)
    sampler.family.hidden_states = hidden_states
    rows = [0, 1, 2]
    sampler.start(RolloutRows.ungrouped(len(rows)))
    turns = [
        [{"text": "look", "images": (square, wide)}, {"text": "a long story " * 9}, {"text": "x", "image": wide}],
        [{"text": "and now?", "image": square}, {"text": "go", "image": wide}, {"text": "go"}],
    ]
    samples = []
    for number, observations in enumerate(turns):
        segments = [
            encoder.encode(
                observation,
                is_first=number == 0,
                needs_end_of_turn=number > 0 and samples[row].ids[-1] != encoder.end_of_turn_id,
            )
            for row, observation in enumerate(observations)
        ]
        samples += sampler.continue_rows(rows, segments)
    return samples, fed


@pytest.mark.parametrize("chunk", [1, 7, 50])
@pytest.mark.sample(4)
def test_prompts_in_chunks_sample_the_same(family, chunk):
    model, encoder = with_ending(*family, bias=2.0), family[1]
    whole, blocks = sampled(model, encoder, None)
    parts, chunks = sampled(model, encoder, chunk)
    for one, other in zip(whole, parts, strict=True):
        assert one.ids == other.ids
        assert np.allclose(one.logprobs, other.logprobs, atol=1e-4)
    assert max(ids.shape[1] for ids in blocks) > chunk
    if not family_of(model).keeps_images_whole:
        assert max(ids.shape[1] for ids in chunks) <= chunk
        return
    assert len(chunks) > len(blocks)
    is_image = torch.cat(
        [torch.nn.functional.pad(ids == encoder.image_token_id, (1, 1)) for ids in chunks], dim=1
    ).int()
    lengths = [len(run) for row in is_image.tolist() for run in "".join(map(str, row)).split("0") if run]
    assert set(lengths) == {TOKENS_PER_TILE}, "no picture is cut"


def test_a_chunk_of_no_columns_is_refused():
    with pytest.raises(ConfigError, match="prefill_chunk_tokens must be"):
        SamplingConfig(prefill_chunk_tokens=0)


LARGE = np.random.default_rng(2).integers(0, 256, (224, 336, 3), dtype=np.uint8)


@pytest.mark.parametrize("max_pixels", [784, 1600, 4000, 30_000])
@pytest.mark.sample(4)
def test_larger_pictures_are_scaled_down_and_the_checkpoint_keeps_it(family, max_pixels, tmp_path):
    model, encoder = family
    own = encoder.process_images((LARGE,))[0]
    agent = agent_of(model, encoder, max_image_pixels=max_pixels)
    (limited,) = agent.encoder.process_images((LARGE,))
    assert 0 < limited.inputs["pixel_values"].nbytes <= own.inputs["pixel_values"].nbytes
    assert limited.num_tokens <= max(1, max_pixels // (28 * 28)) * TOKENS_PER_TILE
    if max_pixels == 784 and not family_of(model).keeps_images_whole:
        assert limited.num_tokens < own.num_tokens
    model.save_pretrained(tmp_path)
    encoder.save_processor(tmp_path)
    (kept,) = load(tmp_path)[1].process_images((LARGE,))
    assert kept.num_tokens == limited.num_tokens


def test_fewer_pixels_than_any_picture_has_are_refused(family):
    with pytest.raises(ConfigError, match="max_image_pixels must be at least 784"):
        agent_of(*family, max_image_pixels=700)
