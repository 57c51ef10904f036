"""Trivial questions are those that the base model always solves (ARM-Thinker, section 3.2)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from training.__main__ import main
from training.curation.curation_command import require_teachable, trivial_in
from training.curation.curation_config import CurateConfig
from training.curation.curation_loop import make_data_set
from training.curation.curation_set import questions
from training.pools.pool_levels import read_levels
from vlm_envs.content.judging.order import question_of
from vlm_envs.errors import ConfigError
from vlm_envs.records.run_data import RunReader

PAIRS = ["VLM/RewardJudging-v0", "--worlds.0.kwargs.tracks", "instruction_following"]


@pytest.fixture
def counted(tmp_path):
    """A pool of six levels, the first two of which the base model always gets right."""
    file = tmp_path / "pool.jsonl"
    assert main(["pool", *PAIRS, "--num-samples", "6", "--out", str(file)]) == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row, passes in zip(rows, (5, 5, 4, 3, 0, 1), strict=True):
        row |= {"attempts": 5, "passes": passes}
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def curation(tmp_path):
    return CurateConfig(
        env_id="VLM/RewardJudging-v0",
        settings=("tracks=instruction_following",),
        episode_reward="arm_accuracy",
        reward_settings=("needs_tools=False",),
        mistake_rate=0.0,
        num_samples=6,
        num_rollouts=2,
        drop_trivial=True,
        output=str(tmp_path / "runs"),
    )


def test_what_a_better_teacher_always_gets_right_is_kept_where_the_base_model_fails(counted, curation):
    chosen = replace(curation, pool=str(counted), again=("reverse_order=True",))
    (line, _) = trivial_in(chosen)
    assert "2 levels of" in line
    directory, result = make_data_set(chosen)
    assert (result.total.num_trivial, result.total.num_kept) == (0, 8), "four levels, in both orders"
    kept = {row["turns"][0]["state"]["sample_id"] for row in RunReader(directory).trajectories("curated")}
    assert {*map(question_of, kept)} == {question_of(each.level_id) for each in read_levels(counted)[2:]}


def test_trivial_levels_are_gone_before_anybody_is_asked(counted, curation):
    (asked,) = questions(replace(curation, pool=str(counted)))
    assert list(asked.levels) == [each.level_id for each in read_levels(counted)[2:]]
    (all_of_them,) = questions(replace(curation, pool=str(counted), drop_trivial=False))
    assert len(all_of_them) == 6


@pytest.mark.parametrize("expert", ["oracle", "compatible:strong@http://127.0.0.1:1/v1"])
def test_a_teacher_that_is_not_trained_is_refused_without_counts(expert, counted, curation):
    told = r"is not that model.*python -m training pool VLM/RewardJudging-v0 .*--attempts 5 --out FILE, then pool FILE"
    with pytest.raises(ConfigError, match=told):
        require_teachable(replace(curation, expert=expert))
    require_teachable(replace(curation, expert=expert, pool=str(counted)))


def test_passes_that_the_teacher_itself_made_are_no_base_models(counted, curation):
    def made_by(agent):
        rows = [json.loads(line) | {"agent": agent} for line in counted.read_text().splitlines()]
        counted.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return replace(curation, expert="oracle", pool=str(counted))

    with pytest.raises(ConfigError, match="is not that model"):
        require_teachable(made_by("oracle"))
    chosen = made_by("hf:base")
    require_teachable(chosen)
    assert "2 levels of" in trivial_in(chosen)[0] and "(hf:base)" in trivial_in(chosen)[0]


def test_in_stages_only_what_they_train_may_tell_what_is_trivial(tmp_path, tiny_directory, capsys):
    recipe = tmp_path / "own_curation.py"
    recipe.write_text(
        "from training.curation.curation_config import CurateConfig\n"
        "from training.stages.stages_config import EXPERT_BEFORE, Stage, StagesConfig\n"
        "from training.sft.sft_config import SFTConfig\n"
        "def own() -> StagesConfig:\n"
        "    run = CurateConfig(env_id='VLM/RewardJudging-v0', settings=('tracks=instruction_following',),\n"
        "        episode_reward='arm_accuracy', drop_trivial=True, num_samples=2, expert=EXPERT_BEFORE)\n"
        f"    tuning = SFTConfig(model={str(tiny_directory)!r}, data=('stage:zoom',))\n"
        "    return StagesConfig(name='own', stages=(Stage(name='zoom', run=run), Stage(name='sft', run=tuning)))\n"
    )
    start = ["--recipe", str(recipe), "--output", str(tmp_path / "runs")]
    assert main([*start, "--stages.zoom.expert", "compatible:strong@http://127.0.0.1:1/v1"]) == 2
    told = capsys.readouterr().err
    assert "--stages.zoom.drop-trivial drops questions" in told
    assert "then --stages.zoom.pool FILE" in told
    assert main([*start, "--stages.sft.data", "no/such/file"]) == 2
    assert "drop-trivial" not in capsys.readouterr().err, "the model itself may tell"
