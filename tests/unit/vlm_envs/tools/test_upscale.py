import numpy as np
import pytest
from PIL import Image

from vlm_envs.errors import ConfigError
from vlm_envs.tools.pictures import Picture
from vlm_envs.tools.zoom import BicubicUpscaler, LanczosUpscaler

PICTURE = Picture(np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8))


@pytest.mark.parametrize(
    ("upscaler", "resample"),
    [(LanczosUpscaler(3), Image.Resampling.LANCZOS), (BicubicUpscaler(3), Image.Resampling.BICUBIC)],
)
def test_upscalers_resample_as_they_are_called(upscaler, resample):
    expected = np.asarray(Image.fromarray(PICTURE.pixels).resize((21, 15), resample))
    assert np.array_equal(upscaler.upscale(PICTURE).pixels, expected)


def test_factor_one_changes_nothing():
    assert LanczosUpscaler(1).upscale(PICTURE) == PICTURE


def test_one_pixel_can_be_enlarged():
    assert LanczosUpscaler(2).upscale(Picture(np.full((1, 1, 3), 9, np.uint8))).pixels.tolist() == [[[9, 9, 9]] * 2] * 2


def test_the_factor_is_a_positive_integer():
    with pytest.raises(ConfigError, match="factor"):
        LanczosUpscaler(0)
