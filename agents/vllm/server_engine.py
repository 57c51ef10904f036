"""A vLLM server, here or on another machine, that is asked over HTTP: tokens and processed images in, tokens out.

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

_PROBE_S = 5.0
"""Seconds in which a server that was silent has to say that it is well, before it is asked for more."""


class ServerEngine:
    """A `VLLMEngine` that is a server.

    Args:
        config: With its address.
        encoder: The chat format of the model that it serves.
        sampling: How responses are drawn.
        max_context_tokens: Most tokens of a conversation.

    Raises:
        EngineUnavailableError: If a package is not installed here.
        ConfigError: If the server is not one that can be trained with; the message says how to start it.
        SamplerLostError: If there is none.
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
        # Asked as it is named: a proxy of the environment is for other hosts
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


class ServerResponses:
    """Asks a server for responses. What cannot be had is a response that says why.

    Args:
        config: With its address, the time that a whole response may take, and how many are asked for at once.
        http: Its connections, without time limits of their own.

    Attributes:
        timeout_s: Seconds that a whole response may take, or another reply.
    """

    def __init__(self, config: VLLMConfig, http: httpx2.AsyncClient) -> None:
        self.timeout_s = config.timeout_s
        self._url, self._http = config.url, http
        self._room = asyncio.Semaphore(config.max_parallel)
        self._was_silent, self._next_probe = False, 0.0
        self._thread = LoopThread("vllm")

    def submit(self, body: dict[str, Any]) -> Future[SampledResponse]:
        """Asks for a response, once there is room for it."""
        return self._thread.submit(self._response(body))

    def request(self, how: str, path: str, body: Any = None) -> Future[httpx2.Response]:
        """Asks something else; raises `httpx2.HTTPError` where there is no whole reply in time."""
        return self._thread.submit(self._reply(how, path, body))

    def forget_silence(self) -> None:
        """Asks a server again that had not answered in time, for it has answered since."""
        self._was_silent = False

    def close(self) -> None:
        """Gives up what is under way, and ends the connections."""
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
                async with asyncio.timeout(self.timeout_s):  # a socket's own would begin anew with each byte
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
        """Returns whether a server that did not answer in time does so again, without waiting that long once more."""
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
    """Returns what a server says of a failure, in short."""
    return " ".join(reply.text.split())[:300]


def _sampled(choice: dict[str, Any], version: str) -> SampledResponse:
    """Returns an answer if it is whole and of the weights that were asked for; what is missing raises an error."""
    versions = {span["version"] for span in choice["weight_versions"]}
    if versions != {version}:
        return failed_response(f"The vLLM server answered with other weights ({', '.join(versions)}): started anew?")
    ids, logprobs = choice["token_ids"], [step["logprob"] for step in choice["logprobs"]["content"]]
    if choice["finish_reason"] not in ("stop", "length"):
        return failed_response(
            f"The vLLM server broke off its answer ({choice['finish_reason']}) after {len(ids)} tokens."
        )
    if not ids or len(ids) != len(logprobs):
        raise ValueError(f"{len(ids)} tokens with {len(logprobs)} log-probabilities")
    return SampledResponse(ids=ids, logprobs=logprobs)
