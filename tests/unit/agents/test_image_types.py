"""Images of an own world that are floats, booleans, or gray: every reader of images raises the same error."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from agents.agent import Response
from agents.api.conversation import Picture as SentPicture
from agents.human import observation_lines
from agents.oracle import RandomAgent
from agents.rollout import make_turn, rollout
from judges.episode_rewards.episode_reading import shown_images
from tests.unit.vlm_envs.corridor import CorridorView, CorridorWorld
from vlm_envs.errors import ConfigError
from vlm_envs.records.run_data import ImageStore
from vlm_envs.tools.pictures import Picture
from vlm_envs.trajectory import Trajectory
from vlm_envs.vector.vector_world import VectorWorld

IMAGE = np.full((4, 6, 3), 200, np.uint8)
WRONG = {"float": IMAGE / 255, "bool": IMAGE > 0, "gray": IMAGE[..., 0]}
THE_ERROR = r"An image must be uint8\[height, width, 3\], RGB from 0 to 255; got .*Conversions: "


class WrongView(CorridorView):
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def image(self, state: Any) -> Any:
        return WRONG[self.kind]


class WrongWorld(CorridorWorld):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.view = WrongView(kind)


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("workers", ["serial", "thread"])
def test_an_own_world_with_such_images_is_not_played_by_any_agent(kind: str, workers: str) -> None:
    """The world refuses them, so that agents without eyes and vectors of any workers report them too."""
    with (
        VectorWorld([partial(WrongWorld, kind)], workers=workers) as worlds,
        pytest.raises(ConfigError, match=THE_ERROR),
    ):
        rollout(RandomAgent(), worlds, [0], env_ids=["own"])


def judged(image: Any) -> Any:
    observation: Any = {"text": "look", "image": image}
    turn = make_turn(observation, {"state": {}}, Response(text="", stop_reason="stop"), {"success": False})
    return shown_images(
        Trajectory(env_id="own", seed=0, turns=(turn,), final_observation=observation, start_state_hash="")
    )


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize(
    "look",
    [
        SentPicture.of,
        Picture,
        judged,
        lambda image: observation_lines({"text": "", "image": image}, "none"),
    ],
    ids=["sent to an API", "given to tools", "judged", "shown at a terminal"],
)
def test_every_reader_of_images_raises_the_same_error(kind: str, look: Any) -> None:
    look(IMAGE)
    with pytest.raises(ConfigError, match=THE_ERROR):
        look(WRONG[kind])


@pytest.mark.parametrize("kind", WRONG)
def test_such_images_are_not_recorded(kind: str, tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match=THE_ERROR):
        ImageStore(tmp_path).save(WRONG[kind])
    assert not [*tmp_path.iterdir()]
