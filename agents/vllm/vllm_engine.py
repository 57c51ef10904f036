"""What every vLLM engine takes and returns, wherever it runs, and the engine that runs in this process.

vLLM takes images that are processed already: the trainer's own pixels, not those of its own processor. An image
is the arguments of the vision tower by name, and for each the field that says how vLLM puts several images
together. On the wire it is MessagePack in base64, as `vllm.v1.serial_utils` reads it.

Source: vLLM 0.32, `vllm.multimodal.inputs` and `vllm.entrypoints.scale_out.token_in_token_out`.

`reload_weights` needs all weights under all of their names. A head that is tied to the embedding is written
out, too: vLLM 0.32 leaves an omitted one as it was.
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
"""Most responses that are sampled at once without a GPU."""
_NEVER = -100.0
"""Added to the logits of tokens that are never sampled: as much as vLLM allows, and e^-100 is 0 to a float32."""

_RAW = 3
"""MessagePack's type of bytes that are an array's, as vLLM numbers it."""
_FLAT, _BATCHED = "flat", "batched"
_FIELDS: Mapping[str, str] = {"pixel_values": _FLAT, "image_grid_thw": _BATCHED}
"""How the arguments of Qwen's towers are put together: patches one behind another, grids as a list."""

WEIGHTS = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class Request:
    """One response that is asked for.

    Attributes:
        ids: Tokens of the whole conversation so far, placeholders expanded.
        images: Its pictures, in the order of their placeholders.
        offsets: Where the placeholders of each picture begin.
        seed: Of what is drawn, so that it depends on nothing that is sampled beside it.
        sampling: How it is drawn; None for as the engine was made.
    """

    ids: list[int]
    images: tuple[ProcessedImage, ...]
    offsets: tuple[int, ...]
    seed: int
    sampling: SamplingConfig | None = None

    def drawn(self) -> dict[str, Any]:
        """Returns vLLM's parameters that are this request's own, to be put over the engine's."""
        return {} if self.sampling is None else _drawn(self.sampling)


class VLLMEngine(Protocol):
    """Samples with the weights it was given last; shared by agents that take turns."""

    @property
    def version(self) -> str:
        """What the weights are called that were loaded last; empty before."""

    def load(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Takes weights, under the names that a checkpoint has for them.

        Args:
            weights: All of them.
            version: What tells them from any that were loaded before; another name may be given to them.

        Raises:
            SamplerLostError: If the engine cannot be reached.
        """

    def add_request(self, name: str, request: Request) -> None:
        """Asks for a response, of a name that no other has."""

    def step(self) -> dict[str, SampledResponse]:
        """Goes on with what was asked for; returns responses that are there, by name, if only to say why there is none.

        Called while there are requests without a response.
        """

    def abort(self, names: Sequence[str]) -> None:
        """Gives up requests, which are not answered any more."""

    def close(self) -> None:
        """Lets go of everything."""


def _drawn(sampling: SamplingConfig) -> dict[str, Any]:
    return {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_tokens": sampling.max_new_tokens}


def sampling_params(encoder: ChatEncoder, sampling: SamplingConfig) -> dict[str, Any]:
    """Returns vLLM's parameters of all requests, but for their seeds and what they say of how they are drawn."""
    return {
        **_drawn(sampling),
        "stop_token_ids": [encoder.end_of_turn_id],
        "ignore_eos": True,  # a checkpoint may name other tokens that end it; ours ends at one
        "logit_bias": {token: _NEVER for token in encoder.suppressed_ids()},
        "logprobs": 0,  # of the sampled token alone
        "detokenize": False,
        "skip_special_tokens": False,
    }


def scheduling(max_context_tokens: int) -> dict[str, int]:
    """Returns how much vLLM does at once on this machine; its own choice on a GPU.

    On a CPU vLLM 0.32 fails where a prompt with a seed is fed in several steps, so all have to fit into one.
    """
    if torch.cuda.is_available():
        return {}
    return {"max_num_seqs": _MAX_ROWS, "max_num_batched_tokens": _MAX_ROWS * max_context_tokens}


def failed_response(error: str) -> SampledResponse:
    """Returns what stands for a response that cannot be had, and why."""
    return SampledResponse(ids=[], logprobs=[], error=error)


def image_offsets(ids: Sequence[int], images: Sequence[ProcessedImage], image_token_id: int) -> tuple[int, ...]:
    """Returns where the placeholders of each picture begin."""
    places = np.flatnonzero(np.asarray(ids) == image_token_id)
    firsts = np.cumsum([0, *(image.num_tokens for image in images)])
    assert firsts[-1] == len(places), "each placeholder is one of a picture's"
    return tuple(int(places[first]) for first in firsts[:-1])


def require_sendable(family: Family) -> None:
    """Refuses families whose pictures cannot be handed over.

    Raises:
        ConfigError: If a model is of one.
    """
    if not isinstance(family, QwenVL):
        raise ConfigError(
            f"vLLM samples Qwen2.5-VL and Qwen3-VL here; this model is a {family.model_types[0]}, for whose pictures "
            "there is no way yet. Train it with --sampler transformers."
        )


def picture_key(image: ProcessedImage, version: str) -> str:
    """Returns what vLLM knows a picture by; under other weights it is another, for what it becomes is kept."""
    return f"{version}-{image.key.hex()}"


def kwargs_item(image: ProcessedImage) -> MultiModalKwargsItem:
    """Returns a picture as vLLM's own type, where vLLM is."""
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
    """Returns a picture as it is sent to a server; needs the package msgpack."""
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
    """Returns the arguments of one picture, without an axis of pictures where vLLM adds it."""
    arguments = {}
    for name, value in image.inputs.items():
        arguments[name] = np.ascontiguousarray(value if _FIELDS[name] == _FLAT else value[0])
    return arguments


def parts(weights: Mapping[str, Tensor], max_bytes: int) -> Iterator[dict[str, Tensor]]:
    """Yields weights in the host's memory, no two of which share any, in parts of about as many bytes at most."""
    part: dict[str, Tensor] = {}
    for name, value in weights.items():
        part_bytes = sum(each.nbytes for each in part.values())
        if part and part_bytes + value.nbytes > max_bytes:
            yield part
            part = {}
        part[name] = _alone(value, part)
    yield part


def write_weights(directory: Path, weights: Mapping[str, Tensor]) -> None:
    """Writes a checkpoint's weights in place of those that are there, all or nothing."""
    temporary = directory / f".{WEIGHTS}"
    tensors: dict[str, Tensor] = {}
    for name, value in weights.items():
        tensors[name] = _alone(value, tensors)
    save_file(tensors, temporary, metadata={"format": "pt"})
    os.replace(temporary, directory / WEIGHTS)


def _alone(value: Tensor, others: Mapping[str, Tensor]) -> Tensor:
    """Returns a weight that shares no memory with others, which safetensors refuses."""
    value = value.detach().cpu().contiguous()
    shares = any(each.data_ptr() == value.data_ptr() for each in others.values())
    return value.clone() if shares else value


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
                f"vLLM does not take the weights: {type(error).__name__}: {error}. Resume the run with --resume; a "
                "vLLM server (--vllm.url) can be restarted without ending the run."
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
