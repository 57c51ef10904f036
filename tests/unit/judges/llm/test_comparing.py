"""Graded judges, ensembles and pairs."""

import contextlib
import json
import math
import threading

import numpy as np
import pytest

from agents.api.client import ChatClient
from agents.api.config import EndpointConfig
from agents.api.messages import data_uri
from judges.batches import score_together
from judges.llm.ensemble import Ensemble
from judges.llm.graded import AnswerJudge, ConsistencyJudge
from judges.llm.judge import DirectJudge, ExtractionJudge
from judges.llm.pairwise import PairwiseJudge
from judges.state_text.exact import JudgeScore
from tests.unit.agents.api import endpoint as fake
from vlm_envs.errors import ConfigError


class _Fixed:
    def __init__(self, f1):
        self.f1 = f1

    def score(self, text, state):
        return JudgeScore.outage("out") if self.f1 is None else JudgeScore(f1=self.f1, num_facts_read=2)


CLAIM = ("the goal is right of me", {"player_position": (3, 1), "target_position": (3, 3), "hole_positions": []})


def verdict_or_claims(messages):
    claim = '{"subject": "target", "vertical": null, "horizontal": "right", "object": "player"}'
    is_extraction = "relations" in messages[0]["content"]
    return f'<answer>{{"relations": [{claim}]}}</answer>' if is_extraction else fake.YES


def one_after_the_other(members):
    given = iter([member.score(*CLAIM) for member in members])

    class Next:
        def score(self, text, state):
            return next(given)

    return Ensemble([Next() for _ in members], "mean").score(*CLAIM)


@pytest.fixture
def make_gathering(clock):
    """Makes clients of endpoints that answer once as many requests are under way as a barrier has parties."""
    with contextlib.ExitStack() as stack:

        def make(together):
            server = stack.enter_context(fake.Gathering(together))
            config = EndpointConfig(model="judge", base_url=server.base_url, api_key_variable="", max_attempts=1)
            return stack.enter_context(ChatClient(config, clock=clock)), server

        yield make


class TestEnsemble:
    @pytest.mark.parametrize(
        ("scores", "mean", "majority"),
        [
            ([1.0], 1.0, 1.0),
            ([1.0, 1.0, 0.0], 2 / 3, 1.0),
            ([0.9, 0.1, 0.2], 0.4, 0.0),
            ([1.0, 0.0], 0.5, 0.5),
            ([1.0, 0.0, None], 0.5, 0.5),
            ([None, 0.25, None], 0.25, 0.0),
            ([0.5, 1.0], 0.75, 1.0),
        ],
    )
    def test_outages_are_left_out(self, scores, mean, majority):
        judges = [_Fixed(f1) for f1 in scores]
        assert Ensemble(judges, "mean").score("x", {}).f1 == pytest.approx(mean)
        assert Ensemble(judges, "majority").score("x", {}).f1 == majority

    def test_all_out_is_an_outage(self):
        score = Ensemble([_Fixed(None), _Fixed(None)]).score("x", {})
        assert not score.available and math.isnan(score.f1) and "all 2 judges" in score.reason

    def test_claims_keep_their_order(self):
        class Length:
            def score(self, text, state):
                return JudgeScore(f1=len(text) / 10)

        scores = Ensemble([Length(), Length()], "mean").score_many([("aaa", {}), ("b", {})])
        assert [score.f1 for score in scores] == [0.3, 0.1]

    def test_members_of_one_model_ask_together(self, make_gathering):
        client, server = make_gathering(threading.Barrier(3))
        members = [
            DirectJudge(client, "VLM/FrozenLake-v0"),
            DirectJudge(client, "VLM/FrozenLake-v0", "world_modeling"),
            ExtractionJudge(client, "VLM/FrozenLake-v0"),
        ]
        server.answer = verdict_or_claims
        score = Ensemble(members, "mean").score(*CLAIM)
        assert server.max_at_once == len(server.requests) == 3
        assert not server.together.broken
        server.num_alone = 3
        assert score == one_after_the_other(members)

    def test_members_of_several_models_ask_together(self, make_gathering):
        together = threading.Barrier(3)
        clients, servers = zip(*(make_gathering(together) for _ in range(3)), strict=True)
        for server, said in zip(servers, ("YES", "NO", "YES"), strict=True):
            server.answer = lambda messages, said=said: f"<answer>{said}</answer>"
        members = [DirectJudge(client, "VLM/FrozenLake-v0") for client in clients]
        score = Ensemble(members, "mean").score(*CLAIM)
        assert [len(server.requests) for server in servers] == [1, 1, 1]
        assert not together.broken
        for server in servers:
            server.num_alone = 1
        assert score == one_after_the_other(members)
        assert score.f1 == pytest.approx(2 / 3)

    def test_ensembles_of_two_sections_and_of_ensembles_ask_together(self, make_gathering):
        client, server = make_gathering(threading.Barrier(4))
        grounding, prediction = (
            DirectJudge(client, "VLM/FrozenLake-v0", skill) for skill in ("grounding", "world_modeling")
        )
        nested = Ensemble([Ensemble([grounding, _Fixed(0.0)], "mean"), prediction], "mean")
        jobs = [(nested, [CLAIM]), (Ensemble([grounding, prediction]), [CLAIM]), (_Fixed(0.3), [CLAIM, CLAIM])]
        scores = score_together(jobs)
        assert not server.together.broken and len(server.requests) == 4
        assert [[score.f1 for score in column] for column in scores] == [[0.75], [1.0], [0.3, 0.3]]

    def test_an_interruption_of_one_member_ends_the_questions_of_all(self, make_gathering):
        (one, first), (other, second) = (make_gathering(threading.Barrier(1)) for _ in range(2))

        is_asking = threading.Event()

        class Interrupted(DirectJudge):
            def ask(self, question):
                is_asking.wait(20.0)
                raise KeyboardInterrupt

        class Slow(DirectJudge):
            def ask(self, question):
                is_asking.set()
                other._stopping.wait(20.0)
                return super().ask(question)

        claims = [(f"text {number}", CLAIM[1]) for number in range(200)]
        members = [Interrupted(one, "VLM/FrozenLake-v0"), Slow(other, "VLM/FrozenLake-v0")]
        with pytest.raises(KeyboardInterrupt):
            Ensemble(members).score_many(claims)
        assert not first.requests
        num_asked = len(second.requests)
        assert num_asked < 200
        assert DirectJudge(other, "VLM/FrozenLake-v0").score(*CLAIM).available, "and it can be asked again"
        assert len(second.requests) == num_asked + 1

    def test_nobody_and_unknown_combinations(self):
        with pytest.raises(ConfigError, match="at least one"):
            Ensemble([])
        with pytest.raises(ConfigError, match="Did you mean 'mean'"):
            Ensemble([_Fixed(1.0)], "meen")


class TestPairs:
    def test_the_same_reply_in_both_orders_wins(self, endpoint, client):
        endpoint.answer = lambda messages: (
            "<answer>A</answer>"
            if messages[1]["content"].index('"good"') < messages[1]["content"].index('"bad"')
            else "<answer>B</answer>"
        )
        judge = PairwiseJudge(client)
        assert judge.position_consistency is None
        assert judge.compare("task", "good", "bad").winner == "first"
        verdict = judge.compare("task", "bad", "good")
        assert (verdict.winner, verdict.is_consistent, verdict.available) == ("second", True, True)
        assert judge.position_consistency == 1.0

    def test_a_judge_that_prefers_a_place_decides_nothing(self, endpoint, client):
        endpoint.answer = lambda messages: "<answer>A</answer>"
        judge = PairwiseJudge(client)
        verdict = judge.compare("task", "one", "other")
        assert (verdict.winner, verdict.is_consistent) == ("tie", False)
        endpoint.answer = lambda messages: "<answer>tie</answer>"
        assert judge.compare("task", "one", "third").is_consistent is True
        assert judge.position_consistency == 0.5

    def test_an_outage_in_one_order_is_an_outage_and_not_counted(self, endpoint, make_client):
        judge = PairwiseJudge(make_client(max_attempts=1, max_parallel=1))
        endpoint.script.extend([fake.reply("<answer>A</answer>"), fake.status(500)])
        verdict = judge.compare("task", "one", "other")
        assert (verdict.winner, verdict.is_consistent, verdict.available) == (None, None, False)
        assert judge.position_consistency is None


class TestAnswers:
    @pytest.mark.parametrize("grade", [0.0, 0.25, 0.5, 0.75, 1.0])
    def test_the_scale_of_five(self, grade, endpoint, client):
        endpoint.answer = lambda messages: f"<answer>{grade}</answer>"
        assert AnswerJudge(client)("What is it?", "cat", "kitty").f1 == grade
        told = endpoint.requests[0]["messages"][1]["content"]
        assert [json.loads(line) for line in told.splitlines() if line.startswith('"')] == [
            "What is it?",
            "cat",
            "kitty",
        ]

    def test_off_the_scale_is_an_outage(self, endpoint, client):
        endpoint.answer = lambda messages: "<answer>0.6</answer>"
        assert not AnswerJudge(client)("What?", "cat", "kitty").available

    def test_the_binary_scale(self, endpoint, client):
        endpoint.answer = lambda messages: "<answer>YES</answer>"
        assert AnswerJudge(client, "binary")("How many?", "2", "two").f1 == 1.0

    def test_no_answer_is_wrong_without_a_question(self, endpoint, client):
        assert AnswerJudge(client)("What?", "cat", " ").f1 == 0.0
        assert endpoint.requests == []

    def test_pictures_go_before_the_text(self, endpoint, client):
        endpoint.answer = lambda messages: "<answer>1.0</answer>"
        image = np.zeros((2, 3, 3), dtype=np.uint8)
        AnswerJudge(client)("Which?", "black", "black", images=[image, image])
        parts = endpoint.requests[0]["messages"][1]["content"]
        assert [part["type"] for part in parts] == ["image_url", "image_url", "text"]
        assert parts[0]["image_url"]["url"] == data_uri(image)
        assert data_uri(image).startswith("data:image/png;base64,iVBOR")

    @pytest.mark.parametrize("image", [np.zeros((2, 3)), np.zeros((2, 3, 3)), np.zeros((0, 3, 3), dtype=np.uint8)])
    def test_what_is_no_picture(self, image):
        with pytest.raises(ConfigError, match="Expected a picture"):
            data_uri(image)


class TestConsistency:
    @pytest.mark.parametrize("grade", [0.0, 0.3, 0.7, 1.0])
    def test_asked_at_the_papers_temperature(self, grade, endpoint, client):
        endpoint.answer = lambda messages: f"<answer>{grade}</answer>"
        assert ConsistencyJudge(client)("What?", "a red van <box>", "a red van").f1 == grade
        assert [request["temperature"] for request in endpoint.requests] == [0.01]

    def test_four_samples_are_four_replies_also_from_the_cache(self, endpoint, make_client, tmp_path):
        grades = ["1.0", "0.7", "0.3", "0"]
        endpoint.script.extend(fake.reply(f"<answer>{grade}</answer>") for grade in grades)
        judge = ConsistencyJudge(make_client(cache_dir=tmp_path), num_samples=4)
        given = [judge("What?", "a", "b", 0.5).f1 for _ in range(8)]
        assert given == [1.0, 0.7, 0.3, 0.0] * 2
        assert [request["temperature"] for request in endpoint.requests] == [0.5] * 4

    def test_off_the_scale_is_an_outage(self, endpoint, client):
        endpoint.answer = lambda messages: "<answer>0.5</answer>"
        assert not ConsistencyJudge(client)("What?", "a", "b").available

    def test_silence_is_not_asked_about(self, endpoint, client):
        assert ConsistencyJudge(client)("What?", "a", "").f1 == 0.0
        assert endpoint.requests == []

    def test_no_samples(self, client):
        with pytest.raises(ConfigError, match="num_samples"):
            ConsistencyJudge(client, num_samples=0)
