"""Digests of what the project does: from before and after a change that is meant to change nothing.

    python -m tests.golden.behaviour record before.json [--parts NAME ...]   # in the one checkout
    python -m tests.golden.behaviour record after.json                       # in the other
    python -m tests.golden.behaviour compare before.json after.json

`record` covers, for every world, each byte of observations, rewards, and states in episodes of the oracle and of an
agent that makes mistakes; the scores of the exact judges; the weights after two training iterations; the tokens,
rewards, endings, and questions of every kind of rollout; the names that packages export and that the API reference
lists; and the options of every command and recipe. Weights agree only on one machine, with the same versions and one
thread, so no digest is committed. `--parts names options` records parts alone.

To record an older revision, run this file with its packages: `PYTHONPATH=DIR python tests/golden/behaviour.py ...`
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from agents.oracle import OracleAgent
from agents.rollout import rollout
from training.config.judge_config import JudgeConfig
from training.config.world_spec import WorldSpec
from training.recipes.shipped import RECIPES
from training.rewards.turn_scores import TurnScorer
from training.run import train
from vlm_envs import env_ids
from vlm_envs.errors import VLMEnvsError
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Trajectory

PACKAGES = ("vlm_envs", "agents", "judges", "training", "benchmarks")
API_PAGES = Path(__file__).resolve().parents[2] / "docs" / "api"
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


def record(parts: Sequence[str] = ()) -> dict[str, str]:
    """Return digests, names, and options by what they describe; of all parts if none is named."""
    return dict(item for part in parts or PARTS for item in PARTS[part]())


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
            *(turn.observation, turn.response_text, turn.reward, dict(turn.info["reward_terms"])),
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


def _rollouts() -> Iterator[tuple[str, str]]:
    """Plays one iteration of 64 episodes with each kind of rollout, of workers, and of judge.

    In asynchronous rollouts with worker processes, who is batched with whom depends on timing, and so do the last bits
    of log-probabilities; only tokens, rewards, endings, and questions must agree there.
    """
    for kind in ("barrier", "async"):
        for workers in ("serial", "process"):
            for has_judge in (False, True):
                key = f"rollouts/{kind}/{workers}/{'judge' if has_judge else 'no judge'}"
                yield from (
                    (f"{key}/{name}", value) for name, value in _one_iteration(kind, workers, has_judge).items()
                )


def _one_iteration(kind: str, workers: str, has_judge: bool) -> dict[str, str]:
    """Returns digests of the batch of one iteration, and of what its judge was asked."""
    from agents.api.endpoint_config import EndpointConfig
    from tests.unit.agents.api.endpoint import YES, FakeEndpoint
    from training.update.learner import Learner

    batches: list[Any] = []

    def record_batch(learner: Learner, batch: Any, *args: Any, **kwargs: Any) -> dict[str, float]:
        batches.append(batch)
        return {}

    config = RECIPES["frozenlake_tiny"]()
    worlds = tuple(replace(world, workers=workers, num_workers=2) for world in config.worlds)
    with (
        FakeEndpoint() as judge,
        tempfile.TemporaryDirectory() as output,
        patch.object(Learner, "update", record_batch),
    ):
        judge.answer = lambda messages: YES if digest(messages) < "8" else YES.replace("YES", "NO")
        if has_judge:
            endpoint = EndpointConfig(model="judge", base_url=judge.base_url, api_key_variable="")
            worlds = tuple(
                replace(world, kwargs={**world.kwargs, "representation": "natural_language"}) for world in worlds
            )
            config = replace(config, judge=JudgeConfig(method="direct", endpoint=endpoint, repetition_penalty=0.1))
        algorithm = config.algorithm.with_critic(warmup_iterations=0)
        config = replace(config, name="digest", output=output, rollout=kind, worlds=worlds, algorithm=algorithm)
        train(
            replace(
                config, num_iterations=1, num_groups=8, group_size=8, num_eval_episodes=0, num_threads=1, device="cpu"
            )
        )
        asked = sorted(digest(request["messages"]) for request in judge.requests)
    [batch] = batches
    is_exact = (kind, workers) != ("async", "process")
    return {
        "tokens": digest(batch.input_ids_BT.numpy(), batch.turn_index_BT.numpy()),
        "rewards": digest(batch.turn_rewards_BK.numpy(), batch.trainable_B.numpy()),
        "endings": digest(batch.terminated_B.numpy(), batch.has_final_B.numpy()),
        "questions": f"{len(asked)}:{digest(asked)}",
        **({"logprobs": digest(batch.sampler_logprobs_BT.numpy())} if is_exact else {}),
    }


def _names() -> Iterator[tuple[str, str]]:
    """Yields what each package exports, and whether each name of the API reference can be imported."""
    for package in PACKAGES:
        for name in [package, *_packages_within(package)]:
            yield f"exports/{name}", " ".join(_exported(importlib.import_module(name)))
    for page in sorted(API_PAGES.glob("*.rst")):
        for kind, name in re.findall(r"^\.\. auto(\w+):: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            yield f"names/{name}", "there" if _can_be_imported(name, is_module=kind == "module") else "missing"


def _packages_within(package: str) -> list[str]:
    paths = importlib.import_module(package).__path__
    return sorted(found.name for found in pkgutil.walk_packages(paths, f"{package}.") if found.ispkg)


def _exported(module: Any) -> list[str]:
    """Returns `__all__`, or the public names that a package's own file binds to anything but modules."""
    names = getattr(module, "__all__", None)
    if names is not None:
        return sorted(names)
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return sorted(name for name, value in public.items() if not isinstance(value, type(sys)) and name != "annotations")


def _can_be_imported(name: str, *, is_module: bool) -> bool:
    module, _, attribute = (name, "", "") if is_module else name.rpartition(".")
    try:
        imported = importlib.import_module(module)
    except ImportError:
        return False
    return is_module or hasattr(imported, attribute)


def _options() -> Iterator[tuple[str, str]]:
    """Yields the options that the help of each command and recipe lists."""
    commands = [f"{package} {command}" for package in PACKAGES for command in _commands(package)]
    commands += [f"training {recipe}" for recipe in RECIPES]
    with ThreadPoolExecutor(2) as pool:
        for command, options in zip(commands, pool.map(_listed_options, commands), strict=True):
            yield f"options/{command}", " ".join(options)


def _commands(package: str) -> list[str]:
    commands = _help(package, "--help").partition("\ncommands:")[2]
    return re.findall(r"^  (\w+)  ", commands, re.MULTILINE)


def _listed_options(command: str) -> list[str]:
    for word in ("--help-all", "--help"):
        text = _help(*command.split(), word)
        if text:
            return sorted(set(re.findall(r"(?<![\w-])--[a-z][\w.-]*", text)) - {"--help", "--help-all"})
    return []


def _help(*words: str) -> str:
    """Returns what a command prints; nothing where it fails."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200", "PYTHONWARNINGS": "ignore"}
    run = subprocess.run([sys.executable, "-m", *words], env=environment, capture_output=True, text=True, check=False)
    return run.stdout if run.returncode == 0 else ""


PARTS: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "worlds": _worlds,
    "weights": _weights,
    "rollouts": _rollouts,
    "names": _names,
    "options": _options,
}


def compare(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return a line for everything that differs; of lists of names, those that are in one only."""
    return [
        f"{key}: {_difference(before.get(key, 'missing'), after.get(key, 'missing'))}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _difference(before: str, after: str) -> str:
    old, new = set(before.split()), set(after.split())
    if len(old) <= 1 and len(new) <= 1:
        return f"{before} before, {after} after"
    only = (("only before", sorted(old - new)), ("only after", sorted(new - old)))
    return "; ".join(f"{when}: {' '.join(names)}" for when, names in only if names)


def main(argv: list[str] | None = None) -> int:
    """Record or compare; return 1 if what is compared differs."""
    parser = argparse.ArgumentParser(description="Record what the project does, or compare two records.")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=())
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args(argv)
    if options.command == "record":
        options.file.write_text(json.dumps(record(options.parts), indent=1) + "\n", encoding="utf-8")
        return 0
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (options.before, options.after))
    different = compare(before, after)
    print("\n".join(different) or "the same")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
