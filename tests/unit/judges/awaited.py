"""The asynchronous functions and judges of `judges`, for tests that call them one by one."""

from __future__ import annotations

import functools
from typing import Any

import judges.agentic_judge
import judges.episode_rewards.argos
import judges.episode_rewards.ivgr
import judges.episode_rewards.mags
import judges.grading
import judges.llm.llm_graders
import judges.llm.llm_judge
import judges.turn_rewards
from agents.event_loop import run_blocking
from judges.asking import Job, resolved, score_claims
from judges.episode_rewards.ivgr import IvgrQuery, QueryRollouts, score_queries


def awaited(function: Any) -> Any:
    """Returns a function that waits for the result of another one."""
    return functools.wraps(function)(lambda *args, **kwargs: run_blocking(resolved(function(*args, **kwargs))))


argos_reward = awaited(judges.episode_rewards.argos.argos_reward)
consistency_score = awaited(judges.episode_rewards.ivgr.consistency_score)
grounded_reward = awaited(judges.episode_rewards.ivgr.grounded_reward)
textual_reward = awaited(judges.episode_rewards.ivgr.textual_reward)
answer_reward = awaited(judges.episode_rewards.mags.answer_reward)
mags_reward = awaited(judges.episode_rewards.mags.mags_reward)
grade_answer = awaited(judges.grading.grade_answer)
match_answer = awaited(judges.grading.match_answer)
shape = awaited(judges.turn_rewards.shape)


def score_query(query: IvgrQuery, grounded: Any, textual: Any, archive: Any, **judges: Any) -> Any:
    """Returns the rewards of one query's grounded and textual rollouts."""
    (rewards,) = run_blocking(
        score_queries([QueryRollouts(query=query, grounded=grounded, textual=textual)], archive, **judges)
    )
    return rewards


def score_together(jobs: list[Job]) -> Any:
    """Returns the scores of each job."""
    return run_blocking(score_claims(jobs))


class Waiting:
    """A judge whose calls and scores are waited for."""

    def __init__(self, judge: Any) -> None:
        self._judge = judge

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the judge gives."""
        return run_blocking(resolved(self._judge(*args, **kwargs)))

    def __getattr__(self, name: str) -> Any:
        """Returns a method that waits, or another attribute."""
        value = getattr(self._judge, name)
        return awaited(value) if name in ("score", "score_many", "decide", "ask") else value


def waiting(kind: Any) -> Any:
    """Returns what makes such judges, each of which is waited for."""
    return lambda *args, **kwargs: Waiting(kind(*args, **kwargs))


AgenticJudge = waiting(judges.agentic_judge.AgenticJudge)
DirectJudge = waiting(judges.llm.llm_judge.DirectJudge)
ExtractionJudge = waiting(judges.llm.llm_judge.ExtractionJudge)
IvgrJudge = waiting(judges.episode_rewards.ivgr.IvgrJudge)
LLMAnswerJudge = waiting(judges.llm.llm_graders.LLMAnswerJudge)
LLMConsistencyJudge = waiting(judges.llm.llm_graders.LLMConsistencyJudge)
argos_judge = waiting(judges.episode_rewards.argos.argos_judge)
