"""The errors that this package raises intentionally.

`VLMEnvsError` is the base class; each subclass also inherits the built-in exception a caller would expect, so
`except ValueError` keeps working. A message names what was expected, the actual value, and a remedy. Invalid
*model* output never raises: it is data, and `info["parse_error"]` explains it.
"""

from __future__ import annotations


class VLMEnvsError(Exception):
    """Base class of all errors raised intentionally by `vlm_envs`."""


class ConfigError(VLMEnvsError, ValueError):
    """An argument of a world, space, or wrapper is not valid."""


class LevelError(VLMEnvsError, ValueError):
    """A level given by the caller cannot be read or cannot be solved."""


class GenerationError(VLMEnvsError, RuntimeError):
    """No level with the requested properties was found within the allowed number of tries."""


class SolverLimitError(VLMEnvsError, RuntimeError):
    """An exact solver stopped at its node limit, so the answer is unknown (never guessed)."""


class EpisodeOverError(VLMEnvsError, RuntimeError):
    """`step` was called before `reset` or after the episode had ended."""


class WorldContractError(VLMEnvsError, AssertionError):
    """A world violates the contract that `vlm_envs.testing.contract.check_world` checks."""


class WorkerError(VLMEnvsError, RuntimeError):
    """A worker of a vector environment failed; the message contains the worker's own traceback."""


class EngineUnavailableError(VLMEnvsError, RuntimeError):
    """An engine that a world needs (simulator, renderer, driver) is missing or cannot start."""
