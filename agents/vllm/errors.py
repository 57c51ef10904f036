"""Errors of sampling with vLLM."""

from __future__ import annotations

from vlm_envs.errors import VLMEnvsError


class SamplerLostError(VLMEnvsError, ConnectionError):
    """The engine that samples is gone, or does not do what it is asked; the message says what to do."""
