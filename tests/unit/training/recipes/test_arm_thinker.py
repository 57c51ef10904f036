"""ARM-Thinker's preset has the paper's constants, written out here a second time; the tiny one runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judges.episode_rewards.arm import ArmAccuracySettings, ArmExplorationSettings
from training.__main__ import main
from training.algorithms.grpo import GRPO
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec
from training.curation.curated_data import curated_episodes
from training.curation.curation_config import CurateConfig
from training.curation.curation_loop import make_data_set
from training.mixture.mixture_config import Shares
from training.pools.pool_config import PoolConfig
from training.recipes.arm_thinker import arm_thinker, arm_thinker_tiny, both_orders
from training.run_options import find_recipe
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import EXPERT_BEFORE
from training.stages.stages_options import stage_options
from vlm_envs.records.run_data import RunReader

SAMPLES = {"general": 40_000, "zoom": 4_000, "checks": 1_000, "pages": 1_000}
"""Appendix A.2, of the fine-tuning."""

REINFORCED = {"fine_grained": 20_000, "document": 4_000}
"""Appendix A.2; instruction following is left out."""

PUBLIC_SCRIPTS = {
    "sft": {"batch_size": 256, "learning_rate": 2e-5, "warmup_ratio": 0.1, "num_epochs": 1.0},
    "sft_limits": {"max_context_tokens": 32768, "max_image_pixels": 3_211_264},
    "grpo": {"num_groups": 512, "group_size": 16, "eval_every": 8},
    "update": {"learning_rate": 2e-6, "num_minibatches": 2, "kl_coef": 0.0, "entropy_coef": 0.0},
}

STAGES = {stage.name: stage.run for stage in arm_thinker().stages}


def having(config: object, names: dict[str, object]) -> dict[str, object]:
    """Returns what a configuration has where something is expected of it."""
    return {name: getattr(config, name) for name in names}


def test_stages_come_in_the_papers_order():
    assert list(STAGES) == [*SAMPLES, "sft", "explore", "accuracy"]
    rewards = [run.judge.episode_reward for run in STAGES.values() if isinstance(run, RunConfig)]
    assert rewards == ["arm_exploration", "arm_accuracy"]
    assert STAGES["sft"].model == "Qwen/Qwen2.5-VL-7B-Instruct"


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_imitated_is_as_much_as_appendix_a_2_says(name):
    run = STAGES[name]
    assert isinstance(run, CurateConfig)
    assert run.num_kept * len(run.specs) == SAMPLES[name], "after filtering"
    assert all(run.num_kept_of(spec) == run.num_kept for spec in run.specs) and run.num_samples == 10 * run.num_kept
    assert run.num_rollouts == 5, "section 3.2"
    assert run.episode_reward == "arm_accuracy"
    orders = [spec.kwargs.get("reverse_order", False) for spec in run.specs]
    assert orders == ([False, True] if name == "general" else [False]), "LLaVA-Critic's, interchanged"
    assert run.reward.settings.needs_tools == (name != "general"), "section 3.2, behaviour"


def test_what_the_public_scripts_say():
    sft = STAGES["sft"]
    assert isinstance(sft, SFTConfig)
    assert having(sft, PUBLIC_SCRIPTS["sft"]) == PUBLIC_SCRIPTS["sft"]
    assert having(sft, PUBLIC_SCRIPTS["sft_limits"]) == PUBLIC_SCRIPTS["sft_limits"]
    assert sft.memory.freeze_vision_tower and sft.final_learning_rate_ratio == 0.0
    assert {source.path: source.weight for source in sft.sources} == {f"stage:{name}": 1.0 for name in SAMPLES}
    for name in ("explore", "accuracy"):
        run = STAGES[name]
        assert having(run, PUBLIC_SCRIPTS["grpo"]) == PUBLIC_SCRIPTS["grpo"]
        assert having(run.ppo, PUBLIC_SCRIPTS["update"]) == PUBLIC_SCRIPTS["update"]
        assert run.algorithm == GRPO() and run.sampling.temperature == 1.0
        assert {spec.kwargs["max_turns"] for spec in run.worlds} == {5}


def test_rewards_pay_what_the_public_code_pays():
    """0.3, 0.4, 1.0 and 1.5, as the released reward adds up."""
    explored, judged = STAGES["explore"].judge.reward.settings, STAGES["accuracy"].judge.reward.settings
    assert isinstance(explored, ArmExplorationSettings) and isinstance(judged, ArmAccuracySettings)
    assert (explored.format_weight, explored.attempt_weight) == (0.3, 0.1)
    weights = (judged.format_weight, judged.attempt_weight, judged.accuracy_weight, judged.success_weight)
    assert weights == (0.3, 0.1, 0.7, 0.5)


@pytest.mark.parametrize("stage", ["explore", "accuracy"])
def test_shares_are_the_papers_and_both_orders_have_half_of_each(stage):
    worlds = STAGES[stage].worlds
    total = sum(spec.weight for spec in worlds)
    for track, number in REINFORCED.items():
        of_track = [spec for spec in worlds if spec.kwargs["tracks"] == (track,)]
        assert [spec.kwargs.get("reverse_order", False) for spec in of_track] == [False, True]
        assert [spec.weight / total for spec in of_track] == [number / 24_000 / 2] * 2
    assert len(worlds) == 4 and all(spec.kwargs["answer_reward"] == 0.0 for spec in worlds)


@pytest.mark.parametrize("stage", ["explore", "accuracy"])
def test_three_epochs_go_through_finite_pools_in_both_orders(stage):
    """Three epochs are the public script's; an iteration that an epoch has no full batch for is left out there, too."""
    run = STAGES[stage]
    pools = {spec.kwargs["tracks"]: spec.pool for spec in run.worlds}
    assert {track: pool.draw for (track,), pool in pools.items()} == REINFORCED
    assert all(pool.attempts == 5 and pool.drop_trivial for pool in pools.values()), "section 3.2"
    assert all(spec.pool == pools[spec.kwargs["tracks"]] for spec in run.worlds), "both orders of the same pairs"
    shares = Shares(run.worlds, run.num_groups)
    visits = [0] * len(run.worlds)
    for iteration in range(run.num_iterations):
        visits = [before + now for before, now in zip(visits, shares.of(iteration), strict=True)]
    epochs = [number / spec.pool.draw for number, spec in zip(visits, run.worlds, strict=True)]
    assert all(3.0 - 512 / 24_000 * 3 < each <= 3.0 for each in epochs), epochs
    assert pools.keys() == {("fine_grained",), ("document",)}


def test_counted_passes_take_the_place_of_a_drawn_pool():
    pool = {"file": "zoom.jsonl", "draw": 0, "attempts": 0}
    worlds = [f"{stage}.worlds.{number}" for stage in ("explore", "accuracy") for number in (0, 1)]
    given = [(f"--stages.{each}.pool.{name}", str(value)) for each in worlds for name, value in pool.items()]
    found, _ = find_recipe(["arm_thinker:data/arm"])
    config, _ = stage_options(found, found.made(), [word for pair in given for word in pair])
    for run in (stage.run for stage in config.stages if isinstance(stage.run, RunConfig)):
        assert {spec.pool for spec in run.worlds[:2]} == {PoolConfig(file="zoom.jsonl", drop_trivial=True)}
        assert {spec.pool.draw for spec in run.worlds[2:]} == {4_000}


def test_what_is_imitated_comes_to_its_number_after_filtering(tmp_path):
    run = replace(STAGES["checks"], num_kept=3, num_samples=30, num_rollouts=1, mistake_rate=0.7, output=str(tmp_path))
    directory, result = make_data_set(run)
    assert result.total.num_kept == len(curated_episodes(directory)) == 3 < result.total.num_samples


def test_both_orders_of_a_mix_show_the_same_levels_of_a_pool():
    pairs = WorldSpec(env_id="VLM/RewardJudging-v0", kwargs={"tracks": "instruction_following"})
    with pairs.made(split="train") as world:
        world.reset(seed=0)
        level = world.dynamics.dump(world.state)
    shown = []
    for spec in both_orders(pairs):
        with spec.made(split="train") as world:
            world.reset(options={"level": level})
            shown.append([text for _, text in world.state.sample.texts])
    assert shown[0] == shown[1][::-1] != shown[1]


def test_a_folder_of_local_data_stands_behind_the_name():
    found, rest = find_recipe(["arm_thinker:data/arm", "--model", "DIR"])
    assert found is not None and rest == ["--model", "DIR"]
    runs = {stage.name: stage.run for stage in found.made().stages}
    spec, _ = runs["general"].specs
    assert (spec.kwargs["dataset"], spec.kwargs["folder"]) == ("llava_critic", "data/arm/llava_critic")
    folders = [each.kwargs["folder"] for each in runs["accuracy"].worlds]
    assert folders == ["data/arm/deepeyes"] * 2 + ["data/arm/mp_docvqa"] * 2
    assert runs["zoom"].expert == EXPERT_BEFORE and runs["zoom"].drop_trivial, "nobody knows what is wrong there"


def test_without_a_model_it_says_in_one_line_what_to_do(tmp_path, capsys):
    words = [
        word for name in SAMPLES for word in (f"--stages.{name}.num-samples", "1", f"--stages.{name}.num-kept", "1")
    ]
    # No more pages than there must be: the first question shows them all
    few = [word for each in (*STAGES["pages"].settings, "num_pages=5") for word in ("--stages.pages.set", each)]
    assert main(["arm_thinker", "--output", str(tmp_path), *words, *few]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "Qwen/Qwen2.5-VL-7B-Instruct" in told
    assert not list(tmp_path.iterdir())


def test_an_iteration_judges_the_same_pairs_in_both_orders():
    config = next(stage.run for stage in arm_thinker_tiny().stages if stage.name == "explore")
    assert isinstance(config, RunConfig)
    forward, reverse = config.worlds
    assert reverse == replace(forward, name="reverse", kwargs={**forward.kwargs, "reverse_order": True})
    with forward.made(split="train") as one, reverse.made(split="train") as other:
        for seed in (1, 2):
            texts = [world.reset(seed=seed)[0]["text"].splitlines() for world in (one, other)]
            assert sorted(texts[0]) == sorted(texts[1]) and texts[0] != texts[1]


def test_the_tiny_one_runs_from_start_to_end(tmp_path):
    settings = {
        "glance.num-samples": 8,
        "checks.num-samples": 3,
        "sft.num-epochs": 1,
        "sft.eval-share": 0,
        **{
            f"{stage}.{option}": value
            for stage in ("explore", "accuracy")
            for option, value in {"num-iterations": 1, "num-groups": 2, "group-size": 2, "num-eval-episodes": 1}.items()
        },
        **{f"{stage}.num-threads": 1 for stage in ("sft", "explore", "accuracy")},
    }
    words = [str(word) for name, value in settings.items() for word in (f"--stages.{name}", value)]
    assert main(["arm_thinker_tiny", "--output", str(tmp_path), *words]) == 0
    run = tmp_path / "arm_thinker_tiny"
    for stage, terms in {"4-explore": {"format", "attempt"}, "5-accuracy": {"format", "accuracy", "success"}}.items():
        (line,) = [line for line in RunReader(run / stage).metrics() if line["phase"] == "rl"]
        paid = {name.rpartition("/")[2] for name in line if name.startswith("judge/arm_")}
        assert terms <= paid and "success/reverse" in line
