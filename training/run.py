"""From a configuration to a finished run: model, cold start if there is none, training, report."""

from __future__ import annotations

import importlib.metadata
import platform
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
from agents.hf.tiny import save_tiny
from training.checkpoint import LATEST, load_checkpoint_state, save_model
from training.config import RunConfig
from training.console import RunConsole
from training.evaluation import evaluate, mean_success
from training.report import build_report
from training.run_data import RunWriter
from training.supervised import cold_start
from training.trainer import Trainer

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
    directory = Path(config.output) / config.name
    if resume:
        iteration = load_checkpoint_state(directory / LATEST)["iteration"]
        model, encoder = load_checkpoint(directory / LATEST / "model", dtype=torch.float32)
        writer = RunWriter(directory, resume_from_iteration=iteration)
    else:
        loaded = load_checkpoint(config.model, dtype=torch.float32) if config.model else None
        writer = RunWriter(directory)
        writer.config(describe(config))
        model, encoder = loaded or make_cold_start(config, directory / "cold_start", writer)
    trainer = Trainer(config, model, encoder, directory, writer)
    if resume:
        trainer.resume()
    trainer.run()
    report = build_report(directory)
    print(f"Report: {report}\nCurves: {report.with_name('curves.png')}\nModel:  {directory / LATEST / 'model'}")
    return directory


def make_cold_start(config: RunConfig, directory: Path, writer: RunWriter | None) -> tuple[Any, ChatEncoder]:
    """Builds the tiny VLM, teaches it to imitate the oracle, and saves it.

    Args:
        config: The run; its worlds, cold start and seed are used.
        directory: Where the checkpoint goes.
        writer: Takes metrics, or None.

    Returns:
        The model and its chat format.
    """
    with tempfile.TemporaryDirectory() as untrained:
        save_tiny(untrained)
        model, encoder = load_checkpoint(untrained, dtype=torch.float32)
    started = time.monotonic()
    with RunConsole("cold start", config.cold_start.num_steps, every=50) as console:

        def on_step(step: int, metrics: dict[str, float]) -> None:
            console.advance(step, metrics, ("loss",))
            if writer is not None:
                elapsed_s = time.monotonic() - started
                writer.metrics({"iteration": step, "phase": "cold_start", "elapsed_s": elapsed_s, **metrics})

        cold_start(model, encoder, config.worlds, config.cold_start, on_step=on_step)
    agent = HFAgent(model, encoder, sampling=config.sampling, seed=config.seed)
    evaluations = [evaluate(agent, spec, split="val", num_episodes=config.num_val_episodes) for spec in config.worlds]
    print(f"cold start: validation success {mean_success(evaluations):.3f}")
    save_model(directory, model, encoder)
    return model, encoder


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
        "command": " ".join(sys.argv),
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
