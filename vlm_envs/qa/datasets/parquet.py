"""Tables in parquet files of a user's folder, as the Hugging Face hub publishes most data sets; needs pyarrow."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO

from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.requirements import install_command
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
            f"{install_command('parquet')}; or write the table as JSON lines."
        ) from error
    try:
        with source as file:
            yield parquet.ParquetFile(file)
    except (pyarrow.ArrowException, ToolError) as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error


_BATCH_ROWS = 16
"""Rows decoded at a time: the images of a whole row group can exceed the memory."""


def table_rows(root: FileRoot, name: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yields row group, index in the group, and fields of each row; raises as `opened_table`."""
    with opened_table(root.opened(name), name) as table:
        for group in range(table.num_row_groups):
            batches = table.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group])
            for place, fields in enumerate(row for batch in batches for row in batch.to_pylist()):
                yield group, place, fields


def cell(root: FileRoot, name: str, *, group: int, place: int, column: str) -> Any:
    """Returns one value of a table; raises as `opened_table`."""
    with opened_table(root.opened(name), name) as table:
        index = place
        for batch in table.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group], columns=[column]):
            if index < batch.num_rows:
                return batch.column(0)[index].as_py()
            index -= batch.num_rows
    raise ConfigError(f"{name} has no row {place} in its row group {group}. It has changed; open the dataset again.")
