"""Evaluations measure and leave no trace: how often, and on how many levels, changes nothing of what is learnt."""

from __future__ import annotations

import pytest

from agents.api.endpoint_config import EndpointConfig
from agents.hf.sampling_config import SamplingConfig
from agents.oracle import OracleAgent
from agents.rollout import rollout
from tests.unit.agents.api.endpoint import FakeEndpoint
from tests.unit.training.batches import run_config
from tests.unit.training.test_run import differing
from training.algorithms.algorithm import CriticConfig
from training.algorithms.turn_gae import TurnGAE
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.config.judge_config import JudgeConfig
from training.config.update_config import PPOConfig
from training.config.world_spec import WorldSpec
from training.loop.trainer import Trainer
from training.rewards.turn_scores import TurnScorer
from training.run import train

LAKE = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"representation": "natural_language", "max_turns": 2})
SMALL = {"side_px": 400, "target_px": (16, 40)}
STREAMS = tuple(
    WorldSpec(env_id="VLM/ZoomQA-v0", kwargs=SMALL | {"answer_reward": 0.0, "prompt_format": f"ivgr_{stream}"})
    for stream in ("textual", "grounded")
)
NOTHING = {"grounding_weight": 0.0, "worldmodeling_weight": 0.0}
WRONG = (
    "<think><observation>The player is above the goal, says iteration {0}.</observation><reasoning>r</reasoning>"
    "<prediction>The player is above the goal, in {0}.</prediction></think><answer>Up</answer>"
)
BOXED = "<think>It is there, [1, 2, 3, 4], in {}.</think><answer>red</answer>"


@pytest.fixture
def final_state(tiny_directory, tmp_path, monkeypatch):
    """Trains for two iterations in which the policy says the same wrong thing, another one in each."""
    run = Trainer.run

    def of(name: str, said: str, **settings) -> dict:
        def saying(self):
            self.encoder.decode = lambda ids: said.format(self.iteration)
            run(self)

        monkeypatch.setattr(Trainer, "run", saying)
        config = run_config(
            name=name,
            output=str(tmp_path),
            model=str(tiny_directory),
            num_iterations=2,
            num_groups=2,
            sampling=SamplingConfig(max_new_tokens=3),
            ppo=PPOConfig(num_minibatches=1, learning_rate=1e-3),
            algorithm=TurnGAE(critic=CriticConfig(num_minibatches=1, learning_rate=1e-3), whiten=False),
            num_threads=1,
            **settings,
        )
        return load_checkpoint_state(train(config) / "latest")

    return of


@pytest.mark.soak
@pytest.mark.parametrize(
    ("worlds", "judge", "said"),
    [
        pytest.param(
            (LAKE,),
            JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.5, repetition_penalty=0.1),
            WRONG,
            id="repetition penalty",
        ),
        pytest.param(
            STREAMS,
            JudgeConfig(**NOTHING, episode_reward="ivgr"),
            BOXED,
            id="archive",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_runs_that_differ_in_their_evaluations_only_end_alike(final_state, worlds, judge, said):
    amounts = (
        {"eval_every": 0, "num_eval_episodes": 0, "num_val_episodes": 0},
        {"eval_every": 1, "num_eval_episodes": 3, "num_val_episodes": 4},
    )
    states = [final_state(str(i), said, worlds=worlds, judge=judge, **each) for i, each in enumerate(amounts)]
    assert differing(*states) == []


@pytest.mark.soak
def test_repetition_is_what_such_runs_could_differ_by(final_state):
    judges = [JudgeConfig(grounding_weight=0.0, repetition_penalty=penalty) for penalty in (0.0, 0.1)]
    amount = {"eval_every": 0, "num_eval_episodes": 0, "num_val_episodes": 0}
    constant = WRONG.replace("{0}", "all")
    states = [
        final_state(str(i), constant, worlds=(LAKE,), judge=each, **amount)["learner"] for i, each in enumerate(judges)
    ]
    assert differing(*states), "a repeated wrong text does change what is learnt"


@pytest.fixture(scope="module")
def episodes():
    with LAKE.make_vector(2, split="val") as worlds:
        return rollout(OracleAgent(), worlds, [200_000_000, 200_000_001], env_ids=[LAKE.env_id] * 2)


def endpoint_judge(server, **settings) -> JudgeConfig:
    endpoint = EndpointConfig(model="judge", base_url=server.base_url, api_key_variable="", max_attempts=1)
    return JudgeConfig(method="direct", endpoint=endpoint, **settings)


def test_a_model_is_asked_about_evaluations_only_if_it_is_meant_to_be(episodes):
    with FakeEndpoint() as server:
        scorer = TurnScorer(endpoint_judge(server))
        evaluation = scorer.for_evaluation()
        (first, *_) = evaluation.score(episodes)
        assert server.requests == []
        assert first.turns[0].rewards == {}, "what nobody judged has no score, and no 0"
        assert all(first.trainable_turns)
        assert evaluation.metrics() == {}
        scorer.close()


def test_what_evaluations_cost_is_counted_apart(episodes, tmp_path):
    with FakeEndpoint() as server:
        judge = endpoint_judge(server, in_evaluations=True)
        scorer = TurnScorer(judge)
        evaluation = scorer.for_evaluation()
        evaluation.score(episodes)
        num_asked = len(server.requests)
        assert num_asked > 0
        assert evaluation.metrics()["llm_judge/questions"] >= num_asked
        assert scorer.metrics()["llm_judge/questions"] == 0
        for each in (scorer, evaluation):
            each.close()


def test_training_never_finds_an_evaluations_reply_in_its_cache(episodes, tmp_path):
    with FakeEndpoint() as server:
        endpoint = EndpointConfig(model="judge", base_url=server.base_url, api_key_variable="", cache_dir=tmp_path)
        scorer = TurnScorer(JudgeConfig(method="direct", endpoint=endpoint, in_evaluations=True))
        evaluation = scorer.for_evaluation()
        evaluation.score(episodes)
        num_asked = len(server.requests)
        scorer.score(episodes)
        assert len(server.requests) == 2 * num_asked
        for each in (scorer, evaluation):
            each.close()
