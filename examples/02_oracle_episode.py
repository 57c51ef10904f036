"""Play a perfect episode with the world's own planner and save its images side by side.

Run: python examples/02_oracle_episode.py [FILE.png]
"""

import sys

import gymnasium as gym
import numpy as np
from PIL import Image

import vlm_envs  # noqa: F401  (registers the worlds)

env = gym.make("VLM/FrozenLake-v0", prompt_format="no_think")
world = env.unwrapped
observation, info = env.reset(seed=3)
plan = world.dynamics.plan(world.state)
pictures, total_reward = [observation["image"]], 0.0

for start in range(0, len(plan), world.max_actions_per_turn):
    response = world.write_response(plan[start : start + world.max_actions_per_turn])
    observation, reward, terminated, truncated, info = env.step(response)
    pictures.append(observation["image"])
    total_reward += reward
    print(f"{response}  reward {reward:+.1f}  actions left {world.optimal_actions_left()}")

print(f"solved: {info['success']}, return {total_reward:.1f}")
if len(sys.argv) > 1:
    Image.fromarray(np.concatenate(pictures, axis=1)).save(sys.argv[1])
    print("saved", sys.argv[1])
env.close()
