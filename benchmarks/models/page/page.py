"""The page of a board: an HTML file that opens without a server, and files of episodes that it loads on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from benchmarks.models.board.agent_identity import short_names
from benchmarks.models.board.board import STRICT, Board
from benchmarks.models.board.lines import EpisodeKey
from benchmarks.models.board.verification import verified_rows
from benchmarks.models.measures.measures import Pair, Row, pairs, rows
from benchmarks.models.measures.overall import overall
from benchmarks.models.measures.perception import perception_gaps
from benchmarks.models.page.columns import Column, columns
from benchmarks.models.page.episodes import EPISODES_PER_FILE, FOLDER, embedded, outlines, remove_files, write_files
from benchmarks.models.page.gaps import gap_parts
from benchmarks.models.page.lede import lede, short_id
from benchmarks.models.page.levels import playable_levels
from benchmarks.models.page.matrix import Cell, matrix
from benchmarks.models.page.scatter import Scatter, scatter
from benchmarks.models.play.contestants import REFERENCES
from vlm_envs.records.json_lines import Record
from vlm_envs.records.report_page import EPISODE_SCRIPTS, document, write_document

_HERE = Path(__file__).parent
_SCRIPTS = ("board_browsing.js", "episode_files.js", "table.js", "grids.js", "play.js", "board.js")


@dataclass(frozen=True, kw_only=True)
class WorldPart:
    """What the page says of one world.

    Attributes:
        name: What the board calls it.
        anchor: Its place on the page.
        rows: The agents, the most successful first.
        columns: What is measured of them.
        matrix: Every agent against every other; empty without pairs.
        scatter: Success against cost, if anybody's is known.
        endings: By agent the share of episodes with each ending, the number of them before it.
        legend: All endings.
    """

    name: str
    anchor: str
    rows: list[Row]
    columns: list[Column]
    matrix: list[list[Cell | None]]
    scatter: Scatter | None
    endings: dict[str, list[tuple[str, int, float]]]
    legend: list[str]


def build_page(directory: str | Path, *, single_file: bool = False, max_bytes: int = 16_000_000) -> Path:
    """Writes `index.html` and the folder `episodes` into a board's folder, also while the board grows.

    Images are read from the board's folder `images`.

    Args:
        directory: The board's folder.
        single_file: Whether turns and images are embedded in `index.html` instead.
        max_bytes: Most bytes of turns and images in a single file.

    Returns:
        Path of the HTML file.

    Raises:
        MissingRunDataError: If there is no board.
        BrokenRunDataError: If it cannot be read.
        ConfigError: If a single file would be larger than `max_bytes`.
    """
    board = Board(directory)
    lines = board.lines()
    episodes = list({EpisodeKey.of(line): line for line in lines}.values())  # as `Board.episodes`, read once
    table = rows(lines, board.record["worlds"])
    compared = pairs(episodes)
    worlds = [each["label"] for each in board.record["worlds"]]
    names = short_names(_agents(table))
    parts = [_part(name, index, table, compared, names) for index, name in enumerate(worlds)]
    parts = [part for part in parts if part.rows]
    ranking = overall(episodes)
    verified = verified_rows(board, episodes)
    source = embedded(board, episodes, max_bytes) if single_file else _beside_page(board, episodes)
    html = document(
        _HERE / "board.html.j2",
        scripts=[*EPISODE_SCRIPTS, *(_HERE / name for name in _SCRIPTS)],
        styles=[_HERE / "board.css"],
        payload={
            "labels": outlines(episodes, _order(worlds, table)),
            "levels": _levels(board.record["worlds"], episodes),
            "names": {name: short for name, short in names.items() if name != short},
            **source,
        },
        loads_files=not single_file,
        filters={
            "id": short_id,
            "settings": _settings,
            "breakable": _breakable,
            "agent_name": lambda agent: names.get(agent, agent),
        },
        address=_address,
        name=board.directory.resolve().name,
        facts=_facts(board.record, table, len(verified)),
        lede=lede(table, [agent for agent in _agents(table) if agent not in REFERENCES], names, ranking),
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
    """Writes the files of episodes, and returns where the page finds them and the images."""
    write_files(board, episodes)
    return {"episode_folder": FOLDER, "episodes_per_file": EPISODES_PER_FILE, "image_folder": "images"}


def _part(name: str, index: int, table: Sequence[Row], compared: Sequence[Pair], names: Mapping[str, str]) -> WorldPart:
    of_world = sorted((row for row in table if row.world == name), key=lambda row: (-row.success, row.agent))
    kinds = dict.fromkeys(kind for row in of_world for kind in row.mistakes)
    return WorldPart(
        name=name,
        anchor=f"world-{index}",
        rows=of_world,
        columns=columns(of_world),
        matrix=matrix([row.agent for row in of_world], [pair for pair in compared if pair.world == name]),
        scatter=scatter(of_world, names),
        endings={row.agent: _endings(row, list(kinds)) for row in of_world},
        legend=list(dict.fromkeys(kind for row in of_world for kind, _, _ in _endings(row, list(kinds)))),
    )


def _endings(row: Row, kinds: Sequence[str]) -> list[tuple[str, int, float]]:
    """Returns how episodes ended: kind, number, share of all, errors included."""
    counts = {
        "solved": row.num_successes,
        **{kind: row.mistakes.get(kind, 0) for kind in kinds},
        "error": row.num_errors,
    }
    total = sum(counts.values())
    return [(kind, number, number / total) for kind, number in counts.items() if number]


def _address(agent: str, world: str, ending: str = "") -> str:
    """Returns where on the page the episodes of a row are, or those with one ending."""
    narrowed = {
        "": {},
        "solved": {"filter": "solved"},
        "error": {"filter": "errors"},
    }.get(ending, {"filter": "failed", "mistake": ending})
    return "#" + urlencode({"label": f"{agent} · {world}", **narrowed}, errors="replace")


def _breakable(name: str) -> Markup:
    """Returns a name that a line may break at its punctuation."""
    return Markup("<wbr>").join(re.split(r"(?<=[,/@=_])|(?<=:)(?=[A-Za-z])", name))


def _settings(world: str) -> str:
    """Returns the settings of what a board calls a world; empty where it has none."""
    return world.partition(":")[2].replace(",", ", ")


def _order(worlds: Sequence[str], table: Sequence[Row]) -> list[tuple[str, str]]:
    """Returns agents and worlds in the order in which a reader wants them: what is on every board comes last."""
    agents = sorted(_agents(table), key=REFERENCES.__contains__)
    return [(agent, world) for world in worlds for agent in agents]


def _agents(table: Sequence[Row]) -> list[str]:
    """Returns the agents of a board, those with the highest mean success first."""
    success: dict[str, list[float]] = {}
    for row in table:
        success.setdefault(row.agent, []).append(row.success)
    return sorted(success, key=lambda agent: (-sum(success[agent]) / len(success[agent]), agent))


def _facts(record: Record, table: Sequence[Row], num_verified: int) -> list[str]:
    """Returns what identifies a board, in a few words each."""
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


def _levels(worlds: Sequence[Record], episodes: Sequence[Record]) -> dict[str, Any]:
    by_world: dict[str, list[Record]] = {}
    for episode in episodes:
        by_world.setdefault(episode["world"], []).append(episode)
    found = {each["label"]: playable_levels(each, by_world.get(each["label"], ())) for each in worlds}
    return {label: levels for label, levels in found.items() if levels is not None}
