"""An episode reward of one's own: one entry in the registry, and runs and curations take it by its name."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agents.event_loop import run_blocking
from agents.oracle import OracleAgent
from agents.registry import make_agent
from judges.episode_rewards import reward_registry
from judges.episode_rewards.episode_reading import own_pieces
from judges.episode_rewards.episode_reward import EachByItself, EpisodeReward
from judges.scores import Reward
from tests.unit.episodes import play
from tests.unit.training.batches import run_config
from training.__main__ import main
from training.config.judge_config import JudgeConfig
from training.curation import curation_loop
from training.curation.curated_data import curated_episodes
from training.curation.curation_config import CurateConfig
from training.curation.curation_loop import make_data_set
from training.curation.curation_set import questions
from training.preflight import ready
from training.rewards.turn_scores import TurnScorer
from training.run import train
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
    rejection_reason=lambda trajectory: None if trajectory.seed % 2 else "even",
)


@pytest.fixture(autouse=True)
def registered():
    reward_registry.register(BREVITY)
    yield
    del reward_registry._REWARDS["brevity"]


def test_a_run_learns_from_it(tiny_directory, tmp_path):
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
    del reward_registry._REWARDS["few_turns"], sys.modules["own_episode_reward"]


def test_a_data_set_is_curated_by_it(tmp_path):
    settings = ("side_px=400", "target_px=(16, 40)", "prompt_format=direct")
    sizes = {"num_samples": 6, "num_rollouts": 1, "threshold": 0.001, "output": str(tmp_path)}
    chosen = CurateConfig(episode_reward="brevity", settings=settings, mistake_rate=0.0, **sizes)
    directory, result = make_data_set(chosen)
    kept = curated_episodes(directory)
    assert all(each.seed % 2 for each in kept)
    assert len(kept) + result.total.rejections["even"] == 6


@pytest.mark.parametrize("given", [0.5, None, {"brevity": 0.5}, Reward(terms=0.5), Reward(terms={"brevity": "0.5"})])
def test_what_is_no_reward_is_told_in_one_line(given):
    def own(episode):
        return given

    with pytest.raises(ConfigError) as told:
        run_blocking(EachByItself(own)(["episode"]))
    (line,) = str(told.value).splitlines()
    assert line.startswith(f"The episode reward {__name__}:{own.__qualname__} must return a judges.scores.Reward")
    assert line.endswith(f"; got {given!r}.")


@pytest.mark.parametrize("expert", ["oracle", "random"])
def test_worlds_without_samples_are_curated_by_their_start_states(expert, tmp_path, capsys):
    words = ["--name", "own", "--output", str(tmp_path), "--num-samples", "3", "--num-rollouts", "2"]
    words += ["--mistake-rate", "0", "--threshold", "0.0001", "--set", "is_slippery=False", "--expert", expert]
    assert main(["curate", "--env-id", "VLM/FrozenLake-v0", "--episode-reward", "brevity", *words]) == 0
    assert "of 3 questions" in capsys.readouterr().out


class TooFewOrMany(EachByItself):
    num_more = -1

    async def __call__(self, episodes):
        rewards = await super().__call__(episodes)
        return rewards[: self.num_more] if self.num_more < 0 else rewards * 2


class TooMany(TooFewOrMany):
    num_more = 1


class Numbers(EachByItself):
    def __call__(self, episodes):
        return [0.5 for _ in episodes]


@pytest.fixture
def brevity_as(monkeypatch):
    return lambda **changes: monkeypatch.setitem(reward_registry._REWARDS, "brevity", replace(BREVITY, **changes))


@pytest.mark.parametrize("kind", [TooFewOrMany, TooMany, Numbers])
def test_a_judge_gives_one_reward_for_each_episode(kind, brevity_as, tmp_path):
    brevity_as(build=lambda models: kind(brevity))
    small = CurateConfig(
        episode_reward="brevity", settings=("side_px=400",), num_samples=2, num_rollouts=1, output=str(tmp_path)
    )
    told = r"'brevity' must return a list of 2 judges\.scores\.Reward, one for each episode; got "
    with pytest.raises(ConfigError, match=told):
        make_data_set(small)
    groups = curation_loop.play(OracleAgent(), small, questions(small)[0]).groups
    with pytest.raises(ConfigError, match=told):
        TurnScorer(JudgeConfig(**NOTHING, episode_reward="brevity")).score([each for group in groups for each in group])


@pytest.mark.parametrize("reason", [True, ["even"]])
def test_a_rejection_reason_is_a_text(reason, brevity_as, tmp_path):
    brevity_as(rejection_reason=lambda trajectory: reason)
    small = CurateConfig(
        episode_reward="brevity", settings=("side_px=400",), num_samples=1, num_rollouts=1, output=str(tmp_path)
    )
    with pytest.raises(ConfigError, match=r"rejection_reason of 'brevity' .* or None; got "):
        make_data_set(small)


def fails(models):
    raise KeyError("HOME")


@pytest.mark.parametrize(("build", "said"), [(fails, r"cannot be built: .*KeyError: 'HOME'"), (id, "has no __call__")])
def test_a_judge_that_cannot_be_built_is_told_before_anything_is_played(build, said, brevity_as, tmp_path, monkeypatch):
    brevity_as(build=build)
    monkeypatch.setattr("training.curation.curation_loop.play", None)
    with pytest.raises(ConfigError, match=f"The judge of the reward 'brevity' {said}"):
        make_data_set(CurateConfig(episode_reward="brevity", output=str(tmp_path / "runs")))
    with pytest.raises(ConfigError, match=f"The judge of the reward 'brevity' {said}"):
        ready(run_config(judge=JudgeConfig(**NOTHING, episode_reward="brevity")), imitates=False)
    assert not (tmp_path / "runs").exists()


def test_a_module_that_registers_one_is_named_with_it(tmp_path, monkeypatch):
    (tmp_path / "own_rewards.py").write_text(
        "from dataclasses import replace\n"
        "from judges.episode_rewards import reward_registry\n"
        "reward_registry.register(replace(reward_registry.EPISODE_REWARDS['brevity'], name='terseness'))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "terseness" not in reward_registry.EPISODE_REWARDS
    assert JudgeConfig(**NOTHING, episode_reward="own_rewards:terseness").episode_reward == "own_rewards:terseness"
    with pytest.raises(ConfigError, match=r"cannot import 'no_rewards'.*PYTHONPATH"):
        JudgeConfig(**NOTHING, episode_reward="no_rewards:terseness")
    for named, said in (("argos", "'argos' alone is the one of judges."), ("tersenes", "Did you mean 'terseness'?")):
        with pytest.raises(ConfigError) as told:
            JudgeConfig(**NOTHING, episode_reward=f"own_rewards:{named}")
        assert f"own_rewards registers no episode reward {named!r}, but terseness. {said}" in str(told.value)
    del reward_registry._REWARDS["terseness"]
