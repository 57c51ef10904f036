"""What other vector environments and libraries meet: one clear sentence, or something that works."""

from __future__ import annotations

import copy
import inspect
import pickle
from abc import ABC, abstractmethod
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import vlm_envs
from tests.unit.vlm_envs.corridor import CorridorWorld
from vlm_envs.discrete_world import DiscreteWorld
from vlm_envs.errors import ConfigError
from vlm_envs.registration import keyword_parameters
from vlm_envs.spaces import FreeText, Pictures
from vlm_envs.vector.vector_world import VectorWorld

LAKE = "VLM/FrozenLake-v0"


@pytest.mark.parametrize("env_id", [LAKE, "VLM/ZoomQA-v0"])
def test_gymnasiums_processes_with_shared_memory_say_what_to_do(env_id):
    with pytest.raises(ConfigError) as caught:
        gym.make_vec(env_id, 2, vectorization_mode="async")
    assert "vector_kwargs={'shared_memory': False}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_advice_works():
    envs = gym.make_vec(LAKE, 2, vectorization_mode="async", vector_kwargs={"shared_memory": False})
    try:
        observations, _ = envs.reset(seed=0)
        assert observations["image"].shape == (2, 112, 112, 3)
        assert all(text.startswith("Game: FrozenLake") for text in observations["text"])
        _, rewards, *_ = envs.step(("<answer>Up</answer>", "no tags"))
        assert rewards.tolist()[1] == pytest.approx(-0.1)
    finally:
        envs.close()
    for advised in ({}, {"workers": "process"}):
        own = gym.make_vec(LAKE, 2, **advised)
        assert isinstance(own, VectorWorld)
        own.close()


def test_gymnasiums_other_modes_take_the_spaces():
    envs = gym.make_vec(LAKE, 2, vectorization_mode="sync")
    observations, _ = envs.reset(seed=0)
    assert isinstance(observations["text"], tuple)


@pytest.mark.parametrize("space", [FreeText(), Pictures()])
def test_whoever_needs_an_array_is_told_why_there_is_none(space):
    """As stable-baselines3's `DummyVecEnv` does: `np.zeros((num_envs, *tuple(space.shape)))`."""
    for need in (tuple, len, lambda shape: np.zeros((2, *shape))):
        with pytest.raises(ConfigError, match=r"such as stable-baselines3, .* action_mode='discrete'"):
            need(space.shape)
    assert not space.shape
    assert pickle.loads(pickle.dumps(space)) == copy.deepcopy(space) == space


DISCRETE = {"action_mode": "discrete", "num_levels": 4}


@pytest.mark.parametrize("make_env", [gym.make, vlm_envs.make])
def test_one_world_and_vectors_take_the_same_arguments(make_env):
    """A single world moved by numbers is a vector of one: same images, rewards, and ends."""
    for env_id, kwargs in ((LAKE, {"is_slippery": True}), ("VLM/Sokoban-v0", {"max_steps": 5})):
        one, vector = make_env(env_id, **DISCRETE, **kwargs), gym.make_vec(env_id, 1, **DISCRETE, **kwargs)
        assert one.observation_space == vector.single_observation_space
        assert one.action_space == vector.single_action_space
        for seed in range(4):
            assert np.array_equal(one.reset(seed=seed)[0], vector.reset(seed=seed)[0][0])
            over, move = False, seed
            while not over:
                move = (3 * move + 1) % 4
                image, reward, *ends, _ = one.step(move)
                images, rewards, *all_ends, _ = vector.step(np.array([move]))
                assert np.array_equal(image, images[0])
                assert reward == pytest.approx(rewards[0])
                assert ends == [flags[0] for flags in all_ends]
                over = any(ends)


def test_a_discrete_world_is_made_again_from_its_spec():
    env = gym.make(LAKE, **DISCRETE)
    again = gym.make(env.spec)
    assert again.spec == env.spec and str(again).count("DiscreteWorld") == 1
    assert np.array_equal(again.reset(seed=3)[0], env.reset(seed=3)[0])
    same = pickle.loads(pickle.dumps(env))
    assert np.array_equal(same.step(0)[0], env.step(0)[0])


def test_vectors_of_worlds_without_a_grid_move_by_numbers_too():
    envs = vlm_envs.make_vec("VLM/Navigation-v0", 2, action_mode="discrete", resolution=32)
    assert envs.reset(seed=0)[0].shape == (2, 32, 32, 3)
    assert envs.single_action_space == gym.spaces.Discrete(8)
    envs.step(np.array([0, 1]))
    envs.close()


@pytest.mark.parametrize(
    "make_env",
    [
        lambda **kwargs: gym.make(LAKE, **kwargs),
        lambda **kwargs: gym.make_vec(LAKE, 2, **kwargs),
        lambda **kwargs: gym.make_vec(LAKE, 2, vectorization_mode="sync", **kwargs),
        lambda **kwargs: vlm_envs.make(LAKE, **kwargs),
        lambda **kwargs: vlm_envs.make_vec(LAKE, 2, **kwargs),
    ],
)
@pytest.mark.parametrize(("wrong", "meant"), [("promt_format", "prompt_format"), ("action_mod", "action_mode")])
def test_misspelled_arguments_get_a_suggestion_however_a_world_is_made(make_env, wrong, meant):
    with pytest.raises(ConfigError, match=f"has no argument '{wrong}'. Did you mean '{meant}'") as caught:
        make_env(**{wrong: "discrete"})
    assert "\n" not in str(caught.value)


def test_worlds_that_cannot_be_moved_by_numbers_say_why():
    for make_env in (gym.make, gym.make_vec):
        with pytest.raises(ConfigError, match="lists no named actions"):
            make_env("VLM/SVG-v0", action_mode="discrete")
    with pytest.raises(ConfigError, match=r"action_mode must be one of .*; got 'discreet'"):
        gym.make(LAKE, action_mode="discreet")


class Replayable(ABC):
    @abstractmethod
    def rewind(self) -> None: ...


class AbstractWorld(CorridorWorld, Replayable):
    pass


class OwnWorld(CorridorWorld):
    def __init__(self, *, num_levels: int = 3, **kwargs) -> None:
        self.own_num_levels = num_levels
        super().__init__(**kwargs)


class OwnModes(CorridorWorld):
    def __init__(self, *, action_mode: str = "walk", num_levels: int = 3, **kwargs) -> None:
        self.own = action_mode, num_levels
        super().__init__(**kwargs)


def sized_world(size=4):
    return CorridorWorld(max_turns=size)


def forgetful_world(**_ignored):
    return CorridorWorld()


@pytest.fixture
def registered():
    """Registers a creator under a name, and removes it afterwards."""
    env_ids = []

    def register(creator):
        env_ids.append(f"Test/{creator.__name__}-v0")
        vlm_envs.register(env_ids[-1], f"{__name__}:{creator.__name__}")
        return env_ids[-1]

    yield register
    for env_id in env_ids:
        gym.registry.pop(env_id, None)


def test_a_worlds_own_argument_is_not_taken_from_it(registered):
    env_id = registered(OwnModes)
    assert gym.make(env_id, action_mode="run", num_levels=5).unwrapped.own == ("run", 5)
    assert gym.make(env_id, action_mode="discrete").unwrapped.own == ("discrete", 3)
    vector = gym.make_vec(env_id, 2, action_mode="discrete", num_levels=5)
    assert isinstance(vector, VectorWorld)
    assert vector.get_attr("own") == (("discrete", 5),) * 2


def test_own_num_levels_reach_a_world_moved_by_numbers(registered):
    env_id = registered(OwnWorld)
    assert gym.make(env_id, action_mode="discrete", num_levels=5).unwrapped.own_num_levels == 5
    vector = gym.make_vec(env_id, 2, action_mode="discrete", num_levels=5)
    assert vector.get_attr("own_num_levels") == (5, 5)
    assert vlm_envs.make_vec(env_id, 2, num_levels=5).get_attr("own_num_levels") == (5, 5)


@pytest.mark.parametrize("make_env", [gym.make, vlm_envs.make, partial(gym.make_vec, num_envs=2)])
def test_drawing_levels_needs_the_discrete_mode(make_env):
    with pytest.raises(ConfigError, match="num_levels=3 needs action_mode='discrete'") as caught:
        make_env(LAKE, num_levels=3)
    assert "\n" not in str(caught.value)


def test_suggestions_know_every_argument(registered):
    with pytest.raises(ConfigError, match="Did you mean 'num_levels'"):
        gym.make(LAKE, num_level=3)
    with pytest.raises(ConfigError, match=r"has no argument 'siz'\. Did you mean 'size'"):
        vlm_envs.make(registered(sized_world), siz=3)


def test_keyword_parameters_are_those_that_a_keyword_can_set():
    class Base:
        def __init__(self, state, size=4, *, color="red"):
            pass

    class Derived(Base):
        def __init__(self, width, /, height=2, *args, depth=1, **kwargs):
            pass

    assert list(keyword_parameters(sized_world)) == ["size"]
    assert list(keyword_parameters(Base)) == ["state", "size", "color"]
    assert list(keyword_parameters(Derived)) == ["height", "depth", "size", "color"], "state is the subclass's to pass"


@pytest.mark.parametrize("creator", [sized_world, forgetful_world])
def test_vectors_moved_by_numbers_need_a_creator_that_takes_the_mode(creator, registered):
    with pytest.raises(ConfigError, match="action_mode") as caught:
        gym.make_vec(registered(creator), 2, action_mode="discrete")
    assert "\n" not in str(caught.value)


def test_own_arguments_and_signatures_stay_what_they_are():
    assert OwnWorld(num_levels=7).own_num_levels == 7
    assert list(inspect.signature(OwnWorld).parameters) == ["num_levels", "kwargs"]
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        OwnWorld("image")
    with pytest.raises(TypeError, match="abstract"):
        AbstractWorld()


def test_a_misspelled_argument_in_a_pickled_error_is_still_named():
    with pytest.raises(ConfigError, match="Did you mean 'num_levels'") as caught:
        OwnWorld(num_level=7)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (type(caught.value), str(caught.value))


@pytest.mark.parametrize(
    "make_env",
    [
        partial(gym.make, LAKE, action_mode="discrete"),
        lambda: DiscreteWorld(vlm_envs.make(LAKE), actions_per_response=3, downscale=2),  # docs/benchmarks.md
    ],
)
def test_stable_baselines3_takes_what_the_docs_say(make_env):
    stable_baselines3 = pytest.importorskip(
        "stable_baselines3", reason="needs stable-baselines3, which is not required"
    )
    stable_baselines3.PPO("CnnPolicy", make_env(), n_steps=8, batch_size=8, n_epochs=1, device="cpu").learn(8)


def test_stable_baselines3_is_told_what_to_do_about_text():
    stable_baselines3 = pytest.importorskip(
        "stable_baselines3", reason="needs stable-baselines3, which is not required"
    )
    with pytest.raises(ConfigError, match="stable-baselines3"):
        stable_baselines3.PPO("MultiInputPolicy", vlm_envs.make(LAKE))
