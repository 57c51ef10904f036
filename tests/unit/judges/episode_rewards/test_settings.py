"""Constants of the papers' rewards: each is documented, each does something, and the command lists them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from judges.__main__ import main
from judges.episode_rewards.argos import ArgosSettings
from judges.episode_rewards.arm import ArmAccuracySettings
from judges.episode_rewards.episode_reading import final_state, true_boxes
from judges.episode_rewards.episode_reward import EachByItself, EpisodeReward, RewardSettings, constants_of
from judges.episode_rewards.ivgr import MEAN_OF_FOUR, IvgrSettings
from judges.episode_rewards.judge_models import JudgeModels
from judges.episode_rewards.mags import MagsSettings, MagsStage1Settings
from judges.episode_rewards.reward_registry import SHIPPED, episode_reward, register
from judges.scores import JudgeScore, Reward
from tests.unit.judges.awaited import Waiting
from tests.unit.judges.episode_rewards.test_episodes import played
from tests.unit.judges.episode_rewards.test_unchanged import STRATEGIES, episodes_of, graded
from tests.unit.judges.episodes import with_response, with_state
from vlm_envs.cli.named_worlds import parse_settings
from vlm_envs.errors import ConfigError

WITH_SETTINGS = [reward for reward in SHIPPED if reward.settings is not None]
CONSTANTS = [(reward.name, each.name) for reward in WITH_SETTINGS for each in constants_of(reward.settings)]

OTHERS = {
    "format_weight": 0.9,
    "needs_format": False,
    "needs_tools": False,
    "attempt_weight": 0.9,
    "min_calls": 9,
    "accuracy_weight": 0.9,
    "right_above": 0.8,
    "success_weight": 0.9,
    "min_successful_calls": 9,
    "bonus_weight": 0.9,
    "answer_weight": 0.9,
    "zoom_weight": 0.9,
    "rethink_weight": 0.9,
    "zoom_format_weight": 0.9,
    "other_formats_weight": 0.9,
    "answer_tag": 0.9,
    "think_tag": 0.9,
    "rethink_tag": 0.9,
    "min_unique_words": 12,
    "min_diversity": 0.9,
    "repetitive_factor": 0.9,
    "zoom_format_base": 0.9,
    "full_zoom_format_words": 40,
    "rethink_scale": 0.9,
    "rethink_without_answer": 0.9,
    "min_grade": 0.8,
    "graded_answer": 0.9,
    "max_box_area": 0.005,
    "miss_penalty": 0.9,
    "box_weight": 0.9,
    "consistency_weight": 0.9,
    "archive_threshold": 0.0,
    "one_deviation": 0.9,
    "both_deviations": 0.9,
    "num_judgements": 3,
    "temperature": 0.9,
    "threshold": 0.0,
    "grounding_weight": 0.9,
    "reasoning_weight": 0.9,
    "relative_tolerance": 0.5,
    "require_points": False,
}
"""Another value of each constant."""


SEED_OF_ONE_BOX = 5


def planted(name: str):
    """Episodes beside those of `episodes_of` in which a constant is what matters."""
    if name.startswith("arm"):
        first = played("arm", 0)
        close = {"answer_kind": "anls", "answers": ("abcdefghij",), "options": (), "answer": "abcdwxyhij"}
        truth = final_state(played("arm", 1))["answers"][0]
        untouched = played("arm", 1, f"<think>So.</think><answer>{truth}</answer>")
        return [untouched, with_state(with_response(first, "<think>So.</think><answer>abcdwxyhij</answer>"), **close)]
    if name.startswith("mags"):
        thought = "<think>A red thing and a blue one lie near it. <zoom>[[10, 10, 60, 60], [9, 9, 5, 5]]</zoom></think>"
        unanswered = played("mags", 0, thought, "<rethink>One two three four five six and no more.</rethink>")
        counted = with_state(unanswered, answer_kind="number", answers=("3",), options=(), category="count")
        repetitive = f"<think>One{', is red' * 9}, no more. <zoom>[[10, 10, 60, 60]]</zoom></think>"
        return [unanswered, counted, played("mags", 0, repetitive)]
    if name == "argos":
        near = '<think>The <points x1="1" y1="1" alt="it">mug</points>.</think><answer>12</answer>'
        return [with_state(played("points", 0, near), answer_kind="number", answers=("10.0",), options=())]
    (box,) = true_boxes(played("ivgr_grounded", SEED_OF_ONE_BOX))[:1]
    wide = [round(each) for each in (box.x1, box.y1, box.x2 + (box.x2 - box.x1), box.y2 + 2 * (box.y2 - box.y1))]
    truth = final_state(played("ivgr_grounded", SEED_OF_ONE_BOX))["answers"][0]
    coarse = f"<think>It is there {wide}.</think><answer>{truth}</answer>"
    return [played("ivgr_grounded", SEED_OF_ONE_BOX, coarse), played("ivgr_textual", SEED_OF_ONE_BOX)]


@functools.cache
def all_episodes(name: str):
    return [each for strategy in STRATEGIES[family(name)] for each in episodes_of(strategy)] + planted(name)


def told(name: str, settings):
    """Everything a reward says and asks."""
    asked = []

    def consistency(question, reference, text, temperature):
        asked.append(temperature)
        return JudgeScore(value=(1.0, 0.7, 0.3, 0.0)[len(asked) % 4])

    models = JudgeModels(
        answer_judge=graded,
        consistency_judge=consistency,
        likelihoods=lambda questions: [[-0.5 if "No point" in reasoning else -2.0] for _, _, reasoning, _ in questions],
    )
    episodes = all_episodes(name)
    reward = episode_reward(name).with_settings(settings)
    given = Waiting(reward.make_judge(models))(episodes)
    return [each.terms for each in given], asked, [reward.rejection_reason(each) for each in episodes]


def family(name: str) -> str:
    return name if name in STRATEGIES else "arm_accuracy"


@pytest.mark.parametrize("name", [reward.name for reward in WITH_SETTINGS])
def test_every_constant_changes_what_is_paid(name):
    unchanged = told(name, {})
    of_this = [constant for reward, constant in CONSTANTS if reward == name]
    assert [each for each in of_this if told(name, {each: OTHERS[each]}) == unchanged] == []


@pytest.mark.parametrize(("name", "constant"), CONSTANTS)
def test_every_constant_says_what_it_is_and_where_it_comes_from(name, constant):
    (told_of,) = [each for each in constants_of(episode_reward(name).settings) if each.name == constant]
    assert told_of.meaning.endswith(".")
    paper = {"arm": "ARM-Thinker", "mags": "Mags-RL", "ivgr": "iVGR", "argos": "Argos"}[name.partition("_")[0]]
    assert told_of.source.endswith(".")
    assert told_of.source.startswith((paper, "our choice")), told_of.source


def test_the_papers_numbers_are_the_defaults():
    mags, ivgr, argos, arm = MagsSettings(), IvgrSettings(), ArgosSettings(), ArmAccuracySettings()
    # Mags-RL, appendix B: λ2 = 2, λ3 = 1, λ4 = 0.5, 0.5 for r_zfmt and 0.1 for the rest; equation 1; appendix A.1
    assert (mags.answer_weight, mags.zoom_weight, mags.rethink_weight) == (2.0, 1.0, 0.5)
    assert (mags.zoom_format_weight, mags.other_formats_weight, mags.miss_penalty) == (0.5, 0.1, 0.05)
    assert (mags.min_unique_words, mags.min_diversity, mags.min_grade, mags.max_box_area) == (5, 0.4, 0.7, 0.4)
    # iVGR, table 6, section 3.3, table 9
    assert (ivgr.archive_threshold, ivgr.one_deviation, ivgr.both_deviations) == (0.3, 0.7, 0.3)
    assert (ivgr.num_judgements, ivgr.temperature) == (1, 0.01)
    assert (MEAN_OF_FOUR.num_judgements, MEAN_OF_FOUR.temperature) == (4, 0.5)
    # Argos, equation 8; the others and ARM-Thinker's are pins
    assert (argos.relative_tolerance, argos.threshold) == (0.05, 0.5)
    assert (argos.accuracy_weight, argos.grounding_weight, argos.reasoning_weight) == (1.0, 1.0, 1.0)
    assert (arm.format_weight, arm.attempt_weight, arm.accuracy_weight, arm.success_weight) == (0.3, 0.1, 0.7, 0.5)


def test_what_is_given_is_read_back_as_the_same_settings():
    for settings in (MagsSettings(answer_weight=1.5, min_unique_words=7), ArgosSettings(require_points=False)):
        assert replace(type(settings)(), **parse_settings(settings.given)) == settings
    assert MEAN_OF_FOUR.given == ("num_judgements=4", "temperature=0.5")
    assert MagsStage1Settings().given == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MagsSettings(answer_weight=True), "answer_weight.*True"),
        (lambda: MagsSettings(min_unique_words=2.5), r"min_unique_words.*2\.5"),
        (lambda: MagsSettings(full_zoom_format_words=1), "full_zoom_format_words.*2"),
        (lambda: MagsSettings(miss_penalty=float("inf")), "miss_penalty.*inf"),
        (lambda: ArgosSettings(threshold=1.5), r"threshold.*1\.5"),
        (lambda: ArgosSettings(accuracy_weight=0), "accuracy_weight.*0"),
        (lambda: ArmAccuracySettings(right_above=1), "right_above.*1"),
        (lambda: IvgrSettings(num_judgements=4, temperature=0), "num_judgements.*temperature"),
    ],
)
def test_settings_in_python_are_checked_too(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@dataclass(frozen=True, kw_only=True)
class OwnSettings(RewardSettings):
    """Constants of a user's own.

    Attributes:
        bonus: What an episode earns. Source: our choice.
    """

    bonus: float = 1.0


def own(settings: OwnSettings) -> EpisodeReward:
    return EpisodeReward(
        name="own_with_settings",
        build=lambda models: EachByItself(lambda episode: Reward(terms={"bonus": settings.bonus})),
        settings=settings,
        configure=own,
    )


def test_a_reward_of_ones_own_has_constants_too(capsys):
    register(own(OwnSettings()))
    name = f"{__name__}:own_with_settings"
    judge = Waiting(episode_reward(name).with_settings({"bonus": 3}).make_judge(JudgeModels()))
    assert judge([played("arm", 0)])[0].total == 3
    assert main(["rewards", name]) == 0
    assert "bonus=1.0\n      What an episode earns. Source: our choice." in capsys.readouterr().out


def test_the_command_lists_what_is_asked_for(capsys):
    assert main(["rewards", "mags_stage_2"]) == 0
    out = capsys.readouterr().out
    assert "  miss_penalty=0.05\n" in out
    assert "Source: Mags-RL, equation 1." in " ".join(out.split())
    assert main(["rewards"]) == 0
    everything = f"\n{capsys.readouterr().out}"
    assert all(f"\n{reward.name}\n" in everything for reward in SHIPPED)
    assert main(["rewards", "mags_stage_3"]) == 2
    assert "Did you mean 'mags_stage_" in capsys.readouterr().err


def test_the_documentation_has_them_all(capsys):
    page = (Path(__file__).parents[4] / "docs" / "reference" / "reward-constants.md").read_text(encoding="utf-8")
    assert main(["rewards", *[reward.name for reward in SHIPPED], "--markdown"]) == 0
    assert capsys.readouterr().out in page, "run make pages"
    assert all(f"\n| `{constant}` | " in page for _, constant in CONSTANTS)
