"""From a finished run to its result: what it recorded, and what its rivals play now."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from agents.hf.hf_agent import load_checkpoint
from agents.hf.sampling_config import SamplingConfig
from benchmarks.levels import short_hash
from benchmarks.results.result import Result, WorldResult
from benchmarks.results.rivals import Rivals, measured
from training.checkpoints.checkpoint_files import LATEST, has_model, model_directory, provenance_of, weights_hash
from training.checkpoints.checkpoint_state import BEST
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.run_config import EvalSamplingConfig
from training.config.saved_config import rebuilt
from training.config.world_spec import WorldSpec, world_names
from training.loop.evaluation import measure_of
from vlm_envs.errors import ConfigError
from vlm_envs.qa.qa_world import tool_was_used
from vlm_envs.records.json_lines import Record
from vlm_envs.records.run_data import RunReader
from vlm_envs.validation import require

TRAINING_SETTINGS = (
    *("trained_with", "worlds", "mix", "tokenizer_worlds", "num_iterations", "num_groups", "group_size"),
    *("sampling", "rollout", "staleness", "sampler", "judge", "algorithm", "ppo", "lora", "dtype", "reference"),
)
"""Settings of a run that training depends on, besides its seed, the start and what that imitated."""
_SINCE: dict[str, dict[str, Any]] = {"ppo": {"target_kl": None}, "cold_start": {"tells_plan": False}}
"""Settings that there are since after the first results, with what changes nothing, and no digest either."""
_OF_WORKERS = ("workers", "num_workers", "step_timeout_s")
_Episodes: TypeAlias = dict[str, list[Record]]
"""Recorded episodes by world."""
MAX_POINTS = 100
"""Of a curve: of longer ones, so many means."""
MAX_WORLD_POINTS = 30
"""Of the curve of one world of a mix."""
_SCORES = {
    "score/observation": "observation",
    "score/prediction": "prediction",
    "thought_score": "thought",
    "tool_used": "tool_used",
}
"""Metrics that curves have beside what worlds are measured by, with their names there; mixes log each world's, too."""


def collected(directory: Path) -> Result:
    """Returns what a finished run came to; its rivals play its test levels now.

    Args:
        directory: Of the run.

    Raises:
        MissingRunDataError: If there is no run, or it recorded no episodes.
        ConfigError: If it is not finished, or its evaluations were not recorded whole.
    """
    reader = RunReader(directory)
    config = reader.config
    specs = rebuilt(tuple[WorldSpec, ...], config["worlds"])
    sampling = _sampling_of(config)
    lines = _iterations(reader)
    require_finished(directory)
    before, after = _evaluated(reader, directory, world_names(specs))
    (start, _), (trained, encoder) = (
        load_checkpoint(each) for each in (start_of(directory, config), policy_of(directory))
    )
    imitated, imitated_in = imitated_of(config)
    rivals = Rivals.of(
        start,
        trained,
        encoder,
        sampling,
        imitated=imitated,
        imitated_in=imitated_in,
        seed=int(config["seed"]) + 1,
    )
    worlds, first = [], int(config.get("first_eval_level", 0))
    measures = [measure_of(spec.env_id) for spec in specs]
    for spec, name, measure in zip(specs, world_names(specs), measures, strict=True):
        worlds.append(
            WorldResult(
                world=name,
                env_id=spec.env_id,
                kwargs=spec.kwargs,
                measure=measure,
                levels=_levels(after[name]),
                before=[measured(each, measure) for each in before[name]],
                after=[measured(each, measure) for each in after[name]],
                **_looked(before[name], after[name]),
                num_episodes=_num_played(lines, name, int(config["group_size"])),
                curve=world_curve(lines, name, measure, measures) if len(specs) > 1 else [],
                **rivals.played(spec, first=first, num_levels=len(after[name])),
            )
        )
    return Result(
        recipe=recipe_of(config),
        title=str(config["trained_with"]),
        seed=int(config["seed"]),
        setup=setup_of(config),
        num_parameters=sum(weight.numel() for weight in trained.parameters()),
        num_iterations=len(lines),
        num_episodes=len(lines) * int(config["num_groups"]) * int(config["group_size"]),
        minutes=sum(line["iteration_s"] for line in lines) / 60,
        worlds=worlds,
        curve=curve(lines, dict.fromkeys(world.measure for world in worlds)),
        made_by={name: config.get(name) for name in ("command", "commit", "versions")},
        temperature=sampling.temperature,
    )


def _sampling_of(config: Record) -> SamplingConfig:
    """Returns how a run's own evaluations drew, beside which its rivals' stand; older runs drew as in training."""
    evaluated = rebuilt(EvalSamplingConfig, config.get("eval_sampling", {}))
    sampling: SamplingConfig = evaluated.over(rebuilt(SamplingConfig, config["sampling"]))
    return sampling


def _evaluated(reader: RunReader, directory: Path, names: Sequence[str]) -> tuple[_Episodes, _Episodes]:
    """Returns the episodes of each world before the first iteration and after the last one, of the same levels.

    Raises:
        ConfigError: If not all were recorded, or the two are of different levels.
    """
    before, after = (_by_world(reader.trajectories(label)) for label in ("before", "after"))
    for name in names:
        _require_whole(reader, name, {"before": len(before[name]), "after": len(after[name])})
        require(
            _levels(before[name]) == _levels(after[name]),
            f"In {name} {directory} was evaluated before on other levels than after; episodes were lost, and levels "
            "cannot be paired.",
        )
    return before, after


def recipe_of(config: Record) -> str:
    """Returns the name of a run, without its seed where it ends in that, as `lake-1` does."""
    return str(config["recipe"]).removesuffix(f"-{config['seed']}")


def file_name(directory: Path) -> str:
    """Returns what the result of a run is called: its recipe, and its seed where that is not 0.

    Raises:
        MissingRunDataError: If there is no run.
        ConfigError: If it is no run of reinforcement learning, but recorded episodes, for instance.
    """
    config = RunReader(directory).config
    require(
        config.keys() >= {"recipe", "seed"},
        f"{directory} is no run of a recipe: its config.json lacks recipe or seed. Name one, such as "
        "runs/frozenlake_tiny.",
    )
    seed = int(config["seed"])
    return f"{recipe_of(config)}-{seed}.json" if seed else f"{recipe_of(config)}.json"


def require_finished(directory: Path) -> None:
    """Raises `ConfigError` where a run was not evaluated both before its first iteration and after its last one."""
    labels = {line["label"] for line in RunReader(directory).evaluations()}
    require("after" in labels, f"{directory} is not finished: it was not evaluated afterwards.")
    require("before" in labels, f"{directory} was not evaluated before its first iteration: nothing can be compared.")


def differences(result: Result, directory: Path) -> list[str]:
    """Returns in what a result differs from what a run, or the same once more, came to; empty if in nothing.

    That is its recipe and seed, its settings as far as they are known, its length and its test levels.
    """
    reader = RunReader(directory)
    config = reader.config
    by_name = _by_world(reader.trajectories("after"))
    levels = [_levels(by_name.get(world.world, [])) for world in result.worlds]
    differs = {
        "another recipe": result.recipe != recipe_of(config),
        "another seed": result.seed != int(config["seed"]),
        "other settings or another start": result.setup not in ("", setup_of(config)),
        "another number of iterations": result.num_iterations != len(_iterations(reader)),
        "other test levels": [world.levels for world in result.worlds] != levels,
    }
    return [name for name, is_other in differs.items() if is_other]


def _iterations(reader: RunReader) -> list[Record]:
    return [line for line in reader.metrics() if line.get("phase") == "rl"]


def start_of(directory: Path, config: Record) -> Path:
    """Returns the checkpoint that a run started from."""
    return directory / "cold_start" if config["model"] is None else model_directory(config["model"])


def imitated_of(config: Record) -> tuple[ColdStartConfig, tuple[WorldSpec, ...]]:
    """Returns what a run's start has imitated, and in which worlds: in none where nothing beside the model tells.

    That of a run that was given a model is in the model's provenance; the run's own settings are not about it.
    """
    kept = config if config["model"] is None else provenance_of(config["model"]) or {}
    imitated: ColdStartConfig = rebuilt(ColdStartConfig, kept.get("cold_start") or {"num_steps": 0})
    worlds: tuple[WorldSpec, ...] = rebuilt(tuple[WorldSpec, ...], kept.get("worlds") or [])
    return imitated, worlds


def setup_of(config: Record) -> str:
    """Returns a digest of the settings that a run's training depends on and of the weights it started from.

    Args:
        config: Of the run.
    """
    settings: dict[str, Any] = {name: config.get(name) for name in TRAINING_SETTINGS}
    settings["ppo"] = _as_before("ppo", config)
    settings["worlds"] = [{k: v for k, v in each.items() if k not in _OF_WORKERS} for each in config["worlds"]]
    # A start of one's own depends on the seed, as what is learnt from it does
    own = config["model"] is None
    start = _as_before("cold_start", config) if own else weights_hash(model_directory(config["model"]))
    return hashlib.sha256(json.dumps([settings, start], sort_keys=True).encode()).hexdigest()[:16]


def _as_before(name: str, config: Record) -> dict[str, Any]:
    settings: Any = config[name]
    return {k: v for k, v in settings.items() if (k, v) not in _SINCE[name].items()}


def policy_of(directory: Path) -> Path:
    """Returns the checkpoint that a run's last evaluation played: its best, where one was chosen."""
    return directory / BEST if has_model(directory / BEST) else directory / LATEST / "model"


def curve(lines: Sequence[Record], measures: Collection[str] = ("success",)) -> list[dict[str, float]]:
    """Returns what is drawn of a run's iterations: means of as many as make at most `MAX_POINTS` points.

    Args:
        lines: Its metrics.
        measures: What its worlds are measured by.
    """
    names = {each if each == "success" else f"metric/{each}": each for each in measures}
    return _means(lines, names | _SCORES, MAX_POINTS)


def world_curve(lines: Sequence[Record], world: str, measure: str, measures: Sequence[str]) -> list[dict[str, float]]:
    """Returns what `curve` does of one world of a mix, in fewer points, for iterations play few episodes of each.

    Args:
        lines: The run's metrics.
        world: What the run calls it.
        measure: What it is measured by. Any but success is logged of all worlds that have it at once, and is left out
            where several do.
        measures: What each world of the mix is measured by.
    """
    names = {f"{old}/{world}": new for old, new in _SCORES.items()}
    if measure == "success":
        names[f"success/{world}"] = measure
    elif measures.count(measure) == 1:
        names[f"metric/{measure}"] = measure
    return [point for point in _means(lines, names, MAX_WORLD_POINTS) if len(point) > 1]


def _means(lines: Sequence[Record], names: Mapping[str, str], most: int) -> list[dict[str, float]]:
    """Returns at most so many points of a curve: `iteration`, and the means of what lines hold, by their new names."""
    size = -(-len(lines) // most) or 1
    points = []
    for first in range(0, len(lines), size):
        part = lines[first : first + size]
        known = {old: [line[old] for line in part if line.get(old) is not None] for old in names}
        means = {names[old]: round(float(np.mean(values)), 4) for old, values in known.items() if values}
        points.append({"iteration": float(np.mean([line["iteration"] for line in part])), **means})
    return points


def _num_played(lines: Sequence[Record], name: str, group_size: int) -> int | None:
    """Returns how many episodes of a world iterations played, where they log its groups, as adaptive mixes do."""
    groups = [line[key] for line in lines if (key := f"mix/{name}/groups") in line]
    return round(sum(groups)) * group_size if groups else None


def _looked(before: Sequence[Record], after: Sequence[Record]) -> dict[str, list[float]]:
    """Returns in which episodes a tool did its work, by its name in `WorldResult`; empty where there are no tools."""
    looked = {}
    for when, episodes in (("before", before), ("after", after)):
        used = [float(was) for each in episodes if (was := tool_was_used(each["metrics"])) is not None]
        if len(used) == len(episodes):
            looked[f"looked_{when}"] = used
    return looked


def _levels(episodes: Sequence[Record]) -> list[str]:
    return [short_hash(each["start_state_hash"]) for each in episodes]


def _by_world(episodes: Sequence[Record]) -> _Episodes:
    found: _Episodes = {}
    for episode in episodes:
        found.setdefault(episode["world"] or episode["env_id"], []).append(episode)
    return found


def _require_whole(reader: RunReader, name: str, recorded: dict[str, int]) -> None:
    """Raises `ConfigError` where an evaluation had more episodes than were recorded."""
    for line in reader.evaluations():
        if line["label"] in recorded and line["world"] == name and line["num_episodes"] != recorded[line["label"]]:
            raise ConfigError(
                f"Of the {line['num_episodes']} episodes of {line['label']!r} in {name}, {recorded[line['label']]} "
                "were recorded, and levels cannot be paired. Evaluate on at most 256: --num-eval-episodes 256."
            )
