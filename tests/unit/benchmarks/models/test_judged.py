"""What judges say of an episode beside success, on episodes that say the truth, and on ones that do not."""

from contextlib import closing
from dataclasses import replace
from functools import cache

import pytest

from agents.blind_script import ScriptAgent
from agents.oracle import OracleAgent, RandomAgent
from agents.rollout import rollout
from benchmarks.models.judged import consistency, judge_episodes
from judges.scores import JudgeScore
from tests.unit.episodes import play
from vlm_envs.splits import split_seeds
from vlm_envs.vector.make_vec import world_vector

GROUNDED = {"prompt_format": "grounding_worldmodeling", "representation": "natural_language"}


def with_sections(episode, *sections):
    """Returns an episode whose turns say something else."""
    turns = [
        replace(turn, info={**turn.info, "sections": said}) for turn, said in zip(episode.turns, sections, strict=False)
    ]
    return replace(episode, turns=tuple(turns))


def of_answer(episode, **told):
    """Returns an episode with another truth, or another answer, in its final state."""
    last = episode.turns[-1]
    last = replace(last, info={**last.info, "state": {**last.info["state"], **told}})
    return replace(episode, turns=(*episode.turns[:-1], last))


@cache
def questions(strategy, text=None):
    """Returns episodes of generated questions; the oracle's, or of one response to all."""
    agent = OracleAgent() if text is None else ScriptAgent((text,))
    with closing(world_vector("VLM/ZoomQA-v0", 4, prompt_format=strategy, split="val")) as worlds:
        return rollout(agent, worlds, list(split_seeds("val", 4)), env_ids=["VLM/ZoomQA-v0"] * 4)


def told(episodes, name):
    """Returns a measure of every episode that has it, at least one."""
    found = [each.measures[name] for each in judge_episodes(episodes) if name in each.measures]
    assert found
    return found


class TestStateText:
    def test_an_oracle_sees_foresees_and_contradicts_nothing(self):
        for judged in judge_episodes(play(OracleAgent(), **GROUNDED)):
            assert judged.measures == {"grounding": 1.0, "worldmodeling": 1.0, "consistency": 1.0}
            assert all(scores == {"observation": 1.0, "prediction": 1.0} for scores in judged.scores)

    def test_one_that_states_nothing_true_is_grounded_in_nothing(self):
        judged = judge_episodes(play(RandomAgent(), **GROUNDED))
        assert {each.measures["grounding"] for each in judged} == {0.0}

    def test_without_state_text_there_is_nothing_to_say(self):
        (judged, *_) = judge_episodes(play(OracleAgent()))
        assert judged.measures == {}
        assert set(map(len, judged.scores)) == {0}

    def test_a_judge_that_could_not_answer_is_left_out(self):
        class Absent:
            def score(self, text, state):
                return JudgeScore.unavailable("nobody there")

        judge = Absent()
        (judged, *_) = judge_episodes(play(OracleAgent(), **GROUNDED), lambda env_id, representation: judge)
        assert judged.measures == {"consistency": 1.0}
        assert set(map(len, judged.scores)) == {0}


class TestConsistency:
    @pytest.fixture
    def episode(self):
        episodes = play(RandomAgent(), max_turns=(2,), **GROUNDED)
        return next(each for each in episodes if len(each.turns) == 2)

    def test_a_turn_that_contradicts_itself(self, episode):
        said = with_sections(
            episode, {"observation": "The mug is red. The mug is not red."}, {"observation": "The mug is red."}
        )
        assert consistency(said) == 0.5

    def test_an_observation_that_contradicts_the_prediction_before_it(self, episode):
        said = with_sections(episode, {"prediction": "The mug is red."}, {"observation": "The mug is blue."})
        assert consistency(said) == 0.5

    def test_what_changes_within_a_turn_is_no_contradiction(self, episode):
        said = with_sections(
            episode,
            {"observation": "The door is open.", "prediction": "The door is closed."},
            {"observation": "The door is closed."},
        )
        assert consistency(said) == 1.0

    def test_turns_without_beliefs_are_not_counted(self, episode):
        assert consistency(with_sections(episode, {"answer": "Left"}, {"observation": ""})) is None


class TestQuestions:
    @pytest.mark.soak
    def test_an_oracles_boxes_are_the_true_ones(self):
        assert set(told(questions("ivgr_grounded"), "box_iou")) == {1.0}

    def test_boxes_beside_the_thing_overlap_with_nothing(self):
        text = "<think>Here: [0, 0, 1, 1].</think><answer>A</answer>"
        assert max(told(questions("ivgr_grounded", text), "box_iou")) < 0.05

    def test_points_are_on_what_they_name_or_beside_it(self):
        true = questions("points")
        assert set(told(true, "point_accuracy")) == {1.0}
        labels = [each["label"] for episode in true for each in episode.turns[-1].info["state"]["evidence"]]
        beside = f'<think><points x1="0.1" y1="0.1" alt="{labels[0]}">{labels[0]}</points></think><answer>A</answer>'
        assert set(told(questions("points", beside), "point_accuracy")) == {0.0}

    def test_who_points_at_nothing_though_asked_to_hits_nothing(self):
        silent = "<think>I see it.</think><answer>A</answer>"
        there = [each for each in questions("points", silent) if each.turns[-1].info["state"]["evidence"]]
        assert told(there, "point_accuracy") == [0.0] * len(there)
        assert not any("point_accuracy" in each.measures for each in judge_episodes(questions("ivgr_grounded", silent)))

    def test_boxes_are_missed_where_they_are_asked_for_and_nowhere_else(self):
        silent = "<think>I see it.</think><answer>A</answer>"
        assert set(told(questions("ivgr_grounded", silent), "box_iou")) == {0.0}
        for strategy in ("points", "ivgr_textual"):
            assert not any("box_iou" in each.measures for each in judge_episodes(questions(strategy, silent)))

    def test_points_of_a_benchmark_are_in_a_true_box_or_not(self):
        text = '<think><points x1="10" y1="10" x2="90" y2="90" alt="mug">mug</points></think><answer>A</answer>'
        (episode, *_) = questions("points", text)
        own = of_answer(episode, sample_id="vstar:1", evidence=[{"label": "mug", "box": [5, 5, 20, 20]}])
        assert told([own], "point_accuracy") == [0.5]
        assert "point_accuracy" not in judge_episodes([of_answer(own, evidence=[])])[0].measures

    @pytest.mark.parametrize(("answer", "worth"), [("receipt", 1.0), ("reciept", 5 / 7), ("bill", 0.0), (None, 0.0)])
    def test_anls(self, answer, worth):
        (episode, *_) = questions("direct", "<think>-</think><answer>A</answer>")
        written = of_answer(episode, answer_kind="anls", answers=["receipt"], answer=answer)
        assert told([written], "anls") == [pytest.approx(worth)]
        assert "anls" not in judge_episodes([of_answer(written, answer_kind="exact")])[0].measures
