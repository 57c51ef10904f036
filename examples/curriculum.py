"""A curriculum: three bands of one level pool; the band that is solved about half of the time is played most.

Draw the pool: python -m training pool frozenlake_tiny --num-samples 96 --out rl.jsonl
Train on it:   python -m training --recipe examples/curriculum.py --num-iterations 4
"""

from __future__ import annotations

from dataclasses import replace

from training.config.run_config import RunConfig
from training.mixture.mixture_config import MixConfig
from training.pools.pool_config import PoolConfig
from training.recipes.tiny import frozenlake_tiny

BANDS = {"5 moves": (5, 5), "6 moves": (6, 6), "7 to 9 moves": (7, 9)}
"""Maps a name to the minimum and maximum number of actions of the shortest solution."""


def curriculum() -> RunConfig:
    """FrozenLake in three bands of difficulty."""
    config = frozenlake_tiny()
    (lake,) = config.worlds
    worlds = tuple(
        replace(
            lake,
            name=name,
            pool=PoolConfig(file="rl.jsonl", min_solution_length=fewest, max_solution_length=most),
        )
        for name, (fewest, most) in BANDS.items()
    )
    return replace(config, name="curriculum", worlds=worlds, mix=MixConfig(schedule="success"))
