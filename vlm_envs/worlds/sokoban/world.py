"""VLM/Sokoban-v0."""

from __future__ import annotations

from typing import Any

from vlm_envs.validation import require, require_flag
from vlm_envs.worlds.grids.dynamics import budgeted_length
from vlm_envs.worlds.grids.world import GridWorld
from vlm_envs.worlds.sokoban.batch import SokobanBatch
from vlm_envs.worlds.sokoban.dynamics import SokobanDynamics
from vlm_envs.worlds.sokoban.state import SokobanState
from vlm_envs.worlds.sokoban.task import SokobanTask
from vlm_envs.worlds.sokoban.view import SokobanView


class SokobanWorld(GridWorld[SokobanState]):
    """Sokoban: push every box onto a target, seen as a picture, several moves a turn.

    ## Description
    A room of walls, boxes and targets. The player walks in four directions and pushes single boxes; pushing one into
    a corner can make the level unsolvable, and the episode goes on until the budget ends. Dynamics and symbols are
    those of gym-sokoban; levels are our own, verified by an exact solver.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. The answer holds moves from Up, Down, Left,
    Right, separated by commas; those beyond `max_actions_per_turn` are cut.

    ## Observation Space
    `Dict(text=FreeText, image=Box(uint8[rows * cell_px, columns * cell_px, 3]))`; without `image` in text mode.

    ## Rewards
    -0.1 a move (and for a turn without any), +1 per box pushed onto a target and -1 off it, +10 when solved, +0.5 a
    turn for a response in the format (VAGEN Table 16). Reasoning rewards are added by the trainer, not here.

    ## Starting State
    A random level of the split whose shortest solution takes `min_solution_length` to `max_solution_length` moves.
    Drawing a level takes about a millisecond with one or two boxes and some tens of milliseconds with three.

    ## Episode End
    Terminated when every box is on a target. Truncated after `max_turns` turns or `max_steps` moves.

    ## Arguments
    `dim_room=(6, 6)` rows and columns, outer wall included; `num_boxes=1`; `min_solution_length=5`;
    `max_solution_length=None`, by default what the budget allows, `max_turns * max_actions_per_turn`; `max_steps=100`;
    `cell_px=28`; `tell_walls=False` whether structured states list the walls inside the outer one, which the paper's do
    not and no judge scores; and those of every world: `prompt_format`, `representation`, `obs_mode`, `split`,
    `max_turns=3`, `max_actions_per_turn=3`, `format_reward=0.5`, `prompt_example=True`, `system_prompt=False`,
    `format_reminder=False`, `reading="strict"`, `render_mode`. Defaults: VAGEN Table 7. `reset(options={"level":
    text})` takes rows of the symbols `#_OXP*S`.

    ## Version History
    * v0: first version.
    """

    batch_type = SokobanBatch

    def __init__(
        self,
        *,
        dim_room: tuple[int, int] = (6, 6),
        num_boxes: int = 1,
        min_solution_length: int = 5,
        max_solution_length: int | None = None,
        max_steps: int = 100,
        max_turns: int = 3,
        max_actions_per_turn: int = 3,
        cell_px: int = 28,
        tell_walls: bool = False,
        **world_kwargs: Any,
    ) -> None:
        require_flag("tell_walls", tell_walls)
        longest = max_solution_length
        if longest is None:
            longest = budgeted_length(min_solution_length, max_turns, max_actions_per_turn)
        dynamics = SokobanDynamics(
            dim_room=dim_room,
            num_boxes=num_boxes,
            min_solution_length=min_solution_length,
            max_solution_length=longest,
        )
        super().__init__(
            dynamics,
            SokobanView(cell_px, tell_walls=tell_walls),
            SokobanTask(tell_walls=tell_walls),
            max_steps=max_steps,
            max_turns=max_turns,
            max_actions_per_turn=max_actions_per_turn,
            **world_kwargs,
        )
        require(
            not tell_walls or self.representation != "natural_language",
            "tell_walls lists walls in structured states, and symbolic ones draw them; sentences are of boxes and "
            "targets alone. Use representation='structured'.",
        )
