"""Training of the super-resolution network SMFANet on pairs of generated scenes.

Decided here: a mean absolute error without the frequency term that SMFANet's authors add, and a network that begins as
bilinear interpolation, so that thousands of steps suffice and not a million. Its layers are the published ones.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from agents.hf.checkpoint import torch_device
from agents.perception.super_resolution import SMFANet, SMFANetConfig, SMFANetUpscaler
from training.checkpoints.checkpoint_files import LATEST, STATE, replacing
from training.config.resume import how_to_go_on
from training.engines.optimizer import Optimizer
from training.loop.interrupts import full_disk_told, stop_on_interrupt
from training.loop.loggers import RunConsole
from training.loop.provenance import circumstances
from training.preflight import require_unused
from training.upscaler.upscaler_command import check_upscaler
from training.upscaler.upscaler_config import SUPER_RESOLUTION, UpscalerConfig
from vlm_envs.errors import ConfigError
from vlm_envs.records.folder_lock import alone_in
from vlm_envs.records.json_lines import replace_file
from vlm_envs.records.run_data import RunWriter, holds_run
from vlm_envs.tools.coordinates import PixelRectangle
from vlm_envs.tools.pictures import Picture, crop, resized
from vlm_envs.tools.zoom import BicubicUpscaler, LanczosUpscaler, Upscaler

WEIGHTS = "smfanet.safetensors"
"""File of the trained network within `latest`."""

TABLE = "held_out.txt"
"""File of the final measurements in the run's folder."""


def train_upscaler(config: UpscalerConfig, *, resume: bool = False) -> Path:
    """Trains a network, or resumes the run from its latest state, and measures it on held-out scenes.

    Returns:
        The file of its weights, which `agents.perception.super_resolution` loads.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and there is no checkpoint.
        ConfigError: If the output is not writable, or if settings changed on resume.
        NonFiniteGradientError: After too many consecutive non-finite gradients; the last checkpoint stays.
        KeyboardInterrupt: On Ctrl-C; the network is saved.
    """
    check_upscaler(config, resume=resume)
    if config.num_threads:
        torch.set_num_threads(config.num_threads)
    directory = Path(config.output) / config.name
    with alone_in(directory), full_disk_told(directory):
        if not resume:
            require_unused(directory)  # check again: another process may have started it
        training = _Training(config, directory)
        training.open(resume=resume)
        training.run()
        table = held_out_table(config, training.network)
        replace_file(directory / TABLE, f"{table}\n".encode())
    print(table)
    return directory / LATEST / WEIGHTS


class _Training:
    """A training run and its state; call `open` before `run`."""

    def __init__(self, config: UpscalerConfig, directory: Path) -> None:
        self.config, self.directory, self.steps, self.num_done = config, directory, config.steps(), 0
        torch.manual_seed(config.seed)
        self.network = SMFANet(SMFANetConfig(**config.network))
        begin_as_interpolation(self.network)
        self._device = torch_device(config.device)
        self.network.to(self._device)
        self._optimizer = Optimizer(
            self.network,
            learning_rate=self.steps.learning_rate,
            adamw=self.steps.adamw,
            max_grad_norm=self.steps.max_grad_norm,
            max_nonfinite_steps=self.steps.max_nonfinite_steps,
            what="upscaler",
        )
        self._started = time.monotonic()

    def open(self, *, resume: bool) -> None:
        """Opens a new run, or restores the latest checkpoint."""
        if resume:
            self._load()
        begun = resume or holds_run(self.directory)  # a run without a checkpoint starts over
        self.writer = RunWriter(self.directory, resume_from_iteration=self.num_done if begun else None)
        about = {"recipe": self.config.name, "trained_with": SUPER_RESOLUTION}
        self.writer.config({**self.config.to_dict(), **about, **circumstances()})

    def run(self) -> None:
        """Takes the remaining steps."""
        total = self.steps.num_steps
        if self.num_done == total:
            print(f"All {total} steps are done. To extend the run: --num-steps N")
            return
        pairs = scene_pairs(self.config, "train", self.config.num_scenes)
        held_out = scene_pairs(self.config, "val", self.config.num_eval_scenes)
        lost = "work since the last checkpoint is lost"
        with RunConsole("upscaler", total) as console, stop_on_interrupt("step", lost) as should_stop:
            for step in range(self.num_done, total):
                metrics = self._step(step, step_patches(pairs, self.config, step))
                self.num_done = step + 1
                if self.num_done % self.config.eval_every == 0 or self.num_done == total:
                    upscaler = SMFANetUpscaler(self.network, device=str(self._device))
                    metrics["psnr"] = float(np.mean(psnrs(held_out, upscaler)))
                    console.say(f"step {self.num_done}: {metrics['psnr']:.2f} dB on held-out scenes")
                    self.network.train()
                self.writer.metrics({"iteration": step, "elapsed_s": time.monotonic() - self._started, **metrics})
                console.advance(step, metrics, ("loss",))
                stops = should_stop()
                if stops or self.steps.is_checkpoint_due(self.num_done):
                    self._save()
                if stops:
                    break
        if self.num_done < total:
            raise KeyboardInterrupt(
                f"Interrupted after {self.num_done} of {total} steps; saved. Resume with {how_to_go_on()}."
            )

    def _step(self, step: int, patches: Patches) -> dict[str, float]:
        self._optimizer.set_learning_rate(self.steps.learning_rate_at(step))
        self._optimizer.zero_grad()
        enlarged_B3HW = self.network(self._tensor(patches.small_BHWC))
        loss = functional.l1_loss(enlarged_B3HW, self._tensor(patches.large_BHWC))
        self._optimizer.backward(loss)
        grad_norm, _ = self._optimizer.step()
        return {"loss": float(loss.detach()), "grad_norm": grad_norm}

    def _tensor(self, pictures_BHWC: np.ndarray) -> Tensor:
        """Returns float[B, 3, H, W] from 0 to 1."""
        return torch.from_numpy(pictures_BHWC).to(self._device).permute(0, 3, 1, 2).float() / 255.0

    def _save(self) -> None:
        with replacing(self.directory / LATEST) as temporary:
            weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.network.state_dict().items()}
            save_file(weights, temporary / WEIGHTS)
            state = {
                "iteration": self.num_done,
                "elapsed_s": time.monotonic() - self._started,
                "weights": weights,
                "optimizer": self._optimizer.state_dict(),
            }
            torch.save(state, temporary / STATE)

    def _load(self) -> None:
        state = torch.load(self.directory / LATEST / STATE, map_location="cpu", weights_only=False)
        self.num_done = state["iteration"]
        if self.num_done > self.steps.num_steps:
            raise ConfigError(
                f"The run at {self.directory} has done {self.num_done} steps, more than the requested "
                f"{self.steps.num_steps}. Request more with --num-steps, or start another run with another --name."
            )
        self.network.load_state_dict(state["weights"])
        self._optimizer.load_state_dict(state["optimizer"], self.network.state_dict())
        self._started = time.monotonic() - state["elapsed_s"]


@torch.no_grad()
def begin_as_interpolation(network: SMFANet) -> None:
    """Initializes a network to bilinear interpolation.

    Three channels carry the image itself, halved, because the skip connection around all blocks doubles it; blocks
    add nothing, and the last layer reads these three. All other weights keep their random initialization, so that
    they can learn.
    """
    weights, factor = dict(network.named_parameters()), network.config.factor
    for name, weight in weights.items():
        if name.startswith("to_img.") or re.search(r"smfa\.linear_2|pcfn\.conv_2", name):
            weight.zero_()
    weights["to_feat.weight"][:3] = 0.0
    weights["to_feat.bias"][:3] = 0.0
    taps_FK = torch.tensor([_taps((phase + 0.5) / factor - 0.5) for phase in range(factor)])
    kernels_FFKK = torch.einsum("ik,jl->ijkl", taps_FK, taps_FK)
    for color in range(3):
        weights["to_feat.weight"][color, color, 1, 1] = 0.5
        weights["to_img.0.weight"][color * factor**2 : (color + 1) * factor**2, color] = kernels_FFKK.flatten(0, 1)


def _taps(offset: float) -> tuple[float, float, float]:
    """Returns the weights of three adjacent pixels at an offset in [-1/2, 1/2] from the middle one."""
    return max(0.0, -offset), 1.0 - abs(offset), max(0.0, offset)


def psnrs(pairs: Sequence[PicturePair], upscaler: Upscaler) -> list[float]:
    """Returns the peak signal-to-noise ratio of each image in dB, over all pixels and channels."""
    return [_psnr(upscaler.upscale(pair.small), pair.large) for pair in pairs]


def _psnr(made: Picture, truth: Picture) -> float:
    error = float(np.mean((made.pixels.astype(np.float64) - truth.pixels.astype(np.float64)) ** 2))
    return float(10.0 * np.log10(255.0**2 / max(error, 1e-10)))


def held_out_table(config: UpscalerConfig, network: SMFANet) -> str:
    """Returns a table of the PSNR of Lanczos and bicubic resampling and a network on scenes of split test."""
    pairs = scene_pairs(config, "test", config.num_eval_scenes)
    upscalers: dict[str, Upscaler] = {
        "lanczos": LanczosUpscaler(config.factor),
        "bicubic": BicubicUpscaler(config.factor),
        "smfanet": SMFANetUpscaler(network, device=str(next(network.parameters()).device)),
    }
    means = {name: np.mean(psnrs(pairs, upscaler)) for name, upscaler in upscalers.items()}
    lines = [f"{name:9} x{config.factor} {mean:6.2f} dB" for name, mean in means.items()]
    return "\n".join([f"Mean PSNR of {len(pairs)} scenes:", *lines])


class PicturePair(NamedTuple):
    """An image and its downscaled version.

    Attributes:
        small: The image downscaled by bicubic resampling, as in SMFANet's training; input of the network.
        large: The image, with sides `factor` times as long.
    """

    small: Picture
    large: Picture


class Patches(NamedTuple):
    """Patches of images, cut at corresponding positions.

    Attributes:
        small_BHWC: uint8[B, H, W, 3].
        large_BHWC: uint8[B, H * factor, W * factor, 3].
    """

    small_BHWC: npt.NDArray[np.uint8]
    large_BHWC: npt.NDArray[np.uint8]


def scene_pairs(config: UpscalerConfig, split: str, num_scenes: int) -> list[PicturePair]:
    """Returns scenes of a split, the same in every call."""
    source = config.scenes()
    drawn = (source.draw(np.random.default_rng([config.seed, number]), split) for number in range(num_scenes))
    return [picture_pair(sample.images[0].picture(), config.factor) for sample in drawn]


def picture_pair(picture: Picture, factor: int) -> PicturePair:
    """Returns an image cropped to multiples of the factor, and its downscaled version."""
    width, height = picture.width // factor, picture.height // factor
    large = crop(picture, PixelRectangle(0, 0, width * factor, height * factor))
    return PicturePair(resized(large, width, height, Image.Resampling.BICUBIC), large)


def step_patches(pairs: Sequence[PicturePair], config: UpscalerConfig, step: int) -> Patches:
    """Returns the randomly mirrored and rotated patches of a step, a function of seed and step."""
    rng = np.random.default_rng([config.seed, step, 1])
    cut = [_patch(pairs[int(rng.integers(len(pairs)))], config, rng) for _ in range(config.batch_size)]
    return Patches(*(np.stack(patches) for patches in zip(*cut, strict=True)))


def _patch(
    pair: PicturePair, config: UpscalerConfig, rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    side, factor = config.patch_px, config.factor
    top, left = (int(rng.integers(length - side + 1)) for length in (pair.small.height, pair.small.width))
    is_mirrored, num_turns = bool(rng.integers(2)), int(rng.integers(4))

    def cut(pixels: npt.NDArray[np.uint8], scale: int) -> npt.NDArray[np.uint8]:
        rows, columns = (slice(start * scale, (start + side) * scale) for start in (top, left))
        patch = pixels[rows, columns]
        return np.rot90(patch[:, ::-1] if is_mirrored else patch, num_turns)

    return cut(pair.small.pixels, 1), cut(pair.large.pixels, factor)
