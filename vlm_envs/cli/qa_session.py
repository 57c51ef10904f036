"""A person's episodes in a question-answering world."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vlm_envs.cli.session import Session
from vlm_envs.qa.qa_context import Act, CallTool, QAState, Zoom, image_names, regions, zoom_call
from vlm_envs.qa.qa_world import QATask, options_of
from vlm_envs.qa.strategies import ZoomStrategy
from vlm_envs.responses.answers import AnswerKey, chosen_letter, stated_number, stated_verdict
from vlm_envs.tools.tool_arguments import json_schema
from vlm_envs.tools.tool_registry import Tool, ToolRegistry


class QASession(Session):
    """One question-answering world, played by a person. See `Session`.

    A line is an answer or a tool call. If a strategy inspects the image before it answers, the first line is
    its thought.
    """

    def restart(self) -> None:
        """Asks the same question again."""
        super().restart()
        self._opening_picture = self.picture

    @property
    def task(self) -> QATask:
        """The world's task."""
        assert isinstance(self.world.task, QATask)
        return self.world.task

    @property
    def state(self) -> QAState:
        """The world's state."""
        assert isinstance(self.world.state, QAState)
        return self.world.state

    @property
    def tools(self) -> ToolRegistry:
        """The tools that can be called now."""
        if self.over or "tool_call" not in self.world.turn_format.action_sections:
            return ToolRegistry()
        return self.task.context.tools(self.state.sample)

    @property
    def pictures(self) -> list[npt.NDArray[np.uint8]]:
        """The image shown with the question, and the latest one."""
        return [self.picture] if self.info["turn"] == 0 else [self._opening_picture, self.picture]

    def drawn_in_words(self) -> list[str]:
        """Returns an empty list, since a question's facts contain its answer."""
        return []

    def read(self, typed: str) -> str | None:
        """Returns the whole response that a text stands for; a tool's name alone is a call without arguments."""
        if typed.strip() in self.tools.names:
            typed = json.dumps({"name": typed.strip(), "arguments": {}})
        return super().read(typed)

    def fault(self, actions: Sequence[Act]) -> str:
        """Returns why an action would fail, so that a slip costs no turn; empty if it would not."""
        (action,) = actions
        if isinstance(action, CallTool):
            result = self.tools.call_text(action.text, self.state.memory)
            return "" if result.ok else result.text.partition("): ")[2] or result.text
        if isinstance(action, Zoom):
            return self._zoom_fault(action)
        return _answer_fault(action.text, self.state.sample.key)

    def _zoom_fault(self, zoom: Zoom) -> str:
        strategy = self.task.strategy
        space = strategy.space(self.state.sample, self.task.context)
        if space is None:
            return "There is no picture to zoom into."
        if isinstance(strategy, ZoomStrategy) and len(strategy.regions(zoom.boxes, space)) < len(set(zoom.boxes)):
            return "At most 8 regions, each inside the picture and under 40 % of its area. Choose smaller ones."
        return ""

    def told(self) -> list[str]:
        """Returns images, texts, and question, and the last tool result."""
        return [*self.task.instruction(self.state).splitlines(), *self.state.reply.splitlines()]

    def opening(self) -> list[str]:
        """Returns the text to show once: the goal, and the rules without the tools' JSON schemas."""
        rules = [line for tool in self.tools for line in _described(tool)] if self.tools else self.task.rules
        return [f"{self.task.name}. {self.task.goal}", *rules]

    def help(self) -> str:
        """Returns the possible inputs."""
        lines = "r again, n next question, q quit"
        if self.over:
            return lines
        sections = self.world.turn_format.action_sections
        answer = "your answer" if "answer" in sections else f"your thought with {self.task.grammar.expected}"
        return " | ".join([*(["TOOL NAME=VALUE ..."] if self.tools else []), answer, lines])

    def standing(self) -> str:
        """Returns whether the answer was correct, and the correct one if not."""
        if not self.over:
            return ""
        return "Right." if self.info["success"] else f"Lost. {self.what_was_right()}".strip()

    def what_was_right(self) -> str:
        """Returns the correct answer, the reason, and the location of the evidence."""
        sample = self.state.sample
        boxes = [evidence.box for evidence in sample.evidence if evidence.image == 0]
        seen = [f"page {page}" for page in sample.evidence_pages]
        if not seen and self.task.strategy.has_tools:
            seen = [zoom_call(image_names(sample)[0], box) for box in regions(boxes, 1)] if boxes else []
        where = f"Seen with: {' and '.join(seen)}" if seen else ""
        return " ".join(filter(None, (super().what_was_right(), sample.facts, where)))


def _described(tool: Tool[Any]) -> list[str]:
    arguments = json_schema(tool.arguments)["properties"].items()
    return [
        f"{_usage(tool)}: {tool.description}",
        *(f"  {name}: {schema['description']}" for name, schema in arguments if "description" in schema),
    ]


def _usage(tool: Tool[Any]) -> str:
    return " ".join([tool.name, *(f"{name}=..." for name in tool.arguments.model_fields)])


def _answer_fault(text: str, key: AnswerKey) -> str:
    """Returns why a text cannot be an answer of its kind; empty if it can."""
    numbers = key.kind == "number" and all(stated_number(truth) is not None for truth in key.answers)
    if key.kind == "choice" and chosen_letter(text, key) is None:
        expected = f"one of {' '.join(options_of(key)) or 'the letters'}"
    elif numbers and stated_number(text) is None:
        expected = "a number, such as 3"
    elif key.kind == "verdict" and stated_verdict(text) is None:
        expected = "a verdict, as the question offers them"
    else:
        return ""
    return f"The answer is {expected}; got {text!r}."
