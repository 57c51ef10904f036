import copy
import pickle

import numpy as np
import pytest
from PIL import Image

from vlm_envs.errors import ConfigError
from vlm_envs.tools.coordinates import PixelRectangle
from vlm_envs.tools.pictures import Picture, blank, crop, within_budget, within_long_side


def gradient(width, height):
    columns = np.arange(width, dtype=np.uint8)[None, :, None]
    rows = np.arange(height, dtype=np.uint8)[:, None, None]
    return np.concatenate(np.broadcast_arrays(columns, rows, columns + rows), axis=2)


def test_pixels_cannot_change():
    array = gradient(5, 4)
    picture = Picture(array)
    array[:] = 0
    assert picture.pixels[3, 4].tolist() == [4, 3, 7]
    with pytest.raises(ValueError, match="read-only"):
        picture.pixels[0, 0, 0] = 1
    with pytest.raises(AttributeError, match="is immutable"):
        picture.pixels = array


def test_a_read_only_view_of_something_that_changes_is_copied():
    array = gradient(5, 4)
    view = array[:]
    view.flags.writeable = False
    picture = Picture(view)
    array[:] = 9
    assert picture.pixels[0, 0, 0] == 0


def test_equal_pixels_are_equal_pictures():
    first, second = Picture(gradient(5, 4)), Picture(gradient(5, 4))
    assert first == second and hash(first) == hash(second) and len({first, second}) == 1
    assert first != Picture(gradient(4, 5))
    assert first != "picture"
    # Size is part of the content: the same bytes in another shape are another picture.
    flat = np.zeros((2, 8, 3), np.uint8)
    assert Picture(flat) != Picture(flat.reshape(4, 4, 3))
    assert Picture(flat).digest != Picture(flat.reshape(4, 4, 3)).digest


def test_pickled_and_copied_pictures_are_values_too():
    picture = Picture(gradient(5, 4))
    for other in (pickle.loads(pickle.dumps(picture)), copy.deepcopy(picture)):
        assert other == picture and not other.pixels.flags.writeable


@pytest.mark.parametrize(
    "array",
    [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8), np.zeros((0, 4, 3), np.uint8), np.zeros((4, 4, 3))],
)
def test_other_arrays_are_refused(array):
    with pytest.raises(ConfigError, match=r"An image must be uint8\[height, width, 3\]"):
        Picture(array)


def test_transparent_pixels_lie_on_white():
    image = Image.new("RGBA", (2, 1), (200, 0, 0, 0))
    image.putpixel((1, 0), (200, 0, 0, 255))
    assert Picture.from_image(image).pixels.tolist() == [[[255, 255, 255], [200, 0, 0]]]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "CMYK", "YCbCr", "I", "F", "RGBA"])
def test_images_of_every_mode_become_rgb(mode):
    assert Picture.from_image(Image.new(mode, (3, 2))).pixels.shape == (2, 3, 3)


def test_an_image_of_its_own():
    picture = Picture(gradient(5, 4))
    picture.image().putpixel((0, 0), (9, 9, 9))
    assert picture.pixels[0, 0].tolist() == [0, 0, 0]


def test_crop_takes_exactly_the_pixels():
    # Column 1 to 2 and row 2 to 3 of a picture whose channels are column, row and their sum.
    cut = crop(Picture(gradient(5, 4)), PixelRectangle(1, 2, 3, 4))
    assert cut.pixels.tolist() == [[[1, 2, 3], [2, 2, 4]], [[1, 3, 4], [2, 3, 5]]]


def test_a_blank_has_the_mean_color():
    # Columns 0 to 3 have mean 1.5, rounded half to even: 2; one row: 0.
    picture = blank(Picture(gradient(4, 1)), 2, 3)
    assert picture.pixels.shape == (3, 2, 3)
    assert np.unique(picture.pixels.reshape(-1, 3), axis=0).tolist() == [[2, 0, 2]]


def test_scaling_down_to_a_budget_and_to_a_side():
    picture = Picture(np.zeros((300, 400, 3), np.uint8))
    assert (within_budget(picture, 7_500).width, within_budget(picture, 7_500).height) == (100, 75)
    assert within_budget(picture, 120_000) is picture
    assert (within_long_side(picture, 100).width, within_long_side(picture, 100).height) == (100, 75)
    assert within_long_side(picture, 400) is picture
    assert within_long_side(Picture(np.zeros((1, 400, 3), np.uint8)), 100).height == 1


@pytest.mark.parametrize("mode", ["I;16", "I"])
def test_sixteen_bits_are_scaled_and_not_cut(mode):
    grey = np.array([[0, 257, 32_896, 65_535]], np.uint16)
    image = Image.fromarray(grey) if mode == "I;16" else Image.fromarray(grey.astype(np.int32))
    assert image.mode == mode
    assert Picture.from_image(image).pixels[0, :, 0].tolist() == [0, 1, 128, 255]
