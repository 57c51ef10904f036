"""Sources of samples as arguments of worlds name them."""

from __future__ import annotations

from typing import cast

from vlm_envs.arguments.factories import made_by
from vlm_envs.errors import ConfigError, require_flag
from vlm_envs.qa.sample import SampleSource


def resolve_source(source: str | SampleSource) -> SampleSource:
    """Returns the source that an argument names.

    Raises:
        ConfigError: If it is neither a source nor `"module:factory"` of one.
    """
    made = made_by("source", source) if isinstance(source, str) else source
    if not (hasattr(made, "draw") and hasattr(made, "find")):
        raise ConfigError(
            f"source must be 'module:factory' or an object with draw(rng, split) and find(id); got {made!r}."
        )
    return cast("SampleSource", made)


def check_dataset(
    dataset: str | None, folder: str | None, *, source: str | SampleSource | None, is_benchmark: bool | None
) -> None:
    """Refuses arguments of a world that do not go together.

    Raises:
        ConfigError: If a data set comes without its folder or the other way round, or beside a source; if
            `is_benchmark` is no switch, or comes without a data set.
    """
    if (dataset is None) != (folder is None) or (dataset is not None and source is not None):
        raise ConfigError(
            f"dataset and folder go together, and without source; got dataset={dataset!r}, folder={folder!r}, "
            f"source={source!r}."
        )
    if is_benchmark is None:
        return
    require_flag("is_benchmark", is_benchmark)
    if dataset is None:
        raise ConfigError(f"is_benchmark is of a dataset; got is_benchmark={is_benchmark} without dataset and folder.")
