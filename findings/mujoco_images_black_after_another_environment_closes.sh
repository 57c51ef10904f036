#!/usr/bin/env bash
# Closing one rendered MuJoCo environment blackens the images of every other one in the process, without an error.
#
# Library: gymnasium 1.4.0, mujoco 4.0.0, MUJOCO_GL=egl.
# Guess:   every environment has an OpenGL context of its own, so an evaluation environment that is made, rendered, and
#          closed during training does not affect the images of the training environment.
# Seen:    from then on, render() of the training environment returns images with zeros only, through later resets too,
#          because it draws without making its context current. The simulation goes on: observations and rewards are
#          right, and no warning is given. Agents that learn from pixels would train on black images. Calling
#          `mujoco_renderer.viewer.make_context_current()` before render() brings the images back.
# The script fails when this changes. It needs libEGL (Debian: libegl1) and exits with 77 where that does not load.
set -euo pipefail
python3 -c 'import ctypes; ctypes.CDLL("libEGL.so.1")' 2> /dev/null || { echo "libEGL is missing"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mujoco==4.0.0 "gymnasium[mujoco]==1.4.0" 2> "$folder/pip.log" ||
  { cat "$folder/pip.log"; exit 1; }
MUJOCO_GL=egl "$folder/venv/bin/python" - <<'PY'
import gymnasium as gym


def made():
    return gym.make("InvertedPendulum-v5", render_mode="rgb_array", width=128, height=128)


training = made()
training.reset(seed=0)
before = int(training.render().max())
evaluation = made()
evaluation.reset(seed=5)
evaluation.render()
beside = int(training.render().max())
evaluation.close()
after = int(training.render().max())
training.reset(seed=3)
later = int(training.render().max())
training.unwrapped.mujoco_renderer.viewer.make_context_current()
current = int(training.render().max())
print(f"brightest value of the training environment's image: {before}; beside an evaluation environment {beside}; "
      f"after that was closed {after}; in the next episode {later}; with its context current {current}")
assert before > 100 and beside > 100 and after == later == 0 and current > 100, "environments now keep their images"
PY
