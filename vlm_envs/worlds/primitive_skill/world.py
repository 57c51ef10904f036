"""VLM/PrimitiveSkill-v0."""

from __future__ import annotations

from typing import Any

from vlm_envs.world import World
from vlm_envs.worlds.primitive_skill.actions import Primitive
from vlm_envs.worlds.primitive_skill.dynamics import PrimitiveSkillDynamics
from vlm_envs.worlds.primitive_skill.engine import EngineHandle
from vlm_envs.worlds.primitive_skill.state import PrimitiveSkillState
from vlm_envs.worlds.primitive_skill.task import PrimitiveSkillTask
from vlm_envs.worlds.primitive_skill.view import PrimitiveSkillView


class PrimitiveSkillWorld(World[PrimitiveSkillState, Primitive]):
    """PrimitiveSkill: command a robot arm with pick, place and push; `task`, `place` by default, is one of four.

    ## Description
    A Panda arm stands at the far side of a table with coloured cubes of 40 mm. There are four tasks:

    * `place`: put two named cubes on the left and right target, two discs on the table; a single cube on one of them;
    * `stack`: put one cube on another, and the third on a target;
    * `drawer`: put a cube into the drawer of a cabinet and leave it shut; the arm has to open it first;
    * `align`: give all cubes the same x coordinate, within 10 mm.

    Motion is simulated by PhysX through SAPIEN 3, with the Panda model, gains and control rate of ManiSkill 3, on the
    CPU; pictures are drawn by a software Vulkan driver. Both are deterministic, and every action starts from the
    numbers of the state alone. Colours, order of positions, layout and wording are drawn anew for every level.
    ManiSkill itself is not loaded, for it would bring torch into every worker process; given the same joint targets,
    its own `PickCube-v1` moves arm and cube as this table does, which the tests compare.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. The answer holds `pick(x,y,z)`, `place(x,y,z)` and
    `push(x1,y1,z1,x2,y2,z2)` in whole millimetres, separated by `|`; those beyond `max_actions_per_turn` are cut.
    A primitive that cannot be done (a point outside the workspace limits or out of reach; nothing to place; a full
    gripper) is carried out without effect, and the next observation says why. The limits are the paper's: x -100 to
    150, y -200 to 200, z 10 to 200 in mm, and in `drawer` x -500 to -100, y -600 to 200, z 10 to 650, where coordinates
    count from another point: the same picture, the same arm, x less by 250.

    ## Observation Space
    `Dict(text=FreeText, image=Box(uint8[resolution, resolution, 3]))`; without `image` in text mode. Each text lists
    the positions of the things without their names, unless `show_positions` is False.

    ## Rewards
    +10 for the action that solves the task. For every other one -0.1, and `(stage + 1) * 2` when it reaches a stage
    higher than any before; the stages, from 0, are: first cube held, first cube placed, second cube held (`place`,
    `stack`); drawer open, cube held, cube inside (`drawer`); one aligned, two aligned (`align`). A turn without any
    action costs 0.1; +0.5 a turn for a response in the format (VAGEN Table 19; its Section 2.3 has +1 for each
    subgoal). Reasoning rewards are added by the trainer, not here.

    ## Starting State
    A random table of the split with the arm drawn back and nothing done yet. The drawer is shut.

    ## Episode End
    Terminated when the task is solved. Truncated after `max_turns` turns.

    ## Arguments
    `task="place"`; `resolution=256`, side of the picture, 32 to 2048; `camera="front"`, or `"above"`, which looks
    straight down on 0.46 m of the table, where no arm is in the picture; `grid_mm=1`, at whose multiples things
    stand when an episode begins (1, 2, 5, 10, or 20 or 50, which `align` does not take); `num_cubes=None`, the
    task's own number, 3 or, in `place`, also 2 or 1, and 2 in `drawer`; `show_positions=True`; and those of every
    world: `prompt_format`, `representation` (natural_language or structured), `obs_mode`, `split`, `max_turns=3`,
    `max_actions_per_turn=2`, `max_steps=None`, `format_reward=0.5`, `prompt_example=True`, `system_prompt=False`,
    `format_reminder=False`, `reading="strict"`, `render_mode`. Defaults: VAGEN Table 13. `reset(options={"level":
    text})` takes the JSON that `dynamics.dump(state)` writes.

    ## Requirements
    The extra `manipulation` (SAPIEN, and ManiSkill for its robot model) and a Vulkan driver, such as
    Mesa's software driver of 2024 or later; on Debian 12 it is in bookworm-backports. Without them the first
    reset raises `EngineUnavailableError`, which says what is missing. The worlds of one process share one simulator.

    ## Version History
    * v0: first version.
    """

    def __init__(
        self,
        *,
        task: str = "place",
        resolution: int = 256,
        camera: str = "front",
        grid_mm: int = 1,
        num_cubes: int | None = None,
        show_positions: bool = True,
        max_turns: int = 3,
        max_actions_per_turn: int = 2,
        **world_kwargs: Any,
    ) -> None:
        engine = EngineHandle()
        super().__init__(
            PrimitiveSkillDynamics(task=task, engine=engine, grid_mm=grid_mm, num_cubes=num_cubes),
            PrimitiveSkillView(engine=engine, resolution=resolution, camera=camera),
            PrimitiveSkillTask(task=task, show_positions=show_positions),
            max_turns=max_turns,
            max_actions_per_turn=max_actions_per_turn,
            **world_kwargs,
        )
        self.set_picture_shape((resolution, resolution, 3))
