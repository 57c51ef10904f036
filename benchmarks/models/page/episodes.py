"""The episodes of a board for its page: what became of all of them, and as many turn by turn as fit."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from benchmarks.models.board.board import Board
from benchmarks.models.measures.effort import regrets
from benchmarks.models.measures.measures import judged_worlds
from vlm_envs.records.json_lines import Record
from vlm_envs.records.report.episodes import data_uri, image_names, shown_episode
from vlm_envs.records.report.mistakes import first_mistake

_World = dict[str, list[Record]]
"""Episodes of one world, by level: seed and repeat."""


def board_browser(
    board: Board, episodes: Sequence[Record], order: Sequence[tuple[str, str]], max_bytes: int
) -> dict[str, Any]:
    """Returns the episodes of a board, by agent and world.

    Args:
        board: Whose pictures they have.
        episodes: All of them.
        order: Agents and worlds, in the order of the labels.
        max_bytes: Most bytes of all of it. Where turns and pictures need more, whole levels are shown, so that agents
            can be laid beside each other: first those that some solved and others did not. One level of each world is
            shown in any case.

    Returns:
        `labels` (agent, world, how many were recorded and failed, episodes; without turns where there was no room)
        and `images` (data URI by name), ready for JSON.
    """
    images: dict[str, str | None] = {}
    judged = judged_worlds(episodes)
    outlines = {id(episode): _outline(episode, episode["world"] in judged) for episode in episodes}
    shown = _shown(board, episodes, max_bytes - len(json.dumps(list(outlines.values()))), images)
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for episode in episodes:
        grouped[episode["agent"], episode["world"]].append(outlines[id(episode)] | shown.get(id(episode), {}))
    labels = [
        {
            "label": f"{agent} · {world}",
            "agent": agent,
            "world": world,
            "run": "",
            "is_training": False,
            "beside": None,
            "num_recorded": len(group),
            "num_failed": sum(not each["success"] for each in group),
            "episodes": sorted(group, key=lambda each: (each["seed"], each["repeat"])),
        }
        for agent, world in order
        if (group := grouped.get((agent, world)))
    ]
    return {"labels": labels, "images": images}


def _key(episode: Record) -> str:
    return f"{episode['seed']}/{episode['repeat']}"


def _outline(episode: Record, is_judged: bool) -> dict[str, Any]:
    """Returns what became of an episode, without its turns."""
    turns = episode.get("turns", ())
    mistake = None if episode["error"] or not turns else first_mistake(episode, trusts_judge=is_judged)
    return {
        "key": _key(episode),
        "seed": episode["seed"],
        "repeat": episode["repeat"],
        "world": episode["world"],
        "success": bool(episode.get("success")) and not episode["error"],
        "error": episode["error"],
        "is_unread": any(turn["parse_error"] is not None for turn in turns),
        "total_reward": episode.get("total_reward"),
        "mistake": None if mistake is None else asdict(mistake),
        "turns": [],
        "num_turns": len(turns),
        "final": None,
    }


def _shown(
    board: Board, episodes: Sequence[Record], max_bytes: int, images: dict[str, str | None]
) -> dict[int, dict[str, Any]]:
    """Returns the turns of as many episodes as fit, by the episode's `id`; adds their pictures to `images`."""
    shown: dict[int, dict[str, Any]] = {}
    begun: set[str] = set()
    full: set[str] = set()
    num_bytes = 0
    for level in _levels_in_turn(episodes):
        world = level[0]["world"]
        if world in full:
            continue
        turns = {id(each): _turns(each) for each in level if each.get("turns")}
        names = {name for each in level if each.get("turns") for name in image_names(each)} - images.keys()
        pictures = {name: data_uri(board.images.load, name) for name in sorted(names)}
        added = len(json.dumps(list(turns.values()))) + sum(len(each or "") + 70 for each in pictures.values())
        if num_bytes + added > max_bytes and world in begun:
            full.add(world)
            continue
        num_bytes += added
        begun.add(world)
        shown |= turns
        images |= pictures
    return shown


def _levels_in_turn(episodes: Sequence[Record]) -> Iterator[list[Record]]:
    """Yields the episodes of each level, one level of every world after the other."""
    worlds: dict[str, _World] = defaultdict(lambda: defaultdict(list))
    for episode in episodes:
        worlds[episode["world"]][_key(episode)].append(episode)
    for levels in zip_longest(*(_most_telling_first(world) for world in worlds.values())):
        yield from (level for level in levels if level is not None)


def _most_telling_first(world: Mapping[str, list[Record]]) -> list[list[Record]]:
    """Returns levels that agents disagree about, then those that all failed, then those that all solved."""

    def rank(level: list[Record]) -> int:
        outcomes = {"error" if each["error"] else bool(each["success"]) for each in level}
        return 0 if len(outcomes) > 1 else 1 if True not in outcomes else 2

    return sorted(world.values(), key=rank)


def _turns(episode: Record) -> dict[str, Any]:
    """Returns the turns of an episode, each with its regret: None where nobody knows."""
    shown = shown_episode(_key(episode), episode)
    for turn, regret in zip(shown["turns"], regrets(episode), strict=True):
        turn["regret"] = None if turn.get("agent_error") else regret
    return {"turns": shown["turns"], "final": shown["final"]}
