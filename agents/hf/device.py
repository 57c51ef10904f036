"""Where a model lives, and whether there is such a place; torch is imported only to find out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vlm_envs.errors import ConfigError

if TYPE_CHECKING:
    import torch


def require_device(device: str) -> None:
    """Refuses a device that is not there.

    Args:
        device: `"auto"`, or a name that torch knows.

    Raises:
        ConfigError: If nothing can be put there.
    """
    if device in ("auto", "cpu"):
        return
    import torch  # Only now, and nothing built on it

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(
            f"--device {device}: torch {torch.__version__} sees no CUDA GPU here. Use --device cpu, or --device auto, "
            "which takes a GPU where there is one."
        )
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"--device {device} cannot be used: {reason} Use --device cpu, cuda or auto.") from error


def torch_device(device: str) -> torch.device:
    """Returns torch's device of a name that `require_device` takes; of `"auto"`, the GPU if there is one.

    If it is a GPU, this process's attention goes without cuDNN from here on: it plans anew for each shape, and
    conversations are a token longer in each step. Torch's other kernels take any shape.
    """
    import torch

    require_device(device)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda"):
        torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device(device)
