"""Levels that the reader of a page can play: where they start, how they look, and what is best."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import gymnasium as gym
import numpy as np
from PIL import Image

from vlm_envs.errors import VLMEnvsError
from vlm_envs.records.json_lines import Record
from vlm_envs.registration import make
from vlm_envs.worlds.grids.grid_tiles import tile_set
from vlm_envs.worlds.grids.grid_world import GridWorld

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
