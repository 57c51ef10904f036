"""Masks that are asked of models, and are not always to be had."""

from agents.api.failures import Unavailable
from tests.unit.judges.episode_rewards.test_episodes import episode_judge, played, reward_of
from tests.unit.judges.episodes import with_response, with_state


def test_a_mask_that_cannot_be_had_is_no_reward_and_no_zero():
    pointing = "<points x1='50' y1='50'>mug</points> <points x1='5' y1='5'>cup</points>".replace("'", '"')
    response = f"<think>I see {pointing}.</think><answer>{{}}</answer>"
    told = {"sample_id": "vsr:7", "evidence": [], "answer_kind": "exact", "answers": ["yes"], "options": []}
    right, wrong = (with_state(with_response(played("points", 1), response.format(a)), **told) for a in ("yes", "no"))
    asked = []

    def picture_masks(questions):
        asked.append([label for _, label in questions])
        return [Unavailable("hung") if label == "cup" else None for _, label in questions]

    reward, below = episode_judge("argos", picture_masks=picture_masks)([right, wrong])
    assert (reward.available, reward.reason) == (False, "hung")
    assert asked == [["mug", "cup"]], "together, and nobody about a wrong answer"
    assert below.available and below.total == 0.0
    # Not so of a label that it cannot be asked for: that is a miss
    assert reward_of("argos", right, picture_masks=lambda questions: [None] * len(questions)).total == 0.5
