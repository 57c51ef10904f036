"""`python -m vlm_envs check`: whether a world keeps the contract every world keeps."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from vlm_envs.cli.world_settings import Settings, make_world, parse_settings
from vlm_envs.errors import EngineUnavailableError
from vlm_envs.registration import registered_name
from vlm_envs.terminal_tables import wrapped

if TYPE_CHECKING:
    from vlm_envs.testing.contract import CheckResult


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Check a world, yours included, against the contract.

    Attributes:
        env_id: For example VLM/Sokoban-v0, my_module:My/World-v0 for your own, or adapt:ID for a Gymnasium environment.
        settings: Arguments of the world.
    """

    env_id: Annotated[str, Positional, arg(metavar="ENV_ID")]
    settings: Settings = ()


def run_check(options: CheckOptions) -> int:
    """Prints one line per check as soon as it is done; returns 1 if any failed."""
    from vlm_envs.testing.contract import (
        run_checks,  # Only this command needs it.
        watched,
    )
    from vlm_envs.testing.world_under_test import WorldUnderTest

    env_id = registered_name(options.env_id)
    under_test = WorldUnderTest(env_id=env_id, kwargs=parse_settings(options.settings))
    with watched("The first reset"):
        require_engine(env_id, under_test.kwargs)
    verdicts: Counter[str] = Counter()
    first_with: dict[str, str] = {}
    note = ""
    with warnings.catch_warnings():
        # Gymnasium warns about the misuse that a check commits on purpose.
        warnings.simplefilter("ignore", UserWarning)
        for result in run_checks(under_test):
            verdict = "skip" if result.skipped else "fail" if result.failure else "pass"
            verdicts[verdict] += 1
            _print_wrapped(f"{verdict}  {result.name}: {_reason(result, first_with)}")
            if not note and (note := under_test.planner.note):
                _print_wrapped(f"note  {note}.")
            while under_test.notes:
                _print_wrapped(f"note  {under_test.notes.pop(0)}.")
    failed = f", {verdicts['fail']} failed" if verdicts["fail"] else ""
    print(f"{verdicts['pass']} checks passed, {verdicts['skip']} skipped{failed}")
    return 1 if failed else 0


def _reason(result: CheckResult, first_with: dict[str, str]) -> str:
    """Returns what a line says of a result; a failure that an earlier check had too is not repeated."""
    if result.failure is None:
        return result.skipped or result.clause
    first = first_with.setdefault(result.failure, result.name)
    return result.failure if first == result.name else f"fails as {first} does"


def require_engine(env_id: str, kwargs: dict[str, Any]) -> None:
    """Raises `EngineUnavailableError` if a world's engine is missing: every check would call that the world's fault.

    Whatever else goes wrong is for the checks to say.
    """
    try:
        world = make_world(env_id, **kwargs)
        try:
            world.reset(seed=0)
        finally:
            world.close()
    except EngineUnavailableError:
        raise
    except (Exception, SystemExit):
        return


def _print_wrapped(text: str) -> None:
    print("\n".join(wrapped(text, indent="      ")), flush=True)
