"""Shape and type checks of estimators: what was expected, what came, what to do."""

from __future__ import annotations

import torch
from torch import Tensor


def check_turn_index(turn_index_BT: Tensor, **per_token_BT: Tensor) -> None:
    """Raises `ValueError` unless this is an integer `(B, T)` grid and the others have its shape."""
    check_rank("turn_index_BT", turn_index_BT, 2)
    check_integer("turn_index_BT", turn_index_BT)
    for name, x_BT in per_token_BT.items():
        check_shape(name, x_BT, turn_index_BT.shape)


def check_turns(turn_index_BT: Tensor, **per_turn_BK: Tensor) -> None:
    """Raises `ValueError` unless the `(B, K)` tensors agree and have a column for every turn of the grid."""
    num_rows, num_turns = len(turn_index_BT), next(iter(per_turn_BK.values())).shape[-1]
    for name, x_BK in per_turn_BK.items():
        check_shape(name, x_BK, (num_rows, num_turns))
    lowest, highest = turn_index_BT.aminmax() if turn_index_BT.numel() else (-1, -1)
    if lowest < -1 or highest >= num_turns:
        raise ValueError(
            f"turn_index_BT: expected numbers from -1 (not generated) to {num_turns - 1} (K - 1), got "
            f"{int(lowest)} to {int(highest)}. Number the turns of a row from 0 and give the (B, K) tensors "
            "a column for each."
        )


def check_mask(mask_BT: Tensor, **per_token_BT: Tensor) -> None:
    """Raises `ValueError` unless this is a bool `(B, T)` grid and the others have its shape."""
    check_rank("mask_BT", mask_BT, 2)
    if mask_BT.dtype != torch.bool:
        raise ValueError(f"mask_BT: expected dtype bool, got {mask_BT.dtype}. Pass e.g. `mask != 0`.")
    for name, x_BT in per_token_BT.items():
        check_shape(name, x_BT, mask_BT.shape)


def check_rank(name: str, x: Tensor, rank: int) -> None:
    """Raises `ValueError` unless a tensor has this many dimensions."""
    if x.ndim != rank:
        raise ValueError(f"{name}: expected {rank} dimensions, got shape {tuple(x.shape)}. Reshape it first.")


def check_shape(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    """Raises `ValueError` unless a tensor has this shape."""
    if x.shape != shape:
        raise ValueError(
            f"{name}: expected shape {tuple(shape)}, got {tuple(x.shape)}. Pad all tensors of a batch alike."
        )


def check_integer(name: str, index: Tensor) -> None:
    """Raises `ValueError` unless a tensor holds integers."""
    if index.is_floating_point() or index.dtype == torch.bool:
        raise ValueError(f"{name}: expected an integer dtype, got {index.dtype}. Convert it with `.long()`.")


def check_unit_interval(**coefficients: float) -> None:
    """Raises `ValueError` unless every coefficient lies within 0 and 1."""
    for name, coefficient in coefficients.items():
        if not 0.0 <= coefficient <= 1.0:
            raise ValueError(f"{name}: expected a number in [0, 1], got {coefficient}. Check the config.")
