"""The second engine, against a stand-in for AI2-THOR's controller and against its real error.

`FakeController` mimics what the adapter uses of `ai2thor.controller.Controller` 5.0.0: `reset`, `step` with the
actions below, `stop`, and events with a `frame` and `metadata` of the same keys and units. It knows nothing of
physics: a room of 4 m by 4 m with a pillar in it.
"""

from __future__ import annotations

import copy
import json
import math
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vlm_envs.errors import ConfigError, GenerationError, LevelError
from vlm_envs.testing.world_under_test import oracle_responses
from vlm_envs.world import World
from vlm_envs.worlds.navigation.ai2thor_engine import ITHOR_SCENES, Ai2Thor, SceneDynamics, SceneView
from vlm_envs.worlds.navigation.ai2thor_tasks import SceneState, load_tasks, parse_scene, scene_split, scene_text
from vlm_envs.worlds.navigation.navigation_levels import Action, Rules, Wanted
from vlm_envs.worlds.navigation.navigation_world import NavigationTask

OBJECTS = (("Toaster", 2.0, 1.75), ("Sofa", -1.5, -1.0), ("Wall", 0.0, 2.0), ("Chair", 1.0, -1.0), ("Chair", 1.5, -1.0))


class FakeController:
    started = 0

    def __init__(self, **options: Any) -> None:
        type(self).started += 1
        self.options, self.calls, self.is_stopped = options, [], False
        self.x, self.z, self.yaw, self.horizon = -1.0, -1.0, 0, 0

    def reset(self, scene: str) -> SimpleNamespace:
        self.scene = scene
        self.x, self.z, self.yaw, self.horizon = -1.0, -1.0, 0, 0
        return self._event(True)

    def stop(self) -> None:
        self.is_stopped = True

    def step(self, action: str, **arguments: Any) -> SimpleNamespace:
        self.calls.append((action, arguments))
        if action == "GetReachablePositions":
            return self._event(True, [{"x": x, "y": 0.9, "z": z} for x, z in self._places()])
        if action == "TeleportFull":
            self.x, self.z = arguments["position"]["x"], arguments["position"]["z"]
            self.yaw, self.horizon = arguments["rotation"]["y"], arguments["horizon"]
            return self._event(True)
        if action in ("RotateLeft", "RotateRight"):
            self.yaw = (self.yaw + arguments["degrees"] * (1 if action == "RotateRight" else -1)) % 360
            return self._event(True)
        if action in ("LookUp", "LookDown"):
            horizon = self.horizon + arguments["degrees"] * (1 if action == "LookDown" else -1)
            if -30 <= horizon <= 60:
                self.horizon = horizon
            return self._event(-30 <= horizon <= 60)
        quarter = ("MoveAhead", "MoveRight", "MoveBack", "MoveLeft").index(action)
        angle = math.radians(self.yaw + 90 * quarter)
        x = self.x + arguments["moveMagnitude"] * math.sin(angle)
        z = self.z + arguments["moveMagnitude"] * math.cos(angle)
        is_free = any(abs(x - a) < 1e-6 and abs(z - b) < 1e-6 for a, b in self._places())
        if is_free:
            self.x, self.z = x, z
        return self._event(is_free)

    def _places(self) -> list[tuple[float, float]]:
        grid = [index * 0.25 for index in range(-8, 9)]
        return [(x, z) for x in grid for z in grid if not (-0.5 <= x <= 0.5 and -0.5 <= z <= 0.5)]

    def _event(self, is_success: bool, returned: Any = None) -> SimpleNamespace:
        objects = []
        for index, (kind, x, z) in enumerate(OBJECTS):
            turn = math.degrees(math.atan2(x - self.x, z - self.z)) - self.yaw
            objects.append(
                {
                    "objectId": f"{kind}|{index}",
                    "objectType": kind,
                    "position": {"x": x, "y": 0.9, "z": z},
                    "visible": abs((turn + 180) % 360 - 180) < 50,
                    "distance": math.hypot(x - self.x, z - self.z),
                }
            )
        size = self.options["width"], self.options["height"]
        return SimpleNamespace(
            frame=np.full((size[1], size[0], 3), (self.yaw // 2) % 256, np.uint8),
            metadata={
                "lastActionSuccess": is_success,
                "errorMessage": "" if is_success else "blocked",
                "actionReturn": returned,
                "agent": {
                    # Unity's numbers are never round
                    "position": {"x": self.x + 1e-7, "y": 0.9009995, "z": self.z - 1e-7},
                    "rotation": {"x": 0.0, "y": self.yaw + 1e-5, "z": 0.0},
                    "cameraHorizon": self.horizon + 1e-6,
                },
                "objects": objects,
            },
        )


RULES = Rules(num_steps=1, success_cm=100, require_visible=False, fov_degrees=100)
WANTED = Wanted(instruction_set="base", min_solution_length=5, max_solution_length=20)


def thor() -> Ai2Thor:
    return Ai2Thor(size_px=64, fov_degrees=100, step_length_m=0.25, start=FakeController)


def dynamics(**kwargs: Any) -> SceneDynamics:
    return SceneDynamics(thor(), kwargs.pop("rules", RULES), WANTED, **kwargs)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


START = SceneState(
    scene="FloorPlan1",
    x_mm=-1000,
    y_mm=901,
    z_mm=-1000,
    heading=0,
    horizon=0,
    target_id="Toaster|0",
    target_type="Toaster",
    target_x_mm=2000,
    target_z_mm=1750,
    instruction="Make toast.",
)


def test_the_simulator_starts_late_with_the_right_options() -> None:
    before = FakeController.started
    rules = dynamics()
    assert FakeController.started == before
    rules.generate(rng(), "train")
    assert FakeController.started == before + 1
    assert rules.thor._controller.options == {
        "agentMode": "default",
        "gridSize": 0.25,
        "visibilityDistance": 10.0,
        "width": 64,
        "height": 64,
        "fieldOfView": 100,
    }


@pytest.mark.parametrize(
    ("action", "call", "arguments", "changes"),
    [
        (Action.MOVE_AHEAD, "MoveAhead", {"moveMagnitude": 0.25}, {"z_mm": -750}),
        (Action.MOVE_BACK, "MoveBack", {"moveMagnitude": 0.25}, {"z_mm": -1250}),
        (Action.MOVE_RIGHT, "MoveRight", {"moveMagnitude": 0.25}, {"x_mm": -750}),
        (Action.MOVE_LEFT, "MoveLeft", {"moveMagnitude": 0.25}, {"x_mm": -1250}),
        (Action.ROTATE_RIGHT, "RotateRight", {"degrees": 90}, {"heading": 1}),
        (Action.ROTATE_LEFT, "RotateLeft", {"degrees": 90}, {"heading": 3}),
        (Action.LOOK_UP, "LookUp", {"degrees": 30}, {"horizon": -30}),
        (Action.LOOK_DOWN, "LookDown", {"degrees": 30}, {"horizon": 30}),
    ],
)
def test_each_action_is_one_call(action: Action, call: str, arguments: dict, changes: dict) -> None:
    rules = dynamics()
    following, is_effective = rules.step(START, action, rng())
    assert rules.thor._controller.calls[-1] == (call, arguments)
    assert is_effective
    assert {name: getattr(following, name) for name in changes} == changes


def test_a_refused_action_changes_nothing() -> None:
    at_the_wall = parse_scene(scene_text(START).replace('"z_mm":-1000', '"z_mm":2000'))
    assert dynamics().step(at_the_wall, Action.MOVE_AHEAD, rng()) == (at_the_wall, False)


def test_steps_are_functions_of_the_state_whatever_came_before() -> None:
    rules = dynamics()
    first, _ = rules.step(START, Action.MOVE_AHEAD, rng())
    rules.step(first, Action.ROTATE_LEFT, rng())
    rules.thor.enter("FloorPlan2")
    assert rules.step(START, Action.MOVE_AHEAD, rng()) == (first, True)
    assert rules.thor._controller.scene == "FloorPlan1"


def test_nothing_is_teleported_that_is_there_already() -> None:
    rules = dynamics()
    state = START
    for action in (Action.MOVE_AHEAD, Action.ROTATE_RIGHT, Action.MOVE_AHEAD):
        state, _ = rules.step(state, action, rng())
    assert [call for call, _ in rules.thor._controller.calls].count("TeleportFull") == 1


def test_the_oracle_walks_around_the_pillar() -> None:
    rules = dynamics()
    plan, state = rules.plan(START), START
    assert plan is not None
    for action in plan:
        assert not rules.is_over(state)
        state, is_effective = rules.step(state, action, rng())
        assert is_effective
    assert rules.is_success(state)
    # 3 m east and 2.75 m north of the start, less at most 1.41 m that remain along both axes: 4.5 m in 18 moves
    assert len(plan) == 18


def test_the_state_is_that_of_the_other_engine() -> None:
    rules = dynamics()
    view = SceneView(rules.thor, max_visible=5)
    assert view.structured(START) == {
        "target_obj_type": "Toaster",
        "target_distance_to_player": 4.07,
        "target_direction_to_player": "right",
        "visible_objects": [
            {"type": "Wall", "direction_to_player": "ahead", "distance_to_player": 3.16},
            {"type": "Toaster", "direction_to_player": "right", "distance_to_player": 4.07},
        ],
    }
    assert view.describe(START, "natural_language").startswith(
        "the toaster is to the right at 4.07 m. visible: the wall"
    )
    assert view.image(START).shape == (64, 64, 3)


def test_generated_searches_fit_the_split_and_the_band() -> None:
    rules = dynamics()
    for seed, split in enumerate(("train", "val", "test") * 3):
        state = rules.generate(rng(seed), split)
        assert scene_split(state.scene) == split == rules.level_split(rules.dump(state))
        assert state.target_type in ("Toaster", "Sofa")
        assert 5 <= rules.cost_to_go(state) <= 20 and rules._sees_target(state)
        assert state.target_type.lower() in state.instruction


def test_a_world_plays_on_it() -> None:
    rules = dynamics()
    task = NavigationTask(step_length_m=0.25, success_threshold_m=1.0, require_visible=False)
    world = World(rules, SceneView(rules.thor, max_visible=5), task, max_turns=4, max_actions_per_turn=5)
    world.set_picture_shape((64, 64, 3))
    observation, info = world.reset(seed=4)
    assert observation in world.observation_space and "Instruction: " in observation["text"]
    twin = pickle.loads(pickle.dumps(world))
    for each in (world, copy.deepcopy(world), twin):
        for response in oracle_responses(each, each.dynamics.plan(each.state)):
            _, _, terminated, _, info = each.step(response)
        assert terminated and info["success"]
    controller = rules.thor._controller
    world.close()
    world.close()
    assert controller.is_stopped and rules.thor._controller is None


def test_sight_is_asked_of_the_simulator_and_cannot_be_planned() -> None:
    rules = dynamics(rules=Rules(num_steps=1, success_cm=500, require_visible=True, fov_degrees=100))
    facing_away = parse_scene(scene_text(START).replace('"heading":0', '"heading":3'))
    assert rules.is_success(parse_scene(scene_text(START).replace('"heading":0', '"heading":1')))
    assert not rules.is_success(facing_away) and rules.plan(facing_away) is None


@pytest.mark.parametrize(
    ("scene", "split"),
    [("FloorPlan1", "train"), ("FloorPlan220", "train"), ("FloorPlan321", "val"), ("FloorPlan430_physics", "test")],
)
def test_ithor_scenes_are_split_as_their_makers_propose(scene: str, split: str) -> None:
    assert scene_split(scene) == split
    assert len(ITHOR_SCENES) == len(set(ITHOR_SCENES)) == 120


TASK = {
    "scene": "FloorPlan11",
    "instruction": "navigate to the Bread\nin the room",
    "targetObjectIds": "Bread|+01.18|+00.98|-00.34",
    "target_position": {"x": 1.18, "y": 0.98, "z": -0.34},
    "agentPose": {"position": {"x": 0.5, "y": 0.9, "z": 2.0}, "rotation": 270, "horizon": 30},
}


def write_tasks(folder: Path, *tasks: Any) -> Path:
    path = folder / "base.json"
    path.write_text(json.dumps({"tasks": tasks}), encoding="utf-8")
    return path


def test_task_files_of_embodiedbenchs_form(tmp_path: Path) -> None:
    (state,) = load_tasks(write_tasks(tmp_path, TASK))
    assert state == SceneState(
        scene="FloorPlan11",
        x_mm=500,
        y_mm=900,
        z_mm=2000,
        heading=3,
        horizon=30,
        target_id="Bread|+01.18|+00.98|-00.34",
        target_type="Bread",
        target_x_mm=1180,
        target_z_mm=-340,
        instruction="navigate to the Bread in the room",
    )
    rules = dynamics(tasks=[state])
    assert rules.generate(rng(), "train") == state
    with pytest.raises(GenerationError, match="no scene of split 'val'"):
        rules.generate(rng(), "val")


@pytest.mark.parametrize(
    "task",
    [
        {},
        None,
        {**TASK, "scene": 3},
        {**TASK, "agentPose": {}},
        {**TASK, "target_position": {"x": "far", "z": 0}},
        {**TASK, "target_position": {"x": 1e400, "z": 0}},
        {**TASK, "targetObjectIds": []},
    ],
)
def test_a_bad_task_is_explained(task: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Task 1 of task_file=|Task 1"):
        load_tasks(write_tasks(tmp_path, TASK, task))


def test_a_file_that_is_none_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task_file=.* as JSON"):
        load_tasks(tmp_path / "missing.json")
    (tmp_path / "nested.json").write_text("[" * 1500, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"task_file=.* as JSON"):
        load_tasks(tmp_path / "nested.json")
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match="at least one task"):
        load_tasks(tmp_path / "list.json")


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ("", "JSON object"),
        ("[]", "JSON object"),
        ("[" * 1500, "JSON"),
        (scene_text(START).replace('"heading":0', '"heading":7'), "heading must be 0 to 3"),
        (scene_text(START).replace('"x_mm":-1000', '"x_mm":1e3'), "lengths and angles must be integers"),
        (scene_text(START).replace("Make toast.", ""), "instruction must be one line of text"),
        (
            scene_text(START).replace('"x_mm":-1000', '"x_mm":2000').replace('"z_mm":-1000', '"z_mm":1000'),
            "must not start",
        ),
    ],
)
def test_a_bad_level_is_explained(level: str, message: str) -> None:
    with pytest.raises(LevelError, match=message):
        dynamics().load(level)


def test_levels_round_trip() -> None:
    assert dynamics().load(dynamics().dump(START)) == START
