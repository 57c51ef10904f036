"""Who is measured: an agent with its settings, what it is called, and what tells it from every other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.agent import Agent, AsyncAgent
from agents.registry import make_agent, setting_names
from benchmarks.models.spec import AgentSpec, digest_of
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record

REFERENCES = ("random", "lazy", "oracle")
"""Agents that stand on every board, so that a number says something."""

BATCH = 32
"""Episodes that agents which answer in batches play side by side."""


@dataclass(kw_only=True)
class Contestant:
    """An agent on a board.

    Attributes:
        label: What the board calls it.
        identity: Everything that decides what it does, JSON only.
        agent: The agent.
        num_parallel: Episodes side by side.
    """

    label: str
    identity: Record
    agent: Agent
    num_parallel: int = BATCH
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        self.digest = digest_of(self.identity)

    def record(self) -> Record:
        """Returns it as the board stores it."""
        return {"label": self.label, "identity": self.identity, "digest": self.digest}

    def close(self) -> None:
        """Lets go of connections, if the agent has any."""
        if callable(close := getattr(self.agent, "close", None)):
            close()


def contestants(texts: Sequence[str], *, references: bool = True) -> list[Contestant]:
    """Returns agents by what they are asked for, and the ones that are always there.

    Args:
        texts: Each such as `openai:gpt-4.1,history=last_images:4`.
        references: Whether to add random, lazy and oracle.

    Raises:
        ConfigError: If there is no such agent, or two have one name.
    """
    asked = [AgentSpec.parse(text) for text in texts]
    named = {spec.name for spec in asked if not spec.settings}
    asked += [AgentSpec(name=name) for name in REFERENCES if references and name not in named]
    labels = [spec.label for spec in asked]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise ConfigError(f"--agent {twice} is there twice.")
    return [_contestant(spec) for spec in asked]


def _contestant(spec: AgentSpec) -> Contestant:
    settings = dict(spec.settings)
    if "sampling" in setting_names(spec.name):
        from agents.hf.sampling import SamplingConfig

        drawn = {name: settings.pop(name) for name in SamplingConfig.__dataclass_fields__ if name in settings}
        settings["sampling"] = SamplingConfig(**drawn)
    agent = make_agent(spec.name, **settings)
    identity = {"name": spec.name, "settings": dict(spec.settings), **getattr(agent, "identity", {})}
    kind, _, part = spec.name.partition(":")
    if kind == "hf":
        identity |= {"name": kind, "weights": _weights_digest(Path(part))}
    num_parallel = getattr(agent, "num_parallel", BATCH) if isinstance(agent, AsyncAgent) else BATCH
    return Contestant(label=spec.label, identity=identity, agent=agent, num_parallel=num_parallel)


def _weights_digest(directory: Path) -> str:
    """Returns a hash of a checkpoint's files, so that a board notices when they were trained on."""
    digest = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        if path.suffix in (".safetensors", ".json"):
            digest.update(path.name.encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
