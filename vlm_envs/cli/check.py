"""`python -m vlm_envs check`: whether a world keeps the contract every world keeps."""

from __future__ import annotations

import argparse
import warnings

from vlm_envs.cli.lookup import registered_name
from vlm_envs.cli.settings import add_set_argument, parse_settings
from vlm_envs.errors import WorldContractError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `check`."""
    parser.add_argument(
        "env_id", metavar="ENV_ID", help="for example VLM/Sokoban-v0, or my_module:My/World-v0 for your own"
    )
    add_set_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints one line per check, or everything that failed; returns 1 if anything did."""
    from vlm_envs.testing import check_world  # Only this command needs it.

    env_id = registered_name(arguments.env_id)
    try:
        with warnings.catch_warnings():
            # Gymnasium warns about the misuse that a check commits on purpose.
            warnings.simplefilter("ignore", UserWarning)
            results = check_world(env_id, **parse_settings(arguments.set))
    except WorldContractError as error:
        print(error)
        return 1
    for result in results:
        verdict = "pass" if result.skipped is None else "skip"
        print(f"{verdict}  {result.name}: {result.skipped or result.clause}")
    num_skipped = sum(result.skipped is not None for result in results)
    print(f"{len(results) - num_skipped} checks passed, {num_skipped} skipped")
    return 0
