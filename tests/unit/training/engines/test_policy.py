"""Log-probabilities and values stand at the tokens they belong to."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.unit.training.batches import played_batch
from training.engines.policy import ValueModel, hidden_states, token_logprobs, token_values


@pytest.fixture
def batch(tiny):
    return played_batch(*tiny, num_rows=4)


@pytest.fixture
def critic(tiny):
    critic = ValueModel(tiny[0])
    with torch.no_grad():
        critic.head.weight.normal_(generator=torch.Generator().manual_seed(0))
        critic.head.bias.fill_(0.25)
    return critic.eval()


@torch.no_grad()
def test_values_are_of_the_prefix_before_a_token_and_through_the_end_of_a_turn(batch, critic):
    values_BT, ends_BK, _ = token_values(critic, batch)
    for row in range(batch.num_rows):
        through_T = critic.values(hidden_states(critic, batch.select([row])))[0]
        turn_T = batch.turn_index_BT[row].tolist()
        for t, turn in enumerate(turn_T):
            expected = 0.0 if turn < 0 else float(through_T[t - 1])
            assert float(values_BT[row, t]) == pytest.approx(expected, rel=1e-4, abs=1e-4)
        for turn in range(batch.turn_rewards_BK.shape[1]):
            if turn in turn_T:
                last = len(turn_T) - 1 - turn_T[::-1].index(turn)
                assert float(ends_BK[row, turn]) == pytest.approx(float(through_T[last]), rel=1e-4, abs=1e-4)
            else:
                assert float(ends_BK[row, turn]) == 0.0
    assert values_BT.unique().numel() > 10


@torch.no_grad()
def test_values_and_logprobs_never_see_the_future(tiny, batch, critic):
    model, encoder = tiny
    row = batch.select([0])
    last = int(torch.nonzero(row.turn_index_BT[0] >= 0)[-1, 0])
    changed = row.input_ids_BT.clone()
    changed[0, last] = 500 if int(changed[0, last]) != 500 else 501
    other = replace(row, input_ids_BT=changed)
    values, other_values = (token_values(critic, each) for each in (row, other))
    assert torch.equal(values[0], other_values[0]), "V before the last token does not know it"
    assert not torch.equal(values[1], other_values[1]), "V through the last token does"
    logprobs, other_logprobs = (
        token_logprobs(model, each, temperature=1.0, suppressed_ids=encoder.suppressed_ids())[0]
        for each in (row, other)
    )
    assert torch.equal(logprobs[0, :last], other_logprobs[0, :last])
    assert logprobs[0, last] != other_logprobs[0, last]


@torch.no_grad()
def test_results_do_not_depend_on_padding_or_on_the_other_rows(tiny, batch, critic):
    model, encoder = tiny
    together, _ = token_logprobs(model, batch, temperature=0.7, suppressed_ids=encoder.suppressed_ids())
    for row in range(batch.num_rows):
        part = batch.select([row])
        alone, _ = token_logprobs(model, part, temperature=0.7, suppressed_ids=encoder.suppressed_ids())
        assert torch.allclose(together[row, : alone.shape[1]], alone[0], rtol=1e-4, atol=1e-4)
        assert not together[row, alone.shape[1] :].any()


@torch.no_grad()
def test_logprobs_are_those_of_a_plain_softmax_without_the_suppressed_tokens(tiny, batch):
    model, _ = tiny
    row, suppressed = batch.select([1]), [0, 7, 8]
    logprobs_BT, entropy_BT = token_logprobs(model, row, temperature=0.5, suppressed_ids=suppressed)
    logits = model.lm_head(hidden_states(model, row))[0] / 0.5
    allowed = [token for token in range(logits.shape[-1]) if token not in suppressed]
    probabilities = torch.softmax(logits[:, allowed], -1)
    for t in torch.nonzero(row.turn_index_BT[0] >= 0)[:, 0].tolist():
        probability = probabilities[t - 1, allowed.index(int(row.input_ids_BT[0, t]))]
        assert float(logprobs_BT[0, t]) == pytest.approx(float(probability.log()), abs=1e-4)
        entropy = -(probabilities[t - 1] * probabilities[t - 1].log()).nansum()
        assert float(entropy_BT[0, t]) == pytest.approx(float(entropy), abs=1e-3)
    assert not logprobs_BT[row.turn_index_BT < 0].any()


@torch.no_grad()
def test_a_fresh_critic_says_zero_and_is_a_copy(tiny, batch):
    model, _ = tiny
    critic = ValueModel(model)
    values_BT, ends_BK, final_B = token_values(critic, batch)
    assert not values_BT.any()
    assert not final_B.any()
    assert not ends_BK.any()
    critic.model.language_model.embed_tokens.weight.zero_()
    assert model.model.language_model.embed_tokens.weight.any(), "the policy's weights are its own"
