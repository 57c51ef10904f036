"""Curation: an expert plays, a verifier scores, and the good rollouts become a dataset to imitate.

    worlds ── expert, several rollouts per question ── verifier ── best rollout ≥ threshold ──> dataset

Source: Argos, section 4 and appendix C (a sample is kept with its best rollout if that scores 0.7 or more);
ARM-Thinker, section 3.2 (questions that are always answered right are dropped; trajectories need format, accuracy and,
with tools, a call that worked).

A dataset is a directory in the format of runs, so that reports and readers of runs read it too: `config.json` has its
settings and its yield, `trajectories/curated.jsonl` the episodes, `images/` the images. `sft.jsonl` is the same as chat
messages, for other trainers. Questions are asked in batches, each of which is written before the next one begins: see
`training.curation.curation_set`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from agents.agent import Agent, LearningAgent
from agents.api.client import ChatClient
from agents.event_loop import run_blocking
from agents.hf.checkpoint import torch_device
from judges.asking import QuestionCache, gather
from judges.episode_rewards.episode_reading import final_state, key_of, query_id
from judges.episode_rewards.episode_reward import EpisodeJudge, rewards_by
from judges.episode_rewards.judge_models import JudgeModels
from judges.episode_rewards.rollout_curation import Curated, curate, is_trivial
from judges.grading import AnswerJudge, match_answer
from judges.llm.llm_graders import LLMAnswerJudge
from judges.scores import Reward
from training.config.world_spec import WorldSpec
from training.curation.curated_data import Yield
from training.curation.curation_command import require_new, require_teachable
from training.curation.curation_config import CurateConfig
from training.curation.curation_set import (
    BatchRecord,
    QuestionBatch,
    UnfinishedSet,
    counts_decide,
    in_batches,
    num_questions,
    questions,
)
from training.curation.curation_teacher import make_teacher
from training.errors import CurationInterruptedError
from training.level_episodes import play_each
from training.pools.pool_levels import level_faults, looked_up
from training.rewards.turn_scores import model_judges
from training.rewards.verifier import CheckpointJudge, Verifier
from vlm_envs.errors import ConfigError, VLMEnvsError, WorkerError
from vlm_envs.records.folder_lock import alone_in
from vlm_envs.responses.answers import read_answer
from vlm_envs.trajectory import Trajectory, failure_of
from vlm_envs.validation import require


@dataclass(frozen=True, kw_only=True)
class Filtered:
    """The rollouts of some questions after filtering.

    Attributes:
        curated: The kept rollouts of the questions that were not dropped.
        num_trivial: Questions dropped because every rollout was right.
        rejections: Number of rejected rollouts by reason.
    """

    curated: Curated[Trajectory]
    num_trivial: int
    rejections: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Played:
    """The rollouts of a batch of questions.

    Attributes:
        groups: The rollouts of each question, in order.
        lost: Unfinished rollouts whose worker or agent failed.
        num_lost: Number of questions left out because one of their rollouts was lost twice.
        broken_rows: Error message for each question that cannot be shown, with file and row.
    """

    groups: list[list[Trajectory]]
    lost: list[Trajectory] = field(default_factory=list)
    num_lost: int = 0
    broken_rows: tuple[str, ...] = ()


def make_data_set(config: CurateConfig) -> tuple[Path, Yield]:
    """Makes a dataset, or resumes one that was started with the same settings.

    Returns:
        Directory and yield of the dataset.

    Raises:
        VLMEnvsError: As `require_teachable` and `play` raise, or if fewer questions are good enough than `num_kept`.
            Written batches stay, and the same call resumes after them, also with a larger `num_samples`.
        BusyFolderError: If another process is making it.
        CurationInterruptedError: On Ctrl-C; the same call resumes.
    """
    require_teachable(config)
    with alone_in(Path(config.output) / config.name):
        require_new(config)  # check again: another process may have finished it
        return _made(config)


def _made(config: CurateConfig) -> tuple[Path, Yield]:
    asked = questions(config)
    unfinished = UnfinishedSet(config, asked)
    total, done = num_questions(asked), unfinished.num_done
    if done:
        print(f"Resuming {unfinished.directory} after {done.total()} of {total} questions.", flush=True)
    try:
        if any(done[batch.world] < len(batch) and not unfinished.has_enough(batch.world) for batch in asked):
            with ExitStack() as opened:
                _Curation(config, unfinished, opened).run(asked)
        unfinished.require_enough()
        return unfinished.directory, unfinished.finish()
    except KeyboardInterrupt as interrupt:
        num_done = unfinished.num_questions_done
        written = f"{num_done} of {total} questions are written" if num_done else "No question is written yet"
        raise CurationInterruptedError(written) from interrupt


class _Curation:
    """Plays, verifies, and writes the remaining questions batch by batch.

    Args:
        config: The curation.
        unfinished: The dataset so far.
        opened: Closes models and data at the end.
    """

    def __init__(self, config: CurateConfig, unfinished: UnfinishedSet, opened: ExitStack) -> None:
        self._config, self._unfinished = config, unfinished
        self._judge = opened.enter_context(curation_judge(config))
        self._data = _OpenData(config.specs, opened)
        self._counted = frozenset(number for number, spec in enumerate(config.specs) if counts_decide(config, spec))
        self._expert = make_teacher(config)
        opened.callback(getattr(self._expert, "close", lambda: None))
        for part, state in unfinished.state.items():
            self._parts[part].load_state_dict(state)

    @property
    def _parts(self) -> dict[str, Any]:
        """Expert and judge if they have a state; endpoints and people have none."""
        parts = {"expert": self._expert, "judge": self._judge}
        return {name: part for name, part in parts.items() if hasattr(part, "state_dict")}

    def run(self, asked: Sequence[QuestionBatch]) -> None:
        """Plays and writes all batches that are not written yet."""
        config, unfinished, total = self._config, self._unfinished, num_questions(asked)
        done = unfinished.num_done
        for batch in in_batches(asked, config.batch_size, num_done=done, has_enough=unfinished.has_enough):
            # No variable refers to a batch here, so that memory never holds two
            unfinished.add(*self._curated(batch), {name: part.state_dict() for name, part in self._parts.items()})
            if total > config.batch_size:
                most = "" if config.num_kept is None else "at most "
                progress = f"{unfinished.num_questions_done} of {most}{total} questions, {unfinished.num_good} kept"
                print(progress, flush=True)

    def _curated(self, batch: QuestionBatch) -> tuple[BatchRecord, list[Trajectory]]:
        """Plays and filters a batch; returns its record and its kept rollouts."""
        config = self._config
        try:
            played = play(self._expert, config, batch)
        except EOFError as error:
            raise ConfigError(
                f"--expert {config.expert}: the input ended before all rollouts of {num_questions(questions(config))} "
                "questions were played. Written batches are kept. Play the others at a terminal, or ask for fewer "
                "(--num-samples, --num-rollouts)."
            ) from error
        if not played.groups and played.num_lost:
            _require_hope(config, batch, played, self._unfinished)
        drops_trivial = config.drop_trivial and batch.world not in self._counted
        found = filter_rollouts(played.groups, config, self._judge, drops_trivial=drops_trivial)
        curated = found.curated
        record = BatchRecord(
            world=batch.world,
            num_questions=len(batch),
            asked=tuple(map(_digest, curated.samples)),
            kept=tuple((_digest(name), curated.rewards[name]) for name in curated.kept),
            num_trivial=found.num_trivial,
            num_lost=played.num_lost,
            num_broken=len(played.broken_rows),
            num_rollouts=curated.num_rollouts,
            num_good_rollouts=curated.num_good_rollouts,
            rejections=found.rejections,
            broken_rows=(*played.broken_rows, *self._data.new_broken_rows(batch.world)),
        )
        return record, list(curated.kept.values())


def play(expert: Agent, config: CurateConfig, batch: QuestionBatch) -> Played:
    """Plays `num_rollouts` rollouts of every question of a batch.

    Returns:
        The rollouts. A rollout that is lost because its worker fails or does not start, or because the expert does
        not respond, is repeated once; if it is lost again, its question is left out. Questions that cannot be shown
        are left out, too.

    Raises:
        EOFError: If the expert is a person and the input ends.
    """
    spec = config.specs[batch.world]
    asked, broken_rows = _showable(spec, batch)
    if not asked.seeds:
        return Played(groups=[], broken_rows=broken_rows)
    count, lost = len(asked), list[Trajectory]()
    levels = None if asked.levels is None else list(asked.levels) * config.num_rollouts
    rollouts = play_each(
        expert,
        spec,
        list(asked.seeds) * config.num_rollouts,
        split="train",
        max_parallel=count,
        levels=levels,
        counts_optimal_actions=True,
        on_lost=lost.append,
    )
    if isinstance(expert, LearningAgent):
        expert.release()  # frees memory for the verifier's models
    groups = [rollouts[question::count] for question in range(count)]
    whole = [[rollout for rollout in group if rollout is not None] for group in groups if None not in group]
    return Played(groups=whole, lost=lost, num_lost=count - len(whole), broken_rows=broken_rows)


def _showable(spec: WorldSpec, batch: QuestionBatch) -> tuple[QuestionBatch, tuple[str, ...]]:
    """Returns the questions that can be shown, and an error message for each broken dataset row.

    If questions are sampled by seed, the dataset itself skips broken rows and samples others.
    """
    levels = batch.levels
    worlds = None if levels is None or not spec.reads_data else spec.try_vector(1, split="train")
    if levels is None or worlds is None:
        return batch, ()
    with worlds:
        faults = looked_up(worlds, partial(level_faults, of=VLMEnvsError), levels)
    return batch.part([index for index, fault in enumerate(faults) if not fault]), tuple(filter(None, faults))


def _require_hope(config: CurateConfig, batch: QuestionBatch, played: Played, unfinished: UnfinishedSet) -> None:
    """Raises if the expert is unreachable, or if no rollout of the world has ever finished.

    Raises:
        WorkerError: With the cause, and a note that the same command resumes.
    """
    world, last = config.names[batch.world], played.lost[-1] if played.lost else None
    resume_hint = "Run the same command again to resume."
    if last is not None and all(rollout.turns[-1].stop_reason == "error" for rollout in played.lost):
        raise WorkerError(
            f"--expert {config.expert} answered none of {len(batch)} questions of {world}, each asked twice. The last "
            f"reason: {failure_of(last).rstrip('.')}. {resume_hint}"
        )
    if not any(record.world == batch.world and record.num_rollouts for record in unfinished.batches):
        raise WorkerError(
            f"Nothing is left to curate: every one of {len(batch)} questions of {world} lost a rollout with its "
            f"worker, twice. See the warnings above. {resume_hint}"
        )


def filter_rollouts(
    groups: Sequence[Sequence[Trajectory]], config: CurateConfig, judge: CurationJudge, *, drops_trivial: bool
) -> Filtered:
    """Returns the best rollout of each question that has a good one, according to the judge of `curation_judge`.

    Args:
        groups: The rollouts of each question.
        config: The curation.
        judge: The judge of the curation.
        drops_trivial: Whether to drop questions whose rollouts are all right.
    """
    settled = iter(judge.settled([rollout for group in groups for rollout in group]))
    pairs = [[(rollout, next(settled)) for rollout in group] for group in groups]
    num_right = [sum(judged is not None and judged.success for _, judged in group) for group in pairs]
    trivial = [drops_trivial and is_trivial(num, len(group)) for num, group in zip(num_right, pairs, strict=True)]
    rollouts = [pair for group, is_dropped in zip(pairs, trivial, strict=True) if not is_dropped for pair in group]
    # All questions at once: the verifier's models process many rows per forward pass.
    rewards = judge.rewards([played for played, _ in rollouts])
    rejections: Counter[str] = Counter()
    samples: dict[str, list[tuple[Trajectory, Reward]]] = {}
    for (played, judged), reward in zip(rollouts, rewards, strict=True):
        reason = _reason_against(judged, reward, config)
        if reason is not None:
            rejections[reason] += 1
            reward = Reward.unavailable(reason)  # `curate` skips rollouts without a reward.
        kept = played if judged is None else with_outcome(played, success=judged.success)
        # A small dataset repeats questions: group the rollouts of equal ones.
        samples.setdefault(query_id(played), []).append((kept, reward))
    return Filtered(
        curated=curate(samples, config.threshold), num_trivial=sum(trivial), rejections=dict(sorted(rejections.items()))
    )


def _reason_against(judged: Trajectory | None, reward: Reward, config: CurateConfig) -> str | None:
    """Returns the rejection reason of a rollout, in one word; None for a good one.

    Args:
        judged: As `CurationJudge.settled` returns it.
        reward: Reward of the rollout.
        config: The curation.
    """
    if judged is None:
        return "unavailable"
    verifier = config.reward
    reason = verifier.rejection_reason(judged)
    if reason is not None:
        message = f"rejection_reason of {verifier.name!r} must return a reason, as a string, or None; got {reason!r}."
        require(isinstance(reason, str), message)
        return reason
    if not reward.available:
        return "unavailable"
    return "threshold" if reward.total < config.threshold else None


class _OpenData:
    """Datasets that stay open across batches, so that their tables are read only once.

    Args:
        specs: The worlds.
        opened: Closes the worlds at the end.
    """

    def __init__(self, specs: Sequence[WorldSpec], opened: ExitStack) -> None:
        self._sources: dict[int, Any] = {}
        self._reported: set[str] = set()
        for number, spec in enumerate(specs):
            if spec.reads_data:
                world = opened.enter_context(spec.made(split="train"))
                self._sources[number] = getattr(getattr(world, "dynamics", None), "source", None)

    def new_broken_rows(self, world: int) -> tuple[str, ...]:
        """Returns the error messages of rows that a world's dataset skips, without those returned before."""
        rows = tuple(getattr(self._sources.get(world), "broken_rows", ()))
        new = tuple(row for row in rows if row not in self._reported)
        self._reported |= {*new}
        return new


def _digest(name: str) -> str:
    """Returns a short hash that identifies a question."""
    return hashlib.blake2b(name.encode("utf-8", "backslashreplace"), digest_size=12).hexdigest()


class CurationJudge:
    """The judge of a reward, together with a judge of answers that rules cannot compare.

    Args:
        name: The reward's name.
        judge: The reward's judge.
        answers: Grades answers with 0 or 1; None without a model.
        questions: The cache through which `answers` and `judge` ask; None without a model.
    """

    def __init__(
        self, name: str, judge: EpisodeJudge, answers: AnswerJudge | None = None, questions: QuestionCache | None = None
    ) -> None:
        self._name, self._judge, self._answers, self._questions = name, judge, answers, questions

    def rewards(self, episodes: Sequence[Trajectory]) -> list[Reward]:
        """Returns the reward of each episode, in order."""
        return run_blocking(rewards_by(self._name, self._judge, episodes))

    def settled(self, episodes: Sequence[Trajectory]) -> list[Trajectory | None]:
        """Returns episodes with the judge's verdict as their success, in a form that rules can compare.

        Episodes whose answers rules compare are unchanged; None for an episode without a verdict.
        """
        if self._answers is None or self._questions is None:
            return list(episodes)
        self._questions.clear()
        return run_blocking(gather(map(self._settled, episodes)))

    async def _settled(self, episode: Trajectory) -> Trajectory | None:
        state = final_state(episode)
        if state.get("answer_kind") != "semantic":
            return episode
        score = await match_answer(state["answer"], key_of(episode), self._answers)
        if not score.available:
            return None
        right = score.value == 1.0
        answers = [read_answer(state["answer"])] if right else state["answers"]
        return with_outcome(episode, success=right, state={**state, "answer_kind": "exact", "answers": answers})

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the reward's judge."""
        return self._judge.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state of the reward's judge."""
        self._judge.load_state_dict(state)


def with_outcome(episode: Trajectory, **outcome: Any) -> Trajectory:
    """Returns an episode with updated `info` of its last turn."""
    *turns, last = episode.turns
    return replace(episode, turns=(*turns, replace(last, info={**last.info, **outcome})))


@contextmanager
def curation_judge(config: CurateConfig) -> Iterator[CurationJudge]:
    """Yields the judge of the verifying reward; its models are freed on exit.

    Raises:
        ConfigError: If it cannot be built.
        EngineUnavailableError: If a model's weights are missing.
    """
    reward = config.reward
    with ExitStack() as opened:
        device = str(torch_device(config.device)) if config.verifier.directories else "cpu"
        verifier = opened.enter_context(closing(Verifier(config.verifier, device)))
        client = _asked(config)
        if client is None:
            yield CurationJudge(reward.name, reward.make_judge(JudgeModels(**verifier.models)))
            return
        opened.enter_context(closing(client))
        questions = QuestionCache(client)
        answers, asked = LLMAnswerJudge(questions, "binary"), model_judges(client, questions, reward)
        judge = reward.make_judge(JudgeModels(**verifier.models, **asked))
        yield CurationJudge(reward.name, judge, answers, questions)


def _asked(config: CurateConfig) -> Any:
    """Returns a client of the model that judges where rules cannot; None without one."""
    if config.endpoint is not None:
        return ChatClient(config.endpoint)
    return None if config.judge is None else CheckpointJudge(config.judge, device=config.device)
