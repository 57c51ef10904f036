import copy
import logging
import pickle
import threading
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

import vlm_envs
from tests.unit.vlm_envs.adapter import tally
from vlm_envs.adapter import simulator
from vlm_envs.adapter.adapted_world import FORMAT_REWARD, AdaptedWorld
from vlm_envs.adapter.live_env import quiet_stdout
from vlm_envs.errors import ConfigError, LevelError, WorldContractError
from vlm_envs.splits import SPLIT_SEEDS, SPLITS, split_of, split_seeds
from vlm_envs.testing.contract import check_world
from vlm_envs.vector.make_vec import world_vector

TALLY = f"{tally.__name__}:Tests/Tally-v0"
NAMES = {"go": 0, "stay": 1, "wait": 2}


def world_of(env=TALLY, *, make=None, **settings):
    """Returns an adapted world, of the counting environment unless another is named."""
    return AdaptedWorld(env=env, make=make, **settings)


def act(world, *names, **thoughts):
    """Takes a turn with actions by name."""
    return world.step(world.write_response([world.task.grammar.parse(name) for name in names], thoughts))


def test_an_episode_is_played_in_text_and_earns_the_environments_own_reward():
    world = world_of(actions=NAMES, make={"final": 2.5}, goal="Count.", rules=("Slowly.",))
    observation, info = world.reset(seed=1)
    assert observation["text"].startswith("Game: Tests/Tally. Count.\nSlowly.\nActions: go, stay, wait.")
    assert observation["text"].endswith("Mission: count to 3\nNote: calmly")
    assert observation["image"].shape == (8, 16, 3) and info["state_text"] == ""
    observation, reward, terminated, truncated, info = act(world, "go", "stay")
    assert (reward, terminated, truncated) == (FORMAT_REWARD, False, False) and info["reward_terms"]["env"] == 0.0
    observation, reward, terminated, truncated, info = act(world, "go", "go", "go")
    assert info["actions"] == ("go",)  # the rest of the turn is dropped at the end
    assert (reward, terminated, truncated, info["success"]) == (2.5 + FORMAT_REWARD, True, False, True)
    assert info["reward_terms"] == {"env": 2.5, "format": FORMAT_REWARD} and info["metrics"] == {"env_return": 2.5}
    assert observation["image"][1, 1, 0] == 3


def test_the_environments_time_limit_truncates_and_its_end_terminates():
    world = world_of(actions=NAMES, make={"max_episode_steps": 2, "last": 3})
    world.reset(seed=0)
    *_, terminated, truncated, info = act(world, "go", "go", "go")
    assert (terminated, truncated, info["actions"], info["success"]) == (False, True, ("go", "go"), False)
    world = world_of(actions=NAMES, make={"max_episode_steps": 2, "last": 2})
    world.reset(seed=0)
    *_, terminated, truncated, info = act(world, "go", "go", "go")
    assert (terminated, truncated, info["success"]) == (True, False, True)


def test_turns_and_steps_of_the_world_truncate_as_well():
    world = world_of(actions=NAMES, make={"last": 99}, max_turns=2)
    world.reset(seed=0)
    assert [act(world, "go")[2:4] for _ in range(2)] == [(False, False), (False, True)]
    world = world_of(actions=NAMES, make={"last": 99}, max_steps=3)
    world.reset(seed=0)
    *_, truncated, info = act(world, "go", "go", "go", "go")
    assert truncated and len(info["actions"]) == 3


@pytest.mark.parametrize(
    ("success", "make", "num_actions", "expected"),
    [
        ("reward", {}, 3, True),
        ("reward", {"final": -1.0}, 3, False),
        ("reward", {}, 2, False),
        ("terminated", {"final": -1.0}, 3, True),
        ("terminated", {"max_episode_steps": 2}, 2, False),
        ("truncated", {"max_episode_steps": 2}, 2, True),
        ("truncated", {}, 3, False),
        (1, {}, 3, True),
        (1.5, {}, 3, False),
        (-1, {"final": -0.5}, 2, False),
        (-1, {"final": -0.5}, 3, True),
        ("info:is_big", {}, 2, True),
        ("info:is_big", {}, 1, False),
        ("info:nothing", {}, 3, False),
        (tally.is_even, {}, 2, True),
        (f"{tally.__name__}:is_even", {}, 3, False),
    ],
)
def test_success_follows_the_rule(success, make, num_actions, expected):
    world = world_of(actions=NAMES, success=success, make=make)
    world.reset(seed=0)
    assert act(world, *["go"] * num_actions)[4]["success"] is expected


def test_unknown_environments_take_success_from_info_or_the_last_reward(monkeypatch, caplog):
    monkeypatch.setattr(simulator, "_NOTICES", set())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            world = world_of(actions=NAMES)
    assert [record.message for record in caplog.records if "What counts as success" in record.message]
    assert len(caplog.records) == 1  # once, and only about success
    world.reset(seed=0)
    assert act(world, "go", "go", "go")[4]["success"] is True
    monkeypatch.setattr(tally.TallyEnv, "_info", lambda self: {"is_success": False})
    world.reset(seed=0)
    assert act(world, "go", "go", "go")[4]["success"] is False


def test_states_are_replayed_and_never_copied():
    world = world_of(actions=NAMES, make={"last": 50}, describe=tally.describe)
    world.reset(seed=3)
    act(world, "go", "stay")
    before = world.state
    twins = [copy.deepcopy(world), pickle.loads(pickle.dumps(world))]
    here = act(world, "wait")
    for twin in twins:
        there = act(twin, "wait")
        assert twin.state == world.state and there[0]["text"] == here[0]["text"]
        assert (there[0]["image"] == here[0]["image"]).all() and there[4]["state_hash"] == here[4]["state_hash"]
    assert world.view.describe(before, "natural_language") == f"2 steps from {here[4]['state_text'].split()[-1]}"
    assert world.dynamics.step(before, 2, np.random.default_rng())[0] == world.state
    assert hash(before) != hash(world.state) and before != world.state


def test_an_environment_with_chance_of_its_own_is_found_out():
    world = world_of(actions=NAMES, make={"last": 50, "flaw": "chance"})
    world.reset(seed=3)
    act(world, "go")
    with pytest.raises(WorldContractError, match="not reproducible"):
        act(pickle.loads(pickle.dumps(world)), "go")


def test_levels_are_seeds_and_actions_as_json():
    world = world_of(actions=NAMES, make={"last": 4})
    world.reset(options={"level": '{"seed": 5, "actions": ["go", "WAIT"]}'})
    assert (
        world.state.actions == (0, 2) and world.dynamics.dump(world.state) == '{"seed": 5, "actions": ["go", "wait"]}'
    )
    box = world_of(make={"space": "box"})
    box.reset(options={"level": '{"seed": 5, "actions": [[0.5, 1]]}'})
    assert box.state.actions == ((0.5, 1.0),)


@pytest.mark.parametrize(
    "level",
    [
        "",
        "[]",
        "5",
        "{",
        '{"seed": 5}',
        '{"seed": 5, "actions": [], "more": 1}',
        '{"seed": -1, "actions": []}',
        '{"seed": 4294967296, "actions": []}',
        '{"seed": true, "actions": []}',
        '{"seed": 5.0, "actions": []}',
        '{"seed": 5, "actions": "go"}',
        '{"seed": 5, "actions": ["run"]}',
        '{"seed": 5, "actions": [0]}',
        '{"seed": 5, "actions": ["go", "go", "go", "go"]}',
        '{"seed": ' + "9" * 5000 + ', "actions": []}',
        "[" * 100_000,
    ],
)
def test_other_levels_are_refused(level):
    with pytest.raises(LevelError):
        world_of(actions=NAMES).reset(options={"level": level})


def test_splits_own_their_seeds_and_their_first_observations():
    keys = {}
    for split in SPLITS:
        world = world_of(actions=NAMES, split=split)
        states = [world.reset(seed=seed) and world.state for seed in split_seeds(split, 20)]
        assert all(state.seed in SPLIT_SEEDS[split] for state in states)
        assert {split_of(state.outcome.digest) for state in states} == {split}
        assert {world.dynamics.level_split(world.dynamics.dump(state)) for state in states} == {split}
        keys[split] = {state.outcome.digest for state in states}
    assert not keys["train"] & keys["val"] and not keys["train"] & keys["test"] and not keys["val"] & keys["test"]


@pytest.mark.parametrize(("num_starts", "words"), [(1, "nothing visible"), (2, "only 2 starts")])
def test_too_few_levels_are_split_by_seed_with_one_warning(num_starts, words, monkeypatch, caplog):
    monkeypatch.setattr(simulator, "_NOTICES", set())
    monkeypatch.setattr(simulator, "_SPLITS_DIFFER", {})
    settings = {"actions": NAMES, "success": "reward", "make": {"num_starts": num_starts}}
    worlds = {split: world_of(split=split, **settings) for split in ("train", "val", "test")}
    assert [words in record.message for record in caplog.records] == [True]
    for split, world in worlds.items():
        world.reset(seed=0)
        assert world.state.seed in SPLIT_SEEDS[split]
        assert world.dynamics.level_split(world.dynamics.dump(world.state)) == split


def test_states_that_look_equal_have_one_hash_unless_only_the_seed_tells_levels_apart():
    seeds = [seed for seed in range(300) if np.random.default_rng(seed).integers(60) == 7][:2]
    texts = [f'{{"seed": {seed}, "actions": []}}' for seed in seeds]
    world = world_of(actions=NAMES, make={"num_starts": 60})
    assert len(seeds) == 2 and len({world.reset(options={"level": text})[1]["state_hash"] for text in texts}) == 1
    fixed = world_of(actions=NAMES, make={"num_starts": 1})
    assert len({fixed.reset(options={"level": text})[1]["state_hash"] for text in texts}) == 2


@pytest.mark.parametrize(
    ("hint", "ending"), [(None, "Mission: count to 3\nNote: calmly"), (["note"], "\nNote: calmly")]
)
def test_texts_of_the_observation_are_shown(hint, ending):
    text = world_of(actions=NAMES, hint=hint).reset(seed=0)[0]["text"]
    assert text.endswith(ending) and ("Mission" in text) == (hint is None)
    assert "calmly" not in world_of(actions=NAMES, hint=()).reset(seed=0)[0]["text"]


def test_allowed_actions_are_shown_and_drawn():
    world = world_of(actions=NAMES, make={"flaw": "mask"})
    assert world.reset(seed=0)[0]["text"].endswith("Allowed actions: go, wait.")
    rng = np.random.default_rng(0)
    assert {world.task.sample_action(world.state, rng) for _ in range(20)} == {0, 2}


@pytest.mark.parametrize(
    ("frame", "px", "shape"), [("gray", None, (8, 16, 3)), ("alpha", 8, (4, 8, 3)), ("color", 32, (16, 32, 3))]
)
def test_images_have_three_channels_and_one_size(frame, px, shape):
    world = world_of(actions=NAMES, make={"frame": frame, "num_starts": 250}, image_px=px)
    image = world.reset(seed=0)[0]["image"]
    assert image.shape == shape and image.dtype == np.uint8 and world.observation_space["image"].shape == shape
    image[:] = 9
    assert world.render_mode is None and (world.view.image(world.state) != 9).any()  # what callers change is theirs


def test_a_planner_makes_an_oracle_and_words_make_text_modes():
    env_id = vlm_envs.adapt(TALLY, actions=NAMES, describe=tally.describe, plan=tally.plan, name="planned")
    results = check_world(env_id)
    assert [result.name for result in results if result.skipped] == []
    world = vlm_envs.make(env_id, obs_mode="text", prompt_format="grounding").unwrapped
    observation, info = world.reset(seed=0)
    assert world.optimal_actions_left() == 3 and world.task.best_return(world.state, 3) == 1.0
    assert (
        observation["text"].endswith(info["state_text"]) and info["seen_sections"]["observation"] == info["state_text"]
    )


def test_a_plan_with_something_else_is_explained():
    world = world_of(actions={"go": 0}, plan=lambda env: [1])
    world.reset(seed=0)
    with pytest.raises(ConfigError, match=r"plan returned 1, .*one of go"):
        world.optimal_actions_left()


def test_without_a_planner_nothing_is_known_of_plans():
    world = world_of(actions=NAMES)
    world.reset(seed=0)
    assert world.optimal_actions_left() is None and world.task.best_return(world.state, 0) == 0.0


@pytest.mark.parametrize("space", ["discrete", "multi", "box"])
def test_worlds_without_planner_and_words_keep_the_contract(space):
    results = check_world(vlm_envs.adapt(TALLY, make={"space": space}, name=f"plain-{space}"), max_turns=4)
    skipped = {result.name for result in results if result.skipped}
    assert skipped == {"oracle_is_maximal", "plans_are_shortest", "action_limit_is_kept"}


def test_the_contract_is_checked_with_actions_where_there_is_no_planner():
    env_id = vlm_envs.adapt(TALLY, actions=NAMES, make={"flaw": "later chance"}, name="chance")
    with pytest.raises(WorldContractError, match="- same_seed_gives_the_same_bytes"):
        check_world(env_id, max_turns=2)


def test_one_level_for_all_splits_is_no_breach_of_the_contract():
    env_id = vlm_envs.adapt("FrozenLake-v1", name="lake", make={"is_slippery": False})
    skipped = {result.name: result.skipped for result in check_world(env_id, max_turns=3) if result.skipped}
    assert "seed has too little effect" in skipped["splits_are_disjoint"]


@pytest.mark.parametrize(
    ("env", "names", "success"),
    [
        ("MiniGrid-Empty-Random-5x5-v0", ("left", "right", "forward", "pickup", "drop", "toggle", "done"), "reward"),
        ("FrozenLake-v1", ("left", "down", "right", "up"), "reward"),
        ("CartPole-v1", ("left", "right"), "truncated"),
        ("Pendulum-v1", None, -200),
    ],
)
def test_facts_of_common_environments_are_known(env, names, success):
    world = world_of(env)
    assert world.task.action_names == names and world.dynamics.simulator.known.success == success
    assert not world.task.goal.startswith("Earn as much")


def test_success_that_the_turns_do_not_allow_is_reported(monkeypatch, caplog):
    monkeypatch.setattr(simulator, "_NOTICES", set())
    world_of("CartPole-v1", make={"max_episode_steps": 100})
    assert not caplog.records
    world_of("CartPole-v1")
    assert "may take 500 actions, but an episode here has at most 100" in caplog.text


@pytest.mark.parametrize(
    ("env", "settings", "words"),
    [
        ("Pendulum-v1", {}, "may take 200 actions, but an episode here has at most 100. Set max_turns=40 "),
        (
            "MountainCar-v0",
            {"max_turns": 10},
            "takes about 120 actions, but an episode here has at most 50. Set max_turns=40 or max_actions_per_turn=20.",
        ),
        ("MountainCar-v0", {"max_turns": 24}, ""),
        ("MountainCar-v0", {"max_turns": 24, "max_steps": 90}, "at most 90"),
        ("CartPole-v1", {"success": -5}, "may take 500 actions"),
        ("CartPole-v1", {"success": 5}, ""),
        ("CartPole-v1", {"success": "terminated"}, ""),
    ],
)
def test_success_that_takes_more_actions_than_an_episode_has_is_reported(env, settings, words, monkeypatch, caplog):
    monkeypatch.setattr(simulator, "_NOTICES", set())
    world_of(env, **settings)
    assert words in caplog.text and bool(words) == bool(caplog.text)


def led_to(env, name, looked_at, before):
    """Returns what changes when a named action is taken, possibly from another state."""
    world = world_of(env)
    world.reset(seed=0)
    inner = world.dynamics.simulator.env.unwrapped
    for key, value in before.items():
        setattr(inner, key, value)
    seen = looked_at(inner)
    act(world, name)
    return np.round(np.subtract(looked_at(inner), seen), 6).tolist()


def taxi_cell(env):
    return [*env.decode(env.s)][:2]


@pytest.mark.parametrize(
    ("env", "name", "looked_at", "before", "change"),
    [
        ("CliffWalking-v1", "up", lambda env: divmod(env.s, 12), {"s": 17}, [-1, 0]),
        ("CliffWalking-v1", "right", lambda env: divmod(env.s, 12), {"s": 17}, [0, 1]),
        ("CliffWalking-v1", "down", lambda env: divmod(env.s, 12), {"s": 17}, [1, 0]),
        ("CliffWalking-v1", "left", lambda env: divmod(env.s, 12), {"s": 17}, [0, -1]),
        ("Taxi-v4", "south", taxi_cell, {"s": 240}, [1, 0]),
        ("Taxi-v4", "north", taxi_cell, {"s": 240}, [-1, 0]),
        ("Taxi-v4", "east", taxi_cell, {"s": 240}, [0, 1]),
        ("Taxi-v4", "west", taxi_cell, {"s": 260}, [0, -1]),
        ("Taxi-v4", "pickup", lambda env: [*env.decode(env.s)][2], {"s": 0}, 4),
        ("Blackjack-v1", "hit", lambda env: len(env.player), {}, 1),
        ("Blackjack-v1", "stick", lambda env: len(env.player), {}, 0),
    ],
)
def test_known_names_stand_for_the_actions_that_do_this(env, name, looked_at, before, change):
    assert led_to(env, name, looked_at, before) == change


@pytest.mark.parametrize(
    ("env", "signs"),
    [
        ("CartPole-v1", {"left": -1, "right": 1}),
        ("MountainCar-v0", {"left": -1, "none": 0, "right": 1}),
        ("Acrobot-v1", {"negative": -1, "none": 0, "positive": 1}),
    ],
)
def test_known_names_of_forces_push_that_way(env, signs):
    """Velocities after one action from the same start, compared with each other."""
    index = {"CartPole-v1": 1, "MountainCar-v0": 1, "Acrobot-v1": 3}[env]
    after = []
    for name in signs:
        world = world_of(env)
        world.reset(seed=0)
        act(world, name)
        after.append(float(world.dynamics.simulator.env.unwrapped.state[index]))
    assert after == sorted(after) and len(set(after)) == len(signs)


def test_known_names_of_frozen_lake_lead_there():
    for name, cell in (("left", 5), ("down", 10), ("right", 7), ("up", 2)):
        world = world_of("FrozenLake-v1", make={"is_slippery": False, "desc": ["SFFF", "FFFF", "FFFF", "FFFG"]})
        world.reset(seed=0)
        world.dynamics.simulator.env.unwrapped.s = 6
        act(world, name)
        assert world.dynamics.simulator.env.unwrapped.s == cell


def test_the_best_return_counts_from_the_state_that_is_asked_about():
    world = world_of(actions=NAMES, plan=tally.plan, make={"flaw": "pays", "last": 3})
    world.reset(seed=0)
    act(world, "go")
    assert world.state.outcome.total == 0.5 and world.task.best_return(world.state, 2) == 1.5


def test_an_end_that_is_also_the_time_limit_is_not_truncated():
    world = world_of(actions=NAMES, success="truncated", make={"max_episode_steps": 2, "last": 2})
    world.reset(seed=0)
    assert act(world, "go", "go")[4]["success"] is False and not world.state.outcome.truncated


def test_images_of_equally_long_episodes_differ():
    world = world_of(actions=NAMES, make={"flaw": "colors"})
    world.reset(seed=0)
    states = [world.dynamics.step(world.state, action, np.random.default_rng())[0] for action in (0, 1)]
    assert [int(world.view.image(state)[1, 1, 1]) for state in (*states, states[0])] == [10, 11, 10]


@pytest.mark.parametrize("env", ["MiniGrid-DoorKey-5x5-v0", "BabyAI-GoToLocal-v0"])
def test_minigrid_shows_its_mission_and_is_silent(env, capsys):
    world = world_of(env)
    for seed in range(5):
        assert "\nMission: " in world.reset(seed=seed)[0]["text"]
    assert capsys.readouterr().out == ""


def test_process_workers_know_the_world():
    env_id = vlm_envs.adapt(TALLY, actions=NAMES, name="elsewhere", describe=tally.describe)
    texts = []
    for workers in ("serial", "process"):
        with_workers = {} if workers == "serial" else {"num_workers": 1}
        vector = world_vector(env_id, 2, workers=workers, obs_mode="image+text", **with_workers)
        vector.reset(seed=[1, 2])
        observations, *_ = vector.step(["<think></think><answer>go, stay</answer>"] * 2)
        texts.append([observation["text"] for observation in observations])
        vector.close()
    assert texts[0] == texts[1] and "2 steps" in texts[0][0]


def test_gymnasium_makes_adapted_worlds_alone_in_vectors_and_by_numbers():
    env_id = vlm_envs.adapt(TALLY, actions=NAMES, name="made")
    assert gym.make(env_id).reset(seed=0)[0]["image"].shape == (8, 16, 3)
    vector = gym.make_vec(env_id, 2, action_mode="discrete")
    assert vector.single_action_space.n == 3
    vector.close()


@pytest.mark.parametrize(
    ("kind", "config", "expected"),
    [
        (0, None, [1.0, 1.0, 1.0]),
        (0, {"lookat": [9.0] * 3}, [9.0] * 3),
        (1, None, [5.0, 6.0, 7.0]),
        (2, None, [9.0] * 3),
    ],
)
def test_cameras_of_mujoco_are_centered_and_freed_in_their_own_context(kind, config, expected):
    """A free camera looks at the median of all shapes, a tracking one at its body; fixed ones stay."""
    calls = []
    camera = SimpleNamespace(type=kind, lookat=np.full(3, 9.0), trackbodyid=0)
    viewer = SimpleNamespace(
        cam=camera,
        con=SimpleNamespace(free=lambda: calls.append("free")),
        make_context_current=lambda: calls.append("current"),
    )
    world = world_of(actions=NAMES)
    unwrapped = world.dynamics.simulator.env.unwrapped
    unwrapped.mujoco_renderer = SimpleNamespace(viewer=viewer, default_cam_config=config)
    unwrapped.data = SimpleNamespace(
        geom_xpos=np.array([[0.0] * 3, [1.0] * 3, [8.0] * 3]), subtree_com=[[5.0, 6.0, 7.0]]
    )
    world.reset(seed=0)
    assert camera.lookat.tolist() == expected and calls == ["current"]
    world.close()
    assert calls == ["current", "current", "free"]


def test_closing_twice_is_harmless():
    world = world_of(actions=NAMES)
    world.reset(seed=0)
    world.close()
    world.close()


def test_only_the_thread_of_an_environment_is_muted(capsys):
    inside, done = threading.Event(), threading.Event()

    def environment():
        with quiet_stdout():
            print("of the environment")
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=environment)
    thread.start()
    assert inside.wait(10)
    print("of another thread")
    with quiet_stdout():
        print("of another environment")
    done.set()
    thread.join()
    print("afterwards")
    assert capsys.readouterr().out == "of another thread\nafterwards\n"
