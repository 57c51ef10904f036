"""Deprecated module paths: documented modules that moved can be imported from their old path until 0.2.0."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any

REMOVED_IN = "0.2.0"


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
        self.__dict__["_new"] = new
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        new = self.__dict__["_new"]
        if name.startswith("__"):  # asked by the import system and by tools such as inspect, which need no warning
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}; it moved to {new!r}")
        warnings.warn(
            f"{self.__name__} moved to {new}; the old path works until {REMOVED_IN}.", DeprecationWarning, stacklevel=2
        )
        return getattr(importlib.import_module(new), name)
