"""A stable-baselines3 policy as an agent, and the network it sees images with: no language, no prompt, no memory."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from agents.agent import Response
from agents.sb3_record import MODEL, TrainedFor, require_policy
from vlm_envs.discrete_world import Controls, Picture, write_named
from vlm_envs.records.json_lines import Record, to_json
from vlm_envs.trajectory import Observation, require_image
from vlm_envs.validation import require_at_least
from vlm_envs.vector.vector_world import VectorWorld


class PolicyAgent:
    """Chooses named actions by a picture alone.

    Args:
        policy: An actor of stable-baselines3, on the CPU.
        trained_for: What it was trained for.
        temperature: Divides the logits; 0 takes the most likely action.
        seed: Seed of what is drawn.

    Raises:
        ConfigError: If the temperature is negative.
    """

    policy_version = -1
    _worlds: VectorWorld | None = None

    def __init__(
        self, policy: ActorCriticPolicy, trained_for: TrainedFor, *, temperature: float = 0.0, seed: int = 0
    ) -> None:
        self.policy, self.trained_for, self.temperature = policy, trained_for, temperature
        require_at_least(self, 0, "temperature")
        self._generator = torch.Generator().manual_seed(seed)

    @property
    def identity(self) -> Record:
        """What it does is decided by, besides its settings; equal weights give equal identities, wherever they lie."""
        return {"name": "sb3", "weights": weights_digest(self.policy), "trained_for": to_json(self.trained_for)}

    def start(self, worlds: VectorWorld) -> None:
        """Takes hold of the worlds.

        Raises:
            ConfigError: If one of them is not what the policy was trained for.
        """
        controls = worlds.apply(dict.fromkeys(range(worlds.num_envs), Controls.of))
        for row, spec in enumerate(worlds.get_attr("spec")):
            self.trained_for.require_fits(spec.id, controls[row])
        self._worlds = worlds

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a response for each row, without thoughts."""
        assert self._worlds is not None, "start() comes before respond()"
        names = self.trained_for.action_names
        plans = self._plans([require_image(observation["image"]) for observation in observations])
        texts = self._worlds.apply(
            {
                row: partial(write_named, names=[names[number] for number in plan])
                for row, plan in zip(rows, plans, strict=True)
            }
        )
        return [Response(text=texts[row]) for row in rows]

    def _plans(self, pictures: Sequence[Picture]) -> list[list[int]]:
        """Returns the numbers of each picture's actions, chosen one after the other."""
        seeing = self.trained_for.seeing
        plans: list[list[int]] = [[] for _ in pictures]
        self.policy.set_training_mode(False)
        for _ in range(seeing.actions_per_response):
            shown = np.stack([seeing.shown(picture, plan) for picture, plan in zip(pictures, plans, strict=True)])
            with torch.no_grad():
                drawn = self.policy.get_distribution(self.policy.obs_to_tensor(shown)[0]).distribution
            for plan, number in zip(plans, self._draw(drawn.logits), strict=True):  # type: ignore[union-attr]
                plan.append(int(number))
        return plans

    def _draw(self, logits: torch.Tensor) -> torch.Tensor:
        if self.temperature == 0:
            return logits.argmax(dim=-1)
        odds = torch.softmax(logits / self.temperature, dim=-1)
        return torch.multinomial(odds, 1, generator=self._generator)[:, 0]


def load_agent(directory: str, *, temperature: float = 0.0, seed: int = 0) -> PolicyAgent:
    """Returns the agent of a folder that `python -m benchmarks sb3` wrote.

    stable-baselines3 keeps Python objects in what it saves: load only what you trust.

    Args:
        directory: The folder.
        temperature: Divides the logits; 0 takes the most likely action.
        seed: Seed of what is drawn.

    Raises:
        FileNotFoundError: If there is no policy.
        ValueError: If it cannot be read.
        ConfigError: If the temperature is negative.
    """
    trained_for, _ = require_policy(directory)
    path = Path(directory) / MODEL
    try:
        with warnings.catch_warnings(action="ignore"):  # Of what cannot be unpickled; what is needed then fails below
            policy = PPO.load(path, device="cpu").policy
    except Exception as error:  # A file of somebody else's makes torch and pickle raise anything
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} is damaged, or no PPO of stable-baselines3: {reason}") from error
    return PolicyAgent(policy, trained_for, temperature=temperature, seed=seed)


def weights_digest(policy: ActorCriticPolicy) -> str:
    """Returns a hash of a policy's weights by their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(policy.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()


class CellNetwork(BaseFeaturesExtractor):
    """A convolutional network for pictures that are made of cells, such as grids; patches do for others.

    Pictures are centred and each cell's vector is normalised: most of a grid's picture is bright ground that says
    nothing, and without this the network takes several times as many levels to see what stands on it.

    Args:
        observation_space: `Box(uint8[3, H, W])`, as stable-baselines3 turns pictures.
        cell_px: Side of a cell in pixels, of which H and W are multiples.
        width: Channels of every layer.
        num_layers: Convolutions over cells and their neighbours, 3 x 3.
        features_dim: Numbers that come out.
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
        """Returns float32[N, features_dim] for pictures float32[N, 3, H, W] within 0 and 1."""
        features: torch.Tensor = self.layers(observations - 0.5)
        return features


class _CellNorm(nn.LayerNorm):
    """Normalises the vector of each cell."""

    def forward(self, cells: torch.Tensor) -> torch.Tensor:
        return super().forward(cells.movedim(1, -1)).movedim(-1, 1)
