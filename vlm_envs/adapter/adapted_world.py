"""Adapted worlds: dynamics, view, and task of a live Gymnasium environment."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from vlm_envs.adapter.adapted_actions import Action
from vlm_envs.adapter.adapter_settings import SETTINGS, AdapterSettings
from vlm_envs.adapter.simulator import AdaptedState, Simulator, notice
from vlm_envs.errors import GenerationError, LevelError
from vlm_envs.parts import Dynamics, Task
from vlm_envs.splits import SPLIT_SEEDS, split_of
from vlm_envs.validation import require
from vlm_envs.world import World

MAX_TRIES = 2_000
"""Maximum number of seeds tried for a level of a split."""
MAX_SEED = 2**31 - 1
FORMAT_REWARD = 0.02
"""With the default 20 turns this adds up to 0.4, less than the reward of a solved MiniGrid episode."""


class AdaptedDynamics(Dynamics[AdaptedState, Action]):
    """States are seeds and actions. All randomness comes from the environment's seed, none from the world's."""

    steps_are_cheap = False

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.splits_differ = simulator.splits_differ

    def generate(self, rng: np.random.Generator, split: str) -> AdaptedState:
        """Returns the start state of the first drawn seed that belongs to a split."""
        owned = SPLIT_SEEDS[split]
        for _ in range(MAX_TRIES):
            state = self.simulator.start(int(rng.integers(owned.start, owned.stop)))
            if not self.splits_differ or split_of(state.outcome.digest) == split:
                return state
        raise GenerationError(
            f"{self.simulator.settings.env}: none of {MAX_TRIES} seeds gave a level of split {split!r}. Use another "
            "split."
        )

    def load(self, level: str) -> AdaptedState:
        """Returns the state reached by a seed and actions."""
        try:
            data = json.loads(level)
            seed, values = data["seed"], data["actions"]
            is_level = type(seed) is int and 0 <= seed <= MAX_SEED and isinstance(values, list) and len(data) == 2
        except (ValueError, RecursionError, TypeError, KeyError):
            is_level = False
        if not is_level:
            raise LevelError(
                f"A level must be JSON with a seed from 0 to {MAX_SEED} and a list of actions, such as "
                f'{{"seed": 5, "actions": []}}; got {level[:60]!r}.'
            )
        actions = [self._loaded(action) for action in values]
        state = self.simulator.start(seed)
        for number, action in enumerate(actions):
            if state.outcome.is_last:
                raise LevelError(f"The episode of seed {seed} ends after {number} of {len(actions)} actions.")
            state = self.simulator.step(state, action)
        return state

    def _loaded(self, value: object) -> Action:
        texts = self.simulator.texts
        action = texts.action_of(value) if isinstance(value, str) == bool(texts.names) else None
        if action is None:
            raise LevelError(f"A level contains the action {str(value)[:60]!r}; expected {texts.expected}.")
        return action

    def dump(self, state: AdaptedState) -> str:
        """Returns the seed and the actions as JSON."""
        texts = self.simulator.texts
        actions = [texts.write(action) if texts.names else action for action in state.actions]
        return json.dumps({"seed": state.seed, "actions": actions}, ensure_ascii=False)

    def level_split(self, level: str) -> str | None:
        """Returns the split of the first observation or, if splits are not separated by content, of the seed."""
        state = self.load(level)
        if self.splits_differ:
            return split_of(self.simulator.start(state.seed).outcome.digest)
        return next((split for split, seeds in SPLIT_SEEDS.items() if state.seed in seeds), None)

    def level_key(self, state: AdaptedState) -> bytes:
        """Returns a hash of observation and image, and of the seed if these cannot distinguish levels."""
        digest = hashlib.blake2b(state.outcome.digest, digest_size=16)
        digest.update(self.simulator.image(state).tobytes())
        return digest.digest() + (b"" if self.splits_differ else str(state.seed).encode())

    def step(self, state: AdaptedState, action: Action, rng: np.random.Generator) -> tuple[AdaptedState, bool]:
        """Returns the next state, and whether its observation differs or is the last."""
        after = self.simulator.step(state, action)
        return after, after.outcome.digest != state.outcome.digest or after.outcome.is_last

    def is_success(self, state: AdaptedState) -> bool:
        """Returns whether the success rule holds."""
        return state.outcome.success

    def is_over(self, state: AdaptedState) -> bool:
        """Returns whether the environment terminated."""
        return state.outcome.terminated

    def is_out_of_time(self, state: AdaptedState) -> bool:
        """Returns whether the environment truncated the episode."""
        return state.outcome.truncated

    def close(self) -> None:
        """Closes the environment."""
        self.simulator.close()


class PlannedDynamics(AdaptedDynamics):
    """Adapted dynamics with a planner."""

    def plan(self, state: AdaptedState) -> tuple[Action, ...] | None:
        """Returns the plan of the `plan` function."""
        return self.simulator.plan(state)


class AdaptedTask(Task[AdaptedState, Action]):
    """Goal, actions, and the environment's own reward."""

    representations = ("natural_language",)
    representation_help = MappingProxyType({"natural_language": "Describe states in sentences."})

    def __init__(self, simulator: Simulator) -> None:
        settings, known = simulator.settings, simulator.known
        self.simulator = simulator
        self.name = settings.title
        self.goal = settings.goal or known.goal or "Earn as much reward as possible."
        self.rules = tuple(settings.rules)
        self.grammar = simulator.texts.grammar
        self.action_names = tuple(simulator.texts.names) or None

    def write_action(self, action: Action) -> str:
        """Returns the name of an action, or its numbers in brackets."""
        return self.simulator.texts.write(action)

    def reward_terms(self, state: AdaptedState, next_state: AdaptedState, *, success: bool) -> dict[str, float]:
        """Returns the environment's reward for the action."""
        return {"env": next_state.outcome.reward}

    def noop_terms(self) -> dict[str, float]:
        """Returns a reward of 0, since the environment is not stepped."""
        return {"env": 0.0}

    def best_return(self, state: AdaptedState, num_actions: int) -> float:
        """Returns the return of carrying out the plan."""
        reached = state
        for action in self.simulator.plan(state) or ():
            reached = self.simulator.step(reached, action)
        return reached.outcome.total - state.outcome.total

    def hint(self, state: AdaptedState) -> str:
        """Returns the texts of the observation and the allowed actions."""
        return state.outcome.hint

    def metrics(self, state: AdaptedState) -> dict[str, float]:
        """Returns the sum of the environment's rewards."""
        return {"env_return": state.outcome.total}

    def sample_action(self, state: AdaptedState, rng: np.random.Generator) -> Action:
        """Returns a random action, one of the allowed actions if the environment lists them."""
        return self.simulator.texts.sample(rng, state.outcome.allowed)


class AdaptedWorld(World[AdaptedState, Action]):
    """A Gymnasium environment as a world; `vlm_envs.adapt` registers one.

    Args:
        env: Id of the environment. The arguments up to `image_px` are explained in `vlm_envs.adapt`.
        actions: Names of actions.
        goal: One sentence.
        rules: Further sentences.
        success: Criterion of success.
        describe: State in words.
        plan: Optimal plan.
        hint: Entries of the observation that are shown as text.
        make: Arguments of `gymnasium.make`.
        image_px: Longer side of images.
        prompt_format: See `World`; `"free_think"` by default, as there may be no words for states.
        obs_mode: See `World`; only `"image"` without `describe`.
        max_turns: Turns before the episode is truncated.
        max_actions_per_turn: Actions carried out per turn.
        format_reward: See `World`. It must be small compared with the environment's own reward, since every
            turn earns it.
        **world_kwargs: Other arguments of `World`.

    Raises:
        ConfigError: If an argument is not valid.
        EngineUnavailableError: If a package that the environment needs is missing.
    """

    def __init__(
        self,
        *,
        env: str,
        actions: Mapping[str, Any] | Sequence[str] | None = None,
        goal: str = "",
        rules: Sequence[str] = (),
        success: str | float | Callable[..., bool] | None = None,
        describe: str | Callable[[Any], str] | None = None,
        plan: str | Callable[[Any], Iterable[Any] | None] | None = None,
        hint: Sequence[str] | None = None,
        make: Mapping[str, Any] | None = None,
        image_px: int | None = None,
        prompt_format: str | None = "free_think",
        obs_mode: str = "image",
        max_turns: int = 20,
        max_actions_per_turn: int = 5,
        format_reward: float = FORMAT_REWARD,
        **world_kwargs: Any,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name in SETTINGS}
        simulator = Simulator(AdapterSettings(**arguments))
        super().__init__(
            (PlannedDynamics if simulator.plan_function else AdaptedDynamics)(simulator),
            simulator,
            AdaptedTask(simulator),
            prompt_format=prompt_format,
            obs_mode=obs_mode,
            max_turns=max_turns,
            max_actions_per_turn=max_actions_per_turn,
            format_reward=format_reward,
            **world_kwargs,
        )
        require(
            self.obs_mode == "image" or simulator.describe_function is not None,
            f"obs_mode={self.obs_mode!r} shows states in words, for which {env} needs describe=...: a "
            "function that takes the environment and returns a text. Use obs_mode='image', or add it.",
        )
        self.set_picture_shape(simulator.image_shape)
        most = min(self.max_turns * self.max_actions_per_turn, self.max_steps or math.inf)
        needed = simulator.actions_to_success
        if most < needed:
            enough = max(needed, simulator.time_limit)
            is_limit = simulator.succeeds_at_time_limit
            shorter = f", or shorten the environment's episodes: max_episode_steps={most} in make" * is_limit
            notice(
                f"Success in {env} {'may take' if is_limit else 'takes about'} {needed} actions, but an episode here "
                f"has at most {most}. Set max_turns={math.ceil(enough / self.max_actions_per_turn)} or "
                f"max_actions_per_turn={math.ceil(enough / self.max_turns)}{shorter}."
            )
