"""Settings: what a scene is an image of."""

from __future__ import annotations

from collections.abc import Mapping

from vlm_envs.content.scenes.settings.chart import CHART
from vlm_envs.content.scenes.settings.desk import DESK
from vlm_envs.content.scenes.settings.setting import AnySetting
from vlm_envs.content.scenes.settings.shelf import SHELF
from vlm_envs.content.scenes.settings.street import STREET

SETTINGS: Mapping[str, AnySetting] = {"street": STREET, "desk": DESK, "shelf": SHELF, "map": CHART}
"""Every setting by its name."""
