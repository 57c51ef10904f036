"""Stages that curate data for a later one: what follows what, what is refused, and what is written down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.training.stages.test_stages_config import SFT, TUNED, explored, recipe_of, stages
from training.curation.curation_config import CurateConfig
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import EXPERT_BEFORE, Stage, save_stages, saved_stages
from training.stages.stages_options import stage_options, stages_told
from training.stages.stages_preflight import checked_stages
from vlm_envs.errors import ConfigError

CURATED = CurateConfig(
    env_id="VLM/RewardJudging-v0",
    settings=("tracks=instruction_following",),
    episode_reward="arm_accuracy",
    num_samples=2,
    num_rollouts=1,
)
ROLLOUTS = Stage(name="rollouts", run=CURATED)
LEARNS = Stage(name="sft", run=replace(TUNED, data=("stage:rollouts=2", "rows.jsonl")))
LATER = Stage(name="sft", run=replace(LEARNS.run, model=""))


def test_data_of_a_stage_are_in_its_folder_and_the_model_passes_it_by():
    again = Stage(name="again", run=replace(CURATED, expert=EXPERT_BEFORE))
    config = stages(ROLLOUTS, LEARNS, again, explored(), model="given")
    rollouts, sft, more, explore = config.resolved()
    assert (rollouts.output, rollouts.name, rollouts.expert) == ("runs/test", "1-rollouts", "oracle")
    assert isinstance(sft, SFTConfig)
    assert (sft.model, sft.data) == ("given", ("runs/test/1-rollouts=2", "rows.jsonl"))
    assert more.expert == "hf:runs/test/2-sft/latest/model" == f"hf:{explore.model}"
    assert str(config.last_model) == "runs/test/4-explore/latest/model"
    first = stages(replace(again, name="rollouts"), replace(LEARNS, run=replace(TUNED, data=("stage:rollouts",))))
    assert first.resolved()[0].expert == "hf:start", "the model that the first stage starts from"


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: stages(ROLLOUTS), "must train a model"),
        (lambda: stages(LEARNS), "'sft' trains on stage:rollouts, but no earlier stage.*none"),
        (lambda: stages(SFT, replace(LATER, name="b"), ROLLOUTS), "no earlier stage"),
        (lambda: stages(explored("rollouts"), LEARNS), "names its own checkpoint, start"),
        (lambda: stages(replace(ROLLOUTS, starts_from="best"), LEARNS), "remove starts_from"),
        (lambda: stages(replace(ROLLOUTS, reference="kept"), LEARNS), "remove starts_from"),
        (
            lambda: stages(Stage(name="a", run=replace(CURATED, expert=EXPERT_BEFORE)), explored()),
            "no checkpoint yet.*model DIR",
        ),
    ],
)  # fmt: skip
def test_data_that_nobody_makes_are_refused(made, told):
    with pytest.raises(ConfigError, match=f"(?s){told}"):
        made()


def test_a_curation_is_written_down_and_reads_back(tmp_path):
    config = stages(ROLLOUTS, LEARNS, output=str(tmp_path))
    save_stages(config, ["rollouts"])
    assert saved_stages(tmp_path / "test") == (config, ["rollouts"])


def test_options_of_a_curation_are_its_stages():
    config = stages(ROLLOUTS, LEARNS)
    words = "--stages.rollouts.num-samples 5 --stages.rollouts.again reverse_order=True --stages.sft.num-steps 3"
    made, _ = stage_options(recipe_of(config), config, words.split())
    assert (made.stages[0].run.num_samples, made.stages[0].run.again) == (5, ("reverse_order=True",))
    told = "1. rollouts: 5 questions of VLM/RewardJudging-v0, verified by arm_accuracy"
    assert told in stages_told(made)


def test_a_curation_is_tried_before_the_first_stage_begins(tiny_directory, tmp_path):
    learns = replace(LEARNS, run=replace(TUNED, model=str(tiny_directory), data=("stage:rollouts",)))
    output = str(tmp_path / "runs")
    left = checked_stages(stages(ROLLOUTS, learns, output=output), resume=False)
    assert [type(each.run) for each in left] == [CurateConfig, SFTConfig], "the data need not be there yet"
    wrong = replace(ROLLOUTS, run=replace(CURATED, settings=("tracks=instructions",)))
    with pytest.raises(ConfigError, match=r"(?s)Stage 'rollouts': .*instruction_following"):
        checked_stages(stages(wrong, learns, output=output), resume=False)
    with pytest.raises(ConfigError, match=r"Stage 'rollouts': .*nowhere"):
        nobody = replace(ROLLOUTS, run=replace(CURATED, expert="hf:nowhere"))
        checked_stages(stages(nobody, learns, output=output), resume=False)
    assert not (tmp_path / "runs").exists()
