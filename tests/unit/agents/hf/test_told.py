"""An agent whose responses begin with the truth."""

from __future__ import annotations

import re

import numpy as np
import pytest

from agents.hf.ablation_agents import ToldHFAgent
from agents.hf.hf_agent import HFAgent
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import play
from vlm_envs.errors import ConfigError

STATES = {"prompt_format": "grounding_worldmodeling", "representation": "structured"}
SAMPLING = SamplingConfig(max_new_tokens=6)


def test_each_response_begins_with_the_true_state_of_its_turn(tiny):
    agent = ToldHFAgent(model=tiny[0], encoder=tiny[1], sampling=SAMPLING, seed=1)
    for episode in play(agent, range(4), max_turns=(2,), **STATES):
        for turn in episode.turns:
            truth = str(turn.state).replace("'", "")
            assert turn.response_text.startswith(f"<think><observation>{truth}</observation>")
            sampled = tiny[1].decode(turn.response_ids)
            assert turn.response_text.endswith(sampled) and len(turn.response_ids) <= 6


def test_what_it_goes_on_with_is_what_the_model_says_behind_such_a_beginning(tiny):
    """Its tokens are those that an expert's response has there, so the model meets what it has learnt."""
    encoder = tiny[1]
    (episode,) = play(ToldHFAgent(model=tiny[0], encoder=encoder, sampling=SAMPLING), [3], max_turns=(1,), **STATES)
    (plain,) = play(HFAgent(model=tiny[0], encoder=encoder, sampling=SAMPLING), [3], max_turns=(1,), **STATES)
    told, untold = episode.turns[0].prompt_ids, plain.turns[0].prompt_ids
    assert np.array_equal(told[: len(untold)], untold)
    written = told[len(untold) :]
    whole = encoder.encode_response(episode.turns[0].response_text)
    assert np.array_equal(whole[: len(written)], written)


def test_thoughts_that_tell_only_what_is_seen_are_written_where_there_is_no_section_for_that(tiny):
    pytest.importorskip("panda3d", reason="needs panda3d: pip install '.[navigation]'")
    agent = ToldHFAgent(model=tiny[0], encoder=tiny[1], sampling=SAMPLING, seed=1)
    home = {"env_id": "VLM/Navigation-v0", "step_length": 0.5, "resolution": 56}
    episodes = play(agent, range(3, 9), prompt_format="free_think", **home)
    for turn in [turn for episode in episodes for turn in episode.turns]:
        thought = re.match(r"<think>(\d+) (ahead|behind), (\d+) (left|right)</think>", turn.response_text)
        assert thought, turn.response_text
        direction = turn.state["target_direction_to_player"]
        along, across = int(thought[1]), int(thought[3])
        assert along >= across if direction in ("ahead", "back") else across >= along
        if direction != "ahead":
            assert {"back": "behind"}.get(direction, direction) in (thought[2], thought[4])
        metres = np.hypot(along, across) * 0.5
        assert metres == pytest.approx(turn.state["target_distance_to_player"], abs=0.4), "two roundings of 0.25 m"


def test_a_format_without_a_place_for_what_is_seen_is_refused(tiny):
    agent = ToldHFAgent(model=tiny[0], encoder=tiny[1], sampling=SAMPLING)
    with pytest.raises(ConfigError, match=r"no section 'observation'.*grounding_worldmodeling"):
        play(agent, [3], max_turns=(1,), prompt_format="free_think")
