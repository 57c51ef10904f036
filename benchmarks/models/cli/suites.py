"""`python -m benchmarks suites`: names the suites."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.models.board.suites import SUITES, Suite
from vlm_envs.errors import EngineUnavailableError
from vlm_envs.registration import registered_name, require_available

_DIGEST_CHARS = 16


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
    specs, missing = suite.specs(), {}
    for spec in specs:
        try:
            require_available(registered_name(spec.env_id))
            _ = spec.digest
        except EngineUnavailableError as error:
            missing[spec.label] = f"{'no hash':{_DIGEST_CHARS}}  {spec.label}: {error}"
    lines = [missing.get(spec.label) or f"{spec.digest}  {spec.label}" for spec in specs]
    return lines if missing else [*lines, f"{suite.digest(specs)}  all of them"]
