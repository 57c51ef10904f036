"""`check_world` runs every clause of the contract on one world; `watched` reports where a slow world is."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from vlm_envs.errors import WorldContractError
from vlm_envs.registration import registered_name
from vlm_envs.testing.checks import CHECKS
from vlm_envs.testing.world_under_test import NotApplicableError, WorldUnderTest, described
from vlm_envs.user_code import line_in_world
from vlm_envs.validation import require_choice
from vlm_envs.world import World


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One clause that was checked.

    Attributes:
        name: Name of the check.
        clause: What it makes sure of.
        skipped: Why it was not run, or None.
        failure: What the world breaks, or None when it passed or was skipped.
        error: The exception that the check raised, or None.
    """

    name: str
    clause: str
    skipped: str | None = None
    failure: str | None = None
    error: Exception | SystemExit | None = None


def check_world(env_id: str, *, skip: Collection[str] = (), **kwargs: Any) -> list[CheckResult]:
    """Runs the whole contract on one world.

    Args:
        env_id: A registered id; with a module in front, `my_module:My/World-v0`, that is imported.
        skip: Names of checks to leave out, e.g. `"splits_are_disjoint"` for a world with one fixed level.
        **kwargs: Arguments of the world.

    Returns:
        One result per check, in the order of `CHECKS`.

    Raises:
        ConfigError: If the world cannot be made or `skip` names no check.
        WorldContractError: If any check fails; it lists all that do.
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
    """Yields the result of each check, failed ones included, as soon as it is known.

    Raises:
        ConfigError: If the world cannot be made or `skip` names no check.
    """
    for name in skip:
        require_choice("skip", name, [check.__name__ for check in CHECKS])
    with watched("Making the world"):
        under_test.make().close()
    for check in CHECKS:
        result = CheckResult(name=check.__name__, clause=(check.__doc__ or "").strip().split("\n")[0])
        if result.name in skip:
            yield replace(result, skipped="left out by the caller")
            continue
        try:
            with watched(result.name):
                check(under_test)
        except NotApplicableError as reason:
            yield replace(result, skipped=str(reason))
        except (Exception, SystemExit) as error:
            yield replace(result, failure=described(error), error=error)
        else:
            yield result


FIRST_REPORT_S = 10.0


@contextlib.contextmanager
def watched(what: str) -> Iterator[None]:
    """Reports on stderr where something is that takes long, at growing intervals.

    Raises:
        KeyboardInterrupt: On Ctrl-C; its message names what was running.
    """
    watched_thread, started, is_done = threading.get_ident(), time.monotonic(), threading.Event()

    def report() -> None:
        wait_s = FIRST_REPORT_S
        while not is_done.wait(wait_s):
            frame = sys._current_frames().get(watched_thread)
            frames = [inner for inner, _ in traceback.walk_stack(frame)][::-1] if frame else []
            running_s = time.monotonic() - started
            print(f"{what} has been running for {running_s:.0f} s{_place(frames)}", file=sys.stderr, flush=True)
            wait_s *= 2

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    except KeyboardInterrupt as interrupt:
        frames = [frame for frame, _ in traceback.walk_tb(interrupt.__traceback__)]
        raise KeyboardInterrupt(f"{what} was interrupted{_place(frames)}") from interrupt
    finally:
        is_done.set()
        reporter.join()


def _place(frames: list[FrameType]) -> str:
    """Returns the split, the seed, and the line of the world's own code that runs, as far as frames show them.

    Args:
        frames: The outermost first.
    """
    worlds = [value for frame in frames for value in [*frame.f_locals.values()] if isinstance(value, World)]
    reached = vars(worlds[-1]) if worlds else {}
    # Gymnasium's property `np_random_seed` would draw a seed where there is none
    seed = reached.get("_np_random_seed")
    line = line_in_world(traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames))
    parts = [f"split {reached['split']!r}"] if "split" in reached else []
    parts += [f"seed {seed}"] if seed is not None else []
    return f": {', '.join([*parts, *filter(None, [line])])}" if parts or line else ""
