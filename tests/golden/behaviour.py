"""Digests of what the project does: from before and after a change that is meant to change nothing.

    python -m tests.golden.behaviour record before.json      # in the one checkout
    python -m tests.golden.behaviour record after.json       # in the other
    python -m tests.golden.behaviour compare before.json after.json

Recorded are, world by world, every byte of observations, rewards and states of episodes of the oracle and of an agent
that makes mistakes; the scores of the exact judges; and the weights after two iterations of training. Weights are equal
on one machine only, with the same versions and one thread; that is why the digests are not committed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from agents.oracle import OracleAgent
from agents.rollout import rollout
from training.config.judges import JudgeConfig
from training.config.worlds.spec import WorldSpec
from training.loop.run import train
from training.recipes.shipped import RECIPES
from training.rewards.score import TurnScorer
from vlm_envs import env_ids
from vlm_envs.errors import VLMEnvsError
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Trajectory

NUM_SEEDS = 3
AGENTS: dict[str, Callable[[], OracleAgent]] = {
    "oracle": OracleAgent,
    "mistaken": lambda: OracleAgent(mistake_rate=0.4, seed=5),
}


def digest(*parts: Any) -> str:
    """Returns a short hash of texts, numbers and arrays, nested as they like."""
    hashed = hashlib.sha256()
    for part in parts:
        _feed(hashed, part)
    return hashed.hexdigest()[:16]


def _feed(hashed: Any, part: Any) -> None:
    if isinstance(part, np.ndarray):
        hashed.update(f"{part.dtype}{part.shape}".encode())
        hashed.update(np.ascontiguousarray(part).tobytes())
    elif isinstance(part, dict):
        for key in sorted(part, key=str):
            _feed(hashed, str(key))
            _feed(hashed, part[key])
    elif isinstance(part, (list, tuple)):
        for each in part:
            _feed(hashed, each)
    else:
        hashed.update(f"{type(part).__name__}:{part!r};".encode(errors="surrogatepass"))


def record() -> dict[str, str]:
    """Returns all digests by what they are of."""
    return dict([*_worlds(), *_weights()])


def _worlds() -> Iterator[tuple[str, str]]:
    for env_id in env_ids():
        for split in ("train", "test"):
            for name, make_agent in AGENTS.items():
                key = f"{env_id}/{split}/{name}"
                try:
                    played = _play(WorldSpec(env_id=env_id), make_agent(), split)
                except (VLMEnvsError, ImportError) as error:
                    yield key, f"not there: {type(error).__name__}"
                    continue
                yield key, digest([_shown(trajectory) for trajectory in played])
                yield f"{key}/scores", _scores(played)


def _play(spec: WorldSpec, agent: OracleAgent, split: str) -> list[Trajectory]:
    with spec.make_vector(NUM_SEEDS, split=split) as worlds:
        return rollout(agent, worlds, list(split_seeds(split, NUM_SEEDS)), env_ids=[spec.env_id] * NUM_SEEDS)


def _shown(trajectory: Trajectory) -> list[Any]:
    turns = [
        [
            *(turn.observation, turn.response_text, turn.reward, dict(turn.reward_terms)),
            *(turn.terminated, turn.truncated),
            *(turn.info["state_text"], turn.info["state_hash"], turn.info["metrics"]),
        ]
        for turn in trajectory.turns
    ]
    return [trajectory.start_state_hash, turns, trajectory.final_observation]


def _scores(played: list[Trajectory]) -> str:
    """Returns a digest of the exact judges' rewards, names aside; of the reason, where there is no judge."""
    try:
        scored = TurnScorer(JudgeConfig()).score(played)
    except VLMEnvsError as error:
        return f"no judge: {type(error).__name__}"
    return digest([[list(turn.rewards.values()) for turn in each.turns] for each in scored])


def _weights() -> Iterator[tuple[str, str]]:
    """Trains two short iterations of the recipes with a shipped cold start."""
    import torch
    from safetensors.torch import load_file

    for name in ("frozenlake_tiny", "sokoban_tiny"):
        with tempfile.TemporaryDirectory() as output:
            config = RECIPES[name]()
            algorithm = config.algorithm.with_critic(warmup_iterations=0, num_minibatches=2)
            config = replace(config, algorithm=algorithm, ppo=replace(config.ppo, num_minibatches=2))
            short = replace(config, name="digest", output=output, num_iterations=2, num_groups=4, group_size=2)
            directory = train(replace(short, num_eval_episodes=0, num_threads=1, device="cpu"))
            [path] = (directory / "latest" / "model").glob("*.safetensors")
            weights: dict[str, torch.Tensor] = load_file(path)
        yield f"weights/{name}", digest({key: value.numpy() for key, value in weights.items()})


def compare(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Returns a line for everything that is not the same in both."""
    return [
        f"{key}: {before.get(key, 'missing')} before, {after.get(key, 'missing')} after"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def main(words: list[str]) -> int:
    """Records or compares, as the module says."""
    if len(words) == 2 and words[0] == "record":
        Path(words[1]).write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
        return 0
    if len(words) == 3 and words[0] == "compare":
        different = compare(*(json.loads(Path(word).read_text(encoding="utf-8")) for word in words[1:]))
        print("\n".join(different) or "the same")
        return 1 if different else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
