"""A paper's constants in the configuration of a run: set, refused, saved, and kept by a run that goes on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agents.api.endpoint_config import EndpointConfig
from judges.episode_rewards.ivgr import MEAN_OF_FOUR
from judges.episode_rewards.mags import MagsStage1Settings
from tests.unit.judges.awaited import Waiting
from tests.unit.judges.episode_rewards.test_episodes import played
from training.__main__ import main
from training.config.judge_config import JudgeConfig
from training.config.resume import check_same_run
from training.config.run_config import RunConfig
from training.config.saved_config import plain, rebuilt
from training.curation.curation_config import CurateConfig
from training.rewards.turn_scores import TurnScorer
from training.run_options import configured, find_recipe
from vlm_envs.errors import ConfigError

SILENT = {"grounding_weight": 0.0, "worldmodeling_weight": 0.0}


def judge_of(reward: str, *settings: str, **fields) -> JudgeConfig:
    return JudgeConfig(**SILENT, episode_reward=reward, reward_settings=settings, **fields)


@pytest.mark.parametrize(
    ("reward", "setting", "message"),
    [
        (
            "mags_stage_1",
            "answer_weigth=1",
            r"no setting 'answer_weigth'; .*Did you mean 'answer_weight'\? See all",
        ),
        ("mags_stage_1", "miss_penalty=0.1", r"'mags_stage_1' has no setting 'miss_penalty'"),
        ("mags_stage_1", "answer_weight=lots", r"--judge\.reward-set answer_weight must be a number; got 'lots'"),
        ("mags_stage_1", "answer_weight=-1", r"--judge\.reward-set answer_weight must be at least 0; got -1"),
        ("mags_stage_1", "answer_weight", r"--judge\.reward-set takes NAME=VALUE, such as answer_weight=1\.5"),
        ("argos", "require_points=no", r"--judge\.reward-set require_points must be True or False; got 'no'"),
        ("argos", "threshold=2", r"--judge\.reward-set threshold must be at least 0 and at most 1; got 2"),
        ("ivgr", "num_judgements=1.5", r"--judge\.reward-set num_judgements must be a whole number; got 1\.5"),
        ("agentic", "threshold=1", r"The reward 'agentic' has no setting 'threshold'; it has none"),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_remedy(reward, setting, message):
    with pytest.raises(ConfigError, match=message):
        judge_of(reward, setting)


def test_a_curation_calls_its_option_by_its_own_name():
    with pytest.raises(ConfigError, match="reward_settings threshold must be at least 0"):
        CurateConfig(reward_settings=("threshold=-1",))


def test_what_is_set_is_what_is_paid():
    episode = played("mags", 1)
    paid = [TurnScorer(judge_of("mags_stage_1", *given)).score([episode])[0] for given in ((), ("answer_weight=1.5",))]
    first, second = ({**each.turns[-1].rewards} for each in paid)
    assert first.pop("mags_stage_1/answer") == 2.0
    assert second.pop("mags_stage_1/answer") == 1.5
    assert first == second


def test_evaluations_go_by_the_same_constants():
    judge = judge_of("mags_stage_1", "answer_weight=1.5")
    assert judge.of_evaluations.reward.settings == MagsStage1Settings(answer_weight=1.5)


def test_python_passes_typed_settings_and_they_come_back_from_json():
    judge = judge_of("ivgr", *MEAN_OF_FOUR.given)
    assert judge.reward.settings == MEAN_OF_FOUR
    assert judge.reward.num_judgements == 4
    saved = json.loads(json.dumps(plain(judge)))
    assert saved["reward_settings"] == ["num_judgements=4", "temperature=0.5"]
    assert rebuilt(JudgeConfig, saved) == judge


def test_the_last_of_a_name_counts():
    judge = judge_of("mags_stage_1", "answer_weight=1", "zoom_weight=2", "answer_weight=3")
    assert judge.reward_settings == ("answer_weight=3", "zoom_weight=2")


def paid_by(reward: str, **of_world: object) -> tuple[str, ...]:
    """Returns the options with which a recipe that is paid for answers is paid by a paper's reward."""
    set_ = [(f"--worlds.0.kwargs.{name}", str(value)) for name, value in {**of_world, "answer_reward": 0}.items()]
    return ("--judge.episode-reward", reward, *(word for pair in set_ for word in pair))


def zoomqa(*words: str, default: RunConfig | None = None) -> RunConfig:
    recipe, rest = find_recipe(["zoomqa_tiny", *paid_by("mags_stage_1", prompt_format="mags", mags_stage=1), *words])
    return configured(recipe, rest, default)


def test_a_run_goes_on_by_its_constants_and_by_no_others(tmp_path):
    given = ("--judge.reward-set", "answer_weight=1.5", "--judge.reward-set", "min_diversity=0.3")
    run = zoomqa(*given)
    assert run.judge.reward_settings == ("answer_weight=1.5", "min_diversity=0.3")
    (tmp_path / "config.json").write_text(json.dumps(run.to_dict()), encoding="utf-8")
    check_same_run(zoomqa(*given, default=run), tmp_path)
    with pytest.raises(ConfigError, match=r"--judge\.reward-set: the run has .*answer_weight=1\.5"):
        check_same_run(zoomqa("--judge.reward-set", "answer_weight=1.6", default=run), tmp_path)


def test_a_run_cannot_be_resumed_with_another_reward(tmp_path):
    run = zoomqa()
    (tmp_path / "config.json").write_text(json.dumps(run.to_dict()), encoding="utf-8")
    check_same_run(run, tmp_path)
    with pytest.raises(ConfigError, match=r"--judge\.reward-set"):
        check_same_run(zoomqa("--judge.reward-set", "answer_weight=1.6"), tmp_path)


def test_a_run_goes_on_wherever_its_verifiers_models_are(tmp_path):
    def run(*words):
        chosen = (*paid_by("argos", prompt_format="points"), "--judge.verifier.likelihood", str(tmp_path), *words)
        return configured(*find_recipe(["videoqa_tiny", *chosen]))

    old = run().to_dict()
    for name in ("workers", "num_workers", "num_gpus", "timeout_s"):
        del old["judge"]["verifier"][name]
    (tmp_path / "config.json").write_text(json.dumps(old), encoding="utf-8")
    there = ("--judge.verifier.workers", "ray", "--judge.verifier.num-gpus", "0.5", "--judge.verifier.timeout-s", "9")
    check_same_run(run(*there, "--judge.verifier.num-workers", "3"), tmp_path)
    with pytest.raises(ConfigError, match=r"--judge\.verifier\.likelihood"):
        check_same_run(run("--judge.verifier.likelihood", str(tmp_path / "other")), tmp_path)


def test_a_run_goes_on_wherever_its_judge_is_and_however_patiently_it_is_asked(tmp_path):
    def run(*words):
        there = ("--judge.endpoint.model", "m", "--judge.endpoint.base-url", "http://127.0.0.1:8/v1")
        return configured(*find_recipe(["frozenlake_tiny", "--judge.method", "direct", *there, *words]))

    (tmp_path / "config.json").write_text(json.dumps(run().to_dict()), encoding="utf-8")
    elsewhere = ("--judge.endpoint.base-url", "http://127.0.0.1:9/v1", "--judge.endpoint.timeout-s", "7")
    patience = ("--judge.endpoint.max-attempts", "1", "--judge.endpoint.max-parallel", "2")
    check_same_run(run(*elsewhere, *patience, "--worlds.0.step-timeout-s", "5"), tmp_path)
    for other in (("--judge.endpoint.temperature", "0.5"), ("--judge.endpoint.model", "other")):
        with pytest.raises(ConfigError, match=rf"{other[0]}"):
            check_same_run(run(*other), tmp_path)


def test_the_command_line_says_it_in_one_line(capsys):
    assert (
        main(
            [
                "zoomqa_tiny",
                *paid_by("mags_stage_1", prompt_format="mags", mags_stage=1),
                "--judge.reward-set",
                "answer_weight=x",
            ]
        )
        == 2
    )
    assert "error: --judge.reward-set answer_weight must be a number; got 'x'." in capsys.readouterr().err


def test_consistency_is_asked_as_often_as_is_set():
    endpoint = EndpointConfig(model="judge", base_url="http://127.0.0.1:9", api_key_variable="")
    scorer = TurnScorer(replace(judge_of("ivgr", *MEAN_OF_FOUR.given), endpoint=endpoint))
    asked = []

    async def ask(messages, read, **how):
        asked.append(how)
        return 1.0

    scorer._client.ask = ask
    grounded, textual = played("ivgr_grounded", 1), played("ivgr_textual", 1)
    assert Waiting(scorer._episode_judge)([grounded, textual])[1].terms["consistency"] == 1.0
    assert sorted(each["sample"] for each in asked) == [0, 1, 2, 3]
    assert {each["temperature"] for each in asked} == {0.5}
    scorer.close()
