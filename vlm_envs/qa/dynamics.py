"""How an episode about a question goes on: tools are called, regions enlarged, an answer ends it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vlm_envs.parts import Dynamics
from vlm_envs.qa.context import QAContext
from vlm_envs.qa.sample import DividedSource, ListedSource, Sample, SampleSource
from vlm_envs.qa.state import Act, Answer, CallRecord, QAState, Zoom
from vlm_envs.qa.strategy import Strategy
from vlm_envs.responses.answers import AnswerKey, score_answer
from vlm_envs.tools.coordinates import Box, OriginalPixels, Space, convert, pixel_rectangle
from vlm_envs.tools.pictures import ImageRef
from vlm_envs.tools.registry import ToolCall, parse_tool_call
from vlm_envs.tools.written_boxes import WrittenBox
from vlm_envs.tools.zoom import ZoomSettings, grown, zoom

RIGHT = 0.5
"""Score from which an answer counts as success; answers by rule score 0 or 1, ANLS is cut at one half already."""


@dataclass(frozen=True, kw_only=True)
class QADynamics(Dynamics[QAState, Act]):
    """Questions of one world.

    Attributes:
        source: Where questions come from.
        context: What is laid before the agent.
        strategy: How it looks and answers; an expert's plan depends on it.
        crops: How a strategy that has regions enlarged has them cut out.
        max_calls: Most calls an expert makes.
        has_boxes: Whether it is known where things are; else samples have no evidence.
    """

    source: SampleSource
    context: QAContext
    strategy: Strategy
    crops: ZoomSettings
    max_calls: int
    has_boxes: bool = True
    # Without annotations, as these are not fields
    steps_are_cheap = False  # tools draw images
    plans_are_shortest = False  # a guess may be right without a look

    def generate(self, rng: np.random.Generator, split: str) -> QAState:
        """Returns a new question of a split."""
        return self._started(self.source.draw(rng, split))

    def num_levels(self, split: str) -> int | None:
        """Returns how many questions a split for evaluation has, where they are listed; those to train on are drawn."""
        if split == "train" or not isinstance(self.source, ListedSource):
            return None
        return self.source.num_samples(split)

    def level_at(self, index: int, split: str) -> QAState:
        """Returns a listed question by its place."""
        assert isinstance(self.source, ListedSource), "num_levels() is None for other sources"
        return self._started(self.source.sample_at(index, split))

    def load(self, level: str) -> QAState:
        """Returns the question of a sample's id."""
        return self._started(self.source.find(level.strip()))

    def level_split(self, level: str) -> str | None:
        """Returns the split of a sample's id; None if its source does not know."""
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
        """Returns the sample's digest with what was done so far."""
        done = "".join(f"\n{call.succeeded:d} {call.text}" for call in state.calls)
        answered = "" if state.answer is None else f"\nanswer {state.answer}"
        return f"{state.sample.digest}{done}{answered}".encode("utf-8", "backslashreplace")

    def cluster(self, state: QAState) -> str:
        """Returns the sample's cluster."""
        return state.sample.cluster

    def step(self, state: QAState, action: Act, rng: np.random.Generator) -> tuple[QAState, bool]:
        """Calls a tool, enlarges regions, or takes the answer."""
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
        """Shows the regions that may be zoomed into, cut from the original's pixels."""
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
        """Returns a region of the first picture, from its original pixels."""
        original = state.sample.images[0].picture()
        region: Box[OriginalPixels] = convert(Box(*box, space=space), original.space)
        return zoom(original, grown(pixel_rectangle(region), original.space, self.crops), self.crops)

    def noop_turn(self, state: QAState) -> QAState:
        """Shows nothing again, and counts the turn: a strategy with one look may have had it."""
        return replace(state, shown=(), reply="", num_passed=state.num_passed + 1)

    def is_success(self, state: QAState) -> bool:
        """Returns whether the answer is right."""
        return score_answer(state.answer, state.sample.key) >= RIGHT

    def is_over(self, state: QAState) -> bool:
        """Returns whether there is an answer."""
        return state.answer is not None

    def plan(self, state: QAState) -> tuple[Act, ...]:
        """Returns what a careful person does: look where the evidence is, then answer."""
        if self.is_over(state):
            return ()
        return (
            *self.strategy.expert_calls(state, self.context, self.max_calls),
            Answer(right_answer(state.sample.key)),
        )

    def suboptimal_plan(self, state: QAState) -> tuple[Act, ...]:
        """Returns the answer without a look, or where one has to be taken, behind a look at the middle."""
        if self.is_over(state):
            return ()
        return (*self.strategy.careless_calls(state, self.context), Answer(right_answer(state.sample.key)))


def right_answer(key: AnswerKey) -> str:
    """Returns the right answer as an expert writes it: the letter of a choice, or the first accepted words."""
    return key.answers[0].upper() if key.kind == "choice" else key.answers[0]
