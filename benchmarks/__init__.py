"""Evaluation: boards of agents, speed and memory benchmarks, trainer comparisons, and experiments."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import vlm_envs  # noqa: F401  # first, because it reports missing packages in one line
from vlm_envs.moved import alias_modules

if TYPE_CHECKING:
    from benchmarks.models.evaluation import MeasuredBoard as MeasuredBoard
    from benchmarks.models.evaluation import evaluate as evaluate
    from benchmarks.models.measures.board_export import load_board as load_board

_MODULES = {
    "MeasuredBoard": "benchmarks.models.evaluation",
    "evaluate": "benchmarks.models.evaluation",
    "load_board": "benchmarks.models.measures.board_export",
}
"""Imported on first use, so that other commands do not load the dependencies of boards."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


alias_modules(
    {
        "benchmarks.models.board.merge": "benchmarks.models.board.board_merge",
        "benchmarks.models.board.spec": "benchmarks.models.board.board_spec",
        "benchmarks.models.board.suites": "benchmarks.models.board.board_spec",
        "benchmarks.models.measures.overall": "benchmarks.models.measures.comparisons",
        "benchmarks.models.measures.perception": "benchmarks.models.measures.perception_gaps",
    }
)  # until 0.2.0
