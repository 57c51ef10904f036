"""ManiSkill's own Panda and table as a reference: the same joint targets must move arm and cube alike in both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
import torch

from vlm_envs import make
from vlm_envs.tools.data_files import BoundedCache
from vlm_envs.worlds.primitive_skill.sapien_engine import MAX_NUM_OUTCOMES, Engine, EngineHandle, Floats
from vlm_envs.worlds.primitive_skill.sapien_scene import why_unavailable
from vlm_envs.worlds.primitive_skill.skill_motion import CONTROL_PERIOD_S, FINGERS_CLOSED, FINGERS_OPEN
from vlm_envs.worlds.primitive_skill.skill_state import HOME_QPOS

pytestmark = [
    pytest.mark.skipif(bool(why_unavailable()), reason=str(why_unavailable())),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:mani_skill"),
]


class Moment(NamedTuple):
    """What was aimed at for a while, and where things were afterwards."""

    targets: Floats
    num_periods: int
    qpos: Floats
    cubes: Floats


@pytest.fixture
def reference() -> Iterator[Any]:
    """ManiSkill's PickCube, with the arm at our home position."""
    import mani_skill.envs  # noqa: F401  # registers its tasks

    env = gym.make(
        "PickCube-v1", obs_mode="state", control_mode="pd_joint_pos", sim_backend="physx_cpu", render_backend="cpu"
    )
    env.reset(seed=0)
    world = env.unwrapped
    world.agent.robot.set_qpos(torch.tensor([HOME_QPOS], dtype=torch.float32))
    world.agent.robot.set_qvel(torch.zeros(1, len(HOME_QPOS)))
    yield world
    env.close()


def move(reference: Any, targets: Floats) -> Floats:
    """Moves ManiSkill's arm for one control period; returns its joint positions."""
    # Its gripper is commanded from -1 to 1
    fingers = 2 * (targets[-1] - FINGERS_CLOSED) / (FINGERS_OPEN - FINGERS_CLOSED) - 1
    reference.step(torch.tensor([*targets[:-2], fingers], dtype=torch.float32)[None])
    qpos: Floats = reference.agent.robot.get_qpos()[0].numpy()
    return qpos


@pytest.mark.soak
def test_the_arm_follows_joint_targets_as_maniskills_does(reference: Any) -> None:
    rng = np.random.default_rng(0)
    world = make("VLM/PrimitiveSkill-v0", obs_mode="text", disable_env_checker=True).unwrapped
    world.reset(seed=0)
    targets = np.array(HOME_QPOS)
    with EngineHandle().use() as engine:
        engine.put(world.state)
        for period in range(60):
            targets[:7] += rng.uniform(-0.05, 0.05, 7)
            targets[7:] = FINGERS_OPEN if period % 20 < 10 else FINGERS_CLOSED
            engine.aim(targets.copy())
            engine.advance(CONTROL_PERIOD_S)
            np.testing.assert_allclose(engine.take().qpos, move(reference, targets), atol=1e-5)


@pytest.mark.soak
def test_what_lifts_and_places_a_cube_here_does_so_in_maniskill(
    reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mani_skill.utils.structs.pose import Pose

    moments: list[Moment] = []
    advance = Engine.advance

    def noted(engine: Engine, duration_s: float) -> None:
        advance(engine, duration_s)
        num_periods = round(duration_s / CONTROL_PERIOD_S)
        snapshot = engine.take()
        moments.append(
            Moment(engine.targets.copy(), num_periods, np.array(snapshot.qpos), engine.cube_positions.copy())
        )

    with EngineHandle().use() as engine:
        engine.outcomes = BoundedCache(MAX_NUM_OUTCOMES)
    monkeypatch.setattr(Engine, "advance", noted)
    world = make("VLM/PrimitiveSkill-v0", task="place", obs_mode="text", disable_env_checker=True).unwrapped
    world.reset(seed=0)
    before = world.state
    pick, place = world.dynamics.plan(before)[:2]
    world.step(world.write_response([pick, place]))
    positions = [np.array([cube.position for cube in state.cubes]) for state in (before, world.state)]
    moved_m = np.linalg.norm(positions[1] - positions[0], axis=1)
    index = int(np.argmax(moved_m))
    assert moved_m[index] > 0.1

    cube = before.cubes[index]
    pose = [torch.tensor([part], dtype=torch.float32) for part in (cube.position, cube.rotation)]
    reference.cube.set_pose(Pose.create_from_pq(*pose))
    highest = 0.0
    for moment in moments:
        for _ in range(moment.num_periods):
            qpos = move(reference, moment.targets)
        at = reference.cube.pose.p[0].numpy()
        highest = max(highest, float(at[2]))
        np.testing.assert_allclose(at, moment.cubes[index], atol=5e-4)
        np.testing.assert_allclose(qpos[:7], moment.qpos[:7], atol=1e-3)
    assert highest > 0.1, "the cube was lifted"


def test_a_camera_that_is_added_after_a_maniskill_environment_draws_the_scene(reference):
    with closing(make("VLM/PrimitiveSkill-v0", resolution=56)) as world:  # a size that no other test here draws
        observation, _ = world.reset(seed=0)
    assert observation["image"].std() > 10, "not one color"
