"""The best that can be had without looking."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from agents import blind_script
from agents.blind_script import OpenLoop
from vlm_envs.content.scenes import scene_rendering
from vlm_envs.errors import GenerationError
from vlm_envs.parts import Dynamics
from vlm_envs.tools.data_files import BoundedCache
from vlm_envs.worlds.frozen_lake import FrozenLakeWorld

SECRET = (2, 0, 1, 1, 0, 2, 0, 1, 2, 2)


@dataclass(frozen=True)
class Locked:
    needed: int
    given: tuple[int, ...] = ()


class Lock(Dynamics[Locked, int]):
    """A level opens once so many actions of a secret sequence were carried out, and a wrong one ends it."""

    def generate(self, rng, split):
        return Locked(needed=int(rng.integers(1, len(SECRET) + 1)))

    def load(self, level):
        return Locked(needed=int(level))

    def dump(self, state):
        return str(state.needed)

    def step(self, state, action, rng):
        return Locked(state.needed, (*state.given, action)), True

    def is_success(self, state):
        return len(state.given) == state.needed and state.given == SECRET[: state.needed]

    def is_over(self, state):
        return self.is_success(state) or state.given != SECRET[: len(state.given)]


def lock():
    states = tuple(Locked(needed=1 + number % len(SECRET)) for number in range(30))
    return OpenLoop(dynamics=Lock(), states=states, actions=(0, 1, 2), length=len(SECRET))


def _is_solved(dynamics, state, sequence, rng):
    for action in sequence:
        state, _ = dynamics.step(state, action, rng)
        if dynamics.is_over(state):
            return dynamics.is_success(state)
    return False


class TestSearch:
    @pytest.fixture(autouse=True)
    def few_changes(self, monkeypatch):
        monkeypatch.setattr(blind_script, "NUM_CHANGES", 250)

    def test_it_finds_what_no_repeated_turn_does(self):
        levels, repeated = lock(), [(0,), (1,), (2,), (2, 0)]
        assert max(levels.num_solved(each * 5) for each in repeated) == 6
        assert SECRET in levels.searched(repeated)
        assert levels.num_solved(SECRET) == 30

    def test_the_same_levels_lead_to_the_same_sequences(self):
        assert lock().searched([(0,), (2, 0)]) == lock().searched([(0,), (2, 0)])

    def test_sequences_are_repeated_up_to_an_episodes_length_and_no_further(self):
        assert {len(each) for each in lock().searched([(2, 0, 1), (2,) * 12])} == {len(SECRET)}

    def test_an_episode_that_a_sequence_has_lost_stays_lost(self):
        hole_then_goal = (0, *SECRET)
        assert lock().num_solved(hole_then_goal) == 0

    @pytest.mark.parametrize("is_slippery", [False, True])
    def test_steps_are_remembered_and_chance_is_drawn_anew(self, is_slippery):
        levels = blind_script.open_loop("VLM/FrozenLake-v0", {"size": 3, "is_slippery": is_slippery}, num_levels=20)
        sequences = np.random.default_rng(0).choice(levels.actions, size=(200, 8)).tolist()
        played = [
            sum(
                _is_solved(levels.dynamics, state, sequence, np.random.default_rng(number))
                for number, state in enumerate(levels.states)
            )
            for sequence in sequences
        ]
        for _ in range(2):
            assert [levels.num_solved(sequence) for sequence in sequences] == played
        assert max(played) > 0

    def test_a_step_without_chance_is_taken_once(self, monkeypatch):
        levels, steps = lock(), []
        step = Lock.step
        monkeypatch.setattr(Lock, "step", lambda *words: steps.append(words) or step(*words))
        levels.num_solved(SECRET)
        assert len(steps) == sum(range(1, len(SECRET) + 1))
        levels.num_solved(SECRET)
        assert len(steps) == sum(range(1, len(SECRET) + 1))

    def test_states_that_cannot_be_hashed_are_searched_all_the_same(self):
        class ListLock(Lock):
            def step(self, state, action, rng):
                return Locked(state.needed, [*state.given, action]), True

            def is_success(self, state):
                return Lock.is_success(self, Locked(state.needed, tuple(state.given)))

            def is_over(self, state):
                return Lock.is_over(self, Locked(state.needed, tuple(state.given)))

        levels = replace(lock(), dynamics=ListLock(), states=tuple(Locked(each.needed, []) for each in lock().states))
        assert levels.searched([(0,), (2, 0)]) == lock().searched([(0,), (2, 0)])

    def test_answers_have_no_names_to_search_among(self):
        assert blind_script.open_loop("VLM/SVG-v0", {}) is None

    def test_an_engine_is_not_asked_for_millions_of_steps(self, monkeypatch):
        monkeypatch.setattr("vlm_envs.worlds.frozen_lake.FrozenLakeDynamics.steps_are_cheap", False)
        assert blind_script.open_loop("VLM/FrozenLake-v0", {}) is None

    def test_levels_that_cannot_be_started_are_left_out(self, monkeypatch):
        reset, number = FrozenLakeWorld.reset, itertools.count()

        def no_lake(world, **arguments):
            raise GenerationError("no such lake")

        def broken(world, **arguments):
            return (no_lake if next(number) % 2 else reset)(world, **arguments)

        monkeypatch.setattr(FrozenLakeWorld, "reset", broken)
        assert len(blind_script.open_loop("VLM/FrozenLake-v0", {}, num_levels=6).states) == 3
        monkeypatch.setattr(FrozenLakeWorld, "reset", no_lake)
        assert blind_script.open_loop("VLM/FrozenLake-v0", {}, num_levels=6) is None

    def test_levels_are_of_the_training_split_and_nothing_is_drawn(self):
        lake = {"prompt_format": "no_think", "max_turns": 2, "max_actions_per_turn": 4, "split": "test"}
        levels = blind_script.open_loop("VLM/FrozenLake-v0", lake, num_levels=3)
        assert (len(levels.states), len(levels.actions), levels.length) == (3, 4, 8)
        again = blind_script.open_loop("VLM/FrozenLake-v0", lake | {"split": "train"}, num_levels=3)
        assert [*map(levels.dynamics.dump, levels.states)] == [*map(again.dynamics.dump, again.states)]

    @pytest.mark.parametrize(("max_turns", "max_steps", "length"), [(2, 3, 3), (30, None, blind_script.MOST_ACTIONS)])
    def test_no_action_is_searched_for_that_an_episode_has_no_room_for(self, max_turns, max_steps, length):
        lake = {"max_turns": max_turns, "max_actions_per_turn": 3, "max_steps": max_steps}
        assert blind_script.open_loop("VLM/FrozenLake-v0", lake, num_levels=1).length == length


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [("VLM/FrozenLake-v0", {"size": 3}), ("VLM/SVG-v0", {"difficulty": 1, "resolution": 64, "max_turns": 1})],
)
@pytest.mark.sample(1)
def test_scripts_that_are_tried_without_drawing_are_worth_what_they_are_with_pictures(env_id, kwargs, monkeypatch):
    monkeypatch.setattr(blind_script, "NUM_CHANGES", 4)
    monkeypatch.setattr(blind_script, "MOST_SEQUENCES", 4)
    monkeypatch.setattr(blind_script, "NUM_ENVS", 4)
    worth, found = blind_script._TriedScripts.worth, []

    def noted(tried, script):
        found.append((script, worth(tried, script)))
        return found[-1][1]

    monkeypatch.setattr(blind_script._TriedScripts, "worth", noted)
    for not_drawn in (blind_script.not_drawn, lambda env_id, kwargs: kwargs):
        monkeypatch.setattr(blind_script, "not_drawn", not_drawn)
        blind_script.LazyAgent(num_train_levels=2, num_val_levels=4).choose(env_id, kwargs)
    half = len(found) // 2
    assert found[:half] == found[half:] and len({value for _, value in found}) > 1


def test_worlds_without_words_for_their_states_are_drawn():
    assert blind_script.not_drawn("VLM/FrozenLake-v0", {"size": 3}) == {"size": 3, "obs_mode": "text"}
    assert blind_script.not_drawn("adapt:FrozenLake-v1", {"max_turns": 3}) == {"max_turns": 3}


def test_the_lazy_agent_may_answer_each_turn_otherwise(monkeypatch):
    monkeypatch.setattr(blind_script, "NUM_CHANGES", 300)
    monkeypatch.setattr(blind_script, "MOST_SEQUENCES", 4)
    lake = {"max_turns": 3, "max_actions_per_turn": 3}
    script = blind_script.LazyAgent(num_val_levels=32).choose("VLM/FrozenLake-v0", lake)
    assert len(set(script)) > 1


SMALL_SCENES = {"side_px": (300, 500), "target_px": (8, 12), "max_objects": 6}


@pytest.fixture
def short_choice(monkeypatch):
    monkeypatch.setattr(blind_script, "NUM_CHANGES", 4)
    monkeypatch.setattr(blind_script, "MOST_SEQUENCES", 4)
    monkeypatch.setattr(blind_script, "NUM_FIRST_LEVELS", 4)
    monkeypatch.setattr(blind_script, "NUM_ENVS", 4)


def test_all_scripts_play_a_level_before_its_image_is_dropped(short_choice, monkeypatch):
    pytest.importorskip("pydantic", reason="tools need pydantic: pip install '.[tools]'")
    rendered = []
    render = scene_rendering.render
    monkeypatch.setattr(scene_rendering, "render", lambda scene: rendered.append(scene.digest) or render(scene))
    monkeypatch.setattr(
        scene_rendering, "_pictures", BoundedCache(blind_script.NUM_SCRIPT_ENVS)
    )  # images, however large
    blind_script.LazyAgent(num_train_levels=1, num_val_levels=8).choose("VLM/ZoomQA-v0", SMALL_SCENES)
    num_levels = len(set(rendered))
    # Watching the oracle holds four images at once, and finalists play only levels they have not played before
    assert num_levels <= 4 + 8 and len(rendered) <= num_levels + 4 * 5


@pytest.mark.parametrize("num_together", [1, 4])
def test_scripts_side_by_side_do_not_change_the_choice(short_choice, num_together, monkeypatch):
    lake = {"size": 3, "is_slippery": True, "max_turns": 3}
    chosen = blind_script.LazyAgent(num_train_levels=4, num_val_levels=8).choose("VLM/FrozenLake-v0", lake)
    monkeypatch.setattr(blind_script, "NUM_SCRIPT_ENVS", num_together)
    assert blind_script.LazyAgent(num_train_levels=4, num_val_levels=8).choose("VLM/FrozenLake-v0", lake) == chosen


def test_progress_is_reported_and_an_exception_of_the_report_ends_the_choice(short_choice):
    agent, reports = blind_script.LazyAgent(num_train_levels=1, num_val_levels=4), []
    agent.on_progress = lambda *report: reports.append(report)
    agent.choose("VLM/FrozenLake-v0", {"size": 3})
    steps = list(dict.fromkeys(step for _, step, *_ in reports))
    assert len(steps) >= 4 and {env_id for env_id, *_ in reports} == {"VLM/FrozenLake-v0"}
    assert all(0 <= num_done <= num_wanted for *_, num_done, num_wanted in reports)
    for stopped in steps:

        def stop(env_id, step, num_done, num_wanted, stopped=stopped):
            if step == stopped:
                raise InterruptedError(step)

        agent.on_progress = stop
        with pytest.raises(InterruptedError, match=stopped):
            agent.choose("VLM/FrozenLake-v0", {"size": 3})
