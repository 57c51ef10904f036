"""A person's episode in one world, and the keys and lines it is played with."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TextIO

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

KEYMAPS: tuple[Mapping[str, str], ...] = (
    {
        "Up": "Up", "Down": "Down", "Left": "Left", "Right": "Right",
        "w": "Up", "s": "Down", "a": "Left", "d": "Right",
    },
    {
        "Up": "moveahead", "Down": "moveback", "Left": "rotateleft", "Right": "rotateright",
        "w": "moveahead", "s": "moveback", "a": "moveleft", "d": "moveright",
        "Prior": "lookup", "Next": "lookdown", "i": "lookup", "k": "lookdown",
    },
)  # fmt: skip
"""Key to action, for worlds that have these actions. Keys are named as in `vlm_envs.cli.session`; Prior is page up."""


class Session:
    """One world played by a person, level after level.

    People explore: limits on turns and actions apply only where `kwargs` sets them. The others are lifted after the
    world is made, so the levels are those an agent gets.

    Args:
        env_id: A registered id.
        seed: Seed of the first level; the next level has the next seed.
        level: Level text to play instead of a generated one.
        **kwargs: Arguments of the world.

    Raises:
        ConfigError: If the world is unknown or does not take the arguments.
        LevelError: If the level cannot be read.
    """

    def __init__(self, env_id: str, *, seed: int = 0, level: str | None = None, **kwargs: Any) -> None:
        self.env_id = env_id
        self.world: World[Any, Any] = _for_a_person(env_id, {"format_reward": 0.0, **kwargs})
        usual = {name: getattr(self.world, name) for name in NO_LIMITS}
        own = {name: limit for name, limit in usual.items() if name in kwargs}
        self.limits = (
            f"Limits: {_listed(own)}; there are no others."
            if own
            else f"There is no limit on turns and actions. Agents have {_listed(usual)}; --set gives you limits, too."
        )
        for name, limit in {**NO_LIMITS, **own}.items():
            setattr(self.world, name, limit)
        self.seed, self.level = seed, level
        self.num_restarts = 0
        self.restart()

    def restart(self) -> None:
        """Starts the same level again."""
        options = None if self.level is None else {"level": self.level}
        self.observation, self.info = self.world.reset(seed=self.seed, options=options)
        self._start = self.world.state
        self.num_restarts += 1
        self.fewest_actions: int | None = self.world.optimal_actions_left()
        self.num_actions = 0
        self.reward = self.total = 0.0
        self.terms: dict[str, float] = {}
        self.over = False
        self.note = ""

    def next_level(self) -> None:
        """Starts the level of the next seed; a level given as text is left behind."""
        self.seed += 1
        self.level = None
        self.restart()

    def follow(self, command: Command) -> None:
        """Carries out a request, other than to leave."""
        if command.ask is Ask.RESET:
            self.restart()
        elif command.ask is Ask.NEXT:
            self.next_level()
        else:
            self.act(command.answer)

    def act(self, typed: str) -> None:
        """Carries out actions as the grammar reads them, e.g. `"Up, Left"`; what cannot be read is told in `note`."""
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
        self.took_turn()

    def read(self, typed: str) -> str | None:
        """Returns the whole response that a line stands for, or None after `note` was set: no turn is taken."""
        response = self._response(typed)
        world = self.world
        parsed = read_response(
            response, world.turn_format, world.task.grammar, world.max_actions_per_turn, world.reading
        )
        if parsed.num_actions_cut:
            most = world.max_actions_per_turn
            self.note = f"That is {most + parsed.num_actions_cut} actions; a turn has at most {most}. Nothing was done."
            return None
        if parsed.error is None or (world.reading == "lenient" and parsed.actions):
            return response
        self.note = f"{parsed.error}. Nothing was done."
        return None

    def took_turn(self) -> None:
        """Notes how a turn went."""
        self.note = "" if self.info["action_effective"] else "Nothing moved."

    def keys(self) -> Mapping[str, str]:
        """Returns what each key stands for, as it would be typed; empty where no key stands for an action."""
        names = set(self.world.task.action_names or ())
        return next((keymap for keymap in KEYMAPS if set(keymap.values()) <= names), {})

    @property
    def needs_no_line(self) -> bool:
        """Whether every action has a key."""
        return bool(self.keys()) and set(self.keys().values()) == set(self.world.task.action_names or ())

    def _response(self, typed: str) -> str:
        """Returns a whole response in the format expected now, without thoughts, around what a person typed."""
        turn_format = self.world.turn_format
        return turn_format.write(dict.fromkeys(turn_format.sections, "") | {turn_format.action_sections[0]: typed})

    @property
    def picture(self) -> npt.NDArray[np.uint8]:
        """What is seen now, uint8[H, W, 3]; several pictures side by side."""
        return self.world.view.image(self.world.state)

    def state_lines(self) -> list[str]:
        """Returns the state in words, as far as the mode shows it."""
        if "text" in self.world.obs_mode:
            return str(self.info["state_text"]).splitlines()
        return self.world.true_description.splitlines() if "description" in self.world.obs_mode else []

    def told(self) -> list[str]:
        """Returns what the task tells the player of this level and of how it stands, line by line."""
        task, state = self.world.task, self.world.state
        return "\n".join(filter(None, (task.instruction(state), task.hint(state)))).splitlines()

    def opening(self) -> list[str]:
        """Returns what to show once, at the start: the goal, the rules, and the limits."""
        task = self.world.task
        return [f"{task.name}. {task.goal}", *task.rules, self.limits]

    def drawn_in_words(self) -> list[str]:
        """Returns the state for terminals without colors: symbols or words, as far as the world has them.

        Words that `state_lines` shows are left out.
        """
        world = self.world
        if "symbolic" in world.task.representations:
            return world.dynamics.dump(world.state).splitlines()
        lines = world.view.describe(world.state, world.representation).splitlines()
        return [] if lines == self.state_lines() else lines

    def status(self) -> list[str]:
        """Returns what to show under the picture: three lines."""
        terms = ", ".join(f"{name} {value:+g}" for name, value in self.terms.items() if value)
        max_turns = self.world.max_turns
        turn = f"turn {self.info['turn']}{f' of {max_turns}' if max_turns != NO_LIMITS['max_turns'] else ', no limit'}"
        return [
            f"{self.env_id}  {'own level' if self.level else f'seed {self.seed}'}  {turn}  actions {self.num_actions}",
            f"reward {self.reward:+.1f}{f' ({terms})' if terms else ''}  total {self.total:+.1f}",
            "  ".join(filter(None, (self.standing(), self.note))),
        ]

    def reminder(self) -> list[str]:
        """Returns what to show of `told` when nothing has been asked anew."""
        return self.told()

    def help(self) -> str:
        """Returns what can be typed."""
        return f"r again, n next level, q quit; or actions: {self.world.task.grammar.expected}"

    @property
    def can_zoom(self) -> bool:
        """Whether a region of the picture can be asked for now."""
        return False

    def key_help(self) -> str:
        """Returns what keys do, where there are any."""
        return "arrows move" if self.keys() else ""

    def standing(self) -> str:
        """Returns how far the goal is, in one sentence."""
        if self.info["success"]:
            best = "" if self.fewest_actions is None else f"; the fewest possible are {self.fewest_actions}"
            return f"Solved with {self.num_actions} actions{best}."
        if self.over:
            return f"Lost. {self.what_was_right()}".strip()
        left = self.world.optimal_actions_left()
        if left is None:
            return "" if self.fewest_actions is None else "It can no longer be solved."
        return f"At least {left} action{'s' * (left != 1)} to go."

    def what_was_right(self) -> str:
        """Returns what would have been right from the start; empty where no planner knows."""
        try:
            plan = self.world.dynamics.plan(self._start)
        except SolverLimitError:
            return ""
        return f"Right would have been: {self.world.task.solution(self._start, plan)}." if plan else ""


def _listed(limits: Mapping[str, int | None]) -> str:
    return ", ".join(f"{name}={limit}" for name, limit in limits.items() if limit is not None) or "none"


def _for_a_person(env_id: str, kwargs: dict[str, Any]) -> World[Any, Any]:
    """Returns a world that asks for no thoughts, where it has such a strategy."""
    world = make_world(env_id, **kwargs)
    if "prompt_format" in kwargs or "no_think" not in world.task.formats:
        return world
    world.close()
    return make_world(env_id, prompt_format="no_think", **kwargs)


try:
    import termios
    import tty
except ImportError:  # Windows has neither; lines are read there.
    HAS_KEYS = False
else:
    HAS_KEYS = True


class Ask(Enum):
    """What a person can ask for besides acting."""

    ACT = "act"
    RESET = "r"
    NEXT = "n"
    QUIT = "q"


@dataclass(frozen=True)
class Command:
    """One request.

    Attributes:
        ask: What is asked for.
        answer: With `Ask.ACT`, the actions as the world's grammar reads them.
    """

    ask: Ask
    answer: str = ""


NAMED_KEYS: dict[str, str] = {
    "\x1b[A": "Up", "\x1bOA": "Up",
    "\x1b[B": "Down", "\x1bOB": "Down",
    "\x1b[C": "Right", "\x1bOC": "Right",
    "\x1b[D": "Left", "\x1bOD": "Left",
    "\x1b[5~": "Prior", "\x1b[6~": "Next",
    "\r": "Return", "\n": "Return", "\x7f": "BackSpace", "\x08": "BackSpace", "\x15": "clear",
}  # fmt: skip
"""What terminals send to the key's name, which is tkinter's. They send the arrows in one of two forms."""

CONTROL_KEYS: dict[str, Ask] = {
    "r": Ask.RESET, "n": Ask.NEXT, "q": Ask.QUIT, "\x03": Ask.QUIT, "\x04": Ask.QUIT
}  # fmt: skip

ESCAPE_WAIT_S = 0.05
"""An arrow's remaining bytes arrive within this time; a lone Escape has none."""

_MAX_ESCAPE_BYTES = 8


def command_of(line: str) -> Command | None:
    """Returns what a line asks for: `r`, `n`, `q`, or anything else as actions; None for a blank one."""
    text = line.strip()
    if text in (Ask.RESET.value, Ask.NEXT.value, Ask.QUIT.value):
        return Command(Ask(text))
    return Command(Ask.ACT, text) if text else None


def from_lines(stream: TextIO) -> Iterator[Command]:
    """Yields one command a line: `r`, `n`, `q`, or actions. Blank lines are skipped; the end means quit."""
    yield from filter(None, map(command_of, stream))


def from_keys(descriptor: int, keymap: Mapping[str, str]) -> Iterator[Command]:
    """Yields one command a key press; other keys are ignored.

    Args:
        descriptor: File descriptor of a terminal in raw mode; see `raw_keys`.
        keymap: Key to action.

    Yields:
        Commands until the input ends.
    """
    while key := _read_key(descriptor):
        name = key.lower() if len(key) == 1 else key
        if name in CONTROL_KEYS:
            yield Command(CONTROL_KEYS[name])
        elif name in keymap:
            yield Command(Ask.ACT, keymap[name])


def from_editor(
    descriptor: int, keymap: Callable[[], Mapping[str, str]], echo: Callable[[str], None]
) -> Iterator[Command]:
    """Yields one command a line that is typed, and one a key of the keymap while the line is empty.

    Args:
        descriptor: File descriptor of a terminal in raw mode; see `raw_keys`.
        keymap: Gives key to action as it is now; only keys with names longer than a character count.
        echo: Shows the line as it is so far.

    Yields:
        Commands until the input ends.
    """
    line, last = "", ""
    while key := _read_key(descriptor):
        typed = keymap().get(key, "") if len(key) > 1 and not line else ""
        if key in CONTROL_KEYS and not key.isprintable():
            yield Command(Ask.QUIT)
        elif typed:
            yield Command(Ask.ACT, typed)
        elif key == "Return":
            command, last, line = command_of(line), line or last, ""
            if command is not None:
                yield command
        else:
            line = _edited(line, key, last)
        echo(line)


def _edited(line: str, key: str, last: str) -> str:
    """Returns a line after a key: a character more or less, none, or the last line again."""
    if key == "Up" and not line:
        return last
    if key == "BackSpace":
        return line[:-1]
    if key == "clear":
        return ""
    return line + key if len(key) == 1 and key.isprintable() else line


@contextlib.contextmanager
def raw_keys(descriptor: int) -> Iterator[None]:
    """Makes a terminal hand over every key at once, unechoed; restores it afterwards whatever happens."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _read_key(descriptor: int) -> str:
    """Returns one key by name, or the character it types; an empty string at the end of the input."""
    key = os.read(descriptor, 1)
    if key == b"\x1b":
        while len(key) < _MAX_ESCAPE_BYTES and not _is_whole(key) and _has_more(descriptor):
            key += os.read(descriptor, 1)
    else:
        for _ in range(_num_following(key)):
            key += os.read(descriptor, 1)
    text = key.decode(errors="replace")
    return NAMED_KEYS.get(text, text)


def _is_whole(sequence: bytes) -> bool:
    """Returns whether an escape sequence is over: at a letter or a tilde behind its bracket."""
    return len(sequence) > 2 and (sequence[-1:].isalpha() or sequence.endswith(b"~"))


def _has_more(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], ESCAPE_WAIT_S)[0])


def _num_following(first: bytes) -> int:
    """Returns how many bytes of a character in UTF-8 follow its first."""
    return next((count for count, least in ((3, b"\xf0"), (2, b"\xe0"), (1, b"\xc0")) if first >= least), 0)
