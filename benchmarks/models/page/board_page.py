"""A board's page: index.html with its results, figures, and episodes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from benchmarks.models.board.board import STRICT, Board, EpisodeKey
from benchmarks.models.board.verification import verified_rows
from benchmarks.models.measures.comparisons import LAZY, OverallRow, best_of, not_above, overall, shared_means
from benchmarks.models.measures.measures import Pair, Row, pairs, rows
from benchmarks.models.measures.perception_gaps import PerceptionGap, perception_gaps
from benchmarks.models.page.page_episodes import (
    EPISODES_PER_FILE,
    FOLDER,
    embedded,
    outlines,
    remove_files,
    write_files,
)
from benchmarks.models.page.page_tables import SIGNIFICANT, columns, matrix, signed_points, written
from benchmarks.models.page.scatter import scatter
from benchmarks.models.play.contestants import REFERENCES
from vlm_envs.records.json_lines import Record
from vlm_envs.records.report_page import EPISODE_SCRIPTS, document, write_document
from vlm_envs.records.report_panels import written_p

_HERE = Path(__file__).parent
_SCRIPTS = ("board_browsing.js", "episode_files.js", "table.js", "board.js")


def build_page(directory: str | Path, *, single_file: bool = False, max_bytes: int = 16_000_000) -> Path:
    """Writes `index.html` and the folder `episodes` into a board's folder; safe while the board grows.

    Images are read from the board's folder `images`.

    Args:
        directory: The board's folder.
        single_file: Whether to embed turns and images in `index.html` instead.
        max_bytes: Maximum size of the turns and images in a single file.

    Returns:
        Path of the HTML file.

    Raises:
        MissingRunDataError: If there is no board.
        BrokenRunDataError: If the board cannot be read.
        ConfigError: If a single file would be larger than `max_bytes`.
    """
    board = Board(directory)
    lines = board.lines()
    episodes = list({EpisodeKey.of(line): line for line in lines}.values())  # `Board.episodes`, without rereading
    table = rows(lines, board.record["worlds"])
    compared = pairs(episodes)
    worlds = [world["label"] for world in board.record["worlds"]]
    played = {row.world for row in table}
    parts = [_part(name, index, table, compared) for index, name in enumerate(worlds) if name in played]
    ranking = overall(episodes)
    verified = verified_rows(board, episodes)
    source = embedded(board, episodes, max_bytes) if single_file else _beside_page(board, episodes)
    html = document(
        _HERE / "board.html.j2",
        scripts=[*EPISODE_SCRIPTS, *(_HERE / name for name in _SCRIPTS)],
        styles=[_HERE / "board.css"],
        payload={
            "labels": outlines(episodes, _order(worlds, table)),
            "commands": {
                world["label"]: command for world in board.record["worlds"] if (command := play_command(world))
            },
            **source,
        },
        loads_files=not single_file,
        filters={"id": short_id, "settings": _settings, "breakable": _breakable},
        address=_address,
        name=board.directory.resolve().name,
        facts=_facts(board.record, table, len(verified)),
        lede=lede(table, [agent for agent in _agents(table) if agent not in REFERENCES], ranking),
        overall=[row for row in ranking if row.num_worlds > 1],
        parts=parts,
        agents=_agents(table),
        by_place={(row.agent, row.world): row for row in table},
        gaps=gap_parts(perception_gaps(episodes, board.record["worlds"])),
        references=REFERENCES,
        verified=verified,
        record_text=json.dumps(board.record, indent=2, ensure_ascii=False),
    )
    path = board.directory / "index.html"
    write_document(path, html)
    if single_file:
        remove_files(board)
    return path


def _beside_page(board: Board, episodes: Sequence[Record]) -> dict[str, Any]:
    """Writes the episode files and returns the page's paths to them and to the images."""
    write_files(board, episodes)
    return {"episode_folder": FOLDER, "episodes_per_file": EPISODES_PER_FILE, "image_folder": "images"}


def _part(name: str, index: int, table: Sequence[Row], compared: Sequence[Pair]) -> dict[str, Any]:
    """Returns the page's content for one world: `endings` are by agent, and `legend` lists all kinds of them."""
    of_world = sorted((row for row in table if row.world == name), key=lambda row: (-row.success, row.agent))
    kinds = list(dict.fromkeys(kind for row in of_world for kind in row.mistakes))
    endings = {row.agent: _endings(row, kinds) for row in of_world}
    return {
        "name": name,
        "anchor": f"world-{index}",
        "rows": of_world,
        "columns": columns(of_world),
        "matrix": matrix([row.agent for row in of_world], [pair for pair in compared if pair.world == name]),
        "scatter": scatter(of_world),
        "endings": endings,
        "legend": list(dict.fromkeys(kind for of_row in endings.values() for kind, _, _ in of_row)),
    }


def _endings(row: Row, kinds: Sequence[str]) -> list[tuple[str, int, float]]:
    """Returns how a row's episodes ended: kind, count, and share of all, including errors."""
    of_kinds = {kind: row.mistakes.get(kind, 0) for kind in kinds}
    counts = {"solved": row.num_successes, **of_kinds, "error": row.num_errors}
    total = sum(counts.values())
    return [(kind, number, number / total) for kind, number in counts.items() if number]


def _address(agent: str, world: str, ending: str = "") -> str:
    """Returns the page's link to a row's episodes, optionally only those with one ending."""
    narrowed = {
        "": {},
        "solved": {"filter": "solved"},
        "error": {"filter": "errors"},
    }.get(ending, {"filter": "failed", "mistake": ending})
    return "#" + urlencode({"label": f"{agent} · {world}", **narrowed}, errors="replace")


def _breakable(name: str) -> Markup:
    """Returns a name with optional line breaks after its punctuation."""
    return Markup("<wbr>").join(re.split(r"(?<=[,/@=_])|(?<=:)(?=[A-Za-z])", name))


def _settings(world: str) -> str:
    """Returns the settings in a world's label; empty if it has none."""
    return world.partition(":")[2].replace(",", ", ")


def _order(worlds: Sequence[str], table: Sequence[Row]) -> list[tuple[str, str]]:
    """Returns pairs of agent and world in display order, references last."""
    agents = sorted(_agents(table), key=REFERENCES.__contains__)
    return [(agent, world) for world in worlds for agent in agents]


def _agents(table: Sequence[Row]) -> list[str]:
    """Returns the agents of a board by descending mean success."""
    success: dict[str, list[float]] = {}
    for row in table:
        success.setdefault(row.agent, []).append(row.success)
    return sorted(success, key=lambda agent: (-sum(success[agent]) / len(success[agent]), agent))


def _facts(record: Record, table: Sequence[Row], num_verified: int) -> list[str]:
    """Returns short facts that identify a board."""
    suite: Mapping[str, Any] = record.get("suite") or {}
    num_episodes = sum(row.num_episodes for row in table)
    usd = [row.usd for row in table if row.usd is not None]
    facts = [
        f"suite {suite['name']} {suite['version']}" if suite else "",
        f"{record.get('split')} levels",
        f"{record.get('reading', STRICT)} reading",
        f"{num_episodes:,} episodes",
        f"{num_verified} of {len(table)} rows verified" if num_verified else "",
        f"{sum(usd):,.2f} USD" if usd else "",
        f"vlm-envs {record.get('versions', {}).get('vlm-envs', '')}".strip(),
    ]
    return [fact for fact in facts if fact]


def play_command(world: Record) -> str:
    """Returns the command for playing a world's levels, without a seed; empty if a setting cannot be typed.

    Args:
        world: The world's entry on a board.
    """
    if "adapted" in world or any(isinstance(value, dict) for value in world["kwargs"].values()):
        return ""
    values = {**world["kwargs"], "split": world["split"]}.items()
    settings = [f"{name}={tuple(value) if isinstance(value, list) else value}" for name, value in values]
    return shlex.join(
        ["vlm-envs", "play", world["env_id"], *(word for setting in settings for word in ("--set", setting))]
    )


def lede(
    table: Sequence[Row],
    models: Sequence[str],
    ranking: Sequence[OverallRow] = (),
) -> str:
    """Returns a sentence that names the most successful agents, with the references for scale.

    Means cover the same worlds for all agents; if agents have played different worlds, the best of each world are
    named. An agent is called the best only if `not_above` allows it.

    Args:
        table: All rows.
        models: Agents other than the references.
        ranking: The agents over all worlds, for those that cannot be distinguished from the best.
    """
    rates: dict[str, dict[str, float]] = {}
    for row in table:
        if row.num_episodes:
            rates.setdefault(row.agent, {})[row.world] = row.success
    models = [agent for agent in models if agent in rates]
    worlds = list(dict.fromkeys(world for agent in models for world in rates[agent]))

    def mean(agent: str, worlds: Sequence[str] = worlds) -> str:
        return written(fmean(rates[agent][world] for world in worlds), "rate")

    if any(rates[agent].keys() != set(worlds) for agent in models):
        bests = {
            world: best_of([agent for agent in models if world in rates[agent]], [world], rates) for world in worlds
        }
        sentences = [
            f"in {short_id(world)} {_listed(best)} with {mean(best[0], [world])}"
            for world, best in bests.items()
            if not_above(best[0], [world], rates) is None
        ]
        return f"Most solved: {'; '.join(sentences)}." if sentences else ""
    if not models:
        return ""
    best = best_of(models, worlds, rates)
    subject = _listed(best)
    solves = f"{subject} {'solves' if len(best) == 1 else 'solve'}"
    where = f"of the levels{f', on average of {len(worlds)} worlds' if len(worlds) > 1 else ''}"
    reference = not_above(best[0], worlds, rates)
    if reference == "":
        return "No agent solves any level."
    if reference is not None:
        mine, its = (written(rate, "rate") for rate in shared_means(reference, best[0], worlds, rates))
        less = "less than" if reference == LAZY else "no more than"
        return f"{solves} {mean(best[0])} {where}, but {less} {reference} in what it has played: {mine} against {its}."
    measured = [f"{agent} {mean(agent)}" for agent in REFERENCES if rates.get(agent, {}).keys() >= set(worlds)]
    sentence = f"Of {len(models)} agents {solves} the most: " if len(models) > 1 else f"{solves} "
    sentence += f"{mean(best[0])} {where}{'; ' if measured else ''}{', '.join(measured)}."
    similar = [
        agent
        for row in ranking
        if [row.agent] == best and row.num_worlds == len(worlds)
        for agent in row.indistinguishable_from
        if agent in models
    ]
    return f"{sentence} The difference from {_listed(similar)} may be chance." if similar else sentence


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def short_id(world: str) -> str:
    """Returns the id in a world's label, without the namespace `VLM/`."""
    return world.partition(":")[0].removeprefix("VLM/")


_VIEWS = {
    "text": "text alone",
    "image+text": "image and text",
    "image+description": "image and a true description",
}


def gap_parts(gaps: Iterable[PerceptionGap]) -> dict[str, list[dict[str, Any]]]:
    """Returns the page's content for each gap, by world and with each agent's gaps together.

    `marks` are the positions of the gap and of the ends of its interval, from 0 for −100 points to 100 for +100 points.
    """
    parts: dict[str, list[dict[str, Any]]] = {}
    for gap in gaps:
        rows = parts.setdefault(gap.world, [])
        low, high = (signed_points(100 * end) for end in gap.interval)
        row = {
            "gap": gap,
            "is_first": all(row["gap"].agent != gap.agent for row in rows),
            "view": _VIEWS.get(gap.view, gap.view),
            "points": signed_points(100 * gap.gap),
            "range": f"{low} to {high}",
            "p_text": written_p(gap.p_value).removeprefix("p ").removeprefix("= "),
            "verdict": "" if gap.p_value >= SIGNIFICANT else "better" if gap.gap > 0 else "worse",
            "marks": [50 + 50 * end for end in (gap.gap, *gap.interval)],
        }
        rows.append(row)
    return parts
