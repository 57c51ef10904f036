"""Every error this package raises on purpose.

One root, `VLMEnvsError`; each leaf also inherits the built-in exception a caller would expect, so
`except ValueError` keeps working. A message says what was expected, what came and what to do. Bad *model*
output never appears here: it is data and is explained in `info["parse_error"]`.
"""

from __future__ import annotations


class VLMEnvsError(Exception):
    """Root of all errors raised on purpose by `vlm_envs`."""


class ConfigError(VLMEnvsError, ValueError):
    """An argument of a world, space or wrapper is not usable."""


class LevelError(VLMEnvsError, ValueError):
    """A level given by the caller cannot be read or cannot be solved."""


class GenerationError(VLMEnvsError, RuntimeError):
    """No level with the asked-for properties was found within the allowed tries."""


class SolverLimitError(VLMEnvsError, RuntimeError):
    """An exact solver stopped at its node limit, so the answer is unknown (never guessed)."""


class EpisodeOverError(VLMEnvsError, RuntimeError):
    """`step` was called before `reset` or after the episode had ended."""


class WorldContractError(VLMEnvsError, AssertionError):
    """A world breaks the contract that `vlm_envs.testing.contract.check_world` checks."""


class WorkerError(VLMEnvsError, RuntimeError):
    """A vector-env worker failed; the message carries the worker's own traceback."""


class EngineUnavailableError(VLMEnvsError, RuntimeError):
    """An engine that a world needs (simulator, renderer, driver) is missing or cannot start."""
