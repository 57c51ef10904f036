"""What the runs of a sweep solved, from their folders, and as one small file that a repository can keep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from training.sweeps.runner import arm_directory, is_finished
from training.sweeps.sweep import Sweep
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import replace_file
from vlm_envs.records.run_data import RunReader
from vlm_envs.validation import require


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run came to on test levels.

    Attributes:
        before: A character a level, 1 where the policy that it began with solved it and 0 elsewhere.
        after: Of the policy that it trained.
        commit: Of the code that trained it.
    """

    before: str
    after: str
    commit: str


Outcomes = Mapping[str, Mapping[int, Outcome]]
"""By name of an arm and seed."""


def finished_outcomes(sweep: Sweep, folder: Path) -> dict[str, dict[int, Outcome]]:
    """Returns what the finished runs of a sweep's arms solved; arms without any are left out.

    Args:
        sweep: The sweep.
        folder: Where its runs are.
    """
    found: dict[str, dict[int, Outcome]] = {}
    for arm in sweep.arms:
        for seed in _seeds(folder, arm.name):
            directory = arm_directory(folder, arm, seed)
            if is_finished(directory):
                before, after = (_solved(directory, label) for label in ("before", "after"))
                commit = str(RunReader(directory).config.get("commit"))
                found.setdefault(arm.name, {})[seed] = Outcome(before=before, after=after, commit=commit)
    return found


def save_outcomes(outcomes: Outcomes, path: Path) -> None:
    """Writes outcomes as JSON.

    Raises:
        ConfigError: If runs played different numbers of levels.
    """
    require(
        len({len(each) for each in _levels(outcomes)}) <= 1,
        f"Runs of {path.stem} played different numbers of levels. Move those of other settings away.",
    )
    told = {arm: {seed: asdict(each) for seed, each in sorted(seeds.items())} for arm, seeds in outcomes.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, (json.dumps(told, indent=1) + "\n").encode())


def load_outcomes(path: Path) -> dict[str, dict[int, Outcome]]:
    """Returns what `save_outcomes` wrote; nothing where there is no such file.

    Raises:
        ConfigError: If it cannot be read.
    """
    if not path.is_file():
        return {}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        found = {arm: {int(seed): Outcome(**each) for seed, each in seeds.items()} for arm, seeds in told.items()}
        levels = _levels(found)
        if not all(each and len(each) == len(levels[0]) and {*each} <= {"0", "1"} for each in levels):
            raise ValueError("levels are not all told by as many digits 0 and 1")
        return found
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is not what a sweep has written ({error}). Mend it, or move it away.") from error


def _levels(outcomes: Outcomes) -> list[str]:
    return [each for seeds in outcomes.values() for run in seeds.values() for each in (run.before, run.after)]


def _seeds(folder: Path, arm: str) -> list[int]:
    ends = (path.name.removeprefix(f"{arm}-") for path in folder.glob(f"{arm}-*"))
    return sorted(int(end) for end in ends if end.isdecimal())


def _solved(directory: Path, label: str) -> str:
    episodes = sorted(RunReader(directory).trajectories(label), key=lambda each: (each["world"], each["seed"]))
    return "".join(str(int(bool(each["success"]))) for each in episodes)
