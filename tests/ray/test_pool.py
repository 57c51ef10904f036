"""Worlds in actors of a local cluster, beyond what `make test-ray` runs of the tests of all workers."""

import functools
import os
import signal
import sys
import threading

import psutil
import pytest

from benchmarks.speed.world_speed import KINDS, spread_steps_per_s
from tests.ray.processes import actors, wait_until
from tests.unit.vlm_envs.corridor import CorridorWorld
from vlm_envs.errors import ConfigError
from vlm_envs.vector.vector_world import VectorWorld

corridor = functools.partial(CorridorWorld, prompt_format="no_think")
OWN_WORLD = """
from tests.unit.vlm_envs.corridor import CorridorWorld
class OwnWorld(CorridorWorld):
    pass
"""


def process_of(world):
    return os.getpid()


def unreadable_level_file():
    return open("/nowhere/at/all")


def test_closing_ends_every_actor_and_may_be_done_twice():
    worlds = VectorWorld([corridor] * 4, workers="ray", num_workers=2)
    worlds.reset(seed=0)
    assert len(actors(psutil.Process())) == 2
    worlds.close()
    worlds.close()
    assert wait_until(lambda: not actors(psutil.Process()))


def test_one_actor_is_started_for_each_cpu_of_the_cluster():
    with VectorWorld([corridor] * (os.cpu_count() + 1), workers="ray") as worlds:
        pids = worlds.apply(dict.fromkeys(range(worlds.num_envs), process_of))
        assert len(set(pids.values())) == os.cpu_count()
        assert pids[0] == pids[os.cpu_count()], "shared out in turn"


def test_more_actors_than_cpus_find_a_place():
    with (
        VectorWorld([corridor] * 3, workers="ray", num_workers=3) as some,
        VectorWorld([corridor] * 3, workers="ray", num_workers=3) as more,
    ):
        pids = [each.apply(dict.fromkeys(range(3), process_of)).values() for each in (some, more)]
        assert len({pid for each in pids for pid in each}) == 6


def test_worlds_that_do_not_wait_for_each_other_are_lost_alone():
    move = "<answer>Right</answer>"
    with VectorWorld([corridor] * 2, workers="ray", num_workers=2) as worlds:
        worlds.reset(seed=0)
        for lost in (False, True):
            if lost:
                os.kill(worlds.apply({0: process_of})[0], signal.SIGKILL)
            worlds.send({0: move, 1: move})
            steps = {}
            while len(steps) < 2:
                steps |= worlds.recv(30.0)
            assert {i: step.truncated for i, step in steps.items()} == {0: lost, 1: False}


def test_lambdas_can_be_sent_and_what_cannot_is_named():
    with VectorWorld([lambda: corridor(max_turns=7)], workers="ray") as worlds:
        assert worlds.get_attr("max_turns") == (7,)
    with pytest.raises(ConfigError, match=r"number 1, .*vlm_envs\.make.*workers='thread'"):
        VectorWorld([corridor, functools.partial(corridor, max_turns=threading.Lock())], workers="ray")


def test_what_making_a_world_raises_is_told_even_if_it_looks_like_a_lost_connection():
    with pytest.raises(FileNotFoundError, match="nowhere"):
        VectorWorld([corridor, unreadable_level_file], workers="ray")


def test_worlds_of_a_module_that_only_the_owner_finds(monkeypatch, tmp_path):
    (tmp_path / "own_worlds.py").write_text(OWN_WORLD)
    monkeypatch.syspath_prepend(str(tmp_path))
    own_worlds = pytest.importorskip("own_worlds")
    with VectorWorld([own_worlds.OwnWorld] * 2, workers="ray") as worlds:
        worlds.reset(seed=0)
        assert worlds.step(["x"] * 2)[3].tolist() == [False, False]
    del sys.modules["own_worlds"]


def test_a_run_keeps_its_own_way_of_ending():
    with VectorWorld([corridor], workers="ray"):
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_their_speed_is_measured_beside_that_of_processes():
    rows = spread_steps_per_s(quick=True)
    assert [row.name.rpartition(" ")[2] for row in rows] == 2 * list(KINDS)
    assert all(row.median > 0 for row in rows)
