"""What a run does to fit the memory of its devices. None of it changes what is learnt, but for what is frozen."""

from __future__ import annotations

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
            slower so. Unpacked, no more than a tenth of a micro-batch that is cut by tokens is padding.
    """

    gradient_checkpointing: bool = False
    freeze_vision_tower: bool = False
    attention: Literal["eager", "sdpa", "flash_attention_2"] | None = None
    packing: Literal["auto", "on", "off"] = "auto"
