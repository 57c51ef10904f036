"""From a run's directory, or that of a run of stages, to what is kept of its course."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.curves.curve import Evaluation, Kind, RunCurve, Span
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record
from vlm_envs.records.report_page import stage_folders
from vlm_envs.records.run_data import STAGES, RunReader, world_of

MAX_POINTS = 100
"""Of a span: of more iterations, so many means."""

_KEPT = ("success", "return", "loss", "eval_loss")
"""Returns, and not the worlds' rewards alone: some papers' rewards are all paid by judges."""
_MADE_BY = ("command", "commit", "versions")


def condensed(directory: Path, name: str | None = None) -> RunCurve:
    """Returns the course of a run, also of one that is not over.

    Args:
        directory: Of the run, or of a run of stages.
        name: What it is to be called; None for what its directory is.

    Raises:
        MissingRunDataError: If there is no run.
        BrokenRunDataError: If a file of it cannot be read.
        ConfigError: If nothing of it has begun.
    """
    folders = stage_folders(directory) if (directory / STAGES).is_file() else [""]
    begun = [folder for folder in folders if (directory / folder / "config.json").is_file()]
    is_missing = not begun and folders == [""]  # RunReader says so
    readers = {folder: RunReader(directory / folder) for folder in (folders if is_missing else begun)}
    called = name or directory.resolve().name
    spans = [span for folder, reader in readers.items() for span in _spans(folder or called, reader)]
    if not any(span.points or span.evaluations for span in spans):
        raise ConfigError(f"{directory} has learnt nothing yet, so it has no curve. Let it run, or name another run.")
    configs = [reader.config for reader in readers.values()]
    trained = next((each for each in reversed(configs) if "command" in each), configs[-1])
    return RunCurve(
        name=called,
        seed=int(next((each["seed"] for each in configs if "seed" in each), 0)),
        spans=spans,
        made_by={key: trained.get(key) for key in _MADE_BY},
    )


def _spans(stage: str, reader: RunReader) -> Iterator[Span]:
    """Yields a stage's cold start, if it has made one, and what it has learnt then."""
    config, lines = reader.config, reader.metrics()
    if "curation" in config:
        found = config["yield"]
        yield Span(stage=stage, kind="curation", note=f"kept {found['num_kept']} of {found['num_samples']} questions")
        return
    imitated = [line for line in lines if line.get("phase") == "cold_start"]
    learnt = [line for line in lines if line.get("phase") != "cold_start"]
    evaluations = [_evaluation(line) for line in reader.evaluations()]
    if imitated:
        alone = not learnt and not config.get("num_iterations")
        yield _span(stage, "imitation", imitated, evaluations if alone else [])
        if alone:
            return
    if learnt or evaluations:
        yield _span(stage, "rl" if "worlds" in config else "sft", learnt, evaluations)


def _span(stage: str, kind: Kind, lines: Sequence[Record], evaluations: Sequence[Evaluation]) -> Span:
    num_iterations = max((int(line["iteration"]) + 1 for line in lines), default=0)
    if kind == "imitation":  # whose evaluations were made behind it
        evaluations = [replace(each, iteration=num_iterations) for each in evaluations]
    return Span(stage=stage, kind=kind, num_iterations=num_iterations, points=points(lines), evaluations=[*evaluations])


def points(lines: Sequence[Record]) -> list[dict[str, float]]:
    """Returns what is drawn of a span's metrics: means of as many lines as make at most `MAX_POINTS` points."""
    size = -(-len(lines) // MAX_POINTS) or 1
    found = []
    for first in range(0, len(lines), size):
        part = lines[first : first + size]
        names = dict.fromkeys(key for line in part for key in line if key in _KEPT or key.startswith("success/"))
        known = {name: [line[name] for line in part if line.get(name) is not None] for name in names}
        means = {name: round(float(np.mean(values)), 5) for name, values in known.items() if values}
        found.append({"iteration": float(np.mean([line["iteration"] for line in part])), **means})
    return found


def _evaluation(line: Record) -> Evaluation:
    reward, policy = line.get("reward"), line.get("policy_iteration")
    return Evaluation(
        iteration=int(line.get("iteration", 0) if policy is None else policy),
        label=str(line["label"]),
        world=world_of(line),
        split=str(line.get("split", "test")),
        num_successes=int(line["num_successes"]),
        num_episodes=int(line["num_episodes"]),
        reward=None if reward is None else round(float(reward), 5),
    )
