#!/usr/bin/env bash
# The image of a MuJoCo state depends on which state the environment rendered first.
#
# Library: gymnasium 1.4.0, mujoco 4.0.0, MUJOCO_GL=egl, InvertedPendulum-v5 with the default camera.
# Guess:   reset(seed=1) and render() give the same image in every environment of this id, as observations are the same.
# Seen:    the free camera looks at the center of the first state that was rendered, and keeps looking there after resets.
#          An environment that rendered seed 0 before shows seed 1 differently from a fresh one, although both have equal
#          positions and velocities. Two fresh environments show it alike.
# The script fails when this changes. It needs libEGL (Debian: libegl1) and exits with 77 where that does not load.
set -euo pipefail
python3 -c 'import ctypes; ctypes.CDLL("libEGL.so.1")' 2> /dev/null || { echo "libEGL is missing"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mujoco==4.0.0 "gymnasium[mujoco]==1.4.0" 2> "$folder/pip.log" ||
  { cat "$folder/pip.log"; exit 1; }
# Each environment renders in a process of its own, so that none can affect another's images.
cat > "$folder/show.py" <<'PY'
import sys

import gymnasium as gym

env = gym.make("InvertedPendulum-v5", render_mode="rgb_array", width=128, height=128)
for seed in map(int, sys.argv[2:]):
    env.reset(seed=seed)
    image = env.render()
state = env.unwrapped.data
open(sys.argv[1], "wb").write(image.tobytes() + state.qpos.tobytes() + state.qvel.tobytes())
PY
export MUJOCO_GL=egl
"$folder/venv/bin/python" "$folder/show.py" "$folder/fresh" 1
"$folder/venv/bin/python" "$folder/show.py" "$folder/again" 1
"$folder/venv/bin/python" "$folder/show.py" "$folder/used" 0 1
"$folder/venv/bin/python" - "$folder" <<'PY'
import sys
from pathlib import Path

import numpy as np

NUM_PIXELS = 128 * 128
fresh, again, used = (np.frombuffer(Path(sys.argv[1], name).read_bytes(), np.uint8) for name in ("fresh", "again", "used"))


def num_different(first, second):
    pixels = (first[: 3 * NUM_PIXELS] != second[: 3 * NUM_PIXELS]).reshape(NUM_PIXELS, 3)
    return int(pixels.any(axis=1).sum())


assert np.array_equal(fresh[3 * NUM_PIXELS :], used[3 * NUM_PIXELS :]), "the simulated states differ"
print(f"of {NUM_PIXELS} pixels of equal states, {num_different(fresh, again)} differ between two fresh environments and "
      f"{num_different(fresh, used)} after another episode was rendered")
assert num_different(fresh, again) == 0 < num_different(fresh, used), "images no longer depend on the first episode"
PY
