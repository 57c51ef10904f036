"""Which family a model is of."""

from __future__ import annotations

from typing import Any

from agents.hf.families.family import Family
from agents.hf.families.qwen_vl import QwenVL

_FAMILIES: tuple[Family, ...] = (QwenVL(),)


def family_of(model: Any) -> Family:
    """Returns the family of a policy or a critic, by the type of its backbone.

    Raises:
        ValueError: If it is of none that is known.
    """
    model_type = model.model.config.model_type
    for family in _FAMILIES:
        if model_type in family.model_types:
            return family
    known = ", ".join(each for family in _FAMILIES for each in family.model_types)
    raise ValueError(f"Expected a model of {known}; got {model_type!r}.")
