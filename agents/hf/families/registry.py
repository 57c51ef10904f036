"""Which family a model is of; `agents.hf.checkpoint` has the names of their types, without torch."""

from __future__ import annotations

from typing import Any

from agents.hf.families.family import Family
from agents.hf.families.gemma3 import Gemma3
from agents.hf.families.internvl import InternVL
from agents.hf.families.qwen_vl import QwenVL
from agents.hf.families.smolvlm import SmolVLM

_FAMILIES: tuple[Family, ...] = (QwenVL(), InternVL(), SmolVLM(), Gemma3())
MODEL_TYPES = tuple(model_type for family in _FAMILIES for model_type in family.model_types)
"""Types of all models that can be spoken to."""


def family_of(model: Any) -> Family:
    """Returns the family of a policy or a critic, by the type of its backbone.

    Raises:
        ValueError: If it is of none that is known.
    """
    return family_of_type(model.model.config.model_type)


def family_of_type(model_type: str) -> Family:
    """Returns the family of a `model_type` of `config.json`.

    Raises:
        ValueError: If it is of none that is known.
    """
    for family in _FAMILIES:
        if model_type in family.model_types:
            return family
    raise ValueError(f"Expected a model of {', '.join(MODEL_TYPES)}; got {model_type!r}.")
