"""An agent that is shown grey."""

from __future__ import annotations

import numpy as np
import pytest

from agents.hf.ablation_agents import BlindHFAgent, blinded
from agents.hf.hf_agent import HFAgent
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import play


@pytest.mark.parametrize("key", ["image", "images"])
def test_pictures_are_grey_and_the_observation_is_as_it_was(key):
    picture = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    observation = {"text": "Look.", key: picture if key == "image" else (picture, picture[:2])}
    hidden = blinded(observation)
    pictures = (hidden["image"],) if key == "image" else hidden["images"]
    assert hidden["text"] == "Look."
    assert [each.shape for each in pictures] == ([(4, 4, 3)] if key == "image" else [(4, 4, 3), (2, 4, 3)])
    assert all(len(np.unique(each)) == 1 and each.dtype == np.uint8 for each in pictures)
    assert observation[key] is picture or observation[key][0] is picture


def test_text_alone_is_left_alone():
    assert blinded({"text": "No picture."}) == {"text": "No picture."}


def test_what_it_says_does_not_depend_on_what_there_is_to_see(tiny):
    """Levels differ in nothing but their pictures, so greedy responses differ where these are shown."""

    def first_words(kind: type[HFAgent]) -> set[str]:
        agent = kind(model=tiny[0], encoder=tiny[1], sampling=SamplingConfig(max_new_tokens=12, temperature=0.0))
        return {episode.turns[0].response_text for episode in play(agent, range(6), max_turns=(1,))}

    assert len(first_words(BlindHFAgent)) == 1
    assert len(first_words(HFAgent)) > 1
