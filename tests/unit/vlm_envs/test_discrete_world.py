"""A world behind pictures and numbers is the world itself: same levels, rewards, ends and `info`, for any library."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from tests.unit.slow import quick
from vlm_envs import make
from vlm_envs.discrete_world import Controls, DiscreteWorld, downscaled, with_plan, write_named
from vlm_envs.errors import ConfigError, EpisodeOverError

CHECKOUT = Path(__file__).parents[3]
LAKE, SOKOBAN = "VLM/FrozenLake-v0", "VLM/Sokoban-v0"


def discrete(env_id=LAKE, *, actions_per_response=1, downscale=1, block_px=8, **kwargs):
    settings = {"actions_per_response": actions_per_response, "downscale": downscale, "block_px": block_px}
    return DiscreteWorld(make(env_id, **kwargs), **settings)


def test_spaces():
    one, several = discrete(downscale=4), discrete(actions_per_response=3, block_px=10)
    assert one.observation_space == spaces.Box(0, 255, (28, 28, 3), np.uint8)
    assert several.observation_space == spaces.Box(0, 255, (122, 112, 3), np.uint8)
    assert one.action_space == several.action_space == spaces.Discrete(4)


@pytest.mark.parametrize("env_id", [LAKE, SOKOBAN])
@pytest.mark.parametrize("num", [1, 3])
def test_everything_but_the_strip_is_the_worlds_own(env_id, num):
    """Played by numbers and by the responses that these numbers stand for, turn by turn."""
    numbers, world = discrete(env_id, actions_per_response=num), make(env_id)
    rng = np.random.default_rng(0)
    for seed in range(5):
        picture, info = numbers.reset(seed=seed)
        observation, own_info = world.reset(seed=seed)
        over = False
        while not over:
            side = observation["image"].shape[0]
            assert np.array_equal(picture[:side], observation["image"])
            assert info == own_info
            plan = rng.integers(4, size=num)
            for number in plan[:-1]:
                picture, *outcome, info = numbers.step(number)
                assert np.array_equal(picture[:side], observation["image"])
                assert outcome == [0.0, False, False]
                assert info == own_info
            names = [("Up", "Down", "Left", "Right")[number] for number in plan]
            response = write_named(world.unwrapped, names)
            picture, *outcome, info = numbers.step(plan[-1])
            observation, *own_outcome, own_info = world.step(response)
            assert outcome == own_outcome
            assert info["actions"] == tuple(names[: len(info["actions"])])
            assert info["format_correct"]
            over = any(outcome[1:])


def test_the_strip_shows_what_was_chosen_and_no_more():
    world = discrete(actions_per_response=3, downscale=4, block_px=7)
    first, _ = world.reset(seed=0)
    assert not first[28:].any()
    strips = []
    for number in (2, 0):
        picture, *_ = world.step(number)
        strips.append(picture[28:])
    assert np.array_equal(strips[0][:, :7], strips[1][:, :7])
    assert not strips[0][:, 7:].any()
    blocks = {tuple(strips[1][3, column]) for column in (3, 10, 17)}
    assert len(blocks) == 3, "two actions in two colours, and black"
    assert len(np.unique(strips[1][:, :7].reshape(-1, 3), axis=0)) == 1
    picture, *_ = world.step(1)
    assert not picture[28:].any()


def test_a_reset_forgets_a_response_that_was_begun():
    world = discrete(actions_per_response=3)
    world.reset(seed=0)
    world.step(0)
    picture, _ = world.reset(seed=0)
    assert not picture[112:].any()
    world.step(3)
    world.step(3)
    *_, info = world.step(3)
    assert set(info["actions"]) == {"Right"}


def test_eight_actions_have_eight_colors():
    picture = np.zeros((16, 80, 3), np.uint8)
    strip = with_plan(picture, range(8), num_actions=8, block_px=10)[16:]
    assert len({tuple(strip[0, column]) for column in range(0, 80, 10)}) == 8
    assert strip.any(axis=2).all(), "none is black"


@pytest.mark.parametrize("prompt_format", ["no_think", "free_think", "grounding_worldmodeling"])
def test_responses_are_in_the_format_of_every_strategy(prompt_format):
    world = discrete(prompt_format=prompt_format, format_reward=0.25)
    world.reset(seed=0)
    _, reward, _, _, info = world.step(2)
    assert info["actions"] == ("Left",)
    assert info["reward_terms"]["format"] == 0.25
    assert reward == sum(info["reward_terms"].values())


def test_a_picture_scaled_down_has_the_mean_of_each_square():
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (2, 12, 18, 3), dtype=np.uint8)
    for factor in (2, 3, 6):
        squares = pictures.reshape(2, 12 // factor, factor, 18 // factor, factor, 3)
        means = squares.astype(np.float64).mean(axis=(2, 4))
        scaled = downscaled(pictures, factor)
        assert scaled.dtype == np.uint8
        assert np.abs(scaled - means).max() <= 0.5
        assert np.array_equal(downscaled(pictures[1], factor), scaled[1])
    assert downscaled(pictures, 1) is pictures
    assert downscaled(np.full((512, 512, 3), 255, np.uint8), 256).max() == 255  # no sum overflows


@pytest.mark.parametrize("kwargs", [{}, {"downscale": 4}, {"actions_per_response": 3, "downscale": 2}])
@pytest.mark.filterwarnings("ignore::UserWarning")  # Gymnasium's checker dislikes every wrapper
def test_checkers_of_gymnasium_and_stable_baselines3_pass(kwargs):
    sb3_checker = pytest.importorskip("stable_baselines3.common.env_checker", reason="needs the extra sb3")
    check_env(discrete(**kwargs), skip_render_check=True)
    sb3_checker.check_env(discrete(**kwargs))


def test_a_home_seen_through_a_camera_passes_too():
    sb3_checker = pytest.importorskip("stable_baselines3.common.env_checker", reason="needs the extra sb3")
    world = discrete("VLM/Navigation-v0", resolution=48, actions_per_response=5)
    assert world.action_space == spaces.Discrete(8)
    sb3_checker.check_env(world)
    world.close()


@pytest.mark.parametrize("kind", quick(["DummyVecEnv", "SubprocVecEnv"], "DummyVecEnv"))
def test_vectors_of_stable_baselines3_take_it(kind):
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env", reason="needs the extra sb3")
    worlds = getattr(vec_env, kind)([partial(discrete, downscale=4, max_turns=2, max_solution_length=6)] * 2)
    try:
        worlds.seed(7)
        pictures = worlds.reset()
        assert np.array_equal(pictures[1], discrete(downscale=4, max_turns=2, max_solution_length=6).reset(seed=8)[0])
        for _ in range(2):
            _, _, dones, infos = worlds.step(np.array([0, 1]))
        assert dones.all()
        assert [info["turn"] for info in infos] == [2, 2]
        assert infos[0]["terminal_observation"].shape == (28, 28, 3)
    finally:
        worlds.close()


@pytest.mark.parametrize(
    ("env_id", "kwargs", "said"),
    [
        ("VLM/SVG-v0", {}, "VLM/SVG-v0 lists no named actions"),
        ("VLM/ZoomQA-v0", {}, "VLM/ZoomQA-v0 lists no named actions"),
        (LAKE, {"obs_mode": "text"}, "VLM/FrozenLake-v0 shows none with obs_mode='text'"),
    ],
)
def test_worlds_that_cannot_be_played_so_say_why(env_id, kwargs, said):
    with pytest.raises(ConfigError, match=said) as caught:
        discrete(env_id, **kwargs)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"downscale": 3},
            "downscale must divide the image's sides, 112 x 112 pixels; got 3",
        ),
        ({"downscale": 0}, "downscale must be an integer of at least 1; got 0"),
        (
            {"actions_per_response": 3, "block_px": 40},
            "3 actions of block_px=40 do not fit below an image of 112",
        ),
        ({"actions_per_response": 4}, "actions_per_response must be an integer from 1 to 3; got 4"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        discrete(**settings)


def test_somebody_elses_environment_is_refused():
    with pytest.raises(ConfigError, match=r"world of vlm_envs; got .*CartPole"):
        DiscreteWorld(gym.make("CartPole-v1"))


@pytest.mark.parametrize("action", [4, -1, [0], [0, 1], "Up", 0.5])
def test_actions_that_are_not_there_are_refused(action):
    world = discrete()
    world.reset(seed=0)
    with pytest.raises(ConfigError, match=r"step\(\) requires a number of Discrete\(4\); got"):
        world.step(action)


@pytest.mark.parametrize("num", [1, 3])
def test_no_step_before_a_reset_or_after_the_end(num):
    world = discrete(actions_per_response=num, max_turns=2, max_solution_length=6)
    with pytest.raises((EpisodeOverError, gym.error.ResetNeeded)):
        world.step(0)
    world.reset(seed=0)
    over = False
    while not over:
        _, _, terminated, truncated, _ = world.step(0)
        over = terminated or truncated
    with pytest.raises(EpisodeOverError):
        world.step(0)


def test_one_action_where_a_turn_has_room_for_one():
    controls = Controls.of(make(LAKE, max_actions_per_turn=1, max_turns=9).unwrapped)
    assert controls == Controls(
        action_names=("Up", "Down", "Left", "Right"), picture_shape=(112, 112, 3), max_actions=1
    )


def test_nothing_but_gymnasium_and_numpy_is_imported():
    code = (
        "import sys; before = set(sys.modules); import vlm_envs.discrete_world; "
        "print({'torch', 'stable_baselines3', 'PIL', 'scipy', 'transformers'} & (set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
