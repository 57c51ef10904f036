"""What is kept of a run's course: a span for each of its stages, with its curves and its evaluations."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import replace_file

Kind: TypeAlias = Literal["curation", "imitation", "sft", "rl"]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a policy solved of some levels.

    Attributes:
        iteration: How many iterations or steps of its span it had learnt.
        label: What the run calls the evaluation.
        world: What the run calls the world.
        split: `val` or `test`.
        num_successes: Levels that it solved.
        num_episodes: Of how many.
        reward: Mean of their episodes; None where it is not known.
    """

    iteration: int
    label: str
    world: str
    split: str
    num_successes: int
    num_episodes: int
    reward: float | None = None


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stage, or a part of a run that counts its iterations by itself.

    Attributes:
        stage: What it is called: its folder's name in a run of stages.
        kind: A curation of data, a cold start's imitation, a fine-tuning (`sft`) or reinforcement learning (`rl`).
        num_iterations: Its iterations or, of imitation and fine-tuning, its steps; 0 of a curation.
        points: Means of some of these each: `iteration`, and what was logged of `success`, of `success/<world>` in a
            mix, of `return`, `loss` and `eval_loss`.
        evaluations: In the order they were made.
        note: What there is to say of it besides; empty for nothing.
    """

    stage: str
    kind: Kind
    num_iterations: int = 0
    points: list[dict[str, float]] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class RunCurve:
    """A run.

    Attributes:
        name: Of the run, and of its files.
        seed: Its seed, the first stage's of those that differ.
        spans: In the order they were gone through.
        made_by: Command, commit and versions.
    """

    name: str
    seed: int
    spans: list[Span]
    made_by: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Writes it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(asdict(self)) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> RunCurve:
        """Returns what `save` wrote.

        Raises:
            ConfigError: If it is something else.
        """
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            spans = [_span(each) for each in told["spans"]]
            return cls(**{**told, "spans": spans})
        except (ValueError, TypeError, LookupError) as error:
            raise ConfigError(
                f"{path} is no curve of a run ({error}). Make it anew: python -m benchmarks curves --add runs/NAME."
            ) from error


def _span(told: dict[str, Any]) -> Span:
    return Span(**{**told, "evaluations": [Evaluation(**each) for each in told["evaluations"]]})
