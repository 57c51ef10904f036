"""What SVG asks for, how a drawing is written and what it earns."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from vlm_envs.parts import Task
from vlm_envs.responses.formats import WITHOUT_SYMBOLS
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.worlds.svg.icons.bands import draw_icon
from vlm_envs.worlds.svg.shapes import shapes_of
from vlm_envs.worlds.svg.state import SvgState

SIMILARITY_WEIGHT = 5.0
SECOND_WEIGHT = 1e-4
EXAMPLE = '<svg viewBox="0 0 64 64"><circle cx="20" cy="32" r="12" fill="red"/></svg>'

_FENCE = "```"


def parse_drawing(text: str) -> str | None:
    """Returns the markup of an answer, out of its code fence if it has one; None if there is no `<svg` in it.

    Whether the markup can be drawn is not asked here: broken markup is a drawing too, a bad one.
    """
    if text.startswith(_FENCE) and text.endswith(_FENCE) and "<" in text:
        text = text[text.index("<") : -len(_FENCE)].strip()
    return text if "<svg" in text else None


class SvgTask(Task[SvgState, str]):
    """Write SVG that looks like the target. Rewards: VAGEN Table 20.

    Args:
        difficulty: Band of the random icons that `sample_action` draws.
        has_second_scorer: Whether a second opinion is paid for.
        similarity_weight: Reward of a similarity of 1.
        second_weight: The same for the second scorer.
    """

    name = "SVG"
    goal = "Write SVG code that draws the target picture as exactly as you can."
    rules = (
        "The picture shows the target on the left and your last drawing on the right.",
        "Use shapes such as rect, circle, ellipse, line, polyline, polygon and path, with fill and stroke, on white "
        "paper; no images, scripts or links.",
        "Every turn is scored by how much your drawing looks like the target; use the next turn to improve it.",
    )
    grammar = ActionGrammar(parse=parse_drawing, separator="", expected=f"one whole SVG drawing, such as {EXAMPLE}")
    representations = WITHOUT_SYMBOLS
    representation_help = MappingProxyType(
        {
            "natural_language": "Describe states shape by shape, such as: The target shows a large red circle in the "
            "middle and a small blue rectangle at the top left. The drawing shows nothing yet.",
            "structured": "Write states as {target: [red circle [8, 20, 32, 44], blue rect [40, 4, 60, 20]], "
            "drawing: []} with boxes of left, top, right and bottom.",
        }
    )

    def __init__(
        self,
        *,
        difficulty: int | str = "mixed",
        has_second_scorer: bool = False,
        similarity_weight: float = SIMILARITY_WEIGHT,
        second_weight: float = SECOND_WEIGHT,
    ) -> None:
        self.difficulty = difficulty
        self.has_second_scorer = has_second_scorer
        self.similarity_weight, self.second_weight = float(similarity_weight), float(second_weight)

    def write_action(self, action: str) -> str:
        """Returns the markup."""
        return action

    def reward_terms(self, state: SvgState, next_state: SvgState, *, success: bool) -> dict[str, float]:
        """Returns the weighted similarity of the drawing just made."""
        return self._terms(next_state.similarity, next_state.second_similarity)

    def noop_terms(self) -> dict[str, float]:
        """Returns zeros: a turn without a drawing earns nothing."""
        return self._terms(0.0, 0.0)

    def best_return(self, state: SvgState, num_actions: int) -> float:
        """Returns what `num_actions` exact drawings earn."""
        return num_actions * sum(self._terms(1.0, 1.0).values())

    def _terms(self, similarity: float, second_similarity: float) -> dict[str, float]:
        terms = {"similarity": self.similarity_weight * similarity}
        if self.has_second_scorer:
            terms["second_similarity"] = self.second_weight * second_similarity
        return terms

    def metrics(self, state: SvgState) -> dict[str, float]:
        """Returns the last drawing's similarities, which the paper evaluates by (VAGEN Appendix A.6)."""
        second = {"second_similarity": state.second_similarity} if self.has_second_scorer else {}
        return {"similarity": state.similarity} | second

    def hint(self, state: SvgState) -> str:
        """Returns how good the last drawing is, or why it cannot be drawn."""
        if state.drawing is None:
            return ""
        if state.error is not None:
            return f"Your drawing scores 0 because it cannot be drawn: {state.error}."
        return f"Your drawing scores {state.similarity:.2f} of 1."

    def sample_action(self, state: SvgState, rng: np.random.Generator) -> str:
        """Returns a random icon of the same difficulty."""
        return draw_icon(rng, self.difficulty)

    def explain(self, action: str, next_state: SvgState) -> str:
        """Returns how many shapes are drawn, and in which colours."""
        shapes = shapes_of(action) or []
        colors = list(dict.fromkeys(shape["color"] for shape in shapes))
        plural = "" if len(shapes) == 1 else "s"
        return f"draw {len(shapes)} shape{plural}" + (f" in {', '.join(colors)}" if colors else "")
