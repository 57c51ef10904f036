"""What an arm came to with one seed, as a file that is kept: on every test level, whether it was solved."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.ablations.ablation import START, Ablation
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import parse_object, replace_file

START_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A trained policy on the test levels.

    Attributes:
        ablation: Name of the ablation.
        arm: Name of the arm; `start` for what all arms go on from.
        seed: Of the run, from 1 on; 0 of the start.
        solved: By name of a test world, of each level in the order of the split, whether it was solved.
        measures: What else was measured: means over worlds of what evaluations record, and what judges say.
        num_episodes: Episodes that it was trained on.
        cpu_s: CPU seconds of training and test; of a run that was interrupted, from where it went on.
        made_by: Commit and versions.
    """

    ablation: str
    arm: str
    seed: int
    solved: dict[str, list[bool]]
    measures: dict[str, float] = field(default_factory=dict)
    num_episodes: int = 0
    cpu_s: float = 0.0
    made_by: dict[str, Any] = field(default_factory=dict)

    @property
    def levels(self) -> list[bool]:
        """All test levels, world after world."""
        return [each for levels in self.solved.values() for each in levels]

    def save(self, path: Path) -> None:
        """Writes it as JSON, a test level a digit."""
        solved = {world: "".join("01"[each] for each in levels) for world, levels in self.solved.items()}
        told = asdict(self) | {"solved": solved}
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(told, indent=1, allow_nan=False) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Outcome:
        """Returns what `save` wrote.

        Raises:
            ConfigError: If the file holds something else.
        """
        try:
            told = parse_object(path.read_bytes(), str(path))
            solved = {world: [each == "1" for each in levels] for world, levels in told["solved"].items()}
            return cls(**told | {"solved": solved})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ConfigError(
                f"{path} is no result of an ablation ({error}). Move it away, and the run is made again."
            ) from error


def outcome_path(results: Path, ablation: str, arm: str, seed: int) -> Path:
    """Returns where a result is kept."""
    return results / f"{ablation}-{arm}-{seed}.json"


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """What is known of an ablation.

    Attributes:
        start: What all arms went on from; None before it was tested.
        arms: By name, finished runs by seed.
    """

    start: Outcome | None
    arms: dict[str, dict[int, Outcome]]

    @property
    def is_empty(self) -> bool:
        """Whether no run is finished."""
        return not any(self.arms.values())


def load_outcomes(results: Path, ablation: Ablation, num_seeds: int) -> Outcomes:
    """Returns the results of an ablation's seeds from 1 on, as far as they are there.

    Raises:
        ConfigError: If a file is none of a result, or of another number of test levels.
    """
    arms = {
        arm.name: {
            seed: each for seed in range(1, num_seeds + 1) if (each := _found(results, ablation, arm.name, seed))
        }
        for arm in ablation.arms
    }
    return Outcomes(start=_found(results, ablation, START, START_SEED), arms=arms)


def _found(results: Path, ablation: Ablation, arm: str, seed: int) -> Outcome | None:
    path = outcome_path(results, ablation.name, arm, seed)
    if not path.is_file():
        return None
    outcome = Outcome.load(path)
    asked = dict.fromkeys(ablation.world_names, ablation.num_test_levels)
    played = {world: len(levels) for world, levels in outcome.solved.items()}
    if played != asked:
        raise ConfigError(
            f"{path} is of the test levels {played}, and the ablation has {asked}; they cannot be paired. Move it "
            "away, and the run is made again."
        )
    return outcome
