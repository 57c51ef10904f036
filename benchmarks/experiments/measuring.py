"""From a finished run to its record: what it logged, and what it and its baselines solve on test levels now."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from agents.agent import Agent
from agents.blind_script import LazyAgent
from agents.hf.ablation_agents import BlindHFAgent, ToldHFAgent, can_be_told
from agents.hf.chat import ChatEncoder
from agents.hf.hf_agent import HFAgent, load_checkpoint
from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent
from benchmarks.experiments.experiment import START, Experiment
from benchmarks.experiments.records import Evaluation, Kind, Record, Span, WorldRecord
from benchmarks.experiments.shipped_experiments import find_experiments
from training.checkpoints.checkpoint_files import LATEST, has_model, model_directory, provenance_of, weights_hash
from training.checkpoints.checkpoint_state import BEST
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.demonstrations import expert_of
from training.config.run_config import EvalSamplingConfig, RunConfig
from training.config.saved_config import rebuilt
from training.config.world_spec import WorldSpec, world_names
from training.loop.evaluation import evaluate, measure_of
from training.loop.metrics import mean_scores
from training.loop.provenance import circumstances
from training.rewards.turn_scores import TurnScorer
from training.stages.stages_config import saved_stages
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record as Line
from vlm_envs.records.report_page import stage_folders
from vlm_envs.records.run_data import STAGES, RunReader, world_of
from vlm_envs.trajectory import observation_images, tool_was_used
from vlm_envs.validation import require

MAX_POINTS = 100
"""Of a curve; longer ones are averaged."""
NUM_LAZY_LEVELS = 128
"""Validation levels on which the best blind scripts are compared: the best of few is merely the luckiest."""

_SETTINGS = (
    *("trained_with", "worlds", "mix", "tokenizer_worlds", "num_iterations", "num_groups", "group_size"),
    *("sampling", "rollout", "staleness", "sampler", "judge", "algorithm", "ppo", "lora", "dtype", "reference"),
)
"""Settings that training depends on, besides its seed, its start, and what that imitated."""
_OF_WORKERS = ("workers", "num_workers", "step_timeout_s")
_MADE_BY = ("command", "commit", "versions", "trained_with")
_CURVES = {
    **{name: name for name in ("success", "return", "loss", "eval_loss")},
    "score/observation": "observation",
    "score/prediction": "prediction",
    "thought_score": "thought",
    "tool_used": "tool_used",
}
"""Logged metrics that curves keep, beside each world's success, and their names there."""


def measured(experiment: Experiment, variant: str, seed: int, directory: Path | None) -> Record:
    """Returns the record of a finished run; it, or its baselines, play the experiment's test levels now.

    Args:
        experiment: The experiment.
        variant: Label of the variant, or `START`.
        seed: Seed of the run.
        directory: The run's directory; None for a start that ships.

    Raises:
        MissingRunDataError: If there is no run, or it recorded no episodes.
        ConfigError: If the run is not finished, or its evaluations were not recorded as a whole.
    """
    made: dict[str, Any] = {"experiment": experiment.name, "variant": variant, "seed": seed}
    if experiment.claim is not None:
        made |= _tested(experiment, variant, seed, directory)
    elif experiment.has_baselines:
        assert directory is not None, "only the starts of claims ship"
        made |= _compared(directory)
    if directory is not None:
        made["spans"] = learning_curves(directory)
        made.setdefault("made_by", _made_by(directory))
    return Record(**made)


def _tested(experiment: Experiment, variant: str, seed: int, directory: Path | None) -> dict[str, Any]:
    """Returns what the last model of a run of stages, or a start, solves on the test levels of a claim."""
    claim = experiment.claim
    assert claim is not None, "it tests a claim"
    if directory is None:
        model, runs = model_directory(claim.start), []
    else:
        config, _ = saved_stages(directory)
        model = config.last_model
        stages = () if variant == START else config.stages
        runs = [stage.run for stage in stages if isinstance(stage.run, RunConfig)]
    policy, encoder = load_checkpoint(model)
    agent = make_agent("hf", model=policy.eval(), encoder=encoder, sampling=claim.sampling, seed=seed)
    worlds, measures = list[WorldRecord](), defaultdict[str, list[float]](list)
    with contextlib.closing(TurnScorer(claim.judge)) as judge:
        for spec in claim.test_worlds({} if variant == START else experiment.variants[variant].kwargs):
            name = str(spec.name)
            played = evaluate(agent, spec, split="test", num_episodes=claim.num_test_levels, name=name)
            require(not played.num_lost, f"{played.num_lost} episodes of {name} were lost, and none may be missing.")
            solved = [float(each.success) for each in played.trajectories]
            world = WorldRecord(world=name, env_id=spec.env_id, kwargs=spec.kwargs, measure="success", after=solved)
            worlds.append(world)
            with contextlib.closing(judge.for_evaluation()) as scorer:
                scores = mean_scores(scorer.score(played.trajectories))
                for metric, value in (played.record() | scores | scorer.metrics()).items():
                    if isinstance(value, int | float) and math.isfinite(value):
                        measures[metric].append(value)
    return {
        "num_episodes": 0
        if variant == START
        else sum(run.num_iterations * run.num_groups * run.group_size for run in runs),
        "minutes": 0.0 if directory is None else _minutes(directory),
        "worlds": worlds,
        "measures": {name: round(float(np.mean(values)), 4) for name, values in measures.items()},
        "made_by": {name: circumstances()[name] for name in ("commit", "versions")},
    }


def _minutes(directory: Path) -> float:
    lines = [line for _, reader in _readers(directory) for line in reader.metrics()]
    return sum(float(line.get("iteration_s", 0.0)) for line in lines) / 60


def _compared(directory: Path) -> dict[str, Any]:
    """Returns what a run in one world solved before and after training, and what its baselines solve."""
    reader = RunReader(directory)
    config = reader.config
    (spec,), (name,) = (specs := rebuilt(tuple[WorldSpec, ...], config["worlds"])), world_names(specs)
    before, after = _evaluated(reader, directory, name)
    start = directory / "cold_start" if config["model"] is None else model_directory(config["model"])
    (started, _), (trained, encoder) = (load_checkpoint(each) for each in (start, policy_of(directory)))
    imitated, imitated_in = imitated_of(config)
    evaluated = rebuilt(EvalSamplingConfig, config.get("eval_sampling", {}))
    sampling: SamplingConfig = evaluated.over(rebuilt(SamplingConfig, config["sampling"]))
    baselines = Baselines(
        start=started,
        trained=trained,
        encoder=encoder,
        sampling=sampling,
        imitated=imitated,
        imitated_in=imitated_in,
        seed=int(config["seed"]) + 1,
    )
    measure = measure_of(spec.env_id)
    world = WorldRecord(
        world=name,
        env_id=spec.env_id,
        kwargs=spec.kwargs,
        measure=measure,
        levels=_levels(after),
        before=[_outcome(each, measure) for each in before],
        after=[_outcome(each, measure) for each in after],
        **tool_uses(before, after),
        **baselines.outcomes(spec, first=int(config.get("first_eval_level", 0)), num_levels=len(after)),
    )
    lines = _learned(reader)
    return {
        "setup": setup_of(config),
        "num_parameters": sum(weight.numel() for weight in trained.parameters()),
        "num_iterations": len(lines),
        "num_episodes": len(lines) * int(config["num_groups"]) * int(config["group_size"]),
        "minutes": sum(line["iteration_s"] for line in lines) / 60,
        "temperature": sampling.temperature,
        "worlds": [world],
    }


def _learned(reader: RunReader) -> list[Line]:
    return [line for line in reader.metrics() if line.get("phase") == "rl"]


def _evaluated(reader: RunReader, directory: Path, world: str) -> tuple[list[Line], list[Line]]:
    """Returns the episodes before the first and after the last iteration, which must be of the same levels."""
    logged = {line["label"]: line["num_episodes"] for line in reader.evaluations() if line["world"] == world}
    require("after" in logged, f"{directory} is not finished: it was not evaluated afterwards.")
    require("before" in logged, f"{directory} was not evaluated before its first iteration: nothing can be compared.")
    before, after = (reader.trajectories(label) for label in ("before", "after"))
    for label, episodes in (("before", before), ("after", after)):
        require(
            logged[label] == len(episodes),
            f"Of the {logged[label]} episodes of {label!r} in {world}, {len(episodes)} were recorded, and levels "
            "cannot be paired. Evaluate on at most 256: --num-eval-episodes 256.",
        )
    require(
        _levels(before) == _levels(after),
        f"In {world} {directory} was evaluated before on other levels than after; episodes were lost, and levels "
        "cannot be paired.",
    )
    return before, after


def _levels(episodes: Sequence[Line]) -> list[str]:
    """Returns the first eight digits of each start's hash, which do not collide by chance among some hundred levels."""
    return [each["start_state_hash"][:8] for each in episodes]


def _outcome(episode: Line, measure: str) -> float:
    """Returns 1 for a solved episode, or one of its world's metrics."""
    return float(episode["success"]) if measure == "success" else round(float(episode["metrics"].get(measure, 0.0)), 4)


def tool_uses(before: Sequence[Line], after: Sequence[Line]) -> dict[str, list[float]]:
    """Returns in which episodes a tool was used with success, by field of `WorldRecord`; empty without tools."""
    found = {}
    for name, episodes in (("looked_before", before), ("looked_after", after)):
        used = [float(was) for each in episodes if (was := tool_was_used(each["metrics"])) is not None]
        if len(used) == len(episodes):
            found[name] = used
    return found


def policy_of(directory: Path) -> Path:
    """Returns the checkpoint that a run's last evaluation played: its best, if one was chosen."""
    return directory / BEST if has_model(directory / BEST) else directory / LATEST / "model"


def imitated_of(config: Line) -> tuple[ColdStartConfig, tuple[WorldSpec, ...]]:
    """Returns what a run's start imitated, and in which worlds; for a given model, what its provenance says."""
    kept = config if config["model"] is None else provenance_of(config["model"]) or {}
    imitated: ColdStartConfig = rebuilt(ColdStartConfig, kept.get("cold_start") or {"num_steps": 0})
    worlds: tuple[WorldSpec, ...] = rebuilt(tuple[WorldSpec, ...], kept.get("worlds") or [])
    return imitated, worlds


def setup_of(config: Line) -> str:
    """Returns a digest of the settings that a run's training depends on, and of the weights it started from."""
    settings: dict[str, Any] = {name: config.get(name) for name in _SETTINGS}
    settings["worlds"] = [{k: v for k, v in each.items() if k not in _OF_WORKERS} for each in config["worlds"]]
    # A start of the run's own depends on the seed, as what is learned from it does
    start = config["cold_start"] if config["model"] is None else weights_hash(model_directory(config["model"]))
    return hashlib.sha256(json.dumps([settings, start], sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """Agents that play a run's test levels, sampled as the run's own evaluations were.

    Attributes:
        start: The model before training.
        trained: The model after training.
        encoder: Of both.
        sampling: Of the run's evaluations.
        imitated: What the start imitated.
        imitated_in: In which worlds, with the expert's settings there.
        seed: Of the agents, and of a suboptimal expert.
    """

    start: Any
    trained: Any
    encoder: ChatEncoder
    sampling: SamplingConfig
    imitated: ColdStartConfig
    imitated_in: Sequence[WorldSpec]
    seed: int

    def outcomes(self, spec: WorldSpec, *, first: int, num_levels: int) -> dict[str, list[float]]:
        """Returns each baseline's outcomes on test levels from index `first` on, by field of `WorldRecord`.

        Baselines that could not differ from the policy are left out, and so is an expert that was not imitated.
        """
        measure = measure_of(spec.env_id)
        found = {}
        for name, agent in self.agents(spec).items():
            played = evaluate(agent, spec, split="test", num_episodes=num_levels, first=first)
            ends = [(each.success, each.turns[-1].info.get("metrics") or {}) for each in played.trajectories]
            found[name] = [_outcome({"success": success, "metrics": metrics}, measure) for success, metrics in ends]
        return found

    def agents(self, spec: WorldSpec) -> dict[str, Agent]:
        """Returns the baselines in a world, by field of `WorldRecord`."""
        settings: dict[str, Any] = {"encoder": self.encoder, "sampling": self.sampling, "seed": self.seed}
        greedy = settings | {"sampling": replace(self.sampling, temperature=0.0)}
        agents: dict[str, Agent] = {
            "lazy": LazyAgent(num_val_levels=NUM_LAZY_LEVELS),
            "greedy_before": HFAgent(model=self.start, **greedy),
            "greedy_after": HFAgent(model=self.trained, **greedy),
        }
        if (expert := self.expert(spec)) is not None:
            agents["expert"] = expert
        if shows_images(spec):
            agents["blind"] = BlindHFAgent(model=self.trained, **settings)
        with spec.made() as world:
            world.reset(seed=0)
            has_place = can_be_told(world)
        if has_place:
            agents["told_before"] = ToldHFAgent(model=self.start, **settings)
            agents["told_after"] = ToldHFAgent(model=self.trained, **settings)
        return agents

    def expert(self, spec: WorldSpec) -> Agent | None:
        """Returns the expert that the start imitated in a world, equally suboptimal; None if there is none."""
        there = [each for each in self.imitated_in if each.env_id == spec.env_id]
        if not there:
            return None
        alike = next((each for each in there if each.kwargs == spec.kwargs), there[0])
        return expert_of(alike, self.imitated, seed=self.seed)


def shows_images(spec: WorldSpec) -> bool:
    """Returns whether an expert sees an image, from the world or from a tool that it calls."""
    played = evaluate(make_agent("oracle"), spec, split="val", num_episodes=4)
    return any(observation_images(turn.observation) for each in played.trajectories for turn in each.turns)


def learning_curves(directory: Path) -> list[Span]:
    """Returns the learning curves of a run, or of the stages of a staged run that have begun.

    Raises:
        MissingRunDataError: If there is no run.
        ConfigError: If it has learned nothing yet.
    """
    spans = [span for stage, reader in _readers(directory) for span in _spans(stage, reader)]
    if not any(span.points or span.evaluations for span in spans):
        raise ConfigError(f"{directory} has learned nothing yet, so it has no curve. Let it run, or name another run.")
    return spans


def _readers(directory: Path) -> list[tuple[str, RunReader]]:
    """Returns the stages of a run that have begun, or the run itself, by name."""
    if not (directory / STAGES).is_file():
        return [(directory.resolve().name, RunReader(directory))]
    begun = [folder for folder in stage_folders(directory) if (directory / folder / "config.json").is_file()]
    return [(folder, RunReader(directory / folder)) for folder in begun]


def _made_by(directory: Path) -> dict[str, Any]:
    configs = [reader.config for _, reader in _readers(directory)]
    trained = next((each for each in reversed(configs) if "command" in each), configs[-1])
    return {name: trained[name] for name in _MADE_BY if name in trained}


def _spans(stage: str, reader: RunReader) -> Iterator[Span]:
    """Yields a stage's cold start, if it made one, and what it learned then."""
    config, lines = reader.config, reader.metrics()
    if "curation" in config:
        found = config["yield"]
        yield Span(stage=stage, kind="curation", note=f"kept {found['num_kept']} of {found['num_samples']} questions")
        return
    imitated = [line for line in lines if line.get("phase") == "cold_start"]
    learned = [line for line in lines if line.get("phase") != "cold_start"]
    evaluations = [_evaluation(line) for line in reader.evaluations()]
    if imitated:
        is_all = not learned and not config.get("num_iterations")
        yield _span(stage, "imitation", imitated, evaluations if is_all else [])
        if is_all:
            return
    if learned or evaluations:
        yield _span(stage, "rl" if "worlds" in config else "sft", learned, evaluations)


def _span(stage: str, kind: Kind, lines: Sequence[Line], evaluations: list[Evaluation]) -> Span:
    num_iterations = max((int(line["iteration"]) + 1 for line in lines), default=0)
    if kind == "imitation":  # evaluated after its last step
        evaluations = [replace(each, iteration=num_iterations) for each in evaluations]
    return Span(
        stage=stage, kind=kind, num_iterations=num_iterations, points=curve_points(lines), evaluations=evaluations
    )


def curve_points(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Returns a curve of at most `MAX_POINTS` points, each the means of equally many lines of metrics."""
    size = -(-len(lines) // MAX_POINTS) or 1
    points = []
    for first in range(0, len(lines), size):
        part = lines[first : first + size]
        names = {name: _curve_name(name) for line in part for name in line}
        values = {
            new: [line[name] for line in part if line.get(name) is not None] for name, new in names.items() if new
        }
        means = {name: round(float(np.mean(each)), 5) for name, each in values.items() if each}
        points.append({"iteration": float(np.mean([line["iteration"] for line in part])), **means})
    return points


def _curve_name(metric: str) -> str | None:
    """Returns a metric's name in curves; None for one they do not keep."""
    if metric.startswith("success/"):
        return metric
    return "similarity" if metric == "metric/similarity" else _CURVES.get(metric)


def _evaluation(line: Line) -> Evaluation:
    reward, policy = line.get("reward"), line.get("policy_iteration")
    return Evaluation(
        iteration=int(line.get("iteration", 0) if policy is None else policy),
        label=str(line["label"]),
        world=world_of(line),
        split=str(line.get("split", "test")),
        num_successes=int(line["num_successes"]),
        num_episodes=int(line["num_episodes"]),
        reward=None if reward is None else round(float(reward), 5),
    )


def main(words: Sequence[str]) -> None:
    """Measures one run: EXPERIMENT VARIANT SEED RESULTS [RUN]."""
    name, variant, seed, results, *run = words
    (experiment,) = find_experiments(name)
    record = measured(experiment, variant, int(seed), Path(run[0]) if run else None)
    print(record.save(Path(results)))


if __name__ == "__main__":
    main(sys.argv[1:])
