"""A vLLM server, here or on another machine, that is asked over HTTP: tokens and processed pictures in, tokens out.

Source: vLLM 0.32, `vllm.entrypoints.scale_out.token_in_token_out` (`/inference/v1/generate`, behind
`--enable-scale-out`) and the endpoints of its development mode (`/server_info`, `/collective_rpc`,
`/update_weight_version`).
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

import httpx2
import safetensors.torch
from torch import Tensor

from agents.hf.chat import ChatEncoder
from agents.hf.conversations import SampledResponse
from agents.hf.sampling import SamplingConfig
from agents.trust import trusted
from agents.vllm.config import VLLMConfig
from agents.vllm.engine import Request, sampling_params
from agents.vllm.errors import SamplerLostError
from agents.vllm.installed import require_msgpack
from agents.vllm.pictures import encoded_picture, picture_key
from agents.vllm.responses import ServerResponses, told
from agents.vllm.weights import parts, write_weights
from vlm_envs.errors import ConfigError

_logger = logging.getLogger(__name__)

RECEIVER = "agents.vllm.worker.WeightReceiver"
OPTIONS = "--enable-scale-out --logprobs-mode processed_logprobs --no-mm-device-do-normalize"
"""What a server has to be started with."""
CHECKOUT = Path(__file__).parents[2]
"""Where a server finds it, if it is on this machine."""
_PART_BYTES = 64 * 2**20
"""Weights that are sent in one piece, about."""
_FROM_A_GATEWAY = (httpx2.codes.BAD_GATEWAY, httpx2.codes.SERVICE_UNAVAILABLE, httpx2.codes.GATEWAY_TIMEOUT)
"""What is answered in place of a server that is being started."""
_PAUSE_S = 2.0
_MOMENT_S = 0.01
_IDLE_S = 1.0
"""How long a connection that nobody uses is kept. vLLM ends one after five seconds, httpx's own default, and a request
that is sent on it at that moment is lost."""


class ServerEngine:
    """A `VLLMEngine` that is a server.

    Args:
        config: With its address.
        encoder: The chat format of the model that it serves.
        sampling: How responses are drawn.
        max_context_tokens: Most tokens of a conversation.
        socket: Where it listens on this machine, in place of its address.

    Raises:
        EngineUnavailableError: If a package is not installed here.
        ConfigError: If the server is not one that can be trained with; the message says how to start it.
        SamplerLostError: If there is none.
    """

    def __init__(
        self,
        config: VLLMConfig,
        encoder: ChatEncoder,
        sampling: SamplingConfig,
        *,
        max_context_tokens: int,
        socket: Path | None = None,
    ) -> None:
        assert config.url is not None, "a server has an address"
        require_msgpack()
        self.version = ""
        self._config, self._params = config, sampling_params(encoder, sampling)
        self._max_context_tokens = max_context_tokens
        limits = httpx2.Limits(
            max_connections=config.max_parallel,
            max_keepalive_connections=config.max_parallel,
            keepalive_expiry=_IDLE_S,
        )
        # Asked as it is named: a proxy of the environment is for other hosts
        shared: dict[str, Any] = {"base_url": config.url.rstrip("/"), "limits": limits, "trust_env": False}
        verify = trusted(trust_env=False)
        way = None if socket is None else httpx2.AsyncHTTPTransport(uds=str(socket), limits=limits, verify=verify)
        http = httpx2.AsyncClient(timeout=None, transport=way, verify=verify, **shared)
        self._responses = ServerResponses(config, http)
        self._asked: dict[str, Future[SampledResponse]] = {}
        self._pictures: dict[bytes, str] = {}
        self._waited_for(self._require_usable)

    def load(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Has the server take weights, by vLLM's `reload_weights`, through the shared folder or over HTTP.

        One that does not answer is waited for and is given all of them again: what it had before is lost.

        Raises:
            ConfigError: If it was started anew with other options.
            SamplerLostError: If it cannot be reached, or refuses.
        """
        if self._config.weights_dir is not None:
            directory = Path(self._config.weights_dir)
            directory.mkdir(parents=True, exist_ok=True)
            write_weights(directory, weights)
        self._waited_for(lambda: self._give(weights, version))
        self.adopt(version)

    def adopt(self, version: str) -> None:
        """Samples from here on with weights that another process had the server take."""
        self.version = version
        self._pictures = {}
        self._responses.forget_silence()

    def _give(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Has a server that answers take weights.

        No step of it waits for the server: one that was started anew in between, which takes it longer than the time
        from step to step, would have lost those before.
        """
        self._require_usable()
        if self._config.weights_dir is not None:
            path = str(Path(self._config.weights_dir).absolute())
            self._call("reload_weights", kwargs={"weights_path": path})
        else:
            pieces = list(parts(weights, _PART_BYTES))
            for number, piece in enumerate(pieces, 1):
                text = base64.b64encode(safetensors.torch.save(piece)).decode("ascii")
                self._call("receive_weights", args=[text, str(number), str(len(pieces))])
        self._reached("POST", "/update_weight_version", {"new_version": version})

    def add_request(self, name: str, request: Request) -> None:
        """Asks for a response."""
        self._asked[name] = self._responses.submit(self._body(request))

    def step(self) -> dict[str, SampledResponse]:
        """Waits a moment for responses; returns those there are. What cannot be had says why.

        Only a moment: who waits for one slow response keeps others waiting whose worlds have long answered.
        """
        wait(self._asked.values(), timeout=_MOMENT_S, return_when=FIRST_COMPLETED)
        over = [name for name, future in self._asked.items() if future.done()]
        return {name: self._asked.pop(name).result() for name in over}

    def abort(self, names: Sequence[str]) -> None:
        """Gives up requests; the server ends those that it has when their connections end."""
        for name in names:
            if future := self._asked.pop(name, None):
                future.cancel()

    def close(self) -> None:
        """Ends the connections; the server goes on, and one that hangs is not waited for."""
        self._responses.close()

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "token_ids": request.ids,
            "sampling_params": {**self._params, **request.drawn(), "seed": request.seed},
            "cache_salt": self.version,
        }
        if request.images:
            for image in request.images:
                if image.key not in self._pictures:
                    self._pictures[image.key] = encoded_picture(image)
            places = zip(request.offsets, request.images, strict=True)
            body["features"] = {
                "mm_hashes": {"image": [picture_key(image, self.version) for image in request.images]},
                "mm_placeholders": {"image": [{"offset": at, "length": image.num_tokens} for at, image in places]},
                "kwargs_data": {"image": [self._pictures[image.key] for image in request.images]},
            }
        return body

    def _require_usable(self) -> None:
        reply = self._reached("GET", "/server_info?config_format=json", may_fail=True)
        if reply.status_code == httpx2.codes.NOT_FOUND:
            raise self._unusable("no vLLM server, or not in its development mode (VLLM_SERVER_DEV_MODE=1)")
        if reply.status_code != httpx2.codes.OK:
            raise _RefusedError("/server_info", reply)
        try:
            config = reply.json()["vllm_config"]["model_config"]
            logprobs_mode, num_tokens = config["logprobs_mode"], int(config["max_model_len"])
            normalizes = (config.get("multimodal_config") or {}).get("mm_device_do_normalize")
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"What answers at {self._config.url} is no vLLM server that this was written for: its /server_info "
                f"says {told(reply)!r}. Give the server's address with --vllm.url, without a path such as /v1."
            ) from error
        if logprobs_mode != "processed_logprobs":
            raise self._unusable(f"started with --logprobs-mode {logprobs_mode}")
        if normalizes:
            raise self._unusable("started without --no-mm-device-do-normalize")
        if num_tokens < self._max_context_tokens:
            raise self._unusable(
                f"started with room for {num_tokens} tokens where conversations have up to "
                f"{self._max_context_tokens} (its --max-model-len; or --sampling.max-context-tokens here)"
            )
        if self._reached("POST", "/inference/v1/generate", {}, may_fail=True).status_code == httpx2.codes.FORBIDDEN:
            raise self._unusable("started without --enable-scale-out")

    def _unusable(self, what: str) -> ConfigError:
        source, receiver = "", ""
        if self._config.weights_dir is None:
            source, receiver = f"PYTHONPATH={CHECKOUT} ", f" --worker-extension-cls {RECEIVER}"
        return ConfigError(
            f"What answers at {self._config.url} is {what}. Start vLLM with: {source}VLLM_SERVER_DEV_MODE=1 python -m "
            f"vllm.entrypoints.openai.api_server --model DIR --max-model-len {self._max_context_tokens} {OPTIONS}"
            f"{receiver}; docs/scale.md says what else it needs without a GPU."
        )

    def _call(self, method: str, **arguments: Any) -> None:
        """Has all workers of the server do something."""
        self._reached("POST", "/collective_rpc", {"method": method, **arguments})

    def _reached(self, how: str, path: str, body: Any = None, *, may_fail: bool = False) -> httpx2.Response:
        """Returns the server's reply; raises `httpx2.HTTPError` if there is none, and `_RefusedError`."""
        reply = self._responses.request(how, path, body).result()
        if reply.status_code in _FROM_A_GATEWAY:
            raise httpx2.HTTPStatusError(
                f"{path} ({reply.status_code}): {told(reply)}", request=reply.request, response=reply
            )
        if reply.status_code >= httpx2.codes.BAD_REQUEST and not may_fail:
            raise _RefusedError(path, reply)
        return reply

    def _waited_for(self, ask: Callable[[], None]) -> None:
        """Does something from its beginning until the server answers all of it, or the time to wait is over."""
        deadline, is_told, was_refused = time.monotonic() + self._config.wait_s, False, False
        while True:
            try:
                return ask()
            except httpx2.HTTPError as error:
                if time.monotonic() > deadline:
                    raise SamplerLostError(
                        f"No vLLM server answers at {self._config.url} ({type(error).__name__}: {error}). Start it, "
                        "or name another with --vllm.url; a run that had begun goes on with --resume."
                    ) from error
                if not is_told:
                    _logger.warning(
                        "No vLLM server answers at %s (%s). It is waited for, %.0f seconds at most.",
                        *(self._config.url, type(error).__name__, self._config.wait_s),
                    )
                is_told = True
            except _RefusedError as error:  # as one does that was started anew among parts of the weights, but once
                if was_refused or time.monotonic() > deadline:
                    raise SamplerLostError(
                        f"The vLLM server at {self._config.url} refuses {error.path} {error}. {error.remedy}"
                    ) from error
                was_refused = True
            time.sleep(min(_PAUSE_S, max(deadline - time.monotonic(), 0.0)))


class _RefusedError(Exception):
    """A server that answers does not do what it is asked."""

    def __init__(self, path: str, reply: httpx2.Response) -> None:
        super().__init__(f"({reply.status_code}): {told(reply).rstrip('.')}")
        self.path = path

    @property
    def remedy(self) -> str:
        """What to do."""
        if self.path == "/server_info":
            return "Is it a vLLM server, and --vllm.url its address, without a path such as /v1? Its log says more."
        return (
            f"Weights that are sent to it need --worker-extension-cls {RECEIVER} there, and this checkout in its "
            "PYTHONPATH; or name a folder that both see: --vllm.weights-dir."
        )
