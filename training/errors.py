"""Errors of training; apart from what raises them, so that a command line need not wait for torch to know them."""

from __future__ import annotations

from agents.vllm.vllm_config import SamplerLostError
from vlm_envs.errors import VLMEnvsError, WorkerError


class TrainingStoppedError(VLMEnvsError):
    """A run cannot go on as it is; its message says why and what to do, and what was learnt is saved."""


class GradientError(TrainingStoppedError, ArithmeticError):
    """Gradients that cannot be gone on with: the same in all processes of a run, which raise it in the same step."""


class NonFiniteGradientError(GradientError):
    """Gradients were not finite several times in a row; the weights are those of the last good step."""


class ExplodingGradientError(GradientError):
    """Gradients were far larger than before, several times in a row."""


class SamplersLostError(SamplerLostError):
    """What samples for a process of several is gone: all processes of the run raise it in the same step."""


class NothingLeftError(WorkerError):
    """Every episode of an iteration was lost, or nobody could judge it: all processes raise it in the same step."""


class MemoryExhaustedError(TrainingStoppedError, MemoryError):
    """The memory of a device or of the host ran out, and smaller micro-batches did not help."""


class DiskFullError(TrainingStoppedError, OSError):
    """What a run writes could not be written for lack of space."""


class PeerError(VLMEnvsError, RuntimeError):
    """Another process of the run stopped, and this one cannot go on without it."""


class PeerInterruptedError(KeyboardInterrupt):
    """Ctrl-C stopped the main process of the run in what it did for all, and so this one; the main process tells."""


class TerminatedError(KeyboardInterrupt):
    """SIGTERM ended a run at once; reinforcement learning is saved as it was before the iteration it was in."""


class NothingCuratedError(TrainingStoppedError):
    """A curation has come to its end and keeps nothing; its message says why."""


class CurationInterruptedError(KeyboardInterrupt):
    """Ctrl-C stopped a curation; the message says how much of it is written."""


class PeerLostError(TrainingStoppedError, ConnectionError):
    """Another process of the run is gone, without a word of why."""
