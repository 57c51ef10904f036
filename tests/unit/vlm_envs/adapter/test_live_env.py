"""Faults of adapted environments: one line that names the environment, and states that stay true afterwards."""

import enum
import math
import sys

import gymnasium as gym
import numpy as np
import pytest

from tests.unit.vlm_envs.adapter.tally import TallyEnv
from vlm_envs.adapter.adapted_world import AdaptedWorld
from vlm_envs.errors import ConfigError, EngineUnavailableError, WorldContractError

FAULTY = "Tests/Faulty-v0"
NAMES = {"go": 0, "stay": 1, "wait": 2}


@pytest.fixture
def adapted(monkeypatch):
    """Returns what makes a world of an environment with other methods."""
    monkeypatch.setattr(gym.envs.registration, "registry", {**gym.registry})
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)

    def make(methods, *, limit=None, **settings):
        gym.registry.pop(FAULTY, None)
        gym.register(FAULTY, type("FaultyEnv", (TallyEnv,), methods), max_episode_steps=limit)
        return AdaptedWorld(env=FAULTY, **{"success": "reward", **settings})

    return make


def play(world, num_turns=1):
    """Returns the last result of some turns."""
    world.reset(seed=0)
    return [world.step(world.write_response([0])) for _ in range(num_turns)][-1]


def raising(error):
    def method(*args, **kwargs):
        raise error

    return method


class Old:
    """Methods with fewer parameters; their names are part of Python's messages."""

    def reset(self):
        return 0, {}


class Half:
    def reset(self, seed=None):
        return 0, {}


def refuse_modes(self, render_mode=None):
    assert render_mode is None


def step_with(reward):
    return lambda self, action: (*TallyEnv.step(self, action)[:1], reward, False, False, {})


@pytest.mark.parametrize("limit", [None, 9])
@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"__init__": refuse_modes}, "render_mode='rgb_array'"),
        ({"render": raising(NotImplementedError())}, "does not implement"),
        ({"render": lambda self: np.zeros((8, 8, 2), np.uint8)}, "uint8[8, 8, 2]"),
        ({"render": lambda self: np.zeros(8, np.uint8)}, "uint8[8]"),
        ({"render": lambda self: [[0], [0, 0]]}, "returned list"),
        ({"reset": Old.reset}, "no argument 'seed'"),
        ({"reset": Half.reset}, "no argument 'options'"),
        ({"reset": lambda self, seed=None, options=None: 0}, "reset() should return"),
        ({"step": lambda self, action: (0, 0.0, False, {})}, "step() should return"),
        ({"step": step_with(None)}, "should be a number; got None"),
        ({"step": step_with(np.zeros(2))}, "should be a number; got array"),
        ({"_seen": lambda self: {"a": object()}}, "object of type object"),
    ],
)
def test_faults_are_explained_in_one_line_that_names_the_environment(methods, words, limit, adapted):
    with pytest.raises(ConfigError) as caught:
        play(adapted(methods, limit=limit))
    assert words in str(caught.value) and FAULTY in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["__init__", "reset", "render", "step"])
@pytest.mark.parametrize("error", [gym.error.DependencyNotInstalled("run `pip install x`"), ImportError("no y")])
def test_missing_packages_are_named_wherever_they_are_missed(method, error, adapted):
    with pytest.raises(EngineUnavailableError, match=rf"{FAULTY} cannot run here: {error}"):
        play(adapted({method: raising(error)}))


def test_environments_that_draw_with_pygame_name_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    for env, extra in (("FrozenLake-v1", "toy-text"), ("CartPole-v1", "classic-control")):
        with pytest.raises(EngineUnavailableError, match=rf'pip install "gymnasium\[{extra}\]"'):
            AdaptedWorld(env=env)


@pytest.mark.parametrize("error", [ValueError("not enough values to unpack"), TypeError("of its own")])
def test_errors_of_the_environments_own_code_stay_as_they_are(error, adapted):
    with pytest.raises(type(error)) as caught:
        play(adapted({"step": raising(error)}, limit=9))
    assert caught.value is error


@pytest.mark.parametrize("reward", [math.nan, math.inf, np.float32("nan")])
def test_rewards_that_boards_cannot_hold_are_refused(reward, adapted):
    with pytest.raises(WorldContractError, match=rf"{FAULTY}: the reward .* finite number; got"):
        play(adapted({"step": step_with(reward)}))


@pytest.mark.parametrize("reward", [np.array([1.5]), np.array(1.5), np.float32(1.5)])
def test_rewards_in_arrays_of_one_number_are_numbers(reward, adapted):
    assert play(adapted({"step": step_with(reward)}))[4]["reward_terms"]["env"] == 1.5


def fail_once(at):
    """Returns a step that is taken, but raises once after some steps; and the failures so far."""
    failures = []

    def step(self, action):
        result = TallyEnv.step(self, action)
        if len(self.taken) == at and not failures:
            failures.append(at)
            raise RuntimeError("once")
        return result

    return step


def test_a_turn_after_an_error_starts_from_the_state_before_it(adapted):
    world = adapted({"step": fail_once(2)}, make={"last": 9})
    play(world)
    with pytest.raises(RuntimeError, match="once"):
        world.step(world.write_response([0]))
    observation, *_ = world.step(world.write_response([0]))
    assert len(world.dynamics.simulator.env.unwrapped.taken) == len(world.state.actions) == 2
    assert observation["image"][1, 1, 0] == 2


def test_a_turn_after_an_error_of_the_rule_of_success_starts_from_the_state_before_it(adapted):
    calls = []

    def success(env, *_):
        calls.append(env)
        if len(calls) == 2:
            raise KeyError("once")
        return False

    world = adapted({}, success=success, make={"last": 9})
    play(world)
    with pytest.raises(KeyError):
        world.step(world.write_response([0]))
    world.step(world.write_response([0]))
    assert len(world.dynamics.simulator.env.unwrapped.taken) == len(world.state.actions) == 2


@pytest.mark.parametrize("method", ["step", "reset"])
def test_functions_that_change_the_environment_are_found_out(method, adapted):
    def change(env):
        _ = env.step(0) if method == "step" else env.reset()
        return [0]

    world = adapted({}, plan=change)
    play(world)
    with pytest.raises(ConfigError, match="plan must not step or reset"):
        world.optimal_actions_left()
    assert len(world.dynamics.simulator.go_to(world.state).unwrapped.taken) == 1

    def generate(env):
        env.step(0)
        yield 0

    world = adapted({}, plan=generate)
    play(world)
    with pytest.raises(ConfigError, match="plan must not step or reset"):
        world.optimal_actions_left()
    world = adapted({}, describe=change)
    with pytest.raises(ConfigError, match="describe must not step or reset"):
        play(world)
    world = adapted({}, success=lambda env, *_: bool(change(env)))
    with pytest.raises(ConfigError, match="success must not step or reset"):
        play(world)


@pytest.mark.parametrize("found", [1, "go", {"go": 0}])
def test_plans_must_be_lists(found, adapted):
    world = adapted({}, actions=NAMES, plan=lambda env: found)
    world.reset(seed=0)
    with pytest.raises(ConfigError, match="plan must return a list of actions"):
        world.optimal_actions_left()


class Letters(enum.Enum):
    LEFT, RIGHT, GO = "l", "r", "g"


class Numbered(enum.Enum):
    RIGHT, LEFT, GO = 1, 0, 2


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        ({"actions": Letters}, ("0", "1", "2")),
        ({"actions": Numbered}, ("LEFT", "RIGHT", "GO")),
        ({"get_action_meanings": lambda self: ["go, fast", "b", "c"]}, ("0", "1", "2")),
        ({"get_action_meanings": lambda self: ["go", "b", "c"]}, ("go", "b", "c")),
    ],
)
def test_the_environments_own_names_are_used_where_they_can_be_read(methods, expected, adapted):
    assert adapted(methods).task.action_names == expected


def test_texts_of_tuples_and_other_keys_are_shown(adapted):
    world = adapted({"_seen": lambda self: ("look left", len(self.taken), "look right")})
    assert world.reset(seed=0)[0]["text"].endswith("\nObservation: look left\nObservation: look right")
    world = adapted({"_seen": lambda self: {1: "look left", "b": 2}})
    assert world.reset(seed=0)[0]["text"].endswith("\n1: look left")


def test_observations_of_arrays_of_objects_are_compared_by_content(adapted):
    world = adapted({"_seen": lambda self: np.array([{"a": len(self.taken)}, "b"], object)})
    first = world.reset(seed=0)[1]["state_hash"]
    assert world.reset(seed=0)[1]["state_hash"] == first != world.step(world.write_response([0]))[4]["state_hash"]
