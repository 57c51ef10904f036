"""Whether a stage of reinforcement learning may train on what an earlier stage has curated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from training.config.curation.curate import CurateConfig
from training.config.run import RunConfig
from training.config.stages import DATA_OF, Stage, StagesConfig
from training.config.worlds.pool_levels import chosen_levels
from training.config.worlds.spec import WorldSpec
from vlm_envs.validation import require


def data_told(config: StagesConfig, number: int) -> list[str]:
    """Returns a line for each earlier curation of data that a stage reads, too, without a pool that keeps them apart.

    Generated levels are of other seeds than those that are curated, and are told of no more.

    Args:
        config: The stages.
        number: Place of one of them.

    Raises:
        ConfigError: If a pool leaves out what a stage curates of a world without samples, which nobody lists.
    """
    stage = config.stages[number]
    before = [each for each in config.stages[:number] if isinstance(each.run, CurateConfig)]
    _require_listed(stage, before)
    lines = (_told(stage, each) for each in before)
    return [line for line in lines if line]


def _require_listed(stage: Stage, before: Sequence[Stage]) -> None:
    for spec in _worlds(stage):
        for curation in before if spec.pool is not None else ():
            assert spec.pool is not None
            if f"{DATA_OF}{curation.name}" in spec.pool.exclude:
                for curated in _worlds(curation):
                    require(
                        _asks_samples(curated),
                        f"{curated.env_id} of stage {curation.name!r} asks no samples with ids, so that a pool cannot "
                        f"leave out {DATA_OF}{curation.name}. Exclude a file of levels.",
                    )


def _told(stage: Stage, curation: Stage) -> str:
    """Returns what is to be known of a stage that reads the data of a curation; nothing if nothing is."""
    shared = [number for number, spec in enumerate(_worlds(stage)) if _may_meet(spec, curation)]
    if not shared:
        return ""
    first = _worlds(stage)[shared[0]]
    numbers, verb = " and ".join(map(str, shared)), "world" if len(shared) == 1 else "worlds"
    option = f"{stage.option}.worlds.{shared[0]}.pool"
    is_drawn = first.pool is not None and first.pool.draw > 0
    drawing = "" if is_drawn else f"{option}.file {curation.name}.jsonl {option}.draw N "
    return (
        f"{verb} {numbers} may train on samples that stage {curation.name!r} has curated: both read "
        f"{first.kwargs['dataset']} at {first.kwargs['folder']}, and no pool keeps them apart. To leave out what is "
        f"imitated: {drawing}{option}.exclude {DATA_OF}{curation.name}"
        + ", and likewise for the others"
        * (len(shared) > 1)
    )


def _worlds(stage: Stage) -> tuple[WorldSpec, ...]:
    if isinstance(stage.run, CurateConfig):
        return stage.run.specs
    return stage.run.worlds if isinstance(stage.run, RunConfig) else ()


def _may_meet(spec: WorldSpec, curation: Stage) -> bool:
    """Returns whether a world may train on what is curated."""
    curated = [each for each in _worlds(curation) if _data_of(each) is not None and _data_of(each) == _data_of(spec)]
    if not curated:
        return False
    if spec.pool is not None and spec.pool.draw:
        return f"{DATA_OF}{curation.name}" not in spec.pool.exclude
    pools = [each.pool for each in curated]
    if spec.pool is None or None in pools:
        return True
    trained = {level.level_id for level in chosen_levels(spec.pool)}
    asked = {level.level_id for pool in pools if pool is not None for level in chosen_levels(pool)}
    return bool(trained & asked)


def _data_of(spec: WorldSpec) -> tuple[str, Path] | None:
    """Returns the name and the folder of a world's data set, if it has one."""
    dataset, folder = spec.kwargs.get("dataset"), spec.kwargs.get("folder")
    if dataset is None or folder is None:
        return None
    return str(dataset), Path(os.path.expanduser(str(folder))).resolve()


def _asks_samples(spec: WorldSpec) -> bool:
    with spec.made() as world:
        return hasattr(getattr(world, "dynamics", None), "source")
