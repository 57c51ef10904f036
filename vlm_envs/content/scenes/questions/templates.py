"""Every way to ask a question about a scene."""

from __future__ import annotations

from collections.abc import Mapping

from vlm_envs.content.scenes.questions import attributes, comparisons, counts, existence, relations
from vlm_envs.content.scenes.questions.question import QuestionTemplate

TEMPLATES: Mapping[str, tuple[QuestionTemplate, ...]] = {
    "existence": existence.TEMPLATES,
    "attribute": attributes.TEMPLATES,
    "relation": relations.TEMPLATES,
    "count": counts.TEMPLATES,
    "comparison": comparisons.TEMPLATES,
}
"""Ways to ask, by the category of their questions."""

CATEGORIES = tuple(TEMPLATES)
