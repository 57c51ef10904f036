"""GiGPO against hand-computed numbers and the paper's formulas in plain Python."""

from __future__ import annotations

import math
import random
import statistics
from collections import defaultdict

import pytest
import torch

from tests.unit.training.algorithms.siblings import GENERATED, TURNS, outputs, rows
from training.algorithms.gigpo import GiGPO, gigpo
from training.algorithms.grpo import GRPO, grpo
from vlm_envs.errors import ConfigError

# Two siblings of two turns from state 0: one comes to state 1, the other stays in 0. Then one of another group.
STATES = torch.tensor([[0, 1], [0, 0], [0, -1]])
REWARDS = [[1.0, 4.0], [0.0, 2.0], [9.0, 0.0]]
GROUPS = [0, 0, 1]


def batch_of(rewards=REWARDS, states=STATES, groups=GROUPS, **changes):
    return rows(rewards, groups, state_index_BK=states, **changes)


def test_golden():
    batch = batch_of()
    advantages_BT = GiGPO(gamma=0.5, omega=2.0, scale="none").credit(batch, outputs(batch)).advantages_BT
    # Episodes: 5 and 2, mean 3.5. Still to come with 1/2: 1 + 4/2 = 3, 4 | 0 + 2/2 = 1, 2.
    # State 0 of group 0: 3, 1, 2, mean 2; state 1 and group 1 are alone.
    first, second = [1.5 + 2 * 1.0, 1.5], [-1.5 + 2 * -1.0, -1.5 + 2 * 0.0]
    assert advantages_BT[0].tolist() == [0.0, first[0], first[0], 0.0, first[1]]
    assert advantages_BT[1].tolist() == [0.0, second[0], 0.0, second[1], second[1]]
    assert not advantages_BT[2].any()


def test_golden_with_the_standard_deviation():
    batch = batch_of()
    advantages_BT = GiGPO(gamma=0.5).credit(batch, outputs(batch)).advantages_BT
    # Episodes 5, 2: sample deviation 3 / sqrt(2). State 0: 3, 1, 2: deviation 1
    episode = 1.5 / (3 / math.sqrt(2))
    assert advantages_BT[0, [1, 4]].tolist() == pytest.approx([episode + 1.0, episode], abs=1e-5)
    assert advantages_BT[1, [1, 4]].tolist() == pytest.approx([-episode - 1.0, -episode], abs=1e-5)


def test_it_is_the_papers_formula():
    rng = random.Random(2)
    num_rows, num_turns = 12, 5
    lengths = [rng.randint(1, num_turns) for _ in range(num_rows)]
    rewards = [[rng.choice([0.0, 1.0, -0.5]) if k < n else 0.0 for k in range(num_turns)] for n in lengths]
    states = [[rng.randint(0, 3) if k < n else -1 for k in range(num_turns)] for n in lengths]
    groups = [row // 4 for row in range(num_rows)]
    step, members = {}, defaultdict(list)
    for row, length in enumerate(lengths):
        for k in range(length):
            step[row, k] = sum(0.9 ** (j - k) * rewards[row][j] for j in range(k, length))
            members[groups[row], states[row][k]].append(step[row, k])

    def against(value, others):
        spread = statistics.stdev(others) if len(others) > 1 else 0.0
        return (value - statistics.fmean(others)) / (spread + 1e-6)

    totals = [sum(each) for each in rewards]
    turns_BT = torch.tensor([[k if k < n else -1 for k in range(num_turns)] for n in lengths])
    ours_BT = gigpo(
        torch.tensor(rewards),
        torch.zeros(num_rows, num_turns),
        torch.tensor(states),
        torch.tensor(groups),
        turns_BT,
        gamma=0.9,
        omega=0.7,
    )
    for (row, k), value in step.items():
        siblings = [totals[other] for other in range(num_rows) if groups[other] == groups[row]]
        expected = against(totals[row], siblings) + 0.7 * against(value, members[groups[row], states[row][k]])
        assert ours_BT[row, k].item() == pytest.approx(expected, abs=2e-4)
    assert not ours_BT[turns_BT < 0].any()


def test_where_no_state_comes_twice_it_is_grpo():
    for states in (torch.arange(6).view(3, 2), torch.full((3, 2), -1)):
        batch = batch_of(states=states)
        advantages_BT = GiGPO().credit(batch, outputs(batch)).advantages_BT
        expected_BT = grpo(torch.tensor([5.0, 2.0, 9.0]), torch.tensor(GROUPS), torch.tensor(TURNS[:3]))
        assert torch.equal(advantages_BT, expected_BT)


def test_a_turn_is_compared_by_its_state_and_not_by_its_number():
    batch = batch_of([[1.0, 0.0], [0.0, 5.0]], torch.tensor([[0, 7], [3, 0]]), [0, 0])
    credit_BT = gigpo(
        batch.turn_rewards_BK,
        torch.zeros(2, 5),
        batch.state_index_BK,
        batch.group_index_B,
        batch.turn_index_BT,
        gamma=1.0,
        omega=1.0,
        scale="none",
    )
    # Episodes 1, 5: -2, 2. State 0 is row 0's first and row 1's second turn: 1 and 5, so -2 and 2 more
    assert credit_BT[0].tolist() == [0.0, -4.0, -4.0, 0.0, -2.0]
    assert credit_BT[1].tolist() == [0.0, 2.0, 0.0, 4.0, 4.0]


def test_the_kl_penalty_counts_for_its_turn():
    batch = batch_of([[1.0, 2.0], [1.0, 2.0]], torch.tensor([[0, 1], [0, 1]]), [0, 0])
    penalties_BT = torch.zeros(2, 5)
    penalties_BT[0] = torch.tensor([9.0, -0.5, -0.5, 9.0, 0.0])
    advantages_BT = GiGPO(gamma=1.0, scale="none").credit(batch, outputs(batch, penalties_BT)).advantages_BT
    # Row 0 has 2 and row 1 has 3, as episodes and from the first turn; from the second both have 2
    assert advantages_BT[0].tolist() == [0.0, -1.0, -1.0, 0.0, -0.5]
    assert advantages_BT[1].tolist() == [0.0, 1.0, 0.0, 0.5, 0.5]


def test_the_order_of_rows_and_the_names_of_states_mean_nothing():
    order, algorithm = [2, 0, 1], GiGPO()
    batch, moved = batch_of(), batch_of().select(order)
    renamed = batch_of(states=torch.tensor([[40, 2], [40, 40], [8, -1]]))
    expected_BT = algorithm.credit(batch, outputs(batch)).advantages_BT
    torch.testing.assert_close(algorithm.credit(moved, outputs(moved)).advantages_BT, expected_BT[order])
    assert torch.equal(algorithm.credit(renamed, outputs(renamed)).advantages_BT, expected_BT)


@pytest.mark.parametrize(
    "masked",
    [
        {"trainable_B": torch.tensor([True, False, True])},
        {"trainable_BK": torch.tensor([[True, True], [True, False], [True, True]])},
    ],
)
def test_a_row_that_failed_or_was_not_wholly_judged_gets_and_gives_nothing(masked):
    # It comes to its state twice, too, so that it could be compared with itself
    batch = batch_of([[1.0, 4.0], [-99.0, 7.0], [2.0, 0.0]], torch.tensor([[0, 1], [0, 0], [0, -1]]), [0] * 3, **masked)
    without = batch.select([0, 2])
    advantages_BT = GiGPO().credit(batch, outputs(batch)).advantages_BT
    torch.testing.assert_close(advantages_BT[[0, 2]], GiGPO().credit(without, outputs(without)).advantages_BT)
    assert advantages_BT[0].any() and not advantages_BT[1].any()


def test_a_group_is_useful_if_an_episode_or_a_turn_differs():
    # Group 0: the same in all, and at another time; group 3: nothing differs; group 5: episodes do, states do not recur
    rewards = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [2.0, 1.0]]
    states = torch.tensor([[0, 1], [0, 1], [0, -1], [0, 1], [2, 3]])
    batch = rows(rewards, [0, 0, 3, 3, 5], state_index_BK=states)
    assert GiGPO().keep(batch).trainable_B.tolist() == [True, True, False, False, False]
    undiscounted = GiGPO(gamma=1.0).useful_rows(batch).tolist()
    assert undiscounted == [True, True, False, False, False], "from state 1 on 0 and 1 are still to come"


def test_flat_groups_give_exactly_zero():
    batch = rows([[0.1, 0.0]] * 5, [0, 0, 0, 3, 3], state_index_BK=torch.zeros(5, 2, dtype=torch.long))
    advantages_BT = GiGPO(gamma=0.0).credit(batch, outputs(batch)).advantages_BT
    assert advantages_BT[GENERATED & (torch.tensor(TURNS) == 0)].any(), "0.1 at one turn of a state and 0 at another"
    alone = rows([[0.1, 0.0]] * 5, [0, 0, 0, 3, 3], state_index_BK=torch.tensor([[0, 1]] * 5))
    assert not GiGPO().credit(alone, outputs(alone)).advantages_BT.any()


@pytest.mark.parametrize("settings", [{"gamma": 1.1}, {"omega": 0.0}, {"max_sampling_rounds": 0}])
def test_settings_have_a_range(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        GiGPO(**settings)


def test_shapes_are_checked():
    tensors = {
        "turn_rewards_BK": torch.zeros(1, 2),
        "token_rewards_BT": torch.zeros(1, 5),
        "state_index_BK": torch.zeros(1, 2, dtype=torch.long),
        "group_index_B": torch.zeros(1, dtype=torch.long),
        "turn_index_BT": torch.tensor(TURNS[:1]),
    }
    for name, wrong, said in [
        ("state_index_BK", torch.zeros(1, 3, dtype=torch.long), "state_index_BK: expected shape"),
        ("state_index_BK", torch.zeros(1, 2), "state_index_BK: expected an integer"),
        ("group_index_B", torch.zeros(2, dtype=torch.long), "group_index_B: expected shape"),
    ]:
        with pytest.raises(ValueError, match=said):
            gigpo(**{**tensors, name: wrong}, gamma=1.0, omega=1.0)
    with pytest.raises(ValueError, match="gamma: expected a number"):
        gigpo(**tensors, gamma=1.5, omega=1.0)


@pytest.mark.parametrize("algorithm", [GRPO(), GiGPO()])
def test_where_all_siblings_succeed_pay_by_turns_rewards_taking_more_of_them(algorithm):
    def advantages(for_success, a_turn):
        # Rows 0 and 2 are siblings, of two turns and of one
        rewards = [[a_turn, a_turn + 10.0], [0.0, 0.0], [a_turn + for_success, 0.0]]
        batch = rows(rewards, [0, 1, 0], state_index_BK=torch.full((3, 2), -1))
        advantages_BT = algorithm.credit(batch, outputs(batch)).advantages_BT
        return advantages_BT[0, 1].item(), advantages_BT[2, 1].item()

    assert advantages(for_success=10.0, a_turn=0.0) == (0.0, 0.0)
    longer, shorter = advantages(for_success=10.0, a_turn=0.1)
    assert longer > 0 > shorter
    alone, failed = advantages(for_success=0.0, a_turn=0.0)
    assert (longer, shorter) == pytest.approx((alone, failed), abs=1e-3), "as much as to succeed at all"
