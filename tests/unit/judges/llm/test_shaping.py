"""Language models in the place of the exact judge, all the way to the rewards of a batch."""

import pytest

from judges.llm.llm_judge import llm_judges
from judges.turn_rewards import RepetitionTerm, grounding_reward, worldmodeling_reward
from tests.unit.agents.api import endpoint as fake
from tests.unit.judges.awaited import shape
from tests.unit.judges.episodes import lake
from vlm_envs.errors import ConfigError

TEXTS = ("the goal is right of me", "the goal will be right below me")
LAKE = lake(*TEXTS)
TERMS = (grounding_reward(), worldmodeling_reward())


def test_each_section_has_its_own_prompt_and_its_own_state(endpoint, client):
    endpoint.answer = lambda messages: f"<answer>{'NO' if 'foresees' in messages[0]['content'] else 'YES'}</answer>"
    ((shaped,),) = shape([LAKE], TERMS, judge_for=llm_judges(client, "direct"))
    assert shaped.rewards == {"grounding": 0.5, "worldmodeling": 0.0}
    told = {request["messages"][1]["content"] for request in endpoint.requests}
    assert any("same row and to the right" in text and "the goal is right of me" in text for text in told)
    assert any("below and to the right" in text and "will be right below me" in text for text in told)


def test_extraction_pays_the_exact_judges_score(endpoint, client):
    claim = '{"subject": "target", "vertical": "same", "horizontal": "right", "object": "player"}'
    endpoint.answer = lambda messages: f'<answer>{{"relations": [{claim}]}}</answer>'
    ((shaped,),) = shape([LAKE], TERMS, judge_for=llm_judges(client, "extraction"))
    # Against the next state the wrong axis cancels the right one: 0.5 · (0.7 · 0 + 0.3).
    assert shaped.rewards == pytest.approx({"grounding": 0.5, "worldmodeling": 0.15})


@pytest.mark.parametrize("method", ["direct", "extraction"])
def test_unavailable_masks_its_turn_and_no_other(method, endpoint, make_client):
    client = make_client(max_attempts=2)

    def answer(messages):
        text = "<answer>YES</answer>" if method == "direct" else '<answer>{"relations": []}</answer>'
        return "cannot be read" if "unlucky" in messages[1]["content"] else text

    endpoint.answer = answer
    lakes = [LAKE, lake("an unlucky text", TEXTS[1]), lake(*TEXTS, format_correct=False)]
    shaped = shape(lakes, (*TERMS, RepetitionTerm()), judge_for=llm_judges(client, method))
    good, masked, unformatted = (turn for (turn,) in shaped)
    assert [turn.available for turn in (good, masked, unformatted)] == [True, False, True]
    assert masked.rewards == {"grounding": 0.0, "worldmodeling": 0.0, "repetition": 0.0}
    assert good.total == (1.0 if method == "direct" else 0.0)
    assert "unreadable twice" in masked.scores["observation"].reason
    assert client.usage.num_unavailable == 1


def test_an_endpoint_that_is_down_masks_everything_and_raises_nothing(endpoint, make_client):
    client = make_client(max_attempts=2)
    endpoint.script.extend([fake.status(503)] * 20)
    shaped = shape([LAKE] * 3, TERMS, judge_for=llm_judges(client, "direct"))
    assert [turn.available for (turn,) in shaped] == [False] * 3
    # Three equal turns ask two questions, each of which is tried twice.
    assert (client.usage.num_unavailable, client.usage.num_requests) == (2, 4)


def test_a_section_without_a_judge_is_an_error(client):
    by_section = llm_judges(client, "direct")
    with pytest.raises(KeyError, match="prediction"):
        shape([LAKE], TERMS, judge_for={"observation": by_section["observation"]})


def test_judges_are_made_once(client):
    judge_for = llm_judges(client, "direct")["observation"]
    assert judge_for("VLM/Sokoban-v0", "natural_language") is judge_for("VLM/Sokoban-v0", "natural_language")


def test_unknown_methods(client):
    with pytest.raises(ConfigError, match="Did you mean 'direct'"):
        llm_judges(client, "dirct")
