"""Calls that cannot be sent, or make no sense, cost no world its episode."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator

import pytest

from tests.unit.vlm_envs.corridor import CorridorWorld
from vlm_envs.errors import ConfigError, WorkerError
from vlm_envs.vector.vector_world import VectorWorld

RIGHT = "<answer>Right</answer>"
no_think_world = functools.partial(CorridorWorld, prompt_format="no_think")


class ArrivesBroken:
    """Can be pickled; raises where it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return open, ("/nowhere/at/all",)

    def __call__(self, world: object) -> None:
        raise AssertionError("nothing calls it")


class CannotBePickled:
    """Raises what no pickler documents."""

    def __reduce__(self) -> tuple[object, ...]:
        raise ZeroDivisionError("no")


def answer_that_cannot_be_pickled(world: object) -> CannotBePickled:
    return CannotBePickled()


def turn_of(world: CorridorWorld) -> int:
    return world._turn


@pytest.fixture
def envs(remote_kind: str) -> Iterator[VectorWorld]:
    with VectorWorld([no_think_world] * 2, workers=remote_kind, num_workers=2) as envs:
        envs.reset(seed=0)
        envs.step([RIGHT, None])
        yield envs


def assert_episodes_go_on(envs: VectorWorld) -> None:
    assert envs.apply({0: turn_of, 1: turn_of}) == {0: 1, 1: 0}
    _, _, _, truncated, infos = envs.step([RIGHT, RIGHT])
    assert not truncated.any()
    assert not any("worker_error" in info for info in infos["env"])


@pytest.mark.parametrize("argument", [threading.Lock, CannotBePickled])
def test_a_function_that_cannot_be_sent_ends_no_episode(envs: VectorWorld, argument: type) -> None:
    with pytest.raises(ConfigError, match="environment 1 cannot be sent"):
        envs.apply({0: turn_of, 1: functools.partial(turn_of, argument())})
    assert_episodes_go_on(envs)


def test_a_lambda_can_be_sent_by_ray_alone(envs: VectorWorld, remote_kind: str) -> None:
    if remote_kind == "ray":
        assert envs.apply({1: lambda world: world._turn}) == {1: 0}
    else:
        with pytest.raises(ConfigError, match="environment 1 cannot be sent"):
            envs.apply({0: turn_of, 1: lambda world: world._turn})
    assert_episodes_go_on(envs)


def test_an_argument_that_cannot_be_sent_ends_no_episode(envs: VectorWorld) -> None:
    with pytest.raises(ConfigError, match="cannot be sent"):
        envs.call("reset", options={"level": (cell for cell in ())})
    assert_episodes_go_on(envs)


def test_a_function_that_cannot_be_read_in_the_worker_ends_no_episode(envs: VectorWorld) -> None:
    with pytest.raises(FileNotFoundError):
        envs.apply({0: ArrivesBroken()})
    assert_episodes_go_on(envs)


def test_an_answer_that_cannot_be_pickled_for_any_reason_ends_no_episode(envs: VectorWorld) -> None:
    with pytest.raises(WorkerError, match="cannot be pickled"):
        envs.apply({0: answer_that_cannot_be_pickled})
    assert_episodes_go_on(envs)


@pytest.mark.parametrize("functions", [{2: turn_of}, {-1: turn_of}, {"0": turn_of}, {0: None}, {0: 3}])
def test_functions_of_no_world_and_what_is_no_function_are_refused(kind: str, functions: object) -> None:
    with VectorWorld([no_think_world] * 2, workers=kind, num_workers=2) as envs:
        envs.reset(seed=0)
        with pytest.raises(ConfigError, match=r"apply\(\) .* from 0 to 1"):
            envs.apply(functions)  # type: ignore[arg-type]
        assert envs.apply({}) == {}
