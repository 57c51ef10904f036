"""Tables that content is made from: TOML files beside the modules that read them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def data_table(module_file: str, name: str) -> dict[str, Any]:
    """Returns the content of a TOML file in the folder of a module, given the module's `__file__`."""
    return tomllib.loads(Path(module_file).with_name(name).read_text(encoding="utf-8"))
