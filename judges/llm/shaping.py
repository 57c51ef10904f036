"""Language models in the place of the exact judge, for `judges.turn_rewards.shaping.shape` and so for a trainer.

with ChatClient(config) as client:
    judges = LLMJudges(client, "extraction")
    shaped = shape(turns, terms, judge_for=judges.by_section)
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Literal

from agents.api.client import ChatClient
from judges.llm.judge import DirectJudge, ExtractionJudge, Skill
from judges.scores import Judge
from judges.turn_rewards.shaping import JudgeFor, Section
from vlm_envs.errors import require_choice
from vlm_envs.responses.formats import Representation

Method = Literal["direct", "extraction"]

METHODS: tuple[Method, ...] = ("direct", "extraction")

SKILL_OF: dict[Section, Skill] = {"observation": "grounding", "prediction": "world_modeling"}
"""What each section of a response shows."""


class LLMJudges:
    """The language-model judges of every world that a batch of turns may hold, made as they are needed.

    Args:
        client: The judge model.
        method: `direct` for a verdict, `extraction` for claims that the exact judge counts.
    """

    def __init__(self, client: ChatClient, method: Method) -> None:
        require_choice("method", method, METHODS)
        self._client = client
        self._judge_type = DirectJudge if method == "direct" else ExtractionJudge
        self._judges: dict[tuple[str, Representation, Section], Judge] = {}
        self._lock = threading.Lock()

    @property
    def by_section(self) -> Mapping[Section, JudgeFor]:
        """What `shape` takes as `judge_for`: observations and predictions have prompts of their own."""
        return {section: self._for_section(section) for section in SKILL_OF}

    def _for_section(self, section: Section) -> JudgeFor:
        def judge_for(env_id: str, representation: Representation) -> Judge:
            key = env_id, representation, section
            with self._lock:
                if key not in self._judges:
                    self._judges[key] = self._judge_type(self._client, env_id, SKILL_OF[section], representation)
                return self._judges[key]

        return judge_for
