"""The base class of all worlds: three small parts, composed by one class that provides everything shared.

A world's author writes *dynamics* (states and transitions), a *view* (state to image and to words), and a
*task* (goal, syntax of actions, rewards). `World` provides prompts, response formats, parsing, the format
reward, limits, truncation, splits, and `info`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, cast

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vlm_envs.errors import ConfigError, EpisodeOverError, SolverLimitError
from vlm_envs.parts import ActionT, Dynamics, StateT, Task, View
from vlm_envs.registration import WorldType
from vlm_envs.responses.formats import (
    PromptSpec,
    ResponseFormat,
    first_prompt,
    format_reminder,
    next_prompt,
    turn_prompt,
)
from vlm_envs.responses.parsing import READINGS, ParsedResponse, read_response
from vlm_envs.spaces import MAX_SIDE_PX, FreeText, Pictures
from vlm_envs.splits import SPLITS, seed_index
from vlm_envs.trajectory import Observation, require_image
from vlm_envs.validation import require, require_choice, require_finite, require_flag, require_positive

SEEN = "observation"
"""The section in which a model describes what it sees, in strategies that have one."""

OPTIMAL_ACTIONS_LEFT = "optimal_actions_left"
"""The key of `info` for episodes reset with the option `"optimal_actions"`, if the number is known."""

RESET_OPTIONS = ("level", "optimal_actions")

OBS_MODES = ("image", "text", "image+text", "image+description")

DESCRIBED = "A true description of what is shown:"
"""Precedes the description in the mode "image+description"."""


def _chosen(what: str, value: str | None, choices: Iterable[str], usual: str) -> str:
    """Returns the given value, or the usual default if available; errors never mention a value that was not set."""
    known = list(choices)
    return require_choice(what, (usual if usual in known else known[0]) if value is None else value, known)


class World(gym.Env[Observation, str], Generic[StateT, ActionT], metaclass=WorldType):
    """A Gymnasium environment whose observations are images and text, and whose actions are whole model responses.

    Args:
        dynamics: States and transitions.
        view: State to image and words.
        task: Goal, action grammar, and rewards.
        prompt_format: Reasoning strategy, a key of the task's `formats`; None for `"grounding_worldmodeling"`
            or, if the task has no such strategy, its first.
        representation: How the state is written in words; None for `"natural_language"` or, if the task lacks
            it, its first representation.
        obs_mode: `"image"`, `"text"`, `"image+text"`, or `"image+description"`. `"text"` and `"image+text"`
            add the true state to the observation, in words of `representation`; `"image+description"` adds a
            description of everything visible in the image, with a note that it is true.
        split: Levels of `"train"`, `"val"`, or `"test"`.
        max_turns: Turns before the episode is truncated.
        max_actions_per_turn: Actions carried out per turn.
        max_steps: Actions before the episode is truncated; None for no limit other than the turns.
        format_reward: Reward for each turn whose response is in the format.
        prompt_example: Whether the first prompt shows how the state is written (pretrained models need it).
        system_prompt: Whether the instructions are a system message, `system` of the first observation, whose
            text is then limited to the level and the current turn; `system` is empty from the second turn on.
        format_reminder: Whether every observation ends with instructions on how to respond, as VAGEN's do
            (Appendix B), except at the end of the episode.
        reading: How actions are read. `"strict"` executes only actions of responses in the format;
            `"lenient"` also executes those of the last complete `<answer>` in any other response. The format
            reward, `format_correct`, and `parse_error` do not depend on it. See `vlm_envs.responses.parsing`.
        render_mode: None, `"rgb_array"`, or `"ansi"`.

    Raises:
        ConfigError: If an argument is not valid.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        dynamics: Dynamics[StateT, ActionT],
        view: View[StateT],
        task: Task[StateT, ActionT],
        *,
        prompt_format: str | None = None,
        representation: str | None = None,
        obs_mode: str = "image",
        split: str = "train",
        max_turns: int = 3,
        max_actions_per_turn: int = 3,
        max_steps: int | None = None,
        format_reward: float = 0.5,
        prompt_example: bool = True,
        system_prompt: bool = False,
        format_reminder: bool = False,
        reading: str = "strict",
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            require_choice("render_mode", render_mode, self.metadata["render_modes"])
        lacking = [name for name in Task.__annotations__ if not hasattr(task, name)]
        require(
            not lacking,
            f"{type(task).__module__}.{type(task).__name__} lacks {', '.join(lacking)}, which every task needs. "
            "vlm_envs.parts.Task describes them; docs/own-world.md shows an example.",
        )
        self.dynamics, self.view, self.task = dynamics, view, task
        self.prompt_format = _chosen("prompt_format", prompt_format, task.formats, "grounding_worldmodeling")
        self.response_format = task.formats[self.prompt_format]
        self.representation = _chosen("representation", representation, task.representations, "natural_language")
        self.obs_mode = require_choice("obs_mode", obs_mode, OBS_MODES)
        self.split = require_choice("split", split, SPLITS)
        self.max_turns = require_positive("max_turns", max_turns)
        self.max_actions_per_turn = require_positive("max_actions_per_turn", max_actions_per_turn)
        self.max_steps = None if max_steps is None else require_positive("max_steps", max_steps)
        wants_example = require_flag("prompt_example", prompt_example)
        self.system_prompt = require_flag("system_prompt", system_prompt)
        self.format_reminder = require_flag("format_reminder", format_reminder)
        self.reading = require_choice("reading", reading, READINGS)
        self.format_reward = require_finite("format_reward", format_reward)
        self.render_mode = render_mode
        self.prompt_spec = PromptSpec(
            task=task,
            response_format=self.response_format,
            state_help=task.representation_help[self.representation] if wants_example else "",
            max_actions_per_turn=self.max_actions_per_turn,
            max_turns=self.max_turns,
        )
        self.action_space = FreeText()
        self._observation_space: spaces.Space[Observation] | None = None
        self._state: StateT | None = None
        self._turn = self._num_steps = 0
        self._level_index = -1
        self._over = True
        self._counts_optimal_actions = False
        self._optimal_actions: dict[StateT, int | None] = {}
        self._drawn_levels: tuple[StateT, ...] = ()

    def set_picture_shape(self, image_shape: tuple[int, int, int] | None) -> None:
        """Sets `observation_space`; a world's constructor calls this when it knows the size of its images.

        Args:
            image_shape: (height, width, 3) of the single image of every observation; None for several of any
                size.

        Raises:
            ConfigError: If a side is longer than `MAX_SIDE_PX`.
        """
        if image_shape is not None and self.obs_mode != "text" and max(image_shape) > MAX_SIDE_PX:
            raise ConfigError(
                f"Images of {self.task.name} would have {image_shape[0]} x {image_shape[1]} pixels; at most "
                f"{MAX_SIDE_PX} per side are allowed. Use a smaller world or smaller images."
            )
        parts: dict[str, spaces.Space[Any]] = {"text": FreeText()}
        if self.system_prompt:
            parts["system"] = FreeText()
        if self.obs_mode != "text":
            one = None if image_shape is None else spaces.Box(0, 255, image_shape, np.uint8)
            parts |= {"images": Pictures()} if one is None else {"image": one}
        self.observation_space = cast("spaces.Space[Observation]", spaces.Dict(parts))

    @property
    def observation_space(self) -> spaces.Space[Observation]:
        """The space of observations, set by `set_picture_shape`.

        Raises:
            ConfigError: If the constructor has not called it.
        """
        if self._observation_space is None:
            raise ConfigError(
                f"{type(self).__name__} has no observation space. Call self.set_picture_shape((height, width, 3)), or "
                "self.set_picture_shape(None) for several images, at the end of its constructor."
            )
        return self._observation_space

    @observation_space.setter
    def observation_space(self, space: spaces.Space[Observation]) -> None:
        self._observation_space = space

    @cached_property
    def _first_prompt(self) -> str:
        return first_prompt(self.prompt_spec)

    @property
    def shows_several(self) -> bool:
        """Whether observations contain `images` instead of one `image`."""
        return "images" in cast("spaces.Dict", self.observation_space).spaces

    @property
    def num_levels(self) -> int | None:
        """Number of levels in the split if they are listed (val and test of a dataset); None if they are generated."""
        return self.dynamics.num_levels(self.split)

    @property
    def turn_format(self) -> ResponseFormat:
        """The tags of the response that is expected now."""
        return self.response_format.at(self._turn)

    @property
    def state(self) -> StateT:
        """The true state.

        Raises:
            EpisodeOverError: If the world was never reset.
        """
        if self._state is None:
            raise EpisodeOverError("The world has no state yet; call reset(seed=...) first.")
        return self._state

    @property
    def true_description(self) -> str:
        """Description of exactly what is visible in the image, for any `representation`; empty if there is none."""
        exact = "structured" if "structured" in self.task.representations else self.representation
        return self.view.true_description(self.state, exact)

    @property
    def seen_sections(self) -> dict[str, str]:
        """The true text of each section in which a response describes what it sees; empty if the format has none.

        This is the section `observation`, or another one for which the task's `seen_sections` returns a text.
        """
        return self._seen_sections(self.view.describe(self.state, self.representation))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode.

        If the split's levels are listed (`num_levels` is a number), seed i of the split selects level i;
        after the last one they start over. Without a seed, levels follow in order, starting with the first.

        Args:
            seed: Seed of the world's only random generator.
            options: `"level"`, the text of a level to load instead of generating one; `"optimal_actions"`,
                True to add `optimal_actions_left()` to every `info` of this episode if it is known, as
                recordings do.

        Returns:
            The first observation, including instructions, and `info`.

        Raises:
            ConfigError: If `options` has an unknown key.
            LevelError: If the level cannot be read or solved.
            GenerationError: If no level of the requested kind was found.
        """
        super().reset(seed=seed)
        options = options or {}
        for key in options:
            require_choice("A reset option", key, RESET_OPTIONS)
        level, counts = options.get("level"), options.get("optimal_actions", False)
        self._counts_optimal_actions = require_flag("options['optimal_actions']", counts)
        self._optimal_actions.clear()
        self._state = self._next_level(seed) if level is None else self.dynamics.load(level)
        self._turn = self._num_steps = 0
        self._over = False
        begin = turn_prompt(self.prompt_spec, 0) if self.system_prompt else self._first_prompt
        instruction = self.task.instruction(self._state)
        state_text = self.view.describe(self._state, self.representation)
        observation = self._observe("\n".join(filter(None, (begin, instruction))), state_text)
        return observation, self._info(ParsedResponse(), state_text, reward_terms={}, carried_out=(), effective=False)

    def draw_levels(self, num_levels: int) -> None:
        """Draws levels of the split in advance, the same ones for the same settings; resets choose among them.

        Raises:
            ConfigError: If `num_levels` is not a positive integer.
            GenerationError: If no level of the requested kind was found.
        """
        rng = np.random.default_rng(0)
        count = require_positive("num_levels", num_levels)
        self._drawn_levels = tuple(self.dynamics.generate(rng, self.split) for _ in range(count))

    def _next_level(self, seed: int | None) -> StateT:
        """Returns the level of a seed: the listed one at its index in the split, or a randomly generated one."""
        if self._drawn_levels:
            return self._drawn_levels[self.np_random.integers(len(self._drawn_levels))]
        count = self.num_levels
        if not count:  # If there are none, `generate` raises an error with the reason.
            return self.dynamics.generate(self.np_random, self.split)
        self._level_index = self._level_index + 1 if seed is None else seed_index(seed, self.split)
        return self.dynamics.level_at(self._level_index % count, self.split)

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Reads a whole response and carries out its actions.

        Args:
            action: The model's response, any string.

        Returns:
            Observation, reward, terminated (the world has ended), truncated (turns or steps are exhausted),
            info.

        Raises:
            ConfigError: If `action` is not a string.
            EpisodeOverError: If the episode is over or has not been started.
        """
        if self._over:
            raise EpisodeOverError("The episode is over; call reset() before the next step().")
        if not isinstance(action, str):
            raise ConfigError(
                "step() requires the model's whole response, a string such as "
                f"{self.turn_format.write(dict.fromkeys(self.turn_format.sections, '...'))!r}; got {action!r} of "
                "type "
                f"{type(action).__name__}."
            )
        parsed = read_response(action, self.turn_format, self.task.grammar, self.max_actions_per_turn, self.reading)
        terms, effects = self._carry_out(parsed.actions)
        if parsed.format_correct:
            terms["format"] = self.format_reward
        self._turn += 1
        terminated = self.dynamics.is_over(self.state)
        out_of_steps = self.max_steps is not None and self._num_steps >= self.max_steps
        out_of_time = out_of_steps or self.dynamics.is_out_of_time(self.state)
        truncated = not terminated and (self._turn >= self.max_turns or out_of_time)
        self._over = terminated or truncated
        names = tuple(self.task.write_action(done) for done in parsed.actions[: len(effects)])
        told = next_prompt(self.prompt_spec, self._turn, names, parsed.error, effects=effects, over=self._over)
        state_text = self.view.describe(self.state, self.representation)
        observation = self._observe(told, state_text)
        info = self._info(parsed, state_text, reward_terms=terms, carried_out=names, effective=any(effects))
        return observation, float(sum(terms.values())), terminated, truncated, info

    def _carry_out(self, actions: tuple[ActionT, ...]) -> tuple[dict[str, float], tuple[bool, ...]]:
        """Carries out a turn's actions until the world or the step budget ends.

        Returns:
            The named reward terms, and whether each action that was carried out changed anything.
        """
        terms: dict[str, float] = {} if actions else self.task.noop_terms()
        effects: list[bool] = []
        if not actions:
            self._state = self.dynamics.noop_turn(self.state)
        for action in actions:
            before = self.state
            self._state, changed = self.dynamics.step(before, action, self.np_random)
            effects.append(changed)
            self._num_steps += 1
            success = self.dynamics.is_success(self.state)
            for name, value in self.task.reward_terms(before, self.state, success=success).items():
                terms[name] = terms.get(name, 0.0) + value
            is_over = self.dynamics.is_over(self.state) or self.dynamics.is_out_of_time(self.state)
            if is_over or self._num_steps == self.max_steps:
                break
        return terms, tuple(effects)

    def _observe(self, text: str, state_text: str) -> Observation:
        """Returns the observation of the current state, with a text before its own."""
        if hint := self.task.hint(self.state):
            text = f"{text}\n{hint}"
        if "text" in self.obs_mode:
            text = f"{text}\n{state_text}"
        if self.obs_mode == "image+description" and (described := self.true_description):
            text = f"{text}\n{DESCRIBED} {described}"
        if self.format_reminder and not self._over:
            text = f"{text}\n{format_reminder(self.prompt_spec, self._turn)}"
        observation: Observation = {"text": text}
        if self.system_prompt:
            observation["system"] = "" if self._turn else self._first_prompt
        if "image" in self.obs_mode:
            several = self.view.images(self.state)
            if several is None:
                observation["image"] = require_image(self.view.image(self.state))
            else:
                observation["images"] = tuple(map(require_image, several))
            one = cast("spaces.Dict", self.observation_space).spaces.get("image")
            shape, declared = (observation["image"].shape if several is None else None), one.shape if one else None
            if shape != declared:
                raise ConfigError(
                    f"{type(self.view).__name__} draws images of shape {shape}, but the constructor of "
                    f"{type(self).__name__} calls self.set_picture_shape({declared}); None is for several images. Pass "
                    f"it {shape} if that is the shape of every observation, or change the view."
                )
        return observation

    def _seen_sections(self, state_text: str) -> dict[str, str]:
        sections = self.turn_format.sections
        if SEEN in sections:
            return {SEEN: state_text}
        return {name: text for name, text in self.task.seen_sections(self.state).items() if name in sections}

    def _info(
        self,
        parsed: ParsedResponse[ActionT],
        state_text: str,
        *,
        reward_terms: dict[str, float],
        carried_out: tuple[str, ...],
        effective: bool,
    ) -> dict[str, Any]:
        """Returns the `info` dict for a step or reset."""
        state = self.state
        cluster = self.dynamics.cluster(state)
        if not cluster and not self.dynamics.splits_differ:
            cluster = f"seed {self.np_random_seed}"  # all levels are equal, so seeds differ only by chance
        left = self.optimal_actions_left() if self._counts_optimal_actions else None
        return {
            **({"cluster": cluster} if cluster else {}),
            "success": self.dynamics.is_success(state),
            "metrics": self.task.metrics(state),
            "reward_terms": reward_terms,
            "state_text": state_text,
            "seen_sections": self._seen_sections(state_text),
            "state": self.view.structured(state),
            "representation": self.representation,
            "prompt_format": self.prompt_format,
            "reading": self.reading,
            "state_hash": hashlib.blake2b(self.dynamics.level_key(state), digest_size=8).hexdigest(),
            "action_valid": parsed.format_correct and bool(carried_out),
            "action_effective": effective,
            "actions_read": bool(parsed.actions),
            "format_correct": parsed.format_correct,
            "parse_error": parsed.error,
            "unread": parsed.unread,
            "sections": parsed.sections,
            "actions": carried_out,
            "turn": self._turn,
            **({} if left is None else {OPTIMAL_ACTIONS_LEFT: left}),
        }

    def optimal_actions_left(self) -> int | None:
        """Returns the number of actions that an optimal plan still needs.

        The planner runs only when this is called, never in `step` or `reset`, and once per state of an
        episode. Sokoban with several boxes may take seconds to reach its node limit.

        Returns:
            The number; None if no plan exists, the world has no exact planner, or the planner stopped at its
            limit (`dynamics.cost_to_go` distinguishes these cases).

        Raises:
            EpisodeOverError: If the world was never reset.
        """
        state = self.state
        try:
            if state in self._optimal_actions:
                return self._optimal_actions[state]
        except TypeError:  # Not hashable, so not cached
            return self._cost_to_go(state)
        return self._optimal_actions.setdefault(state, self._cost_to_go(state))

    def _cost_to_go(self, state: StateT) -> int | None:
        try:
            return self.dynamics.cost_to_go(state)
        except SolverLimitError:
            return None

    def write_response(self, actions: Sequence[ActionT], thoughts: Mapping[str, str] | None = None) -> str:
        """Returns a response that carries out actions, in the format expected now.

        Args:
            actions: Actions of the world's dynamics, at most as many as one turn carries out.
            thoughts: Text of the other sections, by section; omitted sections are empty, and sections this
                format does not have are ignored.
        """
        turn_format, thoughts = self.turn_format, dict(thoughts or {})
        sections = {name: "" for name in turn_format.sections if name not in turn_format.endings}
        return turn_format.write(sections | thoughts | self.task.action_sections(actions, thoughts))

    def render(self) -> npt.NDArray[np.uint8] | str | None:
        """Returns the image (`"rgb_array"`), the symbols (`"ansi"`), or None, depending on `render_mode`."""
        if self.render_mode == "rgb_array":
            return require_image(self.view.image(self.state))
        if self.render_mode == "ansi":
            return self.dynamics.dump(self.state)
        return None

    def close(self) -> None:
        """Releases engines and renderers; the world cannot be used afterwards."""
        self.dynamics.close()
        self.view.close()
        super().close()
