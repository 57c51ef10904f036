"""`check_world` checks every clause of the contract on one world."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from vlm_envs.errors import WorldContractError
from vlm_envs.registration import registered_name
from vlm_envs.testing.checks import CHECKS
from vlm_envs.testing.world_under_test import NotApplicableError, WorldUnderTest, described
from vlm_envs.user_code import fault_in_world
from vlm_envs.validation import require_choice
from vlm_envs.world import World


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """Result of checking one clause.

    Attributes:
        name: Name of the check.
        clause: The property that it checks.
        skipped: Reason why it was not run, or None.
        failure: Description of the violation, or None if the check passed or was skipped.
        error: The exception that the check raised, or None.
    """

    name: str
    clause: str
    skipped: str | None = None
    failure: str | None = None
    error: Exception | SystemExit | None = None


def check_world(env_id: str, *, skip: Collection[str] = (), **kwargs: Any) -> list[CheckResult]:
    """Checks the whole contract on one world.

    Args:
        env_id: A registered id; in `my_module:My/World-v0`, the module is imported first.
        skip: Names of checks to skip, e.g. `"splits_are_disjoint"` for a world with one fixed level.
        **kwargs: Arguments of the world.

    Returns:
        One result per check, in the order of `CHECKS`.

    Raises:
        ConfigError: If the world cannot be created or `skip` names an unknown check.
        WorldContractError: If any check fails; its message lists all failures.
    """
    results = [*run_checks(WorldUnderTest(env_id=registered_name(env_id), kwargs=kwargs), skip=skip)]
    errors = [result.error for result in results if result.error is not None]
    if errors:
        failures: dict[str, list[str]] = {}
        for result in results:
            if result.failure is not None:
                failures.setdefault(result.failure, []).append(result.name)
        lines = [f"- {', '.join(names)}: {failure}" for failure, names in failures.items()]
        raise WorldContractError(
            f"{env_id} with {kwargs} breaks {len(errors)} of {len(CHECKS)} checks:\n" + "\n".join(lines)
        ) from errors[0]
    return results


def run_checks(under_test: WorldUnderTest, *, skip: Collection[str] = ()) -> Iterator[CheckResult]:
    """Yields the result of each check, including failed ones, as soon as it is known.

    Raises:
        ConfigError: If the world cannot be created or `skip` names an unknown check.
    """
    for name in skip:
        require_choice("skip", name, [check.__name__ for check in CHECKS])
    with located_interrupts("making the world"):
        under_test.make().close()
    for check in CHECKS:
        result = CheckResult(name=check.__name__, clause=(check.__doc__ or "").strip().split("\n")[0])
        if result.name in skip:
            yield replace(result, skipped="left out by the caller")
            continue
        try:
            with located_interrupts(result.name):
                check(under_test)
        except NotApplicableError as reason:
            yield replace(result, skipped=str(reason))
        except (Exception, SystemExit) as error:
            yield replace(result, failure=described(error), error=error)
        else:
            yield result


@contextmanager
def located_interrupts(what: str) -> Iterator[None]:
    """Adds to a KeyboardInterrupt raised in the block what it interrupted, and where."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(f"{what} was interrupted{_location(interrupt)}") from interrupt


def _location(interrupt: KeyboardInterrupt) -> str:
    """Returns the split, the seed, and the running line of the user's code, as far as the traceback shows them."""
    frames = [frame for frame, _ in traceback.walk_tb(interrupt.__traceback__)]
    worlds = [value for frame in frames for value in [*frame.f_locals.values()] if isinstance(value, World)]
    reached = vars(worlds[-1]) if worlds else {}
    # Gymnasium's property `np_random_seed` would draw a seed if there is none
    seed = reached.get("_np_random_seed")
    parts = [f"split {reached['split']!r}"] if "split" in reached else []
    parts += [f"seed {seed}"] if seed is not None else []
    parts += filter(None, [fault_in_world(interrupt)])
    return f": {', '.join(parts)}" if parts else ""
