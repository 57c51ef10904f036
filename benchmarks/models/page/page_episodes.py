"""The episodes and the playable levels of a board's page."""

from __future__ import annotations

import base64
import io
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from PIL import Image

from benchmarks.models.board.board import Board
from benchmarks.models.measures.measures import judged_worlds, regrets
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.records.json_lines import TEMPORARY, Record, replace_file
from vlm_envs.records.report_episodes import data_uri, image_names, shown_course
from vlm_envs.records.report_mistakes import first_mistake
from vlm_envs.records.report_page import script_json
from vlm_envs.registration import make
from vlm_envs.worlds.grids.grid_tiles import tile_set
from vlm_envs.worlds.grids.grid_world import GridWorld

EPISODES_PER_FILE = 64
FOLDER = "episodes"
"""Folder beside the page that holds the files."""

_INTERNED = ("text", "system")
"""Fields of turns whose texts repeat; a file holds each text once."""


def outlines(episodes: Sequence[Record], order: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Returns what became of every episode, without turns.

    Args:
        episodes: All of them, in the order of their files.
        order: Agents and worlds, in the order of the labels.

    Returns:
        `label`, `agent`, `world`, `num_recorded`, `num_failed`, and `episodes` for each agent in a world. Each episode
        has `place`, its index among all; what is None, empty, or zero is left out.
    """
    judged = judged_worlds(episodes)
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for place, episode in enumerate(episodes):
        outline = _outline(episode, place, is_judged=episode["world"] in judged)
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
    """Writes the files of turns into the board's folder; files that would not change are left alone.

    A board only grows at its end, so its earlier files stay as they are.
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
    """Removes the files of turns, of which a single-file page has no use."""
    _remove_others(board.directory / FOLDER, set())


def embedded(board: Board, episodes: Sequence[Record], max_bytes: int) -> dict[str, Any]:
    """Returns what a single-file page embeds: `files`, the files' contents, and `images`, data URIs by name.

    Raises:
        ConfigError: If it needs more than `max_bytes`.
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
    """Yields the content of each file: `texts`, and `episodes`, whose turns name texts by index; None without turns."""
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
    """Returns the turns of an episode, each with its regret; adds texts that repeat to `texts`."""
    if not episode.get("turns"):
        return None
    course = shown_course(episode)
    for turn, regret in zip(course["turns"], regrets(episode), strict=True):
        turn["regret"] = None if turn.get("agent_error") else regret
    course["turns"] = [_interned(_without_defaults(turn), texts) for turn in course["turns"]]
    return course | {"final": _interned(course["final"], texts)}


def _without_defaults(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a turn without what the page assumes: None, empty values, and turns that end nothing."""
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


_RULES = {"VLM/FrozenLake": "frozen_lake", "VLM/Sokoban": "sokoban"}
"""Worlds whose rules `grids.js` knows, by id without version."""

_TILE_PX = 56


def playable_levels(world: Record, episodes: Iterable[Record]) -> dict[str, Any] | None:
    """Returns the levels of a world that can be played in the page; None if none of its kind can.

    Args:
        world: As a board's record names it.
        episodes: Episodes of it, of all agents.

    Returns:
        `rules`, `tiles` (data URI by symbol), `budget` (moves that an agent had) and `levels`: by seed the drawing of
        the start and `optimal`, the fewest moves; or `reason` alone, where they cannot be played. Levels that start
        otherwise now than they did then are left out.
    """
    rules = _RULES.get(str(world["env_id"]).rpartition(":")[2].rpartition("-v")[0])
    if rules is None:
        return None
    kwargs = {name: tuple(value) if isinstance(value, list) else value for name, value in world["kwargs"].items()}
    if kwargs.get("is_slippery"):
        return {"reason": "This ice is slippery: where a move leads is chance, so it cannot be played here."}
    try:
        made = make(world["env_id"], **kwargs, split=world["split"], disable_env_checker=True)
    except (VLMEnvsError, LookupError, TypeError, gym.error.Error):
        return {"reason": "This version has no such world any more, so its levels cannot be played here."}
    with closing(made):
        grid: GridWorld[Any] = made.unwrapped  # type: ignore[assignment]
        budget = grid.max_turns * grid.max_actions_per_turn
        return {
            "rules": rules,
            "tiles": _tiles(rules),
            "budget": budget if grid.max_steps is None else min(budget, grid.max_steps),
            "levels": _levels(grid, episodes),
        }


def _levels(world: GridWorld[Any], episodes: Iterable[Record]) -> dict[str, Any]:
    started = {each["seed"]: each["start_state_hash"] for each in episodes if "start_state_hash" in each}
    levels = {}
    for seed, start_hash in started.items():
        _, info = world.reset(seed=seed)
        if info["state_hash"] == start_hash:
            drawing = world.dynamics.dump(world.state)
            levels[str(seed)] = {"drawing": drawing, "optimal": world.optimal_actions_left()}
    return levels


def _tiles(rules: str) -> dict[str, str]:
    """Returns the world's own tiles as data URIs by symbol."""
    tiles = tile_set(rules, _TILE_PX)
    drawn = {}
    for symbol, code in tiles.codes.items():
        file = io.BytesIO()
        Image.fromarray(tiles.picture(np.array([[code]], np.uint8))).save(file, format="PNG", optimize=True)
        drawn[symbol] = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
    return drawn
