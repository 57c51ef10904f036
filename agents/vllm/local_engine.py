"""vLLM in this process, which hands it its weights as they are."""

from __future__ import annotations

import gc
import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from agents.hf.chat import ChatEncoder
from agents.hf.conversations import SampledResponse
from agents.hf.sampling_config import SamplingConfig
from agents.vllm.vllm_config import SamplerLostError, VLLMConfig, require_vllm
from agents.vllm.vllm_engine import Request, failed_response, kwargs_item, picture_key, sampling_params, scheduling
from vlm_envs.errors import ConfigError

if TYPE_CHECKING:
    from vllm import RequestOutput


class LocalEngine:
    """A `VLLMEngine` in this process.

    Args:
        config: What it may take.
        model: What is sampled; `load` gives it its weights.
        encoder: Its chat format.
        sampling: How responses are drawn.
        max_context_tokens: Most tokens of a conversation.

    Raises:
        EngineUnavailableError: If vLLM is not installed.
        ConfigError: If it cannot start like this.
    """

    def __init__(
        self, config: VLLMConfig, model: Any, encoder: ChatEncoder, sampling: SamplingConfig, *, max_context_tokens: int
    ) -> None:
        require_vllm()
        self.version = ""
        self._params = sampling_params(encoder, sampling)
        self._asked: set[str] = set()
        with tempfile.TemporaryDirectory(prefix="vlm-envs-vllm-") as folder:
            model.config.save_pretrained(Path(folder))
            encoder.save_processor(Path(folder))
            self._llm = _started(config, folder, str(model.dtype), max_context_tokens)

    def load(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Takes weights by vLLM's `reload_weights`.

        Raises:
            SamplerLostError: If it does not.
        """
        try:
            with _generators_kept():
                self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights.items())})
        except Exception as error:  # whatever fails in vLLM, of which nothing more can be had without its weights
            raise SamplerLostError(
                f"vLLM does not take the weights: {type(error).__name__}: {error}. A run that had begun goes on with "
                "--resume; --vllm.process own has vLLM in a process that can be started anew."
            ) from error
        self.version = version

    def add_request(self, name: str, request: Request) -> None:
        """Asks for a response."""
        with _generators_kept():
            self._llm.llm_engine.add_request(name, self._input(request), self._params_of(request))
        self._asked.add(name)

    def step(self) -> dict[str, SampledResponse]:
        """Goes on by a token or so; returns the responses that are over.

        Where vLLM fails, as when its device has no more memory, all that was asked for is over and says why.
        """
        try:
            with _generators_kept():
                outputs = self._llm.llm_engine.step()
        except Exception as error:  # whatever fails in vLLM costs what it was asked for, and no more
            lost = [*self._asked]
            with suppress(Exception):  # of an engine that is dead nothing has to be given up
                self.abort(lost)
            return {name: failed_response(f"vLLM failed: {type(error).__name__}: {error}") for name in lost}
        samples = {each.request_id: _sample(each) for each in outputs if each.finished}
        self._asked -= samples.keys()
        return samples

    def abort(self, names: Sequence[str]) -> None:
        """Gives up requests."""
        self._asked -= set(names)
        self._llm.llm_engine.abort_request(list(names))

    def close(self) -> None:
        """Ends vLLM and gives back its memory; once."""
        if self._llm is None:
            return
        core = self._llm.llm_engine.engine_core
        if _is_one_of_several():
            _let_go(core)
        else:
            core.shutdown()
        self._llm = None
        gc.collect()

    def _params_of(self, request: Request) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        params = {**self._params, **request.drawn()}
        return SamplingParams(**params, seed=request.seed, output_kind=RequestOutputKind.FINAL_ONLY)

    def _input(self, request: Request) -> Any:
        """Returns a request as vLLM's own type; what is known of its beginning is known for these weights alone."""
        from vllm.inputs import mm_input, tokens_input
        from vllm.multimodal.inputs import MultiModalKwargsItems, PlaceholderRange

        if not request.images:
            return tokens_input(request.ids, cache_salt=self.version)
        places = zip(request.offsets, request.images, strict=True)
        return mm_input(
            request.ids,
            MultiModalKwargsItems({"image": [kwargs_item(image) for image in request.images]}),
            {"image": [picture_key(image, self.version) for image in request.images]},
            {"image": [PlaceholderRange(offset=offset, length=image.num_tokens) for offset, image in places]},
            cache_salt=self.version,
        )


def _started(config: VLLMConfig, folder: str, dtype: str, max_context_tokens: int) -> Any:
    """Returns vLLM with a model of a folder, without its weights."""
    # Here vLLM is not to bind the trainer's threads to cores, nor to seed its generators
    environment = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with _environment(environment), _generators_kept():
        from vllm import LLM

        try:
            return LLM(
                model=folder,
                dtype=dtype.removeprefix("torch."),
                load_format="dummy",
                max_model_len=max_context_tokens,
                limit_mm_per_prompt={"image": config.max_images, "video": 0},
                gpu_memory_utilization=config.memory_fraction,
                enforce_eager=not config.compiles,
                enable_prefix_caching=True,
                logprobs_mode="processed_logprobs",
                mm_device_do_normalize=False,  # pictures come as the vision tower takes them
                mm_processor_cache_gb=0,
                disable_log_stats=True,
                # In a run of several processes vLLM is alone in each, and joins them all the same
                **({"distributed_executor_backend": "external_launcher"} if _is_one_of_several() else {}),
                **scheduling(max_context_tokens),
                seed=0,
            )
        except (ValueError, RuntimeError) as error:
            raise ConfigError(
                f"vLLM does not start: {error} --vllm.memory-fraction is the share of the memory it may take; on a "
                "CPU VLLM_CPU_KVCACHE_SPACE is what its cache may, in GiB."
            ) from error


def _let_go(core: Any) -> None:
    """Ends what vLLM has of its own in one of several processes; its `shutdown` would end torch's groups with it.

    Source: vLLM 0.32, `vllm.v1.engine.core_client.InprocClient.shutdown` and `vllm.v1.engine.core.EngineCore.shutdown`.
    """
    core._finalizer.detach()  # or it would come at the end of the process all the same, and keep all until then
    core.engine_core.model_executor.shutdown()
    core.engine_core.scheduler.shutdown()
    gc.unfreeze()


def _is_one_of_several() -> bool:
    """Returns whether this process is one of a group of torch's."""
    return torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1


def _sample(output: RequestOutput) -> SampledResponse:
    completion = output.outputs[0]
    assert completion.logprobs is not None, "log-probabilities were asked for"
    ids = list(completion.token_ids)
    logprobs = [step[token].logprob for step, token in zip(completion.logprobs, ids, strict=True)]
    return SampledResponse(ids=ids, logprobs=logprobs)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets variables of the environment within the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Leaves the generators of this process where they are, whatever vLLM does with them within the block."""
    numbers, arrays = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(numbers)
        np.random.set_state(arrays)
