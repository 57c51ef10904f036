"""PPO of stable-baselines3 on images and named actions: training a policy, and playing it as `sb3:DIR`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize
from torch import nn

from agents.agent import Response
from vlm_envs.discrete_world import Controls, DiscreteWorld, Picture, Seeing, write_named
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record, to_json
from vlm_envs.registration import make
from vlm_envs.trajectory import Observation, require_image
from vlm_envs.vector.vector_world import VectorWorld

MODEL, RECORD = "model.zip", "trained.json"
"""The files of a policy: the model as saved by stable-baselines3, and the world it was trained for."""


class PolicyAgent:
    """Chooses the most likely named actions from an image alone: no language, no prompt, no memory.

    Args:
        policy: An actor of stable-baselines3, on the CPU.
        trained_for: The world it was trained for, as `train_policy` writes it.
    """

    policy_version = -1
    _worlds: VectorWorld | None = None

    def __init__(self, policy: ActorCriticPolicy, trained_for: Record) -> None:
        self.policy, self.trained_for = policy, trained_for
        self._seeing = Seeing(**trained_for["seeing"])

    @property
    def identity(self) -> Record:
        """Weights and training world, which determine its actions in addition to its settings; independent of paths."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.policy.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
        return {"name": "sb3", "weights": digest.hexdigest(), "trained_for": self.trained_for}

    def start(self, worlds: VectorWorld) -> None:
        """Attaches to the worlds.

        Raises:
            ConfigError: If one of them is not the world that the policy was trained for.
        """
        controls = worlds.apply(dict.fromkeys(range(worlds.num_envs), Controls.of))
        for row, spec in enumerate(worlds.get_attr("spec")):
            found = {"env_id": spec.id, **_facts(controls[row])}
            if controls[row].max_actions < self._seeing.actions_per_response:
                raise ConfigError(f"This policy needs max_actions_per_turn={self._seeing.actions_per_response}.")
            expected = {name: self.trained_for[name] for name in found}
            if found != expected:
                raise ConfigError(f"This policy was trained for {expected}; got {found}.")
        self._worlds = worlds

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a response for each row, without thoughts."""
        assert self._worlds is not None, "start() comes before respond()"
        names = self.trained_for["action_names"]
        plans = self._plans([require_image(observation["image"]) for observation in observations])
        texts = self._worlds.apply(
            {
                row: partial(write_named, names=[names[number] for number in plan])
                for row, plan in zip(rows, plans, strict=True)
            }
        )
        return [Response(text=texts[row]) for row in rows]

    def _plans(self, images: Sequence[Picture]) -> list[list[int]]:
        """Returns the action indices for each image, chosen one after another."""
        plans: list[list[int]] = [[] for _ in images]
        self.policy.set_training_mode(False)
        for _ in range(self._seeing.actions_per_response):
            shown = np.stack([self._seeing.shown(image, plan) for image, plan in zip(images, plans, strict=True)])
            with torch.no_grad():
                drawn = self.policy.get_distribution(self.policy.obs_to_tensor(shown)[0]).distribution
            for plan, number in zip(plans, drawn.logits.argmax(dim=-1), strict=True):  # type: ignore[union-attr]
                plan.append(int(number))
        return plans


def load_agent(directory: str) -> PolicyAgent:
    """Returns the agent of a directory that `python -m benchmarks sb3` wrote.

    stable-baselines3 unpickles Python objects: load only trusted files.

    Raises:
        FileNotFoundError: If there is no policy.
        ValueError: If it cannot be read.
    """
    path = Path(directory)
    try:
        record = json.loads((path / RECORD).read_text(encoding="utf-8"))
        return PolicyAgent(PPO.load(path / MODEL, device="cpu").policy, record["trained_for"])
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"No policy at {path}: expected {MODEL} and {RECORD} there. "
            "Train one: python -m benchmarks sb3 VLM/FrozenLake-v0 --out DIR"
        ) from error
    except Exception as error:  # torch and pickle raise anything on a foreign file
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} holds no PPO policy of `benchmarks sb3`: {type(error).__name__}: {reason}") from error


def _facts(controls: Controls) -> Record:
    return {"action_names": list(controls.action_names), "picture_shape": list(controls.picture_shape)}


class CellNetwork(BaseFeaturesExtractor):
    """A convolutional network for images made of cells, such as grids.

    Images are centered and each cell's vector is normalized: most of a grid's image is bright ground without
    information, and without this the network needs several times as many levels to learn to see the objects on it.

    Args:
        observation_space: `Box(uint8[3, H, W])`, as stable-baselines3 transposes images.
        cell_px: Side of a cell in pixels; divides H and W.
        width: Channels of every layer.
        num_layers: Convolutions over cells and their neighbors, 3 x 3.
        features_dim: Number of features.
    """

    def __init__(
        self,
        observation_space: spaces.Box,
        *,
        cell_px: int,
        width: int = 32,
        num_layers: int = 2,
        features_dim: int = 256,
    ) -> None:
        super().__init__(observation_space, features_dim)
        channels, height, num_cols = observation_space.shape
        layers = [nn.Conv2d(channels, width, cell_px, stride=cell_px), _CellNorm(width), nn.ReLU()]
        for _ in range(num_layers):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        num_cells = (height // cell_px) * (num_cols // cell_px)
        layers += [nn.Flatten(), nn.Linear(width * num_cells, features_dim), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Returns float32[N, features_dim] for images float32[N, 3, H, W] within 0 and 1."""
        features: torch.Tensor = self.layers(observations - 0.5)
        return features


class _CellNorm(nn.LayerNorm):
    """Normalizes the vector of each cell."""

    def forward(self, cells: torch.Tensor) -> torch.Tensor:
        return super().forward(cells.movedim(1, -1)).movedim(-1, 1)


def train_policy(
    env_id: str,
    kwargs: Mapping[str, Any],
    out: Path,
    *,
    timesteps: int,
    num_envs: int,
    downscale: int,
    cell_px: int,
    training_levels: Mapping[str, Any],
    **ppo_kwargs: Any,
) -> None:
    """Trains a policy on training levels and saves it, even if training is interrupted.

    Args:
        env_id: The world.
        kwargs: Its arguments.
        out: Directory of the policy.
        timesteps: Actions to train on, rounded up to full rollouts.
        num_envs: Worlds in parallel.
        downscale: Side of the square of pixels that is merged into one.
        cell_px: Side of a cell of the scaled image; 0 for images without cells.
        training_levels: Arguments of the world for training only, such as easier levels.
        **ppo_kwargs: Passed to `stable_baselines3.PPO`.

    Raises:
        ConfigError: If the world has no named actions, or a value does not suit it.
    """

    def env_fn() -> gym.Env[Any, Any]:
        world = make(env_id, **{**kwargs, **training_levels}, split="train", disable_env_checker=True)
        num_actions = Controls.of(world.unwrapped).max_actions
        strip = {"block_px": cell_px} if cell_px else {}
        return _TrainingWorld(DiscreteWorld(world, actions_per_response=num_actions, downscale=downscale, **strip))

    worlds = DummyVecEnv([env_fn] * num_envs)
    controls, seeing = (worlds.envs[0].get_wrapper_attr(name) for name in ("controls", "seeing"))
    trained_for = {"env_id": env_id, **_facts(controls), "seeing": seeing, "kwargs": dict(kwargs)}
    network = {"features_extractor_class": CellNetwork, "features_extractor_kwargs": {"cell_px": cell_px}}
    model = PPO(
        "CnnPolicy",
        VecNormalize(
            VecMonitor(worlds), norm_obs=False
        ),  # value errors at returns of 10 would dominate the policy loss
        learning_rate=LinearSchedule(1e-3, 0.0, 1.0),
        ent_coef=0.02,
        policy_kwargs=network if cell_px else {},
        device="cpu",  # small networks and images made on the CPU: a GPU would idle
        verbose=1,
        **ppo_kwargs,
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / RECORD).write_text(json.dumps(to_json({"trained_for": trained_for}), indent=2), encoding="utf-8")
    try:
        model.learn(timesteps)
    finally:
        model.save(out / MODEL)
        worlds.close()


class _TrainingWorld(gym.Wrapper[Any, Any, Any, Any]):
    """Ends episodes as terminated at the turn limit: bootstrapping would make failure worth as much as success."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated or truncated, False, {}  # copying `info` takes as long as the world
