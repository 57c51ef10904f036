"""Stages that cannot follow each other are refused, with what to do about it; the others are written down whole."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.training.batches import run_config
from training.config.update_config import LoRAConfig, MemoryConfig, PPOConfig
from training.recipes.shipped import STAGED_RECIPES
from training.run_options import Recipe
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import STAGE_BEFORE, Stage, StagesConfig, save_stages, saved_stages
from training.stages.stages_options import split_by_stage, stage_options, stages_told
from training.stages.stages_preflight import checked_stages
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import RunExistsError

HELD = PPOConfig(num_minibatches=1, kl_coef=0.1)
TUNED = SFTConfig(model="start", data=("rows.jsonl",))


def explored(name="explore", *, reference="reset", starts_from="latest", **changes):
    return Stage(name=name, run=run_config(**changes), reference=reference, starts_from=starts_from)


def stages(*each, **changes):
    return StagesConfig(name="test", stages=each, **changes)


FROZEN = MemoryConfig(freeze_vision_tower=True)
SFT = Stage(name="sft", run=TUNED)
FREE = {"ppo": PPOConfig(num_minibatches=1, kl_coef=0.0)}


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: stages(), "at least one stage"),
        (lambda: stages(SFT, Stage(name="b", run=TUNED)), "own checkpoint, start, but .*'sft'"),
        (lambda: stages(explored("a_b"), explored("a-b")), "Two stages are named"),
        (lambda: stages(explored("1st")), "must consist of letters, digits"),
        (lambda: stages(explored("a.b")), "must consist of letters, digits"),
        (lambda: stages(Stage(name="sft", run=replace(TUNED, model=STAGE_BEFORE))), "no model before it.*model DIR"),
        (lambda: stages(explored(model=STAGE_BEFORE)), "no model before it.*model DIR"),
        (lambda: stages(explored(starts_from="best")), "is the first.*starts_from"),
        (lambda: stages(SFT, explored(starts_from="best")), "keeps none.*--stages.sft.eval-every 10"),
        (lambda: stages(explored("a"), explored("b", starts_from="best")), "keeps none.*--stages.a.eval-every 10"),
        (lambda: stages(SFT, explored(reference="kept", ppo=HELD)), "first of reinforcement learning.*reference reset"),
        (
            lambda: stages(explored("a"), explored("b", reference="kept", ppo=HELD, memory=FROZEN)),
            "'b' freezes the vision tower.*from before 'a'.*--stages.a.memory.freeze-vision-tower",
        ),
        (lambda: stages(replace(SFT, reference="kept")), "supervised and has no reference"),
        (
            lambda: stages(explored("a"), explored("b", reference="kept", ppo=HELD, lora=LoRAConfig(rank=4))),
            "'b'.*another model than the base of --lora.rank 4",
        ),
        (
            lambda: stages(explored("a"), explored("b", reference="kept", ppo=HELD, model="elsewhere")),
            "names its own checkpoint, elsewhere",
        ),
        (lambda: Stage(name="a", run=TUNED, reference="both"), "reference must be one of .*; got 'both'"),
        (lambda: Stage(name="a", run="sft"), "must be a CurateConfig, .*; got str"),
    ],
)  # fmt: skip
def test_a_stage_that_cannot_follow_another_is_refused(made, told):
    with pytest.raises(ConfigError, match=f"(?s){told}"):
        made()


def test_each_stage_starts_from_the_one_before_and_is_held_to_what_it_says():
    config = stages(
        SFT,
        explored("one", eval_every=5, num_iterations=10, ppo=HELD),
        explored("two", starts_from="best", ppo=HELD),
        explored("three", reference="kept", ppo=HELD),
        model="given",
    )
    runs = config.resolved()
    assert [(run.output, run.name) for run in runs] == [
        ("runs/test", name) for name in ("1-sft", "2-one", "3-two", "4-three")
    ]
    places = ("1-sft/latest", "2-one/best", "3-two/latest")
    assert [run.model for run in runs] == ["given", *(f"runs/test/{each}/model" for each in places)]
    assert [run.reference for run in runs[1:]] == [None, None, "runs/test/1-sft/latest/model"]


def test_the_first_reference_is_kept_where_it_was_cold_started():
    config = stages(explored("one"), explored("two", reference="kept", ppo=HELD))
    assert config.resolved()[1].reference == "runs/test/1-one/cold_start"


def test_what_is_written_down_reads_back(tmp_path):
    config = stages(SFT, explored(ppo=HELD), explored("b", reference="kept", ppo=HELD), output=str(tmp_path))
    save_stages(config, ["sft"])
    assert saved_stages(tmp_path / "test") == (config, ["sft"])
    with pytest.raises(FileNotFoundError, match=r"No staged run at .*elsewhere.*--name"):
        saved_stages(tmp_path / "elsewhere")


@pytest.mark.parametrize("name", STAGED_RECIPES)
def test_recipes_of_stages_are_named_after_themselves_and_are_written_down(name):
    config = STAGED_RECIPES[name]()
    kinds = {each["kind"] for each in json.loads(json.dumps(config.to_dict()))["stages"]}
    assert config.name == name and kinds <= {"curation", "sft", "rl"}


@pytest.mark.parametrize("name", [name for name in STAGED_RECIPES if name.endswith("_tiny") and "_hack_" not in name])
def test_what_tiny_recipes_of_stages_need_is_there(name, tmp_path):
    config = STAGED_RECIPES[name]()
    left = checked_stages(replace(config, output=str(tmp_path)), resume=False)
    assert [each.resume for each in left] == [False] * len(config.stages)
    assert not list(tmp_path.iterdir())


def test_all_stages_are_tried_before_the_first_begins(tiny_directory, tmp_path):
    data = tmp_path / "rows.jsonl"
    data.write_text("")
    first = Stage(name="sft", run=replace(TUNED, model=str(tiny_directory), data=(str(data),)))
    follows = SFTConfig(model=STAGE_BEFORE, data=(str(tmp_path / "gone.jsonl"),))
    cases = {
        "Stage 'b': --data .*gone.jsonl does not exist": Stage(name="b", run=follows),
        "Stage 'b': .*no-such": explored("b", device="no-such"),
        "(?s)Stage 'b': .*wrong.*--worlds.0.kwargs.NAME": explored(
            "b", worlds=(replace(run_config().worlds[0], kwargs={"wrong": 1}),)
        ),
        "Stage 'b': .*more than the context of 4.*--stages.b.sampling.max-new-tokens": explored(
            "b", sampling=replace(run_config().sampling, max_context_tokens=4)
        ),
    }  # fmt: skip
    for told, stage in cases.items():
        with pytest.raises(ConfigError, match=told):
            checked_stages(stages(first, stage, output=str(tmp_path / "runs")), resume=False)
    with pytest.raises(ConfigError, match=r"Stage 'sft': .*nowhere"):
        checked_stages(stages(first, model="nowhere", output=str(tmp_path / "runs")), resume=False)
    assert not (tmp_path / "runs").exists()


def test_another_run_is_not_written_over(tmp_path):
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "config.json").write_text("{}")
    with pytest.raises(RunExistsError, match="already holds a run"):
        checked_stages(stages(explored(), output=str(tmp_path)), resume=False)


def recipe_of(config):
    return Recipe(name="mine", make=lambda: config)


def test_options_are_of_the_stage_that_they_name():
    config = stages(SFT, explored("two_words"), explored("b", ppo=HELD))
    words = (
        "--stages.sft.num-steps 7 --stages.sft.data a --stages.sft.data b=2 --name other "
        "--stages.two-words.worlds.0.kwargs.max-turns 2 --stages.two_words.num-iterations=3 "
        "--stages.b.reference kept --stages.b.algorithm grpo"
    )
    made, resume = stage_options(recipe_of(config), config, words.split())
    sft, two, b = made.stages
    assert (made.name, resume) == ("other", False)
    assert (sft.run.num_steps, sft.run.data) == (7, ("a", "b=2"))
    assert (two.run.worlds[0].kwargs["max_turns"], two.run.num_iterations) == (2, 3)
    assert (b.reference, type(b.run.algorithm).__name__, b.run.num_iterations) == ("kept", "GRPO", 100)
    assert split_by_stage(["--stages.b.x", "1", "2", "-h"], config.stages)[0] == ["-h"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--stages.xplore.seed 1", "no stage 'xplore'.*sft, explore.* Did you mean 'explore'"),
        ("--stages.explore", "names no option.*--stages.explore.help"),
        ("--num-iterations 3", r"Did you mean --stages\.explore\.num-iterations\?"),
        ("--stages.explore.model DIR", "--stages.explore.model is not an option: --model"),
        ("--stages.explore.num-iteration 3", "Stage 'explore': .*mean"),
        ("--stages.explore.reference old", "reference must be one of .*; got 'old'"),
        ("--stages.sft.batch-size 0", "Stage 'sft': .*--batch-size must be at least 1"),
    ],
)
def test_mistakes_in_options_of_stages_are_explained(words, told):
    config = stages(SFT, explored())
    with pytest.raises(ConfigError, match=f"(?s){told}"):
        stage_options(recipe_of(config), config, words.split())


def test_help_shows_the_stages_and_where_their_options_are(capsys):
    config = stages(SFT, explored(ppo=HELD))
    told = stages_told(config)
    assert "1. sft: fine-tuning on rows.jsonl" in told and "VLM/FrozenLake-v0" in told
    assert "--stages.explore.help" in told
    with pytest.raises(SystemExit) as ended:
        stage_options(recipe_of(config), config, ["--help"])
    assert ended.value.code == 0 and told in capsys.readouterr().out
    with pytest.raises(SystemExit):
        stage_options(recipe_of(config), config, ["--stages.explore.help"])
    assert "--num-iterations" in capsys.readouterr().out


def test_what_takes_one_run_says_so_of_stages():
    with pytest.raises(ConfigError, match=r"mine is a staged run \(sft\)"):
        recipe_of(stages(SFT)).config()


def test_a_stage_without_iterations_is_told_as_the_cold_start_that_it_is():
    config = stages(explored("start", num_iterations=0), explored("on"))
    assert "1. start: a cold start of 800 steps in VLM/FrozenLake-v0" in stages_told(config)
