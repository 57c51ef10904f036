"""VLM/SVG-v0."""

from __future__ import annotations

from typing import Any

from vlm_envs.errors import ConfigError
from vlm_envs.world import World
from vlm_envs.worlds.svg.dynamics import SvgDynamics
from vlm_envs.worlds.svg.renderer import Renderer
from vlm_envs.worlds.svg.scorers import Scorer, resolve_scorer
from vlm_envs.worlds.svg.state import SvgState
from vlm_envs.worlds.svg.task import SECOND_WEIGHT, SIMILARITY_WEIGHT, SvgTask
from vlm_envs.worlds.svg.view import SvgView


class SvgWorld(World[SvgState, str]):
    """SVG: write markup that reproduces a picture, see it rendered beside the target, and improve it.

    ## Description
    The picture shows a target icon on the left and, once there is one, a rendering of the last answer on the right.
    Markup is drawn by cairosvg in a process of its own, under limits: 64 KiB, 1,000 elements as written and 5,000 with
    every reference followed, 32 levels, `render_timeout_s` seconds, 1 GiB of memory; entities, scripts, images and
    links to anything outside the markup are refused. What cannot be drawn scores 0, the next observation says why,
    and the episode goes on. Needs the extra `svg`.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. The answer is one SVG drawing (a code fence around
    it is taken off); an answer without `<svg` is not in the format. Colors are keywords, hexadecimal, `rgb()`, `hsl()`,
    or `hwb()`, with commas or spaces; opacities are numbers or percents.

    ## Observation Space
    `Dict(text=FreeText, image=Box(uint8[resolution, 2 * resolution, 3]))`; without `image` in text mode. The text says
    what the last drawing scored, or why it could not be drawn.

    ## Rewards
    Every turn 5.0 times the similarity of the drawing, from 0 to 1, and 1e-4 times that of the second scorer if there
    is one; +0.5 a turn for a response in the format (VAGEN Table 20). Reasoning rewards are added by the trainer, not
    here. The paper's similarities are DreamSim and DINO, which need weights; the default is `structural`, which needs
    none: coverage, colour, edges and structure at six resolutions, 1 for equal pictures and 0 for empty paper.

    ## Starting State
    A random icon of the split, in five bands of difficulty: 1 one shape; 2 two or three shapes; 3 things of plain
    shapes with strokes; 4 turned, mirrored and repeated groups; 5 curved paths, some on a badge. Or an icon of a
    user's own `data`.

    ## Episode End
    Never terminated; truncated after `max_turns` turns. `success` is a similarity of `success_threshold` or more in
    the last drawing (the threshold is this project's; the paper reports mean similarities instead).

    ## Arguments
    `difficulty="mixed"` or 1 to 5; `data=None`, a folder of .svg files, a .parquet, .csv or .jsonl table with the
    column `Svg`, or a folder of such tables (such as a local copy of starvector/svg-icons-simple, the paper's data;
    parquet needs the extra `parquet`), split by a hash of each markup; `resolution=224` pixels a side of
    each half; `scorer="structural"`, or `"module:factory"`, or an object with `name` and `similarity(target, drawing)`;
    the checkout has `"agents.perception.similarity:dreamsim"` and `"agents.perception.similarity:dino"`, which load
    local weights; `second_scorer=None`, the same; `similarity_weight=5.0`; `second_weight=1e-4`;
    `success_threshold=0.95`; `render_timeout_s=2.0`; and those of every world: `prompt_format`, `representation` (no
    `symbolic`), `obs_mode`, `split`, `max_turns=2`, `max_steps=None`, `format_reward=0.5`, `prompt_example=True`,
    `system_prompt=False`, `format_reminder=False`, `reading="strict"`, `render_mode`; `max_actions_per_turn` is 1.
    Defaults: VAGEN Tables 15 and 20. `reset(options={"level": text})` takes the target's markup.

    ## Version History
    * v0: first version.
    """

    def __init__(
        self,
        *,
        difficulty: int | str = "mixed",
        data: str | None = None,
        resolution: int = 224,
        scorer: str | Scorer = "structural",
        second_scorer: str | Scorer | None = None,
        similarity_weight: float = SIMILARITY_WEIGHT,
        second_weight: float = SECOND_WEIGHT,
        success_threshold: float = 0.95,
        render_timeout_s: float = 2.0,
        max_turns: int = 2,
        max_actions_per_turn: int = 1,
        **world_kwargs: Any,
    ) -> None:
        if max_actions_per_turn != 1:
            raise ConfigError(
                f"A turn is one drawing, so max_actions_per_turn must be 1; got {max_actions_per_turn!r}."
            )
        renderer = Renderer(size_px=resolution, timeout_s=render_timeout_s)
        second = None if second_scorer is None else resolve_scorer("second_scorer", second_scorer)
        dynamics = SvgDynamics(
            renderer=renderer,
            scorer=resolve_scorer("scorer", scorer),
            second_scorer=second,
            difficulty=difficulty,
            data=data,
            success_threshold=success_threshold,
        )
        task = SvgTask(
            difficulty=difficulty,
            has_second_scorer=second is not None,
            similarity_weight=similarity_weight,
            second_weight=second_weight,
        )
        super().__init__(
            dynamics,
            SvgView(renderer),
            task,
            max_turns=max_turns,
            max_actions_per_turn=max_actions_per_turn,
            **world_kwargs,
        )
        self.set_picture_shape((resolution, 2 * resolution, 3))
