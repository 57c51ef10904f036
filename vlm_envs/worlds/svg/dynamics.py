"""SVG's dynamics: a target comes, drawings are rendered and compared with it, and the oracle copies it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vlm_envs.errors import ConfigError, GenerationError, LevelError
from vlm_envs.parts import Dynamics
from vlm_envs.splits import split_of
from vlm_envs.worlds.svg.corpus import load_icons
from vlm_envs.worlds.svg.icons.bands import check_difficulty, draw_icon
from vlm_envs.worlds.svg.renderer import Renderer
from vlm_envs.worlds.svg.scorers import Scorer
from vlm_envs.worlds.svg.state import SvgState
from vlm_envs.worlds.svg.suboptimal import suboptimal_markup

MAX_TRIES = 1_000


class SvgDynamics(Dynamics[SvgState, str]):
    """Targets and drawings of one configuration; holds no state of an episode.

    Args:
        renderer: Draws markup.
        scorer: Says how alike target and drawing are.
        second_scorer: Says it another way; None for one opinion only.
        difficulty: Band of the random icons, 1 to 5, or `"mixed"`.
        data: A folder or table of a user's icons to draw instead; see `corpus.load_icons`.
        success_threshold: Similarity from which a drawing counts as right, above 0 to 1.

    Raises:
        ConfigError: If a value is out of range or `data` holds no icons.
    """

    def __init__(
        self,
        *,
        renderer: Renderer,
        scorer: Scorer,
        second_scorer: Scorer | None = None,
        difficulty: int | str = "mixed",
        data: str | None = None,
        success_threshold: float = 0.95,
    ) -> None:
        if not 0 < success_threshold <= 1:
            raise ConfigError(f"success_threshold must be above 0 and at most 1; got {success_threshold!r}.")
        self.renderer, self.scorer, self.second_scorer = renderer, scorer, second_scorer
        self.difficulty = check_difficulty(difficulty)
        self.data = data
        self.success_threshold = float(success_threshold)
        if data is not None:
            load_icons(data)

    def generate(self, rng: np.random.Generator, split: str) -> SvgState:
        """Returns a target of a split that can be drawn, is not blank, and that nothing was drawn for yet.

        Raises:
            GenerationError: If no such target was found.
            EngineUnavailableError: If cairosvg is not installed or cannot start.
        """
        reason = "none is of this split"
        for _ in range(MAX_TRIES):
            markup = self._candidate(rng, split)
            if split_of(markup.encode(errors="replace")) != split:
                continue
            rendering = self.renderer.render(markup)
            if not rendering.is_blank:
                return SvgState(target=markup)
            reason = f"of the last one, {rendering.error or 'nothing is seen on white paper'}"
        raise GenerationError(
            f"No icon of split {split!r} can be drawn among {MAX_TRIES} of {self.data or 'the icons drawn at random'}: "
            f"{reason}. Give more icons, or another difficulty."
        )

    def _candidate(self, rng: np.random.Generator, split: str) -> str:
        """Returns a random icon that may belong to a split."""
        if self.data is None:
            return draw_icon(rng, self.difficulty)
        icons = load_icons(self.data)[split]
        if not icons:
            raise GenerationError(f"data={self.data!r} has no icon of split {split!r}; give it more icons.")
        return icons[rng.integers(len(icons))]

    def load(self, level: str) -> SvgState:
        """Returns the start of an episode whose target is a given markup.

        Raises:
            LevelError: If it cannot be drawn or shows nothing.
        """
        markup = level.strip()
        rendering = self.renderer.render(markup)
        if rendering.error is not None:
            raise LevelError(f"A level is SVG markup; got {markup[:80]!r}, but {rendering.error}.")
        if rendering.is_blank:
            raise LevelError(f"The target must show something on white paper; {markup[:80]!r} draws nothing.")
        return SvgState(target=markup)

    def level_split(self, level: str) -> str | None:
        """Returns the split of a target's markup."""
        return split_of(self.load(level).target.encode(errors="replace"))

    def dump(self, state: SvgState) -> str:
        """Returns the target's markup; what was drawn is no part of a level."""
        return state.target

    def level_key(self, state: SvgState) -> bytes:
        """Returns the target's markup, and the drawing's behind it once there is one."""
        parts = [state.target] if state.drawing is None else [state.target, state.drawing]
        return "\0".join(parts).encode(errors="surrogatepass")

    def step(self, state: SvgState, action: str, rng: np.random.Generator) -> tuple[SvgState, bool]:
        """Returns the state after drawing markup, compared with the target, and whether there is another drawing.

        What cannot be drawn is none, has similarity 0 and is explained in the state.
        """
        drawn = self.renderer.render(action)
        similarity = second_similarity = 0.0
        if drawn.pixels is not None:
            target = self.renderer.render(state.target).pixels
            assert target is not None, "targets were drawn before they became targets"
            similarity = _compare(self.scorer, target, drawn.pixels)
            if self.second_scorer is not None:
                second_similarity = _compare(self.second_scorer, target, drawn.pixels)
        successor = replace(
            state, drawing=action, error=drawn.error, similarity=similarity, second_similarity=second_similarity
        )
        return successor, drawn.error is None and action != state.drawing

    def is_success(self, state: SvgState) -> bool:
        """Returns whether the last drawing is similar enough."""
        return state.similarity >= self.success_threshold

    def is_over(self, state: SvgState) -> bool:
        """Says no: every turn is scored, until the turns run out."""
        return False

    def plan(self, state: SvgState) -> tuple[str, ...]:
        """Returns the target's own markup, at every turn, because every turn is scored."""
        return (state.target,)

    def suboptimal_plan(self, state: SvgState) -> tuple[str, ...]:
        """Returns markup with roughly rounded lengths."""
        return (suboptimal_markup(state.target),)

    def cost_to_go(self, state: SvgState) -> int:
        """Returns 0 once the drawing equals the target, 1 before."""
        return 0 if state.similarity == 1.0 else 1

    def close(self) -> None:
        """Lets go of the drawing process."""
        self.renderer.close()


def _compare(scorer: Scorer, target: NDArray[np.uint8], drawing: NDArray[np.uint8]) -> float:
    """Returns a similarity: exactly 1 for equal pictures, whatever a scorer's rounding makes of them."""
    if np.array_equal(target, drawing):
        return 1.0
    similarity = float(scorer.similarity(target, drawing))
    if not 0.0 <= similarity <= 1.0:
        raise ConfigError(f"The scorer {scorer.name!r} must return a number from 0 to 1; it returned {similarity!r}.")
    return similarity
