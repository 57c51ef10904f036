"""How right free thoughts are, where they tell what is seen and nothing else. Nobody is paid for it."""

from __future__ import annotations

from judges.state_text.tally import Tally
from vlm_envs.trajectory import Turn
from vlm_envs.world import SEEN


def score_thoughts(turn: Turn) -> float | None:
    """Returns how right a turn's thoughts were of what it was shown, from 0 to 1.

    It is the F1 score of facts between commas, word for word, against those that the world would write there:
    `"5 ahead, 2 left"` are two. Strategies with a section `observation` have judges, who read it whatever its words.

    Returns:
        The mean over sections, 0 where the format was wrong; None where the strategy has no such thoughts.
    """
    true = {name: text for name, text in turn.seen_sections.items() if name != SEEN}
    if not true:
        return None
    if not turn.info.get("format_correct"):
        return 0.0
    said = turn.info.get("sections") or {}
    return sum(_facts_right(said.get(name, ""), text) for name, text in true.items()) / len(true)


def _facts_right(said: str, true: str) -> float:
    claimed, facts = _facts(said), _facts(true)
    return Tally(num_correct=len(claimed & facts), num_claimed=len(claimed), num_true=len(facts)).f1


def _facts(text: str) -> set[str]:
    return {fact for part in text.split(",") if (fact := " ".join(part.lower().split()))}
