"""Settings: kinds of scenery."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from numpy.random import Generator

from vlm_envs.content.scenes.settings.chart import plan_map
from vlm_envs.content.scenes.settings.desk import plan_desk
from vlm_envs.content.scenes.settings.setting import Scenery
from vlm_envs.content.scenes.settings.shelf import plan_shelf
from vlm_envs.content.scenes.settings.street import plan_street

SETTINGS: Mapping[str, Callable[[int, int, Generator], Scenery]] = {
    "street": plan_street,
    "desk": plan_desk,
    "shelf": plan_shelf,
    "map": plan_map,
}
"""Draws a scenery plan, given columns, rows, and a random generator, by the name of the setting."""
