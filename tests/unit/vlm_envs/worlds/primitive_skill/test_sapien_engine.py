"""The simulated table. Skipped, with the reason, where SAPIEN cannot run."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.slow import quick, sized
from tests.unit.vlm_envs.worlds.primitive_skill.skill_tables import ALIGN, DRAWER, PLACE, TABLES, cube
from vlm_envs import make
from vlm_envs.tools.data_files import BoundedCache
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.worlds.primitive_skill import primitive_skill_world
from vlm_envs.worlds.primitive_skill.primitive_skill_world import PrimitiveSkillDynamics, PrimitiveSkillView
from vlm_envs.worlds.primitive_skill.sapien_engine import MAX_NUM_OUTCOMES, EngineHandle
from vlm_envs.worlds.primitive_skill.sapien_scene import why_unavailable
from vlm_envs.worlds.primitive_skill.skill_levels import level_text, parse_level
from vlm_envs.worlds.primitive_skill.skill_motion import carry_out
from vlm_envs.worlds.primitive_skill.skill_planner import parse_primitive
from vlm_envs.worlds.primitive_skill.skill_state import PrimitiveSkillState, point_mm

pytestmark = pytest.mark.skipif(bool(why_unavailable()), reason=str(why_unavailable()))

RNG = np.random.default_rng(0)


def forget() -> None:
    with EngineHandle().use() as engine:
        engine.outcomes = BoundedCache(MAX_NUM_OUTCOMES)


def after(state: PrimitiveSkillState, *actions: str) -> PrimitiveSkillState:
    dynamics = PrimitiveSkillDynamics(task=state.task, engine=EngineHandle())
    for text in actions:
        action = parse_primitive(text)
        assert action is not None
        state, _ = dynamics.step(state, action, RNG)
    return state


def test_pick_and_place() -> None:
    held = after(PLACE, "pick(-60,-120,20)")
    assert held.held == 0 and held.cubes[0].position[2] > 0.2 and held.highest_stage == 0
    placed = after(held, "place(80,-100,120)")
    assert placed.held is None and placed.highest_stage == 1
    assert np.abs(np.subtract(point_mm(placed.cubes[0].position), (80, -100, 20))).max() <= 3
    assert placed.cubes[1] == replace(
        PLACE.cubes[1], position=placed.cubes[1].position, rotation=placed.cubes[1].rotation
    )


def test_what_a_pick_leaves_is_a_level() -> None:
    held = after(PLACE, "pick(-60,-120,20)")
    assert parse_level(level_text(held)) == held


def test_a_pushed_cube_ends_where_it_was_pushed_to() -> None:
    pushed = after(ALIGN, "push(90,-120,20,0,-120,20)", "push(-60,0,20,0,0,20)")
    assert [abs(point_mm(each.position)[0]) <= 3 for each in pushed.cubes] == [True, True, False]


def test_the_drawer_opens_takes_a_cube_and_shuts() -> None:
    opened = after(DRAWER, "push(-260,-90,40,-130,-90,40)")
    assert opened.drawer is not None and opened.drawer.open_m > 0.12
    full = after(opened, "pick(-175,80,20)", "place(-285,-90,500)")
    assert full.highest_stage == 2
    shut = after(full, "push(-130,-90,40,-260,-90,40)")
    assert shut.drawer is not None and shut.drawer.open_m < 0.005
    assert PrimitiveSkillDynamics(task="drawer", engine=EngineHandle()).is_success(shut)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("pick(0,0,250)", "outside the workspace limits"),
        ("place(0,0,20)", "found nothing in the gripper"),
        ("pick(0,0,20)", "closed on nothing"),
        ("push(0,0,20,0,40,20)", "touched nothing"),
        ("push(150,200,20,0,200,20)", "out of the arm's reach"),
    ],
)
def test_what_has_no_effect_is_explained_and_changes_nothing_else(action: str, reason: str) -> None:
    state = after(PLACE, action)
    assert reason in state.outcome and replace(state, outcome="") == PLACE


def test_a_full_gripper_neither_picks_nor_pushes() -> None:
    held = after(PLACE, "pick(-60,-120,20)")
    assert "needs an empty gripper" in after(held, "pick(-47,95,20)").outcome
    assert "needs an empty gripper" in after(held, "push(-47,95,20,0,95,20)").outcome


@pytest.mark.parametrize("task", quick(TABLES, "stack", "drawer"))
def test_a_step_depends_on_nothing_but_the_state(task: str) -> None:
    dynamics = PrimitiveSkillDynamics(task=task, engine=EngineHandle())
    states = [TABLES[task]]
    for action in dynamics.plan(states[0]) or ():
        states.append(dynamics.step(states[-1], action, RNG)[0])
    assert dynamics.is_success(states[-1])
    order = np.random.default_rng(1).permutation(len(states) - 1)
    for index in [*order, *order]:
        forget()
        plan = dynamics.plan(states[index])
        assert plan is not None
        assert dynamics.step(states[index], plan[0], RNG)[0] == states[index + 1]


def test_what_was_simulated_is_not_simulated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = []

    def counted(*arguments: Any) -> Any:
        simulated.append(arguments)
        return carry_out(*arguments)

    monkeypatch.setattr(primitive_skill_world, "carry_out", counted)
    dynamics = PrimitiveSkillDynamics(task="place", engine=EngineHandle())
    pick, other = parse_primitive("pick(-60,-120,20)"), parse_primitive("pick(-47,95,20)")
    assert pick is not None and other is not None
    forget()
    first = dynamics.step(PLACE, pick, RNG)
    assert dynamics.step(PLACE, pick, RNG) == first and len(simulated) == 1
    assert dynamics.step(PLACE, other, RNG) != first and len(simulated) == 2
    forget()
    assert dynamics.step(PLACE, pick, RNG) == first and len(simulated) == 3


@pytest.mark.parametrize("task", quick(TABLES, "place"))
def test_the_oracle_solves_new_tables(task: str) -> None:
    world = make("VLM/PrimitiveSkill-v0", task=task, obs_mode="text", split="test", disable_env_checker=True).unwrapped
    for seed in range(1_500_000_000, 1_500_000_000 + sized(2, soak=5)):
        world.reset(seed=seed)
        over = False
        while not over:
            _, _, terminated, truncated, info = world.step(world.write_response(world.dynamics.plan(world.state)[:2]))
            over = terminated or truncated
        assert info["success"], seed


def test_pictures_show_the_cubes_and_depend_on_nothing_but_the_state() -> None:
    view = PrimitiveSkillView(engine=EngineHandle(), resolution=128)
    first = view.image(PLACE)
    assert first.shape == (128, 128, 3) and first.dtype == np.uint8
    view.image(DRAWER)
    np.testing.assert_array_equal(view.image(PLACE), first)
    red = (first[..., 0] > 150) & (first[..., 1] < 80) & (first[..., 2] < 80)
    green = (first[..., 1] > 90) & (first[..., 0] < 90) & (first[..., 2] < 100)
    assert red.sum() > 30 and green.sum() > 30
    # -y is left in the picture: the red cube is at y = -120, the green one at y = 95
    assert np.flatnonzero(red.any(0)).mean() < 64 < np.flatnonzero(green.any(0)).mean()
    nearer = view.image(replace(PLACE, cubes=(cube("red", 100, -120), PLACE.cubes[1])))
    assert not np.array_equal(nearer, first)


def test_a_world_can_be_copied_and_closed() -> None:
    world = make("VLM/PrimitiveSkill-v0", resolution=64, disable_env_checker=True).unwrapped
    observation, _ = world.reset(seed=3)
    twin = pickle.loads(pickle.dumps(world))
    np.testing.assert_array_equal(twin.view.image(twin.state), observation["image"])
    world.close()
    world.close()
    twin.close()


def test_threads_share_one_engine() -> None:
    answers = {}
    for workers in ("serial", "thread"):
        with world_vector("VLM/PrimitiveSkillAlign-v0", 3, workers=workers, resolution=64) as worlds:
            worlds.reset(seed=5)
            inner = worlds.get_attr("unwrapped")
            observations, rewards, *_ = worlds.step([w.write_response(w.dynamics.plan(w.state)[:2]) for w in inner])
            answers[workers] = [o["image"].tobytes() for o in observations], rewards.tolist()
    assert answers["serial"] == answers["thread"]
