"""The worlds that rollouts are tested in.

Workers that are spawned import the module of what their worlds are made with; this one is without torch.
"""

from __future__ import annotations

import os
import signal

from vlm_envs import make

WORLD = "VLM/FrozenLake-v0"


def made(max_turns=3, **kwargs):
    return make(WORLD, prompt_format="free_think", max_turns=max_turns, **kwargs)


def slow(wait, world=None, **kwargs):
    """Returns a world that waits before each step."""
    world = world or made(**kwargs)
    real = world.unwrapped.step

    def step(action):
        wait()
        return real(action)

    world.unwrapped.step = step
    return world


def die():
    """Ends its process."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    raise RuntimeError("not yet")


class Once:
    """Does something when it is called for the first time, in whichever process."""

    def __init__(self, marker, does):
        self.marker, self.does = marker, does

    def __call__(self):
        if not self.marker.exists():
            self.marker.touch()
            self.does()


class Dies:
    """Ends its process when it is called for the `at`-th time."""

    def __init__(self, at):
        self.left = at

    def __call__(self):
        self.left -= 1
        if self.left == 0:
            die()


def with_reset(before):
    """Returns a world that does something before each reset."""
    world = made()
    real = world.unwrapped.reset

    def reset(**kwargs):
        before()
        return real(**kwargs)

    world.unwrapped.reset = reset
    return world


def dying(marker):
    """Returns a world whose reset kills its worker, as often as the marker has lines."""

    def take():
        left = marker.read_text().splitlines()
        marker.write_text("\n".join(left[1:]))
        if left:
            die()

    return with_reset(take)


def fails_and_dies(directory):
    """Returns a world that cannot be reset at first, and whose first step then kills its worker."""
    return slow(Once(directory / "died", die), with_reset(Once(directory / "failed", fail)))
