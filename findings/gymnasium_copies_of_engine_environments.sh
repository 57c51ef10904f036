#!/usr/bin/env bash
# A deep copy or pickle of an Atari or MuJoCo environment restarts the engine and keeps the wrappers' episode.
#
# Library: gymnasium 1.4.0, ale-py 0.12.1, mujoco 4.0.0.
# Guess:   copy.deepcopy(env) in the middle of an episode, as planners and tree searches use it, continues like the
#          original, as it does for CartPole; or an environment whose engine cannot be copied raises an error.
# Seen:    neither. `EzPickle` builds a new engine from the constructor's arguments, so the copy's engine is where it was
#          before any reset, while the wrappers are copied with the episode: the order check accepts step() without
#          reset(), and TimeLimit continues to count from the original's step. There is no error or warning. The first step
#          of the copy returns other observations than the original's.
# The script fails when this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  gymnasium==1.4.0 ale-py==0.12.1 mujoco==4.0.0 "gymnasium[mujoco]==1.4.0" 2> "$folder/pip.log" || { cat "$folder/pip.log"; exit 1; }
"$folder/venv/bin/python" -W error - <<'PY'
import copy
import pickle

import ale_py
import gymnasium as gym
import numpy as np

gym.register_envs(ale_py)
NUM_STEPS = 5
COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda env: pickle.loads(pickle.dumps(env))}
EXPECTED = {"CartPole-v1": True, "ALE/Pong-v5": False, "ALE/Breakout-v5": False, "InvertedPendulum-v5": False, "Ant-v5": False}


def elapsed(env):
    return env.get_wrapper_attr("_elapsed_steps")


def continues(env_id, how):
    """Returns whether a copy made after NUM_STEPS steps sees what the original sees, over NUM_STEPS more."""
    env = gym.make(env_id, max_episode_steps=100)
    env.reset(seed=3)
    env.action_space.seed(0)
    for _ in range(NUM_STEPS):
        env.step(env.action_space.sample())
    twin = COPIES[how](env)
    assert elapsed(twin) == NUM_STEPS, "the copy's TimeLimit was reset as well"
    later = [env.action_space.sample() for _ in range(NUM_STEPS)]
    return all(np.array_equal(env.step(action)[0], twin.step(action)[0]) for action in later)


seen = {(env_id, how): continues(env_id, how) for env_id in EXPECTED for how in COPIES}
for (env_id, how), same in seen.items():
    print(f"{env_id:20} {how:9} {'continues like the original' if same else 'returns other observations, without an error'}")
assert seen == {(env_id, how): same for env_id, same in EXPECTED.items() for how in COPIES}, "copies now behave differently"
PY
