"""Step eight worlds together; finished ones rest while the others continue."""

from functools import partial

import vlm_envs
from vlm_envs.splits import split_seeds
from vlm_envs.vector.vector_world import VectorWorld

NUM_ENVS = 8


def random_response(rng) -> str:
    """Returns three random moves in the right format."""
    moves = rng.choice(["Up", "Down", "Left", "Right"], size=3)
    return f"<answer>{', '.join(moves)}</answer>"


def main() -> None:
    """Plays one random episode in every world."""
    make_world = partial(vlm_envs.make, "VLM/FrozenLake-v0", prompt_format="no_think", split="val")
    worlds = VectorWorld([make_world] * NUM_ENVS)  # workers="process" steps them in other processes
    observations, infos = worlds.reset(seed=list(split_seeds("val", NUM_ENVS)))
    print("observations:", len(observations), "dicts of", sorted(observations[0]))

    over = [False] * NUM_ENVS
    returns = [0.0] * NUM_ENVS
    while not all(over):
        actions = [None if over[i] else random_response(worlds.np_random) for i in range(NUM_ENVS)]
        observations, rewards, terminated, truncated, infos = worlds.step(actions)
        for i in range(NUM_ENVS):
            if not over[i]:
                returns[i] += float(rewards[i])
            over[i] = bool(terminated[i] or truncated[i])
    print("returns:", [round(value, 1) for value in returns])
    print("solved:", int(sum(infos["success"])), "of", NUM_ENVS)
    worlds.close()


if __name__ == "__main__":
    main()
