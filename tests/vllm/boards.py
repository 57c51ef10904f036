"""Boards of the tiny VLM, made by the command that users type."""

import subprocess
import sys

from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import WorldSpec
from tests.vllm.server import CHECKOUT, CHECKPOINT
from training.recipes.tiny import frozenlake_tiny
from vlm_envs.splits import split_seeds
from vlm_envs.vector.make_vec import world_vector

RECIPE = frozenlake_tiny()
(_WORLD,) = RECIPE.worlds
WORLD = f"{_WORLD.env_id}:{','.join(f'{name}={value}' for name, value in _WORLD.kwargs.items())}"
"""The world the checkpoint was made for."""

MAX_TOKENS = RECIPE.sampling.max_new_tokens
HF = f"hf:{CHECKPOINT},temperature=0,max_new_tokens={MAX_TOKENS}"
GREEDY = f"temperature=0,max_tokens={MAX_TOKENS}"


def command(out, agents, episodes):
    """Returns the command of a board without references."""
    asked = [word for agent in agents for word in ("--agent", agent)]
    return [
        *(sys.executable, "-m", "benchmarks", "run", "--no-references", *asked),
        *("--world", WORLD, "--episodes", str(episodes), "--out", str(out)),
    ]


def played(out, agents, episodes):
    """Returns a board's episodes by the agent's name, each a dictionary by seed, after the command has run."""
    done = subprocess.run(
        command(out, agents, episodes), cwd=CHECKOUT, capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return episodes_of(out)


def episodes_of(out):
    by_agent = {}
    for episode in Board(out).episodes():
        by_agent.setdefault(episode["agent"].partition(",")[0], {})[episode["seed"]] = episode
    return by_agent


def responses(episode):
    return [turn["response"] for turn in episode["turns"]]


def first_observation():
    """Returns what the first test level shows first."""
    spec = WorldSpec.parse(WORLD)
    with world_vector(spec.env_id, 1, **spec.kwargs, split="test") as worlds:
        return worlds.reset(seed=[next(split_seeds("test", 1))])[0][0]
