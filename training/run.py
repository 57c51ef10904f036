"""From a configuration to a finished run: model, cold start if there is none, training, report."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from agents.hf.agent import HFAgent, load_checkpoint
from agents.hf.chat import ChatEncoder
from agents.hf.tiny import TinyConfig, save_tiny
from training.checkpoint import LATEST, has_checkpoint, load_checkpoint_state, save_model
from training.config import RunConfig
from training.console import RunConsole
from training.evaluation import evaluate, mean_success
from training.report import build_report
from training.run_data import RunWriter
from training.score import require_answer_judge
from training.supervised import cold_start, stop_on_interrupt
from training.trainer import Trainer
from vlm_envs.errors import ConfigError


class ColdStartInterruptedError(KeyboardInterrupt):
    """Ctrl-C stopped a cold start; the message says where it is saved."""


_ROOT = Path(__file__).resolve().parent.parent
_MAY_DIFFER = {
    "checkpoint_every",
    "device",
    "eval_every",
    "model",
    "num_eval_episodes",
    "num_threads",
    "num_val_episodes",
    "output",
}
"""Settings a resumed run may change: where it runs and what is measured, not what it learns. Another number of threads
rounds sums differently, so it gives up bit-exactness; `num_iterations` is free only while the learning rates are
constant."""

_PACKAGES = ("torch", "transformers", "tokenizers", "gymnasium", "numpy", "vlm-envs")


def train(config: RunConfig, *, resume: bool = False) -> Path:
    """Runs a configuration to its end and writes the report.

    Args:
        config: The run.
        resume: Whether to go on with the run of this name from its latest checkpoint.

    Returns:
        The run's directory.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and there is no checkpoint, or `config.model` is not one.
    """
    prepare(config)
    require_answer_judge(config.judge, config.worlds)
    directory = Path(config.output) / config.name
    if resume:
        check_same_run(config, directory)
        iteration = load_checkpoint_state(directory / LATEST)["iteration"]
        model, encoder = load_for_training(directory / LATEST / "model", config)
        writer = RunWriter(directory, resume_from_iteration=iteration)
    else:
        loaded = load_for_training(config.model, config) if config.model else None
        writer = _new_writer(directory)
        writer.config(describe(config))
        model, encoder = loaded or make_cold_start(config, directory / "cold_start", writer)
    trainer = Trainer(config, model, encoder, directory, writer)
    if resume:
        trainer.resume()
    trainer.run()
    report = build_report(directory)
    print(f"Report: {report}\nCurves: {report.with_name('curves.png')}\nModel:  {directory / LATEST / 'model'}")
    return directory


def load_for_training(directory: str | Path, config: RunConfig) -> tuple[Any, ChatEncoder]:
    """Returns a checkpoint's model, on the run's device and in its type, and its chat format.

    Args:
        directory: The checkpoint; a relative path that does not exist here is looked for beside this package, where
            the recipes' own checkpoints are.
        config: Gives device and dtype.

    Raises:
        FileNotFoundError: If there is no checkpoint.
    """
    path = Path(directory)
    if not path.exists() and (_ROOT / path).exists():
        path = _ROOT / path
    model, encoder = load_checkpoint(path, dtype=getattr(torch, config.dtype))
    return model.to(_device(config)), encoder


def check_same_run(config: RunConfig, directory: Path) -> None:
    """Refuses to go on with a run under another configuration.

    Args:
        config: The configuration asked for.
        directory: The run's directory.

    Raises:
        FileNotFoundError: If there is no run.
        ConfigError: If a setting that shapes the result differs from the run's own.
    """
    path = directory / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"No run at {directory}: expected a file config.json. Start it without --resume.")
    saved = json.loads(path.read_text(encoding="utf-8"))
    wanted = json.loads(json.dumps(config.to_dict()))
    may_differ = _MAY_DIFFER | ({"num_iterations"} if config.ppo.final_learning_rate == 1.0 else set())
    differing = [name for name in wanted if name not in may_differ and saved.get(name) != wanted[name]]
    if differing:
        raise ConfigError(
            f"The run at {directory} was started with another configuration; {', '.join(differing)} differ. Give the "
            "options it was started with, or choose another --name."
        )


def _new_writer(directory: Path) -> RunWriter:
    """Returns a writer for a new run; one that never reached a checkpoint has nothing to lose and starts over."""
    if (directory / "config.json").is_file() and not has_checkpoint(directory / LATEST):
        return RunWriter(directory, resume_from_iteration=0, resume_phase="cold_start")
    return RunWriter(directory)


def _device(config: RunConfig) -> torch.device:
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(config.device)


def make_cold_start(config: RunConfig, directory: Path, writer: RunWriter | None) -> tuple[Any, ChatEncoder]:
    """Builds the tiny VLM, teaches it to imitate the oracle, and saves it.

    Args:
        config: The run; its worlds, cold start and seed are used.
        directory: Where the checkpoint goes.
        writer: Takes metrics, or None.

    Returns:
        The model and its chat format.

    Raises:
        ColdStartInterruptedError: If Ctrl-C stopped it; the model as it stands is saved all the same.
    """
    env_ids = config.tokenizer_worlds or tuple(spec.env_id for spec in config.worlds)
    with tempfile.TemporaryDirectory() as untrained:
        settings = {spec.env_id: spec.kwargs for spec in config.worlds}
        save_tiny(untrained, TinyConfig(seed=config.seed), env_ids=env_ids, settings=settings)
        model, encoder = load_for_training(untrained, config)
    started = time.monotonic()
    num_steps = config.cold_start.num_steps + config.cold_start.num_careless_steps
    with RunConsole("cold start", num_steps, every=50) as console, stop_on_interrupt() as should_stop:

        def on_step(step: int, metrics: dict[str, float]) -> None:
            console.advance(step, metrics, ("loss",))
            if writer is not None:
                elapsed_s = time.monotonic() - started
                writer.metrics({"iteration": step, "phase": "cold_start", "elapsed_s": elapsed_s, **metrics})

        num_done = cold_start(
            model,
            encoder,
            config.worlds,
            config.cold_start,
            on_step=on_step,
            should_stop=should_stop,
            seed=config.seed,
        )
    if num_done < num_steps:
        save_model(directory, model, encoder, provenance=provenance(config, None) | {"num_steps_done": num_done})
        raise ColdStartInterruptedError(
            f"Interrupted after {num_done} of {num_steps} steps of the cold start; what was learnt is saved. Train "
            f"from it with --model {directory}."
        )
    success: float | None = None
    if config.num_val_episodes:
        agent = HFAgent(model, encoder, sampling=config.sampling, seed=config.seed)
        evaluations = [
            evaluate(agent, spec, split="val", num_episodes=config.num_val_episodes) for spec in config.worlds
        ]
        success = mean_success(evaluations)
        print(f"cold start: validation success {success:.3f}")
    save_model(directory, model, encoder, provenance=provenance(config, success))
    return model, encoder


def provenance(config: RunConfig, validation_success: float | None) -> dict[str, Any]:
    """Returns what a cold start was made from, saved beside its weights.

    Args:
        config: The run.
        validation_success: What it reached, or None if that was not measured.
    """
    resolved = describe(config)
    keys = ("cold_start", "worlds", "seed", "num_val_episodes", "versions", "commit", "num_threads_used", "command")
    return {key: resolved[key] for key in keys} | {"validation_success": validation_success}


def describe(config: RunConfig) -> dict[str, Any]:
    """Returns the resolved configuration with versions, commit, machine and command."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        **config.to_dict(),
        "recipe": config.name,
        "versions": versions | {"python": platform.python_version()},
        "commit": _commit(),
        "num_threads_used": torch.get_num_threads(),
        "command": shlex.join(["python", "-m", "training", *sys.argv[1:]]),
        "started": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


def _commit() -> str:
    """Returns the checkout's commit, marked when files differ from it; `unknown` outside a checkout."""
    try:
        shown = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return shown.stdout.strip()


def prepare(config: RunConfig) -> None:
    """Sets threads and seeds, and keeps the libraries quiet and offline."""
    if config.num_threads:
        torch.set_num_threads(config.num_threads)
    torch.manual_seed(config.seed)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
