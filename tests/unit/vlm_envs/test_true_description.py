"""The mode "image+description": exact whatever the representation, and never the answer to a question."""

from contextlib import closing

import pytest

from vlm_envs.registration import make
from vlm_envs.world import DESCRIBED


def first_text(env_id: str, **kwargs: object) -> str:
    with closing(make(env_id, **kwargs)) as world:
        observation, _ = world.reset(seed=3)
    return str(observation["text"])


SMALL = {"side_px": (400, 600), "target_px": (16, 40)}


@pytest.mark.parametrize("representation", ["natural_language", "symbolic"])
def test_it_is_as_exact_as_the_world_can_be(representation: str) -> None:
    with closing(make("VLM/FrozenLake-v0", representation="structured")) as world:
        _, info = world.reset(seed=3)
    text = first_text("VLM/FrozenLake-v0", obs_mode="image+description", representation=representation)
    assert text.endswith(f"\n{DESCRIBED} {info['state_text']}")


def test_beside_a_question_it_tells_what_is_there_and_not_what_is_right() -> None:
    with closing(make("VLM/ZoomQA-v0", obs_mode="image+description", prompt_format="direct", **SMALL)) as world:
        for seed in range(4):
            observation, info = world.reset(seed=seed)
            facts = world.unwrapped.state.sample.facts
            assert facts and observation["text"].endswith(f"\n{DESCRIBED} {facts}")
            assert "right answer" in info["state_text"]
            assert "right answer" not in observation["text"]


def test_where_the_facts_are_the_verdict_nothing_is_told() -> None:
    assert DESCRIBED not in first_text("VLM/RewardJudging-v0", obs_mode="image+description")
