"""Judges are asked about episodes while others still play, and say, cost and remember what they do when asked later."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from dataclasses import replace

import pytest

from agents.api.endpoint_config import EndpointConfig
from agents.oracle import OracleAgent
from agents.rollout import try_rollout
from tests.unit.agents.api.endpoint import YES, FakeEndpoint, hang, status
from tests.unit.judges.episodes import with_state
from training.config.judge_config import JudgeConfig
from training.config.world_spec import WorldSpec
from training.rewards.turn_scores import TurnScorer

LAKE = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"representation": "natural_language"})
ZOOM = WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={"side_px": 400, "target_px": (16, 40), "prompt_format": "points"})
SEEDS = [0, 1, 1, 5]


class ContinuousOracle(OracleAgent):
    """Answers one row a step, and does `before` then; responses are what the oracle says."""

    def __init__(self, before=lambda: None):
        super().__init__()
        self._before, self._asked = before, {}

    def add_request(self, row, observation):
        self._asked[row] = observation

    def step(self):
        self._before()
        row = next(iter(self._asked))
        return dict(zip([row], self.respond([row], [self._asked.pop(row)]), strict=True))

    def abort(self, row):
        self._asked.pop(row, None)


def scorer_of(server, **settings):
    limits = {"max_attempts": 1, **settings.pop("endpoint", {})}
    endpoint = EndpointConfig(model="judge", base_url=server.base_url, api_key_variable="", **limits)
    return TurnScorer(JudgeConfig(**{"method": "direct", "repetition_penalty": 0.1, **settings}, endpoint=endpoint))


def played_and_scored(scorer, spec=LAKE, *, is_ahead, before=lambda: None, change=lambda episode: episode):
    """Returns scored episodes; `change` is done to each before its judges see it."""
    with spec.make_vector(len(SEEDS), split="train") as worlds, scorer.asking_ahead() if is_ahead else nullcontext():
        seen = {}

        def on_episode(row, episode):
            seen[row] = change(episode)
            if is_ahead:
                scorer.saw_episode(seen[row])

        try_rollout(
            ContinuousOracle(before),
            worlds,
            SEEDS,
            env_ids=[spec.env_id] * len(SEEDS),
            on_turn=(lambda row, turn: scorer.saw_turn(spec.env_id, turn)) if is_ahead else None,
            on_episode=on_episode,
        )
        return scorer.score([replace(seen[row], world="its name in the mix") for row in range(len(SEEDS))])


def until_asked(server, num_before):
    """Waits for a first request, unless nothing was played yet; returns whether it came."""
    until = time.monotonic() + 20 * (num_before > 0)
    while not server.requests and time.monotonic() < until:
        time.sleep(0.01)
    return bool(server.requests)


def outcome(scorer, scored):
    rewards = [([turn.rewards for turn in each.turns], each.trainable_turns) for each in scored]
    return rewards, scorer.metrics(), scorer.state_dict()


def asked(server):
    return sorted(str(request["messages"]) for request in server.requests)


@pytest.mark.parametrize("answer", [lambda messages: YES, lambda messages: "I would rather not say."])
def test_turns_are_asked_about_while_others_are_played_and_come_to_the_same(answer):
    came_to = []
    for is_ahead in (False, True):
        with FakeEndpoint() as server:
            server.answer, was_asked = answer, []

            def before(server=server, was_asked=was_asked, is_ahead=is_ahead):
                was_asked.append(until_asked(server, is_ahead * len(was_asked)))

            scorer = scorer_of(server)
            scored = played_and_scored(scorer, is_ahead=is_ahead, before=before)
            came_to.append((outcome(scorer, scored), asked(server)))
            scorer.close()
        assert was_asked[1:] == [is_ahead] * (len(was_asked) - 1), "from the second answer of the policy on"
    assert came_to[0] == came_to[1]
    assert len(came_to[0][1]) >= 2 * 3


def open_question(episode):
    """The episode, as if only a model could compare its answer with the truth."""
    truth = {"answer_kind": "semantic", "options": (), "answers": [f"other words {episode.seed}"]}
    return with_state(episode, **truth)


@pytest.mark.parametrize(
    ("reward", "verdict", "num_asked"),
    [("argos", YES, 3), ("agentic", "<think>I see.</think><answer>True</answer>", 4)],
)
def test_so_are_episodes(reward, verdict, num_asked):
    """Two siblings give the same answer: whoever compares answers is asked about it once."""
    settings = {"method": "exact", "grounding_weight": 0.0, "worldmodeling_weight": 0.0, "repetition_penalty": 0.0}
    came_to = []
    for is_ahead in (False, True):
        with FakeEndpoint() as server:
            server.answer = lambda messages: verdict
            scorer, was_asked = scorer_of(server, **settings, episode_reward=reward), []

            def before(server=server, was_asked=was_asked, is_ahead=is_ahead):
                was_asked.append(until_asked(server, is_ahead * len(was_asked)))

            scored = played_and_scored(scorer, ZOOM, is_ahead=is_ahead, before=before, change=open_question)
            came_to.append((outcome(scorer, scored), asked(server)))
            scorer.close()
        assert was_asked[1:] == [is_ahead] * (len(SEEDS) - 1)
    assert came_to[0] == came_to[1]
    assert len(came_to[0][1]) == num_asked


@pytest.mark.parametrize("reward", [None, "argos"])
def test_a_lost_episode_is_not_asked_about(reward):
    def lost(episode):
        *turns, last = episode.turns
        return replace(episode, turns=(*turns, replace(last, info={**last.info, "worker_error": "killed"})))

    with FakeEndpoint() as server:
        settings = {"grounding_weight": 0.0, "worldmodeling_weight": 0.0, "repetition_penalty": 0.0, "method": "exact"}
        scorer = scorer_of(server, **({} if reward is None else {**settings, "episode_reward": reward}))
        with ZOOM.make_vector(1, split="train") as worlds, scorer.asking_ahead():
            (episode,) = try_rollout(ContinuousOracle(), worlds, [0], env_ids=[ZOOM.env_id])
            for turn in lost(open_question(episode)).turns:
                scorer.saw_turn(LAKE.env_id, turn)
            scorer.saw_episode(lost(open_question(episode)))
        assert server.requests == []
        scorer.close()


def test_a_failing_judge_is_unavailable_as_ever_and_counted_once():
    came_to = []
    for is_ahead in (False, True):
        with FakeEndpoint() as server:
            server.script.extend([status(500)] * 100)
            scorer = scorer_of(server)
            came_to.append(outcome(scorer, played_and_scored(scorer, is_ahead=is_ahead)))
            scorer.close()
    assert came_to[0] == came_to[1]
    _, metrics, _ = came_to[0]
    assert metrics["llm_judge/unavailable"] == metrics["llm_judge/questions"] > 0


def test_an_interrupt_waits_for_no_attempt_to_come_and_leaves_nothing_behind():
    """Every question would be asked nine times, with a minute between."""
    with FakeEndpoint() as server:
        server.script.extend([status(500)] * 100)
        waits = {"max_attempts": 9, "first_wait_s": 60.0, "timeout_s": 5.0}
        scorer, started, answers = scorer_of(server, endpoint=waits), time.monotonic(), []

        def interrupt():
            if until_asked(server, len(answers)):
                raise KeyboardInterrupt
            answers.append(1)

        with pytest.raises(KeyboardInterrupt):
            played_and_scored(scorer, is_ahead=True, before=interrupt)
        assert time.monotonic() - started < 20
        server.script.clear()
        scored = played_and_scored(scorer, is_ahead=True)
        assert all(turn.available for each in scored for turn in each.turns), "asked anew, and answered"
        scorer.close()


def test_a_hanging_judge_costs_its_turns_only():
    with FakeEndpoint() as server:
        server.script.append(hang)
        scorer = scorer_of(server, endpoint={"timeout_s": 1.0})
        scored = played_and_scored(scorer, is_ahead=True)
        scorer.close()
    available = [turn.available for each in scored for turn in each.turns]
    assert 0 < available.count(False) <= 2, "siblings on one level ask the same"


def test_what_was_asked_ahead_asks_nothing_after_its_batch():
    async def busy():
        time.sleep(0.5)  # keeps the client's loop from starting questions until the batch is over

    with FakeEndpoint() as server, LAKE.make_vector(1, split="train") as worlds:
        scorer = scorer_of(server)
        (episode,) = try_rollout(ContinuousOracle(), worlds, [0], env_ids=[LAKE.env_id])
        with scorer.asking_ahead():
            blocked = scorer._client.begin(busy())
            for turn in episode.turns:
                scorer.saw_turn(LAKE.env_id, turn)
        blocked.result()
        scorer._client.begin(asyncio.sleep(0.2)).result()
        assert server.requests == []
        scorer.close()
