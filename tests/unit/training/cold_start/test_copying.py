"""Exercises in copying hold nothing to go by but what came before."""

import itertools
import string
from types import SimpleNamespace

import numpy as np
import pytest

from agents.hf.tiny_vlm import build_tokenizer, telling_words
from training.batch import make_batch
from training.cold_start.demonstrations import FAR, FEW_WORDS, NEAR, SHORTEST, copying_exercises, spared_tokens

LAKES = ("VLM/FrozenLake-v0",)
REPORTS = ("VLM/DocQA-v0",)


@pytest.fixture
def encoder(tiny):
    return tiny[1]


def exercises(encoder, env_ids=LAKES, **settings):
    return list(copying_exercises(encoder, env_ids, **{"num_batches": 4, "seed": 0} | settings))


def tokens_of(exercise):
    (turn,) = exercise.turns
    return np.concatenate([turn.prompt_ids, turn.response_ids]), len(turn.prompt_ids) - 1


def words_of(batch):
    return {*np.concatenate([tokens_of(each)[0] for each in batch]).tolist()}


def test_each_token_of_a_response_follows_from_where_the_one_before_it_stood(encoder):
    for exercise in itertools.chain.from_iterable(exercises(encoder)):
        tokens, period = tokens_of(exercise)
        assert len({*tokens[:period]}) == period
        for place in range(period + 1, len(tokens)):
            (before,) = np.flatnonzero(tokens[:period] == tokens[place - 1])
            assert tokens[place] == tokens[before + 1]


def test_stretches_are_short_in_the_first_half_and_long_in_the_second_and_none_is_like_the_next(encoder):
    batches = exercises(encoder, num_batches=40)
    for size, half in ((NEAR, batches[:20]), (FAR, batches[20:])):
        assert {len(batch) for batch in half} == {size.num_rows}
        told = [tokens_of(each) for batch in half for each in batch]
        assert {len(tokens) for tokens, _ in told} == {size.num_tokens}
        periods = {period for _, period in told}
        assert min(periods) == SHORTEST and 0.9 * size.longest < max(periods) <= size.longest < size.num_tokens
        assert len(periods) > size.longest / 2, "how far back to look is not told"


def test_half_of_the_exercises_are_of_few_words_and_half_of_all_but_special_tokens(encoder):
    batches = exercises(encoder, num_batches=200)
    few = set().union(*(words_of(batch[1::2]) for batch in batches))
    every = set().union(*(words_of(batch[::2]) for batch in batches))
    special = {*encoder.suppressed_ids(), encoder.end_of_turn_id}
    assert len(few) == FEW_WORDS and few < every and every.isdisjoint(special)
    assert len(every) > 0.98 * (len(encoder.tokenizer) - len(special))


def test_where_some_words_tell_answers_apart_they_are_what_is_copied():
    tokenizer = build_tokenizer(["nothing else"], words=telling_words(REPORTS))
    knowing = SimpleNamespace(tokenizer=tokenizer, suppressed_ids=list, end_of_turn_id=tokenizer.eos_token_id)
    copied = set().union(*map(words_of, exercises(knowing, REPORTS, num_batches=40)))
    told = {tokenizer.decode([token]).strip() for token in copied}
    assert len(told) > 0.98 * len(telling_words(REPORTS)) and told <= {*telling_words(REPORTS)}
    spared = spared_tokens(knowing, REPORTS)
    assert sorted(map(tokenizer.decode, spared)) == [*string.digits] and copied.isdisjoint(spared)
    assert spared_tokens(knowing, LAKES) == [], "where all is copied, digits are too"


def test_another_seed_has_other_exercises_and_the_same_the_same(encoder):
    first, again, other = (exercises(encoder, seed=seed) for seed in (0, 0, 1))
    assert tokens_of(first[3][11])[0].tolist() == tokens_of(again[3][11])[0].tolist()
    assert tokens_of(first[0][0])[0].tolist() != tokens_of(other[0][0])[0].tolist()


def test_only_responses_are_learnt(encoder):
    (batch,) = exercises(encoder, num_batches=1)
    rows = make_batch(batch, [[0.0]] * len(batch), encoder)
    for row, exercise in enumerate(batch):
        tokens, period = tokens_of(exercise)
        assert rows.response_mask_BT[row].tolist() == [False] * (period + 1) + [True] * (len(tokens) - period - 1)
