"""Where the cameras stand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.vlm_envs.worlds.primitive_skill.skill_tables import PLACE
from vlm_envs.errors import ConfigError
from vlm_envs.registration import make
from vlm_envs.worlds.primitive_skill.primitive_skill_world import PrimitiveSkillView
from vlm_envs.worlds.primitive_skill.sapien_engine import EngineHandle
from vlm_envs.worlds.primitive_skill.sapien_scene import why_unavailable

needs_engine = pytest.mark.skipif(bool(why_unavailable()), reason=str(why_unavailable()))


@needs_engine
def test_from_above_things_are_where_their_coordinates_say() -> None:
    picture = PrimitiveSkillView(engine=EngineHandle(), resolution=128, camera="above").image(PLACE)
    px_per_mm = 128 / 469
    red = (picture[..., 0] > 150) & (picture[..., 1] < 110) & (picture[..., 2] < 110)
    green = (picture[..., 1] > 120) & (picture[..., 0] < 120) & (picture[..., 2] < 130)
    for cube, shown in zip(PLACE.cubes, (red, green), strict=True):
        row, column = (indices.mean() for indices in np.nonzero(shown))
        x_mm, y_mm, _ = (1000 * value for value in cube.position)
        assert abs(row - (64 + (x_mm - 25) * px_per_mm)) < 3
        assert abs(column - (64 + y_mm * px_per_mm)) < 3


@needs_engine
def test_each_camera_has_its_own_pictures() -> None:
    views = [PrimitiveSkillView(engine=EngineHandle(), resolution=64, camera=name) for name in ("front", "above")]
    front, above = (view.image(PLACE) for view in views)
    assert not np.array_equal(front, above)
    np.testing.assert_array_equal(views[0].image(PLACE), front)


def test_an_unknown_camera_is_refused() -> None:
    with pytest.raises(ConfigError, match="camera"):
        make("VLM/PrimitiveSkill-v0", camera="side")
