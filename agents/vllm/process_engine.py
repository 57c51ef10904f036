"""vLLM in a process of its own on this machine: a server that is started here, and started anew where it died."""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
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

from agents.api.transport import trusted
from agents.hf.chat import ChatEncoder
from agents.hf.sampling_config import SamplingConfig
from agents.vllm import keeper
from agents.vllm.server_engine import ServerEngine
from agents.vllm.vllm_config import SamplerLostError, VLLMConfig, require_vllm
from agents.vllm.vllm_engine import WEIGHTS, scheduling

_logger = logging.getLogger(__name__)

_START_S, _END_S = 900.0, 60.0
_PAUSE_S = 0.5
_LAUNCHERS = (
    *("ACCELERATE_", "FSDP_", "TORCHELASTIC_", "MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "GROUP_RANK"),
    *("ROLE_RANK", "ROLE_NAME", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"),
)
"""How variables begin by which processes of a run find each other; vLLM would look for them, too."""


class ProcessEngine(ServerEngine):
    """A `VLLMEngine` in a process of its own, whose weights go through a file in the memory's file system.

    It lives no longer than this process, whatever ends that, and leaves nothing; see `agents.vllm.keeper`.

    Args:
        config: What it may take.
        model: What is sampled; `load` gives it its weights.
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
            prefix="vlm-envs-vllm-", dir=keeper.MEMORY if keeper.MEMORY.is_dir() else None, ignore_cleanup_errors=True
        )
        directory = Path(self._folder.name)
        model.config.save_pretrained(directory)
        encoder.save_processor(directory)
        self._command = _command(config, directory, str(model.dtype), max_context_tokens)
        self._environment = _environment(model)
        self._process: subprocess.Popen[bytes] | None = None
        own = replace(config, process="same", url="http://localhost", weights_dir=str(directory), wait_s=0.0)
        atexit.register(self._kill)
        try:
            self._start()
            super().__init__(own, encoder, sampling, max_context_tokens=max_context_tokens, socket=_socket(directory))
        except BaseException:
            self._kill()
            raise

    def load(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Has it take weights; a process that is gone, or does not answer, is started anew for them.

        Raises:
            SamplerLostError: If it does not start.
        """
        try:
            if self._process is None or self._process.poll() is not None:
                self._start_anew("it is gone")
            try:
                super().load(weights, version)
            except SamplerLostError as error:
                self._start_anew(str(error))
                super().load(weights, version)
        finally:  # They are the size of the model, and vLLM has them
            (Path(self._folder.name) / WEIGHTS).unlink(missing_ok=True)

    def _give(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Has it take weights; it was started without any."""
        self._call("update_config", kwargs={"overrides": {"load_config": {"load_format": "safetensors"}}})
        super()._give(weights, version)

    def close(self) -> None:
        """Ends the process."""
        self._kill()
        super().close()
        atexit.unregister(self._kill)
        self._folder.cleanup()

    def _start_anew(self, why: str) -> None:
        _logger.warning("vLLM's process is started anew: %s", why)
        self._start()

    def _start(self) -> None:
        """Returns once it answers."""
        self._kill()
        directory = Path(self._folder.name)
        _socket(directory).unlink(missing_ok=True)
        kept = [sys.executable, "-P", keeper.__file__, str(os.getpid()), str(directory)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*kept, *self._command],
                cwd=directory,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
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
        path = str(_socket(Path(self._folder.name)))
        with socket.socket(socket.AF_UNIX) as tried:
            if tried.connect_ex(path) != 0:
                return False
        way = httpx2.HTTPTransport(uds=path, verify=trusted(trust_env=False))
        with contextlib.suppress(httpx2.HTTPError), httpx2.Client(transport=way, trust_env=False) as asked:
            return asked.get("http://localhost/health", timeout=5).status_code == httpx2.codes.OK
        return False

    def _kill(self) -> None:
        """Ends it and all that it started; its keeper sees to it, and to what it leaves in memory."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()  # vLLM is asked to end by Linux then
                self._process.wait()
        self._process = None


def _socket(directory: Path) -> Path:
    """Returns where it is asked: nobody else on the machine can, and no two runs ever take the same port."""
    return directory / "socket"


def _environment(model: Any) -> dict[str, str]:
    """Returns the environment of vLLM beside a model: its GPU is the model's, and it is alone."""
    # It neither binds the cores that the update runs on nor looks for anything on the network
    defaults = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHERS)}
    environment = {**defaults, **kept, "VLLM_SERVER_DEV_MODE": "1"}
    if model.device.type == "cuda":
        index, known = model.device.index or 0, os.environ.get("CUDA_VISIBLE_DEVICES")
        environment["CUDA_VISIBLE_DEVICES"] = known.split(",")[index] if known else str(index)
    return environment


def _command(config: VLLMConfig, directory: Path, dtype: str, max_context_tokens: int) -> list[str]:
    limits = {f"--{name.replace('_', '-')}": str(value) for name, value in scheduling(max_context_tokens).items()}
    return [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--uds", str(_socket(directory))),
        *("--model", str(directory), "--dtype", dtype.removeprefix("torch."), "--seed", "0"),
        *("--load-format", "dummy"),
        *("--max-model-len", str(max_context_tokens), "--gpu-memory-utilization", str(config.memory_fraction)),
        *("--limit-mm-per-prompt", json.dumps({"image": config.max_images, "video": 0})),
        *("--enable-scale-out", "--logprobs-mode", "processed_logprobs", "--no-mm-device-do-normalize"),
        *(word for limit in limits.items() for word in limit),
        *(() if config.compiles else ("--enforce-eager",)),
    ]
