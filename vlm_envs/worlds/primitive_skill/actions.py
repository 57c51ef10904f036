"""The arm's three primitives: how they are written, read and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.worlds.primitive_skill.geometry import Millimetres, is_in_workspace


class Skill(StrEnum):
    """The kinds of primitives. Source: VAGEN, Table 12."""

    PICK = "pick"
    PLACE = "place"
    PUSH = "push"


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive.

    Attributes:
        skill: Its kind.
        point: Where to pick or place, or the centre of what is pushed; x, y, z in mm.
        end: Where that centre goes, in mm; for pushes only.
    """

    skill: Skill
    point: Millimetres
    end: Millimetres | None = None

    def is_within(self, task: str) -> bool:
        """Returns whether all its points lie within the workspace limits of a task."""
        return is_in_workspace(self.point, task) and (self.end is None or is_in_workspace(self.end, task))

    def __str__(self) -> str:
        """Returns the primitive as an agent writes it, such as `pick(62,-55,20)`."""
        numbers = (*self.point, *(self.end or ()))
        return f"{self.skill.value}({','.join(map(str, numbers))})"


_NUMBER = r"\s*(-?[0-9]{1,6})(?:\.0{1,6})?\s*"  # 20.0 is a whole number, too
_POINT_SKILL = re.compile(rf"(pick|place)\s*\({_NUMBER},{_NUMBER},{_NUMBER}\)", re.IGNORECASE)
_PUSH = re.compile(rf"(push)\s*\({','.join([_NUMBER] * 6)}\)", re.IGNORECASE)


def parse_primitive(text: str) -> Primitive | None:
    """Returns the primitive a text stands for, or None; points outside the workspace can be written."""
    match = _POINT_SKILL.fullmatch(text) or _PUSH.fullmatch(text)
    if match is None:
        return None
    x, y, z, *rest = (int(number) for number in match.groups()[1:])
    end = (rest[0], rest[1], rest[2]) if rest else None
    return Primitive(Skill(match.group(1).lower()), (x, y, z), end)


GRAMMAR: ActionGrammar[Primitive] = ActionGrammar(
    parse=parse_primitive,
    separator="|",
    expected="pick(x,y,z), place(x,y,z) or push(x1,y1,z1,x2,y2,z2) with whole numbers",
)
