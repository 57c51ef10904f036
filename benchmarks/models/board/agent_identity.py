"""Which agent of a board plays now: a model with its settings is the same agent wherever it is served."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agents.api.endpoint_config import COMPATIBLE
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record

_NOT_DECIDING = ("base_url", "title")
"""Fields of an identity that do not change a response. Boards used to record the address as `base_url`."""


def name_without_address(name: str) -> str:
    """Returns an agent's name without its server's address: `compatible:qwen` for `compatible:qwen@http://…/v1`."""
    kind = name.partition(":")[0]
    return name.partition("@http")[0] if kind == COMPATIBLE else name


def short_names(agents: Sequence[str]) -> dict[str, str]:
    """Returns names without server addresses by label; agents that differ only in their address keep it."""
    short = {agent: re.sub(r"@https?://[^\s,]+", "", agent) or agent for agent in agents}
    counts = Counter(short.values())
    return {agent: name if counts[name] == 1 else agent for agent, name in short.items()}


def with_short_names(episodes: Sequence[Record]) -> list[Record]:
    """Returns episodes with their agents' short names."""
    names = short_names(list(dict.fromkeys(episode["agent"] for episode in episodes)))
    return [episode | {"agent": names[episode["agent"]]} for episode in episodes]


def entry_for(agent: Record, entries: Sequence[Record], where: object) -> Record | None:
    """Returns a board's entry for an agent; None if the board does not have this agent.

    Args:
        agent: As `Contestant.record` returns it.
        entries: Entries of the board.
        where: The board's file, for messages.

    Raises:
        ConfigError: If another agent has this label, or several entries are this model at different addresses.
    """
    for entry in entries:
        if entry["label"] == agent["label"]:
            if is_another(entry, agent):
                raise ConfigError(
                    f"{where} has another {entry['label']} (hash {entry['digest']}, now {agent['digest']}): it has "
                    "changed since. Name another folder with --out, or this agent with as=NAME."
                )
            return entry
    if "title" in agent.get("identity", {}):
        return None
    served = [entry for entry in entries if _has_address_in_label(entry) and _is_same_model(entry, agent)]
    if len(served) > 1:
        raise ConfigError(
            f"{where} has {len(served)} agents that are {agent['label']} at different addresses: "
            f"{', '.join(entry['label'] for entry in served)}. To add another, use as=NAME."
        )
    return next(iter(served), None)


def is_another(entry: Record, agent: Record) -> bool:
    """Returns whether two records have the same label, but are different agents."""
    is_same = entry["digest"] == agent["digest"] or _is_same_model(entry, agent)
    return entry["label"] == agent["label"] and not is_same


def _has_address_in_label(entry: Record) -> bool:
    """Returns whether an entry was labeled by default when labels still had addresses in them."""
    name = str(entry.get("identity", {}).get("name", ""))
    return name != name_without_address(name) and entry["label"].startswith(name)


def _is_same_model(entry: Record, agent: Record) -> bool:
    """Returns whether two records are of one served model with the same settings."""
    identities = [record.get("identity", {}) for record in (entry, agent)]
    return all("provider" in identity for identity in identities) and _deciding(identities[0]) == _deciding(
        identities[1]
    )


def _deciding(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what decides responses; unset settings are left out, as boards made before a setting lack it."""
    found = {name: value for name, value in identity.items() if name not in _NOT_DECIDING and value not in (None, "")}
    return {**found, "name": name_without_address(str(identity.get("name", "")))}
