"""VLM/FrozenLake-v0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vlm_envs.worlds.frozen_lake.batch import FrozenLakeBatch
from vlm_envs.worlds.frozen_lake.dynamics import FrozenLakeDynamics
from vlm_envs.worlds.frozen_lake.state import FrozenLakeState
from vlm_envs.worlds.frozen_lake.task import FrozenLakeTask
from vlm_envs.worlds.frozen_lake.view import FrozenLakeView
from vlm_envs.worlds.grids.dynamics import budgeted_length
from vlm_envs.worlds.grids.world import GridWorld


class FrozenLakeWorld(GridWorld[FrozenLakeState]):
    """FrozenLake: walk over the ice to the goal, seen as a picture, several moves a turn.

    ## Description
    A square lake with holes. The player walks in four directions; the border stops it. Unlike Gymnasium's world of
    this name the map, the start and the goal are drawn anew at every reset.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. The answer holds moves from Up, Down, Left,
    Right, separated by commas; those beyond `max_actions_per_turn` are cut.

    ## Observation Space
    `Dict(text=FreeText, image=Box(uint8[size * cell_px, size * cell_px, 3]))`; without `image` in text mode.

    ## Rewards
    +10 on the goal, -0.1 for every other move (and for a turn without any), +0.5 a turn for a response in the format
    (VAGEN Table 17). Reasoning rewards are added by the trainer, not here.

    ## Starting State
    A random lake of the split: each cell is frozen with probability `frozen_probability`, start and goal are random,
    and the shortest safe path takes `min_solution_length` to `max_solution_length` moves.

    ## Episode End
    Terminated on the goal or in a hole. Truncated after `max_turns` turns.

    ## Arguments
    `size=4`; `is_slippery=False`, True moves to the intended side or to either neighbour of it with probability 1/3
    each, as in Gymnasium; `desc=None`, rows of `_OGP` (or Gymnasium's `SFHG`) fix the map for every seed and split;
    `frozen_probability=0.8`; `min_solution_length=5`; `max_solution_length=None`, by default what the budget allows,
    `max_turns * max_actions_per_turn`; `cell_px=28`; and those of every world: `prompt_format`, `representation`,
    `obs_mode`, `split`, `max_turns=3`, `max_actions_per_turn=3`, `max_steps=None`, `format_reward=0.5`,
    `prompt_example=True`, `system_prompt=False`, `format_reminder=False`, `reading="strict"`, `render_mode`. Defaults:
    VAGEN Table 9. `reset(options={"level": text})` takes rows of the symbols `_OGP`.

    ## Version History
    * v0: first version.
    """

    batch_type = FrozenLakeBatch

    def __init__(
        self,
        *,
        size: int = 4,
        is_slippery: bool = False,
        desc: str | Sequence[str] | None = None,
        frozen_probability: float = 0.8,
        min_solution_length: int = 5,
        max_solution_length: int | None = None,
        max_turns: int = 3,
        max_actions_per_turn: int = 3,
        cell_px: int = 28,
        **world_kwargs: Any,
    ) -> None:
        longest = max_solution_length
        if longest is None:
            longest = budgeted_length(min_solution_length, max_turns, max_actions_per_turn)
        dynamics = FrozenLakeDynamics(
            size=size,
            is_slippery=is_slippery,
            desc=desc,
            frozen_probability=frozen_probability,
            min_solution_length=min_solution_length,
            max_solution_length=longest,
        )
        super().__init__(
            dynamics,
            FrozenLakeView(cell_px=cell_px),
            FrozenLakeTask(is_slippery=is_slippery),
            max_turns=max_turns,
            max_actions_per_turn=max_actions_per_turn,
            **world_kwargs,
        )
