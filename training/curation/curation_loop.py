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
    """What the verifier makes of the rollouts of some questions.

    Attributes:
        curated: What was kept of the questions that were not dropped.
        num_trivial: Questions dropped because every rollout was right.
        rejections: How many rollouts were passed over, by the reason.
    """

    curated: Curated[Trajectory]
    num_trivial: int
    rejections: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Played:
    """What became of a batch of questions.

    Attributes:
        groups: The rollouts of each question, in order.
        lost: Rollouts that were begun and lost.
        num_lost: Questions left out because one of their rollouts was lost twice.
        broken_rows: What is wrong with each question that cannot be shown, with file and row.
    """

    groups: list[list[Trajectory]]
    lost: list[Trajectory] = field(default_factory=list)
    num_lost: int = 0
    broken_rows: tuple[str, ...] = ()


def make_data_set(config: CurateConfig) -> tuple[Path, Yield]:
    """Makes a data set, or goes on with the one that a call of the same settings began.

    Returns:
        Its directory, and what the yield was.

    Raises:
        VLMEnvsError: What `require_teachable` and `play` raise. What was written before stays, and the same call goes
            on behind it. So does one that may ask more, where fewer questions are good enough than are to be kept.
        BusyFolderError: If another process is making it.
        CurationInterruptedError: If Ctrl-C stopped it; the same call goes on then, too.
    """
    require_teachable(config)
    with alone_in(Path(config.output) / config.name):
        require_new(config)  # again: another process may have been faster
        return _made(config)


def _made(config: CurateConfig) -> tuple[Path, Yield]:
    asked = questions(config)
    unfinished = UnfinishedSet(config, asked)
    total, done = num_questions(asked), unfinished.num_done
    if done:
        print(f"Going on with {unfinished.directory} behind {done.total()} of {total} questions.", flush=True)
    try:
        if any(done[each.world] < len(each) and not unfinished.has_enough(each.world) for each in asked):
            with ExitStack() as opened:
                _Curation(config, unfinished, opened).run(asked)
        unfinished.require_enough()
        return unfinished.directory, unfinished.finish()
    except KeyboardInterrupt as interrupt:
        num_done = unfinished.num_questions_done
        written = f"{num_done} of {total} questions are written" if num_done else "No question is written yet"
        raise CurationInterruptedError(written) from interrupt


class _Curation:
    """Plays, verifies and writes the questions that are left, a batch at a time.

    Args:
        config: The curation.
        unfinished: What is written so far.
        opened: Closes models and data in the end.
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
        """Expert and judge, if they have a state; an endpoint and a person have none."""
        parts = {"expert": self._expert, "judge": self._judge}
        return {name: part for name, part in parts.items() if hasattr(part, "state_dict")}

    def run(self, asked: Sequence[QuestionBatch]) -> None:
        """Writes all batches that are not written yet."""
        config, unfinished, total = self._config, self._unfinished, num_questions(asked)
        done = unfinished.num_done
        for batch in in_batches(asked, config.batch_size, num_done=done, has_enough=unfinished.has_enough):
            # Nothing of a batch has a name here, so that two are never held at once
            unfinished.add(*self._curated(batch), {name: part.state_dict() for name, part in self._parts.items()})
            if total > config.batch_size:
                most = "" if config.num_kept is None else "at most "
                told = f"{unfinished.num_questions_done} of {most}{total} questions, {unfinished.num_good} kept"
                print(told, flush=True)

    def _curated(self, batch: QuestionBatch) -> tuple[BatchRecord, list[Trajectory]]:
        """Returns the numbers of a batch, and its rollouts that are kept."""
        config = self._config
        try:
            played = play(self._expert, config, batch)
        except EOFError as error:
            raise ConfigError(
                f"--expert {config.expert}: the input ended before all rollouts of {num_questions(questions(config))} "
                "questions were played. What was played before is kept: play the others at a terminal, or ask for "
                "fewer (--num-samples, --num-rollouts)."
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
    """Plays every question of a batch as often as is asked for.

    Returns:
        The rollouts. One that is lost with its worker, whose worker does not come up, or that nobody answers, is played
        once more; a question of which one is lost again is left out whole, and so is one that cannot be shown.

    Raises:
        EOFError: If the expert is a person, who has left.
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
        expert.release()  # the verifier's models want the memory
    groups = [rollouts[question::count] for question in range(count)]
    whole = [[each for each in group if each is not None] for group in groups if None not in group]
    return Played(groups=whole, lost=lost, num_lost=count - len(whole), broken_rows=broken_rows)


def _showable(spec: WorldSpec, batch: QuestionBatch) -> tuple[QuestionBatch, tuple[str, ...]]:
    """Returns the questions without rows of a data set that cannot be shown, and what is wrong with these.

    Where seeds draw questions, the data set itself leaves such rows out and draws others.
    """
    levels = batch.levels
    worlds = None if levels is None or not spec.reads_data else spec.try_vector(1, split="train")
    if levels is None or worlds is None:
        return batch, ()
    with worlds:
        faults = looked_up(worlds, partial(level_faults, of=VLMEnvsError), levels)
    return batch.part([place for place, fault in enumerate(faults) if not fault]), tuple(filter(None, faults))


def _require_hope(config: CurateConfig, batch: QuestionBatch, played: Played, unfinished: UnfinishedSet) -> None:
    """Ends a curation whose expert is out of reach, or of whose world nothing could ever be played.

    Raises:
        WorkerError: It says why, and that what was written is not lost.
    """
    world, last = config.names[batch.world], played.lost[-1] if played.lost else None
    kept = "The same command goes on where this one ends."
    if last is not None and all(each.turns[-1].stop_reason == "error" for each in played.lost):
        raise WorkerError(
            f"--expert {config.expert} answered none of {len(batch)} questions of {world}, each asked twice. The last "
            f"reason: {failure_of(last).rstrip('.')}. {kept}"
        )
    if not any(each.world == batch.world and each.num_rollouts for each in unfinished.batches):
        raise WorkerError(
            f"Nothing is left to curate: every one of {len(batch)} questions of {world} lost a rollout with its "
            f"worker, twice. The warnings above say why. {kept}"
        )


def filter_rollouts(
    groups: Sequence[Sequence[Trajectory]], config: CurateConfig, judge: CurationJudge, *, drops_trivial: bool
) -> Filtered:
    """Returns the best rollout of each question, where the judge of `curation_judge` finds one good enough.

    Args:
        groups: The rollouts of each question.
        config: The curation.
        judge: Of it.
        drops_trivial: Whether questions are dropped whose rollouts are all right.
    """
    settled = iter(judge.settled([each for group in groups for each in group]))
    pairs = [[(each, next(settled)) for each in group] for group in groups]
    num_right = [sum(known is not None and known.success for _, known in group) for group in pairs]
    trivial = [drops_trivial and is_trivial(num, len(group)) for num, group in zip(num_right, pairs, strict=True)]
    rollouts = [pair for group, is_dropped in zip(pairs, trivial, strict=True) if not is_dropped for pair in group]
    # All questions at once: the verifier's models read many rows in one pass.
    rewards = judge.rewards([played for played, _ in rollouts])
    rejections: Counter[str] = Counter()
    samples: dict[str, list[tuple[Trajectory, Reward]]] = {}
    for (played, known), reward in zip(rollouts, rewards, strict=True):
        reason = _reason_against(known, reward, config)
        if reason is not None:
            rejections[reason] += 1
            reward = Reward.unavailable(reason)  # A rollout without a reward is passed over.
        kept = played if known is None else with_outcome(played, success=known.success)
        # A small data set gives one question more than once: its rollouts belong together.
        samples.setdefault(query_id(played), []).append((kept, reward))
    return Filtered(
        curated=curate(samples, config.threshold), num_trivial=sum(trivial), rejections=dict(sorted(rejections.items()))
    )


def _reason_against(known: Trajectory | None, reward: Reward, config: CurateConfig) -> str | None:
    """Returns why a rollout is passed over, in a word; None for a good one.

    Args:
        known: As `CurationJudge.settled` returns it.
        reward: Of the rollout.
        config: The curation.
    """
    if known is None:
        return "unavailable"
    verifier = config.reward
    reason = verifier.rejection_reason(known)
    if reason is not None:
        told = f"rejection_reason of {verifier.name!r} must return why, as a text, or None; got {reason!r}."
        require(isinstance(reason, str), told)
        return reason
    if not reward.available:
        return "unavailable"
    return "threshold" if reward.total < config.threshold else None


class _OpenData:
    """Data sets that stay open from batch to batch, so that their tables are read once.

    Args:
        specs: The worlds.
        opened: What closes them.
    """

    def __init__(self, specs: Sequence[WorldSpec], opened: ExitStack) -> None:
        self._sources: dict[int, Any] = {}
        self._told: set[str] = set()
        for number, spec in enumerate(specs):
            if spec.reads_data:
                world = opened.enter_context(spec.made(split="train"))
                self._sources[number] = getattr(getattr(world, "dynamics", None), "source", None)

    def new_broken_rows(self, world: int) -> tuple[str, ...]:
        """Returns what is wrong with rows that a world's data set leaves out, each once."""
        rows = tuple(getattr(self._sources.get(world), "broken_rows", ()))
        new = tuple(row for row in rows if row not in self._told)
        self._told |= {*new}
        return new


def _digest(name: str) -> str:
    """Returns what tells a question from others, in few bytes."""
    return hashlib.blake2b(name.encode("utf-8", "backslashreplace"), digest_size=12).hexdigest()


class CurationJudge:
    """The judge of a reward, and the judge of answers that no rule can compare.

    Args:
        name: The reward's name.
        judge: The reward's judge.
        answers: Grades answers with 0 or 1; None without a model.
        questions: What `answers` and `judge` ask through; None without a model.
    """

    def __init__(
        self, name: str, judge: EpisodeJudge, answers: AnswerJudge | None = None, questions: QuestionCache | None = None
    ) -> None:
        self._name, self._judge, self._answers, self._questions = name, judge, answers, questions

    def rewards(self, episodes: Sequence[Trajectory]) -> list[Reward]:
        """Returns the reward of each episode, in order."""
        return run_blocking(rewards_by(self._name, self._judge, episodes))

    def settled(self, episodes: Sequence[Trajectory]) -> list[Trajectory | None]:
        """Returns each episode as if its answer could be compared by rule, with the judge's verdict as its success.

        An episode whose answer a rule compares stays as it is; None for one on which the judge gives no verdict.
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
        """Returns what the judge of the reward remembers."""
        return self._judge.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on with what it remembered."""
        self._judge.load_state_dict(state)


def with_outcome(episode: Trajectory, **outcome: Any) -> Trajectory:
    """Returns an episode of whose last turn something else is known."""
    *turns, last = episode.turns
    return replace(episode, turns=(*turns, replace(last, info={**last.info, **outcome})))


@contextmanager
def curation_judge(config: CurateConfig) -> Iterator[CurationJudge]:
    """Gives the judge of the verifying reward within the block; behind it its models are let go.

    Raises:
        ConfigError: If it cannot be built.
        EngineUnavailableError: If a model's weights are not there.
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
    """Returns what puts questions to the model that judges what no rule can; None without one."""
    if config.endpoint is not None:
        return ChatClient(config.endpoint)
    return None if config.judge is None else CheckpointJudge(config.judge, device=config.device)
