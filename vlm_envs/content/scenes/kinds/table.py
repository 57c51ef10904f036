"""Every kind of thing by its noun."""

from __future__ import annotations

from collections.abc import Mapping

from vlm_envs.content.scenes.kinds.creatures import CREATURES
from vlm_envs.content.scenes.kinds.goods import GOODS, HOLDERS
from vlm_envs.content.scenes.kinds.kind import Kind
from vlm_envs.content.scenes.kinds.outdoors import OUTDOORS

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (*GOODS, *HOLDERS, *CREATURES, *OUTDOORS)}
"""Every kind by its noun."""

PLAIN_KINDS = tuple(kind.name for kind in (*GOODS, *CREATURES, *OUTDOORS) if kind.name not in ("clock", "sign"))
"""Kinds that are told apart by colour alone."""

HOLDER_KINDS = tuple(kind.name for kind in HOLDERS)
"""Kinds that others may lie in."""
