"""The table as plain data and in words, in whole millimetres: what a judge compares an agent's words with."""

from __future__ import annotations

from vlm_envs.responses.formats import WITHOUT_SYMBOLS, structured_text
from vlm_envs.validation import require_choice
from vlm_envs.worlds.primitive_skill.geometry import Millimetres, point_mm
from vlm_envs.worlds.primitive_skill.state import PrimitiveSkillState

NOTHING_HELD = "none"

StateDict = dict[str, Millimetres | int | str]
"""Positions by name, such as `red_cube_position: (83, -102, 20)`; `held_cube` is `red_cube` or `none`; with a drawer
also `drawer_handle_position`, `drawer_inside_position` and `drawer_open_mm`. Source: VAGEN, Appendix D.1.1."""


def positions(state: PrimitiveSkillState) -> dict[str, Millimetres]:
    """Returns where everything is in mm, by names such as `red cube`, in the order told: cubes, then the rest."""
    places = {cube.name: point_mm(cube.position) for cube in state.cubes}
    places |= {target.name: point_mm(target.point) for target in state.targets}
    if state.drawer is not None:
        places["drawer handle"] = point_mm(state.drawer.handle)
        places["drawer inside"] = point_mm(state.drawer.inside)
    return places


def structured(state: PrimitiveSkillState) -> StateDict:
    """Returns the table as plain data."""
    fields: StateDict = {f"{_key(name)}_position": place for name, place in positions(state).items()}
    fields["held_cube"] = NOTHING_HELD if state.held is None else _key(state.cubes[state.held].name)
    if state.drawer is not None:
        fields["drawer_open_mm"] = round(1000 * state.drawer.open_m)
    return fields


def sentences(state: PrimitiveSkillState) -> str:
    """Returns the table in sentences, such as `the red cube is at (83, -102, 20).` and so on."""
    parts = [f"the {name} is at {place}." for name, place in positions(state).items()]
    if state.drawer is not None:
        parts.append(f"the drawer is open by {round(1000 * state.drawer.open_m)} mm.")
    holds = "is empty" if state.held is None else f"holds the {state.cubes[state.held].name}"
    return " ".join((*parts, f"the gripper {holds}."))


def describe(state: PrimitiveSkillState, representation: str) -> str:
    """Returns the table in words, as sentences or a dictionary (VAGEN, Table 23 and Appendix C.4); else raises."""
    require_choice("representation", representation, WITHOUT_SYMBOLS)
    return sentences(state) if representation == "natural_language" else structured_text(structured(state))


def hint(state: PrimitiveSkillState) -> str:
    """Returns the unnamed positions, as VAGEN's prompts tell them."""
    told = ", ".join("({},{},{})".format(*place) for place in positions(state).values())
    opened = "" if state.drawer is None else f"\nDrawer open by: {round(1000 * state.drawer.open_m)} mm"
    return f"Object positions: [{told}]{opened}"


def _key(name: str) -> str:
    return name.replace(" ", "_")
