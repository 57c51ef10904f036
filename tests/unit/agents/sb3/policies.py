"""Makes policies that nobody trained."""

from __future__ import annotations

import dataclasses
import json

import torch
from stable_baselines3 import PPO

from agents.sb3_agent import MODEL, RECORD, CellNetwork
from vlm_envs import make
from vlm_envs.discrete_world import DiscreteWorld

LAKE = "VLM/FrozenLake-v0"


def save_policy(directory, env_id, *, actions_per_response=3, seed=0, **kwargs):
    """Returns a folder with a random policy for a world."""
    directory.mkdir()
    world = DiscreteWorld(make(env_id, **kwargs), actions_per_response=actions_per_response, downscale=4, block_px=7)
    network = {"cell_px": 7, "width": 4, "num_layers": 1, "features_dim": 8}
    model = PPO(
        "CnnPolicy",
        world,
        n_steps=8,
        batch_size=8,
        seed=seed,
        device="cpu",
        policy_kwargs={"features_extractor_class": CellNetwork, "features_extractor_kwargs": network},
    )
    with torch.no_grad():
        model.policy.action_net.weight.mul_(300)  # Clear preferences, as training leaves them
    model.save(directory / MODEL)
    trained_for = {
        "env_id": env_id,
        "action_names": list(world.controls.action_names),
        "picture_shape": list(world.controls.picture_shape),
        "seeing": dataclasses.asdict(world.seeing),
        "kwargs": kwargs,
    }
    (directory / RECORD).write_text(json.dumps({"trained_for": trained_for, "seed": seed}))
    return directory
