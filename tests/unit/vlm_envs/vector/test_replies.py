"""Replies of workers: all that are there come at once, and what cannot be started is not waited for world by world."""

from __future__ import annotations

import functools
import time

import pytest

from tests.unit.vlm_envs.corridor import CorridorWorld, FaultyWorld
from vlm_envs.errors import WorkerError
from vlm_envs.vector.vector_world import JoinedWorlds, VectorWorld
from vlm_envs.vector.workers import PipedWorker

no_think_world = functools.partial(CorridorWorld, prompt_format="no_think")
faulty_world = functools.partial(FaultyWorld, prompt_format="no_think", max_turns=10)
RIGHT = "<answer>Right</answer>"


def test_all_that_one_worker_has_done_is_received_at_once(remote_kind: str) -> None:
    with VectorWorld([no_think_world] * 5, workers=remote_kind, num_workers=1) as envs:
        envs.reset(seed=0)
        envs.send(dict.fromkeys(range(5), RIGHT))
        time.sleep(1.0)
        assert sorted(envs.recv(0.0)) == [0, 1, 2, 3, 4]
        assert envs.recv(0.0) == {}


def test_what_was_answered_before_a_worker_died_is_received(mortal_kind: str) -> None:
    with VectorWorld([faulty_world] * 3, workers=mortal_kind, num_workers=1) as envs:
        envs.reset(seed=0)
        envs.send({0: RIGHT, 1: "exit", 2: RIGHT})
        received = envs.recv(None)
        assert list(received) == [0]
        assert not received[0].truncated
        lost = envs.recv(None)
        assert {i: step.truncated for i, step in lost.items()} == {0: True, 1: True, 2: True}


def test_a_worker_that_hangs_while_it_is_started_is_waited_for_three_times_and_not_for_every_world(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice with all of its worlds, once by itself; worlds of other workers are played."""
    asked = []

    def hangs(self: PipedWorker) -> None:
        asked.append(self)
        raise WorkerError(f"{self} made no environments within 120.0 s.")

    with VectorWorld([no_think_world] * 8, workers="thread", num_workers=2) as envs:
        hanging = envs._pool._workers[0]  # type: ignore[union-attr]
        ready = PipedWorker.ready
        monkeypatch.setattr(PipedWorker, "ready", lambda self: hangs(self) if self is hanging else ready(self))
        _, infos = envs.try_reset(seed=0)
    assert len(asked) == 3
    assert ["worker_error" in info for info in infos["env"]] == [True, False] * 4


def test_joined_worlds_are_those_of_their_vectors(remote_kind: str) -> None:
    with (
        VectorWorld([no_think_world] * 2) as first,
        VectorWorld([no_think_world] * 3, workers=remote_kind, num_workers=2) as second,
    ):
        joined = JoinedWorlds([first, second])
        assert joined.num_envs == 5
        joined.send_resets({0: 7, 3: 8, 4: 9})
        shown = {}
        while len(shown) < 3:
            shown |= joined.recv()
        assert joined.recv() == {}
        expected, _ = first.reset(seed=[7, 8])
        assert shown[0].observation["text"] == expected[0]["text"]
        assert shown[3].observation["text"] == expected[1]["text"]
        mask = [True, True, True, False, False]
        observations, infos = joined.try_reset(seed=[1, 2, 3, 4, 5], options={"reset_mask": mask})
        assert len(infos["env"]) == 5
        assert joined.try_reset(seed=[1] * 5, options={"reset_mask": [True, True, *[False] * 3]})[0][2:] == (None,) * 3
        assert observations[3]["text"] == shown[3].observation["text"], "left alone"
        joined.send({1: RIGHT, 2: RIGHT})
        steps = {}
        while len(steps) < 2:
            steps |= joined.recv()
        assert sorted(steps) == [1, 2]
