"""`VectorWorld`: Gymnasium's vector API, text that survives, and batches that survive a broken worker."""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import operator
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

import vlm_envs
from tests.unit.vlm_envs.corridor import CorridorWorld, FaultyWorld, Unmakable
from vlm_envs.errors import ConfigError, EpisodeOverError, LevelError, WorkerError
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.vector.running_episodes import Observations
from vlm_envs.vector.vector_world import VectorWorld

RIGHT = "<answer>Right</answer>"
UNICODE = "naïve 世界 🙂 \ud800 \x00 <b>\\n\n</b>"
no_think_world = functools.partial(CorridorWorld, prompt_format="no_think")
lake = functools.partial(vlm_envs.make, "VLM/FrozenLake-v0", render_mode="ansi")
faulty_world = functools.partial(FaultyWorld, prompt_format="no_think", max_turns=10)


@pytest.fixture
def envs(kind: str) -> Iterator[VectorWorld]:
    with VectorWorld([no_think_world] * 3, workers=kind, num_workers=2) as envs:
        yield envs


def fingerprint(observations: Observations) -> str:
    digest = hashlib.blake2b()
    for observation in observations:
        digest.update(observation["text"].encode("utf-8", "surrogatepass"))
        digest.update(observation["image"].tobytes())
    return digest.hexdigest()


# --- Optimal actions ------------------------------------------------------------------------------


def counted(infos: Iterable[dict[str, Any]]) -> list[int | None]:
    return [info.get("optimal_actions_left") for info in infos]


def test_worlds_count_optimal_actions_while_they_are_asked_to(envs: VectorWorld) -> None:
    levels = {"levels": ["10 12", "10 11", "10 14"]}
    assert counted(envs.reset(seed=0, options=levels)[1]["env"]) == [None] * 3
    envs.counts_optimal_actions = True
    assert counted(envs.reset(seed=0, options=levels)[1]["env"]) == [2, 1, 4]
    assert counted(envs.step([RIGHT] * 3)[-1]["env"]) == [1, 0, 3]
    assert counted(envs.try_reset(seed=0, options=levels)[1]["env"]) == [2, 1, 4]
    envs.send_resets({0: 1}, levels={0: "3 9"})
    assert counted(step.info for step in envs.recv().values()) == [6]
    envs.counts_optimal_actions = False
    assert counted(envs.reset(seed=0, options=levels)[1]["env"]) == [None] * 3
    assert envs.call("optimal_actions_left") == (2, 1, 4)


# --- Gymnasium's vector API -----------------------------------------------------------------------


def test_attributes_are_those_of_a_vector_env(envs: VectorWorld) -> None:
    single = no_think_world()
    assert isinstance(envs, VectorEnv)
    assert envs.num_envs == 3
    assert envs.single_observation_space == single.observation_space
    assert envs.single_action_space == single.action_space
    assert envs.observation_space == gym.spaces.Tuple([single.observation_space] * 3)
    assert envs.action_space == gym.spaces.Tuple([single.action_space] * 3)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    assert envs.metadata["render_modes"] == single.metadata["render_modes"]


def test_batched_action_space_draws_different_actions(envs: VectorWorld) -> None:
    envs.action_space.seed(0)
    assert len(set(envs.action_space.sample())) > 1, "one space object shared by all worlds would repeat itself"


def test_returned_shapes_and_types(envs: VectorWorld) -> None:
    observations, infos = envs.reset(seed=5)
    assert observations in envs.observation_space
    observations, rewards, terminated, truncated, infos = envs.step([RIGHT] * 3)
    assert observations in envs.observation_space
    assert rewards.shape == terminated.shape == truncated.shape == (3,)
    assert rewards.dtype == np.float64
    assert terminated.dtype == truncated.dtype == np.bool_
    assert [info["turn"] for info in infos["env"]] == [1, 1, 1]
    assert infos["format_correct"].tolist() == [True] * 3
    assert infos["_format_correct"].tolist() == infos["_env"].tolist() == [True] * 3


def test_each_world_behaves_as_if_alone(envs: VectorWorld) -> None:
    observations, _ = envs.reset(seed=5)
    for i in range(3):
        alone = no_think_world()
        expected, _ = alone.reset(seed=5 + i)  # an integer seed stands for seed, seed + 1, ...
        assert observations[i]["text"] == expected["text"]
        assert (observations[i]["image"] == expected["image"]).all()
    stepped = envs.step([RIGHT] * 3)
    for i in range(3):
        alone = no_think_world()
        alone.reset(seed=5 + i)
        _, reward, terminated, truncated, info = alone.step(RIGHT)
        assert (stepped[1][i], stepped[2][i], stepped[3][i]) == (reward, terminated, truncated)
        assert stepped[4]["env"][i] == info


def test_gymnasium_wrappers_work(envs: VectorWorld) -> None:
    wrapped = DictInfoToList(RecordEpisodeStatistics(envs))
    wrapped.reset(seed=0)
    for _ in range(3):
        *_, infos = wrapped.step(("no tags",) * 3)
    # Three turns of nothing cost 0.1 each
    assert infos[1]["episode"]["r"] == pytest.approx(-0.3)
    assert infos[1]["episode"]["l"] == 3
    assert infos[1]["env"]["parse_error"] == "<answer> is missing"


def test_all_kinds_give_the_same_episodes(remote_kind: str) -> None:
    prints: dict[str, list[object]] = {}
    for kind in ("serial", remote_kind):
        with VectorWorld([no_think_world] * 3, workers=kind, num_workers=2) as envs:
            observations, _ = envs.reset(seed=[3, 1, 2])
            prints[kind] = [fingerprint(observations)]
            for _ in range(2):
                observations, rewards, *_, infos = envs.step([RIGHT, "<answer>Left</answer>", UNICODE])
                hashes = [info["state_hash"] for info in infos["env"]]
                prints[kind] += [fingerprint(observations), rewards.tolist(), hashes]
            observations, _ = envs.reset()  # unseeded: the generators go on where they were
            prints[kind].append(fingerprint(observations))
    assert prints["serial"] == prints[remote_kind]


def test_unicode_is_intact_both_ways(kind: str) -> None:
    huge = "世" * 300_000
    with VectorWorld([faulty_world] * 2, workers=kind) as envs:
        envs.reset(seed=0)
        observations, *_ = envs.step([UNICODE, huge])
        assert observations[0]["text"].endswith(f"heard: {UNICODE}")
        assert observations[1]["text"].endswith(f"heard: {huge}")


# --- Which worlds act -----------------------------------------------------------------------------


def test_masked_reset_leaves_the_others_in_their_episode(envs: VectorWorld) -> None:
    envs.reset(seed=0)
    before, *_ = envs.step([RIGHT] * 3)
    options = {"reset_mask": np.array([False, True, False]), "level": "1 5"}
    after, infos = envs.reset(options=options)
    assert set(options) == {"reset_mask", "level"}, "the caller's dict must not be changed"
    assert infos["_env"].tolist() == [False, True, False]
    assert infos["env"][1]["state"] == {"player_position": (0, 1), "target_position": (0, 5)}
    assert [info["turn"] for info in infos["env"]] == [1, 0, 1]
    assert fingerprint(after[:1] + after[2:]) == fingerprint(before[:1] + before[2:])
    *_, infos = envs.step([RIGHT] * 3)
    assert [info["turn"] for info in infos["env"]] == [2, 1, 2]


def test_none_leaves_a_world_alone(envs: VectorWorld) -> None:
    envs.reset(options={"level": "0 1"})
    first, rewards, terminated, *_ = envs.step([RIGHT, None, "nothing"])
    assert rewards.tolist() == pytest.approx([10.4, 0.0, -0.1])  # 10 - 0.1 + 0.5 format
    assert terminated.tolist() == [True, False, False]
    second, rewards, terminated, truncated, infos = envs.step([None, RIGHT, None])
    assert rewards.tolist() == pytest.approx([0.0, 10.4, 0.0])
    assert terminated.tolist() == [True, True, False]
    assert not truncated.any()
    assert fingerprint(second[:1]) == fingerprint(first[:1])
    assert infos["success"].tolist() == [True, True, False]
    assert infos["_success"].tolist() == [False, True, False]
    assert infos["env"][0]["reward_terms"] == {}


def test_stepping_a_finished_world_names_it(envs: VectorWorld) -> None:
    with pytest.raises(EpisodeOverError, match="Environment 0 was never reset"):
        envs.step([RIGHT] * 3)
    envs.reset(options={"level": "0 1"})
    envs.step([None, RIGHT, None])
    with pytest.raises(EpisodeOverError, match="environment 1 is over"):
        envs.step([RIGHT, RIGHT, RIGHT])
    *_, infos = envs.step([RIGHT, None, RIGHT])  # the refused call has stepped nobody
    assert [info["turn"] for info in infos["env"]] == [1, 1, 1]


@pytest.mark.parametrize("actions", [[RIGHT], RIGHT])
def test_wrong_number_of_actions(actions: object) -> None:
    envs = VectorWorld([no_think_world] * 3)
    envs.reset(seed=0)
    with pytest.raises(ConfigError, match="takes 3 responses"):
        envs.step(actions)  # type: ignore[arg-type]


@pytest.mark.parametrize("mask", [[True], [False] * 3, [1, 0, 1]])
def test_wrong_mask(mask: list[object]) -> None:
    with pytest.raises(ConfigError, match=r"bool\[3\]"):
        VectorWorld([no_think_world] * 3).reset(options={"reset_mask": mask})


def test_wrong_number_of_seeds() -> None:
    with pytest.raises(ConfigError, match="3 seeds"):
        VectorWorld([no_think_world] * 3).reset(seed=[1, 2])


# --- Faults ---------------------------------------------------------------------------------------


def test_a_dead_process_ends_only_its_own_episodes(mortal_kind: str) -> None:
    with VectorWorld([faulty_world] * 3, workers=mortal_kind, num_workers=2) as envs:  # worker 0 owns 0 and 2
        start, _ = envs.reset(seed=0)
        observations, rewards, terminated, truncated, infos = envs.step(["exit", RIGHT, RIGHT])
        assert truncated.tolist() == [True, False, True]
        assert not terminated.any()
        assert rewards.tolist() == pytest.approx([0.0, 0.4, 0.0])  # -0.1 + 0.5 format
        assert fingerprint(observations[:1]) == fingerprint(start[:1])
        reason = infos["env"][0]["worker_error"]
        assert re.match(rf"The {mortal_kind} worker of environments \[0, 2\].* died", reason), reason
        assert infos["success"].tolist() == [False] * 3
        assert "worker_error" not in infos["env"][1]
        assert infos["env"][1]["turn"] == 1
        _, infos = envs.reset(seed=0, options={"reset_mask": truncated})
        assert "worker_error" not in infos["env"][0]
        _, rewards, *_, infos = envs.step([RIGHT] * 3)
        assert [info["turn"] for info in infos["env"]] == [1, 2, 1]


def test_a_hanging_world_does_not_stall_the_batch(remote_kind: str) -> None:
    with VectorWorld([faulty_world] * 2, workers=remote_kind, num_workers=2, step_timeout_s=0.5) as envs:
        envs.reset(seed=0)
        start_s = time.monotonic()
        _, rewards, _, truncated, infos = envs.step(["hang", RIGHT])
        assert time.monotonic() - start_s < 10, "must not wait for the 30 s that the world sleeps"
        assert truncated.tolist() == [True, False]
        assert rewards.tolist() == pytest.approx([0.0, 0.4])
        assert "no answer within 0.5 s" in infos["env"][0]["worker_error"]
        envs.reset(seed=0, options={"reset_mask": truncated})
        *_, truncated, infos = envs.step([RIGHT, RIGHT])
        assert not truncated.any()
        assert [info["turn"] for info in infos["env"]] == [1, 2]


def test_a_world_that_raises_in_step_ends_its_episode(kind: str) -> None:
    with VectorWorld([faulty_world] * 2, workers=kind, num_workers=1) as envs:
        envs.reset(seed=0)
        _, _, _, truncated, infos = envs.step(["raise", RIGHT])
        assert truncated.tolist() == [True, False], "the other world of the same worker goes on"
        assert infos["env"][0]["worker_error"] == "RuntimeError: the simulator fell over"
        assert infos["env"][0]["reward_terms"] == {}
        envs.reset(seed=0, options={"reset_mask": truncated})
        *_, truncated, _ = envs.step([RIGHT, RIGHT])
        assert not truncated.any()


def test_mistakes_at_reset_keep_their_type_and_traceback(kind: str) -> None:
    with VectorWorld([no_think_world] * 2, workers=kind) as envs:
        with pytest.raises(LevelError, match="two cell numbers") as caught:
            envs.reset(options={"level": "nonsense"})
        assert isinstance(caught.value.__cause__, WorkerError)
        assert "in load" in str(caught.value.__cause__)
        envs.reset(seed=0)
        assert envs.step([RIGHT, RIGHT])[1].tolist() == pytest.approx([0.4, 0.4])


def test_a_world_that_cannot_be_reset_raises(kind: str) -> None:
    broken = functools.partial(FaultyWorld, reset_fault="raise")
    with (
        VectorWorld([no_think_world, broken], workers=kind) as envs,
        pytest.raises(RuntimeError, match="come up"),
    ):
        envs.reset(seed=0)


def test_a_world_that_cannot_be_made_raises(kind: str) -> None:
    with pytest.raises(ValueError, match="no licence"):
        VectorWorld([no_think_world, Unmakable], workers=kind)
    assert not multiprocessing.active_children()


def test_worlds_of_different_spaces_are_refused() -> None:
    with pytest.raises(ConfigError, match="the same spaces; world 1 has"):
        VectorWorld([no_think_world, functools.partial(CorridorWorld, obs_mode="text")])


def test_lambdas_cannot_go_to_processes() -> None:
    with pytest.raises(ConfigError, match=r"functools\.partial\(vlm_envs\.make"):
        VectorWorld([lambda: CorridorWorld()], workers="process")


def test_bad_arguments() -> None:
    with pytest.raises(ConfigError, match="'thread'"):
        VectorWorld([no_think_world], workers="threads")
    with pytest.raises(ConfigError, match="step_timeout_s"):
        VectorWorld([no_think_world], step_timeout_s=0)
    with pytest.raises(ConfigError, match="at least one"):
        VectorWorld([])


def test_close_leaves_nothing_behind(kind: str) -> None:
    threads = set(threading.enumerate())
    envs = VectorWorld([no_think_world] * 4, workers=kind, num_workers=2)
    envs.reset(seed=0)
    envs.close()
    envs.close()
    assert not multiprocessing.active_children()
    assert {each for each in threading.enumerate() if not each.name.startswith("ray_")} <= threads
    with pytest.raises(EpisodeOverError, match="closed"):
        envs.step([RIGHT] * 4)


# --- Attributes and registration ------------------------------------------------------------------


def test_call_and_render(kind: str) -> None:
    with VectorWorld([functools.partial(no_think_world, render_mode="ansi")] * 2, workers=kind) as envs:
        envs.reset(options={"level": "3 7"})
        assert envs.render() == ("3 7", "3 7")
        assert envs.get_attr("max_turns") == (3, 3)


def turn_and_process(world: CorridorWorld) -> tuple[int, int]:
    world.left_behind = True  # type: ignore[attr-defined]
    return world._turn, os.getpid()


def test_functions_are_called_where_worlds_live(kind: str) -> None:
    with VectorWorld([no_think_world] * 3, workers=kind, num_workers=2) as envs:
        envs.reset(seed=0)
        envs.step([None, RIGHT, None])
        answers = envs.apply({2: turn_and_process, 1: turn_and_process})
        assert {number: turn for number, (turn, _) in answers.items()} == {1: 1, 2: 0}
        assert all((pid != os.getpid()) == (kind in ("process", "ray")) for _, pid in answers.values())
        assert [hasattr(world, "left_behind") for world in envs.get_attr("unwrapped")] == [False, True, True]
        with pytest.raises(AttributeError, match="nothing_like_it"):
            envs.apply({0: operator.attrgetter("nothing_like_it")})


def set_late(world: CorridorWorld) -> str | None:
    return os.environ.get("SET_LATE")


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_a_worker_process_has_the_variables_of_its_owner(start_method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("one", "two"):  # a fork server has started by the second
        monkeypatch.setenv("SET_LATE", value)
        with VectorWorld([no_think_world], workers="process", start_method=start_method) as envs:
            assert envs.apply({0: set_late}) == {0: value}


def test_an_answer_that_cannot_be_sent_is_explained(remote_kind: str) -> None:
    with VectorWorld([faulty_world], workers=remote_kind) as envs:
        with pytest.raises(WorkerError, match="cannot be pickled"):
            envs.get_attr("unpicklable")
        assert envs.get_attr("max_turns") == (10,), "the worker goes on"


@pytest.mark.parametrize("mode", [None, "vector_entry_point"])
@pytest.mark.parametrize("env_id", ["VLM/FrozenLake-v0", "VLM/Sokoban-v0", "vlm_envs:VLM/FrozenLake-v0"])
def test_make_vec(env_id: str, mode: str | None) -> None:
    envs = gym.make_vec(env_id, num_envs=2, vectorization_mode=mode, workers="thread", obs_mode="text")
    try:
        assert isinstance(envs, VectorWorld)
        assert envs.spec is not None
        assert envs.spec.id == env_id.removeprefix("vlm_envs:")
        observations, infos = envs.reset(seed=0)
        assert infos["env"][1]["state_text"] in observations[1]["text"]
        again = gym.make_vec(envs.spec)
        assert again.num_envs == 2
        again.close()
    finally:
        envs.close()


def test_worlds_of_ones_own_are_found_by_every_worker(kind: str) -> None:
    vlm_envs.register("Test/Corridor-v0", "tests.unit.vlm_envs.corridor:CorridorWorld", prompt_format="no_think")
    try:  # no module in front: a process knows nothing of what this one registered
        with gym.make_vec("Test/Corridor-v0", num_envs=2, workers=kind, max_turns=5) as envs:
            assert isinstance(envs, VectorWorld)
            envs.reset(seed=0)
            assert envs.step([RIGHT] * 2)[1].tolist() == pytest.approx([0.4, 0.4])
            assert envs.get_attr("max_turns") == (5, 5)
    finally:
        del gym.registry["Test/Corridor-v0"]


def test_a_vector_of_what_nobody_registered_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'VLM/Sokoban-v0'"):
        world_vector("VLM/Sokobann-v0", 2, workers="process")
    assert not hasattr(vlm_envs.vector.make_vec, "VLM/Sokobann-v0")


def test_unknown_argument_of_the_world_is_named() -> None:
    with pytest.raises(ConfigError, match="obs_mod"):
        gym.make_vec("VLM/FrozenLake-v0", num_envs=2, obs_mod="text")


@pytest.mark.parametrize("workers", ["serial", "process"])
def test_worlds_start_from_levels_of_their_own(workers: str) -> None:
    with VectorWorld([lake] * 3, workers=workers) as worlds:
        worlds.reset(seed=[1, 2, 3])
        drawn = worlds.call("render")
        texts = ["P_\n_G", None, "GP\n__"]
        with pytest.raises(LevelError, match="size=4"):
            worlds.reset(seed=[1, 2, 3], options={"levels": texts})
        worlds.reset(seed=[1, 2, 3])
        texts = ["P___\n____\n____\n___G", None, "G___\n____\n____\n___P"]
        worlds.reset(seed=[1, 2, 3], options={"levels": texts})
        assert worlds.call("render") == (texts[0], drawn[1], texts[2])
        worlds.reset(seed=[1, 2, 3], options={"levels": texts[::-1], "reset_mask": np.array([True, False, False])})
        assert worlds.call("render") == (texts[2], drawn[1], texts[2])
        worlds.send_resets({0: 1, 1: 2}, levels={1: texts[0]})
        done = worlds.recv() | worlds.recv(5.0)
        assert done.keys() == {0, 1}
        assert worlds.call("render") == (drawn[0], texts[0], texts[2])


def test_errors_count_the_levels_and_responses_given() -> None:
    with VectorWorld([lake] * 3) as worlds:
        with pytest.raises(ConfigError, match="got 2 of them"):
            worlds.reset(seed=0, options={"levels": [None, None]})
        worlds.reset(seed=0)
        with pytest.raises(ConfigError, match="got 2 actions"):
            worlds.step(["", ""])


@pytest.mark.parametrize("levels", ["P_\n_G", ["P_\n_G"], ["P_\n_G", 3, None], 7])
def test_levels_that_are_not_one_a_world_are_refused(levels: object) -> None:
    with VectorWorld([lake] * 3) as worlds, pytest.raises(ConfigError, match=r"options\['levels'\] must be 3 level"):
        worlds.reset(seed=0, options={"levels": levels})
