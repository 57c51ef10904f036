"""The interface of vLLM engines, in this process or on a server, and the engine in this process.

vLLM gets processed images: the trainer's own pixels, not those of vLLM's processor. An image consists of the
arguments of the vision tower by name, each with a field that specifies how vLLM combines several images. Over HTTP it
is MessagePack in base64, in the format of `vllm.v1.serial_utils`.

Source: vLLM 0.32, `vllm.multimodal.inputs` and `vllm.entrypoints.scale_out.token_in_token_out`.

`reload_weights` needs all weights under all of their names, including a head that is tied to the embedding: vLLM 0.32
does not update an omitted one.
"""

from __future__ import annotations

import base64
import gc
import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from torch import Tensor

from agents.hf.chat import ChatEncoder, SampledResponse
from agents.hf.family import Family, ProcessedImage
from agents.hf.model_families import QwenVL
from agents.hf.sampling_config import SamplingConfig
from agents.vllm.vllm_config import SamplerLostError, VLLMConfig, require_vllm
from vlm_envs.errors import ConfigError

if TYPE_CHECKING:
    from vllm import RequestOutput
    from vllm.multimodal.inputs import MultiModalKwargsItem


_MAX_ROWS = 128
"""Most responses sampled at once without a GPU."""
_NEVER = -100.0
"""Added to the logits of tokens that are never sampled: vLLM's limit, and e^-100 is 0 in float32."""

_RAW = 3
"""vLLM's MessagePack extension type for the bytes of an array."""
_FLAT, _BATCHED = "flat", "batched"
_FIELDS: Mapping[str, str] = {"pixel_values": _FLAT, "image_grid_thw": _BATCHED}
"""How the arguments of Qwen's towers are combined: patches are concatenated, grids are a list."""

WEIGHTS = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request for one response.

    Attributes:
        ids: Tokens of the whole conversation so far, with placeholders expanded.
        images: Its images, in the order of their placeholders.
        offsets: Index of each image's first placeholder.
        seed: Seed of the response, which makes it independent of other requests.
        sampling: Sampling settings; None for the engine's own.
    """

    ids: list[int]
    images: tuple[ProcessedImage, ...]
    offsets: tuple[int, ...]
    seed: int
    sampling: SamplingConfig | None = None

    def drawn(self) -> dict[str, Any]:
        """Returns this request's vLLM parameters, which override the engine's."""
        return {} if self.sampling is None else _drawn(self.sampling)


class VLLMEngine(Protocol):
    """Samples with the last loaded weights; can be shared by agents that take turns."""

    @property
    def version(self) -> str:
        """Version of the loaded weights; empty before the first ones."""

    def load(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Loads weights, under their names in a checkpoint.

        Args:
            weights: All weights.
            version: Distinguishes them from other loaded weights; an engine may use another name.

        Raises:
            SamplerLostError: If the engine cannot be reached.
        """

    def add_request(self, name: str, request: Request) -> None:
        """Requests a response under a unique name."""

    def step(self) -> dict[str, SampledResponse]:
        """Advances the requests; returns the finished or failed responses, by name.

        Called while there are unfinished requests.
        """

    def abort(self, names: Sequence[str]) -> None:
        """Drops requests."""

    def close(self) -> None:
        """Frees all resources."""


def _drawn(sampling: SamplingConfig) -> dict[str, Any]:
    return {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_tokens": sampling.max_new_tokens}


def sampling_params(encoder: ChatEncoder, sampling: SamplingConfig) -> dict[str, Any]:
    """Returns vLLM's parameters of all requests, without their seeds and their own sampling settings."""
    return {
        **_drawn(sampling),
        "stop_token_ids": [encoder.end_of_turn_id],
        "ignore_eos": True,  # a checkpoint may specify other stop tokens; here only end of turn stops
        "logit_bias": {token: _NEVER for token in encoder.suppressed_ids()},
        "logprobs": 0,  # only that of the sampled token
        "detokenize": False,
        "skip_special_tokens": False,
    }


def scheduling(max_context_tokens: int) -> dict[str, int]:
    """Returns vLLM's batch limits on this machine; empty, for vLLM's defaults, with a GPU.

    On a CPU, vLLM 0.32 fails if a prompt with a seed is fed in several steps, so all prompts must fit into one step.
    """
    if torch.cuda.is_available():
        return {}
    return {"max_num_seqs": _MAX_ROWS, "max_num_batched_tokens": _MAX_ROWS * max_context_tokens}


def failed_response(error: str) -> SampledResponse:
    """Returns a response without tokens and with an error."""
    return SampledResponse(ids=[], logprobs=[], error=error)


def image_offsets(ids: Sequence[int], images: Sequence[ProcessedImage], image_token_id: int) -> tuple[int, ...]:
    """Returns the index of each image's first placeholder."""
    indices = np.flatnonzero(np.asarray(ids) == image_token_id)
    firsts = np.cumsum([0, *(image.num_tokens for image in images)])
    assert firsts[-1] == len(indices), "placeholders match images"
    return tuple(int(indices[first]) for first in firsts[:-1])


def require_sendable(family: Family) -> None:
    """Refuses families whose images vLLM cannot be given.

    Raises:
        ConfigError: If the family is not supported.
    """
    if not isinstance(family, QwenVL):
        raise ConfigError(
            f"vLLM samples Qwen2.5-VL and Qwen3-VL here; this model is a {family.model_types[0]}, whose images are not "
            "supported yet. Train it with --sampler transformers."
        )


def picture_key(image: ProcessedImage, version: str) -> str:
    """Returns vLLM's cache key of an image, which includes the weights' version because features are cached."""
    return f"{version}-{image.key.hex()}"


def kwargs_item(image: ProcessedImage) -> MultiModalKwargsItem:
    """Returns an image as vLLM's own type; needs vLLM."""
    import torch
    from vllm.multimodal.inputs import MultiModalFieldConfig, MultiModalFieldElem, MultiModalKwargsItem

    elements = {}
    for name, value in _arguments(image).items():
        if _FIELDS[name] == _FLAT:
            field = MultiModalFieldConfig.flat("image", [slice(0, len(value))]).field
        else:
            field = MultiModalFieldConfig.batched("image", keep_on_cpu=True).field
        elements[name] = MultiModalFieldElem(data=torch.from_numpy(value), field=field)
    return MultiModalKwargsItem(elements)


def encoded_picture(image: ProcessedImage) -> str:
    """Returns an image in the format of a vLLM server; needs the package msgpack."""
    import msgpack

    elements = {}
    for name, value in _arguments(image).items():
        data = [str(value.dtype), list(value.shape), msgpack.ExtType(_RAW, value.tobytes())]
        settings: dict[str, Any] = {"keep_on_cpu": True}
        if _FIELDS[name] == _FLAT:
            settings = {"slices": [[0, len(value), None]], "dim": 0, "keep_on_cpu": False}
        elements[name] = {"data": data, "field": [_FIELDS[name], settings]}
    return base64.b64encode(msgpack.packb(elements)).decode("ascii")


def _arguments(image: ProcessedImage) -> dict[str, npt.NDArray[Any]]:
    """Returns the arguments of one image, without the batch axis where vLLM adds it."""
    arguments = {}
    for name, value in image.inputs.items():
        arguments[name] = np.ascontiguousarray(value if _FIELDS[name] == _FLAT else value[0])
    return arguments


def parts(weights: Mapping[str, Tensor], max_bytes: int) -> Iterator[dict[str, Tensor]]:
    """Yields weights in host memory, none of which share memory, in parts of about `max_bytes` at most."""
    part: dict[str, Tensor] = {}
    for name, value in weights.items():
        part_bytes = sum(tensor.nbytes for tensor in part.values())
        if part and part_bytes + value.nbytes > max_bytes:
            yield part
            part = {}
        part[name] = _alone(value, part)
    yield part


def write_weights(directory: Path, weights: Mapping[str, Tensor]) -> None:
    """Replaces a checkpoint's weights atomically."""
    temporary = directory / f".{WEIGHTS}"
    tensors: dict[str, Tensor] = {}
    for name, value in weights.items():
        tensors[name] = _alone(value, tensors)
    save_file(tensors, temporary, metadata={"format": "pt"})
    os.replace(temporary, directory / WEIGHTS)


def _alone(value: Tensor, others: Mapping[str, Tensor]) -> Tensor:
    """Returns a weight that shares no memory with others, because safetensors refuses shared memory."""
    value = value.detach().cpu().contiguous()
    shares = any(other.data_ptr() == value.data_ptr() for other in others.values())
    return value.clone() if shares else value


class LocalEngine:
    """A `VLLMEngine` in this process.

    Args:
        config: vLLM's settings.
        model: Provides the model configuration; `load` provides the weights.
        encoder: Its chat format.
        sampling: Sampling settings.
        max_context_tokens: Most tokens of a conversation.

    Raises:
        EngineUnavailableError: If vLLM is not installed.
        ConfigError: If vLLM cannot start with these settings.
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
        """Loads weights by vLLM's `reload_weights`.

        Raises:
            SamplerLostError: If vLLM fails to load them.
        """
        try:
            with _generators_kept():
                self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights.items())})
        except Exception as error:  # any failure in vLLM, which is unusable without its weights
            raise SamplerLostError(
                f"vLLM did not load the weights: {type(error).__name__}: {error}. Resume the run with --resume; a "
                "vLLM server (--vllm.url) can be restarted without ending the run."
            ) from error
        self.version = version

    def add_request(self, name: str, request: Request) -> None:
        """Requests a response."""
        with _generators_kept():
            self._llm.llm_engine.add_request(name, self._input(request), self._params_of(request))
        self._asked.add(name)

    def step(self) -> dict[str, SampledResponse]:
        """Advances by about one token; returns the finished responses.

        If vLLM fails, such as when its device runs out of memory, all requests end with an error.
        """
        try:
            with _generators_kept():
                outputs = self._llm.llm_engine.step()
        except Exception as error:  # any failure in vLLM costs only the current requests
            lost = [*self._asked]
            with suppress(Exception):  # a dead engine has nothing to abort
                self.abort(lost)
            return {name: failed_response(f"vLLM failed: {type(error).__name__}: {error}") for name in lost}
        samples = {output.request_id: _sample(output) for output in outputs if output.finished}
        self._asked -= samples.keys()
        return samples

    def abort(self, names: Sequence[str]) -> None:
        """Drops requests."""
        self._asked -= set(names)
        self._llm.llm_engine.abort_request(list(names))

    def close(self) -> None:
        """Ends vLLM and frees its memory; repeated calls do nothing."""
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
        """Returns a request as vLLM's own type; the salt limits cached prefixes to the current weights."""
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
    """Returns vLLM with the model of a folder, without weights."""
    # vLLM must not bind the trainer's threads to cores or seed its generators
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
                mm_device_do_normalize=False,  # images are already normalized
                mm_processor_cache_gb=0,
                disable_log_stats=True,
                # In a multi-process run, each process has its own vLLM, which joins torch's existing group
                **({"distributed_executor_backend": "external_launcher"} if _is_one_of_several() else {}),
                **scheduling(max_context_tokens),
                seed=0,
            )
        except (ValueError, RuntimeError) as error:
            raise ConfigError(
                f"vLLM does not start: {error} --vllm.memory-fraction limits the fraction of the memory it uses; on a "
                "CPU, VLLM_CPU_KVCACHE_SPACE limits its cache, in GiB."
            ) from error


def _let_go(core: Any) -> None:
    """Ends vLLM in one of several processes; its own `shutdown` would also destroy torch's process groups.

    Source: vLLM 0.32, `vllm.v1.engine.core_client.InprocClient.shutdown` and `vllm.v1.engine.core.EngineCore.shutdown`.
    """
    core._finalizer.detach()  # it would run at process exit anyway and keep everything alive until then
    core.engine_core.model_executor.shutdown()
    core.engine_core.scheduler.shutdown()
    gc.unfreeze()


def _is_one_of_several() -> bool:
    """Returns whether this process is in a torch process group of several."""
    return torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1


def _sample(output: RequestOutput) -> SampledResponse:
    completion = output.outputs[0]
    assert completion.logprobs is not None, "log-probabilities were asked for"
    ids = list(completion.token_ids)
    logprobs = [step[token].logprob for step, token in zip(completion.logprobs, ids, strict=True)]
    return SampledResponse(ids=ids, logprobs=logprobs)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables within the block."""
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
    """Preserves the state of this process's random generators, which vLLM may change within the block."""
    numbers, arrays = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(numbers)
        np.random.set_state(arrays)
