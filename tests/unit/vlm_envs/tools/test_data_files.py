import contextlib
import inspect
import io
import os
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from vlm_envs.errors import ConfigError
from vlm_envs.tools.data_files import MAX_IMAGE_PIXELS, FileRoot, decode_image, image_size
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind


def png(width=4, height=3):
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (10, 20, 30)).save(buffer, "PNG")
    return buffer.getvalue()


def png_declaring(width, height):
    """A PNG whose header declares a size and whose data are those of one row."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(10))) + chunk(b"IEND", b"")
    )


@pytest.fixture
def root(tmp_path):
    """A folder with files, and beside it one that must not be read."""
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.png").write_bytes(png())
    (folder / "sub" / "b.png").write_bytes(png())
    (folder / "inside.png").symlink_to(folder / "a.png")
    (tmp_path / "secret.png").write_bytes(png())
    (folder / "outside.png").symlink_to(tmp_path / "secret.png")
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder / "loop")
    (tmp_path / "root2").mkdir()
    (tmp_path / "root2" / "c.png").write_bytes(png())
    return FileRoot(folder)


@pytest.mark.parametrize("name", ["a.png", "./a.png", "sub/b.png", "inside.png"])
def test_files_inside_are_read(root, name):
    assert root.read(name) == png()
    assert root.picture(name).pixels[0, 0].tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", ToolErrorKind.FORBIDDEN_PATH),
        (" ", ToolErrorKind.FORBIDDEN_PATH),
        ("../secret.png", ToolErrorKind.FORBIDDEN_PATH),
        ("sub/../../secret.png", ToolErrorKind.FORBIDDEN_PATH),
        ("../root2/c.png", ToolErrorKind.FORBIDDEN_PATH),
        ("sub/../a.png", ToolErrorKind.FORBIDDEN_PATH),
        ("/outside/secret.png", ToolErrorKind.FORBIDDEN_PATH),
        ("//outside/secret.png", ToolErrorKind.FORBIDDEN_PATH),
        ("..\\secret.png", ToolErrorKind.FORBIDDEN_PATH),
        ("C:secret.png", ToolErrorKind.FORBIDDEN_PATH),
        ("a.png\0.txt", ToolErrorKind.FORBIDDEN_PATH),
        ("a\nb", ToolErrorKind.FORBIDDEN_PATH),
        ("<b>", ToolErrorKind.FORBIDDEN_PATH),
        ("\udcff", ToolErrorKind.FORBIDDEN_PATH),
        ("x" * 600, ToolErrorKind.FORBIDDEN_PATH),
        ("outside.png", ToolErrorKind.FORBIDDEN_PATH),
        ("up/secret.png", ToolErrorKind.FORBIDDEN_PATH),
        ("x" * 400, ToolErrorKind.UNKNOWN_FILE),
        ("missing.png", ToolErrorKind.UNKNOWN_FILE),
        ("a.png/b", ToolErrorKind.UNKNOWN_FILE),
        ("loop", ToolErrorKind.UNKNOWN_FILE),
        ("%2e%2e/secret.png", ToolErrorKind.UNKNOWN_FILE),
        ("․․/secret.png", ToolErrorKind.UNKNOWN_FILE),  # One-dot leaders are no dots.
        (".", ToolErrorKind.UNREADABLE_FILE),
        ("sub", ToolErrorKind.UNREADABLE_FILE),
    ],
)
def test_everything_else_is_refused(root, name, kind, tmp_path):
    with pytest.raises(ToolError) as refusal:
        root.read(name)
    assert refusal.value.kind is kind
    assert str(tmp_path) not in refusal.value.message
    assert len(refusal.value.message) < 400


@given(st.text(alphabet=st.sampled_from("./\\ab:~\0"), max_size=12))
def test_no_name_leads_out(tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp() / "fuzzed"
    (folder / "a").mkdir(parents=True, exist_ok=True)
    (folder.parent / "b").write_bytes(b"secret")
    (folder / "a" / "b").write_bytes(b"inside")
    with contextlib.suppress(ToolError):
        assert FileRoot(folder).read(name) == b"inside"


def test_a_pipe_does_not_block(root, tmp_path):
    os.mkfifo(tmp_path / "root" / "pipe")
    with pytest.raises(ToolError, match="no regular file"):
        root.read("pipe")


def test_large_files_are_refused(root, tmp_path):
    with pytest.raises(ToolError, match="at most 10 are read") as refusal:
        root.read("a.png", max_bytes=10)
    assert refusal.value.kind is ToolErrorKind.TOO_LARGE


def test_what_exists_is_listed(root):
    with pytest.raises(ToolError, match=r"Files that exist: a\.png, inside\.png"):
        root.read("missing.png")
    assert root.names(".png") == ["a.png", "inside.png", "outside.png"]


def test_the_root_is_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="is not a folder"):
        FileRoot(tmp_path / "missing")


def test_images_that_declare_more_pixels_than_the_limit_are_not_decoded():
    assert decode_image(png(7, 5), max_pixels=35).pixels.shape == (5, 7, 3)
    with pytest.raises(ToolError, match="declares 7 x 5 pixels; at most 34 are decoded") as refusal:
        decode_image(png(7, 5), max_pixels=34)
    assert refusal.value.kind is ToolErrorKind.TOO_LARGE


def test_the_pixels_are_counted_before_any_is_decoded():
    # Its data are those of one row: decoding would fail with another error.
    with pytest.raises(ToolError) as refusal:
        decode_image(png_declaring(40, 25), max_pixels=999)
    assert refusal.value.kind is ToolErrorKind.TOO_LARGE


def test_an_image_that_pillow_refuses_is_too_large(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(ToolError, match="more pixels than can be decoded") as refusal:
        decode_image(png(7, 5))
    assert refusal.value.kind is ToolErrorKind.TOO_LARGE


def test_the_default_limit_is_below_the_one_that_pillow_only_warns_of():
    assert MAX_IMAGE_PIXELS < Image.MAX_IMAGE_PIXELS
    assert inspect.signature(decode_image).parameters["max_pixels"].default == MAX_IMAGE_PIXELS
    assert inspect.signature(image_size).parameters["max_pixels"].default == MAX_IMAGE_PIXELS


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GIF89a",
        b"not an image",
        png()[:40],
        png()[:50],
        png_declaring(10, 10),
        png_declaring(0, 10),
        b"%!PS-Adobe",
    ],
    ids=["empty", "signature", "text", "header", "half", "too little data", "no pixels", "refused format"],
)
def test_broken_images_are_explained(content):
    with pytest.raises(ToolError) as refusal:
        decode_image(content, name="x.png")
    assert refusal.value.kind is ToolErrorKind.UNREADABLE_FILE
    assert "x.png" in refusal.value.message


@given(st.binary(max_size=200), st.integers(0, 80))
def test_no_bytes_raise_anything_else(noise, position):
    for content in (noise, png()[:position] + noise, png()[:position] + noise + png()[position:]):
        with contextlib.suppress(ToolError):
            assert decode_image(content).pixels.dtype == np.uint8


def test_sizes_are_read_without_the_pixels():
    assert image_size(png(7, 5)) == (7, 5)
    assert image_size(png_declaring(3000, 2000)) == (3000, 2000)  # Its data are those of one row.
    with pytest.raises(ToolError) as refused:
        image_size(png_declaring(30, 20), max_pixels=599)
    assert refused.value.kind is ToolErrorKind.TOO_LARGE
    with pytest.raises(ToolError) as broken:
        image_size(b"no image")
    assert broken.value.kind is ToolErrorKind.UNREADABLE_FILE


def jpeg(orientation, *, is_whole=True):
    """A JPEG of 24 x 16 pixels, white at the upper left, with an EXIF orientation and perhaps a tag of a wrong type."""
    tags = [struct.pack("<HHI4s", 0x0112, 3, 1, bytes([orientation, 0, 0, 0]))]
    tags += [] if is_whole else [struct.pack("<HHI4s", 0x0128, 11, 1, b"\x06\x00\xff\x7f")]
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, len(tags)) + b"".join(tags) + bytes(4)
    image, buffer = Image.new("L", (24, 16)), io.BytesIO()
    image.paste(255, (0, 0, 8, 8))
    image.save(buffer, "JPEG", exif=exif, quality=100)
    return buffer.getvalue()


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("orientation", range(10))
def test_images_are_turned_as_pillow_turns_them(orientation, is_whole):
    content = jpeg(orientation, is_whole=is_whole)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(jpeg(orientation))))
    picture = decode_image(content)
    assert image_size(content) == (picture.width, picture.height) == expected.size
    assert np.array_equal(picture.pixels, np.asarray(expected.convert("RGB")))
    assert decode_image(content, upright=False).pixels.shape == (16, 24, 3)
    assert image_size(content, upright=False) == (24, 16)


@pytest.mark.filterwarnings("ignore")
def test_an_orientation_that_is_no_number_is_ignored():
    content = jpeg(6).replace(struct.pack("<HHI", 0x0112, 3, 1), struct.pack("<HHI", 0x0112, 2, 2))
    assert image_size(content) == (24, 16) == decode_image(content).pixels.shape[1::-1]


def test_parts_of_a_file_can_be_read(root):
    with root.opened("a.png") as file:
        file.seek(1)
        assert file.read(3) == b"PNG"
    assert file.closed
    for name in ("../secret.png", "sub", "nothing"):
        with pytest.raises(ToolError), root.opened(name):
            pass


@pytest.mark.parametrize("asked", ["cat.jpeg", "cat.JPEG", "cat.jPeG"])
def test_an_extension_may_be_written_in_any_case(tmp_path, asked):
    root = FileRoot(tmp_path)
    assert not root.has(asked)
    (tmp_path / "cat.JpEg").write_bytes(b"x")
    assert root.read(asked) == b"x"
    assert not root.has("Cat.jpeg")
