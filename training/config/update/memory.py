"""What a run does to fit the memory of its devices. None of it changes what is learnt, but for what is frozen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """Memory of the update.

    Attributes:
        gradient_checkpointing: Keep of each layer only what goes into it, and compute the rest anew in the backward
            pass: far less memory for a third more work. Of policy and critic alike, in the update alone.
        freeze_vision_tower: Leave out of training what pictures go through before the language model, its projector
            too. Each picture is then shown to the tower once per batch, and policy, reference and critic share what it
            says, as they do the tower. As verl's setting of this name.
        attention: How transformers computes attention; None leaves the choice to it. `"flash_attention_2"` needs the
            package flash-attn, a GPU and `--dtype bfloat16`.
        packing: Whether the rows of a micro-batch go through a model as a single one without padding, none of which
            sees another; not of families whose pictures are seen in both directions (Gemma 3). `"auto"` does where
            flash attention computes only what each row sees; other kinds compute what no row may see, too, and are
            slower so.
        prefix_sharing: Whether what rows of a micro-batch begin with goes through a model once, pictures and all, and
            padding not at all: siblings share their prompt, and as much of their answers as they have in common.
            `"auto"` does where attention is torch's own (`sdpa`), without sliding windows, and no packing is asked for.
        offload_reference: Keep the reference in the host's memory, but while it says what it would have said.
        offload_optimizer: Keep the optimisers' moments and float32 masters there, but while their model is updated.
    """

    gradient_checkpointing: bool = False
    freeze_vision_tower: bool = False
    attention: Literal["eager", "sdpa", "flash_attention_2"] | None = None
    packing: Literal["auto", "on", "off"] = "auto"
    prefix_sharing: Literal["auto", "on", "off"] = "auto"
    offload_reference: bool = False
    offload_optimizer: bool = False


def memory_contradictions(
    memory: MemoryConfig, *, has_adapters: bool, has_reference: bool, num_micro_batches_at_once: int
) -> Iterator[str]:
    """Yields what is asked for and would do nothing."""
    if num_micro_batches_at_once > 1 and (has_adapters or memory.gradient_checkpointing):
        what = "--lora.rank" if has_adapters else "--memory.gradient-checkpointing"
        yield (
            f"--ppo.num-micro-batches-at-once {num_micro_batches_at_once} would do nothing: with {what} a pass changes "
            "what another one would go through. Use --ppo.num-micro-batches-at-once 1."
        )
    if memory.offload_reference and (has_adapters or not has_reference):
        why = "is the policy without its adapters (--lora.rank)" if has_reference else "is left out (--ppo.kl-coef 0)"
        yield f"--memory.offload-reference would do nothing: the reference {why}. Use --memory.no-offload-reference."
    if memory.packing == "on" and memory.prefix_sharing == "on":
        yield (
            "--memory.packing on would do nothing: where prefixes are shared there is no padding. Use --memory.packing "
            "auto."
        )
    if memory.freeze_vision_tower and has_adapters:
        yield (
            "--memory.freeze-vision-tower would do nothing: --lora.rank freezes everything but its adapters. Use "
            "--memory.no-freeze-vision-tower."
        )
