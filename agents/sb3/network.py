"""What a policy sees pictures with: one vector a cell, then cells beside each other, then all of them together."""

from __future__ import annotations

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn


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
