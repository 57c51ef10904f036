"""Whether an iteration's rows fit the optimiser's steps, and which settings would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vlm_envs.errors import require

if TYPE_CHECKING:
    from training.config.run import RunConfig


def require_rows_that_fit(config: RunConfig) -> None:
    """Refuses numbers of minibatches that an iteration's rows cannot be divided into.

    The policy's are of one size, by which its learning rate goes; the critic's may differ by a row, but none is empty.

    Args:
        config: The run.

    Raises:
        ConfigError: With the options involved and what each of them may be.
    """
    rows, of_policy, of_critic = config.num_groups * config.group_size, *_minibatches(config)
    policy_fits, critic_fits = rows % of_policy == 0, of_critic <= rows
    wrong = [
        *([] if policy_fits else [f"do not divide evenly into --ppo.num-minibatches {of_policy}"]),
        *([] if critic_fits else [f"are fewer than --ppo.critic-num-minibatches {of_critic}"]),
    ]
    divisors = [number for number in range(1, rows + 1) if rows % number == 0]
    remedies = [
        *([] if policy_fits else [f"--ppo.num-minibatches {_listed(divisors)}"]),
        *([] if critic_fits else [f"--ppo.critic-num-minibatches {_listed(range(1, rows + 1))}"]),
    ]
    require(
        policy_fits and critic_fits,
        f"The {rows} rows of an iteration, --num-groups {config.num_groups} times --group-size {config.group_size}, "
        f"{' and '.join(wrong)}. Use {' and '.join(remedies)}; or --num-groups {_fitting_groups(config)}.",
    )


def _minibatches(config: RunConfig) -> tuple[int, int]:
    """Returns how many minibatches the policy and the critic have; without a critic one, which any rows fill."""
    return config.ppo.num_minibatches, 1 if config.advantage.estimator == "grpo" else config.ppo.critic_num_minibatches


def _fitting_groups(config: RunConfig) -> int:
    """Returns the fewest groups, no fewer than asked for, whose rows fit everything else."""
    of_policy, of_critic = _minibatches(config)
    num_groups = config.num_groups
    while num_groups * config.group_size % of_policy or num_groups * config.group_size < of_critic:
        num_groups += 1
    return num_groups


def _listed(numbers: list[int] | range) -> str:
    """Returns alternatives as a sentence has them; a range by its ends where it is long."""
    if isinstance(numbers, range) and len(numbers) > 2:
        return f"{numbers[0]} to {numbers[-1]}"
    *others, last = map(str, numbers)
    return f"{', '.join(others)} or {last}" if others else last
