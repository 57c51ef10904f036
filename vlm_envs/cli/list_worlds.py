"""`python -m vlm_envs list`: every world with its one-line description."""

from __future__ import annotations

import argparse
import inspect
import json

from vlm_envs.cli.lookup import load_creator
from vlm_envs.registration import env_ids


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `list`."""
    parser.add_argument("--json", action="store_true", help="print a JSON object of id to description")


def run(arguments: argparse.Namespace) -> int:
    """Prints the worlds."""
    descriptions = {env_id: describe(env_id) for env_id in env_ids()}
    if arguments.json:
        print(json.dumps(descriptions, indent=2, ensure_ascii=False))
        return 0
    width = max(map(len, descriptions), default=0)
    for env_id, description in descriptions.items():
        print(f"{env_id:<{width}}  {description}")
    return 0


def describe(env_id: str) -> str:
    """Returns the first line of a registered world's docstring."""
    return docstring(env_id).partition("\n")[0]


def docstring(env_id: str) -> str:
    """Returns a registered world's docstring without its indentation, or an empty string."""
    return inspect.getdoc(load_creator(env_id)) or ""
