"""Responses of a vLLM server, many under way at once: tokens in, tokens out.

Source: vLLM 0.32, `vllm.entrypoints.scale_out.token_in_token_out` (`/inference/v1/generate`).
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from typing import Any

import httpx2

from agents.hf.conversations import SampledResponse
from agents.loop_thread import LoopThread
from agents.vllm.config import VLLMConfig
from agents.vllm.engine import failed_response

_PROBE_S = 5.0
"""Seconds in which a server that was silent has to say that it is well, before it is asked for more."""


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
        self._thread.stop(self._http.aclose())

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
