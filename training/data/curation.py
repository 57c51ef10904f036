"""Curation: an expert plays, a verifier scores, and the good rollouts become a data set to imitate.

    worlds ── expert, several rollouts a question ── verifier ── best rollout ≥ threshold ──> data set

Source: Argos, section 4 and appendix C (a sample is kept with its best rollout if that scores 0.7 or more);
ARM-Thinker, section 3.2 (questions that are always answered right are dropped; trajectories need format, accuracy and,
with tools, a call that worked).

A data set is a directory as runs are, so that reports and readers of runs read it too: `config.json` says how it was
made and what the yield was, `trajectories/curated.jsonl` has the episodes, `images/` the pictures. `sft.jsonl` is the
same as chat messages, for other trainers.
"""

from __future__ import annotations

import io
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from agents.agent import Agent
from agents.hf.sampling import SamplingConfig
from agents.registry import make_agent, setting_names
from judges.episode_rewards.curation import Curated, curate, is_trivial
from judges.episode_rewards.episode import query_id
from judges.episode_rewards.models import JudgeModels
from judges.episode_rewards.reward import EpisodeJudge, rewards_by
from judges.scores import Reward
from training.config.curation import CURATED, CurateConfig
from training.config.pool_levels import chosen_levels
from training.config.worlds import WorldSpec
from training.data.episodes import play_each
from training.data.pointed_teacher import PointedTeacher
from training.data.proposals import ModelProposals, exact_proposals
from training.preflight.start import require_teachable
from training.rewards.verifier import Verifier
from vlm_envs.errors import ConfigError, WorkerError, require
from vlm_envs.records.json_lines import append_line
from vlm_envs.records.run_data import RunReader, RunWriter
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Observation, Trajectory, Turn

_UNFINISHED = ".unfinished"
"""Behind the name of a data set that is being written, so that what has its own name is whole."""

_FIRST_SEED = 950_000_000
"""Training seeds from here on belong to curation; cold starts and reinforcement learning use others."""


@dataclass(frozen=True, kw_only=True)
class Yield:
    """What came of a curation.

    Attributes:
        curated: What was kept of the questions that were not dropped.
        num_trivial: Questions dropped because every rollout was right.
        rejections: How many rollouts were passed over, by the reason.
        num_lost: Questions left out because a worker was lost with a rollout, twice; they are in no other number.
    """

    curated: Curated[Trajectory]
    num_trivial: int
    rejections: Mapping[str, int]
    num_lost: int = 0

    def record(self) -> dict[str, Any]:
        """Returns the numbers."""
        return {
            "num_samples": self.curated.num_samples + self.num_trivial,
            "num_trivial": self.num_trivial,
            "num_lost": self.num_lost,
            "num_rollouts": self.curated.num_rollouts,
            "num_good_rollouts": self.curated.num_good_rollouts,
            "num_kept": len(self.curated.kept),
            "sample_yield": self.curated.sample_yield,
            "rollout_yield": self.curated.rollout_yield,
            "rejections": dict(self.rejections),
        }

    def __str__(self) -> str:
        of = self.curated
        passed_over = ", ".join(f"{count} for {reason}" for reason, count in sorted(self.rejections.items())) or "none"
        return (
            f"kept {len(of.kept)} of {of.num_samples} questions (yield {of.sample_yield:.3f}); "
            f"{of.num_good_rollouts} of {of.num_rollouts} rollouts are good (yield {of.rollout_yield:.3f}); "
            f"{self.num_trivial} trivial questions dropped; rollouts passed over: {passed_over}"
            + (f"; questions lost with their workers: {self.num_lost}" if self.num_lost else "")
        )


def make_data_set(config: CurateConfig) -> tuple[Path, Yield]:
    """Makes a data set; returns its directory, and what the yield was.

    Raises:
        VLMEnvsError: What `require_teachable` and `play` raise.
    """
    require_teachable(config)
    directory = Path(config.output) / config.name
    with closing(Verifier(config.verifier)) as verifier:
        judge = verifier_judge(config, verifier)
        groups = play(_expert(config), config)
        result = replace(filter_rollouts(groups, config, judge), num_lost=num_questions(config) - len(groups))
    unfinished = directory.with_name(f"{directory.name}{_UNFINISHED}")
    shutil.rmtree(unfinished, ignore_errors=True)  # what a call left that was killed
    writer = RunWriter(unfinished)
    writer.trajectories(CURATED, list(result.curated.kept.values()))
    writer.config({"curation": asdict(config), "yield": result.record()})
    for episode in RunReader(unfinished).trajectories(CURATED):
        append_line(unfinished / "sft.jsonl", chat_messages(episode))
    unfinished.replace(directory)
    return directory, result


def question_seeds(config: CurateConfig) -> list[int]:
    """Returns the reset seed of each question."""
    first = _FIRST_SEED + config.seed * 1_000_003 % 40_000_000
    levels = question_levels(config)
    return list(split_seeds("train", config.num_samples if levels is None else len(levels), start=first))


def question_levels(config: CurateConfig) -> list[str] | None:
    """Returns the level of each question, where they are a pool's; None where seeds draw them."""
    pool = config.spec.pool
    return None if pool is None else [each.level_id for each in chosen_levels(pool)[: config.num_samples]]


def play(expert: Agent, config: CurateConfig) -> list[list[Trajectory]]:
    """Plays every question as often as is asked for.

    Returns:
        The rollouts of each question, in order. One that is lost with its worker, or whose worker does not come up, is
        played once more; a question of which one is lost again is left out whole.

    Raises:
        WorkerError: If no question is left.
        ConfigError: If the expert is a person, who has left.
    """
    try:
        groups = [group for spec in config.specs for group in _played(expert, config, spec)]
    except EOFError as error:
        raise ConfigError(
            f"--expert {config.expert}: the input ended before all {num_questions(config) * config.num_rollouts} "
            "rollouts were played; nothing is kept. Play them at a terminal, or ask for fewer (--num-samples, "
            "--num-rollouts)."
        ) from error
    whole = [[each for each in group if each is not None] for group in groups if None not in group]
    if not whole:
        raise WorkerError(
            f"Nothing is left to curate: every one of {len(groups)} questions of {config.env_id} lost a rollout with "
            "its worker, twice. The warnings above say how; look after the world's engine and the machine's memory."
        )
    return whole


def num_questions(config: CurateConfig) -> int:
    """Returns how many questions there are; one that is asked again under another setting is another."""
    return len(question_seeds(config)) * len(config.specs)


def _played(expert: Agent, config: CurateConfig, spec: WorldSpec) -> list[list[Trajectory | None]]:
    """Returns the rollouts of each question under one of the settings; None for one that was lost."""
    questions, levels = question_seeds(config), question_levels(config)
    count, seeds = len(questions), questions * config.num_rollouts
    asked = None if levels is None else levels * config.num_rollouts
    played = play_each(expert, spec, seeds, split="train", max_parallel=count, levels=asked)
    return [played[question::count] for question in range(count)]


def verifier_judge(config: CurateConfig, verifier: Verifier) -> EpisodeJudge:
    """Returns the judge of the verifying reward, who asks these models; raises `ConfigError` if it cannot be built."""
    return config.reward.make_judge(JudgeModels(**verifier.models))


def filter_rollouts(groups: Sequence[Sequence[Trajectory]], config: CurateConfig, judge: EpisodeJudge) -> Yield:
    """Returns the best rollout of each question, where the judge of `verifier_judge` finds one good enough."""
    verifier = config.reward
    rejections: Counter[str] = Counter()
    samples: dict[str, list[tuple[Trajectory, Reward]]] = {}
    trivial = [config.drop_trivial and is_trivial(sum(each.success for each in group), len(group)) for group in groups]
    rollouts = [each for group, is_dropped in zip(groups, trivial, strict=True) if not is_dropped for each in group]
    # All questions at once: the verifier's models read many rows in one pass.
    for each, reward in zip(rollouts, rewards_by(verifier.name, judge, rollouts), strict=True):
        reason = verifier.rejection_reason(each)
        if reason is not None:
            told = f"rejection_reason of {verifier.name!r} must return why, as a text, or None; got {reason!r}."
            require(isinstance(reason, str), told)
            rejections[reason] += 1
            reward = Reward.unavailable(reason)  # A rollout without a reward is passed over.
        # A small data set gives one question more than once: its rollouts belong together.
        samples.setdefault(query_id(each), []).append((each, reward))
    return Yield(curated=curate(samples, config.threshold), num_trivial=sum(trivial), rejections=rejections)


def _expert(config: CurateConfig) -> Agent:
    """Returns who plays, with those of the settings that such an agent has, and shown places if it is to be."""
    teacher = _agent(config.expert, config)
    pointing = config.pointing
    if pointing.points == "none":
        return teacher
    if pointing.points == "exact":
        return PointedTeacher(teacher, exact_proposals)
    assert pointing.proposer is not None and pointing.pointer is not None, "they were required"
    proposer, pointer = (
        _agent(name, replace(config, sampling=replace(config.sampling, temperature=0.0)))
        for name in (pointing.proposer, pointing.pointer)
    )
    return PointedTeacher(teacher, ModelProposals(proposer, pointer))


def _agent(name: str, config: CurateConfig) -> Agent:
    """Returns an agent with those of the settings that it has; an endpoint keeps its own where nothing was said."""
    sampling = config.sampling
    offered = {"mistake_rate": config.mistake_rate, "sampling": sampling, "seed": config.seed, "device": "cpu"}
    known, usual = setting_names(name), SamplingConfig()
    said = {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_tokens": sampling.max_new_tokens}
    as_usual = {"temperature": usual.temperature, "top_p": usual.top_p, "max_tokens": usual.max_new_tokens}
    offered |= {key: value for key, value in said.items() if value != as_usual[key]}
    return make_agent(name, **{key: value for key, value in offered.items() if key in known})


def curated_episodes(directory: str | Path) -> list[Trajectory]:
    """Returns the episodes of a data set, as text and pictures.

    Raises:
        MissingRunDataError: If there is no data set.
        ConfigError: If it is empty.
    """
    reader = RunReader(directory)
    episodes = [_episode(reader, record) for record in reader.trajectories(CURATED)]
    if not episodes:
        raise ConfigError(
            f"The data set at {directory} is empty: nothing reached the threshold. Curate more, or lower it."
        )
    return episodes


def shuffled_batches(episodes: Sequence[Trajectory], batch_size: int, seed: int) -> Iterator[list[Trajectory]]:
    """Yields batches without end: every episode once, in a new order each time, before any comes again."""
    rng = np.random.default_rng(seed)
    queue: list[Trajectory] = []
    while True:
        while len(queue) < batch_size:
            queue += [episodes[index] for index in rng.permutation(len(episodes))]
        yield [queue.pop(0) for _ in range(batch_size)]


def _episode(reader: RunReader, record: Mapping[str, Any]) -> Trajectory:
    turns = tuple(
        Turn(
            observation=_observation(reader, turn),
            response_text=turn["response"],
            stop_reason="stop",
            reward=float(turn["reward"]),
            reward_terms=turn["reward_terms"],
            terminated=bool(turn["terminated"]),
            truncated=bool(turn["truncated"]),
            info={"success": bool(record["success"])},
            state=turn["state"],
        )
        for turn in record["turns"]
    )
    return Trajectory(
        env_id=record["env_id"],
        seed=record["seed"],
        turns=turns,
        final_observation=_observation(reader, record["final"]),
        start_state_hash="",
    )


def _observation(reader: RunReader, shown: Mapping[str, Any]) -> Observation:
    images = tuple(np.asarray(Image.open(io.BytesIO(reader.image(name))).convert("RGB")) for name in shown["images"])
    observation: Observation = {"text": shown["text"], "images": images}
    if "system" in shown:
        observation["system"] = shown["system"]
    return observation


def chat_messages(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a recorded episode as chat messages; pictures by their files' names within the data set."""
    messages: list[dict[str, Any]] = []
    for turn in record["turns"]:
        if "system" in turn:
            messages.append({"role": "system", "content": [{"type": "text", "text": turn["system"]}]})
        pictures = [{"type": "image", "image": f"images/{name[:2]}/{name}.png"} for name in turn["images"]]
        messages.append({"role": "user", "content": [*pictures, {"type": "text", "text": turn["text"]}]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": turn["response"]}]})
    return {"env_id": record["env_id"], "seed": record["seed"], "messages": messages}
