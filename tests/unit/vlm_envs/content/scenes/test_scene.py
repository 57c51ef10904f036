import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.content.colors import COLORS
from vlm_envs.content.scenes.scene import Scene, Thing
from vlm_envs.content.scenes.scene_kinds import KINDS
from vlm_envs.content.scenes.scene_rendering import SceneImageRef, render, render_region
from vlm_envs.content.scenes.scene_source import SceneSource
from vlm_envs.content.scenes.settings import SETTINGS
from vlm_envs.content.scenes.sprites import Appearance, bounds, frame_size, innermost, silhouette, sprite
from vlm_envs.tools.coordinates import PixelRectangle

BALL = Thing(kind="ball", color="red", x=30, y=20, size_px=20)
TRAY = Thing(kind="tray", color="blue", x=60, y=40, size_px=60)
STAR = Thing(kind="star", color="yellow", x=80, y=50, size_px=16, inside=1)


def scene(*things, width=160, height=120, setting="desk"):
    return Scene(width=width, height=height, setting=setting, scenery_seed=1, things=things)


BALL_JSON = scene(BALL).to_json()


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.sample(6)
def test_kinds_fill_their_frames_and_lose_nothing_at_their_edges(kind):
    text = "R27" if kind == "sign" else ""
    for size_px in (KINDS[kind].legible_px, 40, 150):
        appearance = Appearance(kind=kind, color="red", size_px=size_px, text=text)
        width, height = frame_size(kind, size_px)
        assert max(width, height) == size_px
        mask = silhouette(appearance)
        assert mask.shape == (height, width)
        left, top, right, bottom = bounds(mask)
        # An outline all around reaches the frame, give or take a pixel of rounding and a shape's own margin.
        slack = 2 + size_px * 0.08
        assert left <= slack and top <= slack and right >= width - slack and bottom >= height - slack
        assert mask.mean() > 0.15


def test_every_color_shows_as_itself():
    for name, rgb in COLORS.items():
        pixels = np.asarray(sprite(Appearance(kind="star", color=name, size_px=40)))
        assert tuple(pixels[20, 20, :3]) == rgb


def test_things_look_mirrored_when_they_are():
    plain, mirrored = (Appearance(kind="mug", color="red", size_px=30, mirrored=turn) for turn in (False, True))
    assert np.array_equal(silhouette(plain), silhouette(mirrored)[:, ::-1])
    assert not np.array_equal(silhouette(plain), silhouette(mirrored))


def test_clocks_and_signs_show_what_they_should():
    base = {"color": "red", "size_px": 40}
    times = [np.asarray(sprite(Appearance(kind="clock", minutes=minutes, **base))) for minutes in (0, 180, 360)]
    ink = [pixels[..., :3].sum(axis=2) < 200 for pixels in times]
    # At three o'clock the short hand points right, at six down; the middle row and column tell.
    assert ink[1][20, 21:28].all() and not ink[2][20, 23:28].any() and ink[2][21:28, 20].all()
    signs = [np.asarray(sprite(Appearance(kind="sign", text=text, **base))) for text in ("R27", "R72")]
    assert not np.array_equal(*signs)


def test_boxes_are_the_bounds_of_masks():
    whole = scene(BALL, TRAY)
    for index in (0, 1):
        box = whole.box(index)
        assert bounds(whole.mask(index)) == (box.x1, box.y1, box.x2, box.y2)
    # A ball of 20 pixels is a disc that touches all sides of its frame.
    assert (whole.box(0).x1, whole.box(0).y1, whole.box(0).x2, whole.box(0).y2) == (30, 20, 50, 40)
    assert abs(whole.mask(0).sum() - np.pi * 10**2) < 12


@pytest.mark.parametrize("kind", list(KINDS))
def test_boxes_of_all_kinds_fit_their_masks(kind):
    thing = Thing(kind=kind, color="red", x=11, y=13, size_px=33, text="R27" if kind == "sign" else "")
    box = scene(thing).box(0)
    assert bounds(scene(thing).mask(0)) == (box.x1, box.y1, box.x2, box.y2)


def test_what_hides_a_part_is_not_of_its_mask():
    whole = scene(BALL, TRAY, STAR)
    tray, star = whole.mask(1), whole.mask(2)
    assert not (tray & star).any()
    assert np.array_equal(tray | star, scene(BALL, TRAY).mask(1))
    assert np.array_equal(whole.mask(1, 2), tray | star)
    assert not whole.mask().any()


def test_points_are_seen_pixels_deep_inside():
    whole = scene(BALL, TRAY, STAR)
    assert (whole.point(0).x, whole.point(0).y) == (pytest.approx(40, abs=1), pytest.approx(30, abs=1))
    for index in range(3):
        point = whole.point(index)
        assert whole.mask(index)[int(point.y), int(point.x)]


def test_the_innermost_pixel_of_a_plate():
    mask = np.zeros((5, 7), np.bool_)
    mask[0:5, 1:6] = True
    assert innermost(mask) == (3, 2)


def test_masks_are_the_pixels_that_change():
    """Drawn with and without a thing, the picture differs on its mask and hardly anywhere else."""
    with_star, without = render(scene(BALL, TRAY, STAR)), render(scene(BALL, TRAY))
    changed = (with_star != without).any(axis=2)
    mask = scene(BALL, TRAY, STAR).mask(2)
    assert changed[mask].all()
    grown = mask.copy()
    for axis in (0, 1):
        grown |= np.roll(grown, 1, axis) | np.roll(grown, -1, axis)
    assert not (changed & ~grown).any()  # Beyond the mask lie only half-covered pixels of its edge.


def test_different_scenes_have_different_digests():
    assert scene(BALL, TRAY, STAR).digest == scene(BALL, TRAY, STAR).digest != scene(BALL, TRAY).digest


@pytest.mark.parametrize("setting", list(SETTINGS))
@given(st.integers(0, 2**32 - 1))
@pytest.mark.sample(2)
def test_things_never_touch_unless_one_holds_the_other(setting, seed):
    source = SceneSource(side_px=300, target_px=(12, 24), max_objects=16, settings=(setting,))
    whole = source.draw(np.random.default_rng(seed), "train").images[0].scene
    for index, thing in enumerate(whole.things):
        frame = thing.frame
        assert frame.left >= 0 and frame.top >= 0 and frame.right <= whole.width and frame.bottom <= whole.height
        for other_index, other in enumerate(whole.things[:index]):
            over = other.frame
            touch = (
                frame.left < over.right
                and over.left < frame.right
                and frame.top < over.bottom
                and over.top < frame.bottom
            )
            assert touch == (thing.inside == other_index)


@pytest.mark.parametrize("setting", list(SETTINGS))
def test_a_region_has_the_pixels_of_the_whole(setting):
    whole = scene(BALL, TRAY, STAR, width=300, height=1100, setting=setting)  # Two bands.
    pixels = render(whole)
    for region in (
        PixelRectangle(0, 0, 300, 1100),
        PixelRectangle(37, 900, 213, 1093),
        PixelRectangle(25, 25, 100, 60),
    ):
        part = render_region(whole, region)
        assert np.array_equal(part, pixels[region.top : region.bottom, region.left : region.right])


@pytest.mark.parametrize("setting", list(SETTINGS))
@pytest.mark.sample(2)
def test_settings_look_rich_and_differ_by_seed(setting):
    first, second = (
        render(Scene(width=400, height=400, setting=setting, scenery_seed=seed, things=())) for seed in (1, 2)
    )
    assert (first != second).any(axis=2).mean() > 0.2
    levels = first.reshape(-1, 3) // 24
    assert len(np.unique(levels, axis=0)) > 15


def test_a_scene_is_drawn_once_while_its_picture_is_kept(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "vlm_envs.content.scenes.scene_rendering.render", lambda scene: calls.append(scene) or render(scene)
    )
    first = SceneImageRef(scene(BALL, width=161)).picture()
    assert SceneImageRef(scene(BALL, width=161)).picture() is first and len(calls) == 1


def test_exhibits_are_values():
    image = SceneImageRef(scene(BALL))
    assert image == SceneImageRef(scene(BALL)) and hash(image) == hash(SceneImageRef(scene(BALL)))
    assert (image.width, image.height) == (160, 120) == (image.picture().width, image.picture().height)
    assert image.digest != SceneImageRef(scene(TRAY)).digest
