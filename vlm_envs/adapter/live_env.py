"""The live environment of an adapted world: errors in its interface are reported in one line that names it."""

from __future__ import annotations

import contextlib
import math
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, cast

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from vlm_envs.adapter.adapter_settings import AdapterSettings, require_env
from vlm_envs.errors import ConfigError, EngineUnavailableError, WorldContractError
from vlm_envs.validation import require

_CHANNELS = (1, 3, 4)


class LiveEnv(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that counts its changes, to detect functions that change it although they must not.

    Args:
        env: The environment.
        env_id: Its id, for messages.
    """

    def __init__(self, env: gym.Env[Any, Any], env_id: str) -> None:
        super().__init__(env)
        self.env_id = env_id
        self.num_changes = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the environment.

        Raises:
            ConfigError: If it does not have Gymnasium's interface.
            EngineUnavailableError: If a package that it needs is missing.
        """
        self.num_changes += 1
        with _reported(self.env_id):
            result: Any = self.env.reset(seed=seed, options=options)
        is_pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)
        require(is_pair, f"{self.env_id}: reset() should return an observation and a dict. {_WRAP}")
        return result  # type: ignore[no-any-return]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes an action; the reward is a finite number.

        Raises:
            ConfigError: If the environment does not have Gymnasium's interface, or the reward is not a
                number.
            EngineUnavailableError: If a package that it needs is missing.
            WorldContractError: If the reward is not finite.
        """
        self.num_changes += 1
        with _reported(self.env_id):
            result: Any = self.env.step(action)
        require(isinstance(result, tuple) and len(result) == 5 and isinstance(result[4], Mapping), _steps(self.env_id))
        observation, reward, terminated, truncated, info = result
        number = np.asarray(reward)
        require(
            number.dtype.kind in "biuf" and number.size == 1,
            f"{self.env_id}: the reward of step() should be a number; got {reward!r}.",
        )
        value = float(number.reshape(-1)[0])
        if not math.isfinite(value):
            raise WorldContractError(f"{self.env_id}: the reward of step() should be a finite number; got {reward!r}.")
        return observation, value, bool(terminated), bool(truncated), info

    def image(self) -> npt.NDArray[np.uint8]:
        """Returns the image that the environment renders, uint8[H, W, 3].

        Raises:
            ConfigError: If it renders no image.
            EngineUnavailableError: If a package that it needs is missing.
        """
        with _reported(self.env_id):
            was_centered = _center_camera(self.env)
            frame: Any = self.env.render()
            if not was_centered and _center_camera(self.env):  # the first image creates the camera
                frame = self.env.render()
        is_array = isinstance(frame, np.ndarray)
        is_image = is_array and frame.dtype == np.uint8 and frame.ndim in (2, 3) and frame.size > 0
        require(
            is_image and (frame.ndim == 2 or frame.shape[2] in _CHANNELS),
            f"{self.env_id} renders no images: render() should return uint8[H, W, 3] with render_mode='rgb_array', "
            "but "
            f"returned {f'{frame.dtype}{list(frame.shape)}' if is_array else type(frame).__name__}.",
        )
        image = np.atleast_3d(frame)
        if image.shape[2] == 1:
            image = np.repeat(image, 3, axis=2)
        return np.ascontiguousarray(image[..., :3])

    @contextlib.contextmanager
    def unchanged(self, function: str) -> Iterator[None]:
        """Raises `ConfigError` if the environment is stepped or reset within the block.

        Args:
            function: Name of the setting whose function is called, for the message.
        """
        before = self.num_changes
        yield
        require(
            self.num_changes == before,
            f"{function} must not step or reset {self.env_id}: inspect it, or work on a model of it.",
        )

    def close(self) -> None:
        """Closes the environment and its renderer."""
        _free_context(self.env)
        super().close()


def made(settings: AdapterSettings) -> LiveEnv:
    """Returns a new environment.

    Raises:
        ConfigError: If it cannot be created with these settings.
        EngineUnavailableError: If a package or driver that it needs is missing.
    """
    require_env(settings.env)
    kwargs = {"render_mode": "rgb_array", "disable_env_checker": True, **(settings.make or {})}
    try:
        with warnings.catch_warnings(), _reported(settings.env):
            warnings.simplefilter("ignore")  # from old versions, and from libraries about each other
            return LiveEnv(gym.make(settings.env, **kwargs), settings.env)
    except ConfigError:
        raise
    except (TypeError, ValueError, AssertionError, gym.error.Error) as error:
        with_them = f" with make = {dict(settings.make)}" if settings.make else ""
        drawing = " It must accept render_mode='rgb_array'." if isinstance(error, AssertionError) else ""
        raise ConfigError(f"{settings.env} cannot be created{with_them}: {_line(error)}.{drawing}") from error


_WRAP = "Implement the interface of gymnasium.Env, or use a wrapper that does."


def _steps(env_id: str) -> str:
    return f"{env_id}: step() should return observation, reward, terminated, truncated, and a dict. {_WRAP}"


@contextlib.contextmanager
def _reported(env_id: str) -> Iterator[None]:
    """Drops printed text and explains missing packages and wrong interfaces; other errors pass through."""
    try:
        with quiet_stdout():
            yield
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        raise EngineUnavailableError(f"{env_id} cannot run here: {_line(error)}.") from error
    except NotImplementedError as error:
        method = traceback.extract_tb(error.__traceback__)[-1].name
        raise ConfigError(f"{env_id} does not implement {method}() for render_mode='rgb_array'.") from error
    except TypeError as error:
        lacking = re.search(r"reset\(\) got an unexpected keyword argument '(seed|options)'", str(error))
        if lacking is None:
            raise
        raise ConfigError(f"{env_id}: reset() has no argument {lacking[1]!r}. {_WRAP}") from error
    except ValueError as error:
        raised_by = [*traceback.walk_tb(error.__traceback__)][-1][0].f_globals.get("__name__", "")
        if "values to unpack" not in str(error) or not raised_by.startswith("gymnasium.wrappers"):
            raise
        raise ConfigError(_steps(env_id)) from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _center_camera(env: gym.Env[Any, Any]) -> bool:
    """Makes a MuJoCo environment draw into its own context, and centers its camera; returns whether it has one.

    Gymnasium leaves a free camera where the environment's first image was drawn, and a tracking camera moves
    only part of the way per image. When centered, images depend on the state alone.
    """
    unwrapped: Any = env.unwrapped
    renderer = getattr(unwrapped, "mujoco_renderer", None)
    viewer: Any = getattr(renderer, "viewer", None)
    camera = getattr(viewer, "cam", None)
    if camera is None:
        return False
    if hasattr(viewer, "make_context_current"):  # of several environments in a process, the last one created is current
        viewer.make_context_current()
    if int(camera.type) == _TRACKING:
        camera.lookat[:] = unwrapped.data.subtree_com[camera.trackbodyid]
    elif int(camera.type) == _FREE and "lookat" not in (getattr(renderer, "default_cam_config", None) or {}):
        camera.lookat[:] = np.median(unwrapped.data.geom_xpos, axis=0)
    return True


def _free_context(env: gym.Env[Any, Any]) -> None:
    """Frees MuJoCo's renderer while its own context is current; otherwise that of another environment is freed."""
    viewer: Any = getattr(getattr(env.unwrapped, "mujoco_renderer", None), "viewer", None)
    if hasattr(viewer, "con") and hasattr(viewer, "make_context_current"):
        viewer.make_context_current()
        viewer.con.free()


_FREE, _TRACKING = 0, 1
"""`mujoco.mjtCamera.mjCAMERA_FREE` and `mjCAMERA_TRACKING`."""


class _Muted:
    """A standard output that drops the output of some threads and passes on the rest."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.threads: list[int] = []

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() in self.threads else int(self.stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


_mute_lock = threading.Lock()


@contextlib.contextmanager
def quiet_stdout() -> Iterator[None]:
    """Drops output that environments print in this thread, such as BabyAI's rejected levels."""
    with _mute_lock:
        stdout: Any = sys.stdout
        muted = stdout if isinstance(stdout, _Muted) else _Muted(stdout)
        muted.threads.append(threading.get_ident())
        sys.stdout = cast(Any, muted)
    try:
        yield
    finally:
        with _mute_lock:
            muted.threads.remove(threading.get_ident())
            if not muted.threads and cast(Any, sys.stdout) is muted:
                sys.stdout = muted.stream
