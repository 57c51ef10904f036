"""`python -m vlm_envs list`: every world, what it needs, whether that is there, and what the world is."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass

import gymnasium as gym

from vlm_envs.cli.needs import need_of, reasons_missing
from vlm_envs.errors import VLMEnvsError
from vlm_envs.registration import VARIANTS, Need, creator_of, env_ids


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the list.

    Attributes:
        env_id: The world's id.
        summary: What it is, or what differs from the world it is a variant of.
        need: What it needs besides the base package; None for nothing.
        reason: Why it cannot run here and what to do; None if it can.
    """

    env_id: str
    summary: str
    need: Need | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """List the worlds.

    Attributes:
        json: Whether to print a JSON object: id to what is known of the world.
    """

    json: bool = False


def run(options: ListOptions) -> None:
    """Prints the worlds."""
    listed = entries()
    if options.json:
        print(json.dumps({entry.env_id: as_json(entry) for entry in listed}, indent=2, ensure_ascii=False))
    else:
        print("\n".join(table(listed)))


def entries() -> list[Entry]:
    """Returns every registered world, sorted by id. Engines are started, to see whether they are there."""
    needs = {env_id: need_of(env_id) for env_id in env_ids()}
    reasons = reasons_missing(need for need in needs.values() if need is not None)
    return [
        Entry(env_id=env_id, summary=describe(env_id), need=need, reason=None if need is None else reasons[need])
        for env_id, need in needs.items()
    ]


def table(listed: Sequence[Entry]) -> list[str]:
    """Returns one line a world, and below them what is missing."""
    rows = [
        (entry.env_id, f"[{entry.need.extra}]" if entry.need else "", "ready" if entry.reason is None else "missing")
        for entry in listed
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) + f"  {entry.summary}"
        for row, entry in zip(rows, listed, strict=True)
    ]
    return [*lines, "", *missing] if (missing := _what_is_missing(listed)) else lines


def _what_is_missing(listed: Sequence[Entry]) -> list[str]:
    """Returns a line for each need that is not met, with the remedy."""
    reasons = {entry.need: entry.reason for entry in listed if entry.need is not None and entry.reason is not None}
    return [
        f"{', '.join(entry.env_id for entry in listed if entry.need == need)}: {reason}"
        for need, reason in reasons.items()
    ]


def as_json(entry: Entry) -> dict[str, object]:
    """Returns an entry as `--json` prints it."""
    variant = VARIANTS.get(entry.env_id)
    need = entry.need
    return {
        "summary": entry.summary,
        "variant_of": None if variant is None else variant.base_id,
        "arguments": {} if variant is None else dict(variant.kwargs),
        "needs": [] if need is None else [f"vlm-envs[{need.extra}]", *filter(None, [need.besides])],
        "available": entry.reason is None,
        "reason": entry.reason,
    }


def describe(env_id: str) -> str:
    """Returns one sentence on a registered world: what differs for a variant, else the first line of its docstring."""
    variant = VARIANTS.get(env_id)
    return docstring(env_id).partition("\n")[0] if variant is None else variant.summary


def docstring(env_id: str) -> str:
    """Returns a registered world's docstring without its indentation, or an empty string.

    It is read from the source, since importing a world takes the packages it needs.
    """
    entry_point = gym.registry[env_id].entry_point
    written = _written_docstring(entry_point) if isinstance(entry_point, str) else None
    if written is not None:
        return written
    try:
        return inspect.getdoc(creator_of(env_id)) or ""
    except (ImportError, VLMEnvsError):
        return ""


def _written_docstring(entry_point: str) -> str | None:
    """Returns the docstring that stands in the module of `"module:name"`, or None if it stands elsewhere."""
    module, _, name = entry_point.partition(":")
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, VLMEnvsError):
        return None
    source = spec.loader.get_source(module) if spec and isinstance(spec.loader, importlib.abc.InspectLoader) else None
    for node in ast.parse(source).body if source else ():
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node)
    return None
