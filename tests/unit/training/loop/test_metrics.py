"""What is logged and recorded of an iteration beside its losses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from judges.scores import JudgeScore
from judges.turn_rewards import ScoredTurn
from tests.unit.judges.episodes import episode
from tests.unit.training.batches import text_batch
from training.algorithms.algorithm import Credit, ModelOutputs
from training.loop.metrics import mean_scores, turn_credit, turn_notes
from training.rewards.turn_scores import ScoredTrajectory
from vlm_envs.trajectory import PaidTerm


def scored(*turns: ScoredTurn) -> ScoredTrajectory:
    trajectory = episode([""] * len(turns), [{}] * len(turns))
    return ScoredTrajectory(trajectory=trajectory, turns=turns)


def shaped(observation: float | None = None, *, available: bool = True) -> ScoredTurn:
    score = JudgeScore(value=observation or 0.0) if available else JudgeScore.unavailable("down")
    return ScoredTurn(
        turn=episode([""], [{}]).turns[0],
        env_id="VLM/FrozenLake-v0",
        scores={} if available and observation is None else {"observation": score},
        judge_terms=(PaidTerm(name="grounding", value=0.5 * (observation or 0.0), source="judge:exact", weight=0.5),),
    )


def test_scores_are_means_over_turns_from_0_to_1():
    """Four turns: right, half right, out of the format (0), and one that no judge could score (left out)."""
    episodes = [scored(shaped(observation=1.0), shaped(observation=0.5)), scored(shaped(), shaped(available=False))]
    assert mean_scores(episodes) == {"score/observation": pytest.approx(0.5)}
    assert mean_scores([scored(shaped())]) == {}


def test_worlds_without_a_judge_are_in_no_score_of_a_mix():
    """A lake of two turns, one out of the format, and a drawing, which nobody judges."""
    lake, drawing = scored(shaped(observation=1.0), shaped()), scored(shaped(), shaped())
    drawing = replace(drawing, trajectory=replace(drawing.trajectory, env_id="VLM/SVG-v0", world="VLM/SVG-v0"))
    own = f"score/observation/{lake.trajectory.world}"
    assert mean_scores([lake, drawing]) == {"score/observation": 0.5, own: 0.5}
    assert mean_scores([lake]) == {"score/observation": 0.5}


def test_credit_is_told_turn_by_turn():
    batch = text_batch([[-1, 0, 0, -1, 1], [0, 0, -1, -1, -1]], [[1.0, 2.0], [3.0, 0.0]])
    grid_BT = torch.arange(10.0).reshape(2, 5)
    outputs = ModelOutputs(
        old_logprobs_BT=grid_BT,
        values_BT=10 * grid_BT,
        turn_end_values_BK=torch.zeros(2, 2),
        final_values_B=None,
        token_rewards_BT=torch.zeros(2, 5),
        ref_kl=None,
    )
    first, second = turn_credit(batch, outputs, Credit(advantages_BT=grid_BT), 5)
    assert first == [{"advantage": 1.5, "value": 10.0}, {"advantage": 4.0, "value": 40.0}]
    assert second == [{"advantage": 5.5, "value": 50.0}, {}]
    assert turn_credit(batch, replace(outputs, values_BT=None), Credit(advantages_BT=grid_BT), 1)[0][0] == {
        "advantage": 1.5
    }
    notes = turn_notes(scored(shaped(observation=1.0), shaped()), first)
    assert notes[0].credit["value"] == 10.0 and notes[0].scores == {"observation": 1.0}
    assert [(term.name, term.value) for term in notes[0].judge_terms] == [("grounding", 0.5)]


def test_terms_of_judges_that_could_not_answer_are_not_recorded_as_0():
    bonus = PaidTerm(name="few/turns", value=0.25, source="episode:few", weight=None)
    unjudged = shaped(available=False)
    (note,) = turn_notes(scored(replace(unjudged, judge_terms=(*unjudged.judge_terms, bonus))))
    assert note.judge_terms == (bonus,)


def test_a_masked_turn_has_no_credit():
    """A turn that no judge could score, and one whose row has an infinite reward."""
    batch = text_batch([[0, 0, -1, 1, 1]], [[1.0, 1.0]], trainable_BK=torch.tensor([[True, False]]))
    outputs = ModelOutputs(
        old_logprobs_BT=torch.zeros(1, 5),
        values_BT=torch.ones(1, 5),
        turn_end_values_BK=torch.zeros(1, 2),
        final_values_B=None,
        token_rewards_BT=torch.zeros(1, 5),
        ref_kl=None,
    )
    assert turn_credit(batch, outputs, Credit(advantages_BT=torch.full((1, 5), 3.0)), 1) == [
        [{"advantage": 3.0, "value": 1.0}, {}]
    ]
    infinite = replace(batch, turn_rewards_BK=torch.tensor([[1.0, torch.inf]]))
    assert turn_credit(infinite, outputs, Credit(advantages_BT=torch.zeros(1, 5)), 1) == [[{}, {}]]
