"""A Gymnasium environment that counts, with settings for everything that an adapter meets.

It stands in a module of its own because process workers import it by name: `tests.unit.vlm_envs.adapter.tally`.
"""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

SPACES = {
    "discrete": spaces.Discrete(3),
    "shifted": spaces.Discrete(2, start=5),
    "multi": spaces.MultiDiscrete([2, 3]),
    "binary": spaces.MultiBinary(2),
    "box": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 2.0], np.float32)),
    "matrix": spaces.Box(-1.0, 1.0, (2, 2), np.float64),
    "pixels": spaces.Box(0, 9, (1,), np.uint8),
    "endless": spaces.Box(-np.inf, np.inf, (1,), np.float32),
    "dict": spaces.Dict({"a": spaces.Discrete(2)}),
}


class TallyEnv(gym.Env):
    """Counts steps from a start that the seed draws; ends at `last` steps with the reward `final`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self, render_mode=None, space="discrete", last=3, final=1.0, num_starts=1000, frame="color", flaw="", words=True
    ):
        self.render_mode, self.frame, self.flaw = render_mode, frame, flaw
        self.action_space = SPACES[space]
        texts = {"mission": spaces.Text(40), "note": spaces.Text(40)} if words else {}
        self.observation_space = spaces.Dict({"count": spaces.Box(0, 9999, (2,), np.int64), **texts})
        self.last, self.final, self.num_starts = last, final, num_starts
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        print("a line that nobody asked for")
        self.taken = []
        self.start = int(self.np_random.integers(self.num_starts))
        return self._seen(), self._info()

    def step(self, action):
        assert self.action_space.contains(action), action
        self.taken.append(action)
        is_last = len(self.taken) >= self.last
        reward = self.final if is_last else 0.5 * (self.flaw == "pays")
        return self._seen(), reward, is_last, False, self._info()

    def _seen(self):
        has_chance = self.flaw == "chance" or (self.flaw == "later chance" and self.taken)
        chance = np.random.default_rng().integers(9000) if has_chance else 0
        texts = {"mission": f"count to {self.last}", "note": "calmly"}
        texts = texts if "mission" in self.observation_space.spaces else {}
        return {"count": np.array([self.start, len(self.taken) + chance]), **texts}

    def _info(self):
        return {"action_mask": np.array([1, 0, 1], np.int8)} if self.flaw == "mask" else {"is_big": len(self.taken) > 1}

    def render(self):
        image = np.full((8, 16, 3), len(self.taken), np.uint8)
        image[0, 0, 0] = self.start % 256
        if self.flaw == "colors" and self.taken:
            image[..., 1] = 10 + self.taken[-1]
        shown = {
            "color": image,
            "gray": image[..., 0],
            "alpha": np.dstack([image, image[..., :1]]),
            "float": image / 255,
        }
        return shown.get(self.frame)

    def __deepcopy__(self, memo):
        raise TypeError("this environment cannot be copied")

    def __reduce__(self):
        raise TypeError("this environment cannot be pickled")


def describe(env):
    """Returns the state in words."""
    return f"{len(env.unwrapped.taken)} steps from {env.unwrapped.start}."


def plan(env):
    """Returns the way to the end, by names and by numbers."""
    return ["go", 0, np.int64(0)][: env.unwrapped.last - len(env.unwrapped.taken)]


def is_even(env, reward, terminated, truncated, info):
    """Returns whether the number of steps is even."""
    return len(env.unwrapped.taken) % 2 == 0


gym.register("Tests/Tally-v0", TallyEnv)
