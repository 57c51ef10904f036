"""Sizes of a run's models, and the bytes that their passes hold, from the sizes of their layers.

Weights are counted on a model without memory. Activations are what each linear layer, norm, and attention keeps for
the backward pass, with fused attention, which keeps nothing for pairs of tokens; within about 10% of a traced pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from agents.hf.model_families import vision_parts
from training.config.run_config import RunConfig
from training.engines.accelerated_engine import decoder_layers
from training.engines.lora import add_adapters
from training.engines.policy import ValueModel, freeze_vision_tower, tokens_per_chunk
from training.memory_plan.plan_rows import RowShape
from vlm_envs.errors import ConfigError

FLOAT32 = 4


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Number of elements in a model, a policy or a critic.

    Attributes:
        num_parameters: All weights; weights shared by two parts are counted once.
        num_trained: Weights that an optimizer steps.
        num_vision: The vision tower and its projector.
        num_frozen_vision: `num_vision` if the tower is not trained, else 0.
        num_embeddings: Token embeddings.
        num_head: The head; 0 if it shares the embeddings.
        largest_weight: The largest tensor.
        largest_layer: The largest decoder layer; FSDP2 gathers layers one by one.
        num_outside_layers: Everything outside the decoder layers that FSDP2 shards, which it gathers at once.
        cached_per_token: Keys and values of a token.
        vocab_size: Tokens of the vocabulary.
    """

    num_parameters: int
    num_trained: int
    num_vision: int
    num_frozen_vision: int
    num_embeddings: int
    num_head: int
    largest_weight: int
    largest_layer: int
    num_outside_layers: int
    cached_per_token: int
    vocab_size: int


def model_without_memory(directory: Path, dtype: Any) -> Any:
    """Returns a checkpoint's model on the meta device, from its config.json alone.

    Raises:
        ConfigError: If the configuration does not describe a model.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig, AutoModelForImageTextToText

    path = directory / "config.json"
    try:
        config = AutoConfig.from_pretrained(directory, local_files_only=True)
        with on_meta_device():
            model = AutoModelForImageTextToText.from_config(config, dtype=dtype)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, StrictDataclassError) as error:
        raise ConfigError(f"{path} does not describe a model: {' '.join(str(error).split())}") from error
    model.tie_weights()
    return model.eval()


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Makes modules within the block without memory, and without drawing their initial weights."""
    from transformers.initialization import no_init_weights

    with torch.device("meta"), no_init_weights():
        yield


def shape_of(model: Any, language: Any) -> ModelShape:
    """Returns the size of a policy or a critic.

    Args:
        model: The whole model; its weights may be without memory.
        language: The checkpoint's model with its head, from which a critic was made.
    """
    sizes = [weight.numel() for weight in model.parameters()]
    decoder, embeddings = model.model.get_decoder(), model.model.get_input_embeddings()
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    layers = [_num_elements([layer]) for layer in decoder_layers(model)]
    tower = vision_parts(model)
    is_frozen = not any(weight.requires_grad for part in tower for weight in part.parameters())
    num_frozen_vision = _num_elements(tower) if is_frozen else 0
    text = language.config.get_text_config()
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return ModelShape(
        num_parameters=sum(sizes),
        num_trained=sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
        num_vision=_num_elements([model.model]) - _num_elements([decoder]),
        num_frozen_vision=num_frozen_vision,
        num_embeddings=embeddings.weight.numel(),
        num_head=0 if head is None or head.weight is embeddings.weight else head.weight.numel(),
        largest_weight=max(sizes),
        largest_layer=max(layers, default=0),
        num_outside_layers=sum(sizes) - sum(layers) - num_frozen_vision,
        cached_per_token=2 * text.num_hidden_layers * text.num_key_value_heads * head_dim,
        vocab_size=text.vocab_size,
    )


def _num_elements(modules: Iterable[nn.Module]) -> int:
    weights = {id(weight): weight for module in modules for weight in module.parameters()}
    return sum(weight.numel() for weight in weights.values())


@dataclass(frozen=True, kw_only=True)
class LayerBytes:
    """Bytes per token in a stack of equal layers.

    Attributes:
        num_layers: Number of layers.
        width: Bytes of a hidden state.
        kept: Bytes that one layer keeps for its backward pass.
        forward: Bytes that a forward pass needs for the current layer.
        backward: Bytes that a backward pass needs for the current layer, in addition to `kept`.
    """

    num_layers: int
    width: int
    kept: int
    forward: int
    backward: int

    def all_kept(self, *, recomputes: bool) -> int:
        """Returns the bytes that all layers keep; with gradient checkpointing, only their inputs."""
        return self.num_layers * (self.width if recomputes else self.kept)


def layer_bytes(layers: list[Any], num_bytes: int, *, rank: int | None = None) -> LayerBytes:
    """Returns the bytes of layers, derived from the linear layers and norms of the first one.

    Args:
        layers: Decoder layers or blocks of a vision tower, without adapters.
        num_bytes: Bytes of an activation.
        rank: Rank of adapters that are trained instead of the layers; None without adapters.
    """
    layer, widths, forward, backward = layers[0], [], 0, 0
    kept = sum(
        scale.numel() for scale in layer.parameters(recurse=False)
    )  # inputs of scaling parameters, as in InternVL's tower
    norm_bytes = num_bytes  # LayerNorm keeps its input; an RMS norm a float32 copy and the normalized input
    norm_sizes = 0
    for part in layer.modules():
        linear = [child for child in part.children() if isinstance(child, nn.Linear)]
        for name, child in part.named_children():
            if isinstance(getattr(child, "weight", None), Tensor) and not isinstance(child, nn.Linear):
                if not isinstance(child, nn.LayerNorm):
                    norm_bytes = FLOAT32 + (num_bytes if rank is None else 0)
                projection = getattr(part, name.replace("norm", "proj"), None)  # of queries or keys, head by head
                norm_sizes += child.weight.numel() if projection is None else projection.out_features
        if not linear:
            continue
        *inner, last = linear
        given, results = inner[0].in_features, sum(child.out_features for child in inner)
        widths.append(given)
        is_fused = len(inner) == 1 and results == 3 * last.in_features
        rotated = is_fused * 2 * last.in_features  # queries and keys, apart from the result of all three
        kept += given + results + rotated + (1 + (len(inner) > 1 or is_fused)) * last.in_features
        kept += (rank or 0) * len(linear)
        forward = max(forward, results + rotated + last.in_features * (1 if rank is None else 2))
        backward = max(backward, results)
    return LayerBytes(
        num_layers=len(layers),
        width=num_bytes * widths[0],
        kept=num_bytes * kept + norm_bytes * norm_sizes,
        forward=num_bytes * (forward + 5 * widths[0]),
        backward=num_bytes * backward,
    )


class PassBytes(NamedTuple):
    """Bytes of a pass over a micro-batch, without weights and their gradients.

    Attributes:
        kept: Bytes that text and vision layers keep for the backward pass.
        working: Bytes of the current layer.
        logits: Bytes of a chunk of logits, which is freed before the layers' backward pass.
    """

    kept: float = 0.0
    working: float = 0.0
    logits: float = 0.0

    @property
    def most(self) -> float:
        """Peak bytes."""
        return self.kept + max(self.working, self.logits)

    @property
    def parts(self) -> dict[str, float]:
        """Peak bytes by part of a phase."""
        activations = self.kept + self.working
        return {"activations": activations, "logits": self.most - activations}


class ModelBytes:
    """Sizes of a run's policy and critic, and bytes of their passes over any number of turns.

    The estimate ignores sharing: it assumes that no two rows have a common prefix, and that no image repeats.

    Args:
        model: The checkpoint's model without memory, in the data type of activations; the run's adapters are added,
            and its frozen weights frozen, in place.
        config: The run.
        row: Its longest row.
    """

    def __init__(self, model: Any, config: RunConfig, row: RowShape) -> None:
        self.config, self.row = config, row
        num_bytes = FLOAT32 if model.dtype == torch.float32 else 2
        self.num_bytes, self.num_layers = num_bytes, model.config.get_text_config().num_hidden_layers
        stacks = [
            module for part in vision_parts(model) for module in part.modules() if isinstance(module, nn.ModuleList)
        ]
        blocks: nn.ModuleList = max(stacks, key=lambda stack: len(stack))
        self._patches_per_turn = row.later.num_image_tokens * patches_per_token(model.config)
        self.text = layer_bytes(decoder_layers(model), num_bytes, rank=config.lora.rank)
        self.vision = layer_bytes(list(blocks), num_bytes)
        if config.lora.rank is not None:
            add_adapters(model, config.lora)
        if config.memory.freeze_vision_tower:
            freeze_vision_tower(model)
        critic = config.algorithm.critic_config
        self.policy = shape_of(model, model)
        self.critic = None if critic is None else shape_of(ValueModel(model, trunk=critic.trunk), model)

    def policy_training(self, num_turns: float) -> PassBytes:
        """Returns the bytes of the policy's forward and backward pass."""
        logits = self._logits(num_turns, num_copies=4 if self.config.ppo.entropy_coef > 0 else 3)
        return self._trained(num_turns)._replace(logits=logits)

    def policy_evaluation(self, num_turns: float) -> PassBytes:
        """Returns the bytes of the policy's forward pass."""
        return self.prefill(num_turns)._replace(logits=self._logits(num_turns, num_copies=2))

    def critic_training(self, num_turns: float) -> PassBytes:
        """Returns the bytes of the critic's forward and backward pass."""
        critic = self.config.algorithm.critic_config
        if critic is not None and critic.trunk == "policy":  # a head on hidden states
            hidden = num_turns * self.row.tokens_per_turn * self.text.width
            return PassBytes(kept=4 * hidden, working=max(0.0, self.prefill(num_turns).working - 4 * hidden))
        return self._trained(num_turns)

    def prefill(self, num_turns: float) -> PassBytes:
        """Returns the bytes of a forward pass without the head."""
        text = self.row.tokens_per_turn * self.text.forward
        return PassBytes(working=num_turns * max(text, self._patches_per_turn * self.vision.forward))

    def _trained(self, num_turns: float) -> PassBytes:
        recomputes = self.config.memory.gradient_checkpointing
        num_tokens, num_patches = num_turns * self.row.tokens_per_turn, num_turns * self._patches_per_turn
        # in addition to layers: the last norm and the tower's projector
        text = self.text.all_kept(recomputes=recomputes) + 3 * self.text.width
        vision = self.vision.all_kept(recomputes=recomputes) + 5 * self.vision.width
        kept = num_tokens * text + (0 if self.policy.num_frozen_vision else num_patches * vision)
        return PassBytes(kept=kept, working=num_tokens * (self.text.backward + recomputes * self.text.kept))

    def _logits(self, num_turns: float, *, num_copies: int) -> float:
        vocab_size = self.policy.vocab_size
        num_tokens = min(num_turns * self.row.num_response_tokens, tokens_per_chunk(vocab_size))
        hidden = 2 * num_turns * self.row.tokens_per_turn * self.text.width
        return num_tokens * vocab_size * (num_copies * FLOAT32 + self.num_bytes) + hidden


def patches_per_token(model_config: Any) -> float:
    """Returns the number of vision tower patches per token of the language model."""
    vision = model_config.vision_config
    if merge := getattr(vision, "spatial_merge_size", None):
        return float(merge**2)
    side, patch = (size if isinstance(size, int) else size[0] for size in (vision.image_size, vision.patch_size))
    num_patches = (side // patch) ** 2
    of_tile = getattr(model_config, "mm_tokens_per_image", None) or getattr(model_config, "image_seq_length", None)
    return num_patches / of_tile if of_tile else float(model_config.scale_factor**2)
