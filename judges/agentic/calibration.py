"""How far a judge that looks can be trusted: its verdicts on single responses whose truth is known."""

from __future__ import annotations

from typing import Any

import vlm_envs
from judges.agentic.judge import AgenticJudge, Submission
from judges.calibration import Agreement
from vlm_envs.errors import ConfigError
from vlm_envs.inquiries.sample import Sample
from vlm_envs.judging.samples import TRUE, request_of
from vlm_envs.splits import split_seeds


def measure_verdicts(judge: AgenticJudge, env_id: str, *, num_cases: int, seed: int = 0, **kwargs: Any) -> Agreement:
    """Let a judge decide on single responses, some right and some with one flaw.

    Args:
        judge: the judge to measure.
        env_id: the world the cases come from; `VLM/RewardJudging-v0`.
        num_cases: responses to judge, at least 1.
        seed: index of the first test seed.
        **kwargs: arguments of the world, such as `tracks` or `dataset` with `folder`.

    Returns:
        The agreement; cases without a verdict are outages.

    Raises:
        ConfigError: there are no cases, or the world is another one.
    """
    if num_cases < 1:
        raise ConfigError(f"Calibration needs at least 1 case, got {num_cases}.")
    if not env_id.removeprefix("vlm_envs:").startswith("VLM/RewardJudging"):
        raise ConfigError(f"A judge that looks is measured on VLM/RewardJudging-v0; got {env_id!r}.")
    world: Any = vlm_envs.make(env_id, num_candidates=1, split="test", obs_mode="text", **kwargs).unwrapped
    verdicts: list[tuple[bool, bool]] = []
    num_outages = 0
    for case_seed in split_seeds("test", _within(num_cases, world.num_levels, seed), start=seed):
        world.reset(seed=case_seed)
        sample = world.state.sample
        if len(sample.texts) != 1:
            raise ConfigError(
                f"A judge that looks is measured on single responses; {sample.sample_id} has {len(sample.texts)}. "
                "Take mm_ifeval, single rows of armbench_vl, or no dataset."
            )
        found = judge.examine(submission_of(sample))
        if found.verdict is None:
            num_outages += 1
        else:
            verdicts.append((sample.key.answers[0] == TRUE, bool(found.verdict)))
    world.close()
    return Agreement(
        num_true_yes=verdicts.count((True, True)),
        num_false_no=verdicts.count((True, False)),
        num_false_yes=verdicts.count((False, True)),
        num_true_no=verdicts.count((False, False)),
        num_outages=num_outages,
        mean_scores={},
        num_texts={},
    )


def _within(num_cases: int, num_levels: int | None, start: int) -> int:
    """Returns how many cases there can be without asking for a row of a data set twice."""
    if num_levels is None:
        return num_cases
    if start >= num_levels:
        raise ConfigError(f"The data set has {num_levels} rows to measure on; got seed={start}. Take a smaller one.")
    return min(num_cases, num_levels - start)


def submission_of(sample: Sample) -> Submission:
    """A case of RewardJudging as anybody's response that is to be judged; what is right is not in it."""
    return Submission(
        question=request_of(sample.question),
        responses=tuple(text for _, text in sample.texts),
        pictures=sample.exhibits,
        document=sample.document,
    )
