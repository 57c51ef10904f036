"""Argos' curation: what to look at, where it is, a teacher that is shown it, a verifier that filters."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")

from agents.agent import Response, RolloutRows
from judges.grounding import read_response
from training.curation import curation_loop, curation_teacher
from training.curation.curated_data import curated_episodes
from training.curation.curation_command import require_teachable
from training.curation.curation_config import CurateConfig, PointingConfig
from training.curation.curation_loop import make_data_set
from training.curation.curation_teacher import (
    Asked,
    PointedTeacher,
    Proposal,
    asked_in,
    exact_proposals,
    model_proposals,
    overlaid,
    pointed,
    read_labels,
    tagged,
)
from training.rewards.verifier import read_places, replies
from vlm_envs.errors import ConfigError

CLIPS = ("source=vlm_envs.content.quarters:clips", "prompt_format=points", "max_pixels=12544")
MUG = Proposal(label="red mug", x=12.3, y=45.6)


class Scripted:
    """Says what a function makes of what it is shown."""

    policy_version = -1

    def __init__(self, say):
        self.say, self.seen = say, []

    def start(self, worlds):
        assert worlds.num_envs > 0

    def respond(self, rows, observations):
        self.seen += observations
        return [Response(text=self.say(each)) for each in observations]


def asked(**changes) -> Asked:
    return Asked(**{"question": "Where?\nA. here", "answer": "A. here", "times_s": (), "evidence": (MUG,)} | changes)


def grey(side=96):
    return np.full((side, side, 3), 128, np.uint8)


def test_a_dot_is_where_the_place_is_and_the_picture_stays_as_it_was():
    picture = grey(200)
    marked = overlaid(picture, [MUG])
    assert (picture == 128).all()
    assert marked[round(0.456 * 200), round(0.123 * 200)].tolist() == [255, 0, 0]
    changed = np.argwhere((marked != picture).any(axis=2))
    assert changed[:, 0].max() < 120 and changed[:, 1].max() < 120, "nothing far from it is drawn over"


def test_of_a_video_only_marked_frames_are_shown_and_of_a_picture_both():
    seen = {"text": "Q", "images": (grey(), grey())}
    of_pictures, of_video = (pointed(seen, [MUG], is_video=is_video) for is_video in (False, True))
    assert len(of_pictures["images"]) == 4 and (of_pictures["images"][0] == 128).all()
    assert len(of_video["images"]) == 2 and (of_video["images"][0] != 128).any()
    assert (of_video["images"][1] == 128).all(), "the place is in the first frame alone"
    assert pointed(seen, [], is_video=True) is seen


def test_coordinates_that_were_drawn_become_points_and_no_others():
    own = '<points x1="1" y1="2" alt="cup (12.3, 45.6)">cup</points>'
    text = tagged(f"<think>The mug (12.3, 45.6) in frame 2 (0.5 seconds), {own} not (9, 9).</think>", [MUG])
    assert own in text and "(9, 9)" in text
    read = read_response(text)
    first = read.points[0]
    assert (first.x, first.y, first.label, first.frame, first.time_s) == (12.3, 45.6, "red mug", 2, 0.5)


@pytest.mark.parametrize("reply", ["", "no", "{", "[]", '{"entities": 3}', '{"entities": [1, null, " "]}'])
def test_a_reply_that_cannot_be_read_proposes_nothing(reply):
    assert read_labels(reply) == []
    assert read_places(reply) == []


def test_models_are_asked_for_each_label_in_each_frame():
    proposer = Scripted(lambda seen: json.dumps({"entities": ["red mug", "red mug"], "actions": ["it moves"]}))
    pointer = Scripted(lambda seen: '<point x="12.34" y="45.6" alt="m">m</point> <point x="300" y="2">x</point>')
    propose = model_proposals(proposer, pointer)
    (places,) = propose([asked(times_s=(0.0, 0.5))], [{"text": "Q", "images": (grey(), grey())}])
    assert places == [MUG, Proposal(label="red mug", x=12.3, y=45.6, image=1)]
    assert "F2 at 0.5 s" in proposer.seen[0]["text"] and "A. here" in proposer.seen[0]["text"]
    assert [len(each["images"]) for each in pointer.seen] == [1, 1]
    assert replies(pointer, []) == []


def test_a_question_is_looked_into_once_however_often_it_is_asked():
    looked = []

    def propose(questions, shown):
        looked.append(len(questions))
        return exact_proposals(questions, shown)

    teacher = PointedTeacher(Scripted(lambda seen: "(12.3, 45.6)"), propose)
    worlds = SimpleNamespace(num_envs=2, apply=lambda functions: {row: asked() for row in functions})
    teacher.start(worlds, RolloutRows.ungrouped(2))
    for _ in range(2):
        said = teacher.respond([0, 1], [{"text": "Q", "images": (grey(),)}] * 2)
    assert looked == [1, 0] and all("<points" in each.text for each in said)


class Reader:
    """Copies the coordinates that are drawn for it, as one would who can read; it knows the answer."""

    policy_version = -1

    def __init__(self):
        self.seen, self.worlds = [], None

    def start(self, worlds):
        self.worlds = worlds

    def respond(self, rows, observations):
        self.seen += observations
        return [Response(text=each) for each in self.worlds.apply(dict.fromkeys(rows, self.said_of)).values()]

    @staticmethod
    def said_of(world):
        sample, (place,) = world.state.sample, asked_in(world).evidence
        at = sample.times_s[place.image]
        seen = f"In frame {place.image + 1} ({at:.1f} seconds) I see it at ({place.x:g}, {place.y:g})."
        return f"<think>{seen} {sample.facts}</think><answer>{sample.key.answers[0]}</answer>"


def test_what_is_kept_is_grounded_and_shows_the_pictures_without_marks(tmp_path, monkeypatch):
    reader = Reader()
    monkeypatch.setattr(curation_teacher, "make_agent", lambda name, **settings: reader)
    monkeypatch.setattr(curation_teacher, "setting_names", lambda name: ())
    monkeypatch.setattr(curation_loop, "require_teachable", lambda config: None)
    config = CurateConfig(
        name="kept", output=str(tmp_path), env_id="VLM/VideoQA-v0", settings=CLIPS, expert="hf:reader",
        pointing=PointingConfig(points="exact"), num_samples=3, num_rollouts=2,
    )  # fmt: skip
    directory, result = make_data_set(config)
    assert result.record()["num_kept"] == 3 and result.total.rollout_yield == 1.0
    kept = curated_episodes(directory)
    assert all(len(read_response(each.turns[0].response_text).points) == 1 for each in kept)
    assert "marked" in reader.seen[0]["text"] and "marked" not in kept[0].turns[0].observation["text"]
    shown, recorded = (np.stack(each["images"]) for each in (reader.seen[0], kept[0].turns[0].observation))
    assert shown.shape == recorded.shape and (shown != recorded).any()
    without = make_data_set(replace(config, name="blind", pointing=PointingConfig()))[1]
    assert not without.total.num_kept, "coordinates that nobody drew are no points; who points at nothing is not kept"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"points": "models"}, "proposer and .*pointer NAME"),
        ({"points": "models", "proposer": "hf:a"}, "pointer"),
    ],
)
def test_missing_models_are_refused(changes, told):
    with pytest.raises(ConfigError, match=told):
        PointingConfig(**changes)


def test_who_does_not_look_is_shown_nothing_and_a_world_has_to_ask(tmp_path):
    exact = PointingConfig(points="exact")
    with pytest.raises(ConfigError, match="oracle does not look at"):
        CurateConfig(pointing=exact)
    with pytest.raises(ConfigError, match=r"percents.*VLM/ZoomQA-v0 .*coordinates=pixels"):
        CurateConfig(expert="hf:x", pointing=exact, settings=("prompt_format=points", "coordinates=pixels"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        require_teachable(CurateConfig(expert="hf:nowhere", pointing=exact, output=str(tmp_path)))
    models = PointingConfig(points="models", proposer="hf:gone", pointer="hf:gone")
    with pytest.raises(FileNotFoundError, match="gone"):
        require_teachable(CurateConfig(expert="human", pointing=models, output=str(tmp_path)))
