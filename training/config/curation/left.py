"""What a curation that is not over has left on the disk, and whether it may be gone on with.

`training.data.curation.unfinished_set` writes it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from training.config.curation.curate import CurateConfig
from training.config.curation.questions import QuestionBatch, digest_of
from training.config.saved import plain
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import parse_object, to_json

UNFINISHED = ".unfinished"
"""Behind the name of a data set that is being made, so that what has its own name is whole."""

HEADER, BATCHES = "curation.json", "batches"
"""The settings of a curation, and the folder of its batches."""

_FREE: Mapping[str, frozenset[str]] = {
    "": frozenset({"output", "device", "batch_size", "probe_endpoints"}),
    "verifier": frozenset({"workers", "num_workers", "num_gpus", "timeout_s"}),
    "endpoint": frozenset(
        {
            "api_key_variable",
            "cache_dir",
            "first_wait_s",
            "max_attempts",
            "max_parallel",
            "max_wait_s",
            "prices",
            "requests_per_minute",
            "timeout_s",
            "tokens_per_minute",
        }
    ),
}
"""Settings that may be others when a curation goes on, by the part of the configuration that they are of."""


def unfinished_folder(directory: Path) -> Path:
    """Returns where a data set is while it is made."""
    return directory.with_name(f"{directory.name}{UNFINISHED}")


def has_batches(directory: Path) -> bool:
    """Returns whether a data set has been begun and is not whole yet."""
    return bool(batch_folders(unfinished_folder(directory)))


def header_of(config: CurateConfig, asked: Sequence[QuestionBatch]) -> dict[str, Any]:
    """Returns what tells a curation from others: its settings, and a hash of its questions."""
    return {
        "curation": to_json(plain(config)),
        "questions": digest_of(asked),
        "num_questions": [len(each) for each in asked],
    }


def require_same_curation(config: CurateConfig, asked: Sequence[QuestionBatch]) -> None:
    """Refuses to go on with what another curation has left.

    One that is to keep so many questions may keep another number of them, and ask more.

    Args:
        config: The curation.
        asked: Its questions.

    Raises:
        ConfigError: If a setting on which the data depend is another one, or the questions are.
    """
    directory = Path(config.output) / config.name
    folder = unfinished_folder(directory)
    if not batch_folders(folder):
        return
    was = parse_object((folder / HEADER).read_bytes(), str(folder / HEADER))
    now = to_json(plain(config))
    other = next(differences(was["curation"], now, free=_free_numbers(was["curation"], now)), "")
    if not other and was["questions"] != digest_of(_first(asked, was.get("num_questions", ()))):
        other = "another pool"
    if other:
        raise ConfigError(
            f"{folder} holds a part of a data set that was begun with {other}. Give it the same settings to go on "
            "with it, choose another --name, or remove that folder to begin anew."
        )


def _free_numbers(was: Mapping[str, Any], now: Mapping[str, Any]) -> Collection[str]:
    """Returns which numbers of questions may be others: more may be asked where it is said how many are kept."""
    if was.get("num_kept") is None or now["num_kept"] is None:
        return ()
    return ("num_kept", "num_samples") if now["num_samples"] >= was["num_samples"] else ("num_kept",)


def _first(asked: Sequence[QuestionBatch], counts: Sequence[int]) -> list[QuestionBatch]:
    """Returns the first questions of each world, as many as there were when the curation began."""
    numbers = (*counts, *(len(each) for each in asked[len(counts) :]))
    return [each.part(range(min(count, len(each)))) for each, count in zip(asked, numbers, strict=False)]


def differences(was: Mapping[str, Any], now: Mapping[str, Any], *, free: Collection[str] = ()) -> Iterator[str]:
    """Yields the settings of a curation on which its data depend and that are others now, as they were and are.

    Args:
        was: The settings that it was begun with.
        now: Those of today.
        free: More settings that may be others.
    """
    for name in now:
        old, new = was.get(name, now[name]), now[name]
        if isinstance(old, dict) and isinstance(new, dict):
            old, new = ({key: each[key] for key in each if key not in _FREE.get(name, ())} for each in (old, new))
        if name not in _FREE[""] and name not in free and old != new:
            yield f"{name} {json.dumps(old)}, not {json.dumps(new)}"


def batch_folders(folder: Path) -> list[Path]:
    """Returns the folders of the batches that are whole, in order."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return sorted(each for each in (folder / BATCHES).iterdir() if each.name.isdecimal())
    return []
