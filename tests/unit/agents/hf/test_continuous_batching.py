"""Rows that join and leave a batch at any time are answered as in one that waits for all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agents.agent import RolloutRows
from agents.hf.continuous_batching import ContinuousSampler
from agents.hf.sampler import CachedSampler, EpisodeDraws
from agents.hf.sampling_config import SamplingConfig
from tests.unit.families import SAVERS
from tests.unit.models import load, save_tiny, save_tiny_qwen2_5_vl, with_ending
from tests.unit.slow import quick
from vlm_envs import make

SEED = 11
NUM_TURNS = 3


@pytest.fixture(scope="module", params=["qwen3_vl", "qwen2_5_vl", *SAVERS])
def checkpoint(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "qwen3_vl":
        save_tiny(directory)
    elif request.param == "qwen2_5_vl":
        save_tiny_qwen2_5_vl(directory, request.getfixturevalue("tiny_directory"))
    else:
        SAVERS[request.param](directory)
    return directory


@pytest.fixture
def model_and_encoder(checkpoint):
    model, encoder = load(checkpoint)
    return with_ending(model, encoder, bias=3.0), encoder


def conversations(encoder):
    """Prompts of three turns: four siblings that begin alike, and others of every length, with and without pictures."""
    lake, room = (make(f"VLM/{name}-v0").reset(seed=5)[0]["image"] for name in ("FrozenLake", "Sokoban"))
    first = [
        *[{"text": "go", "image": lake}] * 4,
        {"text": "go", "image": room},
        {"text": "go"},
        {"text": "a long story " * 30, "images": (lake, room)},
    ]
    later = [{"text": "on", "image": room}, {"text": "and then? " * 8}, {"text": "now", "images": (room, lake)}]
    return [
        [opening, *(later[(row + turn) % len(later)] for turn in range(1, NUM_TURNS))]
        for row, opening in enumerate(first)
    ]


def in_step(model, encoder, sampling, shown):
    """Returns the samples of every row, by turns, where each turn waits for all rows."""
    sampler = CachedSampler(model, encoder, sampling, EpisodeDraws(SEED))
    rows = list(range(len(shown)))
    sampler.start(RolloutRows.ungrouped(len(rows)))
    samples = [[] for _ in rows]
    for turn in range(NUM_TURNS):
        segments = [segment(encoder, shown[row], samples[row], turn) for row in rows]
        for row, sample in zip(rows, sampler.continue_rows(rows, segments), strict=True):
            samples[row].append(sample)
    return samples


def segment(encoder, observations, samples, turn):
    was_cut = turn > 0 and samples[-1].ids[-1] != encoder.end_of_turn_id
    return encoder.encode(observations[turn], is_first=turn == 0, needs_end_of_turn=was_cut)


def as_they_come(model, encoder, sampling, shown, *, delays):
    """Returns the same where each row is asked again some steps after it was answered."""
    sampler = ContinuousSampler(model, encoder, sampling, EpisodeDraws(SEED))
    sampler.start(RolloutRows.ungrouped(len(shown)))
    samples = [[] for _ in shown]
    due = {row: int(delays.integers(4)) for row in range(len(shown))}
    sizes = set()
    while due or sampler.has_unfinished_requests:
        for row in [row for row, steps in due.items() if steps <= 0]:
            sampler.add_request(row, segment(encoder, shown[row], samples[row], len(samples[row])))
            del due[row]
        due = {row: steps - 1 for row, steps in due.items()}
        for row, sample in sampler.step().items():
            samples[row].append(sample)
            if len(samples[row]) < NUM_TURNS:
                due[row] = int(delays.integers(6))
        sizes.add(sampler._num_active)
    assert len(sizes) > 3, "rows do join and leave"
    return samples


@pytest.mark.parametrize("chunk", quick([None, 32], 32))
@pytest.mark.sample(2)
def test_a_row_is_answered_alike_whenever_it_is_asked(model_and_encoder, chunk):
    model, encoder = model_and_encoder
    sampling = SamplingConfig(temperature=1.0, top_p=0.95, max_new_tokens=6, prefill_chunk_tokens=chunk)
    shown = conversations(encoder)
    expected = in_step(model, encoder, sampling, shown)
    for order in range(2):
        found = as_they_come(model, encoder, sampling, shown, delays=np.random.default_rng(order))
        assert [[sample.ids for sample in row] for row in found] == [[sample.ids for sample in row] for row in expected]
        for ours, theirs in zip(found, expected, strict=True):
            for a, b in zip(ours, theirs, strict=True):
                assert np.allclose(a.logprobs, b.logprobs, atol=1e-4)
    assert len({tuple(row[0].ids) for row in expected[:4]}) > 1, "siblings draw on their own"
    assert len({len(sample.ids) for row in expected for sample in row}) > 2


@pytest.fixture
def fed(monkeypatch):
    """The numbers of rows and of tokens of each pass."""
    passes, real = [], ContinuousSampler._feed

    def counted(self, start, ids, images):
        passes.append((len(ids), sum(map(len, ids))))
        return real(self, start, ids, images)

    monkeypatch.setattr(ContinuousSampler, "_feed", counted)
    return passes


def test_siblings_prompts_are_fed_once(tiny, fed):
    model, encoder = tiny
    sampler = ContinuousSampler(model, encoder, SamplingConfig(max_new_tokens=1), EpisodeDraws(0))
    sampler.start(RolloutRows.ungrouped(7))
    for row, observations in enumerate(conversations(encoder)):
        sampler.add_request(row, segment(encoder, observations, [], 0))
    assert len(sampler.step()) == 7
    assert [num_rows for num_rows, _ in fed] == [4]


def test_a_sibling_that_comes_later_feeds_no_prompt(tiny, fed):
    """Not while the first is being answered, nor when it is through and was shown something else."""
    model, encoder = tiny
    siblings = conversations(encoder)[:4]
    sampling = SamplingConfig(max_new_tokens=3)
    expected = [[each.ids for each in row[:1]] for row in in_step(model, encoder, sampling, siblings)]
    fed.clear()
    sampler = ContinuousSampler(model, encoder, sampling, EpisodeDraws(SEED))
    sampler.start(RolloutRows.ungrouped(4))
    found = {}

    def ask(row, *samples):
        sampler.add_request(row, segment(encoder, siblings[row], samples, len(samples)))

    ask(0)
    sampler.step()
    ask(1)
    while sampler.has_unfinished_requests:
        found |= sampler.step()
    ask(0, found[0])
    found_again = {}
    while sampler.has_unfinished_requests:
        found_again |= sampler.step()
    ask(2)
    ask(3)
    while sampler.has_unfinished_requests:
        found |= sampler.step()
    assert [[found[row].ids] for row in range(4)] == expected
    assert list(found_again) == [0]
    assert sum(num_tokens > num_rows for num_rows, num_tokens in fed) == 2, "a first prompt, and a second turn"


@pytest.mark.parametrize("join_within", [2, 5])
def test_a_row_waits_for_no_more_than_some_tokens_of_many_others(tiny, monkeypatch, join_within):
    monkeypatch.setattr("agents.hf.continuous_batching.JOIN_WITHIN", join_within)
    model, encoder = tiny
    sampler = ContinuousSampler(model, encoder, SamplingConfig(max_new_tokens=40), EpisodeDraws(SEED))
    sampler.start(RolloutRows.ungrouped(8))
    for row in range(7):
        sampler.add_request(row, encoder.encode({"text": f"go {row}"}, is_first=True))
    sampler.step()
    sampler.add_request(7, encoder.encode({"text": "wait for me"}, is_first=True))
    num_steps = 0
    while sampler._queue:
        sampler.step()
        num_steps += 1
    assert num_steps == join_within + 1
    assert sampler._num_active == 8


def test_a_row_that_is_given_up_changes_nothing_for_the_others(tiny):
    model, encoder = tiny
    shown = conversations(encoder)
    sampling = SamplingConfig(max_new_tokens=8)

    def play(given_up):
        sampler = ContinuousSampler(model, encoder, sampling, EpisodeDraws(SEED))
        sampler.start(RolloutRows.ungrouped(len(shown)))
        for row, observations in enumerate(shown):
            sampler.add_request(row, segment(encoder, observations, [], 0))
        found = {}
        while sampler.has_unfinished_requests:
            found |= sampler.step()
            for row in given_up:
                sampler.abort(row)
        return {row: sample.ids for row, sample in found.items()}

    whole, some = play([]), play([1, 5])
    assert some == {row: ids for row, ids in whole.items() if row not in (1, 5)}


def taken(logprobs_NV, *key):
    draws, rows = EpisodeDraws(*key), range(len(logprobs_NV))
    draws.begin(rows)
    return draws(logprobs_NV, rows).tolist()


def test_episodes_draw_from_the_distribution_each_on_its_own():
    logprobs_V = torch.log_softmax(torch.tensor([0.0, 1.0, -torch.inf, 2.0]), -1)
    many_NV = logprobs_V.expand(8000, -1)
    frequencies = np.bincount(taken(many_NV, 3), minlength=4) / 8000
    assert np.allclose(frequencies, logprobs_V.exp().numpy(), atol=0.02)
    assert frequencies[2] == 0
    assert taken(many_NV, 3) == taken(many_NV, 3)
    assert taken(many_NV[:5], 3) == taken(many_NV, 3)[:5], "whoever else is there"
    assert len({tuple(taken(many_NV[:64], *key)) for key in ((3, 0), (3, 1), (4, 0))}) == 3
