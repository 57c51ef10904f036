"""Homes as colored meshes, drawn by panda3d's software renderer: no GPU, no display, identical bytes everywhere.

One engine per process serves all worlds. It is not part of any state; it is created for the first image and
recreated in a forked child.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlm_envs.content.colors import RGB, darker, described_color
from vlm_envs.content.data_tables import data_table
from vlm_envs.content.homes.home import (
    DOOR_HEIGHT_CM,
    KINDS,
    LATTICE_CM,
    WALL_HEIGHT_CM,
    WALL_THICKNESS_CM,
    Door,
    Home,
    Room,
    Thing,
    floor_under,
    has_door,
    rooms_in_view,
)
from vlm_envs.content.homes.mesh_primitives import (
    COLORS,
    FLOORS,
    MATERIALS,
    WALLS,
    Mesh,
    ball,
    box,
    column,
    joined,
    quad,
    upright_disc,
)
from vlm_envs.errors import EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.tools.data_files import BoundedCache

ART = data_table(__file__, "furniture_art.toml")
"""The shapes of each kind, by name."""

_SHAPES: Mapping[str, Callable[..., Mesh]] = {
    "box": box,
    "column": column,
    "ball": ball,
    "upright_disc": upright_disc,
    "quad": quad,
}

_TRIM = MATERIALS["trim"]
_CEILING_M, _DOOR_M = WALL_HEIGHT_CM / 100, DOOR_HEIGHT_CM / 100
_INSET_M = WALL_THICKNESS_CM / 200
_SKIRTING_M = 0.09
_FLOOR_STEP_M = 0.5


@lru_cache(maxsize=2048)
def thing_mesh(kind: str, color: str, turn: int) -> Mesh:
    """Returns the mesh of a kind in a color, turned, at the origin; cached by arguments."""
    own = COLORS[color]
    named = {**MATERIALS, "own": own, "rotated": (own[1], own[2], own[0])}
    mesh = joined(_part(named, **shape) for shape in ART[kind])
    return (mesh.without_back() if KINDS[kind].is_backed else mesh).turned(turn)


def _part(named: Mapping[str, RGB], *, shape: str, **arguments: Any) -> Mesh:
    """Returns one shape of a mesh; its colors are given by name."""
    for name in {"color", "top_color"} & arguments.keys():
        arguments[name] = described_color(arguments[name], named)
    return _SHAPES[shape](**arguments)


def room_meshes(home: Home) -> list[list[Mesh]]:
    """Returns the meshes of each room: its shell, and its things by quarter of the room, so that culling can skip some.

    Things outside every room belong to the first.
    """
    meshes = []
    for number, room in enumerate(home.rooms):
        shell = _shell(home, room) + [_frame(door) for door in home.doors if has_door(room, door)]
        quarters: dict[tuple[bool, bool], list[Mesh]] = {}
        for thing in home.things:
            if (home.room_of_thing(thing) or 0) == number:
                is_east = 2 * thing.x_cm > (room.west + room.east) * LATTICE_CM
                is_north = 2 * thing.y_cm > (room.south + room.north) * LATTICE_CM
                quarters.setdefault((is_east, is_north), []).extend(_placed(home, thing))
        meshes.append([joined(shell), *map(joined, quarters.values())])
    return meshes


def _placed(home: Home, thing: Thing) -> list[Mesh]:
    """Returns the meshes of a thing in its position, and of its shadow on the floor."""
    x, y, z = thing.x_cm / 100, thing.y_cm / 100, thing.z_cm / 100
    kind = KINDS[thing.kind]
    if kind.place == "wall":
        z += kind.size_cm[2] / 200
    meshes = [thing_mesh(thing.kind, thing.color, thing.turn).moved(x, y, z)]
    if kind.place == "floor":
        room = home.rooms[home.room_of_thing(thing) or 0]
        sides = floor_under(thing)
        west, south, east, north = (side / 100 for side in sides)
        shade = darker(FLOORS[room.floor][1], 0.28)
        meshes.append(_level((west, south, east, north), 0.012, shade))
    return meshes


def _shell(home: Home, room: Room) -> list[Mesh]:
    """Returns the floor, ceiling, and walls of a room."""
    west, south, east, north = (side * LATTICE_CM / 100 for side in (room.west, room.south, room.east, room.north))
    ceiling = [
        (west, north, _CEILING_M),
        (east, north, _CEILING_M),
        (east, south, _CEILING_M),
        (west, south, _CEILING_M),
    ]
    meshes = [quad(ceiling, MATERIALS["ceiling"], (0, 0, -0.4)), *_floor(room.floor, west, south, east, north)]
    paint = WALLS[room.wall]
    for (is_upright, line, low, high), inward in zip(room.walls, (1, -1, 1, -1), strict=True):
        gaps = sorted(
            (door.low, door.high)
            for door in home.doors
            if door.is_upright == is_upright and door.line == line and low < door.high and door.low < high
        )
        at = line * LATTICE_CM / 100 + inward * _INSET_M
        meshes += _wall(is_upright, at, inward, low, high, gaps, paint)
    return meshes


def _wall(
    is_upright: bool, at: float, inward: int, low: int, high: int, gaps: list[tuple[int, int]], paint: RGB
) -> list[Mesh]:
    """Returns a wall's inner face: full height between the doors, and a lintel above each door."""
    meshes, start = [], low
    for gap_low, gap_high in [*gaps, (high, high)]:
        if gap_low > start:
            meshes.append(_upright(is_upright, at, inward, start, gap_low, _SKIRTING_M, _CEILING_M, paint))
            meshes.append(_upright(is_upright, at, inward, start, gap_low, 0, _SKIRTING_M, _TRIM))
        if gap_high > gap_low:
            meshes.append(_upright(is_upright, at, inward, gap_low, gap_high, _DOOR_M, _CEILING_M, paint))
        start = max(start, gap_high)
    return meshes


def _upright(
    is_upright: bool, at: float, inward: int, low: int, high: int, bottom: float, top: float, color: RGB
) -> Mesh:
    """Returns a piece of wall that faces inward."""
    first, last = low * LATTICE_CM / 100, high * LATTICE_CM / 100
    if is_upright:
        ends, normal = ((at, first), (at, last)), (inward, 0, 0)
        order = ends if inward < 0 else ends[::-1]
    else:
        ends, normal = ((first, at), (last, at)), (0, inward, 0)
        order = ends if inward > 0 else ends[::-1]
    # Seen from inside, the wall runs from right to left through `order`
    (x0, y0), (x1, y1) = order[1], order[0]
    return quad([(x0, y0, bottom), (x1, y1, bottom), (x1, y1, top), (x0, y0, top)], color, normal)


def _frame(door: Door) -> Mesh:
    """Returns the white frame around a doorway, as thick as the wall."""
    low, high, line = (value * LATTICE_CM / 100 for value in (door.low, door.high, door.line))
    deep, post, over = 2 * _INSET_M + 0.03, 0.06, 0.04

    def bar(first: float, last: float, bottom: float, top: float) -> Mesh:
        middle = (first + last) / 2
        if door.is_upright:
            return box((line, middle), (deep, last - first), bottom, top, _TRIM)
        return box((middle, line), (last - first, deep), bottom, top, _TRIM)

    sill = (low, line - _INSET_M, high, line + _INSET_M)
    if door.is_upright:
        sill = (line - _INSET_M, low, line + _INSET_M, high)
    threshold = _level(sill, 0.014, (150, 120, 90))
    # The frame overlaps the wall's edges: where faces only touch, the renderer leaves single-pixel cracks
    posts = [bar(low - over, low + post, 0, _DOOR_M), bar(high - post, high + over, 0, _DOOR_M)]
    return joined([*posts, bar(low - over, high + over, _DOOR_M - post, _DOOR_M + over), threshold])


def _floor(name: str, west: float, south: float, east: float, north: float) -> list[Mesh]:
    """Returns a floor: planks that run north, tiles, or a two-tone carpet."""
    light, dark = FLOORS[name]
    columns = _cuts(west, east, _FLOOR_STEP_M if name.endswith("tiles") else _FLOOR_STEP_M / 2)
    rows = _cuts(south, north, _FLOOR_STEP_M) if name.endswith("tiles") else [south, north]
    if name.endswith("carpet"):
        columns = [west, east]
    return [
        _level((x0, y0, x1, y1), 0.0, light if (i + j) % 2 == 0 else dark)
        for i, (x0, x1) in enumerate(pairwise(columns))
        for j, (y0, y1) in enumerate(pairwise(rows))
    ]


def _cuts(low: float, high: float, step: float) -> list[float]:
    """Returns the positions that cut a length into steps; the last step may be shorter."""
    num_steps = int((high - low) / step + 1e-6)
    cuts = [low + index * step for index in range(num_steps + 1)]
    return cuts if high - cuts[-1] < 1e-6 else [*cuts, high]


def _level(sides: tuple[float, float, float, float], height: float, color: RGB) -> Mesh:
    """Returns a horizontal rectangle (west, south, east, north) that faces up."""
    west, south, east, north = sides
    corners = [(west, south, height), (east, south, height), (east, north, height), (west, north, height)]
    return quad(corners, color, (0, 0, 1))


NUM_CACHED_SCENES = 256
_NEAR_M, _FAR_M = 0.1, 40.0
_RENDERER = "p3tinydisplay"
_SETTINGS = f"load-display {_RENDERER}\nwindow-type offscreen\naudio-library-name null\nnotify-level-display error\n"


class Camera(NamedTuple):
    """Position, direction, and size of a rendered view.

    Attributes:
        x_m: East coordinate.
        y_m: North coordinate.
        z_m: Height.
        heading_degrees: Direction, clockwise from north.
        tilt_degrees: Upward tilt.
        fov_degrees: Horizontal and vertical field of view.
        size_px: Width and height of the image.
    """

    x_m: float
    y_m: float
    z_m: float
    heading_degrees: float
    tilt_degrees: float
    fov_degrees: float
    size_px: int

    @property
    def width_degrees(self) -> float:
        """Width of the view on the floor: wider if tilted, 360 if it includes what is behind the camera."""
        across, tilt = math.tan(math.radians(self.fov_degrees) / 2), math.radians(abs(self.tilt_degrees))
        ahead = math.cos(tilt) - across * math.sin(tilt)
        return 2 * math.degrees(math.atan2(across, ahead)) if ahead > 0 else 360.0


class PandaEngine:
    """A software renderer that caches the scenes of recent homes.

    Raises:
        EngineUnavailableError: If panda3d is not installed or its software renderer cannot start.
    """

    def __init__(self) -> None:
        self._core = _panda_core()
        self._lock = threading.Lock()
        self._scenes: BoundedCache[tuple[Any, list[Any]]] = BoundedCache(NUM_CACHED_SCENES)
        self._outputs: dict[int, tuple[Any, Any]] = {}
        selection = self._core.GraphicsPipeSelection.get_global_ptr()
        self._pipe = selection.make_pipe("TinyOffscreenGraphicsPipe", _RENDERER)
        if self._pipe is None or not self._pipe.is_valid():
            raise EngineUnavailableError(f"panda3d has no software renderer {_RENDERER} here. {_remedy()}")
        self._graphics = self._core.GraphicsEngine(self._pipe)
        self._camera = self._core.NodePath(self._core.Camera("eye", self._core.PerspectiveLens()))
        self._camera.node().get_lens().set_near_far(_NEAR_M, _FAR_M)

    def picture(self, home: Home, camera: Camera) -> NDArray[np.uint8]:
        """Renders a camera's view of a home, uint8[size_px, size_px, 3]."""
        with self._lock:
            root, rooms = self._scenes.get(home, lambda: self._scene(home))
            seen = rooms_in_view(home, camera.x_m, camera.y_m, camera.heading_degrees, camera.width_degrees)
            for number, room in enumerate(rooms):
                (room.show if number in seen else room.hide)()
            output, texture = self._output(camera.size_px)
            self._camera.reparent_to(root)
            self._camera.set_pos_hpr(
                camera.x_m, camera.y_m, camera.z_m, -camera.heading_degrees, camera.tilt_degrees, 0
            )
            self._camera.node().get_lens().set_fov(camera.fov_degrees, camera.fov_degrees)
            output.set_active(True)
            self._graphics.render_frame()
            output.set_active(False)
            return _unpacked(texture.get_ram_image(), camera.size_px)

    def _scene(self, home: Home) -> tuple[Any, list[Any]]:
        """Returns a home's scene graph: its root, and a node per room."""
        root = self._core.NodePath("home")
        # By default panda3d sorts opaque parts by memory address, so which of two surfaces at equal depth is
        # drawn first
        # would differ between processes.
        root.set_bin("unsorted", 0)
        rooms = [root.attach_new_node("room") for _ in home.rooms]
        for room, meshes in zip(rooms, room_meshes(home), strict=True):
            for mesh in meshes:
                room.attach_new_node(self._geometry(mesh))
        return root, rooms

    def _geometry(self, mesh: Mesh) -> Any:
        """Converts a mesh to a panda3d node."""
        core = self._core
        rows = np.zeros(len(mesh.vertices), dtype=[("vertex", "<f4", 3), ("color", "u1", 4)])
        rows["vertex"] = mesh.vertices
        rows["color"][:, :3], rows["color"][:, 3] = mesh.lit_colors(), 255
        vertices = core.GeomVertexData("mesh", core.GeomVertexFormat.get_v3c4(), core.Geom.UH_static)
        vertices.unclean_set_num_rows(len(rows))
        vertices.modify_array_handle(0).copy_data_from(rows.tobytes())
        triangles = core.GeomTriangles(core.Geom.UH_static)
        triangles.set_index_type(core.Geom.NT_uint16)
        indices = triangles.modify_vertices()
        indices.unclean_set_num_rows(mesh.triangles.size)
        indices.modify_handle().copy_data_from(mesh.triangles.tobytes())
        geometry = core.Geom(vertices)
        geometry.add_primitive(triangles)
        node = core.GeomNode("part of a room")
        node.add_geom(geometry)
        return node

    def _output(self, size_px: int) -> tuple[Any, Any]:
        """Returns the render buffer for an image size, and the texture it is copied to."""
        if size_px not in self._outputs:
            core = self._core
            properties = core.FrameBufferProperties()
            properties.set_rgba_bits(8, 8, 8, 0)
            properties.set_depth_bits(24)
            output = self._graphics.make_output(
                self._pipe,
                f"pictures of {size_px} px",
                0,
                properties,
                core.WindowProperties.size(size_px, size_px),
                core.GraphicsPipe.BF_refuse_window,
            )
            if output is None:
                raise EngineUnavailableError(f"panda3d cannot render images of {size_px} pixels. {_remedy()}")
            texture = core.Texture()
            output.add_render_texture(texture, core.GraphicsOutput.RTM_copy_ram, core.GraphicsOutput.RTP_color)
            output.set_clear_color((0.62, 0.76, 0.90, 1.0))
            output.make_display_region().set_camera(self._camera)
            self._outputs[size_px] = output, texture
        return self._outputs[size_px]


def _unpacked(pixels: Any, size_px: int) -> NDArray[np.uint8]:
    """Converts panda3d's pixels (bottom row first; blue, green, red, unused) to RGB."""
    rows = np.frombuffer(pixels, dtype=np.uint8).reshape(size_px, size_px, 4)[::-1]
    picture = np.empty((size_px, size_px, 3), dtype=np.uint8)
    for channel in range(3):  # one by one is twice as fast as a single strided copy
        picture[..., channel] = rows[..., 2 - channel]
    return picture


class _Current:
    """The engine of this process."""

    pid: int | None = None
    engine: PandaEngine | None = None
    inherited: Sequence[PandaEngine] = ()
    lock = threading.Lock()


def engine() -> PandaEngine:
    """Returns this process's engine, created on first use.

    Raises:
        EngineUnavailableError: If the software renderer is not available.
    """
    if _Current.pid != os.getpid():
        # A forked child inherits its parent's engine and possibly a held lock; neither may be used or
        # destroyed
        if _Current.engine is not None:
            _Current.inherited = (*_Current.inherited, _Current.engine)
        _Current.pid, _Current.engine, _Current.lock = os.getpid(), None, threading.Lock()
    with _Current.lock:
        if _Current.engine is None:
            _Current.engine = PandaEngine()
        return _Current.engine


def _remedy() -> str:
    return f"Install the renderer: {install_command('navigation')}"


def _panda_core() -> Any:
    try:
        core: Any = importlib.import_module("panda3d.core")
    except ImportError as error:
        raise EngineUnavailableError(f"Rendering homes needs panda3d, which is not installed. {_remedy()}") from error
    core.load_prc_file_data("vlm_envs", _SETTINGS)
    _load_renderer(Path(core.__file__).parent)
    return core


def _load_renderer(directory: Path) -> None:
    """Loads panda3d's software renderer with local symbols, so that panda3d finds it already registered.

    Panda3d itself would load it with global symbols, together with the FreeType and zlib it links. Libraries
    loaded later (pdfium, cairo) would then bind to those and draw different pixels than in a process without
    homes.
    """
    for library in directory.glob(f"lib{_RENDERER}.*"):
        with contextlib.suppress(OSError):  # panda3d's own attempt reports the error
            ctypes.CDLL(str(library), mode=ctypes.RTLD_LOCAL)
