"""Make a world, look at what an agent sees, and answer once."""

import gymnasium as gym

import vlm_envs  # noqa: F401  (registers the worlds)

env = gym.make("VLM/Sokoban-v0", prompt_format="free_think")
observation, info = env.reset(seed=7)

print(observation["text"])
print("picture:", observation["image"].shape, observation["image"].dtype)

# An action is the model's whole response. This one is in the format the prompt asks for.
observation, reward, terminated, truncated, info = env.step("<think>Move.</think><answer>Up, Left</answer>")
print(observation["text"])
print("reward:", reward, "=", info["reward_terms"])

# A response that is not in the format raises nothing: it costs the format reward and is explained.
observation, reward, terminated, truncated, info = env.step("I would go left.")
print(observation["text"])
print("reward:", reward, "=", info["reward_terms"])
env.close()
