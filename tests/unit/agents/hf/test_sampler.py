"""Sampling over several turns is the trainer's forward pass, token for token."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agents.agent import RolloutRows
from agents.hf.hf_agent import HFAgent
from agents.hf.sampler import CachedSampler, EpisodeDraws
from agents.hf.sampling_config import SamplingConfig
from agents.hf.tiny_vlm import SPECIAL_TOKENS
from tests.unit.episodes import play
from tests.unit.models import BiasedHead, load, with_ending
from training.algorithms.losses import truncated_importance_weights
from training.batch import make_batch
from training.engines.policy import token_logprobs
from vlm_envs import make
from vlm_envs.errors import ConfigError

MAX_NEW_TOKENS = 7


@pytest.fixture
def family(family_directory):
    return load(family_directory)


def batch_of(trajectories, encoder):
    return make_batch(trajectories, [[0.0] * len(t.turns) for t in trajectories], encoder)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("obs_mode", ["image", "text"])
@pytest.mark.sample(4)
def test_sampler_and_trainer_agree_on_every_token(family, temperature, obs_mode):
    model, encoder = with_ending(*family, bias=5.5 * temperature), family[1]
    sampling = SamplingConfig(temperature=temperature, max_new_tokens=MAX_NEW_TOKENS)
    agent = HFAgent(model=model, encoder=encoder, sampling=sampling, seed=3)
    # Rows leave one after another, so that the cache is cut down in the middle of the rollout.
    trajectories = play(agent, range(8), max_turns=(1, 4, 2, 3), obs_mode=obs_mode)
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    assert {turn.stop_reason for turn in turns} == {"stop", "length"}, "some are cut, some end by themselves"
    assert len({len(turn.response_ids) for turn in turns}) > 3, "of many lengths"
    assert {len(trajectory.turns) for trajectory in trajectories} == {1, 2, 3, 4}
    batch = batch_of(trajectories, encoder)
    with torch.no_grad():
        logprobs_BT, _ = token_logprobs(model, batch, temperature=temperature, suppressed_ids=encoder.suppressed_ids())
    gap = (logprobs_BT - batch.sampler_logprobs_BT).abs()
    assert float(gap.max()) < 1e-4
    assert float(batch.sampler_logprobs_BT.min()) < -0.1, "the log-probabilities are not trivial"


def test_under_top_p_the_sampler_is_surer_by_one_over_the_mass_it_kept(tiny):
    """So that truncated importance weights are that mass, and a cap above 1 is never reached on one engine."""
    model, encoder = with_ending(*tiny), tiny[1]
    sampling = SamplingConfig(temperature=0.7, top_p=0.95, max_new_tokens=MAX_NEW_TOKENS)
    batch = batch_of(play(HFAgent(model=model, encoder=encoder, sampling=sampling, seed=3), range(8)), encoder)
    with torch.no_grad():
        logprobs_BT, _ = token_logprobs(model, batch, temperature=0.7, suppressed_ids=encoder.suppressed_ids())
    weights_BT = truncated_importance_weights(logprobs_BT, batch.sampler_logprobs_BT, cap=2.0)
    kept = weights_BT[batch.response_mask_BT]
    assert 0.95 - 1e-4 < float(kept.min()) < 0.97, "something was left out"
    assert float(kept.max()) < 1 + 1e-4


def test_a_cut_response_is_closed_before_the_next_observation(tiny):
    model, encoder = with_ending(*tiny), tiny[1]
    agent = HFAgent(model=model, encoder=encoder, sampling=SamplingConfig(max_new_tokens=MAX_NEW_TOKENS), seed=3)
    ends = 0
    for trajectory in play(agent, range(6), max_turns=(3,)):
        for turn, following in zip(trajectory.turns[:-1], trajectory.turns[1:], strict=True):
            was_cut = turn.stop_reason == "length"
            assert (turn.response_ids[-1] == encoder.end_of_turn_id) != was_cut
            assert (following.prompt_ids[0] == encoder.end_of_turn_id) == was_cut
            assert len(turn.response_ids) == MAX_NEW_TOKENS or not was_cut
            ends += was_cut
    assert ends > 0


def segments_of_many_kinds(encoder):
    """Observations of different lengths: small and large pictures, none, several, and a long text."""
    lake, room = (make(f"VLM/{name}-v0").reset(seed=5)[0] for name in ("FrozenLake", "Sokoban"))
    observations = [
        {"text": "go", "image": lake["image"]},
        {"text": "go", "image": room["image"]},
        {"text": "go"},
        {"text": "two", "images": (lake["image"], room["image"])},
        {"text": "a long story " * 30, "image": lake["image"]},
    ]
    return [encoder.encode(observation, is_first=True) for observation in observations]


def greedy(model, encoder, segments, follow_up):
    """Returns the tokens of two turns, greedily, of these rows together."""
    sampling = SamplingConfig(temperature=0.0, max_new_tokens=5)
    sampler = CachedSampler(model, encoder, sampling, EpisodeDraws(0))
    rows = list(range(len(segments)))
    sampler.start(RolloutRows.ungrouped(len(rows)))
    first = sampler.continue_rows(rows, segments)
    second = sampler.continue_rows(rows[::-1], [follow_up] * len(rows))[::-1]
    return [(a.ids, b.ids, np.array(a.logprobs + b.logprobs)) for a, b in zip(first, second, strict=True)]


@pytest.mark.parametrize("ending_bias", [0.0, 4.0], ids=["cut", "ended"])
def test_a_row_does_not_depend_on_its_neighbours(family, ending_bias):
    model, encoder = with_ending(*family, bias=ending_bias), family[1]
    segments = segments_of_many_kinds(encoder)
    picture = make("VLM/FrozenLake-v0").reset(seed=6)[0]["image"]
    follow_up = encoder.encode({"text": "and now?", "image": picture}, is_first=False)
    together = greedy(model, encoder, segments, follow_up)
    alone = [greedy(model, encoder, [segment], follow_up)[0] for segment in segments]
    for (first, second, logprobs), (first_alone, second_alone, logprobs_alone) in zip(together, alone, strict=True):
        assert (first, second) == (first_alone, second_alone)
        assert np.allclose(logprobs, logprobs_alone, atol=1e-4)
    assert len({round(float(logprobs[0]), 3) for _, _, logprobs in alone}) == len(alone), "the rows do differ"


def test_special_tokens_are_never_sampled_however_likely(tiny):
    model, encoder = tiny
    forbidden = set(encoder.tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS))) - {encoder.end_of_turn_id}
    assert {encoder.image_token_id, encoder.pad_id} < forbidden
    model.lm_head = BiasedHead(model.lm_head, sorted(forbidden), 50.0)
    agent = HFAgent(model=model, encoder=encoder, sampling=SamplingConfig(max_new_tokens=12), seed=0)
    trajectories = play(agent, range(6))
    sampled = {int(token) for t in trajectories for turn in t.turns for token in turn.response_ids}
    assert len(sampled) > 20
    assert not sampled & forbidden
    with torch.no_grad():
        logprobs_BT, entropy_BT = token_logprobs(
            model, batch_of(trajectories, encoder), temperature=1.0, suppressed_ids=encoder.suppressed_ids()
        )
    assert torch.isfinite(logprobs_BT).all()
    assert torch.isfinite(entropy_BT).all()
    assert float((logprobs_BT - batch_of(trajectories, encoder).sampler_logprobs_BT).abs().max()) < 1e-4


def draws(model, encoder, logits, num_draws, **sampling):
    """Returns how often each token is drawn from given logits, and the log-probability reported with it."""
    sampler = CachedSampler(model, encoder, SamplingConfig(**sampling), EpisodeDraws(11))
    sampler._tokens.draws.begin(range(num_draws))
    ids, logprobs = sampler._tokens.draw(logits.expand(num_draws, -1), range(num_draws))
    return torch.bincount(ids, minlength=logits.shape[-1]), dict(zip(ids.tolist(), logprobs.tolist(), strict=True))


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_frequencies_are_the_softmax_of_the_logits_over_the_temperature(tiny, temperature):
    model, encoder = tiny
    first, num_draws = 300, 15_000  # ordinary tokens
    logits = torch.full((len(encoder.tokenizer),), -torch.inf)
    logits[first : first + 5] = torch.tensor([0.0, 1.0, 2.0, -1.0, 0.5])
    counts, logprobs = draws(model, encoder, logits, num_draws, temperature=temperature)
    expected = torch.softmax(logits[first : first + 5] / temperature, 0) * num_draws
    chi_square = float(((counts[first : first + 5] - expected) ** 2 / expected).sum())
    assert chi_square < 18.5, "4 degrees of freedom: exceeded by chance once in a thousand"
    assert int(counts.sum()) == int(counts[first : first + 5].sum()) == num_draws
    for token, logprob in logprobs.items():
        assert logprob == pytest.approx(float((expected[token - first] / num_draws).log()), abs=1e-5)


@pytest.mark.soak
def test_top_p_keeps_the_smallest_set_and_renormalises(tiny):
    model, encoder = tiny
    first, num_draws = 300, 20_000
    logits = torch.full((len(encoder.tokenizer),), -torch.inf)
    logits[first : first + 4] = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    counts, logprobs = draws(model, encoder, logits, num_draws, top_p=0.75)
    assert set(logprobs) == {first, first + 1}, "0.5 + 0.3 is the smallest mass of at least 0.75"
    assert logprobs[first] == pytest.approx(np.log(0.5 / 0.8), abs=1e-5)
    assert float(counts[first]) / num_draws == pytest.approx(0.625, abs=0.015)


def test_temperature_zero_takes_the_most_likely(tiny):
    model, encoder = tiny
    logits = torch.zeros(len(encoder.tokenizer))
    logits[400] = 0.1
    counts, _ = draws(model, encoder, logits, 50, temperature=0.0)
    assert int(counts[400]) == 50


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"temperature": 1e-9},
        {"temperature": 0.009},
        {"top_p": 0.0},
        {"top_p": 1e-9},
        {"top_p": 0.04},
        {"top_p": 1.5},
        {"max_new_tokens": 0},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(wrong):
    (field,) = wrong
    with pytest.raises(ConfigError, match=f"{field} must be .*; got"):
        SamplingConfig(**wrong)


def test_siblings_are_shown_their_first_prompt_once(family):
    model, encoder = with_ending(*family), family[1]
    fed = []
    model.model.language_model.register_forward_pre_hook(
        lambda _, args, named: fed.append(tuple(named["inputs_embeds"].shape[:2])), with_kwargs=True
    )
    sampling = SamplingConfig(max_new_tokens=MAX_NEW_TOKENS)
    agent = HFAgent(model=model, encoder=encoder, sampling=sampling, seed=3)
    together = play(agent, [0, 1, 0, 1, 0], max_turns=(2,))
    assert fed[0][0] == 2 and fed[1] == (5, 1)
    batch = batch_of(together, encoder)
    with torch.no_grad():
        logprobs_BT, _ = token_logprobs(model, batch, temperature=1.0, suppressed_ids=encoder.suppressed_ids())
    assert float((logprobs_BT - batch.sampler_logprobs_BT).abs().max()) < 1e-4
    assert len({trajectory.turns[0].response_ids.tobytes() for trajectory in together}) > 2, "each says its own"
