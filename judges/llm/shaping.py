"""Language models in the place of the exact judge, for `judges.turn_rewards.shaping.shape` and so for a trainer.

with ChatClient(config) as client:
    shaped = shape(turns, terms, judge_for=llm_judges(client, "extraction"))
"""

from __future__ import annotations

import functools
from typing import Literal, get_args

from agents.api.client import ChatClient
from judges.llm.judge import DirectJudge, ExtractionJudge, Skill
from judges.turn_rewards.shaping import JudgeFor, Section
from vlm_envs.validation import require_choice

Method = Literal["direct", "extraction"]

SKILL_OF: dict[Section, Skill] = {"observation": "grounding", "prediction": "worldmodeling"}
"""What each section of a response shows."""


def llm_judges(client: ChatClient, method: Method) -> dict[Section, JudgeFor]:
    """Returns what `shape` takes as `judge_for`: observations and predictions have prompts of their own.

    Args:
        client: The judge model.
        method: `direct` for a verdict, `extraction` for claims that the exact judge counts.
    """
    judge_type = DirectJudge if require_choice("method", method, get_args(Method)) == "direct" else ExtractionJudge

    def judge_for(skill: Skill) -> JudgeFor:
        return functools.cache(lambda env_id, representation: judge_type(client, env_id, skill, representation))

    return {section: judge_for(skill) for section, skill in SKILL_OF.items()}
