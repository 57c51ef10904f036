"""The exact judge: reads a model's state text by rule and scores it against the true state.

Source: VAGEN, section 5.1 (visual reasoning reward) and appendix D.1.2 (structured evaluation by F1).
Deviations, each named:

- Extraction is by rule where the paper asks a language model, so that the score is reproducible and free.
- A world's score is a fixed weighted sum over its categories. A category with nothing in the state (a lake
  without holes) keeps its weight and scores 1 when nothing is claimed for it: renormalising would make the
  same claim about the goal worth more in some levels than in others.
- A text in which no fact can be read scores 0, also where silence on a category would be right.

What a world's facts and categories are, its rules say: see `judges.state_text.rules`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from judges.scores import JudgeScore
from judges.state_text.grid.language import MAX_TEXT_CHARS
from judges.state_text.rules import StateTextRules, rules_of
from vlm_envs.responses.formats import Representation
from vlm_envs.validation import require_choice


class ExactJudge:
    """Scores state text of one world in one representation by rule; see the module for what it counts.

    Args:
        world: A world's name or an env id, such as `Sokoban` or `VLM/Sokoban-v0`.
        representation: One that the world's rules can read, such as `natural_language`.
        rules: In place of the world's own, for another tolerance or a world that has none yet.

    Raises:
        ConfigError: The world has no exact judge, or not in this representation.
    """

    def __init__(self, world: str, representation: Representation, *, rules: StateTextRules | None = None) -> None:
        self.rules = rules_of(world) if rules is None else rules
        require_choice("representation", representation, self.rules.representations)
        self.representation = representation

    def score(self, text: str, state: Mapping[str, Any]) -> JudgeScore:
        """Returns the weighted F1 of a text against a state, and its parts.

        Args:
            text: Any string; its first `MAX_TEXT_CHARS` characters are read.
            state: The world's typed state dict, as in `info["state"]`.

        Raises:
            ConfigError: The state is another world's. No text raises.
        """
        parts = self.rules.parts(text[:MAX_TEXT_CHARS], self.representation, state)
        num_facts_read = sum(part.tally.num_claimed for part in parts)
        if num_facts_read == 0:
            silent = dict.fromkeys((part.name for part in parts), 0.0)
            return JudgeScore(value=0.0, per_category=silent, reason="no fact could be read")
        return JudgeScore(
            value=min(1.0, math.fsum(part.weight * part.value for part in parts)),
            per_category={part.name: part.value for part in parts},
            num_facts_read=num_facts_read,
            num_facts_right=sum(part.tally.num_correct for part in parts),
            reason="; ".join(f"{part.name}: {part.tally}" for part in parts),
        )
