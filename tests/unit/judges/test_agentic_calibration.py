"""A judge that uses tools, measured on responses whose truth is known."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("reportlab", reason="needs reportlab: pip install '.[tools]'")

from agents.api.failures import Unavailable
from judges.__main__ import main
from judges.agentic_calibration import judging_case, measure_verdicts
from judges.agentic_judge import AgenticJudge
from judges.calibration import report
from tests.unit.agents.api.endpoint import Gathering
from tests.unit.judges.episodes import episode, episode_judge
from vlm_envs import make
from vlm_envs.errors import ConfigError
from vlm_envs.splits import split_seeds

ENV_ID = "VLM/RewardJudging-v0"
INSTRUCTIONS = {"tracks": "instruction_following"}


def says(answer):
    """Returns a judge that uses tools at nothing and always says the same."""
    return AgenticJudge(lambda utterances: f"<think>so</think><answer>{answer}</answer>")


@pytest.mark.soak
def test_constant_verdicts_are_worth_no_more_than_chance():
    yes = measure_verdicts(says("True"), ENV_ID, num_cases=12, **INSTRUCTIONS)
    no = measure_verdicts(says("False"), ENV_ID, num_cases=12, **INSTRUCTIONS)
    assert yes.num_judged == no.num_judged == 12
    assert yes.accuracy + no.accuracy == pytest.approx(1.0)
    assert max(yes.accuracy, no.accuracy) == yes.constant_accuracy
    assert yes.kappa == pytest.approx(0.0)
    assert "mean scores" not in report(yes, "title", "none")


def test_a_judge_that_knows_agrees_in_full():
    world = make(ENV_ID, num_candidates=1, split="test", **INSTRUCTIONS).unwrapped
    truths = {}
    for seed in split_seeds("test", 12):
        world.reset(seed=seed)
        truths[world.state.sample.texts[0][1]] = world.state.sample.key.answers[0]

    def knows(utterances):
        shown = utterances[0].text.replace("\n| ", "\n")
        (truth,) = {truth for text, truth in truths.items() if text.splitlines()[0] in shown}
        return f"<think>so</think><answer>{truth}</answer>"

    found = measure_verdicts(AgenticJudge(knows), ENV_ID, num_cases=12, **INSTRUCTIONS)
    assert found.num_unavailable == 0
    assert found.accuracy == 1.0


def test_no_verdict_is_unavailable():
    silent = AgenticJudge(lambda utterances: Unavailable("down"))
    found = measure_verdicts(silent, ENV_ID, num_cases=3, **INSTRUCTIONS)
    assert (found.num_unavailable, found.num_judged) == (3, 0)


def test_a_submission_does_not_tell_what_is_right():
    world = make(ENV_ID, num_candidates=1, **INSTRUCTIONS).unwrapped
    world.reset(seed=1)
    submission = judging_case(world.state.sample)
    assert submission.responses == (world.state.sample.texts[0][1],)
    assert "Judge the response" not in submission.question
    assert submission.question in world.state.sample.question


def test_other_worlds_are_refused():
    with pytest.raises(ConfigError, match="VLM/RewardJudging-v0"):
        measure_verdicts(says("True"), "VLM/Sokoban-v0", num_cases=1)


def test_the_command_asks_an_endpoint_and_prints_what_it_cost(capsys):
    measure_verdicts(
        says("True"), ENV_ID, num_cases=3
    )  # loads what cases need, which takes longer than the barrier waits
    with Gathering(threading.Barrier(3), num_alone=1) as server:  # the probe
        server.answer = lambda messages: "<think>so</think><answer>True</answer>"
        words = [
            "calibrate",
            ENV_ID,
            "--judge",
            "agentic",
            "--judge-endpoint.model",
            "m",
            "--judge-endpoint.base-url",
            server.base_url,
        ]
        assert (
            main(
                [
                    *words,
                    "--num-states",
                    "3",
                    "--judge-endpoint.api-key-variable",
                    "",
                    "--judge-endpoint.max-parallel",
                    "3",
                ]
            )
            == 0
        )
        assert len(server.requests) == 3
        assert server.max_at_once == 3, "all cases are under way together"
        assert not server.together.broken
    shown = capsys.readouterr().out
    assert "3 single responses, m with tools" in shown
    assert "accuracy" in shown
    assert "cost" in shown


@pytest.mark.soak
def test_cases_judged_together_agree_as_they_do_one_by_one():
    judge = AgenticJudge(lambda said: f"<think>so</think><answer>{len(said[0].text) % 2 == 0}</answer>")
    one_by_one = measure_verdicts(judge, ENV_ID, num_cases=12, **INSTRUCTIONS)
    together = measure_verdicts(judge, ENV_ID, num_cases=12, num_parallel=4, **INSTRUCTIONS)
    assert together == one_by_one
    assert 0 < together.num_true_yes + together.num_false_yes < 12, "the verdicts differ from case to case"


def test_a_data_set_with_pairs_is_refused_before_anything_is_asked(tmp_path):
    rows = [{"id": n, "track": "fine_grained", "question": "q", "responses": ["w", "x", "y", "z"][:n]} for n in (1, 4)]
    rows = [row | {"answer": 1 if row["id"] == 4 else True, "image": "a.png"} for row in rows]
    (tmp_path / "armbench_vl.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Image.new("RGB", (8, 6)).save(tmp_path / "a.png")
    asked = []
    judge = AgenticJudge(lambda utterances: asked.append(1) or "<think>so</think><answer>True</answer>")
    with pytest.raises(ConfigError, match="single"):
        measure_verdicts(judge, ENV_ID, num_cases=2, dataset="armbench_vl", folder=str(tmp_path))
    assert not asked


def test_its_verdict_rewards_an_episode_of_any_world():
    shown = {"text": "Game: <answer>x</answer>", "image": np.zeros((4, 4, 3), np.uint8)}
    info = {"format_correct": True, "prompt_format": "no_think", "state": {}}
    played = episode(["<answer>Up</answer>"], [info], env_id="VLM/FrozenLake-v0", shown=shown)
    asked = []

    def right(utterances):
        asked.append(utterances[0])
        return "<think>so</think><answer>True</answer>"

    for generate, terms in ((right, {"verdict": 1.0}), (lambda _: Unavailable("down"), {})):
        (reward,) = episode_judge("agentic", agentic_judge=AgenticJudge(generate))([played])
        assert (reward.terms, reward.available) == (terms, bool(terms))
    (wrong,) = episode_judge("agentic", agentic_judge=says("False"))([played])
    assert wrong.terms == {"verdict": 0.0}
    assert "| ‹answer›Up‹/answer›" in asked[0].text and "Game: " in asked[0].text and len(asked[0].images) == 1
    with pytest.raises(ConfigError, match="needs a judge"):
        episode_judge("agentic")


def test_rows_of_a_data_set_are_measured_once_each_and_only_single_ones(tmp_path):
    judge = {"method": "rule_based", "verify_funcs": [{"func": "check_whether_has_no_arabic_number_in_response"}]}
    judge["verify_funcs"][0]["params"] = []
    row = {"id": "c", "question": "Describe.", "constraints": [{"key": "k", "value": "No digits.", "judge": judge}]}
    rows = [row | {"prediction": f"A cat{' 7' * (number % 2)}, case {number * 'x'}."} for number in range(5)]
    (tmp_path / "mm_ifeval.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"prompt": "q", "chosen": "a", "rejected": "b"}))
    given = {"dataset": "mm_ifeval", "folder": str(tmp_path)}
    found = measure_verdicts(says("Overall Judgment: True"), ENV_ID, num_cases=12, **given)
    assert (found.num_judged, found.accuracy) == (5, 0.6)
    assert measure_verdicts(says("True"), ENV_ID, num_cases=12, seed=3, **given).num_judged == 2
    with pytest.raises(ConfigError, match=r"5 rows.*seed=5"):
        measure_verdicts(says("True"), ENV_ID, num_cases=12, seed=5, **given)
    two = {"dataset": "pairs", "folder": str(tmp_path), "is_benchmark": True}
    with pytest.raises(ConfigError, match="single"):
        measure_verdicts(says("True"), ENV_ID, num_cases=1, **two)
