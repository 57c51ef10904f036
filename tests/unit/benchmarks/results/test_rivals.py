"""Who plays a run's test levels beside its policies."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from agents.hf.sampling_config import SamplingConfig
from benchmarks.results.collect import imitated_of
from benchmarks.results.rivals import Rivals, shows_pictures
from tests.unit.benchmarks.results.test_results import LAKE
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.demonstrations import expert_of
from training.config.world_spec import WorldSpec


def test_each_rival_is_of_the_model_that_its_name_says(monkeypatch):
    for kind in ("ToldHFAgent", "BlindHFAgent", "HFAgent"):
        monkeypatch.setattr(
            f"benchmarks.results.rivals.{kind}",
            lambda kind=kind, **settings: (kind, settings["model"], settings["sampling"].temperature),
        )
    rivals = Rivals.of("start", "trained", None, SamplingConfig(), imitated=ColdStartConfig(), imitated_in=(), seed=1)
    assert (rivals.told_before, rivals.told_after) == (("ToldHFAgent", "start", 1.0), ("ToldHFAgent", "trained", 1.0))
    assert (rivals.greedy_before, rivals.greedy_after) == (("HFAgent", "start", 0.0), ("HFAgent", "trained", 0.0))
    assert rivals.blind == ("BlindHFAgent", "trained", 1.0)


def test_the_expert_is_the_one_that_the_start_has_imitated():
    imitated = ColdStartConfig(mistake_rate=0.25, suboptimal_rate=0.5, tells_plan=True)
    expert = expert_of(LAKE, imitated, seed=3)
    assert (expert.mistake_rate, expert.suboptimal_rate, expert.tells_plan) == (0.25, 0.5, True)
    own = replace(LAKE, cold_start_suboptimal_rate=0.75)
    assert expert_of(own, imitated, seed=3).suboptimal_rate == 0.75, "a world of a mix may have its own rate"
    for nobody in (ColdStartConfig(num_steps=0), ColdStartConfig(data="recorded")):
        assert expert_of(LAKE, nobody, seed=3) is None


def test_what_a_start_has_imitated_is_told_by_the_start_and_not_by_the_run(tmp_path):
    lakes = [asdict(LAKE)]
    config = {"model": None, "cold_start": {"suboptimal_rate": 0.25}, "worlds": lakes}
    assert imitated_of(config) == (ColdStartConfig(suboptimal_rate=0.25), (LAKE,))
    of_another = config | {"model": str(tmp_path)}
    assert imitated_of(of_another)[1] == (), "nothing says what it has imitated"
    made_from = {"cold_start": {"suboptimal_rate": 0.5, "tells_plan": True}, "worlds": lakes}
    (tmp_path / "provenance.json").write_text(json.dumps(made_from))
    assert imitated_of(of_another) == (ColdStartConfig(suboptimal_rate=0.5, tells_plan=True), (LAKE,))


def test_the_expert_is_as_suboptimal_as_in_the_world_of_the_start():
    other, own = (
        replace(LAKE, kwargs=kwargs, cold_start_suboptimal_rate=rate)
        for kwargs, rate in (({}, 0.5), (LAKE.kwargs, 0.75))
    )
    nobody = dict.fromkeys(("told_before", "told_after", "greedy_before", "greedy_after", "blind"))
    rivals = Rivals(**nobody, imitated=ColdStartConfig(), imitated_in=(other, own), seed=1)
    assert rivals.expert(replace(LAKE, cold_start_suboptimal_rate=0.0)).suboptimal_rate == 0.75
    assert rivals.expert(replace(LAKE, kwargs={"size": 8})).suboptimal_rate == 0.5, "of another lake at least"
    assert rivals.expert(replace(LAKE, env_id="VLM/Sokoban-v0")) is None, "it was not shown any"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (LAKE, True),
        (WorldSpec(env_id="VLM/RewardJudging-v0", kwargs={"tracks": "instruction_following"}), False),
    ],
    ids=["a world of pictures", "a world of texts"],
)
def test_only_who_is_shown_pictures_can_be_shown_grey_ones(spec, expected):
    if not expected:
        pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")
    assert shows_pictures(spec) is expected
