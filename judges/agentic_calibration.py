"""Calibrates a judge that uses tools by its verdicts on single responses whose truth is known."""

from __future__ import annotations

from typing import Any

from agents.event_loop import run_blocking
from judges.agentic_judge import AgenticJudge, JudgingCase
from judges.asking import gather
from judges.calibration import Agreement
from vlm_envs.content.judging.judging_cases import TRUE, request_of
from vlm_envs.qa.sample import Sample
from vlm_envs.registration import make
from vlm_envs.splits import split_seeds
from vlm_envs.validation import require, require_positive


def measure_verdicts(
    judge: AgenticJudge, env_id: str, *, num_cases: int, seed: int = 0, num_parallel: int = 1, **kwargs: Any
) -> Agreement:
    """Measures how well a judge's verdicts on single responses, some right and some with one flaw, match the truth.

    Args:
        judge: The judge to measure.
        env_id: The world that supplies the cases; `VLM/RewardJudging-v0`.
        num_cases: Responses to judge, at least 1.
        seed: Index of the first test seed.
        num_parallel: Cases judged at a time.
        **kwargs: Arguments of the world, such as `tracks` or `dataset` with `folder`.

    Returns:
        The agreement; cases without a verdict are unavailable.

    Raises:
        ConfigError: There are no cases, the world is a different one, or a case has several responses; raised before
            the judge is asked anything.
    """
    require_positive("num_cases", num_cases)
    is_judging = env_id.removeprefix("vlm_envs:").startswith("VLM/RewardJudging")
    require(is_judging, f"A judge that uses tools is measured on VLM/RewardJudging-v0; got {env_id!r}.")
    world: Any = make(env_id, num_candidates=1, split="test", obs_mode="text", **kwargs).unwrapped
    num_levels = world.num_levels  # None unless a dataset is given; each of its rows is judged once
    if num_levels is not None:
        require(seed < num_levels, f"The dataset has {num_levels} rows to measure on; got seed={seed}.")
        num_cases = min(num_cases, num_levels - seed)
    seeds = list(split_seeds("test", num_cases, start=seed))

    def case_of(case_seed: int) -> Sample:  # cases are not kept: their images may be large and many
        world.reset(seed=case_seed)
        case: Sample = world.state.sample
        require(
            len(case.texts) == 1,
            f"A judge that uses tools is measured on single responses; {case.sample_id} has {len(case.texts)}. Take "
            "mm_ifeval, single rows of armbench_vl, or no dataset.",
        )
        return case

    if num_levels is not None:
        for case_seed in seeds:
            case_of(case_seed)

    async def judged(case_seed: int) -> tuple[bool, bool | int | None]:
        case = case_of(case_seed)
        return case.key.answers[0] == TRUE, (await judge.decide(judging_case(case))).verdict

    found = run_blocking(gather(map(judged, seeds), num_parallel=num_parallel))
    world.close()
    verdicts = [(is_right, bool(verdict)) for is_right, verdict in found if verdict is not None]
    return Agreement.of(verdicts, len(found) - len(verdicts))


def judging_case(sample: Sample) -> JudgingCase:
    """Returns a sample of RewardJudging as a case to judge, without its right answer."""
    return JudgingCase(
        question=request_of(sample.question),
        responses=tuple(text for _, text in sample.texts),
        pictures=sample.images,
        document=sample.document,
    )
