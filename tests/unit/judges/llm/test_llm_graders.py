"""Graded judges, and judges of several models that are asked at once."""

import asyncio
import contextlib
import json
import threading

import numpy as np
import pytest

from agents.api.client import ChatClient
from agents.api.conversation import Picture
from agents.api.endpoint_config import EndpointConfig
from judges.llm.llm_judge import DirectJudge, ExtractionJudge
from tests.unit.agents.api import endpoint as fake
from tests.unit.judges.awaited import LLMAnswerJudge, LLMConsistencyJudge, score_together
from vlm_envs.errors import ConfigError

CLAIM = ("the goal is right of me", {"player_position": (3, 1), "target_position": (3, 3), "hole_positions": []})


def verdict_or_claims(messages):
    claim = '{"subject": "target", "vertical": null, "horizontal": "right", "object": "player"}'
    is_extraction = "relations" in messages[0]["content"]
    return f'<answer>{{"relations": [{claim}]}}</answer>' if is_extraction else fake.YES


@pytest.fixture
def make_gathering(clock):
    """Makes clients of endpoints that answer once as many requests are under way as a barrier has parties."""
    with contextlib.ExitStack() as stack:

        def make(together):
            server = stack.enter_context(fake.Gathering(together))
            config = EndpointConfig(model="judge", base_url=server.base_url, api_key_variable="", max_attempts=1)
            return stack.enter_context(ChatClient(config, clock=clock)), server

        yield make


class TestTogether:
    def test_judges_of_one_model_ask_together(self, make_gathering):
        client, server = make_gathering(threading.Barrier(3))
        judges = [
            DirectJudge(client, "VLM/FrozenLake-v0"),
            DirectJudge(client, "VLM/FrozenLake-v0", "worldmodeling"),
            ExtractionJudge(client, "VLM/FrozenLake-v0"),
        ]
        server.answer = verdict_or_claims
        scores = score_together([(judge, [CLAIM]) for judge in judges])
        assert server.max_at_once == len(server.requests) == 3
        assert not server.together.broken
        server.num_alone = 3
        assert scores == [score_together([(judge, [CLAIM])])[0] for judge in judges]

    def test_judges_of_several_models_ask_together(self, make_gathering):
        together = threading.Barrier(3)
        clients, servers = zip(*(make_gathering(together) for _ in range(3)), strict=True)
        for server, said in zip(servers, ("YES", "NO", "YES"), strict=True):
            server.answer = lambda messages, said=said: f"<answer>{said}</answer>"
        scores = score_together([(DirectJudge(client, "VLM/FrozenLake-v0"), [CLAIM]) for client in clients])
        assert [len(server.requests) for server in servers] == [1, 1, 1]
        assert not together.broken
        assert [[score.value for score in column] for column in scores] == [[1.0], [0.0], [1.0]]

    def test_an_interruption_of_one_judge_ends_the_questions_of_all(self, make_gathering):
        (one, first), (other, second) = (make_gathering(threading.Barrier(1)) for _ in range(2))

        is_asking = threading.Event()

        class Interrupted(DirectJudge):
            async def ask(self, claims):
                await asyncio.to_thread(is_asking.wait, 20.0)
                raise KeyboardInterrupt

        class Slow(DirectJudge):
            async def ask(self, claims):
                is_asking.set()
                await asyncio.sleep(20.0)
                return await super().ask(claims)

        claims = [(f"text {number}", CLAIM[1]) for number in range(200)]
        judges = [Interrupted(one, "VLM/FrozenLake-v0"), Slow(other, "VLM/FrozenLake-v0")]
        with pytest.raises(KeyboardInterrupt):
            score_together([(judge, claims) for judge in judges])
        assert not first.requests
        assert not second.requests
        assert score_together([(DirectJudge(other, "VLM/FrozenLake-v0"), [CLAIM])])[0][0].available, (
            "and it can be asked again"
        )
        assert len(second.requests) == 1


class TestAnswers:
    @pytest.mark.parametrize("grade", [0.0, 0.25, 0.5, 0.75, 1.0])
    def test_the_scale_of_five(self, grade, endpoint, client):
        endpoint.answer = lambda messages: f"<answer>{grade}</answer>"
        assert LLMAnswerJudge(client)("What is it?", "cat", "kitty").value == grade
        told = endpoint.requests[0]["messages"][1]["content"]
        assert [json.loads(line) for line in told.splitlines() if line.startswith('"')] == [
            "What is it?",
            "cat",
            "kitty",
        ]

    def test_off_the_scale_is_unavailable(self, endpoint, client):
        endpoint.answer = lambda messages: "<answer>0.6</answer>"
        assert not LLMAnswerJudge(client)("What?", "cat", "kitty").available

    def test_the_binary_scale(self, endpoint, client):
        endpoint.answer = lambda messages: "<answer>YES</answer>"
        value = LLMAnswerJudge(client, "binary")("How many?", "2", "two").value
        assert value == 1.0 and isinstance(value, float)

    def test_no_answer_is_wrong_without_a_question(self, endpoint, client):
        assert LLMAnswerJudge(client)("What?", "cat", " ").value == 0.0
        assert endpoint.requests == []

    def test_pictures_go_before_the_text(self, endpoint, client):
        endpoint.answer = lambda messages: "<answer>1.0</answer>"
        image = np.zeros((2, 3, 3), dtype=np.uint8)
        LLMAnswerJudge(client)("Which?", "black", "black", images=[image, image])
        parts = endpoint.requests[0]["messages"][1]["content"]
        assert [part["type"] for part in parts] == ["image_url", "image_url", "text"]
        assert parts[0]["image_url"]["url"] == Picture.of(image).data_uri
        assert Picture.of(image).data_uri.startswith("data:image/png;base64,iVBOR")

    @pytest.mark.parametrize("image", [np.zeros((2, 3)), np.zeros((2, 3, 3)), np.zeros((0, 3, 3), dtype=np.uint8)])
    def test_what_is_no_picture(self, image):
        with pytest.raises(ConfigError, match="uint8"):
            Picture.of(image)


class TestConsistency:
    @pytest.mark.parametrize("grade", [0.0, 0.3, 0.7, 1.0])
    def test_asked_at_the_papers_temperature(self, grade, endpoint, client):
        endpoint.answer = lambda messages: f"<answer>{grade}</answer>"
        assert LLMConsistencyJudge(client)("What?", "a red van <box>", "a red van").value == grade
        assert [request["temperature"] for request in endpoint.requests] == [0.01]

    def test_four_samples_are_four_replies_also_from_the_cache(self, endpoint, make_client, tmp_path):
        grades = ["1.0", "0.7", "0.3", "0"]
        endpoint.script.extend(fake.reply(f"<answer>{grade}</answer>") for grade in grades)
        judge = LLMConsistencyJudge(make_client(cache_dir=tmp_path), num_samples=4)
        given = [judge("What?", "a", "b", 0.5).value for _ in range(8)]
        assert given == [1.0, 0.7, 0.3, 0.0] * 2
        assert [request["temperature"] for request in endpoint.requests] == [0.5] * 4

    def test_off_the_scale_is_unavailable(self, endpoint, client):
        endpoint.answer = lambda messages: "<answer>0.5</answer>"
        assert not LLMConsistencyJudge(client)("What?", "a", "b").available

    def test_silence_is_not_asked_about(self, endpoint, client):
        assert LLMConsistencyJudge(client)("What?", "a", "").value == 0.0
        assert endpoint.requests == []

    def test_no_samples(self, client):
        with pytest.raises(ConfigError, match="num_samples"):
            LLMConsistencyJudge(client, num_samples=0)
