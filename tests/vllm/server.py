"""A vLLM server in a process and an environment of its own; it serves the shipped cold start of `frozenlake_tiny`."""

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.vllm import keeper

CHECKOUT = Path(__file__).parents[2]
PYTHON = CHECKOUT / ".venv-vllm" / "bin" / "python"
CHECKPOINT = CHECKOUT / "training" / "recipes" / "checkpoints" / "frozenlake_tiny"
START_S = 300.0


class VLLMServer:
    """Started by entering; killed, with all of its processes, by leaving or by `kill`, after which `start` may follow.

    Args:
        log: File of what it says.
        options: Further options of its command line.
    """

    def __init__(self, log, *options):
        self.log, self.options, self.port = log, options, free_port()
        self._process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        self.kill()

    def start(self):
        """Returns once it answers."""
        command = [
            *(str(PYTHON), "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(CHECKPOINT), "--served-model-name", "tiny", "--dtype", "float32", "--enforce-eager"),
            *("--max-model-len", "2048", "--limit-mm-per-prompt", '{"image": 4}', "--gpu-memory-utilization", "0.3"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            # Lets us look at the tokens of a prompt, and at what came from its cache
            *("--enable-scale-out", "--enable-prompt-tokens-details", *self.options),
        ]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VLLM_"))}
        environment = kept | {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
        # For `agents.vllm`: its endpoints, and what its workers import
        environment |= {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": str(CHECKOUT)}
        with self.log.open("ab") as log:
            # From another folder: here `vllm` would be the one of these tests
            # Kept, for what is killed cannot remove what it has in memory
            kept = [str(PYTHON), "-P", keeper.__file__, str(os.getpid()), str(self.log.parent / "none"), *command]
            self._process = subprocess.Popen(
                kept, cwd=self.log.parent, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_S
        while not self._is_up():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"vLLM did not start; its last words:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.5)

    def kill(self):
        """Ends it at once, by its keeper's SIGKILL, without a chance to say anything to anybody."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.wait()
        self._process = None

    def signal(self, number):
        """Sends a signal to all of its processes."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        for leader in children.read_text().split() if children.exists() else ():
            for pid in keeper.session(int(leader)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def post(self, path, body):
        """Returns the answer to a request that no official package makes."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def _is_up(self):
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"{self.url}/health", timeout=5),
        ):
            return True
        return False


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
