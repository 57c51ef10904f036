#!/usr/bin/env bash
# Held-out seeds of common MiniGrid environments are no held-out levels: few distinct levels exist.
#
# Library: minigrid 3.2.0, gymnasium 1.4.0.
# Guess:   DoorKey, Memory, and the crossings place walls, doors, keys, and the agent at random, so 1,000 seeds give
#          hundreds of distinct levels, and training on seeds 0 to 999 and testing on 1,000 to 1,999 tests new levels.
# Seen:    distinct levels (grid, position, direction, and mission) in 2,000 seeds: LavaGapS5 3, MemoryS7 16, DoorKey-5x5 48,
#          SimpleCrossingS9N1 and LavaCrossingS9N1 42, DoorKey-6x6 671. In all but the last, every level of the second
#          thousand occurs in the first; in DoorKey-6x6, 329 of 504. FourRooms has 2,000 and shares none.
# The script fails when this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check minigrid==3.2.0 gymnasium==1.4.0 2> "$folder/pip.log" ||
  { cat "$folder/pip.log"; exit 1; }
"$folder/venv/bin/python" - 2> /dev/null <<'PY'
import gymnasium as gym
import minigrid  # registers the environments

NUM_SEEDS = 1000
# Environment: distinct levels in both thousands, distinct levels in the second, and how many of these are in the first.
EXPECTED = {
    "MiniGrid-LavaGapS5-v0": (3, 3, 3),
    "MiniGrid-MemoryS7-v0": (16, 16, 16),
    "MiniGrid-DoorKey-5x5-v0": (48, 48, 48),
    "MiniGrid-SimpleCrossingS9N1-v0": (42, 42, 42),
    "MiniGrid-LavaCrossingS9N1-v0": (42, 42, 42),
    "MiniGrid-DoorKey-6x6-v0": (671, 504, 329),
    "MiniGrid-FourRooms-v0": (2000, 1000, 0),
}


def levels(env, seeds):
    world, found = env.unwrapped, set()
    for seed in seeds:
        env.reset(seed=seed)
        position, direction = tuple(map(int, world.agent_pos)), int(world.agent_dir)
        found.add((world.grid.encode().tobytes(), position, direction, world.mission))
    return found


seen = {}
for env_id in EXPECTED:
    env = gym.make(env_id)
    train, test = levels(env, range(NUM_SEEDS)), levels(env, range(NUM_SEEDS, 2 * NUM_SEEDS))
    seen[env_id] = len(train | test), len(test), len(train & test)
    print(f"{env_id}: {len(train | test)} levels; {len(train & test)} of {len(test)} held-out ones occur in training")
raise SystemExit(seen != EXPECTED)
PY
