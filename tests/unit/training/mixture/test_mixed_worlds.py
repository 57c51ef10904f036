"""One env id may occur in a mix as often as one likes; what judges need of a world comes with its turns."""

from __future__ import annotations

import gymnasium as gym
import pytest

from agents.oracle import OracleAgent
from agents.rollout import rollout
from tests.unit.episodes import LAKE, SHORT
from tests.unit.training.batches import NO_JUDGE, run_config
from training.config.judge_config import JudgeConfig
from training.config.update_config import PPOConfig
from training.config.world_spec import WorldSpec, world_names
from training.loop.collect import Collector
from training.rewards.turn_scores import TurnScorer
from training.run import train
from vlm_envs.errors import ConfigError
from vlm_envs.records.report_panels import comparisons, sentence
from vlm_envs.records.run_data import RunReader

SIZES = tuple(WorldSpec(env_id=LAKE, kwargs={**SHORT, "size": size}) for size in (4, 5))
NAMES = (f"{LAKE} (size=4)", f"{LAKE} (size=5)")


def lake(**kwargs: object) -> WorldSpec:
    return WorldSpec(env_id=LAKE, kwargs=kwargs)


@pytest.mark.parametrize(
    ("specs", "names"),
    [
        ((lake(),), (LAKE,)),
        ((lake(size=4), WorldSpec(env_id="VLM/Sokoban-v0")), (LAKE, "VLM/Sokoban-v0")),
        (SIZES, NAMES),
        ((lake(), lake(size=5)), (LAKE, f"{LAKE} (size=5)")),
        ((lake(size=4, max_turns=2), lake(size=4, max_turns=5)), (f"{LAKE} (max_turns=2)", f"{LAKE} (max_turns=5)")),
        ((lake(size=4), lake(size=4), lake()), (f"{LAKE} (size=4) #1", f"{LAKE} (size=4) #2", LAKE)),
        ((WorldSpec(env_id=LAKE, name="small"), lake(size=5)), ("small", LAKE)),
    ],
)
def test_worlds_of_a_mix_are_told_apart_by_what_differs(specs, names):
    assert world_names(specs) == names
    assert run_config(worlds=specs, group_size=2, num_groups=4).worlds == specs


def test_two_worlds_cannot_have_one_name():
    with pytest.raises(ConfigError, match="distinct names to distinguish results; got a, a"):
        run_config(worlds=(WorldSpec(env_id=LAKE, name="a"), WorldSpec(env_id="VLM/Sokoban-v0", name="a")))


def test_training_episodes_say_which_entry_they_were_played_in():
    collector = Collector(run_config(worlds=SIZES, num_groups=2, group_size=2))
    groups = collector.collect(OracleAgent(), 0)
    collector.close()
    assert [group.trajectories[0].world for group in groups] == list(NAMES)
    assert {trajectory.env_id for group in groups for trajectory in group.trajectories} == {LAKE}


@pytest.mark.soak
@pytest.mark.report
def test_a_run_of_two_settings_logs_evaluates_and_reports_each(tiny_directory, tmp_path):
    directory = train(
        run_config(
            worlds=SIZES,
            judge=NO_JUDGE,
            output=str(tmp_path),
            model=str(tiny_directory),
            num_iterations=1,
            num_eval_episodes=2,
            ppo=PPOConfig(num_minibatches=2),
        )
    )
    reader = RunReader(directory)
    (line,) = reader.metrics()
    assert {f"success/{name}" for name in NAMES} <= line.keys()
    evaluations = reader.evaluations()
    assert [each["world"] for each in evaluations] == [*NAMES, *NAMES]
    assert {each["env_id"] for each in evaluations} == {LAKE}
    compared = comparisons(reader)
    assert [each.env_id for each in compared] == list(NAMES)
    assert [each.paired.num_pairs for each in compared] == [2, 2]
    assert "to play FrozenLake (size=4) and FrozenLake (size=5)" in sentence(reader.config, [], NAMES)
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in NAMES)


def test_each_turn_is_judged_in_the_representation_it_was_played_in():
    """Also where it was set in the registration, of which a configuration knows nothing."""
    gym.register(
        "Mine/Lake-v0",
        entry_point="vlm_envs.worlds.frozen_lake:FrozenLakeWorld",
        kwargs={"representation": "structured"},
    )
    specs = (lake(representation="symbolic"), lake(), WorldSpec(env_id="Mine/Lake-v0"))
    try:
        trajectories = []
        for spec in specs:
            with spec.make_vector(2, split="train") as worlds:
                trajectories += rollout(OracleAgent(), worlds, [0, 1], env_ids=[spec.env_id] * 2)
        scores = TurnScorer(JudgeConfig()).score(trajectories)
    finally:
        del gym.registry["Mine/Lake-v0"]
    told = [trajectory.turns[0].info["representation"] for trajectory in trajectories]
    assert told == ["symbolic"] * 2 + ["natural_language"] * 2 + ["structured"] * 2
    for scored in scores:
        for shaped in scored.turns:
            assert shaped.rewards == {"grounding": pytest.approx(0.5), "worldmodeling": pytest.approx(0.5)}


def test_both_streams_of_ivgr_may_have_one_env_id():
    small = {"side_px": 400, "target_px": (16, 40), "answer_reward": 0.0}
    specs = tuple(
        WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={**small, "prompt_format": f"ivgr_{stream}"})
        for stream in ("textual", "grounded")
    )
    judge = JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0, episode_reward="ivgr")
    config = run_config(worlds=specs, judge=judge)
    collector, scorer = Collector(config), TurnScorer(judge)
    groups = collector.collect(OracleAgent(), 0)
    collector.close()
    textual, grounded = (scorer.score(group.trajectories) for group in groups)
    assert [set(each.turns[-1].rewards) for each in grounded] == [{"ivgr/format", "ivgr/accuracy", "ivgr/box"}] * 2
    together = scorer.score([each for group in groups for each in group.trajectories])
    assert all("ivgr/consistency" in each.turns[-1].rewards for each in together[:2])
    assert scorer.metrics()["archive_size"] == 1
    assert all(each.trainable_turns for each in textual)
