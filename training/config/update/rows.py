"""Whether an iteration's rows fit the optimiser's steps, and which settings would."""

from __future__ import annotations

from vlm_envs.validation import require


def require_rows_that_fit(
    *, num_groups: int, group_size: int, num_minibatches: int, critic_num_minibatches: int
) -> None:
    """Refuses numbers of minibatches that an iteration's rows cannot be divided into.

    The policy's are of one size, by which its learning rate goes; the critic's may differ by a row, but none is empty.
    Without a critic there is 1, which any rows fill.

    Raises:
        ConfigError: With the options involved and what each of them may be.
    """
    rows = num_groups * group_size
    wrong, remedies = [], []
    if rows % num_minibatches:
        wrong.append(f"do not divide evenly into --ppo.num-minibatches {num_minibatches}")
        divisors = [number for number in range(1, rows + 1) if rows % number == 0]
        remedies.append(f"--ppo.num-minibatches {_listed(divisors)}")
    if critic_num_minibatches > rows:
        wrong.append(f"are fewer than --algorithm.critic.num-minibatches {critic_num_minibatches}")
        remedies.append(f"--algorithm.critic.num-minibatches {_listed(range(1, rows + 1))}")
    fitting_groups = num_groups  # the fewest, no fewer than asked for, whose rows fit everything else
    while fitting_groups * group_size % num_minibatches or fitting_groups * group_size < critic_num_minibatches:
        fitting_groups += 1
    require(
        not wrong,
        f"The {rows} rows of an iteration, --num-groups {num_groups} times --group-size {group_size}, "
        f"{' and '.join(wrong)}. Use {' and '.join(remedies)}; or --num-groups {fitting_groups}.",
    )


def _listed(numbers: list[int] | range) -> str:
    """Returns alternatives as a sentence has them; a range by its ends where it is long."""
    if isinstance(numbers, range) and len(numbers) > 2:
        return f"{numbers[0]} to {numbers[-1]}"
    *others, last = map(str, numbers)
    return f"{', '.join(others)} or {last}" if others else last
