"""Errors of training; apart from what raises them, so that a command line need not wait for torch to know them."""

from __future__ import annotations

from vlm_envs.errors import VLMEnvsError


class NonFiniteGradientError(VLMEnvsError, ArithmeticError):
    """Gradients were not finite several times in a row; the weights are those of the last good step."""
