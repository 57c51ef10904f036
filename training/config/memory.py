"""What a run does to fit the memory of its devices. None of it changes what is learnt, but for what is frozen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """Memory of the update.

    Attributes:
        gradient_checkpointing: Keep of each layer only what goes into it, and compute the rest anew in the backward
            pass: far less memory for a third more work. Of policy and critic alike, in the update alone.
        freeze_vision_tower: Leave out of training what pictures go through before the language model, its projector
            too. Each picture is then shown to the tower once per batch, and policy, reference and critic share what it
            says, as they do the tower. As verl's setting of this name.
    """

    gradient_checkpointing: bool = False
    freeze_vision_tower: bool = False
