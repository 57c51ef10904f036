"""A run trains on its pool's levels, epoch by epoch, with any number of processes and after any interruption."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace

import pytest

from agents.oracle import OracleAgent, RandomAgent
from tests.unit.episodes import LAKE, SHORT
from tests.unit.training.batches import NO_JUDGE, run_config
from training.algorithms.dapo import DAPO
from training.algorithms.grpo import GRPO
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.cold_start.demonstrations import demonstrations
from training.config.update_config import PPOConfig
from training.config.world_spec import WorldSpec, world_names
from training.engines.engine import LocalEngine
from training.loop.collect import Collector
from training.mixture.mixed_worlds import MixedWorlds
from training.mixture.mixture_config import MixConfig
from training.pools.pool_config import PoolConfig
from training.pools.pool_levels import open_pool
from training.run import train
from training.update.learner import Learner
from vlm_envs import make
from vlm_envs.errors import ConfigError
from vlm_envs.records.replay import replay
from vlm_envs.records.run_data import RunReader
from vlm_envs.splits import split_seeds

NUM_LEVELS = 5


def drawn(num=NUM_LEVELS, env_id=LAKE, **kwargs):
    """Returns the texts of different training levels."""
    world = make(env_id, **kwargs).unwrapped
    found = []
    for seed in split_seeds("train", 100 + num):
        world.reset(seed=seed)
        text = world.dynamics.dump(world.state)
        if text not in found:
            found.append(text)
        if len(found) == num:
            break
    return found


def pool_file(path, ids):
    path.write_text("".join(json.dumps({"id": each, "solution_length": 5}) + "\n" for each in ids))
    return PoolConfig(file=str(path))


@pytest.fixture
def pool(tmp_path):
    return pool_file(tmp_path / "pool.jsonl", drawn())


@pytest.fixture
def spec(pool):
    return WorldSpec(env_id=LAKE, kwargs=dict(SHORT), pool=pool)


def played(collector, num_iterations, first=0):
    """Returns the level of each group of each iteration."""
    groups = [collector.collect(RandomAgent(), iteration) for iteration in range(first, first + num_iterations)]
    levels = [[{each.level for each in group.trajectories} for group in of_one] for of_one in groups]
    assert all(len(each) == 1 for of_one in levels for each in of_one), "siblings start alike"
    return [next(iter(each)) for of_one in levels for each in of_one]


def test_groups_of_iterations_go_through_epochs_whoever_begins_where(spec):
    config = run_config(worlds=(spec,), num_groups=3, group_size=2)
    collector = Collector(config)
    found = played(collector, 5)
    assert {*found} == {*drawn()}
    assert all(len({*found[start : start + NUM_LEVELS]}) == NUM_LEVELS for start in (0, 5, 10))
    assert collector.metrics() | {f"pool/{LAKE}/epoch": 3.0, f"pool/{LAKE}/size": 5.0} == collector.metrics()
    halfway = Collector(config)
    assert played(halfway, 2) == found[:6]
    again = Collector(config)
    again.load_state_dict(halfway.state_dict())
    assert played(again, 3, first=2) == found[6:]
    assert played(Collector(replace(config, seed=1)), 5) != found


def test_epochs_meet_other_luck_on_the_same_level(pool):
    slippery = WorldSpec(env_id=LAKE, kwargs={**SHORT, "is_slippery": True}, pool=pool)
    collector = Collector(run_config(worlds=(slippery,), num_groups=5, group_size=1))
    seeds = {group.trajectories[0].seed for n in range(3) for group in collector.collect(RandomAgent(), n)}
    assert len(seeds) == 15


def test_without_pool_or_schedule_there_is_nothing_to_save_and_nothing_more_is_logged():
    collector = Collector(run_config())
    assert collector.state_dict() is None
    assert collector.metrics().keys() == {"lost_episodes", "dropped_groups"}
    (first, *_) = collector.collect(RandomAgent(), 0)
    assert first.trajectories[0].level == ""


class Process(LocalEngine):
    """One of several processes, whose work nobody gathers."""

    def __init__(self, rank, num_processes):
        super().__init__()
        self.rank, self.num_processes = rank, num_processes


def test_processes_share_a_pool_out_as_one_goes_through_it(spec):
    other = WorldSpec(env_id="VLM/Sokoban-v0", kwargs=dict(SHORT))
    config = run_config(worlds=(other, spec), num_groups=6, group_size=2)

    def levels(engine=None):
        collector, found = Collector(config, engine), {}
        for iteration in range(4):
            for group in collector.collect(OracleAgent(), iteration):
                first = group.trajectories[0]
                found[iteration, first.world, first.seed] = first.level, first.start_state_hash
        return found, collector.state_dict()

    alone, state = levels()
    parts = [levels(Process(rank, 2)) for rank in range(2)]
    assert not parts[0][0].keys() & parts[1][0].keys()
    assert parts[0][0] | parts[1][0] == alone
    assert parts[0][1] == parts[1][1] == state


def test_later_rounds_go_on_in_the_pool_and_no_level_is_passed_over(spec):
    collector = Collector(run_config(worlds=(spec,), algorithm=GRPO(max_sampling_rounds=3), num_groups=2, group_size=2))
    rounds = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]
    found = [group.trajectories[0].level for place in rounds for group in collector.collect(RandomAgent(), *place)]
    assert all({*found[start : start + NUM_LEVELS]} == {*drawn()} for start in (0, 5))


def test_partners_play_each_level_of_their_pool_together(tmp_path):
    size = {"side_px": 400, "target_px": (16, 40)}
    pool = pool_file(tmp_path / "scenes", drawn(7, "VLM/ZoomQA-v0", **size))
    specs = [
        WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={**size, "prompt_format": f"ivgr_{stream}"}, pool=pool)
        for stream in ("grounded", "textual")
    ]
    others = WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={**size, "prompt_format": "ivgr_textual"}, weight=0.5)
    config = run_config(worlds=(*specs, others), num_groups=5, group_size=1, judge=NO_JUDGE)
    collector, grounded, textual = Collector(config), [], []
    for iteration in range(4):
        groups = [group.trajectories[0] for group in collector.collect(RandomAgent(), iteration)]
        for name, found in zip(world_names(config.worlds), (grounded, textual), strict=False):
            found += [(each.seed, each.turns[0].state["sample_id"]) for each in groups if each.world == name]
    assert grounded == textual
    assert {level for _, level in grounded} == {*drawn(7, "VLM/ZoomQA-v0", **size)}
    apart = replace(specs[1], pool=None)
    assert len(MixedWorlds((specs[0], apart), 4).units(0)) == 2, "of other levels they are no partners"


def test_the_expert_of_a_cold_start_shows_a_pool_of_its_own(tmp_path, tiny):
    ids = drawn(10)
    spec = WorldSpec(
        env_id=LAKE,
        kwargs=dict(SHORT),
        pool=pool_file(tmp_path / "rl", ids[:6]),
        cold_start_pool=pool_file(tmp_path / "sft", ids[6:]),
    )
    batches = demonstrations([spec], tiny[1], batch_size=3, num_first_turn_batches=1)
    shown = [episode for _ in range(4) for episode in next(batches)]
    hashes = [each.start_state_hash for each in shown]
    assert all(len({*hashes[start : start + 4]}) == 4 for start in (0, 4, 8))
    collector = Collector(run_config(worlds=(spec,), num_groups=6))
    trained = {group.trajectories[0].start_state_hash for group in collector.collect(RandomAgent(), 0)}
    assert len(trained) == 6 and not trained & {*hashes}


def config_of(spec, tiny_directory, output, **changes):
    return run_config(
        name="run",
        worlds=(spec, WorldSpec(env_id="VLM/Sokoban-v0", kwargs=dict(SHORT))),
        mix=MixConfig(schedule="success", memory=0.5),
        output=str(output),
        model=str(tiny_directory),
        num_groups=4,
        num_eval_episodes=0,
        num_iterations=3,
        checkpoint_every=1,
        record_every=1,
        **changes,
    )


def levels_of(directory):
    """Returns the levels of the pool in the order in which they were played."""
    played = (each for number in range(3) for each in RunReader(directory).trajectories(f"training {number}"))
    return [each["level"] for each in played if "level" in each]


def logged(directory):
    lines = RunReader(directory).metrics()
    names = [name for name in lines[0] if name.startswith(("pool/", "mix/", "reward", "policy_"))]
    return [{name: line.get(name) for name in names} for line in lines]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="barrier", marks=pytest.mark.soak),
        pytest.param({"rollout": "async"}, id="async", marks=pytest.mark.soak),
        pytest.param({"algorithm": DAPO(max_sampling_rounds=2)}, id="rounds"),
        pytest.param(
            {"staleness": 1, "ppo": PPOConfig(num_minibatches=1, importance_cap=2.0, warmup_iterations=0)},
            id="stale",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_a_killed_run_goes_on_with_the_level_that_is_next(changes, spec, tiny_directory, tmp_path, monkeypatch):
    (run, copy), update = (tmp_path / name / "run" for name in ("straight", "killed")), Learner.update

    def copied(self, *args, iteration, **kwargs):
        if iteration == 2:
            shutil.copytree(run, copy)  # what a kill would leave
        return update(self, *args, iteration=iteration, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "update", copied)
        straight = train(config_of(spec, tiny_directory, run.parent, **changes))
    saved = load_checkpoint_state(copy / "latest")
    assert saved["iteration"] == 2 and saved["levels"]["visits"][0] > 0
    train(config_of(spec, tiny_directory, copy.parent, **changes), resume=True)
    before, after = map(levels_of, (straight, copy))
    assert before == after and {*before} <= {*drawn()}
    assert len(logged(straight)) == 3
    if not changes.get("staleness"):  # a batch in hand is sampled anew, by the weights of then
        assert logged(copy) == logged(straight)
    line = RunReader(straight).metrics()[-1]
    assert line[f"pool/{LAKE}/size"] == NUM_LEVELS and line[f"pool/{LAKE}/epoch"] > 0
    assert math.isclose(line[f"mix/{LAKE}/share"] + line["mix/VLM/Sokoban-v0/share"], 1.0)
    assert line[f"mix/{LAKE}/groups"] + line["mix/VLM/Sokoban-v0/groups"] == 4


@pytest.mark.soak
def test_an_episode_on_a_given_level_is_replayed_from_that(spec, tiny_directory, tmp_path):
    config = config_of(spec, tiny_directory, tmp_path)
    reader = RunReader(train(replace(config, num_iterations=1)))
    record = next(each for each in reader.trajectories("training 0") if each["env_id"] == LAKE)
    assert record["level"] in drawn()
    assert replay(record, make(LAKE, **SHORT).unwrapped, reader.image) is None
    without = {name: value for name, value in record.items() if name != "level"}
    assert replay(without, make(LAKE, **SHORT).unwrapped, reader.image) is not None, "its seed draws another"


def test_a_pool_that_has_changed_is_not_gone_on_with(spec, pool, tmp_path):
    config = run_config(worlds=(spec,))
    state = Collector(config).state_dict()
    pool_file(tmp_path / "pool.jsonl", drawn()[:4])
    with pytest.raises(ConfigError, match=r"has changed since .*pool.jsonl.* now gives 4 levels"):
        Collector(config).load_state_dict(state)


def test_a_pool_of_fewer_levels_than_an_iteration_plays_repeats_whole_epochs(spec, pool):
    names = open_pool(pool, seed=0).ids
    collector = Collector(run_config(worlds=(spec,), num_groups=12, group_size=1))
    found = played(collector, 1)
    assert sorted(map(found.count, names)) == [2, 2, 2, 3, 3]
