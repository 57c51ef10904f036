"""Workers that are killed, whenever it is, cost the episodes they served and no run."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import replace
from functools import partial

import psutil
import pytest

from agents.agent import Response
from agents.oracle import OracleAgent
from agents.rollout import try_rollout
from tests.unit.training.batches import run_config
from tests.unit.vlm_envs.corridor import CorridorWorld, DeadlyWorld, DyingWorld, FaultyWorld
from training.cold_start.demonstrations import _despite_losses
from training.config.world_spec import WorldSpec
from training.curation.curation_config import CURATED, CurateConfig
from training.curation.curation_loop import make_data_set, play
from training.curation.curation_set import questions
from training.loop.collect import Collector
from training.loop.evaluation import evaluate
from vlm_envs.errors import LevelError, WorkerError
from vlm_envs.records.run_data import RunReader
from vlm_envs.vector.vector_world import VectorWorld
from vlm_envs.vector.workers import LocalWorker

NO_THINK = {"prompt_format": "no_think", "max_turns": 2}
SPEC = WorldSpec(env_id="VLM/FrozenLake-v0")


class Idle:
    """Says nothing that does anything; kills every worker before its second answer if it is told to."""

    policy_version = 0

    def __init__(self, *, kills: bool = False):
        self.kills, self.num_answers = kills, 0

    def start(self, worlds):
        self.num_answers = 0

    def respond(self, rows, observations):
        self.num_answers += 1
        if self.kills and self.num_answers == 2:
            kill_workers()
        return [Response(text="idle") for _ in rows]


class KillingOnce(Idle):
    """Kills every worker before its second answer, in its first episodes only."""

    def __init__(self):
        super().__init__(kills=True)

    def respond(self, rows, observations):
        said = super().respond(rows, observations)
        self.kills = self.kills and self.num_answers < 2
        return said


class Workers:
    """What kind of workers the worlds of this file have."""

    kind = "process"


@pytest.fixture(autouse=True)
def kind_of_workers(request, monkeypatch):
    monkeypatch.setattr(Workers, "kind", request.config.getoption("--workers") or "process")


def worker_pids() -> list[int]:
    if Workers.kind == "process":
        return [worker.pid for worker in multiprocessing.active_children()]
    processes = psutil.Process().children(recursive=True)  # of the local cluster that this process has started
    return [each.pid for each in processes if each.cmdline() and each.cmdline()[0].startswith("ray::WorldActor")]


def kill_workers():
    pids = worker_pids()
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def vector(world=CorridorWorld, *, num=4, num_workers=2, **kwargs) -> VectorWorld:
    makers = [partial(world, **NO_THINK, **kwargs)] * num
    return VectorWorld(makers, workers=Workers.kind, num_workers=num_workers, start_method="fork")


@pytest.fixture
def played_in(monkeypatch):
    """Lets every world of a run be played in these worlds, whatever it is called."""

    def use(world, **kwargs):
        monkeypatch.setattr(WorldSpec, "make_vector", lambda self, num, split: vector(world, num=num, **kwargs))

    return use


@pytest.fixture
def deaths(monkeypatch, tmp_path):
    """Returns what says how many of the next processes die while they make their worlds, of whichever world."""
    left = tmp_path / "deaths"
    left.write_text("")

    def made(env_id, num_envs, **kwargs):
        return vector(DyingWorld, num=num_envs, num_workers=1, deaths_in=str(left))

    monkeypatch.setattr("training.config.world_spec.world_vector", made)
    return lambda number: left.write_text("x" * number)


def collector(num_groups=4, worlds=(SPEC,)) -> Collector:
    return Collector(run_config(worlds=worlds, num_groups=num_groups, group_size=2))


def hashes(groups):
    return [[each.start_state_hash for each in group.trajectories] for group in groups]


def names(groups):
    return [group.trajectories[0].world for group in groups]


def seeds_of(collector, iteration=0):
    return [group.trajectories[0].seed for group in collector.collect(Idle(), iteration)]


def test_workers_killed_between_iterations_are_started_anew(played_in):
    played_in(CorridorWorld)
    chosen = collector()
    before = hashes(chosen.collect(Idle(), 0))
    kill_workers()
    assert hashes(chosen.collect(Idle(), 0)) == before
    assert chosen.metrics() == {"lost_episodes": 0.0, "dropped_groups": 0.0}
    chosen.close()


def test_a_group_whose_world_kills_its_worker_at_every_reset_is_dropped_and_counted(played_in, caplog):
    played_in(CorridorWorld)
    whole = collector()
    seeds = seeds_of(whole)
    expected = hashes(whole.collect(Idle(), 0))
    whole.close()
    played_in(DeadlyWorld, deadly_seeds=(seeds[1],))
    chosen = collector()
    groups = chosen.collect(Idle(), 0)
    assert hashes(groups) == [expected[0], *expected[2:]], "neighbours in the same worker are played all the same"
    assert all(len(group.trajectories) == 2 for group in groups)
    assert chosen.metrics() == {"lost_episodes": 2.0, "dropped_groups": 1.0}
    assert "Iteration 0 lost 2 of its 8 episodes" in caplog.text
    assert len(chosen.collect(Idle(), 0, 1)) == 4, "another round has other levels"
    assert chosen.metrics()["dropped_groups"] == 1.0, "of the iteration"
    assert len(chosen.collect(Idle(), 1)) == 4, "the next iteration has other levels"
    assert chosen.metrics()["dropped_groups"] == 0.0
    chosen.close()


def test_a_worker_killed_once_in_reset_costs_nothing(played_in, tmp_path):
    played_in(CorridorWorld)
    whole = collector()
    seeds = seeds_of(whole)
    whole.close()
    played_in(DeadlyWorld, deadly_seeds=(seeds[2],), noted_in=str(tmp_path / "noted"))
    chosen = collector()
    assert len(chosen.collect(Idle(), 0)) == 4
    assert (tmp_path / "noted").exists()
    assert chosen.metrics()["lost_episodes"] == 0.0
    chosen.close()


def test_episodes_whose_workers_are_killed_in_step_are_counted(played_in):
    played_in(CorridorWorld, num_workers=1)
    chosen = collector()
    with pytest.raises(WorkerError, match="Nothing is left of iteration 0: the workers of 8 of 8"):
        chosen.collect(Idle(kills=True), 0)
    assert len(chosen.collect(Idle(), 0)) == 4, "it can go on"
    chosen.close()


def test_a_later_round_that_loses_every_episode_is_left_out(played_in, caplog):
    played_in(CorridorWorld, num_workers=1)
    chosen = collector()
    assert len(chosen.collect(Idle(), 3)) == 4
    assert chosen.collect(Idle(kills=True), 3, 1) == []
    assert "Round 1 of iteration 3 lost all its episodes" in caplog.text
    assert chosen.metrics()["lost_episodes"] == 8.0
    chosen.close()


def test_if_no_world_can_be_started_the_message_says_what_to_do(played_in):
    played_in(FaultyWorld, reset_fault="raise")
    chosen = collector()
    with pytest.raises(WorkerError, match=r"resume with --resume"):
        chosen.collect(Idle(), 0)
    chosen.close()


def test_a_worker_that_dies_while_it_makes_its_worlds_is_started_again(deaths):
    deaths(2)
    chosen = collector()
    deaths(2)
    evaluation = evaluate(Idle(), SPEC, split="val", num_episodes=3)
    assert (len(evaluation.trajectories), evaluation.num_lost) == (3, 0)
    assert len(chosen.collect(Idle(), 0)) == 4
    chosen.close()


def test_worlds_that_are_needed_in_another_number_and_cannot_be_made_cost_their_groups(deaths):
    """Shares of 2.67 and 1.33 groups: in the second iteration both worlds are played in other numbers."""
    uneven = (replace(SPEC, name="a", weight=2.0), replace(SPEC, name="b"))
    chosen = collector(worlds=uneven)
    assert names(chosen.collect(Idle(), 0)) == ["a", "a", "a", "b"]
    deaths(3)
    assert names(chosen.collect(Idle(), 1)) == ["b", "b"]
    assert chosen.metrics() == {"lost_episodes": 4.0, "dropped_groups": 2.0}
    assert len(chosen.collect(Idle(), 1)) == 4, "they are tried again"
    chosen.close()


def test_worlds_that_can_never_be_made_end_an_evaluation_with_what_to_do(deaths):
    deaths(100)
    with pytest.raises(WorkerError, match=r"the workers of 2 of 2 episodes were lost.* Check the worlds' engines"):
        evaluate(Idle(), SPEC, split="val", num_episodes=2)


def test_worlds_that_cannot_be_made_at_the_start_end_the_run_at_once(deaths):
    deaths(100)
    with pytest.raises(WorkerError, match="died while it created its environments") as caught:
        collector()
    assert "memory" in str(caught.value)


def test_a_guard_is_asked_for_where_a_process_does_not_come_up(monkeypatch):
    def dead(self):
        self.pipe, far_end = multiprocessing.Pipe()
        far_end.close()

    monkeypatch.setattr(LocalWorker, "start", dead)
    with pytest.raises(WorkerError, match=r"died while it created its environments.*guard"):
        LocalWorker(env_fns={0: CorridorWorld}, kind="process", start_method="spawn").ready()


@pytest.mark.parametrize("num_lost", [0, 1])
def test_an_evaluation_plays_lost_episodes_once_more_and_then_leaves_them_out(played_in, tmp_path, num_lost):
    played_in(CorridorWorld)
    seeds = [each.seed for each in evaluate(Idle(), SPEC, split="val", num_episodes=3).trajectories]
    noted_in = "" if num_lost else str(tmp_path / "noted")
    played_in(DeadlyWorld, deadly_seeds=(seeds[1],), noted_in=noted_in)
    evaluation = evaluate(Idle(), SPEC, split="val", num_episodes=3)
    assert [each.seed for each in evaluation.trajectories] == [s for s in seeds if s != seeds[1] or not num_lost]
    record = evaluation.record()
    assert (record["num_episodes"], record["num_lost"]) == (3 - num_lost, num_lost)


def test_an_evaluation_of_nothing_is_an_error(played_in):
    played_in(CorridorWorld, num_workers=1)
    with pytest.raises(WorkerError, match=r"the evaluation of VLM/FrozenLake-v0, .* the workers of 2 of 2 episodes"):
        evaluate(Idle(kills=True), SPEC, split="val", num_episodes=2)


def test_an_evaluation_whose_agent_never_answers_does_not_blame_the_worlds(played_in):
    class Speechless(Idle):
        def respond(self, rows, observations):
            return [Response(text="", stop_reason="error", error="connection refused") for _ in rows]

    played_in(CorridorWorld)
    with pytest.raises(WorkerError) as told:
        evaluate(Speechless(), SPEC, split="val", num_episodes=2)
    assert str(told.value) == (
        "Nothing is left of the evaluation of VLM/FrozenLake-v0, which was tried twice: the responses of 2 of 2 "
        "episodes failed. The last reason: connection refused."
    )


def test_rows_that_cannot_be_started_are_none_and_their_agents_are_not_asked(played_in):
    worlds = vector(DeadlyWorld, num=3, num_workers=1, deadly_seeds=(6,))
    played = try_rollout(Idle(), worlds, [5, 6, 7], env_ids=["x"] * 3)
    assert [None if each is None else each.seed for each in played] == [5, None, 7]
    again = try_rollout(Idle(), worlds, [5, 8, 7], env_ids=["x"] * 3)
    assert [each.seed for each in again] == [5, 8, 7], "another level starts where one did not"
    worlds.close()


def test_a_level_that_does_not_exist_is_still_a_mistake_of_the_caller():
    with vector(num=2) as worlds, pytest.raises(LevelError, match="two cell numbers"):
        worlds.try_reset(options={"level": "nonsense"})


def curation(**changes) -> CurateConfig:
    settings = ("side_px=400", "target_px=(16, 40)", "prompt_format=points")
    return CurateConfig(**{"num_samples": 3, "num_rollouts": 2, "settings": settings, "mistake_rate": 0.0} | changes)


def question_seeds(config):
    (of_world,) = questions(config)
    return list(of_world.seeds)


def curated_seeds(expert, config):
    (of_world,) = questions(config)
    return [[each.seed for each in group] for group in play(expert, config, of_world).groups]


def test_curation_plays_once_more_what_a_killed_worker_took(played_in):
    played_in(CorridorWorld, num_workers=1)
    expert = KillingOnce()
    seeds = curated_seeds(expert, curation())
    assert not expert.kills, "it killed the worker of all worlds"
    assert [len(group) for group in seeds] == [2, 2, 2]
    assert [group[0] for group in seeds] == [group[1] for group in seeds] == question_seeds(curation())


def test_curation_goes_on_although_its_worlds_could_not_be_made_at_first(deaths):
    deaths(3)
    assert [len(group) for group in curated_seeds(Idle(), curation())] == [2, 2, 2]


def test_curation_drops_a_question_that_is_lost_again_and_goes_on(played_in):
    config = curation(num_rollouts=1)
    first, doomed, last = question_seeds(config)
    played_in(DeadlyWorld, num_workers=1, deadly_seeds=(doomed,))
    assert curated_seeds(Idle(), config) == [[first], [last]]


@pytest.fixture
def lose(monkeypatch):
    """Has the rollouts of some seeds lost, whenever they are played."""

    def use(doomed):
        def losing(expert, worlds, seeds, *, env_ids, levels):
            played = try_rollout(expert, worlds, seeds, env_ids=env_ids, levels=levels)
            return [None if seed in doomed else each for seed, each in zip(seeds, played, strict=True)]

        monkeypatch.setattr("training.level_episodes.try_rollout", losing)

    return use


def test_a_data_set_tells_how_many_questions_were_lost(lose, tmp_path):
    config = curation(output=str(tmp_path))
    lose(question_seeds(config)[:1])
    directory, result = make_data_set(config)
    assert result.record()["num_lost"] == 1
    assert result.record()["num_samples"] == result.record()["num_kept"] == 2, "of those that could be played"
    assert "; questions lost: 1" in str(result)
    assert len(list(RunReader(directory).trajectories(CURATED))) == 2


def test_a_curation_of_nothing_is_an_error_and_leaves_no_data_set(lose, tmp_path):
    config = curation(output=str(tmp_path))
    lose(question_seeds(config))
    with pytest.raises(WorkerError, match=r"every one of 3 questions of VLM/ZoomQA-v0 lost a rollout"):
        make_data_set(config)
    assert not list(tmp_path.iterdir())


def test_an_expert_whose_workers_are_killed_plays_its_demonstration_again():
    num_played = []

    def play(expert, worlds, seeds, *, env_ids, levels):
        num_played.append(len(seeds))
        if len(num_played) == 1:
            kill_workers()
        return try_rollout(expert, worlds, seeds, env_ids=env_ids, levels=levels)

    with vector(num=2) as worlds:
        worlds.reset(seed=[1, 2])
        played = _despite_losses(partial(play, OracleAgent(), worlds, [1, 2], env_ids=["x"] * 2, levels=None), [1, 2])
    assert [each.seed for each in played] == [1, 2]
