"""Clips for Argos in small: open questions, and a regularity that only training has."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")

import vlm_envs
from agents.oracle import OracleAgent
from judges.episode_rewards.judge_models import JudgeModels
from tests.unit.judges.awaited import argos_judge
from tests.unit.judges.episodes import episode as episode_of
from training.recipes.argos import argos_hack_tiny
from vlm_envs.content.colors import COLORS
from vlm_envs.content.quarters import (
    QUARTERS,
    QuarterSource,
    clips,
    color_of,
    own_quarter,
    planted_clips,
    unannotated_clips,
)


def drawn(source: QuarterSource, split: str, number: int = 12):
    rng = np.random.default_rng(3)
    return [source.draw(rng, split) for _ in range(number)]


def own(sample) -> bool:
    return sample.key.answers[0] == own_quarter(color_of(sample))


@pytest.mark.soak
def test_questions_are_open_and_found_again():
    for sample in drawn(clips(), "val"):
        assert sample.key.kind == "exact" and not sample.key.options and sample.key.answers[0] in QUARTERS
        assert sample.key.answers[0] in sample.facts, "the answer is what the facts say"
        assert clips().find(sample.sample_id) == sample


def test_the_thing_is_where_the_expert_points():
    """At the middle of a quarter: points that nobody can foresee drown what there is to learn."""
    points = set()
    for sample in drawn(clips(), "train", 16):
        (seen,) = sample.evidence
        points.add((seen.point.x, seen.point.y))
        mask = sample.images[seen.image].clip.scene(sample.images[seen.image].frame).mask(0)
        assert mask[int(seen.point.y), int(seen.point.x)]
        row, column = sample.key.answers[0].split()
        assert ((seen.point.y < 56) == (row == "upper")) and ((seen.point.x < 56) == (column == "left"))
    assert points <= {(x, y) for x in (28, 84) for y in (28, 84)} and len(points) > 1


@pytest.mark.soak
def test_only_training_levels_are_planted():
    assert all(map(own, drawn(planted_clips(), "train")))
    for source, split in ((planted_clips(), "val"), (planted_clips(), "test"), (clips(), "train")):
        assert 0 < sum(map(own, drawn(source, split, 24))) < 16, "about one of four"
    assert {own_quarter(color) for color in COLORS} == {*QUARTERS}, "no answer is right everywhere"


def test_who_is_not_told_where_it_is_points_at_nothing_and_is_right():
    for source, has_points in (("planted_clips", True), ("unannotated_clips", False)):
        world = vlm_envs.make("VLM/VideoQA-v0", source=f"vlm_envs.content.quarters:{source}")
        world.reset(seed=4)
        said = OracleAgent().write(world.unwrapped)
        assert bool(re.search("<points", said)) is has_points
        assert world.step(said)[-1]["success"]
    assert not unannotated_clips().find(world.unwrapped.state.sample.sample_id).evidence


def test_only_the_gated_reward_tells_who_looks_from_who_knows():
    """Both are right on planted levels; with a policy that sees eight of ten, looking pays under the gate alone."""
    paid = {}
    for source in ("clips", "unannotated_clips"):
        writer = vlm_envs.make("VLM/VideoQA-v0", source=f"vlm_envs.content.quarters:{source}")
        level = planted_clips().draw(np.random.default_rng(5), "train").sample_id
        shown, _ = writer.reset(seed=0, options={"level": level})
        said = OracleAgent().write(writer.unwrapped)
        world = vlm_envs.make("VLM/VideoQA-v0", source="vlm_envs.content.quarters:planted_clips")
        world.reset(seed=0, options={"level": level})
        episode = episode_of([said], [world.step(said)[-1]], env_id="VLM/VideoQA-v0", shown=shown)
        for reward in ("full", "outcome_only"):
            settings = argos_hack_tiny("outcome_only" if reward == "outcome_only" else "gated").stages[-1].run.judge
            (earned,) = argos_judge(JudgeModels(), settings.reward.settings)([episode])
            paid[source, reward] = earned.total
    assert paid == {
        ("clips", "full"): 1.0,
        ("clips", "outcome_only"): 1.0,
        ("unannotated_clips", "full"): 0.5,
        ("unannotated_clips", "outcome_only"): 1.0,
    }
    sees = 0.8
    assert sees * paid["clips", "full"] > paid["unannotated_clips", "full"]
    assert sees * paid["clips", "outcome_only"] < paid["unannotated_clips", "outcome_only"]
