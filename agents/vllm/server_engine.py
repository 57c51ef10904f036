"""Sampling on a vLLM server, local or remote, over HTTP: tokens and processed images in, tokens out.

Source: vLLM 0.32, `vllm.entrypoints.scale_out.token_in_token_out` (`/inference/v1/generate`, behind
`--enable-scale-out`) and the endpoints of its development mode (`/server_info`, `/collective_rpc`,
`/update_weight_version`).
"""

from __future__ import annotations

import asyncio
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

from agents.api.transport import trusted
from agents.event_loop import LoopThread
from agents.hf.chat import ChatEncoder, SampledResponse
from agents.hf.sampling_config import SamplingConfig
from agents.vllm.vllm_config import SamplerLostError, VLLMConfig, require_msgpack
from agents.vllm.vllm_engine import (
    Request,
    encoded_picture,
    failed_response,
    parts,
    picture_key,
    sampling_params,
    write_weights,
)
from vlm_envs.errors import ConfigError

_logger = logging.getLogger(__name__)

RECEIVER = "agents.vllm.worker.WeightReceiver"
OPTIONS = "--enable-scale-out --logprobs-mode processed_logprobs --no-mm-device-do-normalize"
"""Options a server must be started with."""
CHECKOUT = Path(__file__).parents[2]
"""The directory of `agents.vllm.worker`, if the server runs on this machine."""
_PART_BYTES = 64 * 2**20
"""Approximate size of the parts in which weights are sent."""
_FROM_A_GATEWAY = (httpx2.codes.BAD_GATEWAY, httpx2.codes.SERVICE_UNAVAILABLE, httpx2.codes.GATEWAY_TIMEOUT)
"""Status codes of a gateway while the server behind it is starting."""
_PAUSE_S = 2.0
_MOMENT_S = 0.01
_IDLE_S = 1.0
"""How long an idle connection is kept, in seconds. vLLM closes one after five seconds, which is also httpx's default,
and a request sent at that moment is lost."""

_PROBE_S = 5.0
"""Time in which a server that timed out must pass a health check before it gets more requests, in seconds."""


class ServerEngine:
    """A `VLLMEngine` on a server.

    Args:
        config: Settings, including the server's address.
        encoder: The chat format of the served model.
        sampling: Sampling settings.
        max_context_tokens: Most tokens of a conversation.

    Raises:
        EngineUnavailableError: If a package is not installed here.
        ConfigError: If the server cannot be used for training; the message has the command that starts it correctly.
        SamplerLostError: If no server answers.
    """

    def __init__(
        self, config: VLLMConfig, encoder: ChatEncoder, sampling: SamplingConfig, *, max_context_tokens: int
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
        # The URL is used directly: proxies from environment variables are for other hosts
        http = httpx2.AsyncClient(
            base_url=config.url.rstrip("/"),
            limits=limits,
            timeout=None,
            verify=trusted(trust_env=False),
            trust_env=False,
        )
        self._responses = ServerResponses(config, http)
        self._asked: dict[str, Future[SampledResponse]] = {}
        self._pictures: dict[bytes, str] = {}
        self._waited_for(self._require_usable)

    def load(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Sends weights to the server, through vLLM's `reload_weights` with the shared folder or over HTTP.

        If the server does not answer, waits for it and sends all weights again, because a restart loses them.

        Raises:
            ConfigError: If it was restarted with other options.
            SamplerLostError: If it cannot be reached, or refuses.
        """
        if self._config.weights_dir is not None:
            directory = Path(self._config.weights_dir)
            directory.mkdir(parents=True, exist_ok=True)
            write_weights(directory, weights)
        self._waited_for(lambda: self._give(weights, version))
        self.adopt(version)

    def adopt(self, version: str) -> None:
        """Samples from now on with weights that another process has loaded into the server."""
        self.version = version
        self._pictures = {}
        self._responses.forget_silence()

    def _give(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Sends weights to a server that answers.

        No part of it waits for the server: if it restarted in between, which takes longer than one request, the earlier
        parts would be lost.
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
        """Requests a response."""
        self._asked[name] = self._responses.submit(self._body(request))

    def step(self) -> dict[str, SampledResponse]:
        """Waits briefly for responses; returns those that are ready, or failed with an error.

        The wait is brief, because a slow response must not delay others whose worlds have finished.
        """
        wait(self._asked.values(), timeout=_MOMENT_S, return_when=FIRST_COMPLETED)
        over = [name for name, future in self._asked.items() if future.done()]
        return {name: self._asked.pop(name).result() for name in over}

    def abort(self, names: Sequence[str]) -> None:
        """Drops requests; the server ends them when their connections close."""
        for name in names:
            if future := self._asked.pop(name, None):
                future.cancel()

    def close(self) -> None:
        """Closes the connections; the server keeps running, and a hanging one is not waited for."""
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
                f"The server at {self._config.url} is no vLLM server of the supported version: its /server_info "
                f"returned {told(reply)!r}. Give the server's address with --vllm.url, without a path such as /v1."
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
            f"The server at {self._config.url} is unusable: {what}. Start vLLM with: {source}VLLM_SERVER_DEV_MODE=1 "
            f"python -m vllm.entrypoints.openai.api_server --model DIR --max-model-len {self._max_context_tokens} "
            f"{OPTIONS}{receiver}; docs/scale.md describes the other requirements without a GPU."
        )

    def _call(self, method: str, **arguments: Any) -> None:
        """Calls a method of all workers of the server."""
        self._reached("POST", "/collective_rpc", {"method": method, **arguments})

    def _reached(self, how: str, path: str, body: Any = None, *, may_fail: bool = False) -> httpx2.Response:
        """Returns the server's reply; raises `httpx2.HTTPError` if there is none, and `_RefusedError` if it refuses."""
        reply = self._responses.request(how, path, body).result()
        if reply.status_code in _FROM_A_GATEWAY:
            raise httpx2.HTTPStatusError(
                f"{path} ({reply.status_code}): {told(reply)}", request=reply.request, response=reply
            )
        if reply.status_code >= httpx2.codes.BAD_REQUEST and not may_fail:
            raise _RefusedError(path, reply)
        return reply

    def _waited_for(self, ask: Callable[[], None]) -> None:
        """Repeats an action from the start until the server answers all of it, or the wait is over."""
        deadline, is_told, was_refused = time.monotonic() + self._config.wait_s, False, False
        while True:
            try:
                return ask()
            except httpx2.HTTPError as error:
                if time.monotonic() > deadline:
                    raise SamplerLostError(
                        f"No vLLM server answers at {self._config.url} ({type(error).__name__}: {error}). Start it, "
                        "or name another with --vllm.url; then continue a running training with --resume."
                    ) from error
                if not is_told:
                    _logger.warning(
                        "No vLLM server answers at %s (%s). Waiting for it, %.0f seconds at most.",
                        *(self._config.url, type(error).__name__, self._config.wait_s),
                    )
                is_told = True
            except _RefusedError as error:  # as by a server that was restarted between parts of the weights; retry once
                if was_refused or time.monotonic() > deadline:
                    raise SamplerLostError(
                        f"The vLLM server at {self._config.url} refuses {error.path} {error}. {error.remedy}"
                    ) from error
                was_refused = True
            time.sleep(min(_PAUSE_S, max(deadline - time.monotonic(), 0.0)))


class _RefusedError(Exception):
    """A server answers but refuses a request."""

    def __init__(self, path: str, reply: httpx2.Response) -> None:
        super().__init__(f"({reply.status_code}): {told(reply).rstrip('.')}")
        self.path = path

    @property
    def remedy(self) -> str:
        """How to fix it."""
        if self.path == "/server_info":
            return "Is it a vLLM server, and --vllm.url its address, without a path such as /v1? See also its log."
        return (
            f"Sending weights over HTTP needs --worker-extension-cls {RECEIVER} there, and this checkout in its "
            "PYTHONPATH; or name a folder that both can access: --vllm.weights-dir."
        )


class ServerResponses:
    """Requests responses from a server; a failed one is a response with an error.

    Args:
        config: Address, time limit of a response, and number of parallel requests.
        http: HTTP client without time limits.

    Attributes:
        timeout_s: Time limit of a complete response or any other reply, in seconds.
    """

    def __init__(self, config: VLLMConfig, http: httpx2.AsyncClient) -> None:
        self.timeout_s = config.timeout_s
        self._url, self._http = config.url, http
        self._room = asyncio.Semaphore(config.max_parallel)
        self._was_silent, self._next_probe = False, 0.0
        self._thread = LoopThread("vllm")

    def submit(self, body: dict[str, Any]) -> Future[SampledResponse]:
        """Requests a response, once fewer than the maximum are in flight."""
        return self._thread.submit(self._response(body))

    def request(self, how: str, path: str, body: Any = None) -> Future[httpx2.Response]:
        """Sends another request; raises `httpx2.HTTPError` if there is no complete reply in time."""
        return self._thread.submit(self._reply(how, path, body))

    def forget_silence(self) -> None:
        """Sends requests again to a server that had timed out, because it has answered since."""
        self._was_silent = False

    def close(self) -> None:
        """Drops running requests and closes the connections."""
        self._thread.stop(self._end())

    async def _end(self) -> None:
        await self._thread.cancel_others()
        await self._http.aclose()

    async def _reply(self, how: str, path: str, body: Any) -> httpx2.Response:
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._http.request(how, path, json=body)
        except TimeoutError as error:
            raise httpx2.ReadTimeout(f"no whole reply within {self.timeout_s:g} s") from error

    async def _response(self, body: dict[str, Any]) -> SampledResponse:
        async with self._room:
            if self._was_silent and (time.monotonic() < self._next_probe or not await self._is_well()):
                return self._lost("it has not answered others in time.")
            try:
                async with asyncio.timeout(self.timeout_s):  # a socket timeout would restart with each byte
                    reply = await self._http.post("/inference/v1/generate", json=body)
                if reply.status_code != httpx2.codes.OK:
                    return failed_response(f"The vLLM server refused ({reply.status_code}): {told(reply)}")
                return _sampled(reply.json()["choices"][0], body["cache_salt"])
            except TimeoutError:
                self._was_silent = True
                return self._lost(f"no whole reply within {self.timeout_s:g} s.")
            except httpx2.HTTPError as error:
                return self._lost(f"{type(error).__name__}: {error}")
            except (KeyError, IndexError, TypeError, ValueError) as error:
                return failed_response(
                    f"The vLLM server gave no answer that can be read: {type(error).__name__}: {error}"
                )

    async def _is_well(self) -> bool:
        """Returns whether a server that timed out answers again; uses a shorter time limit."""
        try:
            async with asyncio.timeout(min(_PROBE_S, self.timeout_s)):
                reply = await self._http.get("/health")
            self._was_silent = reply.status_code != httpx2.codes.OK
        except (TimeoutError, httpx2.HTTPError):
            self._next_probe = time.monotonic() + _PROBE_S
        return not self._was_silent

    def _lost(self, why: str) -> SampledResponse:
        return failed_response(f"The vLLM server at {self._url} was lost: {why}")


def told(reply: httpx2.Response) -> str:
    """Returns a server's error message, shortened."""
    return " ".join(reply.text.split())[:300]


def _sampled(choice: dict[str, Any], version: str) -> SampledResponse:
    """Returns an answer if it is complete and from the requested weights; raises an error if something is missing."""
    versions = {span["version"] for span in choice["weight_versions"]}
    if versions != {version}:
        return failed_response(f"The vLLM server answered with other weights ({', '.join(versions)}). Restarted?")
    ids, logprobs = choice["token_ids"], [step["logprob"] for step in choice["logprobs"]["content"]]
    if choice["finish_reason"] not in ("stop", "length"):
        return failed_response(
            f"The vLLM server broke off its answer ({choice['finish_reason']}) after {len(ids)} tokens."
        )
    if not ids or len(ids) != len(logprobs):
        raise ValueError(f"{len(ids)} tokens with {len(logprobs)} log-probabilities")
    return SampledResponse(ids=ids, logprobs=logprobs)
