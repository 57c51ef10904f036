"""Where a world's questions come from, as its arguments name it."""

from __future__ import annotations

from collections.abc import Callable

from vlm_envs.arguments.factories import resolved
from vlm_envs.errors import ConfigError, require_flag
from vlm_envs.qa.sample import SampleSource

OpenDataset = Callable[..., SampleSource]
"""Opens a user's copy of a data set: its name, the folder, `is_benchmark` and `train_on_all`, as `QAWorld` has them."""


def chosen_source(
    generated: SampleSource | None,
    open_dataset: OpenDataset | None,
    *,
    source: str | SampleSource | None,
    dataset: str | None,
    folder: str | None,
    is_benchmark: bool | None,
    train_on_all: bool = False,
) -> SampleSource:
    """Returns the source that a world's arguments name; they are those of `vlm_envs.qa.world.QAWorld`.

    Raises:
        ConfigError: If a data set comes without its folder or the other way round, or beside a source; if
            `is_benchmark` or `train_on_all` is no switch, or comes without a data set; if the source is none.
    """
    if (dataset is None) != (folder is None) or (dataset is not None and (source is not None or open_dataset is None)):
        raise ConfigError(
            f"dataset and folder go together, and without source; got dataset={dataset!r}, folder={folder!r}, "
            f"source={source!r}."
        )
    if is_benchmark is not None:
        require_flag("is_benchmark", is_benchmark)
    require_flag("train_on_all", train_on_all)
    if dataset is not None and open_dataset is not None:
        return open_dataset(dataset, folder, is_benchmark=is_benchmark, train_on_all=train_on_all)
    if is_benchmark is not None:
        raise ConfigError(f"is_benchmark is of a dataset; got is_benchmark={is_benchmark} without dataset and folder.")
    if train_on_all:
        raise ConfigError("train_on_all is of a dataset; got train_on_all=True without dataset and folder.")
    chosen: SampleSource = resolved("source", generated if source is None else source, "draw", "find")
    return chosen
