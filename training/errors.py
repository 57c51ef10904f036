"""Errors of training, in a separate module so that the command line can catch them without importing torch."""

from __future__ import annotations

from agents.vllm.vllm_config import SamplerLostError
from vlm_envs.errors import VLMEnvsError, WorkerError


class TrainingStoppedError(VLMEnvsError):
    """A run must stop; the message gives the reason and a suggestion, and progress is saved."""


class GradientError(TrainingStoppedError, ArithmeticError):
    """Gradients are unusable; all processes of a run raise this in the same step."""


class NonFiniteGradientError(GradientError):
    """Gradients were not finite several times in a row; the weights are those of the last valid step."""


class ExplodingGradientError(GradientError):
    """Gradients were far larger than before, several times in a row."""


class SamplersLostError(SamplerLostError):
    """A sampler of one of several processes is gone; all processes raise this in the same step."""


class NothingLeftError(WorkerError):
    """All episodes of an iteration were lost or could not be judged; all processes raise this in the same step."""


class MemoryExhaustedError(TrainingStoppedError, MemoryError):
    """A device or the host ran out of memory, and smaller micro-batches did not help."""


class DiskFullError(TrainingStoppedError, OSError):
    """A run's output could not be written because the disk is full."""


class PeerError(VLMEnvsError, RuntimeError):
    """Another process of the run stopped, so this one cannot continue."""


class PeerInterruptedError(KeyboardInterrupt):
    """Ctrl-C stopped the run's main process in a shared step, and so this one; the main process prints the message."""


class TerminatedError(KeyboardInterrupt):
    """SIGTERM stopped a run immediately; the last finished iteration of reinforcement learning is saved."""


class NothingCuratedError(TrainingStoppedError):
    """A finished curation kept nothing; the message gives the reason."""


class CurationInterruptedError(KeyboardInterrupt):
    """Ctrl-C stopped a curation; the message reports how much was written."""


class PeerLostError(TrainingStoppedError, ConnectionError):
    """Another process of the run disappeared without an error message."""
