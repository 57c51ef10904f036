"""Questions of many episodes are in flight together; rewards are what they would be one by one."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from agents.api.endpoint_config import EndpointConfig
from agents.event_loop import run_blocking
from agents.oracle import OracleAgent
from agents.perception.likelihood import HFLikelihood
from agents.rollout import rollout
from judges.asking import BatchedModel, QuestionCache, gather
from judges.episode_rewards import reward_registry
from judges.episode_rewards.episode_reading import true_boxes
from judges.episode_rewards.episode_reward import EachByItself, EpisodeReward
from judges.episode_rewards.ivgr import MEAN_OF_FOUR
from judges.episode_rewards.judge_models import JudgeModels
from judges.scores import JudgeScore, Reward
from tests.unit.agents.api.endpoint import FakeEndpoint, Gathering, reply, status
from tests.unit.judges.awaited import IvgrJudge, Waiting
from tests.unit.judges.episodes import episode_judge, with_response, with_state
from training.config.judge_config import JudgeConfig, VerifierConfig
from training.config.world_spec import WorldSpec
from training.rewards.turn_scores import TurnScorer
from training.rewards.verifier import Verifier
from vlm_envs.errors import ConfigError

SMALL = {"side_px": 400, "target_px": (16, 40)}
NUM_PARALLEL = 8


def episodes_of(name: str, num: int = 4, **kwargs):
    spec = WorldSpec(env_id=f"VLM/{name}-v0", kwargs={**SMALL, **kwargs})
    with spec.make_vector(num, split="train") as worlds:
        return rollout(OracleAgent(), worlds, list(range(num)), env_ids=[spec.env_id] * num)


def open_questions(num: int):
    """Episodes whose answers only a model can compare, each another."""
    (first,) = episodes_of("ZoomQA", 1, prompt_format="points")
    things = [f"a thing like number {index}" for index in range(num)]
    return [
        with_state(
            with_response(first, f"<think>So.</think><answer>{thing}</answer>"),
            **{"answer_kind": "semantic", "options": (), "answer": thing},
        )
        for thing in things
    ]


@pytest.mark.parametrize("method", ["argos", "agentic"])
def test_an_iterations_questions_are_under_way_together(method):
    episodes = open_questions(64)
    with Gathering(threading.Barrier(NUM_PARALLEL)) as server:
        if method == "agentic":
            server.answer = lambda messages: "<think>I see.</think><answer>True</answer>"
        config = EndpointConfig(
            model="judge", base_url=server.base_url, api_key_variable="", max_parallel=NUM_PARALLEL, max_attempts=1
        )
        scorer = TurnScorer(
            JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0, episode_reward=method, endpoint=config)
        )
        rewards = Waiting(scorer._episode_judge)(episodes)
        assert len(server.requests) == 64, "once each"
        assert server.max_at_once == NUM_PARALLEL, "64 requests in 8 rounds of 8"
        assert not server.together.broken, "every one of them found its seven neighbours"
        assert scorer.metrics()["llm_judge/questions"] == 64
        scorer.close()
    assert all(reward.available and reward.total > 0 for reward in rewards)


def test_observations_and_predictions_are_under_way_together():
    spec = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"representation": "natural_language"})
    with spec.make_vector(4, split="train") as worlds:
        trajectories = rollout(OracleAgent(), worlds, [0, 1, 2, 3], env_ids=[spec.env_id] * 4)
    short = [replace(each, turns=each.turns[:1]) for each in trajectories]
    with Gathering(threading.Barrier(NUM_PARALLEL)) as server:
        config = EndpointConfig(model="judge", base_url=server.base_url, api_key_variable="", max_attempts=1)
        scorer = TurnScorer(JudgeConfig(method="direct", endpoint=config))
        scored = scorer.score(short)
        assert server.max_at_once == len(server.requests) == NUM_PARALLEL, "4 observations and 4 predictions"
        scorer.close()
    assert [sum(each.turns[0].rewards.values()) for each in scored] == [1.0] * 4


class Counting:
    """An asynchronous judge that counts how many questions it is asked before it answers the first."""

    def __init__(self, answer):
        self.answer, self.asked, self.num_together = answer, [], None

    async def __call__(self, *question):
        self.asked.append(question)
        await asyncio.sleep(0.01)
        self.num_together = self.num_together or len(self.asked)
        return self.answer(*question)


def test_the_same_is_asked_and_paid_at_once_and_one_by_one():
    episodes = open_questions(6)
    results = []
    for _ in range(2):
        judge = Counting(lambda question, truth, answer: JudgeScore(value=float(answer.endswith(("1", "3")))))
        results.append([episode_judge("argos", answer_judge=judge)(episodes), judge])
    rewards, judge = results[0]
    alone = [episode_judge("argos", answer_judge=judge.answer)([episode])[0] for episode in episodes]
    assert rewards == alone == results[1][0]
    assert judge.num_together == 6
    assert len(judge.asked) == 6


def test_a_judge_unavailable_for_one_episode_is_so_for_no_other():
    def out_for_two(question, truth, answer):
        return JudgeScore.unavailable("down") if answer.endswith("2") else JudgeScore(value=1.0)

    rewards = episode_judge("argos", answer_judge=out_for_two)(open_questions(4))
    assert [reward.available for reward in rewards] == [True, True, False, True]
    assert rewards[2].reason == "down", "and not that it was not asked yet"


def test_likelihoods_come_in_one_batch(tiny_directory, monkeypatch):
    episodes = episodes_of("ZoomQA", 5, prompt_format="points", answer_kinds=("choice", "number"))
    sizes = []
    log_probs = HFLikelihood.log_probs

    def counted(self, queries):
        sizes.append(len(queries))
        return log_probs(self, queries)

    monkeypatch.setattr(HFLikelihood, "log_probs", counted)
    models = Verifier(VerifierConfig(likelihood=str(tiny_directory))).models
    rewards = episode_judge("argos", **models)(episodes)
    assert sizes == [5]
    alone = [reward for episode in episodes for reward in episode_judge("argos", **models)([episode])]
    assert [each.total for each in rewards] == pytest.approx([each.total for each in alone], abs=1e-4)


def test_ivgr_asks_all_consistency_at_once_and_its_archive_is_as_if_it_had_not():
    grounded, textual = (episodes_of("ZoomQA", prompt_format=f"ivgr_{name}") for name in ("grounded", "textual"))
    judge = Counting(lambda *question: JudgeScore(value=0.7))
    at_once = IvgrJudge(JudgeModels(consistency_judge=judge))
    rewards = at_once([*grounded, *textual])
    asked = len(judge.asked)
    assert judge.num_together == len(judge.asked)
    one_by_one = IvgrJudge(JudgeModels(consistency_judge=lambda *question: JudgeScore(value=0.7)))
    expected = {}
    for first, second in zip(grounded, textual, strict=True):
        expected[id(first)], expected[id(second)] = one_by_one([first, second])
    assert rewards == [expected[id(episode)] for episode in (*grounded, *textual)]
    assert at_once.state_dict() == one_by_one.state_dict(), "lookups are counted once"
    assert asked == sum(bool(true_boxes(episode)) for episode in textual)


def test_a_sampled_judge_is_asked_as_often_as_it_would_be():
    grounded, textual = (episodes_of("ZoomQA", 1, prompt_format=f"ivgr_{name}") for name in ("grounded", "textual"))
    grades = iter([0.0, 0.3, 0.7, 1.0] * 2)
    judge = IvgrJudge(JudgeModels(consistency_judge=lambda *_: JudgeScore(value=next(grades))), MEAN_OF_FOUR)
    rewards = judge([*grounded, *textual, *[replace(each) for each in textual]])
    assert [reward.terms.get("consistency") for reward in rewards[1:]] == [0.5, 0.5]


def scorer_of(server, method, *settings, **endpoint):
    limits = {"max_parallel": NUM_PARALLEL, "max_attempts": 1, **endpoint}
    config = EndpointConfig(model="judge", base_url=server.base_url, api_key_variable="", **limits)
    judge = {"grounding_weight": 0.0, "worldmodeling_weight": 0.0, "episode_reward": method, "endpoint": config}
    return TurnScorer(JudgeConfig(**judge, reward_settings=settings))


def test_a_slow_judge_is_waited_for_once_and_an_outage_masks_its_own_episode():
    num = NUM_PARALLEL
    episodes, under_way = open_questions(num), threading.Barrier(num)

    def after_a_while(server):
        def answer(handler):
            under_way.wait(60)  # until all have been asked
            is_out = b"number 3" in json.dumps(server.requests[answers.index(answer)]["messages"]).encode()
            (status(503) if is_out else reply("<think>So.</think><answer>YES</answer>"))(handler)

        return answer

    with FakeEndpoint() as server:
        answers = [after_a_while(server) for _ in range(num)]
        server.script.extend(answers)
        scorer = scorer_of(server, "argos")
        scored = scorer.score(episodes)
        assert scorer.metrics()["llm_judge/unavailable"] == 1
        scorer.close()
    assert not under_way.broken, "all were under way together"
    assert [each.episode_available for each in scored] == [index != 3 for index in range(num)]
    assert [each.trajectory for each in scored] == episodes, "in order"
    assert {sum(each.turn_rewards) for each in scored if each.episode_available} != {0.0}


def test_four_judgements_of_one_text_are_under_way_together(tmp_path):
    grounded, textual = (episodes_of("ZoomQA", 1, prompt_format=f"ivgr_{name}") for name in ("grounded", "textual"))
    same = [*textual, *[replace(each) for each in textual]]
    settings = ("num_judgements=4", "temperature=0.5")
    with Gathering(threading.Barrier(4)) as server:
        grades = iter(["1", "0.7", "0.3", "0"])
        server.answer = lambda messages: f"<think>So.</think><answer>{next(grades)}</answer>"
        scorer = scorer_of(server, "ivgr", *settings, cache_dir=tmp_path)
        first = Waiting(scorer._episode_judge)([*grounded, *same])
        assert server.max_at_once == len(server.requests) == 4, "the second text's four are in the cache"
        assert not server.together.broken
        assert {request["temperature"] for request in server.requests} == {0.5}
        scorer.close()
        again = scorer_of(server, "ivgr", *settings, cache_dir=tmp_path)
        assert Waiting(again._episode_judge)([*grounded, *same]) == first, "and so is everything in another process"
        assert len(server.requests) == 4
        again.close()
    assert [reward.terms["consistency"] for reward in first[1:]] == [0.5, 0.5]


def test_as_many_questions_are_under_way_as_the_endpoint_allows():
    with FakeEndpoint() as server:
        scorer = scorer_of(server, "argos", max_parallel=3)
        assert all(reward.available for reward in Waiting(scorer._episode_judge)(open_questions(9)))
        assert 1 <= server.max_at_once <= 3
        scorer.close()


class Failing:
    """Gives answers, and raises at the question of this number."""

    def __init__(self, answer, fails_at):
        self.answer, self.fails_at, self.num_asked = answer, fails_at, 0

    def __call__(self, *question):
        self.num_asked += 1
        if self.num_asked == self.fails_at:
            raise KeyboardInterrupt
        return self.answer(*question)


def test_a_judge_that_raises_in_the_middle_leaves_the_archive_as_it_was():
    grounded, textual = (episodes_of("ZoomQA", prompt_format=f"ivgr_{name}") for name in ("grounded", "textual"))

    def grade(*question):
        return JudgeScore(value=0.7)

    whole, judge = (IvgrJudge(JudgeModels(consistency_judge=each)) for each in (grade, Failing(grade, fails_at=1)))
    with pytest.raises(KeyboardInterrupt):
        judge([*grounded, *textual])
    assert judge.state_dict() == whole.state_dict() == IvgrJudge().state_dict(), "nothing was looked up or archived"
    assert judge([*grounded, *textual]) == whole([*grounded, *textual])
    assert judge.state_dict() == whole.state_dict()


def test_a_model_that_raises_after_the_judge_of_answers_leaves_no_answers_behind():
    episodes = open_questions(2)
    asked = []

    def grades(question, truth, answer):
        asked.append(answer)
        return JudgeScore(value=1.0)

    def raises(queries):
        raise KeyboardInterrupt

    judge = episode_judge("argos", answer_judge=grades, likelihoods=raises)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            judge(episodes)
    assert len(asked) == 4, "both batches ask for themselves"


def test_a_scorer_whose_episode_judge_raises_has_its_history_from_before():
    spec = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"representation": "natural_language"})
    with spec.make_vector(2, split="train") as worlds:
        trajectories = rollout(OracleAgent(), worlds, [0, 1], env_ids=[spec.env_id] * 2)
    scorer = TurnScorer(JudgeConfig(repetition_penalty=0.1))
    scorer.score(trajectories)
    before = scorer.state_dict()
    assert any(before["repetition"].values())

    def raises(episodes):
        raise KeyboardInterrupt

    scorer._episode_judge, scorer._episode_name = raises, "paper"
    with pytest.raises(KeyboardInterrupt):
        scorer.score(trajectories)
    scorer._episode_judge = None
    assert scorer.state_dict() == before


def test_a_batched_model_answers_all_waiting_coroutines_in_their_order():
    batches = []

    def squares(questions):
        batches.append([number for (number,) in questions])
        return [number**2 for (number,) in questions]

    async def member(model, number):
        await asyncio.sleep(0.02 * (3 - number))
        if number == 1:
            return None
        return [await model(number), *await asyncio.gather(model(10 + number), model(20 + number))]

    async def together():
        model = BatchedModel(squares)
        return await gather(member(model, number) for number in range(4))

    assert run_blocking(together()) == [[0, 100, 400], None, [4, 144, 484], [9, 169, 529]]
    assert batches == [[0, 2, 3], [10, 20, 12, 22, 13, 23]], "by member, whoever asks first"


def test_a_batched_model_is_asked_while_other_members_wait_for_their_turn():
    async def together():
        model = BatchedModel(lambda questions: [len(questions)] * len(questions))
        return await gather((model(number) for number in range(5)), num_parallel=2)

    assert sum(1 / size for size in run_blocking(together())) == pytest.approx(3), "two, two, and one"


def test_an_error_of_one_coroutine_cancels_the_others():
    cancelled = []

    async def waits():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def fails():
        await asyncio.sleep(0)
        raise ConfigError("no such thing")

    with pytest.raises(ConfigError, match="no such thing"):
        run_blocking(gather([waits(), fails()]))
    assert cancelled == [True]


class Client:
    """A model that answers each question with how often it was asked anything."""

    def __init__(self):
        self.num_asked = 0

    async def ask(self, messages, read, *, temperature=None, sample=0):
        self.num_asked = number = self.num_asked + 1
        await asyncio.sleep(0)
        return number


def test_a_question_is_shared_until_its_batch_is_forgotten():
    client = Client()
    questions = QuestionCache(client)

    async def answers():
        return await gather(questions.ask([text], str) for text in ("a", "b", "a"))

    assert run_blocking(answers()) == run_blocking(answers()) == [1, 2, 1]
    questions.clear()
    assert run_blocking(answers()) == [3, 4, 3]


def test_rewards_of_ones_own_may_be_coroutines_also_where_an_event_loop_runs(monkeypatch):
    episodes = open_questions(3)

    async def slow(episode):
        await asyncio.sleep(0.01)
        return Reward(terms={"seed": float(episode.seed)})

    own = EpisodeReward(name="slow", build=lambda models: EachByItself(slow))
    monkeypatch.setitem(reward_registry._REWARDS, "slow", own)
    scorer = TurnScorer(JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0, episode_reward="slow"))

    async def notebook_cell():
        return scorer.score(episodes)

    with ThreadPoolExecutor(1) as thread:  # whatever loop this thread has
        in_a_notebook = thread.submit(asyncio.run, notebook_cell()).result()
    assert in_a_notebook == scorer.score(episodes)
    assert [each.turns[-1].rewards["slow/seed"] for each in in_a_notebook] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("wrong", [[1.0], None, StopIteration()])
def test_a_faulty_batched_model_raises_and_hangs_nobody(wrong):
    def answer_all(questions):
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    async def together():
        model = BatchedModel(answer_all)
        return await asyncio.wait_for(gather(model(number) for number in range(2)), 20)

    with pytest.raises((RuntimeError, TypeError, ValueError)):
        run_blocking(together())


def test_who_stops_waiting_takes_no_answer_from_others():
    class Slow(Client):
        async def ask(self, messages, read, *, temperature=None, sample=0):
            await asyncio.sleep(0.2)
            return "late"

    questions = QuestionCache(Slow())

    async def impatient():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(questions.ask(["a"], str), 0.01)

    async def both():
        return await gather([impatient(), questions.ask(["a"], str)])

    assert run_blocking(both()) == [None, "late"]


def test_batches_of_several_models_do_not_depend_on_who_asks_first():
    def batches_with(delays):
        batches = []

        def model(name):
            return BatchedModel(lambda asked: batches.append((name, [i for (i,) in asked])) or [0] * len(asked))

        async def together():
            first, second = model("X"), model("Y")

            async def member(index):
                await asyncio.sleep(delays[index])
                if index == 0:
                    await first(index)
                await second(index)

            await gather(member(index) for index in range(2))

        run_blocking(together())
        return batches

    assert batches_with([0.0, 0.05]) == batches_with([0.05, 0.0]) == [("X", [0]), ("Y", [0, 1])]


def test_clients_bound_to_an_event_loop_serve_every_batch(monkeypatch):
    slots = asyncio.Semaphore(1)

    async def reward_of(episode):
        async with slots:  # contended, so that it is bound to a loop
            await asyncio.sleep(0)
        return Reward(terms={"one": 1.0})

    scored = EachByItself(reward_of)
    for _ in range(2):
        assert len(run_blocking(scored(["episode"] * 3))) == 3


def test_a_reward_that_raises_cancelled_error_is_named():
    async def reward_of(episode):
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="reward_of raised CancelledError"):
        run_blocking(EachByItself(reward_of)(["episode"]))


def test_a_judge_that_gives_too_few_rewards_is_as_it_was_before(monkeypatch):
    class Counting:
        num = 0

        def __call__(self, episodes):
            self.num += len(episodes)
            return []

        def state_dict(self):
            return {"num": self.num}

        def load_state_dict(self, state):
            self.num = state["num"]

        def metrics(self):
            return {}

    monkeypatch.setitem(reward_registry._REWARDS, "few", EpisodeReward(name="few", build=lambda models: Counting()))
    scorer = TurnScorer(JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0, episode_reward="few"))
    with pytest.raises(ConfigError, match="list of 2"):
        scorer.score(open_questions(2))
    assert scorer.state_dict() == {"episode": {"num": 0}}
