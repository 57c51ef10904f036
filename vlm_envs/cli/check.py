"""`python -m vlm_envs check`: whether a world keeps the contract every world keeps."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated, Any

from tyro.conf import Positional, arg

from vlm_envs.cli.lookup import make_world
from vlm_envs.cli.settings import Settings, parse_settings
from vlm_envs.errors import EngineUnavailableError, WorldContractError
from vlm_envs.registration import registered_name


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Check a world, yours included, against the contract.

    Attributes:
        env_id: For example VLM/Sokoban-v0, or my_module:My/World-v0 for your own.
        settings: Arguments of the world.
    """

    env_id: Annotated[str, Positional, arg(metavar="ENV_ID")]
    settings: Settings = ()


def run(options: CheckOptions) -> int:
    """Prints one line per check, or everything that failed; returns 1 if anything did."""
    from vlm_envs.testing.contract import check_world  # Only this command needs it.

    env_id = registered_name(options.env_id)
    kwargs = parse_settings(options.settings)
    require_engine(env_id, kwargs)
    try:
        with warnings.catch_warnings():
            # Gymnasium warns about the misuse that a check commits on purpose.
            warnings.simplefilter("ignore", UserWarning)
            results = check_world(env_id, **kwargs)
    except WorldContractError as error:
        print(error)
        return 1
    for result in results:
        verdict = "pass" if result.skipped is None else "skip"
        print(f"{verdict}  {result.name}: {result.skipped or result.clause}")
    num_skipped = sum(result.skipped is not None for result in results)
    print(f"{len(results) - num_skipped} checks passed, {num_skipped} skipped")
    return 0


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
    except Exception:
        return
