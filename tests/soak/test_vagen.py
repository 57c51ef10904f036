"""VAGEN's presets run in the world whose four engines take longest to start."""

from __future__ import annotations

import pytest

from tests.unit.training.recipes.test_vagen import test_it_runs as runs
from training.recipes.shipped import OF_A_WORLD


@pytest.mark.parametrize("preset", OF_A_WORLD)
def test_it_runs_with_the_arm(preset, tiny_directory, tmp_path):
    runs(preset, "primitive_skill", tiny_directory, tmp_path)
