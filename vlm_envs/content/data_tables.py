"""TOML tables that content generators read from their own folder."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def data_table(module_file: str, name: str) -> dict[str, Any]:
    """Parses a TOML file in the folder of a module, given the module's `__file__`."""
    return tomllib.loads(Path(module_file).with_name(name).read_text(encoding="utf-8"))
