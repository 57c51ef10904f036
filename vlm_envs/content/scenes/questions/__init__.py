"""Questions about scenes: what may be asked, by category."""

from __future__ import annotations

from vlm_envs.content.scenes.questions import attributes, comparisons, counts, existence, relations
from vlm_envs.content.scenes.questions.question import Draft, Question, Template

CATEGORIES = ("existence", "attribute", "relation", "count", "comparison")
"""Categories of questions."""

TEMPLATES: tuple[Template, ...] = (
    *existence.TEMPLATES,
    *attributes.TEMPLATES,
    *relations.TEMPLATES,
    *counts.TEMPLATES,
    *comparisons.TEMPLATES,
)
"""Every way to ask."""

__all__ = ["CATEGORIES", "TEMPLATES", "Draft", "Question", "Template"]
