"""The base of every question-answering world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from vlm_envs.errors import ConfigError, require_choice, require_flag
from vlm_envs.qa.context import QAContext
from vlm_envs.qa.dynamics import QADynamics
from vlm_envs.qa.sample import SampleSource
from vlm_envs.qa.sources import OpenDataset, chosen_source
from vlm_envs.qa.state import Act, QAState
from vlm_envs.qa.strategy import Strategy
from vlm_envs.qa.task import QATask
from vlm_envs.qa.view import QAView
from vlm_envs.tools.upscale import LanczosUpscaler
from vlm_envs.tools.zoom import ZoomSettings
from vlm_envs.world import World

DEFAULT_CROPS = ZoomSettings(upscaler=LanczosUpscaler())
"""How regions are cut out: enlarged by the default super-resolution agent."""


class QAWorld(World[QAState, Act]):
    """Asks one question; the agent looks as its strategy allows, and answers.

    Args:
        name: What kind of question, for prompts.
        goal: One sentence.
        generated: Where questions come from unless another place is named; None where it has to be.
        open_dataset: Opens a user's copy of a data set, in place of it; None where there are none.
        source: A source in place of it, or `"module:factory"` of one.
        dataset: Name of a data set.
        folder: Where the user's copy of it is.
        is_benchmark: Whether all of that is the split `test`; None for what it was published as.
        train_on_all: Whether all of it is the split `train`; evaluations are of another data set then.
        context: What is laid before the agent.
        strategies: The strategies this world has, by name.
        prompt_format: Name of one of them.
        task_type: What asks and reports, `QATask` or a class that inherits from it.
        crops: How a strategy that has regions enlarged has them cut out; one that magnifies enlarges them all.
        answer_reward: Reward of a right answer.
        boxes: Whether it is known where things are; False for questions such as of data sets that nobody annotated.
        max_turns: Turns; None for the strategy's own number.
        format_reward: Paid each turn whose response is in the format. 0 here, for an agent that is paid by the turn
            asks as often as it may.
        **world_kwargs: As in `World`.

    Raises:
        ConfigError: If an argument is not usable.
    """

    view_type: ClassVar[type[QAView]] = QAView
    """What shows an episode and tells the truth about it."""

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
                f"A turn is one look or one answer, so max_actions_per_turn is 1; got {max_actions_per_turn!r}."
            )
        strategy = strategies[require_choice("prompt_format", prompt_format, tuple(strategies))]
        if strategy.has_tools and context.coordinates == "pixels":
            raise ConfigError(
                f"prompt_format={prompt_format!r} calls a zoom tool whose boxes are thousandths; got "
                f"coordinates='pixels'. Use coordinates='thousandths' or None{_other_formats(strategies)}."
            )
        if strategy.magnifies:
            # No more of a crop is shown than the budget, so that no more of it is worth enlarging.
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


def _other_formats(strategies: Mapping[str, Strategy]) -> str:
    """Returns the end of a sentence with the strategies that accept pixels."""
    names = [repr(name) for name, strategy in strategies.items() if not strategy.has_tools]
    return f", or prompt_format={' or '.join(names)}" if names else ""
