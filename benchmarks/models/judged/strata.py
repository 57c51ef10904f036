"""Success by how much has to be magnified: Mags-RL's Zoom-Easy, Zoom-Medium and Zoom-Hard.

A judge's score from 1 to 10 is kept as the measure `zoom_need`, a tenth of it. Source: Mags-RL, section 4.1 and
appendix A.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

from benchmarks.models.measures.measures import GRADED, ZOOM_NEED
from benchmarks.models.text_table import text_table
from vlm_envs.records.json_lines import Record
from vlm_envs.statistics.success_rates import share_interval

STRATA: Mapping[str, float] = MappingProxyType({"easy": 0.3, "medium": 0.7, "hard": 1.0})
"""Largest `zoom_need` of each: scores of 1 to 3, 4 to 7, and 8 to 10."""

_OF_ROWS = ("inclusion", GRADED)


def stratum_of(episode: Record) -> str | None:
    """Returns the stratum of a judged episode; None where nobody said how much must be magnified."""
    need = (episode.get("judged") or {}).get(ZOOM_NEED)
    if need is None:
        return None
    return next(name for name, largest in STRATA.items() if need <= largest + 1e-9)


def strata_text(episodes: Sequence[Record]) -> str:
    """Returns a table with a row for every stratum, agent and world; empty where no episode has a stratum."""
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for each in episodes:
        if not each["error"] and (stratum := stratum_of(each)) is not None:
            groups[each["world"], stratum, each["agent"]].append(each)
    order = list(STRATA)
    keys = sorted(groups, key=lambda key: (key[0], order.index(key[1]), key[2]))
    return text_table([_told(key, groups[key]) for key in keys]) if keys else ""


def _told(key: tuple[str, str, str], episodes: Sequence[Record]) -> dict[str, str]:
    world, stratum, agent = key
    told = {"world": world, "zoom": stratum, "agent": agent, "episodes": str(len(episodes))}
    told["success"] = _share(episodes, [float(each["success"]) for each in episodes])
    for name in _OF_ROWS:
        judged = [each for each in episodes if name in each["judged"]]
        known = [each["judged"][name] for each in judged]
        is_share = name == "inclusion"
        told[name] = "" if not known else _share(judged, known) if is_share else f"{fmean(known):.3f}"
    return told


def _share(episodes: Sequence[Record], values: Sequence[float]) -> str:
    low, high = share_interval(episodes, values)
    return f"{fmean(values):.3f} ({low:.3f} to {high:.3f})"
