"""An existing Gymnasium environment as a world: MiniGrid's DoorKey, with words for its states and a planner.

Needs: pip install minigrid
Check it, in this folder: python -m vlm_envs check adapted_env:Adapted/DoorKey
Play it, in this folder:  python -m vlm_envs play adapted_env:Adapted/DoorKey
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym

import vlm_envs

SIDES = ("right", "down", "left", "up")
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))


class Place(NamedTuple):
    """The state that a plan for one key and one door depends on."""

    position: tuple[int, int]
    side: int
    has_key: bool
    is_open: bool


def describe(env: gym.Env[Any, Any]) -> str:
    """Describes the image in sentences. `env` is live, here and in `plan`: read it, but do not step it."""
    world: Any = env.unwrapped
    lines = [f"You are at {_at(world.agent_pos)}, facing {SIDES[world.agent_dir]}."]
    if world.carrying is not None:
        lines.append(f"You carry the {world.carrying.type}.")
    for kind, position, thing in _things(world):
        state = f", {'open' if thing.is_open else 'locked' if thing.is_locked else 'closed'}" if kind == "door" else ""
        lines.append(f"The {kind} is at {_at(position)}{state}.")
    return " ".join(lines)


def plan(env: gym.Env[Any, Any]) -> list[str] | None:
    """Returns the fewest actions that reach the goal, by breadth-first search; None if it is unreachable."""
    world: Any = env.unwrapped
    found = {kind: position for kind, position, _ in _things(world)}
    door = world.grid.get(*found["door"]) if "door" in found else None
    x, y = world.agent_pos
    start = Place((int(x), int(y)), int(world.agent_dir), world.carrying is not None, bool(door and door.is_open))
    plans: dict[Place, list[str]] = {start: []}
    queue = deque([start])
    while queue:
        place = queue.popleft()
        if place.position == found.get("goal"):
            return plans[place]
        for action, reached in _moves(world, place, found):
            if reached not in plans:
                plans[reached] = [*plans[place], action]
                queue.append(reached)
    return None


def _moves(world: Any, place: Place, found: dict[str, tuple[int, int]]) -> Iterator[tuple[str, Place]]:
    yield "left", place._replace(side=(place.side - 1) % 4)
    yield "right", place._replace(side=(place.side + 1) % 4)
    ahead = place.position[0] + STEPS[place.side][0], place.position[1] + STEPS[place.side][1]
    cell = world.grid.get(*ahead)
    kind = None if cell is None else cell.type
    if kind == "key" and ahead == found.get("key") and not place.has_key:
        yield "pickup", place._replace(has_key=True)
    elif kind == "door" and not place.is_open and (place.has_key or not cell.is_locked):
        yield "toggle", place._replace(is_open=True)
    elif kind in (None, "goal") or (kind == "key" and place.has_key) or (kind == "door" and place.is_open):
        yield "forward", place._replace(position=ahead)


def _things(world: Any) -> Iterator[tuple[str, tuple[int, int], Any]]:
    for x in range(world.width):
        for y in range(world.height):
            thing = world.grid.get(x, y)
            if thing is not None and thing.type != "wall":
                yield thing.type, (x, y), thing


def _at(position: Any) -> str:
    return f"column {position[0]}, row {position[1]}"


ENV_ID = vlm_envs.adapt(
    "MiniGrid-DoorKey-5x5-v0",
    name="DoorKey",
    actions={"left": 0, "right": 1, "forward": 2, "pickup": 3, "toggle": 5},
    goal="Pick up the key, open the door, and go to the green square.",
    rules=["left and right turn you on the spot.", "pickup and toggle act on the cell in front of you."],
    describe=describe,
    plan=plan,
    make={"tile_size": 16},
)

if __name__ == "__main__":
    env = gym.make(ENV_ID)
    observation, info = env.reset(seed=0)
    print(observation["text"])
    print("State:", info["state_text"])
    world: Any = env.unwrapped
    actions = world.dynamics.plan(world.state)
    print("Plan:", *map(world.task.write_action, actions))
    response = world.write_response(actions[: world.max_actions_per_turn])
    observation, reward, terminated, truncated, info = env.step(response)
    print("Response:", response)
    print(observation["text"])
