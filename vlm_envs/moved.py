"""Deprecated module paths: documented modules that moved can be imported from their old path until 0.2.0."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any

REMOVED_IN = "0.2.0"
MOVED = {
    "vlm_envs.arguments": "vlm_envs.validation",
    "vlm_envs.arguments.ranges": "vlm_envs.validation",
    "vlm_envs.content.judging.source": "vlm_envs.content.judging.judging_source",
    "vlm_envs.content.reports.source": "vlm_envs.content.reports.report_source",
    "vlm_envs.content.scenes.clips": "vlm_envs.content.scenes.clip_drawing",
    "vlm_envs.content.scenes.clips.drawing": "vlm_envs.content.scenes.clip_drawing",
    "vlm_envs.content.scenes.clips.quarters": "vlm_envs.content.quarters",
    "vlm_envs.exports": "vlm_envs.discrete_world",
    "vlm_envs.exports.discrete": "vlm_envs.discrete_world",
    "vlm_envs.qa.strategy": "vlm_envs.qa.strategies",
    "vlm_envs.qa.world": "vlm_envs.qa.qa_world",
    "vlm_envs.records.episode_record": "vlm_envs.records.run_data",
    "vlm_envs.responses.lenient_reading": "vlm_envs.responses.parsing",
    "vlm_envs.statistics.attempts": "vlm_envs.statistics.success_rates",
    "vlm_envs.statistics.pairs": "vlm_envs.statistics.paired_tests",
    "vlm_envs.statistics.power": "vlm_envs.statistics.paired_tests",
    "vlm_envs.statistics.rates": "vlm_envs.statistics.success_rates",
    "vlm_envs.tools.instructions.constraints": "vlm_envs.tools.instruction_checkers",
    "vlm_envs.tools.instructions.instruction": "vlm_envs.tools.instructions",
    "vlm_envs.tools.instructions.profiles": "vlm_envs.tools.text_profiles",
    "vlm_envs.tools.instructions.tools": "vlm_envs.tools.instructions",
    "vlm_envs.tools.registry": "vlm_envs.tools.tool_registry",
    "vlm_envs.tools.retrieval": "vlm_envs.tools.document_tools",
    "vlm_envs.tools.stores": "vlm_envs.tools.tool_memory",
    "vlm_envs.vector.env": "vlm_envs.vector.vector_world",
}
"""Documented modules of this package that moved after 0.1.0: new path by old path."""


def alias_modules(moved: Mapping[str, str]) -> None:
    """Makes old module paths importable; their first attribute access warns and imports the new module.

    Args:
        moved: New module path by old module path, both absolute.
    """
    for old, new in moved.items():
        sys.modules.setdefault(old, _MovedModule(old, new))


class _MovedModule(ModuleType):
    def __init__(self, old: str, new: str) -> None:
        super().__init__(old, f"Moved to `{new}`.")
        self.new_path = new
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        new = self.new_path
        if name.startswith("__"):  # requested by the import system and by tools such as inspect, which need no warning
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}; it moved to {new!r}")
        warnings.warn(
            f"{self.__name__} moved to {new}; the old path works until {REMOVED_IN}.", DeprecationWarning, stacklevel=2
        )
        return getattr(importlib.import_module(new), name)
