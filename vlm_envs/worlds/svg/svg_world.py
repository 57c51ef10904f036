"""SVG: write markup that reproduces an image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from vlm_envs.errors import ConfigError, GenerationError, LevelError
from vlm_envs.parts import Dynamics, Task, View
from vlm_envs.responses.formats import WITHOUT_SYMBOLS
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.splits import split_of
from vlm_envs.validation import require_choice
from vlm_envs.world import World
from vlm_envs.worlds.svg.svg_corpus import load_icons
from vlm_envs.worlds.svg.svg_icons import check_difficulty, draw_icon
from vlm_envs.worlds.svg.svg_markup import ViewBox
from vlm_envs.worlds.svg.svg_renderer import Renderer
from vlm_envs.worlds.svg.svg_scorers import Scorer, resolve_scorer
from vlm_envs.worlds.svg.svg_shapes import Shape, shapes_of, view_box_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SvgState:
    """One moment of an episode; hashable, comparable, and picklable. Images are derived from it, not stored in it.

    Attributes:
        target: Markup of the image to reproduce.
        drawing: The last markup drawn, valid or not; None before the first.
        error: Why `drawing` cannot be drawn; None if it can.
        similarity: Similarity of target and drawing, 0 to 1; 0 before the first drawing.
        second_similarity: The same according to the second scorer; 0 if there is none.
    """

    target: str
    drawing: str | None = None
    error: str | None = None
    similarity: float = 0.0
    second_similarity: float = 0.0


_LENGTHS = re.compile(r'\b(cx|cy|r|rx|ry|x|y|x1|y1|x2|y2|width|height|points|d)="([^"]*)"')
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LAST_ELEMENT = re.compile(r"<(?!/)[^<>]*/>(?=(?:</\w+>)*\s*$)")
_ROUGHNESS = 4


def suboptimal_markup(markup: str) -> str:
    """Returns markup that draws nearly the same: every length is rounded to a multiple of four units.

    The `viewBox` is kept. If rounding changes nothing, the last element is removed; markup with a single
    element is returned unchanged.
    """
    head, bracket, body = markup.partition(">")
    rough = head + bracket + _LENGTHS.sub(lambda found: f'{found[1]}="{_NUMBER.sub(_rounded, found[2])}"', body)
    if rough != markup or body.count("/>") < 2:
        return rough
    return _LAST_ELEMENT.sub("", markup)


def _rounded(found: re.Match[str]) -> str:
    value = float(found[0])
    return str(max(_ROUGHNESS, round(value / _ROUGHNESS) * _ROUGHNESS) if value else 0)


MAX_TOLD = 12
"""Maximum number of shapes described individually."""

_SMALL, _LARGE = 0.05, 0.3
_KIND_WORDS = {"rect": "rectangle", "polyline": "bent line", "path": "curved shape"}
_ROWS, _COLUMNS = ("top", "", "bottom"), ("left", "", "right")
_NO_DRAWING, _BROKEN_DRAWING = "nothing yet", "nothing, because its markup is broken"


def describe(state: SvgState, representation: str) -> str:
    """Returns a state as two sentences, about the target and the drawing, or as a dictionary in text."""
    drawn = _NO_DRAWING if state.drawing is None else _BROKEN_DRAWING if state.error else None
    tell = _sentence if representation == "natural_language" else _list
    target = tell(state.target)
    if representation == "natural_language":
        return f"The target shows {target}. The drawing shows {drawn or tell(state.drawing or '')}."
    return f"{{target: {target}, drawing: {'[]' if drawn else tell(state.drawing or '')}}}"


def shape_words(shape: Shape, view_box: ViewBox) -> str:
    """Returns a shape with its size, color, and position, e.g. `a large red circle at the top left`."""
    left, top, right, bottom = shape["box"]
    x, y, width, height = view_box
    share = (right - left) * (bottom - top) / (width * height)
    size = "small " if share < _SMALL else "large " if share > _LARGE else ""
    hollow = "" if shape["filled"] or "line" in shape["kind"] else "hollow "
    kind = _KIND_WORDS.get(shape["kind"], shape["kind"])
    row, column = _third(top + bottom - 2 * y, height), _third(left + right - 2 * x, width)
    place = f"at the {_ROWS[row]} {_COLUMNS[column]}".replace("  ", " ").strip()
    where = "in the middle" if row == column == 1 else place
    words = f"{size}{hollow}{shape['color']} {kind} {where}"
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _third(doubled_center: float, side: float) -> int:
    """Returns the third of a side that contains a center, 0 to 2."""
    return min(2, max(0, int(doubled_center / 2 / side * 3)))


def _sentence(markup: str) -> str:
    """Returns a drawing as a list of its shapes in words, in drawing order."""
    shapes, view_box = shapes_of(markup), view_box_of(markup)
    if not shapes or view_box is None:
        return "no shapes"
    told = [shape_words(shape, view_box) for shape in shapes[:MAX_TOLD]]
    return _joined([*told, *_untold(shapes)])


def _list(markup: str) -> str:
    """Returns a drawing as a list of colors, kinds, and boxes."""
    shapes = shapes_of(markup) or []
    told = [f"{shape['color']} {shape['kind']} {_box(shape['box'])}" for shape in shapes[:MAX_TOLD]]
    return f"[{', '.join([*told, *_untold(shapes)])}]"


def _untold(shapes: Sequence[Shape]) -> list[str]:
    """Returns the number of shapes not described individually, if any."""
    return [f"{len(shapes) - MAX_TOLD} more"] if len(shapes) > MAX_TOLD else []


def _box(box: Sequence[float]) -> str:
    return f"[{', '.join(f'{value:g}' for value in box)}]"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


MAX_TRIES = 1_000


class SvgDynamics(Dynamics[SvgState, str]):
    """Targets and drawings of one configuration, without episode state.

    Args:
        renderer: Renders markup.
        scorer: Measures the similarity of target and drawing.
        second_scorer: A second measure; None for only one.
        difficulty: Band of the random icons, 1 to 5, or `"mixed"`.
        data: A folder or table of your own icons to use instead; see `corpus.load_icons`.
        success_threshold: Minimum similarity of a successful drawing, above 0 to 1.

    Raises:
        ConfigError: If a value is out of range or `data` contains no icons.
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
        """Returns an initial state with a target of a split that can be drawn and is not blank.

        Raises:
            GenerationError: If no such target was found.
            EngineUnavailableError: If cairosvg is not installed or cannot start.
        """
        reason = "none of them belongs to this split"
        for _ in range(MAX_TRIES):
            markup = self._candidate(rng, split)
            if split_of(markup.encode(errors="replace")) != split:
                continue
            rendering = self.renderer.render(markup)
            if not rendering.is_blank:
                return SvgState(target=markup)
            reason = f"the last one failed because {rendering.error or 'nothing is visible on white'}"
        raise GenerationError(
            f"No icon of split {split!r} can be drawn among {MAX_TRIES} of {self.data or 'the random icons'}: "
            f"{reason}. Provide more icons, or use another difficulty."
        )

    def _candidate(self, rng: np.random.Generator, split: str) -> str:
        """Returns a random icon that may belong to a split."""
        if self.data is None:
            return draw_icon(rng, self.difficulty)
        icons = load_icons(self.data)[split]
        if not icons:
            raise GenerationError(f"data={self.data!r} has no icon of split {split!r}; add more icons.")
        return icons[rng.integers(len(icons))]

    def load(self, level: str) -> SvgState:
        """Returns the initial state with the given markup as its target.

        Raises:
            LevelError: If it cannot be drawn or is blank.
        """
        markup = level.strip()
        rendering = self.renderer.render(markup)
        if rendering.error is not None:
            raise LevelError(f"A level must be valid SVG markup; got {markup[:80]!r}, but {rendering.error}.")
        if rendering.is_blank:
            raise LevelError(f"The target must be visible on white; {markup[:80]!r} draws nothing.")
        return SvgState(target=markup)

    def level_split(self, level: str) -> str | None:
        """Returns the split of a target's markup."""
        return split_of(self.load(level).target.encode(errors="replace"))

    def dump(self, state: SvgState) -> str:
        """Returns the target's markup; the drawing is not part of a level."""
        return state.target

    def level_key(self, state: SvgState) -> bytes:
        """Returns the target's markup, followed by the drawing's if there is one."""
        parts = [state.target] if state.drawing is None else [state.target, state.drawing]
        return "\0".join(parts).encode(errors="surrogatepass")

    def step(self, state: SvgState, action: str, rng: np.random.Generator) -> tuple[SvgState, bool]:
        """Returns the state after drawing markup and comparing it with the target, and whether the drawing changed.

        Markup that cannot be drawn has similarity 0, and the state contains the reason.
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
        """Returns False: every turn is scored, until the turns run out."""
        return False

    def plan(self, state: SvgState) -> tuple[str, ...]:
        """Returns the target's own markup, at every turn, because every turn is scored."""
        return (state.target,)

    def suboptimal_plan(self, state: SvgState) -> tuple[str, ...]:
        """Returns markup with coarsely rounded lengths."""
        return (suboptimal_markup(state.target),)

    def cost_to_go(self, state: SvgState) -> int:
        """Returns 0 once the drawing equals the target, 1 before."""
        return 0 if state.similarity == 1.0 else 1

    def close(self) -> None:
        """Releases the drawing process."""
        self.renderer.close()


def _compare(scorer: Scorer, target: NDArray[np.uint8], drawing: NDArray[np.uint8]) -> float:
    """Returns a similarity, exactly 1 for equal images regardless of a scorer's rounding."""
    if np.array_equal(target, drawing):
        return 1.0
    similarity = float(scorer.similarity(target, drawing))
    if not 0.0 <= similarity <= 1.0:
        raise ConfigError(f"The scorer {scorer.name!r} must return a number from 0 to 1; it returned {similarity!r}.")
    return similarity


SIMILARITY_WEIGHT = 5.0
SECOND_WEIGHT = 1e-4
EXAMPLE = '<svg viewBox="0 0 64 64"><circle cx="20" cy="32" r="12" fill="red"/></svg>'

_FENCE = "```"


def parse_drawing(text: str) -> str | None:
    """Returns the markup of an answer, without its code fence if it has one; None if it contains no `<svg`.

    The markup is not validated here: broken markup counts as a bad drawing.
    """
    if text.startswith(_FENCE) and text.endswith(_FENCE) and "<" in text:
        text = text[text.index("<") : -len(_FENCE)].strip()
    return text if "<svg" in text else None


class SvgTask(Task[SvgState, str]):
    """Write SVG that looks like the target. Rewards: VAGEN Table 20.

    Args:
        difficulty: Band of the random icons that `sample_action` draws.
        has_second_scorer: Whether a second measure is rewarded.
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
        """Returns the weighted similarity of the new drawing."""
        return self._terms(next_state.similarity, next_state.second_similarity)

    def noop_terms(self) -> dict[str, float]:
        """Returns zeros: a turn without a drawing earns nothing."""
        return self._terms(0.0, 0.0)

    def best_return(self, state: SvgState, num_actions: int) -> float:
        """Returns the return of `num_actions` exact drawings."""
        return num_actions * sum(self._terms(1.0, 1.0).values())

    def _terms(self, similarity: float, second_similarity: float) -> dict[str, float]:
        terms = {"similarity": self.similarity_weight * similarity}
        if self.has_second_scorer:
            terms["second_similarity"] = self.second_weight * second_similarity
        return terms

    def metrics(self, state: SvgState) -> dict[str, float]:
        """Returns the last drawing's similarities, as in the paper's evaluation (VAGEN Appendix A.6)."""
        second = {"second_similarity": state.second_similarity} if self.has_second_scorer else {}
        return {"similarity": state.similarity} | second

    def hint(self, state: SvgState) -> str:
        """Returns the score of the last drawing, or why it cannot be drawn."""
        if state.drawing is None:
            return ""
        if state.error is not None:
            return f"Your drawing scores 0 because it cannot be drawn: {state.error}."
        return f"Your drawing scores {state.similarity:.2f} of 1."

    def sample_action(self, state: SvgState, rng: np.random.Generator) -> str:
        """Returns a random icon of the same difficulty."""
        return draw_icon(rng, self.difficulty)

    def explain(self, action: str, next_state: SvgState) -> str:
        """Returns the number of shapes drawn, and their colors."""
        shapes = shapes_of(action) or []
        colors = list(dict.fromkeys(shape["color"] for shape in shapes))
        plural = "" if len(shapes) == 1 else "s"
        return f"draw {len(shapes)} shape{plural}" + (f" in {', '.join(colors)}" if colors else "")


_PAPER, _STRIPE, _INK, _BORDER = (236, 236, 240), (226, 226, 232), (120, 120, 132), (150, 150, 160)
_EMPTY, _BROKEN = "no drawing yet", "broken drawing"


class SvgStateDict(TypedDict):
    """A state as plain data; boxes are left, top, right, and bottom in units of each drawing's own `viewBox`.

    Attributes:
        target_shapes: The target's shapes, in drawing order.
        drawing_shapes: The last drawing's shapes; None before the first drawing and after a broken one.
        similarity: Their similarity, 0 to 1.
        viewbox: The target's (x, y, width, height).
    """

    target_shapes: list[Shape]
    drawing_shapes: list[Shape] | None
    similarity: float
    viewbox: list[float]


class SvgView(View[SvgState]):
    """Images and texts of SVG states.

    Args:
        renderer: Renders both halves of the image; its size is that of each half.
    """

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer

    def image(self, state: SvgState) -> NDArray[np.uint8]:
        """Returns target and last drawing side by side, uint8[size_px, 2 * size_px, 3]."""
        size_px = self.renderer.size_px
        picture = np.empty((size_px, 2 * size_px, 3), np.uint8)
        picture[:, :size_px] = self._half(state.target)
        picture[:, size_px:] = _sign(_EMPTY, size_px) if state.drawing is None else self._half(state.drawing)
        picture[:, size_px] = _BORDER
        return picture

    def _half(self, markup: str) -> NDArray[np.uint8]:
        """Returns a rendered drawing, or a placeholder if it is broken."""
        pixels = self.renderer.render(markup).pixels
        return _sign(_BROKEN, self.renderer.size_px) if pixels is None else pixels

    def structured(self, state: SvgState) -> SvgStateDict:
        """Returns the state as plain data."""
        drawable = state.drawing is not None and state.error is None
        return {
            "target_shapes": shapes_of(state.target) or [],
            "drawing_shapes": shapes_of(state.drawing or "") if drawable else None,
            "similarity": state.similarity,
            "viewbox": list(view_box_of(state.target) or ()),
        }

    def describe(self, state: SvgState, representation: str) -> str:
        """Returns both drawings in words; raises `ConfigError` for an unknown representation."""
        return describe(state, require_choice("representation", representation, WITHOUT_SYMBOLS))

    def close(self) -> None:
        """Releases the drawing process."""
        self.renderer.close()


@lru_cache(maxsize=8)
def _sign(words: str, size_px: int) -> NDArray[np.uint8]:
    """Returns striped gray paper with words on it, unlike any drawing."""
    picture = Image.new("RGB", (size_px, size_px), _PAPER)
    canvas = ImageDraw.Draw(picture)
    stripe_px = max(2, size_px // 28)
    for start in range(-size_px, size_px, 4 * stripe_px):
        canvas.line([(start, size_px), (start + size_px, 0)], fill=_STRIPE, width=stripe_px)
    font = ImageFont.load_default(max(6, size_px // 12))
    canvas.text((size_px / 2, size_px / 2), words, fill=_INK, font=font, anchor="mm")
    return np.asarray(picture)


class SvgWorld(World[SvgState, str]):
    """SVG: write markup that reproduces an image, see it rendered next to the target, and improve it.

    ## Description
    The image shows a target icon on the left and, if there is one, a rendering of the last answer on the
    right. cairosvg draws the markup in a separate process, under limits: 64 KiB, 1,000 elements as written
    and 5,000 after following every reference, 32 levels, `render_timeout_s` seconds, 1 GiB of memory;
    entities, scripts, images, and links to anything outside the markup are rejected. Markup that cannot be
    drawn scores 0, the next observation explains why, and the episode continues. Needs the extra `svg`.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. The answer is one SVG drawing (a
        surrounding code fence is removed); an answer without `<svg` is not in the format. Colors are
        keywords, hexadecimal, `rgb()`, `hsl()`, or `hwb()`, with commas or spaces; opacities are numbers or
        percentages.

    ## Observation Space
    `Dict(text=FreeText, image=Box(uint8[resolution, 2 * resolution, 3]))`; without `image` in text mode. The
    text contains the score of the last drawing, or why it could not be drawn.

    ## Rewards
    In every turn, 5.0 times the similarity of the drawing, from 0 to 1, plus 1e-4 times that of the second
    scorer if there is one; +0.5 per turn for a response in the format (VAGEN Table 20). The trainer adds
    reasoning rewards. The paper's similarities are DreamSim and DINO, which need weights; the default is
    `structural`, which needs none: coverage, color, edges, and structure at six resolutions, 1 for equal
    images and 0 for an empty drawing.

    ## Starting State
    A random icon of the split, in five bands of difficulty: 1 one shape; 2 two or three shapes; 3 objects of
    simple shapes with strokes; 4 rotated, mirrored, and repeated groups; 5 curved paths, some on a badge. Or
    an icon from your own `data`.

    ## Episode End
    Never terminated; truncated after `max_turns` turns. `success` is a similarity of at least
    `success_threshold` in the last drawing (the threshold is this project's; the paper reports mean
    similarities instead).

    ## Arguments
    `difficulty="mixed"` or 1 to 5; `data=None`, a folder of .svg files, a .parquet, .csv or .jsonl table with
    the column `Svg`, or a folder of such tables (such as a local copy of starvector/svg-icons-simple, the
    paper's data; parquet needs the extra `parquet`), split by a hash of each markup; `resolution=224`, side
    of each half in pixels; `scorer="structural"`, or `"module:factory"`, or an object with `name` and
    `similarity(target, drawing)`; the checkout has `"agents.perception.similarity:dreamsim"` and
    `"agents.perception.similarity:dino"`, which load local weights; `second_scorer=None`, the same;
    `similarity_weight=5.0`; `second_weight=1e-4`; `success_threshold=0.95`; `render_timeout_s=2.0`; and those
    of every world: `prompt_format`, `representation` (no `symbolic`), `obs_mode`, `split`, `max_turns=2`,
    `max_steps=None`, `format_reward=0.5`, `prompt_example=True`, `system_prompt=False`,
    `format_reminder=False`, `reading="strict"`, `render_mode`; `max_actions_per_turn` is 1. Defaults: VAGEN
    Tables 15 and 20. `reset(options={"level": text})` takes the target's markup.

    ## Version History
    * v0: first version.
    """

    def __init__(
        self,
        *,
        difficulty: int | str = "mixed",
        data: str | None = None,
        resolution: int = 224,
        scorer: str | Scorer = "structural",
        second_scorer: str | Scorer | None = None,
        similarity_weight: float = SIMILARITY_WEIGHT,
        second_weight: float = SECOND_WEIGHT,
        success_threshold: float = 0.95,
        render_timeout_s: float = 2.0,
        max_turns: int = 2,
        max_actions_per_turn: int = 1,
        **world_kwargs: Any,
    ) -> None:
        if max_actions_per_turn != 1:
            raise ConfigError(
                f"max_actions_per_turn must be 1, because a turn is one drawing; got {max_actions_per_turn!r}."
            )
        renderer = Renderer(size_px=resolution, timeout_s=render_timeout_s)
        second = None if second_scorer is None else resolve_scorer("second_scorer", second_scorer)
        dynamics = SvgDynamics(
            renderer=renderer,
            scorer=resolve_scorer("scorer", scorer),
            second_scorer=second,
            difficulty=difficulty,
            data=data,
            success_threshold=success_threshold,
        )
        task = SvgTask(
            difficulty=difficulty,
            has_second_scorer=second is not None,
            similarity_weight=similarity_weight,
            second_weight=second_weight,
        )
        super().__init__(
            dynamics,
            SvgView(renderer),
            task,
            max_turns=max_turns,
            max_actions_per_turn=max_actions_per_turn,
            **world_kwargs,
        )
        self.set_picture_shape((resolution, 2 * resolution, 3))
