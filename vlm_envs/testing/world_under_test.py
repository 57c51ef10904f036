"""The world under test, and how a check says that it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from vlm_envs.arguments.faults import fault_in_world
from vlm_envs.errors import WorldContractError
from vlm_envs.registration import make, not_a_world
from vlm_envs.testing.planner import Planner
from vlm_envs.world import World

AnyWorld = World[Any, Any]

TOLERANCE = 1e-9
"""Rewards that differ by less are equal."""


@dataclass(frozen=True, kw_only=True)
class WorldUnderTest:
    """The world under test.

    Attributes:
        env_id: Its registered id.
        kwargs: Arguments it is made with.
        planner: Its plans; all checks share them.
        notes: What a check noticed that breaks no clause.
    """

    env_id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    planner: Planner = field(default_factory=Planner)
    notes: list[str] = field(default_factory=list)

    def make(self, **overrides: Any) -> AnyWorld:
        """Returns a new world, without Gymnasium's wrappers."""
        try:
            world = make(self.env_id, disable_env_checker=True, **{**self.kwargs, **overrides}).unwrapped
        except SystemExit as error:
            raise WorldContractError(f"the world cannot be made: {described(error)}") from error
        require(isinstance(world, World), not_a_world(self.env_id))
        return cast(AnyWorld, world)


class NotApplicableError(Exception):
    """Raised by a check for a world the clause says nothing about; recorded as skipped."""


def require(condition: bool, message: str) -> None:
    """Raises `WorldContractError` with the message unless the condition holds."""
    if not condition:
        raise WorldContractError(message)


def described(error: Exception | SystemExit) -> str:
    """Returns what a check found, or where the world's own code failed."""
    if isinstance(error, WorldContractError):
        return str(error)
    return fault_in_world(error) or f"{type(error).__name__}: {error}"


def expect_error(expected: type[Exception], what: str, misuse: Callable[[], object]) -> None:
    """Raises `WorldContractError` unless a misuse raises the expected error."""
    try:
        misuse()
    except expected:
        return
    except (Exception, SystemExit) as error:
        raise WorldContractError(f"{what} raises {type(error).__name__}, should raise {expected.__name__}") from error
    raise WorldContractError(f"{what} raises nothing, should raise {expected.__name__}")
