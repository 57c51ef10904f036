"""`python -m benchmarks suites`: names the suites."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.models.suites import SUITES, Suite
from vlm_envs.errors import EngineUnavailableError


@dataclass(frozen=True, kw_only=True)
class SuitesOptions:
    """Name the suites there are.

    Attributes:
        digests: Whether to print the hashes of suites and worlds, too, which starts every world.
    """

    digests: bool = False


def run_suites(options: SuitesOptions) -> None:
    """Prints a line for each suite, and one for each of its worlds."""
    for suite in SUITES.values():
        print(f"{suite.name} version {suite.version}: {suite.summary}; {suite.episodes} levels of each world")
        print("".join(f"  {line}\n" for line in _worlds(suite, digests=options.digests)), end="")


def _worlds(suite: Suite, *, digests: bool) -> list[str]:
    if not digests:
        return list(suite.worlds)
    specs = suite.specs()
    try:
        return [*(f"{spec.digest}  {spec.label}" for spec in specs), f"{suite.digest(specs)}  all of them"]
    except EngineUnavailableError as error:
        return [*suite.worlds, f"no hashes: {error}"]
