"""The episodes on a board's page."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.models.board.board import Board
from benchmarks.models.measures.measures import judged_worlds, regrets
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import TEMPORARY, Record, replace_file
from vlm_envs.records.report_episodes import data_uri, image_names, shown_course
from vlm_envs.records.report_mistakes import first_mistake
from vlm_envs.records.report_page import script_json

EPISODES_PER_FILE = 64
FOLDER = "episodes"
"""Folder next to the page that holds the episode files."""

_INTERNED = ("text", "system")
"""Fields of turns whose texts repeat; each file stores a text once."""


def outlines(episodes: Sequence[Record], order: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Returns a summary of every episode, without turns.

    Args:
        episodes: All episodes, in the order of their files.
        order: Pairs of agent and world, in the order of the labels.

    Returns:
        `label`, `agent`, `world`, `num_recorded`, `num_failed`, and `episodes` for each agent in a world. Each episode
        has `place`, its index among all episodes; fields that are None, empty, or zero are left out.
    """
    judged = judged_worlds(episodes)
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for index, episode in enumerate(episodes):
        outline = _outline(episode, index, is_judged=episode["world"] in judged)
        grouped[episode["agent"], episode["world"]].append(outline)
    return [
        {
            "label": f"{agent} · {world}",
            "agent": agent,
            "world": world,
            "run": "",
            "is_training": False,
            "beside": None,
            "num_recorded": len(group),
            "num_failed": sum("success" not in outline for outline in group),
            "episodes": sorted(group, key=lambda outline: (outline["seed"], outline.get("repeat", 0))),
        }
        for agent, world in order
        if (group := grouped.get((agent, world)))
    ]


def write_files(board: Board, episodes: Sequence[Record]) -> None:
    """Writes the episode files into the board's folder and skips unchanged ones.

    A board only grows at its end, so earlier files stay unchanged.
    """
    folder = board.directory / FOLDER
    names = set()
    for number, content in enumerate(contents(episodes)):
        path = folder / f"{number:04}.js"
        names.add(path.name)
        script = f"loadEpisodes({number},{script_json(content)});\n".encode("ascii")
        if not (path.is_file() and path.stat().st_size == len(script) and path.read_bytes() == script):
            replace_file(path, script)
    _remove_others(folder, names)


def remove_files(board: Board) -> None:
    """Removes the episode files, which a single-file page does not need."""
    _remove_others(board.directory / FOLDER, set())


def embedded(board: Board, episodes: Sequence[Record], max_bytes: int) -> dict[str, Any]:
    """Returns the data that a single-file page embeds: `files`, the files' contents, and `images`, data URIs by name.

    Raises:
        ConfigError: If the data exceeds `max_bytes`.
    """
    files = list(contents(episodes))
    names = sorted({name for episode in episodes if episode.get("turns") for name in image_names(episode)})
    num_bytes = len(json.dumps(files))
    images: dict[str, str | None] = {}
    for name in names:
        images[name] = data_uri(board.images.load, name)
        num_bytes += len(images[name] or "") + 70
        if num_bytes > max_bytes:
            images[name] = None  # only the size is still needed
    if num_bytes > max_bytes:
        needed = math.ceil(num_bytes / 1e5) / 10
        raise ConfigError(
            f"{board.directory} as a single file would have about {needed:g} MB, more than {max_bytes / 1e6:g} MB. "
            f"Leave out --single-file, or allow more with --max-megabytes {math.ceil(1.05 * needed)}."
        )
    return {"files": files, "images": images}


def contents(episodes: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """Yields each file's content: `texts`, and `episodes` whose turns refer to texts by index; None without turns."""
    for start in range(0, len(episodes), EPISODES_PER_FILE):
        texts: dict[str, int] = {}
        shown = [_course(episode, texts) for episode in episodes[start : start + EPISODES_PER_FILE]]
        yield {"episodes": shown, "texts": list(texts)}


def _outline(episode: Record, place: int, *, is_judged: bool) -> dict[str, Any]:
    turns = episode.get("turns", ())
    mistake = None if episode["error"] or not turns else first_mistake(episode, trusts_judge=is_judged)
    stops = {turn["stop_reason"] for turn in turns} - {"stop", None}
    outline = {
        "repeat": episode["repeat"],
        "success": bool(episode.get("success")) and not episode["error"],
        "error": episode["error"],
        "is_unread": any(turn["parse_error"] is not None for turn in turns),
        "total_reward": episode.get("total_reward"),
        "mistake": None if mistake is None else asdict(mistake),
        "num_turns": len(turns),
        "num_actions": sum(len(turn.get("actions") or ()) for turn in turns),
        "stops": sorted(stops),
        "usd": episode.get("usd"),
        "tokens": episode.get("tokens"),
    }
    return {"seed": episode["seed"], "place": place, **{name: value for name, value in outline.items() if value}}


def _course(episode: Record, texts: dict[str, int]) -> dict[str, Any] | None:
    """Returns the turns of an episode with their regrets; adds repeating texts to `texts`."""
    if not episode.get("turns"):
        return None
    course = shown_course(episode)
    for turn, regret in zip(course["turns"], regrets(episode), strict=True):
        turn["regret"] = None if turn.get("agent_error") else regret
    course["turns"] = [_interned(_without_defaults(turn), texts) for turn in course["turns"]]
    return course | {"final": _interned(course["final"], texts)}


def _without_defaults(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a turn without the page's default values: None, empty values, and turns that are not final."""
    ends = ("terminated", "truncated")
    return {name: value for name, value in turn.items() if value or (value in (0, False) and name not in ends)}


def _interned(moment: Mapping[str, Any], texts: dict[str, int]) -> dict[str, Any]:
    named = {name: texts.setdefault(moment[name], len(texts)) for name in _INTERNED if moment.get(name)}
    return {**moment, **named}


def _remove_others(folder: Path, names: set[str]) -> None:
    if not folder.is_dir():
        return
    for path in (*folder.glob("[0-9]*.js"), *folder.glob(f".*{TEMPORARY}")):
        if path.name not in names:
            path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()
