"""The base of question-answering worlds: dynamics, task, and view of an episode with one question."""

from __future__ import annotations

import json
import string
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from vlm_envs.errors import ConfigError
from vlm_envs.parts import Dynamics, Task, View
from vlm_envs.qa.qa_context import Act, Answer, CallRecord, CallTool, QAContext, QAState, Zoom
from vlm_envs.qa.sample import DividedSource, ListedSource, OpenDataset, Sample, SampleSource, chosen_source
from vlm_envs.qa.strategies import Strategy, written_evidence
from vlm_envs.responses.answers import AnswerKey, AnswerKind, score_answer
from vlm_envs.responses.formats import QA_FORMATS, SECTION_MEANING, TOOL_OUTPUT_TAGS, WITHOUT_SYMBOLS
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.tools.coordinates import Box, OriginalPixels, Space, WrittenBox, convert, pixel_rectangle
from vlm_envs.tools.pictures import ImageRef, Picture, stitched_row
from vlm_envs.tools.tool_registry import ToolCall, parse_tool_call
from vlm_envs.tools.zoom import LanczosUpscaler, ZoomSettings, grown, zoom
from vlm_envs.trajectory import SUCCESSFUL_CALLS
from vlm_envs.validation import require_choice, require_finite, require_flag
from vlm_envs.world import World

RIGHT = 0.5
"""Score at which an answer is a success; rules score 0 or 1, and ANLS scores below 0.5 are 0."""


@dataclass(frozen=True, kw_only=True)
class QADynamics(Dynamics[QAState, Act]):
    """Questions of one world.

    Attributes:
        source: Source of the questions.
        context: Images, tools, and coordinates for the agent.
        strategy: The way of looking and answering; an expert's plan depends on it.
        crops: Settings for the enlarged regions of a strategy that has them.
        max_calls: Maximum number of calls in an expert's plan.
        has_boxes: Whether evidence has known positions; if False, it is removed from samples.
    """

    source: SampleSource
    context: QAContext
    strategy: Strategy
    crops: ZoomSettings
    max_calls: int
    has_boxes: bool = True
    # No annotations, so that these are not dataclass fields
    steps_are_cheap = False  # tools draw images
    plans_are_shortest = False  # a guess may be right without looking

    def generate(self, rng: np.random.Generator, split: str) -> QAState:
        """Returns a new question of a split."""
        return self._started(self.source.draw(rng, split))

    def num_levels(self, split: str) -> int | None:
        """Returns the number of questions of a listed val or test split; None if questions are drawn, as in train."""
        if split == "train" or not isinstance(self.source, ListedSource):
            return None
        return self.source.num_samples(split)

    def level_at(self, index: int, split: str) -> QAState:
        """Returns a listed question by its index."""
        assert isinstance(self.source, ListedSource), "num_levels() is None for other sources"
        return self._started(self.source.sample_at(index, split))

    def load(self, level: str) -> QAState:
        """Returns the question with a sample id."""
        return self._started(self.source.find(level.strip()))

    def level_split(self, level: str) -> str | None:
        """Returns the split of a sample id; None if its source does not know it."""
        if isinstance(self.source, DividedSource):
            return self.source.split_of(level.strip())
        self.load(level)
        return None

    def _started(self, sample: Sample) -> QAState:
        if not self.has_boxes:
            sample = replace(sample, evidence=())
        memory, shown = self.context.opening(sample)
        return QAState(sample=sample, memory=memory, shown=shown)

    def dump(self, state: QAState) -> str:
        """Returns the sample's id."""
        return state.sample.sample_id

    def level_key(self, state: QAState) -> bytes:
        """Returns the sample's digest, followed by all actions so far."""
        done = "".join(f"\n{call.succeeded:d} {call.text}" for call in state.calls)
        answered = "" if state.answer is None else f"\nanswer {state.answer}"
        return f"{state.sample.digest}{done}{answered}".encode("utf-8", "backslashreplace")

    def cluster(self, state: QAState) -> str:
        """Returns the sample's cluster."""
        return state.sample.cluster

    def step(self, state: QAState, action: Act, rng: np.random.Generator) -> tuple[QAState, bool]:
        """Calls a tool, enlarges regions, or records the answer."""
        if isinstance(action, Answer):
            return replace(state, answer=action.text, shown=(), reply=""), True
        if isinstance(action, Zoom):
            return self._enlarge(state, action)
        result = self.context.tools(state.sample).call_text(action.text, state.memory)
        call = parse_tool_call(action.text)
        record = CallRecord(name=call.name if isinstance(call, ToolCall) else "", succeeded=result.ok, text=action.text)
        after = replace(
            state, memory=result.memory, shown=result.images, reply=result.text, calls=(*state.calls, record)
        )
        return after, result.ok

    def _enlarge(self, state: QAState, action: Zoom) -> tuple[QAState, bool]:
        """Shows the valid regions, cropped from the original pixels."""
        space = self.strategy.space(state.sample, self.context)
        crops: list[ImageRef] = []
        if space is not None:
            crops = [self._crop(state, box, space) for box in self.strategy.regions(action.boxes, space)]
        record = CallRecord(name="zoom", succeeded=bool(crops), text=repr([tuple(box) for box in action.boxes]))
        after = replace(
            state,
            shown=tuple(crops),
            reply=self.strategy.reply(len(crops), len(action.boxes), self.context),
            calls=(*state.calls, record),
            boxes=(*state.boxes, *action.boxes),
        )
        return after, bool(crops)

    def _crop(self, state: QAState, box: WrittenBox, space: Space) -> ImageRef:
        """Returns a region of the first image, from its original pixels."""
        original = state.sample.images[0].picture()
        region: Box[OriginalPixels] = convert(Box(*box, space=space), original.space)
        return zoom(original, grown(pixel_rectangle(region), original.space, self.crops), self.crops)

    def noop_turn(self, state: QAState) -> QAState:
        """Shows nothing new but counts the turn, because a strategy with a single look may have used it up."""
        return replace(state, shown=(), reply="", num_passed=state.num_passed + 1)

    def is_success(self, state: QAState) -> bool:
        """Returns whether the answer is right."""
        return score_answer(state.answer, state.sample.key) >= RIGHT

    def is_over(self, state: QAState) -> bool:
        """Returns whether an answer was given."""
        return state.answer is not None

    def plan(self, state: QAState) -> tuple[Act, ...]:
        """Returns an expert's actions: look at the evidence, then answer."""
        if self.is_over(state):
            return ()
        return (
            *self.strategy.expert_calls(state, self.context, self.max_calls),
            Answer(right_answer(state.sample.key)),
        )

    def suboptimal_plan(self, state: QAState) -> tuple[Act, ...]:
        """Returns the answer without looking, or after a look at the middle if the strategy requires one."""
        if self.is_over(state):
            return ()
        return (*self.strategy.careless_calls(state, self.context), Answer(right_answer(state.sample.key)))


def right_answer(key: AnswerKey) -> str:
    """Returns the right answer as an expert writes it: the letter of a choice, or the first accepted text."""
    return key.answers[0].upper() if key.kind == "choice" else key.answers[0]


_HOW_TO_ANSWER: Mapping[AnswerKind, str] = MappingProxyType(
    {
        "choice": "Answer with the letter of one option.",
        "number": "Answer with a number.",
        "exact": "Answer with a word or a few.",
        "verdict": "",  # the question itself lists the possible verdicts
        "semantic": "Answer in a few words.",
        "anls": "Answer with the words or the number that stand there.",
        "list": "Answer with a list in square brackets.",
    }
)


class QATask(Task[QAState, Act]):
    """One question, one answer.

    Args:
        name: Kind of question.
        goal: One sentence.
        context: Images, tools, and coordinates for the agent.
        strategy: The way of looking and answering.
        answer_reward: Reward of a right answer.
    """

    opening = "Task"
    representations = WITHOUT_SYMBOLS
    representation_help = MappingProxyType(dict.fromkeys(WITHOUT_SYMBOLS, ""))
    formats = QA_FORMATS
    section_meaning = SECTION_MEANING | {"answer": "your answer"}
    last_turn_note = "This is the last turn: no tool can be called any more, answer now."

    def __init__(
        self, *, name: str, goal: str, context: QAContext, strategy: Strategy, answer_reward: float = 1.0
    ) -> None:
        self.name, self.goal = name, goal
        self.context, self.strategy = context, strategy
        self.answer_reward = require_finite("answer_reward", answer_reward)
        self.rules = strategy.rules(context)
        self.grammar = ActionGrammar[Act](
            parse=Answer,
            parse_in=strategy.readers(),
            lenient_in=strategy.lenient_readers(),
            separator="",
            expected=strategy.expected,
        )

    def write_action(self, action: Act) -> str:
        """Returns the text of a call, a zoom, or an answer."""
        return self.strategy.write_zoom(action) if isinstance(action, Zoom) else action.text

    def action_sections(self, actions: Sequence[Act], thoughts: Mapping[str, str]) -> dict[str, str]:
        """Returns the section that contains the only action of a turn."""
        (action,) = actions
        if isinstance(action, CallTool):
            return {"tool_call": action.text}
        if isinstance(action, Zoom):
            return {"think": f"{thoughts.get('think', '')}{self.strategy.write_zoom(action)}"}
        return {"answer": action.text}

    def expert_sections(self, state: QAState, actions: Sequence[Act]) -> Mapping[str, str]:
        """Returns the strategy's thoughts."""
        return self.strategy.thoughts(state, self.context, actions[0])

    def reward_terms(self, state: QAState, next_state: QAState, *, success: bool) -> dict[str, float]:
        """Returns the reward of the answer; looking is free."""
        if next_state.answer is None:
            return {"answer": 0.0}
        return {"answer": self.answer_reward * score_answer(next_state.answer, next_state.sample.key)}

    def noop_terms(self) -> dict[str, float]:
        """Returns nothing."""
        return {"answer": 0.0}

    def best_return(self, state: QAState, num_actions: int) -> float:
        """Returns the reward of a right answer."""
        return self.answer_reward

    def instruction(self, state: QAState) -> str:
        """Returns images, texts, question, and options."""
        sample = state.sample
        texts = [f"{name}:\n{text}" for name, text in sample.texts]
        parts = (self.context.introduction(sample), *texts, f"Question: {sample.question}", *options(sample.key))
        return "\n".join(filter(None, (*parts, _HOW_TO_ANSWER[sample.key.kind])))

    def brief(self, state: QAState) -> tuple[str, ...]:
        """Returns question, options, and texts."""
        sample = state.sample
        texts = (f"{name}: {text}" for name, text in sample.texts)
        parts = (" ".join(part.split()) for part in (*sample.question.splitlines(), *options(sample.key), *texts))
        return tuple(filter(None, parts))

    def solution(self, state: QAState, plan: Sequence[Act]) -> str:
        """Returns the right answer; for a choice, with the text of the option."""
        key = state.sample.key
        answer = plan[-1].text if isinstance(plan[-1], Answer) else key.answers[0]
        chosen = [text for text in options_of(key) if text.startswith(f"{answer}. ")]
        return chosen[0] if chosen else answer

    def hint(self, state: QAState) -> str:
        """Returns the last tool reply in its tags; its image names are in the order in which the images are shown."""
        if not state.reply:
            return ""
        opening, closing = TOOL_OUTPUT_TAGS
        return f"{opening}\n{state.reply}\n{closing}"

    def metrics(self, state: QAState) -> dict[str, float]:
        """Returns the score, overall and by category, and the numbers of calls if the strategy allows any."""
        score = score_answer(state.answer, state.sample.key)
        measured = {"score": score, f"score_{state.sample.category}": score}
        if not self.strategy.looks_closer:
            return measured
        num_successful = sum(call.succeeded for call in state.calls)
        return measured | {"calls": float(len(state.calls)), SUCCESSFUL_CALLS: float(num_successful)}

    def sample_action(self, state: QAState, rng: np.random.Generator) -> Act:
        """Returns a random answer of the right kind."""
        return Answer(random_answer(state.sample.key, rng))


def options(key: AnswerKey) -> tuple[str, ...]:
    """Returns the options of a choice in one line, or nothing."""
    return (" ".join(options_of(key)),) if key.options else ()


def options_of(key: AnswerKey) -> tuple[str, ...]:
    """Returns the options of a choice, each with its letter."""
    return tuple(f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, key.options, strict=False))


def random_answer(key: AnswerKey, rng: np.random.Generator) -> str:
    """Returns a random answer: a letter, a verdict, a small number, or a text that is almost surely wrong."""
    if key.verdicts:
        return key.verdicts[rng.integers(len(key.verdicts))]
    if key.kind == "choice":
        return string.ascii_uppercase[rng.integers(len(key.options) or 4)]
    return str(rng.integers(10)) if key.kind == "number" else "unknown"


Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class QAView(View[QAState]):
    """Shows the images of the last observation, and the ground truth.

    Attributes:
        context: Provides the pixel budget.
        strategy: Provides the coordinate space of boxes.
    """

    tells_answer: ClassVar[bool] = True

    context: QAContext
    strategy: Strategy

    def image(self, state: QAState) -> Pixels:
        """Returns the images of the last observation, or else the first one, side by side in a single image.

        If there is no image at all, the question is drawn as text.
        """
        shown = state.shown or self.context.opening(state.sample)[1]
        if not shown:
            return written_sheet(state.sample).pixels.copy()
        row = stitched_row([self.context.scaled(image) for image in shown])
        return row.pixels.copy()

    def images(self, state: QAState) -> tuple[Pixels, ...]:
        """Returns the images of the last observation, each scaled to the budget."""
        return tuple(self.context.shown(image, state.sample).pixels.copy() for image in state.shown)

    def structured(self, state: QAState) -> Mapping[str, Any]:
        """Returns question, key, evidence in the strategy's space, calls, and answer, as JSON types.

        `sample_digest` identifies the question and images, `truth_digest` the right answer: ids alone do not
        distinguish two folders of a dataset.
        """
        sample, key = state.sample, state.sample.key
        shown_as = self.context.shown_pixels(sample)
        evidence = written_evidence(sample, self.strategy.space(sample, self.context))
        return {
            "sample_id": sample.sample_id,
            "sample_digest": sample.digest,
            "truth_digest": sample.truth_digest,
            "category": sample.category,
            "strategy": self.strategy.name,
            "question": sample.question,
            "answer_kind": key.kind,
            "answers": list(key.answers),
            "options": list(key.options),
            "evidence": [{"label": item.label, "box": list(box)} for item, box in evidence],
            "evidence_pages": list(sample.evidence_pages),
            "shown_size": None if shown_as is None else [shown_as.width, shown_as.height],
            "calls": [{"name": call.name, "succeeded": call.succeeded} for call in state.calls],
            "answer": state.answer,
            "score": score_answer(state.answer, key),
        } | {
            name: value
            for name, value in (("tolerance", key.tolerance), ("coordinates", self.context.coordinates))
            if value is not None
        }

    def describe(self, state: QAState, representation: str) -> str:
        """Returns the facts about the question, as sentences or JSON."""
        sample = state.sample
        if representation == "structured":
            pages = {"evidence_pages": list(sample.evidence_pages)} if sample.evidence_pages else {}
            return json.dumps({"answer": right_answer(sample.key), "facts": sample.facts} | pages, ensure_ascii=False)
        pages_text = f" It is on {_pages(sample.evidence_pages)}." if sample.evidence_pages else ""
        return f"{sample.facts} The right answer is {right_answer(sample.key)}.{pages_text}".strip()

    def true_description(self, state: QAState, representation: str) -> str:
        """Returns the facts visible in the image; empty if there are none, or if they would give away the verdict."""
        return "" if state.sample.key.kind == "verdict" else state.sample.facts


def _pages(pages: tuple[int, ...]) -> str:
    return f"page {pages[0]}" if len(pages) == 1 else f"pages {', '.join(map(str, pages))}"


_WIDTH_PX, _MARGIN_PX, _FONT_PX, _LINE_PX = 720, 16, 14, 19
_MAX_LINES = 60


def written_sheet(sample: Sample) -> Picture:
    """Returns the question and texts of a sample in black letters on white; text beyond the sheet is cut off."""
    font = ImageFont.load_default(size=_FONT_PX)
    parts = (sample.question, *(f"{name}:\n{text}" for name, text in sample.texts))
    lines = [line for part in parts for line in _wrapped(part, font)][:_MAX_LINES]
    canvas = Image.new("RGB", (_WIDTH_PX, 2 * _MARGIN_PX + _LINE_PX * len(lines)), "white")
    draw = ImageDraw.Draw(canvas)
    for row, line in enumerate(lines):
        draw.text((_MARGIN_PX, _MARGIN_PX + row * _LINE_PX), line, "black", font)
    return Picture.from_image(canvas)


def _wrapped(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> list[str]:
    """Returns the lines of a text, followed by a blank line."""
    columns = int((_WIDTH_PX - 2 * _MARGIN_PX) / (font.getlength("etaoin shrdlu") / 13) * 0.8)
    return [line for whole in text.splitlines() for line in textwrap.wrap(whole, columns) or [""]] + [""]


DEFAULT_CROPS = ZoomSettings(upscaler=LanczosUpscaler())
"""Default settings for regions: enlarged by the default super-resolution agent."""


class QAWorld(World[QAState, Act]):
    """Asks one question. The agent looks as its strategy allows, then answers.

    Args:
        name: Kind of question, for prompts.
        goal: One sentence.
        generated: Default source of questions; None if another one must be named.
        open_dataset: Opens a local copy of a dataset; None if the world supports none.
        source: A source to use instead, or `"module:factory"` of one.
        dataset: Name of a dataset.
        folder: Folder of the local copy of the dataset.
        is_benchmark: Whether the whole dataset is the split `test`; None for the dataset's default.
        train_on_all: Whether the whole dataset is the split `train`, for evaluation on another dataset.
        context: Images, tools, and coordinates for the agent.
        strategies: The available strategies, by name.
        prompt_format: Name of the strategy to use.
        task_type: `QATask` or a subclass, which writes prompts and reports.
        crops: Settings for the enlarged regions of a strategy that has them; one that magnifies enlarges all
            of them.
        answer_reward: Reward of a right answer.
        boxes: Whether evidence has known positions; False for questions such as those of datasets without
            annotations.
        max_turns: Turns; None for the strategy's default.
        format_reward: Paid each turn whose response is in the format. The default is 0, because a reward per
            turn encourages as many calls as possible.
        **world_kwargs: See `World`.

    Raises:
        ConfigError: If an argument is not valid.
    """

    view_type: ClassVar[type[QAView]] = QAView
    """The view class, which shows an episode and provides the ground truth."""

    def __init__(
        self,
        *,
        name: str,
        goal: str,
        context: QAContext,
        strategies: Mapping[str, Strategy],
        prompt_format: str,
        generated: SampleSource | None = None,
        open_dataset: OpenDataset | None = None,
        source: str | SampleSource | None = None,
        dataset: str | None = None,
        folder: str | None = None,
        is_benchmark: bool | None = None,
        train_on_all: bool = False,
        task_type: type[QATask] = QATask,
        crops: ZoomSettings = DEFAULT_CROPS,
        answer_reward: float = 1.0,
        boxes: bool = True,
        max_turns: int | None = None,
        max_actions_per_turn: int = 1,
        format_reward: float = 0.0,
        **world_kwargs: Any,
    ) -> None:
        if max_actions_per_turn != 1:
            raise ConfigError(
                "max_actions_per_turn must be 1, because a turn is one look or one answer; got "
                f"{max_actions_per_turn!r}."
            )
        strategy = strategies[require_choice("prompt_format", prompt_format, tuple(strategies))]
        if strategy.has_tools and context.coordinates == "pixels":
            others = [name for name, other in strategies.items() if not other.has_tools]
            raise ConfigError(
                f"prompt_format={prompt_format!r} calls a zoom tool whose boxes are in thousandths, not "
                f"coordinates='pixels'. Use coordinates='thousandths' or None, or a format without tools: {others}."
            )
        if strategy.magnifies:
            # A crop is shown within the budget, so enlarging it beyond that is wasted
            crops = replace(crops, upscale_below_px=None, max_upscaled_pixels=context.max_pixels)
        num_turns = strategy.max_turns if max_turns is None else max_turns
        dynamics = QADynamics(
            source=chosen_source(
                generated,
                open_dataset,
                source=source,
                dataset=dataset,
                folder=folder,
                is_benchmark=is_benchmark,
                train_on_all=train_on_all,
            ),
            context=context,
            strategy=strategy,
            crops=crops,
            max_calls=max(1, num_turns - 1),
            has_boxes=require_flag("boxes", boxes),
        )
        super().__init__(
            dynamics,
            self.view_type(context=context, strategy=strategy),
            task_type(name=name, goal=goal, context=context, strategy=strategy, answer_reward=answer_reward),
            prompt_format=prompt_format,
            max_turns=num_turns,
            max_actions_per_turn=1,
            format_reward=format_reward,
            **world_kwargs,
        )
        self.set_picture_shape(None)
