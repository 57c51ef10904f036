"""Ways of asking that a paper compares on the same questions: `python -m benchmarks evaluate hf:DIR --modes ivgr ...`.

`ivgr` has its two streams (Tables 5 and 14) and the four sets of views of its test-time workflow (Table 4), of which
`views none` is the control that thinks twice without seeing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from benchmarks.models.board.spec import WorldSpec
from benchmarks.models.measures.measures import Row, rows
from benchmarks.models.text_table import text_table
from vlm_envs.records.json_lines import Record
from vlm_envs.validation import require

MODES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "ivgr": MappingProxyType(
            {
                "grounded": "prompt_format=ivgr_grounded",
                "textual": "prompt_format=ivgr_textual",
                "views none": "prompt_format=ivgr_views,views='none'",
                "views crops": "prompt_format=ivgr_views,views=crops",
                "views union": "prompt_format=ivgr_views,views=union",
                "views both": "prompt_format=ivgr_views,views=both",
            }
        )
    }
)
"""Arguments of a world in each way of asking, by name."""


def in_modes(worlds: Sequence[str], name: str) -> tuple[str, ...]:
    """Returns each world in each way of asking.

    Args:
        worlds: As ID or ID:ARGUMENT=VALUE,....
        name: A key of `MODES`.

    Raises:
        ConfigError: If a world says itself how it is asked.
    """
    for world in worlds:
        given = WorldSpec.parse(world).kwargs
        named = next((each for each in ("prompt_format", "views") if each in given), None)
        require(
            named is None,
            f"--world {world} has a {named} of its own, and --modes {name} asks it in {', '.join(MODES[name])}. Leave "
            f"{named} out, or leave --modes out.",
        )
    return tuple(f"{world}{',' if ':' in world else ':'}{mode}" for world in worlds for mode in MODES[name].values())


def modes_text(episodes: Sequence[Record], worlds: Sequence[str], name: str, split: str) -> str:
    """Returns a table of success and box IoU by agent and way of asking, for each world.

    Args:
        episodes: Of a board.
        worlds: As `in_modes` takes them.
        name: A key of `MODES`.
        split: Whose levels were played.
    """
    found = {(row.world, row.agent): row for row in rows(episodes)}
    agents = dict.fromkeys(agent for _, agent in found)
    parts = []
    for world in worlds:
        labels = [WorldSpec.parse(each, split).label for each in in_modes([world], name)]
        told = [
            _told(mode, found[label, agent])
            for agent in agents
            for mode, label in zip(MODES[name], labels, strict=True)
            if (label, agent) in found
        ]
        parts.append(f"{world}\n{text_table(told)}")
    return "\n\n".join(parts)


def _told(mode: str, row: Row) -> dict[str, str]:
    low, high = row.interval
    success = f"{row.success:.3f} ({low:.3f} to {high:.3f})" if row.num_episodes else "–"
    box_iou = f"{row.judged['box_iou']:.3f}" if "box_iou" in row.judged else ""
    return {
        "agent": row.agent,
        "mode": mode,
        "success": success,
        "episodes": str(row.num_episodes),
        "box_iou": box_iou,
        "out of format": "" if row.invalid_rate is None else f"{row.invalid_rate:.3f}",
    }
