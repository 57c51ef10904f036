"""A board as a table with one row per episode: CSV, Parquet, or a pandas data frame."""

from __future__ import annotations

import csv
import io
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.models.board.board import STRICT, Board, EpisodeKey
from benchmarks.models.measures.measures import judged_worlds, spent
from vlm_envs.errors import EngineUnavailableError
from vlm_envs.records.json_lines import Record
from vlm_envs.records.report_mistakes import first_mistake
from vlm_envs.requirements import install_command
from vlm_envs.statistics.success_rates import cluster_of

if TYPE_CHECKING:
    import pandas as pd


Format = Literal["csv", "parquet"]
Kind = Literal["text", "count", "number", "flag"]

COLUMNS: Mapping[str, Kind] = tomllib.loads(Path(__file__).with_name("export_columns.toml").read_text(encoding="utf-8"))
"""Columns that every board has, in order; `metric.NAME` and then `judged.NAME` follow, in order of appearance."""


def episode_rows(board: Board) -> list[dict[str, Any]]:
    """Returns one row per episode with the keys of `COLUMNS`, `metric.*`, and `judged.*`; unknown values are None.

    For a retried episode, the last attempt counts, but tokens and costs include all attempts, so that their sums are
    the board's. Episodes that ended with an error have no success, reward, or first mistake.
    """
    lines = board.lines()
    tries: dict[EpisodeKey, list[Record]] = defaultdict(list)
    for line in lines:
        tries[EpisodeKey.of(line)].append(line)
    judged = judged_worlds(lines)
    splits = {world["label"]: world["split"] for world in board.record["worlds"]}
    rows = [
        _row(of_episode, trusts_judge=of_episode[-1]["world"] in judged)
        | {"split": splits.get(of_episode[-1]["world"])}
        for of_episode in tries.values()
    ]
    measured = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    names = [*COLUMNS, *sorted(measured, key=lambda name: name.startswith("judged."))]
    return [{name: _writable(row.get(name)) for name in names} for row in rows]


_COPIED = (
    *("agent", "world", "seed", "repeat", "agent_digest", "world_digest"),
    *("seconds", "wall_s", "address", "judge", "start_state_hash"),
)
"""Columns copied unchanged from a line."""


def _row(tries: Sequence[Record], *, trusts_judge: bool) -> dict[str, Any]:
    line = tries[-1]
    turns = line.get("turns", [])
    row: dict[str, Any] = {name: line.get(name) for name in _COPIED}
    for name in ("prompt_tokens", "completion_tokens"):
        used = [turn["usage"][name] for attempt in tries for turn in attempt.get("turns", []) if name in turn["usage"]]
        row[name] = round(sum(used)) if used else None
    tokens = spent("tokens", tries)
    row |= {
        "cluster": str(cluster_of(line)),
        "turns": len(turns),
        "tokens": None if tokens is None else round(tokens),
        "usd": spent("usd", tries),
        "tries": len(tries),
        "stop_reasons": " ".join(turn["stop_reason"] for turn in turns) or None,
        "stop_details": "\n".join(turn["stop_detail"] for turn in turns if turn.get("stop_detail")) or None,
        "turns_out_of_format": sum(turn["parse_error"] is not None for turn in turns),
        "error": line["error"] or None,
        "model": " ".join(dict.fromkeys(turn["model"] for turn in turns if turn.get("model"))) or None,
        "reading": line.get("reading", STRICT),
    }
    if not line["error"]:
        mistake = first_mistake(line, trusts_judge=trusts_judge)
        row |= {"success": bool(line["success"]), "reward": line["total_reward"]}
        row["first_mistake"] = mistake.kind if mistake else None
    for prefix, field in (("metric", "metrics"), ("judged", "judged")):
        row |= {f"{prefix}.{name}": value for name, value in (line.get(field) or {}).items()}
    return row


def _writable(value: Any) -> Any:
    """Returns a value that can be encoded as UTF-8; errors and names may quote lone surrogates, which cannot."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def exported(board: Board, form: Format) -> bytes:
    """Returns a board as the bytes of a file.

    Raises:
        EngineUnavailableError: If pyarrow is needed and not installed.
    """
    rows = episode_rows(board)
    return _csv(rows) if form == "csv" else _parquet(rows)


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(rows[0]) if rows else list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = {name: str(value).lower() if isinstance(value, bool) else value for name, value in row.items()}
        writer.writerow(cells)
    return file.getvalue().encode()


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError:
        raise EngineUnavailableError(
            f"--to parquet needs pyarrow, which is not installed. Run: {install_command('parquet')}, or export "
            "--to csv."
        ) from None
    types = {"text": pa.string(), "count": pa.int64(), "number": pa.float64(), "flag": pa.bool_()}
    schema = pa.schema([(name, types[_kind(name)]) for name in (rows[0] if rows else COLUMNS)])
    table = pa.Table.from_pylist(list(rows), schema=schema)
    file = io.BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def _kind(name: str) -> Kind:
    return COLUMNS.get(name, "number")


def load_board(path: str | Path) -> pd.DataFrame:
    """Returns a board as a data frame with one row per episode and the columns `COLUMNS`, `metric.*`, and `judged.*`.

    Args:
        path: The board's folder.

    Raises:
        MissingRunDataError: If there is no board.
        BrokenRunDataError: If the board cannot be read.
        EngineUnavailableError: If pandas is not installed.
    """
    rows = episode_rows(Board(path))
    try:
        import pandas as pd
    except ImportError:
        raise EngineUnavailableError(
            f"load_board needs pandas, which is not installed. Run: {install_command('frames')}, or write a file with "
            "python -m benchmarks export."
        ) from None
    frame_types: Mapping[Kind, str] = {"text": "string", "count": "Int64", "number": "Float64", "flag": "boolean"}
    names = list(rows[0]) if rows else list(COLUMNS)
    columns = {name: pd.array([row[name] for row in rows], dtype=frame_types[_kind(name)]) for name in names}
    return pd.DataFrame(columns)
