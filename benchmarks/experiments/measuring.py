"""Turns a finished run into a record: its logged curves, and test results of its policy and baselines."""

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
"""Maximum number of points of a curve; longer curves are averaged."""
NUM_LAZY_LEVELS = 128
"""Validation levels for choosing the best blind script; with few levels, the best would merely be the luckiest."""

_SETTINGS = (
    *("trained_with", "worlds", "mix", "tokenizer_worlds", "num_iterations", "num_groups", "group_size"),
    *("sampling", "rollout", "staleness", "sampler", "judge", "algorithm", "ppo", "lora", "dtype", "reference"),
)
"""Settings that affect training, apart from its seed, its start, and the data that the start imitated."""
_OF_WORKERS = ("workers", "num_workers", "step_timeout_s")
_MADE_BY = ("command", "commit", "versions", "trained_with")
_CURVES = {
    **{name: name for name in ("success", "return", "loss", "eval_loss")},
    "score/observation": "observation",
    "score/prediction": "prediction",
    "thought_score": "thought",
    "tool_used": "tool_used",
}
"""Names in curves of logged metrics; the success rate of each world is kept, too."""


def measured(experiment: Experiment, variant: str, seed: int, directory: Path | None) -> Record:
    """Returns the record of a finished run, for which its policy or baselines play the test levels now.

    Args:
        experiment: The experiment.
        variant: Label of the variant, or `START`.
        seed: Seed of the run.
        directory: The run's directory; None for a shipped start.

    Raises:
        MissingRunDataError: If there is no run, or it recorded no episodes.
        ConfigError: If the run is not finished, or not all episodes of its evaluations were recorded.
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
    """Returns the results of a staged run's last model, or of a start, on the test levels of a claim."""
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
            require(not played.num_lost, f"{played.num_lost} episodes of {name} were lost; the test needs all of them.")
            solved = [float(episode.success) for episode in played.trajectories]
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
    """Returns the results of a run in one world before and after training, and those of its baselines."""
    reader = RunReader(directory)
    config = reader.config
    (spec,), (name,) = (specs := rebuilt(tuple[WorldSpec, ...], config["worlds"])), world_names(specs)
    before, after = _evaluated(reader, directory, name)
    start = directory / "cold_start" if config["model"] is None else model_directory(config["model"])
    (started, _), (trained, encoder) = (load_checkpoint(path) for path in (start, policy_of(directory)))
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
        before=[_outcome(episode, measure) for episode in before],
        after=[_outcome(episode, measure) for episode in after],
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
    """Returns the episodes before the first and after the last iteration, which must be on the same levels."""
    logged = {line["label"]: line["num_episodes"] for line in reader.evaluations() if line["world"] == world}
    require("after" in logged, f"{directory} is not finished: it has no evaluation after training.")
    require("before" in logged, f"{directory} has no evaluation before its first iteration to compare with.")
    before, after = (reader.trajectories(label) for label in ("before", "after"))
    for label, episodes in (("before", before), ("after", after)):
        require(
            logged[label] == len(episodes),
            f"Of the {logged[label]} episodes of {label!r} in {world}, {len(episodes)} were recorded, so levels cannot "
            "be paired. Evaluate on at most 256: --num-eval-episodes 256.",
        )
    require(
        _levels(before) == _levels(after),
        f"In {world}, {directory} was evaluated on different levels before and after; episodes were lost, so levels "
        "cannot be paired.",
    )
    return before, after


def _levels(episodes: Sequence[Line]) -> list[str]:
    """Returns the first eight digits of each start hash, enough to avoid collisions among a few hundred levels."""
    return [episode["start_state_hash"][:8] for episode in episodes]


def _outcome(episode: Line, measure: str) -> float:
    """Returns whether an episode was solved, as 0 or 1, or one of its world's metrics."""
    return float(episode["success"]) if measure == "success" else round(float(episode["metrics"].get(measure, 0.0)), 4)


def tool_uses(before: Sequence[Line], after: Sequence[Line]) -> dict[str, list[float]]:
    """Returns whether each episode used a tool successfully, by field of `WorldRecord`; empty without tools."""
    found = {}
    for name, episodes in (("looked_before", before), ("looked_after", after)):
        used = [float(was) for episode in episodes if (was := tool_was_used(episode["metrics"])) is not None]
        if len(used) == len(episodes):
            found[name] = used
    return found


def policy_of(directory: Path) -> Path:
    """Returns the checkpoint that a run's last evaluation played: the best one if it was kept."""
    return directory / BEST if has_model(directory / BEST) else directory / LATEST / "model"


def imitated_of(config: Line) -> tuple[ColdStartConfig, tuple[WorldSpec, ...]]:
    """Returns the cold-start settings and worlds of a run's start; for a given model, from its provenance."""
    kept = config if config["model"] is None else provenance_of(config["model"]) or {}
    imitated: ColdStartConfig = rebuilt(ColdStartConfig, kept.get("cold_start") or {"num_steps": 0})
    worlds: tuple[WorldSpec, ...] = rebuilt(tuple[WorldSpec, ...], kept.get("worlds") or [])
    return imitated, worlds


def setup_of(config: Line) -> str:
    """Returns a digest of the settings and start weights that a run's training depends on, except the seed."""
    settings: dict[str, Any] = {name: config.get(name) for name in _SETTINGS}
    settings["worlds"] = [{k: v for k, v in world.items() if k not in _OF_WORKERS} for world in config["worlds"]]
    # A cold start within the run depends on the seed, so its settings are hashed instead of its weights
    start = config["cold_start"] if config["model"] is None else weights_hash(model_directory(config["model"]))
    return hashlib.sha256(json.dumps([settings, start], sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """Agents that play a run's test levels with the sampling of its evaluations.

    Attributes:
        start: The model before training.
        trained: The model after training.
        encoder: Encoder of both models.
        sampling: Sampling settings of the run's evaluations.
        imitated: Cold-start settings of the start.
        imitated_in: Worlds of the cold start, with the expert's settings.
        seed: Seed of the agents and of a suboptimal expert.
    """

    start: Any
    trained: Any
    encoder: ChatEncoder
    sampling: SamplingConfig
    imitated: ColdStartConfig
    imitated_in: Sequence[WorldSpec]
    seed: int

    def outcomes(self, spec: WorldSpec, *, first: int, num_levels: int) -> dict[str, list[float]]:
        """Returns each baseline's outcomes on test levels from index `first`, by field of `WorldRecord`.

        Leaves out baselines that cannot differ from the policy, and an expert that was not imitated.
        """
        measure = measure_of(spec.env_id)
        found = {}
        for name, agent in self.agents(spec).items():
            played = evaluate(agent, spec, split="test", num_episodes=num_levels, first=first)
            ends = [(episode.success, episode.turns[-1].info.get("metrics") or {}) for episode in played.trajectories]
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
        there = [world for world in self.imitated_in if world.env_id == spec.env_id]
        if not there:
            return None
        alike = next((world for world in there if world.kwargs == spec.kwargs), there[0])
        return expert_of(alike, self.imitated, seed=self.seed)


def shows_images(spec: WorldSpec) -> bool:
    """Returns whether an expert sees an image, from the world or from a tool."""
    played = evaluate(make_agent("oracle"), spec, split="val", num_episodes=4)
    return any(observation_images(turn.observation) for episode in played.trajectories for turn in episode.turns)


def learning_curves(directory: Path) -> list[Span]:
    """Returns the learning curves of a run, or of the started stages of a staged run.

    Raises:
        MissingRunDataError: If there is no run.
        ConfigError: If nothing was learned yet.
    """
    spans = [span for stage, reader in _readers(directory) for span in _spans(stage, reader)]
    if not any(span.points or span.evaluations for span in spans):
        raise ConfigError(f"{directory} has learned nothing yet, so it has no curve. Let it run, or name another run.")
    return spans


def _readers(directory: Path) -> list[tuple[str, RunReader]]:
    """Returns the started stages of a run, or the run itself, by name."""
    if not (directory / STAGES).is_file():
        return [(directory.resolve().name, RunReader(directory))]
    begun = [folder for folder in stage_folders(directory) if (directory / folder / "config.json").is_file()]
    return [(folder, RunReader(directory / folder)) for folder in begun]


def _made_by(directory: Path) -> dict[str, Any]:
    configs = [reader.config for _, reader in _readers(directory)]
    trained = next((config for config in reversed(configs) if "command" in config), configs[-1])
    return {name: trained[name] for name in _MADE_BY if name in trained}


def _spans(stage: str, reader: RunReader) -> Iterator[Span]:
    """Yields the spans of a stage: its cold start, if it has one, and its training."""
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
        evaluations = [replace(evaluation, iteration=num_iterations) for evaluation in evaluations]
    return Span(
        stage=stage, kind=kind, num_iterations=num_iterations, points=curve_points(lines), evaluations=evaluations
    )


def curve_points(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Returns a curve of at most `MAX_POINTS` points, each averaged over equally many lines of metrics."""
    size = -(-len(lines) // MAX_POINTS) or 1
    points = []
    for first in range(0, len(lines), size):
        part = lines[first : first + size]
        names = {name: _curve_name(name) for line in part for name in line}
        values = {
            new: [line[name] for line in part if line.get(name) is not None] for name, new in names.items() if new
        }
        means = {name: round(float(np.mean(numbers)), 5) for name, numbers in values.items() if numbers}
        points.append({"iteration": float(np.mean([line["iteration"] for line in part])), **means})
    return points


def _curve_name(metric: str) -> str | None:
    """Returns a metric's name in curves; None for metrics that curves leave out."""
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
