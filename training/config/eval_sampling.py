"""How responses are drawn in evaluations, where that is not as in training."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from agents.hf.sampling_config import SamplingConfig, require_drawable


@dataclass(frozen=True, kw_only=True)
class EvalSamplingConfig:
    """How responses are drawn in evaluations; None, which all are by default, is as in training.

    The context and what pictures are scaled to are the run's, for they are the model's rather than the measurement's.

    Attributes:
        temperature: Divides the logits, at least 0.01; or 0, which takes the most likely token.
        top_p: Smallest probability mass kept, in [0.05, 1]; 1 keeps all.
        max_new_tokens: Tokens a response may have.

    Raises:
        ConfigError: If a value is out of range.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None

    def __post_init__(self) -> None:
        require_drawable(self)

    def over(self, sampling: SamplingConfig) -> SamplingConfig:
        """Returns how responses are drawn where those of training are drawn like this."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(sampling, **{name: value for name, value in given.items() if value is not None})


def how_evaluated(sampling: SamplingConfig, evaluation: SamplingConfig) -> str:
    """Returns in words how evaluations are sampled, as far as training is not; empty where they are alike."""
    told = []
    if evaluation.temperature != sampling.temperature:
        told.append(f"temperature {evaluation.temperature:g}")
    if evaluation.top_p != sampling.top_p:
        told.append(f"top-p {evaluation.top_p:g}")
    if evaluation.max_new_tokens != sampling.max_new_tokens:
        told.append(f"at most {evaluation.max_new_tokens} new tokens")
    return ", ".join(told)
