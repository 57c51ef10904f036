"""How a run's weights are updated: PPO's settings, what an algorithm decides itself, LoRA, and the memory it takes."""
