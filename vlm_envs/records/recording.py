"""A wrapper that records every episode of any player, in the format that the report reads."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import gymnasium as gym

from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.records.json_lines import Record, RunExistsError
from vlm_envs.records.replay import turn_of
from vlm_envs.records.run_data import RunWriter, holds_run, slug, start_of
from vlm_envs.requirements import install_command
from vlm_envs.spaces import FreeText
from vlm_envs.statistics.success_rates import evaluated_rate
from vlm_envs.trajectory import Observation, Trajectory, Turn
from vlm_envs.world import World


class RecordEpisodes(gym.Wrapper[Observation, str, Observation, str]):
    """Records every complete episode of a world, with its images; closing it writes the number of solved ones.

    Args:
        env: A world, created by `gym.make`.
        directory: Output directory, for `python -m vlm_envs report` and `film`; must not contain a run or
            episodes. It is created when the first episode ends.
        label: Label of the episodes, for example the agent's name.

    Raises:
        ConfigError: If the environment is not a world, its actions are not text (as with
            `action_mode="discrete"`), or `directory` is a file.
        EngineUnavailableError: If the extra `records` is not installed.
        ValueError: If `label` has no letter or digit.
        RunExistsError: If the directory already contains a run.
    """

    def __init__(self, env: gym.Env[Observation, str], directory: str | Path, *, label: str = "episodes") -> None:
        super().__init__(env)
        world = env.unwrapped
        if not isinstance(world, World):
            raise ConfigError(
                "RecordEpisodes records worlds of this suite, and user-defined subclasses of vlm_envs.world.World; "
                "got "
                f"{type(world).__name__}."
            )
        if not isinstance(env.action_space, FreeText):
            raise ConfigError(
                f"RecordEpisodes records responses, which are text; this environment's actions are {env.action_space}. "
                "Record below the wrapper: DiscreteWorld(RecordEpisodes(gymnasium.make(env_id), directory))."
            )
        if importlib.util.find_spec("scipy") is None:
            raise EngineUnavailableError(
                f"RecordEpisodes needs the package scipy, which is not installed. Run: {install_command('records')}"
            )
        self._directory = Path(directory)
        if self._directory.exists() and not self._directory.is_dir():
            raise ConfigError(f"{self._directory} is a file, not a folder for episodes. Name another folder.")
        slug(label)  # Raises here, not when the first episode ends
        self._require_unused()
        self._writer = RunWriter(directory)
        self._label, self._split = label, world.split
        self._turns: list[Turn] = []
        self._results: list[tuple[Record, bool, float]] = []
        self._has_begun = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode; an unfinished one is dropped.

        `info` has `optimal_actions_left` if it is known, since records contain it; set the option
        `"optimal_actions"` to False to omit it from both.
        """
        options = {"optimal_actions": True, **(options or {})}
        self._seen, self._info = self.env.reset(seed=seed, options=options)
        self._level = options.get("level") or ""
        self._seed = self.unwrapped.np_random_seed if seed is None else seed
        self._start_hash = self._info["state_hash"]
        self._turns.clear()
        return self._seen, self._info

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Takes a turn, and records the episode if it was the last."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        outcome = float(reward), terminated, truncated, info
        self._turns.append(turn_of(self._seen, self._info, action, outcome))
        self._seen, self._info = observation, info
        if terminated or truncated:
            self._record()
        return observation, float(reward), terminated, truncated, info

    def close(self) -> None:
        """Writes the number of solved episodes, and closes the world."""
        if self._results:
            starts, solved, rewards = zip(*self._results, strict=True)
            self._writer.evaluation(
                {
                    "label": self._label,
                    "env_id": self._env_id,
                    "split": self._split,
                    **evaluated_rate(starts, solved),
                    "success": sum(solved) / len(solved),
                    "reward": sum(rewards) / len(rewards),
                }
            )
            self._results.clear()
        super().close()

    def _require_unused(self) -> None:
        if holds_run(self._directory):
            raise RunExistsError(f"{self._directory} already contains a run or episodes. Name another folder.")

    @property
    def _env_id(self) -> str:
        return self.env.spec.id if self.env.spec is not None else type(self.unwrapped).__name__

    def _record(self) -> None:
        episode = Trajectory(
            env_id=self._env_id,
            seed=self._seed,
            turns=tuple(self._turns),
            final_observation=self._seen,
            start_state_hash=self._start_hash,
            level=self._level,
        )
        if not self._has_begun:
            self._require_unused()  # Another recorder may have started there since this one was created
            self._has_begun = True
            self._writer.config({"name": self._label, "agent": self._label})
        self._writer.trajectories(self._label, [episode])
        self._results.append((start_of(episode), episode.success, episode.total_reward))
