"""SMFANet, the super-resolution network of Mags-RL, with the user's or the shipped weights.

Source: Zheng, Sun, Dong and Pan, "SMFANet: A Lightweight Self-Modulation Feature Aggregation Network for Efficient
Image Super-Resolution", ECCV 2024; Mags-RL names it in appendix C. The layers are named as in the published
checkpoints, so that these can be loaded, including `belt`.

Deviations, both for images that the published network cannot process: a side under 8 pixels is pooled to 1 position
instead of 0, and an image of one pixel has variance 0 instead of NaN.
"""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from agents.perception.weights import WeightsUnavailableError
from vlm_envs.errors import ConfigError
from vlm_envs.tools.pictures import Picture
from vlm_envs.tools.zoom import LanczosUpscaler

SHIPPED = {factor: Path(__file__).parent / f"smfanet_small_x{factor}.safetensors" for factor in (2, 4)}
"""Weights of a small network by factor, trained by `python -m training upscaler --size small`."""

_POOLING = 8
_PARTIAL_RATE = 0.25
_DETAIL_GROWTH = 2
_WRAPPINGS = ("params_ema", "params", "state_dict")
"""Keys under which training frameworks store a state dict, in order of preference."""


@dataclass(frozen=True, kw_only=True)
class SMFANetConfig:
    """Size of the network. The published SMFANet has 36 channels and 8 blocks, SMFANet+ 48 and 12.

    Attributes:
        num_channels: Channels of every block, 4 to 512.
        num_blocks: Blocks, 1 to 64.
        growth: Channels inside the feed-forward part of a block, as a multiple; 1 to 8.
        factor: Factor by which width and height grow, 1 to 8.
    """

    num_channels: int = 36
    num_blocks: int = 8
    growth: int = 2
    factor: int = 4

    def __post_init__(self) -> None:
        limits = {"num_channels": (4, 512), "num_blocks": (1, 64), "growth": (1, 8), "factor": (1, 8)}
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"{name} of SMFANet must be from {low} to {high}; got {getattr(self, name)}.")


class _LocalDetail(nn.Module):
    """Local detail estimation: a 3x3 convolution per channel between pointwise ones."""

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        inner = num_channels * _DETAIL_GROWTH
        self.conv_0 = nn.Sequential(
            nn.Conv2d(num_channels, inner, 3, padding=1, groups=num_channels), nn.Conv2d(inner, inner, 1)
        )
        self.conv_1 = nn.Conv2d(inner, num_channels, 1)

    def forward(self, features_BCHW: Tensor) -> Tensor:
        mixed: Tensor = self.conv_1(functional.gelu(self.conv_0(features_BCHW)))
        return mixed


class _SelfModulation(nn.Module):
    """Self-modulation feature aggregation: half of the features carry global information, half local.

    The first half is modulated by its pooled maxima and its variance over the image, an approximation of
    self-attention; the second passes through `_LocalDetail`.
    """

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.linear_0 = nn.Conv2d(num_channels, num_channels * 2, 1)
        self.linear_1 = nn.Conv2d(num_channels, num_channels, 1)
        self.linear_2 = nn.Conv2d(num_channels, num_channels, 1)
        self.lde = _LocalDetail(num_channels)
        self.dw_conv = nn.Conv2d(num_channels, num_channels, 3, padding=1, groups=num_channels)
        self.alpha = nn.Parameter(torch.ones(1, num_channels, 1, 1))
        self.belt = nn.Parameter(torch.zeros(1, num_channels, 1, 1))

    def forward(self, features_BCHW: Tensor) -> Tensor:
        height, width = features_BCHW.shape[-2:]
        near, far = self.linear_0(features_BCHW).chunk(2, dim=1)
        pooled_size = (max(1, height // _POOLING), max(1, width // _POOLING))
        pooled = self.dw_conv(functional.adaptive_max_pool2d(far, pooled_size))
        variance = far.var(dim=(-2, -1), keepdim=True, correction=min(1, height * width - 1))
        modulation = functional.gelu(self.linear_1(pooled * self.alpha + variance * self.belt))
        modulated = far * functional.interpolate(modulation, size=(height, width), mode="nearest")
        aggregated: Tensor = self.linear_2(modulated + self.lde(near))
        return aggregated


class _PartialFeedForward(nn.Module):
    """Feed-forward part in which a quarter of the inner channels has a 3x3 convolution."""

    def __init__(self, num_channels: int, growth: int) -> None:
        super().__init__()
        inner = num_channels * growth
        self._sizes = [int(inner * _PARTIAL_RATE), inner - int(inner * _PARTIAL_RATE)]
        self.conv_0 = nn.Conv2d(num_channels, inner, 1)
        self.conv_1 = nn.Conv2d(self._sizes[0], self._sizes[0], 3, padding=1)
        self.conv_2 = nn.Conv2d(inner, num_channels, 1)

    def forward(self, features_BCHW: Tensor) -> Tensor:
        seeing, rest = functional.gelu(self.conv_0(features_BCHW)).split(self._sizes, dim=1)
        mixed: Tensor = self.conv_2(torch.cat((functional.gelu(self.conv_1(seeing)), rest), dim=1))
        return mixed


class _Block(nn.Module):
    """Feature modulation block: both parts, each with channel normalization per pixel and a residual connection."""

    def __init__(self, num_channels: int, growth: int) -> None:
        super().__init__()
        self.smfa = _SelfModulation(num_channels)
        self.pcfn = _PartialFeedForward(num_channels, growth)

    def forward(self, features_BCHW: Tensor) -> Tensor:
        features_BCHW = features_BCHW + self.smfa(functional.normalize(features_BCHW))
        result: Tensor = features_BCHW + self.pcfn(functional.normalize(features_BCHW))
        return result


class SMFANet(nn.Module):
    """The network: shallow features, blocks with one residual connection around all, and pixel shuffling."""

    def __init__(self, config: SMFANetConfig) -> None:
        super().__init__()
        self.config = config
        channels = config.num_channels
        self.to_feat = nn.Conv2d(3, channels, 3, padding=1)
        self.feats = nn.Sequential(*(_Block(channels, config.growth) for _ in range(config.num_blocks)))
        self.to_img = nn.Sequential(
            nn.Conv2d(channels, 3 * config.factor**2, 3, padding=1), nn.PixelShuffle(config.factor)
        )

    def forward(self, pictures_B3HW: Tensor) -> Tensor:
        """Returns enlarged images.

        Args:
            pictures_B3HW: RGB, 0 to 1.

        Returns:
            float[B, 3, H * factor, W * factor], about 0 to 1.
        """
        shallow = self.to_feat(pictures_B3HW)
        enlarged: Tensor = self.to_img(self.feats(shallow) + shallow)
        return enlarged


def load_smfanet(path: str | Path) -> SMFANet:
    """Loads a network; its size is inferred from the shapes of the weights.

    Args:
        path: A state dict as `.safetensors`, or as `.pth` or `.pt` with only tensors.

    Returns:
        The network in evaluation mode, on the CPU, in float32.

    Raises:
        WeightsUnavailableError: If there is no such file, or it is of another type or network, damaged, or contains
            numbers that are not finite.
    """
    weights = _read_weights(Path(path))
    network = SMFANet(_config_of(weights, Path(path)))
    try:
        network.load_state_dict(dict(weights))
    except RuntimeError as error:
        shown = " ".join(str(error).split())[:300]
        raise WeightsUnavailableError(f"The weights in {path} do not fit SMFANet: {shown}") from error
    if not all(bool(torch.isfinite(parameter).all()) for parameter in network.parameters()):
        raise WeightsUnavailableError(
            f"The weights in {path} contain numbers that are not finite; the file is damaged."
        )
    return network.float().eval()


def _read_weights(path: Path) -> Mapping[str, Tensor]:
    """Returns a file's tensors by name, without running any code in it."""
    if not path.is_file():
        raise WeightsUnavailableError(
            f"No weights of SMFANet at {path}: expected a .safetensors, .pth or .pt file. Train some with `python -m "
            "training upscaler`, or name the published ones."
        )
    loaded: Any
    try:
        if path.suffix == ".safetensors":
            loaded = load_file(path)
        elif path.suffix in (".pth", ".pt"):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
        else:
            raise WeightsUnavailableError(f"Weights of SMFANet are a .safetensors, .pth or .pt file; got {path.name}.")
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, KeyError, OSError) as error:
        shown = " ".join(str(error).split())[:200]
        raise WeightsUnavailableError(
            f"{path} cannot be read as a state dict of tensors ({shown}). Files with anything other than tensors "
            "are refused, because loading them could run their code."
        ) from error
    for wrapping in _WRAPPINGS:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(wrapping), Mapping):
            loaded = loaded[wrapping]
    if not isinstance(loaded, Mapping) or not all(isinstance(tensor, Tensor) for tensor in loaded.values()):
        raise WeightsUnavailableError(f"{path} holds no state dict: expected tensors by name.")
    return loaded


def _config_of(weights: Mapping[str, Tensor], path: Path) -> SMFANetConfig:
    """Infers the network's size from its weights."""
    try:
        num_channels = weights["to_feat.weight"].shape[0]
        num_blocks = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("feats."))
        inner = weights["feats.0.pcfn.conv_0.weight"].shape[0]
        factor = math.isqrt(weights["to_img.0.weight"].shape[0] // 3)
        return SMFANetConfig(
            num_channels=num_channels, num_blocks=num_blocks, growth=inner // num_channels, factor=factor
        )
    except (KeyError, IndexError, ValueError, ZeroDivisionError) as error:
        raise WeightsUnavailableError(
            f"The weights in {path} are not of SMFANet: {error}. Expected to_feat, feats.N.smfa, feats.N.pcfn and "
            "to_img."
        ) from error


def smfanet(
    weights: str | Path | None = None,
    *,
    factor: int | None = None,
    device: str = "cpu",
    max_input_pixels: int = 512 * 512,
) -> SMFANetUpscaler:
    """Returns a super-resolution agent for `upscaler="agents.perception.super_resolution:smfanet"` of a world.

    Args:
        weights: Path of the weights, see `load_smfanet`; None for the shipped ones, trained on generated scenes.
        factor: Factor by which width and height grow: 2 or 4 for the shipped weights; None for the file's own, or 4.
        device: Device of the network.
        max_input_pixels: Larger images are enlarged by Lanczos resampling.

    Raises:
        ConfigError: If there are no weights for the factor.
        WeightsUnavailableError: As `load_smfanet`.
    """
    if weights is None and factor not in (None, *SHIPPED):
        raise ConfigError(
            f"Weights of SMFANet ship for factor {' and '.join(map(str, SHIPPED))}; got {factor}. Train some with "
            f"`python -m training upscaler --factor {factor}`, and pass them: weights=FILE."
        )
    path = SHIPPED[factor or 4] if weights is None else Path(weights)
    changed = path.stat().st_mtime_ns if path.is_file() else 0
    network = _network(path, changed, device)
    if factor not in (None, network.config.factor):
        raise ConfigError(f"The weights in {path} are of factor {network.config.factor}; got factor={factor}.")
    return SMFANetUpscaler(network, device=device, max_input_pixels=max_input_pixels)


@functools.lru_cache(maxsize=4)
def _network(path: Path, changed: int, device: str) -> SMFANet:
    """Returns a network that all worlds of a process share."""
    return load_smfanet(path).to(device)


class SMFANetUpscaler:
    """Super-resolution by SMFANet; an `Upscaler`.

    Args:
        network: From `load_smfanet`.
        device: Device of the network.
        max_input_pixels: Larger images are enlarged by Lanczos resampling, because the network would need gigabytes for
            them.
    """

    def __init__(self, network: SMFANet, *, device: str = "cpu", max_input_pixels: int = 512 * 512) -> None:
        if max_input_pixels < 1:
            raise ConfigError(f"max_input_pixels must be at least 1; got {max_input_pixels}.")
        self._network = network.to(device).eval()
        self._device = device
        self._max_input_pixels = max_input_pixels

    @classmethod
    def from_file(cls, path: str | Path, *, device: str = "cpu") -> SMFANetUpscaler:
        """Returns an upscaler with the weights of a file; see `load_smfanet`."""
        return cls(load_smfanet(path), device=device)

    @property
    def factor(self) -> int:
        """Factor by which width and height grow."""
        return self._network.config.factor

    def upscale(self, picture: Picture) -> Picture:
        """Returns the enlarged image."""
        if picture.num_pixels > self._max_input_pixels:
            return LanczosUpscaler(self.factor).upscale(picture)
        pixels_3HW = torch.from_numpy(picture.pixels.astype(np.float32) / 255.0).permute(2, 0, 1)
        with torch.inference_mode():
            enlarged_3HW = self._network(pixels_3HW[None].to(self._device))[0].nan_to_num().clamp(0.0, 1.0)
        return Picture((enlarged_3HW.permute(1, 2, 0) * 255.0).round().byte().cpu().numpy())
