#!/usr/bin/env bash
# A ManiSkill environment changes the image format of all SAPIEN cameras that its process adds later, after its close() too.
#
# Library: mani_skill 3.0.1, sapien 3.0.3, gymnasium 1.4.0, torch 2.13.0; needs a software Vulkan driver (Mesa 25).
# Guess:   an environment keeps its renderer's settings to itself, so a plain SAPIEN camera in a scene of one's own returns
#          float32 colors from 0 to 1 before and after.
# Seen:    before, get_picture("Color") is float32 with a largest value of 1; for a camera added after the environment was
#          closed, it is uint8 up to 255, so code that multiplies by 255 and clips draws white. The camera added before
#          keeps float32.
# The script fails when this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 2> "$folder/pip.log" &&
  "$folder/venv/bin/pip" install --quiet --disable-pip-version-check mani_skill==3.0.1 sapien==3.0.3 gymnasium==1.4.0 \
    'setuptools<81' 2>> "$folder/pip.log" || { cat "$folder/pip.log"; exit 1; }
"$folder/venv/bin/python" - 2> /dev/null <<'PY'
import gymnasium as gym
import sapien

scene = sapien.Scene([sapien.physx.PhysxCpuSystem(), sapien.render.RenderSystem(sapien.Device("cpu"))])
scene.set_ambient_light([1.0, 1.0, 1.0])
builder = scene.create_actor_builder()
builder.add_box_visual(half_size=[0.2, 0.2, 0.2])
builder.set_initial_pose(sapien.Pose([1.0, 0.0, 0.0]))
builder.build_static()


def color(camera):
    scene.update_render()
    camera.take_picture()
    picture = camera.get_picture("Color")
    return str(picture.dtype), float(picture.max())


before = scene.add_camera("before", 32, 32, 1.0, 0.05, 6.0)
seen = [color(before)]

import mani_skill.envs  # registers the environments

env = gym.make("PickCube-v1", obs_mode="state", sim_backend="physx_cpu", render_backend="cpu")
env.reset(seed=0)
env.close()
after = scene.add_camera("after", 32, 32, 1.0, 0.05, 6.0)
seen += [color(before), color(after)]
for name, (dtype, largest) in zip(["before", "before, drawn again", "after"], seen):
    print(f"camera added {name}: {dtype}, largest value {largest:g}")
raise SystemExit([dtype for dtype, _ in seen] != ["float32", "float32", "uint8"] or seen[2][1] <= 1)
PY
