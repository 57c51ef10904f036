"""An episode reward of one's own: one entry in the registry, and runs and curations take it by its name."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agents.registry import make_agent
from judges.episode_rewards import registry
from judges.episode_rewards.episode import own_pieces
from judges.episode_rewards.reward import EachByItself, EpisodeReward
from judges.scores import Reward
from tests.unit.episodes import play
from tests.unit.training.batches import run_config
from training.config.curation import CurateConfig
from training.config.judges import JudgeConfig, VerifierConfig
from training.data.curation import make_data_set
from training.loop.run import train
from training.rewards.score import TurnScorer
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Trajectory

CHECKOUT = Path(__file__).parents[4]
NOTHING = {"grounding_weight": 0.0, "worldmodeling_weight": 0.0}


def brevity(episode: Trajectory) -> Reward:
    terms = {"brevity": 1.0 / (1 + sum(map(len, own_pieces(episode))))}
    return Reward(terms=terms, raw=terms)


BREVITY = EpisodeReward(
    name="brevity",
    build=lambda models: EachByItself(brevity),
    rejection_reason=lambda trajectory, *, needs_tools: None if trajectory.seed % 2 else "even",
)


@pytest.fixture(autouse=True)
def registered():
    registry.register(BREVITY)
    yield
    del registry._REWARDS["brevity"]


def test_a_run_learns_from_it(tiny_directory, tmp_path, monkeypatch):
    monkeypatch.setattr("training.loop.run.build_report", lambda directory: directory / "report.html")
    judge = JudgeConfig(**NOTHING, episode_reward="brevity")
    settings = {"num_iterations": 1, "num_eval_episodes": 0, "num_threads": 1, "device": "cpu"}
    run = train(run_config(name="own", output=str(tmp_path), model=str(tiny_directory), judge=judge, **settings))
    logged = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert 0.0 < logged["judge/brevity/brevity"] < 1.0


def test_the_example_pays_for_few_turns(monkeypatch):
    monkeypatch.syspath_prepend(str(CHECKOUT / "examples"))
    scorer = TurnScorer(JudgeConfig(**NOTHING, episode_reward="own_episode_reward:few_turns"))
    solved, lost = play(make_agent("oracle"), [0]) + play(make_agent("oracle"), [0], max_turns=(1,))
    assert (solved.success, len(solved.turns) > 1, lost.success) == (True, True, False)
    paid = [each.turns[-1].rewards["few_turns/few_turns"] for each in scorer.score([solved, lost])]
    assert paid == [1.0 / len(solved.turns), 0.0]
    del registry._REWARDS["few_turns"], sys.modules["own_episode_reward"]


def test_a_data_set_is_curated_by_it(tmp_path):
    settings = ("side_px=400", "target_px=(16, 40)", "prompt_format=direct")
    sizes = {"num_samples": 6, "num_rollouts": 1, "threshold": 0.001, "output": str(tmp_path)}
    _, result = make_data_set(CurateConfig(episode_reward="brevity", settings=settings, mistake_rate=0.0, **sizes))
    assert all(each.seed % 2 for each in result.curated.kept.values())
    assert len(result.curated.kept) + result.rejections["even"] == 6


@pytest.mark.parametrize("given", [0.5, None, {"brevity": 0.5}, Reward(terms=0.5), Reward(terms={"brevity": "0.5"})])
def test_what_is_no_reward_is_told_in_one_line(given):
    def own(episode):
        return given

    with pytest.raises(ConfigError) as told:
        EachByItself(own)(["episode"])
    (line,) = str(told.value).splitlines()
    assert line.startswith(f"The episode reward {__name__}:{own.__qualname__} must return a judges.scores.Reward")
    assert line.endswith(f"; got {given!r}.")


def test_models_that_it_does_not_ask_are_refused():
    with pytest.raises(ConfigError, match=r"Only --judge\.episode-reward argos"):
        JudgeConfig(episode_reward="brevity", verifier=VerifierConfig(likelihood="a"))


def test_a_module_that_registers_one_is_named_with_it(tmp_path, monkeypatch):
    (tmp_path / "own_rewards.py").write_text(
        "from dataclasses import replace\n"
        "from judges.episode_rewards import registry\n"
        "registry.register(replace(registry.EPISODE_REWARDS['brevity'], name='terseness'))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "terseness" not in registry.EPISODE_REWARDS
    assert JudgeConfig(**NOTHING, episode_reward="own_rewards:terseness").episode_reward == "own_rewards:terseness"
    with pytest.raises(ConfigError, match=r"cannot import 'no_rewards'.*PYTHONPATH"):
        JudgeConfig(**NOTHING, episode_reward="no_rewards:terseness")
    del registry._REWARDS["terseness"]
