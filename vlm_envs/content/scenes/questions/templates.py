"""Every way to ask a question about a scene."""

from __future__ import annotations

from collections.abc import Mapping

from vlm_envs.content.scenes.questions.attributes import ATTRIBUTES
from vlm_envs.content.scenes.questions.comparisons import COMPARISONS
from vlm_envs.content.scenes.questions.counts import COUNTS
from vlm_envs.content.scenes.questions.existence import EXISTENCE
from vlm_envs.content.scenes.questions.question import QuestionTemplate
from vlm_envs.content.scenes.questions.relations import RELATIONS

TEMPLATES: Mapping[str, tuple[QuestionTemplate, ...]] = {
    "existence": EXISTENCE,
    "attribute": ATTRIBUTES,
    "relation": RELATIONS,
    "count": COUNTS,
    "comparison": COMPARISONS,
}
"""Ways to ask, by the category of their questions."""

CATEGORIES = tuple(TEMPLATES)
