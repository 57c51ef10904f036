"""vLLM in a process of its own on this machine: a server that is started here, and started anew where it died."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
from torch import Tensor

from agents.hf.chat import ChatEncoder
from agents.hf.sampling import SamplingConfig
from agents.vllm.config import VLLMConfig
from agents.vllm.engine import scheduling
from agents.vllm.errors import SamplerLostError
from agents.vllm.installed import require_vllm
from agents.vllm.server import ServerEngine
from agents.vllm.weights import write_weights

_MEMORY = Path("/dev/shm")
_START_S = 900.0
_PAUSE_S = 0.5
_PR_SET_PDEATHSIG = 1


class ProcessEngine(ServerEngine):
    """A `VLLMEngine` in a process of its own, whose weights go through a file in the memory's file system.

    Args:
        config: What it may take.
        model: What is sampled; its weights as they are now are loaded.
        encoder: Its chat format.
        sampling: How responses are drawn.
        max_context_tokens: Most tokens of a conversation.

    Raises:
        EngineUnavailableError: If vLLM is not installed.
        SamplerLostError: If it does not start.
    """

    def __init__(
        self, config: VLLMConfig, model: Any, encoder: ChatEncoder, sampling: SamplingConfig, *, max_context_tokens: int
    ) -> None:
        require_vllm()
        # A file in memory is written and read at once; on a disk it would be neither
        self._folder = tempfile.TemporaryDirectory(
            prefix="vlm-envs-vllm-", dir=_MEMORY if _MEMORY.is_dir() else None, ignore_cleanup_errors=True
        )
        directory = Path(self._folder.name)
        model.config.save_pretrained(directory)
        encoder.save_processor(directory)
        write_weights(directory, model.state_dict())
        self._port = _free_port()
        self._command = _command(config, directory, self._port, str(model.dtype), max_context_tokens)
        self._process: subprocess.Popen[bytes] | None = None
        own = replace(
            config, process="same", url=f"http://127.0.0.1:{self._port}", weights_dir=str(directory), wait_s=0.0
        )
        atexit.register(self._kill)
        try:
            self._start()
            super().__init__(own, encoder, sampling, max_context_tokens=max_context_tokens)
        except BaseException:
            self._kill()
            raise

    def load(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Has it take weights; a process that is gone is started anew for them.

        Raises:
            SamplerLostError: If it does not start.
        """
        if self._process is None or self._process.poll() is not None:
            self._start()
        super().load(weights, version)

    def close(self) -> None:
        """Ends the process."""
        super().close()
        self._kill()
        atexit.unregister(self._kill)
        self._folder.cleanup()

    def _start(self) -> None:
        """Returns once it answers."""
        self._kill()
        # It neither binds the cores that the update runs on nor looks for anything on the network
        defaults = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        environment = {**defaults, **os.environ, "VLLM_SERVER_DEV_MODE": "1"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder.name,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        deadline = time.monotonic() + _START_S
        while not self._is_up():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._kill()
                words = self._log.read_text(errors="replace")[-3000:]
                raise SamplerLostError(
                    f"vLLM did not start. Its last words:\n{words}\n--vllm.memory-fraction is the share of the memory "
                    "it may take; on a CPU VLLM_CPU_KVCACHE_SPACE is what its cache may, in GiB."
                )
            time.sleep(_PAUSE_S)

    @property
    def _log(self) -> Path:
        return Path(self._folder.name) / "log.txt"

    def _is_up(self) -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            url = f"http://127.0.0.1:{self._port}/health"
            return httpx2.get(url, timeout=5, trust_env=False).status_code == httpx2.codes.OK
        return False

    def _kill(self) -> None:
        """Ends it and all that it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None


def _command(config: VLLMConfig, directory: Path, port: int, dtype: str, max_context_tokens: int) -> list[str]:
    limits = {f"--{name.replace('_', '-')}": str(value) for name, value in scheduling(max_context_tokens).items()}
    return [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port)),
        *("--model", str(directory), "--dtype", dtype.removeprefix("torch."), "--seed", "0"),
        *("--max-model-len", str(max_context_tokens), "--gpu-memory-utilization", str(config.memory_fraction)),
        *("--limit-mm-per-prompt", json.dumps({"image": config.max_images, "video": 0})),
        *("--enable-scale-out", "--logprobs-mode", "processed_logprobs", "--no-mm-device-do-normalize"),
        *(word for limit in limits.items() for word in limit),
        *(() if config.compiles else ("--enforce-eager",)),
    ]


def _end_with_parent() -> None:
    """Has Linux, where vLLM runs, ask this process to end when its parent is gone, however that ended (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
