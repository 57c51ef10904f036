"""Tables in parquet files of a user's folder, as the Hugging Face hub publishes most data sets; needs pyarrow."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO

from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.tools.errors import ToolError
from vlm_envs.tools.files import FileRoot


@contextmanager
def opened_table(source: AbstractContextManager[BinaryIO], name: str) -> Iterator[Any]:
    """Opens a table as `pyarrow.parquet.ParquetFile`.

    Args:
        source: Its file, as `FileRoot.opened` gives it.
        name: What messages call it.

    Raises:
        ConfigError: If it is missing or no parquet.
        EngineUnavailableError: If pyarrow is not installed.
    """
    try:
        pyarrow, parquet = (importlib.import_module(module) for module in ("pyarrow", "pyarrow.parquet"))
    except ImportError as error:
        raise EngineUnavailableError(
            f"Reading {name} needs pyarrow, which cannot be imported ({error}). Install it: "
            "pip install 'vlm-envs[parquet]'; or write the table as JSON lines."
        ) from error
    try:
        with source as file:
            yield parquet.ParquetFile(file)
    except (pyarrow.ArrowException, ToolError) as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error


def table_rows(root: FileRoot, name: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yields group, place in the group and fields of each row, a group of rows at a time; raises as `opened_table`."""
    with opened_table(root.opened(name), name) as table:
        for group in range(table.num_row_groups):
            for place, fields in enumerate(table.read_row_group(group).to_pylist()):
                yield group, place, fields


def cell(root: FileRoot, name: str, *, group: int, place: int, column: str) -> Any:
    """Returns one value of a table; raises as `opened_table`."""
    with opened_table(root.opened(name), name) as table:
        return table.read_row_group(group, columns=[column])[column][place].as_py()
