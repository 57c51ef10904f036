"""What a failed episode is blamed on."""

import pytest

from vlm_envs.records.report_mistakes import first_mistake


def turn_record(**changes):
    """A turn as it is recorded: two of four moves made, nothing wrong."""
    return {
        "response": "<answer>Up, Up</answer>",
        "stop_reason": "stop",
        "sections": {"observation": "{player_position: (0, 1)}"},
        "state_text": "{player_position: (0, 1)}",
        "scores": {},
        "actions": ["Up", "Up"],
        "action_effective": True,
        "parse_error": None,
        "worker_error": None,
        "terminated": False,
        "truncated": False,
        "optimal_actions_before": 4,
        "optimal_actions_left": 2,
        **changes,
    }


def episode_of(*turns, success=False):
    return {"success": success, "turns": list(turns)}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"worker_error": "killed"}, "world failed"),
        ({"stop_reason": "error"}, "no response"),
        ({"stop_reason": "context", "parse_error": "no answer", "actions": []}, "ran out of context"),
        ({"stop_reason": "content_filter", "parse_error": "no answer", "actions": []}, "refused"),
        ({"stop_reason": "length", "parse_error": "no answer"}, "cut off"),
        ({"parse_error": "no answer", "actions": []}, "out of format"),
        ({"sections": {"observation": "{player_position: (0, 2)}"}, "terminated": True}, "saw wrongly"),
        ({"scores": {"observation": 0.5}, "terminated": True}, "saw wrongly"),
        ({"terminated": True, "optimal_actions_left": None}, "lost"),
        ({"optimal_actions_left": None}, "became unsolvable"),
        ({"action_effective": False, "optimal_actions_left": 4}, "no effect"),
        ({"optimal_actions_left": 4}, "detour"),
        ({"truncated": True}, "ran out of turns"),
        ({"truncated": True, "context_full": True}, "ran out of context"),
        ({"optimal_actions_before": None, "optimal_actions_left": None}, "not solved"),
    ],
)
def test_a_failure_is_blamed_on_what_went_wrong_first(changes, kind):
    assert first_mistake(episode_of(turn_record(**changes))).kind == kind


UNSTATED = [{"observation": text} for text in ("", " \n", "unknown", "Unknown.", "n/a", "none", "-", "…", "{}")]


@pytest.mark.parametrize("sections", UNSTATED)
@pytest.mark.parametrize("scores", [{}, {"observation": 0.0}])
@pytest.mark.parametrize(
    "changes",
    [
        {"terminated": True},
        {"optimal_actions_left": None},
        {"action_effective": False, "optimal_actions_left": 4},
        {"optimal_actions_left": 4},
    ],
)
def test_without_a_stated_observation_a_failure_is_neither_one_of_seeing_nor_of_planning(sections, scores, changes):
    mistake = first_mistake(episode_of(turn_record(sections=sections, scores=scores, **changes)))
    assert (mistake.kind, mistake.turn) == ("not stated", 0)
    assert mistake.detail


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"parse_error": "no answer"}, "out of format"),
        ({"stop_reason": "length"}, "cut off"),
        ({"truncated": True}, "ran out of turns"),
    ],
)
def test_what_needs_no_observation_is_blamed_as_ever(changes, kind):
    assert first_mistake(episode_of(turn_record(sections={"observation": "unknown"}, **changes))).kind == kind


def test_a_later_turn_with_a_stated_observation_is_blamed_for_itself():
    silent = turn_record(sections={"observation": "unknown"}, optimal_actions_left=4)
    lost = turn_record(terminated=True, optimal_actions_left=None)
    assert (first_mistake(episode_of(silent, lost)).kind, first_mistake(episode_of(silent, lost)).turn) == ("lost", 1)


@pytest.mark.parametrize("sections", [{}, {"think": "I am lost."}])
def test_formats_that_ask_for_no_observation_are_judged_by_their_actions(sections):
    assert first_mistake(episode_of(turn_record(sections=sections, terminated=True))).kind == "lost"


@pytest.mark.parametrize(
    ("response", "expects", "kind"),
    [
        ("<answer>Up, Up</answer>", {"expects_observation": True}, "not stated"),
        ("<observation>unknown</observation><answer>Up, Up</answer>", {"expects_observation": True}, "not stated"),
        ("<Observation>A hole.</Observation><answer>Up, Up</answer>", {"expects_observation": True}, "lost"),
        ("<answer>Up, Up</answer>", {}, "lost"),
    ],
)
def test_a_lenient_response_without_the_expected_observation_is_not_stated(response, expects, kind):
    lost = turn_record(response=response, sections={}, parse_error="<think> is missing", terminated=True)
    assert first_mistake({**episode_of(lost), "reading": "lenient", **expects}).kind == kind


def test_errors_become_sentences_behind_what_went_wrong():
    unread = turn_record(parse_error="expected </observation> but found </reasoning>")
    assert first_mistake(episode_of(unread)).detail == "Expected </observation> but found </reasoning>."
    assert first_mistake(episode_of(turn_record(worker_error="The worker died."))).detail == "The worker died."


def test_a_judges_score_counts_for_more_than_the_words():
    other_words = {"sections": {"observation": "The player is in row 0."}, "scores": {"observation": 1.0}}
    assert first_mistake(episode_of(turn_record(**other_words, terminated=True))).kind == "lost"


def test_the_earlier_mistake_is_blamed_and_a_detour_only_where_nothing_else_is():
    detour, lost = turn_record(optimal_actions_left=4), turn_record(terminated=True)
    assert (first_mistake(episode_of(detour, lost)).kind, first_mistake(episode_of(detour, lost)).turn) == ("lost", 1)
    cut = turn_record(stop_reason="length")
    assert first_mistake(episode_of(turn_record(), cut, lost)).turn == 1
    assert first_mistake(episode_of(detour, turn_record())).detail == "2 more actions than needed."
    assert first_mistake(episode_of(lost, success=True)) is None
