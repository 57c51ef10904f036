"""`check_world`: runs every clause of the contract on one world."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from vlm_envs.arguments.faults import fault_in_world
from vlm_envs.errors import WorldContractError, require_choice
from vlm_envs.testing.checks import CHECKS
from vlm_envs.testing.world_under_test import NotApplicableError, WorldUnderTest


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One clause that was checked.

    Attributes:
        name: Name of the check.
        clause: What it makes sure of.
        skipped: Why it was not run, or None when it passed.
    """

    name: str
    clause: str
    skipped: str | None = None


def check_world(env_id: str, *, skip: Collection[str] = (), **kwargs: Any) -> list[CheckResult]:
    """Runs the whole contract on one world.

    Args:
        env_id: A registered id.
        skip: Names of checks to leave out, e.g. `"splits_are_disjoint"` for a world with one fixed level.
        **kwargs: Arguments of the world.

    Returns:
        One result per check, in the order of `CHECKS`.

    Raises:
        ConfigError: If the world cannot be made or `skip` names no check.
        WorldContractError: If any check fails; it lists all that do.
    """
    for name in skip:
        require_choice("skip", name, [check.__name__ for check in CHECKS])
    under_test = WorldUnderTest(env_id=env_id, kwargs=kwargs)
    under_test.make().close()
    results: list[CheckResult] = []
    failures: dict[str, Exception] = {}
    for check in CHECKS:
        name, clause = check.__name__, (check.__doc__ or "").strip().split("\n")[0]
        if name in skip:
            results.append(CheckResult(name=name, clause=clause, skipped="left out by the caller"))
            continue
        try:
            check(under_test)
        except NotApplicableError as reason:
            results.append(CheckResult(name=name, clause=clause, skipped=str(reason)))
        except Exception as failure:
            failures[name] = failure
        else:
            results.append(CheckResult(name=name, clause=clause))
    if failures:
        told: dict[str, list[str]] = {}
        for name, error in failures.items():
            told.setdefault(fault_in_world(error) or f"{type(error).__name__}: {error}", []).append(name)
        lines = [f"- {', '.join(names)}: {what}" for what, names in told.items()]
        raise WorldContractError(
            f"{env_id} with {kwargs} breaks {len(failures)} of {len(CHECKS)} checks:\n" + "\n".join(lines)
        ) from next(iter(failures.values()))
    return results
