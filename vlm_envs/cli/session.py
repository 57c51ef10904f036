"""A person's episodes in one world, played line by line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vlm_envs.cli.named_worlds import make_world
from vlm_envs.errors import SolverLimitError
from vlm_envs.responses.parsing import read_response
from vlm_envs.world import World

MAX_ACTIONS_PER_LINE = 100
NO_LIMITS: Mapping[str, int | None] = {
    "max_turns": sys.maxsize,
    "max_steps": None,
    "max_actions_per_turn": MAX_ACTIONS_PER_LINE,
}

COMMANDS = ("r", "n", "q")
CONTROL_KEYS: Mapping[str, str] = {"r": "r", "n": "n", "q": "q", "\x03": "q", "\x04": "q"}
KEYMAPS: tuple[Mapping[str, str], ...] = (
    {
        "ArrowUp": "Up", "ArrowDown": "Down", "ArrowLeft": "Left", "ArrowRight": "Right",
        "w": "Up", "s": "Down", "a": "Left", "d": "Right",
    },
    {
        "ArrowUp": "moveahead", "ArrowDown": "moveback", "ArrowLeft": "rotateleft", "ArrowRight": "rotateright",
        "w": "moveahead", "s": "moveback", "a": "moveleft", "d": "moveright",
        "PageUp": "lookup", "PageDown": "lookdown", "i": "lookup", "k": "lookdown",
    },
)  # fmt: skip
"""Key to action, for worlds that have exactly these actions. Keys have their names in browsers."""

_ARGUMENT = re.compile(r"\s+(?=[A-Za-z_]\w*=)")


def written_response(world: World[Any, Any], typed: str) -> str:
    """Returns the response that a typed text stands for, in the format expected now and without thoughts.

    A text that contains the format's tags is a whole response. If tools can be called, `TOOL NAME=VALUE ...`
    or its JSON is a call. Any other text is an action or an answer.
    """
    expected = world.turn_format
    if any(f"<{name}>" in typed for name in expected.sections):
        return typed
    call = _tool_call(typed) if "tool_call" in expected.action_sections else ""
    section = next(name for name in expected.action_sections if (name == "tool_call") == bool(call))
    thoughts = {name: "" for name in expected.sections if name not in expected.action_sections}
    return expected.write({**thoughts, section: call or typed})


def _tool_call(typed: str) -> str:
    """Returns the JSON of a call; empty if the text is not a call."""
    if typed.lstrip().startswith("{"):
        return typed.strip()
    name, *pairs = _ARGUMENT.split(typed.strip())
    if not pairs or not name.isidentifier():
        return ""
    arguments = {key: _value(text) for key, _, text in (pair.partition("=") for pair in pairs)}
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def _value(text: str) -> Any:
    """Returns the value of JSON, or the text if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


class Session:
    """One world played by a person, level after level.

    People explore, so limits on turns and actions apply only if `kwargs` sets them. The others are removed
    after the world is created, so the levels are those an agent gets.

    Args:
        env_id: A registered id.
        seed: Seed of the first level; the next level has the next seed.
        level: Level text to play instead of a generated one.
        **kwargs: Arguments of the world.

    Raises:
        ConfigError: If the world is unknown or the arguments do not fit.
        LevelError: If the level cannot be read.
    """

    def __init__(self, env_id: str, *, seed: int = 0, level: str | None = None, **kwargs: Any) -> None:
        self.env_id = env_id
        self.world: World[Any, Any] = _for_a_person(env_id, {"format_reward": 0.0, **kwargs})
        for name, limit in NO_LIMITS.items():
            setattr(self.world, name, kwargs.get(name, limit))
        self.seed, self.level = seed, level
        self.restart()

    def restart(self) -> None:
        """Restarts the same level."""
        options = None if self.level is None else {"level": self.level}
        self.observation, self.info = self.world.reset(seed=self.seed, options=options)
        self._start = self.world.state
        self.fewest_actions: int | None = self.world.optimal_actions_left()
        self.num_actions = 0
        self.reward = self.total = 0.0
        self.terms: dict[str, float] = {}
        self.over = False
        self.note = ""

    def next_level(self) -> None:
        """Starts the level of the next seed, also after a level given as text."""
        self.seed += 1
        self.level = None
        self.restart()

    def command(self, line: str) -> str:
        """Returns the command that a line stands for, `r`, `n`, or `q`; empty for a turn.

        Until the episode is over, a line that is an action of the world is that action. `:n` is always a command.
        """
        name = line.removeprefix(":")
        return name if name in COMMANDS and not (name == line and self._is_action(line)) else ""

    def _is_action(self, line: str) -> bool:
        return not self.over and line.casefold() in map(str.casefold, self.world.task.action_names or ())

    def follow(self, line: str) -> None:
        """Carries out a line: `r` restarts, `n` starts the next level, and what is no command is a turn."""
        command = self.command(line)
        if command == "r":
            self.restart()
        elif command == "n":
            self.next_level()
        else:
            self.act(line)

    def act(self, typed: str) -> None:
        """Carries out actions as the grammar reads them, e.g. `"Up, Left"`; `note` explains any that cannot be read."""
        if self.over:
            self.note = "The episode is over: r plays it again, n the next level, q quits."
            return
        response = self.read(typed)
        if response is None:
            return
        self.observation, self.reward, terminated, truncated, self.info = self.world.step(response)
        self.over = terminated or truncated
        self.terms = self.info["reward_terms"]
        self.total += self.reward
        self.num_actions += len(self.info["actions"])
        self.note = "" if self.info["action_effective"] else "Nothing moved."

    def read(self, typed: str) -> str | None:
        """Returns the whole response that a text stands for; None, with the reason in `note`, if no turn is taken."""
        world = self.world
        response = written_response(world, typed)
        parsed = read_response(response, world.turn_format, world.task.grammar, sys.maxsize, world.reading)
        num_actions, most = len(parsed.actions), world.max_actions_per_turn
        if num_actions > most:
            fault = f"That is {num_actions} actions; a turn has at most {most}. Nothing was done."
        elif parsed.error is not None and not (world.reading == "lenient" and parsed.actions):
            fault = f"{parsed.error}. Nothing was done."
        else:
            fault = self.fault(parsed.actions)
        self.note = fault
        return None if fault else response

    def fault(self, actions: Sequence[Any]) -> str:
        """Returns why actions that can be read should not take a turn; empty if they should."""
        return ""

    def keys(self) -> Mapping[str, str]:
        """Returns the line that each key stands for; empty unless every action has a key."""
        names = set(self.world.task.action_names or ())
        keymap = next((keymap for keymap in KEYMAPS if set(keymap.values()) == names), None)
        return {**keymap, **CONTROL_KEYS} if keymap else {}

    @property
    def picture(self) -> npt.NDArray[np.uint8]:
        """The current image, uint8[H, W, 3]; several images are side by side."""
        return self.world.view.image(self.world.state)

    @property
    def pictures(self) -> list[npt.NDArray[np.uint8]]:
        """All current images, each uint8[H, W, 3]."""
        return [self.picture]

    def state_lines(self) -> list[str]:
        """Returns the state in words, as far as the mode shows it."""
        if "text" in self.world.obs_mode:
            return str(self.info["state_text"]).splitlines()
        return self.world.true_description.splitlines() if "description" in self.world.obs_mode else []

    def told(self) -> list[str]:
        """Returns the task's instruction for this level and its hint on the current state, line by line."""
        task, state = self.world.task, self.world.state
        return "\n".join(filter(None, (task.instruction(state), task.hint(state)))).splitlines()

    def opening(self) -> list[str]:
        """Returns the text to show once, at the start: the goal and the rules."""
        task = self.world.task
        return [f"{task.name}. {task.goal}", *task.rules]

    def lines(self, help_line: str, opening: Sequence[str] = ()) -> list[str]:
        """Returns the text to show: state in words if the mode has it, instruction and hint, status, and help."""
        return [*opening, *self.state_lines(), *self.told(), *self.status(), help_line]

    def drawn_in_words(self) -> list[str]:
        """Returns the state for terminals without colors: symbols or words, as far as the world has them.

        Words that `state_lines` shows are omitted.
        """
        world = self.world
        if "symbolic" in world.task.representations:
            return world.dynamics.dump(world.state).splitlines()
        lines = world.view.describe(world.state, world.representation).splitlines()
        return [] if lines == self.state_lines() else lines

    def status(self) -> list[str]:
        """Returns the three lines to show under the image."""
        terms = ", ".join(f"{name} {value:+g}" for name, value in self.terms.items() if value)
        max_turns = self.world.max_turns
        turn = f"turn {self.info['turn']}{f' of {max_turns}' if max_turns != NO_LIMITS['max_turns'] else ', no limit'}"
        return [
            f"{self.env_id}  {'own level' if self.level else f'seed {self.seed}'}  {turn}  actions {self.num_actions}",
            f"reward {self.reward:+.1f}{f' ({terms})' if terms else ''}  total {self.total:+.1f}",
            "  ".join(filter(None, (self.standing(), self.note))),
        ]

    def help(self) -> str:
        """Returns the possible inputs."""
        again, following, leave = (f":{name}" if self._is_action(name) else name for name in COMMANDS)
        commands = f"{again} again, {following} next level, {leave} quit"
        return f"{commands}; or actions: {self.world.task.grammar.expected}"

    def standing(self) -> str:
        """Returns the distance to the goal, in one sentence."""
        if self.info["success"]:
            best = "" if self.fewest_actions is None else f"; the fewest possible are {self.fewest_actions}"
            return f"Solved with {self.num_actions} actions{best}."
        if self.over:
            return f"Lost. {self.what_was_right()}".strip()
        left = self.world.optimal_actions_left()
        if left is None:
            return "It can no longer be solved." if self.fewest_actions is not None else ""
        return f"At least {left} action{'s' * (left != 1)} to go."

    def what_was_right(self) -> str:
        """Returns the correct solution from the start; empty if there is no plan."""
        try:
            plan = self.world.dynamics.plan(self._start)
        except SolverLimitError:
            return ""
        return f"Correct: {self.world.task.solution(self._start, plan)}." if plan else ""


def _for_a_person(env_id: str, kwargs: dict[str, Any]) -> World[Any, Any]:
    """Returns a world that asks for no thoughts, if it has such a strategy."""
    world = make_world(env_id, **kwargs)
    if "prompt_format" in kwargs or "no_think" not in world.task.formats:
        return world
    world.close()
    return make_world(env_id, prompt_format="no_think", **kwargs)
