"""`python -m vlm_envs list`: every world, what it needs, whether that is there, and what the world is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from vlm_envs.cli.world_settings import describe
from vlm_envs.registration import VARIANTS, Need, env_ids, need_of, packages_missing, reasons_missing
from vlm_envs.terminal_tables import table, wrapped


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
        start_engines: Also start each engine whose packages are installed, which takes seconds: only that shows
            whether its drivers and libraries fit.
    """

    json: bool = False
    start_engines: bool = False


def run_list(options: ListOptions) -> None:
    """Prints the worlds."""
    listed = entries(start_engines=options.start_engines)
    if options.json:
        print(json.dumps({entry.env_id: as_json(entry) for entry in listed}, indent=2, ensure_ascii=False))
    else:
        print("\n".join(list_lines(listed, start_engines=options.start_engines)))


def entries(*, start_engines: bool = True) -> list[Entry]:
    """Returns every registered world, sorted by id.

    Args:
        start_engines: Whether engines are started to see whether they run; if not, only packages are looked for.
    """
    needs = {env_id: need_of(env_id) for env_id in env_ids()}
    found = [need for need in needs.values() if need is not None]
    reasons = reasons_missing(found) if start_engines else {need: packages_missing(need) for need in found}
    return [
        Entry(env_id=env_id, summary=describe(env_id), need=need, reason=None if need is None else reasons[need])
        for env_id, need in needs.items()
    ]


def list_lines(listed: Sequence[Entry], *, start_engines: bool, width: float | None = None) -> list[str]:
    """Returns the list for people, and below it what is missing."""
    rows = [
        (
            entry.env_id,
            f"[{entry.need.extra}]" if entry.need else "",
            _status(entry, start_engines=start_engines),
        )
        for entry in listed
    ]
    lines = table(rows, notes=[entry.summary for entry in listed], width=width)
    if any("installed" in row for row in rows):
        lines += ["", *wrapped("installed: its packages are. To start its engine, too: list --start-engines", width)]
    if missing := _what_is_missing(listed):
        lines += ["", *(line for text in missing for line in wrapped(text, width, indent="    "))]
    return lines


def _status(entry: Entry, *, start_engines: bool) -> str:
    if entry.reason is not None:
        return "missing"
    return "installed" if entry.need and entry.need.probe and not start_engines else "ready"


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
