import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vlm_envs.errors import ConfigError
from vlm_envs.tools.coordinates import OriginalPixels, PixelRectangle
from vlm_envs.tools.pictures import Picture
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind
from vlm_envs.tools.tool_memory import ImageStore, Memory
from vlm_envs.tools.tool_registry import ToolRegistry
from vlm_envs.tools.zoom import LanczosUpscaler, ZoomSettings, grown, image_zoom_in_tool, zoom_rectangle

SETTINGS = ZoomSettings()


def noise(width, height, seed=0):
    return Picture(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def zoom_in(picture, box, settings=None, image="original_image"):
    memory = Memory(ImageStore(max_total_pixels=10**9).with_image("original_image", picture))
    registry = ToolRegistry((image_zoom_in_tool(settings),))
    return registry.call("image_zoom_in_tool", json.dumps({"image": image, "bbox_2d": box}), memory)


@pytest.mark.parametrize(
    ("size", "box", "expected"),
    [
        # ARM-Thinker, appendix E: thousandths to pixels, here 4 and 3 pixels a thousandth.
        ((4000, 3000), [100, 200, 300, 400], (400, 600, 1200, 1200)),
        ((4000, 3000), [0, 0, 1000, 1000], (0, 0, 4000, 3000)),
        # At least 28 a side: 1000 x 1000 pixels, 10 wide from 500: 18 are missing, 9 on each side.
        ((1000, 1000), [500, 100, 510, 200], (491, 100, 519, 200)),
        # 11 wide: 17 are missing, 8 to the left and 9 to the right (pin).
        ((1000, 1000), [500, 100, 511, 200], (492, 100, 520, 200)),
        # At the edges the region moves inside: the left one would begin at -9, the right one end at 1009.
        ((1000, 1000), [0, 0, 10, 10], (0, 0, 28, 28)),
        ((1000, 1000), [990, 990, 1000, 1000], (972, 972, 1000, 1000)),
        # 1 x 100 pixels are just not too elongated (ratio 100), and grow to 28 x 100: from 500 - 13 (27 // 2).
        ((1000, 1000), [500, 100, 501, 200], (487, 100, 515, 200)),
        # A picture of 28 pixels is shown whole.
        ((28, 28), [500, 500, 501, 501], (0, 0, 28, 28)),
    ],
)
def test_regions(size, box, expected):
    assert zoom_rectangle(box, OriginalPixels(*size), SETTINGS) == PixelRectangle(*expected)


@pytest.mark.parametrize(
    ("size", "box", "kind"),
    [
        ((1000, 1000), [1, 2, 3], ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ((1000, 1000), None, ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ((1000, 1000), "0, 0, 10, 10", ToolErrorKind.BOX_NOT_FOUR_NUMBERS),
        ((1000, 1000), [0, 0, 10, 1500], ToolErrorKind.BOX_OUT_OF_RANGE),
        ((1000, 1000), [0, 0, 10, 1001], ToolErrorKind.BOX_OUT_OF_RANGE),
        ((1000, 1000), [0.1, 0.1, 0.4, 0.4], ToolErrorKind.BOX_NOT_WHOLE_NUMBERS),
        ((1000, 1000), [10, 0, 10, 10], ToolErrorKind.BOX_REVERSED),
        ((1000, 1000), [0, 20, 10, 10], ToolErrorKind.BOX_REVERSED),
        # 1 x 101 pixels: ratio 101.
        ((1000, 1000), [500, 100, 501, 201], ToolErrorKind.BOX_TOO_ELONGATED),
        ((1000, 1000), [0, 500, 1000, 501], ToolErrorKind.BOX_TOO_ELONGATED),
        ((27, 1000), [0, 0, 1000, 500], ToolErrorKind.BOX_TOO_SMALL),
    ],
)
def test_every_fault_has_its_own_error(size, box, kind):
    result = zoom_in(noise(*size), box)
    assert not result.ok and result.error is kind


def test_unknown_and_missing_images_are_told_apart():
    result = zoom_in(noise(50, 50), [0, 0, 10, 10], image="observation_3")
    assert result.error is ToolErrorKind.UNKNOWN_IMAGE and "original_image" in result.text
    registry = ToolRegistry((image_zoom_in_tool(),))
    assert (
        registry.call("image_zoom_in_tool", '{"bbox_2d": [0, 0, 1, 1]}', Memory()).error
        is ToolErrorKind.MISSING_ARGUMENT
    )
    assert registry.call("image_zoom_in_tool", '{"image": "a"}', Memory()).error is ToolErrorKind.MISSING_ARGUMENT


def test_large_crops_are_original_pixels():
    picture = noise(1000, 800)
    result = zoom_in(picture, [100, 250, 500, 750])  # 400 x 400 pixels from (100, 200)
    assert np.array_equal(result.images[0].pixels, picture.pixels[200:600, 100:500])
    assert result.image_names == ("observation_1",)


@pytest.mark.parametrize(("side", "shown"), [(223, 446), (224, 224)])
def test_crops_under_224_are_doubled_by_bicubic_interpolation(side, shown):
    # One thousandth of 1000 pixels is a pixel.
    picture = noise(1000, 1000)
    result = zoom_in(picture, [100, 100, 100 + side, 400])
    assert (result.images[0].width, result.images[0].height) == (shown, 300 * shown // side)
    if shown > side:
        cut = Image.fromarray(picture.pixels[100:400, 100 : 100 + side])
        expected = np.asarray(cut.resize((shown, 600), Image.Resampling.BICUBIC))
        assert np.array_equal(result.images[0].pixels, expected)


def test_a_crop_can_be_zoomed_into():
    memory = Memory(ImageStore().with_image("original_image", noise(1000, 1000)))
    registry = ToolRegistry((image_zoom_in_tool(),))
    first = registry.call("image_zoom_in_tool", '{"image": "original_image", "bbox_2d": [0, 0, 500, 500]}', memory)
    second = registry.call(
        "image_zoom_in_tool", '{"image": "observation_1", "bbox_2d": [0, 0, 500, 500]}', first.memory
    )
    assert second.ok and second.image_names == ("observation_2",)
    assert np.array_equal(second.images[0].pixels, first.images[0].pixels[:250, :250])


def test_the_blank_control_has_the_same_sizes_and_texts_and_no_content():
    picture = noise(1000, 1000)
    for box in ([0, 0, 100, 150], [0, 0, 400, 500]):
        seen, control = zoom_in(picture, box), zoom_in(picture, box, replace(SETTINGS, blank=True))
        assert control.text == seen.text
        assert control.images[0].pixels.shape == seen.images[0].pixels.shape
        assert len(np.unique(control.images[0].pixels.reshape(-1, 3), axis=0)) == 1
    # The colour says nothing of the region: it is the same wherever the box is.
    assert np.array_equal(
        control.images[0].pixels[0, 0],
        zoom_in(picture, [900, 900, 999, 999], replace(SETTINGS, blank=True)).images[0].pixels[0, 0],
    )


@pytest.mark.parametrize(
    ("size", "region", "expected"),
    [
        ((5000, 5000), (100, 100, 400, 300), (100, 100, 400, 300)),
        ((5000, 5000), (10, 10, 11, 12), (0, 0, 28, 28)),
        # 5000 x 1: grown to a hundredth of its length, which is 50
        ((5000, 5000), (0, 100, 5000, 101), (0, 76, 5000, 126)),
        ((5000, 5000), (0, 4999, 5000, 5000), (0, 4950, 5000, 5000)),
        ((5000, 20), (0, 3, 5000, 4), (0, 0, 5000, 20)),
    ],
)
def test_a_region_grows_until_it_can_be_shown_as_far_as_the_image_reaches(size, region, expected):
    assert grown(PixelRectangle(*region), OriginalPixels(*size), SETTINGS) == PixelRectangle(*expected)


def test_the_upscaler_can_be_replaced():
    result = zoom_in(noise(1000, 1000), [0, 0, 100, 100], ZoomSettings(upscaler=LanczosUpscaler(4)))
    assert result.images[0].width == 400


def test_settings_are_checked():
    for change in ({"min_side_px": 0}, {"max_aspect_ratio": 0}, {"upscale_below_px": -1}):
        with pytest.raises(ConfigError, match="at least"):
            ZoomSettings(**change)


@given(
    size=st.tuples(st.integers(1, 3000), st.integers(1, 3000)),
    box=st.lists(st.integers(-10, 1010), min_size=4, max_size=4),
)
def test_every_region_is_inside_and_large_enough(size, box):
    try:
        rectangle = zoom_rectangle(box, OriginalPixels(*size), SETTINGS)
    except ToolError:
        return
    assert min(rectangle.left, rectangle.top) >= 0 and rectangle.right <= size[0] and rectangle.bottom <= size[1]
    assert min(rectangle.width, rectangle.height) >= 28
    assert rectangle.left <= box[0] * size[0] / 1000 + 1e-6 and rectangle.right >= box[2] * size[0] / 1000 - 1e-6


def test_the_schema_tells_the_model_what_a_box_is():
    parameters = image_zoom_in_tool().schema()["function"]["parameters"]
    assert parameters["required"] == ["image", "bbox_2d"]
    assert parameters["properties"]["bbox_2d"]["items"] == {"type": "integer", "minimum": 0, "maximum": 1000}
