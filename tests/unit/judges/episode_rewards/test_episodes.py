"""The papers' rewards of whole episodes: numbers worked out by hand, and the oracle at every maximum."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import vlm_envs
from agents.oracle import OracleAgent
from judges.episode_rewards.argos import ArgosSettings
from judges.episode_rewards.episode_reading import (
    final_state,
    formats_correct,
    num_objects,
    own_pieces,
    query_id,
    shown_images,
    true_boxes,
)
from judges.episode_rewards.judge_models import JudgeModels
from judges.episode_rewards.reward_registry import EPISODE_REWARDS, register
from judges.scores import JudgeScore
from judges.word_consistency import content_words, word_consistency
from tests.unit.judges.awaited import IvgrJudge, argos_judge
from tests.unit.judges.episodes import episode as episode_of
from tests.unit.judges.episodes import episode_judge, with_response, with_state
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.image_datasets import dataset_source
from vlm_envs.trajectory import Trajectory

SMALL = {"side_px": (400, 600), "target_px": (16, 40)}


def played(strategy: str, seed: int, *responses: str) -> Trajectory:
    """Plays responses, then lets the oracle go on to the end."""
    world = vlm_envs.make("VLM/ZoomQA-v0", prompt_format=strategy, **SMALL).unwrapped
    shown, _ = world.reset(seed=seed)
    said: list[str] = []
    infos: list[dict[str, Any]] = []
    over = False
    while not over:
        said.append(responses[len(said)] if len(said) < len(responses) else OracleAgent().write(world))
        *_, terminated, truncated, info = world.step(said[-1])
        infos.append(info)
        over = terminated or truncated
    return episode_of(said, infos, shown=shown)


def reward_of(method: str, episode: Trajectory, **kwargs: Any):
    (reward,) = episode_judge(method, **kwargs)([episode])
    return reward


BEST = {
    # 0.3 format + 0.1 attempt
    "arm_exploration": ("arm", 0.4),
    # 0.3 format + 0.7 accuracy + 0.5 success
    "arm_accuracy": ("arm", 1.5),
    # 2 answer + 1 zoom + 0.5 rethink + 0.5 zoom format + 0.1 (1 + 0.5 + 0.5) of the other formats
    "mags_stage_1": ("mags", 4.2),
    "mags_stage_2": ("mags", 4.2),
    # the weighted mean of accuracy 1 and grounding 1
    "argos": ("points", 1.0),
}


@pytest.mark.parametrize("method", BEST)
def test_the_oracle_earns_the_most_there_is_in_every_category(method):
    strategy, best = BEST[method]
    categories = set()
    for seed in range(16):
        episode = played(strategy, seed)
        categories.add(final_state(episode)["category"])
        assert reward_of(method, episode).total == pytest.approx(best), (seed, own_pieces(episode))
    assert len(categories) == 5


def test_the_oracle_earns_the_most_of_both_streams_of_ivgr():
    judge = IvgrJudge()
    num_boxes = 0
    for seed in range(16):
        episodes = [played(name, seed) for name in ("ivgr_textual", "ivgr_grounded")]
        textual, grounded = judge(episodes)
        # Format 1, accuracy 1, box or consistency 1; a question about what is absent has neither
        has_boxes = bool(true_boxes(episodes[1]))
        num_boxes += has_boxes
        assert grounded.total == pytest.approx(3.0 if has_boxes else 2.0), own_pieces(episodes[1])
        assert textual.total == pytest.approx(3.0 if has_boxes else 2.0), own_pieces(episodes[0])
    assert 0 < num_boxes < 16
    # Every reference is of its own step, so that nothing was found from earlier ones; see test_archive.py.
    assert judge.metrics() == {"archive_size": num_boxes, "archive_hit_rate": 0.0, "archive_step_hit_rate": 0.0}
    judge([played("ivgr_textual", seed) for seed in range(16)])
    assert judge.metrics() == {"archive_size": num_boxes, "archive_hit_rate": 0.5, "archive_step_hit_rate": 1.0}


def test_a_wrong_answer_after_a_call_earns_format_and_attempt():
    wrong = "<think>no</think><answer>certainly not this</answer>"
    call = OracleAgent().write(started_world("arm", 1))
    assert reward_of("arm_accuracy", played("arm", 1, call, wrong)).total == pytest.approx(0.4)
    assert reward_of("arm_accuracy", played("arm", 1, wrong)).total == pytest.approx(0.3)


@pytest.mark.parametrize("method", ["arm_exploration", "arm_accuracy"])
def test_looking_without_ever_answering_earns_nothing(method):
    # The released code asks of the last response that it is a thought and an answer, and pays 0 where it is not.
    call = OracleAgent().write(started_world("arm", 1))
    episode = played("arm", 1, *[call] * 5)
    assert all(formats_correct(episode)) and final_state(episode)["answer"] is None
    reward = reward_of(method, episode)
    assert (reward.total, reward.available) == (0.0, True)


@pytest.mark.parametrize("method", ["arm_exploration", "arm_accuracy"])
@pytest.mark.parametrize("nothing", [".", "\u200b", "\u200b \u2060", '""', "x" * 5_000])
def test_an_answer_that_says_nothing_is_never_an_answer(method, nothing):
    # What `match_answer` calls no answer earns neither the format nor, after a call, the attempt.
    call, answer = OracleAgent().write(started_world("arm", 1)), f"<think>x</think><answer>{nothing}</answer>"
    assert reward_of(method, played("arm", 1, answer)).total == 0.0
    assert reward_of(method, played("arm", 1, call, answer)).total == 0.0


def started_world(strategy: str, seed: int):
    world = vlm_envs.make("VLM/ZoomQA-v0", prompt_format=strategy, **SMALL).unwrapped
    world.reset(seed=seed)
    return world


def test_one_turn_out_of_format_costs_everything_of_arm():
    episode = played("arm", 1, "I think so.")
    assert formats_correct(episode)[0] is False
    assert reward_of("arm_accuracy", episode).total == 0.0


def test_a_right_answer_without_a_call_that_worked_earns_no_success():
    call = '<think>x</think><tool_call>{"name": "none", "arguments": {}}</tool_call>'
    world = started_world("arm", 1)
    answer = f"<think>seen</think><answer>{world.state.sample.key.answers[0]}</answer>"
    assert reward_of("arm_accuracy", played("arm", 1, call, answer)).total == pytest.approx(1.0)


def test_mags_without_a_readable_zoom():
    episode = played("mags", 1, "<think>I see it well enough already</think>")
    # 2 answer + 0.5 rethink + 0.1 (1 + 0.5 + 0.5); neither zoom nor its format
    assert reward_of("mags_stage_1", episode).total == pytest.approx(2.7)


@pytest.mark.parametrize(("category", "answer", "expected"), [("count", "3", 3), ("count_simple", "3.0", 3)])
def test_a_count_is_one_however_a_data_set_writes_it(category, answer, expected):
    episode = played("mags", 1)
    counted = with_state(episode, category=category, answer_kind="number", answers=[answer], options=[])
    assert num_objects(counted) == expected
    assert num_objects(with_state(counted, answers=["three"])) is None
    assert reward_of("mags_stage_2", counted).available


def test_text_behind_a_call_is_not_shown_to_a_judge_that_looks():
    episode = played("arm", 1, "<think>x</think><tool_call>{}</tool_call> The answer is certainly right.")
    assert own_pieces(episode)[0].endswith("</tool_call>")
    assert own_pieces(episode_of(["Up, up."], [{"prompt_format": "no_think"}])) == ("Up, up.",)


def test_text_behind_the_first_round_is_not_judged():
    world = started_world("mags", 1)
    first = OracleAgent().write(world)
    padded = played("mags", 1, first + "<think>more</think><rethink>" + " ".join(map(str, range(40))) + "</rethink>")
    assert reward_of("mags_stage_1", padded).total == pytest.approx(4.2)


def test_argos_gates_on_accuracy_and_scores_points_that_miss():
    world = started_world("points", 1)
    key = world.state.sample.key
    missing = f'<think><points x1="0.1" y1="0.1">{{}}</points></think><answer>{key.answers[0]}</answer>'
    label = world.state.sample.evidence[0].label
    assert reward_of("argos", played("points", 1, missing.format(label))).total == pytest.approx(0.5)
    none = f"<think>I see it.</think><answer>{key.answers[0]}</answer>"
    assert reward_of("argos", played("points", 1, none)).total == pytest.approx(0.5)
    lenient = ArgosSettings(require_points=False)
    assert argos_judge(JudgeModels(), lenient)([played("points", 1, none)])[0].total == pytest.approx(1.0)
    assert reward_of("argos", played("points", 1, none.replace(key.answers[0], "no idea"))).total == 0.0


def test_argos_asks_the_likelihoods_of_each_episodes_reasoning():
    episodes = [played("points", 1), played("points", 2)]
    asked: list[tuple[Trajectory, str, str, str]] = []

    def likelihoods(questions: list[tuple[Trajectory, str, str, str]]) -> list[list[float] | None]:
        asked.extend(questions)
        return [[math.log(0.5), math.log(0.5)], None]

    rewards = episode_judge("argos", likelihoods=likelihoods)(episodes)
    # Mean of accuracy 1, grounding 1 and the geometric mean of 0.5 and 0.5
    assert rewards[0].total == pytest.approx(2.5 / 3)
    assert not rewards[1].available
    for episode, (of, question, _, answer) in zip(episodes, asked, strict=True):
        assert of is episode and question.startswith(final_state(episode)["question"])
        assert answer == final_state(episode)["answer"]


def test_argos_takes_masks_from_a_model_that_looks_at_the_pictures():
    episode = played("points", 1)
    seen: list[int] = []

    def masks(episode: Trajectory):
        seen.append(len(shown_images(episode)))
        return lambda label, frame, time_s: np.zeros((4, 4), np.bool_)

    # Accuracy 1, and no point lies on an empty mask
    assert reward_of("argos", episode, masks=masks).total == pytest.approx(0.5)
    assert seen == [1]


@pytest.mark.parametrize(
    ("points", "total"),
    [
        ((), 0.5),  # accuracy 1, grounding 0
        (("50", "999"), 0.75),  # one point of two
        (("50",), 1.0),
    ],
)
def test_points_stay_required_on_data_without_boxes_where_a_detector_can_tell(points, total):
    # Argos, section 5.5: where only the answer is paid, points vanish.
    written = " ".join(f'<points x1="{x}" y1="50">mug</points>' for x in points)
    response = f"<think>I see {written}.</think><answer>yes</answer>"
    told = {"sample_id": "vsr:7", "evidence": [], "answer_kind": "exact", "answers": ["yes"], "options": []}
    episode = with_state(with_response(played("points", 1), response), **told)
    detector = lambda label, frame, time_s: np.ones((4, 4), np.bool_)  # noqa: E731
    assert reward_of("argos", episode, masks=lambda _: detector).total == pytest.approx(total)
    # Without anyone who could tell there is no term.
    assert reward_of("argos", episode).total == pytest.approx(1.0)


def test_only_a_scene_with_nothing_to_point_at_asks_for_no_points():
    nothing = next(episode for seed in range(40) if not final_state(episode := played("points", seed))["evidence"])
    assert "<point" not in own_pieces(nothing)[-1]
    assert reward_of("argos", nothing).total == pytest.approx(1.0)


def test_textual_rollouts_are_compared_with_the_best_grounded_one():
    grounded, textual = played("ivgr_grounded", 1), played("ivgr_textual", 1)
    seen: list[tuple[str, str]] = []

    def judge(question: str, reference: str, text: str, temperature: float) -> JudgeScore:
        seen.append((reference, text))
        return JudgeScore(value=0.7)

    scored = IvgrJudge(JudgeModels(consistency_judge=judge))([textual, grounded, textual])
    assert [reward.raw.get("consistency") for reward in scored] == [0.7, None, 0.7]
    assert len(seen) == 2
    assert all("[" in reference and "[" not in text for reference, text in seen)


def test_the_archive_survives_a_checkpoint_and_serves_later_batches():
    first, second = IvgrJudge(), IvgrJudge()
    textual = played("ivgr_textual", 1)
    assert first([textual])[0].raw["consistency"] == 0.0, "there is no reference yet"
    first([played("ivgr_grounded", 1)])
    second.load_state_dict(first.state_dict())
    assert second([textual])[0].raw["consistency"] == 1.0
    with pytest.raises(ConfigError, match="no state"):
        episode_judge("argos").load_state_dict(first.state_dict())


def asked_about(
    folder: Path,
    color: tuple[int, int, int],
    answer: str,
    said: str,
    box: Sequence[int] = (10, 5, 18, 11),
    max_pixels: Sequence[int] = (2000, 2000),
) -> list[Trajectory]:
    """Plays both streams in worlds over a user's folder; both tables have the same name and rows of the same number."""
    folder.mkdir()
    Image.new("RGB", (40, 30), color).save(folder / "image.png")
    row = {
        "problem": "<image>What is written there?",
        "answer": answer,
        "images": ["image.png"],
        "target_instances": [{"name": "sign", "bbox": list(box)}],
    }
    (folder / "table.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    split = next(name for name in ("train", "val", "test") if dataset_source("treevgr", folder).ids(name))
    episodes = []
    thoughts = ("The sign [10, 5, 18, 11] says it.", "The sign.")
    for stream, thought, budget in zip(("ivgr_grounded", "ivgr_textual"), thoughts, max_pixels, strict=True):
        settings = {"dataset": "treevgr", "folder": str(folder), "split": split, "max_pixels": budget}
        world = vlm_envs.make("VLM/ZoomQA-v0", prompt_format=stream, **settings).unwrapped
        world.reset(seed=0)
        response = f"<think>{thought}</think><answer>{said}</answer>"
        *_, info = world.step(response)
        episodes.append(with_state(episode_of([response], [info]), answer_kind="exact"))
    return episodes


def test_tables_of_one_name_in_two_folders_are_two_data_sets(tmp_path):
    red = asked_about(tmp_path / "one", (250, 0, 0), "red", "red")
    number = asked_about(tmp_path / "other", (0, 0, 250), "42", "42")
    assert final_state(red[0])["sample_id"] == final_state(number[0])["sample_id"]
    judge = IvgrJudge()
    rewards = judge([*red, *number])
    assert [reward.raw["accuracy"] for reward in rewards] == [1.0, 1.0, 1.0, 1.0]
    assert len(judge.archive) == 2
    # A copy of the same data elsewhere is the same query, so that a run may go on another machine.
    moved = asked_about(tmp_path / "copy", (250, 0, 0), "red", "red")
    judge(moved)
    assert len(judge.archive) == 2


def test_rows_that_differ_in_the_true_answer_only_are_two_queries(tmp_path):
    red = asked_about(tmp_path / "one", (250, 0, 0), "red", "red")
    number = asked_about(tmp_path / "other", (250, 0, 0), "42", "42")
    assert final_state(red[0])["sample_digest"] == final_state(number[0])["sample_digest"], (
        "the same is shown and asked"
    )
    judge = IvgrJudge()
    rewards = judge([*red, *number])
    assert [reward.raw["accuracy"] for reward in rewards] == [1.0, 1.0, 1.0, 1.0]
    assert len(judge.archive) == 2


def test_rows_that_differ_in_the_true_boxes_only_are_two_queries(tmp_path):
    here = asked_about(tmp_path / "one", (250, 0, 0), "red", "red")
    there = asked_about(tmp_path / "other", (250, 0, 0), "red", "red", box=(20, 20, 38, 28))
    rewards = IvgrJudge()([*here, *there])
    assert [reward.raw["box"] for reward in rewards[::2]] == [1.0, 0.0]
    assert [reward.raw["consistency"] for reward in rewards[1::2]] == [0.7, 0.0], "no rollout has found the other sign"


def test_a_query_is_the_same_in_both_streams_however_large_they_show_its_picture(tmp_path):
    grounded, textual = asked_about(tmp_path / "one", (250, 0, 0), "red", "red", max_pixels=(2000, 300))
    assert final_state(grounded)["shown_size"] != final_state(textual)["shown_size"]
    assert query_id(grounded) == query_id(textual)


@pytest.mark.parametrize("reward", [each for each in EPISODE_REWARDS.values() if each.strategies], ids=lambda r: r.name)
def test_a_strategy_that_a_reward_cannot_read_is_refused(reward):
    with pytest.raises(ConfigError, match="reads prompt_format"):
        reward.require_world("direct", {})


def test_unknown_rewards_and_taken_names_are_refused():
    with pytest.raises(ConfigError, match="argos"):
        episode_judge("argo")
    with pytest.raises(ConfigError, match="another name"):
        register(replace(EPISODE_REWARDS["ivgr"], name="argos"))


# --- Consistency by words ---------------------------------------------------------------------------


def test_content_words_are_neither_boxes_nor_tags_nor_what_every_thought_says():
    assert content_words("<think>The red mug [12, 3, 40, 44] and (two) kites.</think>") == {
        "red",
        "mug",
        "2",
        "kites",
    }


REFERENCE = "A red mug stands beside three small kites near some tall trees."


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        (REFERENCE, 1.0),
        ("Near tall trees some three small kites; a red mug stands beside.", 1.0),
        ("A red mug stands beside three small kites.", 0.7),
        (f"{REFERENCE} Further away lies another purple umbrella, open, under heavy clouds.", 0.7),
        ("A red mug stands beside another purple umbrella under clouds.", 0.3),
        ("Nothing can be made out.", 0.0),
        ("", 0.0),
    ],
)
def test_grades_by_shared_words(text, grade):
    assert word_consistency("What?", REFERENCE, text).value == grade


def test_words_of_the_question_count_in_neither():
    assert word_consistency("Where is the red mug?", "red mug", "blue").value == 1.0
