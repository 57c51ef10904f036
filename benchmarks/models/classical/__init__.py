"""The classical row: stable-baselines3's PPO on pictures and named actions, to stand beside models on boards."""
